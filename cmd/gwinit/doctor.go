//go:build !no_doctor && !no_gwctl

package main

import (
	"context"

	"gwinit/internal/applet"
	"gwinit/internal/doctor"
	"gwinit/internal/gwctl"
)

func doctorCommands() []gwctl.Local {
	return []gwctl.Local{{
		Name: "doctor", Summary: "what is wrong with this gateway, and what to do",
		Usage: doctor.Usage,
		Steer: func(ctx context.Context, std applet.IO, args []string, json bool, ask gwctl.Asker) error {
			return doctor.Run(ctx, "", doctor.System{}, std, args, json, ask)
		},
	}}
}
