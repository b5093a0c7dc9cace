package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gwinit/board/rtl8196e"
	"gwinit/internal/prefix"
)

// The files.
const (
	fileRadio    = Dir + "/radio.conf"
	fileEth0     = Dir + "/eth0.conf"
	fileFallback = Dir + "/eth0.bak"
	fileMAC      = Dir + "/mac_address"
	fileHostname = Dir + "/hostname"
	fileLEDs     = Dir + "/leds.conf"
	fileNetwatch = Dir + "/netwatch.conf"
	fileNTP      = Dir + "/ntp.conf"
	fileTZ       = Dir + "/TZ"
	filePasswd   = Dir + "/passwd"
	fileGateway  = Dir + "/gateway.conf"
	fileTunnel   = Dir + "/wireguard.conf"
	dirThread    = "/userdata/thread"
)

// Defaults that more than one place names.
const (
	defaultHostname = "rtl8196e-gw"
	defaultTZ       = "UTC0"
	defaultTunnel   = "wg0"
)

// problemMissing is what is wrong with a key that a file has to have.
const problemMissing = "missing"

// loader collects the warnings of one load.
type loader struct {
	root     string
	warnings []Warning
	// instead is the text of files that is to be taken for what is on the
	// flash: how a change would be read is found out by reading it.
	instead map[string]string
}

// radio reads radio.conf. The incumbent finds MODE by looking for a line that
// begins with MODE=otbr, wherever it is, and every other key by its last line.
func (l *loader) radio(b rtl8196e.Board) Radio {
	r := Radio{Mode: ModeZigbee, Baud: b.Radio.Baud}
	all, _ := l.entries(fileRadio)
	for i := range all {
		if all[i].key == "MODE" && strings.HasPrefix(all[i].value, ModeOTBR) {
			r.Mode = ModeOTBR
		}
	}
	var firmwareBaud bool
	var legacy entry
	l.each(fileRadio, all, func(e entry) verdict {
		switch v := e.value; e.key {
		case "FIRMWARE":
			r.Firmware = v
			return oneOf(v, "ncp", "rcp", "otrcp", "router").using(v)
		case "FIRMWARE_VERSION":
			r.FirmwareVersion = v
		case "BOOTLOADER_VERSION":
			r.BootloaderVersion = v
		case "FIRMWARE_BAUD":
			firmwareBaud = true
			return r.setBaud(v, b)
		case "BRIDGE_BAUD":
			if r.Mode == ModeZigbee {
				legacy = e
			}
		case "OTBR_BAUD":
			if r.Mode == ModeOTBR {
				legacy = e
			}
		case "FIRMWARE_FLOW_CTRL":
			if w := oneOf(v, FlowNone, FlowSoftware, FlowHardware); w.problem != "" {
				return w.using("the kernel's or the board's default")
			}
			r.Flow, r.FlowSet = v, true
			if v == FlowHardware && !b.Radio.HardwareFlow {
				// Waiting for a CTS that is not wired would be for ever.
				r.Flow = FlowSoftware
				return verdict{problem: "RTS and CTS are not wired on this board", used: FlowSoftware}
			}
		case "MODE":
			switch {
			case v == ModeOTBR || r.Mode == ModeZigbee && v == ModeZigbee:
			case r.Mode == ModeOTBR:
				return verdict{problem: "a line MODE=otbr, exact or by its beginning, decides", used: ModeOTBR}
			default:
				return verdict{problem: "neither otbr nor zigbee", used: ModeZigbee}
			}
		case "BRIDGE_BIND":
			bind, w := parseBind(v)
			r.Bind = bind
			return w
		case "BRIDGE_CLAIM_MS":
			return number(v, 50, 10000, DefaultClaimMS, &r.Door.ClaimMS)
		case "BRIDGE_STALL_S":
			return number(v, 5, 3600, DefaultStallS, &r.Door.StallS)
		case "BRIDGE_TAKEOVER":
			if w := oneOf(v, TakeoverNewest, TakeoverSameHost, TakeoverNever); w.problem != "" {
				return w.using(TakeoverNewest)
			}
			r.Door.Takeover = v
		case "BRIDGE_ALLOW":
			var w verdict
			r.Door.Allow, w = parseAllow(v)
			return w
		case "BRIDGE_ENGINE":
			if w := oneOf(v, EngineUser, EngineKernel); w.problem != "" {
				return w.using(EngineUser)
			}
			r.KernelEngine = v == EngineKernel
		case "OTBR_REST_BIND":
			bind, w := parseBind(v)
			if w.problem != "" {
				// Not what a mistake must open.
				bind, w.used = LoopbackREST, LoopbackREST
			}
			r.OTBR.RESTBind, r.OTBR.RESTSet = bind, true
			return w
		case "OTBR_TXPOWER":
			n, err := strconv.Atoi(v)
			if err != nil || n < -30 || n > 20 {
				return verdict{problem: "not a power from -30 to 20 dBm", used: strconv.Itoa(DefaultTxPower)}
			}
			r.OTBR.txPower = &n
		case "OTBR_LOG_LEVEL":
			level := DefaultLogLevel
			w := number(v, 0, 5, DefaultLogLevel, &level)
			r.OTBR.logLevel = &level
			return w
		default:
			return verdict{problem: unknown}
		}
		return verdict{}
	})
	if a, err := netip.ParseAddr(r.Bind); err == nil && a.Unmap().Is6() && r.KernelEngine {
		l.warn(Warning{File: fileRadio, Key: "BRIDGE_ENGINE", Value: EngineKernel, Problem: "the kernel's bridge cannot listen on " + r.Bind + ": it has IPv4 only", Used: EngineUser})
		r.KernelEngine = false
	}
	if !firmwareBaud && legacy.key != "" {
		if v := r.setBaud(legacy.value, b); v.problem != "" {
			l.warn(legacy.warning(fileRadio, v))
		}
	}
	return r
}

