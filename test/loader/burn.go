package loader

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// piece is what is written where.
type piece struct {
	name  string
	at    int
	bytes []byte
}

// The fixed places, by what the header says.
var places = []struct {
	sig        string
	at, room   int
	keepHeader bool
	name       string
}{
	{"cs6c", 0x20000, 0x1E0000, true, "kernel"},
	{"cr6c", 0x20000, 0x3E0000, true, "kernel+rootfs"},
	{"r6cr", 0x200000, 0x200000, false, "rootfs"},
	{"r6cr", 0x400000, 0xC00000, false, "userdata"},
	{"boot", 0, 0x1FFF0, false, "boot"},
}

// preflight decides on an upload before anything is erased.
func preflight(b []byte) ([]piece, error) {
	if len(b) == 16777216 && be(b, 0) == 0x0BF00004 && string(b[0x20000:0x20004]) == "cs6c" && string(b[0x200000:0x200004]) == "hsqs" {
		return full(b)
	}
	var all []piece
	if len(b) >= 16 && string(b[:4]) == "ALL1" {
		n := int(be(b, 12))
		if n < 2 || n%2 != 0 || n > len(b)-16 || sum16(b[16:16+n]) != 0 {
			return nil, errors.New("container")
		}
		b = b[16 : 16+n-2]
	}
	for {
		if len(all) > 0 && (len(bytes.Trim(b, "\x00")) == 0 || len(bytes.Trim(b, "\xff")) == 0) {
			break
		}
		if len(b) < 16 {
			return nil, errors.New("no header")
		}
		n, burn := int(be(b, 12)), int(be(b, 8))
		if n <= 0 || n%2 != 0 || n > len(b)-16 {
			return nil, fmt.Errorf("length %#x of %#x", n, len(b)-16)
		}
		if sum16(b[16:16+n]) != 0 {
			return nil, errors.New("checksum")
		}
		known := false
		for _, p := range places {
			if string(b[:4]) != p.sig || burn != p.at {
				continue
			}
			known = true
			content := b[16 : 16+n]
			if p.keepHeader {
				content = b[:16+n]
			}
			if len(content) > p.room {
				return nil, fmt.Errorf("%s: too large", p.name)
			}
			all = append(all, piece{p.name, burn, content})
		}
		if !known {
			return nil, fmt.Errorf("%q for %#x", b[:4], burn)
		}
		if len(all) > 4 {
			return nil, errors.New("too many")
		}
		b = b[16+n:]
	}
	for i, p := range all {
		for _, q := range all[:i] {
			if p.at < q.at+len(q.bytes) && q.at < p.at+len(p.bytes) {
				return nil, errors.New("overlap")
			}
		}
	}
	return all, nil
}

// full checks a raw image of the whole flash. What is before 0x20000 is written
// last.
func full(b []byte) ([]piece, error) {
	crc := crc32.NewIEEE()
	crc.Write(b[:0x1FFF0])
	crc.Write(b[0x20000:])
	if string(b[0x1FFF0:0x1FFF4]) != "FFCS" || be(b, 0x1FFF4) != 16777216 || be(b, 0x1FFF8) != crc.Sum32() || be(b, 0x1FFFC) != ^crc.Sum32() {
		return nil, errors.New("CRC trailer")
	}
	n := int(be(b, 0x2000C))
	if n > 0x1E0000-16 || n < 2 || sum16(b[0x20010:0x20010+n]) != 0 {
		return nil, errors.New("kernel's checksum")
	}
	return []piece{{"all but boot", 0x20000, b[0x20000:]}, {"boot", 0, b[:0x20000]}}, nil
}

func be(b []byte, at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }

func sum16(b []byte) (s uint16) {
	for i := 0; i+1 < len(b); i += 2 {
		s += uint16(b[i])<<8 | uint16(b[i+1])
	}
	return s
}
