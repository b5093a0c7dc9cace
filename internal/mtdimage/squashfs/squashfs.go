// Package squashfs reads files out of a squashfs 4.0 image that is in memory:
// what a root file system is, and whose keys it holds, is asked before it is
// flashed. It takes nothing of an image on trust, and needs no mount.
//
// It knows the compressors xz (what gateways have) and gzip, folders, regular
// files and symbolic links; it follows none of those. The format is that of the
// kernel's fs/squashfs/squashfs_fs.h.
package squashfs

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/ulikunitz/xz"
)

// Errors.
var (
	ErrFormat   = errors.New("damaged, or no squashfs 4.0")
	ErrCompress = errors.New("a compressor that is not known here")
	ErrNotFound = errors.New("no such file in the image")
	ErrTooBig   = errors.New("larger than can be read here")
)

const (
	superLen    = 96
	metaLen     = 8192 // of a block of metadata, unpacked
	maxBlock    = 1 << 20
	maxFile     = 64 << 20 // the largest rootfs unpacks to less
	maxDir      = 1 << 20  // bytes of a folder's listing
	maxEntries  = 1 << 16
	maxUnpacked = 256     // blocks of metadata that are kept: 2 MiB
	notPacked   = 1 << 15 // in a metadata block's length
	dataRaw     = 1 << 24 // in a data block's length
	noFragment  = 0xFFFFFFFF
)

// FS is an opened image.
type FS struct {
	b                  []byte
	blockSize          uint32
	compressor         uint16
	root               uint64
	inodes, dirs, frag uint64
	fragments          uint32

	unpacked map[uint64]metaBlock // some of them, by where they are
}

type metaBlock struct {
	data []byte
	next uint64
}

// Kind is what an entry is.
type Kind uint16

// Kinds, by their numbers in the image.
const (
	Dir     Kind = 1
	File    Kind = 2
	Symlink Kind = 3
	BlkDev  Kind = 4
	ChrDev  Kind = 5
)

// Entry is one name in a folder.
type Entry struct {
	Name string
	Kind Kind // that of the basic inode; pipes and sockets have others
	ref  uint64
}

// Info is what the superblock says.
type Info struct {
	Bytes      uint64 // that are used
	BlockBytes uint32
	Compressor string
	Inodes     uint32
}

var compressors = map[uint16]string{1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}

// Open looks at the superblock.
func Open(b []byte) (*FS, Info, error) {
	var i Info
	if len(b) < superLen || string(b[:4]) != "hsqs" || binary.LittleEndian.Uint16(b[28:]) != 4 {
		return nil, i, ErrFormat
	}
	le := binary.LittleEndian
	i = Info{Bytes: le.Uint64(b[40:]), BlockBytes: le.Uint32(b[12:]), Compressor: compressors[le.Uint16(b[20:])], Inodes: le.Uint32(b[4:])}
	if i.Bytes > uint64(len(b)) || i.Bytes < superLen {
		return nil, i, fmt.Errorf("%w: it says that it has %d bytes, and there are %d", ErrFormat, i.Bytes, len(b))
	}
	if i.BlockBytes < 4096 || i.BlockBytes > maxBlock || i.BlockBytes&(i.BlockBytes-1) != 0 {
		return nil, i, fmt.Errorf("%w: blocks of %d bytes", ErrFormat, i.BlockBytes)
	}
	f := &FS{
		b: b[:i.Bytes], blockSize: i.BlockBytes, compressor: le.Uint16(b[20:]), root: le.Uint64(b[32:]),
		inodes: le.Uint64(b[64:]), dirs: le.Uint64(b[72:]), frag: le.Uint64(b[80:]), fragments: le.Uint32(b[16:]), unpacked: map[uint64]metaBlock{},
	}
	return f, i, nil
}

// at returns n bytes at an offset.
func (f *FS) at(off, n uint64) ([]byte, error) {
	if off > uint64(len(f.b)) || n > uint64(len(f.b))-off {
		return nil, fmt.Errorf("%w: %d bytes at %#x", ErrFormat, n, off)
	}
	return f.b[off : off+n], nil
}

// unpack decompresses one block into at most limit bytes.
func (f *FS) unpack(packed []byte, limit int) ([]byte, error) {
	var r io.Reader
	var err error
	switch f.compressor {
	case 1:
		r, err = zlib.NewReader(bytes.NewReader(packed))
	case 4:
		r, err = xz.ReaderConfig{DictCap: maxBlock, SingleStream: true}.NewReader(bytes.NewReader(packed))
	default:
		return nil, fmt.Errorf("%s: %w", compressors[f.compressor], ErrCompress)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	case len(out) > limit:
		return nil, fmt.Errorf("%w: a block unpacks to more than %d bytes", ErrFormat, limit)
	}
	return out, nil
}

