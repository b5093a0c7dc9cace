package doctor

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/enrol"
)

// fake is a kernel of a test.
type fake struct {
	log       string
	logErr    error
	has       []string
	noEntropy bool
}

func (k fake) Log() ([]byte, error)  { return []byte(k.log), k.logErr }
func (k fake) Has(probe string) bool { return slices.Contains(k.has, probe) }
func (k fake) Entropy() bool         { return !k.noEntropy }
func (k fake) Verify(stored, password string) (bool, error) {
	return stored == "is:"+password || stored == defaultHash && password == "root", nil
}

// defaultHash is root's password as today's firmware may have it.
const defaultHash = "abJnggxhB/yWI"

// sound is a kernel that has all.
func sound() fake { return fake{has: []string{"tmpfs", "madvise", "nftables"}} }

// put writes files below root.
func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// zip is a config.gz of these options.
func zip(t *testing.T, options ...string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("#\n# Linux\n#\nCONFIG_" + strings.Join(options, "\nCONFIG_") + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// allOptions are those of every feature.
func allOptions() (all []string) {
	for _, f := range parseFeatures(features) {
		all = append(all, f.options...)
	}
	return all
}

// healthy are the files of a gateway without a fault.
func healthy(t *testing.T) map[string]string {
	return map[string]string{
		"proc/config.gz":                        zip(t, allOptions()...),
		"proc/sys/kernel/osrelease":             "6.18.54-gw\n",
		"proc/sys/kernel/panic":                 "10\n",
		"proc/swaps":                            "Filename Type Size Used Priority\n",
		"dev/watchdog":                          "",
		"sys/class/watchdog/watchdog0/identity": "Software Watchdog\n",
		"sys/class/watchdog/watchdog0/state":    "active\n",
		"sys/class/watchdog/watchdog0/timeout":  "60\n",
		"userdata/etc/random-seed":              "seed",
		"userdata/etc/passwd":                   "root:$6$salt$hash:0:0:root:/root:/bin/sh\n",
		"userdata/ssh/authorized_keys":          "ssh-ed25519 AAAA me\n",
		"proc/net/tcp":                          heading + listen(1, "0.0.0.0", 22) + listen(2, "127.0.0.1", 8081),
		"proc/net/tcp6":                         heading,
		"proc/device-tree/model":                "Lidl Silvercrest Gateway\x00",
		"var/log/messages":                      "text",
	}
}

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// listen is a line of /proc/net/tcp.
func listen(inode int, addr string, port int) string {
	ip := map[string]uint32{"0.0.0.0": 0, "127.0.0.1": 0x7f000001}[addr]
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], ip)
	hex := func(v uint64, digits int) string {
		const d = "0123456789ABCDEF"
		out := make([]byte, digits)
		for i := range out {
			out[digits-1-i] = d[v>>(4*i)&15]
		}
		return string(out)
	}
	return "   0: " + hex(uint64(binary.NativeEndian.Uint32(b[:])), 8) + ":" + hex(uint64(port), 4) +
		" 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 " + string(rune('0'+inode)) + " 1\n"
}

// well is the status of a gateway without a fault.
func well() api.Status {
	return api.Status{
		Version: "1.0", BootMode: "normal", Memory: api.Memory{Total: 27000, Free: 9000, Available: 16000},
		Userdata: api.Userdata{State: "mounted", Total: 12288, Free: 11000},
		Network:  &api.Network{Interface: "eth0", Carrier: true, Method: "dhcp", State: "bound", Addresses: []string{"192.168.2.50/24", "2001:db8::5/64"}},
		Clock:    &api.Clock{State: api.ClockSynced, Source: "192.0.2.1"},
		Radio:    api.Radio{Mode: "zigbee", Owner: "bridge"},
		Bridge:   &api.Bridge{Listen: "[::]:8888", UART: "/dev/ttyS1", UARTOpen: true, Client: &api.BridgeClient{Addr: "192.0.2.10:5", Since: 900, Rx: 1000, Tx: 1000}},
		Services: []api.Service{{Name: "bridge", State: "running"}, {Name: "core", State: "running"}, {Name: "sshd", State: "idle"}},
	}
}

