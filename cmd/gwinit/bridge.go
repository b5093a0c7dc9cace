//go:build !no_bridge

package main

import (
	"gwinit/internal/applet"
	"gwinit/services/bridge"
)

func bridgeApplets() applet.Table { return applet.Table{bridge.Applet()} }
