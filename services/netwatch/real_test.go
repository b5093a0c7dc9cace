package netwatch

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
)

// The tests of this file ask a real kernel at the other end of a cable. They
// take the time that a host that is not there takes.

// cable is a link with addresses, and a default gateway at its end.
func cable(t *testing.T) (*system, *netlab.Peer) {
	t.Helper()
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	for _, a := range []string{"10.7.0.2/24", "fd07::2/64"} {
		netlab.Run(t, "ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	for _, a := range []string{"10.7.0.1/24", "fd07::1/64", "fe80::7/64"} {
		peer.Run("ip", "addr", "add", a, "dev", "srv0", "nodad")
	}
	netlab.Run(t, "ip", "route", "add", "default", "via", "10.7.0.1")
	netlab.Run(t, "ip", "-6", "route", "add", "default", "via", "fe80::7", "dev", "eth0")
	// Its own link-local address has to become one before it can ask that way.
	for end := time.Now().Add(10 * time.Second); strings.Contains(netlab.Run(t, "ip", "-6", "addr", "show", "dev", "eth0"), "tentative"); {
		if time.Now().After(end) {
			t.Fatal("eth0's link-local address stays tentative")
		}
	}
	return system0(root), peer
}

// system0 is the kernel, with its files below root.
func system0(root string) *system { return &system{root, "eth0", netdev.System{Root: root}} }

func addrs(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// answers asks and returns what became of it.
func answers(ctx context.Context, s *system, list ...string) []asked {
	all := make([]asked, len(list))
	for i, a := range list {
		all[i] = asked{spec: a, addr: netip.MustParseAddr(a)}
	}
	s.Ask(ctx, all)
	return all
}

// how asks and tells how each answered.
func how(t *testing.T, s *system, list ...string) string {
	t.Helper()
	var got []string
	began := time.Now()
	for _, a := range answers(t.Context(), s, list...) {
		if a.how == byEcho && (a.rtt <= 0 || a.rtt > int(time.Since(began)/time.Microsecond)) {
			t.Errorf("%s: %v us", a.spec, a.rtt)
		}
		if a.how == "" {
			a.how = "-"
		}
		got = append(got, a.how)
	}
	return strings.Join(got, " ")
}

func set(peer *netlab.Peer, file, value string) {
	peer.Run("sh", "-c", "echo "+value+" >/proc/sys/net/"+file)
}

func TestLookReal(t *testing.T) {
	s, peer := cable(t)
	want := func(link linkState, gateways ...string) {
		t.Helper()
		l, g, err := s.Look()
		if err != nil || l != link || !slices.Equal(g, addrs(gateways...)) {
			t.Errorf("%v %v %v, want %v %v", l, g, err, link, gateways)
		}
	}
	want(plugged, "10.7.0.1", "fe80::7%eth0")
	netlab.Run(t, "ip", "route", "replace", "default", "via", "10.7.0.9")
	netlab.Run(t, "ip", "route", "add", "10.8.0.0/16", "via", "10.7.0.1")
	want(plugged, "10.7.0.9", "fe80::7%eth0")
	netlab.Run(t, "ip", "route", "del", "default")
	want(plugged, "fe80::7%eth0")
	peer.Run("ip", "link", "set", "srv0", "down")
	want(unplugged)
	netlab.Run(t, "ip", "link", "set", "eth0", "down")
	want(unplugged)
	netlab.Run(t, "ip", "link", "del", "eth0")
	want(absent)
}

func TestAskReal(t *testing.T) {
	s, peer := cable(t)
	all := []string{"10.7.0.1", "fd07::1", "fe80::7%eth0", "10.7.0.77", "fd07::77", "203.0.113.1"}
	if got := how(t, s, all...); got != "icmp icmp icmp - - -" {
		t.Errorf("%s", got)
	}
	// A host that drops echo is there all the same, by the table that has it
	// already, and by one that has not.
	set(peer, "ipv4/icmp_echo_ignore_all", "1")
	set(peer, "ipv6/icmp/echo_ignore_all", "1")
	for _, flush := range []bool{false, true} {
		if flush {
			netlab.Run(t, "ip", "neigh", "flush", "dev", "eth0")
		}
		if got := how(t, s, "10.7.0.1", "10.7.0.77"); got != "arp -" {
			t.Errorf("flush %v: %s", flush, got)
		}
		if got := how(t, s, "fd07::77", "fd07::1", "fe80::7%eth0"); got != "- nd nd" {
			t.Errorf("flush %v: %s", flush, got)
		}
	}
	// It dies a moment after it has answered: the old answer counts for nothing.
	peer.Run("ip", "link", "set", "srv0", "arp", "off")
	peer.Run("ip", "-6", "addr", "flush", "dev", "srv0")
	began := time.Now()
	if got := how(t, s, "10.7.0.1", "fd07::1"); got != "- -" {
		t.Errorf("dead: %s\n%s", got, netlab.Run(t, "ip", "neigh"))
	}
	if took := time.Since(began); took > askedWait+2*time.Second {
		t.Errorf("a look at the dead takes %v", took)
	}
}

// This gateway's own answer says nothing: its addresses, and what resolvers give
// for names that they block.
func TestAskItself(t *testing.T) {
	s, _ := cable(t)
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	own := []string{"10.7.0.2", "fd07::2", "127.0.0.1", "::1", "0.0.0.0", "::", "10.7.0.255"}
	all := answers(t.Context(), s, append(own, "10.7.0.1")...)
	for i, a := range all[:len(own)] {
		if a.how != "" || !errors.Is(a.err, errOwn) {
			t.Errorf("%s answers by %q, %v", own[i], a.how, a.err)
		}
	}
	if a := all[len(own)]; a.how != byEcho || a.err != nil {
		t.Errorf("beside them: %+v", a)
	}
}

// No way there is told, and costs no time.
func TestAskWithoutRoute(t *testing.T) {
	s, _ := cable(t)
	netlab.Run(t, "ip", "route", "del", "default")
	a := answers(t.Context(), s, "203.0.113.1")
	if a[0].how != "" || a[0].err == nil || !strings.Contains(a[0].err.Error(), "unreachable") {
		t.Errorf("%+v", a)
	}
	// Nor is a target without an address asked.
	nobody := []asked{{spec: "gateway"}}
	if s.Ask(t.Context(), nobody); nobody[0] != (asked{spec: "gateway"}) {
		t.Errorf("nobody: %+v", nobody)
	}
}

// The end of a look by its context.
func TestAskEnds(t *testing.T) {
	s, _ := cable(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	answers(ctx, s, "10.7.0.77", "fd07::77")
	if took := time.Since(began); took > echoAgain {
		t.Errorf("it took %v", took)
	}
}

// The driver of a device, by a sysfs of files.
func TestRebind(t *testing.T) {
	root := t.TempDir()
	s := system0(root)
	if s.CanRebind() || s.Rebind() == nil {
		t.Error("without an interface it can be bound anew")
	}
	device := filepath.Join(root, "sys/devices/pci0/0000:00:12.0")
	driver := filepath.Join(root, "sys/bus/pci/drivers/e1000")
	put(t, filepath.Join(device, "net/eth0/mtu"), "1500\n")
	link := func(to, at string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	link(driver, filepath.Join(device, "driver"))
	link(device, filepath.Join(device, "net/eth0/device"))
	link(filepath.Join(device, "net/eth0"), filepath.Join(root, "sys/class/net/eth0"))
	if s.CanRebind() {
		t.Error("a driver that does not let itself be bound can be")
	}
	put(t, filepath.Join(driver, "unbind"), "")
	put(t, filepath.Join(driver, "bind"), "")
	if !s.CanRebind() {
		t.Error("it cannot be bound anew")
	}
	if err := s.Rebind(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"unbind", "bind"} {
		if b, err := os.ReadFile(filepath.Join(driver, f)); err != nil || string(b) != "0000:00:12.0" {
			t.Errorf("%s: %q, %v", f, b, err)
		}
	}
}
