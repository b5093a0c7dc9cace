//go:build linux

package runtime

import (
	"internal/goarch"
	"internal/runtime/syscall/linux"
	"unsafe"
)

// epollOldWait says that the kernel has no epoll_pwait2 (5.11).
var epollOldWait bool

// epollWait waits for events for delay nanoseconds, or for waitms milliseconds
// where that is negative or zero (for ever, not at all).
func epollWait(epfd int32, events []linux.EpollEvent, waitms int32, delay int64) (n int32, errno uintptr) {
	if goarch.IsMips != 0 && waitms > 0 {
		if !epollOldWait {
			var ts timespec
			ts.setNsec(min(delay, 1e15))
			const sysEpollPwait2 = 4441
			r1, _, e := linux.Syscall6(sysEpollPwait2, uintptr(epfd), uintptr(noescape(unsafe.Pointer(&events[0]))), uintptr(len(events)), uintptr(noescape(unsafe.Pointer(&ts))), 0, 0)
			if e != _ENOSYS {
				return int32(r1), e
			}
			epollOldWait = true
		}
		if delay < 1e15 {
			waitms = int32((delay + 999999) / 1e6)
		}
	}
	return linux.EpollWait(epfd, events, int32(len(events)), waitms)
}
