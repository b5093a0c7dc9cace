// Package pcapng writes capture files with one interface that Wireshark reads
// (draft-ietf-opsawg-pcapng): times in us, a direction and a comment for each
// packet. It reads nothing.
package pcapng

import (
	"encoding/binary"
	"io"
)

// LinkTypeUser0 is LINKTYPE_USER0 of tcpdump.org's list of link types: private
// use, for what has no type of its own.
const LinkTypeUser0 = 147

// Direction is a packet's, as seen from the device that captures.
type Direction uint32

// The directions (epb_flags, bits 0 and 1).
const (
	Inbound  Direction = 1
	Outbound Direction = 2
)

// Block types and option codes (sections 4.1 to 4.3, 3.5).
const (
	blockSection   = 0x0A0D0D0A
	blockInterface = 1
	blockPacket    = 6

	byteOrderMagic = 0x1A2B3C4D

	optComment     = 1
	optInterface   = 2 // if_name
	optApplication = 4 // shb_userappl
	optPacketFlags = 2 // epb_flags
	snapLenNoLimit = 0
	sectionLenOpen = 0xFFFFFFFF // both halves: not known
	fileVersion    = 1
)

// Writer appends packets to a file. Everything it writes is little-endian.
type Writer struct {
	w   io.Writer
	buf []byte
}

// NewWriter writes the head of the file: who wrote it, and the interface.
func NewWriter(w io.Writer, application, name string, linkType uint16) (*Writer, error) {
	p := &Writer{w: w}
	p.begin(blockSection)
	p.u32(byteOrderMagic)
	p.u32(fileVersion) // major 1, minor 0
	p.u32(sectionLenOpen)
	p.u32(sectionLenOpen)
	p.option(optApplication, []byte(application))
	p.end()
	if err := p.flush(); err != nil {
		return nil, err
	}
	p.begin(blockInterface)
	p.u32(uint32(linkType)) // and two reserved bytes
	p.u32(snapLenNoLimit)
	p.option(optInterface, []byte(name))
	p.end()
	return p, p.flush()
}

// Packet appends one packet: its time in us since 1970, and a comment unless
// that is empty. The file is complete after each.
func (p *Writer) Packet(us int64, d Direction, data []byte, comment string) error {
	p.begin(blockPacket)
	p.u32(0) // interface
	p.u32(uint32(uint64(us) >> 32))
	p.u32(uint32(us))
	p.u32(uint32(len(data)))
	p.u32(uint32(len(data)))
	p.padded(data)
	p.option(optPacketFlags, binary.LittleEndian.AppendUint32(nil, uint32(d)))
	if comment != "" {
		p.option(optComment, []byte(comment))
	}
	p.end()
	return p.flush()
}

func (p *Writer) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }

func (p *Writer) begin(kind uint32) {
	p.buf = p.buf[:0]
	p.u32(kind)
	p.u32(0) // the length, which end knows
}

// end closes the options and the block.
func (p *Writer) end() {
	p.u32(0) // opt_endofopt
	n := uint32(len(p.buf) + 4)
	p.u32(n)
	binary.LittleEndian.PutUint32(p.buf[4:], n)
}

func (p *Writer) option(code uint16, value []byte) {
	p.buf = binary.LittleEndian.AppendUint16(p.buf, code)
	p.buf = binary.LittleEndian.AppendUint16(p.buf, uint16(len(value)))
	p.padded(value)
}

// padded appends b and zeros to a multiple of four bytes.
func (p *Writer) padded(b []byte) {
	p.buf = append(p.buf, b...)
	for len(p.buf)%4 != 0 {
		p.buf = append(p.buf, 0)
	}
}

func (p *Writer) flush() error {
	_, err := p.w.Write(p.buf)
	return err
}
