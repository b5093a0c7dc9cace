package selftest

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// time64 looks for the clock with 64-bit seconds: without it, the year 2038 is
// a wall.
func time64(e *env) {
	const name = "64-bit time"
	var ts [2]int64 // seconds, nanoseconds
	err := call(unix.SYS_CLOCK_GETTIME64, unix.CLOCK_REALTIME, uintptr(unsafe.Pointer(&ts)))
	if err != nil {
		e.say(name, Info, "clock_gettime64: %v", err)
		return
	}
	off := time.Until(time.Unix(ts[0], ts[1]))
	e.judge(name, off.Abs() < 2*time.Second, "clock_gettime64 is %v off the clock of the program", off.Round(time.Millisecond))
}
