package eth

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
	"gwinit/services/eth/dhcp"
)

// The tests of this file run against the kernel and real servers, each in network
// namespaces of its own, side by side. They take the real time that DHCP takes.

// box is a running Service on eth0.
type box struct {
	*Service
	t    *testing.T
	root string
	stop func()

	mu  sync.Mutex
	log []string
}

func (b *box) logged(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.log, func(l string) bool { return strings.Contains(l, part) })
}

// start runs a Service; files are below /userdata/etc.
func start(t *testing.T, root string, files map[string]string) *box {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, "userdata/etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := &box{t: t, root: root}
	b.Service = New(Options{
		Root:        root,
		SetHostname: func(string) error { return nil },
		Userdata:    func() bool { return true },
		Log: func(line string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.log = append(b.log, line)
			t.Log(line)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- b.Run(ctx) }()
	once := sync.Once{}
	b.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(b.stop)
	return b
}

// until waits for ok and returns how long it took.
func (b *box) until(limit time.Duration, what string, ok func(api.Network) bool) time.Duration {
	b.t.Helper()
	began := time.Now()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		n := b.Status()
		if ok(n) {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			b.t.Fatalf("not %s after %v: %+v", what, limit, n)
		}
		<-poll.C
	}
}

func bound(prefix string) func(api.Network) bool {
	p := netip.MustParsePrefix(prefix)
	return func(n api.Network) bool {
		return n.State == "bound" && slices.ContainsFunc(n.Addresses, func(a string) bool {
			q, err := netip.ParsePrefix(a)
			return err == nil && p.Contains(q.Addr()) && q.Bits() == p.Bits()
		})
	}
}

func dnsmasq(t *testing.T, p *netlab.Peer, args ...string) func() string {
	t.Helper()
	dir := t.TempDir()
	stop := p.Start(append([]string{
		"dnsmasq", "--keep-in-foreground", "--log-facility=-", "--log-dhcp", "--conf-file=/dev/null", "--user=root",
		"--no-ping", "--port=0", "--no-resolv", "--interface=srv0", "--bind-interfaces",
		"--dhcp-leasefile=" + dir + "/leases", "--pid-file=" + dir + "/pid",
	}, args...)...)
	listens(t, p)
	return stop
}

func TestLease(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,2m", "--domain=lan.example",
		"--dhcp-option=option:dns-server,10.7.0.1,10.7.0.2", "--dhcp-option=option:ntp-server,10.7.0.3",
		"--dhcp-option=option:domain-search,a.example,b.example", "--dhcp-option=option:mtu,1400")
	b := start(t, root, map[string]string{"hostname": "kitchen\n"})
	took := b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	t.Logf("bound after %v", took)

	n := b.Status()
	if n.Gateway != "10.7.0.1" || n.Server != "10.7.0.1" || n.Method != "dhcp" || !n.Carrier || n.Lease < 100 || n.Lease > 120 {
		t.Errorf("status %+v", n)
	}
	mac := file(t, root, "userdata/etc/mac_address")
	if len(mac) != 18 || !strings.HasPrefix(mac, "02:") || mac != n.MAC+"\n" {
		t.Errorf("mac_address %q, status %q", mac, n.MAC)
	}
	if got, want := file(t, root, "run/resolv.conf"), "search a.example b.example\nnameserver 10.7.0.1\nnameserver 10.7.0.2\n"; got != want {
		t.Errorf("resolv.conf %q, want %q", got, want)
	}
	routes := netlab.Run(t, "ip", "-4", "route")
	if !strings.Contains(routes, "default via 10.7.0.1 dev eth0 proto dhcp") {
		t.Errorf("routes:\n%s", routes)
	}
	addrs := netlab.Run(t, "ip", "addr", "show", "dev", "eth0")
	for _, want := range []string{"mtu 1400", "valid_lft 1", n.MAC} {
		if !strings.Contains(addrs, want) {
			t.Errorf("no %q in\n%s", want, addrs)
		}
	}
	if got := file(t, root, "proc/sys/net/ipv6/conf/eth0/accept_ra"); got != "2\n" {
		t.Errorf("accept_ra %q", got)
	}

	// A restart keeps the address and does not ask for another.
	addr := n.Addresses[0]
	b.until(5*time.Second, "2 s older", func(now api.Network) bool { return now.Lease <= n.Lease-2 })
	b.stop()
	if got := netlab.Run(t, "ip", "-4", "addr", "show", "dev", "eth0"); !strings.Contains(got, addr) {
		t.Fatalf("the address went with the process:\n%s", got)
	}
	b = start(t, root, nil)
	b.until(10*time.Second, "bound again", bound("10.7.0.0/24"))
	eventually(t, "confirmed", func() bool { return b.Status().Lease >= n.Lease-1 })
	if got := b.Status().Addresses[0]; got != addr {
		t.Errorf("address %s after a restart, was %s", got, addr)
	}
	b.stop()
	said := stop()
	// One acquisition, by transaction: its first message may get lost, as the
	// other end of the cable drops what it sends in the first moment.
	discovers := map[string]bool{}
	for line := range strings.Lines(said) {
		if before, _, ok := strings.Cut(line, " DHCPDISCOVER("); ok {
			discovers[before] = true
		}
	}
	if len(discovers) != 1 {
		t.Errorf("%d acquisitions", len(discovers))
	}
	if !strings.Contains(said, "client provides name: kitchen") {
		t.Error("no host name sent")
	}
}

