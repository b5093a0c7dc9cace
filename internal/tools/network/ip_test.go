package network

import (
	"strings"
	"testing"

	"gwinit/internal/netdev/netlab"
)

// What ip changes is read back by iproute2, and the other way round.
func TestIP(t *testing.T) {
	peer := netlab.Cable(t, "eth0", "other0")
	peer.Run("ip", "addr", "add", "10.3.0.1/24", "dev", "other0")
	theirs := func(args ...string) string { return netlab.Run(t, append([]string{"ip"}, args...)...) }
	has := func(text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in\n%s", w, text)
			}
		}
	}
	hasNot := func(text, not string) {
		t.Helper()
		if strings.Contains(text, not) {
			t.Errorf("%q in\n%s", not, text)
		}
	}

	must(t, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:07", "mtu", "1400", "up")
	has(theirs("link", "show", "dev", "eth0"), "02:00:00:00:00:07", "mtu 1400", ",UP")
	has(must(t, "ip", "l"), "lo: <LOOPBACK", "eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1400 state UP", "link/ether 02:00:00:00:00:07")

	must(t, "ip", "addr", "add", "10.3.0.2/24", "dev", "eth0")
	must(t, "ip", "a", "add", "2001:db8::2/64", "dev", "eth0")
	has(theirs("addr", "show", "dev", "eth0"), "inet 10.3.0.2/24 brd 10.3.0.255", "inet6 2001:db8::2/64")
	has(must(t, "ip", "a", "show", "dev", "eth0"), "    inet 10.3.0.2/24 brd 10.3.0.255 scope global\n", "    inet6 2001:db8::2/64 scope global")
	hasNot(must(t, "ip", "-4", "a"), "inet6")
	hasNot(must(t, "ip", "-6", "a"), "inet ")
	netlab.Run(t, "ip", "addr", "add", "10.3.0.77/24", "dev", "eth0", "valid_lft", "500", "preferred_lft", "500")
	has(must(t, "ip", "a"), "inet 10.3.0.77/24 scope global secondary valid ")
	if _, errs, status := call(t, "", "ip", "addr", "add", "10.3.0.2/24", "dev", "eth0"); status != 1 || !strings.Contains(errs, "file exists") {
		t.Errorf("the same address again: %d %q", status, errs)
	}

	must(t, "ip", "route", "add", "default", "via", "10.3.0.1", "metric", "5")
	must(t, "ip", "r", "add", "10.9.0.0/16", "via", "10.3.0.1", "dev", "eth0")
	must(t, "ip", "r", "add", "10.8.0.0/16", "dev", "eth0")
	must(t, "ip", "r", "add", "10.7.0.0/16", "via", "192.168.9.9", "dev", "eth0", "onlink")
	must(t, "ip", "r", "add", "2001:db8:1::/48", "via", "2001:db8::1")
	has(theirs("route"), "default via 10.3.0.1 dev eth0 metric 5", "10.9.0.0/16 via 10.3.0.1 dev eth0", "10.8.0.0/16 dev eth0 scope link",
		"10.7.0.0/16 via 192.168.9.9 dev eth0 onlink")
	has(theirs("-6", "route"), "2001:db8:1::/48 via 2001:db8::1 dev eth0")
	has(must(t, "ip", "route"), "default via 10.3.0.1 dev eth0 proto boot metric 5\n", "10.8.0.0/16 dev eth0 proto boot scope link\n",
		"10.7.0.0/16 via 192.168.9.9 dev eth0 proto boot onlink\n", "10.3.0.0/24 dev eth0 proto kernel scope link src 10.3.0.2\n")
	has(must(t, "ip", "-6", "r"), "2001:db8:1::/48 via 2001:db8::1 dev eth0")
	must(t, "ip", "r", "replace", "10.9.0.0/16", "via", "10.3.0.5")
	has(theirs("route"), "10.9.0.0/16 via 10.3.0.5")
	must(t, "ip", "r", "del", "10.8.0.0/16")
	must(t, "ip", "r", "del", "default")
	hasNot(theirs("route"), "default")
	hasNot(theirs("route"), "10.8.0.0")

	must(t, "ping", "-c", "1", "-W", "2", "10.3.0.1")
	mac := strings.Fields(must(t, "ip", "neigh", "show", "dev", "eth0"))
	if len(mac) < 6 || mac[0] != "10.3.0.1" || mac[2] != "eth0" || !strings.Contains(peer.Run("ip", "link"), mac[4]) {
		t.Errorf("neighbours %v", mac)
	}
	must(t, "ip", "n", "del", "10.3.0.1", "dev", "eth0")
	hasNot(must(t, "ip", "n"), mac[4])

	must(t, "ip", "addr", "del", "10.3.0.2/24", "dev", "eth0")
	hasNot(theirs("addr"), "10.3.0.2/")
	must(t, "ip", "link", "set", "dev", "eth0", "down")
	has(theirs("link", "show", "dev", "eth0"), "state DOWN")
	if _, errs, status := call(t, "", "ip", "link", "show", "none0"); status != 1 || !strings.Contains(errs, "none0") {
		t.Errorf("a link that is not there: %d %q", status, errs)
	}
}
