package searchlist

import (
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	label := func(n int) string { return string(rune(n)) + strings.Repeat("x", n) }
	long := label(63) + label(63) + label(63)
	for _, tt := range []struct {
		name, list string
		want       []string
	}{
		{"one", "\x01a\x03lan\x00", []string{"a.lan"}},
		{"a router's, with its padding", "\x03lan\x00\x00\x00\x00", []string{"lan"}},
		{"a pointer, RFC 3397 section 2", "\x03eng\x05apple\x03com\x00\x09marketing\xc0\x04", []string{"eng.apple.com", "marketing.apple.com"}},
		{"what follows a pointer", "\x01a\x03lan\x00\x01b\xc0\x02\x01c\x00", []string{"a.lan", "b.lan", "c"}},
		{"a pointer to a pointer", "\x03lan\x00\x01a\xc0\x00\x01b\xc0\x05\x00", []string{"lan", "a.lan", "b.a.lan"}},
		{"without its end", "\x01a\x03lan", []string{"a.lan"}},
		{"twice", "\x03lan\x00\x03lan\x00", []string{"lan"}},
		{"a line of resolv.conf", "\x01a\x00\x03x\ny\x00\x01b\x00", []string{"a", "b"}},
		{"a letter of another alphabet", "\x06k\xc3\xbcche\x00", nil},
		{"dots within a label", "\x04a..b\x00\x03a.b\x00", []string{"a.b"}},
		{"more than a resolver reads", "\x01a\x00\x01b\x00\x01c\x00\x01d\x00\x01e\x00\x01f\x00\x01g\x00", []string{"a", "b", "c", "d", "e", "f"}},
		{"253 bytes", long + label(61) + "\x00", []string{strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("x", 61)}},
		{"254 bytes", long + label(62) + "\x00", nil},
		{"253 bytes and one more label", long + label(61) + "\x01a\x00", nil},
		{"cut within a label", "\x01a\x00\x05lan", nil},
		{"cut within a pointer", "\x01a\x00\x01b\xc0", nil},
		{"a pointer to itself", "\xc0\x00", nil},
		{"a pointer ahead", "\xc0\x02\x03lan\x00", nil},
		{"pointers in a circle", "\x01a\xc0\x03\xc0\x00", nil},
		{"a length that is none", "\x40a\x00", nil},
		{"more than are looked at", strings.Repeat("\x01!\x00", 31) + "\x01a\x00\x01b\x00", []string{"a"}},
		{"empty", "", nil},
		{"nothing but ends", "\x00\x00\x00", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Parse([]byte(tt.list)); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("\x03eng\x05apple\x03com\x00\x09marketing\xc0\x04"))
	f.Add([]byte("\x03lan\x00\x01a\xc0\x00\x01b\xc0\x05\x00"))
	f.Add([]byte("\xc0\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		names := Parse(b)
		if len(names) > Max {
			t.Errorf("%d names", len(names))
		}
		for i, name := range names {
			if !Valid(name) || strings.ContainsAny(name, " \t\r\n#;") || slices.Contains(names[:i], name) {
				t.Errorf("%q", names)
			}
		}
	})
}