// setBaud takes a baud rate, or keeps the default. In OTBR mode only those that
// the agent knows are taken, as the incumbent does.
func (r *Radio) setBaud(value string, b rtl8196e.Board) verdict {
	baud, ok := parseBaud(value)
	switch known := knownBaud(baud); {
	case !ok:
		return verdict{problem: "not a baud rate from 1200 to 4000000", used: strconv.Itoa(b.Radio.Baud)}
	case !known && r.Mode == ModeOTBR:
		return verdict{problem: "otbr-agent knows " + knownBauds, used: strconv.Itoa(b.Radio.Baud)}
	case !known:
		r.Baud = baud
		return verdict{problem: "radio firmware is known for " + knownBauds, used: value}
	}
	r.Baud = baud
	return verdict{}
}

const knownBauds = "115200, 230400, 460800, 691200 and 892857"

func knownBaud(baud int) bool {
	switch baud {
	case 115200, 230400, 460800, 691200, 892857:
		return true
	}
	return false
}

// parseBaud reads a rate within the limits of the incumbent's driver.
func parseBaud(s string) (int, bool) {
	return parseInt(s, 1200, 4_000_000)
}

// parseInt reads a decimal number without a sign.
func parseInt(s string, low, high int) (int, bool) {
	v, err := strconv.ParseUint(s, 10, 31)
	if err != nil || int(v) < low || int(v) > high {
		return 0, false
	}
	return int(v), true
}

// parseBind reads the address that the bridge listens on. The unspecified ones
// mean every address of both families: that is what 0.0.0.0 was the default for.
func parseBind(s string) (string, verdict) {
	a, err := netip.ParseAddr(s)
	a = a.Unmap().WithZone("")
	switch {
	case err != nil || a.IsMulticast():
		return "", verdict{problem: "not an address to listen on", used: "every address"}
	case a.Is6() && a.IsLinkLocalUnicast():
		return "", verdict{problem: "a link-local address is one on each interface", used: "every address"}
	case a.IsUnspecified():
		return "", verdict{}
	}
	return a.String(), verdict{}
}

// number reads a number with limits into n, which it leaves for anything else.
func number(v string, low, high, instead int, n *int) verdict {
	i, ok := parseInt(v, low, high)
	if !ok {
		return verdict{
			problem: "not a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high),
			used:    strconv.Itoa(instead),
		}
	}
	*n = i
	return verdict{}
}

// parseAllow reads addresses and prefixes between commas or blanks. What is none
// lets nobody in: a list with a mistake must not be the open door.
func parseAllow(s string) ([]netip.Prefix, verdict) {
	all := []netip.Prefix{}
	bad := ""
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		p, ok := parsePrefix(f)
		switch {
		case !ok && bad == "":
			bad = strconv.Quote(clip(f)) + " is neither an address nor a prefix"
		case !ok:
		case len(all) == maxAllow:
			bad = "more than " + strconv.Itoa(maxAllow) + " of them"
		default:
			all = append(all, p)
		}
	}
	switch {
	case bad == "" && len(all) > 0:
		return all, verdict{}
	case bad == "":
		bad = "neither an address nor a prefix"
	}
	used := joinPrefixes(all)
	if used == "" {
		used = "the gateway itself only"
	}
	return all, verdict{problem: bad, used: used}
}

