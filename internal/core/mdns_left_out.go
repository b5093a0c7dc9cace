//go:build no_mdns

package core

import "context"

func newMDNS(string, string) announcer { return silent{} }

// silent announces nothing.
type silent struct{}

func (silent) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (silent) Reload() {}
