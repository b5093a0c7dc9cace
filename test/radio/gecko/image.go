// Package gecko is the simulated chip's flash and its Gecko bootloader: the menu,
// XMODEM-CRC, and what the bootloader does to the flash when an image arrives, as
// Silicon Labs UG266/UG489 and the SDK's btl_comm_xmodem, btl_xmodem and
// btl_gbl_parser have it. It has no clock and no line of its own.
//
// Images are GBL files whose program begins with a description of the simulated
// firmware (App); Build makes them.
package gecko

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
)

// App is a simulated application.
type App struct {
	Kind    string `json:"kind"`              // ncp, rcp, otrcp, router; anything else says nothing
	Version string `json:"version,omitempty"` // as it says itself, where it can be chosen
	Baud    int    `json:"baud,omitempty"`    // 0: the line's
	Flow    string `json:"flow,omitempty"`    // none, sw, hw; "": the line's
}

// appMagic begins the program of an image.
const appMagic = "simulated application\x00"

// Tags of a GBL file (UG266, table of tags).
const (
	tagHeader     = 0x03A617EB
	tagApp        = 0xF40A0AF4
	tagBootloader = 0xF50909F5
	tagMetadata   = 0xF60808F6
	tagEraseProg  = 0xFD0303FD
	tagSignature  = 0xF70A0AF7
	tagEnd        = 0xFC0404FC
)

// AppStart is where applications begin, behind a bootloader of 16 KiB.
const AppStart = 0x4000

// Image says what to build.
type Image struct {
	App        *App
	Bytes      int    // of the program, at least; filled up
	Address    uint32 // of the program; 0: AppStart
	Bootloader uint32 // version of a bootloader to install; 0: none
	Metadata   string
	Unknown    bool // with a part that no bootloader knows
	Signed     bool
}

func appendTag(b []byte, tag uint32, body ...[]byte) []byte {
	n := 0
	for _, p := range body {
		n += len(p)
	}
	b = binary.LittleEndian.AppendUint32(b, tag)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, p := range body {
		b = append(b, p...)
	}
	return b
}

func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

// Build makes a GBL file.
func Build(m Image) []byte {
	kind := uint32(0)
	if m.Signed {
		kind = 0x100
	}
	b := appendTag(nil, tagHeader, words(3<<24, kind))
	if m.App != nil {
		b = appendTag(b, tagApp, words(1, 1, 0), make([]byte, 16))
	}
	if m.Bootloader != 0 {
		b = appendTag(b, tagBootloader, words(m.Bootloader, 0x800), make([]byte, 600))
	}
	if m.Metadata != "" {
		b = appendTag(b, tagMetadata, []byte(m.Metadata))
	}
	if m.Unknown {
		b = appendTag(b, 0x12345678, words(1))
	}
	if m.App != nil {
		text, err := json.Marshal(m.App)
		if err != nil {
			panic(err) // of strings and a number
		}
		program := append([]byte(appMagic), text...)
		program = append(program, 0)
		for i := len(program); i < m.Bytes; i++ {
			program = append(program, byte(i*7+i>>8))
		}
		address := m.Address
		if address == 0 {
			address = AppStart
		}
		b = appendTag(b, tagEraseProg, words(address), program)
	}
	if m.Signed {
		b = appendTag(b, tagSignature, make([]byte, 64))
	}
	b = binary.LittleEndian.AppendUint32(b, tagEnd)
	b = binary.LittleEndian.AppendUint32(b, 4)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// Flash is what the chip's flash holds.
type Flash struct {
	App        *App   // nil: none that is whole
	Bootloader uint32 // version: major<<24 | minor<<16 | the builder's
	// Signed says that the bootloader takes signed images only; every signature is
	// good.
	Signed bool
}

// Codes of what is wrong with an image, as the bootloader prints them.
const (
	codeVersion   = 0x41
	codeCRC       = 0x43
	codeTag       = 0x44
	codeSignature = 0x45
	codeBuffer    = 0x4F
)

// parser takes an image as it arrives, and does to the flash what the bootloader
// does then.
type parser struct {
	flash *Flash
	crc   uint32
	part  []byte // of the present part: header, then its body
	seen  int    // parts so far

	app        *App
	bootloader uint32
	signed     bool
	done       bool
}

func newParser(f *Flash) *parser { return &parser{flash: f} }

// write takes bytes; it returns a code, or 0.
func (p *parser) write(data []byte) uint8 {
	for len(data) > 0 {
		if p.done {
			return 0 // what fills the last block up
		}
		want := 8
		if len(p.part) >= 8 {
			want = 8 + int(binary.LittleEndian.Uint32(p.part[4:]))
		}
		n := min(want-len(p.part), len(data))
		p.part = append(p.part, data[:n]...)
		data = data[n:]
		if len(p.part) < 8 {
			continue
		}
		tag, size := binary.LittleEndian.Uint32(p.part), int(binary.LittleEndian.Uint32(p.part[4:]))
		if len(p.part) == 8 {
			if code := p.begins(tag); code != 0 {
				return code
			}
		}
		// Flash is erased when what goes there begins to arrive.
		if len(p.part) > 8 && (tag == tagEraseProg || tag == tagBootloader) {
			p.flash.App = nil
		}
		if len(p.part) < 8+size {
			continue
		}
		if tag == tagEnd {
			if size != 4 || binary.LittleEndian.Uint32(p.part[8:]) != crc32.Update(p.crc, crc32.IEEETable, p.part[:8]) {
				return codeCRC
			}
			if p.flash.Signed && !p.signed {
				return codeSignature
			}
			p.done = true
			if p.app != nil {
				p.flash.App = p.app // its vectors are written last
			}
			continue
		}
		p.crc = crc32.Update(p.crc, crc32.IEEETable, p.part)
		if code := p.ends(tag, p.part[8:]); code != 0 {
			return code
		}
		p.part, p.seen = p.part[:0], p.seen+1
	}
	return 0
}

// begins judges a part by its tag.
func (p *parser) begins(tag uint32) uint8 {
	if (tag == tagHeader) != (p.seen == 0) {
		return codeBuffer
	}
	switch tag {
	case tagHeader, tagApp, tagBootloader, tagMetadata, tagEraseProg, tagSignature, tagEnd:
		return 0
	}
	return codeTag
}

func (p *parser) ends(tag uint32, body []byte) uint8 {
	switch tag {
	case tagHeader:
		if len(body) != 8 || body[3] != 3 {
			return codeVersion
		}
	case tagBootloader:
		if len(body) < 8 {
			return codeBuffer
		}
		p.bootloader = binary.LittleEndian.Uint32(body)
	case tagSignature:
		p.signed = true
	case tagEraseProg:
		if len(body) < 4 {
			return codeBuffer
		}
		app := &App{Kind: "something else"}
		if text, ok := cutPrefix(body[4:], appMagic); ok {
			for i, b := range text {
				if b == 0 {
					text = text[:i]
					break
				}
			}
			if json.Unmarshal(text, app) != nil {
				return codeBuffer
			}
		}
		p.app = app
	}
	return 0
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return nil, false
	}
	return b[len(prefix):], true
}
