// Package ezsp makes and reads the frames of EZSP that radio operations need: the
// version exchange and the way into the bootloader (Silicon Labs UG100, EZSP
// Reference Guide). They travel in ASH DATA frames. It is no client of a network.
package ezsp

import "strconv"

// Frame IDs.
const (
	Version                    = 0x0000
	LaunchStandaloneBootloader = 0x008F
	invalidCommand             = 0x0058
)

// BootloaderNormalMode is the parameter of LaunchStandaloneBootloader: stay in the
// bootloader and wait for an image.
const BootloaderNormalMode = 0x01

// Versions at which the header changed: from 5 on there is an extended ID behind
// the byte 0xFF, from 8 on the ID has two bytes and the frame control, too.
const (
	extendedFrom = 5
	twoBytesFrom = 8
)

// AppendCommand appends a command to dst. version is that of the NCP, 0 while it
// is not known: then the form is that of all versions, in which the Version
// command must be sent first.
func AppendCommand(dst []byte, version, sequence uint8, id uint16, params ...byte) []byte {
	switch {
	case version >= twoBytesFrom:
		dst = append(dst, sequence, 0x00, 0x01, byte(id), byte(id>>8))
	case version >= extendedFrom:
		dst = append(dst, sequence, 0x00, 0xFF, 0x00, byte(id))
	default:
		dst = append(dst, sequence, 0x00, byte(id))
	}
	return append(dst, params...)
}

// ParseResponse reads the response to a command. It tells by itself which form the
// header has. ok is false when p is none, or says that the command was not taken.
// params is a part of p.
func ParseResponse(p []byte) (sequence uint8, id uint16, params []byte, ok bool) {
	if len(p) < 3 || p[1]&0x80 == 0 { // a response has this bit, a command not
		return 0, 0, nil, false
	}
	switch {
	case len(p) >= 5 && p[2] == 0xFF:
		id, params = uint16(p[4]), p[5:]
	case len(p) >= 5 && p[2]&3 == 1 && p[2] != 0xFF:
		id, params = uint16(p[3])|uint16(p[4])<<8, p[5:]
	default:
		id, params = uint16(p[2]), p[3:]
	}
	return p[0], id, params, id != invalidCommand
}

// StackVersion is the version of EmberZNet in the response to Version, four
// numbers of four bits: 0x7510 is 7.5.1.0.
func StackVersion(v uint16) string {
	s := ""
	for shift := 12; shift >= 0; shift -= 4 {
		if s != "" {
			s += "."
		}
		s += strconv.Itoa(int(v >> shift & 15))
	}
	return s
}
