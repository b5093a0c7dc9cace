package eth

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev/netlab"
	"gwinit/test/hostile"
)

// The tests of this file have hosts on the cable that send what nobody should, by
// the thousand, against the real kernel.

const floodRate = 2000 // frames a second

// lines is how many the log has.
func (b *box) lines() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.log)
}

// ARP and ND of hosts that are not there: the kernel answers them, and this process
// notices nothing. What becomes of full tables is tested on the emulated board.
func TestFloodOfNeighbours(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	const own6 = "fe80::ff:fe00:1"
	b.until(15*time.Second, "with IPv6", func(n api.Network) bool { return slices.Contains(n.Addresses, own6+"/64") })
	eventually(t, "an address that nobody else has", func() bool {
		return !strings.Contains(netlab.Run(t, "ip", "-6", "addr", "show", "dev", "eth0"), "tentative")
	})
	want, lines := b.Status(), b.lines()
	ours := netip.MustParsePrefix(want.Addresses[0]).Addr()
	for _, tt := range []struct {
		name, family string
		frame        hostile.Frame
	}{
		{"ARP", "-4", hostile.ARP(ours)},
		{"ND", "-6", hostile.Neighbour(netip.MustParseAddr(own6))},
	} {
		name := tt.name
		neighbours := func() int {
			return strings.Count(netlab.Run(t, "ip", tt.family, "neigh", "show", "dev", "eth0", "nud", "all"), "\n")
		}
		stop := peer.Flood("srv0", floodRate, tt.frame.Of(100))
		eventually(t, name+" of all hosts", func() bool { return neighbours() >= 100 })
		began := time.Now()
		b.until(15*time.Second, "2 s later", func(api.Network) bool { return time.Since(began) > 2*time.Second })
		// The server is one of a hundred neighbours now, and still found.
		b.Renew()
		lease := b.Status().Lease
		b.until(15*time.Second, name+": renewed", func(n api.Network) bool { return n.State == "bound" && n.Lease >= lease })
		t.Logf("%s: %d frames", name, stop())
		if n := b.Status(); !slices.Equal(n.Addresses, want.Addresses) || n.Gateway != want.Gateway || len(n.Conflicts) != 0 {
			t.Errorf("%s: %+v, was %+v", name, n, want)
		}
	}
	if n := b.lines(); n > lines+2 {
		t.Errorf("%d lines in the log, %d before", n, lines)
	}
}

// A thousand hosts claim an address of eth0.conf, each with another MAC: it stays, is
// defended once in ten seconds, and the log can be read.
func TestFloodOfClaims(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	b := start(t, root, map[string]string{"mac_address": oneMAC, "eth0.conf": "IPADDR=10.7.0.9/24\nGATEWAY=10.7.0.1\n"})
	b.until(10*time.Second, "static", func(n api.Network) bool { return n.State == "static" && n.Carrier })
	said := peer.Start("tcpdump", "-Z", "root", "-nel", "--immediate-mode", "-i", "srv0", "arp and ether src 02:00:00:00:00:01")
	eventually(t, "tcpdump listens", func() bool { return strings.Contains(peer.Run("ss", "-nl0"), "srv0") })
	stop := peer.Flood("srv0", floodRate, hostile.Claim(netip.MustParseAddr("10.7.0.9")))
	b.until(10*time.Second, "in conflict", func(n api.Network) bool { return len(n.Conflicts) == 1 })
	began := time.Now()
	b.until(60*time.Second, "25 s later", func(n api.Network) bool {
		if !slices.Contains(n.Addresses, "10.7.0.9/24") || n.State != "static" {
			t.Fatalf("%+v", n)
		}
		return time.Since(began) > 25*time.Second
	})
	frames := stop()
	sent := strings.Count(said(), "\n")
	if sent < 4 || sent > 20 {
		t.Errorf("%d packets of ARP in answer to %d claims", sent, frames)
	}
	if n := b.lines(); n > 12 {
		t.Errorf("%d lines in the log", n)
	}
}