// parsePrefix reads an address or a prefix of any family.
func parsePrefix(s string) (netip.Prefix, bool) {
	p, ok := prefix.Host(s)
	return p.Masked(), ok
}

// joinPrefixes is the inverse of parseAllow.
func joinPrefixes(all []netip.Prefix) string {
	s := make([]string, len(all))
	for i, p := range all {
		s[i] = p.String()
		if p.IsSingleIP() {
			s[i] = p.Addr().String()
		}
	}
	return strings.Join(s, ",")
}

// oneOf accepts a value that is one of those.
func oneOf(v string, all ...string) verdict {
	for _, a := range all {
		if v == a {
			return verdict{}
		}
	}
	n := len(all) - 1
	return verdict{problem: "neither " + strings.Join(all[:n], ", ") + " nor " + all[n]}
}

// using says what is used instead, when there is a problem.
func (v verdict) using(used string) verdict {
	if v.problem != "" {
		v.used = used
	}
	return v
}

func (l *loader) network() Network {
	n := Network{Fallback: lastResort(), MAC: l.mac(), Hostname: l.hostname()}
	if all, there := l.entries(fileEth0); there {
		// INV 10: a file that gives no address is no reason to stay without one.
		n.Static, _ = l.static(fileEth0, all, "DHCP")
	}
	if all, there := l.entries(fileFallback); there {
		if s, dns := l.static(fileFallback, all, "192.168.1.254/24"); s != nil {
			if !dns {
				s.DNS = n.Fallback.DNS
			}
			n.Fallback = *s
		}
	}
	return n
}

// lastResort is where the box is found when neither DHCP nor eth0.bak gives an
// address: the incumbent's.
func lastResort() Static {
	return Static{
		Addr:    netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 1, 254}), 24),
		Gateway: netip.AddrFrom4([4]byte{192, 168, 1, 1}),
		DNS:     []netip.Addr{netip.AddrFrom4([4]byte{8, 8, 8, 8}), netip.AddrFrom4([4]byte{1, 1, 1, 1})},
	}
}

// static reads the keys of eth0.conf. It returns nil when there is no address
// in them that a host can have, after saying what is used instead. DNS is the
// gateway when dns is false.
func (l *loader) static(path string, all []entry, instead string) (s *Static, dns bool) {
	s = new(Static)
	var addr netip.Addr
	bits := 0
	var addrEntry, gatewayEntry entry
	var badAddr, badMask, badGateway bool
	// What is found when all lines are read goes where its line belongs.
	first := len(l.warnings)
	defer func() { byLine(l.warnings[first:]) }()
	l.each(path, all, func(e entry) verdict {
		switch v := e.value; e.key {
		case "IPADDR":
			a, n, ok := parseAddr(v)
			if !ok {
				badAddr = true
				return verdict{problem: "not an IPv4 address", used: instead}
			}
			addr, addrEntry = a, e
			if bits == 0 {
				bits = n
			}
		case "NETMASK":
			n, ok := parseMask(v)
			if !ok {
				badMask = true
				return verdict{problem: "not a netmask", used: "255.255.255.0"}
			}
			bits = n
		case "GATEWAY":
			a, err := netip.ParseAddr(v)
			if err != nil || !a.Is4() {
				badGateway = true
				return verdict{problem: "not an IPv4 address", used: "no default route"}
			}
			s.Gateway, gatewayEntry = a, e
		case "DNS":
			var bad string
			s.DNS, bad = parseAddrs(v)
			dns = len(s.DNS) > 0
			if bad != "" {
				used := "GATEWAY"
				if dns {
					used = "the others"
				}
				return verdict{problem: strconv.Quote(bad) + " is not an address", used: used}
			}
		case "DOMAIN":
			if problem := checkDomain(v); problem != "" {
				return verdict{problem: problem, used: "no search domain"}
			}
			s.Domain = v
		default:
			return verdict{problem: unknown}
		}
		return verdict{}
	})
	if !addr.IsValid() {
		if !badAddr {
			l.warn(Warning{File: path, Key: "IPADDR", Problem: problemMissing, Used: instead})
		}
		return nil, false
	}
	if bits == 0 {
		bits = 24
		if !badMask {
			l.warn(Warning{File: path, Key: "NETMASK", Problem: problemMissing, Used: "255.255.255.0"})
		}
	}
	s.Addr = netip.PrefixFrom(addr, bits)
	if problem := checkHost(s.Addr); problem != "" {
		l.warn(addrEntry.warning(path, verdict{problem: problem, used: instead}))
		return nil, false
	}
	switch problem, onLink := checkGateway(s.Gateway, s.Addr); {
	case onLink:
		s.OnLink = true
		l.warn(gatewayEntry.warning(path, verdict{problem: problem, used: gatewayEntry.value}))
	case problem != "":
		s.Gateway, badGateway = netip.Addr{}, true
		l.warn(gatewayEntry.warning(path, verdict{problem: problem, used: "no default route"}))
	}
	if !s.Gateway.IsValid() && !badGateway {
		l.warn(Warning{File: path, Key: "GATEWAY", Problem: problemMissing, Used: "no default route"})
	}
	if !dns && s.Gateway.IsValid() {
		s.DNS = []netip.Addr{s.Gateway}
	}
	return s, dns
}

