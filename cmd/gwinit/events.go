//go:build !no_events && !no_gwctl

package main

import (
	"context"

	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/onbox"
)

func eventCommands() []gwctl.Local {
	l := gwctl.Boxed("events")
	l.Usage = onbox.EventsUsage
	l.Steer = func(ctx context.Context, std applet.IO, args []string, _ bool, _ gwctl.Asker) error {
		return onbox.Events(ctx, control.SocketPath, std, args)
	}
	return []gwctl.Local{l}
}
