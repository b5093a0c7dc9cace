// Package ethtool asks a network driver about itself and switches its checksum
// offloads, by the ioctl SIOCETHTOOL (linux/ethtool.h): the gateway's kernel has
// no ethtool netlink. It knows no driver; what a counter means is said elsewhere.
package ethtool

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Commands of linux/ethtool.h.
const (
	cmdDriver   = 0x03 // ETHTOOL_GDRVINFO
	cmdStrings  = 0x1b // ETHTOOL_GSTRINGS
	cmdStats    = 0x1d // ETHTOOL_GSTATS
	cmdSetCount = 0x37 // ETHTOOL_GSSET_INFO
)

// Flag is an offload that is on or off, with the command that reads it; the
// next command sets it. These stand for one or for several of the kernel's
// features, which ETHTOOL_GFEATURES lists: the kernel knows better which.
type Flag uint32

// The flags.
const (
	RxChecksum Flag = 0x14 // ETHTOOL_GRXCSUM
	TxChecksum Flag = 0x16 // ETHTOOL_GTXCSUM
)

// setStats is ETH_SS_STATS, the set of the counters' names.
const setStats = 1

const (
	nameLen = 32  // ETH_GSTRING_LEN
	infoLen = 196 // struct ethtool_drvinfo
	// maxStats bounds what a driver is believed to have.
	maxStats = 4096
	// slack is room behind what a driver said it needs: the kernel asks it a
	// second time, and may write that much.
	slack = 1024
)

// Device is a network interface.
type Device struct {
	Name  string
	Order binary.ByteOrder // the kernel's
	// Call carries out a command in place.
	Call func(name string, command []byte) error
}

// Open returns the interface of that name, of the kernel this process runs on.
func Open(name string) *Device { return &Device{name, nl.NativeEndian(), ioctl} }

// do makes a command of a number and words behind it, in a buffer of size
// bytes, and has it carried out.
func (d *Device) do(what string, size int, words ...uint32) ([]byte, error) {
	b := make([]byte, size+slack)
	for i, w := range words {
		d.Order.PutUint32(b[4*i:], w)
	}
	if err := d.Call(d.Name, b); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", what, d.Name, err)
	}
	return b[:size], nil
}

// Driver is who drives an interface.
type Driver struct{ Name, Version string }

// Driver returns the driver's name and version, which for most is the kernel's.
func (d *Device) Driver() (Driver, error) {
	b, err := d.do("driver", infoLen, cmdDriver)
	if err != nil {
		return Driver{}, err
	}
	return Driver{Name: text(b[4:][:nameLen]), Version: text(b[4+nameLen:][:nameLen])}, nil
}

// Stat is one of the driver's own counters.
type Stat struct {
	Name  string
	Value uint64
}

// Stats returns the driver's counters in its order; none if it has none.
func (d *Device) Stats() ([]Stat, error) {
	// cmd, reserved, a mask of the sets, 64 bits in the kernel's order, then a
	// word for each of them.
	var mask [8]byte
	d.Order.PutUint64(mask[:], 1<<setStats)
	b, err := d.do("counters", 20, cmdSetCount, 0, d.Order.Uint32(mask[:]), d.Order.Uint32(mask[4:]))
	if err != nil {
		return nil, err
	}
	if d.Order.Uint64(b[8:]) == 0 {
		return nil, nil
	}
	n := d.Order.Uint32(b[16:])
	if n > maxStats {
		return nil, fmt.Errorf("counters of %s: the driver says it has %d", d.Name, n)
	}
	names, err := d.do("names of counters", 12+int(n)*nameLen, cmdStrings, setStats, n)
	if err != nil {
		return nil, err
	}
	values, err := d.do("counters", 8+int(n)*8, cmdStats, n)
	if err != nil {
		return nil, err
	}
	// The kernel says how many it gave; other than n after a reset in between.
	n = min(n, d.Order.Uint32(names[8:]), d.Order.Uint32(values[4:]))
	all := make([]Stat, n)
	for i := range all {
		all[i] = Stat{text(names[12+i*nameLen:][:nameLen]), d.Order.Uint64(values[8+i*8:])}
	}
	return all, nil
}

// Flag tells whether an offload is on.
func (d *Device) Flag(f Flag) (bool, error) {
	b, err := d.do("offload", 8, uint32(f))
	if err != nil {
		return false, err
	}
	return d.Order.Uint32(b[4:]) != 0, nil
}

// SetFlag switches an offload. An error wraps unix.EOPNOTSUPP if the driver
// has none; whether it did what it was told is for Flag.
func (d *Device) SetFlag(f Flag, on bool) error {
	v := uint32(0)
	if on {
		v = 1
	}
	_, err := d.do("set offload", 8, uint32(f)+1, v)
	return err
}

// text is a name up to its NUL.
func text(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// ifreq is struct ifreq with a pointer in it: its union has 16 bytes on a
// 32-bit kernel and 24 on a 64-bit one.
type ifreq struct {
	name    [unix.IFNAMSIZ]byte
	command unsafe.Pointer
	_       [24 - unsafe.Sizeof(uintptr(0))]byte
}

func ioctl(name string, command []byte) error {
	var r ifreq
	if len(name) >= len(r.name) {
		return unix.ENODEV
	}
	copy(r.name[:], name)
	r.command = unsafe.Pointer(&command[0])
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(&r)
	if errno != 0 {
		return errno
	}
	return nil
}
