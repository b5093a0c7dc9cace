//go:build !no_firewall

package core

import (
	"os"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/services/firewall"
	"gwinit/services/wireguard/conf"
)

func newFirewall(bootMode string) guard {
	return firewall.New(firewall.Options{Safe: bootMode == api.BootSafe, Tunnel: tunnel})
}

// tunnel is the WireGuard interface that the settings want, for the firewall.
func tunnel() firewall.Tunnel {
	w, _ := config.LoadWireGuard("")
	if !w.Enabled {
		return firewall.Tunnel{}
	}
	text, _ := os.ReadFile(conf.File) // without it there is no port
	c, _ := conf.Parse(string(text))
	return firewall.Tunnel{Interface: w.Interface, Port: c.ListenPort}
}
