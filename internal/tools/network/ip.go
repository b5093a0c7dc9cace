package network

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

const ipUsage = `ip [-4|-6] addr|link|route|neigh [show] [dev DEV]
ip addr add|del ADDR/LEN dev DEV
ip link set DEV [up|down] [mtu N] [address MAC]
ip route add|del|replace default|NET/LEN [via ADDR] [dev DEV] [metric N] [src ADDR] [onlink]
ip neigh del ADDR dev DEV

  -4, -6  only that family (routes: IPv4 without it)

Names may be cut short, as in ip a.`

// ipCall is one call of ip, parsed as far as every object needs it.
type ipCall struct {
	out    *bufio.Writer
	family int // 0: any
	verb   string
	words  []string // behind the verb
}

func ip(_ context.Context, std applet.IO, args []string) error {
	c := &ipCall{out: bufio.NewWriter(std.Out)}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-4":
			c.family = netlink.FAMILY_V4
		case "-6":
			c.family = netlink.FAMILY_V6
		default:
			return applet.Usagef("unknown option %s", args[0])
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return applet.Usagef("what? addr, link, route or neigh")
	}
	object := full(args[0], "address", "addr", "link", "route", "neighbour", "neighbor", "neigh")
	c.verb = "show"
	if len(args) > 1 {
		if v := full(args[1], "show", "list", "lst", "ls", "add", "delete", "replace", "set"); v != "" {
			c.verb, c.words = v, args[2:]
		} else {
			c.words = args[1:]
		}
	}
	if slices.Contains([]string{"list", "lst", "ls"}, c.verb) {
		c.verb = "show"
	}
	run := map[string]func(*ipCall) error{
		"address": (*ipCall).addr, "addr": (*ipCall).addr,
		"link":  (*ipCall).link,
		"route": (*ipCall).route,
		"neigh": (*ipCall).neigh, "neighbour": (*ipCall).neigh, "neighbor": (*ipCall).neigh,
	}[object]
	if run == nil {
		return applet.Usagef("no object %q", args[0])
	}
	if err := run(c); err != nil {
		return err
	}
	return c.out.Flush()
}

// full returns the first of names that starts with word, or "".
func full(word string, names ...string) string {
	i := slices.IndexFunc(names, func(n string) bool { return word != "" && strings.HasPrefix(n, word) })
	if i < 0 {
		return ""
	}
	return names[i]
}

// params takes KEY VALUE pairs out of words; flags stand alone. What is left
// are operands.
func params(words []string, keys, flags []string) (map[string]string, []string, error) {
	got := map[string]string{}
	var rest []string
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(flags, w):
			got[w] = w
		case slices.Contains(keys, w):
			if i++; i == len(words) {
				return nil, nil, applet.Usagef("%s needs a value", w)
			}
			got[w] = words[i]
		default:
			rest = append(rest, w)
		}
	}
	return got, rest, nil
}

