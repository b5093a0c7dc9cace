// Package ash finds the frames of ASH version 2 in a stream of bytes: the data
// link under EZSP on a UART (Silicon Labs UG101, UART-EZSP Gateway Protocol
// Reference). It reads headers and checks CRCs for who watches a link; it takes
// no part in one, so it knows no windows, time-outs or acknowledgements, and
// sends nothing.
//
// A Decoder allocates nothing, keeps no byte of a frame but the first few, and
// is in step again with the next flag after noise of any kind.
package ash

import "strconv"

// The reserved bytes (UG101 section 4.2); as data they are escaped.
const (
	Flag       = 0x7E // end of a frame
	Escape     = 0x7D // the next byte has bit 5 inverted
	XOn        = 0x11 // flow control, never part of a frame
	XOff       = 0x13
	Substitute = 0x18 // a byte was lost: the frame is void
	Cancel     = 0x1A // what came since the last Flag is void
	flip       = 0x20
)

// MaxData is the longest data field, in bytes, that is taken for one. UG101
// says 128; EmberZNet 7 and its clients go beyond 200. It is generous, since a
// frame must pass its CRC all the same.
const MaxData = 256

// minData is the shortest data field of a DATA frame (UG101 section 2.2).
const minData = 3

// version is that of ASH, the first data byte of RSTACK and ERROR.
const version = 2

// Kind is the type of a frame.
type Kind uint8

// The frame types (UG101 section 2).
const (
	Data Kind = iota
	Ack
	Nak
	Rst
	RstAck
	Error
)

// String returns the name in UG101.
func (k Kind) String() string {
	return [...]string{"DATA", "ACK", "NAK", "RST", "RSTACK", "ERROR"}[k]
}

// Fault is what is wrong with a frame.
type Fault uint8

// The faults; a receiver drops such a frame (UG101 section 5.4).
const (
	Good    Fault = iota
	Void          // a Substitute in it: the UART before us lost a byte
	Length        // too short, too long, or not the length of its type
	CRC           // bytes were changed, lost or added
	Control       // no such frame type, or another version of ASH
)

// String returns it in words.
func (f Fault) String() string {
	return [...]string{"good", "substitute byte", "wrong length", "wrong CRC", "unknown type"}[f]
}

// Frame is the header of one frame.
type Frame struct {
	Kind     Kind
	Fault    Fault // the other members mean nothing unless it is Good
	FrmNum   uint8 // DATA, 0..7
	AckNum   uint8 // DATA, ACK, NAK, 0..7
	ReTx     bool  // DATA: sent before
	NotReady bool  // ACK, NAK: nRdy
	Code     uint8 // RSTACK, ERROR: see Reason
	DataLen  int   // bytes of the data field
}

// Decoder finds frames in a stream. The zero value is ready.
type Decoder struct {
	crc    uint16 // inverted, so that 0 is where it starts
	escape bool
	void   bool
	n      int     // bytes of this frame, CRC included
	head   [3]byte // the first of them
}

// reserved tells the bytes that are not data.
var reserved = [256]uint8{Flag: 1, Escape: 1, XOn: 1, XOff: 1, Substitute: 1, Cancel: 1}

// Next takes bytes of p until a frame ends. n is how many it took: all of them
// with ok false, when none did.
//
//	for len(p) > 0 {
//		n, f, ok := d.Next(p)
//		p = p[n:]
//		...
//	}
//
// It and what it calls leave the stack as it is, allocate nothing and call
// nothing of the runtime: the bridge decodes where no goroutine may do that.
//
//go:nosplit
//go:norace
func (d *Decoder) Next(p []byte) (n int, f Frame, ok bool) {
	crc, count, escape := uint32(^d.crc), d.n, d.escape
	for i := 0; i < len(p); i++ {
		if !escape && count >= len(d.head) {
			// Nearly all of the bytes; this loop is what watching costs. Four at a
			// time: two tables take two bytes of the CRC in one step.
			plain := p[i:]
			k := 0
			for ; len(plain)-k >= 4; k += 4 {
				q := (*[4]byte)(plain[k:])
				a, b, c, e := q[0], q[1], q[2], q[3]
				if reserved[a]|reserved[b]|reserved[c]|reserved[e] != 0 {
					break
				}
				crc = uint32(crcTable2[byte(crc>>8)^a]) ^ uint32(crcTable[byte(crc)^b])
				crc = uint32(crcTable2[byte(crc>>8)^c]) ^ uint32(crcTable[byte(crc)^e])
			}
			for ; k < len(plain) && reserved[plain[k]] == 0; k++ {
				crc = crc<<8 ^ uint32(crcTable[byte(crc>>8)^plain[k]])
			}
			plain = plain[:k]
			count += len(plain)
			if i += len(plain); i == len(p) {
				break
			}
		}
		b := p[i]
		switch b {
		case XOn, XOff:
			continue
		case Escape:
			escape = true
			continue
		case Substitute:
			d.void = true
			continue
		case Cancel:
			crc, count, escape, d.void = 0xFFFF, 0, false, false
			continue
		case Flag:
			d.crc, d.n = uint16(crc), count
			if f, ok = d.end(); ok {
				return i + 1, f, true
			}
			crc, count, escape = 0xFFFF, 0, false
			continue
		}
		if escape {
			b, escape = b^flip, false
		}
		if count < len(d.head) {
			d.head[count] = b
		}
		count++
		crc = crc<<8 ^ uint32(crcTable[byte(crc>>8)^b])
	}
	d.crc, d.n, d.escape = ^uint16(crc), count, escape
	return len(p), Frame{}, false
}

