//go:build linux

package selftest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// runClock looks at the clocks as Go programs use them.
func runClock(ctx context.Context, e *env) {
	clockSteps(e)
	for _, s := range []struct {
		d time.Duration
		n int
	}{
		{20 * time.Microsecond, e.times(200, 50)},
		{time.Millisecond, e.times(200, 50)},
		{100 * time.Millisecond, e.times(10, 2)},
		{1250 * time.Millisecond, 1}, // seconds and a part of one
	} {
		if ctx.Err() != nil {
			return
		}
		sleeps(e, s.d, s.n)
	}
	timersInOrder(e)
	idleCost(e, time.Duration(e.times(6000, 1500))*time.Millisecond)
}

// clockSteps reads both clocks until the monotonic one has made many steps.
func clockSteps(e *env) {
	n := e.times(3000, 500)
	steps := make([]time.Duration, 0, n)
	reads, back, jumps := 0, 0, 0
	start := time.Now()
	last := start
	for len(steps) < n && time.Since(start) < 5*time.Second {
		now := time.Now()
		reads++
		d := now.Sub(last) // monotonic
		// The wall clock beside it: whoever sets it is not us.
		if wall := now.Round(0).Sub(last.Round(0)); wall < 0 || wall-d > 10*time.Millisecond {
			jumps++
		}
		if d < 0 {
			back++
		}
		if d > 0 {
			steps = append(steps, d)
		}
		last = now
	}
	took := time.Since(start)
	e.judge("monotonic", back == 0 && len(steps) == n, "%d steps back in %d reads", back, reads)
	e.say("wall clock", Info, "%s; set %d times meanwhile", start.UTC().Format(time.RFC3339), jumps)
	if len(steps) == 0 {
		return
	}
	slices.Sort(steps)
	e.say("steps", Info, "least %v, median %v, 99 of 100 below %v, longest %v; a read takes %v",
		steps[0], steps[len(steps)/2], steps[len(steps)*99/100], steps[len(steps)-1], took/time.Duration(reads))
	var res unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC, &res); err == nil {
		e.say("resolution", Info, "the kernel says %v", time.Duration(res.Nano()))
	}
}

// lateLimit is how late a sleep may end on a core that others use too; the
// faults that this looks for lose whole seconds or never end.
const lateLimit = 5 * time.Second

// sleeps sleeps n times.
func sleeps(e *env, d time.Duration, n int) {
	late := make([]time.Duration, n)
	for i := range late {
		began := time.Now()
		time.Sleep(d)
		late[i] = time.Since(began) - d
	}
	slices.Sort(late)
	v := OK
	// A clock with steps of 40 us may read one too few.
	if late[0] < -50*time.Microsecond || late[n-1] > lateLimit {
		v = Fail
	}
	e.say(fmt.Sprintf("sleep of %v", d), v, "%d times: too long by %v at least, %v in the median, %v at most", n, late[0], late[n/2], late[n-1])
}

// timersInOrder starts timers from late to early.
func timersInOrder(e *env) {
	const n = 40
	var mu sync.Mutex // guards fired
	var fired []int
	var wg sync.WaitGroup
	wg.Add(n)
	began := time.Now()
	for i := n - 1; i >= 0; i-- {
		time.AfterFunc(time.Duration(50+5*i)*time.Millisecond, func() {
			mu.Lock()
			fired = append(fired, i)
			mu.Unlock()
			wg.Done()
		})
	}
	wg.Wait()
	took := time.Since(began)
	// Two that are due at once run in any order.
	far := 0
	for at, i := range fired {
		far = max(far, at-i, i-at)
	}
	e.judge("timers", took < 2*lateLimit, "%d timers, all fired after %v, at most %d places from their order", n, took.Round(time.Millisecond), far)
	t := time.NewTimer(time.Hour)
	e.judge("timer stopped", t.Stop() && !t.Stop(), "once")
}

// idleLimit is the part of the CPU, in per cent, that a program may need while
// it waits for one timer.
const idleLimit = 3

// idleCost waits beside a ticker and looks at what that cost: a timeout that
// the kernel reads wrongly is a loop that only looks like sleep.
func idleCost(e *env, d time.Duration) {
	const name = "waiting costs nothing"
	ticker := time.NewTicker(4990 * time.Millisecond)
	defer ticker.Stop()
	var before, after unix.Rusage
	err := unix.Getrusage(unix.RUSAGE_SELF, &before)
	if e.failed(name, err) {
		return
	}
	began := time.Now()
	timer := time.NewTimer(d)
	for waiting := true; waiting; {
		select {
		case <-ticker.C:
		case <-timer.C:
			waiting = false
		}
	}
	took := time.Since(began)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); e.failed(name, err) {
		return
	}
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	per := float64(cpu) / float64(took) * 100
	e.judge(name, per <= idleLimit, "%.1f %% of the CPU and %d switches in %v", per, after.Nvcsw-before.Nvcsw+after.Nivcsw-before.Nivcsw, took.Round(time.Millisecond))
}
