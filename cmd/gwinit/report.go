//go:build !no_report && !no_gwctl

package main

import (
	"context"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/onbox"
)

func reportCommands() []gwctl.Local {
	l := gwctl.Boxed("report")
	l.Usage = onbox.ReportUsage
	l.Run = func(std applet.IO, args []string, json bool, _ func(string, bool) (string, error)) error {
		return onbox.Report(context.Background(), onbox.Box{Version: version}, std, args, json, onbox.RunSelf)
	}
	return []gwctl.Local{l}
}
