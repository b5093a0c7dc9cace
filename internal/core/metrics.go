//go:build !no_metrics

package core

import (
	"context"
	"net"
	"runtime/debug"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	text "gwinit/internal/metrics"
	"gwinit/internal/onlink"
	"gwinit/services/metrics"
)

// warningsFor is for how long warnings are counted as they were: to know them
// anew, every file of settings is read.
const warningsFor = time.Minute

// newMetrics returns what serves figures.
func newMetrics(bootMode string, log func(string), f *facts) reloader {
	if bootMode == api.BootSafe {
		return nothing{}
	}
	var warnings []string
	var looked time.Time
	// It is called by one at a time.
	local := func() (l text.Local) {
		network := f.network()
		l.Network = &network
		if clock := f.clock(); clock.State != "" {
			l.Clock = &clock
		}
		netwatch := f.netwatch()
		l.Netwatch = &netwatch
		l.Ethernet = f.traffic()
		if n, err := sshCount(api.SSHPath); err == nil {
			l.SSH = &n
		}
		if looked.IsZero() || time.Since(looked) > warningsFor {
			warnings, looked = f.warnings(), time.Now()
		}
		l.Warnings = warnings
		return l
	}
	return metrics.New(metrics.Options{
		Settings: metrics.Settings(""), OnLink: onlink.Prefixes, Log: log,
		Listening: func(net.Addr) { debug.SetGCPercent(gcPercentFigures) },
		Collect: func(ctx context.Context) (s text.Sample, err error) {
			c, err := client.Dial(ctx, control.SocketPath)
			if err != nil {
				return s, err
			}
			defer c.Close()
			return text.CollectLocal(ctx, c.Do, local())
		},
	})
}
