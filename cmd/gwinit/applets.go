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
		bridgeApplets(), coreApplets(), sshdApplets(), gwctlApplets(), shellApplets(), toolApplets(), netApplets(), selftestApplets(),
	)
}

// bootApplet finds an applet of the boot's first processes.
func bootApplet(name string) (*applet.Applet, bool) {
	if name == "userdata" {
		return applet.Table{userdata.Applet()}.Find(name)
	}
	return bridgeApplets().Find(name)
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