// checkHost says why no host can have the address of p, which is IPv4.
func checkHost(p netip.Prefix) string {
	switch a := p.Addr(); {
	case a.As4()[0] == 0 || a.IsLoopback() || a.As4()[0] >= 224:
		return "not an address that a host can have"
	case isNetwork(p, a):
		return "the address of the network " + p.Masked().String() + " itself"
	case isBroadcast(p, a):
		return "the broadcast address of " + p.Masked().String()
	}
	return ""
}

// checkGateway says why g cannot be the gateway of the host p, or that it is
// outside p's network: onLink. Some providers and point-to-point links want
// that, so it is used. A gateway that is not valid is none, and no problem.
func checkGateway(g netip.Addr, p netip.Prefix) (problem string, onLink bool) {
	switch {
	case !g.IsValid():
	case g == p.Addr():
		return "the box's own address", false
	case g.As4()[0] == 0 || g.IsLoopback() || g.As4()[0] >= 224,
		isNetwork(p, g), isBroadcast(p, g):
		return "no host of " + p.Masked().String(), false
	case !p.Contains(g):
		return "not in " + p.Masked().String() + ", so taken to be on the cable", true
	}
	return "", false
}

// isNetwork tells whether a is the first address of p, which names the network
// but for /31 (RFC 3021) and /32.
func isNetwork(p netip.Prefix, a netip.Addr) bool {
	return p.Bits() < 31 && a == p.Masked().Addr()
}

// isBroadcast tells whether a is the last address of p.
func isBroadcast(p netip.Prefix, a netip.Addr) bool {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return p.Bits() < 31 && a == netip.AddrFrom4(b)
}

// parseAddr reads an IPv4 address, with or without a prefix length; bits is 0
// without one.
func parseAddr(s string) (a netip.Addr, bits int, ok bool) {
	addr, length, slash := strings.Cut(s, "/")
	a, err := netip.ParseAddr(addr)
	if err != nil || !a.Is4() || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return netip.Addr{}, 0, false
	}
	if slash {
		if bits, ok = parseInt(length, 1, 32); !ok {
			return netip.Addr{}, 0, false
		}
	}
	return a, bits, true
}

// parseMask reads 255.255.255.0, 24 or /24 as 24.
func parseMask(s string) (bits int, ok bool) {
	if n, ok := parseInt(strings.TrimPrefix(s, "/"), 1, 32); ok {
		return n, true
	}
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return 0, false
	}
	b := a.As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for v&(1<<31) != 0 {
		bits++
		v <<= 1
	}
	return bits, v == 0 && bits > 0
}

// parseAddrs reads addresses between blanks or commas; bad is the first that is
// none.
func parseAddrs(s string) (all []netip.Addr, bad string) {
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		a, err := netip.ParseAddr(f)
		if err != nil || a.IsUnspecified() || a.IsMulticast() {
			if bad == "" {
				bad = f
			}
			continue
		}
		all = append(all, a)
	}
	return all, bad
}

// checkDomain accepts what resolv.conf's search takes: names between blanks.
func checkDomain(s string) string {
	for name := range strings.FieldsSeq(s) {
		if !isName(strings.TrimSuffix(name, "."), 253) {
			return "not a domain name"
		}
	}
	return ""
}

