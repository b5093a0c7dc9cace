//go:build no_otbr || no_gwctl

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
)

func threadApplets() applet.Table { return nil }

func threadCommands() []gwctl.Local { return nil }
