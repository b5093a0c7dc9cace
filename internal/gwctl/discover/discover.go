// Package discover is gwctl's subcommand discover: it finds the gateways on the
// workstation's networks by mDNS, whatever mode they are in. It asks nothing
// but multicast DNS, and only cmd/gwctl has it: services/mdns answers.
package discover

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"gwinit/internal/applet"
	"gwinit/internal/dnssd"
	"gwinit/internal/gwctl"
)

const (
	defaultWait = 2 * time.Second
	// askEvery is how often the question is repeated: a packet may be lost,
	// and a record is multicast once a second at most.
	askEvery = time.Second
	// maxPacket is the longest mDNS packet (RFC 6762 section 17).
	maxPacket = 9000
)

const usage = `usage: gwctl discover [-t TIME] [-json]
find the gateways on the networks of this computer

  -t TIME  how long to listen for answers (2s)
  -json    an array of gateways (docs/discovery.md)

The exit status is 1 if there is none. A firewall has to let UDP port 5353 in.
`

// Command is the subcommand.
func Command() gwctl.Local {
	return gwctl.Local{
		Name: "discover", Args: "[-t TIME]", Summary: "find the gateways on this computer's networks",
		Usage: usage, Workstation: true,
		Run: func(std applet.IO, args []string, asJSON bool, _ func(string, bool) (string, error)) error {
			return run(std, args, asJSON)
		},
	}
}

func run(std applet.IO, args []string, asJSON bool) error {
	fs := flag.NewFlagSet("gwctl discover", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	wait := fs.Duration("t", defaultWait, "")
	if err := fs.Parse(args); err != nil {
		return applet.Usagef("%v", err)
	}
	if fs.NArg() > 0 {
		return applet.Usagef("discover takes no argument %q", fs.Arg(0))
	}
	if *wait <= 0 {
		return applet.Usagef("-t takes a time, such as 5s")
	}
	conns, err := listen()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), *wait)
	defer cancel()
	found := browse(ctx, conns)
	if err := show(std.Out, found, asJSON); err != nil {
		return err
	}
	if len(found) == 0 {
		if !asJSON {
			fmt.Fprintf(std.Err, "gwctl: no gateway answered within %v: is it on this network, and does the firewall let UDP port 5353 in?\n", *wait)
		}
		return applet.Exit(1)
	}
	return nil
}

// show prints gateways as a table or as JSON.
func show(w io.Writer, found []Gateway, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(found)
	}
	if len(found) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tPORT\tMODE\tBOARD\tVERSION\tADDRESSES")
	for _, g := range found {
		port := "-"
		if g.Port > 0 {
			port = fmt.Sprint(g.Port)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", plain(g.Host), port, plain(g.Mode), plain(g.Board), plain(g.Version), strings.Join(g.Addresses, " "))
	}
	return t.Flush()
}

// plain makes what a stranger sent safe for a terminal and for a column.
func plain(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}

// conn is a socket that asks on one interface.
type conn struct {
	*net.UDPConn
	group netip.AddrPort
}

// listen opens what there is to ask with: on each interface the group's port,
// which hears what is multicast, and one of our own, which is answered directly
// and is all there is where another program has the port for itself.
func listen() ([]conn, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	var conns []conn
	var errs []error
	add := func(c *net.UDPConn, err error, group netip.AddrPort) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		conns = append(conns, conn{c, group})
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagMulticast == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			errs = append(errs, fmt.Errorf("addresses of %s: %w", i.Name, err))
			continue
		}
		done := [2]bool{}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			ip, _ := netip.AddrFromSlice(n.IP)
			ip = ip.Unmap()
			network, group, family := "udp4", dnssd.Group4(), 0
			if ip.Is6() {
				if !ip.IsLinkLocalUnicast() {
					continue // the link's own address is enough
				}
				network, group, family = "udp6", dnssd.Group6().WithZone(i.Name), 1
				ip = ip.WithZone(i.Name)
			}
			if done[family] {
				continue
			}
			done[family] = true
			to := netip.AddrPortFrom(group, dnssd.Port)
			c, err := net.ListenMulticastUDP(network, &i, net.UDPAddrFromAddrPort(to))
			add(c, err, to)
			c, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
			add(c, err, to)
		}
	}
	if len(conns) == 0 {
		return nil, errors.Join(append([]error{errors.New("no network interface to ask on: is there a network?")}, errs...)...)
	}
	return conns, nil
}

// heard is one packet.
type heard struct {
	msg  []byte
	zone string // of the interface that it came in by; "" where that is not known
}

// browse asks and listens until ctx ends, and closes conns.
func browse(ctx context.Context, conns []conn) []Gateway {
	packets := make(chan heard)
	done := make(chan struct{})
	for _, c := range conns {
		go func() {
			defer func() { done <- struct{}{} }()
			buf := make([]byte, maxPacket)
			for {
				n, from, err := c.ReadFromUDPAddrPort(buf)
				if err != nil {
					if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
						return
					}
					select { // an earlier packet's failure, on some systems
					case <-ctx.Done():
						return
					case <-time.After(10 * time.Millisecond):
						continue
					}
				}
				select {
				case packets <- heard{append([]byte(nil), buf[:n]...), zoneOf(from.Addr())}:
				case <-ctx.Done():
				}
			}
		}()
	}
	var seen seen
	ask := func() {
		query := seen.query()
		for _, c := range conns {
			// One interface that cannot send does not matter: the others can.
			_, _ = c.WriteToUDPAddrPort(query, c.group)
		}
	}
	ask()
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for {
		select {
		case p := <-packets:
			seen.add(p.msg, p.zone)
		case <-again.C:
			ask()
		case <-ctx.Done():
			for _, c := range conns {
				c.Close()
			}
			for range conns {
				<-done
			}
			return seen.gateways()
		}
	}
}

// zoneOf returns the interface on which a neighbour is.
func zoneOf(a netip.Addr) string {
	if a.Zone() != "" || a.Is6() && !a.Is4In6() {
		return a.Zone()
	}
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range addrs {
			if n, ok := n.(*net.IPNet); ok && n.Contains(a.AsSlice()) {
				return i.Name
			}
		}
	}
	return ""
}
