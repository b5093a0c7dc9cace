package filelock

import (
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// Lock takes a file until it is closed, or fails. What is locked is a byte far
// behind its end: a lock of Windows keeps others from reading, too.
func Lock(f *os.File) error {
	at := windows.Overlapped{Offset: math.MaxUint32, OffsetHigh: math.MaxInt32}
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
}
