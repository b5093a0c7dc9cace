package gecko

import "testing"

const menu = "\r\nGecko Bootloader v2.04.02\r\n1. upload gbl\r\n2. run\r\n3. ebl info\r\nBL > \x00"

func TestMenu(t *testing.T) {
	for _, tt := range []struct {
		name string
		said string
		v    Version
		rest string
		ok   bool
	}{
		{"the SDK's", menu, Version{2, 4, 2}, "\x00", true},
		{"behind noise", "\xff\x00C" + menu + "x", Version{2, 4, 2}, "\x00x", true},
		{"the last of two", menu + "\r\nGecko Bootloader v1.12.00\r\n1. upload gbl\r\n2. run\r\n3. ebl info\r\nBL > ", Version{1, 12, 0}, "", true},
		{"legacy", "\r\nEM357 Serial Bootloader v5.4 b962\r\n", Version{}, "", false},
		{"legacy, whole", "\r\nEM357 Serial Bootloader v5.4.1\r\n1. upload ebl\r\n2. run\r\n3. ebl info\r\nBL > ", Version{5, 4, 1}, "", true},
		{"without an end", menu[:40], Version{}, "", false},
		{"without a version", "\r\nGecko Bootloader\r\nBL > ", Version{}, "", false},
		{"with something else", "\r\nGecko Bootloader vx.yy\r\nBL > ", Version{}, "", false},
		{"nothing", "", Version{}, "", false},
	} {
		v, end, ok := Menu([]byte(tt.said))
		if v != tt.v || ok != tt.ok || ok && tt.said[end:] != tt.rest {
			t.Errorf("%s: %v, %d, %v", tt.name, v, end, ok)
		}
	}
}

func TestVersions(t *testing.T) {
	if v := VersionOf(0x02040002); v != (Version{2, 4, 2}) || v.String() != "2.4.2" {
		t.Errorf("%v", v)
	}
	old := Version{2, 4, 2}
	for v, want := range map[Version]bool{{2, 4, 2}: false, {2, 4, 1}: false, {2, 4, 3}: true, {2, 5, 0}: true, {1, 9, 9}: false, {3, 0, 0}: true} {
		if v.Newer(old) != want {
			t.Errorf("%v newer than %v: %v", v, old, !want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		name, said string
		r          Result
		code       uint8
	}{
		{"complete", "\r\nSerial upload complete\r\n\x00" + menu, Complete, 0},
		{"aborted", "\r\nSerial upload aborted\r\n\x00\r\nfile error 0x\x0043\r\n" + menu, Aborted, 0x43},
		{"without zero bytes", "\r\nSerial upload aborted\r\n\r\nblock error 0x21\r\n", Aborted, 0x21},
		{"aborted, more to come", "\r\nSerial upload aborted\r\n\x00\r\nfile err", Aborted, 0},
		{"aborted, cut", "\r\nSerial upload aborted\r\n\x00\r\nfile error 0x\x004", Aborted, 0},
		{"aborted, no number", "\r\nSerial upload aborted\r\n\x00\r\nfile error 0x\x00zz", Aborted, 0},
		{"cut", "\r\nSerial upload co", Unknown, 0},
		{"nothing", menu, Unknown, 0},
	} {
		if r, code := Outcome([]byte(tt.said)); r != tt.r || code != tt.code {
			t.Errorf("%s: %v, %#x", tt.name, r, code)
		}
	}
	for code, again := range map[uint8]bool{0x21: true, 0x43: true, 0x44: false, 0x45: false, 0x50: false, 0: true} {
		if words, got := Reason(code); got != again || words == "" {
			t.Errorf("%#x: %q, again %v", code, words, got)
		}
	}
}

func FuzzSaid(f *testing.F) {
	f.Add([]byte(menu))
	f.Add([]byte("\r\nSerial upload aborted\r\n\x00\r\nfile error 0x\x0043\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		if _, end, ok := Menu(said); ok && (end < len(prompt) || end > len(said)) {
			t.Errorf("%q: ends at %d", said, end)
		}
		if r, code := Outcome(said); r != Aborted && code != 0 {
			t.Errorf("%q: %v with a code %#x", said, r, code)
		}
	})
}
