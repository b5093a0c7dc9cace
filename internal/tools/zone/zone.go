// Package zone finds the local time zone the way musl and the incumbent's
// tools do: a POSIX TZ string in $TZ or in /etc/TZ. Go's time package knows
// only the names of files that this box does not have.
package zone

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Load returns the zone of $TZ, else of etc/TZ below root, else UTC.
func Load(root string) *time.Location {
	tz := os.Getenv("TZ")
	if tz == "" {
		b, err := os.ReadFile(filepath.Join(root, "/etc/TZ"))
		if err != nil {
			return time.UTC
		}
		tz, _, _ = strings.Cut(string(b), "\n")
	}
	loc, err := Parse(strings.TrimSpace(tz))
	if err != nil {
		return time.UTC
	}
	return loc
}

// Parse reads a TZ string as POSIX defines it (CET-1CEST,M3.5.0,M10.5.0/3).
// Go has that parser, but only for the footer of a zone file (RFC 8536): so it
// gets a zone file that is nothing else.
func Parse(tz string) (*time.Location, error) {
	if tz == "" {
		return time.UTC, nil
	}
	name := strings.TrimLeft(tz, "<")
	if i := strings.IndexAny(name, ">+-0123456789,"); i >= 0 {
		name = name[:i]
	}
	offset, ok := standardOffset(tz)
	if !ok {
		return nil, &time.ParseError{Layout: "POSIX TZ", Value: tz, Message: ": no offset"}
	}
	// One zone, the standard one, and no transition: what is before the
	// footer's rules begin to count.
	chars := append([]byte(name), 0)
	block := func(b *bytes.Buffer) {
		b.WriteString("TZif2")
		b.Write(make([]byte, 15))
		for _, n := range []uint32{0, 0, 0, 0, 1, uint32(len(chars))} {
			_ = binary.Write(b, binary.BigEndian, n)
		}
		_ = binary.Write(b, binary.BigEndian, offset)
		b.Write([]byte{0, 0})
		b.Write(chars)
	}
	var b bytes.Buffer
	block(&b)
	block(&b)
	b.WriteString("\n" + tz + "\n")
	return time.LoadLocationFromTZData(name, b.Bytes())
}

// standardOffset is seconds east of UTC: the number behind the first name,
// which counts westwards.
func standardOffset(tz string) (int32, bool) {
	rest := tz
	if strings.HasPrefix(tz, "<") {
		_, after, ok := strings.Cut(tz, ">")
		if !ok {
			return 0, false
		}
		rest = after
	} else {
		i := strings.IndexAny(tz, "+-0123456789,")
		if i < 3 {
			return 0, false
		}
		rest = tz[i:]
	}
	sign := int32(-1)
	switch {
	case strings.HasPrefix(rest, "-"):
		sign, rest = 1, rest[1:]
	case strings.HasPrefix(rest, "+"):
		rest = rest[1:]
	}
	var parts [3]int32
	i, digits := 0, 0
	for _, c := range rest {
		switch {
		case c >= '0' && c <= '9' && parts[i] < 1000:
			parts[i] = parts[i]*10 + c - '0'
			digits++
			continue
		case c == ':' && i < 2 && digits > 0:
			i++
			continue
		}
		break
	}
	if digits == 0 || parts[0] > 24 || parts[1] > 59 || parts[2] > 59 {
		return 0, false
	}
	return sign * (parts[0]*3600 + parts[1]*60 + parts[2]), true
}
