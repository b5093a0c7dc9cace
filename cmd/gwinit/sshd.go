//go:build !no_sshd

package main

import (
	"gwinit/internal/applet"
	"gwinit/services/sshd"
	"gwinit/services/sshd/scp"
	"gwinit/services/sshd/server"
)

func sshdApplets() applet.Table {
	return applet.Table{sshd.Applet(server.Sessions), server.Passwd(), scp.Applet()}
}
