package eth

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netdevtest"
	"gwinit/services/eth/arp"
	"gwinit/services/eth/arp/arptest"
	"gwinit/services/eth/dhcp"
	"gwinit/services/eth/dhcp/dhcptest"
)

var server = dhcptest.Server{
	ID: netip.MustParseAddr("10.0.0.1"), Addr: netip.MustParseAddr("10.0.0.50"), Lease: time.Hour,
}

// macFile is the setting, below the root.
const macFile = "userdata/etc/mac_address"

// lab is a Service on a fake kernel, in a synctest bubble.
type lab struct {
	*Service
	t      *testing.T
	root   string
	kernel *netdevtest.Kernel
	net    *dhcptest.Net
	cable  *arptest.Cable
	opt    Options
	stop   func()

	mu  sync.Mutex
	log []string
}

// run starts the service; prepare may be nil.
func run(t *testing.T, files map[string]string, prepare func(*lab, *Options), test func(*lab)) {
	root := t.TempDir()
	for _, dir := range []string{"run", "userdata/etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now().Add(-20 * time.Second)
		l := &lab{t: t, root: root, kernel: netdevtest.New(), net: dhcptest.New(), cable: arptest.New()}
		l.net.Serve(server.Answer)
		l.kernel.Add("eth0", netdev.MAC{2, 0, 0, 0, 0, 9})
		opt := Options{
			Root: root, Kernel: l.kernel,
			Transport:   func(netdev.Link) dhcp.Transport { return l.net },
			ARP:         func(netdev.Link) arp.Opener { return l.cable.Open },
			SetHostname: func(string) error { return nil },
			Uptime:      func() time.Duration { return time.Since(began) },
			Userdata:    func() bool { return true },
			Random: func(_ context.Context, b []byte) error {
				copy(b, []byte{0xaa, 0xbb, 0xcc, 0xdd, 0xee})
				return nil
			},
			Log: func(line string) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.log = append(l.log, line)
			},
		}
		if prepare != nil {
			prepare(l, &opt)
		}
		l.opt = opt
		l.start()
		test(l)
		l.stop()
	})
}

// start runs a new Service.
func (l *lab) start() {
	s := New(l.opt)
	l.Service = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	l.stop = func() {
		l.t.Helper()
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("Run: %v", err)
		}
		if n := l.net.Open(); n != 0 {
			l.t.Errorf("%d sockets left open", n)
		}
		if n := l.cable.Sockets(); n != 0 {
			l.t.Errorf("%d ARP sockets left open", n)
		}
	}
}

// restart ends the process and starts the next one on what it left.
func (l *lab) restart() {
	l.stop()
	l.start()
}

// after lets d pass and returns the status then.
func (l *lab) after(d time.Duration) api.Network {
	time.Sleep(d)
	synctest.Wait()
	return l.Status()
}

// count tells how many log lines hold part.
func (l *lab) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *lab) bound() {
	l.t.Helper()
	if n := l.after(time.Second); n.State != "bound" || !slices.Equal(n.Addresses, []string{"10.0.0.50/24"}) || n.Gateway != "10.0.0.1" {
		l.t.Fatalf("not bound: %+v\n%s", n, strings.Join(l.log, "\n"))
	}
}

func TestMACIsMadeOnce(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		if n := l.Status(); n.MAC != "02:aa:bb:cc:dd:ee" {
			t.Errorf("MAC %s", n.MAC)
		}
		if got := file(t, l.root, macFile); got != "02:aa:bb:cc:dd:ee\n" {
			t.Errorf("file %q", got)
		}
		// Applied while the link is down, which is what the driver wants.
		calls := l.kernel.Calls()
		if !slices.Equal(calls[:3], []string{"up true", "mac 02:aa:bb:cc:dd:ee", "up true"}) { // the first is lo
			t.Errorf("calls %q", calls)
		}
	})
}

func TestMAC(t *testing.T) {
	none := errors.New("no entropy")
	tests := []struct {
		name    string
		stored  string
		prepare func(*lab, *Options)
		want    string
		log     string
	}{
		{"stored", "02:01:02:03:04:05\n", nil, "02:01:02:03:04:05", ""},
		{"link is up already", "02:01:02:03:04:05\n", func(l *lab, _ *Options) { _ = l.kernel.SetUp(2, true) }, "02:01:02:03:04:05", ""},
		{"no userdata", "", func(_ *lab, o *Options) { o.Userdata = func() bool { return false } }, "02:00:00:00:00:09", ""},
		{
			"no entropy", "", func(_ *lab, o *Options) { o.Random = func(context.Context, []byte) error { return none } },
			"02:00:00:00:00:09", "make a MAC: no entropy",
		},
		{
			"driver refuses", "02:01:02:03:04:05\n", func(l *lab, _ *Options) { l.kernel.Fail("SetMAC", errors.New("busy")) },
			"02:00:00:00:00:09", "busy; keeping 02:00:00:00:00:09",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var files map[string]string
			if tt.stored != "" {
				files = map[string]string{macFile: tt.stored}
			}
			run(t, files, tt.prepare, func(l *lab) {
				l.bound()
				if n := l.Status(); n.MAC != tt.want {
					t.Errorf("MAC %s, want %s", n.MAC, tt.want)
				}
				if tt.log != "" && l.count(tt.log) != 1 {
					t.Errorf("log %q", l.log)
				}
			})
		})
	}
}

