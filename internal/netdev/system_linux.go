package netdev

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gwinit/internal/searchlist"
	"gwinit/internal/wait"
)

// protocol marks our routes (RTPROT_DHCP of linux/rtnetlink.h): the kernel's
// own and those of `ip route add` bear others.
const protocol = unix.RTPROT_DHCP

// System is the kernel this process runs on.
type System struct {
	Root string // "" on the box; /sys is read below it
}

// Link implements Kernel.
func (s System) Link(name string) (Link, error) {
	nl, err := netlink.LinkByName(name)
	if err != nil {
		var gone netlink.LinkNotFoundError
		if errors.As(err, &gone) || errors.Is(err, unix.ENODEV) {
			return Link{}, fmt.Errorf("%w: %s", ErrNoLink, name)
		}
		return Link{}, fmt.Errorf("read link %s: %w", name, err)
	}
	at := nl.Attrs()
	l := Link{
		Index:   at.Index,
		Name:    at.Name,
		MTU:     at.MTU,
		Up:      at.RawFlags&unix.IFF_UP != 0,
		Carrier: at.RawFlags&unix.IFF_UP != 0 && at.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	copy(l.MAC[:], at.HardwareAddr)
	// netlink 1.3.1 does not read IFLA_CARRIER_CHANGES; the speed is no
	// link attribute at all.
	l.Changes = s.number(name, "carrier_changes")
	if l.Carrier {
		l.SpeedMbit = int(min(s.number(name, "speed"), 1e6))
		if l.SpeedMbit == 1e6 { // SPEED_UNKNOWN
			l.SpeedMbit = 0
		}
	}
	return l, nil
}

// number reads a file of the interface in sysfs, 0 if it is not there or
// negative.
func (s System) number(name, file string) uint64 {
	b, err := os.ReadFile(filepath.Join("/", s.Root, "sys/class/net", name, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func ref(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// SetUp implements Kernel.
func (System) SetUp(index int, up bool) error {
	set, word := netlink.LinkSetDown, "down"
	if up {
		set, word = netlink.LinkSetUp, "up"
	}
	if err := set(ref(index)); err != nil {
		return fmt.Errorf("set link %d %s: %w", index, word, err)
	}
	return nil
}

// SetMAC implements Kernel.
func (System) SetMAC(index int, mac MAC) error {
	if err := netlink.LinkSetHardwareAddr(ref(index), mac[:]); err != nil {
		return fmt.Errorf("set MAC %v on link %d: %w", mac, index, err)
	}
	return nil
}

// SetMTU implements Kernel.
func (System) SetMTU(index, mtu int) error {
	if err := netlink.LinkSetMTU(ref(index), mtu); err != nil {
		return fmt.Errorf("set MTU %d on link %d: %w", mtu, index, err)
	}
	return nil
}

// Addrs implements Kernel.
func (System) Addrs(index int) ([]Addr, error) {
	var out []Addr
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netlink.AddrList(ref(index), family)
		if err != nil {
			if family == netlink.FAMILY_V6 && errors.Is(err, unix.EAFNOSUPPORT) {
				continue
			}
			return nil, fmt.Errorf("list addresses of link %d: %w", index, err)
		}
		for _, a := range list {
			if p, ok := prefix(a.IPNet); ok {
				out = append(out, Addr{
					Prefix: p, Valid: lifetime(a.ValidLft),
					Tentative: a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 && a.Flags&unix.IFA_F_OPTIMISTIC == 0,
					Duplicate: a.Flags&unix.IFA_F_DADFAILED != 0,
				})
			}
		}
	}
	return out, nil
}

// lifetime turns seconds, of which 0xffffffff (-1 on a 32-bit CPU) is for
// ever, into a Duration.
func lifetime(seconds int) time.Duration {
	if uint32(seconds) == 0xffffffff {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, size := n.Mask.Size()
	if !ok || size == 0 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a.Unmap(), ones), true
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// maxLifetime keeps the seconds below the sign bit of a 32-bit int.
const maxLifetime = 0x7ffffffe * time.Second

// SetAddr implements Kernel.
func (System) SetAddr(index int, a Addr) error {
	na := &netlink.Addr{IPNet: ipNet(a.Prefix)}
	if a.Broadcast.IsValid() {
		na.Broadcast = a.Broadcast.AsSlice()
	}
	if a.Valid > 0 {
		na.ValidLft = int(max(1, min(a.Valid, maxLifetime)/time.Second))
		na.PreferedLft = na.ValidLft
	}
	if err := netlink.AddrReplace(ref(index), na); err != nil {
		return fmt.Errorf("set address %v on link %d: %w", a.Prefix, index, err)
	}
	return nil
}

// DelAddr implements Kernel.
func (System) DelAddr(index int, p netip.Prefix) error {
	err := netlink.AddrDel(ref(index), &netlink.Addr{IPNet: ipNet(p)})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove address %v from link %d: %w", p, index, err)
	}
	return nil
}

// SetRoutes implements Kernel.
func (System) SetRoutes(index int, routes []Route) error {
	old, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{
		LinkIndex: index, Protocol: protocol, Table: unix.RT_TABLE_MAIN,
	}, netlink.RT_FILTER_OIF|netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return fmt.Errorf("list routes of link %d: %w", index, err)
	}
	var errs []error
	// A gateway in a more specific route of this list must be reachable
	// before it is used, so routes on the link go first.
	for _, direct := range []bool{true, false} {
		for _, r := range routes {
			if r.Via.IsValid() == direct {
				continue
			}
			if err := netlink.RouteReplace(wireRoute(index, r)); err != nil {
				errs = append(errs, fmt.Errorf("set route %v via %v on link %d: %w", r.Dst, r.Via, index, err))
			}
		}
	}
	for _, o := range old {
		if !wanted(o, routes) {
			if err := netlink.RouteDel(&o); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("remove route %v of link %d: %w", o.Dst, index, err))
			}
		}
	}
	return errors.Join(errs...)
}

func wireRoute(index int, r Route) *netlink.Route {
	nr := &netlink.Route{LinkIndex: index, Dst: ipNet(r.Dst.Masked()), Protocol: protocol, Scope: netlink.SCOPE_LINK}
	if r.Via.IsValid() {
		nr.Gw, nr.Scope = r.Via.AsSlice(), netlink.SCOPE_UNIVERSE
	}
	if r.OnLink {
		nr.Flags = int(netlink.FLAG_ONLINK)
	}
	return nr
}

func wanted(o netlink.Route, routes []Route) bool {
	for _, r := range routes {
		dst, ok := prefix(o.Dst)
		if !ok { // how older library versions show the default route
			dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		}
		via, _ := netip.AddrFromSlice(o.Gw)
		if dst == r.Dst.Masked() && via.Unmap() == r.Via {
			return true
		}
	}
	return false
}

// Watch implements Kernel. It reads the notifications' arrival, not their
// content: what they say is one Link away, and the library's own subscription
// allocates 64 KiB for each.
func (System) Watch(ctx context.Context) (<-chan struct{}, error) {
	return watch(ctx, unix.RTMGRP_LINK|unix.RTMGRP_IPV6_ROUTE)
}

// Routes6 implements Kernel.
func (s System) Routes6() (int, error) {
	b, err := os.ReadFile(filepath.Join("/", s.Root, "proc/net/rt6_stats"))
	if err != nil {
		return 0, fmt.Errorf("count IPv6 routes: %w", err)
	}
	// fib_nodes, fib_route_nodes, fib_rt_alloc, fib_rt_entries, ...: rt6_stats_seq_show
	// of net/ipv6/route.c.
	f := strings.Fields(string(b))
	if len(f) < 4 {
		return 0, fmt.Errorf("count IPv6 routes: %q", b)
	}
	n, err := strconv.ParseUint(f[3], 16, 31)
	if err != nil {
		return 0, fmt.Errorf("count IPv6 routes: %w", err)
	}
	return int(n), nil
}

// WatchAddrs is Watch for changes of addresses, too.
func (System) WatchAddrs(ctx context.Context) (<-chan struct{}, error) {
	return watch(ctx, unix.RTMGRP_LINK|unix.RTMGRP_IPV4_IFADDR|unix.RTMGRP_IPV6_IFADDR)
}

func watch(ctx context.Context, groups uint32) (<-chan struct{}, error) {
	ch := make(chan struct{}, 1)
	return ch, listen(ctx, groups, nil, func([]byte) {
		select {
		case ch <- struct{}{}:
		default:
		}
	}, func() { close(ch) })
}

// WatchDNS implements Kernel.
func (System) WatchDNS(ctx context.Context) (<-chan RouterDNS, error) {
	ch := make(chan RouterDNS, 4)
	const group = 1 << (unix.RTNLGRP_ND_USEROPT - 1)
	b := make([]byte, 2048) // an option has 2040 bytes at most, and its kind some hundred
	return ch, listen(ctx, group, b, func(msg []byte) {
		dns, ok := parseRouterDNS(msg)
		if !ok {
			return
		}
		select {
		case ch <- dns:
		default:
		}
	}, func() { close(ch) })
}

// SolicitRouters implements Kernel.
func (System) SolicitRouters(index int) error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return fmt.Errorf("open ICMPv6 socket: %w", err)
	}
	defer unix.Close(fd)
	// RFC 4861 section 4.1: a router drops what may have come from elsewhere.
	err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255)
	if err == nil {
		allRouters := [16]byte{0: 0xff, 1: 2, 15: 2}
		err = unix.Sendto(fd, solicitation, 0, &unix.SockaddrInet6{Addr: allRouters, ZoneId: uint32(index)})
	}
	if err != nil {
		return fmt.Errorf("solicit routers on link %d: %w", index, err)
	}
	return nil
}

