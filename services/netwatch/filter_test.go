package netwatch

import (
	"slices"
	"testing"

	"gwinit/internal/icmp"
	"gwinit/internal/netdev/netlab"
)

// While a look waits for answers, a flood of anything else wakes nobody.
func TestReplies(t *testing.T) {
	const id = 0x8123
	for _, v6 := range []bool{false, true} {
		// What a raw socket sees before the message, RFC 791 figure 4.
		header := []byte{0x46, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1}
		reply, question := byte(icmp.EchoReply4), byte(8)
		if v6 {
			header, reply, question = nil, icmp.EchoReply6, 128
		}
		packet := func(kind byte, id uint16) []byte {
			b := icmp.Echo(v6, id, 7, 0)
			b[0] = kind
			return slices.Concat(header, b)
		}
		for _, tt := range []struct {
			name   string
			packet []byte
			want   bool
		}{
			{"a reply", packet(reply, id), true},
			{"a question", packet(question, id), false},
			{"of another", packet(reply, id+1), false},
			{"of another, in the first byte", packet(reply, id^0x8000), false},
			{"a router's advertisement", packet(134, id), false},
			{"unreachable", packet(3, id), false},
			{"cut", packet(reply, id)[:len(header)+5], false},
			{"empty", header, false},
		} {
			if len(tt.packet) > 0 && netlab.Passes(t, replies(v6, id), tt.packet) != tt.want {
				t.Errorf("%s, IPv6 %v: want %v", tt.name, v6, tt.want)
			}
		}
	}
}