// end judges what a Flag ended, and starts anew. d.crc is not inverted here.
//
//go:nosplit
//go:norace
func (d *Decoder) end() (f Frame, ok bool) {
	n, crc, void := d.n, d.crc, d.void
	d.n, d.crc, d.escape, d.void = 0, 0, false, false
	if n == 0 && !void {
		return f, false // flags in a row are no frame
	}
	f.DataLen = n - 3
	switch {
	case void:
		f.Fault = Void
	case n < 3 || n > MaxData+3:
		f.Fault = Length
	case crc != 0: // over its own CRC it comes to 0
		f.Fault = CRC
	default:
		f.Fault = f.header(d.head)
	}
	return f, true
}

// header reads the control byte, and the data field of RSTACK and ERROR.
//
//go:nosplit
//go:norace
func (f *Frame) header(head [3]byte) Fault {
	c := head[0]
	want := 0 // length of the data field
	switch {
	case c&0x80 == 0:
		f.Kind, f.FrmNum, f.AckNum, f.ReTx = Data, c>>4, c&7, c&8 != 0
		if f.DataLen < minData {
			return Length
		}
		return Good
	case c&0xC0 == 0x80:
		if f.Kind = Ack; c&0x20 != 0 {
			f.Kind = Nak
		}
		f.AckNum, f.NotReady = c&7, c&8 != 0
	case c == 0xC0:
		f.Kind = Rst
	case c == 0xC1, c == 0xC2:
		f.Kind, f.Code = RstAck+Kind(c-0xC1), head[2]
		if want = 2; f.DataLen == want && head[1] != version {
			return Control
		}
	default:
		return Control
	}
	if f.DataLen != want {
		return Length
	}
	return Good
}

// Reason is the code of RSTACK and ERROR in words, with the code (UG101
// section 3, and the reset causes of EmberZNet).
func Reason(code uint8) string {
	words := "unknown cause"
	switch code {
	case 0x01:
		words = "external reset"
	case 0x02:
		words = "power-on"
	case 0x03:
		words = "watchdog"
	case 0x06:
		words = "assertion failed"
	case 0x09:
		words = "bootloader"
	case 0x0B:
		words = "software reset"
	case 0x51:
		words = "too many acknowledgement time-outs"
	case 0x80:
		words = "fault of the chip"
	}
	const digits = "0123456789abcdef"
	return words + " (0x" + string([]byte{digits[code>>4], digits[code&15]}) + ")"
}

// Randomize exclusive-ors the data field of a DATA frame, from its first byte
// on, with the sequence of UG101 section 4.3; twice gives p again.
func Randomize(p []byte) {
	r := byte(0x42)
	for i := range p {
		p[i] ^= r
		if low := r & 1; low == 0 {
			r >>= 1
		} else {
			r = r>>1 ^ 0xB8
		}
	}
}

// String is the header in one line, for people.
func (f Frame) String() string {
	if f.Fault != Good {
		return f.Fault.String()
	}
	s := f.Kind.String()
	switch f.Kind {
	case Data:
		s += " frm " + strconv.Itoa(int(f.FrmNum)) + " ack " + strconv.Itoa(int(f.AckNum))
		if f.ReTx {
			s += " reTx"
		}
		s += " len " + strconv.Itoa(f.DataLen)
	case Ack, Nak:
		s += " ack " + strconv.Itoa(int(f.AckNum))
		if f.NotReady {
			s += " nRdy"
		}
	case RstAck, Error:
		s += " " + Reason(f.Code)
	case Rst:
	}
	return s
}

