package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/gwctl/bench/iperf"
	"gwinit/internal/gwctl/bench/stats"
)

// Each point comes once a round, as often at each place, and (but in one square of an
// odd number) as often behind each other.
func TestOrder(t *testing.T) {
	if got := fmt.Sprint(order(2, 4)); got != "[[0 1] [1 0] [0 1] [1 0]]" {
		t.Errorf("two points: %s", got)
	}
	for points := 2; points <= 9; points++ {
		rounds := points
		if points%2 == 1 {
			rounds *= 2
		}
		places, follows := map[[2]int]int{}, map[[2]int]int{}
		for _, row := range order(points, rounds) {
			seen := slices.Sorted(slices.Values(row))
			for i, p := range seen {
				if p != i {
					t.Fatalf("%d points: round %v", points, row)
				}
			}
			for i, p := range row {
				places[[2]int{i, p}]++
				if i > 0 {
					follows[[2]int{row[i-1], p}]++
				}
			}
		}
		for at, n := range places {
			if n != rounds/points {
				t.Errorf("%d points: %d times at place and point %v", points, n, at)
			}
		}
		if len(follows) != points*(points-1) {
			t.Errorf("%d points: %d of them follow others", points, len(follows))
		}
		for pair, n := range follows {
			if n != rounds/points {
				t.Errorf("%d points: %v follow each other %d times", points, pair, n)
			}
		}
	}
}

func testPlan(kind string, rounds int, points ...string) *Plan {
	m := measures(rates{tx: "0", rx: "100M"}, 20, 20)
	p := &Plan{Format: format, Kind: kind, Points: points, Rounds: rounds, Repeat: 1, Measures: []Measure{m["tx"]}, Hook: "flash {}", Replays: 2, Profile: "leave", Bar: 0.7}
	p.Order = order(len(points), rounds)
	return p
}

// lab is a session whose gateway's speed is that of the point in place.
type lab struct {
	s      *session
	b      *box
	plan   *Plan
	state  *State
	puts   []string
	speeds map[string]float64
	noise  float64
	before func(run int) error // each run
	runs   int
	random *rand.Rand
}

func newLab(t *testing.T, p *Plan, speeds map[string]float64) *lab {
	l := &lab{plan: p, state: &State{Format: format}, speeds: speeds, random: rand.New(rand.NewPCG(1, 1)), noise: 0.2}
	l.s, l.b, _ = newSession(t, func(load iperf.Load) (float64, error) {
		l.runs++
		if l.before != nil {
			if err := l.before(l.runs); err != nil {
				return 0, err
			}
		}
		v := l.speeds[p.Points[0]]
		if len(l.puts) > 0 {
			v = l.speeds[l.puts[len(l.puts)-1]]
		}
		if load.Reverse {
			v -= 10
		}
		return v + l.noise*l.random.NormFloat64(), nil
	})
	return l
}

func (l *lab) carry(ctx context.Context) error {
	return l.s.paired(ctx, l.plan, l.state, func(_ context.Context, point string) error {
		if l.b.in {
			return errors.New("the hook ran in bench mode")
		}
		l.puts = append(l.puts, point)
		return nil
	}, func() error { return keep(l.s.dir, stateFile, l.state) })
}