// meta is a place in a row of metadata blocks.
type meta struct {
	f   *FS
	at  uint64 // of the block
	off int    // in it, unpacked
}

// read returns the next n bytes, which may lie in several blocks.
func (m *meta) read(n int) ([]byte, error) {
	if n < 0 || n > maxDir {
		return nil, ErrFormat
	}
	out := make([]byte, 0, min(n, metaLen))
	for len(out) < n {
		block, next, err := m.f.metaBlock(m.at)
		if err != nil {
			return nil, err
		}
		if m.off > len(block) || m.off == len(block) && len(block) < metaLen {
			return nil, fmt.Errorf("%w: metadata ends", ErrFormat)
		}
		k := min(n-len(out), len(block)-m.off)
		out = append(out, block[m.off:m.off+k]...)
		if m.off += k; m.off == len(block) {
			m.at, m.off = next, 0
		}
	}
	return out, nil
}

func (f *FS) metaBlock(at uint64) (block []byte, next uint64, err error) {
	if m, ok := f.unpacked[at]; ok {
		return m.data, m.next, nil
	}
	h, err := f.at(at, 2)
	if err != nil {
		return nil, 0, err
	}
	word := binary.LittleEndian.Uint16(h)
	n := uint64(word &^ notPacked)
	if block, err = f.at(at+2, n); err != nil {
		return nil, 0, err
	}
	if word&notPacked == 0 {
		if block, err = f.unpack(block, metaLen); err != nil {
			return nil, 0, err
		}
	}
	if len(block) == 0 || len(block) > metaLen {
		return nil, 0, fmt.Errorf("%w: a block of metadata with %d bytes", ErrFormat, len(block))
	}
	if len(f.unpacked) >= maxUnpacked {
		clear(f.unpacked)
	}
	f.unpacked[at] = metaBlock{block, at + 2 + n}
	return block, at + 2 + n, nil
}

// inode is what is needed of one.
type inode struct {
	kind   Kind
	size   uint64 // of a file, or of a folder's listing
	start  uint64 // first data block; of a folder: metadata block in the directory table
	offset uint16 // of a folder: in that block
	frag   uint32
	inFrag uint32
	blocks []uint32
	target string // of a symbolic link
}

func (f *FS) inode(ref uint64) (n inode, err error) {
	m := meta{f, f.inodes + ref>>16, int(ref & 0xFFFF)}
	h, err := m.read(16)
	if err != nil {
		return n, err
	}
	le := binary.LittleEndian
	kind := le.Uint16(h)
	if kind == 0 || kind > 14 {
		return n, fmt.Errorf("%w: an inode of kind %d", ErrFormat, kind)
	}
	n.kind = Kind((kind-1)%7 + 1) // 8 to 14 are the same with more fields
	var p []byte
	switch kind {
	case 1:
		if p, err = m.read(16); err == nil {
			n.start, n.size, n.offset = uint64(le.Uint32(p)), uint64(le.Uint16(p[8:])), le.Uint16(p[10:])
		}
	case 8:
		if p, err = m.read(24); err == nil {
			n.start, n.size, n.offset = uint64(le.Uint32(p[8:])), uint64(le.Uint32(p[4:])), le.Uint16(p[18:])
		}
	case 2:
		if p, err = m.read(16); err == nil {
			n.start, n.frag, n.inFrag, n.size = uint64(le.Uint32(p)), le.Uint32(p[4:]), le.Uint32(p[8:]), uint64(le.Uint32(p[12:]))
		}
	case 9:
		if p, err = m.read(40); err == nil {
			n.start, n.size, n.frag, n.inFrag = le.Uint64(p), le.Uint64(p[8:]), le.Uint32(p[28:]), le.Uint32(p[32:])
		}
	case 3, 10:
		if p, err = m.read(8); err == nil {
			size := le.Uint32(p[4:])
			if size > 4096 {
				return n, fmt.Errorf("%w: a link of %d bytes", ErrFormat, size)
			}
			p, err = m.read(int(size))
			n.target = string(p)
		}
	}
	if err != nil || n.kind != File {
		return n, err
	}
	if n.size > maxFile {
		return n, fmt.Errorf("a file of %d bytes: %w", n.size, ErrTooBig)
	}
	count := n.size / uint64(f.blockSize)
	if n.frag == noFragment && n.size%uint64(f.blockSize) != 0 {
		count++
	}
	if p, err = m.read(int(count) * 4); err != nil {
		return n, err
	}
	for ; len(p) > 0; p = p[4:] {
		n.blocks = append(n.blocks, le.Uint32(p))
	}
	return n, nil
}

