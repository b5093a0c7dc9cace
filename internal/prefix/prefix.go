// Package prefix reads addresses and prefixes as people write them in settings.
package prefix

import "net/netip"

// Host reads an address with or without the length of its prefix, and keeps the
// bits behind it. IPv4 that is mapped into IPv6 is IPv4.
func Host(s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p, true
}
