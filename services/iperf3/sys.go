//go:build linux

package iperf3

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the data path. None can block, but for rawPoll.

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

//go:linkname nanotime runtime.nanotime
func nanotime() int64

//go:nosplit
//go:norace
func rawRecv(fd int32, p []byte, flags uintptr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_DONTWAIT|flags, 0, 0)
	return int(n), e
}

//go:nosplit
//go:norace
func rawSend(fd int32, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

//go:nosplit
//go:norace
func rawReceiveMany(fd int32, m *[batch]datagram) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), batch, unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

// again tells whether e only means "not now".
//
//go:nosplit
//go:norace
func again(e unix.Errno) bool {
	return e == unix.EAGAIN || e == unix.EINTR || e == unix.ENOBUFS || e == unix.ENOMEM
}
