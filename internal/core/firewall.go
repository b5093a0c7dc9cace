//go:build !no_firewall

package core

import (
	"gwinit/internal/api"
	"gwinit/services/firewall"
)

func newFirewall(bootMode string) guard {
	return firewall.New(firewall.Options{Safe: bootMode == api.BootSafe})
}
