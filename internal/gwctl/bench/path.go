package bench

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
)

// Path is how this computer reaches the gateway.
type Path struct {
	Address   string `json:"address"`
	Interface string `json:"interface"`
	SpeedMbit int    `json:"speedMbit,omitempty"` // of the interface; absent: not known
	// Kind is wired, loopback (an emulated gateway), wireless, tunnel or unknown.
	Kind string `json:"kind"`
	// Routed: there is a router on the way, Via if that is known.
	Routed bool   `json:"routed,omitempty"`
	Via    string `json:"via,omitempty"`
}

// Kinds of Path.
const (
	wired    = "wired"
	loopback = "loopback"
	wireless = "wireless"
	tunnel   = "tunnel"
	unknown  = "unknown"
)

// fit tells why figures over this path would be worth nothing.
func (p Path) fit() error {
	switch {
	case p.Routed:
		return fmt.Errorf("%s is behind a router (%s): connect this computer to the gateway's network, by cable; -any-path measures all the same", p.Address, cmp.Or(p.Via, p.Interface))
	case p.Kind == wireless:
		return fmt.Errorf("%s is reached over %s, which is wireless: use a cable; -any-path measures all the same", p.Address, p.Interface)
	case p.Kind == tunnel:
		return fmt.Errorf("%s is reached over the tunnel %s: connect this computer to the gateway's network, by cable; -any-path measures all the same", p.Address, p.Interface)
	case p.Kind == unknown:
		return fmt.Errorf("what kind of interface %s is cannot be told on this system: if it is a cable without a router in between, add -any-path", p.Interface)
	}
	return nil
}

// findPath looks up how host is reached, by the file system below root.
func findPath(ctx context.Context, root, host string) (Path, error) {
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return Path{}, err
	}
	if len(ips) == 0 {
		return Path{}, fmt.Errorf("%s has no address", host)
	}
	// As iperf3 would: IPv4, if there is one.
	ip := ips[0].Unmap()
	for _, other := range ips {
		if other = other.Unmap(); other.Is4() && !ip.Is4() {
			ip = other
		}
	}
	p, err := route(root, ip)
	p.Address = ip.String()
	if err != nil {
		return p, fmt.Errorf("the way to %s: %w", ip, err)
	}
	return p, nil
}

// localAddress is this computer's address towards another.
func localAddress(ip netip.Addr) (netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 9))) // sends nothing
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}
