//go:build !no_backup && !no_sshd && !no_gwctl

package main

import (
	"gwinit/internal/applet"
	"gwinit/internal/crypt"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/onbox"
)

// backupCommands take a hash from what belongs to SSH.
func backupCommands() []gwctl.Local {
	box := onbox.Box{Version: version, NewHash: crypt.NewSHA256}
	backup, restore := gwctl.Boxed("backup"), gwctl.Boxed("restore")
	backup.Usage, restore.Usage = onbox.BackupUsage, onbox.RestoreUsage
	backup.Run = func(std applet.IO, args []string, json bool, _ func(string, bool) (string, error)) error {
		return onbox.Backup(box, std, args, json)
	}
	restore.Run = func(std applet.IO, args []string, json bool, _ func(string, bool) (string, error)) error {
		return onbox.Restore(box, std, args, json)
	}
	return []gwctl.Local{backup, restore}
}
