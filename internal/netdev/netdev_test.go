package netdev_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
	"gwinit/test/hostile"
)

func TestMain(m *testing.M) { netlab.Main(m) }

func TestMACString(t *testing.T) {
	if got := (netdev.MAC{0x02, 0xab, 0, 9, 0xf0, 0x0f}).String(); got != "02:ab:00:09:f0:0f" {
		t.Error(got)
	}
}

// What is set is read back by iproute2.
func TestSystem(t *testing.T) {
	k := netdev.System{Root: netlab.Root(t)}
	if _, err := k.Link("eth0"); !errors.Is(err, netdev.ErrNoLink) {
		t.Errorf("no interface: %v", err)
	}
	peer := netlab.Cable(t, "eth0", "other0")
	l, err := k.Link("eth0")
	if err != nil || l.Up || l.Carrier || l.MTU != 1500 || l.Name != "eth0" || l.Index == 0 {
		t.Fatalf("%+v, %v", l, err)
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	has := func(text, want string) {
		t.Helper()
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	mac := netdev.MAC{2, 0, 0, 0, 0, 5}
	ok(k.SetMAC(l.Index, mac))
	ok(k.SetMTU(l.Index, 1400))
	ok(k.SetUp(l.Index, true))
	l, err = k.Link("eth0")
	if err != nil || !l.Up || !l.Carrier || l.MAC != mac || l.MTU != 1400 || l.Changes == 0 {
		t.Errorf("%+v, %v", l, err)
	}
	changes := l.Changes
	peer.Run("ip", "link", "set", "other0", "down")
	peer.Run("ip", "link", "set", "other0", "up")
	if l, err = k.Link("eth0"); err != nil || l.Changes != changes+2 {
		t.Errorf("a flap: %+v, %v, had %d changes", l, err, changes)
	}

	a := netip.MustParsePrefix("10.0.0.5/24")
	ok(k.SetAddr(l.Index, netdev.Addr{Prefix: a, Valid: 100 * time.Second}))
	has(netlab.Run(t, "ip", "addr", "show", "dev", "eth0"), "inet 10.0.0.5/24 brd 10.0.0.255")
	addrs, err := k.Addrs(l.Index)
	if err != nil || addrs[0].Prefix != a || addrs[0].Valid < 98*time.Second || addrs[0].Valid > 100*time.Second {
		t.Errorf("%v, %v", addrs, err)
	}
	ok(k.SetAddr(l.Index, netdev.Addr{Prefix: a, Valid: 100 * 365 * 24 * time.Hour}))
	if addrs, err = k.Addrs(l.Index); err != nil || addrs[0].Valid < 67*365*24*time.Hour {
		t.Errorf("the longest lease: %v, %v", addrs, err)
	}
	ok(k.SetAddr(l.Index, netdev.Addr{Prefix: a}))
	if addrs, err = k.Addrs(l.Index); err != nil || addrs[0].Valid != 0 {
		t.Errorf("for ever: %v, %v", addrs, err)
	}

	netlab.Run(t, "ip", "route", "add", "10.77.0.0/16", "via", "10.0.0.7")
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	first := []netdev.Route{
		{Dst: everywhere, Via: netip.MustParseAddr("10.0.0.1")},
		{Dst: netip.MustParsePrefix("10.1.0.0/16")},
		{Dst: netip.MustParsePrefix("10.2.0.0/16"), Via: netip.MustParseAddr("172.16.0.1"), OnLink: true},
		{Dst: netip.MustParsePrefix("10.3.0.0/16"), Via: netip.MustParseAddr("10.1.0.1")}, // through the second
	}
	ok(k.SetRoutes(l.Index, first))
	ok(k.SetRoutes(l.Index, first))
	routes := netlab.Run(t, "ip", "route")
	for _, want := range []string{
		"default via 10.0.0.1 dev eth0 proto dhcp", "10.1.0.0/16 dev eth0 proto dhcp scope link",
		"10.2.0.0/16 via 172.16.0.1 dev eth0 proto dhcp onlink", "10.3.0.0/16 via 10.1.0.1 dev eth0 proto dhcp",
	} {
		has(routes, want)
	}
	ok(k.SetRoutes(l.Index, []netdev.Route{{Dst: everywhere, Via: netip.MustParseAddr("10.0.0.2")}}))
	routes = netlab.Run(t, "ip", "route")
	has(routes, "default via 10.0.0.2")
	has(routes, "10.77.0.0/16 via 10.0.0.7") // not ours
	if strings.Count(routes, "\n") != 3 {
		t.Errorf("what was not wanted is still there:\n%s", routes)
	}
	ok(k.SetRoutes(l.Index, nil))
	if got := netlab.Run(t, "ip", "route"); strings.Contains(got, "default") {
		t.Errorf("routes:\n%s", got)
	}
	if err := k.SetRoutes(l.Index, []netdev.Route{{Dst: everywhere, Via: netip.MustParseAddr("192.168.1.1")}}); err == nil {
		t.Error("a gateway that cannot be reached was taken")
	}
	ok(k.DelAddr(l.Index, a))
	ok(k.DelAddr(l.Index, a)) // gone already
	if got := netlab.Run(t, "ip", "-4", "addr", "show", "dev", "eth0"); strings.Contains(got, "inet") {
		t.Errorf("the address stayed:\n%s", got)
	}
}

func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	changed, err := netdev.System{}.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	peer := netlab.Cable(t, "eth0", "other0")
	wait := func(what string) {
		t.Helper()
		select {
		case _, ok := <-changed:
			if !ok {
				t.Fatalf("%s: closed", what)
			}
		case <-time.After(3 * time.Second):
			t.Fatalf("%s: no signal", what)
		}
	}
	wait("a new interface")
	for range 20 { // more than the channel holds: the reader is not held up
		netlab.Run(t, "ip", "link", "set", "eth0", "up")
		netlab.Run(t, "ip", "link", "set", "eth0", "down")
	}
	wait("up and down")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	wait("up")
	peer.Run("ip", "link", "set", "other0", "down")
	wait("no carrier")
	cancel()
	for range changed { // until it is closed
	}
}

// What a flood changes wakes whoever watches a few times, and the last change
// does, too.
func TestWatchFlood(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	changed, err := netdev.System{}.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dns, err := netdev.System{}.WatchDNS(ctx)
	if err != nil {
		t.Fatal(err)
	}
	peer := netlab.Cable(t, "eth0", "other0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	ready := time.After(20 * time.Second)
	for strings.Contains(netlab.Run(t, "ip", "-6", "addr", "show", "dev", "eth0"), "tentative") {
		select {
		case <-ready:
			t.Fatal("no address")
		default:
		}
	}
	k := netdev.System{Root: netlab.Root(t)}
	before, err := k.Routes6()
	if err != nil || before == 0 {
		t.Fatalf("%d routes, %v", before, err)
	}
	stop := peer.Flood("other0", 500, hostile.Prefix)
	signals, heard := 0, 0
	for began, end := time.Now(), time.After(5*time.Second); end != nil; {
		select {
		case <-changed:
			signals++
		case d := <-dns:
			if len(d.Servers) != 1 || d.Lifetime != netdev.Forever {
				t.Errorf("%+v", d)
			}
			heard++
		case <-end:
			end = nil
			t.Logf("after %v", time.Since(began))
		}
	}
	frames := stop()
	after, err := k.Routes6()
	t.Logf("%d advertisements, %d routes: %d signals and %d name servers", frames, after, signals, heard)
	if err != nil || after < before+500 {
		t.Fatalf("%d routes after %d, %v", after, before, err) // else this tests nothing
	}
	// At 0, 0.1, 0.3 s and then four times a second.
	if signals < 3 || signals > 30 || heard < 3 || heard > 30 {
		t.Errorf("%d signals, %d name servers heard in 5 s", signals, heard)
	}

	calm := time.NewTimer(2 * time.Second)
	for waiting := true; waiting; {
		select {
		case <-changed:
			calm.Reset(2 * time.Second)
		case <-dns:
		case <-calm.C:
			waiting = false
		}
	}
	netlab.Run(t, "ip", "link", "set", "eth0", "down")
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		t.Error("a change after the flood was not told")
	}
	cancel()
	for range changed { // until it is closed
	}
	for range dns {
	}
}

// One neighbour of many is found by its address.
func TestNeighbour(t *testing.T) {
	peer := netlab.Cable(t, "eth0", "other0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	netlab.Run(t, "ip", "addr", "add", "10.0.0.5/24", "dev", "eth0")
	peer.Run("ip", "addr", "add", "10.0.0.7/24", "dev", "other0")
	l, err := netdev.System{}.Link("eth0")
	if err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]struct{ answers, asking bool }{
		"reachable": {true, false}, "stale": {false, false}, "delay": {false, true}, "probe": {false, true}, "failed": {false, false},
	} {
		for _, a := range []string{"10.0.0.66", "fe80::66"} {
			addr := netip.MustParseAddr(a)
			netlab.Run(t, "ip", "neigh", "flush", "to", a, "nud", "all") // and what it was confirmed to be
			netlab.Run(t, "ip", "neigh", "add", a, "lladdr", "02:00:00:00:00:66", "dev", "eth0", "nud", state)
			if addr.Is6() {
				addr = addr.WithZone("eth0")
			}
			n, ok := netdev.System{}.Neighbour(l.Index, addr)
			if !ok || n.Answers != want.answers || n.Asking != want.asking || n.Addr != netip.MustParseAddr(a) {
				t.Errorf("%s %s: %+v, %v", a, state, n, ok)
			}
		}
	}
	for _, a := range []string{"10.0.0.67", "fe80::67"} {
		if n, ok := (netdev.System{}).Neighbour(l.Index, netip.MustParseAddr(a)); ok {
			t.Errorf("%s: %+v", a, n)
		}
	}
	if n, ok := (netdev.System{}).Neighbour(l.Index+100, netip.MustParseAddr("10.0.0.66")); ok {
		t.Errorf("on no link: %+v", n)
	}
	// Asked, it is; there is nobody, so it does not answer.
	netlab.Run(t, "ip", "neigh", "replace", "10.0.0.66", "lladdr", "02:00:00:00:00:66", "dev", "eth0", "nud", "reachable")
	n, _ := netdev.System{}.Neighbour(l.Index, netip.MustParseAddr("10.0.0.66"))
	if err := (netdev.System{}).AskNeighbour(n); err != nil {
		t.Fatal(err)
	}
	if n, ok := (netdev.System{}).Neighbour(l.Index, n.Addr); !ok || n.Answers || !n.Asking {
		t.Errorf("asked: %+v, %v", n, ok)
	}
}
