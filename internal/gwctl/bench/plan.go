package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gwinit/internal/gwctl/bench/iperf"
)

// Plan is what bench ab, sweep and null are going to do. It is written down, with
// its time, before the first run, and never changed.
type Plan struct {
	Format     int       `json:"format"`
	Kind       string    `json:"kind"`
	Registered time.Time `json:"registered"`
	// Points are what is compared, by the words that the hook gets. The first is
	// the reference.
	Points []string `json:"points"`
	// Rounds have each point once, in the order of Order[round][position], as
	// indices of Points.
	Rounds int     `json:"rounds"`
	Order  [][]int `json:"order"`
	// Repeat is how often a point is measured within a round; their median is
	// its value.
	Repeat int `json:"repeat"`
	// Measures are what is measured of each point, one after the other. The first
	// is what the bar is for.
	Measures   []Measure `json:"measures"`
	GapSeconds float64   `json:"gapSeconds"`
	// Bar is the gain over the reference, in Mbit/s, that was asked for.
	Bar float64 `json:"bar"`
	// Noise is the sd of a difference in Mbit/s by measure, as a bench null found
	// it, and NoiseFrom its folder.
	Noise     map[string]float64 `json:"noise,omitempty"`
	NoiseFrom string             `json:"noiseFrom,omitempty"`
	// Hook is the command that puts a point in place; "": nothing does.
	Hook string `json:"hook,omitempty"`
	// Replays is how often a round may be measured again because its
	// environment was not valid, and Least what at least one point of a valid
	// round reaches, in Mbit/s of the first measure; 0: not looked at.
	Replays int     `json:"replays"`
	Least   float64 `json:"least,omitempty"`
	// AnyLoad: a gateway that is not at rest is no reason to measure again.
	AnyLoad bool `json:"anyLoad,omitempty"`
	// Profile is the Ethernet driver's, leave: as it is.
	Profile string `json:"profile"`
}

// Measure is one kind of run.
type Measure struct {
	Name  string     `json:"name"`
	Title string     `json:"title"`
	Load  iperf.Load `json:"load"`
}

// order is that of rounds with each point once, balanced: two points in ABBA, more
// in a Latin square in which each also follows each other as often (Williams, 1949);
// for an odd number of points it takes two squares for that.
func order(points, rounds int) [][]int {
	first := make([]int, points)
	for i := range first { // 0, 1, k-1, 2, k-2, ...
		if i%2 == 1 {
			first[i] = (i + 1) / 2
		} else {
			first[i] = (points - i/2) % points
		}
	}
	all := make([][]int, rounds)
	for r := range all {
		row := make([]int, points)
		for i := range row {
			row[i] = (first[i] + r) % points
		}
		if points%2 == 1 && r/points%2 == 1 {
			slices.Reverse(row)
		}
		all[r] = row
	}
	return all
}

// check tells what is wrong with a plan, in words for who typed it.
func (p *Plan) check() error {
	k := len(p.Points)
	for i, name := range p.Points {
		if name == "" || slices.Contains(p.Points[:i], name) {
			return fmt.Errorf("the points must be different words, %q is not", name)
		}
		if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("the point %q has control characters", name)
		}
	}
	switch {
	case k == 0:
		return errors.New("there is no point to measure")
	case p.Kind != kindNull && k < 2:
		return errors.New("there must be two points to compare")
	case k > 26:
		return errors.New("more than 26 points are no sweep that ends")
	case p.Kind == kindNull && p.Rounds < 3:
		return errors.New("the noise takes 3 runs at least, better 10")
	case p.Rounds < 2 || p.Rounds > 1000:
		return errors.New("rounds are 2 to 1000")
	case p.Rounds%k != 0:
		return fmt.Errorf("%d rounds of %d points are not balanced: each point comes as often at each place with a multiple of %d", p.Rounds, k, k)
	case p.Repeat < 1 || p.Repeat > 100:
		return errors.New("repetitions within a round are 1 to 100")
	case len(p.Measures) == 0:
		return errors.New("nothing is measured")
	}
	return nil
}

// sane tells whether a plan that was read from a file is one that this program may
// have written.
func (p *Plan) sane() error {
	if p.Format != format {
		return fmt.Errorf("it is of format %d, this gwctl knows %d", p.Format, format)
	}
	if p.Kind != kindAB && p.Kind != kindSweep && p.Kind != kindNull {
		return fmt.Errorf("%.20q is no kind of plan", p.Kind)
	}
	if err := p.check(); err != nil {
		return err
	}
	if len(p.Order) != p.Rounds {
		return fmt.Errorf("it has the order of %d rounds, not %d", len(p.Order), p.Rounds)
	}
	for r, row := range p.Order {
		seen := slices.Clone(row)
		slices.Sort(seen)
		for i, point := range seen {
			if len(seen) != len(p.Points) || i != point {
				return fmt.Errorf("round %d does not have each point once", r+1)
			}
		}
	}
	return nil
}

// Attempt is a round as it was measured.
type Attempt struct {
	Round   int       `json:"round"` // from 0
	Started time.Time `json:"started"`
	// Cells are what was measured, in the order of the plan.
	Cells []Cell `json:"cells"`
	Done  bool   `json:"done"` // every cell is there, and it is valid
	// Invalid says why it does not count.
	Invalid string `json:"invalid,omitempty"`
	// Interrupted: the program was ended in the middle of it. That is none of the
	// replays.
	Interrupted bool `json:"interrupted,omitempty"`
}

// Cell is one point in a round.
type Cell struct {
	Point  int     `json:"point"`
	Kernel string  `json:"kernel,omitempty"` // release
	Load   *Load   `json:"load,omitempty"`   // of the gateway at rest
	Runs   [][]Run `json:"runs"`             // by measure
}

// State is how far a plan has come: state.json, which is replaced after each cell.
type State struct {
	Format   int       `json:"format"`
	Host     Host      `json:"host"`
	Gateway  Facts     `json:"gateway"`
	Attempts []Attempt `json:"attempts"`
}

// sane tells whether a state that was read may be of that plan.
func (s *State) sane(p *Plan) error {
	if s.Format != format {
		return fmt.Errorf("it is of format %d, this gwctl knows %d", s.Format, format)
	}
	done := map[int]bool{}
	for i, a := range s.Attempts {
		if a.Round < 0 || a.Round >= p.Rounds || len(a.Cells) > len(p.Points) || done[a.Round] {
			return fmt.Errorf("attempt %d is of no round of the plan", i+1)
		}
		if a.Done && (len(a.Cells) != len(p.Points) || a.Invalid != "" || a.Interrupted) {
			return fmt.Errorf("attempt %d is not whole", i+1)
		}
		for c, cell := range a.Cells {
			if cell.Point != p.Order[a.Round][c] {
				return fmt.Errorf("attempt %d is not in the plan's order", i+1)
			}
			if a.Done && len(cell.Runs) != len(p.Measures) {
				return fmt.Errorf("attempt %d is not whole", i+1)
			}
			for _, runs := range cell.Runs {
				if a.Done && len(runs) == 0 {
					return fmt.Errorf("attempt %d is not whole", i+1)
				}
			}
		}
		done[a.Round] = a.Done
	}
	return nil
}

// round returns the attempt of a round that counts.
func (s *State) round(r int) *Attempt {
	for i := range s.Attempts {
		if a := &s.Attempts[i]; a.Round == r && a.Done {
			return a
		}
	}
	return nil
}
