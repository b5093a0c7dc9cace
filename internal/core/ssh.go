//go:build !no_sshd

package core

import (
	"context"

	"gwinit/internal/handoff"
	"gwinit/internal/notify"
	"gwinit/services/sshport"
)

// newSSHPort returns what accepts on port 22.
func newSSHPort(conn *notify.Conn, log func(string)) func(context.Context) error {
	o := sshport.Options{
		Root: "/", Passed: -1, Log: log,
		Store: func(fd int) error { return conn.StoreFD(sshport.StoredName, fd) },
		Send:  func(fd int) error { return handoff.Send("/"+handoff.SSH, fd) },
	}
	if fd, ok := conn.FD(sshport.StoredName); ok {
		o.Passed = fd
	}
	return sshport.New(o).Run
}
