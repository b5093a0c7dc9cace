//go:build linux && (mips || mipsle || 386 || arm)

package iperf3

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// clock is the monotonic clock, for headers. The call has it in seconds already,
// and nanotime would have to be divided, for which the CPU has no instruction.
//
//go:nosplit
//go:norace
func clock() (sec, usec uint32) {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0)
	return uint32(ts.Sec), uint32(ts.Nsec) / 1000
}
