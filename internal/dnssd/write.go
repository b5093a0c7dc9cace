package dnssd

import (
	"encoding/binary"
	"net/netip"
)

// MaxBytes is the longest message that a Builder makes: what fits into one
// packet of an Ethernet with IPv6.
const MaxBytes = 1500 - 40 - 8

// Record is a record to be written, in wire form.
type Record struct {
	Name  Name
	Type  uint16
	Class uint16 // ClassIN, with Flush where it applies
	TTL   uint32 // seconds
	Data  []byte // uncompressed
}

// Builder writes a message into its own memory. The zero value is ready for
// Begin.
type Builder struct {
	buf    [MaxBytes]byte
	n      int
	legacy bool
	at     Section
	seen   [96]uint16 // where names, and their ends from each label on, stand
	known  int
}

// Begin starts a message. legacy leaves the names inside SRV records as they
// are: plain DNS resolvers do not expect them compressed.
func (b *Builder) Begin(id, flags uint16, legacy bool) {
	clear(b.buf[:headerBytes])
	binary.BigEndian.PutUint16(b.buf[:], id)
	binary.BigEndian.PutUint16(b.buf[2:], flags)
	b.n, b.known, b.at, b.legacy = headerBytes, 0, Questions, legacy
}

// Bytes returns the message, which the next Begin overwrites.
func (b *Builder) Bytes() []byte { return b.buf[:b.n] }

// Empty tells whether the message has no record and no question.
func (b *Builder) Empty() bool { return b.n == headerBytes }

// Question adds a question. It returns false if there is no room for it.
func (b *Builder) Question(n Name, typ, class uint16) bool {
	n0, known := b.n, b.known
	return b.keep(b.name(n) && b.uint16(typ) && b.uint16(class), Questions, n0, known)
}

// Record adds a record to a section; the sections come in their order. It
// returns false if there is no room for it, and leaves the message as it was.
func (b *Builder) Record(s Section, r *Record) bool {
	n0, known := b.n, b.known
	ok := b.name(r.Name) && b.uint16(r.Type) && b.uint16(r.Class) &&
		b.uint16(uint16(r.TTL>>16)) && b.uint16(uint16(r.TTL)) && b.uint16(0)
	data := b.n
	inside := nameInside(r.Type)
	if inside < 0 || b.legacy && r.Type == TypeSRV {
		ok = ok && b.bytes(r.Data)
	} else {
		behind, good := skipName(r.Data, inside)
		ok = ok && good && b.bytes(r.Data[:inside]) && b.name(r.Data[inside:behind]) && b.bytes(r.Data[behind:])
	}
	if ok {
		binary.BigEndian.PutUint16(b.buf[data-2:], uint16(b.n-data))
	}
	return b.keep(ok, s, n0, known)
}

// keep counts an item, or takes it back.
func (b *Builder) keep(ok bool, s Section, n, known int) bool {
	if !ok || s < b.at {
		b.n, b.known = n, known
		return false
	}
	b.at = s
	count := b.buf[4+2*s:]
	binary.BigEndian.PutUint16(count, binary.BigEndian.Uint16(count)+1)
	return true
}

func (b *Builder) uint16(v uint16) bool {
	if b.n+2 > len(b.buf) {
		return false
	}
	binary.BigEndian.PutUint16(b.buf[b.n:], v)
	b.n += 2
	return true
}

func (b *Builder) bytes(p []byte) bool {
	if b.n+len(p) > len(b.buf) {
		return false
	}
	b.n += copy(b.buf[b.n:], p)
	return true
}

// name writes a name, or as much of it as the message does not have yet.
func (b *Builder) name(n Name) bool {
	for len(n) > 1 {
		for _, off := range b.seen[:b.known] {
			if nameIs(b.buf[:b.n], int(off), n) {
				return b.uint16(0xc000 | off)
			}
		}
		if b.known < len(b.seen) {
			b.seen[b.known] = uint16(b.n)
			b.known++
		}
		label := 1 + int(n[0])
		if !b.bytes(n[:label]) {
			return false
		}
		n = n[label:]
	}
	return b.bytes(n)
}

// DataA returns the data of an A or AAAA record.
func DataA(a netip.Addr) []byte { return a.AsSlice() }

// DataSRV returns the data of a SRV record of priority and weight 0.
func DataSRV(port uint16, target Name) []byte {
	return append([]byte{0, 0, 0, 0, byte(port >> 8), byte(port)}, target...)
}

// DataTXT returns the data of a TXT record of strings of up to 255 bytes each;
// a longer one is cut.
func DataTXT(all ...string) []byte {
	var b []byte
	for _, s := range all {
		s = s[:min(len(s), 255)]
		b = append(append(b, byte(len(s))), s...)
	}
	if b == nil {
		b = []byte{0} // RFC 6763 section 6.1
	}
	return b
}

// DataNSEC returns the data of a NSEC record that says which types, all below
// 256, the name has (RFC 6762 section 6.1).
func DataNSEC(n Name, types ...uint16) []byte {
	var bits [32]byte
	most := 0
	for _, t := range types {
		bits[t>>3] |= 0x80 >> (t & 7)
		most = max(most, int(t>>3)+1)
	}
	b := append([]byte(nil), n...)
	return append(append(b, 0, byte(most)), bits[:most]...)
}
