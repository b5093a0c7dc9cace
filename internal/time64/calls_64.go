//go:build linux && (amd64 || arm64)

package time64

import "golang.org/x/sys/unix"

// The plain calls have 64 bits here.
const sysClockSettime, sysUtimensat = 0, 0

func setOld(o *unix.Timespec, ts timespec) { o.Sec, o.Nsec = ts.sec, ts.nsec }
