package rollout

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
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/bundle"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/wait"
)

// newBundle writes a bundle that is whole, signed by nobody.
func newBundle(t testing.TB, version string, size int) string {
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

// fakeFleet is gateways that need a time for everything.
type fakeFleet struct {
	mu       sync.Mutex // guards the rest
	all      map[string]*fakeGateway
	now      int // that are unavailable
	most     int
	finished []string // in the order of their ends
	began    []string
}

// fakeGateway takes 30 s to read an update, and 4 min to try it, 2 min a bad one.
type fakeGateway struct {
	f    *fakeFleet
	name string

	version, was  string
	failed        string
	trial         bool
	away          bool   // does not answer
	bad           string // goes back for this reason
	refuses, cuts int    // so many updates
	stays         bool   // away after a restart
	sent          int    // updates, as a whole
	board         string
}

var errAway = errors.New("no route to host")

func newFleet(n int) (*fakeFleet, []fleet.Gateway) {
	f := &fakeFleet{all: map[string]*fakeGateway{}}
	var all []fleet.Gateway
	for i := range n {
		g := &fakeGateway{f: f, name: fmt.Sprintf("gw%03d", i), version: "1.0", board: "lidl"}
		f.all[g.name] = g
		all = append(all, fleet.Gateway{Name: g.name, Updater: g})
	}
	return f, all
}

func (f *fakeFleet) set(name string, change func(g *fakeGateway)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.all[name])
}

func (f *fakeFleet) sent() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.all {
		n += g.sent
	}
	return n
}

func (g *fakeGateway) State(ctx context.Context) (fleet.State, error) {
	wait.For(ctx, time.Second)
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if g.away {
		return fleet.State{}, errAway
	}
	st := fleet.State{Version: g.version, Failed: g.failed, Board: g.board, Kernel: "6.18.1"}
	if g.trial {
		st.Trying = g.version
	}
	return st, ctx.Err()
}

func (g *fakeGateway) Send(ctx context.Context, update io.Reader, size int64) error {
	g.f.mu.Lock()
	g.f.began = append(g.f.began, g.name)
	g.f.now++
	g.f.most = max(g.f.most, g.f.now)
	cut, refuse := g.cuts > 0, g.refuses > 0
	g.cuts, g.refuses = max(0, g.cuts-1), max(0, g.refuses-1)
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
		g.f.now--
		return err
	}
	g.sent++
	g.was, g.version, g.failed, g.trial, g.away = g.version, "2.0", "", true, g.stays
	return nil
}

func (g *fakeGateway) Wait(ctx context.Context, version string) (fleet.Outcome, error) {
	g.f.mu.Lock()
	takes := 4 * time.Minute
	if g.bad != "" {
		takes = 2 * time.Minute
	}
	g.f.mu.Unlock()
	ok := wait.For(ctx, takes)
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	g.f.now--
	switch {
	case !ok:
		return fleet.Outcome{}, ctx.Err()
	case g.away:
		return fleet.Outcome{}, errAway
	case version != g.version || !g.trial:
		return fleet.Outcome{}, fmt.Errorf("%s is not tried", version)
	}
	g.f.finished = append(g.f.finished, g.name)
	if g.trial = false; g.bad != "" {
		g.version, g.failed = g.was, g.version
		return fleet.Outcome{Reason: g.bad}, nil
	}
	return fleet.Outcome{Committed: true}, nil
}

// told is what was logged.
type told struct {
	mu   sync.Mutex // guards text
	text string
}

func (l *told) log(gateway, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += gateway + ": " + text + "\n"
}

func newPlan(t *testing.T, width, canaries int) (Plan, *told) {
	l := &told{}
	return Plan{File: newBundle(t, "2.0", 64<<10), MaxUnavailable: width, Canaries: canaries, Journal: t.TempDir(), Log: l.log, Progress: func(string) {}}, l
}

func count(results []Result, outcome string) (n int) {
	for _, r := range results {
		if r.Outcome == outcome {
			n++
		}
	}
	return n
}

func of(results []Result, name string) Result {
	return results[slices.IndexFunc(results, func(r Result) bool { return r.Gateway == name })]
}

// No more at a time than allowed, and nobody before the canaries have kept it.
func TestWaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(40)
		p, _ := newPlan(t, 4, 3)
		begin := time.Now()
		results, err := Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 40 {
			t.Fatalf("%v, %+v", err, results)
		}
		if f.most != 4 {
			t.Errorf("%d at a time, want 4", f.most)
		}
		if first := slices.Sorted(slices.Values(f.began[:3])); !slices.Equal(first, []string{"gw000", "gw001", "gw002"}) {
			t.Errorf("canaries %v", first)
		}
		// 3 canaries together, then 37 in ten waves, of 271 s each; two to ask first.
		if took := time.Since(begin); took != (11*271+2)*time.Second {
			t.Errorf("it took %v", took)
		}
		if left, err := os.ReadDir(p.Journal); err != nil || len(left) != 0 {
			t.Errorf("the journal of a rollout that has ended well: %v, %v", left, err)
		}
		// Again: nobody gets it.
		results, err = Run(t.Context(), p, all)
		if err != nil || count(results, Already) != 40 || f.sent() != 40 {
			t.Errorf("again: %v, %d sent", err, f.sent())
		}
		// By force: all of them.
		p.Force = true
		results, err = Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 40 || f.sent() != 80 {
			t.Errorf("by force: %v, %d sent", err, f.sent())
		}
	})
}

