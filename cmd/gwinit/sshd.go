//go:build !no_sshd && !ssh

package main

import (
	"gwinit/internal/applet"
	"gwinit/services/sshd"
)

func sshdApplets() applet.Table { return applet.Table{sshd.Applet(sshd.Greeting)} }
