// Package network is the tools that look at the network and change it by hand:
// ip, ping, netstat, nslookup and nc.
//
// Each is the part of its namesake that one types on a gateway. What they
// change lasts until the next boot; services/eth is who sets the network up.
//
// ip is a front end of our own on github.com/vishvananda/netlink: u-root's is
// a main package, and has tunnels, VRFs and xfrm which no kernel of this board
// has.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"gwinit/internal/applet"
)

// Applets returns the tools.
func Applets() []applet.Applet {
	return []applet.Applet{
		{Name: "ip", Group: applet.Network, Summary: "show and change links, addresses, routes, neighbours", Usage: ipUsage, Run: ip},
		{Name: "ping", Group: applet.Network, Summary: "ask a host for an echo", Usage: pingUsage, Run: ping},
		{Name: "netstat", Group: applet.Network, Summary: "list sockets", Usage: netstatUsage, Run: func(_ context.Context, std applet.IO, args []string) error {
			return netstat("/", std, args)
		}},
		{Name: "nslookup", Group: applet.Network, Summary: "ask a name server", Usage: nslookupUsage, Run: nslookup},
		{Name: "nc", Group: applet.Network, Summary: "connect standard input and output to a port", Usage: ncUsage, Run: nc},
	}
}

// lookup returns the first address of host, of a family if that is 4 or 6.
func lookup(ctx context.Context, host string, family int) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if family == 4 && !a.Is4() || family == 6 && a.Is4() {
			return netip.Addr{}, fmt.Errorf("%s is no IPv%d address", host, family)
		}
		return a, nil
	}
	kind := map[int]string{0: "ip", 4: "ip4", 6: "ip6"}[family]
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, kind, host)
	if err != nil {
		return netip.Addr{}, cause(err)
	}
	if len(addrs) == 0 {
		return netip.Addr{}, fmt.Errorf("%s has no address", host)
	}
	return addrs[0].Unmap(), nil
}

// cause takes what the caller says itself off a resolver's error.
func cause(err error) error {
	var dns *net.DNSError
	if !errors.As(err, &dns) {
		return err
	}
	if dns.IsNotFound {
		return fmt.Errorf("%s: no such name", dns.Name)
	}
	if dns.Server != "" {
		return fmt.Errorf("%s: server %s: %s", dns.Name, dns.Server, dns.Err)
	}
	return fmt.Errorf("%s: %s", dns.Name, dns.Err)
}
