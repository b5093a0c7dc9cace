//go:build no_bridge

package main

import "gwinit/internal/applet"

func bridgeApplets() applet.Table { return nil }