// INV 10, 11: each step may fail, is said once, and is done when it can be.
func TestFailingKernel(t *testing.T) {
	for _, method := range []string{"Link", "SetUp", "SetAddr", "SetRoutes", "Watch"} {
		t.Run(method, func(t *testing.T) {
			run(t, nil, func(l *lab, _ *Options) { l.kernel.Fail(method, errors.New(method+" refused")) }, func(l *lab) {
				l.after(time.Minute)
				if n := l.count(method + " refused"); n < 1 || n > 2 {
					t.Errorf("said %d times: %q", n, l.log)
				}
				l.kernel.Fail(method, nil)
				if n := l.after(40 * time.Second); n.State != "bound" || n.Gateway != "10.0.0.1" || len(l.kernel.Routes("eth0")) != 1 || len(n.Addresses) != 1 {
					t.Errorf("%+v, routes %v", n, l.kernel.Routes("eth0"))
				}
			})
		})
	}
}

func TestNotificationsEnd(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.kernel.Fail("Watch", errors.New("no memory"))
		l.kernel.Unwatch(nil)
		l.bound()
		if l.after(time.Minute); l.count("no memory") != 1 {
			t.Errorf("log %q", l.log)
		}
		l.kernel.Fail("Watch", nil)
		l.after(10 * time.Second)
		l.kernel.Plug("eth0", false)
		if n := l.after(10 * time.Millisecond); n.State != "no-carrier" {
			t.Errorf("%+v", n)
		}
	})
}

func TestFlapTooShortToSee(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.net.Take()
		l.kernel.Flap("eth0")
		l.after(2 * time.Second)
		sent := l.net.Take()
		if len(sent) != 1 || sent[0].String() != "REQUEST packet 255.255.255.255 want 10.0.0.50" {
			t.Errorf("sent %v", sent)
		}
	})
}

func TestFallbackAndBack(t *testing.T) {
	files := map[string]string{"userdata/etc/eth0.bak": "IPADDR=10.9.0.7\nNETMASK=255.255.0.0\nGATEWAY=10.9.0.1\n"}
	run(t, files, func(l *lab, _ *Options) { l.net.Serve(nil) }, func(l *lab) {
		if n := l.after(9 * time.Second); n.State != "asking" || len(n.Addresses) != 0 {
			t.Errorf("after 9 s: %+v", n)
		}
		n := l.after(2 * time.Second)
		if n.State != "fallback" || n.Method != "fallback" || !slices.Equal(n.Addresses, []string{"10.9.0.7/16"}) || n.Gateway != "10.9.0.1" {
			t.Errorf("after 11 s: %+v", n)
		}
		l.net.Serve(server.Answer)
		l.after(40 * time.Second)
		l.bound()
		// The lease ends unrenewed: from the start again.
		l.net.Serve(nil)
		if n := l.after(2 * time.Hour); n.State != "fallback" || !slices.Equal(n.Addresses, []string{"10.9.0.7/16"}) {
			t.Errorf("after the lease: %+v", n)
		}
		if l.count("lost: the lease ended unrenewed") != 1 {
			t.Errorf("log %q", l.log)
		}
	})
}

// INV 10: no cable for an hour, then one.
func TestNoCable(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.kernel.Plug("eth0", false) }, func(l *lab) {
		if n := l.after(time.Hour); n.State != "no-carrier" || n.Carrier || len(l.net.Take()) != 0 {
			t.Errorf("%+v", n)
		}
		if l.count("no cable") != 1 {
			t.Errorf("log %q", l.log)
		}
		l.kernel.Plug("eth0", true)
		l.bound()
	})
}

func TestInterfaceGoesAndComes(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.kernel.Remove("eth0") }, func(l *lab) {
		if n := l.after(time.Hour); n.State != "down" || n.MAC != "" || l.count("waiting for it") != 1 {
			t.Errorf("%+v, %q", n, l.log)
		}
		for range 3 {
			l.kernel.Add("eth0", netdev.MAC{2, 9})
			l.bound()
			l.kernel.Remove("eth0")
			if n := l.after(time.Second); n.State != "down" || len(n.Addresses) != 0 {
				t.Errorf("gone: %+v", n)
			}
		}
	})
}

func TestMTU(t *testing.T) {
	small := server
	small.Options = map[uint8][]byte{26: {5, 120}}
	run(t, nil, func(l *lab, _ *Options) { l.net.Serve(small.Answer) }, func(l *lab) {
		l.bound()
		if link, _ := l.kernel.Link("eth0"); link.MTU != 1400 {
			t.Errorf("MTU %d", link.MTU)
		}
		l.net.Serve(server.Answer)
		l.kernel.Flap("eth0")
		l.after(2 * time.Second)
		if link, _ := l.kernel.Link("eth0"); link.MTU != 1500 {
			t.Errorf("MTU %d where the server says nothing", link.MTU)
		}
	})
}

