package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gwinit/internal/gwctl/bench/stats"
	"gwinit/internal/wait"
)

// errInvalid ends a plan of which a round cannot be had.
var errInvalid = errors.New("a round had no valid environment")

// paired carries a plan out from where it stands. put puts a point in place, with
// the gateway out of bench mode; save keeps the state.
func (s *session) paired(ctx context.Context, p *Plan, st *State, put func(ctx context.Context, point string) error, save func() error) (err error) {
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	for i := range st.Attempts {
		if a := &st.Attempts[i]; !a.Done && a.Invalid == "" {
			a.Interrupted = true
		}
	}
	in := false // bench mode
	for r := range p.Rounds {
		for st.round(r) == nil {
			invalid := 0
			why := ""
			for _, a := range st.Attempts {
				if a.Round == r && a.Invalid != "" {
					invalid++
					why = a.Invalid
				}
			}
			if invalid > p.Replays {
				return fmt.Errorf("%w: round %d, %d times, at last because %s", errInvalid, r+1, invalid, why)
			}
			st.Attempts = append(st.Attempts, Attempt{Round: r, Started: time.Now()})
			a := &st.Attempts[len(st.Attempts)-1]
			if err := save(); err != nil {
				return err
			}
			why, err := s.round(ctx, p, a, len(st.Attempts), &in, put, save)
			if err != nil {
				return err
			}
			if why == "" {
				why = p.invalid(a)
			}
			a.Done, a.Invalid = why == "", why
			if err := save(); err != nil {
				return err
			}
			if why != "" {
				s.say("round %d does not count: %s\n", r+1, why)
			}
		}
	}
	return nil
}

// round measures each point once. why tells that it does not count; err ends all.
func (s *session) round(ctx context.Context, p *Plan, a *Attempt, attempt int, in *bool, put func(context.Context, string) error, save func() error) (why string, err error) {
	for _, point := range p.Order[a.Round] {
		if p.Hook != "" {
			if *in {
				if err := s.box.Leave(ctx); err != nil {
					return "", err
				}
				*in = false
			}
			if err := put(ctx, p.Points[point]); err != nil {
				return "", fmt.Errorf("put %s in place: %w", p.Points[point], err)
			}
		}
		if !*in {
			if err := s.start(ctx); err != nil {
				return "", err
			}
			*in = true
		}
		cell := Cell{Point: point, Load: s.mode.Load}
		for m, measure := range p.Measures {
			cell.Runs = append(cell.Runs, nil)
			for i := range p.Repeat {
				if !wait.For(ctx, time.Duration(p.GapSeconds*float64(time.Second))) {
					return "", ctx.Err()
				}
				name := fmt.Sprintf("%03d-round%02d-%c-%s-%d", attempt, a.Round+1, 'A'+point, measure.Name, i+1)
				run, err := s.measure(ctx, measure.Load, name)
				if errors.Is(err, errRestarted) || errors.Is(err, errLost) {
					// Where there is nobody to tell it, there is no bench mode
					// or it ends by itself, and Enter waits for that.
					_ = s.box.Leave(ctx)
					*in = false
					return err.Error(), ctx.Err()
				}
				if err != nil {
					return "", err
				}
				if run.Error != "" {
					return fmt.Sprintf("%s of %s failed: %s", measure.Title, p.Points[point], run.Error), nil
				}
				cell.Runs[m] = append(cell.Runs[m], run)
				s.say("round %d of %d: %s, %s %.2f Mbit/s\n", a.Round+1, p.Rounds, p.Points[point], measure.Title, run.Mbit)
			}
		}
		cell.Kernel = s.last.Kernel
		a.Cells = append(a.Cells, cell)
		if err := save(); err != nil {
			return "", err
		}
	}
	return "", nil
}

// invalid tells why the environment of a whole round was not one to measure in. It
// looks at nothing that tells which point is better.
func (p *Plan) invalid(a *Attempt) string {
	best := 0.0
	for _, c := range a.Cells {
		if c.Load != nil && !c.Load.Quiet && !p.AnyLoad {
			return fmt.Sprintf("the gateway was not at rest with %s: %.3f %% CPU, %.1f wakeups a second", p.Points[c.Point], c.Load.CPU, c.Load.Wakeups)
		}
		best = max(best, value(c.Runs[0]))
	}
	if best < p.Least {
		return fmt.Sprintf("no point reached %.1f Mbit/s", p.Least)
	}
	return ""
}

// value is what repetitions within a round come to.
func value(runs []Run) float64 {
	var v []float64
	for _, r := range runs {
		v = append(v, r.Mbit)
	}
	return stats.Median(v)
}

// Comparison is a point beside the reference, by one measure.
type Comparison struct {
	Point   string `json:"point"`
	Measure string `json:"measure"`
	// Values are Mbit/s by round, Reference those of the reference.
	Values    []float64 `json:"values"`
	Reference []float64 `json:"reference"`
	// Paired is of the differences in Mbit/s. Ratio is the mean of the ratios
	// within rounds less 1, with its interval.
	Paired  stats.Paired   `json:"paired"`
	Ratio   float64        `json:"ratio"`
	RatioIn stats.Interval `json:"ratioIn"`
	// Verdict is about the plan's bar; absent for measures that it is not for, and
	// before all rounds are there. JudgedIn is the interval that it is by: with
	// several points it is one that holds for all of them together in 95 % (Bonferroni).
	Verdict  stats.Verdict   `json:"verdict,omitempty"`
	JudgedIn *stats.Interval `json:"judgedIn,omitempty"`
	// Decide is how many pairs would tell from the bar a gain such as this one, with
	// a chance of 80 %; 0: more than anybody measures, or it is decided.
	Decide int `json:"pairsToDecide,omitempty"`
}

