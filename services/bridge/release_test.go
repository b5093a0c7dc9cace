//go:build linux

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/radiolock"
)

func (g *gateway) owner() string {
	g.t.Helper()
	h, err := radiolock.Look(g.root)
	if err != nil {
		g.t.Fatal(err)
	}
	return h.Name
}

func TestRelease(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	if err := g.b.Release(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	// At once, and not only soon: the other program tries once.
	if got := g.owner(); got != "" {
		t.Errorf("owner %q", got)
	}
	ends(t, c)
	g.says("client "+c.LocalAddr().String()+" disconnected", Released)
	g.until("reason in the status", func() bool { s := g.status(); return !s.UARTOpen && s.UARTErr == Released })

	other, err := radiolock.Acquire(g.root, "flash")
	if err != nil {
		t.Fatal(err)
	}
	refused := g.dial()
	write(t, refused, []byte{0x1a})
	ends(t, refused)
	g.says("connection from "+refused.LocalAddr().String()+" closed", "released to another program")

	// Taken back too early: the one that has it is not disturbed.
	if err := g.b.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.until("the owner in the status", func() bool { return strings.Contains(g.status().UARTErr, "in use by flash") })
	other.Release()
	g.open()
	if got := g.owner(); got != LockOwner {
		t.Errorf("owner %q", got)
	}
	c = g.client()
	g.radioSays([]byte("back"))
	if got := readN(t, c, 4); string(got) != "back" {
		t.Errorf("read %q", got)
	}
}

func TestReleaseEndsByItself(t *testing.T) {
	g := start(t, nil).open()
	if err := g.b.Release(t.Context(), radiolock.MinLoan); err != nil {
		t.Fatal(err)
	}
	g.open()
	if got := g.owner(); got != LockOwner {
		t.Errorf("owner %q", got)
	}
}

// A bridge that was restarted, in whatever way, keeps what was promised.
func TestReleaseOutlivesTheBridge(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) {
		if err := o.Loan.Begin(time.Hour); err != nil {
			t.Fatal(err)
		}
	})
	g.says(notOpen + Released)
	if got := g.owner(); got != "" {
		t.Errorf("owner %q", got)
	}
	c := g.dial()
	write(t, c, []byte{0x1a})
	ends(t, c)
	if err := g.b.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.open()
}

// A release comes while the UART is being opened: it is not left open.
func TestReleaseDuringOpen(t *testing.T) {
	in, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	g := start(t, func(g *gateway, o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context) (Port, func(), error) {
			once.Do(func() { close(in); <-goOn })
			return open(ctx)
		}
	})
	<-in
	released := make(chan error, 1)
	go func() { released <- g.b.Release(t.Context(), time.Hour) }()
	g.until("loan", func() bool { return g.loan.Left() > 0 })
	select {
	case err := <-released:
		t.Errorf("released before the UART was closed: %v", err)
	default:
	}
	close(goOn)
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if got := g.owner(); got != "" || g.status().UARTOpen {
		t.Errorf("owner %q", got)
	}
}

func TestReleaseRefused(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Unavailable = inThreadMode })
	if err := g.b.Release(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), inThreadMode) || g.loan.Left() != 0 {
		t.Errorf("in Thread mode: %v, left %v", err, g.loan.Left())
	}
	g = start(t, func(_ *gateway, o *Options) { o.Loan = nil })
	if err := errors.Join(g.b.Release(t.Context(), time.Hour), g.b.Take(t.Context())); !errors.Is(err, errNoLoan) {
		t.Errorf("by hand: %v", err)
	}
	g = start(t, func(_ *gateway, o *Options) { o.Bind = netip.MustParseAddr("127.0.0.1") }).open()
	if err := g.b.Release(t.Context(), 0); err == nil || !g.status().UARTOpen {
		t.Errorf("for no time: %v", err)
	}
	g.stop()
	if err := g.b.Release(t.Context(), time.Hour); !errors.Is(err, ErrEnded) || g.loan.Left() != 0 {
		t.Errorf("after the end: %v, left %v", err, g.loan.Left())
	}
}

func TestReleaseOverControl(t *testing.T) {
	g := start(t, nil).open()
	answer := answerer(g.b, nil)
	for params, want := range map[string]time.Duration{"": radiolock.DefaultLoan, `{"seconds":90}`: 90 * time.Second, "{}": radiolock.DefaultLoan} {
		if d, err := releaseTime([]byte(params)); d != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", params, d, err, want)
		}
	}
	for _, params := range []string{"x", `{"seconds":0.5}`, `{"seconds":86401}`, `{"seconds":-1}`, `{"seconds":"1"}`} {
		if _, err := answer(t.Context(), "release", []byte(params)); err == nil {
			t.Errorf("%q was taken", params)
		}
	}
	if g.owner() != LockOwner {
		t.Errorf("owner %q", g.owner())
	}
	got, err := answer(t.Context(), "release", []byte(`{"seconds":90}`))
	var left api.Released
	if err := errors.Join(err, json.Unmarshal(got, &left)); err != nil || left.Seconds > 90 || left.Seconds < 30 {
		t.Errorf("release: %s, %v", got, err)
	}
	if got, err := answer(t.Context(), "take", nil); err != nil || string(got) != `{"releasedSeconds":0}` {
		t.Errorf("take: %s, %v", got, err)
	}
	g.open()
}