func file(t *testing.T, root, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The cable is pulled and goes into another network.
func TestCableMovedToAnotherNetwork(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": "02:00:00:00:00:01\n"})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))

	for _, authoritative := range []bool{true, false} {
		from, to, args := "10.7.0", "10.8.0", []string{"--dhcp-range=10.8.0.50,10.8.0.60,1h", "--dhcp-authoritative"}
		if !authoritative { // silent about leases it does not know
			from, to, args = "10.8.0", "10.7.0", []string{"--dhcp-range=10.7.0.50,10.7.0.60,1h"}
		}
		peer.Run("ip", "link", "set", "srv0", "down")
		b.until(10*time.Second, "without carrier", func(n api.Network) bool { return n.State == "no-carrier" && !n.Carrier })
		if n := b.Status(); len(n.Addresses) == 0 || !strings.HasPrefix(n.Addresses[0], from) {
			t.Errorf("addresses without a cable: %v", n.Addresses)
		}
		stop()
		peer.Run("ip", "addr", "flush", "dev", "srv0")
		peer.Run("ip", "addr", "add", to+".1/24", "dev", "srv0")
		stop = dnsmasq(t, peer, args...)
		peer.Run("ip", "link", "set", "srv0", "up")
		took := b.until(10*time.Second, "bound elsewhere", bound(to+".0/24"))
		t.Logf("authoritative %v: %v after the cable was in", authoritative, took)
		if took > 3500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if got := netlab.Run(t, "ip", "-4", "addr", "show", "dev", "eth0"); strings.Contains(got, from+".") {
			t.Errorf("the old address is still there:\n%s", got)
		}
		if got := netlab.Run(t, "ip", "-4", "route"); strings.Count(got, "default") != 1 || !strings.Contains(got, "default via "+to+".1") {
			t.Errorf("routes:\n%s", got)
		}
	}
	// Bound: nothing is open that DHCP or any other IP could wake.
	if open := netlab.Run(t, "ss", "-nl0"); strings.Count(open, "eth0") != 1 || !strings.Contains(open, "[2054]:eth0") {
		t.Errorf("packet sockets while bound:\n%s", open)
	}
}

// listens waits until something in p has port 67 open.
func listens(t *testing.T, p *netlab.Peer) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); time.Since(began) < 5*time.Second; <-poll.C {
		if strings.Contains(p.Run("ss", "-nlu"), ":67 ") {
			return
		}
	}
	t.Fatal("no DHCP server after 5 s")
}

