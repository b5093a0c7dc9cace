package emu

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"
)

// Signal numbers and codes of Linux/MIPS (arch/mips/include/uapi/asm/signal.h,
// siginfo.h).
const (
	sigILL  = 4
	sigTRAP = 5
	sigABRT = 6
	sigFPE  = 8
	sigKILL = 9
	sigBUS  = 10
	sigSEGV = 11
	sigSYS  = 12
	sigPIPE = 13
	sigALRM = 14
	sigCHLD = 18
	sigURG  = 21
	sigSTOP = 23
	sigTSTP = 24
	sigCONT = 25
	sigTTIN = 26
	sigTTOU = 27
	sigVTA  = 28
	sigPROF = 29
	nsig    = 128

	siUSER     = 0
	siKERNEL   = 0x80
	siTIMER    = -2
	siTKILL    = -6
	fpeINTDIV  = 1
	fpeINTOVF  = 2
	segvMAPERR = 1
	segvACCERR = 2

	saONSTACK   = 0x0800_0000
	saRESETHAND = 0x8000_0000
	saNODEFER   = 0x4000_0000
	saRESTART   = 0x1000_0000
	saSIGINFO   = 8

	sigDFL = 0
	sigIGN = 1
)

type sigset [2]uint64

func (s *sigset) has(n uint32) bool { return s[(n-1)/64]>>((n-1)%64)&1 != 0 }
func (s *sigset) add(n uint32)      { s[(n-1)/64] |= 1 << ((n - 1) % 64) }
func (s *sigset) del(n uint32)      { s[(n-1)/64] &^= 1 << ((n - 1) % 64) }

// first returns the lowest signal in s without those in but, or 0.
func (s *sigset) first(but *sigset) uint32 {
	for i := range s {
		if w := s[i] &^ but[i]; w != 0 {
			return uint32(i*64 + bits.TrailingZeros64(w) + 1)
		}
	}
	return 0
}

// A signal set is four words in memory, the first for signals 1 to 32.
func (s *sigset) read(b []byte) {
	for i := range s {
		s[i] = uint64(binary.BigEndian.Uint32(b[i*8:])) | uint64(binary.BigEndian.Uint32(b[i*8+4:]))<<32
	}
	s.del(sigKILL)
	s.del(sigSTOP)
}

func (s *sigset) write(b []byte) {
	for i := range s {
		binary.BigEndian.PutUint32(b[i*8:], uint32(s[i]))
		binary.BigEndian.PutUint32(b[i*8+4:], uint32(s[i]>>32))
	}
}

type sigaction struct {
	flags, handler uint32
	mask           sigset
}

// siginfo is what goes into the guest's siginfo: the code and three words of
// the union.
type siginfo struct {
	code  int32
	union [3]uint32
}

// ignored reports whether the action for sig is to do nothing.
func (m *Machine) ignored(sig uint32) bool {
	switch m.actions[sig].handler {
	case sigIGN:
		return true
	case sigDFL:
		switch sig {
		case sigCHLD, sigURG, sigCONT, 20, sigSTOP, sigTSTP, sigTTIN, sigTTOU:
			return true // stopping is not modelled
		}
	}
	return false
}

// send makes sig pending for t, or for the process where t is nil.
func (m *Machine) send(t *thread, sig uint32, info siginfo) {
	if sig == 0 || sig > nsig {
		return
	}
	if t == nil {
		for _, o := range m.all {
			if o.state != threadDead && !o.blocked.has(sig) {
				t = o
				break
			}
		}
	}
	if t == nil {
		m.shared.add(sig)
		m.sharedInfo[sig] = info
		return
	}
	if m.ignored(sig) && !t.blocked.has(sig) {
		return
	}
	if !t.pending.has(sig) {
		t.info[sig] = info
	}
	t.pending.add(sig)
	if t.state == threadWaiting && !t.blocked.has(sig) {
		m.interrupt(t, sig)
	}
}

// interrupt ends t's wait because a handler has to run.
func (m *Machine) interrupt(t *thread, sig uint32) {
	if t.wait.vfork {
		return
	}
	v, e := t.resume(wakeSignal)
	if e == eBlock {
		return
	}
	t.resume = nil
	if e == syscall.EINTR && t.restart && (m.actions[sig].flags&saRESTART != 0 || m.actions[sig].handler == sigDFL) {
		t.pc, t.npc = t.sysPC, t.sysPC+4
		t.r[2], t.r[7] = t.sysNr, t.sysArg3
	} else {
		m.result(t, v, e)
	}
	m.ready(t)
}

