//go:build linux

package selftest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stormPeriod is one signal's distance from the next: the kernel's tick is
// 4 ms, and each signal is two more exceptions.
const stormPeriod = time.Millisecond

// Words of the storm's handler.
const (
	atStorm = patterned + 16 // how often it ran
	atAdded = patterned + 17 // what it adds 1 to, by LL and SC
)

// stormHandler counts, adds 1 to a word by LL and SC as a Go signal handler's
// atomics do, and leaves nothing in any register as it found it.
const stormHandler = `li t0 %#x; li t1 %#x; lw t2 0(t0); nop; addiu t2 t2 1; sw t2 0(t0)
	x: ll t3 0(t1); nop; addiu t3 t3 1; sc t3 0(t1); nop; beq t3 zero x; nop
	li t4 0x55aa1234; multu t4 t4; move v0 t4; move v1 t4; move a0 t4; move a1 t4; move a2 t4; move a3 t4
	move t0 t4; move t1 t4; move t2 t4; move t5 t4; move t6 t4; move t7 t4; move t8 t4; move t9 t4; move at t4`

// sigevent is o32's, as far as timer_create reads it for SIGEV_THREAD_ID.
type sigevent struct {
	value, signo, notify, tid int32
	_                         [12]int32
}

// storm sends SIGALRM to the calling thread until stop is called. The
// goroutine must be locked to its thread.
func (m *machine) storm(added uint32) (stop func(), err error) {
	return m.alarm(fmt.Sprintf(stormHandler, m.addr(atStorm), added))
}

// alarm has the kernel's timer run a handler on the calling thread, each
// stormPeriod, until stop. No other thread has to run for that.
func (m *machine) alarm(source string) (stop func(), err error) {
	handler, err := m.put(source)
	if err != nil {
		return nil, err
	}
	restore, err := handler.Handle(unix.SIGALRM)
	if err != nil {
		return nil, err
	}
	const sigevThreadID = 4 // include/uapi/asm-generic/siginfo.h
	ev := sigevent{signo: int32(unix.SIGALRM), notify: sigevThreadID, tid: int32(unix.Gettid())}
	var timer int32
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ev)), uintptr(unsafe.Pointer(&timer))); errno != 0 {
		restore()
		return nil, os.NewSyscallError("timer_create", errno)
	}
	stop = func() {
		// A signal that is pending for a thread is taken on the way out of a call.
		_, _, _ = unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(timer), 0, 0)
		restore()
	}
	period := [4]int32{0, int32(stormPeriod.Nanoseconds()), 0, int32(stormPeriod.Nanoseconds())}
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(timer), 0, uintptr(unsafe.Pointer(&period)), 0, 0, 0); errno != 0 {
		stop()
		return nil, os.NewSyscallError("timer_settime", errno)
	}
	return stop, nil
}

// loop is a dense sequence that runs a1 times and counts in v0 what was wrong.
// It finds its operands in a0's words and t4 to t9 are its own.
type loop struct {
	name, code string
	judged     bool // else v0 counts something that is told
}