// crcTable is CRC-CCITT of each byte: polynomial 0x1021, the high bit first
// (UG101 section 2.3). It is written out so that no process computes it.
var crcTable = [256]uint16{
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
	0x1231, 0x0210, 0x3273, 0x2252, 0x52b5, 0x4294, 0x72f7, 0x62d6, 0x9339, 0x8318, 0xb37b, 0xa35a, 0xd3bd, 0xc39c, 0xf3ff, 0xe3de,
	0x2462, 0x3443, 0x0420, 0x1401, 0x64e6, 0x74c7, 0x44a4, 0x5485, 0xa56a, 0xb54b, 0x8528, 0x9509, 0xe5ee, 0xf5cf, 0xc5ac, 0xd58d,
	0x3653, 0x2672, 0x1611, 0x0630, 0x76d7, 0x66f6, 0x5695, 0x46b4, 0xb75b, 0xa77a, 0x9719, 0x8738, 0xf7df, 0xe7fe, 0xd79d, 0xc7bc,
	0x48c4, 0x58e5, 0x6886, 0x78a7, 0x0840, 0x1861, 0x2802, 0x3823, 0xc9cc, 0xd9ed, 0xe98e, 0xf9af, 0x8948, 0x9969, 0xa90a, 0xb92b,
	0x5af5, 0x4ad4, 0x7ab7, 0x6a96, 0x1a71, 0x0a50, 0x3a33, 0x2a12, 0xdbfd, 0xcbdc, 0xfbbf, 0xeb9e, 0x9b79, 0x8b58, 0xbb3b, 0xab1a,
	0x6ca6, 0x7c87, 0x4ce4, 0x5cc5, 0x2c22, 0x3c03, 0x0c60, 0x1c41, 0xedae, 0xfd8f, 0xcdec, 0xddcd, 0xad2a, 0xbd0b, 0x8d68, 0x9d49,
	0x7e97, 0x6eb6, 0x5ed5, 0x4ef4, 0x3e13, 0x2e32, 0x1e51, 0x0e70, 0xff9f, 0xefbe, 0xdfdd, 0xcffc, 0xbf1b, 0xaf3a, 0x9f59, 0x8f78,
	0x9188, 0x81a9, 0xb1ca, 0xa1eb, 0xd10c, 0xc12d, 0xf14e, 0xe16f, 0x1080, 0x00a1, 0x30c2, 0x20e3, 0x5004, 0x4025, 0x7046, 0x6067,
	0x83b9, 0x9398, 0xa3fb, 0xb3da, 0xc33d, 0xd31c, 0xe37f, 0xf35e, 0x02b1, 0x1290, 0x22f3, 0x32d2, 0x4235, 0x5214, 0x6277, 0x7256,
	0xb5ea, 0xa5cb, 0x95a8, 0x8589, 0xf56e, 0xe54f, 0xd52c, 0xc50d, 0x34e2, 0x24c3, 0x14a0, 0x0481, 0x7466, 0x6447, 0x5424, 0x4405,
	0xa7db, 0xb7fa, 0x8799, 0x97b8, 0xe75f, 0xf77e, 0xc71d, 0xd73c, 0x26d3, 0x36f2, 0x0691, 0x16b0, 0x6657, 0x7676, 0x4615, 0x5634,
	0xd94c, 0xc96d, 0xf90e, 0xe92f, 0x99c8, 0x89e9, 0xb98a, 0xa9ab, 0x5844, 0x4865, 0x7806, 0x6827, 0x18c0, 0x08e1, 0x3882, 0x28a3,
	0xcb7d, 0xdb5c, 0xeb3f, 0xfb1e, 0x8bf9, 0x9bd8, 0xabbb, 0xbb9a, 0x4a75, 0x5a54, 0x6a37, 0x7a16, 0x0af1, 0x1ad0, 0x2ab3, 0x3a92,
	0xfd2e, 0xed0f, 0xdd6c, 0xcd4d, 0xbdaa, 0xad8b, 0x9de8, 0x8dc9, 0x7c26, 0x6c07, 0x5c64, 0x4c45, 0x3ca2, 0x2c83, 0x1ce0, 0x0cc1,
	0xef1f, 0xff3e, 0xcf5d, 0xdf7c, 0xaf9b, 0xbfba, 0x8fd9, 0x9ff8, 0x6e17, 0x7e36, 0x4e55, 0x5e74, 0x2e93, 0x3eb2, 0x0ed1, 0x1ef0,
}

