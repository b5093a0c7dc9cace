//go:build linux

package selftest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"

	"gwinit/internal/selftest/native"
)

// Words of the link tests, in lines of their own.
const (
	atX       = patterned + 32 // what LL and SC are about
	atCount   = patterned + 33 // how often somebody else wrote X
	atStop    = patterned + 34 // ends the other thread
	atY       = patterned + 64 // another word, lines away
	atHandled = patterned + 96 // how often the handler ran
)

// single is a sequence of one thread; v0 is what SC says, and whether it
// stored is looked up in memory.
type single struct {
	name, code string
	at         int  // the word that SC is about
	must       bool // whether SC has to store: what every loop relies on
}

// scMark is what SC stores.
const scMark = 0x600D

// singles use a0 for X and a1 for Y.
var singles = [...]single{
	{name: "LL x, SC x", code: "ll t0 0(a0); nop; sc a2 0(a0); nop; move v0 a2", at: atX, must: true},
	{name: "LL x, SC x, SC x", code: "ll t0 0(a0); nop; move t1 a2; sc t1 0(a0); nop; sw zero 0(a0); sc a2 0(a0); nop; move v0 a2", at: atX},
	{name: "LL x, SC y", code: "ll t0 0(a0); nop; sc a2 0(a1); nop; move v0 a2", at: atY},
	{name: "LL x, SC to the word behind x", code: "ll t0 0(a0); nop; sc a2 4(a0); nop; move v0 a2", at: atX + 1},
	{name: "LL x, SC y, SC x", code: "ll t0 0(a0); nop; move t1 a2; sc t1 0(a1); nop; sc a2 0(a0); nop; move v0 a2", at: atX},
	{name: "LL x, LL y, SC x", code: "ll t0 0(a0); nop; ll t0 0(a1); nop; sc a2 0(a0); nop; move v0 a2", at: atX},
	{name: "LL x, SW x, SC x", code: "ll t0 0(a0); nop; sw zero 0(a0); sc a2 0(a0); nop; move v0 a2", at: atX},
	{name: "LL x, SW y, SC x", code: "ll t0 0(a0); nop; sw zero 0(a1); sc a2 0(a0); nop; move v0 a2", at: atX},
	{name: "LL x, getpid, SC x", code: "move s0 a0; move s1 a2; ll t0 0(a0); addiu v0 zero 4020; syscall; sc s1 0(s0); nop; move v0 s1", at: atX},
	{name: "SC x, a getpid behind the last SC", code: "move s0 a0; move s1 a2; addiu v0 zero 4020; syscall; sc s1 0(s0); nop; move v0 s1", at: atX},
	{name: "LL x, a load that is not aligned, SC x", code: "ll t0 0(a0); lw t1 1(a1); nop; sc a2 0(a0); nop; move v0 a2", at: atX},
}

// linkFacts is what the link tests found.
type linkFacts struct {
	// stored says of each single whether its SC stored.
	stored map[string]bool
	// For each way in which somebody else writes X between LL and SC: the
	// rounds in which it was written, and those of them whose SC stored.
	changed, overwrote map[string]int
}

// meddling is somebody else who writes X between LL and SC. The program's
// atomics never write by a plain store what others take by LL and SC, so that
// one that does is only told of.
type meddling struct {
	name, code string
	plain      bool
}

// conclude says what the facts come to: a line for the flag and one for what
// the program's atomics need. They need that no SC stores over what another
// thread or a handler wrote since its LL.
func (f linkFacts) conclude() []Result {
	word := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	flag := fmt.Sprintf("link flag: address-checked %s, cleared by exception %s, by a store %s, by SC %s",
		word(!f.stored["LL x, SC y"]), word(!f.stored["LL x, getpid, SC x"]),
		word(!f.stored["LL x, SW x, SC x"]), word(!f.stored["LL x, SC x, SC x"]))
	out := []Result{{"", "conclusion", Info, flag}}
	var rounds, bad, plain int
	for _, way := range append(others[:], meddlers[:]...) {
		if way.plain {
			plain += f.overwrote[way.name]
			continue
		}
		rounds += f.changed[way.name]
		bad += f.overwrote[way.name]
	}
	beside := ""
	if plain > 0 {
		beside = fmt.Sprintf("; over plain stores, which this program's atomics do without, %d did", plain)
	}
	switch {
	case bad > 0:
		out = append(out, Result{"", "atomics", Fail, fmt.Sprintf("%d of %d SCs stored over what somebody else's SC wrote since the LL: updates can be lost%s. The kernel's cure is an SC on the way out of an exception", bad, rounds, beside)})
	case rounds == 0:
		out = append(out, Result{"", "atomics", Skip, "nobody ever came between LL and SC"})
	default:
		out = append(out, Result{"", "atomics", OK, fmt.Sprintf("no SC stored over what another thread's or a handler's SC wrote, in %d rounds%s", rounds, beside)})
	}
	return out
}

// waiting is the sequence that somebody else interferes with: LL x, wait until
// the word behind a1 changes, a3 times at most, SC x. v0 is what SC says, v1
// how often the other one came.
const waiting = `ll t0 0(a0); lw t1 0(a1); nop
	x: lw t2 0(a1); addiu a3 a3 -1; blez a3 y; nop; beq t2 t1 x; nop
	y: move v0 a2; sc v0 0(a0); nop; subu v1 t2 t1`

// waitRounds bounds one wait: a second or so on the real core, many times what
// the other thread needs to get its turn.
const waitRounds = 40_000_000

