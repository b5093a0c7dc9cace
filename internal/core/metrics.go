//go:build !no_metrics

package core

import (
	"context"
	"encoding/json"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/onlink"
	"gwinit/services/metrics"
)

// newMetrics returns what serves figures.
func newMetrics(bootMode string, log func(string)) reloader {
	if bootMode == api.BootSafe {
		return nothing{}
	}
	return metrics.New(metrics.Options{
		Settings: metrics.Settings(""), Ask: askControl, OnLink: onlink.Prefixes, Log: log,
	})
}

// askControl asks PID 1, and through it the services, this one among them.
func askControl(ctx context.Context, op string, args any) (json.RawMessage, error) {
	c, err := client.Dial(ctx, control.SocketPath)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Do(ctx, op, args)
}
