package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gwinit/board/rtl8196e"
)

func board(t testing.TB, id string) rtl8196e.Board {
	t.Helper()
	b, ok := rtl8196e.ByID(id)
	if !ok {
		t.Fatalf("no board %s", id)
	}
	return b
}

// box makes a root with those files, by their path on the box.
func box(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "userdata"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func texts(all []Warning) []string {
	var s []string
	for _, w := range all {
		s = append(s, w.String())
	}
	return s
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\n got %+v\nwant %+v", what, got, want)
	}
}

// INV 10: without /userdata there is a configuration, and nothing to complain
// about.
func TestLoadNothing(t *testing.T) {
	for _, id := range []string{rtl8196e.Lidl, rtl8196e.Sengled, rtl8196e.Emulated} {
		c, warnings := Load(t.TempDir(), board(t, id))
		same(t, id, c, Config{
			Radio: Radio{Mode: "zigbee", Baud: 460800},
			Network: Network{
				Fallback: Static{
					Addr:    netip.MustParsePrefix("192.168.1.254/24"),
					Gateway: netip.MustParseAddr("192.168.1.1"),
					DNS:     []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("1.1.1.1")},
				},
				Hostname: "rtl8196e-gw",
			},
			LEDs:     LEDs{Mode: "bright"},
			Netwatch: Netwatch{FailMinutes: 15, PollSeconds: 30, MaxReboots: 3, WindowHours: 24},
			NTP:      NTP{Servers: []string{"0.pool.ntp.org", "1.pool.ntp.org"}},
			Gateway:  Gateway{LogKiB: 64},
			Tunnel:   WireGuard{Interface: "wg0"},
			Hostname: "rtl8196e-gw",
			TZ:       "UTC0",
		})
		same(t, id+" warnings", texts(warnings), []string(nil))
	}
}

