package mtdimage

import (
	"bytes"
	"errors"
	"testing"
)

func TestWrapGolden(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		payload []byte
		want    []byte
	}{
		{"even", []byte("hsqs"), []byte("r6cr\x80\xc0\x00\x00\x00\x20\x00\x00\x00\x00\x00\x06hsqs\x26\x1a")},
		// 0x6162 + 0x6300 = 0xc462; its negative is 0x3b9e.
		{"odd is padded with zero", []byte("abc"), []byte("r6cr\x80\xc0\x00\x00\x00\x20\x00\x00\x00\x00\x00\x06abc\x00\x3b\x9e")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Wrap(RootfsHeader, tt.payload)
			if !bytes.Equal(got, tt.want) {
				t.Errorf("Wrap = % x, want % x", got, tt.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := Wrap(UserdataHeader, []byte("some payload"))
	flipped := bytes.Clone(good)
	flipped[20] ^= 1
	oddLen := bytes.Clone(good)
	oddLen[15]--
	tests := []struct {
		name string
		in   []byte
		want error
	}{
		{"good", good, nil},
		{"padding behind is fine", append(bytes.Clone(good), make([]byte, 100)...), nil},
		{"empty", nil, ErrShort},
		{"cut", good[:len(good)-1], ErrShort},
		{"one bit", flipped, ErrSum},
		{"odd length", oddLen, ErrLen},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, flash, err := Parse(tt.in)
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("Parse: %v, want %v", err, tt.want)
			}
			if err == nil && (h.Burn != 0x400000 || !bytes.HasPrefix(flash, []byte("some payload")) || len(flash) != 14) {
				t.Errorf("Parse = %+v, %q", h, flash)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Wrap(RootfsHeader, []byte("hsqs")))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, flash, err := Parse(b)
		if err == nil && (Sum(flash) != 0 || int(h.Len) != len(flash)) {
			t.Errorf("accepted %+v with sum %#x over %d bytes", h, Sum(flash), len(flash))
		}
	})
}
