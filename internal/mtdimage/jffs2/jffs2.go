// Package jffs2 reads the files of a big-endian JFFS2 image that is in memory,
// and adds some to it: a userdata partition is to be flashed with the settings
// and keys of the gateway that it is for.
//
// It knows what mkfs.jffs2 and the kernel write on a gateway: data as it is, of
// zeros, by zlib and rtime. The format is that of the kernel's
// include/uapi/linux/jffs2.h. It is no file system: an image is read as a whole.
package jffs2

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
)

// EraseBlock is the flash's, in bytes: no node crosses one.
const EraseBlock = 64 << 10

// Errors.
var (
	ErrFormat = errors.New("no big-endian JFFS2")
	ErrFull   = errors.New("no room in the image")
	ErrName   = errors.New("a name that cannot be")
)

const (
	magic     = 0x1985
	typeDir   = 0xE001
	typeInode = 0xE002
	typeClean = 0x2003
	accurate  = 0x2000 // cleared in the flash when a node is out of date
	headLen   = 12
	dirLen    = 40
	inodeLen  = 68
	rootIno   = 1
	page      = 4096 // data of one node is of one page
	maxDepth  = 32
	maxFile   = 16 << 20

	comprNone  = 0
	comprZero  = 1
	comprRtime = 2
	comprZlib  = 6

	dtDir, dtReg, dtLink            = 4, 8, 10
	modeFmt, modeDir, modeReg, mLnk = 0o170000, 0o040000, 0o100000, 0o120000
)

// File is a regular file, a folder or a symbolic link.
type File struct {
	Name   string // relative, without . and ..
	Mode   uint32 // as in stat(2): kind and permissions
	MTime  uint32 // s since 1970
	Data   []byte // of a file; a link's target
	Unread string // why Data is not there
}

// IsDir and IsLink tell what it is.
func (f File) IsDir() bool  { return f.Mode&modeFmt == modeDir }
func (f File) IsLink() bool { return f.Mode&modeFmt == mLnk }

// Regular tells whether it is a regular file.
func (f File) Regular() bool { return f.Mode&modeFmt == modeReg }

// Image is what Read found.
type Image struct {
	Files []File // by name
	Nodes int    // that are in force or were
	Bad   int    // with a wrong sum: those are passed over, as by the kernel
	Used  int    // bytes of nodes
	Free  int    // erase blocks without any
}

type dirent struct {
	pino, version, ino uint32
	name               string
	kind               byte
}

type datum struct {
	version, mode, isize, mtime, offset, dsize uint32
	compr                                      byte
	data                                       []byte
}

type scanned struct {
	Image
	entries  map[uint32]map[string]dirent // by folder and name, the newest
	versions map[uint32]uint32            // the newest of a folder
	inodes   map[uint32][]datum
	maxIno   uint32
	free     []int // offsets of erase blocks
}

// sum is the CRC-32 of JFFS2: it starts with 0 and is not inverted.
func sum(b []byte) uint32 { return ^crc32.Update(0xFFFFFFFF, crc32.IEEETable, b) }

func scan(b []byte) (s *scanned, err error) {
	if len(b) < headLen || binary.BigEndian.Uint16(b) != magic {
		return nil, ErrFormat
	}
	s = &scanned{entries: map[uint32]map[string]dirent{}, versions: map[uint32]uint32{}, inodes: map[uint32][]datum{}, maxIno: rootIno}
	for at := 0; at < len(b); at += EraseBlock {
		whole := at+EraseBlock <= len(b)
		if s.block(b[at:min(at+EraseBlock, len(b))]) && whole {
			s.free = append(s.free, at)
		}
	}
	s.Free = len(s.free)
	return s, nil
}

// block reads the nodes of one erase block, and tells whether it is free.
func (s *scanned) block(b []byte) (free bool) {
	free = true
	be := binary.BigEndian
	for off := 0; off+4 <= len(b); {
		word := be.Uint32(b[off:])
		if word == 0xFFFFFFFF {
			off += 4
			continue
		}
		if word>>16 != magic || off+headLen > len(b) {
			free = false
			off += 4
			continue
		}
		var head [8]byte
		copy(head[:], b[off:])
		kind := be.Uint16(head[2:])
		be.PutUint16(head[2:], kind|accurate)
		n := int(be.Uint32(head[4:]))
		if sum(head[:]) != be.Uint32(b[off+8:]) || n < headLen || n > len(b)-off {
			free = false
			s.Bad++
			off += 4
			continue
		}
		if kind != typeClean || off != 0 {
			free = false
			s.Nodes++
			s.Used += (n + 3) &^ 3
			if kind&accurate != 0 && !s.node(kind, b[off:off+n]) {
				s.Bad++
			}
		}
		off += (n + 3) &^ 3
	}
	return free
}