// No server: eth0.bak's address after ten seconds, and a lease as soon as there
// is a server.
func TestFallback(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	b := start(t, root, map[string]string{
		"mac_address": "02:00:00:00:00:01\n",
		"eth0.bak":    "IPADDR=10.9.0.7\nNETMASK=255.255.255.0\nGATEWAY=10.9.0.1\n",
	})
	b.until(10*time.Second, "asking", func(n api.Network) bool { return n.State == "asking" && n.Method == "dhcp" && n.Carrier })
	took := b.until(15*time.Second, "on the fallback", func(n api.Network) bool {
		return n.State == "fallback" && n.Method == "fallback" && slices.Contains(n.Addresses, "10.9.0.7/24") && n.Gateway == "10.9.0.1"
	})
	if took < 8*time.Second {
		t.Errorf("given up after %v", took)
	}
	if !b.logged("no address from a DHCP server; using 10.9.0.7/24") {
		t.Error("nothing logged")
	}
	if got := netlab.Run(t, "ip", "-4", "route"); !strings.Contains(got, "default via 10.9.0.1 dev eth0") {
		t.Errorf("routes:\n%s", got)
	}
	dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b.until(40*time.Second, "bound", bound("10.7.0.0/24"))
	if n := b.Status(); slices.Contains(n.Addresses, "10.9.0.7/24") || n.Gateway != "10.7.0.1" {
		t.Errorf("the fallback stayed: %+v", n)
	}
}

// A restart while there is no server keeps what the lease gave.
func TestRestartWithoutServer(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:dns-server,10.7.0.2")
	b := start(t, root, map[string]string{
		"mac_address": "02:00:00:00:00:01\n",
		"eth0.bak":    "IPADDR=10.9.0.7\nNETMASK=255.255.255.0\nGATEWAY=10.9.0.1\n",
	})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	before := b.Status()
	b.stop()
	stop()
	b = start(t, root, nil)
	began := time.Now()
	// The fallback would come after 10 s.
	b.until(20*time.Second, "12 s older", func(api.Network) bool { return time.Since(began) > 12*time.Second })
	n := b.Status()
	if n.State != "bound" || !slices.Equal(n.Addresses, before.Addresses) || n.Gateway != "10.7.0.1" ||
		!slices.Equal(n.DNS, []string{"10.7.0.2"}) || n.Lease < 3500 || n.Lease > 3600-12 {
		t.Errorf("%+v, was %+v", n, before)
	}
	if got := netlab.Run(t, "ip", "-4", "route"); !strings.Contains(got, "default via 10.7.0.1 dev eth0 proto dhcp") {
		t.Errorf("routes:\n%s", got)
	}
	if got := netlab.Run(t, "ip", "-4", "addr", "show", "dev", "eth0"); !strings.Contains(got, "valid_lft 35") {
		t.Errorf("the address does not end with its lease:\n%s", got)
	}
	if got := file(t, root, "run/resolv.conf"); got != "nameserver 10.7.0.2\n" {
		t.Errorf("resolv.conf %q", got)
	}
}

