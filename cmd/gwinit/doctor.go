//go:build !no_doctor && !no_gwctl

package main

import (
	"context"

	"gwinit/internal/applet"
	"gwinit/internal/doctor"
	"gwinit/internal/gwctl"
)

func doctorCommands() []gwctl.Local {
	l := gwctl.Boxed("doctor")
	l.Usage = doctor.Usage
	l.Steer = func(ctx context.Context, std applet.IO, args []string, json bool, ask gwctl.Asker) error {
		return doctor.Run(ctx, "", doctor.System{Crypt: verifyPassword}, std, args, json, ask)
	}
	return []gwctl.Local{l}
}
