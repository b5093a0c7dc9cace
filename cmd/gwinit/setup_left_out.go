//go:build no_sshd && !no_gwctl

package main

import "gwinit/internal/gwctl"

func setupCommands() []gwctl.Local { return nil }
