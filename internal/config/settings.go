package config

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gwinit/board/rtl8196e"
)

// Setting is one thing that people get and set.
type Setting struct {
	Name    string   // what they type, such as radio.FIRMWARE_BAUD
	Values  string   // what it can be, in a few words
	File    string   // path on the box
	Key     string   // in that file; "" where the file is the value
	Restart []string // services that read it at their start; none: no restart helps

	value func(c Config, b rtl8196e.Board) string // in effect
}

// live are the keys of radio.conf that the bridge takes over while it runs. Core
// does so with leds.conf.
var live = [...]string{
	"FIRMWARE_BAUD", "FIRMWARE_FLOW_CTRL", "BRIDGE_BIND", "BRIDGE_ALLOW", "BRIDGE_TAKEOVER", "BRIDGE_CLAIM_MS", "BRIDGE_STALL_S",
}

// Live tells whether the services take the setting over while they run, when
// they are told to reload.
func (s Setting) Live() bool {
	switch s.File {
	case fileLEDs, fileTunnel:
		return true
	case fileRadio:
		return slices.Contains(live[:], s.Key)
	case fileGateway:
		return strings.HasPrefix(s.Key, "ETH_") || strings.HasPrefix(s.Key, "FIREWALL") ||
			strings.HasPrefix(s.Key, "METRICS") || s.Key == "SYSLOG"
	}
	return false
}

// Services that read settings.
const (
	serviceBridge = "bridge"
	serviceCore   = "core"
	serviceTunnel = "wireguard"
	serviceOTBR   = "otbr"
)

// nameMAC is the setting that is made on the box.
const nameMAC = "mac_address"

// keyServer is the one kind of line in ntp.conf.
const keyServer = "server"

