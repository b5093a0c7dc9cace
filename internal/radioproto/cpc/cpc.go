// Package cpc makes and reads those frames of Silicon Labs' Co-Processor
// Communication that radio operations need: the unnumbered ones of the system
// endpoint, which the versions 4 and 5 have in common and which need no session.
// They read properties and reset the co-processor, into its bootloader too. The
// format is that of the SDK's platform/service/cpc (sli_cpc_hdlc.h and
// sl_cpc_system_common.h): a header with a checksum, then a payload with one.
package cpc

import "encoding/binary"

// Flag begins a frame.
const Flag = 0x14

const (
	headerBytes = 7 // flag, endpoint, length, control, checksum
	system      = 0 // endpoint
	// unnumbered is the control byte of a frame that asks, and of its answer:
	// type unnumbered, poll/final.
	unnumbered = 3<<6 | 0x04
	// maxPayload bounds what is taken for a frame, in bytes with its checksum.
	maxPayload = 4096
)

// Command of the system endpoint.
type Command uint8

// The commands.
const (
	Reset   Command = 0x01
	PropGet Command = 0x02
	PropSet Command = 0x03
	PropIs  Command = 0x06
)

// Property of a co-processor.
type Property uint32

// Properties.
const (
	LastStatus           Property = 0x0000
	SecondaryCPCVersion  Property = 0x0003 // three numbers of 4 bytes
	SecondaryAppVersion  Property = 0x0004 // text
	BootloaderRebootMode Property = 0x0202 // 4 bytes; see RebootBootloader
)

// RebootBootloader is the value of BootloaderRebootMode with which the next reset
// ends in the bootloader.
const RebootBootloader = 1

// Frame is a command of the system endpoint, or an answer.
type Frame struct {
	Command  Command
	Sequence uint8
	Payload  []byte
}

// Property splits the payload of a PropIs, PropGet or PropSet.
func (f Frame) Property() (p Property, value []byte, ok bool) {
	if f.Command == Reset || len(f.Payload) < 4 {
		return 0, nil, false
	}
	return Property(binary.LittleEndian.Uint32(f.Payload)), f.Payload[4:], true
}

// Get asks for a property.
func Get(sequence uint8, p Property) Frame {
	return Frame{Command: PropGet, Sequence: sequence, Payload: binary.LittleEndian.AppendUint32(nil, uint32(p))}
}

// Set sets a property of four bytes.
func Set(sequence uint8, p Property, value uint32) Frame {
	f := Get(sequence, p)
	f.Command, f.Payload = PropSet, binary.LittleEndian.AppendUint32(f.Payload, value)
	return f
}

// Append appends the frame to dst as it goes over the line.
func (f Frame) Append(dst []byte) []byte {
	n := 4 + len(f.Payload)
	p := make([]byte, headerBytes+n+2)
	head, body, put := p[:headerBytes], p[headerBytes:], binary.LittleEndian.PutUint16
	head[0], head[1], head[4] = Flag, system, unnumbered
	put(head[2:], uint16(n+2))
	put(head[5:], CRC(head[:5]))
	body[0], body[1] = byte(f.Command), f.Sequence
	put(body[2:], uint16(len(f.Payload)))
	copy(body[4:], f.Payload)
	put(body[n:], CRC(body[:n]))
	return append(dst, p...)
}

// CRC is CRC-16 with the polynomial 0x1021, the high bit first, from 0: that of
// XMODEM.
func CRC(p []byte) (crc uint16) {
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

// Receiver finds frames in a stream of bytes. The zero value is ready.
type Receiver struct{ buf []byte }

// Write takes bytes from the line.
func (r *Receiver) Write(p []byte) { r.buf = append(r.buf, p...) }

// Next returns the next answer of the system endpoint in what was written, ok
// false when there is none yet. Other frames, damaged ones and noise are passed
// over. The payload is valid until the next Write.
func (r *Receiver) Next() (f Frame, ok bool) {
	for len(r.buf) > 0 {
		if r.buf[0] != Flag {
			r.buf = r.buf[1:]
			continue
		}
		if len(r.buf) < headerBytes {
			return Frame{}, false
		}
		head := r.buf[:headerBytes]
		n := int(binary.LittleEndian.Uint16(head[2:]))
		if CRC(head[:5]) != binary.LittleEndian.Uint16(head[5:]) || n > maxPayload {
			r.buf = r.buf[1:]
			continue
		}
		if len(r.buf) < headerBytes+n {
			return Frame{}, false
		}
		p := r.buf[headerBytes : headerBytes+n]
		r.buf = r.buf[headerBytes+n:]
		if head[1] != system || head[4] != unnumbered || n < 6 || CRC(p[:n-2]) != binary.LittleEndian.Uint16(p[n-2:]) {
			continue
		}
		if p = p[:n-2]; int(binary.LittleEndian.Uint16(p[2:])) == len(p)-4 {
			return Frame{Command: Command(p[0]), Sequence: p[1], Payload: p[4:]}, true
		}
	}
	return Frame{}, false
}
