// Package radioprototest has what the tests of the decoders share.
package radioprototest

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Unhex reads bytes in hexadecimal; spaces are for people.
func Unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Decode returns the frames that a decoder's Next finds in p, given in pieces
// of at most piece bytes.
func Decode[Frame any](next func(p []byte) (n int, f Frame, ok bool), p []byte, piece int) (frames []Frame) {
	for len(p) > 0 {
		part := p[:min(piece, len(p))]
		p = p[len(part):]
		for len(part) > 0 {
			n, f, ok := next(part)
			if ok {
				frames = append(frames, f)
			}
			part = part[n:]
		}
	}
	return frames
}
