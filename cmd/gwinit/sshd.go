//go:build !no_sshd

package main

import (
	"gwinit/internal/applet"
	"gwinit/services/sshd"
)

func sshdApplets() applet.Table { return applet.Table{sshd.Applet()} }
