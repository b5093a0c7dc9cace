package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/control/wire"
)

// Options tunes a Server. The zero value is what the box uses.
type Options struct {
	Path string // of the socket; SocketPath if empty

	// Logf takes one line about something that PID 1's log should hold: a
	// refused peer, a panic. It is called from several goroutines. Nil drops
	// the lines.
	Logf func(format string, a ...any)

	MaxClients   int // connected at once; 8 if 0
	MaxFollowers int // of them, those that follow the log or a call; MaxClients-2 if 0, so that a status always fits

	IdleTimeout    time.Duration // for a whole request to come; 30 s if 0
	WriteTimeout   time.Duration // for a client to take a reply; 10 s if 0
	RequestTimeout time.Duration // for the Backend; 45 s if 0: a stop takes 10 s, a start its readiness
}

func (o Options) withDefaults() Options {
	if o.Path == "" {
		o.Path = SocketPath
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.MaxClients == 0 {
		o.MaxClients = 8
	}
	if o.MaxFollowers == 0 {
		o.MaxFollowers = max(1, o.MaxClients-2)
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = 45 * time.Second
	}
	return o
}

// backlog is how many connects wait for Serve. One more waits in connect(2),
// or fails with EAGAIN if it is nonblocking.
const backlog = 16

// Server answers control requests on one socket.
type Server struct {
	o       Options
	backend Backend
	listen  *os.File

	mu        sync.Mutex // guards the following
	conns     map[*os.File]struct{}
	followers int
}

// Listen makes the socket, replacing one that an earlier process left, and
// returns the server for it. Clients can connect from now on; Serve answers
// them. The socket's mode is 0600 from its first moment.
func Listen(b Backend, o Options) (*Server, error) {
	o = o.withDefaults()
	if fi, err := os.Lstat(o.Path); err == nil && fi.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(o.Path); err != nil {
			return nil, fmt.Errorf("replace the old control socket: %w", err)
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	// bind(2) gives the file the mode of the socket's own inode less the umask
	// (net/unix/af_unix.c), so there is no moment in which others may connect.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("chmod control socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: o.Path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind control socket to %s: %w", o.Path, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen on %s: %w", o.Path, err)
	}
	return &Server{
		o: o, backend: b,
		listen: os.NewFile(uintptr(fd), o.Path),
		conns:  make(map[*os.File]struct{}),
	}, nil
}

// Serve answers clients until ctx ends. It then removes the socket, lets the
// replies under way finish (WriteTimeout at most, and as long as the Backend
// needs to notice that ctx has ended) and returns nil. An error means that the
// socket itself broke.
func (s *Server) Serve(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.listen.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer os.Remove(s.o.Path)
	wg.Go(func() {
		<-ctx.Done()
		s.wake()
	})

	for {
		fd, err := s.accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				unix.Close(fd)
			}
			return nil
		case errors.Is(err, unix.ECONNABORTED), errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
			// A shortage passes; the caller waits in the backlog.
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		case err != nil:
			return fmt.Errorf("accept on %s: %w", s.o.Path, err)
		}
		if c := s.admit(fd); c != nil {
			wg.Go(func() {
				defer s.release(c)
				c.serve(ctx)
			})
		}
	}
}

