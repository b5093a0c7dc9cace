// Package onlink says which networks the box is on.
package onlink

import (
	"net"
	"net/netip"
)

// Prefixes returns the networks of the interfaces' addresses, loopback's among
// them. It asks the kernel each time.
func Prefixes() ([]netip.Prefix, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var on []netip.Prefix
	for _, a := range all {
		// They are *net.IPNet.
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			on = append(on, p.Masked())
		}
	}
	return on, nil
}
