// Package hdlc finds the frames of HDLC-lite in a stream of bytes, and reads
// the headers of Spinel in them: what a Thread radio co-processor (RCP) speaks
// on a UART (RFC 1662 for flags, escapes and FCS-16; the Spinel protocol of
// OpenThread, draft-rquattle-spinel-unified, for the rest).
//
// A Decoder is for who watches a link: it allocates nothing, keeps no byte of a
// frame but the first few, and is in step again with the next flag after noise of
// any kind. Who takes part in one has Append and Receiver.
package hdlc

import (
	"strconv"

	"gwinit/internal/radioproto/spinel"
)

// The reserved bytes (RFC 1662 section 4.2).
const (
	Flag   = 0x7E // begins and ends a frame
	Escape = 0x7D // the next byte has bit 5 inverted
	flip   = 0x20
)

// MaxFrame is the longest frame, in bytes, that is taken for one, FCS
// included: OpenThread's receive buffers hold 2048 with room to spare.
const MaxFrame = 4096

// goodFCS is what FCS-16 comes to over a frame and its own FCS (RFC 1662,
// appendix C.2).
const goodFCS = 0xF0B8

// Fault is what is wrong with a frame.
type Fault uint8

// The faults.
const (
	Good   Fault = iota
	Length       // too short or too long
	FCS          // bytes were changed, lost or added
)

// String returns it in words.
func (f Fault) String() string { return [...]string{"good", "wrong length", "wrong FCS"}[f] }

// headBytes holds a Spinel header, command and property.
const headBytes = 7

// Frame is the beginning of one frame.
type Frame struct {
	Fault Fault
	Len   int             // bytes, without the FCS
	Head  [headBytes]byte // the first of them
}

// Decoder finds frames in a stream. The zero value is ready.
type Decoder struct {
	fcs    uint16 // inverted, so that 0 is where it starts
	escape bool
	n      int // bytes of this frame, FCS included
	head   [headBytes]byte
}

// Next takes bytes of p until a frame ends. n is how many it took: all of them
// with ok false, when none did.
func (d *Decoder) Next(p []byte) (n int, f Frame, ok bool) {
	fcs, count, escape := uint32(^d.fcs), d.n, d.escape
	for i, b := range p {
		if b == Escape {
			escape = true
			continue
		}
		if b == Flag {
			if count == 0 {
				escape = false
				continue // flags in a row are no frame
			}
			return i + 1, d.end(fcs, count), true
		}
		if escape {
			b, escape = b^flip, false
		}
		if count < len(d.head) {
			d.head[count] = b
		}
		count++
		// The polynomial 0x8408, the low bit first, eight bits at a time.
		x := (fcs ^ uint32(b)) & 0xFF
		x = (x ^ x<<4) & 0xFF
		fcs = fcs>>8 ^ x<<8 ^ x<<3 ^ x>>4
	}
	d.fcs, d.n, d.escape = ^uint16(fcs), count, escape
	return len(p), Frame{}, false
}

// end judges what a Flag ended, and starts anew.
func (d *Decoder) end(fcs uint32, n int) Frame {
	f := Frame{Len: n - 2, Head: d.head}
	*d = Decoder{}
	switch {
	case n < 3 || n > MaxFrame:
		f.Fault = Length
	case fcs != goodFCS:
		f.Fault = FCS
	default:
		clear(f.Head[min(f.Len, headBytes):])
		return f
	}
	f.Head = [headBytes]byte{}
	return f
}

// Spinel is the beginning of a Spinel frame.
type Spinel struct {
	IID, TID    uint8  // interface 0..3, transaction 0..15; TID 0: unsolicited
	Command     uint32 // see CommandName
	Property    uint32 // of the PROP_ commands
	HasProperty bool
}

// Spinel reads the frame as Spinel; ok is false when it is none.
func (f Frame) Spinel() (s Spinel, ok bool) {
	p := f.Head[:min(max(f.Len, 0), headBytes)]
	if f.Fault != Good || len(p) < 2 || p[0]&0xC0 != 0x80 {
		return s, false
	}
	s.IID, s.TID = p[0]>>4&3, p[0]&15
	var n int
	if s.Command, n = spinel.Packed(p[1:]); n == 0 {
		return s, false
	}
	if s.Command >= 2 && s.Command <= 8 {
		if s.Property, n = spinel.Packed(p[1+n:]); n == 0 {
			return s, false
		}
		s.HasProperty = true
	}
	return s, true
}

// String is the header in one line, for people. Names are those of the
// Spinel draft; what has none here has its number.
func (s Spinel) String() string {
	out := ""
	if s.IID != 0 {
		out = "iid " + strconv.Itoa(int(s.IID)) + " "
	}
	out += "tid " + strconv.Itoa(int(s.TID)) + " "
	names := [...]string{"NOOP", "RESET", "PROP_VALUE_GET", "PROP_VALUE_SET", "PROP_VALUE_INSERT", "PROP_VALUE_REMOVE", "PROP_VALUE_IS", "PROP_VALUE_INSERTED", "PROP_VALUE_REMOVED"}
	if s.Command < uint32(len(names)) {
		out += names[s.Command]
	} else {
		out += "command " + strconv.FormatUint(uint64(s.Command), 10)
	}
	if !s.HasProperty {
		return out
	}
	switch s.Property {
	case 0x00:
		return out + " LAST_STATUS"
	case 0x01:
		return out + " PROTOCOL_VERSION"
	case 0x02:
		return out + " NCP_VERSION"
	case 0x05:
		return out + " CAPS"
	case 0x08:
		return out + " HWADDR"
	case 0x20:
		return out + " PHY_ENABLED"
	case 0x21:
		return out + " PHY_CHAN"
	case 0x71:
		return out + " STREAM_RAW"
	}
	return out + " property " + strconv.FormatUint(uint64(s.Property), 10)
}
