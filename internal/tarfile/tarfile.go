// Package tarfile reads and writes tar archives. It reads the formats of old
// tar, ustar, pax (POSIX.1-2001) and GNU, and writes GNU's, which every tar
// reads, BusyBox's too.
//
// It knows no sparse files, and neither reads nor writes names of owners, only
// their numbers. It is not archive/tar because that takes 22 KiB of flash more.
package tarfile

import (
	"errors"
	"io/fs"
	"time"
)

// Kinds of entries: the type flag of their header.
const (
	File     byte = '0'
	HardLink byte = '1'
	Symlink  byte = '2'
	Char     byte = '3'
	Block    byte = '4'
	Dir      byte = '5'
	FIFO     byte = '6'
)

// Flags that are about the entry that follows, or all that follow.
const (
	longName  byte = 'L' // GNU: its contents are the name
	longLink  byte = 'K' // GNU: the link's target
	paxNext   byte = 'x'
	paxGlobal byte = 'g'
	sparse    byte = 'S' // GNU
)

// Header describes an entry.
type Header struct {
	Kind byte
	// Name is as the archive has it, with a slash at the end for a folder. It
	// is from outside: it may be absolute or lead upwards.
	Name string
	// Link is a link's target.
	Link string
	// Mode has the kind and the permissions.
	Mode     fs.FileMode
	UID, GID int
	// Size is that of the contents, in bytes. It is 0 but for files.
	Size    int64
	ModTime time.Time
	// Major and Minor are a device's numbers.
	Major, Minor uint32
}

// What is wrong with an archive.
var (
	// ErrFormat is that of everything that is no tar archive, or a damaged one.
	ErrFormat = errors.New("no tar archive, or a damaged one")
	// ErrSparse is that of an archive that leaves holes of files out.
	ErrSparse = errors.New("the archive has sparse files: pack them without -S")
	// ErrTooLong is for more contents than the header said.
	ErrTooLong = errors.New("more contents than the header says")
)

const blockSize = 512

// block is a header as it is in the archive.
type block [blockSize]byte

// The fields of a header, which all formats have at the same place.
func (b *block) name() []byte    { return b[0:100] }
func (b *block) mode() []byte    { return b[100:108] }
func (b *block) uid() []byte     { return b[108:116] }
func (b *block) gid() []byte     { return b[116:124] }
func (b *block) size() []byte    { return b[124:136] }
func (b *block) modTime() []byte { return b[136:148] }
func (b *block) sum() []byte     { return b[148:156] }
func (b *block) kind() *byte     { return &b[156] }
func (b *block) link() []byte    { return b[157:257] }
func (b *block) magic() []byte   { return b[257:265] }
func (b *block) major() []byte   { return b[329:337] }
func (b *block) minor() []byte   { return b[337:345] }
func (b *block) prefix() []byte  { return b[345:500] } // ustar and pax

// What magic says: GNU's has no prefix and no version.
const (
	magicUSTAR = "ustar\x0000"
	magicGNU   = "ustar  \x00"
)

// sums are the header's sums with its own field as spaces, of unsigned bytes as
// the standard has it, and of signed ones as some old tars made it.
func (b *block) sums() (unsigned, signed int64) {
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return unsigned, signed
}

// kinds are the kinds' bits of a mode.
var kinds = map[byte]fs.FileMode{
	Symlink: fs.ModeSymlink, Char: fs.ModeDevice | fs.ModeCharDevice, Block: fs.ModeDevice, Dir: fs.ModeDir, FIFO: fs.ModeNamedPipe,
}

// special are the bits beside the permissions.
var special = []struct {
	bit  int64
	mode fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}
