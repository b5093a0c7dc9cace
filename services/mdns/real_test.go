package mdns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gwinit/internal/netdev/netlab"
	"gwinit/test/hostile"
)

// The tests of this file run against the kernel, a real avahi-daemon and dig at
// the other end of a cable, and take the time that mDNS takes.

// box is a running Service on eth0 at 10.7.0.50.
type box struct {
	*Service
	t    *testing.T
	root string
	stop func()

	mu  sync.Mutex
	log []string
}

func (b *box) said(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.log, func(l string) bool { return strings.Contains(l, part) })
}

func (b *box) config(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.root, "userdata/etc", name), []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// plug makes the cable to a peer at 10.7.0.1 and a box that is not running yet.
func plug(t *testing.T) (*box, *netlab.Peer) {
	t.Helper()
	b := &box{t: t, root: netlab.Root(t)}
	peer := netlab.Cable(t, "eth0", "far0")
	netlab.Run(t, "ip", "link", "set", "eth0", "address", "02:11:22:44:55:66", "up")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.50/24", "dev", "eth0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "far0")
	eventually(t, "the peer's IPv6 address", func() bool {
		all := peer.Run("ip", "-6", "addr", "show", "dev", "far0")
		return strings.Contains(all, "fe80::") && !strings.Contains(all, "tentative")
	})
	b.config("hostname", "kitchen\n")
	return b, peer
}

// start runs the box.
func (b *box) start() {
	b.t.Helper()
	b.Service = New(Options{Root: b.root, Version: "9.9-test", Log: func(line string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.log = append(b.log, line)
		b.t.Log(line)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("Run: %v", err)
		}
	})
	b.t.Cleanup(b.stop)
}

// avahi is the peer's.
type avahi struct {
	peer *netlab.Peer
	bus  string
	t    *testing.T
}

// startAvahi starts a message bus and an avahi-daemon of that host name.
func startAvahi(t *testing.T, peer *netlab.Peer, hostname string) *avahi {
	t.Helper()
	dir := t.TempDir()
	// Its socket and its pid have fixed paths: in this mount namespace they
	// are elsewhere.
	if err := os.MkdirAll("/run/avahi-daemon", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("avahi", "/run/avahi-daemon", "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/run/avahi-daemon", syscall.MNT_DETACH) })
	a := &avahi{peer: peer, bus: "unix:path=" + dir + "/bus", t: t}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bus := write("bus.conf", `<busconfig><type>system</type><listen>`+a.bus+`</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow send_type="*"/></policy></busconfig>`)
	conf := write("avahi.conf", "[server]\nhost-name="+hostname+`
use-ipv4=yes
use-ipv6=yes
allow-interfaces=far0
ratelimit-interval-usec=1000000
ratelimit-burst=1000
enable-dbus=yes
[publish]
publish-hinfo=no
publish-workstation=no
`)
	peer.Start("dbus-daemon", "--nofork", "--config-file="+bus)
	eventually(t, "a message bus", func() bool { _, err := os.Stat(dir + "/bus"); return err == nil })
	peer.Start("env", "DBUS_SYSTEM_BUS_ADDRESS="+a.bus, "avahi-daemon", "--no-drop-root", "--no-chroot", "--no-rlimits", "-f", conf)
	eventually(t, "avahi on the bus", func() bool {
		_, err := a.try("avahi-resolve", "-4", "-n", hostname+".local")
		return err == nil
	})
	return a
}

func (a *avahi) try(args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"-t", a.peer.PID(), "-n", "--", "env", "DBUS_SYSTEM_BUS_ADDRESS=" + a.bus}, args...)...).CombinedOutput()
	if err == nil && strings.Contains(string(out), "Failed to resolve") {
		err = fmt.Errorf("%s: %s", args[0], out)
	}
	return string(out), err
}

// browse returns what avahi has resolved of a type, from its cache and from
// what comes until it thinks that this is all.
func (a *avahi) browse(typ string) string {
	a.t.Helper()
	out, err := a.try("avahi-browse", "-p", "-t", "-r", typ)
	if err != nil {
		a.t.Fatalf("avahi-browse: %v\n%s", err, out)
	}
	return out
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}