// routes6 is the kernel's count.
func routes6(t *testing.T, root string) (n int) {
	t.Helper()
	f := strings.Fields(file(t, root, "proc/net/rt6_stats"))
	if _, err := fmt.Sscanf(f[3], "%x", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Routers with another prefix and name server two thousand times a second: the memory
// that they take is bounded, IPv4 works on, and so does IPv6 on the next cable.
func TestFloodOfRouters(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:dns-server,10.7.0.1")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	addr := b.Status().Addresses[0]
	stop := peer.Flood("srv0", floodRate, hostile.Prefix)
	most := 0
	b.until(20*time.Second, "deaf to routers", func(api.Network) bool {
		most = max(most, routes6(t, root))
		return len(b.Warnings()) == 1
	})
	b.until(20*time.Second, "without what they said", func(n api.Network) bool {
		return routes6(t, root) < 50 && slices.Equal(n.DNS, []string{"10.7.0.1"})
	})
	began := time.Now()
	b.until(20*time.Second, "5 s later", func(n api.Network) bool {
		most = max(most, routes6(t, root))
		if n.State != "bound" || n.Addresses[0] != addr || n.Gateway != "10.7.0.1" {
			t.Fatalf("%+v", n)
		}
		return time.Since(began) > 5*time.Second
	})
	t.Logf("%d advertisements, %d routes at most", stop(), most)
	if most > 4*maxRoutes6 {
		t.Errorf("%d routes", most)
	}
	if got := file(t, root, "run/resolv.conf"); got != "nameserver 10.7.0.1\n" {
		t.Errorf("resolv.conf %q", got)
	}
	if n := b.lines(); n > 10 {
		t.Errorf("%d lines in the log", n)
	}

	// Elsewhere is a router that means it.
	peer.Run("ip", "link", "set", "srv0", "down")
	b.until(10*time.Second, "out", func(n api.Network) bool { return !n.Carrier })
	peer.Run("ip", "link", "set", "srv0", "up")
	radvd(t, peer, "interface srv0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix fd00:7::/64 {}; };\n")
	b.until(30*time.Second, "with IPv6", func(n api.Network) bool { return slices.Contains(n.Addresses, "fd00:7::ff:fe00:1/64") })
	if w := b.Warnings(); len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
}

// Routers that say what no router should: prefixes of no network, lifetimes that
// make no sense, and that another one is none any more.
func TestAbsurdRouters(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:dns-server,10.7.0.1")
	peer.Run("ip", "link", "set", "srv0", "address", "02:00:00:00:00:07")
	radvd(t, peer, "interface srv0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix fd00:7::/64 {}; };\n")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	const own6 = "fd00:7::ff:fe00:1/64"
	b.until(20*time.Second, "complete", func(n api.Network) bool { return n.State == "bound" && slices.Contains(n.Addresses, own6) })
	want := b.Status().Addresses
	route := func() string { return netlab.Run(t, "ip", "-6", "route", "show", "default") }
	real := strings.Fields(route())[2]

	bad := hostile.Advertisement{From: netip.MustParseAddr("fe80::666"), MAC: [6]byte{2, 0, 0, 0, 6, 0x66}}
	var frames [][]byte
	for _, p := range []string{"::/0", "::/64", "2001:db8::/1", "2001:db8::/128", "fd00:9::/63", "fd00:9::/65", "fe80::/64", "ff02::/64", "::1/128", "::ffff:0:0/96", "fd00:7::/56"} {
		a := bad
		a.Prefixes = []hostile.PrefixOption{{Prefix: netip.MustParsePrefix(p), Valid: time.Hour, Preferred: time.Hour}}
		frames = append(frames, a.Frame())
	}
	// Preferred for longer than valid, and the address that we have for no time: RFC
	// 4862 section 5.5.3 leaves it two hours.
	for _, p := range []hostile.PrefixOption{
		{Prefix: netip.MustParsePrefix("fd00:9::/64"), Valid: time.Minute, Preferred: time.Hour},
		{Prefix: netip.MustParsePrefix("fd00:7::/64")},
	} {
		a := bad
		a.Prefixes = []hostile.PrefixOption{p}
		frames = append(frames, a.Frame())
	}
	// No host can be these.
	a := bad
	for _, d := range []string{"::", "::1", "ff02::1", "::ffff:8.8.8.8"} {
		a.DNS = append(a.DNS, netip.MustParseAddr(d))
	}
	frames = append(frames, a.Frame())
	for _, f := range slices.Clone(frames) { // cut anywhere
		for n := 15; n < len(f); n += 13 {
			frames = append(frames, f[:n])
		}
	}
	peer.Send("srv0", frames...)
	began := time.Now()
	b.until(20*time.Second, "2 s later", func(n api.Network) bool {
		for _, a := range n.Addresses {
			if !slices.Contains(want, a) && !strings.HasPrefix(a, "::ff:fe00:1") {
				t.Fatalf("addresses %v, had %v", n.Addresses, want)
			}
		}
		if n.State != "bound" || !slices.Contains(n.Addresses, own6) || !slices.Equal(n.DNS, []string{"10.7.0.1"}) {
			t.Fatalf("%+v", n)
		}
		return time.Since(began) > 2*time.Second
	})

	// In the router's name: it is none any more. It says otherwise soon.
	took := hostile.Advertisement{From: netip.MustParseAddr(real), MAC: [6]byte{2, 0, 0, 0, 0, 7}}
	gone := false
	for range 20 {
		peer.Send("srv0", took.Frame())
		gone = gone || !strings.Contains(route(), real)
	}
	if !gone {
		t.Error("the route stayed") // else this tests nothing
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(route(), real); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the route is not back: %q", route())
		}
	}
	if n := b.Status(); n.State != "bound" || n.Addresses[0] != want[0] || n.Gateway != "10.7.0.1" {
		t.Errorf("%+v", n)
	}
	if _, err := os.Stat(filepath.Join(root, "run/resolv.conf")); err != nil {
		t.Error(err)
	}
}
