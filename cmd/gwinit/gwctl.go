//go:build !no_gwctl

package main

import (
	"context"
	"slices"

	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/onbox"
)

func gwctlApplets() applet.Table {
	settings := gwctl.Boxed("config")
	settings.Usage = "usage: gwctl config VERB ...\n" + config.Usage
	settings.Run = func(std applet.IO, args []string, json bool, restart func(string, bool) (string, error)) error {
		return config.Run("", std, args, json, restart)
	}
	reset := gwctl.Boxed("factory-reset")
	reset.Usage = onbox.FactoryResetUsage
	reset.Steer = func(ctx context.Context, std applet.IO, args []string, json bool, ask gwctl.Asker) error {
		return onbox.FactoryReset(ctx, "", std, args, json, ask)
	}
	return append(gwctl.Ends(version, client.Dial), gwctl.Command(version, client.Dial, slices.Concat([]gwctl.Local{settings}, doctorCommands(), backupCommands(), reportCommands(), eventCommands(), wireguardCommands(), setupCommands(), threadCommands(), radioCommands(), []gwctl.Local{reset})...))
}
