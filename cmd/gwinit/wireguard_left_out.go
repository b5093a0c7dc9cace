//go:build no_wireguard || no_sshd || no_gwctl

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
)

func wireguardApplets() applet.Table { return nil }

func wireguardCommands() []gwctl.Local { return nil }