// solicitation is the message of RFC 4861 section 4.1 without an option; the
// kernel fills the checksum in.
var solicitation = []byte{133, 0, 0, 0, 0, 0, 0, 0}

// parseRouterDNS reads an RTM_NEWNDUSEROPT message with the option RDNSS or
// DNSSL. The kernel's part is in its byte order, the router's in the network's.
func parseRouterDNS(b []byte) (RouterDNS, bool) {
	const (
		header = unix.NLMSG_HDRLEN
		// struct nduseroptmsg of linux/rtnetlink.h
		family, optsLen, ifIndex, icmpType = header, header + 2, header + 4, header + 8
		opts                               = header + 16
		rdnss, dnssl, head                 = 25, 31, 8 // RFC 8106 section 5
	)
	native := binary.NativeEndian
	if len(b) < opts+head || native.Uint16(b[4:]) != unix.RTM_NEWNDUSEROPT || b[family] != unix.AF_INET6 || b[icmpType] != 134 {
		return RouterDNS{}, false
	}
	o := b[opts:]
	n := int(o[1]) * 8
	if n > int(native.Uint16(b[optsLen:])) || n > len(o) || n <= head {
		return RouterDNS{}, false
	}
	dns := RouterDNS{Index: int(int32(native.Uint32(b[ifIndex:]))), Lifetime: Forever}
	if s := binary.BigEndian.Uint32(o[4:]); s != 0xffffffff {
		dns.Lifetime = time.Duration(s) * time.Second
	}
	switch o[0] {
	case rdnss:
		for a := o[head:n]; len(a) >= 16; a = a[16:] {
			addr := netip.AddrFrom16([16]byte(a[:16]))
			if addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr.Is4In6() {
				continue
			}
			dns.Servers = append(dns.Servers, addr)
		}
	case dnssl:
		dns.Search = searchlist.Parse(o[head:n])
	}
	return dns, len(dns.Servers)+len(dns.Search) > 0
}