// The first that does not keep it ends the rollout, when those that have it are
// done; the next run begins with that one, alone.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(20)
		p, l := newPlan(t, 4, 2)
		f.set("gw004", func(g *fakeGateway) { g.bad = "ssh never answered" })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) {
			t.Fatal(err)
		}
		// 2 canaries and a wave of 4.
		if a, b, c := count(results, Committed), count(results, Failed), count(results, Waiting); a != 5 || b != 1 || c != 14 {
			t.Errorf("%d kept it, %d failed, %d waited: %s", a, b, c, l.text)
		}
		if r := of(results, "gw004"); r.Why != "it went back: ssh never answered" || r.OK() {
			t.Errorf("%+v", r)
		}
		// It is mended.
		f.set("gw004", func(g *fakeGateway) { g.bad = "" })
		f.began = nil
		p.MaxUnavailable = 8
		results, err = Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 15 || count(results, Already) != 5 {
			t.Errorf("%v: %+v", err, results)
		}
		if f.began[0] != "gw004" || f.finished[6] != "gw004" || len(f.began) != 15 {
			t.Errorf("began with %v", f.began)
		}
		if f.sent() != 6+15 {
			t.Errorf("%d updates were sent, want 21", f.sent())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(20)
		p, _ := newPlan(t, 8, 1)
		f.set("gw000", func(g *fakeGateway) { g.bad = "crashed" })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Waiting) != 19 || f.sent() != 1 {
			t.Errorf("a bad canary: %v, %d sent", err, f.sent())
		}
	})
}

// An interrupted rollout goes on: nobody gets it twice, and those that try it are
// waited for.
func TestResume(t *testing.T) {
	for at := 10 * time.Second; at < 1300*time.Second; at += 97 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			f, all := newFleet(12)
			p, _ := newPlan(t, 3, 1)
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			results, err := Run(ctx, p, all)
			if !errors.Is(err, ErrStopped) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%v: %v", at, err)
			}
			begun := count(results, Begun)
			if begun > 3 {
				t.Errorf("%v: %d under way", at, begun)
			}
			sent := f.sent()
			results, err = Run(t.Context(), p, all)
			if err != nil || count(results, Committed)+count(results, Already) != 12 {
				t.Errorf("%v: %v, %+v", at, err, results)
			}
			if f.sent() != 12 || f.most > 3 {
				t.Errorf("%v: %d updates were sent (%d before), want 12; %d at a time", at, f.sent(), sent, f.most)
			}
			if len(f.finished) != 12 {
				t.Errorf("%v: %d trials, want 12", at, len(f.finished))
			}
		})
	}
}

// Who is away is named and keeps nobody up; who is there by the end gets it.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(10)
		p, _ := newPlan(t, 2, 2)
		for _, name := range []string{"gw000", "gw005", "gw009"} {
			f.set(name, func(g *fakeGateway) { g.away = true })
		}
		time.AfterFunc(10*time.Minute, func() { f.set("gw005", func(g *fakeGateway) { g.away = false }) })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Committed) != 8 || count(results, Unreachable) != 2 {
			t.Fatalf("%v: %+v", err, results)
		}
		if r := of(results, "gw009"); r.Why != errAway.Error() {
			t.Errorf("%+v", r)
		}
		f.set("gw000", func(g *fakeGateway) { g.away = false })
		f.set("gw001", func(g *fakeGateway) { g.away = true }) // it has it
		results, err = Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Unreachable) != 1 || f.sent() != 9 || of(results, "gw001").Outcome != Already {
			t.Errorf("%v: %+v", err, results)
		}
	})
	// One that does not come back has failed, and so it has for the next run.
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(5)
		p, _ := newPlan(t, 1, 1)
		f.set("gw001", func(g *fakeGateway) { g.stays = true })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || of(results, "gw001").Outcome != Failed || count(results, Waiting) != 3 {
			t.Errorf("%v: %+v", err, results)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		f.set("gw001", func(g *fakeGateway) { g.away, g.trial, g.version = false, false, "1.0" })
		if _, err := Run(ctx, p, all); !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
		results, err = Run(t.Context(), p, all) // it is lost in the middle
		if r := of(results, "gw001"); !errors.Is(err, ErrStopped) || r.Outcome != Failed || !strings.Contains(r.Why, "does not answer any more") || f.sent() != 3 {
			t.Errorf("%v: %+v, %d sent", err, results, f.sent())
		}
	})
}

