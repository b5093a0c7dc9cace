//go:build !no_netwatch

package core

import (
	"errors"

	"gwinit/internal/api"
	"gwinit/services/eth"
	"gwinit/services/netwatch"
	"gwinit/services/userdata"
)

// newNetwatch returns what watches whether anybody answers.
func newNetwatch(net *eth.Service, bootMode string) watcher {
	return netwatch.New(netwatch.Options{
		Safe: bootMode == api.BootSafe, Renew: net.Renew, Bounce: net.Bounce, Network: net.Status, Writable: writable,
	})
}

// writable tells why nothing that lasts can be written.
func writable() error {
	_, _, readOnly, err := userdata.Space("")
	if err == nil && readOnly {
		err = errors.New(userdata.Dir + " is read-only")
	}
	return err
}
