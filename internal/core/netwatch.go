//go:build !no_netwatch

package core

import (
	"gwinit/internal/api"
	"gwinit/services/eth"
	"gwinit/services/netwatch"
	"gwinit/services/userdata"
)

// newNetwatch returns what watches whether anybody answers.
func newNetwatch(net *eth.Service, bootMode string) watcher {
	return netwatch.New(netwatch.Options{
		Safe: bootMode == api.BootSafe, Renew: net.Renew, Bounce: net.Bounce, Network: net.Status,
		Writable: func() error { return userdata.Writable("") },
	})
}
