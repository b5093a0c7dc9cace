package userdata

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// JFFS2 on flash (include/uapi/linux/jffs2.h): every node begins with magic,
// type, total length and a checksum of these, in the byte order of the CPU.
const (
	magic        = 0x1985
	otherOrder   = 0x8519 // written by a little-endian machine
	nodeAccurate = 0x2000 // a bit of the type, cleared in place when the node is obsolete
	headBytes    = 12
)

// peekBytes is how much is read at each of the places inside a block whose head
// is blank.
const peekBytes = 64

// Content is what a look at the partition found, in erase blocks by how they
// begin.
type Content struct {
	Nodes   int // with a whole JFFS2 node header
	Torn    int // with a JFFS2 node header that a power cut left half written
	Blank   int // erased
	Foreign int // with something else, or unreadable
	// Holds names what the first block that is foreign begins with; "" when
	// nobody knows it.
	Holds string
}

// Look samples a partition of size bytes in erase blocks of block bytes.
//
// JFFS2 starts every block that it uses with a node, and never leaves a gap, so
// the first 12 bytes of a block say whether it is JFFS2's. A block that begins
// blank is looked at in three more places, since what is not JFFS2 may well
// begin with 0xff. That is at most 204 bytes of 64 KiB, or 40 KiB of the whole
// partition: some tens of milliseconds, where reading all of it takes 12 s on
// the slowest flash.
func Look(r io.ReaderAt, size, block int64) Content {
	var c Content
	for at := int64(0); at+block <= size; at += block {
		var head [headBytes]byte
		if _, err := r.ReadAt(head[:], at); err != nil {
			c.Foreign++
			if c.Holds == "" {
				c.Holds = "blocks that cannot be read: " + err.Error()
			}
			continue
		}
		switch {
		case isNode(head):
			c.Nodes++
		case binary.BigEndian.Uint16(head[:]) == magic:
			c.Torn++
		case blank(head[:]) && blankInside(r, at, block):
			c.Blank++
		default:
			c.Foreign++
			if c.Holds == "" {
				c.Holds = name(head)
			}
		}
	}
	return c
}

// JFFS2 tells whether a kernel may mount the partition for writing.
//
// JFFS2 takes blocks that it does not know for garbage and erases them when it
// needs room. So it only gets a partition that is its own already (INV 10): one
// that is erased altogether, where nothing can be lost, or one with at least as
// many blocks that begin with a node as with something else. Torn heads, as a
// power cut leaves them, speak for neither side.
func (c Content) JFFS2() bool {
	return c.Erased() || c.Nodes > 0 && c.Foreign <= c.Nodes
}

// Erased tells whether there is nothing on the partition.
func (c Content) Erased() bool { return c.Nodes == 0 && c.Torn == 0 && c.Foreign == 0 && c.Blank > 0 }

// isNode checks the header's own checksum: a CRC-32 that starts at 0 and is not
// inverted at the end, over the type as it was before the node was obsolete.
func isNode(head [headBytes]byte) bool {
	if binary.BigEndian.Uint16(head[:]) != magic {
		return false
	}
	sum := binary.BigEndian.Uint32(head[8:])
	head[2] |= nodeAccurate >> 8
	return ^crc32.Update(^uint32(0), crc32.IEEETable, head[:8]) == sum
}

func blank(b []byte) bool {
	for _, v := range b {
		if v != 0xff {
			return false
		}
	}
	return true
}

// blankInside looks at a quarter, half and three quarters of a block. The end is
// left out: the image that a loader writes has its checksum in the last two
// bytes of the partition.
func blankInside(r io.ReaderAt, at, block int64) bool {
	var b [peekBytes]byte
	for i := int64(1); i < 4; i++ {
		if _, err := r.ReadAt(b[:], at+i*block/4); err != nil || !blank(b[:]) {
			return false
		}
	}
	return true
}

// name says what begins so, for people.
func name(head [headBytes]byte) string {
	switch {
	case binary.BigEndian.Uint16(head[:]) == otherOrder:
		return "a JFFS2 of the other byte order"
	case string(head[:4]) == "hsqs" || string(head[:4]) == "sqsh":
		return "a squashfs"
	case string(head[:4]) == "UBI#":
		return "a UBI volume"
	case string(head[:4]) == "cs6c" || string(head[:4]) == "r6cr" || string(head[:4]) == "cr6c":
		return "an image with its header"
	}
	return ""
}
