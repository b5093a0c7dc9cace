package emu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
)

type threadState uint8

const (
	threadReady threadState = iota
	threadWaiting
	threadDead
)

// wake says why a waiting thread goes on.
type wake uint8

const (
	wakeEvent   wake = iota // what it waited for happened
	wakeTimeout             // its deadline passed
	wakeSignal              // a signal is to be delivered
)

// thread is a guest thread.
type thread struct {
	cpu
	tid      int
	state    threadState
	fifo     bool
	executed uint64

	blocked, pending sigset
	info             map[uint32]siginfo // of the pending ones
	altSP, altSize   uint32
	tls              uint32
	clearTid         uint32

	// While it waits. resume turns the reason into the call's result; it
	// returns eBlock to wait on.
	wait    wait
	resume  func(wake) (uint32, syscall.Errno)
	restart bool // may be restarted after a handler with SA_RESTART
	sysPC   uint32
	sysNr   uint32
	sysArg3 uint32
	vforked *vforked // not nil: stands in for a process
}

// wait is what a thread waits for; each part may be empty.
type wait struct {
	deadline int64 // monotonic ns; 0 is none
	futex    uint32
	bits     uint32
	fds      []pollfd // host descriptors
	order    uint64   // of waiting, for futexes
	vfork    bool     // for a child, which nothing interrupts
}

// kernel is the part of Machine that stands for Linux.
type kernel struct {
	all     []*thread
	queue   []*thread // ready, the running one not in it
	current *thread
	lastRun *thread
	waits   uint64

	exe              string
	brkStart, brkEnd uint32
	actions          [nsig + 1]sigaction
	shared           sigset // pending for the process
	sharedInfo       map[uint32]siginfo
	timers           map[uint32]*timer
	nextTimer        uint32
	skew             int64 // ns the virtual clock jumped ahead
	start            time.Time
	fds              *fdTable
	table            map[uint32]sysEntry
	exit             *Exit
	resched          bool
	polled           uint64
	wakeR, wakeW     int // a pipe that Signal writes to
	pid              int
	children         map[int]*child
}

const firstPid = 2000

func (k *kernel) init(m *Machine) error {
	k.start = time.Now()
	k.pid = firstPid
	k.sharedInfo = map[uint32]siginfo{}
	k.timers = map[uint32]*timer{}
	k.children = map[int]*child{}
	k.fds = newFDTable(m.cfg.Stdin, m.cfg.Stdout, m.cfg.Stderr)
	k.table = sysTable()
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return fmt.Errorf("pipe for signals: %w", err)
	}
	k.wakeR, k.wakeW = p[0], p[1]
	return nil
}

// close leaves children of the guest running, as the end of a process does.
func (k *kernel) close() {
	for _, c := range k.children {
		if c.pidfd >= 0 {
			_ = syscall.Close(c.pidfd)
		}
	}
	k.fds.closeAll()
	_ = syscall.Close(k.wakeR)
	_ = syscall.Close(k.wakeW)
}

func (m *Machine) newThread() *thread {
	t := &thread{tid: m.pid + len(m.all), fifo: m.cfg.Policy == PolicyFIFO, info: map[uint32]siginfo{}}
	t.sinceHL = 3
	m.all = append(m.all, t)
	return t
}

func (m *Machine) tls() uint32 { return m.current.tls }

// ready makes t runnable, behind the others. The running thread, which may be
// woken within its own call, is not in the queue.
func (m *Machine) ready(t *thread) {
	t.state = threadReady
	t.wait = wait{}
	if t == m.current {
		return
	}
	m.queue = append(m.queue, t)
	if t.fifo && m.current != nil && !m.current.fifo {
		m.resched = true
	}
}

// pick takes the next thread: the FIFO ones first.
func (m *Machine) pick() *thread {
	if len(m.queue) == 0 {
		return nil
	}
	i := max(0, slices.IndexFunc(m.queue, func(t *thread) bool { return t.fifo }))
	t := m.queue[i]
	m.queue = slices.Delete(m.queue, i, i+1)
	return t
}

// monotonic is the guest's CLOCK_MONOTONIC in ns. It begins at one second.
func (m *Machine) monotonic() int64 {
	if m.cfg.RealClock {
		return int64(time.Since(m.start)) + 1e9
	}
	return 1e9 + m.skew + int64(float64(m.count.Instructions)*m.cfg.NsPerInst)
}

func (m *Machine) realtime() int64 { return m.cfg.Epoch.UnixNano() + m.monotonic() - 1e9 }

// slice draws how long the next thread runs.
func (m *Machine) slice() int64 {
	n := m.cfg.Slice/2 + m.rng.Int64N(m.cfg.Slice+1)
	if p := m.cfg.Preempt; p > 0 {
		// The first success of a Bernoulli trial per instruction.
		g := math.Log(1-m.rng.Float64()) / math.Log1p(-min(p, 0.999999))
		n = min(n, int64(g)+1)
	}
	return max(n, 1)
}

var errLimit = errors.New("the limit of instructions is reached")

// loop runs threads until the process ends.
func (m *Machine) loop(ctx context.Context) (Exit, error) {
	for m.exit == nil {
		if err := ctx.Err(); err != nil {
			return Exit{}, err
		}
		t := m.pick()
		if t == nil {
			m.idle()
			continue
		}
		if t != m.lastRun {
			m.count.Switches++
			m.exception()
			m.lastRun = t
		}
		m.current = t
		err := m.runThread(t)
		m.current = nil
		if err != nil {
			return Exit{}, err
		}
		if m.cfg.Limit > 0 && m.count.Instructions >= m.cfg.Limit {
			return Exit{}, fmt.Errorf("%w: %d", errLimit, m.cfg.Limit)
		}
	}
	return *m.exit, nil
}

