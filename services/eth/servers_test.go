package eth

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev/netlab"
)

// The tests of this file are about what other hosts on the cable do: several
// servers, bad ones, and hosts with our address.

const (
	oneMAC = "02:00:00:00:00:01\n"
	// fallbackConf is an eth0.bak.
	fallbackConf = "IPADDR=10.9.0.7\nNETMASK=255.255.255.0\nGATEWAY=10.9.0.1\n"
)

// served is a box's root and a host for servers at the other end of its cable,
// 10.7.0.1.
func served(t *testing.T) (root string, peer *netlab.Peer) {
	t.Helper()
	root = netlab.Root(t)
	peer = netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	return root, peer
}

// wired is served with the test's hands on the cable.
func wired(t *testing.T) (root string, peer *netlab.Peer, wire *netlab.Wire) {
	t.Helper()
	root = netlab.Root(t)
	peer, wire = netlab.Cable(t, "eth0", "near").Extend("near", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	return root, peer, wire
}

// udhcpd is busybox' server with one address, for so many seconds.
func udhcpd(t *testing.T, p *netlab.Peer, addr string, seconds int, lines ...string) func() string {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	text := fmt.Sprintf("start %s\nend %s\ninterface srv0\nmin_lease 1\nlease_file %s/leases\npidfile %s/pid\noption subnet 255.255.255.0\noption lease %d\n%s\n",
		addr, addr, dir, dir, seconds, strings.Join(lines, "\n"))
	for name, text := range map[string]string{conf: text, filepath.Join(dir, "leases"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := p.Start("busybox", "udhcpd", "-f", conf)
	listens(t, p)
	return stop
}

// A lease of 20 s by another server, renewed; then that server is replaced by one
// that knows nothing of it, while the address stays.
func TestRenewalAndServerChange(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := udhcpd(t, peer, "10.7.0.50", 20, "option router 10.7.0.1", "option dns 10.7.0.1", "option domain lan.example")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	if n := b.Status(); n.Server != "10.7.0.1" || n.Lease < 15 || n.Lease > 20 || n.Gateway != "10.7.0.1" {
		t.Errorf("%+v", n)
	}
	b.until(9*time.Second, "half over", func(n api.Network) bool { return n.Lease <= 12 })
	b.until(9*time.Second, "renewed", func(n api.Network) bool { return n.Lease >= 15 })

	stop()
	peer.Run("ip", "addr", "del", "10.7.0.1/24", "dev", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.2/24", "dev", "srv0")
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	gone := false
	b.until(30*time.Second, "bound by the other server", func(n api.Network) bool {
		gone = gone || n.State != "bound" || !slices.Contains(n.Addresses, "10.7.0.50/24")
		return n.Server == "10.7.0.2"
	})
	if n := b.Status(); gone || n.Lease < 3000 || n.Gateway != "10.7.0.2" {
		t.Errorf("the address went %v, then %+v", gone, n)
	}
	if !b.logged("10.7.0.1 does not renew the lease, asking everybody") {
		t.Error("nothing logged")
	}
}

// Every answer takes two seconds, when the question was repeated already.
func TestLateReplies(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-reply-delay=2")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(30*time.Second, "bound", bound("10.7.0.0/24"))
	if !b.logged("from 10.7.0.1 for 1h0m0s") {
		t.Error("nothing logged")
	}
}

// isReply tells whether a frame is of a DHCP server.
func isReply(frame []byte) bool {
	const ip, udp = 14, 34
	return len(frame) > udp+8 && frame[12] == 8 && frame[13] == 0 && frame[ip] == 0x45 && frame[ip+9] == 17 && frame[udp+2] == 0 && frame[udp+3] == 68
}

// replies has f say what becomes of the server's n'th answer, from 0.
func replies(w *netlab.Wire, f func(n int) []time.Duration) {
	n := -1
	w.Treat(func(frame []byte, far bool) []time.Duration {
		if !far || !isReply(frame) {
			return []time.Duration{0}
		}
		n++
		return f(n)
	})
}

// What tcpdump sees of it: the same identifier, name and parameters in every
// message, good checksums, and a renewal that nobody but the server gets.
func TestOnTheWire(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "link", "set", "srv0", "address", "02:00:00:00:00:07")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	udhcpd(t, peer, "10.7.0.50", 20)
	stop := peer.Start("tcpdump", "-Z", "root", "-nevvl", "--immediate-mode", "-i", "srv0", "udp dst port 67")
	// It sees nothing before it says so.
	eventually(t, "tcpdump listens", func() bool { return strings.Contains(peer.Run("ss", "-nl0"), "srv0") })
	b := start(t, root, map[string]string{"mac_address": oneMAC, "hostname": "kitchen\n"})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	b.until(15*time.Second, "half over", func(n api.Network) bool { return n.Lease <= 12 })
	b.until(15*time.Second, "renewed", func(n api.Network) bool { return n.Lease >= 15 })
	b.until(15*time.Second, "older", func(n api.Network) bool { return n.Lease <= 17 })
	b.Renew()
	b.until(15*time.Second, "confirmed", func(n api.Network) bool { return n.Lease >= 19 })
	b.stop()
	said := stop()

	var packets []string // each with the words of its options, one in a line
	for line := range strings.Lines(said) {
		switch {
		case strings.Contains(line, " > ") && strings.Contains(line, "ethertype IPv4"):
			packets = append(packets, line)
		case len(packets) > 0:
			packets[len(packets)-1] += line
		}
	}
	kinds := map[string]int{}
	for _, p := range packets {
		for _, want := range []string{
			"DHCP-Message (53), length 1: ", "Client-ID (61), length 7: ether 02:00:00:00:00:01\n", "Hostname (12), length 7: \"kitchen\"\n",
			"Parameter-Request (55), length 14:", "Subnet-Mask (1), Default-Gateway (3), Domain-Name-Server (6), Hostname (12)",
			"Domain-Name (15), MTU (26), BR (28), NTP (42)", "Lease-Time (51), Server-ID (54), RN (58), RB (59)",
			"Unknown (119), Classless-Static-Route (121)", "MSZ (57), length 2: 1472\n",
		} {
			if !strings.Contains(p, want) {
				t.Errorf("no %q in\n%s", want, p)
			}
		}
		has := func(words ...string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(p, w) })
		}
		const everybody = "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff"
		switch {
		case has(everybody, "0.0.0.0.68 > 255.255.255.255.67: [udp sum ok]", "length 1: Discover"):
			kinds["discover"]++
		case has(everybody, "0.0.0.0.68 > 255.255.255.255.67: [udp sum ok]", "length 1: Request", "Requested-IP (50), length 4: 10.7.0.50", "Server-ID (54), length 4: 10.7.0.1"):
			kinds["request"]++
		case has("02:00:00:00:00:01 > 02:00:00:00:00:07", "10.7.0.50.68 > 10.7.0.1.67", "length 1: Request", "Client-IP 10.7.0.50") && !has("Requested-IP") && !has("Server-ID (54), length"):
			kinds["renewal"]++
		case has(everybody, "0.0.0.0.68 > 255.255.255.255.67: [udp sum ok]", "length 1: Request", "Requested-IP (50), length 4: 10.7.0.50") && !has("Server-ID (54), length"):
			kinds["init-reboot"]++
		default:
			t.Errorf("not as RFC 2131 table 4 has it:\n%s", p)
		}
	}
	for _, kind := range []string{"discover", "request", "renewal", "init-reboot"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s in\n%s", kind, said)
		}
	}
}

