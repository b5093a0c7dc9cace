//go:build !no_tools

package main

import (
	"slices"

	"gwinit/internal/applet"
	"gwinit/internal/tools/files"
	"gwinit/internal/tools/proc"
	"gwinit/internal/tools/sysadm"
	"gwinit/internal/tools/text"
)

func toolApplets() applet.Table {
	return slices.Concat(files.Applets(), text.Applets(), proc.Applets(), sysadm.Applets())
}
