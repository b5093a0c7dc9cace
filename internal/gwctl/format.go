package gwctl

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gwinit/internal/api"
)

// duration is for people: the two largest units of s seconds, as in 45s,
// 12m5s, 3d4h.
func duration(s float64) string {
	d := time.Duration(s * float64(time.Second)).Truncate(time.Second)
	if d < 0 {
		d = 0
	}
	const day = 24 * time.Hour
	units := []struct {
		d    time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.d {
			continue
		}
		out := fmt.Sprintf("%d%s", d/u.d, u.name)
		if i+1 < len(units) {
			if n := d % u.d / units[i+1].d; n > 0 {
				out += fmt.Sprintf("%d%s", n, units[i+1].name)
			}
		}
		return out
	}
	return "0s"
}

// cpu is processor time: hundredths while they matter.
func cpu(s float64) string {
	switch {
	case s < 10:
		return fmt.Sprintf("%.2fs", s)
	case s < 100:
		return fmt.Sprintf("%.1fs", s)
	}
	return duration(s)
}

// size is a number of bytes in the unit that leaves 1 to 4 digits.
func size(bytes uint64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	f := float64(bytes)
	for _, u := range []string{"KiB", "MiB", "GiB"} {
		f /= 1 << 10
		switch {
		case f < 10-0.05:
			return fmt.Sprintf("%.1f %s", f, u)
		case f < 1<<10-0.5 || u == "GiB":
			return fmt.Sprintf("%.0f %s", f, u)
		}
	}
	return ""
}

func kib(n uint64) string { return size(n << 10) }

// count is "1 error", "2 errors".
func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clean makes text from elsewhere safe for a terminal: what is not printable,
// escape sequences first of all, is shown as \x1b.
func clean(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteByte(' ')
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// wrap breaks text between words into lines of at most width characters. A
// longer word stays whole: it may be a path that somebody copies.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		switch {
		case line == "":
			line = w
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width:
			lines = append(lines, line)
			line = w
		default:
			line += " " + w
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// lastWords is what a service that is not well had to say.
func lastWords(s api.Service) string {
	switch {
	case s.State == "failed" || s.State == "backoff":
		if s.LastExit != "" {
			return s.LastExit
		}
		return s.Status
	case s.State == "starting" || s.State == "waiting":
		return s.Status
	case s.Restarts > 0 && s.State == "running" && s.LastExit != "" && !strings.HasPrefix(s.LastExit, "exit status 0 "):
		// An orderly end was asked for, and its last words are of another day.
		return "the one before: " + s.LastExit
	}
	return ""
}
