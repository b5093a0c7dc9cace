//go:build linux && (arm64 || riscv64 || loong64)

package bridge

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// These architectures, which are workstations here, have ppoll only.

func rawPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	ts := unix.NsecToTimespec(int64(milliseconds) * 1e6)
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return int(n), e
}

func sysPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	var timeout unsafe.Pointer
	if milliseconds >= 0 {
		ts := unix.NsecToTimespec(int64(milliseconds) * 1e6)
		timeout = unsafe.Pointer(&ts)
	}
	n, _, e := unix.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(timeout), 0, 0, 0)
	return int(n), e
}
