//go:build linux

package sshport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/enrol"
	"gwinit/internal/wait"
)

// Port is SSH's.
const Port = 22

// StoredName is the socket's name among the descriptors that PID 1 keeps.
const StoredName = "ssh"

const (
	// listenRetry is the pause after a port could not be had.
	listenRetry = 5 * time.Second
	// acceptRetry is the pause after an accept that failed for want of
	// descriptors or memory.
	acceptRetry = 100 * time.Millisecond
	// entropyPoll is how often it is looked whether the kernel has entropy: it
	// takes a first boot some 15 s.
	entropyPoll = time.Second
	// refusalEvery bounds the lines about connections that nobody takes.
	refusalEvery = time.Second
)

// Options are what the service works with.
type Options struct {
	Root string
	Port uint16 // default Port
	// Passed is the socket of an earlier process; negative: none.
	Passed int
	// Store gives PID 1 a duplicate of a fresh socket.
	Store func(fd int) error
	// Send gives a connection away; fd stays the caller's.
	Send func(fd int) error
	// Log takes an event, one line.
	Log func(string)

	// Listening is told where, once the socket is there; may be nil.
	Listening func(net.Addr)
	// Uptime is for how long this boot has lasted; nil: the kernel's.
	Uptime func() time.Duration
}

// Service is port 22.
type Service struct{ o Options }

// New returns the service, which Run starts.
func New(o Options) *Service {
	if o.Port == 0 {
		o.Port = Port
	}
	if o.Uptime == nil {
		o.Uptime = enrol.Uptime
	}
	return &Service{o}
}

// Run accepts until ctx ends, and returns nil then. Whatever fails is logged
// and tried again: what shares the process must not end with it.
func (s *Service) Run(ctx context.Context) error {
	var setup sync.WaitGroup
	defer setup.Wait()
	setup.Go(func() { s.offerSetup(ctx) })
	l := s.listen(ctx)
	if l == nil {
		return nil
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	if s.o.Listening != nil {
		s.o.Listening(l.Addr())
	}
	var refused time.Time
	for {
		c, err := l.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			wait.For(ctx, acceptRetry)
			continue
		case err != nil:
			continue // the peer was gone already
		}
		if err := s.give(c); err != nil && time.Since(refused) > refusalEvery {
			refused = time.Now()
			s.o.Log("connection from " + c.RemoteAddr().String() + " to port " + strconv.Itoa(int(s.o.Port)) + " closed: " + err.Error())
		}
		c.Close()
	}
}

// give hands c over.
func (s *Service) give(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = s.o.Send(int(fd)) }); err != nil {
		return err
	}
	return sent
}

// listen takes the socket of an earlier process, or makes one, however long
// that takes; nil: ctx has ended.
func (s *Service) listen(ctx context.Context) *net.TCPListener {
	if s.o.Passed >= 0 {
		f := os.NewFile(uintptr(s.o.Passed), StoredName)
		l, err := net.FileListener(f)
		f.Close() // FileListener has a duplicate
		if t, ok := l.(*net.TCPListener); ok {
			return t
		}
		s.o.Log(fmt.Sprintf("the socket of the process before is of no use, and made anew: %v", err))
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	for said := false; ; {
		l, err := config.Listen(ctx, "tcp", ":"+strconv.Itoa(int(s.o.Port)))
		if t, ok := l.(*net.TCPListener); ok {
			s.store(t)
			return t
		}
		if ctx.Err() != nil {
			return nil
		}
		if !said {
			said = true
			s.o.Log("no SSH on port " + strconv.Itoa(int(s.o.Port)) + " yet, it is tried again every " + listenRetry.String() + ": " + err.Error())
		}
		if !wait.For(ctx, listenRetry) {
			return nil
		}
	}
}

// store gives PID 1 a duplicate of the socket.
func (s *Service) store(l *net.TCPListener) {
	if s.o.Store == nil {
		return
	}
	raw, err := l.SyscallConn()
	if err == nil {
		cerr := raw.Control(func(fd uintptr) { err = s.o.Store(int(fd)) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		s.o.Log("port " + strconv.Itoa(int(s.o.Port)) + " is closed while this process restarts: " + err.Error())
	}
}

// offerSetup makes the code of a gateway that nobody may log in to, once the
// kernel has entropy, for which nothing else waits.
func (s *Service) offerSetup(ctx context.Context) {
	if !enrol.Needed(s.o.Root) || s.o.Uptime() > enrol.Lasts {
		return
	}
	switch err := enrol.Begin(s.o.Root, random{ctx}); {
	case err == nil:
		s.o.Log("nobody may log in by SSH yet: for " + enrol.Lasts.String() + " the serial console shows a code (press Enter there), by which the user setup adds a key")
	case errors.Is(err, enrol.ErrMade), ctx.Err() != nil: // by the process before, or the next
	default:
		s.o.Log(err.Error())
	}
}

// random is the kernel's, once it has enough entropy or ctx ends.
type random struct{ ctx context.Context }

func (r random) Read(p []byte) (int, error) {
	for {
		n, err := unix.Getrandom(p, unix.GRND_NONBLOCK)
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
			return 0, err
		case !wait.For(r.ctx, entropyPoll):
			return 0, r.ctx.Err()
		}
	}
}
