// Package ash is the NCP's end of ASH version 2, the data link that EZSP uses
// on a UART (Silicon Labs UG101, UART-EZSP Gateway Protocol Reference).
//
// The codec turns frames into bytes and back; NCP is the protocol: windows,
// acknowledgements, retransmission, resets. Nothing here reads a clock, opens
// a device or starts a goroutine: time is an argument, so a test decides it.
// It is not the host's end.
package ash

import "errors"

// The reserved bytes (UG101 section 4.2). They appear on the line with these
// meanings only; as data they are escaped.
const (
	Flag       = 0x7E // end of frame
	Escape     = 0x7D // the next byte has bit 5 inverted
	XOn        = 0x11 // software flow control, never part of a frame
	XOff       = 0x13
	Substitute = 0x18 // a byte was lost: the frame is to be ignored up to Flag
	Cancel     = 0x1A // forget what was received since the last Flag
	flip       = 0x20
)

// MaxData is the longest data field, in bytes. UG101 says 128; the EmberZNet
// 7 stack and its clients carry EZSP frames of up to 202 bytes.
const MaxData = 202

// MinData is the shortest data field of a DATA frame (UG101 section 2.2).
const MinData = 3

// Version is what RSTACK and ERROR carry in their first data byte.
const Version = 2

// Kind is the type of a frame.
type Kind uint8

// The frame types (UG101 section 2).
const (
	Data   Kind = iota // 0 frmNum reTx ackNum
	Ack                // 1 0 0 res nRdy ackNum
	Nak                // 1 0 1 res nRdy ackNum
	Rst                // 0xC0
	RstAck             // 0xC1 version code
	Error              // 0xC2 version code
)

// String implements fmt.Stringer.
func (k Kind) String() string {
	return [...]string{"DATA", "ACK", "NAK", "RST", "RSTACK", "ERROR"}[k]
}

// Frame is one ASH frame. Payload is not randomized here: the codec does and
// undoes that.
type Frame struct {
	Kind     Kind
	FrmNum   uint8 // DATA, 0..7
	AckNum   uint8 // DATA, ACK, NAK, 0..7
	ReTx     bool  // DATA: sent before
	NotReady bool  // ACK, NAK: nRdy
	Code     uint8 // RSTACK, ERROR: reset or error code
	Payload  []byte
}

// Decoding errors. A frame with any of them is dropped; the receiver then
// asks for it again (UG101 section 5.4).
var (
	ErrCRC     = errors.New("ash: wrong CRC")
	ErrShort   = errors.New("ash: frame too short")
	ErrLong    = errors.New("ash: frame too long")
	ErrControl = errors.New("ash: unknown control byte")
	ErrLength  = errors.New("ash: wrong length for this frame type")
	ErrComm    = errors.New("ash: substitute byte in the frame")
	ErrVersion = errors.New("ash: not version 2")
)

// CRC is CRC-CCITT as UG101 section 2.3 has it: polynomial 0x1021, most
// significant bit first, start value 0xFFFF.
func CRC(p []byte) uint16 {
	crc := uint16(0xFFFF)
	for _, b := range p {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// Randomize exclusive-ors p in place with the sequence of UG101 section 4.3;
// applying it twice gives p again.
func Randomize(p []byte) {
	r := byte(0x42)
	for i := range p {
		p[i] ^= r
		if r&1 == 0 {
			r >>= 1
		} else {
			r = r>>1 ^ 0xB8
		}
	}
}

// Append appends f as it goes over the line: randomized, with CRC, stuffed,
// and closed by a Flag.
func (f Frame) Append(dst []byte) []byte {
	raw := make([]byte, 0, MaxData+3)
	switch f.Kind {
	case Data:
		c := f.FrmNum<<4 | f.AckNum
		if f.ReTx {
			c |= 0x08
		}
		raw = append(raw, c)
		raw = append(raw, f.Payload...)
		Randomize(raw[1:])
	case Ack, Nak:
		c := byte(0x80)
		if f.Kind == Nak {
			c = 0xA0
		}
		if f.NotReady {
			c |= 0x08
		}
		raw = append(raw, c|f.AckNum)
	case Rst:
		raw = append(raw, 0xC0)
	case RstAck:
		raw = append(raw, 0xC1, Version, f.Code)
	case Error:
		raw = append(raw, 0xC2, Version, f.Code)
	}
	crc := CRC(raw)
	raw = append(raw, byte(crc>>8), byte(crc))
	for _, b := range raw {
		switch b {
		case Flag, Escape, XOn, XOff, Substitute, Cancel:
			dst = append(dst, Escape, b^flip)
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, Flag)
}

// Parse reads the bytes of one frame: unstuffed, without the Flag, still
// randomized. The frame's Payload is a copy.
func Parse(raw []byte) (Frame, error) {
	if len(raw) < 3 {
		return Frame{}, ErrShort
	}
	if len(raw) > MaxData+3 {
		return Frame{}, ErrLong
	}
	body := raw[:len(raw)-2]
	if CRC(body) != uint16(raw[len(raw)-2])<<8|uint16(raw[len(raw)-1]) {
		return Frame{}, ErrCRC
	}
	c, rest := body[0], body[1:]
	switch {
	case c&0x80 == 0:
		if len(rest) < MinData {
			return Frame{}, ErrLength
		}
		f := Frame{Kind: Data, FrmNum: c >> 4, AckNum: c & 7, ReTx: c&8 != 0}
		f.Payload = append(f.Payload, rest...)
		Randomize(f.Payload)
		return f, nil
	case c&0xC0 == 0x80:
		if len(rest) != 0 {
			return Frame{}, ErrLength
		}
		k := Ack
		if c&0x20 != 0 {
			k = Nak
		}
		return Frame{Kind: k, AckNum: c & 7, NotReady: c&8 != 0}, nil
	case c == 0xC0:
		if len(rest) != 0 {
			return Frame{}, ErrLength
		}
		return Frame{Kind: Rst}, nil
	case c == 0xC1 || c == 0xC2:
		if len(rest) != 2 {
			return Frame{}, ErrLength
		}
		if rest[0] != Version {
			return Frame{}, ErrVersion
		}
		return Frame{Kind: RstAck + Kind(c-0xC1), Code: rest[1]}, nil
	}
	return Frame{}, ErrControl
}

// Decoder finds frames in a byte stream. The zero value is ready.
type Decoder struct {
	buf    []byte
	escape bool
	lost   bool // Substitute seen
}

// Write takes the next byte. done says that it ended a frame; then f or err
// tells what became of it. XOn and XOff are skipped: they belong to the line.
func (d *Decoder) Write(b byte) (f Frame, done bool, err error) {
	switch b {
	case XOn, XOff:
		return Frame{}, false, nil
	case Cancel:
		d.Reset()
		return Frame{}, false, nil
	case Substitute:
		d.lost = true
		return Frame{}, false, nil
	case Escape:
		d.escape = true
		return Frame{}, false, nil
	case Flag:
		buf, lost := d.buf, d.lost
		d.Reset()
		switch {
		case lost:
			return Frame{}, true, ErrComm
		case len(buf) == 0:
			return Frame{}, false, nil // flags in a row are no error
		}
		f, err = Parse(buf)
		return f, true, err
	}
	if d.escape {
		b ^= flip
		d.escape = false
	}
	if len(d.buf) <= MaxData+3 { // one more than fits, so that Parse sees it is too long
		d.buf = append(d.buf, b)
	}
	return Frame{}, false, nil
}

// Reset forgets a frame in progress.
func (d *Decoder) Reset() {
	d.buf, d.escape, d.lost = d.buf[:0], false, false
}
