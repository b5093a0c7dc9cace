// Package onlink says which networks the box is on.
package onlink

import (
	"net"
	"net/netip"
)

// Local tells whether an address is one of local networks by itself: the
// gateway's own, or private or link-local (RFC 1918, RFC 4193; RFC 3927, RFC
// 4291). Others may be on-link all the same, see Prefixes.
func Local(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast()
}

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
