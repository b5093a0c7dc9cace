package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Handler answers a call of PID 1. params is JSON or empty, and valid only
// until Handler returns; result must be JSON. ctx is the one given to Serve.
type Handler func(ctx context.Context, method string, params []byte) (result []byte, err error)

// Conn is the service's end. All methods may be called on a nil *Conn, as
// FromEnv returns it where nobody supervises: they do nothing. Methods may be
// called by several goroutines, Serve by one.
type Conn struct {
	fd     int
	stored map[string]int

	mu     sync.Mutex // guards sends, so that Close cannot free fd under one
	closed bool
}

// FromEnv takes the socket and the stored descriptors over from the
// environment, removes both variables from it, and sets close-on-exec, so that
// no child of the service has them. It returns nil, nil where GW_NOTIFY_FD is
// not set.
func FromEnv() (*Conn, error) {
	socket, ok := os.LookupEnv(EnvSocket)
	if !ok {
		return nil, nil
	}
	stored := os.Getenv(EnvStored)
	for _, name := range []string{EnvSocket, EnvStored} {
		if err := os.Unsetenv(name); err != nil {
			return nil, fmt.Errorf("take %s over: %w", name, err)
		}
	}
	fd, err := strconv.Atoi(socket)
	if err != nil || fd < 0 {
		return nil, fmt.Errorf("%s=%q: %w", EnvSocket, socket, ErrMalformed)
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, fmt.Errorf("%s=%d: %w", EnvSocket, fd, err)
	}
	if kind != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("%s=%d is no packet socket: %w", EnvSocket, fd, ErrMalformed)
	}
	names, err := parseStored(stored)
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(fd)
	for name, stored := range names {
		if _, err := unix.FcntlInt(uintptr(stored), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return nil, fmt.Errorf("stored descriptor %s=%d: %w", name, stored, err)
		}
	}
	return &Conn{fd: fd, stored: names}, nil
}

// parseStored reads GW_FDS.
func parseStored(s string) (map[string]int, error) {
	names := make(map[string]int)
	if s == "" {
		return names, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, number, _ := strings.Cut(part, "=")
		fd, err := strconv.Atoi(number)
		if err != nil || fd < 0 || !ValidName(name) {
			return nil, fmt.Errorf("%s=%q: %w", EnvStored, s, ErrMalformed)
		}
		names[name] = fd
	}
	return names, nil
}

// FD returns the descriptor that an earlier process of this service stored
// under that name. It is the caller's from then on, and stays stored.
func (c *Conn) FD(name string) (fd int, ok bool) {
	if c == nil {
		return 0, false
	}
	fd, ok = c.stored[name]
	return fd, ok
}

// Ready says that the service does its job now; status may be empty.
func (c *Conn) Ready(status string) error {
	if status == "" {
		return c.send("READY=1\n", -1)
	}
	return c.send("READY=1\nSTATUS="+oneLine(status)+"\n", -1)
}

// Status sets the line that people see behind the service.
func (c *Conn) Status(text string) error { return c.send("STATUS="+oneLine(text)+"\n", -1) }

// Watchdog says that the service is alive.
func (c *Conn) Watchdog() error { return c.send("WATCHDOG=1\n", -1) }

// Stopping says that the service is about to end by itself.
func (c *Conn) Stopping() error { return c.send("STOPPING=1\n", -1) }

// StoreFD gives PID 1 a duplicate of fd, which it passes to the next process
// of this service. The name is free again after RemoveFD; storing a name again
// replaces its descriptor. PID 1 keeps at most MaxStored.
func (c *Conn) StoreFD(name string, fd int) error {
	if !ValidName(name) {
		return fmt.Errorf("store descriptor %q: %w", name, ErrName)
	}
	return c.send("FDSTORE=1\nFDNAME="+name+"\n", fd)
}

// RemoveFD makes PID 1 close its duplicate.
func (c *Conn) RemoveFD(name string) error {
	if !ValidName(name) {
		return fmt.Errorf("remove descriptor %q: %w", name, ErrName)
	}
	return c.send("FDSTOREREMOVE=1\nFDNAME="+name+"\n", -1)
}

// Close closes the socket; PID 1 sees that as nothing worth mentioning. It
// must not be called before Serve has returned.
func (c *Conn) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return unix.Close(c.fd)
}

