// Package hostile makes the Ethernet frames of hosts that mean no good, or are
// broken: claims of addresses, neighbours and routers by the thousand. It sends
// nothing; who tests has the cable.
//
// A frame of a flood is made by its number: each is of another host.
package hostile

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

// Frame makes the n'th frame of a flood.
type Frame func(n uint32) []byte

// id is four bytes for n, all over the range.
func id(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n*2654435761) }

// mac is a locally administered address of host n.
func mac(n uint32) []byte { return append([]byte{2, 9}, id(n)...) }

// arp is a broadcast packet of ARP (RFC 826), padded to Ethernet's 60 bytes.
func arp(op byte, from, sender, target []byte) []byte {
	f := slices.Concat([]byte{255, 255, 255, 255, 255, 255}, from, []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, op}, from, sender, make([]byte, 6), target)
	return append(f, make([]byte, 60-len(f))...)
}

// ARP asks for addr from addresses in 10.0.0.0/8: the kernel remembers each of
// them, and answers.
func ARP(addr netip.Addr) Frame {
	return func(n uint32) []byte { return arp(1, mac(n), append([]byte{10}, id(n)[1:]...), addr.AsSlice()) }
}

// Claim says that addr is host n's.
func Claim(addr netip.Addr) Frame {
	return func(n uint32) []byte { return arp(2, mac(n), addr.AsSlice(), addr.AsSlice()) }
}

// icmp6 is a message of ICMPv6, to a multicast group, with the hop limit of 255
// that those about neighbours must have (RFC 4861 section 4).
func icmp6(from []byte, src, dst netip.Addr, msg []byte) []byte {
	s, d := src.AsSlice(), dst.AsSlice()
	sum := uint32(len(msg) + 58)
	for _, part := range [][]byte{s, d, msg} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(msg[2:], ^uint16(sum))
	ip := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(len(msg)))
	return slices.Concat([]byte{0x33, 0x33}, d[12:], from, []byte{0x86, 0xdd}, ip, []byte{58, 255}, s, d, msg)
}

// local is the link-local address of host n.
func local(n uint32) netip.Addr {
	return netip.AddrFrom16([16]byte(slices.Concat([]byte{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, id(n))))
}

// Neighbour asks for addr, of IPv6, from link-local addresses (RFC 4861 section
// 4.3): the kernel remembers each of them, and answers.
func Neighbour(addr netip.Addr) Frame {
	a := addr.AsSlice()
	group := netip.AddrFrom16([16]byte(slices.Concat([]byte{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, a[13:])))
	return func(n uint32) []byte {
		return icmp6(mac(n), local(n), group, slices.Concat([]byte{135, 0, 0, 0, 0, 0, 0, 0}, a, []byte{1, 1}, mac(n)))
	}
}

// DAD says that addr, of IPv6, is host n's (RFC 4861 section 4.4).
func DAD(addr netip.Addr) Frame {
	return func(n uint32) []byte {
		return icmp6(mac(n), addr, allNodes, slices.Concat([]byte{136, 0, 0, 0, 0x20, 0, 0, 0}, addr.AsSlice(), []byte{2, 1}, mac(n)))
	}
}

var allNodes = netip.MustParseAddr("ff02::1")

// Query is a one-shot question of multicast DNS (RFC 6762 section 6.7) for the
// IPv4 address of host.local, from addresses in 10.0.0.0/8. The UDP checksum of
// zero is none (RFC 768).
func Query(host string) Frame {
	q := slices.Concat([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, byte(len(host))}, []byte(host), []byte("\x05local\x00\x00\x01\x00\x01"))
	udp := slices.Concat(binary.BigEndian.AppendUint16([]byte{0xc0, 0, 0x14, 0xe9}, uint16(8+len(q))), []byte{0, 0}, q)
	return func(n uint32) []byte {
		ip := slices.Concat(binary.BigEndian.AppendUint16([]byte{0x45, 0}, uint16(20+len(udp))), []byte{0, 0, 0, 0, 255, 17, 0, 0, 10}, id(n)[1:], []byte{224, 0, 0, 251})
		var sum uint32
		for i := 0; i < len(ip); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(ip[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(ip[10:], ^uint16(sum>>16+sum))
		return slices.Concat([]byte{1, 0, 0x5e, 0, 0, 0xfb}, mac(n), []byte{8, 0}, ip, udp)
	}
}

// Forever is an advertised lifetime without an end.
const Forever time.Duration = 0xffffffff * time.Second

// Advertisement is a router's (RFC 4861 section 4.2).
type Advertisement struct {
	From     netip.Addr // link-local
	MAC      [6]byte
	Lifetime time.Duration // as a router, 65535 s at most
	Prefixes []PrefixOption
	DNS      []netip.Addr // RDNSS, for ever (RFC 8106)
}

// PrefixOption is a prefix (RFC 4861 section 4.6.2), on the link and for
// addresses.
type PrefixOption struct {
	netip.Prefix
	Valid, Preferred time.Duration
}

// Frame is the advertisement to all nodes.
func (a Advertisement) Frame() []byte {
	seconds := func(b []byte, d time.Duration) []byte {
		return binary.BigEndian.AppendUint32(b, uint32(d/time.Second))
	}
	msg := []byte{134, 0, 0, 0, 64, 0}
	msg = binary.BigEndian.AppendUint16(msg, uint16(a.Lifetime/time.Second))
	msg = append(msg, 0, 0, 0, 0, 0, 0, 0, 0)
	msg = append(append(msg, 1, 1), a.MAC[:]...)
	for _, p := range a.Prefixes {
		msg = append(msg, 3, 4, byte(p.Bits()), 0xc0)
		msg = append(seconds(seconds(msg, p.Valid), p.Preferred), 0, 0, 0, 0)
		msg = append(msg, p.Addr().AsSlice()...)
	}
	if len(a.DNS) > 0 {
		msg = seconds(append(msg, 25, byte(1+2*len(a.DNS)), 0, 0), Forever)
		for _, d := range a.DNS {
			msg = append(msg, d.AsSlice()...)
		}
	}
	return icmp6(a.MAC[:], a.From, allNodes, msg)
}

// Of has the n'th frame be of one of so many hosts. The kernel's tables of neighbours
// are one for all network namespaces of a machine, 1024 entries each, so a test in a
// namespace that fills them takes the network from all others there.
func (f Frame) Of(hosts uint32) Frame { return func(n uint32) []byte { return f(n % hosts) } }

// Router advertises host n as a router, with a prefix and a name server that
// nobody else has, for ever.
func Router(n uint32) []byte { return router(n, n) }

// Prefix advertises another prefix and name server with each n, by one of 16
// routers.
func Prefix(n uint32) []byte { return router(n%16, n) }

func router(host, n uint32) []byte {
	net := netip.AddrFrom16([16]byte(slices.Concat([]byte{0x20, 1, 0x0d, 0xb8}, id(n), make([]byte, 8))))
	dns := net.As16()
	dns[15] = 0x53
	return Advertisement{
		From: local(host), MAC: [6]byte(mac(host)), Lifetime: 65535 * time.Second,
		Prefixes: []PrefixOption{{netip.PrefixFrom(net, 64), Forever, Forever}}, DNS: []netip.Addr{netip.AddrFrom16(dns)},
	}.Frame()
}
