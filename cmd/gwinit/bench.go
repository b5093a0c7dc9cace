//go:build !no_bench

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/core"
	"gwinit/services/iperf3"
)

func benchApplets() applet.Table { return applet.Table{core.BenchApplet(), iperf3.Applet()} }
