package onlink

import (
	"net/netip"
	"testing"
)

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
