package firewall

import (
	"net/netip"
	"strconv"
	"strings"

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
const local = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 169.254.0.0/16 fc00::/7 fe80::/10"

// own is what every gateway lets in, from everywhere.
var own = [...]struct {
	text        string
	protocol    uint8
	first, last uint16
}{
	{"ping", nft.ICMP, echoIPv4, echoIPv4},
	{"IGMP", nft.IGMP, 0, 0},
	{"errors of the path (ICMPv6 1-4)", nft.ICMPv6, pathError, pathProblem},
	{"ping (ICMPv6)", nft.ICMPv6, echoIPv6, echoIPv6},
	{"groups, routers, neighbours (ICMPv6 130-136)", nft.ICMPv6, listenQuery, neighbour},
	{"groups (ICMPv6 143)", nft.ICMPv6, reportMLDv2, reportMLDv2},
	{"DHCP, udp/68", nft.UDP, portDHCP, portDHCP},
	{"DHCPv6, udp/546", nft.UDP, portDHCPv6, portDHCPv6},
	{"mDNS, udp/5353", nft.UDP, portMDNS, portMDNS},
	{"SSH, tcp/22", nft.TCP, portSSH, portSSH},
	// To everybody: SSH is on it, too, and the bridge knows who may have the
	// radio.
	{"radio and SSH, tcp/8888", nft.TCP, portRadio, portRadio},
}

// BenchRules are those of bench mode: a run's packets, which are peer's, meet the
// first one, and none looks at known connections, for each costs throughput.
func BenchRules(peer netip.Addr) []nft.Rule {
	rules := Rules(config.Firewall{}, nil, Tunnel{})
	rules[answersAt] = rules[0]
	rules[0] = nft.Rule{Text: "the bench's peer, " + peer.String(), From: netip.PrefixFrom(peer, peer.BitLen()), Accept: true}
	return rules
}

// CloseDoor has the kernel hold the rules of bench mode. nft.ErrNone is a kernel
// that has none. The service puts those of the settings back when it starts.
func CloseDoor(k Kernel, peer netip.Addr) error {
	rules := BenchRules(peer)
	if _, err := k.Read(rules); err != nil {
		return err
	}
	return k.Replace(rules)
}

// answersAt is the place of the rule about known connections.
const answersAt = 1

// Tunnel is a WireGuard interface: its peers have shown their keys, so what
// comes out of it is let in.
type Tunnel struct {
	Interface string // "": there is none
	Port      uint16 // UDP, that it listens on; 0: it only asks
}

// Rules are those of the settings, in their order. allow is who may have the
// radio, as config.Door has it.
func Rules(f config.Firewall, allow []netip.Prefix, tunnel Tunnel) []nft.Rule {
	rules := make([]nft.Rule, 0, len(own)+12)
	open := func(text, link string, protocol uint8, first, last uint16) *nft.Rule {
		rules = append(rules, nft.Rule{
			Text: text, Interface: link, Protocol: protocol, Span: nft.Span{First: first, Last: last}, Accept: true,
		})
		return &rules[len(rules)-1]
	}
	open("the gateway itself (lo)", "lo", 0, 0, 0)
	open("answers", "", 0, 0, 0).Answers = true // rules[answersAt]
	for _, o := range own {
		open(o.text, "", o.protocol, o.first, o.last)
	}
	open("the Thread network ("+threadLink+")", threadLink, 0, 0, 0)
	if tunnel.Interface != "" {
		if tunnel.Port != 0 {
			open("WireGuard, udp/"+strconv.Itoa(int(tunnel.Port)), "", nft.UDP, tunnel.Port, tunnel.Port)
		}
		open("WireGuard's peers ("+tunnel.Interface+")", tunnel.Interface, 0, 0, 0)
	}
	for _, o := range f.Allow {
		protocol := uint8(nft.TCP)
		if o.UDP {
			protocol = nft.UDP
		}
		text := o.String()
		if !o.Bridge {
			open(text, "", protocol, o.First, o.Last).From = o.From
			continue
		}
		if allow == nil {
			for s := range strings.FieldsSeq(local) {
				allow = append(allow, netip.MustParsePrefix(s))
			}
		}
		for _, p := range allow {
			open(text+" "+p.String(), "", protocol, o.First, o.Last).From = p
		}
	}
	return append(
		rules,
		nft.Rule{Text: "other TCP", Protocol: nft.TCP, Tally: true},
		nft.Rule{Text: "other UDP", Protocol: nft.UDP, Tally: true},
		nft.Rule{Text: "anything else"},
	)
}