func linkNamed(name string) (netlink.Link, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

// links returns the interfaces to show: one, or all.
func (c *ipCall) links() ([]netlink.Link, error) {
	got, rest, err := params(c.words, []string{"dev"}, nil)
	if err != nil {
		return nil, err
	}
	if len(rest) > 1 {
		return nil, applet.Usagef("what is %q?", rest[1])
	}
	if name := cmp.Or(append(rest, got["dev"])...); name != "" {
		l, err := linkNamed(name)
		return []netlink.Link{l}, err
	}
	list, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	slices.SortFunc(list, func(a, b netlink.Link) int { return a.Attrs().Index - b.Attrs().Index })
	return list, nil
}

func printLink(w io.Writer, at *netlink.LinkAttrs) {
	var flags []string
	for _, f := range []struct {
		bit  uint32
		name string
	}{
		{unix.IFF_LOOPBACK, "LOOPBACK"},
		{unix.IFF_BROADCAST, "BROADCAST"},
		{unix.IFF_POINTOPOINT, "POINTOPOINT"},
		{unix.IFF_NOARP, "NOARP"},
		{unix.IFF_PROMISC, "PROMISC"},
		{unix.IFF_MULTICAST, "MULTICAST"},
		{unix.IFF_UP, "UP"},
		{unix.IFF_LOWER_UP, "LOWER_UP"},
	} {
		if at.RawFlags&f.bit != 0 {
			flags = append(flags, f.name)
		}
	}
	if at.RawFlags&unix.IFF_UP != 0 && at.RawFlags&unix.IFF_LOWER_UP == 0 {
		flags = append([]string{"NO-CARRIER"}, flags...)
	}
	fmt.Fprintf(w, "%d: %s: <%s> mtu %d state %s qlen %d\n", at.Index, at.Name, strings.Join(flags, ","), at.MTU,
		strings.ToUpper(at.OperState.String()), at.TxQLen)
	kind := cmp.Or(at.EncapType, "none")
	fmt.Fprintf(w, "    link/%s %s\n", kind, at.HardwareAddr)
}

func (c *ipCall) link() error {
	switch c.verb {
	case "show":
		list, err := c.links()
		for _, l := range list {
			if err == nil {
				printLink(c.out, l.Attrs())
			}
		}
		return err
	case "set":
		return c.linkSet()
	}
	return applet.Usagef("link has show and set")
}

func (c *ipCall) linkSet() error {
	got, rest, err := params(c.words, []string{"dev", "mtu", "address"}, []string{"up", "down"})
	if err != nil {
		return err
	}
	name := cmp.Or(append(rest, got["dev"])...)
	if name == "" || len(rest) > 1 || len(got) == 0 {
		return applet.Usagef("link set DEV [up|down] [mtu N] [address MAC]")
	}
	l, err := linkNamed(name)
	if err != nil {
		return err
	}
	if got["down"] != "" {
		if err := netlink.LinkSetDown(l); err != nil {
			return fmt.Errorf("%s down: %w", name, err)
		}
	}
	if text := got["address"]; text != "" {
		mac, err := net.ParseMAC(text)
		if err != nil {
			return applet.Usagef("%q is no MAC", text)
		}
		if err := netlink.LinkSetHardwareAddr(l, mac); err != nil {
			return fmt.Errorf("%s address %v: %w (most drivers want the link down)", name, mac, err)
		}
	}
	if text := got["mtu"]; text != "" {
		mtu, err := strconv.Atoi(text)
		if err != nil {
			return applet.Usagef("%q is no MTU", text)
		}
		if err := netlink.LinkSetMTU(l, mtu); err != nil {
			return fmt.Errorf("%s mtu %d: %w", name, mtu, err)
		}
	}
	if got["up"] != "" {
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("%s up: %w", name, err)
		}
	}
	return nil
}

func (c *ipCall) addr() error {
	switch c.verb {
	case "show":
		list, err := c.links()
		if err != nil {
			return err
		}
		for _, l := range list {
			printLink(c.out, l.Attrs())
			addrs, err := netlink.AddrList(l, c.family)
			if err != nil {
				return fmt.Errorf("list addresses of %s: %w", l.Attrs().Name, err)
			}
			for _, a := range addrs {
				c.printAddr(a)
			}
		}
		return nil
	case "add", "delete", "replace":
	default:
		return applet.Usagef("addr has show, add, del and replace")
	}
	got, rest, err := params(c.words, []string{"dev"}, nil)
	if err != nil {
		return err
	}
	if len(rest) != 1 || got["dev"] == "" {
		return applet.Usagef("addr %s ADDR/LEN dev DEV", c.verb)
	}
	p, err := prefixOf(rest[0])
	if err != nil {
		return err
	}
	l, err := linkNamed(got["dev"])
	if err != nil {
		return err
	}
	do := map[string]func(netlink.Link, *netlink.Addr) error{
		"add": netlink.AddrAdd, "delete": netlink.AddrDel, "replace": netlink.AddrReplace,
	}[c.verb]
	if err := do(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
		return fmt.Errorf("%s %v on %s: %w", c.verb, p, got["dev"], err)
	}
	return nil
}