// isName tells whether s is made of labels of letters, digits, '-' and '_', of
// 1 to 63 each (RFC 1123 section 2.1, and the underscore that people use).
func isName(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	return true
}

func (l *loader) mac() [6]byte {
	v, line := l.firstLine(fileMAC)
	if v == "" {
		return [6]byte{}
	}
	mac, ok := parseMAC(v)
	if !ok {
		l.warn(Warning{File: fileMAC, Line: line, Value: v, Problem: "not the MAC address of a host", Used: "the one in force, or a new one"})
	}
	return mac
}

// parseMAC reads six bytes in hex between ':' or '-', and refuses a group's
// address and zero.
func parseMAC(s string) (mac [6]byte, ok bool) {
	if len(s) != 17 {
		return mac, false
	}
	for i := range mac {
		b, err := strconv.ParseUint(s[3*i:3*i+2], 16, 8)
		if err != nil || i < 5 && s[3*i+2] != ':' && s[3*i+2] != '-' {
			return [6]byte{}, false
		}
		mac[i] = byte(b)
	}
	if mac[0]&1 != 0 || mac == [6]byte{} {
		return [6]byte{}, false
	}
	return mac, true
}

// formatMAC is aa:bb:cc:dd:ee:ff, or nothing for zero.
func formatMAC(m [6]byte) string {
	if m == [6]byte{} {
		return ""
	}
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

func (l *loader) hostname() string {
	v, line := l.firstLine(fileHostname)
	if v == "" {
		return defaultHostname
	}
	if problem := checkHostname(v); problem != "" {
		l.warn(Warning{File: fileHostname, Line: line, Value: v, Problem: problem, Used: defaultHostname})
		return defaultHostname
	}
	return v
}

func checkHostname(s string) string {
	if !isName(s, 63) {
		return "not a host name of letters, digits and '-'"
	}
	return ""
}

func (l *loader) tz() string {
	v, line := l.firstLine(fileTZ)
	if v == "" {
		return defaultTZ
	}
	if problem := checkTZ(v); problem != "" {
		l.warn(Warning{File: fileTZ, Line: line, Value: v, Problem: problem, Used: defaultTZ})
		return defaultTZ
	}
	return v
}

func (l *loader) leds() LEDs {
	leds := LEDs{Mode: LEDsBright}
	all, _ := l.entries(fileLEDs)
	l.each(fileLEDs, all, func(e entry) verdict {
		if e.key != "MODE" {
			return verdict{problem: unknown}
		}
		v := oneOf(e.value, LEDsOff, LEDsDim, LEDsBright).using(leds.Mode)
		if v.problem == "" {
			leds.Mode = e.value
		}
		return v
	})
	return leds
}

func (l *loader) netwatch() Netwatch {
	n := Netwatch{FailMinutes: 15, PollSeconds: 30, MaxReboots: 3, WindowHours: 24}
	all, _ := l.entries(fileNetwatch)
	l.each(fileNetwatch, all, func(e entry) verdict {
		switch v := e.value; e.key {
		case "ENABLED":
			return setBool(&n.Enabled, v)
		case "DRY_RUN":
			return setBool(&n.DryRun, v)
		case "FAIL_MIN":
			return setInt(&n.FailMinutes, v, 1, 1440)
		case "POLL_SEC":
			return setInt(&n.PollSeconds, v, 5, 3600)
		case "MAX_REBOOT":
			return setInt(&n.MaxReboots, v, 0, 100)
		case "WINDOW_H":
			return setInt(&n.WindowHours, v, 1, 720)
		case "TARGETS":
			const most = 8
			bad := ""
			n.Targets, bad = parseTargets(v)
			used := "the others"
			if len(n.Targets) == 0 {
				used = "the default gateway"
			}
			switch {
			case bad != "":
				return verdict{problem: strconv.Quote(bad) + " is neither an address nor a name", used: used}
			case len(n.Targets) > most:
				n.Targets = n.Targets[:most]
				return verdict{problem: "more than 8 targets", used: "the first 8"}
			}
		default:
			return verdict{problem: unknown}
		}
		return verdict{}
	})
	return n
}

func (l *loader) wireguard() WireGuard {
	w := WireGuard{Interface: defaultTunnel}
	all, _ := l.entries(fileTunnel)
	l.each(fileTunnel, all, func(e entry) verdict {
		switch v := e.value; e.key {
		case "ENABLED":
			return setBool(&w.Enabled, v)
		case "INTERFACE":
			if !isTunnelName(v) {
				return verdict{problem: "not a name for a tunnel: up to 15 letters and digits, and no other interface's", used: defaultTunnel}
			}
			w.Interface = v
		case "MTU":
			return number(v, 576, 65535, 0, &w.MTU).using("the tunnel's default")
		case "ADDRESS":
			var bad verdict
			w.Addresses, bad = tunnelPrefixes(v, false)
			return bad
		case "ROUTES":
			var bad verdict
			w.Routes, bad = tunnelPrefixes(v, true)
			return bad
		default:
			return verdict{problem: unknown}
		}
		return verdict{}
	})
	return w
}

// isTunnelName tells whether an interface may have that name without being
// taken for one that the box has anyway.
func isTunnelName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 15 && s != "lo" && !strings.HasPrefix(s, "eth") && !strings.HasPrefix(s, "wpan")
}

