package firewall

import (
	"net/netip"
	"strconv"

	"gwinit/internal/config"
	"gwinit/services/firewall/nft"
)

// Ports that the gateway serves or asks from, beside those of the settings.
const (
	portSSH     = 22
	portRadio   = 8888
	portDHCP    = 68 // the client's
	portDHCPv6  = 546
	portMDNS    = 5353
	threadLink  = "wpan0" // of the border router agent
	echoIPv4    = 8
	echoIPv6    = 128
	pathError   = 1   // RFC 4890 section 4.3.1: errors that must not be dropped
	pathProblem = 4   // up to
	listenQuery = 130 // RFC 4861, RFC 2710: group reports, routers and neighbours
	neighbour   = 136 // up to
	reportMLDv2 = 143
)

// local is who may have the radio without BRIDGE_ALLOW, but for the public
// networks of the interfaces, which come and go: RFC 1918, RFC 3927, RFC 4193,
// RFC 4291.
var local = [...]netip.Prefix{
	netip.PrefixFrom(netip.AddrFrom4([4]byte{10}), 8),
	netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16}), 12),
	netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168}), 16),
	netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254}), 16),
	netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfc}), 7),
	netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfe, 0x80}), 10),
}

// Tunnel is a WireGuard interface: its peers have shown their keys, so what
// comes out of it is let in.
type Tunnel struct {
	Interface string // "": there is none
	Port      uint16 // UDP, that it listens on; 0: it only asks
}

// Rules are those of the settings, in their order. allow is who may have the
// radio, as config.Door has it.
func Rules(f config.Firewall, allow []netip.Prefix, tunnel Tunnel) []nft.Rule {
	one := func(n uint16) nft.Span { return nft.Span{First: n, Last: n} }
	rules := []nft.Rule{
		{Text: "the gateway itself (lo)", Interface: "lo"},
		{Text: "answers", Answers: true},
		{Text: "ping", Protocol: nft.ICMP, Span: one(echoIPv4)},
		{Text: "IGMP", Protocol: nft.IGMP},
		{Text: "errors of the path (ICMPv6 1-4)", Protocol: nft.ICMPv6, Span: nft.Span{First: pathError, Last: pathProblem}},
		{Text: "ping (ICMPv6)", Protocol: nft.ICMPv6, Span: one(echoIPv6)},
		{Text: "groups, routers, neighbours (ICMPv6 130-136)", Protocol: nft.ICMPv6, Span: nft.Span{First: listenQuery, Last: neighbour}},
		{Text: "groups (ICMPv6 143)", Protocol: nft.ICMPv6, Span: one(reportMLDv2)},
		{Text: "DHCP, udp/68", Protocol: nft.UDP, Span: one(portDHCP)},
		{Text: "DHCPv6, udp/546", Protocol: nft.UDP, Span: one(portDHCPv6)},
		{Text: "mDNS, udp/5353", Protocol: nft.UDP, Span: one(portMDNS)},
		{Text: "SSH, tcp/22", Protocol: nft.TCP, Span: one(portSSH)},
		// To everybody: SSH is on it, too, and the bridge knows who may have
		// the radio.
		{Text: "radio and SSH, tcp/8888", Protocol: nft.TCP, Span: one(portRadio)},
		{Text: "the Thread network (" + threadLink + ")", Interface: threadLink},
	}
	if tunnel.Interface != "" {
		if tunnel.Port != 0 {
			rules = append(rules, nft.Rule{Text: "WireGuard, udp/" + strconv.Itoa(int(tunnel.Port)), Protocol: nft.UDP, Span: one(tunnel.Port)})
		}
		rules = append(rules, nft.Rule{Text: "WireGuard's peers (" + tunnel.Interface + ")", Interface: tunnel.Interface})
	}
	for _, o := range f.Allow {
		r := nft.Rule{Text: o.String(), Protocol: nft.TCP, Span: nft.Span{First: o.First, Last: o.Last}, From: o.From}
		if o.UDP {
			r.Protocol = nft.UDP
		}
		if !o.Bridge {
			rules = append(rules, r)
			continue
		}
		if allow == nil {
			allow = local[:]
		}
		for _, r.From = range allow {
			r.Text = o.String() + " " + r.From.String()
			rules = append(rules, r)
		}
	}
	for i := range rules {
		rules[i].Accept = true
	}
	return append(
		rules,
		nft.Rule{Text: "other TCP", Protocol: nft.TCP, Tally: true},
		nft.Rule{Text: "other UDP", Protocol: nft.UDP, Tally: true},
		nft.Rule{Text: "anything else"},
	)
}