// The settings decide what of an address, mask and gateway can be used; their
// verdict is what the interface gets, and is said once.
func TestStaticVerdict(t *testing.T) {
	tests := []struct {
		name        string
		conf        string
		state, addr string
		route       []netdev.Route
		log         string
	}{
		{
			"gateway elsewhere", "IPADDR=10.7.0.9/24\nGATEWAY=10.8.0.1\n", "static", "10.7.0.9/24",
			[]netdev.Route{{Dst: anywhere, Via: netip.MustParseAddr("10.8.0.1"), OnLink: true}},
			`eth0.conf:2: GATEWAY="10.8.0.1": not in 10.7.0.0/24`,
		},
		{"gateway is everybody", "IPADDR=10.7.0.9/24\nGATEWAY=10.7.0.255\n", "static", "10.7.0.9/24", nil, `eth0.conf:2: GATEWAY="10.7.0.255": no host`},
		{
			"broadcast address", "IPADDR=10.7.0.255/24\nGATEWAY=10.7.0.1\n", "bound", "10.0.0.50/24",
			[]netdev.Route{{Dst: anywhere, Via: server.ID}},
			`eth0.conf:1: IPADDR="10.7.0.255/24": the broadcast address`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run(t, map[string]string{"userdata/etc/eth0.conf": tt.conf}, nil, func(l *lab) {
				n := l.after(time.Second)
				if n.State != tt.state || !slices.Equal(n.Addresses, []string{tt.addr}) {
					t.Errorf("%+v", n)
				}
				if got := l.kernel.Routes("eth0"); !slices.Equal(got, tt.route) {
					t.Errorf("routes %+v, want %+v", got, tt.route)
				}
				if l.count(tt.log) != 1 || l.count("eth0.conf") != 1 {
					t.Errorf("log %q", l.log)
				}
			})
		})
	}
}

// A fallback that no host can have does not leave the box without one.
func TestFallbackThatCannotBe(t *testing.T) {
	files := map[string]string{"userdata/etc/eth0.bak": "IPADDR=10.9.255.255\nNETMASK=255.255.0.0\nGATEWAY=10.9.0.1\n"}
	run(t, files, func(l *lab, _ *Options) { l.net.Serve(nil) }, func(l *lab) {
		if n := l.after(11 * time.Second); n.State != "fallback" || !slices.Equal(n.Addresses, []string{"192.168.1.254/24"}) {
			t.Errorf("%+v", n)
		}
	})
}

// On erased flash the partition is there and its folder is not: the MAC of the
// first boot is that of the second.
func TestMACOnErasedFlash(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) {
		if err := os.Remove(filepath.Join(l.root, "userdata/etc")); err != nil {
			t.Fatal(err)
		}
	}, func(l *lab) {
		l.bound()
		if got := file(t, l.root, macFile); got != "02:aa:bb:cc:dd:ee\n" {
			t.Errorf("file %q", got)
		}
		l.stop()
		l.kernel.Remove("eth0")
		l.kernel.Add("eth0", netdev.MAC{2, 0, 0, 0, 0, 77})
		l.opt.Random = func(_ context.Context, b []byte) error {
			t.Error("a second MAC is made")
			return nil
		}
		l.start()
		if l.bound(); l.Status().MAC != "02:aa:bb:cc:dd:ee" {
			t.Errorf("MAC %s after the next boot", l.Status().MAC)
		}
	})
}

// A restart finds the MAC gone or spoiled, and the one in force stays.
func TestMACInForceIsAdopted(t *testing.T) {
	for name, stored := range map[string]string{"gone": "", "spoiled": "\x00\x00\x00", "no MAC": "03:00:00:00:00:01\n"} {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]string{macFile: "02:00:00:00:00:01\n"}, nil, func(l *lab) {
				l.bound()
				path := filepath.Join(l.root, macFile)
				err := os.Remove(path)
				if stored != "" {
					err = os.WriteFile(path, []byte(stored), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
				l.kernel.Calls()
				l.restart()
				if l.bound(); l.Status().MAC != "02:00:00:00:00:01" || l.count("adopted MAC 02:00:00:00:00:01") != 1 {
					t.Errorf("MAC %s, log %q", l.Status().MAC, l.log)
				}
				if got := file(t, l.root, macFile); got != "02:00:00:00:00:01\n" {
					t.Errorf("file %q", got)
				}
				for _, call := range l.kernel.Calls() {
					if strings.HasPrefix(call, "mac ") || strings.HasPrefix(call, "up ") {
						t.Errorf("the restart did %q", call)
					}
				}
			})
		})
	}
}

func TestRandom(t *testing.T) {
	a, b := make([]byte, 16), make([]byte, 16)
	if err := errors.Join(random(t.Context(), a), random(t.Context(), b)); err != nil {
		t.Fatal(err)
	}
	if string(a) == string(b) {
		t.Error("twice the same")
	}
}

func TestMounted(t *testing.T) {
	if mounted(t.TempDir()) || mounted("/nowhere") || !mounted("/proc") {
		t.Error("a folder, what is not there, or /proc")
	}
}

