package emu

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// sysEntry is a system call: its name and what it does. The arguments past the
// fourth come from the stack.
type sysEntry struct {
	name string
	fn   func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno)
}

const sysRtSigreturn = 4193

// sysTable is the o32 table (arch/mips/kernel/syscalls/syscall_o32.tbl). What
// is not in it fails with ENOSYS.
func sysTable() map[uint32]sysEntry {
	ok := func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return 0, 0 }
	tab := map[uint32]sysEntry{
		4001: {"exit", sysExit},
		4003: {"read", sysRead},
		4004: {"write", sysWrite},
		4005: {"open", sysOpen},
		4006: {"close", sysClose},
		4020: {"getpid", func(m *Machine, _ *thread, _ *[8]uint32) (uint32, syscall.Errno) { return uint32(m.pid), 0 }},
		4037: {"kill", sysKill},
		4045: {"brk", sysBrk},
		4090: {"mmap", sysMmap},
		4091: {"munmap", sysMunmap},
		4104: {"setitimer", sysSetitimer},
		4120: {"clone", sysClone},
		4122: {"uname", sysUname},
		4125: {"mprotect", sysMprotect},
		4147: {"cacheflush", sysCacheflush},
		4160: {"sched_setscheduler", sysSetscheduler},
		4161: {"sched_getscheduler", sysGetscheduler},
		4158: {"sched_setparam", ok},
		4162: {"sched_yield", sysYield},
		4166: {"nanosleep", sysNanosleep},
		4192: {"prctl", sysPrctl},
		4193: {"rt_sigreturn", nil},
		4194: {"rt_sigaction", sysSigaction},
		4195: {"rt_sigprocmask", sysSigprocmask},
		4200: {"pread64", sysPread},
		4206: {"sigaltstack", sysSigaltstack},
		4210: {"mmap2", sysMmap2},
		4217: {"mincore", sysMincore},
		4218: {"madvise", sysMadvise},
		4222: {"gettid", func(_ *Machine, t *thread, _ *[8]uint32) (uint32, syscall.Errno) { return uint32(t.tid), 0 }},
		4236: {"tkill", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysTgkill(m, t, &[8]uint32{uint32(m.pid), a[0], a[1]})
		}},
		4238: {"futex", sysFutex},
		4240: {"sched_getaffinity", sysGetaffinity},
		4246: {"exit_group", sysExitGroup},
		4252: {"set_tid_address", func(_ *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			t.clearTid = a[0]
			return uint32(t.tid), 0
		}},
		4257: {"timer_create", sysTimerCreate},
		4258: {"timer_settime", sysTimerSettime},
		4261: {"timer_delete", sysTimerDelete},
		4263: {"clock_gettime", sysClockGettime},
		4264: {"clock_getres", sysClockGetres},
		4265: {"clock_nanosleep", sysClockNanosleep},
		4266: {"tgkill", sysTgkill},
		4078: {"gettimeofday", sysGettimeofday},
		4283: {"set_thread_area", func(_ *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) { t.tls = a[0]; return 0, 0 }},
		4309: {"set_robust_list", ok},
		4353: {"getrandom", sysGetrandom},
		4403: {"clock_gettime64", sysClockGettime64},
		4407: {"clock_nanosleep_time64", sysClockNanosleep64},
		4409: {"timer_settime64", sysTimerSettime64},
		4422: {"futex_time64", sysFutex64},
	}
	fileCalls(tab)
	processCalls(tab)
	return tab
}

// syscall does the call that t stands behind.
func (m *Machine) syscall(t *thread) {
	nr := t.r[2]
	t.sysPC, t.sysNr, t.sysArg3 = t.pc-4, nr, t.r[7]
	m.count.Syscalls++
	if nr == sysRtSigreturn {
		m.count.BySyscall["rt_sigreturn"]++
		m.popFrame(t)
		return
	}
	e, known := m.table[nr]
	if !known {
		e = sysEntry{fmt.Sprintf("syscall_%d", nr), func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return 0, syscall.ENOSYS }}
	}
	m.count.BySyscall[e.name]++
	var a [8]uint32
	copy(a[:4], t.r[4:8])
	for i := uint32(4); i < 8; i++ {
		a[i], _ = m.mem.load32(t.r[29] + i*4)
	}
	t.restart = false
	v, errno := m.as(t, func() (uint32, syscall.Errno) { return e.fn(m, t, &a) })
	if m.cfg.Trace != nil {
		m.trace(t, e.name, &a, v, errno)
	}
	if errno == eBlock {
		t.state = threadWaiting
		// A signal may have come before the call.
		if sig := t.pending.first(&t.blocked); sig != 0 {
			m.interrupt(t, sig)
		} else if sig := m.shared.first(&t.blocked); sig != 0 {
			m.interrupt(t, sig)
		}
		return
	}
	m.result(t, v, errno)
}

