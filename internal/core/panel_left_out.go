//go:build no_panel

package core

import (
	"context"
	"net/netip"

	"gwinit/internal/api"
)

// newPanel minds nothing.
func newPanel(func() (bool, []netip.Addr), string) panelist { return bare{} }

// newBenchPanel is the panel's.
func newBenchPanel(func()) func(context.Context) error { return bare{}.Run }

type bare struct{}

func (bare) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (bare) Reload() {}

func (bare) Status() *api.Panel { return nil }