// An MTU that IPv6 cannot have takes the kernel's settings of it away; the next
// lease gives them back.
func TestMTUBelowIPv6s(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:mtu,1000")
	radvd(t, peer, "interface srv0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvDefaultLifetime 1800; prefix fd00:7::/64 {}; };\n")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	mtu := func(want string) func() bool {
		return func() bool { return file(t, root, "sys/class/net/eth0/mtu") == want+"\n" }
	}
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	eventually(t, "an MTU of 1000", mtu("1000"))
	if n := b.Status(); len(n.Addresses) != 1 {
		t.Errorf("%+v", n)
	}
	stop()
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b.Renew()
	b.until(20*time.Second, "with IPv6", func(n api.Network) bool { return slices.Contains(n.Addresses, "fd00:7::ff:fe00:1/64") })
	eventually(t, "an MTU of 1500", mtu("1500"))
	if got := file(t, root, "proc/sys/net/ipv6/conf/eth0/accept_ra"); got != "2\n" {
		t.Errorf("accept_ra %q", got)
	}
}

// Every answer of the server is lost, until the fallback has come; and then again
// while the lease is renewed.
func TestLostReplies(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer, wire := wired(t)
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	replies(wire, func(int) []time.Duration { return nil })
	b := start(t, root, map[string]string{"mac_address": oneMAC, "eth0.bak": fallbackConf})
	b.until(20*time.Second, "on the fallback", func(n api.Network) bool { return n.State == "fallback" })
	wire.Treat(nil)
	b.until(40*time.Second, "bound", bound("10.7.0.0/24"))
	if n := b.Status(); slices.Contains(n.Addresses, "10.9.0.7/24") || n.Gateway != "10.7.0.1" {
		t.Errorf("the fallback stayed: %+v", n)
	}
	b.stop()
	if said := stop(); strings.Count(said, " DHCPOFFER(") < 4 {
		t.Errorf("nothing was lost:\n%s", said)
	}
}

