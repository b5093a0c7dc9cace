package dhcp

import (
	"bytes"
	"testing"

	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netlab"
)

// A flood of anything but answers to this client does not wake the process.
func TestAnswerFilter(t *testing.T) {
	answer := golden.build(question{})
	answer[0] = 2
	frame := func(change func(f []byte)) []byte {
		f := broadcastFrame(bytes.Clone(answer))
		f[21], f[23] = serverPort, clientPort
		change(f)
		return f
	}
	options := func(f []byte) []byte { // of IP, 4 bytes
		f = append(f[:20:20], append([]byte{1, 1, 1, 1}, f[20:]...)...)
		f[0] = 0x46
		return f
	}
	same := func([]byte) {}
	tests := []struct {
		name   string
		packet []byte
		want   bool
		udp    bool // the same for a socket of UDP
	}{
		{"an answer", frame(same), true, true},
		{"with options of IP", options(frame(same)), true, true},
		{"TCP", frame(func(f []byte) { f[9] = 6 }), false, true},
		{"a fragment", frame(func(f []byte) { f[7] = 1 }), false, true},
		{"a fragment that looks like an answer if its header were none", frame(func(f []byte) {
			f[7], f[8] = 1, 2
			copy(f[36:], golden.MAC[:])
		}), false, true},
		{"a server's port", frame(func(f []byte) { f[23] = serverPort }), false, true},
		{"a question", frame(func(f []byte) { f[28] = 1 }), false, false},
		{"of another, in the first bytes", frame(func(f []byte) { f[28+28]++ }), false, false},
		{"of another, in the last", frame(func(f []byte) { f[28+28+5]++ }), false, false},
		{"cut in the MAC", frame(same)[:28+28+5], false, false},
		{"empty", frame(same)[:28], false, false},
	}
	s := Sockets{Link: netdev.Link{MAC: golden.MAC}}
	for _, tt := range tests {
		if got := netlab.Passes(t, answerFilter(s.Link.MAC, false), tt.packet); got != tt.want {
			t.Errorf("%s: passed %v, want %v", tt.name, got, tt.want)
		}
		udp := tt.packet[int(tt.packet[0]&15)*4:]
		if got := netlab.Passes(t, answerFilter(s.Link.MAC, true), udp); got != tt.udp {
			t.Errorf("%s, by UDP: passed %v, want %v", tt.name, got, tt.udp)
		}
	}
}