// node takes one in, or returns false if it is damaged.
func (s *scanned) node(kind uint16, b []byte) bool {
	be := binary.BigEndian
	switch {
	case kind == typeDir:
		if len(b) < dirLen || sum(b[:32]) != be.Uint32(b[32:]) || dirLen+int(b[28]) > len(b) {
			return false
		}
		name := b[dirLen : dirLen+int(b[28])]
		if sum(name) != be.Uint32(b[36:]) {
			return false
		}
		d := dirent{be.Uint32(b[12:]), be.Uint32(b[16:]), be.Uint32(b[20:]), string(name), b[29]}
		if s.entries[d.pino] == nil {
			s.entries[d.pino] = map[string]dirent{}
		}
		if old, ok := s.entries[d.pino][d.name]; !ok || d.version >= old.version {
			s.entries[d.pino][d.name] = d
		}
		s.versions[d.pino] = max(s.versions[d.pino], d.version)
		s.maxIno = max(s.maxIno, d.ino)
	case kind == typeInode:
		if len(b) < inodeLen || sum(b[:60]) != be.Uint32(b[64:]) {
			return false
		}
		csize := be.Uint32(b[48:])
		if uint64(csize) > uint64(len(b)-inodeLen) {
			return false
		}
		data := b[inodeLen : inodeLen+int(csize)]
		if sum(data) != be.Uint32(b[60:]) {
			return false
		}
		ino := be.Uint32(b[12:])
		s.inodes[ino] = append(s.inodes[ino], datum{be.Uint32(b[16:]), be.Uint32(b[20:]), be.Uint32(b[28:]), be.Uint32(b[36:]), be.Uint32(b[44:]), be.Uint32(b[52:]), b[56], data})
		s.maxIno = max(s.maxIno, ino)
	}
	return true
}

// Read returns the files of an image.
func Read(b []byte) (Image, error) {
	s, err := scan(b)
	if err != nil {
		return Image{}, err
	}
	s.walk("", rootIno, 0)
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return s.Image, nil
}

func (s *scanned) walk(dir string, ino uint32, depth int) {
	for name, d := range s.entries[ino] {
		if d.ino == 0 || !plain(name) || depth > maxDepth { // 0: it was removed
			continue
		}
		f := s.file(d)
		f.Name = path.Join(dir, name)
		s.Files = append(s.Files, f)
		if d.kind == dtDir && d.ino != rootIno {
			// A folder has one name: a second one would be a loop.
			below := s.entries[d.ino]
			delete(s.entries, d.ino)
			if below != nil {
				s.entries[d.ino] = below
				s.walk(f.Name, d.ino, depth+1)
				delete(s.entries, d.ino)
			}
		}
	}
}

func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// file puts an inode's nodes together.
func (s *scanned) file(d dirent) (f File) {
	f.Mode = map[byte]uint32{dtDir: modeDir, dtReg: modeReg, dtLink: mLnk}[d.kind]
	all := s.inodes[d.ino]
	if len(all) == 0 {
		if d.kind != dtDir {
			f.Unread = "its data is not in the image"
		}
		return f
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b datum) int { return int(int64(a.version) - int64(b.version)) })
	newest := all[len(all)-1]
	f.Mode, f.MTime = newest.mode, newest.mtime
	if f.IsDir() {
		return f
	}
	if newest.isize > maxFile {
		f.Unread = "it is larger than a partition"
		return f
	}
	f.Data = make([]byte, newest.isize)
	for _, n := range all {
		got, err := n.unpack()
		if err != nil {
			f.Data, f.Unread = nil, err.Error()
			return f
		}
		if uint64(n.offset) < uint64(len(f.Data)) {
			copy(f.Data[n.offset:], got)
		}
		// A node cuts off what is beyond its size.
		if uint64(n.isize) < uint64(len(f.Data)) {
			clear(f.Data[n.isize:])
		}
	}
	return f
}

func (n datum) unpack() ([]byte, error) {
	if n.dsize > 1<<20 {
		return nil, errors.New("a node of more than 1 MiB")
	}
	switch n.compr {
	case comprNone:
		return n.data, nil
	case comprZero:
		return make([]byte, n.dsize), nil
	case comprRtime:
		return rtime(n.data, int(n.dsize))
	case comprZlib:
		r, err := zlib.NewReader(bytes.NewReader(n.data))
		if err != nil {
			return nil, err
		}
		out, err := io.ReadAll(io.LimitReader(r, int64(n.dsize)))
		// The kernel ends a stream without its sum.
		if len(out) == int(n.dsize) {
			err = nil
		}
		return out, err
	}
	return nil, fmt.Errorf("it is compressed by a way that is not known here (%d)", n.compr)
}

// rtime unpacks what fs/jffs2/compr_rtime.c packs: each byte, and how many
// follow it as they followed it the last time.
func rtime(in []byte, n int) ([]byte, error) {
	var seen [256]int
	out := make([]byte, 0, n)
	for len(out) < n {
		if len(in) < 2 {
			return nil, errors.New("a node that ends early")
		}
		v, repeat := in[0], int(in[1])
		in = in[2:]
		out = append(out, v)
		from := seen[v]
		seen[v] = len(out)
		for i := range repeat {
			if from+i >= len(out) {
				return nil, errors.New("a damaged node")
			}
			out = append(out, out[from+i])
		}
	}
	return out[:n], nil
}
