//go:build !no_gwctl

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/gwctl"
)

func gwctlApplets() applet.Table {
	return append(gwctl.Ends(version, client.Dial), gwctl.Command(version, client.Dial))
}
