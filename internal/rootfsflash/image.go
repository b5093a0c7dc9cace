package rootfsflash

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"gwinit/internal/mtdimage"
)

// Errors of Check.
var (
	ErrNotRootfs = errors.New("that is no image of a root file system")
	ErrTooBig    = errors.New("it does not fit the partition")
)

// Offsets in the superblock of a squashfs 4 (Documentation/filesystems/squashfs.rst),
// little-endian, and its length in bytes.
const (
	superMajor = 28
	superUsed  = 40
	superLen   = 96
)

// Check returns what is written to a partition of that size for a file rootfs.bin,
// by the rules of the loader.
func Check(file []byte, partition uint32) (flash []byte, err error) {
	h, flash, err := mtdimage.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotRootfs, err)
	}
	want := mtdimage.RootfsHeader
	if h.Signature != want.Signature || h.Burn != want.Burn {
		return nil, fmt.Errorf("%w: it is %q for offset %#x of the flash", ErrNotRootfs, h.Signature, h.Burn)
	}
	if uint64(len(flash)) > uint64(partition) {
		return nil, fmt.Errorf("%w: %d bytes, and there are %d", ErrTooBig, len(flash), partition)
	}
	payload := flash[:len(flash)-2]
	if len(payload) < superLen || !bytes.HasPrefix(payload, []byte("hsqs")) || binary.LittleEndian.Uint16(payload[superMajor:]) != 4 {
		return nil, fmt.Errorf("%w: no squashfs 4 is in it", ErrNotRootfs)
	}
	if used := binary.LittleEndian.Uint64(payload[superUsed:]); used > uint64(len(payload)) {
		return nil, fmt.Errorf("%w: its file system has %d bytes, and %d are there", ErrNotRootfs, used, len(payload))
	}
	return flash, nil
}