// A server that knows the address as somebody else's.
func TestNakAtRestart(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	netlab.Run(t, "ip", "addr", "add", "10.66.0.5/24", "dev", "eth0")
	lease, err := json.Marshal(record{
		MAC: netdev.MAC{2, 5: 1}, Acquired: uptime() - 10*time.Second,
		Lease: dhcp.Lease{
			Addr: netip.MustParsePrefix("10.66.0.5/24"), Server: netip.MustParseAddr("10.66.0.1"),
			Duration: time.Hour, T1: 30 * time.Minute, T2: 50 * time.Minute,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"run/eth0.addr": "10.66.0.5/24\n", "run/eth0.lease": string(lease)} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": "02:00:00:00:00:01\n"})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	if n := b.Status(); slices.Contains(n.Addresses, "10.66.0.5/24") {
		t.Errorf("the refused address stayed: %v", n.Addresses)
	}
	if !b.logged("address 10.66.0.5/24 lost: refused by 10.7.0.1") {
		t.Error("nothing logged")
	}
	b.stop()
	if said := stop(); !strings.Contains(said, "DHCPNAK(srv0) 10.66.0.5") {
		t.Error("dnsmasq did not refuse")
	}
}

// The interface appears late, is taken away and comes back.
func TestInterfaceComesAndGoes(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	b := start(t, root, map[string]string{
		"mac_address": "02:00:00:00:00:01\n",
		"eth0.conf":   "IPADDR=10.7.0.9\nNETMASK=255.255.255.0\nGATEWAY=10.7.0.1\nDOMAIN=lan\n",
	})
	b.until(time.Second, "waiting", func(n api.Network) bool { return n.State == "down" && n.MAC == "" })
	static := func(n api.Network) bool {
		return n.State == "static" && n.Method == "static" && slices.Contains(n.Addresses, "10.7.0.9/24") &&
			n.MAC == "02:00:00:00:00:01" && n.Gateway == "10.7.0.1"
	}
	for range 2 {
		netlab.Run(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
		netlab.Run(t, "ip", "link", "set", "other", "up")
		b.until(10*time.Second, "static", static)
		if got := netlab.Run(t, "ip", "-4", "route"); !strings.Contains(got, "default via 10.7.0.1 dev eth0") {
			t.Errorf("routes:\n%s", got)
		}
		if got, want := file(t, root, "run/resolv.conf"), "search lan\nnameserver 10.7.0.1\n"; got != want {
			t.Errorf("resolv.conf %q, want %q", got, want)
		}
		if got := file(t, root, "run/hosts"); !strings.Contains(got, "10.7.0.9 ") {
			t.Errorf("hosts %q", got)
		}
		// Somebody sets it down and up by hand: the kernel forgets routes.
		netlab.Run(t, "ip", "link", "set", "eth0", "down")
		b.until(10*time.Second, "down", func(n api.Network) bool { return n.State == "down" })
		netlab.Run(t, "ip", "link", "set", "eth0", "up")
		b.until(10*time.Second, "static again", static)
		eventually(t, "a default route", func() bool {
			return strings.Contains(netlab.Run(t, "ip", "-4", "route"), "default via 10.7.0.1 dev eth0")
		})
		netlab.Run(t, "ip", "link", "del", "eth0")
		b.until(10*time.Second, "gone", func(n api.Network) bool { return n.State == "down" && len(n.Addresses) == 0 })
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); !ok(); <-poll.C {
		if time.Since(began) > 3*time.Second {
			t.Fatalf("not %s after 3 s", what)
		}
	}
}

// A gateway outside of the prefix works, and is said.
func TestStaticGatewayElsewhere(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	netlab.Cable(t, "eth0", "srv0")
	b := start(t, root, map[string]string{
		"eth0.conf": "IPADDR=10.7.0.9\nNETMASK=255.255.255.0\nGATEWAY=192.168.5.1\n",
	})
	b.until(10*time.Second, "static", func(n api.Network) bool { return n.State == "static" })
	if got := netlab.Run(t, "ip", "-4", "route"); !strings.Contains(got, "default via 192.168.5.1 dev eth0 proto dhcp onlink") {
		t.Errorf("routes:\n%s", got)
	}
	if !b.logged("GATEWAY=\"192.168.5.1\": not in 10.7.0.0/24") {
		t.Error("nothing logged")
	}
}

// Rebooting into another method leaves nothing of the one before, and a route
// added by hand stays.
func TestFromLeaseToStatic(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h",
		"--dhcp-option=option:classless-static-route,0.0.0.0/0,10.7.0.1,10.20.0.0/16,10.7.0.2")
	b := start(t, root, map[string]string{"mac_address": "02:00:00:00:00:01\n"})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	eventually(t, "routed", func() bool {
		got := netlab.Run(t, "ip", "-4", "route")
		return strings.Contains(got, "default via 10.7.0.1 ") && strings.Contains(got, "10.20.0.0/16 via 10.7.0.2 ")
	})
	if n := b.Status(); n.Gateway != "10.7.0.1" {
		t.Errorf("gateway %q", n.Gateway)
	}
	netlab.Run(t, "ip", "route", "add", "10.30.0.0/16", "via", "10.7.0.3")
	b.stop()
	b = start(t, root, map[string]string{"eth0.conf": "IPADDR=10.7.0.99\nNETMASK=255.255.255.0\nGATEWAY=10.7.0.1\n"})
	b.until(10*time.Second, "static", func(n api.Network) bool { return n.State == "static" })
	if n := b.Status(); len(n.Addresses) == 0 || n.Addresses[0] != "10.7.0.99/24" || len(n.Addresses) > 2 {
		t.Errorf("addresses %v", n.Addresses)
	}
	if got := netlab.Run(t, "ip", "-4", "route"); strings.Contains(got, "10.20.0.0") || strings.Count(got, "default") != 1 {
		t.Errorf("routes:\n%s", got)
	}
}