// Three of ten answers are lost, over some renewals of a lease of 20 s, which are
// all that keep the address.
func TestLossyCable(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer, wire := wired(t)
	lost := 0
	replies(wire, func(n int) []time.Duration {
		if n%10%3 == 0 && n%10 < 9 {
			lost++
			return nil
		}
		return []time.Duration{0}
	})
	udhcpd(t, peer, "10.7.0.50", 20, "option router 10.7.0.1")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(30*time.Second, "bound", bound("10.7.0.0/24"))
	renewed := 0
	for before, began := b.Status().Lease, time.Now(); time.Since(began) < 50*time.Second; {
		b.until(20*time.Second, "older or renewed", func(n api.Network) bool {
			if n.State != "bound" {
				t.Fatalf("lost: %+v", n)
			}
			return n.Lease != before
		})
		now := b.Status().Lease
		if now > before {
			renewed++
		}
		before = now
	}
	b.stop()
	if renewed < 3 || lost < 2 {
		t.Errorf("%d times renewed, %d answers lost", renewed, lost)
	}
}

// Every answer takes 5 s, when the question was repeated twice already.
func TestVeryLateReplies(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer, wire := wired(t)
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	replies(wire, func(int) []time.Duration { return []time.Duration{5 * time.Second} })
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(40*time.Second, "bound", bound("10.7.0.0/24"))
	addr := b.Status().Addresses[0]
	// The confirmation comes when another question is out: the lease holds.
	b.Renew()
	lowest := b.Status().Lease
	b.until(40*time.Second, "confirmed", func(n api.Network) bool {
		if n.State != "bound" || n.Addresses[0] != addr {
			t.Fatalf("lost: %+v", n)
		}
		lowest = min(lowest, n.Lease)
		return n.Lease > lowest
	})
}

// Every answer comes three times, one of them late.
func TestRepeatedReplies(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer, wire := wired(t)
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	replies(wire, func(int) []time.Duration { return []time.Duration{0, 10 * time.Millisecond, time.Second} })
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	lease := b.Status().Lease
	b.until(15*time.Second, "4 s older", func(n api.Network) bool { return n.Lease <= lease-4 })
	b.stop()
	if said := stop(); strings.Count(said, " DHCPACK(") > 3 || strings.Contains(said, " DHCPDECLINE(") {
		t.Errorf("dnsmasq says:\n%s", said)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.log); n > 4 {
		t.Errorf("%d lines in the log", n)
	}
}

// confirmed has the lease of addr confirmed so many times, by 10.7.0.1 and nobody
// else.
func (b *box) confirmed(times int, addr string) {
	b.t.Helper()
	for range times {
		lease := b.Status().Lease
		b.until(5*time.Second, "older", func(n api.Network) bool { return n.Lease <= lease-2 })
		b.Renew()
		b.until(10*time.Second, "confirmed", func(n api.Network) bool {
			if n.State != "bound" || n.Server != "10.7.0.1" || n.Gateway != "10.7.0.1" || n.Addresses[0] != addr {
				b.t.Fatalf("%+v", n)
			}
			return n.Lease > lease-2
		})
	}
}

