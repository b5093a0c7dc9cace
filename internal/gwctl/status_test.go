package gwctl

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/api"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with testdata/name.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", file, got, want)
	}
}

// settled is a gateway that has run for days with a client.
func settled() api.Status {
	return api.Status{
		Version: "0.1.0", Board: api.Board{ID: "lidl", Model: "Lidl Silvercrest Gateway TYGWZ-01"},
		BootMode: "normal", Uptime: 3*86400 + 4*3600 + 62, Wall: 1767366245e9, Hostname: "zigbee-gw",
		Memory:   api.Memory{Total: 25492, Free: 9120, Available: 11468},
		Userdata: api.Userdata{State: "mounted", Device: "/dev/mtdblock4", Total: 12288, Free: 10035},
		Network: &api.Network{
			Interface: "eth0", MAC: "02:11:22:33:44:55", Carrier: true, SpeedMbit: 100, Method: "dhcp", State: "bound",
			Addresses: []string{"192.168.1.50/24", "fe80::11:22ff:fe33:4455/64"}, Gateway: "192.168.1.1", DNS: []string{"192.168.1.1"},
			Lease: 43100, Server: "192.168.1.1",
		},
		Radio: api.Radio{Owner: "bridge", Device: "/dev/ttyS1", Mode: "zigbee", Baud: 115200, Flow: "hw"},
		Bridge: &api.Bridge{
			Listen: "[::]:8888", UART: "/dev/ttyS1", UARTOpen: true, Baud: 115200, Flow: "hw",
			Client:  &api.BridgeClient{Addr: "192.168.1.10:51234", Since: 7385, Rx: 1258291, Tx: 307200},
			RxBytes: 1258291, TxBytes: 307200, Connects: 1,
		},
		Services: []api.Service{
			{Name: "userdata", State: "done", Since: 273661},
			{Name: "bridge", State: "running", PID: 51, Since: 273660, Essential: true, CPU: 151.2, RSS: 3212, Anon: 604},
			{Name: "core", State: "running", PID: 55, Since: 273659.5, Essential: true, CPU: 12.34, RSS: 5120, Anon: 1180, Status: "bound"},
			{Name: "console", State: "running", PID: 60, Since: 273659, CPU: 0.09, RSS: 4096, Anon: 700},
		},
	}
}

// noise is what files that are none of ours give.
func noise(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("/userdata/etc/radio.conf:%d: %q: not KEY=value", i+1, "x")
	}
	return all
}

func service0(name, state string) api.Service { return api.Service{Name: name, State: state} }

