// Package time64 has the system calls that take a time from user space and
// that golang.org/x/sys/unix makes with 32-bit seconds on 32-bit systems: those
// end in 2038. The 64-bit ones came with Linux 5.1; older kernels get the old
// ones, as far as those reach.
package time64

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timespec is struct __kernel_timespec (include/uapi/linux/time_types.h): two
// words of 64 bits everywhere, in the machine's order.
type timespec struct{ sec, nsec int64 }

func from(t time.Time) timespec { return timespec{t.Unix(), int64(t.Nanosecond())} }

// old is ts as struct timespec, an error where that has no room for it.
func (ts timespec) old() (unix.Timespec, error) {
	o := unix.Timespec{}
	setOld(&o, ts)
	if int64(o.Sec) != ts.sec {
		return o, fmt.Errorf("%s is beyond this kernel's clock: %w", time.Unix(ts.sec, ts.nsec).UTC().Format(time.DateTime), unix.EOVERFLOW)
	}
	return o, nil
}

// SetRealtime steps CLOCK_REALTIME. It needs CAP_SYS_TIME; the monotonic clock
// is not touched.
func SetRealtime(t time.Time) error {
	ts := from(t)
	if sysClockSettime != 0 {
		_, _, e := unix.Syscall(sysClockSettime, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&ts)), 0)
		if e != unix.ENOSYS {
			return asError(e)
		}
	}
	o, err := ts.old()
	if err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &o)
}

// SetFileTimes sets the times of last access and last change of path, of the
// link itself where path is one.
func SetFileTimes(path string, access, change time.Time) error {
	at := [2]timespec{from(access), from(change)}
	if sysUtimensat != 0 {
		p, err := unix.BytePtrFromString(path)
		if err != nil {
			return err
		}
		dir := unix.AT_FDCWD
		_, _, e := unix.Syscall6(sysUtimensat, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&at)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		if e != unix.ENOSYS {
			return asError(e)
		}
	}
	var old [2]unix.Timespec
	for i, ts := range at {
		var err error
		if old[i], err = ts.old(); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, old[:], unix.AT_SYMLINK_NOFOLLOW)
}

func asError(e unix.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