// tunnelPrefixes reads addresses and prefixes between commas or blanks: those of
// hosts, or networks, where everything is none.
func tunnelPrefixes(s string, network bool) (all []netip.Prefix, bad verdict) {
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		p, ok := prefix.Host(f)
		switch {
		case !ok:
			bad = verdict{problem: strconv.Quote(clip(f)) + " is neither an address nor a prefix", used: "the others"}
		case network && p.Bits() == 0:
			bad = verdict{problem: "the tunnel's own packets would go into the tunnel by " + f, used: "the others"}
		case network:
			all = append(all, p.Masked())
		default:
			all = append(all, p)
		}
	}
	return all, bad
}

// isKnobs tells whether v is a list as in ETH_KNOBS. Which names there are is
// the tuner's matter.
func isKnobs(v string) bool {
	for f := range strings.FieldsSeq(v) {
		if name, value, ok := strings.Cut(f, "="); !ok || name == "" || value == "" || strings.Contains(value, "=") {
			return false
		}
	}
	return true
}

// parseTargets reads addresses and names between blanks or commas; bad is the
// first that is neither. What ends like an IPv4 address is no name.
func parseTargets(s string) (all []string, bad string) {
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		a, err := netip.ParseAddr(f)
		ok := err == nil && !a.IsUnspecified() && !a.IsMulticast()
		if err != nil {
			name := strings.TrimSuffix(f, ".")
			ok = isName(name, 253) && strings.Trim(name[strings.LastIndexByte(name, '.')+1:], "0123456789") != ""
		}
		switch {
		case ok:
			all = append(all, f)
		case bad == "":
			bad = f
		}
	}
	return all, bad
}

func (l *loader) gateway() Gateway {
	g := Gateway{LogKiB: 64}
	all, _ := l.entries(fileGateway)
	l.each(fileGateway, all, func(e entry) verdict {
		switch e.key {
		case "GW_LOG_KIB":
			return setInt(&g.LogKiB, e.value, minLogKiB, maxLogKiB)
		case "ETH_PROFILE":
			if w := oneOf(e.value, EthProfiles[:]...); w.problem != "" {
				return w.using(EthProfiles[0])
			}
			g.Ethernet.Profile = e.value
		case "ETH_KNOBS":
			if !isKnobs(e.value) {
				return verdict{problem: "not a list of name=value between blanks; gwctl eth names the knobs", used: "none of them"}
			}
			g.Ethernet.Knobs = e.value
		case "ETH_QDISC":
			if w := oneOf(e.value, QdiscFQCodel, QdiscDefault); w.problem != "" {
				return w.using(QdiscFQCodel)
			}
			g.Ethernet.Qdisc = e.value
		case "GW_NETWATCH_DRIVER":
			return setBool(&g.NetwatchDriver, e.value)
		case "FIREWALL":
			return setBool(&g.Firewall.On, e.value)
		case "FIREWALL_ALLOW":
			var w verdict
			g.Firewall.Allow, w.problem = ParseOpenings(e.value)
			if w.problem != "" {
				w.used = cmp.Or(joinOpenings(g.Firewall.Allow), "none of them")
			}
			return w
		case "METRICS":
			listen, ok := parseListen(e.value)
			if !ok {
				return verdict{problem: "neither on, off nor [ADDRESS][:PORT]", used: "off"}
			}
			g.Metrics = listen
		case "METRICS_ALLOW":
			var w verdict
			if g.MetricsAllow, w = parseAllow(e.value); w.problem != "" {
				return w.using(cmp.Or(joinPrefixes(g.MetricsAllow), "local networks only"))
			}
		case "SYSLOG":
			to, ok := parseSyslog(e.value)
			if !ok {
				return verdict{problem: "neither off, udp://HOST[:PORT] nor tcp://HOST[:PORT]", used: "off"}
			}
			g.Syslog = to
		default:
			return verdict{problem: unknown}
		}
		return verdict{}
	})
	return g
}

