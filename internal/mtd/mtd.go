// Package mtd finds flash partitions and reads them. What erases and writes one is
// here, too, and writes nothing by itself.
//
// Partitions are found by their label, because their number differs between a
// gateway and its emulation. Paths of devices come without an assumption that
// devtmpfs made the nodes.
package mtd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNotFound is returned when no partition has the label.
var ErrNotFound = errors.New("no such mtd partition")

// Partition is a line of /proc/mtd.
type Partition struct {
	Index      int
	Label      string
	SizeBytes  uint32
	EraseBytes uint32 // size of an erase block
}

// Name is the kernel's name, such as mtd3. mount(2) takes it as the source of a
// JFFS2.
func (p Partition) Name() string { return "mtd" + strconv.Itoa(p.Index) }

// CharDevice is the path, without root, of the device that reads and ioctls go
// to. Reading it does not fill the page cache.
func (p Partition) CharDevice() string { return "/dev/" + p.Name() }

// BlockDevice is the path, without root, of the device that a squashfs is
// mounted from.
func (p Partition) BlockDevice() string { return "/dev/mtdblock" + strconv.Itoa(p.Index) }

// maxProc bounds what is read of /proc/mtd: a line is about 40 bytes.
const maxProc = 16 << 10

// List returns the partitions of the kernel below root ("" or "/" on the box).
// A kernel without MTD has none, and no error.
func List(root string) ([]Partition, error) {
	f, err := os.Open(filepath.Join("/", root, "/proc/mtd"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProc))
	if err != nil {
		return nil, err
	}
	return Parse(b), nil
}

// Find returns the partition of that label, or ErrNotFound. The first one wins
// when two have it.
func Find(root, label string) (Partition, error) {
	all, err := List(root)
	if err != nil {
		return Partition{}, err
	}
	for _, p := range all {
		if p.Label == label {
			return p, nil
		}
	}
	return Partition{}, fmt.Errorf("%w: %q", ErrNotFound, label)
}

// Parse reads the text of /proc/mtd (drivers/mtd/mtdcore.c, mtd_proc_show):
// `mtd%d: %8.8llx %8.8x "%s"`, one a line after a heading. Lines that are not
// of this form, or of a size that 32 bits do not hold, are left out.
func Parse(text []byte) []Partition {
	var all []Partition
	for line := range bytes.Lines(text) {
		if p, ok := parseLine(bytes.TrimRight(line, "\n")); ok {
			all = append(all, p)
		}
	}
	return all
}

func parseLine(line []byte) (p Partition, ok bool) {
	line, ok = bytes.CutPrefix(line, []byte("mtd"))
	if !ok {
		return p, false
	}
	index, rest, ok := bytes.Cut(line, []byte(": "))
	if !ok {
		return p, false
	}
	size, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return p, false
	}
	erase, label, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(label) < 2 || label[0] != '"' || label[len(label)-1] != '"' {
		return p, false
	}
	i, err := strconv.ParseUint(string(index), 10, 16)
	if err != nil {
		return p, false
	}
	s, err := strconv.ParseUint(string(size), 16, 32)
	if err != nil {
		return p, false
	}
	e, err := strconv.ParseUint(string(erase), 16, 32)
	if err != nil {
		return p, false
	}
	return Partition{Index: int(i), Label: string(label[1 : len(label)-1]), SizeBytes: uint32(s), EraseBytes: uint32(e)}, true
}

// Majors of the devices (Documentation/admin-guide/devices.txt). The character
// device has two minors for each partition, the odd one read-only.
const (
	charMajor  = 90
	blockMajor = 31
)

// Nodes makes the partition's device nodes below root where devtmpfs did not.
func (p Partition) Nodes(root string) error {
	err := node(filepath.Join("/", root, p.CharDevice()), unix.S_IFCHR|0o600, unix.Mkdev(charMajor, uint32(2*p.Index)))
	if err != nil {
		return err
	}
	return node(filepath.Join("/", root, p.BlockDevice()), unix.S_IFBLK|0o600, unix.Mkdev(blockMajor, uint32(p.Index)))
}

func node(path string, mode uint32, dev uint64) error {
	err := unix.Mknod(path, mode, int(dev))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mknod", Path: path, Err: err}
	}
	return nil
}

// Open opens the partition to read it, with its node made when it is missing.
func (p Partition) Open(root string) (*os.File, error) {
	f, err := os.Open(filepath.Join("/", root, p.CharDevice()))
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := p.Nodes(root); err != nil {
		return nil, err
	}
	return os.Open(filepath.Join("/", root, p.CharDevice()))
}

// Types of flash, as Info has them (include/uapi/mtd/mtd-abi.h).
const (
	TypeRAM = 1
	TypeNOR = 3
)

// Info is struct mtd_info_user of include/uapi/mtd/mtd-abi.h.
type Info struct {
	Type       uint8
	Flags      uint32
	SizeBytes  uint32
	EraseBytes uint32
	WriteBytes uint32 // 1 on NOR
	OOBBytes   uint32
	_          uint64
}

// ReadInfo asks the driver behind an open character device.
func ReadInfo(f *os.File) (Info, error) {
	var info Info
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.MEMGETINFO, uintptr(unsafe.Pointer(&info)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return Info{}, &fs.PathError{Op: "MEMGETINFO", Path: f.Name(), Err: errno}
	}
	return info, nil
}

// OpenWrite opens the partition to erase and write it. Nothing is cached.
func (p Partition) OpenWrite(root string) (*os.File, error) {
	return os.OpenFile(filepath.Join("/", root, p.CharDevice()), os.O_RDWR|os.O_SYNC, 0)
}

// Writer is an open character device that is erased and written. ReadAt and
// WriteAt are those of the file: what is written has to be erased before.
type Writer struct{ *os.File }

// eraseInfo is struct erase_info_user of include/uapi/mtd/mtd-abi.h.
type eraseInfo struct{ start, length uint32 }

// Erase makes n bytes from at on all FF. Both are multiples of the erase block. A
// chip that is locked is unlocked, where its driver can do that.
func (w Writer) Erase(at, n uint32) error {
	e := eraseInfo{at, n}
	for _, request := range []struct {
		name string
		code uintptr
	}{{"MEMUNLOCK", unix.MEMUNLOCK}, {"MEMERASE", unix.MEMERASE}} {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, w.Fd(), request.code, uintptr(unsafe.Pointer(&e)))
		runtime.KeepAlive(w.File)
		if errno != 0 && request.code == unix.MEMERASE {
			return &fs.PathError{Op: request.name, Path: w.Name(), Err: errno}
		}
	}
	return nil
}