// loops keep the CPU where an interrupt could hurt for most of their time.
var loops = [...]loop{
	{"loads used one instruction behind", `lw t6 0(a0); lw t7 4(a0); move v0 zero
		x: move t0 zero; lw t0 0(a0); nop; xor t1 t0 t6; or v0 v0 t1
		move t2 zero; lw t2 4(a0); addiu a1 a1 -1; xor t3 t2 t7; bne a1 zero x; or v0 v0 t3`, true},
	{"lwl and lwr", `lwl t6 1(a0); lwr t6 4(a0); move v0 zero; nop
		x: move t0 zero; lwl t0 1(a0); lwr t0 4(a0); addiu a1 a1 -1; xor t1 t0 t6
		swl t0 37(a0); swr t0 40(a0); lwl t2 37(a0); lwr t2 40(a0); or v0 v0 t1; xor t1 t2 t6; bne a1 zero x; or v0 v0 t1`, true},
	{"loads in branch slots", `lw t6 0(a0); lw t7 4(a0); move v0 zero; move t2 zero
		x: move t0 zero; b y; lw t0 0(a0); nop
		y: addiu a1 a1 -1; xor t1 t0 t6; or v0 v0 t1; move t2 zero; bne a1 zero x; lw t2 4(a0)
		nop; xor t1 t2 t7; or v0 v0 t1`, true},
	{"mult, mflo, mfhi", `li t4 0x12345678; li t5 0x9abcdef1; li t6 0x366176f8; li t7 0x0b00ea4e; move v0 zero
		x: multu t4 t5; mflo t0; mfhi t1; xor t2 t0 t6; xor t3 t1 t7; or v0 v0 t2; addiu a1 a1 -1; bne a1 zero x; or v0 v0 t3`, true},
	{"divu, mflo, mfhi", `li t4 0xfedcba98; addiu t5 zero 1000; li t6 0x00413ea6; li t7 0x228; move v0 zero
		x: divu t4 t5; mflo t0; mfhi t1; xor t2 t0 t6; xor t3 t1 t7; or v0 v0 t2; addiu a1 a1 -1; bne a1 zero x; or v0 v0 t3`, true},
	{"HI and LO kept over instructions", `li t4 0x12345678; move v0 zero
		x: mtlo t4; mthi a1; addiu t0 zero 4; y: addiu t0 t0 -1; bne t0 zero y; nop
		mflo t1; mfhi t2; xor t1 t1 t4; xor t2 t2 a1; or v0 v0 t1; addiu a1 a1 -1; bne a1 zero x; or v0 v0 t2`, true},
	{"calls and returns", `move s0 ra; move v0 zero
		x: la t0 z; jalr ra t0; addiu a1 a1 -1; y: la t1 y; xor t2 t1 t3; or v0 v0 t2; bne a1 zero x; nop; b w; move ra s0
		z: jr ra; move t3 ra; w: nop`, true},
	{"loads used at once: new values", `lw t6 0(a0); move v0 zero; nop
		x: move t0 zero; nop; nop; lw t0 0(a0); move t1 t0; xor t2 t1 t6; sltiu t2 t2 1; addiu a1 a1 -1; bne a1 zero x; addu v0 v0 t2`, false},
}

// stormChunk is how many rounds one call of a loop makes: some milliseconds.
const stormChunk = 50_000

// runStorm repeats what an interrupt could disturb under a storm of them.
func runStorm(ctx context.Context, e *env) {
	m := machineOr(e)
	if m == nil {
		return
	}
	defer m.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stop, err := m.storm(m.addr(atAdded))
	if e.failed("timer", err) {
		return
	}
	defer stop()
	each := time.Duration(e.times(2000, 300)) * time.Millisecond
	for _, l := range loops {
		if ctx.Err() != nil {
			return
		}
		code, err := m.put(l.code)
		if e.failed(l.name, err) {
			continue
		}
		m.reset()
		m.words[atStorm] = 0
		var wrong, rounds uint64
		for end := time.Now().Add(each); time.Now().Before(end); rounds += stormChunk {
			v0, _ := code.Call([4]uint32{m.addr(0), stormChunk})
			if l.judged && v0 != 0 {
				wrong++
			}
			if !l.judged {
				wrong += uint64(v0)
			}
		}
		signals := m.words[atStorm]
		if l.judged {
			e.judge(l.name, wrong == 0 && signals > 0, "%d rounds, %d signals, %d of %d calls wrong", rounds, signals, wrong, rounds/stormChunk)
		} else {
			e.say(l.name, Info, "%d in %d rounds, %d signals", wrong, rounds, signals)
		}
	}
	e.rulesInStorm(ctx, m, time.Duration(e.times(4000, 500))*time.Millisecond)
}

// rulesInStorm repeats every rule for a while.
func (e *env) rulesInStorm(ctx context.Context, m *machine, d time.Duration) {
	const name = "every rule of group cpu"
	var ready []prepared
	for _, set := range allRules() {
		p, err := m.prepare(set.rules)
		if e.failed(name, err) {
			return
		}
		ready = append(ready, p...)
	}
	m.words[atStorm] = 0
	var bad []string
	rounds := 0
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; rounds++ {
		for _, p := range ready {
			if o := m.try(p, 8, 0); o.wrong > 0 && len(bad) < 8 {
				bad = append(bad, o.String())
			}
		}
	}
	signals := m.words[atStorm]
	if len(bad) > 0 {
		e.say(name, Fail, "%d signals\n%s", signals, strings.Join(bad, "\n"))
		return
	}
	e.judge(name, signals > 0, "%d cases, %d times, %d signals", len(ready), 8*rounds, signals)
}
