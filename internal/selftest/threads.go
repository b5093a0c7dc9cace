//go:build linux

package selftest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// runThreads looks at what goroutines stand on.
func runThreads(ctx context.Context, e *env) {
	for _, step := range []func(*env){pingPong, channels, manyThreads, preemption, pipes, nilFaults} {
		if ctx.Err() != nil {
			return
		}
		step(e)
	}
}

// futex operations (include/uapi/linux/futex.h).
const (
	futexWaitPrivate = 0 | 128
	futexWakePrivate = 1 | 128
)

// futexWait sleeps while *word is value, a second at most.
func futexWait(word *uint32, value uint32) error {
	limit := unix.NsecToTimespec(time.Second.Nanoseconds())
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, uintptr(value), uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno == 0 || errno == unix.EAGAIN || errno == unix.EINTR {
		return nil
	}
	return os.NewSyscallError("futex wait", errno)
}

func futexWake(word *uint32) error {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, 1, 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("futex wake", errno)
	}
	return nil
}

// pingPong has two threads wake each other by turns, with the kernel's futex.
func pingPong(e *env) {
	const name = "futex"
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(hands + 1))
	n := uint32(e.times(10_000, 2000))
	var turn uint32
	var lost atomic.Uint32
	var errs [hands]error
	began := time.Now()
	var wg sync.WaitGroup
	for hand := range hands {
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := uint32(hand); i < 2*n; i += hands {
				for {
					now := atomic.LoadUint32(&turn)
					if now == i {
						break
					}
					err := futexWait(&turn, now)
					if errors.Is(err, unix.ETIMEDOUT) {
						lost.Add(1)
					} else if err != nil {
						errs[hand] = err
						return
					}
				}
				atomic.StoreUint32(&turn, i+1)
				if err := futexWake(&turn); err != nil {
					errs[hand] = err
					return
				}
			}
		})
	}
	wg.Wait()
	if e.failed(name, errors.Join(errs[:]...)) {
		return
	}
	e.judge(name, lost.Load() == 0 && turn == 2*n, "%d turns between two threads, %d wake-ups lost, %v a turn", turn, lost.Load(), time.Since(began)/time.Duration(2*n))
}

// channels has two goroutines answer each other.
func channels(e *env) {
	n := e.times(50_000, 5000)
	there, back := make(chan int), make(chan int)
	began := time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		for v := range there {
			back <- v + 1
		}
	})
	wrong := 0
	for i := range n {
		there <- i
		if <-back != i+1 {
			wrong++
		}
	}
	close(there)
	wg.Wait()
	e.judge("channels", wrong == 0, "%d answers, %d wrong, %v each", n, wrong, time.Since(began)/time.Duration(n))
}

// manyThreads starts threads of the kernel and goroutines, and lets them go.
func manyThreads(e *env) {
	const threads, goroutines = 16, 500
	var sum atomic.Uint32
	var wg sync.WaitGroup
	for range threads {
		wg.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends, too
			sum.Add(1)
			time.Sleep(5 * time.Millisecond)
		})
	}
	for range goroutines {
		wg.Go(func() {
			runtime.Gosched()
			sum.Add(1)
		})
	}
	wg.Wait()
	e.judge("many at once", sum.Load() == threads+goroutines, "%d of %d threads and goroutines ended", sum.Load(), threads+goroutines)
}

// preemption has a goroutine that never waits give way to others: where it calls a
// function that calls one, since our Go preempts nowhere else.
func preemption(e *env) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var stop atomic.Bool
	var wg sync.WaitGroup
	var rounds uint64
	var longest time.Duration
	wg.Go(func() {
		for !stop.Load() {
			oneRound(&rounds)
		}
	})
	const n = 10
	for range n {
		began := time.Now()
		time.Sleep(time.Millisecond)
		longest = max(longest, time.Since(began))
	}
	stop.Store(true)
	wg.Wait()
	e.judge("a loop that only calls gives way", longest < lateLimit, "%d times, after %v at most, %d rounds meanwhile", n, longest.Round(time.Microsecond), rounds)
}

//go:noinline
func oneRound(n *uint64) { countOne(n) }

//go:noinline
func countOne(n *uint64) { *n++ }

// pipes passes bytes through the kernel and the network poller.
func pipes(e *env) {
	const name = "pipe and poller"
	r, w, err := os.Pipe()
	if e.failed(name, err) {
		return
	}
	defer r.Close()
	defer w.Close()
	n := e.times(5000, 500)
	var wg sync.WaitGroup
	var writeErr error
	wg.Go(func() {
		for i := range n {
			if i%50 == 0 {
				time.Sleep(100 * time.Microsecond) // the reader has to wait
			}
			if _, writeErr = w.Write([]byte{byte(i)}); writeErr != nil {
				return
			}
		}
	})
	wrong := 0
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); e.failed(name, err) {
		return
	}
	var b [1]byte
	for i := range n {
		if _, err = r.Read(b[:]); err != nil {
			break
		}
		if b[0] != byte(i) {
			wrong++
		}
	}
	r.Close() // so that a writer that is stuck ends
	wg.Wait()
	if e.failed(name, errors.Join(err, writeErr)) {
		return
	}
	e.judge(name, wrong == 0, "%d bytes, %d wrong", n, wrong)
}

// nilFaults dereferences nil and divides by zero: what recover makes of a
// signal.
func nilFaults(e *env) {
	const n = 200
	caught := 0
	try := func(f func()) {
		defer func() {
			var fault runtime.Error
			if err, ok := recover().(error); ok && errors.As(err, &fault) {
				caught++
			}
		}()
		f()
	}
	var p *[4]int
	var zero, sum int
	list := make([]int, 3)
	for i := range n {
		try(func() { sum += p[2] })
		try(func() { p[1] = i })
		try(func() { sum += i / zero })
		try(func() { sum += list[i+3] })
	}
	e.judge("nil, division by zero, bounds", caught == 4*n && sum == 0, "%d of %d faults caught", caught, 4*n)
}
