//go:build linux

package syslog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/live"
	"gwinit/internal/wait"
)

const (
	dialTime = 10 * time.Second
	// writeTime is how long a server may take nothing; TCP gives up a peer that
	// does not acknowledge after so long, too.
	writeTime = 30 * time.Second
	// firstWait is the pause after the first failure; it doubles up to maxWait.
	firstWait = time.Second
	maxWait   = time.Minute
	// tellWait is the pause from which on a failure is told: what is over sooner,
	// as at a boot, needs nobody.
	tellWait = 8 * time.Second
	// settled is when a connection counts as one that works, so that the next
	// failure is told again.
	settled = time.Minute
	// lookAgain is after how long a datagram socket is made anew: the name may
	// have another address.
	lookAgain = 10 * time.Minute
	// paceUDP is the pause between two datagrams: a server's buffer holds some
	// 250 of them.
	paceUDP = 5 * time.Millisecond
	// sourceRetry is the pause after the log could not be followed.
	sourceRetry = time.Second
	// remembered is how many lines back a connection that breaks can go.
	remembered = 128
)

// placePath holds how far the log was sent, for the next process. It is memory.
const placePath = "/run/syslog"

// Source follows the log: a client of the control protocol.
type Source interface {
	Stream(ctx context.Context, op string, args any, each func(api.Reply) error) error
	Close() error
}

// Options are what the service works with.
type Options struct {
	Root     string // of placePath; "" on the box
	Settings func() config.Syslog
	Open     func(ctx context.Context) (Source, error)
	// Log takes an event, one line, which comes back as a line of the log.
	Log func(string)

	wait func(ctx context.Context, d time.Duration) bool // nil: wait.For
}

// Settings are the Options' for the files below root ("" on the box).
func Settings(root string) func() config.Syslog {
	return func() config.Syslog {
		g, _ := config.LoadGateway(root)
		return g.Syslog
	}
}

// Service is the sender.
type Service struct {
	o      Options
	reload live.Reload
}

// New returns the service, which Run starts.
func New(o Options) *Service {
	if o.wait == nil {
		o.wait = wait.For
	}
	return &Service{o: o, reload: live.New()}
}

// Reload has the settings read again.
func (s *Service) Reload() { s.reload.Raise() }

// Run sends until ctx ends, and returns nil then.
func (s *Service) Run(ctx context.Context) error {
	same := func(a, b config.Syslog) bool { return a == b }
	live.Run(ctx, s.reload, s.o.Settings, same, func(ctx context.Context, to config.Syslog) {
		if to.Network != "" {
			s.forward(ctx, to)
		}
	})
	return nil
}

// place is how far the log was sent.
type place struct {
	to   config.Syslog
	path string
	seq  uint64 // of the last line that was given to the network
}

// newPlace reads that of the process before, if it sent to the same server.
func newPlace(root string, to config.Syslog) *place {
	p := &place{to: to, path: filepath.Join(root, placePath)}
	if b, err := os.ReadFile(p.path); err == nil {
		if where, number, _ := strings.Cut(strings.TrimSpace(string(b)), " "); where == to.String() {
			p.seq, _ = strconv.ParseUint(number, 10, 64) // 0 where it is torn
		}
	}
	return p
}

// keep writes it down. If that fails, a restart sends some lines twice.
func (p *place) keep() {
	_ = os.WriteFile(p.path, []byte(p.to.String()+" "+strconv.FormatUint(p.seq, 10)+"\n"), 0o600)
}

// forward sends to one server until ctx ends.
func (s *Service) forward(ctx context.Context, to config.Syslog) {
	p := newPlace(s.o.Root, to)
	wait := firstWait
	t := &teller{log: s.o.Log, to: to.String()}
	for {
		began := time.Now()
		err := s.session(ctx, p, t)
		p.keep()
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= settled {
			wait = firstWait
		}
		if err == nil {
			continue // to look its name up again
		}
		if wait >= tellWait {
			t.fails(err)
		}
		if !s.o.wait(ctx, wait) {
			return
		}
		wait = min(2*wait, maxWait)
	}
}

// teller logs whether the server can be reached: what changes, since what is
// logged is to be sent, too.
type teller struct {
	log func(string)
	to  string

	mu      sync.Mutex // guards the rest
	told    bool       // that it works
	failing bool       // was told
}

func (t *teller) fails(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.failing {
		t.failing = true
		t.log("the log cannot be sent to " + t.to + ", it is tried again: " + err.Error())
	}
}

// works says that a line was given to the socket, or that it has lasted.
func (t *teller) works(lasted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !t.told:
		t.log("the log is sent to " + t.to)
	case t.failing && lasted:
		t.log("the log is sent to " + t.to + " again")
	default:
		return
	}
	t.told, t.failing = true, false
}

