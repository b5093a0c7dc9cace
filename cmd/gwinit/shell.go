//go:build !no_shell

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/shell"
)

func shellApplets() applet.Table { return applet.Table{shell.Applet(names, notice)} }
