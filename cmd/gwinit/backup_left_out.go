//go:build (no_backup || no_sshd) && !no_gwctl

package main

import "gwinit/internal/gwctl"

func backupCommands() []gwctl.Local { return nil }