func (c *ipCall) printAddr(a netlink.Addr) {
	family := "inet"
	if a.IP.To4() == nil {
		family = "inet6"
	}
	fmt.Fprintf(c.out, "    %s %s", family, a.IPNet)
	if a.Peer != nil && !a.Peer.IP.Equal(a.IP) {
		fmt.Fprintf(c.out, " peer %s", a.Peer)
	}
	if family == "inet" && a.Broadcast != nil {
		fmt.Fprintf(c.out, " brd %s", a.Broadcast)
	}
	scope := netlink.Scope(a.Scope).String()
	if a.Scope == int(netlink.SCOPE_UNIVERSE) {
		scope = "global" // as iproute2 says
	}
	fmt.Fprintf(c.out, " scope %s", scope)
	for _, f := range []struct {
		bit  int
		name string
	}{
		{unix.IFA_F_SECONDARY, "secondary"},
		{unix.IFA_F_TENTATIVE, "tentative"},
		{unix.IFA_F_DADFAILED, "dadfailed"},
		{unix.IFA_F_DEPRECATED, "deprecated"},
	} {
		if a.Flags&f.bit != 0 {
			fmt.Fprint(c.out, " ", f.name)
		}
	}
	if uint32(a.ValidLft) != 0xffffffff { // for ever
		fmt.Fprintf(c.out, " valid %ds", uint32(a.ValidLft))
	}
	fmt.Fprintln(c.out)
}

// prefixOf reads ADDR/LEN, or ADDR as the one address.
func prefixOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, applet.Usagef("%q is no ADDRESS/LENGTH", text)
	}
	return p, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func (c *ipCall) route() error {
	switch c.verb {
	case "show":
		return c.routeShow()
	case "add", "delete", "replace":
	default:
		return applet.Usagef("route has show, add, del and replace")
	}
	got, rest, err := params(c.words, []string{"via", "dev", "metric", "src", "table"}, []string{"onlink"})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return applet.Usagef("route %s default|NET/LEN [via ADDR] [dev DEV]", c.verb)
	}
	r := &netlink.Route{Scope: netlink.SCOPE_LINK, Protocol: unix.RTPROT_BOOT}
	v6 := c.family == netlink.FAMILY_V6
	for key, to := range map[string]*net.IP{"via": &r.Gw, "src": &r.Src} {
		if got[key] == "" {
			continue
		}
		a, err := netip.ParseAddr(got[key])
		if err != nil {
			return applet.Usagef("%s %q is no address", key, got[key])
		}
		*to, v6 = a.AsSlice(), a.Is6()
	}
	if rest[0] == "default" {
		all := netip.IPv4Unspecified()
		if v6 {
			all = netip.IPv6Unspecified()
		}
		r.Dst = ipNet(netip.PrefixFrom(all, 0))
	} else {
		p, err := prefixOf(rest[0])
		if err != nil {
			return err
		}
		r.Dst = ipNet(p.Masked())
	}
	if r.Gw != nil {
		r.Scope = netlink.SCOPE_UNIVERSE
	}
	for key, to := range map[string]*int{"metric": &r.Priority, "table": &r.Table} {
		if got[key] == "" {
			continue
		}
		if *to, err = strconv.Atoi(got[key]); err != nil {
			return applet.Usagef("%s %q is no number", key, got[key])
		}
	}
	if got["onlink"] != "" {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	if name := got["dev"]; name != "" {
		l, err := linkNamed(name)
		if err != nil {
			return err
		}
		r.LinkIndex = l.Attrs().Index
	}
	if c.verb == "delete" && got["dev"] == "" && r.Gw == nil {
		r.Scope = netlink.SCOPE_NOWHERE // whatever it is
	}
	do := map[string]func(*netlink.Route) error{
		"add": netlink.RouteAdd, "delete": netlink.RouteDel, "replace": netlink.RouteReplace,
	}[c.verb]
	if err := do(r); err != nil {
		return fmt.Errorf("%s route %s: %w", c.verb, rest[0], err)
	}
	return nil
}

