//go:build !no_syslog

package core

import (
	"context"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/services/syslog"
)

// newSyslog returns what sends the log to a server.
func newSyslog(bootMode string, log func(string)) reloader {
	if bootMode == api.BootSafe {
		return nothing{}
	}
	return syslog.New(syslog.Options{
		Settings: syslog.Settings(""), Log: log,
		Open: func(ctx context.Context) (syslog.Source, error) { return client.Dial(ctx, control.SocketPath) },
	})
}