// session sends over one socket: until ctx ends or the socket fails, or for a
// datagram socket until it is time to look the name up again, which is no error.
func (s *Service) session(ctx context.Context, p *place, t *teller) error {
	d := net.Dialer{Timeout: dialTime}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, p.to.Network, p.to.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	host, _ := os.Hostname() // "-" without
	w := &wire{c: c, place: p, host: host, stream: p.to.Network == "tcp", pace: s.o.wait, tell: t}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.stream {
		w.patient()
		watched := make(chan struct{})
		// Closed first, so that it ends.
		defer func() { c.Close(); <-watched }()
		go func() {
			defer close(watched)
			cancel(w.watch())
		}()
	} else {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, lookAgain, errAgain)
		defer stop()
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	lasted := time.AfterFunc(settled, func() { t.works(true) })
	defer lasted.Stop()
	for {
		err := s.follow(ctx, w)
		var broken *writeError
		switch {
		case ctx.Err() == nil && errors.As(err, &broken):
			w.goBack()
			return broken.err
		case ctx.Err() == nil && s.o.wait(ctx, sourceRetry):
			// The log was not followed any more: nobody read it for too long, or
			// PID 1 has too many who do.
			continue
		}
		switch err := context.Cause(ctx); {
		case errors.Is(err, errAgain):
			return nil
		case errors.Is(err, context.Canceled):
			return err // what is under way arrives
		default: // by watch
			w.goBack()
			return err
		}
	}
}

// errAgain ends a session that has to look its server's name up again.
var errAgain = errors.New("look again")

// writeError is the socket's, not the log's.
type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// follow sends what the log has beyond the place, and then what comes.
func (s *Service) follow(ctx context.Context, w *wire) error {
	src, err := s.o.Open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	return src.Stream(ctx, api.OpLogs, api.LogsArgs{Follow: true}, func(r api.Reply) error {
		var lines []api.LogLine
		if len(r.Data) > 0 {
			if err := json.Unmarshal(r.Data, &lines); err != nil {
				return err
			}
		}
		for i := range lines {
			if err := w.line(ctx, &lines[i]); err != nil {
				return &writeError{err}
			}
		}
		w.place.keep()
		return nil
	})
}

// wire is one socket.
type wire struct {
	c      net.Conn
	place  *place
	host   string
	stream bool // TCP
	pace   func(ctx context.Context, d time.Duration) bool
	tell   *teller

	buf, frame []byte
	sent       uint64 // bytes, over TCP
	// lines are the last ones given to the socket.
	lines []line

	look    sync.Once
	unacked uint64 // of sent, when the connection broke
}

type line struct {
	before uint64 // the place before it
	end    uint64 // of wire.sent
}

// line sends one that is new, and before it what is to be told of lines that are
// gone.
func (w *wire) line(ctx context.Context, l *api.LogLine) error {
	if l.Seq <= w.place.seq {
		return nil
	}
	if lost := l.Seq - w.place.seq - 1; lost > 0 {
		w.buf = appendLost(w.buf[:0], w.host, lost, l)
		if err := w.send(ctx, l.Seq-1); err != nil {
			return err
		}
	}
	w.buf = appendLine(w.buf[:0], w.host, l)
	err := w.send(ctx, l.Seq)
	if err == nil {
		w.tell.works(false)
	}
	return err
}

// send sends what is in buf, by which the log is sent up to seq.
func (w *wire) send(ctx context.Context, seq uint64) error {
	out := w.buf
	if w.stream {
		w.frame = append(append(strconv.AppendInt(w.frame[:0], int64(len(w.buf)), 10), ' '), w.buf...)
		out = w.frame
	}
	if err := w.c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	n, err := w.c.Write(out)
	w.sent += uint64(n)
	if err != nil {
		w.broke()
		return err
	}
	if len(w.lines) == remembered {
		w.lines = append(w.lines[:0], w.lines[1:]...)
	}
	w.lines = append(w.lines, line{w.place.seq, w.sent})
	w.place.seq = seq
	if !w.stream && !w.pace(ctx, paceUDP) {
		return context.Cause(ctx)
	}
	return nil
}

// patient sets a TCP connection up. Where that fails it is broken, as the next
// call says.
func (w *wire) patient() {
	t, is := w.c.(*net.TCPConn)
	if !is {
		return
	}
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: writeTime, Interval: 10 * time.Second, Count: 3})
	w.control(func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(writeTime.Milliseconds()))
	})
}

func (w *wire) control(f func(fd int)) {
	if t, is := w.c.(*net.TCPConn); is {
		if raw, err := t.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // closed already
		}
	}
}

// watch waits for a server's end of the connection: a write would only see it
// when its line is lost. What a server says is of no interest.
func (w *wire) watch() error {
	_, err := io.Copy(io.Discard, w.c)
	w.broke()
	if err == nil {
		err = errors.New("the server has closed the connection")
	}
	return err
}

// broke looks at what is not acknowledged, while the socket is still there.
func (w *wire) broke() {
	w.look.Do(func() {
		w.control(func(fd int) {
			if n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ); err == nil { // SIOCOUTQ
				w.unacked = uint64(max(n, 0))
			}
		})
	})
}

// goBack moves the place to before what may not have arrived: over TCP what the
// server's kernel has not acknowledged, else the line before the one of which
// the socket said that nobody took it.
func (w *wire) goBack() {
	if n := len(w.lines); !w.stream && n > 0 {
		w.place.seq = w.lines[n-1].before
		return
	}
	acked := w.sent - min(w.unacked, w.sent)
	for _, l := range w.lines {
		if l.end > acked {
			w.place.seq = l.before
			return
		}
	}
}
