//go:build linux

package bridge

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/tty"
)

// counting is a UART with the driver's counters, which a pty has not.
type counting struct {
	Port
	mu sync.Mutex // guards the rest
	n  tty.Counts
}

func (c *counting) Counts() (tty.Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, nil
}

func (c *counting) add(frame, parity, overrun, buffer int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.Frame += frame
	c.n.Parity += parity
	c.n.Overrun += overrun
	c.n.BufferOverrun += buffer
}

// INV 2: what the UART says it has lost is counted since the bridge started,
// over a port that was opened anew and a counter that wraps; it is named when
// the client leaves, whom it does not end.
func TestLineErrors(t *testing.T) {
	const most = 1<<31 - 1
	p := &counting{n: tty.Counts{Frame: most, Parity: 7, Overrun: 7, BufferOverrun: 7}} // of before
	g := start(t, func(g *gateway, o *Options) {
		o.Open = func(ctx context.Context) (Port, func(), error) {
			port, release, err := g.opener.Open(ctx)
			p.Port = port
			return p, release, err
		}
	}).open()
	check := func(frame, parity, overrun, buffer uint64) {
		t.Helper()
		if s := g.status(); s.FrameErrors != frame || s.ParityErrors != parity || s.Overruns != overrun || s.BufOverruns != buffer {
			t.Errorf("%d framing and %d parity errors, %d and %d overruns; want %d, %d, %d, %d",
				s.FrameErrors, s.ParityErrors, s.Overruns, s.BufOverruns, frame, parity, overrun, buffer)
		}
	}
	check(0, 0, 0, 0)
	p.add(0, 0, 0, 5) // while nobody is connected
	c := g.client()
	p.add(1, 2, 3, 4)
	check(1, 2, 3, 9)
	write(t, c, []byte("\x1ago"))
	if got := string(g.radioHears(3)); got != "\x1ago" {
		t.Errorf("the radio heard %q", got)
	}
	c.Close()
	g.says(c.LocalAddr().String(), "closed by the client; the UART reports 1 framing and 2 parity errors, 3 overruns of its FIFO, 4 of its buffer")
	old := g.radio
	g.plug()
	old.Close()
	g.says(notOpen + "ttyS1: input/output error")
	g.open()
	check(1, 2, 3, 9)
	p.add(1, 0, 0, 0)
	check(2, 2, 3, 9)
}

// What the issue, the data path's neighbours and the documents count on.
func TestDefaultLimits(t *testing.T) {
	want := Limits{
		Claim: 250 * time.Millisecond, Pending: time.Minute, Stall: 30 * time.Second, XOFF: time.Second,
		HalfClosed: 2 * time.Second, Linger: 2 * time.Second, ReopenMin: 100 * time.Millisecond, ReopenMax: 5 * time.Second,
	}
	if got := DefaultLimits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// deafPort is a port that does nothing.
type deafPort struct{ Port }

func (deafPort) FD() int                     { return -1 }
func (deafPort) Baud() int                   { return 460800 }
func (deafPort) Flow() tty.Flow              { return tty.FlowNone }
func (deafPort) Counts() (tty.Counts, error) { return tty.Counts{}, unix.ENOTTY }

// A UART that cannot be opened is tried again after 100 ms, doubling to 5 s; so
// is one that breaks at once, and one that lasted begins anew.
func TestReopenBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries = 10
		began := time.Now()
		var at []time.Duration
		b, err := Listen(Options{
			Bind: netip.IPv6Loopback(), Listener: -1, Log: func(string) {}, Limits: DefaultLimits(),
			Open: func(context.Context) (Port, func(), error) {
				at = append(at, time.Since(began))
				if len(at) <= tries {
					return nil, nil, errors.New("no such device")
				}
				return deafPort{}, func() {}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		l := newLoop(b) // which does what is posted, and does not run
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() { b.opener(ctx) })
		lasts := []time.Duration{0, 0, 6 * time.Second, 0}
		both.Go(func() {
			for {
				select {
				case f := <-b.posts:
					f(l)
				case <-ctx.Done():
					return
				}
				if l.port == nil {
					continue
				}
				if len(lasts) == 0 {
					cancel()
				} else {
					time.Sleep(lasts[0]) // of the bubble
					lasts = lasts[1:]
				}
				l.giveUART(unix.EIO)
			}
		})
		both.Wait()
		l.end()
		unix.Close(b.wakeR)
		unix.Close(b.wakeW)
		unix.Close(b.listener)
		ms := func(all ...int) (d []time.Duration) {
			for _, n := range all {
				d = append(d, time.Duration(n)*time.Millisecond)
			}
			return d
		}
		want := ms(0, 100, 300, 700, 1500, 3100, 6300, 11300, 16300, 21300, // fails
			26300, 31300, 36300, // breaks at once, twice, and then after 6 s
			42400, 42600)
		if !slices.Equal(at, want) {
			t.Errorf("tried at %v, want %v", at, want)
		}
	})
}
