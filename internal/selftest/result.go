//go:build linux

package selftest

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Verdict says what a line of the report means.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Fail Verdict = "FAIL" // what this program relies on does not hold here
	Skip Verdict = "skip" // could not be tried; the line says why
	Info Verdict = "info" // a fact about this core or kernel, neither good nor bad
)

// Result is one line of the report.
type Result struct {
	Group   string  `json:"group"`
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
}

// env is what a group runs with.
type env struct {
	root  string // "" or a stand-in for /, for /proc, /sys and /dev
	quick bool
	emit  func(Result)
	group string
}

// say reports one line.
func (e *env) say(name string, v Verdict, format string, a ...any) {
	e.emit(Result{e.group, name, v, fmt.Sprintf(format, a...)})
}

// judge reports ok if good, else FAIL.
func (e *env) judge(name string, good bool, format string, a ...any) {
	v := Fail
	if good {
		v = OK
	}
	e.say(name, v, format, a...)
}

// failed reports an error of the machinery around a check. It returns whether
// there was one.
func (e *env) failed(name string, err error) bool {
	if err != nil {
		e.say(name, Fail, "%v", err)
	}
	return err != nil
}

// times is how often something is done.
func (e *env) times(full, quick int) int {
	if e.quick {
		return quick
	}
	return full
}

// group is one part of the test, in a process of its own.
type group struct {
	name, what string
	limit      time.Duration // after which its process is killed: it hangs
	run        func(context.Context, *env)
}

// groups are the parts, in the order in which they run: the later ones rely on
// what the earlier ones try.
func groups() []group {
	return []group{
		{"cpu", "what the compiler relies on, instruction by instruction", time.Minute, runRules},
		{"opcodes", "what this core does with instructions that the compiler avoids", 20 * time.Second, runProbes},
		{"storm", "the same while a timer interrupts and signals", time.Minute, runStorm},
		{"link", "LL and SC over exceptions, signals and other threads", time.Minute, runLink},
		{"atomics", "Go's atomics and locks, two threads at once", time.Minute, runAtomics},
		{"compute", "arithmetic with known results", 30 * time.Second, runCompute},
		{"clock", "clocks, sleeps and timers", 30 * time.Second, runClock},
		{"threads", "futexes, threads, preemption", time.Minute, runThreads},
		{"memory", "stacks, faults, collector, RAM", time.Minute, runMemory},
		{"kernel", "what the kernel has", 20 * time.Second, runKernel},
	}
}

// runGroup runs one group in this process. A panic is a line of the report.
func runGroup(ctx context.Context, g group, e *env) {
	defer func() {
		if p := recover(); p != nil {
			e.say("panic", Fail, "%v\n%s", p, debug.Stack())
		}
	}()
	e.group = g.name
	g.run(ctx, e)
}
