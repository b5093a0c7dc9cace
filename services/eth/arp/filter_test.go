package arp

import (
	"net/netip"
	"testing"

	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
)

// A flood of ARP does not wake the process, unless it is of this address.
func TestFilter(t *testing.T) {
	mac, addr := netdev.MAC{2, 0x12, 0x34, 0x56, 0x78, 0x9a}, netip.MustParseAddr("10.0.0.50")
	code := filter(mac, addr)
	for _, tt := range []struct {
		name string
		p    Packet
		want bool
	}{
		{"who has it", Packet{Request: true, Sender: netdev.MAC{2, 1}, SenderIP: netip.MustParseAddr("10.0.0.1"), TargetIP: addr}, false},
		{"another says that it has it", Packet{Sender: netdev.MAC{2, 1}, SenderIP: addr, TargetIP: addr}, true},
		{"differs in the first byte", Packet{Sender: netdev.MAC{0, 0x12, 0x34, 0x56, 0x78, 0x9a}, SenderIP: addr, TargetIP: addr}, true},
		{"differs in the last byte", Packet{Request: true, Sender: netdev.MAC{2, 0x12, 0x34, 0x56, 0x78, 0x9b}, SenderIP: addr, TargetIP: addr}, true},
		{"ours", Packet{Sender: mac, SenderIP: addr, TargetIP: addr}, false},
	} {
		if got := netlab.Passes(t, code, tt.p.Marshal()); got != tt.want {
			t.Errorf("%s: passed %v, want %v", tt.name, got, tt.want)
		}
		if netlab.Passes(t, code[len(code)-1:], tt.p.Marshal()) {
			t.Errorf("%s: a deaf socket hears it", tt.name)
		}
	}
}
