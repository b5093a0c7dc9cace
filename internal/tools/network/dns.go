package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

const nslookupUsage = `nslookup NAME|ADDRESS [SERVER[:PORT]]

Asks the servers of /etc/resolv.conf, or SERVER.`

// nslookupTimeout bounds a question: resolv.conf's servers, tried twice with
// 5 s each.
const nslookupTimeout = 20 * time.Second

func nslookup(ctx context.Context, std applet.IO, args []string) error {
	_, rest, err := opt.Parse(args, "")
	if err != nil {
		return err
	}
	if len(rest) < 1 || len(rest) > 2 {
		return applet.Usagef("NAME [SERVER]")
	}
	ctx, stop := context.WithTimeout(ctx, nslookupTimeout)
	defer stop()
	r := &net.Resolver{PreferGo: true}
	if len(rest) == 2 {
		server, err := netip.ParseAddrPort(rest[1])
		if err != nil {
			a, err := lookup(ctx, rest[1], 0)
			if err != nil {
				return err
			}
			server = netip.AddrPortFrom(a, 53)
		}
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.String())
		}
	}
	if a, err := netip.ParseAddr(rest[0]); err == nil {
		names, err := r.LookupAddr(ctx, a.String())
		if err != nil {
			return cause(err)
		}
		for _, n := range names {
			fmt.Fprintf(std.Out, "%v\t%s\n", a, n)
		}
		return nil
	}
	addrs, err := r.LookupNetIP(ctx, "ip", rest[0])
	if err != nil {
		return cause(err)
	}
	for _, a := range addrs {
		fmt.Fprintf(std.Out, "%s\t%v\n", rest[0], a.Unmap())
	}
	return nil
}
