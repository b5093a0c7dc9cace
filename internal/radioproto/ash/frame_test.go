package ash

import (
	"bytes"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// UG101's own examples: RST in 2.2, ACK and NAK in 2.2.2 and 2.2.3, the DATA
// frame with the version command in 4.3.
func TestAppend(t *testing.T) {
	for _, tt := range []struct {
		name    string
		control byte
		data    string
		frame   string
	}{
		{"RST", ControlRst, "", "C0 38 BC 7E"},
		{"ACK 1", ControlAck | 1, "", "81 60 59 7E"},
		{"NAK 6", ControlNak | 6, "", "A6 34 DC 7E"},
		{"DATA 2, ack 5", ControlData(2, 5, false), "00 00 00 02", "25 42 21 A8 56 A6 09 7E"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, want := radioprototest.Unhex(t, tt.data), radioprototest.Unhex(t, tt.frame)
			if got := Append(nil, tt.control, data); !bytes.Equal(got, want) {
				t.Fatalf("% x, want % x", got, want)
			}
			var r Receiver
			n, f, got, ok := r.Next(want)
			if !ok || n != len(want) || !bytes.Equal(got, data) {
				t.Errorf("received %v, % x of %d bytes, %v", f, got, n, ok)
			}
			var d Decoder
			if _, seen, _ := d.Next(want); seen != f {
				t.Errorf("the decoder sees %v, the receiver %v", seen, f)
			}
		})
	}
	if c := ControlData(7, 3, true); c != 0x7B {
		t.Errorf("control %#x, want 0x7b", c)
	}
}

// What a line brings beside good frames.
func TestReceiverPassesOver(t *testing.T) {
	good := Append(nil, ControlData(1, 0, false), []byte("data"))
	bad := bytes.Clone(good)
	bad[1] ^= 4
	for name, before := range map[string][]byte{
		"flags": {Flag, Flag}, "noise and a cancel": {1, 2, 3, Cancel}, "a damaged frame": bad,
		"a void frame": {1, 2, 3, 4, Substitute, Flag}, "a short frame": {0x81, Flag},
		"a frame of unknown type":   Append(nil, 0xE0, nil),
		"a frame that is too long":  Append(nil, ControlData(0, 0, false), make([]byte, MaxData+1)),
		"an escape before a cancel": {1, Escape, Cancel},
	} {
		var r Receiver
		p := append(bytes.Clone(before), good...)
		frames := 0
		for len(p) > 0 {
			n, f, data, ok := r.Next(p)
			if p = p[n:]; ok {
				frames++
				if f.Kind != Data || string(data) != "data" {
					t.Errorf("behind %s: %v %q", name, f, data)
				}
			}
		}
		if frames != 1 {
			t.Errorf("behind %s: %d frames", name, frames)
		}
	}
	// Flow control bytes may stand anywhere.
	var r Receiver
	if _, _, data, ok := r.Next(append([]byte{good[0], XOff, XOn}, good[1:]...)); !ok || string(data) != "data" {
		t.Errorf("with XOFF in it: %q, %v", data, ok)
	}
}

// The receiver takes for good what the decoder does, and gives back what was sent.
func FuzzReceiver(f *testing.F) {
	f.Add([]byte{0xC0, 0x38, 0xBC, 0x7E}, []byte("data"))
	f.Add([]byte{0x7D, 0x1A, 0x18, 0x7E}, []byte{})
	f.Fuzz(func(t *testing.T, noise, data []byte) {
		p := append(bytes.Clone(noise), Flag)
		if len(data) >= minData && len(data) <= MaxData {
			p = Append(p, ControlData(3, 4, false), data)
		}
		var d Decoder
		var r Receiver
		var seen, got []Frame
		for _, f := range radioprototest.Decode(d.Next, p, 5) {
			if f.Fault == Good {
				seen = append(seen, f)
			}
		}
		var last []byte
		for q := p; len(q) > 0; {
			n, f, b, ok := r.Next(q)
			if q = q[n:]; ok {
				got, last = append(got, f), bytes.Clone(b)
			}
		}
		if len(seen) != len(got) {
			t.Fatalf("% x: the decoder sees %v, the receiver %v", p, seen, got)
		}
		if len(data) >= minData && len(data) <= MaxData && !bytes.Equal(last, data) {
			t.Errorf("% x: got % x, want % x", p, last, data)
		}
	})
}
