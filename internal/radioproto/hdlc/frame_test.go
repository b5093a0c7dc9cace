package hdlc

import (
	"bytes"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// received returns the frames that a Receiver finds in p, in pieces of at most
// piece bytes.
func received(p []byte, piece int) (frames [][]byte) {
	var r Receiver
	for len(p) > 0 {
		part := p[:min(piece, len(p))]
		p = p[len(part):]
		for len(part) > 0 {
			n, f := r.Next(part)
			if f != nil {
				frames = append(frames, bytes.Clone(f))
			}
			part = part[n:]
		}
	}
	return frames
}

// The bytes of RFC 1662's FCS-16 (0x906E over "123456789") with a frame around
// them, and one of bytes that are escaped.
func TestAppend(t *testing.T) {
	for _, tt := range []struct{ data, frame string }{
		{"31 32 33 34 35 36 37 38 39", "7E 31 32 33 34 35 36 37 38 39 6E 90 7E"},
		{"81 02 02", "7E 81 02 02 5E 80 7E"},
		{"7E 7D 11 13 F8 00", ""},
	} {
		data := radioprototest.Unhex(t, tt.data)
		got := Append(nil, data)
		if want := radioprototest.Unhex(t, tt.frame); len(want) > 0 && !bytes.Equal(got, want) {
			t.Errorf("%s: % x, want % x", tt.data, got, want)
		}
		for _, reserved := range []byte{Flag, 0x11, 0x13, 0xF8} {
			if bytes.IndexByte(got[1:len(got)-1], reserved) >= 0 {
				t.Errorf("%s: %#x inside % x", tt.data, reserved, got)
			}
		}
		var d Decoder
		if f := radioprototest.Decode(d.Next, got, 1); len(f) != 1 || f[0].Fault != Good || f[0].Len != len(data) {
			t.Errorf("%s: the decoder sees %+v", tt.data, f)
		}
		for _, piece := range []int{1, 3, 100} {
			if f := received(got, piece); len(f) != 1 || !bytes.Equal(f[0], data) {
				t.Errorf("%s in pieces of %d: % x", tt.data, piece, f)
			}
		}
	}
}

// What a link may bring beside good frames.
func TestReceiverPassesOver(t *testing.T) {
	good := Append(nil, []byte("good"))
	bad := bytes.Clone(good)
	bad[2] ^= 1
	long := append([]byte{Flag}, bytes.Repeat([]byte("x"), MaxFrame+10)...)
	for name, before := range map[string][]byte{
		"noise": []byte("noise"), "a damaged frame": bad, "flags": {Flag, Flag, Flag}, "a short frame": {Flag, 1, Flag},
		"an escape at the end": {Flag, 1, 2, 3, Escape}, "a long frame": long, "half a frame": good[:4],
	} {
		f := received(append(bytes.Clone(before), good...), 7)
		if len(f) != 1 || string(f[0]) != "good" {
			t.Errorf("behind %s: %q", name, f)
		}
	}
	// One flag may end a frame and begin the next.
	if f := received(append(bytes.Clone(good), good[1:]...), 5); len(f) != 2 {
		t.Errorf("with a flag shared: %q", f)
	}
}

func FuzzReceiver(f *testing.F) {
	f.Add([]byte("data"), []byte{Flag, 1, Escape}, 3)
	f.Fuzz(func(t *testing.T, data, noise []byte, piece int) {
		if len(data) > MaxFrame-2 || len(data) == 0 {
			return
		}
		stream := append(append(bytes.Clone(noise), Flag), Append(nil, data)...)
		frames := received(stream, max(1, piece%64))
		if len(frames) == 0 || !bytes.Equal(frames[len(frames)-1], data) {
			t.Errorf("behind % x: % x, want % x at the end", noise, frames, data)
		}
	})
}