// accept waits for a client and returns its descriptor.
func (s *Server) accept() (fd int, err error) {
	raw, err := s.listen.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	var failed error
	err = raw.Read(func(l uintptr) bool {
		fd, _, failed = unix.Accept4(int(l), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		return !errors.Is(failed, unix.EAGAIN)
	})
	if err != nil {
		return -1, err
	}
	return fd, failed
}

// wake makes every read that waits for a client return: ctx has ended. A
// connection looks at ctx after it has set its own deadline, so none is missed.
func (s *Server) wake() {
	past := time.Unix(1, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.listen.SetReadDeadline(past)
	for f := range s.conns {
		_ = f.SetReadDeadline(past)
	}
}

// admit makes a connection of an accepted descriptor. It refuses peers that
// are not root and those for whom there is no place, and returns nil then.
func (s *Server) admit(fd int) *conn {
	refuse := func(code, message string) *conn {
		if line, err := wire.Line(api.Reply{Error: &api.Error{Code: code, Message: message}}); err == nil {
			_, _ = unix.Write(fd, line) // an empty socket takes it whole
		}
		unix.Close(fd)
		return nil
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		s.o.Logf("control: closed a client: SO_PEERCRED: %v", err)
		return refuse(api.CodeDenied, "the kernel does not tell who asks")
	}
	if cred.Uid != 0 {
		s.o.Logf("control: refused pid %d: its uid is %d, not root", cred.Pid, cred.Uid)
		return refuse(api.CodeDenied, fmt.Sprintf("only root may: this is uid %d", cred.Uid))
	}
	s.mu.Lock()
	full := len(s.conns) >= s.o.MaxClients
	var c *conn
	if !full {
		f := os.NewFile(uintptr(fd), s.o.Path)
		c = &conn{s: s, f: f, in: wire.Reader{R: f}}
		s.conns[f] = struct{}{}
	}
	s.mu.Unlock()
	if full {
		return refuse(api.CodeBusy, fmt.Sprintf("%d clients are connected already: end one (ps shows gwctl) and try again", s.o.MaxClients))
	}
	return c
}

func (s *Server) release(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.f)
	s.mu.Unlock()
	_ = c.f.Close()
}

// conn is one client.
type conn struct {
	s  *Server
	f  *os.File
	in wire.Reader
}

// serve answers requests until the client goes, breaks a rule or ctx ends.
func (c *conn) serve(ctx context.Context) {
	defer func() {
		// INV 1: what panics here costs this client and nobody else.
		if p := recover(); p != nil {
			c.s.o.Logf("control: panic: %v: %s", p, where(debug.Stack()))
			_ = c.refuse(&api.Error{Code: api.CodeFailed, Message: "gwinit met a fault of its own; gwctl logs has it, please report it"})
		}
	}()
	for {
		_ = c.f.SetReadDeadline(time.Now().Add(c.s.o.IdleTimeout))
		if ctx.Err() != nil {
			return
		}
		line, err := c.in.ReadLine()
		if errors.Is(err, wire.ErrTooLong) {
			_ = c.refuse(bad("%v: a request is one shorter line of JSON", err))
		}
		if err != nil {
			return // gone, silent for too long, or garbage without an end
		}
		if err := c.answer(ctx, line); err != nil {
			return
		}
	}
}

// answer carries one request out. An error means that the client is gone or
// does not read.
func (c *conn) answer(ctx context.Context, line []byte) error {
	r, refused := parse(line)
	if refused != nil {
		return c.refuse(refused)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !r.logs.Follow && !r.call.Follow && !r.bench.Stay {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.s.o.RequestTimeout)
		defer stop()
	}
	var data any
	var err error
	switch r.op {
	case api.OpStatus:
		data = c.s.backend.Status(ctx, r.status)
	case api.OpLogs:
		if r.logs.Follow {
			return c.follow(ctx, r.logs)
		}
		var lines []api.LogLine
		if lines, err = c.s.backend.Logs(r.logs); err == nil {
			return c.lines(lines, 0, false)
		}
	case api.OpService:
		data, err = c.s.backend.Service(ctx, r.service)
	case api.OpShutdown:
		data, err = r.shutdown, c.s.backend.Shutdown(r.shutdown)
	case api.OpCall:
		if r.call.Follow {
			return c.followCall(ctx, r.call)
		}
		data, err = c.s.backend.Call(ctx, r.call)
	case api.OpBench:
		if r.bench.Stay {
			return c.stayForBench(ctx, r.bench)
		}
		data, err = c.s.backend.Bench(ctx, r.bench, nil)
	}
	if err != nil {
		return c.refuse(c.problem(ctx, err))
	}
	return c.send(wire.Answer(data))
}

// problem is what err of the Backend looks like to a client.
func (c *conn) problem(ctx context.Context, err error) *api.Error {
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("no answer within %v: %v; gwctl status and gwctl logs show why", c.s.o.RequestTimeout, err)}
	case ctx.Err() != nil:
		return &api.Error{Code: api.CodeBusy, Message: "gwinit is shutting down"}
	}
	return &api.Error{Code: api.CodeFailed, Message: err.Error()}
}