// maxOpenings is how many entries FIREWALL_ALLOW has; one with @bridge is
// several rules.
const maxOpenings = 8

// ParseOpenings reads what FIREWALL_ALLOW has: PROTOCOL/PORT, PROTOCOL/PORT-PORT,
// each with @ADDRESS, @PREFIX or @bridge behind it if not everybody is meant,
// between blanks or commas. problem is what is wrong with the first that is none
// of it, "" if nothing is; the others are returned.
func ParseOpenings(s string) (all []Opening, problem string) {
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' }) {
		o, ok := parseOpening(f)
		switch {
		case !ok && problem == "":
			problem = strconv.Quote(clip(f)) + " is no port such as tcp/8081, udp/5683-5684 or tcp/9100@192.168.1.20"
		case !ok:
		case len(all) == maxOpenings:
			problem = "more than " + strconv.Itoa(maxOpenings) + " of them"
		default:
			all = append(all, o)
		}
	}
	return all, problem
}

func parseOpening(s string) (o Opening, ok bool) {
	s, from, limited := strings.Cut(s, "@")
	kind, ports, _ := strings.Cut(s, "/")
	low, high, span := strings.Cut(ports, "-")
	if !span {
		high = low
	}
	first, ok1 := parseInt(low, 1, 65535)
	last, ok2 := parseInt(high, first, 65535)
	o.UDP, o.First, o.Last, o.Bridge = kind == "udp", uint16(first), uint16(last), from == "bridge"
	ok = ok1 && ok2 && (o.UDP || kind == "tcp")
	if limited && !o.Bridge {
		var ok3 bool
		o.From, ok3 = parsePrefix(from)
		ok = ok && ok3
	}
	return o, ok
}

// joinOpenings writes FIREWALL_ALLOW.
func joinOpenings(all []Opening) string {
	s := make([]string, len(all))
	for i, o := range all {
		s[i] = o.String()
	}
	return strings.Join(s, " ")
}

// parseListen reads METRICS: on, off, or an address, a port, or both.
func parseListen(s string) (listen string, ok bool) {
	switch s {
	case "", "0", "no", "false", "off":
		return "", true
	case "1", "yes", "true", "on":
		return ":" + strconv.Itoa(DefaultMetricsPort), true
	}
	host := s
	if inner, bracket := strings.CutPrefix(s, "["); bracket && strings.HasSuffix(inner, "]") {
		host = strings.TrimSuffix(inner, "]")
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) { // in a zone
		return "", false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a.Unmap(), DefaultMetricsPort).String(), true
	}
	if port, is := strings.CutPrefix(s, ":"); is {
		n, ok := parseInt(port, 1, 1<<16-1)
		return ":" + strconv.Itoa(n), ok
	}
	p, err := netip.ParseAddrPort(s)
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()).String(), err == nil && p.Port() != 0
}

// parseSyslog reads SYSLOG. The ports are those of RFC 5426 and of what
// everybody uses for RFC 6587.
func parseSyslog(s string) (to Syslog, ok bool) {
	if s == "" || s == "off" {
		return Syslog{}, true
	}
	host, port := "", ""
	for _, n := range []struct{ network, port string }{{"udp", "514"}, {"tcp", "601"}} {
		if rest, is := strings.CutPrefix(s, n.network+"://"); is {
			to.Network, host, port = n.network, rest, n.port
		}
	}
	inner, bracket := strings.CutPrefix(host, "[")
	switch {
	case bracket && strings.HasSuffix(inner, "]"):
		host = strings.TrimSuffix(inner, "]")
	case bracket || strings.Count(host, ":") == 1:
		i := strings.LastIndexByte(host, ':')
		if i < 0 {
			return Syslog{}, false
		}
		host, port = host[:i], host[i+1:]
		if bracket {
			if host, ok = strings.CutSuffix(host[1:], "]"); !ok {
				return Syslog{}, false
			}
		}
	}
	n, ok := parseInt(port, 1, 1<<16-1)
	ok = ok && !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) // in a zone
	if _, err := netip.ParseAddr(host); err != nil {
		ok = ok && !bracket && isName(host, 253)
	}
	if !ok || to.Network == "" {
		return Syslog{}, false
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	to.Address = host + ":" + strconv.Itoa(n)
	return to, true
}

