// Package mtdimage reads and writes the image files that the gateway's
// bootloader takes: a 16-byte header, the payload, and a 16-bit sum.
//
// The format is that of the Realtek SDK's cvimg as the RTL8196E loader checks
// it: big-endian words, the sum of all 16-bit words of payload and sum is 0.
// Check and CheckFull do what the loader does with an upload before it erases
// anything: by those an image is refused here, with the reason, instead of there.
// It holds no flash code.
package mtdimage

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// HeaderLen is the length of the header in bytes.
const HeaderLen = 16

// Header is the loader's image header.
type Header struct {
	Signature [4]byte // "r6cr" rootfs and userdata, "cs6c" kernel, "boot" loader
	Start     uint32  // load address in RAM
	Burn      uint32  // offset in flash
	Len       uint32  // payload rounded up to 2 bytes, plus 2 for the sum; the header is not counted
}

// The parameters of the two images this project makes.
var (
	RootfsHeader   = Header{Signature: [4]byte{'r', '6', 'c', 'r'}, Start: 0x80C00000, Burn: 0x200000}
	UserdataHeader = Header{Signature: [4]byte{'r', '6', 'c', 'r'}, Start: 0x80C00000, Burn: 0x400000}
)

// Partition sizes in bytes. What is written to flash is payload and sum.
const (
	RootfsSize   = 0x200000
	UserdataSize = 0xC00000
)

// Errors of Parse.
var (
	ErrShort = errors.New("shorter than its header says")
	ErrSum   = errors.New("checksum is wrong")
	ErrLen   = errors.New("length is odd or too small")
)

// Sum is the value that makes the 16-bit big-endian words of b and itself add
// up to zero. A last odd byte counts as the high half of a word.
func Sum(b []byte) uint16 {
	var s uint16
	for ; len(b) >= 2; b = b[2:] {
		s += binary.BigEndian.Uint16(b)
	}
	if len(b) == 1 {
		s += uint16(b[0]) << 8
	}
	return -s
}

// Wrap returns the image file of payload: header (Len is filled in), payload
// padded to 2 bytes with zero, sum.
func Wrap(h Header, payload []byte) []byte {
	n := (len(payload) + 1) &^ 1
	h.Len = uint32(n) + 2
	out := make([]byte, HeaderLen+n+2)
	copy(out, h.Signature[:])
	binary.BigEndian.PutUint32(out[4:], h.Start)
	binary.BigEndian.PutUint32(out[8:], h.Burn)
	binary.BigEndian.PutUint32(out[12:], h.Len)
	copy(out[HeaderLen:], payload)
	binary.BigEndian.PutUint16(out[HeaderLen+n:], Sum(payload))
	return out
}

// Parse splits an image file. flash is what the loader writes for an image
// whose header is stripped: padded payload and sum, h.Len bytes of b.
func Parse(b []byte) (h Header, flash []byte, err error) {
	if len(b) < HeaderLen {
		return h, nil, fmt.Errorf("image of %d bytes: %w", len(b), ErrShort)
	}
	copy(h.Signature[:], b)
	h.Start = binary.BigEndian.Uint32(b[4:])
	h.Burn = binary.BigEndian.Uint32(b[8:])
	h.Len = binary.BigEndian.Uint32(b[12:])
	switch {
	case h.Len < 4 || h.Len%2 != 0:
		return h, nil, fmt.Errorf("image length %#x: %w", h.Len, ErrLen)
	case uint64(h.Len) > uint64(len(b)-HeaderLen):
		return h, nil, fmt.Errorf("image length %#x in a file with %#x bytes behind its header: %w", h.Len, len(b)-HeaderLen, ErrShort)
	}
	flash = b[HeaderLen : HeaderLen+h.Len]
	if Sum(flash) != 0 {
		return h, nil, fmt.Errorf("image %q: %w", h.Signature, ErrSum)
	}
	return h, flash, nil
}
