package emu

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

type pollfd struct {
	fd      int32
	events  int16
	revents int16
}

const (
	pollIn  = 1
	pollOut = 4
)

// hostPoll waits for descriptors of the host; a negative timeout is for ever.
func hostPoll(fds []pollfd, timeout time.Duration) (int, syscall.Errno) {
	ts := syscall.NsecToTimespec(int64(max(timeout, 0)))
	tp := &ts
	if timeout < 0 {
		tp = nil
	}
	n, _, e := syscall.Syscall6(hostPPOLL, uintptr(unsafe.Pointer(unsafe.SliceData(fds))), uintptr(len(fds)),
		uintptr(unsafe.Pointer(tp)), 0, 0, 0)
	runtime.KeepAlive(fds)
	return int(n), e
}

// hostReady reports whether a descriptor has one of the events, an error or an
// end.
func hostReady(fd int, events int16) bool {
	p := []pollfd{{fd: int32(fd), events: events}}
	n, e := hostPoll(p, 0)
	return n > 0 || e != 0
}

// pollHost looks for up to timeout at what the guest's threads wait for, at
// its children and at signals from outside, and wakes who can go on.
func (m *Machine) pollHost(timeout time.Duration) bool {
	fds := []pollfd{{fd: int32(m.wakeR), events: pollIn}}
	type span struct {
		t      *thread
		lo, hi int
	}
	var spans []span
	for _, t := range m.all {
		if t.state == threadWaiting && len(t.wait.fds) != 0 {
			spans = append(spans, span{t, len(fds), len(fds) + len(t.wait.fds)})
			fds = append(fds, t.wait.fds...)
		}
	}
	for _, c := range m.children {
		if c.pidfd >= 0 {
			fds = append(fds, pollfd{fd: int32(c.pidfd), events: pollIn})
		}
	}
	n, e := hostPoll(fds, timeout)
	if n <= 0 || e != 0 {
		return false
	}
	woke := false
	if fds[0].revents != 0 {
		var b [64]byte
		n, _ := syscall.Read(m.wakeR, b[:])
		for _, sig := range b[:max(n, 0)] {
			m.send(nil, uint32(sig), siginfo{code: siUSER})
		}
		woke = true
	}
	for _, s := range spans {
		for _, p := range fds[s.lo:s.hi] {
			if p.revents != 0 && s.t.state == threadWaiting {
				m.wakeUp(s.t, wakeEvent)
				woke = woke || s.t.state == threadReady
				break
			}
		}
	}
	m.tellChildren()
	return woke || len(m.queue) > 0
}
