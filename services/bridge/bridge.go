//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
)

// ErrEnded is returned by Status when Run has ended or was never called.
var ErrEnded = errors.New("the bridge is not running")

// Bridge is one UART and one TCP port. Make it with Listen, then call Run once.
type Bridge struct {
	o        Options
	addrMu   sync.Mutex // guards at, which the loop changes
	at       netip.AddrPort
	listener int
	fresh    bool
	gate     *gate // nil: the radio cannot be released

	wakeR, wakeW int                // a pipe: poll(2) is the only place where the loop waits
	posts        chan func(l *loop) // run by the loop after a byte in the pipe
	uartMu       sync.Mutex         // one call of UARTChanged at a time
	done         chan struct{}      // closed when the loop has ended
	askLinks     chan struct{}      // the networks of the interfaces are wanted
	pace         chan time.Duration // a look at the radio is wanted then
	wakeMu       sync.RWMutex       // guards wakeW against its close
}

// Listen opens the port. From then on connects succeed; they are served once
// Run runs. It does not touch the UART.
func Listen(o Options) (*Bridge, error) {
	if o.Open == nil || o.Log == nil {
		return nil, errors.New("bridge: Options need Open and Log")
	}
	fd, at, fresh, err := listen(o.Bind, o.Port, o.Listener, o.Limits.Stall)
	if err != nil {
		return nil, err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make the wake pipe: %w", err)
	}
	var g *gate
	if o.Loan != nil {
		g = newGate(o.Loan, o.Open)
		o.Open = g.Open
	}
	return &Bridge{
		o: o, at: at, listener: fd, fresh: fresh, gate: g,
		wakeR: pipe[0], wakeW: pipe[1],
		posts: make(chan func(*loop), 8),
		done:  make(chan struct{}),

		askLinks: make(chan struct{}, 1),
		pace:     make(chan time.Duration, 1),
	}, nil
}

// Addr returns the address that the port is bound to.
func (b *Bridge) Addr() netip.AddrPort {
	b.addrMu.Lock()
	defer b.addrMu.Unlock()
	return b.at
}

// setListener is the loop's change of the listening socket.
func (b *Bridge) setListener(fd int, at netip.AddrPort) {
	b.addrMu.Lock()
	defer b.addrMu.Unlock()
	b.listener, b.at = fd, at
}

// ListenerFD returns the listening socket, which stays b's; fresh tells that it
// was made, not taken from Options.Listener. Call it before Run.
func (b *Bridge) ListenerFD() (fd int, fresh bool) { return b.listener, b.fresh }

// niceness has the radio's bytes go before whatever else the gateway does. Logins
// of strangers, scrapes and bulk TCP of other processes take turns behind it; what
// it does itself is bounded by the line, and by acceptBatch.
const niceness = -10

// Run serves the port until ctx ends, then ends the connections in the orderly
// way, which takes Limits.Linger at most, and returns nil. It closes the
// listening socket last; a duplicate elsewhere keeps the port open.
//
// The calling goroutine becomes the data path, on its own OS thread, which goes
// before others where the kernel lets it.
func (b *Bridge) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Of a process, 0 is this thread. It is a matter of speed only; threads that the
	// runtime makes later are not made by this one, and do not have it.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
	defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) }() // as above

	var helpers sync.WaitGroup
	opening, cancel := context.WithCancel(ctx)
	if b.o.Unavailable == "" {
		helpers.Go(func() { b.opener(opening) })
	} else {
		b.uartChanged(false, b.o.Unavailable)
	}
	if b.o.OnLink != nil {
		helpers.Go(func() { b.linker(opening) })
	}
	helpers.Go(func() { b.pacemaker(opening) })
	asked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		b.post(func(l *loop) { l.stop() })
	})

	err := newLoop(b).run()

	close(b.done)
	cancel()
	if !stop() {
		<-asked
	}
	helpers.Wait()
	b.wakeMu.Lock()
	unix.Close(b.wakeR)
	unix.Close(b.wakeW)
	b.wakeW = -1
	b.wakeMu.Unlock()
	unix.Close(b.listener)
	return err
}

// Status returns what the bridge counts and who is on it. It costs the data
// path nothing until it is called, like Watch.
func (b *Bridge) Status(ctx context.Context) (api.Bridge, error) {
	return inLoop(ctx, b, (*loop).status)
}

// inLoop runs f in the loop and returns its result.
func inLoop[T any](ctx context.Context, b *Bridge, f func(l *loop) T) (none T, err error) {
	answer := make(chan T, 1)
	if !b.post(func(l *loop) { answer <- f(l) }) {
		return none, ErrEnded
	}
	select {
	case v := <-answer:
		return v, nil
	case <-b.done:
		return none, ErrEnded
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// post makes the loop run f between two waits, and returns whether it was
// handed over.
func (b *Bridge) post(f func(l *loop)) bool {
	select {
	case b.posts <- f:
	case <-b.done:
		return false
	}
	b.wakeMu.RLock()
	defer b.wakeMu.RUnlock()
	if b.wakeW < 0 {
		return false
	}
	// A full pipe wakes the loop as well as this byte would.
	_, _ = unix.Write(b.wakeW, []byte{0})
	return true
}

// clock is the loop's: monotonic (INV 13).
type clock struct{ start int64 }

func newClock() clock { return clock{start: nanotime()} }

// now is since the clock was made.
//
//go:nosplit
//go:norace
func (c clock) now() time.Duration { return time.Duration(nanotime() - c.start) }

func unixIs(err error, e unix.Errno) bool { return errors.Is(err, e) }