// oneLine makes s fit behind STATUS=.
func oneLine(s string) string {
	if len(s) > MaxStatus {
		s = strings.ToValidUTF8(s[:MaxStatus], "")
	}
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
}

// send sends one packet, with a descriptor unless fd is negative. It blocks
// while PID 1 has ten packets of this service unread.
func (c *Conn) send(packet string, fd int) error {
	if c == nil {
		return nil
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("send notification: %w", ErrClosed)
	}
	return sendPacket(c.fd, []byte(packet), rights, 0)
}

// Serve answers the calls of PID 1 one after the other with h. It blocks, and
// returns nil when ctx ends, or an error when PID 1 is gone. A panic of h is
// the error of that call, with its stack on stderr. Serve can be called once:
// the way by which ctx ends it is shutting down the receiving side.
func (c *Conn) Serve(ctx context.Context, h Handler) error {
	if c == nil {
		<-ctx.Done()
		return nil
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		// The only error that can be is ENOTCONN: the receive ends then, too.
		_ = unix.Shutdown(c.fd, unix.SHUT_RD)
	})
	defer func() {
		if !stop() {
			<-ended
		}
	}()
	var buf []byte
	for {
		var packet []byte
		var err error
		packet, buf, err = receiveBlocking(c.fd, buf)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("receive call: %w", err)
		}
		id, method, params, err := ParseCall(packet)
		if err != nil {
			fmt.Fprintf(os.Stderr, "notify: ignored a message of %d bytes: %v\n", len(packet), err)
			continue
		}
		answer := appendAnswer(id, safely(ctx, h, method, params))
		c.mu.Lock()
		err = sendPacket(c.fd, answer, nil, 0)
		c.mu.Unlock()
		if err != nil {
			return fmt.Errorf("answer call: %w", err)
		}
	}
}

// outcome is what a handler returned.
type outcome struct {
	result []byte
	err    error
}

// safely runs h and turns its panic into an error.
func safely(ctx context.Context, h Handler, method string, params []byte) (o outcome) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "notify: method %s panicked: %v\n%s", method, p, debug.Stack())
			o = outcome{err: fmt.Errorf("method %s panicked: %v", method, p)}
		}
	}()
	result, err := h(ctx, method, params)
	return outcome{result, err}
}

// appendAnswer makes the packet that answers call id.
func appendAnswer(id uint32, o outcome) []byte {
	const head = len("REPLY=4294967295\n")
	if o.err == nil && len(o.result) > MaxMessage-head {
		o = outcome{err: fmt.Errorf("answer of %d bytes: %w", len(o.result), ErrTooLong)}
	}
	if o.err != nil {
		text := o.err.Error()
		if len(text) > MaxMessage-head {
			text = text[:MaxMessage-head]
		}
		b := strconv.AppendUint([]byte("ERROR="), uint64(id), 10)
		return append(append(b, '\n'), text...)
	}
	b := make([]byte, 0, head+len(o.result))
	b = strconv.AppendUint(append(b, "REPLY="...), uint64(id), 10)
	return append(append(b, '\n'), o.result...)
}

// receiveBlocking waits for a packet and returns it, in buf or in a larger one
// that is returned for the next call.
func receiveBlocking(fd int, buf []byte) (packet, grown []byte, err error) {
	if len(buf) == 0 {
		buf = make([]byte, 512) // a call without parameters is some 20 bytes
	}
	for {
		n, _, err := unix.Recvfrom(fd, buf, unix.MSG_PEEK|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET):
			continue // ECONNRESET comes once, before what is still queued
		case err == nil && n == 0:
			return nil, buf, ErrClosed
		case err != nil:
			return nil, buf, err
		case n > MaxMessage:
			// Take it off the queue; it is not worth its memory.
			if _, _, err := unix.Recvfrom(fd, buf, 0); err != nil {
				return nil, buf, err
			}
			continue
		case n > len(buf):
			buf = make([]byte, n)
		}
		n, _, err = unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, buf, err
		}
		if n == 0 {
			return nil, buf, ErrClosed
		}
		return buf[:n], buf, nil
	}
}

// sendPacket sends p whole.
func sendPacket(fd int, p, rights []byte, flags int) error {
	for {
		err := unix.Sendmsg(fd, p, rights, nil, unix.MSG_NOSIGNAL|flags)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
			return ErrClosed
		default:
			return fmt.Errorf("send %d bytes: %w", len(p), err)
		}
	}
}