func TestStatusScreen(t *testing.T) {
	tests := []struct {
		name   string
		change func(*api.Status)
		tall   bool // may take more than 24 lines
	}{
		{"settled", func(*api.Status) {}, false},
		{"fresh-boot", func(s *api.Status) {
			s.Uptime, s.Wall, s.Hostname = 2.4, 0, ""
			s.Userdata = api.Userdata{State: "waiting", Reason: "the service userdata has not said yet what it found"}
			s.Network = nil
			s.Bridge.Client, s.Bridge.Connects, s.Bridge.RxBytes, s.Bridge.TxBytes = nil, 0, 0, 0
			s.Services = []api.Service{
				{Name: "userdata", State: "starting", PID: 44, Since: 1.9, CPU: 0.2, RSS: 2800, Anon: 500},
				{Name: "bridge", State: "running", PID: 45, Since: 1.2, Essential: true, CPU: 0.31, RSS: 3100, Anon: 590},
				{Name: "core", State: "starting", PID: 46, Since: 0.4, Essential: true, CPU: 0.1, RSS: 4800, Anon: 900, Status: "asking for an address"},
				{Name: "console", State: "waiting"},
			}
		}, false},
		{"clock-synced", func(s *api.Status) {
			s.Clock = &api.Clock{
				State: "synced", Source: "0.pool.ntp.org (203.0.113.7)", Stratum: 2, Offset: -0.0012345, Error: 0.021,
				Since: 372, Asked: 4, Agree: 3,
			}
		}, false},
		{"clock-near", func(s *api.Status) {
			s.Clock = &api.Clock{State: "near", Problem: "lookup 0.pool.ntp.org on 192.168.1.1:53: no such host"}
		}, false},
		{"clock-unknown", func(s *api.Status) {
			s.Wall = 0
			s.Clock = &api.Clock{State: "unknown"}
		}, false},
		{"no-userdata", func(s *api.Status) {
			s.Userdata = api.Userdata{State: "unformatted", Device: "/dev/mtd4", Reason: "no JFFS2 node in the first 64 KiB"}
		}, false},
		{"absent-userdata-safe", func(s *api.Status) {
			s.BootMode = "safe"
			s.Userdata = api.Userdata{State: "absent"}
			s.Bridge, s.Radio.Owner = nil, ""
			s.Services = s.Services[2:]
		}, false},
		{"full-userdata-factory", func(s *api.Status) {
			s.BootMode = "factory"
			s.Userdata.Free = 100
		}, false},
		{"failed-service", func(s *api.Status) {
			s.Services[3] = api.Service{
				Name: "console", State: "failed", Since: 125, Restarts: 5,
				LastExit: "exit code 1, 5 times within 10 s: open /dev/ttyS0: no such device or address",
			}
			s.Services[1].Restarts, s.Services[1].LastExit = 2, "signal 9 (killed)"
			s.Services[2] = api.Service{Name: "core", State: "backoff", Since: 3, Restarts: 4, Essential: true, LastExit: "signal 11 \x1b[2J(segmentation fault)"}
			s.Network = nil
		}, false},
		{"no-client", func(s *api.Status) {
			s.Bridge.Client = nil
			s.Bridge.LastClose = "192.168.1.10:51234 closed the connection after 2h3m, 1258291 bytes from the radio, 307200 to it"
			s.Bridge.Connects, s.Bridge.Discarded = 3, 1536
		}, false},
		{"losses", func(s *api.Status) {
			b := s.Bridge
			b.Connects, b.Takeovers, b.Refused, b.Pending, b.Discarded, b.TxDropped = 12, 2, 3, 1, 700, 40
			b.FrameErrors, b.ParityErrors, b.Overruns, b.BufOverruns, b.QueueDropped = 1, 2, 130, 1, 4096
			s.Warnings = []string{
				`/userdata/etc/radio.conf line 3: FIRMWARE_BAUD is "fast", used 115200: not a number`,
				"this kernel has no /dev/watchdog: a hang is not ended by a reset",
			}
		}, true},
		{"six-warnings", func(s *api.Status) { s.Warnings = noise(6) }, true},
		{"hundreds-of-warnings", func(s *api.Status) { s.Warnings = noise(223) }, true},
		{"no-cable", func(s *api.Status) {
			s.Network = &api.Network{Interface: "eth0", MAC: "02:11:22:33:44:55", Method: "dhcp", State: "no-carrier"}
			s.Wall = 0
		}, false},
		{"no-dhcp", func(s *api.Status) {
			s.Network.State, s.Network.Addresses, s.Network.Gateway, s.Network.DNS, s.Network.Lease, s.Network.Server = "asking", nil, "", nil, 0, ""
		}, false},
		{"fallback", func(s *api.Status) {
			s.Network.Method, s.Network.State, s.Network.Lease, s.Network.Server = "fallback", "fallback", 0, ""
		}, false},
		{"address-conflicts", func(s *api.Status) {
			s.Network.Method, s.Network.State, s.Network.Lease, s.Network.Server = "static", "static", 0, ""
			s.Network.Conflicts = []api.Conflict{{Address: "192.168.1.50", MAC: "02:00:00:00:00:07"}, {Address: "fe80::11:22ff:fe33:4455"}}
		}, false},
		{"panel", func(s *api.Status) {
			s.Panel = &api.Panel{ButtonProblem: "/dev/gpiochip0: there is no such GPIO chip", Missing: []string{"status"}, LEDs: []string{"lan"}, Mode: "dim", Pattern: "enrolment", Enrol: 500}
		}, false},
		{"bridge-silent", func(s *api.Status) { s.Bridge = nil }, false},
		{"bridge-stopped", func(s *api.Status) {
			s.Bridge, s.Radio.Owner = nil, ""
			s.Services[1] = service0("bridge", "stopped")
		}, false},
		{"uart-broken", func(s *api.Status) {
			s.Bridge.Client, s.Bridge.UARTOpen, s.Bridge.UARTErr = nil, false, "open /dev/ttyS1: no such file or directory"
			s.Radio.Owner = ""
		}, false},
		{"released", func(s *api.Status) {
			s.Bridge.Client, s.Bridge.UARTOpen, s.Bridge.UARTErr = nil, false, "the radio is released"
			s.Radio.Owner, s.Radio.Released = "flash", 583.2
		}, false},
		{"kernel-engine", func(s *api.Status) {
			s.Bridge = &api.Bridge{
				Engine: "kernel", Listen: "0.0.0.0:8888", UART: "/dev/ttyS1", UARTOpen: true, Baud: 115200, Flow: "sw",
				RxBytes: 1258291, TxBytes: 307200, Discarded: 12,
				Kernel: &api.BridgeKernel{DropsErr: 11, DropsTx: 2048, XOFF: 5, XON: 4, TxPauseTimeouts: 1},
			}
		}, false},
		{"kernel-engine-not-armed", func(s *api.Status) {
			s.Bridge = &api.Bridge{
				Engine: "kernel", Listen: "0.0.0.0:8888", UART: "/dev/ttyS1", UARTErr: "the radio is in use by flash", Kernel: &api.BridgeKernel{},
			}
		}, false},
		{"thread", func(s *api.Status) {
			s.Bridge, s.Radio.Owner, s.Radio.Mode, s.Radio.Baud, s.Radio.Flow = nil, "otbr", "otbr", 460800, "sw"
			s.Board = api.Board{ID: "lidl", Model: "mti,malta", Emulated: true}
		}, false},
		{"empty", func(s *api.Status) { *s = api.Status{} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := settled()
			tt.change(&st)
			var b bytes.Buffer
			screen{&b, false}.status(st)
			golden(t, "status-"+tt.name, b.String())
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) > 24 && !tt.tall {
				t.Errorf("%d lines do not fit a screen", len(lines))
			}
			for _, l := range lines {
				if len(l) > columns || strings.TrimRight(l, " ") != l {
					t.Errorf("%d columns: %q", len(l), l)
				}
				if i := strings.IndexFunc(l, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
					t.Errorf("%q holds more than ASCII", l)
				}
			}
			// Colour adds codes and changes nothing else.
			var c bytes.Buffer
			screen{&c, true}.status(st)
			plain := strings.NewReplacer("\x1b[1;31m", "", "\x1b[0m", "").Replace(c.String())
			if plain != b.String() {
				t.Errorf("in colour it says\n%s", plain)
			}
			if loud := strings.Contains(b.String(), "!!"); loud && !strings.Contains(c.String(), "\x1b[1;31m!!") {
				t.Error("what is loud has no colour")
			}
		})
	}
}

