// Package spinel makes and reads the frames of Spinel, which a Thread radio
// co-processor (RCP) speaks: header, command, property, payload. The numbers are
// those of OpenThread's src/lib/spinel/spinel.h and of
// draft-rquattle-spinel-unified. How a frame travels on a UART is package hdlc's
// part; nothing here reads, writes or waits.
package spinel

// Command is what a frame wants or tells.
type Command uint32

// The commands.
const (
	Noop     Command = 0
	Reset    Command = 1
	PropGet  Command = 2
	PropSet  Command = 3
	PropIs   Command = 6
	lastProp Command = 8 // the commands from PropGet on have a property
)

// Property is one of a co-processor's values.
type Property uint32

// Properties.
const (
	LastStatus      Property = 0x00 // packed integer; see the Status constants
	ProtocolVersion Property = 0x01 // two packed integers
	NCPVersion      Property = 0x02 // text that ends with a zero byte
	Caps            Property = 0x05 // packed integers
	HWAddr          Property = 0x08 // EUI-64, 8 bytes
)

// What a frame with the command Reset asks for.
const (
	ResetPlatform   = 1
	ResetStack      = 2
	ResetBootloader = 3
)

// Values of LastStatus that say why a co-processor has started.
const (
	StatusResetFirst = 112 // power-on; up to StatusResetLast
	StatusResetLast  = 127
)

// MaxPacked is the largest packed integer that AppendPacked makes and Packed
// takes: three bytes of seven bits.
const MaxPacked = 1<<21 - 1

// Frame is one frame. The zero values of IID and TID are interface 0 and
// "unsolicited".
type Frame struct {
	IID, TID uint8 // interface 0..3, transaction 0..15
	Command  Command
	Property Property // of PropGet to PROP_VALUE_REMOVED
	Payload  []byte   // what is behind
}

// HasProperty tells whether frames with this command have a property.
func (c Command) HasProperty() bool { return c >= PropGet && c <= lastProp }

// Append appends the frame's bytes to dst. Command and property are MaxPacked
// at most.
func (f Frame) Append(dst []byte) []byte {
	dst = append(dst, 0x80|f.IID&3<<4|f.TID&15)
	dst = AppendPacked(dst, uint32(f.Command))
	if f.Command.HasProperty() {
		dst = AppendPacked(dst, uint32(f.Property))
	}
	return append(dst, f.Payload...)
}

// Parse reads a frame; ok is false when p is none. Payload is a part of p.
func Parse(p []byte) (f Frame, ok bool) {
	if len(p) < 2 || p[0]&0xC0 != 0x80 {
		return Frame{}, false
	}
	f.IID, f.TID = p[0]>>4&3, p[0]&15
	c, n := Packed(p[1:])
	if n == 0 {
		return Frame{}, false
	}
	f.Command, f.Payload = Command(c), p[1+n:]
	if f.Command.HasProperty() {
		v, n := Packed(f.Payload)
		if n == 0 {
			return Frame{}, false
		}
		f.Property, f.Payload = Property(v), f.Payload[n:]
	}
	return f, true
}

// Answer tells whether f answers the transaction tid with the property's value.
func (f Frame) Answer(tid uint8, p Property) bool {
	return f.Command == PropIs && f.TID == tid && f.Property == p
}

// Text is a payload that is text up to a zero byte, or to its end.
func (f Frame) Text() string {
	for i, b := range f.Payload {
		if b == 0 {
			return string(f.Payload[:i])
		}
	}
	return string(f.Payload)
}

// AppendPacked appends v as a packed unsigned integer: seven bits a byte, the
// low ones first, a set high bit in all but the last.
func AppendPacked(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

// Packed reads a packed unsigned integer and returns how many bytes it has: 1
// to 3, or 0 when it does not end within three.
func Packed(p []byte) (v uint32, n int) {
	for i, b := range p[:min(len(p), 3)] {
		v |= uint32(b&0x7F) << (7 * i)
		if b&0x80 == 0 {
			return v, i + 1
		}
	}
	return 0, 0
}
