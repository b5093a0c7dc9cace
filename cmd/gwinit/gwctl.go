//go:build !no_gwctl

package main

import (
	"slices"

	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
)

func gwctlApplets() applet.Table {
	settings := gwctl.Local{
		Name: "config", Args: "VERB ...", Summary: "read and change settings: list, get, set, unset, check",
		Usage: "usage: gwctl config VERB ...\n" + config.Usage,
		Run: func(std applet.IO, args []string, json bool, restart func(string, bool) (string, error)) error {
			return config.Run("", std, args, json, restart)
		},
	}
	return append(gwctl.Ends(version, client.Dial), gwctl.Command(version, client.Dial, slices.Concat([]gwctl.Local{settings}, doctorCommands())...))
}
