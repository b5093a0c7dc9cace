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
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netdevtest"
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
		l := &lab{t: t, root: root, kernel: netdevtest.New(), net: dhcptest.New()}
		l.net.Serve(server.Answer)
		l.kernel.Add("eth0", netdev.MAC{2, 0, 0, 0, 0, 9})
		opt := Options{
			Root: root, Kernel: l.kernel,
			Transport:   func(netdev.Link) dhcp.Transport { return l.net },
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
