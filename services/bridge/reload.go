//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/notify"
	"gwinit/internal/tty"
)

// Settings that change while the client stays.

// drainLimit is how long bytes that are on their way to the radio have to leave
// at the old rate. A radio that holds off does not get more: the change may be
// what makes it go on.
const drainLimit = time.Second

// lineChange is a change of the open port that waits for the driver to be empty.
type lineChange struct {
	baud  int
	flow  tty.Flow
	until time.Duration // at the latest
	done  chan<- error
}

// wish is what DeviceOpener opens with, after a change.
type wish struct {
	mu   sync.Mutex // guards the rest
	baud int
	flow string
}

// set takes what the next open uses.
func (w *wish) set(baud int, flow string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.baud, w.flow = baud, flow
}

// get returns it, or what is given where nothing was set.
func (w *wish) get(baud int, flow string) (int, string) {
	if w == nil {
		return baud, flow
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.baud == 0 {
		return baud, flow
	}
	return w.baud, w.flow
}

// SetDoor replaces who may have the radio and takes it from whom, and
// Limits.Claim and Stall, by those of o. A client that may not have the radio
// any more is closed.
func (b *Bridge) SetDoor(ctx context.Context, o *Options) error {
	return b.do(ctx, func(l *loop) {
		p := &l.b.o
		p.Takeover, p.Allow = o.Takeover, o.Allow
		p.Limits.Claim, p.Limits.Stall = o.Limits.Claim, o.Limits.Stall
		ms := int(p.Limits.Stall.Milliseconds())
		for _, fd := range []int{l.b.listener, l.client.fd} {
			// -1 is nobody, and a socket that is broken needs no limit.
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, ms)
		}
		if l.client.fd >= 0 && p.Allow != nil && p.standing(l.client.peer.Addr(), &l.links, l.now()) == outside {
			l.leave(outsideList)
		}
		l.judgeAll()
	})
}

// SetLine changes baud rate and flow control of the open port, when what is on
// its way to the radio has left, or drainLimit is over. Meanwhile nothing more
// is taken from the client, and no byte is dropped. When the UART cannot do
// that, it is as before and the error says why. A UART that is not open is
// left alone.
func (b *Bridge) SetLine(ctx context.Context, baud int, flow tty.Flow) error {
	done := make(chan error, 1)
	err := b.do(ctx, func(l *loop) {
		if l.line != nil {
			l.line.done <- errors.New("another change came in between")
			l.line = nil
		}
		l.line = &lineChange{baud: baud, flow: flow, until: l.now() + drainLimit, done: done}
		l.dirty = true
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-b.done:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changeLine makes the change that waits, if it is time.
func (l *loop) changeLine(now time.Duration) {
	c := l.line
	switch {
	case c == nil:
		return
	case l.port == nil: // the next open is as wanted
		l.changed(c)
		return
	case now < c.until && (!l.tx.empty() || l.unsent() > 0 || l.sending()):
		return
	}
	baud, flow := l.port.Baud(), l.port.Flow()
	if err := l.port.Set(c.baud, c.flow); err != nil {
		l.line = nil
		c.done <- errors.Join(err, l.port.Set(baud, flow))
		return
	}
	l.b.o.Log(fmt.Sprintf("%s runs at %d baud, flow control %s now", l.b.o.UART, l.port.Baud(), l.port.Flow()))
	l.changed(c)
}

// sending tells whether the UART itself still has bytes, which a change of its
// rate would garble.
func (l *loop) sending() bool {
	idle, err := l.port.Idle()
	return err == nil && !idle // an error: hung up
}

// changed notes that the line is, or will be, as c says.
func (l *loop) changed(c *lineChange) {
	l.line, l.want = nil, c
	l.b.o.Baud, l.b.o.Flow = c.baud, c.flow.String()
	c.done <- nil
}

// Rebind moves the listening socket to another address and port, and returns a
// duplicate of it, the caller's, or -1 where it is the same. The client stays;
// who waits in the old socket's backlog is reset. When the new address cannot
// be had the old one is taken again, and the error says why.
func (b *Bridge) Rebind(ctx context.Context, bind netip.Addr, port uint16) (dup int, err error) {
	dup = -1
	// Who gave up waiting would leave the duplicate to nobody, and the loop is
	// at it within milliseconds.
	derr := b.do(context.WithoutCancel(ctx), func(l *loop) { dup, err = l.rebind(bind, port) })
	if derr != nil {
		return -1, derr
	}
	return dup, err
}

func (l *loop) rebind(bind netip.Addr, port uint16) (dup int, err error) {
	was := l.b.Addr()
	stall := l.b.o.Limits.Stall
	fd, at, fresh, err := listen(bind, port, l.b.listener, stall)
	if err != nil {
		var again error
		if fd, at, fresh, again = listen(l.b.o.Bind, was.Port(), -1, stall); again != nil {
			// A new process may have it; this one has no port any more.
			l.b.setListener(-1, was)
			l.failed = errors.Join(err, again)
			l.stop()
			return -1, l.failed
		}
	} else {
		l.b.o.Bind = bind
	}
	l.b.setListener(fd, at)
	l.acceptAt, l.dirty = min(l.acceptAt, l.now()), true
	if !fresh {
		return -1, err
	}
	l.b.o.Log("listening on " + at.String())
	dup, derr := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return dup, errors.Join(err, derr)
}

// do has the loop run f and waits for that.
func (b *Bridge) do(ctx context.Context, f func(l *loop)) error {
	ran := make(chan struct{})
	if !b.post(func(l *loop) { f(l); close(ran) }) {
		return ErrEnded
	}
	select {
	case <-ran:
		return nil
	case <-b.done:
		return ErrEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reload reads the settings anew and has the bridge take them over.
func (s *settings) reload(ctx context.Context, b *Bridge, conn *notify.Conn) error {
	next, err := load(s.opener.Root, s.args, s.options.Log)
	if err != nil {
		return err
	}
	if next.otbr != s.otbr || next.kernel != s.kernel {
		return errRestart
	}
	if err := b.SetDoor(ctx, &next.options); err != nil {
		return err
	}
	var errs []error
	if was, flow := s.opener.wish.get(s.opener.Baud, s.opener.Flow); was != next.opener.Baud || flow != next.opener.Flow {
		line, err := s.opener.named(ctx, next.opener.Flow)
		if err == nil {
			s.opener.wish.set(next.opener.Baud, next.opener.Flow)
			if err = b.SetLine(ctx, next.opener.Baud, line); err != nil {
				s.opener.wish.set(was, flow)
			} else if now, err := b.Status(ctx); err == nil && now.UARTOpen {
				b.uartChanged(true, fmt.Sprintf("%s at %d baud, flow control %s", now.UART, now.Baud, now.Flow))
			}
		}
		errs = append(errs, err)
	}
	if next.options.Bind != s.options.Bind {
		fd, err := b.Rebind(ctx, next.options.Bind, b.Addr().Port())
		if fd >= 0 {
			errs = append(errs, conn.StoreFD(storedName, fd))
			unix.Close(fd)
		}
		if err == nil {
			s.options.Bind = next.options.Bind
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// named returns the flow control that a name of radio.conf means; see flow.
func (d *DeviceOpener) named(ctx context.Context, name string) (tty.Flow, error) {
	driver, err := kernelbridge.Detect(d.Root)
	if err != nil && !errors.Is(err, kernelbridge.ErrAbsent) {
		return tty.FlowNone, err
	}
	return d.flow(ctx, name, driver)
}