// line returns the line of avahi-browse's output that resolves an instance over
// IPv4, or "".
func line(out, instance string) string {
	for l := range strings.Lines(out) {
		if strings.HasPrefix(l, "=;far0;IPv4;"+instance+";") {
			return strings.TrimSpace(l)
		}
	}
	return ""
}

func TestAvahiFindsTheBox(t *testing.T) {
	b, peer := plug(t)
	a := startAvahi(t, peer, "workstation")
	b.start()
	eventually(t, "its name", func() bool { return b.said("mdns: this is kitchen.local") })
	for _, family := range []struct{ option, want string }{{"-4", "10.7.0.50"}, {"-6", "fe80::11:22ff:fe44:5566"}} {
		eventually(t, family.want, func() bool {
			out, err := a.try("avahi-resolve", family.option, "-n", "kitchen.local")
			return err == nil && strings.TrimSpace(out) == "kitchen.local\t"+family.want
		})
	}
	got := line(a.browse("_zigbee-coordinator._tcp"), "kitchen-445566")
	for _, want := range []string{
		";kitchen.local;10.7.0.50;8888;", `"radio_type=ezsp"`, `"serial_number=02:11:22:44:55:66"`, `"baud_rate=460800"`, `"version=9.9-test"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	got = line(a.browse("_ssh._tcp"), "kitchen-445566")
	for _, want := range []string{";kitchen.local;10.7.0.50;22;", `"os=gwinit"`, `"board=unknown"`, `"mode=zigbee"`, `"bridge_port=8888"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}

	// OTBR mode takes the coordinator away at once, although it was announced
	// for 75 minutes.
	b.config("radio.conf", "MODE=otbr\n")
	b.Reload()
	eventually(t, "the coordinator gone", func() bool { return a.browse("_zigbee-coordinator._tcp") == "" })
	eventually(t, "SSH in OTBR mode", func() bool {
		return strings.Contains(line(a.browse("_ssh._tcp"), "kitchen-445566"), `"mode=otbr"`)
	})

	// A new address is told.
	netlab.Run(t, "ip", "addr", "del", "10.7.0.50/24", "dev", "eth0")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.60/24", "dev", "eth0")
	eventually(t, "the name at the new address", func() bool {
		out, err := a.try("avahi-resolve", "-4", "-n", "kitchen.local")
		return err == nil && strings.TrimSpace(out) == "kitchen.local\t10.7.0.60"
	})

	// The end says goodbye.
	b.stop()
	eventually(t, "SSH gone", func() bool { return a.browse("_ssh._tcp") == "" })
}

// Another host has the name: this one takes the next, and says so.
func TestAvahiHasTheName(t *testing.T) {
	b, peer := plug(t)
	a := startAvahi(t, peer, "kitchen")
	b.start()
	eventually(t, "another name", func() bool { return b.said("mdns: this is kitchen-2.local") })
	if !b.said("mdns: kitchen.local is taken by another host; this one is kitchen-2.local now") {
		t.Error("the log does not say why")
	}
	eventually(t, "the box at its new name", func() bool {
		out, err := a.try("avahi-resolve", "-4", "-n", "kitchen-2.local")
		return err == nil && strings.TrimSpace(out) == "kitchen-2.local\t10.7.0.50"
	})
	if got := line(a.browse("_ssh._tcp"), "kitchen-445566"); !strings.Contains(got, ";kitchen-2.local;10.7.0.50;22;") {
		t.Errorf("SSH is at %s", got)
	}
	out, err := a.try("avahi-resolve", "-4", "-n", "kitchen.local")
	if err != nil || strings.TrimSpace(out) != "kitchen.local\t10.7.0.1" {
		t.Errorf("avahi's own name: %s, %v", out, err)
	}
}