// Settings returns every setting. A later feature adds its row here and its
// case where the file is read; a test holds the two together.
func Settings() []Setting {
	type c = Config
	type brd = rtl8196e.Board
	radio := []string{serviceBridge}
	core := []string{serviceCore}
	tunnel := []string{serviceTunnel}
	otbr := []string{serviceOTBR}
	both := []string{serviceBridge, serviceOTBR}
	all := []Setting{
		{"radio.MODE", "zigbee, otbr", fileRadio, "MODE", both, func(c c, _ brd) string { return c.Radio.Mode }},
		{"radio.FIRMWARE_BAUD", "1200 to 4000000: what the radio's firmware talks", fileRadio, "FIRMWARE_BAUD", both, func(c c, _ brd) string { return strconv.Itoa(c.Radio.Baud) }},
		{"radio.FIRMWARE_FLOW_CTRL", "none, sw, hw", fileRadio, "FIRMWARE_FLOW_CTRL", both, func(c c, b brd) string {
			if c.Radio.FlowSet {
				return c.Radio.Flow
			}
			return b.Radio.Flow
		}},
		{"radio.BRIDGE_BIND", "the address to listen on; 0.0.0.0: every one", fileRadio, "BRIDGE_BIND", radio, func(c c, _ brd) string {
			if c.Radio.Bind == "" {
				return "0.0.0.0"
			}
			return c.Radio.Bind
		}},
		{"radio.BRIDGE_ALLOW", "addresses and prefixes between commas: who may have the radio", fileRadio, "BRIDGE_ALLOW", radio, func(c c, _ brd) string { return joinPrefixes(c.Radio.Door.Allow) }},
		{"radio.BRIDGE_TAKEOVER", "newest, same-host, never: who takes the radio from a client", fileRadio, "BRIDGE_TAKEOVER", radio, func(c c, _ brd) string {
			return cmp.Or(c.Radio.Door.Takeover, TakeoverNewest)
		}},
		{"radio.BRIDGE_CLAIM_MS", "50 to 10000: a client silent for so long may listen", fileRadio, "BRIDGE_CLAIM_MS", radio, func(c c, _ brd) string {
			return strconv.Itoa(cmp.Or(c.Radio.Door.ClaimMS, DefaultClaimMS))
		}},
		{"radio.BRIDGE_STALL_S", "5 to 3600: seconds until a standstill is one", fileRadio, "BRIDGE_STALL_S", radio, func(c c, _ brd) string {
			return strconv.Itoa(cmp.Or(c.Radio.Door.StallS, DefaultStallS))
		}},
		{"radio.BRIDGE_ENGINE", "user; kernel: the kernel's own driver, where it has one", fileRadio, "BRIDGE_ENGINE", radio, func(c c, _ brd) string { return c.Radio.Engine() }},
		{"radio.OTBR_REST_BIND", "the address of the Thread border router's REST; 0.0.0.0: every one, 127.0.0.1: none but this box", fileRadio, "OTBR_REST_BIND", otbr, func(c c, _ brd) string {
			return cmp.Or(c.Radio.OTBR.RESTBind, "0.0.0.0")
		}},
		{"radio.OTBR_TXPOWER", "-30 to 20 dBm, in Thread mode", fileRadio, "OTBR_TXPOWER", otbr, func(c c, _ brd) string { return strconv.Itoa(c.Radio.OTBR.TxPower()) }},
		{"radio.OTBR_LOG_LEVEL", "0 to 5: how much the Thread border router logs", fileRadio, "OTBR_LOG_LEVEL", otbr, func(c c, _ brd) string { return strconv.Itoa(c.Radio.OTBR.LogLevel()) }},
		{"radio.FIRMWARE", "ncp, rcp, otrcp, router: a note; only ncp is announced as a Zigbee coordinator", fileRadio, "FIRMWARE", core, func(c c, _ brd) string { return c.Radio.Firmware }},
		{"radio.FIRMWARE_VERSION", "a note", fileRadio, "FIRMWARE_VERSION", core, func(c c, _ brd) string { return c.Radio.FirmwareVersion }},
		{"radio.BOOTLOADER_VERSION", "a note", fileRadio, "BOOTLOADER_VERSION", nil, func(c c, _ brd) string { return c.Radio.BootloaderVersion }},

		{"hostname", "letters, digits and '-'", fileHostname, "", core, func(c c, _ brd) string { return c.Hostname }},
		{nameMAC, "aa:bb:cc:dd:ee:ff; made once when absent", fileMAC, "", core, func(c c, _ brd) string { return formatMAC(c.Network.MAC) }},
		{"TZ", "a POSIX time zone, such as CET-1CEST,M3.5.0,M10.5.0/3", fileTZ, "", nil, func(c c, _ brd) string { return c.TZ }},
		{"ntp.server", "names or addresses between blanks, each with :PORT if it needs one", fileNTP, keyServer, core, func(c c, _ brd) string { return strings.Join(c.NTP.Servers, " ") }},

		{"leds.MODE", "off, dim, bright", fileLEDs, "MODE", core, func(c c, _ brd) string { return c.LEDs.Mode }},

		{"netwatch.ENABLED", "0, 1: may reboot the gateway when nothing answers", fileNetwatch, "ENABLED", core, func(c c, _ brd) string { return bit(c.Netwatch.Enabled) }},
		{"netwatch.TARGETS", "up to 8 addresses, names, or gateway; none: gateway", fileNetwatch, "TARGETS", core, func(c c, _ brd) string { return cmp.Or(strings.Join(c.Netwatch.Targets, " "), TargetGateway) }},
		{"netwatch.FAIL_MIN", "1 to 1440 minutes without an answer until then", fileNetwatch, "FAIL_MIN", core, func(c c, _ brd) string { return strconv.Itoa(c.Netwatch.FailMinutes) }},
		{"netwatch.POLL_SEC", "5 to 3600 seconds between two looks", fileNetwatch, "POLL_SEC", core, func(c c, _ brd) string { return strconv.Itoa(c.Netwatch.PollSeconds) }},
		{"netwatch.MAX_REBOOT", "0 to 100 within WINDOW_H", fileNetwatch, "MAX_REBOOT", core, func(c c, _ brd) string { return strconv.Itoa(c.Netwatch.MaxReboots) }},
		{"netwatch.WINDOW_H", "1 to 720 hours", fileNetwatch, "WINDOW_H", core, func(c c, _ brd) string { return strconv.Itoa(c.Netwatch.WindowHours) }},
		{"netwatch.DRY_RUN", "0, 1: only says what it would do", fileNetwatch, "DRY_RUN", core, func(c c, _ brd) string { return bit(c.Netwatch.DryRun) }},

		{"wireguard.ENABLED", "0, 1: the tunnel comes up at each boot; gwctl wg up does so at once", fileTunnel, "ENABLED", nil, func(c c, _ brd) string { return bit(c.Tunnel.Enabled) }},
		{"wireguard.INTERFACE", "the tunnel's name", fileTunnel, "INTERFACE", tunnel, func(c c, _ brd) string { return c.Tunnel.Interface }},
		{"wireguard.ADDRESS", "the gateway's addresses in the tunnel, such as 10.8.0.2/24", fileTunnel, "ADDRESS", tunnel, func(c c, _ brd) string { return joinPrefixes(c.Tunnel.Addresses) }},
		{"wireguard.MTU", "576 to 65535", fileTunnel, "MTU", tunnel, func(c c, _ brd) string {
			if c.Tunnel.MTU == 0 {
				return ""
			}
			return strconv.Itoa(c.Tunnel.MTU)
		}},
		{"wireguard.ROUTES", "networks that are reached through the tunnel", fileTunnel, "ROUTES", tunnel, func(c c, _ brd) string { return joinPrefixes(c.Tunnel.Routes) }},

		{"gateway.GW_LOG_KIB", "16 to 256: the log in memory", fileGateway, "GW_LOG_KIB", nil, func(c c, _ brd) string { return strconv.Itoa(c.Gateway.LogKiB) }},
		{"gateway.ETH_PROFILE", strings.Join(EthProfiles[:], ", ") + ": how the Ethernet driver is tuned", fileGateway, "ETH_PROFILE", core, func(c c, _ brd) string { return cmp.Or(c.Gateway.Ethernet.Profile, EthProfiles[0]) }},
		{"gateway.ETH_KNOBS", "name=value between blanks, instead of the profile's; gwctl eth names them", fileGateway, "ETH_KNOBS", core, func(c c, _ brd) string { return c.Gateway.Ethernet.Knobs }},
		{"gateway.ETH_QDISC", "fq_codel, where the kernel has it; default", fileGateway, "ETH_QDISC", core, func(c c, _ brd) string { return cmp.Or(c.Gateway.Ethernet.Qdisc, QdiscFQCodel) }},
		{"gateway.GW_NETWATCH_DRIVER", "0, 1: netwatch binds the Ethernet driver anew before it reboots", fileGateway, "GW_NETWATCH_DRIVER", core, func(c c, _ brd) string { return bit(c.Gateway.NetwatchDriver) }},
		{"gateway.FIREWALL", "0, 1: drops what is not known to be needed (docs/firewall.md); gwctl firewall tries it first", fileGateway, "FIREWALL", core, func(c c, _ brd) string { return bit(c.Gateway.Firewall.On) }},
		{"gateway.FIREWALL_ALLOW", "ports between blanks that it lets in, too: tcp/8081, udp/5683-5684, tcp/9100@192.168.1.20 (or @bridge)", fileGateway, "FIREWALL_ALLOW", core, func(c c, _ brd) string { return joinOpenings(c.Gateway.Firewall.Allow) }},
		{"gateway.METRICS", "off; on, or ADDRESS, :PORT, ADDRESS:PORT: where Prometheus finds figures", fileGateway, "METRICS", core, func(c c, _ brd) string { return cmp.Or(c.Gateway.Metrics, "off") }},
		{"gateway.METRICS_ALLOW", "addresses and prefixes between commas: who else than local networks may have them", fileGateway, "METRICS_ALLOW", core, func(c c, _ brd) string { return joinPrefixes(c.Gateway.MetricsAllow) }},
		{"gateway.SYSLOG", "off; udp://HOST[:514], tcp://HOST[:601]: where the log is sent", fileGateway, "SYSLOG", core, func(c c, _ brd) string { return c.Gateway.Syslog.String() }},
	}
	for _, s := range []struct {
		prefix, file string
		of           func(c c) *Static
	}{
		{"eth0", fileEth0, func(c c) *Static { return c.Network.Static }},
		{"fallback", fileFallback, func(c c) *Static { return &c.Network.Fallback }},
	} {
		of := s.of
		get := func(f func(s *Static) string) func(c, brd) string {
			return func(c c, _ brd) string {
				if s := of(c); s != nil {
					return f(s)
				}
				return ""
			}
		}
		all = append(
			all,
			Setting{s.prefix + ".IPADDR", "the IPv4 address", s.file, "IPADDR", core, get(func(s *Static) string { return s.Addr.Addr().String() })},
			Setting{s.prefix + ".NETMASK", "255.255.255.0 and the like", s.file, "NETMASK", core, get(func(s *Static) string { return mask(s.Addr.Bits()) })},
			Setting{s.prefix + ".GATEWAY", "the IPv4 address of the router", s.file, "GATEWAY", core, get(func(s *Static) string {
				if !s.Gateway.IsValid() {
					return ""
				}
				return s.Gateway.String()
			})},
			Setting{s.prefix + ".DNS", "addresses between blanks", s.file, "DNS", core, get(func(s *Static) string { return join(s.DNS) })},
			Setting{s.prefix + ".DOMAIN", "the search domain", s.file, "DOMAIN", core, get(func(s *Static) string { return s.Domain })},
		)
	}
	return all
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func join(all []netip.Addr) string {
	s := make([]string, len(all))
	for i, a := range all {
		s[i] = a.String()
	}
	return strings.Join(s, " ")
}

// mask writes a prefix length as the incumbent's files have it.
func mask(bits int) string {
	v := ^uint32(0) << (32 - bits)
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)}).String()
}

// find returns the setting of that name: the whole one, or the key alone where
// only one file has it.
func find(name string) (Setting, error) {
	var hits []Setting
	var names []string
	for _, s := range Settings() {
		if s.Name == name {
			return s, nil
		}
		if s.Key != "" && s.Key == name {
			hits = append(hits, s)
			names = append(names, s.Name)
		}
	}
	switch len(hits) {
	case 0:
		return Setting{}, &Error{Name: name, Err: ErrUnknown}
	case 1:
		return hits[0], nil
	}
	return Setting{}, &Error{Name: name, Err: ErrAmbiguous, Detail: strings.Join(names, ", ")}
}
