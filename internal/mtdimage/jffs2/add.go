package jffs2

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// adder writes nodes into the free erase blocks of an image.
type adder struct {
	b    []byte
	s    *scanned
	at   int // of the next node
	left int // bytes in its block
	time uint32
}

// Add writes files into an image, in place, beside what is there; a name that is
// there already then means the new one, but a folder stays. Folders on the way
// are made. mtime is that of new folders. b is as long as the partition: only
// erase blocks that are whole and free are written.
//
// After ErrFull the image holds some of them and must not be used.
func Add(b []byte, files []File, mtime uint32) error {
	s, err := scan(b)
	if err != nil {
		return err
	}
	a := &adder{b: b, s: s, time: mtime}
	for _, f := range files {
		parent := uint32(rootIno)
		parts := strings.Split(f.Name, "/")
		for i, name := range parts {
			if !plain(name) || len(name) > 254 {
				return fmt.Errorf("%q: %w", f.Name, ErrName)
			}
			d, there := s.entries[parent][name]
			there = there && d.ino != 0
			last := i == len(parts)-1
			switch {
			case there && d.kind == dtDir && (!last || f.IsDir()):
				parent = d.ino
			case there && d.kind == dtDir:
				return fmt.Errorf("%q is a folder in the image: %w", f.Name, ErrName)
			case !last:
				parent, err = a.file(parent, name, File{Mode: modeDir | 0o755, MTime: mtime})
			default:
				parent, err = a.file(parent, name, f)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	return nil
}

// file writes a new inode and its name.
func (a *adder) file(parent uint32, name string, f File) (ino uint32, err error) {
	a.s.maxIno++
	ino = a.s.maxIno
	kind := byte(dtReg)
	switch {
	case f.IsDir():
		kind = dtDir
	case f.IsLink():
		kind = dtLink
	case !f.Regular():
		return 0, fmt.Errorf("mode %o: %w", f.Mode, ErrName)
	}
	version := uint32(1)
	rest := f.Data
	for off := 0; ; version++ {
		n := min(len(rest), page)
		if f.IsLink() { // a link is one node
			n = len(rest)
		}
		if err := a.inode(ino, version, f, uint32(off), rest[:n]); err != nil {
			return 0, err
		}
		off, rest = off+n, rest[n:]
		if len(rest) == 0 {
			break
		}
	}
	a.s.versions[parent]++
	d := dirent{parent, a.s.versions[parent], ino, name, kind}
	if a.s.entries[parent] == nil {
		a.s.entries[parent] = map[string]dirent{}
	}
	a.s.entries[parent][name] = d
	return ino, a.dirent(d, f.MTime)
}

func (a *adder) inode(ino, version uint32, f File, off uint32, data []byte) error {
	be := binary.BigEndian
	packed, compr := data, byte(comprNone)
	if f.Regular() {
		if z := deflate(data); len(z) < len(data) {
			packed, compr = z, comprZlib
		}
	}
	p := head(typeInode, inodeLen+len(packed))
	for _, v := range []uint32{ino, version, f.Mode, 0, uint32(len(f.Data)), f.MTime, f.MTime, f.MTime, off, uint32(len(packed)), uint32(len(data))} {
		p = be.AppendUint32(p, v)
	}
	p = append(p, compr, 0, 0, 0)
	nodeSum := sum(p)
	p = be.AppendUint32(p, sum(packed))
	p = be.AppendUint32(p, nodeSum)
	return a.node(append(p, packed...))
}

func (a *adder) dirent(d dirent, mtime uint32) error {
	be := binary.BigEndian
	p := head(typeDir, dirLen+len(d.name))
	for _, v := range []uint32{d.pino, d.version, d.ino, mtime} {
		p = be.AppendUint32(p, v)
	}
	p = append(p, byte(len(d.name)), d.kind, 0, 0)
	p = be.AppendUint32(p, sum(p))
	p = be.AppendUint32(p, sum([]byte(d.name)))
	return a.node(append(p, d.name...))
}

func head(kind uint16, n int) []byte {
	be := binary.BigEndian
	p := be.AppendUint16(nil, magic)
	p = be.AppendUint16(p, kind)
	p = be.AppendUint32(p, uint32(n))
	return be.AppendUint32(p, sum(p))
}

// node writes one, in the next block if it does not fit this one any more.
func (a *adder) node(p []byte) error {
	if len(p) > a.left {
		if len(a.s.free) == 0 || len(p) > EraseBlock-headLen {
			return ErrFull
		}
		a.at, a.left = a.s.free[0], EraseBlock
		a.s.free = slices.Delete(a.s.free, 0, 1)
		if binary.BigEndian.Uint16(a.b[a.at:]) == magic { // a clean marker
			a.at, a.left = a.at+headLen, a.left-headLen
		}
	}
	copy(a.b[a.at:], p)
	n := (len(p) + 3) &^ 3
	a.at, a.left = a.at+n, a.left-n
	return nil
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b) // a buffer takes all
	_ = z.Close()
	return out.Bytes()
}