func TestAB(t *testing.T) {
	l := newLab(t, testPlan(kindAB, 6, "old", "new"), map[string]float64{"old": 92, "new": 94})
	if err := l.carry(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.puts, " "); got != "old new new old old new new old old new new old" {
		t.Errorf("order %s", got)
	}
	if l.b.enters != 12 || l.b.in {
		t.Errorf("entered %d times, still in %v", l.b.enters, l.b.in)
	}
	r := evaluate(l.plan, l.state)
	if len(r.Comparisons) != 1 || r.Rounds != 6 || r.Replayed != 0 || r.Interrupted != 0 {
		t.Fatalf("%+v", r)
	}
	c := r.Comparisons[0]
	if c.Verdict != stats.Cleared || math.Abs(c.Paired.Mean-2) > 0.5 || c.Paired.N != 6 || math.Abs(c.Ratio-2.0/82) > 0.006 || c.Decide != 0 {
		t.Errorf("%+v", c)
	}
	if len(r.Placed) != 1 || len(r.Placed[0].Position.Means) != 2 {
		t.Errorf("%+v", r.Placed)
	}
	if err := writeResult(l.s.dir, &r); err != nil {
		t.Fatal(err)
	}
	exists(t, l.s.dir, resultsFile, reportFile, stateFile, "plots/B-tcp-tx.svg", "raw/001-round01-A-tcp-tx-1.json", "raw/006-round06-A-tcp-tx-1.json")
	text, err := os.ReadFile(filepath.Join(l.s.dir, reportFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# new beside old", "**bar +0.70: cleared**", "6 pairs: mean difference", "AB BA AB BA AB BA", "ratio to old within the round", "sign test 0.0156 one-sided", "| hook | flash {} |"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestSweep(t *testing.T) {
	l := newLab(t, testPlan(kindSweep, 6, "a", "b", "c"), map[string]float64{"a": 92, "b": 92, "c": 95})
	l.plan.Measures = append(l.plan.Measures, measures(rates{}, 20, 20)["rx"])
	l.plan.Repeat = 2
	if err := l.carry(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := evaluate(l.plan, l.state)
	if len(r.Comparisons) != 4 || l.runs != 6*3*2*2 {
		t.Fatalf("%d comparisons of %d runs", len(r.Comparisons), l.runs)
	}
	for _, c := range r.Comparisons {
		want := stats.Verdict("")
		if c.Measure == "tcp-tx" { // what the bar is for
			want = map[string]stats.Verdict{"b": stats.NotCleared, "c": stats.Cleared}[c.Point]
		}
		if c.Verdict != want {
			t.Errorf("%s %s: %s, %+v", c.Point, c.Measure, c.Verdict, c.Paired)
		}
		if c.JudgedIn != nil && (c.JudgedIn.Low >= c.Paired.In.Low || c.JudgedIn.High <= c.Paired.In.High) {
			t.Errorf("%s: judged by %v, one alone is %v", c.Point, c.JudgedIn, c.Paired.In)
		}
	}
	if err := writeResult(l.s.dir, &r); err != nil {
		t.Fatal(err)
	}
	exists(t, l.s.dir, reportFile, "plots/B-tcp-tx.svg", "plots/C-tcp-rx.svg")
}

func TestNull(t *testing.T) {
	p := testPlan(kindNull, 10, "v1")
	p.Hook = ""
	l := newLab(t, p, map[string]float64{"v1": 92})
	if err := l.carry(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(l.puts) != 0 || l.b.enters != 1 {
		t.Errorf("%v, entered %d times", l.puts, l.b.enters)
	}
	r := evaluate(p, l.state)
	if len(r.Noise) != 1 || r.Noise[0].Summary.N != 10 || math.Abs(r.Noise[0].Summary.SD-0.2) > 0.12 || math.Abs(r.Noise[0].Difference-0.28) > 0.17 {
		t.Fatalf("%+v", r.Noise)
	}
	if err := writeResult(l.s.dir, &r); err != nil {
		t.Fatal(err)
	}
	exists(t, l.s.dir, reportFile, "plots/null-tcp-tx.svg")
	// What later verdicts use.
	ab := testPlan(kindAB, 2, "a", "b")
	noise, err := noiseOf(l.s.dir, ab)
	if err != nil || noise["tcp-tx"] != r.Noise[0].Difference {
		t.Errorf("%v, %v", noise, err)
	}
	ab.Measures[0].Load.Seconds = 10
	if _, err := noiseOf(l.s.dir, ab); err == nil || !strings.Contains(err.Error(), "1 × 20 s of TCP TX") {
		t.Errorf("the noise of other runs: %v", err)
	}
	ab.Measures[0] = measures(rates{}, 20, 20)["rx"]
	if _, err := noiseOf(l.s.dir, ab); err == nil || !strings.Contains(err.Error(), "has no noise of what is to be measured") {
		t.Errorf("the noise of another direction: %v", err)
	}
	if _, err := noiseOf(t.TempDir(), ab); err == nil {
		t.Error("no folder of a null")
	}
}

// Rounds whose environment is not valid are measured again, and counted.
func TestReplays(t *testing.T) {
	l := newLab(t, testPlan(kindAB, 4, "old", "new"), map[string]float64{"old": 92, "new": 92})
	l.before = func(run int) error {
		switch run {
		case 2:
			return errors.New("iperf3: the server is busy running a test")
		case 5: // the restart is seen behind the run
			l.b.c.At = -30e9
		}
		l.b.load.Quiet = run < 7 || run > 8
		return nil
	}
	if err := l.carry(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := evaluate(l.plan, l.state)
	if r.Replayed != 3 || r.Rounds != 4 || r.Interrupted != 0 {
		t.Errorf("%d replayed of %d rounds", r.Replayed, r.Rounds)
	}
	var why []string
	for _, a := range l.state.Attempts {
		if a.Invalid != "" {
			why = append(why, fmt.Sprintf("%d: %.60s", a.Round, a.Invalid))
		}
	}
	want := []string{"0: TCP TX of new failed: iperf3: the server is busy running a t", "1: the gateway was restarted meanwhile", "2: the gateway was not at rest with old: 0.010 % CPU, 0.5 wakeu"}
	if !slices.Equal(why, want) {
		t.Errorf("%q", why)
	}
	if err := writeResult(l.s.dir, &r); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(filepath.Join(l.s.dir, reportFile)); !bytes.Contains(text, []byte("3 were measured again because their environment was not valid")) {
		t.Errorf("report\n%s", text)
	}

	// A round that cannot be had ends it.
	l = newLab(t, testPlan(kindAB, 4, "old", "new"), map[string]float64{"old": 92, "new": 92})
	l.plan.Least = 90 // Mbit/s, of 82
	err := l.carry(t.Context())
	if !errors.Is(err, errInvalid) || !strings.Contains(err.Error(), "round 1, 3 times, at last because no point reached 90.0 Mbit/s") || l.runs != 6 || l.b.in {
		t.Errorf("%v after %d runs", err, l.runs)
	}

	// A kernel that complains ends it at once.
	l = newLab(t, testPlan(kindAB, 4, "old", "new"), map[string]float64{"old": 92, "new": 92})
	l.before = func(run int) error { l.b.c.Faults = []string{"BUG: x"}; return nil }
	if err := l.carry(t.Context()); !errors.Is(err, errDirty) || l.runs != 1 {
		t.Errorf("%v after %d runs", err, l.runs)
	}
}

// An interruption loses the round that it is in, and nothing else.
func TestResume(t *testing.T) {
	for stop := 1; stop <= 7; stop++ {
		p := testPlan(kindAB, 4, "old", "new")
		l := newLab(t, p, map[string]float64{"old": 92, "new": 94})
		if err := keep(l.s.dir, planFile, p); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		l.before = func(run int) error {
			if run == stop {
				cancel()
			}
			return ctx.Err()
		}
		if err := l.carry(ctx); !errors.Is(err, context.Canceled) || l.b.in {
			t.Fatalf("%v, in bench mode %v", err, l.b.in)
		}
		cancel()
		if r := evaluate(p, l.state); len(r.Comparisons) > 0 && r.Comparisons[0].Verdict != "" {
			t.Errorf("a verdict of %d rounds", r.Rounds)
		}
		// Another process.
		again, st, err := stored(l.s.dir)
		if err != nil {
			t.Fatal(err)
		}
		l.plan, l.state, l.before = &again, &st, nil
		l.puts = nil
		if err := l.carry(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := evaluate(l.plan, l.state)
		// Of rounds that were done before, nothing is measured again.
		if r.Rounds != 4 || r.Interrupted != 1 || r.Replayed != 0 || len(l.puts) != 2*(4-(stop-1)/2) || r.Comparisons[0].Verdict != stats.Cleared {
			t.Errorf("stopped at run %d: %d rounds, %d interrupted, %q, %+v", stop, r.Rounds, r.Interrupted, l.puts, r.Comparisons[0].Verdict)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *Plan)
		err    string
	}{
		"one point":    {func(p *Plan) { p.Points = p.Points[:1] }, "two points"},
		"no point":     {func(p *Plan) { p.Kind, p.Points = kindNull, nil }, "no point to measure"},
		"twice":        {func(p *Plan) { p.Points[1] = "old" }, "different words"},
		"odd":          {func(p *Plan) { p.Rounds = 5 }, "5 rounds of 2 points are not balanced"},
		"few":          {func(p *Plan) { p.Rounds = 0 }, "rounds are 2 to 1000"},
		"no measure":   {func(p *Plan) { p.Measures = nil }, "nothing is measured"},
		"repeat":       {func(p *Plan) { p.Repeat = 0 }, "repetitions"},
		"null of two":  {func(p *Plan) { p.Kind, p.Points, p.Rounds = kindNull, p.Points[:1], 2 }, "3 runs at least"},
		"escape codes": {func(p *Plan) { p.Points[0] = "\x1b[2J" }, "control characters"},
	} {
		p := testPlan(kindAB, 4, "old", "new")
		tt.change(p)
		if err := p.check(); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzPlan(f *testing.F) {
	for _, p := range []*Plan{testPlan(kindAB, 4, "old", "new"), testPlan(kindSweep, 3, "a", "b", "c"), testPlan(kindNull, 4, "x")} {
		f.Add(encoded(f, p), []byte(`{"format":1,"attempts":[]}`))
	}
	l := testPlan(kindAB, 2, "old", "new")
	st := State{Format: format, Attempts: []Attempt{{Round: 0, Done: true, Cells: []Cell{{Point: 0, Runs: [][]Run{{{Mbit: 1}}}}, {Point: 1, Runs: [][]Run{{{Mbit: 2}}}}}}}}
	f.Add(encoded(f, l), encoded(f, st))
	f.Fuzz(func(t *testing.T, plan, state []byte) {
		p, err := parsePlan(plan)
		if err != nil {
			return
		}
		s, err := parseState(state, &p)
		if err != nil {
			s = State{Format: format}
		}
		// Whatever it holds, it can be told.
		if p.Rounds <= 20 && len(p.Measures) < 10 {
			r := evaluate(&p, &s)
			if len(r.report()) == 0 {
				t.Error("no report")
			}
		}
	})
}