// A plain resolver asks the box itself, from a port of its own. (By multicast
// dig cannot ask any more: it takes answers from whom it asked only.)
func TestDig(t *testing.T) {
	b, peer := plug(t)
	b.start()
	eventually(t, "its name", func() bool { return b.said("mdns: this is kitchen.local") })
	for _, tt := range []struct{ server, name, typ, want string }{
		{"10.7.0.50", "kitchen.local", "A", "10.7.0.50"},
		{"10.7.0.50", "_zigbee-coordinator._tcp.local", "PTR", "kitchen-445566._zigbee-coordinator._tcp.local."},
		{"10.7.0.50", "kitchen-445566._ssh._tcp.local", "SRV", "0 0 22 kitchen.local."},
		{"fe80::11:22ff:fe44:5566%far0", "kitchen.local", "AAAA", "fe80::11:22ff:fe44:5566"},
	} {
		out := peer.Run("dig", "+short", "+tries=3", "+time=2", "@"+tt.server, "-p", "5353", tt.name, tt.typ)
		if got := strings.TrimSpace(out); got != tt.want {
			t.Errorf("dig %s @%s: %q, want %q", tt.name, tt.server, got, tt.want)
		}
	}
}

// zigbee-herdsman 2, the library inside Zigbee2MQTT, finds what to connect to.
// This version also wants the baud rate, which later ones do not ask for.
func TestZigbee2MQTTFindsTheBox(t *testing.T) {
	dir, err := exec.Command("../../test/herdsman/install.sh").Output()
	if err != nil {
		t.Fatalf("install the client (needs node 20, npm and once the network): %v", err)
	}
	b, peer := plug(t)
	b.config("radio.conf", "FIRMWARE=ncp\nFIRMWARE_BAUD=115200\n")
	b.start()
	eventually(t, "its name", func() bool { return b.said("mdns: this is kitchen.local") })
	peer.Run("ip", "route", "add", "224.0.0.0/4", "dev", "far0")
	script, err := filepath.Abs("../../test/herdsman/mdns.mjs")
	if err != nil {
		t.Fatal(err)
	}
	got := peer.Run("env", "GW_SCRIPT="+script, "../../test/herdsman/run.sh", strings.TrimSpace(string(dir)), "mdns://zigbee-coordinator")
	if want := `{"path":"tcp://10.7.0.50:8888","adapter":"ezsp","baudRate":115200}`; !strings.HasSuffix(strings.TrimSpace(got), want) {
		t.Errorf("herdsman says %s, want %s", got, want)
	}
}

// The workstation's gwctl finds the box in both modes, and in another subnet.
func TestGwctlDiscover(t *testing.T) {
	gwctl := filepath.Join(t.TempDir(), "gwctl")
	netlab.Run(t, "go", "build", "-o", gwctl, "gwinit/cmd/gwctl")
	b, peer := plug(t)
	b.start()
	eventually(t, "its name", func() bool { return b.said("mdns: this is kitchen.local") })
	want := func(mode, addr string) string {
		return `[{"name":"kitchen-445566","host":"kitchen.local","addresses":["` + addr + `","fe80::11:22ff:fe44:5566%far0"],"port":8888,"sshPort":22,"mode":"` +
			mode + `","version":"9.9-test","board":"unknown","serialNumber":"02:11:22:44:55:66"}]` + "\n"
	}
	discover := func() string {
		out, err := exec.Command("nsenter", "-t", peer.PID(), "-n", "--", gwctl, "discover", "-json", "-t", "1500ms").CombinedOutput()
		if err != nil {
			return fmt.Sprint(err, ": ", string(out))
		}
		return string(out)
	}
	if got := discover(); got != want("zigbee", "10.7.0.50") {
		t.Errorf("found\n%swant\n%s", got, want("zigbee", "10.7.0.50"))
	}
	b.config("radio.conf", "MODE=otbr\n")
	b.Reload()
	eventually(t, "the other mode", func() bool { return discover() == want("otbr", "10.7.0.50") })
	// Nobody answered its DHCP requests, so it is somewhere else.
	netlab.Run(t, "ip", "addr", "del", "10.7.0.50/24", "dev", "eth0")
	netlab.Run(t, "ip", "addr", "add", "192.168.1.254/24", "dev", "eth0")
	eventually(t, "the other subnet", func() bool { return discover() == want("otbr", "192.168.1.254") })
	b.stop()
	if got := discover(); got != "exit status 1: []\n" {
		t.Errorf("found %s", got)
	}
}

