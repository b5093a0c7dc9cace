//go:build linux

package radioctl

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/radiochip"
	"gwinit/internal/tty"
)

// line is radiochip.Line on a serial port.
type line struct {
	port *tty.Port
	baud int
}

// stuckAfter is how long the far end may take nothing, and how long bytes have to
// leave beyond what their number takes.
const stuckAfter = time.Second

// Read implements radiochip.Line.
func (l *line) Read(p []byte, wait time.Duration) (int, error) {
	ok, err := l.poll(unix.POLLIN, wait)
	if !ok || err != nil {
		return 0, err
	}
	for {
		n, err := unix.Read(l.port.FD(), p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, nil
		case err != nil:
			return 0, fmt.Errorf("read the radio's UART: %w", err)
		case n == 0:
			return 0, fmt.Errorf("read the radio's UART: %w", io.EOF)
		}
		return n, nil
	}
}

// Write implements radiochip.Line.
func (l *line) Write(p []byte) error {
	for len(p) > 0 {
		ok, err := l.poll(unix.POLLOUT, stuckAfter)
		if err != nil {
			return err
		}
		if !ok {
			return radiochip.ErrStuck
		}
		n, err := unix.Write(l.port.FD(), p)
		if err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return fmt.Errorf("write to the radio's UART: %w", err)
		}
		p = p[max(0, n):]
	}
	return nil
}

// poll waits until the port is ready for what is asked.
func (l *line) poll(events int16, wait time.Duration) (bool, error) {
	for end := time.Now().Add(wait); ; {
		p := []unix.PollFd{{Fd: int32(l.port.FD()), Events: events}}
		n, err := unix.Poll(p, int(max(0, time.Until(end)).Milliseconds()))
		switch {
		case err == unix.EINTR && time.Now().Before(end):
			continue
		case err != nil && err != unix.EINTR:
			return false, fmt.Errorf("wait for the radio's UART: %w", err)
		case n > 0 && p[0].Revents&events == 0:
			return false, errors.New("the radio's UART is gone")
		}
		return n > 0, nil
	}
}

// Set implements radiochip.Line.
func (l *line) Set(baud int, flow string) error {
	f, err := tty.ParseFlow(flow)
	if err != nil {
		return err
	}
	if err := l.drain(); err != nil {
		return err
	}
	if err := l.port.Set(baud, f); err != nil {
		return err
	}
	l.baud = baud
	// What an XOFF of before held up is gone, and it holds nothing any more.
	return errors.Join(l.port.ResumeOutput(), l.port.FlushInput())
}

// drain waits until all has left, the UART's FIFO too; what does not is thrown away.
func (l *line) drain() error {
	unsent, err := l.port.Unsent()
	if err != nil {
		return err
	}
	limit := stuckAfter
	if l.baud > 0 {
		limit += time.Duration(unsent) * 10 * time.Second / time.Duration(l.baud)
	}
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		n, err := l.port.Unsent()
		if err != nil {
			return err
		}
		idle, err := l.port.Idle()
		if err != nil || n == 0 && idle {
			return err
		}
		if time.Now().After(end) {
			return l.port.FlushOutput()
		}
	}
}
