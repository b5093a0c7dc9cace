package seed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System is the real Kernel.
type System struct{}

const device = "/dev/urandom"

// Random implements Kernel.
func (System) Random(b []byte) error {
	for {
		n, err := unix.Getrandom(b, unix.GRND_NONBLOCK) // up to 256 bytes come whole
		switch {
		case err == nil && n == len(b):
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			return ErrNotReady
		case err != nil:
			return fmt.Errorf("getrandom: %w", err)
		default:
			return fmt.Errorf("getrandom: %d bytes of %d", n, len(b))
		}
	}
}

// Mix implements Kernel.
func (System) Mix(b []byte) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close())
}

// Credit implements Kernel.
func (System) Credit(b []byte) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// struct rand_pool_info (include/uapi/linux/random.h): two ints, bytes.
	info := binary.NativeEndian.AppendUint32(nil, uint32(8*len(b)))
	info = binary.NativeEndian.AppendUint32(info, uint32(len(b)))
	info = append(info, b...)
	defer clear(info)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&info[0])))
	if e != 0 {
		return fmt.Errorf("give the kernel the seed: %w", e)
	}
	return nil
}
