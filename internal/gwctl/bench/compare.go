package bench

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"gwinit/internal/gwctl/bench/stats"
)

// Compared is what two folders say beside each other.
type Compared struct {
	Kind string `json:"kind"`
	Old  string `json:"old"`
	New  string `json:"new"`
	// Obstacles say why the two may not be compared. Then there is no verdict, but
	// the rows are there.
	Obstacles []string `json:"obstacles"`
	// Notes are what a reader must know of a comparison that may be made.
	Notes []string      `json:"notes"`
	Rows  []ComparedRow `json:"rows"`
}

// ComparedRow is one value of both.
type ComparedRow struct {
	Name string  `json:"name"`
	Unit string  `json:"unit"`
	Old  float64 `json:"old"`
	New  float64 `json:"new"`
	// Difference is new less old, with the interval that the runs within the
	// sessions give: what differs between sessions is not in it.
	Difference float64         `json:"difference"`
	In         *stats.Interval `json:"in,omitempty"`
}

// apart is after how long two sessions are told to be of another day.
const apart = 12 * time.Hour

// both looks for what must be the same.
func (c *Compared) both(what string, a, b any) {
	if !reflect.DeepEqual(a, b) {
		c.Obstacles = append(c.Obstacles, fmt.Sprintf("%s differs: %v and %v", what, a, b))
	}
}

func (c *Compared) sameGround(a, b Host, f, g Facts) {
	c.both("the computer", a.Name, b.Name)
	c.both("its system", a.OS, b.OS)
	c.both("iperf3", a.IPerf3, b.IPerf3)
	c.both("the kind of path", a.Path.Kind, b.Path.Kind)
	c.both("the interface's speed", a.Path.SpeedMbit, b.Path.SpeedMbit)
	c.both("the board", f.Board, g.Board)
	c.both("the gateway's link speed", f.SpeedMbit, g.SpeedMbit)
	if a.Path.Interface != b.Path.Interface {
		c.Notes = append(c.Notes, fmt.Sprintf("this computer's interface was %s, then %s", a.Path.Interface, b.Path.Interface))
	}
	if f.Hostname != g.Hostname {
		c.Notes = append(c.Notes, fmt.Sprintf("gateways of another name, %s and %s: two boxes of one kind differ, too", f.Hostname, g.Hostname))
	}
	for _, d := range []struct{ what, a, b string }{{"firmware", f.Version, g.Version}, {"kernel", f.Kernel, g.Kernel}, {"driver", f.Driver, g.Driver}} {
		if d.a != d.b {
			c.Notes = append(c.Notes, fmt.Sprintf("%s: %s, then %s", d.what, d.a, d.b))
		}
	}
}

// compareReleases puts two releases side by side.
func compareReleases(a, b *Release) (c Compared) {
	c.Kind, c.Old, c.New = kindRelease, a.Label, b.Label
	c.sameGround(a.Host, b.Host, a.Gateway, b.Gateway)
	c.both("what bench mode stopped", a.Mode.Stopped, b.Mode.Stopped)
	c.both("the driver's profile", a.Mode.Profile, b.Mode.Profile)
	for _, r := range []*Release{a, b} {
		for _, f := range r.Flags {
			switch f.Name {
			case "floor", "retransmits", "errors":
				c.Notes = append(c.Notes, fmt.Sprintf("%s is flagged: %s", r.Label, f.Text))
			default:
				c.Obstacles = append(c.Obstacles, fmt.Sprintf("%s: %s", r.Label, f.Text))
			}
		}
		for _, p := range r.Phases {
			if p.Drift != nil && p.Drift.Drifts() {
				c.Notes = append(c.Notes, fmt.Sprintf("%s: %s drifted by %+.2f Mbit/s an hour", r.Label, p.Title, p.Drift.Slope))
			}
		}
	}
	for i := range a.Phases {
		p := &a.Phases[i]
		q := b.phase(p.Name)
		if q == nil || p.Summary == nil || q.Summary == nil {
			c.Obstacles = append(c.Obstacles, fmt.Sprintf("%s was not measured by both", p.Title))
			continue
		}
		c.both("how "+p.Title+" was measured", p.Load, q.Load)
		v, _, _ := p.values()
		w, _, _ := q.values()
		row := ComparedRow{Name: p.Title, Unit: "Mbit/s", Old: p.Summary.Median, New: q.Summary.Median}
		row.Difference = row.New - row.Old
		if d, err := stats.Welch(v, w); err == nil {
			row.In = &d.In
		}
		c.Rows = append(c.Rows, row,
			ComparedRow{Name: p.Title, Unit: "ns a packet", Old: p.NsPerPacket, New: q.NsPerPacket, Difference: q.NsPerPacket - p.NsPerPacket})
	}
	c.session(a.Started, b.Started)
	c.Notes = append(c.Notes, "they are two sessions: a difference between them is no evidence of its cause, gwctl bench ab with both images in turns is")
	return c
}

func (c *Compared) session(a, b time.Time) {
	if d := b.Sub(a).Abs(); d > apart {
		c.Notes = append(c.Notes, fmt.Sprintf("%.1f days lie between them", d.Hours()/24))
	}
}

func (r *Release) phase(name string) *PhaseResult {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	return nil
}