// others are the other thread's loops, which write X and count until the stop
// word is set. a0 is X, a1 Y, a2 a pause.
var others = [...]meddling{
	{name: "a thread that stores x", plain: true, code: `move t0 zero
		x: addiu t0 t0 1; sw t0 0(a0); sw t0 4(a0); lw t1 8(a0); nop; beq t1 zero x; nop`},
	{name: "a thread that adds to x by LL and SC and leaves LL y open", code: `move t0 zero
		x: ll t2 0(a0); nop; addiu t2 t2 3; sc t2 0(a0); nop; beq t2 zero x; addiu t0 t0 1
		sw t0 4(a0); ll t3 0(a1); move t4 a2; y: addiu t4 t4 -1; bgtz t4 y; nop
		lw t1 8(a0); nop; beq t1 zero x; nop`},
}

// meddlers are signal handlers that write X and count: by a plain store, and
// as a handler of Go does, with an SC of its own.
var meddlers = [...]meddling{
	{name: "a handler that stores x", plain: true, code: "li t0 %#x; li t1 %#x; lw t2 0(t1); nop; addiu t2 t2 1; sw t2 0(t0); sw t2 0(t1)"},
	{name: "a handler that adds to x by LL and SC", code: "li t0 %#x; li t1 %#x; x: ll t2 0(t0); nop; addiu t2 t2 5; sc t2 0(t0); nop; beq t2 zero x; nop; lw t2 0(t1); nop; addiu t2 t2 1; sw t2 0(t1)"},
}

// linkTest is the machine with its findings.
type linkTest struct {
	*env
	m     *machine
	facts linkFacts
}

// runLink finds out how far SC can be trusted here.
func runLink(ctx context.Context, e *env) {
	m := machineOr(e)
	if m == nil {
		return
	}
	defer m.close()
	// The other threads have to run while this one is in machine code.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	// A collection would wait for the thread that waits for this one.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &linkTest{env: e, m: m, facts: linkFacts{map[string]bool{}, map[string]int{}, map[string]int{}}}
	restore, err := m.skipFaults() // who mends an unaligned load differs
	if e.failed("handler", err) {
		return
	}
	for _, s := range singles {
		l.single(s)
	}
	restore()
	rounds := e.times(100, 20)
	wait, err := m.put(waiting)
	if e.failed("waiting", err) {
		return
	}
	for _, o := range others {
		if ctx.Err() == nil {
			e.failed(o.name, l.thread(o.name, o.code, wait, rounds))
		}
	}
	for _, h := range meddlers {
		if ctx.Err() == nil {
			e.failed(h.name, l.signal(h.name, h.code, wait, rounds))
		}
	}
	for _, r := range l.facts.conclude() {
		e.say(r.Name, r.Verdict, "%s", r.Detail)
	}
}

// single runs one sequence often enough that an interrupt in between, which
// may change its end, is not what is told.
func (l *linkTest) single(s single) {
	code, err := l.m.put(s.code)
	if l.failed(s.name, err) {
		return
	}
	const runs = 51
	stored, lies := 0, 0
	for range runs {
		l.m.words[s.at] = 0
		v0, _ := code.Call([4]uint32{l.m.addr(atX), l.m.addr(atY), scMark})
		did := l.m.words[s.at] == scMark
		if did {
			stored++
		}
		if did != (v0 == 1) || v0 > 1 {
			lies++
		}
	}
	l.facts.stored[s.name] = stored > runs/2
	detail := fmt.Sprintf("SC stored in %d of %d runs", stored, runs)
	switch {
	case lies > 0:
		l.say(s.name, Fail, "%s and its result told something else in %d", detail, lies)
	case s.must:
		l.judge(s.name, stored > runs/2, "%s", detail)
	default:
		l.say(s.name, Info, "%s", detail)
	}
}

// round is one LL, wait, SC with somebody else's word at counter.
func (l *linkTest) round(name string, wait native.Code, counter int) (came bool) {
	v0, v1 := wait.Call([4]uint32{l.m.addr(atX), l.m.addr(counter), scMark, waitRounds})
	if v1 == 0 {
		return false
	}
	l.facts.changed[name]++
	if v0 != 0 {
		l.facts.overwrote[name]++
	}
	return true
}

// tell reports a way of meddling.
func (l *linkTest) tell(name string, rounds int) {
	l.say("x written in between by "+name, Info, "came in %d of %d rounds; SC stored all the same in %d", l.facts.changed[name], rounds, l.facts.overwrote[name])
}

// thread has another thread write X while this one is between LL and SC.
func (l *linkTest) thread(name, source string, wait native.Code, rounds int) error {
	code, err := l.m.put(source)
	if err != nil {
		return err
	}
	words := l.m.words
	words[atX], words[atCount], words[atStop] = 0, 0, 0
	var other sync.WaitGroup
	other.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		code.Call([4]uint32{l.m.addr(atX), l.m.addr(atY), 200})
	})
	for range rounds {
		if !l.round(name, wait, atCount) {
			break
		}
	}
	stop(l.m)
	other.Wait()
	l.tell(name, rounds)
	return nil
}

// signal has a handler of this very thread write X. The kernel's timer sends
// the signal: a goroutine that did would first execute an SC somewhere in Go's
// runtime, and so clear the very flag that this is about.
func (l *linkTest) signal(name, source string, wait native.Code, rounds int) error {
	l.m.words[atX], l.m.words[atHandled] = 0, 0
	end, err := l.m.alarm(fmt.Sprintf(source, l.m.addr(atX), l.m.addr(atHandled)))
	if err != nil {
		return err
	}
	defer end()
	for range rounds {
		if !l.round(name, wait, atHandled) {
			break
		}
	}
	l.tell(name, rounds)
	return nil
}