// Links come and go, and what was there before the process does not matter.
func TestCableAndInterface(t *testing.T) {
	b := &box{t: t, root: netlab.Root(t)}
	b.config("hostname", "kitchen\n")
	b.start() // without an interface
	peer := netlab.Cable(t, "eth0", "far0")
	netlab.Run(t, "ip", "link", "set", "eth0", "address", "02:11:22:44:55:66", "up")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.50/24", "dev", "eth0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "far0")
	ask := func() string {
		cmd := exec.Command("nsenter", "-t", peer.PID(), "-n", "--", "dig", "+short", "+tries=1", "+time=1", "@10.7.0.50", "-p", "5353", "kitchen.local", "A")
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	eventually(t, "an answer", func() bool { return ask() == "10.7.0.50" })
	peer.Run("ip", "link", "set", "far0", "down")
	peer.Run("ip", "link", "set", "far0", "up")
	eventually(t, "an answer after the cable was out", func() bool { return ask() == "10.7.0.50" })
	// Another interface of that name.
	netlab.Run(t, "ip", "link", "del", "eth0")
	peer = netlab.Cable(t, "eth0", "far0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.50/24", "dev", "eth0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "far0")
	eventually(t, "an answer on another interface", func() bool { return ask() == "10.7.0.50" })
}

// Without IPv6 on the interface, or without IPv4, the other one does.
func TestOneFamily(t *testing.T) {
	for _, tt := range []struct{ name, unset, server, typ, want string }{
		{"IPv4 alone", "-6", "10.7.0.50", "A", "10.7.0.50"},
		{"IPv6 alone", "-4", "fe80::11:22ff:fe44:5566%far0", "AAAA", "fe80::11:22ff:fe44:5566"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, peer := plug(t)
			if tt.unset == "-6" {
				if err := os.WriteFile(filepath.Join(b.root, "proc/sys/net/ipv6/conf/eth0/disable_ipv6"), []byte("1"), 0); err != nil {
					t.Fatal(err)
				}
			} else {
				netlab.Run(t, "ip", "-4", "addr", "flush", "dev", "eth0")
			}
			b.start()
			eventually(t, "its name", func() bool { return b.said("mdns: this is kitchen.local") })
			out := peer.Run("dig", "+short", "+tries=3", "+time=2", "@"+tt.server, "-p", "5353", "kitchen.local", tt.typ)
			if got := strings.TrimSpace(out); got != tt.want {
				t.Errorf("answer %q, want %q", got, tt.want)
			}
			if len(b.log) != 1 {
				t.Errorf("log %q", b.log)
			}
		})
	}
}

// A flood of questions costs some wakeups a second and no more: the kernel drops
// the rest, and the box is found all the same.
func TestFlood(t *testing.T) {
	b, peer := plug(t)
	b.start()
	eventually(t, "the name", func() bool { return b.said("this is kitchen.local") })
	// dropped reads how many packets the kernel had no room for at port 5353.
	dropped := func() (n int) {
		text, err := os.ReadFile(filepath.Join(b.root, "proc/self/net/udp"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 13 && strings.HasSuffix(f[1], ":14E9") {
				d, err := strconv.Atoi(f[12])
				if err != nil {
					t.Fatal(err)
				}
				n += d
			}
		}
		return n
	}
	before, began := dropped(), time.Now()
	stop := peer.Flood("far0", 2000, hostile.Query("kitchen"))
	time.Sleep(3 * time.Second)
	sent := stop()
	took := time.Since(began)
	heard := sent - (dropped() - before)
	// At once a burst and what the socket holds; then by the time.
	most := hearBurst + receiveBytes/512 + int((took+time.Second)/hearEvery)
	t.Logf("%d questions in %v, %d heard, %d at most", sent, took, heard, most)
	if sent < 2*most {
		t.Fatalf("%d questions in %v are no flood", sent, took)
	}
	if heard > most {
		t.Errorf("%d questions of %d were heard, %d at most should be", heard, sent, most)
	}
	if got := peer.Run("dig", "+short", "+tries=5", "+time=2", "@10.7.0.50", "-p", "5353", "kitchen.local"); !strings.Contains(got, "10.7.0.50") {
		t.Errorf("after it: %q", got)
	}
}
