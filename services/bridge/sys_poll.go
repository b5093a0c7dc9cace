//go:build linux && !arm64 && !riscv64 && !loong64

package bridge

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawPoll is poll(2) past entersyscall: it holds the P while it waits.
// milliseconds must be small.
func rawPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_POLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(milliseconds))
	return int(n), e
}

// sysPoll is poll(2) as the runtime wants a call that may wait long.
func sysPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	n, _, e := unix.Syscall(unix.SYS_POLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(milliseconds))
	return int(n), e
}
