package spinel

import (
	"bytes"
	"testing"

	"gwinit/internal/radioproto/radioprototest"
)

// Golden bytes: header 0x80 | interface<<4 | transaction, then packed integers.
func TestFrames(t *testing.T) {
	tests := []struct {
		name string
		hex  string
		f    Frame
	}{
		{"get the NCP's version", "81 02 02", Frame{TID: 1, Command: PropGet, Property: NCPVersion}},
		{"its answer", "81 06 02 53 4C 00", Frame{TID: 1, Command: PropIs, Property: NCPVersion, Payload: []byte("SL\x00")}},
		{"reset to the bootloader", "80 01 03", Frame{Command: Reset, Payload: []byte{ResetBootloader}}},
		{"reset notice", "80 06 00 70", Frame{Command: PropIs, Property: LastStatus, Payload: []byte{StatusResetFirst}}},
		{"another interface, a long property", "92 02 80 26", Frame{IID: 1, TID: 2, Command: PropGet, Property: 4864}},
		{"no operation", "8F 00", Frame{TID: 15}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := radioprototest.Unhex(t, tt.hex)
			if got := tt.f.Append(nil); !bytes.Equal(got, want) {
				t.Errorf("% x, want % x", got, want)
			}
			f, ok := Parse(want)
			if !ok || f.IID != tt.f.IID || f.TID != tt.f.TID || f.Command != tt.f.Command || f.Property != tt.f.Property || !bytes.Equal(f.Payload, tt.f.Payload) {
				t.Errorf("read as %+v, %v; want %+v", f, ok, tt.f)
			}
		})
	}
}

func TestNoFrames(t *testing.T) {
	for _, hex := range []string{"", "81", "41 02 02", "01 02 02", "81 02", "81 80 80 80 01", "81 02 FF FF FF 01"} {
		if f, ok := Parse(radioprototest.Unhex(t, hex)); ok {
			t.Errorf("%s is read as %+v", hex, f)
		}
	}
}

func TestAnswerAndText(t *testing.T) {
	f, ok := Parse([]byte("\x83\x06\x02SL-OPENTHREAD/2.4\x00junk"))
	if !ok || !f.Answer(3, NCPVersion) || f.Answer(4, NCPVersion) || f.Answer(3, LastStatus) || f.Text() != "SL-OPENTHREAD/2.4" {
		t.Errorf("%+v, %v, text %q", f, ok, f.Text())
	}
	if f.Payload = []byte("open"); f.Text() != "open" {
		t.Errorf("text without an end: %q", f.Text())
	}
}

func TestPacked(t *testing.T) {
	for v, hex := range map[uint32]string{0: "00", 127: "7F", 128: "80 01", 5376: "80 2A", MaxPacked: "FF FF 7F"} {
		want := radioprototest.Unhex(t, hex)
		if got := AppendPacked(nil, v); !bytes.Equal(got, want) {
			t.Errorf("%d: % x, want % x", v, got, want)
		}
		if got, n := Packed(want); got != v || n != len(want) {
			t.Errorf("% x: %d in %d bytes, want %d", want, got, n, v)
		}
	}
	for _, hex := range []string{"", "80", "80 80 80 01"} {
		if v, n := Packed(radioprototest.Unhex(t, hex)); v != 0 || n != 0 {
			t.Errorf("%s: %d in %d bytes", hex, v, n)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{0x81, 2, 2})
	f.Add([]byte("\x81\x06\x02SL\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		fr, ok := Parse(p)
		if !ok {
			return
		}
		again, ok := Parse(fr.Append(nil))
		if !ok || again.IID != fr.IID || again.TID != fr.TID || again.Command != fr.Command || again.Property != fr.Property || !bytes.Equal(again.Payload, fr.Payload) {
			t.Errorf("% x: %+v, again %+v, %v", p, fr, again, ok)
		}
	})
}
