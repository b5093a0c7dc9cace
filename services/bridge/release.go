//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gwinit/internal/radiolock"
)

// Released says why the UART is not open while it is lent to another program.
const Released = "the radio is released to another program; gwctl radio take ends that, or its deadline"

var (
	errReleased = errors.New(Released)
	errNoLoan   = errors.New("this bridge cannot release the radio: it was started by hand; end it instead")
)

// gate stands in front of Options.Open: while the radio is lent nothing opens
// the UART, and who lends it can wait until it is closed.
type gate struct {
	loan *radiolock.Loan
	open OpenFunc
	told bool // the present loan was reported; used by Open only

	mu     sync.Mutex    // guards the following
	closed chan struct{} // closed while the UART is
}

func newGate(loan *radiolock.Loan, open OpenFunc) *gate {
	g := &gate{loan: loan, open: open, closed: make(chan struct{})}
	close(g.closed)
	return g
}

// Open is an OpenFunc. The first call during a loan fails, so that it is
// reported; the next one waits for its end.
func (g *gate) Open(ctx context.Context) (Port, func(), error) {
	for g.begin(); g.loan.Left() > 0; g.begin() {
		g.end()
		if !g.told {
			g.told = true
			return nil, nil, errReleased
		}
		if err := g.loan.Wait(ctx); err != nil {
			return nil, nil, err
		}
	}
	g.told = false
	p, release, err := g.open(ctx)
	if err != nil {
		g.end()
		return nil, nil, err
	}
	return p, func() { release(); g.end() }, nil
}

// begin is before the look at the loan: who lends the radio after that look
// waits for end.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.closed)
}

// wait returns when the UART is closed.
func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Release closes the UART and gives its lock up, for d or until Take. The
// client gets an orderly end and newcomers are refused meanwhile. It returns
// when another program can have the UART.
func (b *Bridge) Release(ctx context.Context, d time.Duration) error {
	switch {
	case b.o.Unavailable != "":
		return errors.New("the bridge does not have the radio: " + b.o.Unavailable)
	case b.gate == nil:
		return errNoLoan
	}
	if err := b.gate.loan.Begin(d); err != nil {
		return err
	}
	b.o.Log("the radio is released for " + span(d) + " at most")
	if !b.post(func(l *loop) { l.lend() }) {
		return errors.Join(ErrEnded, b.gate.loan.End())
	}
	if err := b.gate.wait(ctx); err != nil {
		return fmt.Errorf("the UART is not closed yet, and will be: %w", err)
	}
	return nil
}

// Take ends a release. The UART is opened again within ReopenMax, once nobody
// else holds it.
func (b *Bridge) Take(context.Context) error {
	switch {
	case b.gate == nil:
		return errNoLoan
	case b.gate.loan.Left() > 0:
		b.o.Log("the radio is taken back")
	}
	return b.gate.loan.End()
}

// Lent returns for how long the radio is still released, 0 when it is not.
func (b *Bridge) Lent() time.Duration {
	if b.gate == nil {
		return 0
	}
	return b.gate.loan.Left()
}

// lend gives the UART back because the radio is lent.
func (l *loop) lend() {
	if l.port == nil {
		return // whoever opens it looks at the loan
	}
	if l.client.fd >= 0 {
		l.leave(Released)
	}
	l.giveUART(errReleased)
	l.uartErr = Released
}
