package onlink

import (
	"net/netip"
	"testing"
)

func TestLocal(t *testing.T) {
	for a, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "10.1.2.3": true, "172.31.0.1": true, "172.32.0.1": false, "192.168.7.1": true, "169.254.3.4": true,
		"fe80::1": true, "fd00::1": true, "2001:db8::1": false, "8.8.8.8": false, "0.0.0.0": false, "100.64.0.1": false,
	} {
		if got := Local(netip.MustParseAddr(a)); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
	if Local(netip.Addr{}) {
		t.Error("no address is local")
	}
}

// The networks of this machine are its interfaces'.
func TestPrefixes(t *testing.T) {
	on, err := Prefixes()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range on {
		found = found || p.Contains(netip.MustParseAddr("127.0.0.1"))
		if p != p.Masked() {
			t.Errorf("%v is not masked", p)
		}
	}
	if !found {
		t.Errorf("no loopback in %v", on)
	}
}