// compareResults puts two plans of one kind side by side: what each found within
// itself, beside its reference.
func compareResults(a, b *Result) (c Compared) {
	c.Kind, c.Old, c.New = a.Kind, a.Plan.title(), b.Plan.title()
	c.sameGround(a.Host, b.Host, a.Gateway, b.Gateway)
	c.both("what was measured", a.Plan.Measures, b.Plan.Measures)
	c.both("the driver's profile", a.Plan.Profile, b.Plan.Profile)
	for _, r := range []*Result{a, b} {
		if r.Rounds < r.Plan.Rounds {
			c.Obstacles = append(c.Obstacles, fmt.Sprintf("%s of %s is not whole: %d of %d rounds", r.Plan.title(), stamp(r.Plan.Registered), r.Rounds, r.Plan.Rounds))
		}
	}
	c.session(a.Plan.Registered, b.Plan.Registered)
	if a.Kind == kindNull {
		for _, n := range a.Noise {
			for _, m := range b.Noise {
				if m.Measure != n.Measure {
					continue
				}
				row := ComparedRow{Name: measureTitle(&a.Plan, n.Measure), Unit: "Mbit/s", Old: n.Summary.Mean, New: m.Summary.Mean, Difference: m.Summary.Mean - n.Summary.Mean}
				if d, err := stats.Welch(n.Values, m.Values); err == nil {
					row.In = &d.In
				}
				c.Rows = append(c.Rows, row, ComparedRow{
					Name: row.Name + ", sd", Unit: "Mbit/s",
					Old: n.Summary.SD, New: m.Summary.SD, Difference: m.Summary.SD - n.Summary.SD,
				})
				if row.In != nil && !row.In.Contains(0) {
					c.Notes = append(c.Notes, fmt.Sprintf("the sessions themselves differ by %+.2f Mbit/s in %s", row.Difference, row.Name))
				}
			}
		}
		return c
	}
	c.both("the reference", a.Plan.Points[0], b.Plan.Points[0])
	for _, x := range a.Comparisons {
		for _, y := range b.Comparisons {
			if x.Point != y.Point || x.Measure != y.Measure {
				continue
			}
			name := fmt.Sprintf("%s, %s", x.Point, measureTitle(&a.Plan, x.Measure))
			row := ComparedRow{Name: name, Unit: "Mbit/s over the reference", Old: x.Paired.Mean, New: y.Paired.Mean, Difference: y.Paired.Mean - x.Paired.Mean}
			if d, err := stats.Welch(differencesOf(x), differencesOf(y)); err == nil {
				row.In = &d.In
			}
			c.Rows = append(c.Rows, row, ComparedRow{
				Name: name, Unit: "% over the reference",
				Old: 100 * x.Ratio, New: 100 * y.Ratio, Difference: 100 * (y.Ratio - x.Ratio),
			})
			if d, err := stats.Welch(x.Reference, y.Reference); err == nil && !d.In.Contains(0) {
				note := fmt.Sprintf("the reference itself differs by %+.2f Mbit/s between the sessions in %s: compare differences and ratios, not values", d.Difference, measureTitle(&a.Plan, x.Measure))
				if len(c.Notes) == 0 || c.Notes[len(c.Notes)-1] != note {
					c.Notes = append(c.Notes, note)
				}
			}
		}
	}
	if len(c.Rows) == 0 {
		c.Obstacles = append(c.Obstacles, "they have no point in common beside the reference")
	}
	return c
}

func differencesOf(c Comparison) (d []float64) {
	for i := range c.Values {
		d = append(d, c.Values[i]-c.Reference[i])
	}
	return d
}

// text is the comparison for people.
func (c *Compared) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", plain(c.Old), plain(c.New))
	for _, r := range c.Rows {
		fmt.Fprintf(&b, "  %-36s %10.2f %10.2f  %+.2f %s", plain(r.Name), r.Old, r.New, r.Difference, r.Unit)
		if r.In != nil && !math.IsNaN(r.In.Low) {
			fmt.Fprintf(&b, ", 95 %% of these runs %s", span(*r.In))
		}
		b.WriteByte('\n')
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "note: %s\n", plain(n))
	}
	for i, o := range c.Obstacles {
		if i == 0 {
			b.WriteString("they may not be compared:\n")
		}
		fmt.Fprintf(&b, "  %s\n", plain(o))
	}
	return b.String()
}

// compareFolders reads two folders.
func compareFolders(a, b string) (c Compared, err error) {
	var kinds [2]struct {
		Format int    `json:"format"`
		Kind   string `json:"kind"`
	}
	for i, dir := range []string{a, b} {
		if err := load(dir, resultsFile, &kinds[i]); err != nil {
			return c, err
		}
		if kinds[i].Format != format {
			return c, fmt.Errorf("%s is of format %d, this gwctl knows %d", dir, kinds[i].Format, format)
		}
	}
	if kinds[0].Kind != kinds[1].Kind {
		return c, fmt.Errorf("%s is of bench %s, %s of bench %s: they have nothing to compare", a, kinds[0].Kind, b, kinds[1].Kind)
	}
	if kinds[0].Kind == kindRelease {
		var x, y Release
		if err := load(a, resultsFile, &x); err != nil {
			return c, err
		}
		if err := load(b, resultsFile, &y); err != nil {
			return c, err
		}
		return compareReleases(&x, &y), nil
	}
	var x, y Result
	for _, f := range []struct {
		dir string
		to  *Result
	}{{a, &x}, {b, &y}} {
		if err := load(f.dir, resultsFile, f.to); err != nil {
			return c, err
		}
		if err := f.to.Plan.sane(); err != nil {
			return c, fmt.Errorf("%s: %w", f.dir, err)
		}
	}
	return compareResults(&x, &y), nil
}