// result puts a call's result into the registers.
func (m *Machine) result(t *thread, v uint32, e syscall.Errno) {
	if m.cfg.Trace != nil && t.state == threadWaiting {
		fmt.Fprintf(m.cfg.Trace, "%d ... %d = %s\n", t.tid, t.sysNr, resultText(v, e))
	}
	if e != 0 {
		t.r[2], t.r[7] = mipsErrno(e), 1
		return
	}
	t.r[2], t.r[7] = v, 0
}

func resultText(v uint32, e syscall.Errno) string {
	switch e {
	case 0:
		return fmt.Sprintf("%#x", v)
	case eBlock:
		return "(waits)"
	}
	return e.Error()
}

func (m *Machine) trace(t *thread, name string, a *[8]uint32, v uint32, e syscall.Errno) {
	fmt.Fprintf(m.cfg.Trace, "%d %s(%#x, %#x, %#x, %#x, %#x, %#x) = %s\n", t.tid, name, a[0], a[1], a[2], a[3], a[4], a[5], resultText(v, e))
}

// block makes t wait; resume is asked for the result.
func (t *thread) block(w wait, restart bool, resume func(wake) (uint32, syscall.Errno)) (uint32, syscall.Errno) {
	t.wait, t.restart, t.resume = w, restart, resume
	return 0, eBlock
}

// Memory.

const (
	mapSHARED          = 1
	mapFIXED           = 0x10
	mapFIXED_NOREPLACE = 0x100000
	mapANON            = 0x800
)

func sysBrk(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	end := a[0]
	if end < m.brkStart || end >= mapTop {
		return m.brkEnd, 0
	}
	from, to := (m.brkEnd+pageSize-1)&^(pageSize-1), (end+pageSize-1)&^(pageSize-1)
	switch {
	case to > from:
		if m.mem.taken(from, to-from) {
			return m.brkEnd, 0
		}
		m.mem.mapAnon(from, to-from, permRead|permWrite)
	case to < from:
		m.mem.unmap(to, from-to)
	}
	m.brkEnd = end
	return end, 0
}

func sysMmap(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.mmap(a[0], a[1], a[2], a[3], int32(a[4]), int64(a[5]))
}

func sysMmap2(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.mmap(a[0], a[1], a[2], a[3], int32(a[4]), int64(a[5])*4096)
}

func (m *Machine) mmap(addr, n, prot, flags uint32, fd int32, off int64) (uint32, syscall.Errno) {
	if n == 0 || off%pageSize != 0 {
		return 0, syscall.EINVAL
	}
	if n > mapTop {
		return 0, syscall.ENOMEM
	}
	if flags&(mapFIXED|mapFIXED_NOREPLACE) != 0 {
		if addr%pageSize != 0 || addr < pageSize {
			return 0, syscall.EINVAL
		}
		if addr > userTop-n || addr+n > stackTop-stackSize {
			return 0, syscall.ENOMEM
		}
		if flags&mapFIXED_NOREPLACE != 0 && m.mem.taken(addr, n) {
			return 0, syscall.EEXIST
		}
	} else {
		addr = (addr + pageSize - 1) &^ (pageSize - 1)
		if addr < 16*pageSize || addr > mapTop-n || m.mem.taken(addr, n) {
			if addr = m.mem.find(n); addr == 0 {
				return 0, syscall.ENOMEM
			}
		}
	}
	if flags&mapANON != 0 {
		m.mem.mapAnon(addr, n, prot)
		return addr, 0
	}
	f := m.fds.get(fd)
	if f == nil {
		return 0, syscall.EBADF
	}
	if flags&mapSHARED != 0 {
		if err := m.mem.mapFile(addr, n, prot, f.host, off); err != nil {
			return 0, errnoOf(err)
		}
		return addr, 0
	}
	m.mem.mapAnon(addr, n, prot)
	if _, err := preadAll(f.host, m.mem.raw[addr:addr+n], off); err != nil {
		m.mem.unmap(addr, n)
		return 0, errnoOf(err)
	}
	return addr, 0
}

