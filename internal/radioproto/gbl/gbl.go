// Package gbl reads Gecko Bootloader images (.gbl), the files that radios are
// updated with: which parts there are, whether the file is whole, what is in it
// (Silicon Labs UG266 and UG489, "Gecko Bootloader file format"; the SDK's
// btl_gbl_format.h). It checks no signature and decrypts nothing: the bootloader
// does, with keys that only it has.
package gbl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Tags, each with the length of what follows it, both little-endian.
const (
	tagHeader     = 0x03A617EB
	tagDependency = 0x76A617EB
	tagApp        = 0xF40A0AF4
	tagBootloader = 0xF50909F5
	tagSE         = 0x5EA617EB
	tagMetadata   = 0xF60808F6
	tagProg       = 0xFE0101FE
	tagEraseProg  = 0xFD0303FD
	tagProgLZ4    = 0xFD0505FD
	tagProgLZMA   = 0xFD0707FD
	tagEncHeader  = 0xFB0505FB
	tagEncInit    = 0xFA0606FA
	tagEncData    = 0xF90707F9
	tagSignature  = 0xF70A0AF7
	tagCert       = 0xF30B0BF3
	tagEnd        = 0xFC0404FC
)

// MaxBytes is the longest file that is taken for an image: a chip of these
// families has 1.5 MiB of flash at most.
const MaxBytes = 2 << 20

// formatMajor is the major version of the format, in the header's highest byte.
const formatMajor = 3

// Types of the header.
const (
	typeEncrypted = 0x001
	typeSigned    = 0x100
)

// Errors of Parse. An error says where in the file, too.
var (
	ErrFormat   = errors.New("it is no GBL image")
	ErrVersion  = errors.New("it is a GBL image of a version that is not known")
	ErrCut      = errors.New("the image is cut off")
	ErrCRC      = errors.New("the image is damaged: its checksum is wrong")
	ErrTag      = errors.New("the image has a part that a bootloader does not know")
	ErrTrailing = errors.New("there is something behind the image's end")
	ErrEmpty    = errors.New("there is nothing to install in the image")
)

// Image is what a file holds.
type Image struct {
	Bytes      int // with its end, without what fills it up
	Encrypted  bool
	Signed     bool
	App        *App // what the image says of the application, if it does
	Bootloader *Bootloader
	SE         *SecureElement
	Sections   []Section // of the application; of an encrypted image nothing is known
	Metadata   []byte    // what the builder put in, for people and programs
}

// App is what the image says of its application.
type App struct {
	Type, Version, Capabilities uint32
	Product                     [16]byte
}

// Bootloader is an update of the bootloader.
type Bootloader struct{ Version, Address uint32 }

// SecureElement is an update of the secure element's firmware.
type SecureElement struct{ Version uint32 }

// Section is one stretch of flash.
type Section struct {
	Address    uint32
	Bytes      int // in the file
	Compressed bool
}

// Application tells whether there is an application in it, as far as one can see.
func (m *Image) Application() bool { return len(m.Sections) > 0 || m.Encrypted }

// Parse reads an image. What it returns shares memory with file.
func Parse(file []byte) (*Image, error) {
	var m Image
	for at, first := 0, true; ; first = false {
		rest := file[at:]
		if len(rest) < 8 {
			if first {
				return nil, notGBL(file)
			}
			return nil, fmt.Errorf("%w: it has %d bytes and no end", ErrCut, len(file))
		}
		tag, n := binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])
		if first != (tag == tagHeader) {
			if first {
				return nil, notGBL(file)
			}
			return nil, fmt.Errorf("%w: a second header at byte %d", ErrFormat, at)
		}
		if uint64(n) > uint64(len(rest)-8) {
			return nil, fmt.Errorf("%w: the part at byte %d has %d bytes, and %d are there", ErrCut, at, n, len(rest)-8)
		}
		body := rest[8 : 8+n]
		at += 8 + len(body)
		if tag == tagEnd {
			if len(body) != 4 {
				return nil, fmt.Errorf("%w: its end has %d bytes", ErrFormat, len(body))
			}
			if crc32.ChecksumIEEE(file[:at-4]) != binary.LittleEndian.Uint32(body) {
				return nil, ErrCRC
			}
			m.Bytes = at
			break
		}
		if err := m.part(tag, body); err != nil {
			return nil, fmt.Errorf("%w (%#08x at byte %d)", err, tag, at-8-len(body))
		}
	}
	// Builders fill files up, with ones or zeros.
	for _, b := range file[m.Bytes:] {
		if b != 0xFF && b != 0 {
			return nil, ErrTrailing
		}
	}
	if !m.Application() && m.Bootloader == nil && m.SE == nil {
		return nil, ErrEmpty
	}
	return &m, nil
}

// part takes one of the parts between header and end.
func (m *Image) part(tag uint32, body []byte) error {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(body[4*i:]) }
	// The fixed fields at the front of each.
	fixed := 0
	switch tag {
	case tagApp:
		fixed = 28
	case tagHeader, tagBootloader, tagSE:
		fixed = 8
	case tagEncInit:
		fixed = 16
	case tagSignature:
		fixed = 64
	case tagProg, tagEraseProg, tagProgLZ4, tagProgLZMA:
		fixed = 4
	}
	if len(body) < fixed {
		return ErrFormat
	}
	switch tag {
	case tagHeader:
		if word(0)>>24 != formatMajor {
			return ErrVersion
		}
		m.Encrypted, m.Signed = word(1)&typeEncrypted != 0, word(1)&typeSigned != 0
	case tagApp:
		m.App = &App{Type: word(0), Version: word(1), Capabilities: word(2), Product: [16]byte(body[12:28])}
	case tagBootloader:
		m.Bootloader = &Bootloader{Version: word(0), Address: word(1)}
	case tagSE:
		m.SE = &SecureElement{Version: word(1)}
	case tagProg, tagEraseProg, tagProgLZ4, tagProgLZMA:
		m.Sections = append(m.Sections, Section{Address: word(0), Bytes: len(body) - 4, Compressed: tag == tagProgLZ4 || tag == tagProgLZMA})
	case tagMetadata:
		m.Metadata = body
	case tagSignature:
		m.Signed = true
	case tagDependency, tagEncHeader, tagEncInit, tagEncData, tagCert:
	default:
		return ErrTag
	}
	return nil
}

// notGBL says what a file is that people take for an image.
func notGBL(file []byte) error {
	is := func(magic string) bool { return len(file) >= len(magic) && string(file[:len(magic)]) == magic }
	what := ""
	switch {
	case len(file) == 0:
		what = ": it is empty"
	case is("PK\x03\x04"), is("\x1f\x8b"), is("7z\xbc\xaf"):
		what = " but an archive: unpack it first"
	case is("S0"), is(":"):
		what = " but text for a programmer on the SWD pins (.s37 or .hex)"
	case is("\x00\x00\x00\x8c"):
		what = " but one of its predecessors (.ebl), for old chips"
	case is("\x7fELF"):
		what = " but what it is made from (.elf)"
	case is("<"), is("\n<"):
		what = " but a web page: the download went wrong"
	}
	return fmt.Errorf("%w%s", ErrFormat, what)
}
