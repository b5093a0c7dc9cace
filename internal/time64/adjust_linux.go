package time64

import (
	"fmt"
	"math/bits"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timex is struct __kernel_timex (include/uapi/linux/timex.h), which every
// system with 64-bit times has in this form.
type timex struct {
	modes                                 uint32
	_                                     int32
	offset, freq, maxError, estError      int64 // us, 2^-16 ppm, us, us
	status, _                             int32
	constant, precision, tolerance        int64
	sec, usec                             int64
	tick, ppsFreq, jitter                 int64
	shift, _                              int32
	stability, jitters, calibrated, fails int64
	exceeded                              int64
	tai                                   int32
	_                                     [11]int32
}

// Bits of timex.
const (
	adjOffset   = 0x1
	adjMaxError = 0x4
	adjEstError = 0x8
	adjStatus   = 0x10
	adjConstant = 0x20
	staPLL      = 0x1
	staUnsync   = 0x40
)

// MaxSlew is the largest offset that the kernel takes away gradually
// (MAXPHASE, include/linux/timex.h).
const MaxSlew = 500 * time.Millisecond

// Slew has the kernel's clock, which is behind true time by offset, come up to
// it gradually, and learn from it how fast it runs (RFC 5905 appendix A.5.6.6,
// the kernel's phase-locked loop). It also says that the clock is synchronised,
// with an error of so much: Synchronised tells everybody, until the error that
// the kernel adds with time passes 16 s. poll is the time to the next call. It
// needs CAP_SYS_TIME and Linux 5.1; more than MaxSlew is cut to that.
func Slew(offset, maxError, poll time.Duration) error {
	// The kernel's time constant is the base-2 logarithm of the interval, to
	// which it adds 4 by itself.
	log2 := bits.Len64(uint64(max(poll/time.Second, 1))) - 1
	t := timex{
		modes:    adjOffset | adjMaxError | adjEstError | adjStatus | adjConstant,
		offset:   min(max(offset, -MaxSlew), MaxSlew).Microseconds(),
		maxError: maxError.Microseconds(),
		estError: maxError.Microseconds(),
		status:   staPLL,
		constant: int64(max(log2-4, 0)),
	}
	if err := adjtime(&t); err != nil {
		return fmt.Errorf("adjust the clock: %w", err)
	}
	return nil
}

// Synchronised tells whether somebody keeps the clock by true time: a network
// time client said so, and not too long ago. A clock that was only set, from a
// file or by hand, is not. It needs no privilege.
func Synchronised() (bool, error) {
	var t timex
	if err := adjtime(&t); err != nil {
		return false, fmt.Errorf("read the clock's state: %w", err)
	}
	return t.status&staUnsync == 0, nil
}

func adjtime(t *timex) error {
	_, _, e := unix.Syscall(sysClockAdjtime, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(t)), 0)
	return asError(e)
}
