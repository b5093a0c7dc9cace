//go:build linux && (mips || mipsle)

package time64

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A nanosecond out of range is refused before anything else, so that a call
// that arrives is told from one that does not exist, and no clock moves.
func TestClockCallExists(t *testing.T) {
	ts := timespec{1, 2e9}
	if _, _, e := unix.Syscall(sysClockSettime, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&ts)), 0); e != unix.EINVAL {
		t.Errorf("clock_settime64 with 2 s of nanoseconds: %v, want EINVAL", e)
	}
}
