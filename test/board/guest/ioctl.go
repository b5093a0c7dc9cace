package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func ioctl(fd int, request uintptr, arg *[128]byte) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(arg))); errno != 0 {
		return errno
	}
	return nil
}