func TestRadio(t *testing.T) {
	const file = fileRadio
	tests := []struct {
		name     string
		board    string
		text     string
		want     Radio
		warnings []string
	}{
		{
			name: "as the incumbent's flasher writes it",
			text: "FIRMWARE=ncp\nFIRMWARE_VERSION=7.5.1\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=hw\nBOOTLOADER_VERSION=2.4.2\n",
			want: Radio{
				Mode: "zigbee", Baud: 115200, Flow: "hw", FlowSet: true,
				Firmware: "ncp", FirmwareVersion: "7.5.1", BootloaderVersion: "2.4.2",
			},
		},
		{name: "empty file", text: "", want: Radio{Mode: "zigbee", Baud: 460800}},
		{name: "last wins", text: "FIRMWARE_BAUD=115200\nFIRMWARE_BAUD=230400\n", want: Radio{Mode: "zigbee", Baud: 230400}},
		{name: "an overridden value is not complained about", text: "FIRMWARE_BAUD=fast\nFIRMWARE_BAUD=230400\n", want: Radio{Mode: "zigbee", Baud: 230400}},
		{name: "691200", text: "FIRMWARE_BAUD=691200", want: Radio{Mode: "zigbee", Baud: 691200}},
		{name: "892857", text: "FIRMWARE_BAUD=892857", want: Radio{Mode: "zigbee", Baud: 892857}},
		{
			name: "a baud rate nobody uses", text: "\nFIRMWARE_BAUD=1000000\n",
			want:     Radio{Mode: "zigbee", Baud: 1000000},
			warnings: []string{file + `:2: FIRMWARE_BAUD="1000000": radio firmware is known for 115200, 230400, 460800, 691200 and 892857; using 1000000`},
		},
		{
			name: "no baud rate", text: "FIRMWARE_BAUD=-1\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: FIRMWARE_BAUD="-1": not a baud rate from 1200 to 4000000; using 460800`},
		},
		{
			name: "baud rate out of reach", text: "FIRMWARE_BAUD=4000001\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: FIRMWARE_BAUD="4000001": not a baud rate from 1200 to 4000000; using 460800`},
		},
		{name: "legacy key", text: "BRIDGE_BAUD=115200\nOTBR_BAUD=230400\n", want: Radio{Mode: "zigbee", Baud: 115200}},
		{name: "legacy key for the other mode", text: "OTBR_BAUD=230400\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{name: "legacy key of OTBR", text: "BRIDGE_BAUD=115200\nOTBR_BAUD=230400\nMODE=otbr\n", want: Radio{Mode: "otbr", Baud: 230400}},
		{name: "legacy key loses", text: "FIRMWARE_BAUD=460800\nBRIDGE_BAUD=115200\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{name: "legacy key behind an empty one", text: "FIRMWARE_BAUD=\nBRIDGE_BAUD=115200\n", want: Radio{Mode: "zigbee", Baud: 115200}},
		{
			name: "bad legacy key", text: "# old\nBRIDGE_BAUD=x\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:2: BRIDGE_BAUD="x": not a baud rate from 1200 to 4000000; using 460800`},
		},
		{
			name: "the border router", text: "MODE=otbr\nOTBR_REST_BIND=::1\nOTBR_TXPOWER=0\nOTBR_LOG_LEVEL=5\n",
			want: Radio{Mode: "otbr", Baud: 460800, OTBR: OTBR{RESTBind: "::1", RESTSet: true, txPower: new(0), logLevel: new(5)}},
		},
		{name: "an open REST", text: "MODE=otbr\nOTBR_REST_BIND=::\n", want: Radio{Mode: "otbr", Baud: 460800, OTBR: OTBR{RESTSet: true}}},
		{
			name: "a border router by mistake", text: "MODE=otbr\nOTBR_REST_BIND=lan\nOTBR_TXPOWER=loud\nOTBR_LOG_LEVEL=6\n",
			want: Radio{Mode: "otbr", Baud: 460800, OTBR: OTBR{RESTBind: "127.0.0.1", RESTSet: true, logLevel: new(2)}},
			warnings: []string{
				file + `:2: OTBR_REST_BIND="lan": not an address to listen on; using 127.0.0.1`,
				file + `:3: OTBR_TXPOWER="loud": not a power from -30 to 20 dBm; using 4`,
				file + `:4: OTBR_LOG_LEVEL="6": not a number from 0 to 5; using 2`,
			},
		},
		{name: "OTBR", text: "MODE=otbr\nFIRMWARE_BAUD=230400\n", want: Radio{Mode: "otbr", Baud: 230400}},
		{
			name: "OTBR takes the five rates only", text: "MODE=otbr\nFIRMWARE_BAUD=1000000\n", want: Radio{Mode: "otbr", Baud: 460800},
			warnings: []string{file + `:2: FIRMWARE_BAUD="1000000": otbr-agent knows 115200, 230400, 460800, 691200 and 892857; using 460800`},
		},
		{
			name: "mode by its beginning", text: "MODE=otbr-agent\n", want: Radio{Mode: "otbr", Baud: 460800},
			warnings: []string{file + `:1: MODE="otbr-agent": a line MODE=otbr, exact or by its beginning, decides; using otbr`},
		},
		{
			name: "mode by any line", text: "MODE=otbr\nMODE=zigbee\n", want: Radio{Mode: "otbr", Baud: 460800},
			warnings: []string{file + `:2: MODE="zigbee": a line MODE=otbr, exact or by its beginning, decides; using otbr`},
		},
		{name: "mode zigbee", text: "MODE=zigbee\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{
			name: "mode nobody knows", text: "MODE=thread\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: MODE="thread": neither otbr nor zigbee; using zigbee`},
		},
		{name: "flow none", text: "FIRMWARE_FLOW_CTRL=none\n", want: Radio{Mode: "zigbee", Baud: 460800, Flow: "none", FlowSet: true}},
		{
			name: "flow bad", text: "FIRMWARE_FLOW_CTRL=rtscts\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: FIRMWARE_FLOW_CTRL="rtscts": neither none, sw nor hw; using the kernel's or the board's default`},
		},
		{
			name: "flow that is not wired", board: rtl8196e.Sengled, text: "FIRMWARE_FLOW_CTRL=hw\n",
			want:     Radio{Mode: "zigbee", Baud: 460800, Flow: "sw", FlowSet: true},
			warnings: []string{file + `:1: FIRMWARE_FLOW_CTRL="hw": RTS and CTS are not wired on this board; using sw`},
		},
		{name: "bind to loopback", text: "BRIDGE_BIND=127.0.0.1\n", want: Radio{Mode: "zigbee", Baud: 460800, Bind: "127.0.0.1"}},
		{name: "bind to everything", text: "BRIDGE_BIND=0.0.0.0\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{name: "bind to IPv4, mapped", text: "BRIDGE_BIND=::ffff:10.0.0.1\n", want: Radio{Mode: "zigbee", Baud: 460800, Bind: "10.0.0.1"}},
		{name: "bind to everything, mapped", text: "BRIDGE_BIND=::ffff:0.0.0.0\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{name: "bind to IPv6", text: "BRIDGE_BIND=FD00::1\n", want: Radio{Mode: "zigbee", Baud: 460800, Bind: "fd00::1"}},
		{
			name: "engine kernel", text: "BRIDGE_ENGINE=kernel\nBRIDGE_BIND=10.0.0.1\n",
			want: Radio{Mode: "zigbee", Baud: 460800, Bind: "10.0.0.1", KernelEngine: true},
		},
		{name: "engine user", text: "BRIDGE_ENGINE=kernel\nBRIDGE_ENGINE=user\n", want: Radio{Mode: "zigbee", Baud: 460800}},
		{
			name: "door", text: "BRIDGE_CLAIM_MS=50\nBRIDGE_STALL_S=3600\nBRIDGE_TAKEOVER=same-host\nBRIDGE_ALLOW='192.168.1.7/24, 10.0.0.1 ::ffff:10.0.1.0/120,fd00::/8'\n",
			want: Radio{Mode: "zigbee", Baud: 460800, Door: Door{
				ClaimMS: 50, StallS: 3600, Takeover: TakeoverSameHost,
				Allow: prefixes("192.168.1.0/24", "10.0.0.1/32", "10.0.1.0/24", "fd00::/8"),
			}},
		},
		{
			name: "door that is none", text: "BRIDGE_CLAIM_MS=49\nBRIDGE_STALL_S=5s\nBRIDGE_TAKEOVER=oldest\nBRIDGE_ALLOW=lan,10.0.0.1,fe80::1%eth0,::ffff:0.0.0.0/95\n",
			want: Radio{Mode: "zigbee", Baud: 460800, Door: Door{Allow: prefixes("10.0.0.1/32")}},
			warnings: []string{
				file + `:1: BRIDGE_CLAIM_MS="49": not a number from 50 to 10000; using 250`,
				file + `:2: BRIDGE_STALL_S="5s": not a number from 5 to 3600; using 30`,
				file + `:3: BRIDGE_TAKEOVER="oldest": neither newest, same-host nor never; using newest`,
				file + `:4: BRIDGE_ALLOW="lan,10.0.0.1,fe80::1%eth0,::ffff:0.0.0.0/95": "lan" is neither an address nor a prefix; using 10.0.0.1`,
			},
		},
		{
			name: "a list of nonsense is no open door", text: "BRIDGE_ALLOW=lan\n", want: Radio{Mode: "zigbee", Baud: 460800, Door: Door{Allow: prefixes()}},
			warnings: []string{file + `:1: BRIDGE_ALLOW="lan": "lan" is neither an address nor a prefix; using the gateway itself only`},
		},
		{
			name: "nor is one of commas", text: "BRIDGE_ALLOW=,\n", want: Radio{Mode: "zigbee", Baud: 460800, Door: Door{Allow: prefixes()}},
			warnings: []string{file + `:1: BRIDGE_ALLOW=",": neither an address nor a prefix; using the gateway itself only`},
		},
		{
			name: "a list that is too long", text: "BRIDGE_ALLOW=" + strings.Repeat("10.0.0.1,", 17) + "\n",
			want:     Radio{Mode: "zigbee", Baud: 460800, Door: Door{Allow: prefixes(slices.Repeat([]string{"10.0.0.1/32"}, 16)...)}},
			warnings: []string{file + `:1: BRIDGE_ALLOW="` + strings.Repeat("10.0.0.1,", 6) + `10.0.0...": more than 16 of them; using ` + strings.TrimSuffix(strings.Repeat("10.0.0.1,", 16), ",")},
		},
		{
			name: "another engine", text: "BRIDGE_ENGINE=fast\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: BRIDGE_ENGINE="fast": neither user nor kernel; using user`},
		},
		{
			name: "engine kernel on IPv6", text: "BRIDGE_ENGINE=kernel\nBRIDGE_BIND=fd00::1\n", want: Radio{Mode: "zigbee", Baud: 460800, Bind: "fd00::1"},
			warnings: []string{file + `: BRIDGE_ENGINE="kernel": the kernel's bridge cannot listen on fd00::1: it has IPv4 only; using user`},
		},
		{
			name: "bind to a name", text: "BRIDGE_BIND=localhost\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: BRIDGE_BIND="localhost": not an address to listen on; using every address`},
		},
		{
			name: "bind to a link", text: "BRIDGE_BIND=fe80::1%eth0\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: BRIDGE_BIND="fe80::1%eth0": a link-local address is one on each interface; using every address`},
		},
		{
			name: "unknown key", text: "FIRMWARE_BUAD=115200\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{file + `:1: FIRMWARE_BUAD="115200": unknown key`},
		},
		{
			name: "noise", text: "\x00\x00\nhello\n", want: Radio{Mode: "zigbee", Baud: 460800},
			warnings: []string{
				file + ":1: holds zero bytes, as a power cut leaves them",
				file + `:2: "hello": not KEY=value`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := tt.board
			if id == "" {
				id = rtl8196e.Lidl
			}
			r, warnings := LoadRadio(box(t, map[string]string{file: tt.text}), board(t, id))
			same(t, "radio", r, tt.want)
			same(t, "warnings", texts(warnings), tt.warnings)
		})
	}
}

func prefixes(all ...string) []netip.Prefix {
	p := []netip.Prefix{}
	for _, s := range all {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func static(addr, gateway, domain string, dns ...string) *Static {
	s := &Static{Addr: netip.MustParsePrefix(addr), Domain: domain}
	if gateway != "" {
		s.Gateway = netip.MustParseAddr(gateway)
	}
	for _, d := range dns {
		s.DNS = append(s.DNS, netip.MustParseAddr(d))
	}
	return s
}

func TestNetwork(t *testing.T) {
	const e = fileEth0
	tests := []struct {
		name     string
		files    map[string]string
		static   *Static
		fallback *Static // nil: the last resort
		mac      [6]byte
		host     string // "": the default
		warnings []string
	}{
		{
			name:   "static as a shell reads it",
			files:  map[string]string{e: "# home\nIPADDR=192.168.1.88\nNETMASK='255.255.254.0'\nexport GATEWAY=192.168.1.1\nDNS=\"192.168.1.1 fd00::53\"\nDOMAIN=home.lan\r\n"},
			static: static("192.168.1.88/23", "192.168.1.1", "home.lan", "192.168.1.1", "fd00::53"),
		},
		{
			name:   "DNS is the gateway",
			files:  map[string]string{e: "IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\n"},
			static: static("10.0.0.2/8", "10.0.0.1", "", "10.0.0.1"),
		},
		{
			name:   "prefix lengths",
			files:  map[string]string{e: "IPADDR=10.0.0.2/16\nGATEWAY=10.0.0.1\n"},
			static: static("10.0.0.2/16", "10.0.0.1", "", "10.0.0.1"),
		},
		{
			name:   "mask as a number",
			files:  map[string]string{e: "NETMASK=/20\nIPADDR=10.0.0.2/16\nGATEWAY=10.0.0.1\n"},
			static: static("10.0.0.2/20", "10.0.0.1", "", "10.0.0.1"),
		},
		{
			name:     "mask and gateway missing",
			files:    map[string]string{e: "IPADDR=10.0.0.2\n"},
			static:   static("10.0.0.2/24", "", ""),
			warnings: []string{e + ": NETMASK: missing; using 255.255.255.0", e + ": GATEWAY: missing; using no default route"},
		},
		{
			name:   "mask and gateway bad",
			files:  map[string]string{e: "IPADDR=10.0.0.2\nNETMASK=255.0.255.0\nGATEWAY=router\n"},
			static: static("10.0.0.2/24", "", ""),
			warnings: []string{
				e + `:2: NETMASK="255.0.255.0": not a netmask; using 255.255.255.0`,
				e + `:3: GATEWAY="router": not an IPv4 address; using no default route`,
			},
		},
		{
			name:     "no address",
			files:    map[string]string{e: ""},
			warnings: []string{e + ": IPADDR: missing; using DHCP"},
		},
		{
			name:     "bad address",
			files:    map[string]string{e: "IPADDR=192.168.1\nNETMASK=255.255.255.0\nGATEWAY=192.168.1.1\n"},
			warnings: []string{e + `:1: IPADDR="192.168.1": not an IPv4 address; using DHCP`},
		},
		{
			name:   "bad DNS and domain",
			files:  map[string]string{e: "IPADDR=10.0.0.2\nNETMASK=255.0.0.0\nGATEWAY=10.0.0.1\nDNS=\"1.1.1.1 dns.example\"\nDOMAIN='a..b'\n"},
			static: static("10.0.0.2/8", "10.0.0.1", "", "1.1.1.1"),
			warnings: []string{
				e + `:4: DNS="1.1.1.1 dns.example": "dns.example" is not an address; using the others`,
				e + `:5: DOMAIN="a..b": not a domain name; using no search domain`,
			},
		},
		{
			name:     "fallback",
			files:    map[string]string{fileFallback: "IPADDR=192.168.7.254\nNETMASK=255.255.255.0\nGATEWAY=192.168.7.1\n"},
			fallback: static("192.168.7.254/24", "192.168.7.1", "", "8.8.8.8", "1.1.1.1"),
		},
		{
			name:     "fallback with DNS",
			files:    map[string]string{fileFallback: "IPADDR=192.168.7.254\nNETMASK=255.255.255.0\nGATEWAY=192.168.7.1\nDNS=9.9.9.9\n"},
			fallback: static("192.168.7.254/24", "192.168.7.1", "", "9.9.9.9"),
		},
		{
			name:     "torn fallback",
			files:    map[string]string{fileFallback: "IPADDR=\n"},
			warnings: []string{fileFallback + ": IPADDR: missing; using 192.168.1.254/24"},
		},
		{name: "MAC as the incumbent wrote it", files: map[string]string{fileMAC: "02:AB:0C:01:02:03\n"}, mac: [6]byte{0x02, 0xab, 0x0c, 0x01, 0x02, 0x03}},
		{name: "MAC with dashes", files: map[string]string{fileMAC: "02-0a-FF-00-00-01"}, mac: [6]byte{0x02, 0x0a, 0xff, 5: 0x01}},
		{name: "empty MAC", files: map[string]string{fileMAC: "\n"}},
		{
			name: "group's MAC", files: map[string]string{fileMAC: "03:00:00:00:00:01\n"},
			warnings: []string{fileMAC + `:1: "03:00:00:00:00:01": not the MAC address of a host; using the one in force, or a new one`},
		},
		{
			name: "zero MAC", files: map[string]string{fileMAC: "00-00-00-00-00-00"},
			warnings: []string{fileMAC + `:1: "00-00-00-00-00-00": not the MAC address of a host; using the one in force, or a new one`},
		},
		{
			name: "short MAC", files: map[string]string{fileMAC: "\n02:00:00:00:00:1\n"},
			warnings: []string{fileMAC + `:2: "02:00:00:00:00:1": not the MAC address of a host; using the one in force, or a new one`},
		},
		{
			name: "MAC of other letters", files: map[string]string{fileMAC: "02:00:00:00:00:0g"},
			warnings: []string{fileMAC + `:1: "02:00:00:00:00:0g": not the MAC address of a host; using the one in force, or a new one`},
		},
		{
			name: "MAC of other signs", files: map[string]string{fileMAC: "02:00:00:00.00:01"},
			warnings: []string{fileMAC + `:1: "02:00:00:00.00:01": not the MAC address of a host; using the one in force, or a new one`},
		},
		{name: "host name", files: map[string]string{fileHostname: "zigbee-attic\n"}, host: "zigbee-attic"},
		{
			name: "bad host name", files: map[string]string{fileHostname: "my gateway\n"},
			warnings: []string{fileHostname + `:1: "my gateway": not a host name of letters, digits and '-'; using rtl8196e-gw`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, warnings := LoadNetwork(box(t, tt.files))
			want := Network{Static: tt.static, Fallback: lastResort(), MAC: tt.mac, Hostname: "rtl8196e-gw"}
			if tt.fallback != nil {
				want.Fallback = *tt.fallback
			}
			if tt.host != "" {
				want.Hostname = tt.host
			}
			same(t, "network", n, want)
			same(t, "warnings", texts(warnings), tt.warnings)
		})
	}
}

// An address, a mask and a gateway that do not fit each other.
func TestStaticFits(t *testing.T) {
	const onLink = true
	tests := []struct {
		name          string
		addr, gateway string
		want          string // the gateway used, "" for none; "DHCP" when nothing is used
		onLink        bool
		line          int // that the warning is about
		warning       string
	}{
		{"fits", "10.0.2.5/24", "10.0.2.1", "10.0.2.1", false, 0, ""},
		{"point to point", "10.0.2.0/31", "10.0.2.1", "10.0.2.1", false, 0, ""},
		{"one host", "10.0.2.5/32", "10.0.2.1", "10.0.2.1", onLink, 2, "not in 10.0.2.5/32, so taken to be on the cable; using 10.0.2.1"},
		{"gateway elsewhere", "10.0.2.5/24", "10.0.3.1", "10.0.3.1", onLink, 2, "not in 10.0.2.0/24, so taken to be on the cable; using 10.0.3.1"},
		{"gateway is the box", "10.0.2.5/24", "10.0.2.5", "", false, 2, "the box's own address; using no default route"},
		{"gateway is the network", "10.0.2.5/24", "10.0.2.0", "", false, 2, "no host of 10.0.2.0/24; using no default route"},
		{"gateway is everybody", "10.0.2.5/24", "10.0.2.255", "", false, 2, "no host of 10.0.2.0/24; using no default route"},
		{"gateway is loopback", "10.0.2.5/24", "127.0.0.1", "", false, 2, "no host of 10.0.2.0/24; using no default route"},
		{"gateway is nobody", "10.0.2.5/24", "0.0.0.0", "", false, 2, "no host of 10.0.2.0/24; using no default route"},
		{"gateway is a group", "10.0.2.5/24", "224.0.0.1", "", false, 2, "no host of 10.0.2.0/24; using no default route"},
		{"network", "10.0.2.0/24", "10.0.2.1", "DHCP", false, 1, "the address of the network 10.0.2.0/24 itself; using "},
		{"broadcast", "10.0.2.255/24", "10.0.2.1", "DHCP", false, 1, "the broadcast address of 10.0.2.0/24; using "},
		{"broadcast of a /22", "10.0.3.255/22", "10.0.2.1", "DHCP", false, 1, "the broadcast address of 10.0.0.0/22; using "},
		{"this network", "0.1.2.3/24", "10.0.2.1", "DHCP", false, 1, "not an address that a host can have; using "},
		{"reserved", "240.0.0.5/24", "10.0.2.1", "DHCP", false, 1, "not an address that a host can have; using "},
	}
	for _, tt := range tests {
		for file, instead := range map[string]string{fileEth0: "DHCP", fileFallback: "192.168.1.254/24"} {
			t.Run(tt.name+" in "+filepath.Base(file), func(t *testing.T) {
				n, warnings := LoadNetwork(box(t, map[string]string{file: "IPADDR=" + tt.addr + "\nGATEWAY=" + tt.gateway + "\nWHAT=1\n"}))
				got := n.Static
				if file == fileFallback {
					got = &n.Fallback
				}
				var want *Static
				switch {
				case tt.want != "DHCP":
					want = static(tt.addr, tt.want, "")
					want.OnLink = tt.onLink
					if tt.want != "" {
						want.DNS = []netip.Addr{want.Gateway}
					}
					if file == fileFallback {
						want.DNS = lastResort().DNS
					}
				case file == fileFallback:
					l := lastResort()
					want = &l
				}
				same(t, "static", got, want)
				var text []string
				if tt.warning != "" {
					said := []string{"IPADDR=" + strconv.Quote(tt.addr), "GATEWAY=" + strconv.Quote(tt.gateway)}[tt.line-1]
					w := file + ":" + strconv.Itoa(tt.line) + ": " + said + ": " + tt.warning
					if tt.want == "DHCP" {
						w += instead
					}
					text = append(text, w)
				}
				same(t, "warnings", texts(warnings), append(text, file+`:3: WHAT="1": unknown key`))
			})
		}
	}
}

func TestOthers(t *testing.T) {
	tests := []struct {
		name     string
		files    map[string]string
		get      func(Config) any
		want     any
		warnings []string
	}{
		{
			"LEDs",
			map[string]string{fileLEDs: "MODE=dim # at night\n"},
			func(c Config) any { return c.LEDs.Mode }, "dim", nil,
		},
		{
			"LEDs bad",
			map[string]string{fileLEDs: "MODE=on\nX=1\n"},
			func(c Config) any { return c.LEDs.Mode }, "bright",
			[]string{fileLEDs + `:1: MODE="on": neither off, dim nor bright; using bright`, fileLEDs + `:2: X="1": unknown key`},
		},
		{
			"netwatch",
			map[string]string{fileNetwatch: "ENABLED=1\nTARGETS=\"10.0.0.1 fd00::1,gateway nas.lan. 1e100.net\"\nFAIL_MIN=5\nPOLL_SEC=10\nMAX_REBOOT=0\nWINDOW_H=12\nDRY_RUN=1\n"},
			func(c Config) any { return c.Netwatch },
			Netwatch{
				Enabled: true, Targets: []string{"10.0.0.1", "fd00::1", TargetGateway, "nas.lan.", "1e100.net"},
				FailMinutes: 5, PollSeconds: 10, WindowHours: 12, DryRun: true,
			},
			nil,
		},
		{
			"netwatch bad",
			map[string]string{fileNetwatch: "ENABLED=maybe\nTARGETS=10.0.0.300\nFAIL_MIN=0\nMAX_REBOOT=1000\n"},
			func(c Config) any { return c.Netwatch },
			Netwatch{FailMinutes: 15, PollSeconds: 30, MaxReboots: 3, WindowHours: 24},
			[]string{
				fileNetwatch + `:1: ENABLED="maybe": neither 0 nor 1; using 0`,
				fileNetwatch + `:2: TARGETS="10.0.0.300": "10.0.0.300" is neither an address nor a name; using the default gateway`,
				fileNetwatch + `:3: FAIL_MIN="0": not a number from 1 to 1440; using 15`,
				fileNetwatch + `:4: MAX_REBOOT="1000": not a number from 0 to 100; using 3`,
			},
		},
		{
			"netwatch with targets of which some are good",
			map[string]string{fileNetwatch: "TARGETS=\"ff02::1 a_b -c 0.0.0.0 10.0.0.9\"\n"},
			func(c Config) any { return c.Netwatch.Targets },
			[]string{"a_b", "10.0.0.9"},
			[]string{fileNetwatch + `:1: TARGETS="ff02::1 a_b -c 0.0.0.0 10.0.0.9": "ff02::1" is neither an address nor a name; using the others`},
		},
		{
			"netwatch with nine targets",
			map[string]string{fileNetwatch: "TARGETS='10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8 10.0.0.9'\n"},
			func(c Config) any { return len(c.Netwatch.Targets) }, 8,
			[]string{fileNetwatch + `:1: TARGETS="10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0...": more than 8 targets; using the first 8`},
		},
		{
			"NTP",
			map[string]string{fileNTP: "# mine\nserver 192.168.1.1 iburst\npool time.example.\nserver fd00::1\nserver [fd00::1]:1123\nserver a:123\n"},
			func(c Config) any { return c.NTP.Servers },
			[]string{"192.168.1.1", "time.example.", "fd00::1", "[fd00::1]:1123", "a:123"},
			nil,
		},
		{
			"NTP bad",
			map[string]string{fileNTP: "server\nserver a_b/c\ndriftfile /x\nserver a:0\nserver a:b:1\n"},
			func(c Config) any { return c.NTP.Servers },
			[]string{"0.pool.ntp.org", "1.pool.ntp.org"},
			[]string{
				fileNTP + ":1: server: names no server",
				fileNTP + `:2: server="a_b/c": names no server`,
				fileNTP + ":3: \"driftfile /x\": not a line `server NAME`",
				fileNTP + `:4: server="a:0": names no server`,
				fileNTP + `:5: server="a:b:1": names no server`,
			},
		},
		{
			"time zone",
			map[string]string{fileTZ: "CET-1CEST,M3.5.0/2,M10.5.0/3\n"},
			func(c Config) any { return c.TZ }, "CET-1CEST,M3.5.0/2,M10.5.0/3", nil,
		},
		{
			"time zone by name",
			map[string]string{fileTZ: "Europe/Berlin\n"},
			func(c Config) any { return c.TZ }, "UTC0",
			[]string{fileTZ + `:1: "Europe/Berlin": not a POSIX time zone such as CET-1CEST,M3.5.0,M10.5.0/3; using UTC0`},
		},
		{
			"passwd",
			map[string]string{filePasswd: "root:$6$x$y:0:0:root:/root:/bin/ash\n\nbroken:x:0\nz:a:b:0::/:\n"},
			func(c Config) any { return c.Users },
			[]User{{"root", "$6$x$y", 0, 0, "/root", "/bin/ash"}},
			[]string{filePasswd + ":3: not a line of seven fields", filePasswd + ":4: z: user or group is not a number"},
		},
		{
			"gateway.conf",
			map[string]string{fileGateway: "GW_LOG_KIB=256\nGW_NETWATCH_DRIVER=on\nGW_NEW=1\n"},
			func(c Config) any { return c.Gateway },
			Gateway{LogKiB: 256, NetwatchDriver: true},
			[]string{fileGateway + `:3: GW_NEW="1": unknown key`},
		},
		{
			"gateway.conf bad",
			map[string]string{fileGateway: "GW_LOG_KIB=257\n"},
			func(c Config) any { return c.Gateway.LogKiB }, 64,
			[]string{fileGateway + `:1: GW_LOG_KIB="257": not a number from 16 to 256; using 64`},
		},
		{
			"metrics and syslog",
			map[string]string{fileGateway: "METRICS=on\nMETRICS_ALLOW=203.0.113.7 2001:db8::/32\nSYSLOG=tcp://logs.lan\n"},
			func(c Config) any { return c.Gateway },
			Gateway{
				LogKiB: 64, Metrics: ":9100", MetricsAllow: []netip.Prefix{netip.MustParsePrefix("203.0.113.7/32"), netip.MustParsePrefix("2001:db8::/32")},
				Syslog: Syslog{"tcp", "logs.lan:601"},
			},
			nil,
		},
		{
			"metrics and syslog bad",
			map[string]string{fileGateway: "METRICS=here\nMETRICS_ALLOW=all\nSYSLOG=logs.lan\n"},
			func(c Config) any { return c.Gateway.Metrics + c.Gateway.Syslog.String() },
			"off",
			[]string{
				fileGateway + `:1: METRICS="here": neither on, off nor [ADDRESS][:PORT]; using off`,
				fileGateway + `:2: METRICS_ALLOW="all": "all" is neither an address nor a prefix; using local networks only`,
				fileGateway + `:3: SYSLOG="logs.lan": neither off, udp://HOST[:PORT] nor tcp://HOST[:PORT]; using off`,
			},
		},
		{
			"Ethernet",
			map[string]string{fileGateway: "ETH_PROFILE=latency\nETH_KNOBS=\"kick_threshold=8  rx_checksum=off\"\nETH_QDISC=default\n"},
			func(c Config) any { return c.Gateway.Ethernet },
			Ethernet{Profile: "latency", Knobs: "kick_threshold=8  rx_checksum=off", Qdisc: "default"},
			nil,
		},
		{
			"Ethernet bad",
			map[string]string{fileGateway: "ETH_PROFILE=fast\nETH_KNOBS=kick_threshold\nETH_QDISC=cake\n"},
			func(c Config) any { return c.Gateway.Ethernet },
			Ethernet{},
			[]string{
				fileGateway + `:1: ETH_PROFILE="fast": neither stock, latency, throughput nor bench; using stock`,
				fileGateway + `:2: ETH_KNOBS="kick_threshold": not a list of name=value between blanks; gwctl eth names the knobs; using none of them`,
				fileGateway + `:3: ETH_QDISC="cake": neither fq_codel nor default; using fq_codel`,
			},
		},
		{
			"firewall",
			map[string]string{fileGateway: "FIREWALL=on\nFIREWALL_ALLOW=\"tcp/8081,udp/1-65535 tcp/80@10.0.0.0/8  tcp/5201@bridge\"\n"},
			func(c Config) any { return c.Gateway.Firewall },
			Firewall{On: true, Allow: []Opening{
				{First: 8081, Last: 8081},
				{UDP: true, First: 1, Last: 65535},
				{First: 80, Last: 80, From: netip.MustParsePrefix("10.0.0.0/8")},
				{First: 5201, Last: 5201, Bridge: true},
			}},
			nil,
		},
		{
			"firewall bad",
			map[string]string{fileGateway: "FIREWALL=maybe\nFIREWALL_ALLOW=\"tcp/0 8081 sctp/1 tcp/2-1 udp/70000 tcp/1@ tcp/1@home tcp/5\"\n"},
			func(c Config) any { return c.Gateway.Firewall },
			Firewall{Allow: []Opening{{First: 5, Last: 5}}},
			[]string{
				fileGateway + `:1: FIREWALL="maybe": neither 0 nor 1; using 0`,
				fileGateway + `:2: FIREWALL_ALLOW="tcp/0 8081 sctp/1 tcp/2-1 udp/70000 tcp/1@ tcp/1@home tcp/5": "tcp/0" is no port such as tcp/8081, udp/5683-5684 or tcp/9100@192.168.1.20; using tcp/5`,
			},
		},
		{
			"firewall with too many",
			map[string]string{fileGateway: "FIREWALL_ALLOW=\"tcp/1 tcp/2 tcp/3 tcp/4 tcp/5 tcp/6 tcp/7 tcp/8 tcp/9\"\n"},
			func(c Config) any { return len(c.Gateway.Firewall.Allow) }, 8,
			[]string{fileGateway + `:1: FIREWALL_ALLOW="tcp/1 tcp/2 tcp/3 tcp/4 tcp/5 tcp/6 tcp/7 tcp/8 tcp/9": more than 8 of them; using tcp/1 tcp/2 tcp/3 tcp/4 tcp/5 tcp/6 tcp/7 tcp/8`},
		},
		{
			"a Thread network",
			map[string]string{dirThread + "/0_xyz.data": "x"},
			func(c Config) any { return c.Thread }, true, nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, warnings := Load(box(t, tt.files), board(t, rtl8196e.Lidl))
			same(t, "value", tt.get(c), tt.want)
			same(t, "warnings", texts(warnings), tt.warnings)
		})
	}
}

// What is no file, or is too long, is read up to where it makes sense.
func TestFiles(t *testing.T) {
	lidl := board(t, rtl8196e.Lidl)
	t.Run("a folder", func(t *testing.T) {
		root := box(t, map[string]string{fileRadio + "/x": ""})
		r, warnings := LoadRadio(root, lidl)
		same(t, "radio", r, Radio{Mode: "zigbee", Baud: 460800})
		same(t, "warnings", texts(warnings), []string{fileRadio + ": not a regular file; using the defaults"})
	})
	t.Run("a link that leads nowhere", func(t *testing.T) {
		root := box(t, map[string]string{Dir + "/x": ""})
		if err := os.Symlink("nowhere", filepath.Join(root, fileRadio)); err != nil {
			t.Fatal(err)
		}
		_, warnings := LoadRadio(root, lidl)
		same(t, "warnings", texts(warnings), []string(nil))
	})
	t.Run("too long", func(t *testing.T) {
		// The line that the limit cuts would read as another rate.
		text := "FIRMWARE_BAUD=115200\n" + strings.Repeat("#", maxFile-38) + "\nFIRMWARE_BAUD=230400\n"
		root := box(t, map[string]string{fileRadio: text})
		r, warnings := LoadRadio(root, lidl)
		same(t, "radio", r, Radio{Mode: "zigbee", Baud: 115200})
		same(t, "warnings", texts(warnings), []string{fileRadio + ": longer than 64 KiB; using the beginning"})
	})
	t.Run("noise", func(t *testing.T) {
		root := box(t, map[string]string{fileRadio: strings.Repeat("x\n", 1000)})
		_, warnings := LoadRadio(root, lidl)
		if len(warnings) != maxWarnings+1 || warnings[maxWarnings].Problem != "has more of the same" {
			t.Errorf("%d warnings, the last %q", len(warnings), warnings[len(warnings)-1])
		}
	})
}

func TestCheckTZ(t *testing.T) {
	good := []string{
		"UTC0", "CET-1CEST", "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0", "<+0330>-3:30", "<-03>3",
		"NZST-12NZDT-13,M9.5.0/2,M4.1.0/3", "IST-1GMT0,M10.5.0,M3.5.0/1", "ABC-3:30:15", "EST5EDT4,J60/2,J300",
		"EET-2EEST,M3.5.5/0,M10.5.5/-1", "<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "ABC12",
	}
	bad := []string{
		"", "Europe/Berlin", "CET", "CE-1", "CET-25", "CET-1CEST,", "CET-1CEST,M3.5.0", "CET-1CEST,M13.5.0,M10.5.0",
		"CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,M3.5.0,M10.5.0,", "CET-1CEST,J0,J1", "CET-1 CEST",
		"<CET", "<a>1", "CET-1:60", "UTC0,M3.5.0,M10.5.0 ", "CET-1CEST,M3,M10",
	}
	for _, s := range good {
		if p := checkTZ(s); p != "" {
			t.Errorf("%q: %s", s, p)
		}
	}
	for _, s := range bad {
		if checkTZ(s) == "" {
			t.Errorf("%q is taken", s)
		}
	}
}

// No file stops a boot, and what comes out can be used.
func FuzzLoad(f *testing.F) {
	f.Add("MODE=otbr\nFIRMWARE_BAUD=1\nIPADDR=1.2.3.4/33\nserver x\nroot:x:0:0::/:\n")
	f.Add("CET-1CEST,M3.5.0")
	f.Add("02:00:00:00:00:01")
	f.Fuzz(func(t *testing.T, text string) {
		l := loader{root: t.TempDir(), instead: map[string]string{}}
		for _, file := range []string{
			fileRadio, fileEth0, fileFallback, fileMAC, fileHostname, fileLEDs, fileNetwatch, fileNTP, fileTZ, filePasswd, fileGateway,
		} {
			l.instead[file] = text
		}
		b := board(t, rtl8196e.Sengled)
		c := l.all(b)
		if again, problem := ParseOpenings(joinOpenings(c.Gateway.Firewall.Allow)); problem != "" || !slices.Equal(again, c.Gateway.Firewall.Allow) {
			t.Errorf("written and read %+v is %+v: %s", c.Gateway.Firewall.Allow, again, problem)
		}
		switch {
		case c.Radio.Baud < 1200 || c.Radio.Baud > 4_000_000,
			c.Radio.Mode != ModeZigbee && c.Radio.Mode != ModeOTBR,
			c.Radio.FlowSet != (c.Radio.Flow != ""),
			c.Radio.Flow == FlowHardware,
			!c.Network.Fallback.Addr.IsValid(),
			c.Network.Static != nil && (!c.Network.Static.Addr.IsValid() || checkHost(c.Network.Static.Addr) != ""),
			checkHost(c.Network.Fallback.Addr) != "",
			c.Hostname == "" || len(c.Hostname) > 63,
			len(c.NTP.Servers) == 0 || len(c.NTP.Servers) > maxServers,
			c.TZ == "" || checkTZ(c.TZ) != "",
			len(c.Gateway.Firewall.Allow) > maxOpenings,
			c.Gateway.LogKiB < minLogKiB || c.Gateway.LogKiB > maxLogKiB,
			c.Netwatch.PollSeconds <= 0:
			t.Errorf("%q gives %+v", text, c)
		}
		for _, w := range l.warnings {
			if strings.ContainsAny(w.String(), "\n\x00") {
				t.Errorf("warning of more than a line: %q", w)
			}
		}
	})
}

// The incumbent's keys; a name that is an interface's, and a route by which the
// tunnel would be led into itself, are refused.
func TestLoadWireGuard(t *testing.T) {
	root := box(t, map[string]string{fileTunnel: "ENABLED=1\nINTERFACE=home\nADDRESS='10.8.0.2/24 fd00:8::2/64'\nMTU=1300\nROUTES=10.9.1.1/16,0.0.0.0/0\n"})
	w, warnings := LoadWireGuard(root)
	same(t, "all of it", w, WireGuard{
		Enabled: true, Interface: "home", MTU: 1300,
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.8.0.2/24"), netip.MustParsePrefix("fd00:8::2/64")},
		Routes:    []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")},
	})
	same(t, "warnings", texts(warnings), []string{fileTunnel + `:5: ROUTES="10.9.1.1/16,0.0.0.0/0": the tunnel's own packets would go into the tunnel by 0.0.0.0/0; using the others`})
	for _, name := range []string{"eth0", "wpan0", "lo", "a/b", "sixteen-letters-", "w g"} {
		root := box(t, map[string]string{fileTunnel: "INTERFACE='" + name + "'\nMTU=575\n"})
		w, warnings := LoadWireGuard(root)
		same(t, name, w, WireGuard{Interface: "wg0"})
		if len(warnings) != 2 {
			t.Errorf("%s: warnings %q", name, texts(warnings))
		}
	}
}

func TestOTBRDefaults(t *testing.T) {
	for _, tt := range []struct {
		text         string
		open         bool
		power, level int
	}{
		{"MODE=otbr\n", true, 4, 2},
		{"MODE=otbr\nOTBR_REST_BIND=127.0.0.1\nOTBR_TXPOWER=-30\nOTBR_LOG_LEVEL=0\n", false, -30, 0},
		{"OTBR_REST_BIND=::1\n", false, 4, 2},
		{"OTBR_REST_BIND=192.168.1.7\n", true, 4, 2},
	} {
		r, _ := LoadRadio(box(t, map[string]string{fileRadio: tt.text}), board(t, rtl8196e.Lidl))
		if o := r.OTBR; o.Open() != tt.open || o.TxPower() != tt.power || o.LogLevel() != tt.level {
			t.Errorf("%q: open %v, %d dBm, log level %d", tt.text, o.Open(), o.TxPower(), o.LogLevel())
		}
	}
}