// A second server of the same network is quicker, and grants what the other one
// has: authoritative servers do that.
func TestRogueServerThatIsQuicker(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	lan := netlab.NewSwitch(t, "eth0")
	good, wire := lan.Plug("near").Extend("near", "srv0")
	bad := lan.Plug("srv0")
	good.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	bad.Run("ip", "addr", "add", "10.7.0.2/24", "dev", "srv0")
	dnsmasq(t, good, "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(15*time.Second, "bound", bound("10.7.0.0/24"))
	addr := b.Status().Addresses[0]
	replies(wire, func(int) []time.Duration { return []time.Duration{200 * time.Millisecond} })
	stop := dnsmasq(t, bad, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,2h")
	b.confirmed(3, addr)
	b.stop()
	if said := stop(); !strings.Contains(said, "DHCPACK(srv0) "+strings.TrimSuffix(addr, "/24")) {
		t.Errorf("the stranger granted nothing:\n%s", said)
	}
}

// A host says of every address that it has it: the fallback comes all the same.
func TestHostThatHasEveryAddress(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	lan := netlab.NewSwitch(t, "eth0")
	server, other := lan.Plug("srv0"), lan.Plug("srv0")
	server.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	other.Run("ip", "link", "set", "srv0", "address", "02:00:00:00:00:07")
	other.Run("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo")
	dnsmasq(t, server, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": oneMAC, "eth0.bak": fallbackConf})
	b.until(35*time.Second, "on the fallback", func(n api.Network) bool {
		return n.State == "fallback" && slices.Contains(n.Addresses, "10.9.0.7/24")
	})
	b.until(5*time.Second, "in conflict", func(n api.Network) bool {
		return slices.Equal(n.Conflicts, []api.Conflict{{Address: "10.9.0.7", MAC: "02:00:00:00:00:07"}})
	})
	other.Run("ip", "link", "set", "srv0", "down")
	b.until(30*time.Second, "bound", bound("10.7.0.0/24"))
	if n := b.Status(); len(n.Conflicts) != 0 {
		t.Errorf("%+v", n)
	}
}

// The server reserves an address that another host has: it is declined, and the
// server gives another one.
func TestDuplicateLease(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "link", "set", "srv0", "address", "02:00:00:00:00:07")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.50/32", "dev", "lo") // answered for on every interface
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.51,10.7.0.60,1h", "--dhcp-host=02:00:00:00:00:01,10.7.0.50")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(10*time.Second, "declined", func(n api.Network) bool {
		return slices.Equal(n.Conflicts, []api.Conflict{{Address: "10.7.0.50", MAC: "02:00:00:00:00:07"}}) && n.State == "asking"
	})
	declined := time.Now()
	b.until(20*time.Second, "bound", bound("10.7.0.0/24"))
	if took := time.Since(declined); took < 9*time.Second {
		t.Errorf("asked again %v after it was declined", took)
	}
	if n := b.Status(); slices.Contains(n.Addresses, "10.7.0.50/24") || len(n.Conflicts) != 0 {
		t.Errorf("%+v", n)
	}
}

// eth0.conf names an address that another host has, and a host takes a lease's
// address while it is in use.
func TestDuplicateInUse(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "link", "set", "srv0", "address", "02:00:00:00:00:07")
	peer.Run("ip", "addr", "add", "10.7.0.9/24", "dev", "srv0")
	b := start(t, root, map[string]string{"mac_address": oneMAC, "eth0.conf": "IPADDR=10.7.0.9\nNETMASK=255.255.255.0\nGATEWAY=10.7.0.1\n"})
	took := b.until(10*time.Second, "in conflict", func(n api.Network) bool {
		return n.State == "static" && slices.Equal(n.Addresses[:1], []string{"10.7.0.9/24"}) &&
			slices.Equal(n.Conflicts, []api.Conflict{{Address: "10.7.0.9", MAC: "02:00:00:00:00:07"}})
	})
	t.Logf("after %v", took)
	b.stop()

	if err := os.Remove(filepath.Join(root, "userdata/etc/eth0.conf")); err != nil {
		t.Fatal(err)
	}
	peer.Run("ip", "addr", "del", "10.7.0.9/24", "dev", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b = start(t, root, nil)
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	lease := strings.TrimSuffix(b.Status().Addresses[0], "/24")
	peer.Run("ip", "addr", "add", lease+"/32", "dev", "srv0")
	peer.Run("busybox", "arping", "-U", "-c1", "-I", "srv0", lease)
	b.until(5*time.Second, "lost", func(n api.Network) bool {
		return n.State == "asking" && slices.Equal(n.Conflicts, []api.Conflict{{Address: lease, MAC: "02:00:00:00:00:07"}})
	})
	b.until(20*time.Second, "bound again", bound("10.7.0.0/24"))
	if n := b.Status(); n.Addresses[0] == lease+"/24" {
		t.Errorf("the same address again: %+v", n)
	}
}

