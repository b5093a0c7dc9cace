//go:build linux

package sshd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"gwinit/internal/handoff"
)

// Server takes connections and runs a session on each.
type Server struct {
	// Session serves one connection and closes it. It ends when ctx does.
	Session func(ctx context.Context, c net.Conn)
	// Max is how many sessions there are at a time. More wait in the socket,
	// up to handoff.Backlog, and whoever has one more keeps it.
	Max int
	// Idle is after how long without a session Serve returns.
	Idle time.Duration
	// Log takes one event, one line.
	Log func(string)
}

// Serve takes connections from the socket l until ctx ends or there was no
// session for Idle, then waits for the sessions that are left and returns nil.
// It closes l.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	ctx, cancel := context.WithCancel(ctx)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	defer cancel()
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()

	// A token each; Take is not called without one.
	free := make(chan struct{}, s.Max)
	for range s.Max {
		free <- struct{}{}
	}
	var mu sync.Mutex // guards active, and l's deadline with it
	active := 0
	count := func(n int) (now int) {
		mu.Lock()
		defer mu.Unlock()
		active += n
		var until time.Time // none while there is a session
		if active == 0 {
			until = time.Now().Add(s.Idle)
		}
		// It fails when l is closed, which Take says, too.
		_ = l.SetDeadline(until)
		return active
	}
	count(0)
	for {
		select {
		case <-free:
		case <-ctx.Done():
			return nil
		}
		c, err := handoff.Take(l)
		switch {
		case ctx.Err() != nil:
			if c != nil {
				c.Close()
			}
			return nil
		case err == nil:
			count(1)
			sessions.Go(func() {
				defer func() { count(-1); free <- struct{}{} }()
				s.Session(ctx, c)
			})
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, handoff.ErrNothing):
			mu.Lock()
			over := active == 0
			mu.Unlock()
			if over {
				return nil
			}
		case errors.Is(err, handoff.ErrNothing):
			s.Log(err.Error())
		default:
			return fmt.Errorf("take a connection: %w", err)
		}
		free <- struct{}{}
	}
}