// Limits of GW_LOG_KIB: a boot's lines at least, and what 25 MiB can spare:
// PID 1 copies the log for each of its 8 clients that asks for it.
const (
	minLogKiB = 16
	maxLogKiB = 256
)

func setBool(to *bool, v string) verdict {
	switch v {
	case "1", "yes", "true", "on":
		*to = true
	case "0", "no", "false", "off":
		*to = false
	default:
		used := "0"
		if *to {
			used = "1"
		}
		return verdict{problem: "neither 0 nor 1", used: used}
	}
	return verdict{}
}

func setInt(to *int, v string, low, high int) verdict {
	n, ok := parseInt(v, low, high)
	if !ok {
		return verdict{
			problem: "not a number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high),
			used:    strconv.Itoa(*to),
		}
	}
	*to = n
	return verdict{}
}

// ntp reads the lines `server NAME` of ntp.conf, as the incumbent's ntpd does;
// options behind the name are allowed and not used.
func (l *loader) ntp() NTP {
	var n NTP
	text, _ := l.read(fileNTP)
	line := 0
	for s := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line++
		s, _, _ = strings.Cut(s, "#")
		f := strings.Fields(s)
		switch {
		case len(f) == 0:
		case f[0] != "server" && f[0] != "pool":
			l.warn(Warning{File: fileNTP, Line: line, Value: strings.TrimSpace(s), Problem: "not a line `server NAME`"})
		case len(f) < 2 || !isServer(f[1]):
			l.warn(Warning{File: fileNTP, Line: line, Key: keyServer, Value: strings.Join(f[1:], " "), Problem: "names no server"})
		case len(n.Servers) == maxServers:
			l.warn(Warning{File: fileNTP, Line: line, Key: keyServer, Value: f[1], Problem: "more than 8 servers", Used: "the first 8"})
			n.Set = true
			return n
		default:
			n.Servers = append(n.Servers, f[1])
		}
	}
	if n.Set = len(n.Servers) > 0; !n.Set {
		n.Servers = defaultServers()
	}
	return n
}

const maxServers = 8

// defaultServers are the public pool's, which the incumbent gives as its
// example.
func defaultServers() []string { return []string{"0.pool.ntp.org", "1.pool.ntp.org"} }

func isServer(s string) bool {
	_, _, ok := SplitServer(s)
	return ok
}

// SplitServer reads a time server: a name, an IPv4 address or an IPv6 address,
// with :PORT behind it if it is not NTP's (the IPv6 address in [] then). port
// is 0 without one.
func SplitServer(s string) (host string, port uint16, ok bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), 0, true
	}
	if a, err := netip.ParseAddrPort(s); err == nil {
		return a.Addr().String(), a.Port(), a.Port() != 0
	}
	host, number, with := strings.Cut(s, ":")
	n := 0
	if with {
		if n, ok = parseInt(number, 1, 65535); !ok {
			return "", 0, false
		}
	}
	return host, uint16(n), isName(strings.TrimSuffix(host, "."), 253)
}

// passwd reads name:hash:uid:gid:comment:home:shell lines.
func (l *loader) passwd() []User {
	var users []User
	text, _ := l.read(filePasswd)
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimRight(s, "\r\n")
		if strings.Trim(s, " \t") == "" || s[0] == '#' {
			continue
		}
		f := strings.Split(s, ":")
		if len(f) != 7 || f[0] == "" || strings.IndexByte(s, 0) >= 0 {
			// The value is not shown: it may hold a hash.
			l.warn(Warning{File: filePasswd, Line: line, Problem: "not a line of seven fields"})
			continue
		}
		uid, ok := parseInt(f[2], 0, 1<<30)
		gid, ok2 := parseInt(f[3], 0, 1<<30)
		if !ok || !ok2 {
			l.warn(Warning{File: filePasswd, Line: line, Key: f[0], Problem: "user or group is not a number"})
			continue
		}
		users = append(users, User{Name: f[0], Hash: f[1], UID: uid, GID: gid, Home: f[5], Shell: f[6]})
	}
	return users
}

// thread tells whether a Thread network is stored.
func (l *loader) thread() bool {
	d, err := os.Open(filepath.Join("/", l.root, dirThread))
	if err != nil {
		return false
	}
	defer d.Close()
	names, _ := d.Readdirnames(1)
	return len(names) > 0
}