// NetworkOrder is htons: the kernel takes an Ethernet protocol big-endian,
// whatever the CPU is.
func NetworkOrder(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

const (
	// breath is between two notifications that are handed on, at first. It doubles
	// while they do not end, so that what a flood of packets changes in the kernel
	// wakes the process four times a second and not a thousand.
	breath     = 50 * time.Millisecond
	longBreath = 250 * time.Millisecond
	// queueBytes is what the kernel keeps meanwhile, a dozen notifications. What
	// does not fit is lost, and told as ENOBUFS.
	queueBytes = 16 << 10
)

// listen subscribes to notifications and hands each to take, as far as it fits
// buf, until ctx ends or they cannot be read any more; then it calls ended. Without
// a buf take is called once for all that have arrived. It waits for a breath after
// each call.
func listen(ctx context.Context, groups uint32, buf []byte, take func([]byte), ended func()) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open rtnetlink socket: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, queueBytes) // there is a default
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return fmt.Errorf("subscribe to changes of links: %w", err)
	}
	file := os.NewFile(uintptr(fd), "rtnetlink")
	rc, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return fmt.Errorf("subscribe to changes of links: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { file.Close() })
	go func() {
		defer ended()
		defer stop()
		defer file.Close()
		for pause := breath; ; {
			began := time.Now()
			var n int
			var errRecv error
			some := false
			err := rc.Read(func(fd uintptr) bool {
				for {
					n, _, errRecv = unix.Recvfrom(int(fd), buf, 0)
					if errRecv == unix.EAGAIN {
						break
					}
					if some = true; buf != nil || errRecv != nil {
						return true
					}
				}
				errRecv = nil
				return some
			})
			if err != nil {
				return // closed
			}
			// ENOBUFS: more changes than fit, which is a change.
			if errRecv != nil && errRecv != unix.ENOBUFS && errRecv != unix.EINTR {
				return
			}
			pause = min(2*pause, longBreath)
			if time.Since(began) > 2*breath {
				pause = breath
			}
			take(buf[:max(n, 0)])
			if !wait.For(ctx, pause) {
				return
			}
		}
	}()
	return nil
}
