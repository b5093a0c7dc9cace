//go:build linux && (amd64 || arm64)

package time64

import "golang.org/x/sys/unix"

// The plain calls have 64 bits here.
const sysClockSettime, sysUtimensat = 0, 0

const sysClockAdjtime = unix.SYS_CLOCK_ADJTIME

func setOld(o *unix.Timespec, ts timespec) { o.Sec, o.Nsec = ts.sec, ts.nsec }
