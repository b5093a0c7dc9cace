package main

import (
	"slices"

	"gwinit/internal/applet"
	"gwinit/internal/boothold"
	"gwinit/services/userdata"
)

// applets is the whole table. The files of this folder add what can be left
// out by a build tag, which is how `make size` measures what each part costs.
func applets() applet.Table {
	return slices.Concat(
		applet.Table{userdata.Applet(), boothold.Applet()},
		bridgeApplets(), coreApplets(), gwctlApplets(), shellApplets(), toolApplets(), netApplets(),
	)
}

// names are the applets' names, for the shell's completion and look-up.
func names() []string {
	table := applets()
	out := make([]string, len(table))
	for i, a := range table {
		out[i] = a.Name
	}
	return out
}
