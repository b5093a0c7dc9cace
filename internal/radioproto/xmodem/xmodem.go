// Package xmodem has the blocks of XMODEM-CRC with 128 bytes of data, as the Gecko
// bootloader takes them (Ymodem/Xmodem reference of C. Forsberg, sections 7 and 8).
// When to send which, and how often, is the sender's.
package xmodem

import "gwinit/internal/radioproto/cpc"

// The bytes that stand for themselves.
const (
	SOH = 0x01 // begins a block
	EOT = 0x04 // after the last one
	ACK = 0x06
	NAK = 0x15
	CAN = 0x18
	CRC = 'C' // the receiver is ready, and wants blocks with a CRC
)

// BlockSize is the data of a block, in bytes.
const BlockSize = 128

// Padding fills the last block.
const Padding = 0xFF

// Blocks is how many blocks n bytes make.
func Blocks(n int) int { return (n + BlockSize - 1) / BlockSize }

// AppendBlock appends block i of data to dst, the first being 0: it goes over the
// line with the number i+1, modulo 256.
func AppendBlock(dst, data []byte, i int) []byte {
	number := byte(i + 1)
	dst = append(dst, SOH, number, ^number)
	start := len(dst)
	dst = append(dst, data[i*BlockSize:min(len(data), (i+1)*BlockSize)]...)
	for len(dst) < start+BlockSize {
		dst = append(dst, Padding)
	}
	crc := cpc.CRC(dst[start:])
	return append(dst, byte(crc>>8), byte(crc))
}
