package emu

import (
	"encoding/binary"
	"syscall"
)

// timespec reads one as nanoseconds. The 64-bit one of a big-endian machine
// has its nanoseconds in the last four bytes; the kernel ignores the padding
// before them for 32-bit callers.
func (m *Machine) timespec(addr uint32, time64 bool) (int64, syscall.Errno) {
	be := binary.BigEndian
	n := uint32(8)
	if time64 {
		n = 16
	}
	b, ok := m.mem.bytes(addr, n, permRead)
	if !ok {
		return 0, syscall.EFAULT
	}
	sec, nsec := int64(int32(be.Uint32(b))), int64(int32(be.Uint32(b[4:])))
	if time64 {
		sec, nsec = int64(be.Uint64(b)), int64(be.Uint32(b[12:]))
	}
	if sec < 0 || nsec < 0 || nsec >= 1e9 {
		return 0, syscall.EINVAL
	}
	if sec > 1<<33 {
		return 1 << 62, 0
	}
	return sec*1e9 + nsec, 0
}

func (m *Machine) putTimespec(addr uint32, ns int64, time64 bool) syscall.Errno {
	be := binary.BigEndian
	n := uint32(8)
	if time64 {
		n = 16
	}
	b, ok := m.mem.bytes(addr, n, permWrite)
	if !ok {
		return syscall.EFAULT
	}
	if time64 {
		be.PutUint64(b, uint64(ns/1e9))
		be.PutUint64(b[8:], uint64(ns%1e9))
		return 0
	}
	be.PutUint32(b, uint32(ns/1e9))
	be.PutUint32(b[4:], uint32(ns%1e9))
	return 0
}

// clock reads a clock in ns.
func (m *Machine) clock(t *thread, id uint32) (int64, syscall.Errno) {
	switch id {
	case 0, 5, 11:
		return m.realtime(), 0
	case 1, 4, 6, 7:
		return m.monotonic(), 0
	case 2:
		return m.cpuNanos(m.count.Instructions), 0
	case 3:
		return m.cpuNanos(t.executed), 0
	}
	return 0, syscall.EINVAL
}

func sysClockGettime(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	ns, e := m.clock(t, a[0])
	if e != 0 {
		return 0, e
	}
	return 0, m.putTimespec(a[1], ns, false)
}

func sysClockGettime64(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	ns, e := m.clock(t, a[0])
	if e != 0 {
		return 0, e
	}
	return 0, m.putTimespec(a[1], ns, true)
}

func sysClockGetres(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if _, e := m.clock(t, a[0]); e != 0 {
		return 0, e
	}
	if a[1] == 0 {
		return 0, 0
	}
	return 0, m.putTimespec(a[1], 1, false)
}

func sysGettimeofday(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[0] == 0 {
		return 0, 0
	}
	now := m.realtime()
	if !m.mem.store32(a[0], uint32(now/1e9)) || !m.mem.store32(a[0]+4, uint32(now%1e9/1e3)) {
		return 0, syscall.EFAULT
	}
	return 0, 0
}

// sleep blocks t until the monotonic time until; rem, where not 0, receives
// what is left when a signal ends it.
func (m *Machine) sleep(t *thread, until int64, rem uint32, time64 bool) (uint32, syscall.Errno) {
	return t.block(wait{deadline: max(until, 1)}, false, func(why wake) (uint32, syscall.Errno) {
		if why == wakeTimeout {
			return 0, 0
		}
		if rem != 0 {
			if e := m.putTimespec(rem, max(0, until-m.monotonic()), time64); e != 0 {
				return 0, e
			}
		}
		return 0, syscall.EINTR
	})
}

func sysNanosleep(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	ns, e := m.timespec(a[0], false)
	if e != 0 {
		return 0, e
	}
	return m.sleep(t, m.monotonic()+ns, a[1], false)
}

func sysClockNanosleep(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.clockNanosleep(t, a, false)
}

func sysClockNanosleep64(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.clockNanosleep(t, a, true)
}

