//go:build no_ethtune

package core

import (
	"context"
	"errors"

	"gwinit/internal/api"
)

func newTuner(bool) tuner { return untuned{} }

// untuned leaves the driver as it is.
type untuned struct{}

func (untuned) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (untuned) Reload() {}

func (untuned) Warnings() []string { return nil }

func (untuned) Use(string) error { return nil }

func (untuned) Traffic() *api.Ethernet { return nil }

func (untuned) Call(string, []byte) ([]byte, error) {
	return nil, errors.New("this gateway was built without tuning (no_ethtune)")
}