// Somebody plugs in a box with a DHCP server of its own, which refuses what it
// has not granted.
func TestRogueServer(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	lan := netlab.NewSwitch(t, "eth0")
	good, bad := lan.Plug("srv0"), lan.Plug("srv0")
	good.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	bad.Run("ip", "addr", "add", "10.66.0.1/24", "dev", "srv0")
	stopGood := dnsmasq(t, good, "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	addr := b.Status().Addresses[0]

	stopBad := dnsmasq(t, bad, "--dhcp-authoritative", "--dhcp-range=10.66.0.50,10.66.0.60,1h")
	b.confirmed(3, addr)
	b.stop()
	if good, bad := stopGood(), stopBad(); !strings.Contains(bad, "DHCPNAK(srv0) "+strings.TrimSuffix(addr, "/24")) || strings.Contains(good, "DHCPNAK") {
		t.Errorf("the stranger was not there:\n%s", bad)
	}
}

// The link goes up and down ten times a second for six seconds.
func TestFlappingCable(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stop := dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	addr := b.Status().Addresses[0]
	peer.Run("sh", "-c", `for i in $(seq 60); do ip link set srv0 down; sleep 0.05; ip link set srv0 up; sleep 0.05; done`)
	took := b.until(10*time.Second, "bound", func(n api.Network) bool { return n.Carrier && n.State == "bound" })
	t.Logf("bound %v after it", took)
	b.until(10*time.Second, "said", func(api.Network) bool { return b.logged(" changes in ") })
	if n := b.Status(); n.Addresses[0] != addr || n.Gateway != "10.7.0.1" {
		t.Errorf("%+v", n)
	}
	b.stop()
	if n := strings.Count(stop(), " DHCPREQUEST("); n < 2 || n > 20 {
		t.Errorf("%d requests", n)
	}
}

func radvd(t *testing.T, p *netlab.Peer, text string) func() string {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p.Run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/forwarding")
	return p.Start("radvd", "--nodaemon", "--logmethod=stderr", "--pidfile="+dir+"/pid", "--config="+conf)
}

// A router that advertises a prefix, itself and name servers, beside a DHCP
// server; then forwarding is switched on, and the process is another one.
func TestIPv6(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:dns-server,10.7.0.1")
	const quiet = "interface srv0 { AdvSendAdvert on; MinRtrAdvInterval 200; MaxRtrAdvInterval 600; AdvDefaultLifetime %d;\n" +
		"prefix fd00:7::/64 {}; RDNSS fd00:7::53 { AdvRDNSSLifetime 1200; }; DNSSL six.example lan { AdvDNSSLLifetime 1200; }; };\n"
	stop := radvd(t, peer, fmt.Sprintf(quiet, 1800))
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	const resolv = "search six.example lan\nnameserver 10.7.0.1\nnameserver fd00:7::53\n"
	good := func(n api.Network) bool {
		return n.State == "bound" && slices.Contains(n.Addresses, "fd00:7::ff:fe00:1/64") && slices.Equal(n.DNS, []string{"10.7.0.1", "fd00:7::53"})
	}
	took := b.until(20*time.Second, "complete", good)
	t.Logf("after %v", took)
	// Servers and domains are told one after the other.
	said := func(want string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q in resolv.conf", want), func() bool { return file(t, root, "run/resolv.conf") == want })
	}
	said(resolv)
	route := func() string { return netlab.Run(t, "ip", "-6", "route", "show", "default") }
	if got := route(); !strings.Contains(got, "default via fe80::") || !strings.Contains(got, "proto ra") {
		t.Errorf("routes %q", got)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/sys/net/ipv6/conf/all/forwarding"), []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	if got := route(); !strings.Contains(got, "default via fe80::") {
		t.Errorf("the route went with forwarding: %q", got)
	}

	// The router does not speak up by itself for minutes: it is asked.
	b.stop()
	b = start(t, root, nil)
	b.until(10*time.Second, "complete after a restart", good)
	said(resolv)

	// It ends, and says so: radvd withdraws what it advertised.
	stop()
	b.until(10*time.Second, "without the router's server", func(n api.Network) bool { return slices.Equal(n.DNS, []string{"10.7.0.1"}) })
	said("nameserver 10.7.0.1\n")
}

// The cable goes from a network with IPv6 to one without: nothing of it is left.
func TestIPv6OfTheNetworkBefore(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	stopDHCP := dnsmasq(t, peer, "--dhcp-range=10.7.0.50,10.7.0.60,1h", "--dhcp-option=option:dns-server,10.7.0.1")
	// It crashes, as it were: it does not say that it is gone.
	stopRouter := radvd(t, peer, "interface srv0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvDefaultLifetime 1800;\n"+
		"prefix fd00:7::/64 {}; RDNSS fd00:7::53 { AdvRDNSSLifetime 1200; }; };\n")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	has := func(n api.Network) bool { return slices.Contains(n.Addresses, "fd00:7::ff:fe00:1/64") }
	b.until(20*time.Second, "complete", func(n api.Network) bool { return n.State == "bound" && has(n) && len(n.DNS) == 2 })

	peer.Run("ip", "link", "set", "srv0", "down")
	stopDHCP()
	stopRouter()
	peer.Run("ip", "addr", "flush", "dev", "srv0")
	peer.Run("ip", "addr", "add", "10.8.0.1/24", "dev", "srv0")
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.8.0.50,10.8.0.60,1h", "--dhcp-option=option:dns-server,10.8.0.1")
	if !has(b.Status()) {
		t.Error("the address went with the cable") // else this test tests nothing
	}
	peer.Run("ip", "link", "set", "srv0", "up")
	b.until(10*time.Second, "elsewhere", bound("10.8.0.0/24"))
	b.until(10*time.Second, "with its own address only", func(n api.Network) bool {
		return !has(n) && slices.Contains(n.Addresses, "fe80::ff:fe00:1/64") && slices.Equal(n.DNS, []string{"10.8.0.1"})
	})
	if got := netlab.Run(t, "ip", "-6", "route", "show", "default"); got != "" {
		t.Errorf("routes %q", got)
	}
	if got := file(t, root, "proc/sys/net/ipv6/conf/eth0/accept_ra"); got != "2\n" {
		t.Errorf("accept_ra %q", got)
	}
}

// Another host has our IPv6 address: the kernel finds out, the status says so.
func TestDuplicateIPv6OnTheCable(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "addr", "add", "fe80::ff:fe00:1/64", "dev", "srv0", "nodad")
	b := start(t, root, map[string]string{"mac_address": oneMAC, "eth0.conf": "IPADDR=10.7.0.9/24\nGATEWAY=10.7.0.1\n"})
	b.until(10*time.Second, "in conflict", func(n api.Network) bool {
		return slices.Equal(n.Conflicts, []api.Conflict{{Address: "fe80::ff:fe00:1"}}) && slices.Equal(n.Addresses, []string{"10.7.0.9/24"})
	})
}

