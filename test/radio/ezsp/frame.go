// Package ezsp is the network co-processor behind the UART: it takes EZSP
// version 13 commands and answers as EmberZNet 7.5 does, as far as a
// coordinator's client uses it (Silicon Labs UG100, EZSP Reference Guide).
//
// Frames are what travels in ASH DATA frames. NCP has no clock, no goroutine
// and no line of its own: the owner gives it functions for those.
package ezsp

import (
	"encoding/binary"
	"errors"
)

// ProtocolVersion is the one version that this NCP speaks.
const ProtocolVersion = 13

// Frame control bits, low and high byte (UG100 section 3).
const (
	controlResponse = 0x80
	controlAsync    = 0x10 // callback that was not asked for
	controlOverflow = 0x01 // callbacks were lost for want of memory
	formatExtended  = 0x01 // high byte: format version
	formatMask      = 0x03
)

// Frame is one command, response or callback.
type Frame struct {
	Sequence uint8
	Control  uint8 // low byte
	ID       uint16
	// Legacy frames have three bytes of header; only the version command
	// comes in one, and is answered in one.
	Legacy bool
	Params []byte
}

// ErrShort is a frame that ends before its header does.
var ErrShort = errors.New("ezsp: frame too short")

// Parse reads a frame. Params alias p.
func Parse(p []byte) (Frame, error) {
	if len(p) < 3 {
		return Frame{}, ErrShort
	}
	if p[2]&formatMask != formatExtended || len(p) == 3 {
		return Frame{Sequence: p[0], Control: p[1], ID: uint16(p[2]), Legacy: true, Params: p[3:]}, nil
	}
	if len(p) < 5 {
		return Frame{}, ErrShort
	}
	return Frame{Sequence: p[0], Control: p[1], ID: binary.LittleEndian.Uint16(p[3:]), Params: p[5:]}, nil
}

// Append appends the frame's bytes.
func (f Frame) Append(dst []byte) []byte {
	if f.Legacy {
		dst = append(dst, f.Sequence, f.Control, byte(f.ID))
	} else {
		dst = append(dst, f.Sequence, f.Control, formatExtended, byte(f.ID), byte(f.ID>>8))
	}
	return append(dst, f.Params...)
}

// reader takes parameters apart; short remembers that there were too few.
type reader struct {
	p     []byte
	short bool
}

func (r *reader) bytes(n int) []byte {
	if len(r.p) < n {
		r.short = true
		r.p = nil
		return make([]byte, n)
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

func (r *reader) u8() uint8   { return r.bytes(1)[0] }
func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.bytes(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.bytes(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *reader) key() Key    { return Key(r.bytes(16)) }

// counted is a length byte and that many bytes.
func (r *reader) counted() []byte { return r.bytes(int(r.u8())) }

// writer puts parameters together.
type writer struct{ p []byte }

func (w *writer) u8(v ...uint8)    { w.p = append(w.p, v...) }
func (w *writer) u16(v uint16)     { w.p = binary.LittleEndian.AppendUint16(w.p, v) }
func (w *writer) u32(v uint32)     { w.p = binary.LittleEndian.AppendUint32(w.p, v) }
func (w *writer) u64(v uint64)     { w.p = binary.LittleEndian.AppendUint64(w.p, v) }
func (w *writer) bytes(b []byte)   { w.p = append(w.p, b...) }
func (w *writer) counted(b []byte) { w.p = append(append(w.p, byte(len(b))), b...) }