// crcTable2 is crcTable with a byte of zero behind.
var crcTable2 = [256]uint16{
	0x0000, 0x3331, 0x6662, 0x5553, 0xccc4, 0xfff5, 0xaaa6, 0x9997, 0x89a9, 0xba98, 0xefcb, 0xdcfa, 0x456d, 0x765c, 0x230f, 0x103e,
	0x0373, 0x3042, 0x6511, 0x5620, 0xcfb7, 0xfc86, 0xa9d5, 0x9ae4, 0x8ada, 0xb9eb, 0xecb8, 0xdf89, 0x461e, 0x752f, 0x207c, 0x134d,
	0x06e6, 0x35d7, 0x6084, 0x53b5, 0xca22, 0xf913, 0xac40, 0x9f71, 0x8f4f, 0xbc7e, 0xe92d, 0xda1c, 0x438b, 0x70ba, 0x25e9, 0x16d8,
	0x0595, 0x36a4, 0x63f7, 0x50c6, 0xc951, 0xfa60, 0xaf33, 0x9c02, 0x8c3c, 0xbf0d, 0xea5e, 0xd96f, 0x40f8, 0x73c9, 0x269a, 0x15ab,
	0x0dcc, 0x3efd, 0x6bae, 0x589f, 0xc108, 0xf239, 0xa76a, 0x945b, 0x8465, 0xb754, 0xe207, 0xd136, 0x48a1, 0x7b90, 0x2ec3, 0x1df2,
	0x0ebf, 0x3d8e, 0x68dd, 0x5bec, 0xc27b, 0xf14a, 0xa419, 0x9728, 0x8716, 0xb427, 0xe174, 0xd245, 0x4bd2, 0x78e3, 0x2db0, 0x1e81,
	0x0b2a, 0x381b, 0x6d48, 0x5e79, 0xc7ee, 0xf4df, 0xa18c, 0x92bd, 0x8283, 0xb1b2, 0xe4e1, 0xd7d0, 0x4e47, 0x7d76, 0x2825, 0x1b14,
	0x0859, 0x3b68, 0x6e3b, 0x5d0a, 0xc49d, 0xf7ac, 0xa2ff, 0x91ce, 0x81f0, 0xb2c1, 0xe792, 0xd4a3, 0x4d34, 0x7e05, 0x2b56, 0x1867,
	0x1b98, 0x28a9, 0x7dfa, 0x4ecb, 0xd75c, 0xe46d, 0xb13e, 0x820f, 0x9231, 0xa100, 0xf453, 0xc762, 0x5ef5, 0x6dc4, 0x3897, 0x0ba6,
	0x18eb, 0x2bda, 0x7e89, 0x4db8, 0xd42f, 0xe71e, 0xb24d, 0x817c, 0x9142, 0xa273, 0xf720, 0xc411, 0x5d86, 0x6eb7, 0x3be4, 0x08d5,
	0x1d7e, 0x2e4f, 0x7b1c, 0x482d, 0xd1ba, 0xe28b, 0xb7d8, 0x84e9, 0x94d7, 0xa7e6, 0xf2b5, 0xc184, 0x5813, 0x6b22, 0x3e71, 0x0d40,
	0x1e0d, 0x2d3c, 0x786f, 0x4b5e, 0xd2c9, 0xe1f8, 0xb4ab, 0x879a, 0x97a4, 0xa495, 0xf1c6, 0xc2f7, 0x5b60, 0x6851, 0x3d02, 0x0e33,
	0x1654, 0x2565, 0x7036, 0x4307, 0xda90, 0xe9a1, 0xbcf2, 0x8fc3, 0x9ffd, 0xaccc, 0xf99f, 0xcaae, 0x5339, 0x6008, 0x355b, 0x066a,
	0x1527, 0x2616, 0x7345, 0x4074, 0xd9e3, 0xead2, 0xbf81, 0x8cb0, 0x9c8e, 0xafbf, 0xfaec, 0xc9dd, 0x504a, 0x637b, 0x3628, 0x0519,
	0x10b2, 0x2383, 0x76d0, 0x45e1, 0xdc76, 0xef47, 0xba14, 0x8925, 0x991b, 0xaa2a, 0xff79, 0xcc48, 0x55df, 0x66ee, 0x33bd, 0x008c,
	0x13c1, 0x20f0, 0x75a3, 0x4692, 0xdf05, 0xec34, 0xb967, 0x8a56, 0x9a68, 0xa959, 0xfc0a, 0xcf3b, 0x56ac, 0x659d, 0x30ce, 0x03ff,
}
