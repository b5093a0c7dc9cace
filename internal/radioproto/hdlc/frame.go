package hdlc

// Append appends p to dst as one frame: flag, the bytes of p and of the FCS with
// their escapes, flag. Escaped are the reserved bytes, and XON, XOFF and 0xF8,
// which OpenThread's encoder escapes as well.
func Append(dst, p []byte) []byte {
	fcs := uint16(0xFFFF)
	for _, b := range p {
		fcs = update(fcs, b)
	}
	fcs = ^fcs
	dst = append(dst, Flag)
	for i := range len(p) + 2 {
		b := byte(fcs >> 8)
		switch {
		case i < len(p):
			b = p[i]
		case i == len(p):
			b = byte(fcs)
		}
		switch b {
		case Flag, Escape, 0x11, 0x13, 0xF8:
			dst = append(dst, Escape)
			b ^= flip
		}
		dst = append(dst, b)
	}
	return append(dst, Flag)
}

// update takes one byte into an FCS-16: the polynomial 0x8408, the low bit
// first, eight bits at a time.
func update(fcs uint16, b byte) uint16 {
	x := (fcs ^ uint16(b)) & 0xFF
	x = (x ^ x<<4) & 0xFF
	return fcs>>8 ^ x<<8 ^ x<<3 ^ x>>4
}

// Receiver finds whole frames in a stream of bytes. The zero value is ready.
type Receiver struct {
	buf    []byte
	fcs    uint16
	escape bool
	over   bool // longer than MaxFrame: waits for the next flag
}

// Next takes bytes of p until a good frame ends, and returns what is between its
// flags, without escapes and FCS; it is valid until the next call. n is how many
// bytes it took: all of them with a nil frame, when none ended. Damaged frames
// are passed over.
func (r *Receiver) Next(p []byte) (n int, frame []byte) {
	for i, b := range p {
		if b == Flag {
			good := r.buf
			ok := len(good) > 2 && r.fcs == goodFCS && !r.over && !r.escape
			*r = Receiver{buf: r.buf[:0]}
			if ok {
				return i + 1, good[:len(good)-2]
			}
			continue
		}
		if b == Escape {
			r.escape = true
			continue
		}
		if r.escape {
			b, r.escape = b^flip, false
		}
		if len(r.buf) == 0 {
			r.fcs = 0xFFFF
		}
		if len(r.buf) == MaxFrame {
			r.over = true
			continue
		}
		r.buf, r.fcs = append(r.buf, b), update(r.fcs, b)
	}
	return len(p), nil
}