// Noise is what a bench null finds, by measure.
type Noise struct {
	Measure string        `json:"measure"`
	Values  []float64     `json:"values"`
	Summary stats.Summary `json:"summary"`
	// Difference is the sd of the difference between one run and the next: what a
	// pair has.
	Difference float64      `json:"differenceSD"`
	Drift      *stats.Trend `json:"drift,omitempty"` // Mbit/s an hour
}

// Placed is the effect of the position, by measure.
type Placed struct {
	Measure  string         `json:"measure"`
	Position stats.Position `json:"position"`
	Drift    *stats.Trend   `json:"drift,omitempty"` // of the reference, Mbit/s an hour
}

// Result is that of bench ab, sweep and null: results.json.
type Result struct {
	Format      int          `json:"format"`
	Kind        string       `json:"kind"`
	Plan        Plan         `json:"plan"`
	Host        Host         `json:"host"`
	Gateway     Facts        `json:"gateway"`
	Ended       time.Time    `json:"ended"`
	Rounds      int          `json:"rounds"` // that count
	Replayed    int          `json:"replayed"`
	Interrupted int          `json:"interrupted"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Noise       []Noise      `json:"noise,omitempty"`
	Placed      []Placed     `json:"placed,omitempty"`
	Attempts    []Attempt    `json:"attempts"`
}

// evaluate makes the result of what was measured until now. Before the planned
// number of rounds there is no verdict.
func evaluate(p *Plan, st *State) Result {
	r := Result{Format: format, Kind: p.Kind, Plan: *p, Host: st.Host, Gateway: st.Gateway, Ended: time.Now(), Attempts: st.Attempts}
	for _, a := range st.Attempts {
		for _, c := range a.Cells {
			if c.Point == 0 && r.Gateway.Kernel == "" {
				r.Gateway.Kernel = c.Kernel
			}
		}
	}
	var rounds []*Attempt
	for i := range p.Rounds {
		if a := st.round(i); a != nil {
			rounds = append(rounds, a)
		}
	}
	r.Rounds = len(rounds)
	for _, a := range st.Attempts {
		if a.Invalid != "" {
			r.Replayed++
		}
		if a.Interrupted {
			r.Interrupted++
		}
	}
	for m, measure := range p.Measures {
		// by point, in the order of rounds
		values := make([][]float64, len(p.Points))
		hours := make([][]float64, len(p.Points))
		var placed [][]float64
		var points [][]int
		for _, a := range rounds {
			row := make([]float64, len(a.Cells))
			for i, c := range a.Cells {
				row[i] = value(c.Runs[m])
				values[c.Point] = append(values[c.Point], row[i])
				hours[c.Point] = append(hours[c.Point], c.Runs[m][0].Started.Sub(rounds[0].Started).Hours())
			}
			placed, points = append(placed, row), append(points, p.Order[a.Round])
		}
		var drift *stats.Trend
		if d, err := stats.Drift(hours[0], values[0]); err == nil {
			drift = &d
		}
		if p.Kind == kindNull {
			n := Noise{Measure: measure.Name, Values: values[0], Drift: drift}
			summary, err := stats.Summarize(values[0])
			if err != nil {
				continue
			}
			n.Summary = summary
			if n.Difference, err = stats.Successive(values[0]); err == nil {
				r.Noise = append(r.Noise, n)
			}
			continue
		}
		if position, err := stats.Positions(placed, points); err == nil {
			r.Placed = append(r.Placed, Placed{measure.Name, position, drift})
		}
		for i := 1; i < len(p.Points); i++ {
			c, err := compare(values[0], values[i], p.Noise[measure.Name])
			if err != nil {
				continue // one round
			}
			c.Point, c.Measure = p.Points[i], measure.Name
			if m == 0 && r.Rounds == p.Rounds {
				c.judge(p.Bar, len(p.Points)-1)
			}
			r.Comparisons = append(r.Comparisons, c)
		}
	}
	return r
}

// compare makes pairs of two series.
func compare(reference, values []float64, noise float64) (c Comparison, err error) {
	differences := make([]float64, len(values))
	for i := range values {
		differences[i] = values[i] - reference[i]
	}
	c.Values, c.Reference = values, reference
	if c.Paired, err = stats.Pairs(differences, noise); err != nil {
		return c, err
	}
	c.Ratio, c.RatioIn, err = stats.Ratios(values, reference)
	return c, err
}

// judge makes the verdict, one of several, and how many pairs it takes where it is
// not clear.
func (c *Comparison) judge(bar float64, several int) {
	in := c.Paired.Together(several)
	c.JudgedIn, c.Verdict = &in, stats.Judge(in, bar)
	if in.Contains(bar) {
		c.Decide = stats.PairsFor(c.Paired.Mean-bar, math.Max(c.Paired.SD, c.Paired.Noise))
	}
}