func (m *Machine) clockNanosleep(t *thread, a *[8]uint32, time64 bool) (uint32, syscall.Errno) {
	ns, e := m.timespec(a[2], time64)
	if e != 0 {
		return 0, e
	}
	now, e := m.clock(t, a[0])
	if e != 0 {
		return 0, e
	}
	const absolute = 1
	if a[1]&absolute == 0 {
		return m.sleep(t, m.monotonic()+ns, a[3], time64)
	}
	return m.sleep(t, ns+m.monotonic()-now, 0, time64)
}

func (m *Machine) addTimer(tm *timer) uint32 {
	tm.id = m.nextTimer
	m.nextTimer++
	m.timers[tm.id] = tm
	return tm.id
}

func sysTimerCreate(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	const threadID = 4
	tm := &timer{sig: sigALRM}
	switch a[0] {
	case 0, 1, 7:
	case 2:
		tm.cpu = true
	case 3:
		tm.cpu, tm.of = true, t
	default:
		return 0, syscall.EINVAL
	}
	if a[1] != 0 {
		b, ok := m.mem.bytes(a[1], 16, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		be := binary.BigEndian
		tm.value, tm.sig = be.Uint32(b), be.Uint32(b[4:])
		if be.Uint32(b[8:]) == threadID {
			if tm.to = m.thread(be.Uint32(b[12:])); tm.to == nil {
				return 0, syscall.EINVAL
			}
		}
	}
	if !m.mem.ok(a[2], 4, permWrite) {
		return 0, syscall.EFAULT
	}
	m.mem.store32(a[2], m.addTimer(tm))
	return 0, 0
}

func sysTimerSettime(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.timerSettime(a, false)
}

func sysTimerSettime64(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.timerSettime(a, true)
}

func (m *Machine) timerSettime(a *[8]uint32, time64 bool) (uint32, syscall.Errno) {
	tm := m.timers[a[0]]
	if tm == nil {
		return 0, syscall.EINVAL
	}
	size := uint32(8)
	if time64 {
		size = 16
	}
	interval, e := m.timespec(a[2], time64)
	if e != 0 {
		return 0, e
	}
	value, e := m.timespec(a[2]+size, time64)
	if e != 0 {
		return 0, e
	}
	tm.arm(m, value, interval, a[1]&1 != 0)
	return 0, 0
}

func (tm *timer) arm(m *Machine, value, interval int64, absolute bool) {
	tm.next, tm.interval = 0, interval
	if value != 0 {
		tm.next = value
		if !absolute {
			tm.next += m.timerNow(tm)
		}
	}
}

func sysTimerDelete(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if m.timers[a[0]] == nil {
		return 0, syscall.EINVAL
	}
	delete(m.timers, a[0])
	return 0, 0
}

func sysSetitimer(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	sigs := []uint32{sigALRM, sigVTA, sigPROF}
	if a[0] >= uint32(len(sigs)) {
		return 0, syscall.EINVAL
	}
	var tm *timer
	for _, o := range m.timers {
		if o.plain && o.sig == sigs[a[0]] {
			tm = o
		}
	}
	if tm == nil {
		tm = &timer{sig: sigs[a[0]], plain: true, cpu: a[0] != 0}
		m.addTimer(tm)
	}
	be := binary.BigEndian
	if a[2] != 0 {
		b, ok := m.mem.bytes(a[2], 16, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		left := int64(0)
		if tm.next != 0 {
			left = max(0, tm.next-m.timerNow(tm)) / 1e3
		}
		be.PutUint32(b, uint32(tm.interval/1e9))
		be.PutUint32(b[4:], uint32(tm.interval%1e9/1e3))
		be.PutUint32(b[8:], uint32(left/1e6))
		be.PutUint32(b[12:], uint32(left%1e6))
	}
	if a[1] != 0 {
		b, ok := m.mem.bytes(a[1], 16, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		us := func(o int) int64 { return int64(be.Uint32(b[o:]))*1e6 + int64(be.Uint32(b[o+4:])) }
		tm.arm(m, us(8)*1e3, us(0)*1e3, false)
	}
	return 0, 0
}