// list returns what is in a folder.
func (f *FS) list(n inode) (all []Entry, err error) {
	if n.kind != Dir {
		return nil, fmt.Errorf("%w: no folder", ErrNotFound)
	}
	const more = 3 // "." and "..", as the kernel counts them
	if n.size < more || n.size > maxDir {
		return nil, fmt.Errorf("%w: a folder of %d bytes", ErrFormat, n.size)
	}
	m := meta{f, f.dirs + n.start, int(n.offset)}
	le := binary.LittleEndian
	for left := int(n.size) - more; left > 0; {
		h, err := m.read(12)
		if err != nil {
			return nil, err
		}
		left -= len(h)
		count, block := le.Uint32(h), uint64(le.Uint32(h[4:]))
		if count > 255 {
			return nil, fmt.Errorf("%w: %d names in a row", ErrFormat, count)
		}
		for range count + 1 {
			e, err := m.read(8)
			if err != nil {
				return nil, err
			}
			size := int(le.Uint16(e[6:])) + 1
			if size > 256 {
				return nil, fmt.Errorf("%w: a name of %d bytes", ErrFormat, size)
			}
			name, err := m.read(size)
			if err != nil {
				return nil, err
			}
			if left -= 8 + size; left < 0 || len(all) >= maxEntries {
				return nil, fmt.Errorf("%w: a folder's names", ErrFormat)
			}
			all = append(all, Entry{string(name), Kind(le.Uint16(e[4:])), block<<16 | uint64(le.Uint16(e))})
		}
	}
	return all, nil
}

// find walks to a name, which may begin with a slash.
func (f *FS) find(name string) (inode, error) {
	n, err := f.inode(f.root)
	if err != nil {
		return n, err
	}
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			break
		}
		all, err := f.list(n)
		if err != nil {
			return n, err
		}
		found := false
		for _, e := range all {
			if found = e.Name == part; found {
				if n, err = f.inode(e.ref); err != nil {
					return n, err
				}
				break
			}
		}
		if !found {
			return n, fmt.Errorf("%s: %w", name, ErrNotFound)
		}
	}
	return n, nil
}

// ReadDir lists a folder, in the image's order, which is by name.
func (f *FS) ReadDir(name string) ([]Entry, error) {
	n, err := f.find(name)
	if err != nil {
		return nil, err
	}
	return f.list(n)
}

// ReadLink returns where a symbolic link leads.
func (f *FS) ReadLink(name string) (string, error) {
	n, err := f.find(name)
	if err == nil && n.kind != Symlink {
		err = fmt.Errorf("%s: %w: no link", name, ErrNotFound)
	}
	return n.target, err
}

// ReadFile returns the contents of a regular file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	n, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if n.kind != File {
		return nil, fmt.Errorf("%s: %w: no regular file", name, ErrNotFound)
	}
	out := make([]byte, 0, min(n.size, uint64(len(f.b))))
	at := n.start
	for _, word := range n.blocks {
		want := min(n.size-uint64(len(out)), uint64(f.blockSize))
		if word == 0 { // a hole
			out = append(out, make([]byte, want)...)
			continue
		}
		block, err := f.data(at, word, want)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		at += uint64(word &^ dataRaw)
		out = append(out, block...)
	}
	if left := n.size - uint64(len(out)); left > 0 {
		tail, err := f.fragment(n.frag, uint64(n.inFrag), left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, tail...)
	}
	return out, nil
}

// data returns a data block, which must hold want bytes.
func (f *FS) data(at uint64, word uint32, want uint64) ([]byte, error) {
	b, err := f.at(at, uint64(word&^dataRaw))
	if err == nil && word&dataRaw == 0 {
		b, err = f.unpack(b, int(f.blockSize))
	}
	if err == nil && uint64(len(b)) != want {
		err = fmt.Errorf("%w: a block of %d bytes in the place of %d", ErrFormat, len(b), want)
	}
	return b, err
}

// fragment returns the end of a file, which shares a block with others.
func (f *FS) fragment(index uint32, off, n uint64) ([]byte, error) {
	if index >= f.fragments {
		return nil, fmt.Errorf("%w: fragment %d of %d", ErrFormat, index, f.fragments)
	}
	const perBlock = metaLen / 16
	p, err := f.at(f.frag+8*uint64(index/perBlock), 8)
	if err != nil {
		return nil, err
	}
	m := meta{f, binary.LittleEndian.Uint64(p), int(index%perBlock) * 16}
	e, err := m.read(16)
	if err != nil {
		return nil, err
	}
	word := binary.LittleEndian.Uint32(e[8:])
	b, err := f.at(binary.LittleEndian.Uint64(e), uint64(word&^dataRaw))
	if err == nil && word&dataRaw == 0 {
		b, err = f.unpack(b, int(f.blockSize))
	}
	if err == nil && (off > uint64(len(b)) || n > uint64(len(b))-off) {
		err = fmt.Errorf("%w: a fragment ends", ErrFormat)
	}
	if err != nil {
		return nil, err
	}
	return b[off : off+n], nil
}
