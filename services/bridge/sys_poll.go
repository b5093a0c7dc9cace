//go:build linux && !arm64 && !riscv64 && !loong64

package bridge

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawPoll is poll(2) past entersyscall. Whoever waits with it holds the P,
// unless entersyscall was called before.
//
//go:nosplit
//go:norace
func rawPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_POLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(milliseconds))
	return int(n), e
}
