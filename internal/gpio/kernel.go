//go:build linux

package gpio

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System is the real kernel.
type System struct{}

// Open implements Kernel.
func (System) Open(path string) (int, error) {
	return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// Ioctl implements Kernel.
func (System) Ioctl(fd int, request uint32, arg []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&arg[0])))
	runtime.KeepAlive(arg)
	if errno != 0 {
		return errno
	}
	return nil
}

// Close implements Kernel.
func (System) Close(fd int) error { return unix.Close(fd) }