// look runs gwctl doctor on a gateway.
func look(t *testing.T, files map[string]string, k Kernel, st api.Status, watch *api.BridgeWatch, silent error) (Report, int) {
	t.Helper()
	root := t.TempDir()
	put(t, root, files)
	var out bytes.Buffer
	err := Run(t.Context(), root, k, applet.IO{Out: &out}, nil, true, func(_ context.Context, op string, args any) (json.RawMessage, error) {
		call, _ := args.(api.CallArgs)
		switch {
		case silent != nil:
			return nil, silent
		case op == api.OpStatus:
			return json.Marshal(st)
		case op == api.OpCall && call.Service == "bridge" && call.Method == "watch" && watch != nil:
			return json.Marshal(watch)
		}
		return nil, errors.New("not now")
	})
	var r Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	var x applet.Exit
	if err != nil && !errors.As(err, &x) {
		t.Fatal(err)
	}
	return r, int(x)
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	r, status := look(t, healthy(t), sound(), well(), &api.BridgeWatch{}, nil)
	if status != 0 || r.Faults+r.Warnings+r.Notes != 0 {
		t.Errorf("status %d, %+v", status, r)
	}
	var checks []string
	for _, f := range r.Findings {
		if f.Severity != OK || f.Text == "" || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
		checks = append(checks, f.Check)
	}
	want := "gwinit settings kernel log watchdog flash memory clock entropy network ports login bridge radio"
	if got := strings.Join(checks, " "); got != want {
		t.Errorf("checks %s\nwant   %s", got, want)
	}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	for _, tt := range []struct {
		name   string
		files  files // "" removes one
		kernel func(*fake)
		status func(*api.Status)
		watch  *api.BridgeWatch
		want   Finding // Text: what it holds
		exit   int
	}{
		{name: "failed service", status: func(s *api.Status) { s.Services[0] = api.Service{Name: "bridge", State: "failed", LastExit: "no UART"} }, want: Finding{"gwinit", Fault, "bridge does not run (failed): no UART", "gwctl logs bridge"}, exit: 2},
		{name: "stopped service", status: func(s *api.Status) { s.Services[1].State = "stopped" }, want: Finding{"gwinit", Warning, "core was stopped", "gwctl start core"}, exit: 1},
		{name: "restarted service", status: func(s *api.Status) { s.Services[1].Restarts = 2 }, want: Finding{"gwinit", Note, "core was started again 2 times", "gwctl logs core"}},
		{name: "a tunnel that is not up", files: files{"userdata/etc/wireguard.conf": "ENABLED=1\n"}, status: func(s *api.Status) { s.Services = append(s.Services, api.Service{Name: "wireguard", State: "stopped"}) }, want: Finding{"wireguard", Warning, "wireguard.ENABLED is set, and the tunnel is not up", "gwctl wg up; gwctl logs wireguard"}, exit: 1},
		{name: "a tunnel that does not answer", status: func(s *api.Status) { s.Services = append(s.Services, api.Service{Name: "wireguard", State: "running"}) }, want: Finding{"wireguard", Warning, "the tunnel does not say how it is: ", "gwctl wg show"}, exit: 1},
		{name: "a tunnel's key for everybody", files: files{"userdata/etc/wireguard/wg0.conf": "x"}, want: Finding{"wireguard", Warning, "others than root can read the tunnel's private key", "chmod 600 /userdata/etc/wireguard/wg0.conf"}, exit: 1},
		{name: "safe mode", status: func(s *api.Status) { s.BootMode, s.Services[0].State = "safe", "stopped" }, want: Finding{"gwinit", Note, "boot mode safe", "gwctl reboot"}},
		{name: "a warning of the settings", status: func(s *api.Status) { s.Warnings = []string{"radio.conf:1: what?"} }, want: Finding{"settings", Warning, "radio.conf:1: what?", "gwctl config check tells about settings"}, exit: 1},
		{name: "many warnings", status: func(s *api.Status) { s.Warnings = make([]string, 10) }, want: Finding{"settings", Warning, "and 4 more", "gwctl status"}, exit: 1},
		{name: "a feature that config.gz has not", files: files{"proc/config.gz": zip(t, slices.DeleteFunc(allOptions(), func(o string) bool { return o == "SYN_COOKIES=y" })...)}, want: Finding{"kernel", Note, "6.18.54-gw has no SYN cookies: ", "a kernel with the fragment of docs/kernel.md"}},
		{name: "a value that is another", files: files{"proc/config.gz": zip(t, slices.DeleteFunc(allOptions(), func(o string) bool { return o == "LOG_BUF_SHIFT=14" })...)}, want: Finding{"kernel", Note, "has no smaller tables: ", "a kernel with the fragment of docs/kernel.md"}},
		{name: "no gzip", files: files{"proc/config.gz": "CONFIG_X=y"}, want: Finding{"kernel", Note, "/proc/config.gz is not understood: gzip: invalid header", ""}},
		{name: "probes in place of config.gz", files: files{"proc/config.gz": "", "proc/sys/net/core/default_qdisc": "pfifo_fast"}, kernel: func(k *fake) { k.has = []string{"tmpfs"} }, want: Finding{"kernel", Note, "6.18.54-gw has no nftables: no firewall", "a kernel with the fragment of docs/kernel.md"}},
		{name: "a trigger that is not in the list", files: files{"proc/config.gz": "", "sys/class/leds/status/trigger": "none [netdev] heartbeat\n"}, want: Finding{"kernel", Note, "has no LED timer", "a kernel with the fragment of docs/kernel.md"}},
		{name: "the last panic", kernel: func(k *fake) { k.log = "<4>[ 1.2] rtl819x-wdt: previous panic: uptime=7s reason=\"x\"\n" }, want: Finding{"log", Warning, "the boot before ended in a panic, 1 line: <4>[ 1.2] rtl819x-wdt: previous panic: uptime=7s reason=\"x\"", trouble[0].remedy}, exit: 1},
		{name: "checksums", kernel: func(k *fake) {
			k.log = "[1] jffs2: notice: wrong data CRC in data node\n[2] crc32 CRC\n[3] jffs2: Name CRC failed on node\n"
		}, want: Finding{"log", Note, "pieces of files on flash have a wrong checksum, 2 lines: [3] jffs2: Name CRC failed on node", "a few are normal after a power cut; if each boot shows more, the chip may be failing"}},
		{name: "flash that refuses", kernel: func(k *fake) { k.log = "[9] jffs2: Erase at 0x00120000 failed immediately: errno -5\n" }, want: Finding{"log", Fault, "the flash refuses to be erased or written, 1 line: ", "copy what is needed from /userdata: the chip may be failing"}, exit: 2},
		{name: "no log", kernel: func(k *fake) { k.logErr = errors.New("no") }, want: Finding{"log", Note, "the kernel's log cannot be read: no", ""}},
		{name: "no watchdog", files: files{"dev/watchdog": ""}, want: Finding{"watchdog", Warning, "there is no watchdog", "a kernel with the board's watchdog driver"}, exit: 1},
		{name: "watchdog that sleeps", files: files{"sys/class/watchdog/watchdog0/state": "inactive"}, want: Finding{"watchdog", Warning, "the watchdog is not armed", "dmesg may say why; gwctl reboot"}, exit: 1},
		{name: "the gateway's watchdog", files: files{"sys/class/watchdog/watchdog0/identity": "rtl819x-wdt"}, want: Finding{"watchdog", Note, "rtl819x-wdt says 60 s and resets about 671 s after it was fed last", ""}},
		{name: "a panic for ever", files: files{"proc/sys/kernel/panic": "0\n"}, want: Finding{"watchdog", Warning, "a panic of the kernel ends in no reset", "a kernel with CONFIG_PANIC_TIMEOUT=10; until then, echo 10 >/proc/sys/kernel/panic"}, exit: 1},
		{name: "no /userdata", status: func(s *api.Status) { s.Userdata = api.Userdata{State: "corrupt", Reason: "it holds a squashfs"} }, want: Finding{"flash", Fault, "/userdata is corrupt: settings are defaults, changes are lost. it holds a squashfs", "gwctl status says what to do"}, exit: 2},
		{name: "/userdata for reading", status: func(s *api.Status) { s.Userdata.Reason = "read-only: x" }, want: Finding{"flash", Fault, "/userdata is read-only: x", ""}, exit: 2},
		{name: "full flash", status: func(s *api.Status) { s.Userdata.Free = 300 }, want: Finding{"flash", Warning, "/userdata has 300 KiB free beyond the reserve of JFFS2", "delete what is not needed in /userdata"}, exit: 1},
		{name: "swap on flash", files: files{"proc/swaps": "Filename\n/dev/mtdblock3 partition\n"}, want: Finding{"flash", Fault, "flash is used as swap space", "swapoff it"}, exit: 2},
		{name: "little memory", status: func(s *api.Status) { s.Memory.Available = 5119 }, want: Finding{"memory", Warning, "5119 KiB of 27000 KiB of memory are available", "top shows who has it"}, exit: 1},
		{name: "no memory", status: func(s *api.Status) { s.Memory.Available = 2047 }, want: Finding{"memory", Fault, "2047 KiB of 27000 KiB of memory are available", "top shows who has it; gwctl reboot"}, exit: 2},
		{name: "files in memory", files: files{"tmp/dump": strings.Repeat("x", 4<<20)}, want: Finding{"memory", Warning, "files in /tmp, /var and /run take 4097 KiB of memory", "delete what is not needed: du /tmp /var /run"}, exit: 1},
		{name: "no time", status: func(s *api.Status) { s.Clock = &api.Clock{State: api.ClockUnknown, Problem: "nobody answers"} }, want: Finding{"clock", Warning, "the time is not known, and logs have none. nobody answers", "name a server that can be reached: gwctl config set ntp.server NAME"}, exit: 1},
		{name: "old time", status: func(s *api.Status) { s.Clock.State = api.ClockNear }, want: Finding{"clock", Note, "the time is the saved one, or set by hand. ", ""}},
		{name: "no entropy", kernel: func(k *fake) { k.noEntropy = true }, want: Finding{"entropy", Warning, "no random numbers yet: keys have to wait", "it comes by itself within a minute; the next boot has a seed"}, exit: 1},
		{name: "no seed", files: files{"userdata/etc/random-seed": ""}, want: Finding{"entropy", Note, "/userdata/etc/random-seed is not there yet", ""}},
		{name: "no core", status: func(s *api.Status) { s.Network, s.Clock = nil, nil }, want: Finding{"network", Warning, "nobody says how the network is", "gwctl logs core"}, exit: 1},
		{name: "no cable", status: func(s *api.Status) { s.Network.Carrier = false }, want: Finding{"network", Fault, "eth0 has no link", "check the cable and the switch"}, exit: 2},
		{name: "no address", status: func(s *api.Status) { s.Network.Addresses, s.Network.State = nil, "asking" }, want: Finding{"network", Fault, "eth0 has no address (asking)", "gwctl logs core"}, exit: 2},
		{name: "fallback address", status: func(s *api.Status) { s.Network.State = "fallback" }, want: Finding{"network", Warning, "no DHCP server answered: eth0 has its fallback address 192.168.2.50/24", "a DHCP server, or an address in eth0.conf"}, exit: 1},
		{name: "an open port", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 8081), "proc/77/cmdline": "otbr-agent\x00"}, want: Finding{"ports", Warning, "port 8081 is open to the network: the Thread network's key can be read there", "end that program if it is not meant to be there"}, exit: 1},
		{name: "an open REST", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 8081), "userdata/etc/radio.conf": "MODE=otbr\n"}, want: Finding{"ports", Warning, "port 8081 is open to the network: the Thread network's key can be read there", "gwctl config set radio.OTBR_REST_BIND=127.0.0.1, unless a Home Assistant elsewhere needs it"}, exit: 1},
		{name: "a border router that was stopped", files: files{"userdata/etc/radio.conf": "MODE=otbr\n"}, status: func(s *api.Status) { s.Services = append(s.Services, api.Service{Name: "otbr", State: "stopped"}) }, want: Finding{"gwinit", Warning, "otbr was stopped", "gwctl start otbr"}, exit: 1},
		{name: "the port of METRICS", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 9200), "userdata/etc/gateway.conf": "METRICS=:9200\n"}, want: Finding{"ports", Note, "port 9200 is open to the network: METRICS says so, figures can be read there", ""}},
		{name: "a port behind the firewall", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 8081), "userdata/etc/gateway.conf": "FIREWALL=1\nFIREWALL_ALLOW=\"udp/8081 tcp/8082\"\n"}, want: Finding{"ports", Note, "port 8081 is open to the network, but for the firewall, which drops what comes for it", ""}},
		{name: "a port that the firewall lets in", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 8081), "userdata/etc/gateway.conf": "FIREWALL=1\nFIREWALL_ALLOW=tcp/8000-9000\n"}, want: Finding{"ports", Warning, "port 8081 is open to the network: the Thread network's key can be read there", "end that program if it is not meant to be there"}, exit: 1},
		{name: "a port without the firewall that is set", files: files{"proc/net/tcp": heading + listen(7, "0.0.0.0", 8081), "userdata/etc/gateway.conf": "FIREWALL=1\n"}, status: func(s *api.Status) { s.Warnings = []string{"there is no firewall, although FIREWALL is set: x"} }, want: Finding{"ports", Warning, "port 8081 is open to the network: the Thread network's key can be read there", "end that program if it is not meant to be there"}, exit: 1},
		{name: "no password", files: files{"userdata/etc/passwd": "root::0:0:root:/root:/bin/sh\n"}, want: Finding{"login", Fault, "root has no password", "passwd root"}, exit: 2},
		{name: "the default password", files: files{"userdata/etc/passwd": "root:" + defaultHash + ":0:0:root:/root:/bin/sh\n"}, want: Finding{"login", Warning, "the password of root is root, which everybody knows: SSH refuses it", "passwd root, or passwd -l and a key in /userdata/ssh/authorized_keys"}, exit: 1},
		{name: "an open UDP port", files: files{"proc/net/udp": heading + strings.Replace(listen(7, "0.0.0.0", 5683), " 0A ", " 07 ", 1) + strings.Replace(listen(7, "0.0.0.0", 5353), " 0A ", " 07 ", 1) + strings.Replace(listen(7, "0.0.0.0", 40000), " 0A ", " 07 ", 1)}, want: Finding{"ports", Warning, "UDP port 5683 is open to the network", "end that program if it is not meant to be there"}, exit: 1},
		{name: "the button was pressed", files: files{"run/enrol-until": "9000000000000000000\n"}, want: Finding{"login", Warning, "the button was pressed: for ", "it ends by itself, and with the first key"}, exit: 1},
		{name: "somebody of the internet", files: files{"userdata/etc/radio.conf": "BRIDGE_ALLOW=10.0.0.0/8,203.0.113.0/24\n"}, want: Finding{"bridge", Warning, "BRIDGE_ALLOW lets hosts of the internet have the radio: 203.0.113.0/24", "gwctl config set radio.BRIDGE_ALLOW with the networks that are meant"}, exit: 1},
		{name: "an address of the internet", status: func(s *api.Status) { s.Network.Addresses = []string{"203.0.113.9/24"} }, want: Finding{"bridge", Warning, "203.0.113.9 is an address of the internet", "BRIDGE_ALLOW and BRIDGE_BIND, or a router in front of it"}, exit: 1},
		{name: "noise from the radio", watch: &api.BridgeWatch{Protocol: "unknown"}, want: Finding{"radio", Note, "the radio sends, but neither ASH nor Spinel", checkLine}},
		{name: "the default password's form", files: files{"userdata/etc/passwd": "root:acJnggxhB/yWI:0:0:root:/root:/bin/sh\n"}, want: Finding{"login", Warning, "the password of root is stored in the form of 1977", "passwd root, or a key in /userdata/ssh/authorized_keys"}, exit: 1},
		{name: "no way in", files: files{"userdata/etc/passwd": "root:*:0:0:root:/root:/bin/sh\n", "userdata/ssh/authorized_keys": ""}, want: Finding{"login", Note, "nobody can log in over the network", "put a key into /userdata/ssh/authorized_keys"}},
		{name: "everybody", files: files{"userdata/etc/radio.conf": "BRIDGE_ALLOW=0.0.0.0/0\n"}, want: Finding{"bridge", Warning, "BRIDGE_ALLOW lets every host have the radio", "gwctl config set radio.BRIDGE_ALLOW with the networks that are meant"}, exit: 1},
		{name: "no bridge", status: func(s *api.Status) { s.Bridge = nil }, want: Finding{"bridge", Fault, "the bridge gives no answer", "gwctl logs bridge"}, exit: 2},
		{name: "refusals", status: func(s *api.Status) { s.Bridge.NotAllowed = 3 }, want: Finding{"bridge", Warning, "3 connections refused because of their address", "gwctl logs bridge names them; radio.BRIDGE_ALLOW lets them in"}, exit: 1},
		{name: "two clients", status: func(s *api.Status) { s.Bridge.Contentions = 1 }, want: Finding{"bridge", Warning, "two hosts took the radio from each other 1 time", "gwctl logs bridge names the hosts: run one Zigbee program only"}, exit: 1},
		{name: "closed UART", status: func(s *api.Status) { s.Bridge.UARTOpen, s.Bridge.UARTErr = false, "no such device" }, want: Finding{"radio", Fault, "/dev/ttyS1 is not open: no such device", "gwctl radio; gwctl logs bridge"}, exit: 2},
		{name: "errors on the line", status: func(s *api.Status) { s.Bridge.FrameErrors, s.Bridge.Overruns = 2, 3 }, want: Finding{"radio", Warning, "5 errors on the UART", checkLine}, exit: 1},
		{name: "a silent radio", status: func(s *api.Status) { s.Bridge.Client.Rx = 0 }, want: Finding{"radio", Fault, "the radio has not answered 192.0.2.10:5 once in 900 s", checkLine}, exit: 2},
		{name: "resent frames", watch: &api.BridgeWatch{ToRadio: api.BridgeFlow{ASH: api.ASHCounter{Data: 1000, Resent: 21}}}, want: Finding{"radio", Warning, "the client sent 21 of 1000 frames again", "gwctl bridge shows how; " + checkLine}, exit: 1},
		{name: "a radio that gave up", watch: &api.BridgeWatch{Reset: &api.ASHReset{Frame: "ERROR", Reason: "too many resent", Ago: 7}}, want: Finding{"radio", Note, "the radio gave its link up 7 s ago: too many resent", "gwctl logs bridge"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all, k, st := healthy(t), sound(), well()
			for name, text := range tt.files {
				if all[name] = text; text == "" {
					delete(all, name)
				}
			}
			if tt.kernel != nil {
				tt.kernel(&k)
			}
			if tt.status != nil {
				tt.status(&st)
			}
			r, exit := look(t, all, k, st, tt.watch, nil)
			if exit != tt.exit {
				t.Errorf("exit status %d, want %d", exit, tt.exit)
			}
			found := false
			for _, f := range r.Findings {
				// Its own check says nothing good; the others do not change.
				if f.Check == tt.want.Check && f.Severity == OK && f.Check != "login" && f.Check != "flash" && f.Check != "kernel" && f.Check != "settings" {
					t.Errorf("also %+v", f)
				}
				found = found || f.Check == tt.want.Check && f.Severity == tt.want.Severity && strings.Contains(f.Text, tt.want.Text) && f.Remedy == tt.want.Remedy
			}
			if !found {
				t.Errorf("no finding %+v in\n%+v", tt.want, r.Findings)
			}
		})
	}
}