// A connection that is lost is tried again, a refusal is not.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(3)
		p, _ := newPlan(t, 3, 0)
		f.set("gw000", func(g *fakeGateway) { g.cuts = 2 })
		f.set("gw001", func(g *fakeGateway) { g.refuses = 1 })
		f.set("gw002", func(g *fakeGateway) { g.cuts = 3 })
		results, err := Run(t.Context(), p, all)
		want := []Result{
			{Gateway: "gw000", Outcome: Committed},
			{Gateway: "gw001", Outcome: Failed, Why: "it does not take it: no space"},
			{Gateway: "gw002", Outcome: Failed, Why: "it could not be sent: connection reset by peer"},
		}
		for i := range results {
			results[i].Seconds = 0
		}
		if !errors.Is(err, ErrStopped) || !slices.Equal(results, want) {
			t.Errorf("%v: %+v", err, results)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, all := newFleet(2)
		p, _ := newPlan(t, 1, 0)
		p.Each = time.Minute // a trial takes longer
		results, err := Run(t.Context(), p, all)
		if r := results[0]; !errors.Is(err, ErrStopped) || r.Outcome != Failed || !strings.HasPrefix(r.Why, "nothing is known of it after 1m0s") || results[1].Outcome != Waiting {
			t.Errorf("%v: %+v", err, results)
		}
	})
}

// What can be known before is said before anything is sent.
func TestBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(3)
		p, _ := newPlan(t, 1, 1)
		f.set("gw002", func(g *fakeGateway) { g.board = "sengled" })
		_, err := Run(t.Context(), p, all)
		if err == nil || err.Error() != "nothing was begun: gw002: the update is for lidl, and this is sengled" || f.sent() != 0 {
			t.Errorf("%v, %d sent", err, f.sent())
		}
		f.set("gw002", func(g *fakeGateway) { g.board, g.version = "lidl", "2.0" })
		p.Dry = true
		results, err := Run(t.Context(), p, all)
		if err != nil || count(results, Ready) != 2 || count(results, Already) != 1 || f.sent() != 0 {
			t.Errorf("dry: %v, %+v", err, results)
		}
		p.Dry = false
		a, err := look(p.File)
		if err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(p.Journal, a, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), p, all); err == nil || !strings.Contains(err.Error(), "by another gwctl") {
			t.Errorf("two rollouts of one update: %v", err)
		}
		j.close()
		b, err := os.ReadFile(p.File)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-1] ^= 1
		if err := os.WriteFile(p.File, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), p, all); !errors.Is(err, bundle.ErrFormat) {
			t.Errorf("a damaged one: %v", err)
		}
	})
}

// Five hundred gateways and an update of 3 MiB: it is nowhere as a whole.
func TestManyGateways(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := newFleet(500)
		p, _ := newPlan(t, 16, 2)
		p.File = newBundle(t, "2.0", 3<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		results, err := Run(t.Context(), p, all)
		runtime.ReadMemStats(&after)
		if err != nil || count(results, Committed) != 500 || f.most > 16 {
			t.Errorf("%v, %d kept it, %d at a time", err, count(results, Committed), f.most)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 100<<20 {
			t.Errorf("%d MiB were taken in all for 500 gateways", n>>20)
		}
	})
}

// What a crash leaves of a journal is survived.
func TestJournal(t *testing.T) {
	a := about{sum: strings.Repeat("ab", 32)}
	dir := t.TempDir()
	j, err := openJournal(dir, a, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []entry{{Gateway: "a", State: stateSent}, {Gateway: "a", State: stateCommitted}, {Gateway: "b", State: stateFailed, Why: "x"}} {
		if err := j.add(e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.f.WriteString(`{"gateway":"c","state":"sen`); err != nil {
		t.Fatal(err)
	}
	j.close()
	if j, err = openJournal(dir, a, false); err != nil {
		t.Fatal(err)
	}
	if j.of("a").State != stateCommitted || j.of("b").Why != "x" || j.of("c").State != "" {
		t.Errorf("%+v", j.last)
	}
	if err := j.add(entry{Gateway: "c", State: stateSent}); err != nil {
		t.Fatal(err)
	}
	j.close()
	if j, err = openJournal(dir, a, true); err != nil || j.of("c").State != stateSent || j.of("a").State != stateCommitted {
		t.Errorf("%v, %+v", err, j.last)
	}
}

func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"at":1,"gateway":"a","state":"sent"}` + "\n" + `{"gateway":"b","state":"failed","why":"x"}` + "\n" + `{"gat`))
	f.Fuzz(func(t *testing.T, b []byte) {
		j := &journal{last: map[string]entry{}}
		n := j.read(b)
		if n < 0 || n > len(b) || n < len(b) && bytes.IndexByte(b[n:], '\n') >= 0 {
			t.Errorf("%d of %d", n, len(b))
		}
		for name, e := range j.last {
			if name == "" || e.Gateway != name || e.State != stateSent && e.State != stateCommitted && e.State != stateFailed {
				t.Errorf("%q: %+v", name, e)
			}
		}
	})
}
