//go:build linux && !arm64 && !riscv64 && !loong64

package iperf3

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawPoll is poll(2); the caller is in the system-call state.
//
//go:nosplit
//go:norace
func rawPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_POLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(milliseconds))
	return int(n), e
}