// raise turns machine.fault into a signal that cannot be put off.
func (m *Machine) raise(t *thread) {
	f := m.fault
	if t.blocked.has(f.sig) || m.actions[f.sig].handler < 2 {
		m.die(Exit{Signal: int(f.sig), Detail: fmt.Sprintf("fault at %#x (%s), address %#x", t.pc, m.symbolize(t.pc), f.addr)})
		return
	}
	t.pending.add(f.sig)
	t.info[f.sig] = siginfo{code: int32(f.code), union: [3]uint32{f.addr}}
}

// deliver lets t's handlers run or does the default action.
func (m *Machine) deliver(t *thread) {
	for m.exit == nil && t.state == threadReady {
		var info siginfo
		sig := t.pending.first(&t.blocked)
		if sig != 0 {
			info = t.info[sig]
			t.pending.del(sig)
		} else if sig = m.shared.first(&t.blocked); sig != 0 {
			info = m.sharedInfo[sig]
			m.shared.del(sig)
		} else {
			return
		}
		switch act := &m.actions[sig]; {
		case m.ignored(sig):
		case act.handler == sigDFL:
			m.die(Exit{Signal: int(sig), Detail: fmt.Sprintf("at %#x (%s)", t.pc, m.symbolize(t.pc))})
		default:
			m.pushFrame(t, sig, info, *act)
			if act.flags&saRESETHAND != 0 {
				act.handler = sigDFL
			}
		}
	}
}

// Layout of the frame (arch/mips/kernel/signal.c: rt_sigframe).
const (
	frameInfo    = 24 // after the argument area and the old trampoline
	frameUC      = frameInfo + 128
	ucStack      = 8
	ucMcontext   = 24
	scPC         = 8
	scRegs       = 16
	scMDHI       = 552
	scMDLO       = 560
	scSize       = 592
	frameSigmask = frameUC + ucMcontext + scSize
	frameSize    = frameSigmask + 16
)

// epc is where t goes on, as an exception would note it: the branch where the
// next instruction is in its slot.
func (t *thread) epc() uint32 {
	if t.inSlot {
		return t.pc - 4
	}
	return t.pc
}

func (t *thread) onAltStack(sp uint32) bool { return t.altSize != 0 && sp-t.altSP < t.altSize }

func (m *Machine) pushFrame(t *thread, sig uint32, info siginfo, act sigaction) {
	sp := t.r[29]
	if act.flags&saONSTACK != 0 && t.altSize != 0 && !t.onAltStack(sp) {
		sp = t.altSP + t.altSize
	} else {
		sp -= 32 // the kernel leaves room for its FPU emulator
	}
	sp = (sp - frameSize) &^ 7
	b, ok := m.mem.bytes(sp, frameSize, permWrite)
	if !ok {
		m.die(Exit{Signal: sigSEGV, Detail: fmt.Sprintf("no stack for the handler of signal %d at %#x, pc %#x (%s)", sig, sp, t.pc, m.symbolize(t.pc))})
		return
	}
	clear(b)
	be := binary.BigEndian
	be.PutUint32(b[frameInfo:], sig)
	be.PutUint32(b[frameInfo+4:], uint32(info.code))
	for i, w := range info.union {
		be.PutUint32(b[frameInfo+12+4*i:], w)
	}
	uc := b[frameUC:]
	be.PutUint32(uc[ucStack:], t.altSP)
	be.PutUint32(uc[ucStack+4:], t.altSize)
	switch {
	case t.altSize == 0:
		be.PutUint32(uc[ucStack+8:], ssDISABLE)
	case t.onAltStack(t.r[29]):
		be.PutUint32(uc[ucStack+8:], 1)
	}
	sc := uc[ucMcontext:]
	be.PutUint64(sc[scPC:], uint64(t.epc()))
	for i := 1; i < 32; i++ {
		be.PutUint64(sc[scRegs+8*i:], uint64(int64(int32(t.r[i]))))
	}
	be.PutUint64(sc[scMDHI:], uint64(int64(int32(t.r[regHI]))))
	be.PutUint64(sc[scMDLO:], uint64(int64(int32(t.r[regLO]))))
	t.blocked.write(b[frameSigmask:])

	m.count.Signals++
	m.exception()
	for i := range t.blocked {
		t.blocked[i] |= act.mask[i]
	}
	if act.flags&saNODEFER == 0 {
		t.blocked.add(sig)
	}
	t.r[4], t.r[5], t.r[6] = sig, sp+frameInfo, sp+frameUC
	if act.flags&saSIGINFO == 0 {
		t.r[5], t.r[6] = 0, sp+frameUC+ucMcontext
	}
	t.r[29], t.r[31], t.r[25] = sp, trampoline, act.handler
	t.pc, t.npc, t.inSlot, t.sinceHL = act.handler, act.handler+4, false, 3
}