// runThread runs t until it blocks, ends or is preempted.
func (m *Machine) runThread(t *thread) error {
	left := m.slice()
	m.resched = false
	for {
		m.deliver(t)
		if m.exit != nil || t.state != threadReady {
			return nil
		}
		if left <= 0 || m.resched {
			m.count.Preemptions++
			m.exception()
			m.tick()
			m.deliver(t)
			if m.exit == nil && t.state == threadReady {
				if t.fifo && !m.resched {
					m.queue = append([]*thread{t}, m.queue...)
				} else {
					m.queue = append(m.queue, t)
				}
			}
			return nil
		}
		n := min(left, m.untilTimer(t))
		why, done := m.run(&t.cpu, n)
		left -= done
		t.executed += uint64(done)
		for why == stopLoad {
			if left <= 0 {
				// The tick's exception ends the load.
				t.r[m.late.reg] = m.late.value
				why = stopBudget
				break
			}
			why, done = m.step(&t.cpu)
			left -= done
			t.executed += uint64(done)
		}
		switch why {
		case stopStrict:
			return m.broken
		case stopSyscall:
			m.exception()
			m.syscall(t)
		case stopFault:
			m.exception()
			m.raise(t)
		}
		m.expire()
	}
}

// untilTimer returns how many instructions may run before a deadline passes.
func (m *Machine) untilTimer(t *thread) int64 {
	const most = 1 << 40
	if m.cfg.RealClock {
		return 100_000
	}
	n := int64(most)
	if d := m.nextDeadline(); d != 0 {
		n = int64(float64(d-m.monotonic())/m.cfg.NsPerInst) + 1
	}
	return max(1, min(n, m.cpuTimers(t)))
}

// nextDeadline is the earliest of the waiting threads and timers, or 0.
func (m *Machine) nextDeadline() int64 {
	var d int64
	for _, t := range m.all {
		if t.state == threadWaiting && t.wait.deadline != 0 && (d == 0 || t.wait.deadline < d) {
			d = t.wait.deadline
		}
	}
	for _, tm := range m.timers {
		if !tm.cpu && tm.next != 0 && (d == 0 || tm.next < d) {
			d = tm.next
		}
	}
	return d
}

// expire wakes whose deadline has passed.
func (m *Machine) expire() {
	d := m.nextDeadline()
	if d == 0 && len(m.timers) == 0 {
		return
	}
	now := m.monotonic()
	if d != 0 && d <= now {
		for _, t := range m.all {
			if t.state == threadWaiting && t.wait.deadline != 0 && t.wait.deadline <= now {
				m.wakeUp(t, wakeTimeout)
			}
		}
	}
	m.fireTimers(now)
}

// wakeUp ends t's wait, or lets it wait on where its resume says so.
func (m *Machine) wakeUp(t *thread, why wake) {
	v, e := t.resume(why)
	if e == eBlock {
		return
	}
	t.resume = nil
	m.result(t, v, e)
	m.ready(t)
}

// tick is the timer's interrupt: look at the host's descriptors now and then.
func (m *Machine) tick() {
	if m.count.Instructions-m.polled > 1_000_000 || m.cfg.RealClock {
		m.polled = m.count.Instructions
		m.pollHost(0)
	}
}

// idle is called when no thread can run.
func (m *Machine) idle() {
	fds, children := false, false
	for _, t := range m.all {
		if t.state == threadWaiting && len(t.wait.fds) != 0 {
			fds = true
		}
	}
	for _, c := range m.children {
		children = children || c.pidfd >= 0
	}
	d := m.nextDeadline()
	if (fds || children) && m.pollHost(0) {
		return
	}
	const look = 100 * time.Millisecond // now and then at ctx
	switch {
	case d == 0:
		// Only the outside can wake the guest.
		m.pollHost(look)
		return
	case m.cfg.RealClock:
		if n := d - m.monotonic(); n > 0 {
			m.pollHost(min(time.Duration(n), look))
		}
	case children:
		// A child lives in the host's time, and so does who waits for it.
		start := time.Now()
		if n := d - m.monotonic(); n > 0 {
			m.pollHost(min(time.Duration(n), look))
			m.skew += min(n, int64(time.Since(start)))
		}
	default:
		// What the guest waits for may be under way outside of it, so that
		// time must not jump over it at once.
		if fds && m.pollHost(time.Millisecond) {
			return
		}
		if n := d - m.monotonic(); n > 0 {
			m.skew += n
		}
	}
	m.expire()
}

// Signal sends the guest a signal of the host.
func (m *Machine) Signal(sig syscall.Signal) {
	// A full pipe means that as many are on their way.
	_, _ = syscall.Write(m.wakeW, []byte{byte(guestSignal(sig))})
}

// die ends the process.
func (m *Machine) die(e Exit) {
	if m.exit == nil {
		m.exit = &e
	}
}

// exitThread ends t.
func (m *Machine) exitThread(t *thread) {
	t.state = threadDead
	if t.clearTid != 0 && m.mem.store32(t.clearTid, 0) {
		m.futexWake(t.clearTid, 1, ^uint32(0))
	}
	for _, o := range m.all {
		if o.state != threadDead {
			return
		}
	}
	m.die(Exit{})
}

func (m *Machine) randomBytes(b []byte) {
	for i := range b {
		b[i] = byte(m.rng.Uint32() >> 24)
	}
}

// hostPath replaces the guest's own link in /proc, which on the host leads to
// the interpreter.
func (m *Machine) hostPath(path string) string {
	switch path {
	case "/proc/self/exe", fmt.Sprintf("/proc/%d/exe", m.pid):
		return m.exe
	}
	return path
}
