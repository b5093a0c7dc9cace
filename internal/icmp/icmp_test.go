package icmp

import (
	"encoding/hex"
	"testing"
)

func TestEchoBytes(t *testing.T) {
	// RFC 792 and RFC 4443 section 4.1; the sum by hand:
	// 0800+1234+0001+0001+0200 = 1c36, inverted e3c9.
	if got := hex.EncodeToString(Echo(false, 0x1234, 1, 3)); got != "0800e3c912340001"+"000102" {
		t.Errorf("IPv4 %s", got)
	}
	if got := hex.EncodeToString(Echo(true, 0x1234, 1, 3)); got != "8000000012340001"+"000102" {
		t.Errorf("IPv6 %s", got)
	}
}

func TestParseReply(t *testing.T) {
	tests := []struct {
		name, bytes string
		v6          bool
		ok          bool
	}{
		{"good", "0000ebc912340001000102", false, true},
		{"wrong sum", "0000ebc812340001000102", false, false},
		{"another id", "0000ebc812350001000102", false, false},
		{"our own request", "0800e3c912340001000102", false, false},
		{"short", "0000ebc9123400", false, false},
		{"empty", "", false, false},
		{"IPv6", "8100000012340001", true, true},
		{"IPv6 where IPv4 is meant", "8100000012340001", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := hex.DecodeString(tt.bytes)
			if err != nil {
				t.Fatal(err)
			}
			seq, ok := ParseReply(b, tt.v6, 0x1234)
			if ok != tt.ok || ok && seq != 1 {
				t.Errorf("seq %d, %v", seq, ok)
			}
		})
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add([]byte{0, 0, 0xeb, 0xc9, 0x12, 0x34, 0, 1, 0, 1, 2}, false)
	f.Add([]byte{129, 0, 0, 0, 0x12, 0x34, 0, 1}, true)
	f.Fuzz(func(t *testing.T, b []byte, v6 bool) {
		seq, ok := ParseReply(b, v6, 0x1234)
		if ok && (len(b) < 8 || seq != uint16(b[6])<<8|uint16(b[7])) {
			t.Errorf("%x: seq %d", b, seq)
		}
	})
}
