//go:build !linux

package bench

import (
	"errors"
	"net"
	"net/netip"
)

// route looks at the interfaces' addresses: whether one is wireless they do not
// tell.
func route(_ string, ip netip.Addr) (Path, error) { return onLink(ip) }

// onLink finds the interface that has an address in the network of ip.
func onLink(ip netip.Addr) (Path, error) {
	mine, err := localAddress(ip)
	if err != nil {
		return Path{}, err
	}
	all, err := net.Interfaces()
	if err != nil {
		return Path{}, err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err != nil || prefix.Addr().Unmap() != mine {
				continue
			}
			p := Path{Interface: i.Name, Kind: unknown}
			switch {
			case i.Flags&net.FlagLoopback != 0:
				p.Kind = loopback
			case i.Flags&net.FlagPointToPoint != 0:
				p.Kind = tunnel
			case !prefix.Contains(ip) && !ip.IsLinkLocalUnicast():
				p.Routed = true
			}
			return p, nil
		}
	}
	return Path{}, errors.New("no interface has the address that it would be sent from")
}
