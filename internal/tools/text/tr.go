package text

import (
	"bufio"
	"context"
	"io"
	"slices"
	"strings"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

// class returns the bytes of a [:name:], nil for an unknown one.
func class(name string) []byte {
	in := func(test func(c byte) bool) []byte {
		var out []byte
		for c := range 256 {
			if test(byte(c)) {
				out = append(out, byte(c))
			}
		}
		return out
	}
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	upper := func(c byte) bool { return c >= 'A' && c <= 'Z' }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	switch name {
	case "lower":
		return in(lower)
	case "upper":
		return in(upper)
	case "digit":
		return in(digit)
	case "alpha":
		return in(func(c byte) bool { return lower(c) || upper(c) })
	case "alnum":
		return in(func(c byte) bool { return lower(c) || upper(c) || digit(c) })
	case "space":
		return in(func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' })
	}
	return nil
}

// parseSet spells out a SET of tr.
func parseSet(s string) ([]byte, error) {
	var out []byte
	next := func() byte {
		c := s[0]
		s = s[1:]
		if c == '\\' && s != "" {
			c = s[0]
			s = s[1:]
			if i := strings.IndexByte("ntrfvba0", c); i >= 0 {
				c = "\n\t\r\f\v\b\a\x00"[i]
			}
		}
		return c
	}
	for s != "" {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(s, "[:"), ":]"); ok && strings.HasPrefix(s, "[:") {
			set := class(name)
			if set == nil {
				return nil, applet.Usagef("unknown class [:%s:]", name)
			}
			out, s = append(out, set...), rest
			continue
		}
		from := next()
		if len(s) < 2 || s[0] != '-' {
			out = append(out, from)
			continue
		}
		s = s[1:]
		to := next()
		if to < from {
			return nil, applet.Usagef("%c-%c runs backwards", from, to)
		}
		for c := int(from); c <= int(to); c++ {
			out = append(out, byte(c))
		}
	}
	return out, nil
}

func tr(_ context.Context, std applet.IO, args []string) error {
	o, sets, err := opt.Parse(args, "+cdsC")
	if err != nil {
		return err
	}
	want := 2
	if o.Has('d') != o.Has('s') {
		want = 1
	}
	if len(sets) != want && (len(sets) != 2 || !o.Has('s') || o.Has('d')) {
		return applet.Usagef("needs %d sets", want)
	}
	set1, err := parseSet(sets[0])
	if err != nil {
		return err
	}
	if o.Has('c') || o.Has('C') {
		var rest []byte
		for c := range 256 {
			if !slices.Contains(set1, byte(c)) {
				rest = append(rest, byte(c))
			}
		}
		set1 = rest
	}
	var set2 []byte
	if len(sets) == 2 {
		if set2, err = parseSet(sets[1]); err != nil {
			return err
		}
	}
	var to [256]byte
	var drop, squeeze [256]bool
	for c := range 256 {
		to[c] = byte(c)
	}
	if o.Has('d') {
		for _, c := range set1 {
			drop[c] = true
		}
	} else if set2 != nil {
		if len(set2) == 0 {
			return applet.Usagef("the second set is empty")
		}
		for i, c := range set1 {
			to[c] = set2[min(i, len(set2)-1)]
		}
	}
	if o.Has('s') {
		last := set1
		if set2 != nil {
			last = set2
		}
		for _, c := range last {
			squeeze[c] = true
		}
	}
	out := bufio.NewWriter(std.Out)
	in := bufio.NewReader(std.In)
	before := -1
	for {
		c, err := in.ReadByte()
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		if drop[c] {
			continue
		}
		c = to[c]
		if squeeze[c] && int(c) == before {
			continue
		}
		before = int(c)
		if err := out.WriteByte(c); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}