// A restart while the server is silent changes nothing until the lease ends:
// address, routes and servers stay, and no fallback takes their place.
func TestRestartWhileServerIsSilent(t *testing.T) {
	full := server
	full.Options = map[uint8][]byte{6: {10, 0, 0, 2, 10, 0, 0, 3}, 15: []byte("lan.example")}
	files := map[string]string{
		macFile:                 "02:00:00:00:00:01\n",
		"userdata/etc/eth0.bak": "IPADDR=10.9.0.7\nNETMASK=255.255.0.0\nGATEWAY=10.9.0.1\n",
	}
	run(t, files, func(l *lab, _ *Options) { l.net.Serve(full.Answer) }, func(l *lab) {
		l.bound()
		l.net.Serve(nil)
		l.after(10 * time.Minute)
		l.net.Take()
		l.restart()
		const left = 50*60 - 1 // 1 s in bound
		n := l.after(time.Minute)
		want := api.Network{
			Interface: "eth0", MAC: "02:00:00:00:00:01", Carrier: true, SpeedMbit: n.SpeedMbit, Method: "dhcp", State: "bound",
			Addresses: []string{"10.0.0.50/24"}, Gateway: "10.0.0.1", DNS: []string{"10.0.0.2", "10.0.0.3"}, Server: "10.0.0.1", Lease: n.Lease,
		}
		if !reflect.DeepEqual(n, want) || n.Lease < left-61 || n.Lease > left-60 {
			t.Errorf("a minute after the restart: %+v", n)
		}
		if got := l.kernel.Routes("eth0"); len(got) != 1 || got[0].Via != server.ID {
			t.Errorf("routes %v", got)
		}
		if got := file(t, l.root, resolvFile); got != "search lan.example\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n" {
			t.Errorf("resolv.conf %q", got)
		}
		if sent := l.net.Take(); len(sent) == 0 || sent[0].String() != "REQUEST packet 255.255.255.255 want 10.0.0.50" {
			t.Errorf("sent %v", sent)
		}
		if l.count("still 10.0.0.50/24 from 10.0.0.1 for 49m5") != 1 {
			t.Errorf("log %q", l.log)
		}
		// Again, and then the lease does end.
		l.restart()
		if n := l.after(48 * time.Minute); n.State != "bound" || n.Gateway != "10.0.0.1" {
			t.Errorf("shortly before the lease ends: %+v", n)
		}
		if n := l.after(2 * time.Minute); n.State != "fallback" || !slices.Equal(n.Addresses, []string{"10.9.0.7/16"}) {
			t.Errorf("after the lease: %+v", n)
		}
		if _, err := os.Stat(filepath.Join(l.root, "run/eth0.lease")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a lease is recorded still: %v", err)
		}
	})
}

