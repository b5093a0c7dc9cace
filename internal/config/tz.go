package config

import "strings"

// checkTZ accepts a POSIX TZ string (POSIX.1-2017, section 8.3): std offset
// [dst [offset] [,start[/time],end[/time]]]. The box has no zone files, so a
// name such as Europe/Berlin means nothing here.
func checkTZ(s string) string {
	const problem = "not a POSIX time zone such as CET-1CEST,M3.5.0,M10.5.0/3"
	rest, ok := tzName(s)
	if !ok {
		return problem
	}
	if rest, ok = tzTime(rest, 24); !ok {
		return problem
	}
	if rest == "" {
		return ""
	}
	if rest, ok = tzName(rest); !ok {
		return problem
	}
	if rest != "" && rest[0] != ',' {
		if rest, ok = tzTime(rest, 24); !ok {
			return problem
		}
	}
	if rest == "" {
		return "" // the implementation's rule
	}
	for range 2 {
		if rest, ok = tzRule(rest); !ok {
			return problem
		}
	}
	if rest != "" {
		return problem
	}
	return ""
}

// tzName takes three or more letters, or anything printable in <>.
func tzName(s string) (rest string, ok bool) {
	n := 0
	if strings.HasPrefix(s, "<") {
		n = strings.IndexByte(s, '>')
		if n < 4 {
			return s, false
		}
		for i := 1; i < n; i++ {
			c := s[i]
			if !isLetter(c) && !isDigit(c) && c != '+' && c != '-' {
				return s, false
			}
		}
		return s[n+1:], true
	}
	for n < len(s) && isLetter(s[n]) {
		n++
	}
	return s[n:], n >= 3
}

// tzTime takes [+-]hh[:mm[:ss]].
func tzTime(s string, hours int) (rest string, ok bool) {
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	if s, ok = tzNumber(s, 0, hours); !ok {
		return s, false
	}
	for i := 0; i < 2 && strings.HasPrefix(s, ":"); i++ {
		if s, ok = tzNumber(s[1:], 0, 59); !ok {
			return s, false
		}
	}
	return s, true
}

// tzRule takes ,Jn ,n or ,Mm.w.d and [/time]; a time may be up to a week away
// (RFC 8536 section 3.3.1), as other systems' zones use it.
func tzRule(s string) (rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, ","); !ok {
		return s, false
	}
	switch {
	case strings.HasPrefix(s, "M"):
		for i, limit := range [3][2]int{{1, 12}, {1, 5}, {0, 6}} {
			if i > 0 && !strings.HasPrefix(s, ".") {
				return s, false
			}
			if s, ok = tzNumber(s[1:], limit[0], limit[1]); !ok {
				return s, false
			}
		}
	case strings.HasPrefix(s, "J"):
		s, ok = tzNumber(s[1:], 1, 365)
	default:
		s, ok = tzNumber(s, 0, 365)
	}
	if !ok || !strings.HasPrefix(s, "/") {
		return s, ok
	}
	return tzTime(s[1:], 167)
}

// tzNumber takes a number of one to three digits.
func tzNumber(s string, low, high int) (rest string, ok bool) {
	n := 0
	for n < len(s) && n < 3 && isDigit(s[n]) {
		n++
	}
	_, ok = parseInt(s[:n], low, high)
	return s[n:], ok
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
