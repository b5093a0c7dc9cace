package nl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Order is the byte order of the machine that netlink's numbers have:
// binary.NativeEndian, but for tests.
type Order interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// ErrMalformed is an answer that is not what the kernel sends.
var ErrMalformed = errors.New("malformed netlink message")

// headerLen is struct nlmsghdr: length, type, flags, sequence number, port.
const headerLen = 16

// message is a request under construction.
type message struct {
	o Order
	b []byte
}

// begin starts a request. Its length is filled in by done.
func begin(o Order, typ, flags uint16) *message {
	m := &message{o: o, b: make([]byte, 4, 256)}
	m.b = o.AppendUint16(m.b, typ)
	m.b = o.AppendUint16(m.b, flags|unix.NLM_F_REQUEST)
	m.b = append(m.b, make([]byte, 8)...)
	return m
}

// done returns the request with its length and the sequence number.
func (m *message) done(seq uint32) []byte {
	m.o.PutUint32(m.b, uint32(len(m.b)))
	m.o.PutUint32(m.b[8:], seq)
	return m.b
}

// raw appends the family's own header.
func (m *message) raw(b ...byte) { m.b = append(m.b, b...) }

func (m *message) u16(v uint16) { m.b = m.o.AppendUint16(m.b, v) }
func (m *message) u32(v uint32) { m.b = m.o.AppendUint32(m.b, v) }

// attr appends an attribute, padded to 4 bytes.
func (m *message) attr(typ uint16, value []byte) {
	m.u16(uint16(4 + len(value)))
	m.u16(typ)
	m.b = append(m.b, value...)
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) attrU8(typ uint16, v uint8)   { m.attr(typ, []byte{v}) }
func (m *message) attrU16(typ uint16, v uint16) { m.attr(typ, m.o.AppendUint16(nil, v)) }
func (m *message) attrU32(typ uint16, v uint32) { m.attr(typ, m.o.AppendUint32(nil, v)) }
func (m *message) attrText(typ uint16, s string) {
	m.attr(typ, append([]byte(s), 0))
}

// nest appends an attribute that holds what f appends.
func (m *message) nest(typ uint16, f func()) {
	at := len(m.b)
	m.u16(0)
	m.u16(typ | unix.NLA_F_NESTED)
	f()
	m.o.PutUint16(m.b[at:], uint16(len(m.b)-at))
}

// attributes gives each attribute of b to take, which stops it by an error.
func attributes(o Order, b []byte, take func(typ uint16, value []byte) error) error {
	for len(b) > 0 {
		if len(b) < 4 {
			return fmt.Errorf("%w: %d bytes behind the last attribute", ErrMalformed, len(b))
		}
		n := int(o.Uint16(b))
		if n < 4 || n > len(b) {
			return fmt.Errorf("%w: an attribute of %d bytes in %d", ErrMalformed, n, len(b))
		}
		// The upper bits are flags: nested, in network byte order.
		if err := take(o.Uint16(b[2:])&0x3fff, b[4:n]); err != nil {
			return err
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return nil
}

// family is the address family of a.
func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