// A gateway whose PID 1 does not answer, or one with the firmware of today.
func TestSilent(t *testing.T) {
	t.Parallel()
	files := healthy(t)
	files["userdata/etc/passwd"] = "root::0:0:root:/root:/bin/sh\n"
	r, exit := look(t, files, sound(), api.Status{}, nil, errors.New("no such socket"))
	if exit != 2 || r.Faults != 2 || r.Warnings != 0 || r.Notes != 0 {
		t.Errorf("exit status %d, %+v", exit, r)
	}
	if f := r.Findings[0]; f.Check != "gwinit" || f.Severity != Fault || f.Text != "PID 1 gives no status: no such socket" {
		t.Errorf("first %+v", f)
	}
}

func TestScreen(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	files := healthy(t)
	files["proc/sys/kernel/panic"] = "0"
	files["userdata/etc/passwd"] = "root::0:0:root:/root:/bin/sh\n"
	put(t, root, files)
	var out bytes.Buffer
	err := Run(t.Context(), root, sound(), applet.IO{Out: &out}, nil, false, func(_ context.Context, op string, _ any) (json.RawMessage, error) {
		if op != api.OpStatus {
			return nil, errors.New("no")
		}
		return json.Marshal(well())
	})
	if !errors.Is(err, applet.Exit(2)) {
		t.Errorf("%v, want exit status 2", err)
	}
	want := "" +
		"fault    login     root has no password: who reaches a login gets in\n" +
		"                   -> passwd root\n" +
		"warning  watchdog  a panic of the kernel ends in no reset\n" +
		"                   -> a kernel with CONFIG_PANIC_TIMEOUT=10; until then, echo 10\n" +
		"                      >/proc/sys/kernel/panic\n" +
		"ok       gwinit    1.0 runs with all its services\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if !strings.HasSuffix(out.String(), "\n\n1 fault, 1 warning, 0 notes\n") {
		t.Errorf("ends with\n%s", out.String())
	}
	for l := range strings.Lines(out.String()) {
		if len(l) > 81 {
			t.Errorf("too wide: %q", l)
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	err := Run(t.Context(), t.TempDir(), sound(), applet.IO{}, []string{"now"}, false, nil)
	var u applet.UsageError
	if !errors.As(err, &u) {
		t.Errorf("%v", err)
	}
}

// config.gz comes from whoever built the kernel.
func FuzzOptions(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x1f\x8b\x08"))
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, gz []byte) {
		if err := os.WriteFile(filepath.Join(root, "proc/config.gz"), gz, 0o644); err != nil {
			t.Fatal(err)
		}
		set, _ := (&box{root: root}).options()
		for o := range set {
			if strings.ContainsRune(o, '\n') {
				t.Errorf("an option of two lines: %q", o)
			}
		}
	})
}

// While the serial console shows a code, and none of the keys is there yet.
func TestSetupWindow(t *testing.T) {
	t.Parallel()
	files := healthy(t)
	delete(files, "userdata/ssh/authorized_keys")
	root := t.TempDir()
	put(t, root, files)
	if err := enrol.Begin(root, bytes.NewReader(make([]byte, 8))); err != nil {
		t.Fatal(err)
	}
	b := &box{root: root, kernel: sound()}
	b.login()
	want := Finding{Severity: Note, Text: "for 15 min yet the code on the serial console lets a key in", Remedy: "it ends by itself, and with the first key"}
	if !slices.Contains(b.findings, want) {
		t.Errorf("%+v", b.findings)
	}
}

func TestRadioAnswers(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]string{"ash": "/dev/ttyS1 is open, and the radio answers (ash)", "": "/dev/ttyS1 is open, and the radio answers"} {
		r, _ := look(t, healthy(t), sound(), well(), &api.BridgeWatch{Protocol: protocol}, nil)
		if f := r.Findings[len(r.Findings)-1]; f.Text != want || f.Severity != OK {
			t.Errorf("%q: %+v", protocol, f)
		}
	}
}
