//go:build linux

// Package controltest is a fake of what is behind the control server: a small
// box with a log, whose answers a test sets. It also runs the real server on it.
package controltest

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/control"
)

// Backend is a control.Backend. Set the fields before it is used; the log
// grows by Append.
type Backend struct {
	Box api.Status // what Status returns; Box.Services are those that exist

	// On* replace the answers of the operations, if set.
	OnStatus   func(ctx context.Context) api.Status
	OnService  func(ctx context.Context, args api.ServiceArgs) (api.Service, error)
	OnShutdown func(args api.ShutdownArgs) error
	OnCall     func(ctx context.Context, args api.CallArgs) (json.RawMessage, error)
	OnBench    func(ctx context.Context, args api.BenchArgs, tell func(*api.Bench) error) (any, error)

	Keep int // lines that the log holds; 1000 if 0

	mu        sync.Mutex // guards the following
	log       []api.LogLine
	seq       uint64
	changed   chan struct{} // closed and replaced by every Append
	ended     bool
	shutdowns []api.ShutdownArgs
	followers int
}

// Append adds a line to the log, at a time that follows from its number.
func (b *Backend) Append(service, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	b.log = append(b.log, api.LogLine{Seq: b.seq, Mono: int64(b.seq) * 250e6, Service: service, Text: text})
	keep := b.Keep
	if keep == 0 {
		keep = 1000
	}
	if n := len(b.log) - keep; n > 0 {
		b.log = slices.Delete(b.log, 0, n)
	}
	b.wakeLocked()
}

// End ends all followers with io.EOF once they have read everything.
func (b *Backend) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.wakeLocked()
}

func (b *Backend) wakeLocked() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// Shutdowns returns what was asked for so far.
func (b *Backend) Shutdowns() []api.ShutdownArgs {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.shutdowns)
}

// Followers returns how many are open.
func (b *Backend) Followers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.followers
}

// Bench implements control.Backend. Without OnBench it is off.
func (b *Backend) Bench(ctx context.Context, args api.BenchArgs, tell func(*api.Bench) error) (any, error) {
	if b.OnBench != nil {
		return b.OnBench(ctx, args, tell)
	}
	return api.Bench{State: api.BenchIsOff}, nil
}

// Status implements control.Backend.
func (b *Backend) Status(ctx context.Context, _ api.StatusArgs) api.Status {
	if b.OnStatus != nil {
		return b.OnStatus(ctx)
	}
	return b.Box
}

func (b *Backend) known(name string) (api.Service, error) {
	i := slices.IndexFunc(b.Box.Services, func(s api.Service) bool { return s.Name == name })
	if i < 0 {
		return api.Service{}, &api.Error{Code: api.CodeNotFound, Message: "no service " + name + "; gwctl status lists them"}
	}
	return b.Box.Services[i], nil
}

// Logs implements control.Backend.
func (b *Backend) Logs(args api.LogsArgs) ([]api.LogLine, error) {
	if args.Service != "" {
		if _, err := b.known(args.Service); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newestLocked(args), nil
}

func (b *Backend) newestLocked(args api.LogsArgs) []api.LogLine {
	var out []api.LogLine
	for _, l := range b.log {
		if args.Service == "" || l.Service == args.Service {
			out = append(out, l)
		}
	}
	if args.Lines > 0 && len(out) > args.Lines {
		out = out[len(out)-args.Lines:]
	}
	return out
}

// Follow implements control.Backend.
func (b *Backend) Follow(args api.LogsArgs) (control.Follower, error) {
	if args.Service != "" {
		if _, err := b.known(args.Service); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.followers++
	return &follower{b: b, service: args.Service, first: b.newestLocked(args), next: b.seq + 1}, nil
}

type follower struct {
	b       *Backend
	service string
	first   []api.LogLine
	next    uint64 // the first line not looked at
}

// Next implements control.Follower.
func (f *follower) Next(ctx context.Context) ([]api.LogLine, uint64, error) {
	if out := f.first; len(out) > 0 {
		f.first = nil
		return out, 0, nil
	}
	for {
		var out []api.LogLine
		var missed uint64
		f.b.mu.Lock()
		for _, l := range f.b.log {
			if l.Seq < f.next {
				continue
			}
			missed += l.Seq - f.next
			f.next = l.Seq + 1
			if f.service == "" || l.Service == f.service {
				out = append(out, l)
			}
		}
		if f.b.changed == nil {
			f.b.changed = make(chan struct{})
		}
		changed, ended := f.b.changed, f.b.ended
		f.b.mu.Unlock()
		switch {
		case len(out) > 0 || missed > 0:
			return out, missed, nil
		case ended:
			return nil, 0, io.EOF
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-changed:
		}
	}
}

// Close implements control.Follower.
func (f *follower) Close() {
	f.b.mu.Lock()
	defer f.b.mu.Unlock()
	f.b.followers--
}

// Service implements control.Backend: the service is then running or stopped.
func (b *Backend) Service(ctx context.Context, args api.ServiceArgs) (api.Service, error) {
	if b.OnService != nil {
		return b.OnService(ctx, args)
	}
	s, err := b.known(args.Name)
	if err != nil {
		return s, err
	}
	if args.Action == "stop" {
		s = api.Service{Name: s.Name, State: "stopped", Restarts: s.Restarts, Essential: s.Essential}
	} else {
		s.State = "running"
	}
	return s, nil
}

// Shutdown implements control.Backend.
func (b *Backend) Shutdown(args api.ShutdownArgs) error {
	if b.OnShutdown != nil {
		return b.OnShutdown(args)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shutdowns = append(b.shutdowns, args)
	return nil
}

// Call implements control.Backend: it returns its arguments.
func (b *Backend) Call(ctx context.Context, args api.CallArgs) (json.RawMessage, error) {
	if b.OnCall != nil {
		return b.OnCall(ctx, args)
	}
	if _, err := b.known(args.Service); err != nil {
		return nil, err
	}
	return json.Marshal(args)
}

// Start runs a real server on b until the test ends, and returns its socket.
// The test fails if the server does not end cleanly.
func Start(t testing.TB, b control.Backend, o control.Options) string {
	t.Helper()
	path, stop := StartStop(t, b, o)
	t.Cleanup(stop)
	return path
}

// StartStop is Start for a test that ends the server itself. stop can be
// called twice.
func StartStop(t testing.TB, b control.Backend, o control.Options) (path string, stop func()) {
	t.Helper()
	if o.Path == "" {
		// t.TempDir can be longer than the 107 bytes of a socket's path.
		dir, err := os.MkdirTemp("", "gw")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		o.Path = filepath.Join(dir, "s")
	}
	if o.Logf == nil {
		o.Logf = func(format string, a ...any) { t.Errorf("unexpected log line: "+format, a...) }
	}
	s, err := control.Listen(b, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	return o.Path, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
