package hdlc

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// fcs is FCS-16 bit by bit, as RFC 1662 defines it.
func fcs(p []byte) uint16 {
	v := uint16(0xFFFF)
	for _, b := range p {
		for i := range 8 {
			if v&1 != uint16(b>>i)&1 {
				v = v>>1 ^ 0x8408
			} else {
				v >>= 1
			}
		}
	}
	return ^v
}

// encode appends the frame of p, with the escapes of OpenThread.
func encode(dst, p []byte) []byte {
	s := fcs(p)
	dst = append(dst, Flag)
	for _, b := range append(append([]byte(nil), p...), byte(s), byte(s>>8)) {
		switch b {
		case Flag, Escape, 0x11, 0x13, 0xF8:
			dst = append(dst, Escape, b^flip)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, Flag)
}

func TestGolden(t *testing.T) {
	if got := fcs([]byte("123456789")); got != 0x906E { // the check value of CRC-16/X-25
		t.Fatalf("the test's own FCS gives %#x", got)
	}
	for _, tt := range []struct {
		name, wire string
		fault      Fault
		n          int
		spinel     string // "": none
	}{
		{"check value", "7E 31 32 33 34 35 36 37 38 39 6E 90 7E", Good, 9, ""},
		{"Spinel reset", "7E 80 01" + tail(0x80, 0x01) + "7E", Good, 2, "tid 0 RESET"},
		// What an RCP says after a power-on (status 112) and a software reset (114).
		{"last status 112", "7E 80 06 00 70 EE 74 7E", Good, 4, "tid 0 PROP_VALUE_IS LAST_STATUS"},
		{"last status 114", "7E 80 06 00 72 FC 57 7E", Good, 4, "tid 0 PROP_VALUE_IS LAST_STATUS"},
		{"escapes", "7E 81 02 7D 5E" + tail(0x81, 0x02, 0x7E) + "7E", Good, 3, "tid 1 PROP_VALUE_GET property 126"},
		{"packed property", "7E 92 03 81 02" + tail(0x92, 0x03, 0x81, 0x02) + "7E", Good, 4, "iid 1 tid 2 PROP_VALUE_SET property 257"},
		{"stream", "7E 80 06 71 00" + tail(0x80, 0x06, 0x71, 0x00) + "7E", Good, 4, "tid 0 PROP_VALUE_IS STREAM_RAW"},
		{"no property", "7E 80 06" + tail(0x80, 0x06) + "7E", Good, 2, ""},
		{"unknown command", "7E 80 15" + tail(0x80, 0x15) + "7E", Good, 2, "tid 0 command 21"},
		{"not Spinel", "7E 00 06 00" + tail(0x00, 0x06, 0x00) + "7E", Good, 3, ""},
		{"wrong FCS", "7E 80 06 00 72 FC 56 7E", FCS, 4, ""},
		{"too short", "7E 80 01 7E", Length, 0, ""},
		{"flags", "7E 7E 7E 80 01" + tail(0x80, 0x01) + "7E 7E", Good, 2, "tid 0 RESET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wire := radioprototest.Unhex(t, tt.wire)
			for _, piece := range []int{1, 2, len(wire)} {
				var d Decoder
				got := radioprototest.Decode(d.Next, wire, piece)
				if len(got) != 1 || got[0].Fault != tt.fault || got[0].Len != tt.n {
					t.Fatalf("in pieces of %d: %+v", piece, got)
				}
				s, ok := got[0].Spinel()
				if ok != (tt.spinel != "") || ok && s.String() != tt.spinel {
					t.Errorf("%q, %v; want %q", s, ok, tt.spinel)
				}
			}
		})
	}
}

// tail is the FCS of p in hexadecimal.
func tail(p ...byte) string {
	s := fcs(p)
	return hex.EncodeToString([]byte{byte(s), byte(s >> 8)})
}

// Noise costs what stands before the next flag, and nothing else.
func TestResynchronises(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	frame := encode(nil, []byte{0x80, 0x06, 0x00, 0x72})
	for range 2000 {
		noise := make([]byte, r.IntN(9000))
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		var d Decoder
		radioprototest.Decode(d.Next, noise, 512)
		got := radioprototest.Decode(d.Next, frame, 3)
		if len(got) == 0 || got[len(got)-1].Fault != Good || got[len(got)-1].Len != 4 {
			t.Fatalf("after %x: %+v", noise, got)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	p := encode(nil, make([]byte, 60))
	var d Decoder
	if n := testing.AllocsPerRun(100, func() {
		for q := p; len(q) > 0; {
			n, f, ok := d.Next(q)
			if ok && (f.Fault != Good || f.Len != 60) {
				t.Fatalf("%+v", f)
			}
			q = q[n:]
		}
	}); n != 0 {
		t.Errorf("%v allocations a frame", n)
	}
}

// What was encoded comes out, in whatever pieces, behind whatever noise; and a
// frame is Good only with the FCS that the definition gives.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0x80, 0x06, 0x00, 0x72}, []byte{0x7D}, uint8(0))
	f.Add([]byte{0x7E, 0x7D, 0x11}, []byte{0x7E, 0x00, 0x7D, 0x7E}, uint8(3))
	f.Fuzz(func(t *testing.T, body, noise []byte, piece uint8) {
		var d Decoder
		radioprototest.Decode(d.Next, noise, int(piece)+1)
		if len(body) == 0 || len(body) > MaxFrame-2 {
			return
		}
		got := radioprototest.Decode(d.Next, encode(nil, body), int(piece)+1)
		if len(got) == 0 {
			t.Fatal("no frame")
		}
		last := got[len(got)-1]
		if last.Fault != Good || last.Len != len(body) {
			t.Fatalf("%x behind %x: %+v", body, noise, last)
		}
		for i := range min(len(body), headBytes) {
			if last.Head[i] != body[i] {
				t.Fatalf("%x: begins with %x", body, last.Head)
			}
		}
		if s, ok := last.Spinel(); ok && s.String() == "" {
			t.Fatal("no words")
		}
	})
}
