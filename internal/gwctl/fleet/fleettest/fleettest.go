// Package fleettest is gateways for tests that need time for what they do, of a
// test's clock, and fail as real ones do.
package fleettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gwinit/internal/bundle"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/wait"
)

// Bundle writes a bundle that is whole, signed by nobody.
func Bundle(t testing.TB, version string, size int) string {
	t.Helper()
	bin := bytes.Repeat([]byte("gateway\n"), size/8)
	m := &bundle.Manifest{Version: version, Boards: []string{"lidl"}, Kernel: "5.10", Size: int64(len(bin)), SHA256: sha256.Sum256(bin)}
	sig := base64.StdEncoding.EncodeToString(append([]byte("ED"), make([]byte, 8+64)...))
	b := bytes.NewBufferString("untrusted comment: x\n" + sig + "\ntrusted comment: x\n" + base64.StdEncoding.EncodeToString(make([]byte, 64)) + "\n")
	if err := bundle.Write(b, m, bytes.NewReader(bin)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "update")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Fleet is gateways that need a time for everything.
type Fleet struct {
	mu       sync.Mutex // guards the rest
	all      map[string]*Gateway
	now      int      // gateways that are unavailable
	Most     int      // were at a time
	Finished []string // trials, in the order of their ends
	Began    []string // to be sent to
}

// Gateway takes 30 s to read an update, and 4 min to try it, 2 min a bad one.
type Gateway struct {
	f    *Fleet
	Name string

	Version, was  string
	Failed        string
	reason        string
	Trial         bool
	Away          bool   // does not answer
	Bad           string // goes back for this reason
	Refuses, Cuts int    // so many updates
	Stays         bool   // away after a restart
	Got           int    // updates, as a whole
	Board         string
	isBusy        bool
}

// ErrAway is of a gateway that does not answer.
var ErrAway = errors.New("no route to host")

// New returns n gateways, gw000 and so on, which run 1.0.
func New(n int) (*Fleet, []fleet.Gateway) {
	f := &Fleet{all: map[string]*Gateway{}}
	var all []fleet.Gateway
	for i := range n {
		g := &Gateway{f: f, Name: fmt.Sprintf("gw%03d", i), Version: "1.0", Board: "lidl"}
		f.all[g.Name] = g
		all = append(all, fleet.Gateway{Name: g.Name, Updater: g})
	}
	return f, all
}

// Set has change work on one.
func (f *Fleet) Set(name string, change func(g *Gateway)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.all[name])
}

// Sent is how many updates gateways have got as a whole.
func (f *Fleet) Sent() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.all {
		n += g.Got
	}
	return n
}

// busy counts a gateway that is unavailable from now on, or not any more.
func (g *Gateway) busy(yes bool) {
	if yes != g.isBusy {
		g.isBusy = yes
		if yes {
			g.f.now++
		} else {
			g.f.now--
		}
	}
	g.f.Most = max(g.f.Most, g.f.now)
}

// State implements fleet.Updater.
func (g *Gateway) State(ctx context.Context) (fleet.State, error) {
	wait.For(ctx, time.Second)
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if g.Away {
		return fleet.State{}, ErrAway
	}
	st := fleet.State{Version: g.Version, Failed: g.Failed, Reason: g.reason, Board: g.Board, Kernel: "6.18.1"}
	if g.Trial {
		st.Trying = g.Version
	}
	return st, ctx.Err()
}

// Send implements fleet.Updater.
func (g *Gateway) Send(ctx context.Context, update io.Reader, size int64) error {
	g.f.mu.Lock()
	g.f.Began = append(g.f.Began, g.Name)
	g.busy(true)
	cut, refuse := g.Cuts > 0, g.Refuses > 0
	g.Cuts, g.Refuses = max(0, g.Cuts-1), max(0, g.Refuses-1)
	g.f.mu.Unlock()
	n, err := io.Copy(io.Discard, update)
	switch {
	case !wait.For(ctx, 30*time.Second):
		err = ctx.Err()
	case cut:
		err = errors.New("connection reset by peer")
	case refuse:
		err = fleet.Refused{Err: errors.New("no space")}
	case n != size:
		err = fmt.Errorf("%d bytes, want %d", n, size)
	}
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if err != nil {
		g.busy(false)
		return err
	}
	g.Got++
	g.was, g.Version, g.Failed, g.Trial, g.Away = g.Version, "2.0", "", true, g.Stays
	return nil
}

// Wait implements fleet.Updater.
func (g *Gateway) Wait(ctx context.Context, version string) (fleet.Outcome, error) {
	g.f.mu.Lock()
	takes := 4 * time.Minute
	if g.Bad != "" {
		takes = 2 * time.Minute
	}
	g.f.mu.Unlock()
	ok := wait.For(ctx, takes)
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if !ok {
		return fleet.Outcome{}, ctx.Err() // it goes on without us
	}
	g.busy(false)
	switch {
	case g.Away:
		return fleet.Outcome{}, ErrAway
	case g.Version == version && !g.Trial:
		return fleet.Outcome{Committed: true}, nil
	case g.Version != version:
		return fleet.Outcome{}, fmt.Errorf("%s is not tried", version)
	}
	g.f.Finished = append(g.f.Finished, g.Name)
	if g.Trial = false; g.Bad != "" {
		g.Version, g.Failed, g.reason = g.was, g.Version, g.Bad
		return fleet.Outcome{Reason: g.Bad}, nil
	}
	return fleet.Outcome{Committed: true}, nil
}
