//go:build !no_core

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/core"
)

func coreApplets() applet.Table { return applet.Table{core.Applet(version)} }
