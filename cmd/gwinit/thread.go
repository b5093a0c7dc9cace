//go:build !no_otbr && !no_gwctl

package main

import (
	"context"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	otbr "gwinit/services/otbr-supervisor"
	"gwinit/services/otbr-supervisor/threadctl"
	"gwinit/services/userdata"
)

func threadApplets() applet.Table {
	return applet.Table{otbr.Applet(func() error { return userdata.Writable("") })}
}

func threadCommands() []gwctl.Local {
	thread := gwctl.Boxed("thread")
	thread.Usage = threadctl.Usage
	thread.Steer = func(ctx context.Context, std applet.IO, args []string, asJSON bool, ask gwctl.Asker) error {
		return threadctl.Run(ctx, "", std, args, asJSON, ask)
	}
	return []gwctl.Local{thread}
}
