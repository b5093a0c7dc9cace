package eth

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev/netlab"
)

// The tests of this file run against the kernel and a real dnsmasq, in network
// namespaces. They take the real time that DHCP takes.

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
	return p.Start(append([]string{
		"dnsmasq", "--keep-in-foreground", "--log-facility=-", "--log-dhcp", "--conf-file=/dev/null", "--user=root",
		"--no-ping", "--port=0", "--no-resolv", "--interface=srv0", "--bind-interfaces",
		"--dhcp-leasefile=" + dir + "/leases", "--pid-file=" + dir + "/pid",
	}, args...)...)
}

func TestLease(t *testing.T) {
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,2m", "--domain=lan.example",
		"--dhcp-option=option:dns-server,10.7.0.1,10.7.0.2", "--dhcp-option=option:ntp-server,10.7.0.3",
		"--dhcp-option=option:domain-search,a.example,b.example", "--dhcp-option=option:mtu,1400")
	b := start(t, root, map[string]string{"hostname": "kitchen\n"})
	took := b.until(3*time.Second, "bound", bound("10.7.0.0/24"))
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
	if l, ok := b.Lease(); !ok || len(l.NTP) != 1 || l.NTP[0].String() != "10.7.0.3" {
		t.Errorf("lease %+v", l)
	}

	// A restart keeps the address and does not ask for another.
	addr := n.Addresses[0]
	b.stop()
	if got := netlab.Run(t, "ip", "-4", "addr", "show", "dev", "eth0"); !strings.Contains(got, addr) {
		t.Fatalf("the address went with the process:\n%s", got)
	}
	b = start(t, root, nil)
	b.until(3*time.Second, "bound again", bound("10.7.0.0/24"))
	if got := b.Status().Addresses[0]; got != addr {
		t.Errorf("address %s after a restart, was %s", got, addr)
	}
	b.stop()
	said := stop()
	if discovers := strings.Count(said, "DHCPDISCOVER("); discovers != 1 {
		t.Errorf("%d discovers", discovers)
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

var _ = fmt.Sprint
