//go:build !no_nettools

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/tools/network"
)

func netApplets() applet.Table { return network.Applets() }
