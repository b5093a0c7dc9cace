//go:build linux && (mips || mipsle)

package time64

import "golang.org/x/sys/unix"

// Numbers of arch/mips/kernel/syscalls/syscall_o32.tbl.
const (
	sysClockSettime = 4404 // clock_settime64
	sysClockAdjtime = 4405 // clock_adjtime64
	sysUtimensat    = 4412 // utimensat_time64
)

func setOld(o *unix.Timespec, ts timespec) { o.Sec, o.Nsec = int32(ts.sec), int32(ts.nsec) }
