package main

import (
	"context"
	"fmt"
	"slices"

	"gwinit/internal/applet"
	"gwinit/internal/boothold"
	"gwinit/internal/rootfsflash"
	"gwinit/services/userdata"
)

// applets is the whole table. The files of this folder add what can be left
// out by a build tag, which is how `make size` measures what each part costs.
func applets() applet.Table {
	return slices.Concat(
		applet.Table{userdata.Applet(), boothold.Applet(), rootfsflash.Applet(), helpApplet()},
		bridgeApplets(), coreApplets(), benchApplets(), sshdApplets(), wireguardApplets(), threadApplets(), gwctlApplets(), shellApplets(), toolApplets(), netApplets(), selftestApplets(),
	)
}

// helpApplet is what people type first.
func helpApplet() applet.Applet {
	return applet.Applet{
		Name: "help", Group: applet.Manage, Summary: "list the commands",
		Usage: "help\nLists every command. NAME -h tells more about one.",
		Run: func(_ context.Context, std applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("of one command: %s -h", args[0])
			}
			list(std)
			return nil
		},
	}
}

// list prints what there is.
func list(std applet.IO) {
	fmt.Fprintf(std.Out, "gw %s: one of these, as `gw NAME ...` or by its own name; NAME -h tells more\n\n", version)
	applets().List(std.Out)
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
