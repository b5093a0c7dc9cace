//go:build linux

package selftest

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// probe is an instruction that the compiler does not emit for this CPU, or a
// fault that it relies on.
type probe struct {
	name, code string
	want       uint32 // v0 if it does what the MIPS32 manual says
	signal     unix.Signal
	judged     bool   // a wrong signal is a FAIL: the program relies on it
	other      uint32 // another v0 that means something
	otherName  string
}

// unchanged is v0 before each probe.
const unchanged = oldValue

// probes: what is written as a word is not in every assembler.
var probes = [...]probe{
	{name: "break", code: "break", want: unchanged, signal: unix.SIGTRAP, judged: true},
	{name: "load from address 0", code: "lw t0 0(zero); nop", want: unchanged, signal: unix.SIGSEGV, judged: true},
	{name: "store to address 0", code: "sw t0 0(zero)", want: unchanged, signal: unix.SIGSEGV, judged: true},
	{name: "load from a kernel address", code: "lui t0 0x8000; lw t1 0(t0); nop", want: unchanged, signal: unix.SIGBUS},
	{name: "lw, not aligned", code: "lw v0 1(a0); nop", want: 0x91A2B3C4},
	{name: "lh, not aligned", code: "lh v0 1(a0); nop", want: 0xFFFF91A2},
	{name: "sw, not aligned", code: "sw a3 33(a0); lw v0 32(a0); nop", want: 0x00FFFFFF},
	{name: "mul", code: "mul v0 a2 a2", want: 49},
	{name: "clz", code: "clz v0 a2", want: 29},
	{name: "clo", code: "clo v0 a3", want: 32},
	{name: "teq, equal", code: "teq a2 a2", want: unchanged, signal: unix.SIGTRAP},
	{name: "teq, not equal", code: "teq a2 a3", want: unchanged},
	{name: "teqi, equal", code: "teqi a2 7", want: unchanged, signal: unix.SIGTRAP},
	{name: "rotr", code: ".word 0x00251202", want: 0xAD0BAD0B, other: 0x000BAD0B, otherName: "srl"},
	{name: "rotrv", code: "addiu t0 zero 8; .word 0x01051046", want: 0xAD0BAD0B, other: 0x000BAD0B, otherName: "srlv"},
	{name: "sync", code: "sync", want: unchanged},
	{name: "ext", code: ".word 0x7ca23a00", want: 0x0B},
	{name: "seb", code: ".word 0x7c051420", want: 0xFFFFFFAD},
	{name: "seh", code: ".word 0x7c051620", want: 0x0BAD},
	{name: "wsbh", code: ".word 0x7c0510a0", want: 0xAD0BAD0B},
	{name: "beql, taken", code: "move v0 zero; beql a2 a2 x; ori v0 v0 1; ori v0 v0 2; x: nop", want: 1},
	{name: "beql, not taken", code: "move v0 zero; beql a2 a3 x; ori v0 v0 1; ori v0 v0 2; x: nop", want: 2, other: 3, otherName: "beq"},
	{name: "bltzl, not taken", code: "move v0 zero; bltzl a2 x; ori v0 v0 1; ori v0 v0 2; x: nop", want: 2, other: 3, otherName: "bltz"},
	{name: "madd", code: "mult a2 a2; nop; nop; madd a2 a2; mflo v0", want: 98},
	{name: "maddu", code: "mult a2 a2; nop; nop; maddu a2 a2; mflo v0", want: 98},
	{name: "msub", code: "mult a2 a2; nop; nop; msub a2 a2; mflo v0", want: 0},
	{name: "pref", code: ".word 0xcc800000", want: unchanged},
	{name: "rdhwr of the thread pointer", code: ".word 0x7c03e83b", want: unchanged},
	{name: "rdhwr of the cycle counter", code: ".word 0x7c03103b", want: unchanged},
	{name: "mfc1", code: ".word 0x44080000", want: unchanged},
	{name: "lwc1", code: ".word 0xc4800000", want: unchanged},
	{name: "ldc1", code: ".word 0xd4800000", want: unchanged},
}

// skipper is a signal handler that notes the signal and steps over the
// instruction. The low word of pc is 36 bytes into o32's ucontext.
const skipper = "li t0 %#x; sw a0 0(t0); lw t1 36(a2); lw t2 4(t0); addiu t1 t1 4; sw t1 36(a2); addiu t2 t2 1; sw t2 4(t0)"

// Words that skipper writes.
const (
	atSignal = patterned
	atFaults = patterned + 1
)

// judge says what a probe's result means: after n faults, the last by signal.
func (p probe) judge(v0 uint32, faults uint32, signal unix.Signal) (Verdict, string) {
	var what string
	good := faults > 0 == (p.signal != 0) && signal == p.signal && v0 == p.want
	switch {
	case faults > 0 && (signal != p.signal || !p.judged):
		what = unix.SignalName(signal)
	case faults > 0:
		what = unix.SignalName(signal) + ", as it should"
	case v0 == p.want && p.signal == 0:
		what = "done, as the MIPS32 manual says"
	case p.otherName != "" && v0 == p.other:
		what = "done as if it were " + p.otherName
	case v0 == p.want:
		what = "nothing happens"
	case v0 == unchanged:
		what = "nothing happens, the target keeps its value"
	default:
		what = fmt.Sprintf("done, but gives %#x instead of %#x", v0, p.want)
	}
	switch {
	case !p.judged:
		return Info, what
	case good:
		return OK, what
	}
	return Fail, what + "; want " + unix.SignalName(p.signal)
}

// runProbes runs each probe once, under a handler that steps over it.
func runProbes(ctx context.Context, e *env) {
	m := machineOr(e)
	if m == nil {
		return
	}
	defer m.close()
	restore, err := m.skipFaults()
	if e.failed("handler", err) {
		return
	}
	defer restore()
	var order []string
	alike := map[string][]string{}
	for _, p := range probes {
		if ctx.Err() != nil {
			return
		}
		code, err := m.put("move v0 a1; " + p.code)
		if e.failed(p.name, err) {
			continue
		}
		m.words[atSignal], m.words[atFaults] = 0, 0
		v0 := m.call(code, false)
		v, what := p.judge(v0, m.words[atFaults], unix.Signal(m.words[atSignal]))
		if v != Info {
			e.say(p.name, v, "%s", what)
			continue
		}
		if alike[what] == nil {
			order = append(order, what)
		}
		alike[what] = append(alike[what], p.name)
	}
	for _, what := range order {
		e.say(what, Info, "%s", strings.Join(alike[what], "; "))
	}
}

// skipFaults steps over every instruction that faults, until restore.
func (m *machine) skipFaults() (restore func(), err error) {
	handler, err := m.put(fmt.Sprintf(skipper, m.addr(atSignal)))
	if err != nil {
		return nil, err
	}
	var undo []func()
	restore = func() {
		for _, f := range undo {
			f()
		}
	}
	for _, sig := range []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE} {
		f, err := handler.Handle(sig)
		if err != nil {
			restore()
			return nil, err
		}
		undo = append(undo, f)
	}
	return restore, nil
}