func preadAll(fd int, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		k, err := syscall.Pread(fd, b[n:], off+int64(n))
		if err != nil {
			return n, err
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, nil
}

func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EIO
}

func rangeOK(addr, n uint32) bool { return addr%pageSize == 0 && addr < userTop && n <= userTop-addr }

func sysMunmap(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if !rangeOK(a[0], a[1]) || a[1] == 0 {
		return 0, syscall.EINVAL
	}
	m.mem.unmap(a[0], a[1])
	return 0, 0
}

func sysMprotect(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if !rangeOK(a[0], a[1]) {
		return 0, syscall.EINVAL
	}
	return 0, errnoOf(m.mem.protect(a[0], a[1], a[2], false))
}

func sysCacheflush(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[0] >= userTop || a[1] > userTop-a[0] {
		return 0, syscall.EFAULT
	}
	m.mem.code.drop(a[0], a[1])
	return 0, 0
}

func sysMincore(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if !rangeOK(a[0], a[1]) {
		return 0, syscall.EINVAL
	}
	if !m.mem.ok(a[0], a[1], permMapped) {
		return 0, syscall.ENOMEM
	}
	b, ok := m.mem.bytes(a[2], pages(a[1]), permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	for i := range b {
		b[i] = 1
	}
	return 0, 0
}

func sysMadvise(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	const dontneed, free = 4, 8
	if m.cfg.NoMadvise {
		return 0, syscall.ENOSYS
	}
	if !rangeOK(a[0], a[1]) {
		return 0, syscall.EINVAL
	}
	if a[2] == dontneed || a[2] == free {
		for p := a[0]; p < a[0]+a[1]; p += pageSize {
			if m.mem.perm[p/pageSize]&(permMapped|permShared) == permMapped {
				m.mem.zero(p, pageSize, false)
			}
		}
		m.mem.code.drop(a[0], a[1])
	}
	return 0, 0
}

// Threads, processes, scheduling.

func sysExit(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if t.vforked != nil {
		m.endVfork(t, &child{pid: t.tid, pidfd: -1, status: a[0] & 0xff << 8})
		return 0, 0
	}
	last := true
	for _, o := range m.all {
		last = last && (o == t || o.state == threadDead)
	}
	if last {
		m.die(Exit{Code: int(a[0] & 0xff)})
	}
	m.exitThread(t)
	return 0, 0
}

func sysExitGroup(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if t.vforked != nil {
		return sysExit(m, t, a)
	}
	m.die(Exit{Code: int(a[0] & 0xff)})
	return 0, 0
}

const (
	cloneVM             = 0x100
	clonePIDFD          = 0x1000
	cloneVFORK          = 0x4000
	cloneTHREAD         = 0x1_0000
	cloneSETTLS         = 0x8_0000
	clonePARENT_SETTID  = 0x10_0000
	cloneCHILD_CLEARTID = 0x20_0000
	cloneCHILD_SETTID   = 0x100_0000
)

// sysClone makes threads, and what starts programs.
func sysClone(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	flags, stack, ptid, tls, ctid := a[0], a[1], a[2], a[3], a[4]
	if flags&cloneTHREAD == 0 && flags&(cloneVM|cloneVFORK|clonePIDFD) == cloneVM|cloneVFORK {
		return m.vfork(t, stack)
	}
	if flags&cloneTHREAD == 0 || flags&cloneVM == 0 {
		return 0, syscall.ENOSYS
	}
	n := m.newThread()
	n.cpu = t.cpu
	n.fifo, n.blocked, n.tls = t.fifo, t.blocked, t.tls
	if stack != 0 {
		n.r[29] = stack
	}
	if flags&cloneSETTLS != 0 {
		n.tls = tls
	}
	if flags&clonePARENT_SETTID != 0 {
		m.mem.store32(ptid, uint32(n.tid))
	}
	if flags&cloneCHILD_SETTID != 0 {
		m.mem.store32(ctid, uint32(n.tid))
	}
	if flags&cloneCHILD_CLEARTID != 0 {
		n.clearTid = ctid
	}
	n.r[2], n.r[7] = 0, 0
	m.ready(n)
	return uint32(n.tid), 0
}

func (m *Machine) thread(tid uint32) *thread {
	i := int(tid) - m.pid
	if i < 0 || i >= len(m.all) || m.all[i].state == threadDead {
		return nil
	}
	return m.all[i]
}

func sysYield(m *Machine, _ *thread, _ *[8]uint32) (uint32, syscall.Errno) {
	m.resched = true
	return 0, 0
}

func sysSetscheduler(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[0] != 0 {
		t = m.thread(a[0])
	}
	if t == nil {
		return 0, syscall.ESRCH
	}
	t.fifo = a[1]&^0x4000_0000 == 1 // SCHED_FIFO; a flag may stand beside it
	return 0, 0
}

func sysGetscheduler(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[0] != 0 {
		t = m.thread(a[0])
	}
	switch {
	case t == nil:
		return 0, syscall.ESRCH
	case t.fifo:
		return 1, 0
	}
	return 0, 0
}

// sysGetaffinity: one CPU.
func sysGetaffinity(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[1] < 4 {
		return 0, syscall.EINVAL
	}
	if !m.mem.store32(a[2], 1) {
		return 0, syscall.EFAULT
	}
	return 4, 0
}

func sysPrctl(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return 0, syscall.EINVAL }

func sysUname(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[0], 65*6, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	clear(b)
	for i, s := range []string{"Linux", "rlx4181", "6.18.24", "#1", "mips", "(none)"} {
		copy(b[65*i:], s)
	}
	return 0, 0
}

func sysGetrandom(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[0], a[1], permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	m.randomBytes(b)
	return a[1], 0
}

// Signals.

func sysKill(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[1] > nsig {
		return 0, syscall.EINVAL
	}
	if c := m.children[int(a[0])]; c != nil {
		if c.pidfd < 0 {
			return 0, 0
		}
		return 0, errnoOf(syscall.Kill(c.pid, hostSignal(a[1])))
	}
	if a[0] != uint32(m.pid) && a[0] != 0 && m.thread(a[0]) == nil {
		return 0, syscall.ESRCH
	}
	m.send(nil, a[1], siginfo{code: siUSER, union: [3]uint32{uint32(m.pid), uint32(syscall.Getuid())}})
	return 0, 0
}

func sysTgkill(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	to := m.thread(a[1])
	if to == nil || a[0] != uint32(m.pid) {
		return 0, syscall.ESRCH
	}
	if a[2] > nsig {
		return 0, syscall.EINVAL
	}
	m.send(to, a[2], siginfo{code: siTKILL, union: [3]uint32{uint32(m.pid), uint32(syscall.Getuid())}})
	return 0, 0
}

func sysSigaction(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	sig := a[0]
	if a[3] != 16 || sig == 0 || sig > nsig || a[1] != 0 && (sig == sigKILL || sig == sigSTOP) {
		return 0, syscall.EINVAL
	}
	act := &m.actions[sig]
	be := binary.BigEndian
	var next *sigaction
	if a[1] != 0 {
		b, ok := m.mem.bytes(a[1], 24, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		next = &sigaction{flags: be.Uint32(b), handler: be.Uint32(b[4:])}
		next.mask.read(b[8:])
	}
	if a[2] != 0 {
		b, ok := m.mem.bytes(a[2], 24, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		be.PutUint32(b, act.flags)
		be.PutUint32(b[4:], act.handler)
		act.mask.write(b[8:])
	}
	if next != nil {
		*act = *next
	}
	return 0, 0
}

func sysSigprocmask(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[3] != 16 {
		return 0, syscall.EINVAL
	}
	old := t.blocked
	if a[1] != 0 {
		b, ok := m.mem.bytes(a[1], 16, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		var s sigset
		s.read(b)
		for i := range s {
			switch a[0] {
			case 1:
				t.blocked[i] |= s[i]
			case 2:
				t.blocked[i] &^= s[i]
			case 3:
				t.blocked[i] = s[i]
			default:
				return 0, syscall.EINVAL
			}
		}
	}
	if a[2] != 0 {
		b, ok := m.mem.bytes(a[2], 16, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		old.write(b)
	}
	return 0, 0
}

const ssDISABLE = 2

func sysSigaltstack(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	sp, size := t.altSP, t.altSize
	if a[0] != 0 {
		b, ok := m.mem.bytes(a[0], 12, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		if t.onAltStack(t.r[29]) {
			return 0, syscall.EPERM
		}
		be := binary.BigEndian
		sp, size = be.Uint32(b), be.Uint32(b[4:])
		if be.Uint32(b[8:])&ssDISABLE != 0 {
			sp, size = 0, 0
		}
	}
	if a[1] != 0 {
		b, ok := m.mem.bytes(a[1], 12, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		be := binary.BigEndian
		be.PutUint32(b, t.altSP)
		be.PutUint32(b[4:], t.altSize)
		flags := uint32(0)
		switch {
		case t.altSize == 0:
			flags = ssDISABLE
		case t.onAltStack(t.r[29]):
			flags = 1
		}
		be.PutUint32(b[8:], flags)
	}
	t.altSP, t.altSize = sp, size
	return 0, 0
}

// Futexes.

func sysFutex(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.futex(t, a, false)
}

func sysFutex64(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return m.futex(t, a, true)
}

func (m *Machine) futex(t *thread, a *[8]uint32, time64 bool) (uint32, syscall.Errno) {
	const (
		opWait, opWake, opRequeue, opCmpRequeue, opWaitBits, opWakeBits = 0, 1, 3, 4, 9, 10
	)
	addr, val := a[0], a[2]
	if addr&3 != 0 {
		return 0, syscall.EINVAL
	}
	switch op := a[1] & 0x7f; op {
	case opWait, opWaitBits:
		now, ok := m.mem.load32(addr)
		if !ok {
			return 0, syscall.EFAULT
		}
		if now != val {
			return 0, syscall.EAGAIN
		}
		w := wait{futex: addr, bits: ^uint32(0)}
		if op == opWaitBits {
			if w.bits = a[5]; w.bits == 0 {
				return 0, syscall.EINVAL
			}
		}
		if a[3] != 0 {
			ns, e := m.timespec(a[3], time64)
			if e != 0 {
				return 0, e
			}
			switch {
			case op == opWait:
				ns += m.monotonic()
			case a[1]&256 != 0:
				ns += m.monotonic() - m.realtime()
			}
			w.deadline = max(ns, 1)
		}
		m.waits++
		w.order = m.waits
		return t.block(w, a[3] == 0, func(why wake) (uint32, syscall.Errno) {
			switch why {
			case wakeTimeout:
				return 0, syscall.ETIMEDOUT
			case wakeSignal:
				return 0, syscall.EINTR
			}
			return 0, 0
		})
	case opWake:
		return m.futexWake(addr, val, ^uint32(0)), 0
	case opWakeBits:
		return m.futexWake(addr, val, a[5]), 0
	case opRequeue, opCmpRequeue:
		if op == opCmpRequeue {
			now, ok := m.mem.load32(addr)
			if !ok {
				return 0, syscall.EFAULT
			}
			if now != a[5] {
				return 0, syscall.EAGAIN
			}
		}
		n := m.futexWake(addr, val, ^uint32(0))
		for range a[3] {
			w := m.firstWaiter(addr, ^uint32(0))
			if w == nil {
				break
			}
			w.wait.futex = a[4]
			n++
		}
		return n, 0
	}
	return 0, syscall.ENOSYS
}

// firstWaiter is the one that waits longest.
func (m *Machine) firstWaiter(addr, mask uint32) *thread {
	var first *thread
	for _, t := range m.all {
		w := &t.wait
		if t.state == threadWaiting && w.futex == addr && w.order != 0 && w.bits&mask != 0 && (first == nil || w.order < first.wait.order) {
			first = t
		}
	}
	return first
}

func (m *Machine) futexWake(addr, n, mask uint32) uint32 {
	woken := uint32(0)
	for ; woken < n; woken++ {
		t := m.firstWaiter(addr, mask)
		if t == nil {
			break
		}
		m.wakeUp(t, wakeEvent)
	}
	return woken
}