// follow sends log lines until the client goes.
func (c *conn) follow(ctx context.Context, args api.LogsArgs) error {
	return c.following(ctx, func(gone context.Context) error {
		f, err := c.s.backend.Follow(args)
		if err != nil {
			return c.refuse(c.problem(ctx, err))
		}
		defer f.Close()
		for {
			lines, missed, err := f.Next(gone)
			if ctx.Err() == nil && gone.Err() != nil {
				return os.ErrClosed
			}
			if len(lines) > 0 || missed > 0 {
				if err := c.lines(lines, missed, true); err != nil {
					return err
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return c.lines(nil, 0, false)
			case err != nil:
				return c.refuse(c.problem(ctx, err))
			}
		}
	})
}

// How soon a service may have itself called again.
const (
	minPause = 20 * time.Millisecond
	maxPause = 5 * time.Second
)

// followCall calls a service again and again and sends what it answers, until
// it has no more or the client goes. Nobody waits in the meantime but this
// client: the service answers at once and says when to ask again.
func (c *conn) followCall(ctx context.Context, args api.CallArgs) error {
	return c.following(ctx, func(gone context.Context) error {
		for {
			var a struct {
				Data  json.RawMessage `json:"data"`
				Next  json.RawMessage `json:"next"`
				Pause int             `json:"pauseMs"`
			}
			one, cancel := context.WithTimeout(gone, c.s.o.RequestTimeout)
			answer, err := c.s.backend.Call(one, args)
			var problem *api.Error
			if err != nil {
				problem = c.problem(one, err)
			}
			cancel()
			switch {
			case ctx.Err() == nil && gone.Err() != nil:
				return os.ErrClosed
			case problem != nil:
				return c.refuse(problem)
			case json.Unmarshal(answer, &a) != nil || len(a.Data) == 0 && len(a.Next) == 0:
				return c.refuse(bad(`call: %.32s of %.32s cannot be followed; call it without "follow"`, args.Method, args.Service))
			}
			more := len(a.Next) > 0
			if len(a.Data) > 0 || !more {
				if err := c.reply(api.Reply{OK: true, Data: a.Data, More: more}); err != nil || !more {
					return err
				}
			}
			args.Params = a.Next
			t := time.NewTimer(min(max(time.Duration(a.Pause)*time.Millisecond, minPause), maxPause))
			select {
			case <-t.C:
			case <-gone.Done():
				t.Stop()
				if ctx.Err() == nil {
					return os.ErrClosed
				}
				return c.refuse(c.problem(ctx, ctx.Err()))
			}
		}
	})
}

// stayForBench is the control connection of bench mode: nothing is read from it
// or sent on it while nothing changes.
func (c *conn) stayForBench(ctx context.Context, args api.BenchArgs) error {
	return c.following(ctx, func(gone context.Context) error {
		send := func(v any, more bool) error {
			raw, err := wire.Marshal(v)
			if err != nil {
				return err
			}
			return c.reply(api.Reply{OK: true, Data: raw, More: more})
		}
		last, err := c.s.backend.Bench(gone, args, func(b *api.Bench) error { return send(b, true) })
		switch {
		case ctx.Err() == nil && gone.Err() != nil:
			return os.ErrClosed
		case err != nil:
			return c.refuse(c.problem(ctx, err))
		}
		return send(last, false)
	})
}

// following runs f, which sends replies for as long as the client is there, if
// there is a place for one more who follows. The context of f also ends when
// the client goes, which is noticed at once and not only with the next reply.
func (c *conn) following(ctx context.Context, f func(gone context.Context) error) error {
	s := c.s
	s.mu.Lock()
	full := s.followers >= s.o.MaxFollowers
	if !full {
		s.followers++
	}
	s.mu.Unlock()
	if full {
		return c.refuse(&api.Error{Code: api.CodeBusy, Message: fmt.Sprintf("%d clients follow already: end one of them, or ask without following", s.o.MaxFollowers)})
	}
	defer func() {
		s.mu.Lock()
		s.followers--
		s.mu.Unlock()
	}()

	_ = c.f.SetReadDeadline(time.Time{})
	if ctx.Err() != nil { // wake may have come before that line
		return c.refuse(c.problem(ctx, ctx.Err()))
	}
	gone, cancel := context.WithCancel(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		// wake ends the wait, too, and may be here before ctx's end is: that
		// is no reason to leave without a word.
		if c.awaitHangup() {
			cancel()
		}
	}()
	defer func() {
		cancel()
		_ = c.f.SetReadDeadline(time.Unix(1, 0))
		<-watching
	}()
	return f(gone)
}

// awaitHangup blocks until the client has closed its end, or the read
// deadline passes, which is false. A client that only shut its sending side
// down still reads (socat does that), and what it sent meanwhile is its next
// request, so nothing is read here.
func (c *conn) awaitHangup() bool {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(p, 0)
		return err == nil && p[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	})
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// lines sends log lines in as many replies as api.MaxLine makes necessary.
// The last has More only if more is set.
func (c *conn) lines(lines []api.LogLine, missed uint64, more bool) error {
	const room = api.MaxLine - 256 // the rest of a reply
	var data bytes.Buffer
	flush := func(more bool) error {
		if data.Len() == 0 {
			data.WriteByte('[')
		}
		data.WriteByte(']')
		err := c.reply(api.Reply{OK: true, Data: data.Bytes(), More: more, Missed: missed})
		missed = 0
		data.Reset()
		return err
	}
	for _, l := range lines {
		one, err := wire.Marshal(l)
		if err != nil {
			return err
		}
		if len(one) > room { // control characters sixfold: only from a very long line
			l.Text = l.Text[:len(l.Text)/8] + " (cut)"
			if one, err = wire.Marshal(l); err != nil {
				return err
			}
		}
		if data.Len()+len(one) > room {
			if err := flush(true); err != nil {
				return err
			}
		}
		if data.Len() == 0 {
			data.WriteByte('[')
		} else {
			data.WriteByte(',')
		}
		data.Write(one)
	}
	return flush(more)
}

func (c *conn) refuse(e *api.Error) error {
	const longest = 2 << 10 // six times that still fits a line
	if len(e.Message) > longest {
		e = &api.Error{Code: e.Code, Message: e.Message[:longest] + " (cut)"}
	}
	return c.reply(api.Reply{Error: e})
}

func (c *conn) reply(r api.Reply) error {
	line, err := wire.Line(r)
	if r.Error != nil && err != nil {
		return err
	}
	return c.send(line, err)
}

// send sends a line, or says why there is none.
func (c *conn) send(line []byte, err error) error {
	switch {
	case errors.Is(err, wire.ErrTooLong):
		return c.refuse(&api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("the answer is a %v", err)})
	case err != nil:
		return c.refuse(&api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("the answer is not JSON: %v", err)})
	}
	_ = c.f.SetWriteDeadline(time.Now().Add(c.s.o.WriteTimeout))
	_, err = c.f.Write(line)
	return err
}

// where is the place of a panic in a stack: its first frames, on one line.
func where(stack []byte) string {
	if i := bytes.Index(stack, []byte("panic(")); i >= 0 {
		stack = stack[i:]
	}
	if len(stack) > 600 {
		stack = stack[:600]
	}
	return string(bytes.Join(bytes.Fields(stack), []byte(" ")))
}
