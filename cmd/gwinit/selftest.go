//go:build !no_selftest

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/selftest"
)

func selftestApplets() applet.Table { return applet.Table{selftest.Applet(version)} }