// What takes minutes: dnsmasq's shortest lease, and a conflict that ends.
func TestSoak(t *testing.T) {
	if os.Getenv("GW_SOAK") == "" {
		t.Skip("takes 3 minutes; set GW_SOAK=1")
	}
	if !netlab.Alone(t) {
		return
	}
	root, peer := served(t)
	dnsmasq(t, peer, "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,2m")
	b := start(t, root, map[string]string{"mac_address": oneMAC})
	b.until(10*time.Second, "bound", bound("10.7.0.0/24"))
	for range 2 {
		b.until(70*time.Second, "half over", func(n api.Network) bool { return n.Lease <= 75 })
		b.until(25*time.Second, "renewed", func(n api.Network) bool { return n.State == "bound" && n.Lease > 100 })
	}
	b.stop()
	peer.Run("ip", "addr", "add", "10.7.0.9/32", "dev", "lo")
	b = start(t, root, map[string]string{"eth0.conf": "IPADDR=10.7.0.9/24\nGATEWAY=10.7.0.1\n"})
	b.until(10*time.Second, "in conflict", func(n api.Network) bool { return len(n.Conflicts) == 1 })
	peer.Run("ip", "addr", "del", "10.7.0.9/32", "dev", "lo")
	b.until(70*time.Second, "alone", func(n api.Network) bool { return len(n.Conflicts) == 0 })
}
