package ash

// Control bytes of frames without numbers (UG101 section 2).
const (
	ControlRst = 0xC0
	ControlAck = 0x80 // with the acknowledged number in the low three bits
	ControlNak = 0xA0
)

// ControlData is the control byte of a DATA frame with number frm, that
// acknowledges all before ack, both 0..7. reTx says that it was sent before.
func ControlData(frm, ack uint8, reTx bool) byte {
	c := frm&7<<4 | ack&7
	if reTx {
		c |= 8
	}
	return c
}

// Append appends a frame to dst as it goes over the line: the data of a DATA
// frame randomized, CRC, escapes, Flag.
func Append(dst []byte, control byte, data []byte) []byte {
	raw := append(make([]byte, 0, len(data)+3), control)
	raw = append(raw, data...)
	if control&0x80 == 0 {
		Randomize(raw[1:])
	}
	crc := uint16(0xFFFF)
	for _, b := range raw {
		crc = update(crc, b)
	}
	for _, b := range append(raw, byte(crc>>8), byte(crc)) {
		if reserved[b] != 0 {
			dst = append(dst, Escape)
			b ^= flip
		}
		dst = append(dst, b)
	}
	return append(dst, Flag)
}

// update takes one byte into the CRC.
func update(crc uint16, b byte) uint16 { return crc<<8 ^ crcTable[byte(crc>>8)^b] }

// Receiver finds whole frames in a stream of bytes, for who takes part in a
// link. The zero value is ready.
type Receiver struct {
	buf    []byte
	escape bool
	void   bool
}

// Next takes bytes of p until a frame ends that is Good, and returns its header
// and its data field, that of a DATA frame as it was before it was randomized;
// the data is valid until the next call. n is how many bytes it took: all of them
// with ok false, when none ended. Damaged frames are passed over: their sender
// sends them again.
func (r *Receiver) Next(p []byte) (n int, f Frame, data []byte, ok bool) {
	for i, b := range p {
		switch b {
		case XOn, XOff:
			continue
		case Escape:
			r.escape = true
			continue
		case Substitute:
			r.void = true
			continue
		case Cancel, Flag:
			raw, void := r.buf, r.void
			*r = Receiver{buf: raw[:0]}
			if b == Cancel || void {
				continue
			}
			if f, data = whole(raw); f.Fault == Good {
				return i + 1, f, data, true
			}
			continue
		}
		if r.escape {
			b, r.escape = b^flip, false
		}
		if len(r.buf) < MaxData+4 { // one more than fits: that is too long then
			r.buf = append(r.buf, b)
		}
	}
	return len(p), Frame{}, nil, false
}

// whole reads what stood before a Flag, without escapes.
func whole(raw []byte) (f Frame, data []byte) {
	f.DataLen = len(raw) - 3
	if f.DataLen < 0 || f.DataLen > MaxData {
		return Frame{Fault: Length}, nil
	}
	crc := uint16(0xFFFF)
	for _, b := range raw {
		crc = update(crc, b)
	}
	if crc != 0 {
		return Frame{Fault: CRC}, nil
	}
	f.Fault = f.header([3]byte(raw[:3]))
	data = raw[1 : len(raw)-2]
	if f.Fault == Good && f.Kind == Data {
		Randomize(data)
	}
	return f, data
}
