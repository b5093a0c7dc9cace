package sysadm

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

// devmem accesses a register once, in the width that was asked for, through a
// mapping: read(2) on /dev/mem copies bytes, and refuses device registers.
func (s system) devmem(_ context.Context, std applet.IO, args []string) error {
	if len(args) < 1 || len(args) > 3 {
		return applet.Usagef("needs an address")
	}
	addr, err := strconv.ParseUint(args[0], 0, 64)
	if err != nil {
		return applet.Usagef("%q is no address", args[0])
	}
	width := 32
	if len(args) > 1 {
		switch args[1] {
		case "8", "b":
			width = 8
		case "16", "h":
			width = 16
		case "32", "w":
		case "64", "l":
			width = 64
		default:
			return applet.Usagef("a width is 8, 16, 32 or 64, not %q", args[1])
		}
	}
	if addr%uint64(width/8) != 0 {
		return applet.Usagef("%#x is not aligned for %d bits", addr, width)
	}
	var value uint64
	if len(args) == 3 {
		if value, err = strconv.ParseUint(args[2], 0, width); err != nil {
			return applet.Usagef("%q is no value of %d bits", args[2], width)
		}
	}
	mode, prot := os.O_RDONLY, unix.PROT_READ
	if len(args) == 3 {
		mode, prot = os.O_RDWR, prot|unix.PROT_WRITE
	}
	f, err := os.OpenFile(filepath.Join(s.root, "/dev/mem"), mode|unix.O_SYNC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	page := uint64(os.Getpagesize())
	base := addr &^ (page - 1)
	mem, err := unix.Mmap(int(f.Fd()), int64(base), int(page), prot, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %#x: %w", base, err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	at := mem[addr-base:]
	if len(args) == 3 {
		store(at, width, value)
		return nil
	}
	_, err = fmt.Fprintf(std.Out, "0x%0*X\n", width/4, load(at, width))
	return err
}

// load and store make one access of their width: the compiler neither splits
// nor drops an atomic one, nor (for which Go has no atomics) one through a
// volatile-like noinline call.
func load(b []byte, width int) uint64 {
	switch width {
	case 8:
		return uint64(load8(&b[0]))
	case 16:
		return uint64(load16((*uint16)(unsafe.Pointer(&b[0]))))
	case 32:
		return uint64(atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[0]))))
	}
	// Two halves on a 32-bit CPU, which has no wider access.
	return binary.NativeEndian.Uint64(b)
}

func store(b []byte, width int, v uint64) {
	switch width {
	case 8:
		store8(&b[0], uint8(v))
	case 16:
		store16((*uint16)(unsafe.Pointer(&b[0])), uint16(v))
	case 32:
		atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[0])), uint32(v))
	default:
		binary.NativeEndian.PutUint64(b, v)
	}
}

//go:noinline
func load8(p *uint8) uint8 { return *p }

//go:noinline
func load16(p *uint16) uint16 { return *p }

//go:noinline
func store8(p *uint8, v uint8) { *p = v }

//go:noinline
func store16(p *uint16, v uint16) { *p = v }