// popFrame is rt_sigreturn.
func (m *Machine) popFrame(t *thread) {
	b, ok := m.mem.bytes(t.r[29], frameSize, permRead)
	if !ok {
		m.die(Exit{Signal: sigSEGV, Detail: fmt.Sprintf("rt_sigreturn without a frame at %#x", t.r[29])})
		return
	}
	be := binary.BigEndian
	t.blocked.read(b[frameSigmask:])
	sc := b[frameUC+ucMcontext:]
	for i := 1; i < 32; i++ {
		t.r[i] = uint32(be.Uint64(sc[scRegs+8*i:]))
	}
	t.r[regHI], t.r[regLO] = uint32(be.Uint64(sc[scMDHI:])), uint32(be.Uint64(sc[scMDLO:]))
	t.pc = uint32(be.Uint64(sc[scPC:]))
	t.npc, t.inSlot, t.sinceHL = t.pc+4, false, 3
}

// timer is one of timer_create or of setitimer.
type timer struct {
	sig            uint32
	to             *thread // nil: the process
	value          uint32
	id             uint32
	plain          bool // setitimer
	cpu            bool // counts executed instructions of of, or of all
	of             *thread
	next, interval int64 // ns; next 0 is disarmed
}

func (m *Machine) timerNow(tm *timer) int64 {
	switch {
	case !tm.cpu:
		return m.monotonic()
	case tm.of != nil:
		return m.cpuNanos(tm.of.executed)
	}
	return m.cpuNanos(m.count.Instructions)
}

func (m *Machine) cpuNanos(n uint64) int64 { return int64(float64(n) * m.cfg.NsPerInst) }

// cpuTimers returns how many instructions t may run before a timer of CPU time
// is due.
func (m *Machine) cpuTimers(t *thread) int64 {
	n := int64(1 << 40)
	for _, tm := range m.timers {
		if tm.cpu && tm.next != 0 && (tm.of == nil || tm.of == t) {
			n = min(n, int64(float64(tm.next-m.timerNow(tm))/m.cfg.NsPerInst)+1)
		}
	}
	return n
}

func (m *Machine) fireTimers(int64) {
	for id := uint32(0); id < m.nextTimer; id++ {
		tm := m.timers[id]
		if tm == nil || tm.next == 0 {
			continue
		}
		now := m.timerNow(tm)
		if tm.next > now {
			continue
		}
		if tm.interval > 0 {
			tm.next += ((now-tm.next)/tm.interval + 1) * tm.interval
		} else {
			tm.next = 0
		}
		info := siginfo{code: siTIMER, union: [3]uint32{tm.id, 0, tm.value}}
		if tm.plain {
			info = siginfo{code: siKERNEL}
		}
		if tm.to != nil && tm.to.state == threadDead {
			continue
		}
		m.send(tm.to, tm.sig, info)
	}
}

// signalNumbers pairs the host's numbers, which are those of most
// architectures, with MIPS's where they differ.
var signalNumbers = [...][2]uint32{
	{7, sigBUS},
	{10, 16},
	{12, 17},
	{17, sigCHLD},
	{18, sigCONT},
	{19, sigSTOP},
	{20, sigTSTP},
	{21, sigTTIN},
	{22, sigTTOU},
	{23, sigURG},
	{24, 30},
	{25, 31},
	{26, sigVTA},
	{27, sigPROF},
	{28, 20},
	{29, 22},
	{30, 19},
	{31, sigSYS},
}

func guestSignal(h syscall.Signal) uint32 {
	for _, p := range signalNumbers {
		if p[0] == uint32(h) {
			return p[1]
		}
	}
	return uint32(h)
}

func hostSignal(g uint32) syscall.Signal {
	for _, p := range signalNumbers {
		if p[1] == g {
			return syscall.Signal(p[0])
		}
	}
	return syscall.Signal(g)
}