func (c *ipCall) routeShow() error {
	got, rest, err := params(c.words, []string{"dev"}, nil)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("what is %q?", rest[0])
	}
	var dev netlink.Link
	if got["dev"] != "" {
		if dev, err = linkNamed(got["dev"]); err != nil {
			return err
		}
	}
	routes, err := netlink.RouteList(dev, cmp.Or(c.family, netlink.FAMILY_V4))
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	names := map[int]string{}
	if links, err := netlink.LinkList(); err == nil {
		for _, l := range links {
			names[l.Attrs().Index] = l.Attrs().Name
		}
	}
	for _, r := range routes {
		dst := "default"
		if r.Dst != nil {
			if ones, _ := r.Dst.Mask.Size(); ones > 0 {
				dst = r.Dst.String()
			}
		}
		fmt.Fprint(c.out, dst)
		if r.Gw != nil {
			fmt.Fprintf(c.out, " via %s", r.Gw)
		}
		if r.LinkIndex != 0 {
			fmt.Fprintf(c.out, " dev %s", cmp.Or(names[r.LinkIndex], strconv.Itoa(r.LinkIndex)))
		}
		fmt.Fprintf(c.out, " proto %s", protocolName(int(r.Protocol)))
		if r.Scope != netlink.SCOPE_UNIVERSE {
			fmt.Fprintf(c.out, " scope %s", r.Scope)
		}
		if r.Src != nil {
			fmt.Fprintf(c.out, " src %s", r.Src)
		}
		if r.Priority != 0 {
			fmt.Fprintf(c.out, " metric %d", r.Priority)
		}
		for _, f := range []struct {
			bit  int
			name string
		}{{unix.RTNH_F_ONLINK, "onlink"}, {unix.RTNH_F_LINKDOWN, "linkdown"}, {unix.RTNH_F_DEAD, "dead"}} {
			if r.Flags&f.bit != 0 {
				fmt.Fprint(c.out, " ", f.name)
			}
		}
		fmt.Fprintln(c.out)
	}
	return nil
}

func protocolName(p int) string {
	names := map[int]string{
		unix.RTPROT_REDIRECT: "redirect", unix.RTPROT_KERNEL: "kernel", unix.RTPROT_BOOT: "boot",
		unix.RTPROT_STATIC: "static", unix.RTPROT_RA: "ra", unix.RTPROT_DHCP: "dhcp",
	}
	return cmp.Or(names[p], strconv.Itoa(p))
}

func (c *ipCall) neigh() error {
	if c.verb != "show" && c.verb != "delete" {
		return applet.Usagef("neigh has show and del")
	}
	got, rest, err := params(c.words, []string{"dev"}, nil)
	if err != nil {
		return err
	}
	index, names := 0, map[int]string{}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
		if l.Attrs().Name == got["dev"] {
			index = l.Attrs().Index
		}
	}
	if got["dev"] != "" && index == 0 {
		return fmt.Errorf("%s: no such link", got["dev"])
	}
	if c.verb == "delete" {
		if len(rest) != 1 || index == 0 {
			return applet.Usagef("neigh del ADDR dev DEV")
		}
		a, err := netip.ParseAddr(rest[0])
		if err != nil {
			return applet.Usagef("%q is no address", rest[0])
		}
		if err := netlink.NeighDel(&netlink.Neigh{LinkIndex: index, IP: a.AsSlice()}); err != nil {
			return fmt.Errorf("delete neighbour %v: %w", a, err)
		}
		return nil
	}
	list, err := netlink.NeighList(index, c.family)
	if err != nil {
		return fmt.Errorf("list neighbours: %w", err)
	}
	for _, n := range list {
		if n.State == netlink.NUD_NOARP {
			continue // multicast and the box itself
		}
		fmt.Fprintf(c.out, "%s dev %s", n.IP, names[n.LinkIndex])
		if len(n.HardwareAddr) > 0 {
			fmt.Fprintf(c.out, " lladdr %s", n.HardwareAddr)
		}
		fmt.Fprintf(c.out, " %s\n", neighState(n.State))
	}
	return nil
}

func neighState(s int) string {
	names := map[int]string{
		netlink.NUD_INCOMPLETE: "INCOMPLETE", netlink.NUD_REACHABLE: "REACHABLE", netlink.NUD_STALE: "STALE",
		netlink.NUD_DELAY: "DELAY", netlink.NUD_PROBE: "PROBE", netlink.NUD_FAILED: "FAILED",
		netlink.NUD_PERMANENT: "PERMANENT",
	}
	return cmp.Or(names[s], fmt.Sprintf("%#x", s))
}
