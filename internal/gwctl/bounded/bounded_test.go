package bounded

import (
	"io"
	"strings"
	"testing"
)

func TestBuffer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		b      Buffer
		in     string
		want   string
		cut    bool
		failed bool
	}{
		{"less", Buffer{Max: 4}, "abc", "abc", false, false},
		{"just", Buffer{Max: 4}, "abcd", "abcd", false, false},
		{"more", Buffer{Max: 4}, "abcde", "abcd", true, false},
		{"just, strict", Buffer{Max: 4, Strict: true}, "abcd", "abcd", false, false},
		{"more, strict", Buffer{Max: 4, Strict: true}, "abcde", "abcd", true, true},
		{"none", Buffer{}, "a", "", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := tt.b
			// As an SSH session writes: by io.Copy, which prefers a ReadFrom.
			_, err := io.Copy(&b, struct{ io.Reader }{strings.NewReader(tt.in)})
			if string(b.Bytes()) != tt.want || b.Len() != len(tt.want) || b.Cut != tt.cut || (err != nil) != tt.failed {
				t.Errorf("%q, cut %t, %v", b.Bytes(), b.Cut, err)
			}
		})
	}
}
