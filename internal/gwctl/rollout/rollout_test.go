package rollout

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/bundle"
	"gwinit/internal/gwctl/fleet/fleettest"
)

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
	return Plan{File: fleettest.Bundle(t, "2.0", 64<<10), MaxUnavailable: width, Canaries: canaries, Journal: t.TempDir(), Log: l.log, Progress: func(string) {}}, l
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
		f, all := fleettest.New(40)
		p, _ := newPlan(t, 4, 3)
		begin := time.Now()
		results, err := Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 40 {
			t.Fatalf("%v, %+v", err, results)
		}
		if f.Most != 4 {
			t.Errorf("%d at a time, want 4", f.Most)
		}
		if first := slices.Sorted(slices.Values(f.Began[:3])); !slices.Equal(first, []string{"gw000", "gw001", "gw002"}) {
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
		if err != nil || count(results, Already) != 40 || f.Sent() != 40 {
			t.Errorf("again: %v, %d sent", err, f.Sent())
		}
		// By force: all of them.
		p.Force = true
		results, err = Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 40 || f.Sent() != 80 {
			t.Errorf("by force: %v, %d sent", err, f.Sent())
		}
	})
}

// The first that does not keep it ends the rollout, when those that have it are
// done; the next run begins with that one, alone.
func TestStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(20)
		p, l := newPlan(t, 4, 2)
		f.Set("gw004", func(g *fleettest.Gateway) { g.Bad = "ssh never answered" })
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
		f.Set("gw004", func(g *fleettest.Gateway) { g.Bad = "" })
		f.Began = nil
		p.MaxUnavailable = 8
		results, err = Run(t.Context(), p, all)
		if err != nil || count(results, Committed) != 15 || count(results, Already) != 5 {
			t.Errorf("%v: %+v", err, results)
		}
		if f.Began[0] != "gw004" || f.Finished[6] != "gw004" || len(f.Began) != 15 {
			t.Errorf("began with %v", f.Began)
		}
		if f.Sent() != 6+15 {
			t.Errorf("%d updates were sent, want 21", f.Sent())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(20)
		p, _ := newPlan(t, 8, 1)
		f.Set("gw000", func(g *fleettest.Gateway) { g.Bad = "crashed" })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Waiting) != 19 || f.Sent() != 1 {
			t.Errorf("a bad canary: %v, %d sent", err, f.Sent())
		}
	})
}

// An interrupted rollout goes on: nobody gets it twice, and those that try it are
// waited for.
func TestResume(t *testing.T) {
	for at := 10 * time.Second; at < 1300*time.Second; at += 97 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			f, all := fleettest.New(12)
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
			sent := f.Sent()
			results, err = Run(t.Context(), p, all)
			if err != nil || count(results, Committed)+count(results, Already) != 12 {
				t.Errorf("%v: %v, %+v", at, err, results)
			}
			if f.Sent() != 12 || f.Most > 3 {
				t.Errorf("%v: %d updates were sent (%d before), want 12; %d at a time", at, f.Sent(), sent, f.Most)
			}
			if len(f.Finished) != 12 {
				t.Errorf("%v: %d trials, want 12", at, len(f.Finished))
			}
		})
	}
}

// Who is away is named and keeps nobody up; who is there by the end gets it.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(10)
		p, _ := newPlan(t, 2, 2)
		for _, name := range []string{"gw000", "gw005", "gw009"} {
			f.Set(name, func(g *fleettest.Gateway) { g.Away = true })
		}
		time.AfterFunc(10*time.Minute, func() { f.Set("gw005", func(g *fleettest.Gateway) { g.Away = false }) })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Committed) != 8 || count(results, Unreachable) != 2 {
			t.Fatalf("%v: %+v", err, results)
		}
		if r := of(results, "gw009"); r.Why != fleettest.ErrAway.Error() {
			t.Errorf("%+v", r)
		}
		f.Set("gw000", func(g *fleettest.Gateway) { g.Away = false })
		f.Set("gw001", func(g *fleettest.Gateway) { g.Away = true }) // it has it
		results, err = Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || count(results, Unreachable) != 1 || f.Sent() != 9 || of(results, "gw001").Outcome != Already {
			t.Errorf("%v: %+v", err, results)
		}
	})
	// One that does not come back has failed, and so it has for the next run.
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(5)
		p, _ := newPlan(t, 1, 1)
		f.Set("gw001", func(g *fleettest.Gateway) { g.Stays = true })
		results, err := Run(t.Context(), p, all)
		if !errors.Is(err, ErrStopped) || of(results, "gw001").Outcome != Failed || count(results, Waiting) != 3 {
			t.Errorf("%v: %+v", err, results)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		f.Set("gw001", func(g *fleettest.Gateway) { g.Away, g.Trial, g.Version = false, false, "1.0" })
		if _, err := Run(ctx, p, all); !errors.Is(err, ErrStopped) {
			t.Error(err)
		}
		results, err = Run(t.Context(), p, all) // it is lost in the middle
		if r := of(results, "gw001"); !errors.Is(err, ErrStopped) || r.Outcome != Failed || !strings.Contains(r.Why, "does not answer any more") || f.Sent() != 3 {
			t.Errorf("%v: %+v, %d sent", err, results, f.Sent())
		}
	})
}

// A connection that is lost is tried again, a refusal is not.
func TestSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(3)
		p, _ := newPlan(t, 3, 0)
		f.Set("gw000", func(g *fleettest.Gateway) { g.Cuts = 2 })
		f.Set("gw001", func(g *fleettest.Gateway) { g.Refuses = 1 })
		f.Set("gw002", func(g *fleettest.Gateway) { g.Cuts = 3 })
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
		_, all := fleettest.New(2)
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
		f, all := fleettest.New(3)
		p, _ := newPlan(t, 1, 1)
		f.Set("gw002", func(g *fleettest.Gateway) { g.Board = "sengled" })
		_, err := Run(t.Context(), p, all)
		if err == nil || err.Error() != "nothing was begun: gw002: the update is for lidl, and this is sengled" || f.Sent() != 0 {
			t.Errorf("%v, %d sent", err, f.Sent())
		}
		f.Set("gw002", func(g *fleettest.Gateway) { g.Board, g.Version = "lidl", "2.0" })
		p.Dry = true
		results, err := Run(t.Context(), p, all)
		if err != nil || count(results, Ready) != 2 || count(results, Already) != 1 || f.Sent() != 0 {
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
		f, all := fleettest.New(500)
		p, _ := newPlan(t, 16, 2)
		p.File = fleettest.Bundle(t, "2.0", 3<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		results, err := Run(t.Context(), p, all)
		runtime.ReadMemStats(&after)
		if err != nil || count(results, Committed) != 500 || f.Most > 16 {
			t.Errorf("%v, %d kept it, %d at a time", err, count(results, Committed), f.Most)
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
