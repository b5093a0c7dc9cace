//go:build linux && (arm64 || riscv64 || loong64)

package iperf3

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawPoll is poll(2) where there is ppoll(2) only: on workstations.
//
//go:nosplit
//go:norace
func rawPoll(fds []unix.PollFd, milliseconds int) (int, unix.Errno) {
	ts := unix.Timespec{Sec: int64(milliseconds / 1000), Nsec: int64(milliseconds%1000) * 1e6}
	timeout := unsafe.Pointer(&ts)
	if milliseconds < 0 {
		timeout = nil
	}
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)), uintptr(timeout), 0, 0, 0)
	return int(n), e
}
