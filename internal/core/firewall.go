//go:build !no_firewall

package core

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/services/firewall"
	"gwinit/services/firewall/nft"
	"gwinit/services/wireguard/conf"
)

func newFirewall(bootMode string) guard {
	return firewall.New(firewall.Options{Safe: bootMode == api.BootSafe, Tunnel: func() firewall.Tunnel { return tunnel("") }})
}

// closeDoor closes it for bench mode, where the kernel can, and says whether it is.
func closeDoor(peer netip.Addr) (closed bool, err error) {
	err = firewall.CloseDoor(nft.System{}, peer)
	if errors.Is(err, nft.ErrNone) || errors.Is(err, nft.ErrPart) {
		return false, nil
	}
	return err == nil, err
}

// tunnel is the WireGuard interface that the settings want, for the firewall. root
// is where /userdata is below, "" on the box.
func tunnel(root string) firewall.Tunnel {
	w, _ := config.LoadWireGuard(root)
	if !w.Enabled {
		return firewall.Tunnel{}
	}
	text, _ := os.ReadFile(filepath.Join("/", root, conf.File)) // without it there is no port
	c, _ := conf.Parse(string(text))
	return firewall.Tunnel{Interface: w.Interface, Port: c.ListenPort}
}
