//go:build no_netwatch

package core

import (
	"context"
	"errors"

	"gwinit/internal/api"
	"gwinit/services/eth"
)

func newNetwatch(*eth.Service, string) watcher { return blind{} }

// blind watches nothing.
type blind struct{}

func (blind) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (blind) NetworkChanged() {}

func (blind) Status() api.Netwatch { return api.Netwatch{State: "absent"} }

func (blind) Incidents(api.IncidentParams) ([]api.Incident, error) {
	return nil, errors.New("this gateway has no netwatch")
}

func (blind) Warnings() []string { return nil }
