//go:build linux

package gpio

import (
	"bytes"
	"encoding/binary"
	"time"

	"gwinit/board/rtl8196e"
)

// order is the CPU's.
var order = binary.NativeEndian

// maxLines is more than any chip of these boards has: 32.
const maxLines = 512

// Sizes in bytes and offsets of the kernel's structs (struct gpio_v2_...).
const (
	nameSize = 32

	infoSize   = 256 // gpio_v2_line_info
	infoOffset = 64

	requestSize   = 592 // gpio_v2_line_request
	reqConsumer   = 256
	reqFlags      = 288 // of its gpio_v2_line_config
	reqNumAttrs   = 296
	reqAttrs      = 320 // of 24 bytes: id, padding, a value of 8 bytes, and a mask of lines
	reqNumLines   = 560
	reqDescriptor = 588

	valuesSize = 16 // gpio_v2_line_values

	// EventSize is that of a gpio_v2_line_event, which reading FD gives.
	EventSize = 48
)

// Flags of gpio_v2_line_flag, and the attribute of a debounce time in us.
const (
	flagActiveLow   = 1 << 1
	flagInput       = 1 << 2
	flagOutput      = 1 << 3
	flagEdgeRising  = 1 << 4
	flagEdgeFalling = 1 << 5
	flagOpenDrain   = 1 << 6
	flagPullUp      = 1 << 8

	attrDebounce = 3
)

// The requests: direction, size, 0xB4 and a number. Reading and writing is 3<<30
// on most machines and 6<<29 on MIPS, which is the same.
const (
	readWrite   = 0xC0000000
	getLineInfo = readWrite | infoSize<<16 | 0xB4<<8 | 0x05
	getLine     = readWrite | requestSize<<16 | 0xB4<<8 | 0x07
	getValues   = readWrite | valuesSize<<16 | 0xB4<<8 | 0x0E
	setValues   = readWrite | valuesSize<<16 | 0xB4<<8 | 0x0F
)

// flags are those of a line taken so.
func flags(l rtl8196e.Line, mode Mode) uint64 {
	var f uint64
	if l.ActiveLow {
		f |= flagActiveLow
	}
	switch mode {
	case Edges:
		f |= flagEdgeRising | flagEdgeFalling
		fallthrough
	case Input:
		f |= flagInput
		if l.ActiveLow {
			f |= flagPullUp
		}
	case Output:
		f |= flagOutput
		if l.OpenDrain {
			f |= flagOpenDrain
		}
	}
	return f
}

func packInfo(o binary.ByteOrder, number uint32) []byte {
	b := make([]byte, infoSize)
	o.PutUint32(b[infoOffset:], number)
	return b
}

func infoName(b []byte) string {
	name, _, _ := bytes.Cut(b[:nameSize], []byte{0})
	return string(name)
}

// packRequest asks for one line. An output without an attribute for its value
// begins inactive.
func packRequest(o binary.ByteOrder, number uint32, flags uint64, debounce time.Duration, consumer string) []byte {
	b := make([]byte, requestSize)
	o.PutUint32(b, number)
	copy(b[reqConsumer:reqConsumer+nameSize-1], consumer)
	o.PutUint64(b[reqFlags:], flags)
	if debounce > 0 {
		o.PutUint32(b[reqNumAttrs:], 1)
		o.PutUint32(b[reqAttrs:], attrDebounce)
		o.PutUint32(b[reqAttrs+8:], uint32(debounce.Microseconds()))
		o.PutUint64(b[reqAttrs+16:], 1) // the first line of the request
	}
	o.PutUint32(b[reqNumLines:], 1)
	return b
}

func requestFD(o binary.ByteOrder, b []byte) int { return int(int32(o.Uint32(b[reqDescriptor:]))) }

// packValues is the one line of a request, with its value.
func packValues(o binary.ByteOrder, active bool) []byte {
	b := make([]byte, valuesSize)
	if active {
		o.PutUint64(b, 1)
	}
	o.PutUint64(b[8:], 1)
	return b
}

func valuesBit(o binary.ByteOrder, b []byte) bool { return o.Uint64(b)&1 != 0 }
