//go:build !no_sshd && !no_gwctl

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/services/sshd/server"
)

// setupCommands let a key in from the console, which belongs to SSH.
func setupCommands() []gwctl.Local {
	return []gwctl.Local{{
		Name: "setup", Summary: "let a key in by SSH: paste it on the console", Usage: server.SetupUsage,
		Run: func(std applet.IO, args []string, _ bool, _ func(string, bool) (string, error)) error {
			return server.Setup("", std, args)
		},
	}}
}
