// Package searchlist reads the domains in which short names are looked up, as
// a DHCP server (RFC 3397) and an IPv6 router (RFC 8106 section 5.2) name them.
// It looks nothing up itself.
package searchlist

import "slices"

// Max is how many domains are kept: what a resolver reads.
const Max = 6

// maxRead is how many names are looked at, so that a list of pointers to one that
// is long and no name costs little.
const maxRead = 32

// maxName is the longest name in text (RFC 1035 section 2.3.4).
const maxName = 253

// Parse returns the names of a list in the format of RFC 1035 section 4.1.4,
// those that are valid, each once, and Max at most. A list that is encoded wrongly
// has none.
func Parse(b []byte) (names []string) {
	var text [maxName]byte
	at := 0
	for i := 0; i < maxRead && at < len(b) && len(names) < Max; i++ {
		n, next, ok := read(b, at, text[:])
		if !ok {
			return nil
		}
		at = next
		if name := string(text[:n]); Valid(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// read puts the name at b[at] into text. next is where the one behind it begins.
// Where the list ends, a name does, too: some lack their last byte.
func read(b []byte, at int, text []byte) (n, next int, ok bool) {
	next = -1
	// A pointer leads to what is before the name and before where the last one
	// led, so it ends.
	for before := at; at < len(b); {
		c := int(b[at])
		at++
		switch {
		case c == 0:
			if next < 0 {
				next = at
			}
			return n, next, true
		case c >= 0xc0:
			if at == len(b) {
				return 0, 0, false
			}
			to := c&0x3f<<8 | int(b[at])
			if next < 0 {
				next = at + 1
			}
			if to >= before {
				return 0, 0, false
			}
			at, before = to, to
		default:
			if n > 0 {
				if n == len(text) {
					return 0, 0, false
				}
				text[n] = '.'
				n++
			}
			if c >= 0x40 || c > len(b)-at || c > len(text)-n {
				return 0, 0, false
			}
			n += copy(text[n:], b[at:at+c])
			at += c
		}
	}
	if next < 0 {
		next = len(b)
	}
	return n, next, true
}

// Valid tells whether name may stand in resolv.conf: it comes from whoever
// answered first, and a line break in it would be a line of theirs.
func Valid(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '-' || name[0] == '.' {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '.' && name[i-1] != '.':
		default:
			return false
		}
	}
	return true
}