func TestFormat(t *testing.T) {
	for s, want := range map[float64]string{
		-1: "0s", 0: "0s", 0.9: "0s", 45.9: "45s", 60: "1m", 725: "12m5s", 3600: "1h", 3601: "1h", 7385: "2h3m",
		86400: "1d", 273662: "3d4h", 400 * 86400: "400d",
	} {
		if got := duration(s); got != want {
			t.Errorf("duration(%v) = %q, want %q", s, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0.00s", 1.234: "1.23s", 12.34: "12.3s", 151: "2m31s"} {
		if got := cpu(s); got != want {
			t.Errorf("cpu(%v) = %q, want %q", s, got, want)
		}
	}
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 10189: "10 KiB", 10 << 10: "10 KiB", 1023 << 10: "1023 KiB",
		1<<20 - 1: "1.0 MiB", 1258291: "1.2 MiB", 25492 << 10: "25 MiB", 1 << 30: "1.0 GiB", 1 << 42: "4096 GiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for in, want := range map[string]string{
		"plain": "plain", "a\tb": "a b", "\x1b[2J": `\x1b[2J`, "a\nb": `a\x0ab`, "\x7f": `\x7f`, "K\u00fcche": "K\u00fcche",
		"\xff\xfe": `\xff\xfe`, "\u009b2J": `\u009b2J`, "\u202e": `\u202e`, "\uFFFD": "\uFFFD",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
	long := strings.Repeat("x", 30)
	if got := strings.Join(wrap("ab cd  ef "+long+" g", 5), "|"); got != "ab cd|ef|"+long+"|g" {
		t.Errorf("wrap = %q", got)
	}
}

func TestLastWords(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s    api.Service
		want string
	}{
		{api.Service{State: "running", Restarts: 1, LastExit: "exit status 2 after 14s: SIGQUIT: quit"}, "the one before: exit status 2 after 14s: SIGQUIT: quit"},
		{api.Service{State: "running", Restarts: 1, LastExit: "exit status 0 after 1.2s: /dev/ttyS1 is open"}, ""},
		{api.Service{State: "running", Restarts: 0, LastExit: "exit status 2 after 14s"}, ""},
		{api.Service{State: "backoff", LastExit: "exit status 0 after 1.2s: enough"}, "exit status 0 after 1.2s: enough"},
		{api.Service{State: "failed", Status: "no such device"}, "no such device"},
		{api.Service{State: "stopped", LastExit: "exit status 2"}, ""},
	} {
		if got := lastWords(tt.s); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.s, got, tt.want)
		}
	}
}