// What the record does not fit is not gone on with.
func TestRestartWithAnotherMAC(t *testing.T) {
	run(t, map[string]string{macFile: "02:00:00:00:00:01\n"}, nil, func(l *lab) {
		l.bound()
		l.net.Serve(nil)
		if err := os.WriteFile(filepath.Join(l.root, macFile), []byte("02:00:00:00:00:02\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		l.net.Take()
		l.restart()
		n := l.after(time.Second)
		if sent := l.net.Take(); n.State != "asking" || len(sent) == 0 || sent[0].String() != "DISCOVER packet 255.255.255.255" {
			t.Errorf("%+v, sent %v", n, sent)
		}
	})
}

func TestReadRecord(t *testing.T) {
	mac := netdev.MAC{2, 0, 0, 0, 0, 1}
	good := record{
		MAC: mac, Acquired: 100 * time.Second,
		Lease: dhcp.Lease{
			Addr: netip.MustParsePrefix("10.0.0.50/24"), Server: server.ID, Routers: []netip.Addr{server.ID},
			Routes: []dhcp.Route{{Dst: netip.MustParsePrefix("10.1.0.0/16"), Via: server.ID}}, NTP: []netip.Addr{server.ID},
			Domain: "lan", Search: []string{"a", "b"}, MTU: 1400, Duration: time.Hour, T1: time.Minute, T2: 2 * time.Minute,
		},
	}
	tests := []struct {
		name   string
		change func(r *record)
		now    time.Duration
		age    time.Duration // -1: refused
	}{
		{"at once", func(*record) {}, 100 * time.Second, 0},
		{"later", func(*record) {}, 3699 * time.Second, 3599 * time.Second},
		{"ended", func(*record) {}, 3700 * time.Second, -1},
		{"of another boot", func(*record) {}, 99 * time.Second, -1},
		{"for ever", func(r *record) {
			r.Lease.Duration, r.Lease.T1, r.Lease.T2 = dhcp.Infinite, dhcp.Infinite, dhcp.Infinite
		}, 1e6 * time.Second, 999900 * time.Second},
		{"another MAC", func(r *record) { r.MAC[5]++ }, 100 * time.Second, -1},
		{"no address", func(r *record) { r.Lease.Addr = netip.Prefix{} }, 100 * time.Second, -1},
		{"IPv6", func(r *record) { r.Lease.Addr = netip.MustParsePrefix("fd00::1/64") }, 100 * time.Second, -1},
		{"no server", func(r *record) { r.Lease.Server = netip.Addr{} }, 100 * time.Second, -1},
		{"no times", func(r *record) { r.Lease.T1 = 0 }, 100 * time.Second, -1},
		{"times out of order", func(r *record) { r.Lease.T1 = 3 * time.Minute }, 100 * time.Second, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := good
			tt.change(&r)
			b, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			l, ok := readRecord(b, mac, tt.now)
			if ok != (tt.age >= 0) {
				t.Fatalf("readRecord(%s) = %v", b, ok)
			}
			if !ok {
				return
			}
			if age := time.Since(l.Acquired).Round(time.Minute / 60); age != tt.age {
				t.Errorf("age %v, want %v", age, tt.age)
			}
			if l.Acquired = (time.Time{}); !reflect.DeepEqual(l, r.Lease) {
				t.Errorf("read %+v\nwrote %+v", l, r.Lease)
			}
		})
	}
	for _, text := range []string{"", "\n", "{}", "null", "[]", `{"MAC":[2,0,0,0,0,1],"Lease":{"Addr":"10.0.0.50/24"`} {
		if _, ok := readRecord([]byte(text), mac, time.Hour); ok {
			t.Errorf("%q is a lease", text)
		}
	}
}

// Whatever is in the file, what comes out of it can be used.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte(`{"MAC":[2,0,0,0,0,1],"Acquired":1000000000,"Lease":{"Addr":"10.0.0.50/24","Server":"10.0.0.1","Routers":["10.0.0.1"],` +
		`"Routes":[{"Dst":"10.1.0.0/16","Via":"10.0.0.1"}],"DNS":["10.0.0.1"],"Duration":3600000000000,"T1":1800000000000,"T2":3150000000000}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, ok := readRecord(b, netdev.MAC{2, 0, 0, 0, 0, 1}, time.Hour)
		if !ok {
			return
		}
		if l.Left(time.Now().Add(-time.Second)) == 0 || !l.Addr.Addr().Is4() || !l.Server.Is4() {
			t.Errorf("%q gives %+v", b, l)
		}
		if to := leased(l); to.addr != l.Addr || len(to.dns) == 0 {
			t.Errorf("%q gives %+v", b, to)
		}
	})
}

var other = netdev.MAC{2, 0, 0, 0, 0, 7}

// An address of eth0.conf that another host has stays, and is said.
func TestStaticConflict(t *testing.T) {
	files := map[string]string{"userdata/etc/eth0.conf": "IPADDR=10.7.0.9/24\nGATEWAY=10.7.0.1\n"}
	at := netip.MustParseAddr("10.7.0.9")
	run(t, files, func(l *lab, _ *Options) { l.cable.Take(at, other) }, func(l *lab) {
		want := []api.Conflict{{Address: "10.7.0.9", MAC: "02:00:00:00:00:07"}}
		n := l.after(10 * time.Minute)
		if n.State != "static" || !slices.Equal(n.Addresses, []string{"10.7.0.9/24"}) || !slices.Equal(n.Conflicts, want) {
			t.Errorf("%+v", n)
		}
		if l.count("10.7.0.9 is also used by 02:00:00:00:00:07") != 1 {
			t.Errorf("log %q", l.log)
		}
		l.cable.Leave(at)
		if n := l.after(2 * time.Minute); len(n.Conflicts) != 0 || l.count("no other host uses 10.7.0.9 any more") != 1 {
			t.Errorf("%+v, log %q", n, l.log)
		}
		// The cable goes where somebody has it.
		l.kernel.Plug("eth0", false)
		l.cable.Take(at, other)
		l.after(time.Minute)
		l.kernel.Plug("eth0", true)
		if n := l.after(2 * time.Second); !slices.Equal(n.Conflicts, want) {
			t.Errorf("%+v", n)
		}
	})
}

// A lease whose address somebody has is declined, and the status says why there
// is none.
func TestLeaseConflict(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.net.Use(server.Addr, other) }, func(l *lab) {
		want := []api.Conflict{{Address: "10.0.0.50", MAC: "02:00:00:00:00:07"}}
		if n := l.after(time.Second); n.State != "asking" || len(n.Addresses) != 0 || !slices.Equal(n.Conflicts, want) {
			t.Errorf("%+v", n)
		}
		l.net.Use(server.Addr, netdev.MAC{})
		l.after(9 * time.Second)
		l.bound()
		if n := l.Status(); len(n.Conflicts) != 0 {
			t.Errorf("%+v", n)
		}
		// Somebody takes it later, and keeps it when told whose it is.
		l.after(time.Minute)
		l.cable.Take(server.Addr, other)
		l.cable.Say(arp.Packet{Request: true, Sender: other, SenderIP: server.Addr, TargetIP: server.Addr})
		if n := l.after(time.Second); n.State != "asking" || len(n.Addresses) != 0 || !slices.Equal(n.Conflicts, want) {
			t.Errorf("%+v", n)
		}
		if l.count("address 10.0.0.50/24 lost: 10.0.0.50 is used by another host, 02:00:00:00:00:07") != 1 {
			t.Errorf("log %q", l.log)
		}
	})
}

// INV 11.
func TestNoARP(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.cable.Fail(errors.New("no packet sockets")) }, func(l *lab) {
		l.bound()
		if l.count("10.0.0.50 is not watched over: no packet sockets") != 1 {
			t.Errorf("log %q", l.log)
		}
	})
}

func TestDuplicateIPv6(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.kernel.AddAddr("eth0", netdev.Addr{Prefix: netip.MustParsePrefix("fe80::1/64"), Tentative: true, Duplicate: true})
		n := l.Status()
		if !slices.Equal(n.Conflicts, []api.Conflict{{Address: "fe80::1"}}) || !slices.Equal(n.Addresses, []string{"10.0.0.50/24"}) {
			t.Errorf("%+v", n)
		}
	})
}

func TestBroadcast(t *testing.T) {
	odd := server
	odd.Options = map[uint8][]byte{28: {10, 0, 0, 0}}
	run(t, nil, func(l *lab, _ *Options) { l.net.Serve(odd.Answer) }, func(l *lab) {
		l.bound()
		addrs, err := l.kernel.Addrs(2)
		if err != nil || len(addrs) != 1 || addrs[0].Broadcast != netip.MustParseAddr("10.0.0.0") {
			t.Errorf("%+v, %v", addrs, err)
		}
	})
}

// The name servers of both families, in one file.
func TestNameServers(t *testing.T) {
	v6 := func(s string) netip.Addr { return netip.MustParseAddr(s) }
	full := server
	full.Options = map[uint8][]byte{6: {10, 0, 0, 2, 10, 0, 0, 3, 10, 0, 0, 4}, 15: []byte("lan.example")}
	var changes atomic.Int32
	run(t, nil, func(l *lab, o *Options) {
		l.net.Serve(full.Answer)
		o.Changed = func() { changes.Add(1) }
	}, func(l *lab) {
		l.bound()
		resolv := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := file(t, l.root, resolvFile); got != want {
				t.Errorf("resolv.conf %q, want %q", got, want)
			}
		}
		const v4 = "search lan.example\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n"
		resolv(v4 + "nameserver 10.0.0.4\n")
		before := changes.Load()
		l.kernel.Advertise("eth0", 30*time.Second, v6("fd00::1"), v6("fd00::2"))
		resolv(v4 + "nameserver fd00::1\n")
		if changes := changes.Load(); changes != before+1 {
			t.Errorf("told %d times", changes-before)
		}
		if n := l.Status(); !slices.Equal(n.DNS, []string{"10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2", "10.0.0.4"}) {
			t.Errorf("DNS %v", n.DNS)
		}
		l.kernel.Advertise("lo", time.Hour, v6("fd00::"))
		// Said again, they stay; one is withdrawn, and the other one ends.
		l.after(20 * time.Second)
		l.kernel.Advertise("eth0", 30*time.Second, v6("fd00::2"), v6("fd00::1"))
		l.after(20 * time.Second)
		resolv(v4 + "nameserver fd00::1\n")
		l.kernel.Advertise("eth0", 0, v6("fd00::1"))
		resolv(v4 + "nameserver fd00::2\n")
		l.after(11 * time.Second)
		resolv(v4 + "nameserver 10.0.0.4\n")
		// For ever, and on the link: with its zone.
		l.kernel.Advertise("eth0", netdev.Forever, v6("fe80::53"))
		l.after(24 * time.Hour)
		resolv(v4 + "nameserver fe80::53%eth0\n")
		// The cable was out: it is said again within 10 s, or is of the past.
		l.kernel.Flap("eth0")
		l.after(5 * time.Second)
		resolv(v4 + "nameserver fe80::53%eth0\n")
		l.kernel.Advertise("eth0", time.Hour, v6("fd00::1"))
		l.after(6 * time.Second)
		resolv(v4 + "nameserver fd00::1\n")
		// More than can be kept.
		for i := range 20 {
			l.kernel.Advertise("eth0", time.Hour, netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(i + 1)}))
			l.after(time.Second)
		}
		if n := l.Status(); len(n.DNS) != 3+maxRouterDNS || !slices.Contains(n.DNS, "fd00::14") {
			t.Errorf("DNS %v", n.DNS)
		}
	})
}

// A router that names more servers for ever than are kept, and is gone, leaves
// room for one that is right.
func TestNameServersOfARogueRouter(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		var rogue []netip.Addr
		for i := range maxRouterDNS {
			rogue = append(rogue, netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x66, 15: byte(i + 1)}))
		}
		l.kernel.Advertise("eth0", netdev.Forever, rogue...)
		l.after(time.Minute)
		for range 3 {
			l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::53"), netip.MustParseAddr("fd00::54"))
			l.after(10 * time.Minute)
			want := []string{"fd66::3", "fd66::4", "fd66::5", "fd66::6", "fd00::53", "fd00::54", "8.8.8.8"}
			if n := l.Status(); !slices.Equal(n.DNS, want) {
				t.Errorf("DNS %v, want %v", n.DNS, want)
			}
		}
	})
}

// Domains that routers advertise are searched behind those of the DHCP server.
func TestSearchDomains(t *testing.T) {
	full := server
	full.Options = map[uint8][]byte{6: {10, 0, 0, 2}, 15: []byte("lan.example")}
	run(t, nil, func(l *lab, _ *Options) { l.net.Serve(full.Answer) }, func(l *lab) {
		l.bound()
		search := func(want string) {
			t.Helper()
			synctest.Wait()
			if got, _, _ := strings.Cut(file(t, l.root, resolvFile), "\n"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		search("search lan.example")
		l.kernel.AdvertiseSearch("eth0", 30*time.Second, "six.example", "lan.example")
		search("search lan.example six.example")
		l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::1"))
		if l.after(time.Second); !slices.Equal(l.Status().DNS, []string{"10.0.0.2", "fd00::1"}) {
			t.Errorf("DNS %v", l.Status().DNS)
		}
		for range 2 {
			l.kernel.AdvertiseSearch("eth0", time.Hour, "a", "b", "c", "d", "e", "f", "g")
			search("search lan.example a b c d e")
			l.after(time.Second)
		}
		l.kernel.AdvertiseSearch("eth0", 0, "z") // that nobody had named
		search("search lan.example a b c d e")
		l.kernel.AdvertiseSearch("eth0", 0, "b", "c", "d", "e", "f")
		search("search lan.example a")
		l.kernel.Flap("eth0")
		l.after(11 * time.Second)
		search("search lan.example")
	})
	// Without an address, and in the fallback.
	run(t, nil, func(l *lab, _ *Options) { l.net.Serve(nil) }, func(l *lab) {
		l.after(time.Second)
		l.kernel.AdvertiseSearch("eth0", time.Hour, "six.example")
		l.after(time.Second)
		if got := file(t, l.root, resolvFile); got != "search six.example\n" {
			t.Errorf("%q", got)
		}
		l.after(10 * time.Second)
		if got := file(t, l.root, resolvFile); got != "search six.example\nnameserver 8.8.8.8\nnameserver 1.1.1.1\n" {
			t.Errorf("with the fallback: %q", got)
		}
	})
}

// Without a DHCP server that names any, IPv6's are asked first.
func TestNameServersOfIPv6Only(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.net.Serve(nil) }, func(l *lab) {
		l.after(time.Second)
		l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::1"))
		l.after(time.Second)
		if got := file(t, l.root, resolvFile); got != "nameserver fd00::1\n" {
			t.Errorf("without an address: %q", got)
		}
		l.after(10 * time.Second)
		if got := file(t, l.root, resolvFile); got != "nameserver fd00::1\nnameserver 8.8.8.8\nnameserver 1.1.1.1\n" {
			t.Errorf("with the fallback: %q", got)
		}
	})
}

func TestRouterNotificationsFail(t *testing.T) {
	run(t, nil, func(l *lab, _ *Options) { l.kernel.Fail("WatchDNS", errors.New("no such group")) }, func(l *lab) {
		l.bound()
		l.after(time.Minute)
		if l.count("no such group") != 1 {
			t.Errorf("log %q", l.log)
		}
		l.kernel.Fail("WatchDNS", nil)
		l.after(time.Minute)
		l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::1"))
		if l.after(time.Second); !slices.Contains(l.Status().DNS, "fd00::1") {
			t.Errorf("%+v", l.Status())
		}
	})
}

// Routers are asked where the kernel has asked before this process was there.
func TestRoutersAreAskedAfterARestart(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		if slices.Contains(l.kernel.Calls(), "solicit") {
			t.Error("asked where the kernel asks itself")
		}
		l.restart()
		l.bound()
		if !slices.Contains(l.kernel.Calls(), "solicit") {
			t.Error("not asked after a restart")
		}
	})
}

const savedPath = "userdata/etc/eth0.lease"

// The address is there at the next boot, and flash is written once a day.
func TestAddressOverAReboot(t *testing.T) {
	second := server
	second.Addr = netip.MustParseAddr("10.0.0.51")
	files := map[string]string{macFile: "02:00:00:00:00:01\n"}
	run(t, files, nil, func(l *lab) {
		l.bound()
		if l.after(9 * time.Minute); exists(l, savedPath) {
			t.Error("written at once")
		}
		l.after(2 * time.Minute)
		if got := file(t, l.root, savedPath); got != "10.0.0.50 10.0.0.1 02:00:00:00:00:01\n" {
			t.Errorf("%q", got)
		}
		// Another one within the day, and after a restart.
		l.net.Serve(second.Answer)
		l.restart()
		l.after(12 * time.Hour)
		if got := l.Status().Addresses; !slices.Equal(got, []string{"10.0.0.51/24"}) {
			t.Errorf("addresses %v", got)
		}
		if got := file(t, l.root, savedPath); got != "10.0.0.50 10.0.0.1 02:00:00:00:00:01\n" {
			t.Errorf("%q within a day", got)
		}
		l.after(13 * time.Hour)
		if got := file(t, l.root, savedPath); got != "10.0.0.51 10.0.0.1 02:00:00:00:00:01\n" {
			t.Errorf("%q after a day", got)
		}
		// A boot: the interface is new, /run is empty.
		l.stop()
		l.kernel.Remove("eth0")
		l.kernel.Add("eth0", netdev.MAC{2, 9})
		for _, name := range []string{"run/eth0.saved", "run/eth0.lease", "run/eth0.addr"} {
			if err := os.Remove(filepath.Join(l.root, name)); err != nil {
				t.Error(err)
			}
		}
		l.net.Take()
		l.start()
		l.after(time.Second)
		if got, want := kinds(l.net), []string{"REQUEST packet 255.255.255.255 want 10.0.0.51"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

func exists(l *lab, name string) bool {
	_, err := os.Stat(filepath.Join(l.root, name))
	return err == nil
}

// Without /userdata, and where it cannot be written, nothing else changes.
func TestAddressThatCannotBeSaved(t *testing.T) {
	var there atomic.Bool
	run(t, map[string]string{macFile: "02:00:00:00:00:01\n"}, func(_ *lab, o *Options) { o.Userdata = there.Load }, func(l *lab) {
		l.bound()
		if l.after(time.Hour); exists(l, savedPath) || exists(l, "run/eth0.saved") {
			t.Error("written without /userdata")
		}
		there.Store(true)
		if err := os.Mkdir(filepath.Join(l.root, savedPath), 0o755); err != nil {
			t.Fatal(err)
		}
		l.after(23 * time.Hour)
		if n := l.count("eth0.lease"); n != 1 {
			t.Errorf("tried %d times: %q", n, l.log)
		}
		if n := l.Status(); n.State != "bound" {
			t.Errorf("%+v", n)
		}
	})
}

func TestParseSaved(t *testing.T) {
	mac := netdev.MAC{2, 0, 0, 0, 0, 1}
	if got, want := parseSaved("10.0.0.50 10.0.0.1 02:00:00:00:00:01\n", mac), (dhcp.Known{Addr: server.Addr, Server: server.ID}); got != want {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{
		"", "\n", "10.0.0.50", "10.0.0.50 10.0.0.1 02:00:00:00:00:02", "10.0.0.50 10.0.0.1 02:00:00:00:00:01 more",
		"0.0.0.0 10.0.0.1 02:00:00:00:00:01", "fd00::1 10.0.0.1 02:00:00:00:00:01", "10.0.0.50 255.255.255.255 02:00:00:00:00:01",
		"\x00\x00\x00 10.0.0.1 02:00:00:00:00:01",
	} {
		if got := parseSaved(text, mac); got != (dhcp.Known{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzParseSaved(f *testing.F) {
	mac := netdev.MAC{2, 0, 0, 0, 0, 1}
	f.Add("10.0.0.50 10.0.0.1 02:00:00:00:00:01\n")
	f.Fuzz(func(t *testing.T, text string) {
		k := parseSaved(text, mac)
		if k != (dhcp.Known{}) && (!k.Addr.Is4() || !k.Server.Is4()) {
			t.Errorf("%q: %+v", text, k)
		}
	})
}

// A link that flaps ten times a second for five minutes: the log can be read,
// nobody is asked all the time, and then all is well.
func TestFlappingIsCalm(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.after(3 * time.Second)
		l.net.Take()
		l.cable.Sent()
		lines := l.count("")
		for range 3000 {
			l.kernel.Plug("eth0", false)
			l.after(50 * time.Millisecond)
			l.kernel.Plug("eth0", true)
			l.after(50 * time.Millisecond)
		}
		l.after(3 * time.Second)
		if n := l.count("") - lines; n > 13 {
			t.Errorf("%d lines: %q", n, l.log[lines:])
		}
		if l.count("changes in") < 4 || l.count("link up, after ") < 1 {
			t.Errorf("log %q", l.log[lines:])
		}
		if n := len(l.net.Take()); n > 310 {
			t.Errorf("%d DHCP messages", n)
		}
		if sent := l.cable.Sent(); len(sent) != 2 {
			t.Errorf("ARP %q", sent)
		}
		l.bound()
		// A cable that is moved by hand is said as it happens.
		l.after(time.Minute)
		lines = l.count("")
		l.kernel.Plug("eth0", false)
		l.after(time.Second)
		l.kernel.Plug("eth0", true)
		l.after(10 * time.Millisecond)
		if got := l.log[lines:]; !slices.Equal(got, []string{"eth0: link down", "eth0: link up"}) {
			t.Errorf("log %q", got)
		}
	})
}

// A lease is announced again where the cable went, once it is known to hold there:
// in another network the address may be somebody's.
func TestAnnouncedWhereTheCableWent(t *testing.T) {
	run(t, nil, nil, func(l *lab) {
		l.bound()
		l.after(5 * time.Second)
		l.cable.Sent()
		l.net.Serve(nil)
		l.kernel.Plug("eth0", false)
		l.after(5 * time.Second)
		l.kernel.Plug("eth0", true)
		l.after(30 * time.Second)
		if sent := l.cable.Sent(); len(sent) != 0 {
			t.Errorf("sent %q before a server confirmed it", sent)
		}
		l.net.Serve(server.Answer)
		l.after(time.Minute)
		if sent := l.cable.Sent(); !slices.Equal(sent, []string{"announce 10.0.0.50", "announce 10.0.0.50"}) {
			t.Errorf("sent %q", sent)
		}
		// A renewal is no news.
		l.after(time.Hour)
		if sent := l.cable.Sent(); len(sent) != 0 {
			t.Errorf("sent %q at a renewal", sent)
		}
	})
}
