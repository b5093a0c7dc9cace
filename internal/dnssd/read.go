package dnssd

import "encoding/binary"

// headerBytes is the length of a message's header.
const headerBytes = 12

// Section of a message.
type Section uint8

// The sections, in their order.
const (
	Questions Section = iota
	Answers
	Authorities
	Additionals
	sections
)

// Message is a message that is read from front to back without allocation.
type Message struct {
	ID    uint16
	Flags uint16

	msg  []byte
	off  int
	at   Section
	left [sections]uint16
}

// Item is a question or a record of a Message, and of use with it only.
type Item struct {
	Section Section
	Type    uint16
	Class   uint16 // with Unicast or Flush
	TTL     uint32 // seconds; 0 in a question
	// Offsets in the message.
	name, data, end int
}

// Read begins a message. It returns false for what is no mDNS message: too
// short, or with an opcode or response code, which receivers ignore (RFC 6762
// sections 18.3 and 18.11).
func Read(msg []byte) (Message, bool) {
	if len(msg) < headerBytes {
		return Message{}, false
	}
	m := Message{
		ID:    binary.BigEndian.Uint16(msg),
		Flags: binary.BigEndian.Uint16(msg[2:]),
		msg:   msg, off: headerBytes,
	}
	for s := range m.left {
		m.left[s] = binary.BigEndian.Uint16(msg[4+2*s:])
	}
	return m, m.Flags&(maskOpcode|maskRcode) == 0
}

// Response tells whether the message answers.
func (m *Message) Response() bool { return m.Flags&FlagResponse != 0 }

// Truncated tells whether more known answers follow in another message.
func (m *Message) Truncated() bool { return m.Flags&FlagTruncated != 0 }

// Has tells whether the header promises items of a section that were not read
// yet.
func (m *Message) Has(s Section) bool { return m.left[s] > 0 }

// Next reads the next item into it. It returns false at the end, and where the
// message is damaged: what came before is good.
func (m *Message) Next(it *Item) bool {
	for m.at < sections && m.left[m.at] == 0 {
		m.at++
	}
	if m.at == sections {
		return false
	}
	m.left[m.at]--
	off, ok := skipName(m.msg, m.off)
	fixed := 4
	if m.at != Questions {
		fixed = 10
	}
	if !ok || off+fixed > len(m.msg) {
		m.left = [sections]uint16{}
		return false
	}
	*it = Item{
		Section: m.at, name: m.off,
		Type:  binary.BigEndian.Uint16(m.msg[off:]),
		Class: binary.BigEndian.Uint16(m.msg[off+2:]),
	}
	off += fixed
	it.data, it.end = off, off
	if m.at != Questions {
		it.TTL = binary.BigEndian.Uint32(m.msg[off-6:])
		it.end = off + int(binary.BigEndian.Uint16(m.msg[off-2:]))
		if it.end > len(m.msg) {
			m.left = [sections]uint16{}
			return false
		}
	}
	m.off = it.end
	return true
}

// skipName returns the offset behind a name. Where the name leads is looked at
// by who reads it.
func skipName(msg []byte, off int) (int, bool) {
	for off < len(msg) {
		switch n := int(msg[off]); {
		case n == 0:
			return off + 1, true
		case n >= 0xc0:
			return off + 2, off+2 <= len(msg)
		case n > maxLabel:
			return 0, false
		default:
			off += 1 + n
		}
	}
	return 0, false
}

// maxHops bounds the pointers in one name: each must lead back, but a message
// made of pointers alone would cost a walk through all of it for every name.
const maxHops = 16

// labels walks over a name, through its compression.
type labels struct {
	msg  []byte
	off  int
	used int // bytes of the name so far
	hops int // pointers so far
}

// next returns the next label with its length; the zero label is the last. It
// returns false for a damaged name. A pointer must lead back, so there is no
// loop (RFC 1035 section 4.1.4: to a prior occurrence).
func (l *labels) next() (label []byte, ok bool) {
	for l.off < len(l.msg) {
		n := int(l.msg[l.off])
		if n >= 0xc0 {
			if l.off+2 > len(l.msg) {
				return nil, false
			}
			to := (n&0x3f)<<8 | int(l.msg[l.off+1])
			if l.hops++; to >= l.off || l.hops > maxHops {
				return nil, false
			}
			l.off = to
			continue
		}
		if n > maxLabel || l.off+1+n > len(l.msg) {
			return nil, false
		}
		label = l.msg[l.off : l.off+1+n]
		l.off += 1 + n
		l.used += 1 + n
		return label, l.used <= maxName
	}
	return nil, false
}

// NameIs tells whether the item's name is n.
func (m *Message) NameIs(it *Item, n Name) bool { return nameIs(m.msg, it.name, n) }

func nameIs(msg []byte, off int, n Name) bool {
	l := labels{msg: msg, off: off}
	for {
		label, ok := l.next()
		if !ok || len(label) > len(n) || !Name(label).Equal(n[:len(label)]) {
			return false
		}
		n = n[len(label):]
		if len(label) == 1 {
			return len(n) == 0
		}
	}
}

// AppendName appends the item's name in wire form to b.
func (m *Message) AppendName(b []byte, it *Item) ([]byte, bool) { return appendName(b, m.msg, it.name) }

func appendName(b, msg []byte, off int) ([]byte, bool) {
	l := labels{msg: msg, off: off}
	for {
		label, ok := l.next()
		if !ok {
			return b, false
		}
		b = append(b, label...)
		if len(label) == 1 {
			return b, true
		}
	}
}

// Data returns the record's data as it stands in the message.
func (m *Message) Data(it *Item) []byte { return m.msg[it.data:it.end] }

// AppendData appends the record's data to b with the name inside it, if the
// type has one that may be compressed (RFC 6762 section 18.14), written out. It
// returns false for damaged data.
func (m *Message) AppendData(b []byte, it *Item) ([]byte, bool) {
	before := nameInside(it.Type)
	if before < 0 {
		return append(b, m.Data(it)...), true
	}
	at := it.data + before
	if at > it.end {
		return b, false
	}
	b = append(b, m.msg[it.data:at]...)
	behind, ok := skipName(m.msg, at)
	if !ok || behind > it.end {
		return b, false
	}
	if b, ok = appendName(b, m.msg, at); !ok {
		return b, false
	}
	return append(b, m.msg[behind:it.end]...), true
}

// nameInside returns how many bytes of a type's data are before its name, and
// -1 for a type without one.
func nameInside(typ uint16) int {
	switch typ {
	case TypePTR, TypeCNAME, TypeNS, TypeDNAME, TypeNSEC:
		return 0
	case TypeSRV:
		return 6
	}
	return -1
}
