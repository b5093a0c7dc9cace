package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gwinit/internal/gwctl/bench/iperf"
	"gwinit/internal/gwctl/bench/stats"
	"gwinit/internal/wait"
)

// format is the version of the files that this package writes.
const format = 1

// Kinds of results.
const (
	kindRelease = "release"
	kindAB      = "ab"
	kindSweep   = "sweep"
	kindNull    = "null"
)

// Windows of counters.
const (
	windowTCP = "TCP"
	windowUDP = "UDP"
)

// Phase is one measurement that is repeated.
type Phase struct {
	Name   string     `json:"name"`
	Title  string     `json:"title"`
	Load   iperf.Load `json:"load"`
	Repeat int        `json:"repeat"`
	// Floor is the median, in Mbit/s, below which a flag is raised; 0: none.
	Floor float64 `json:"floor,omitempty"`
}

// window is the one that the phase's counters belong to.
func (p Phase) window() string {
	if p.Load.UDP {
		return windowUDP
	}
	return windowTCP
}

// Suite is what a release bench measures.
type Suite struct {
	Phases     []Phase `json:"phases"`
	GapSeconds float64 `json:"gapSeconds"` // between runs
	// MaxRetransmits and MaxErrors are what the gateway may count in the TCP
	// window: retransmitted segments, and errors and drops of the interface.
	MaxRetransmits uint64 `json:"maxRetransmits"`
	MaxErrors      uint64 `json:"maxErrors"`
}

// PhaseResult is what came of a phase.
type PhaseResult struct {
	Phase
	Runs []Run `json:"runs"`
	// Summary is of Mbit; absent if no run came to an end.
	Summary *stats.Summary `json:"summary,omitempty"`
	// Drift is in Mbit/s an hour.
	Drift *stats.Trend `json:"drift,omitempty"`
	// NsPerPacket is of all runs together, on the gateway, and Busy the
	// fraction of its processor.
	NsPerPacket float64 `json:"nsPerPacket"`
	Busy        float64 `json:"busy"`
	LostPercent float64 `json:"lostPercent,omitempty"` // median
	Retransmits int     `json:"retransmits"`           // sum of the senders'
}

// values are those of the runs that came to an end, with the number of each, from
// 1, and the hours since the first.
func (p *PhaseResult) values() (v []float64, number []int, hours []float64) {
	for i, r := range p.Runs {
		if r.Error == "" {
			v, number = append(v, r.Mbit), append(number, i+1)
			hours = append(hours, r.Started.Sub(p.Runs[0].Started).Hours())
		}
	}
	return v, number, hours
}

// sumUp makes the rest of what the runs were.
func (p *PhaseResult) sumUp() {
	v, _, hours := p.values()
	if s, err := stats.Summarize(v); err == nil {
		p.Summary = &s
	}
	if d, err := stats.Drift(hours, v); err == nil {
		p.Drift = &d
	}
	var all Delta
	var lost []float64
	p.Retransmits = 0
	for _, r := range p.Runs {
		if r.Error != "" {
			continue
		}
		all.add(r.Delta)
		lost = append(lost, r.LostPercent)
		if r.Retransmits != nil {
			p.Retransmits += *r.Retransmits
		}
	}
	p.NsPerPacket, p.Busy = all.nsPerPacket(), all.Busy
	if p.Load.UDP && len(lost) > 0 {
		p.LostPercent = stats.Median(lost)
	}
}

// Window is what the gateway counted from before the first to behind the last run
// of its phases, the pauses with it.
type Window struct {
	Name  string `json:"name"`
	Delta Delta  `json:"delta"`
	// DriverPerPacket are the driver's counters for each packet of the
	// interface.
	DriverPerPacket map[string]float64 `json:"driverPerPacket,omitempty"`
}

// Flag is something that a reader must know.
type Flag struct {
	Name string `json:"name"` // for programs
	Text string `json:"text"`
}

// Release is the result of bench release, results.json.
type Release struct {
	Format  int           `json:"format"`
	Kind    string        `json:"kind"`
	Label   string        `json:"label"`
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended"`
	Aborted string        `json:"aborted,omitempty"` // why it is not whole
	Host    Host          `json:"host"`
	Gateway Facts         `json:"gateway"`
	Mode    Mode          `json:"benchMode"`
	Suite   Suite         `json:"suite"`
	Phases  []PhaseResult `json:"phases"`
	Windows []Window      `json:"windows"`
	Flags   []Flag        `json:"flags"`
}

// mostFailures is how many runs of a phase may fail one after the other.
const mostFailures = 3

// release measures a suite. r has what is known before; what was measured is in it
// also with an error.
func (s *session) release(ctx context.Context, r *Release) (err error) {
	r.Format, r.Kind, r.Started = format, kindRelease, time.Now()
	if err := s.start(ctx); err != nil {
		return err
	}
	r.Mode = s.mode
	defer func() {
		r.Ended = time.Now()
		if err != nil {
			r.Aborted = err.Error()
		}
		r.flag()
		err = errors.Join(err, s.stop(ctx))
	}()
	runs, done := 0, 0
	for _, p := range r.Suite.Phases {
		runs += p.Repeat
	}
	var first, last Counters
	window := ""
	closeWindow := func() error {
		if window == "" {
			return nil
		}
		d, err := between(first, last)
		if err != nil {
			return err
		}
		r.Windows = append(r.Windows, newWindow(window, d))
		return nil
	}
	for _, p := range r.Suite.Phases {
		if p.Repeat == 0 {
			continue
		}
		if p.window() != window {
			if err := closeWindow(); err != nil {
				return err
			}
			if first, err = s.look(ctx); err != nil {
				return err
			}
			window, r.Gateway.Kernel = p.window(), first.Kernel
		}
		r.Phases = append(r.Phases, PhaseResult{Phase: p})
		result := &r.Phases[len(r.Phases)-1]
		failures := 0
		for i := range p.Repeat {
			if done > 0 {
				if !wait.For(ctx, time.Duration(r.Suite.GapSeconds*float64(time.Second))) {
					return ctx.Err()
				}
			}
			run, err := s.measure(ctx, p.Load, fmt.Sprintf("%s-%02d", p.Name, i+1))
			if err != nil {
				return fmt.Errorf("%s, run %d: %w", p.Title, i+1, err)
			}
			done++
			result.Runs = append(result.Runs, run)
			result.sumUp()
			last = s.last
			if run.Error == "" {
				failures = 0
				s.say("%2d of %d: %s %.1f Mbit/s\n", done, runs, p.Title, run.Mbit)
				continue
			}
			s.say("%2d of %d: %s failed: %s\n", done, runs, p.Title, run.Error)
			if failures++; failures == mostFailures {
				return fmt.Errorf("%s: %d runs failed one after the other: %s", p.Title, failures, run.Error)
			}
		}
	}
	return closeWindow()
}

func newWindow(name string, d Delta) Window {
	w := Window{Name: name, Delta: d, DriverPerPacket: map[string]float64{}}
	if n := d.packets(); n > 0 {
		for counter, v := range d.Driver {
			w.DriverPerPacket[counter] = float64(v) / float64(n)
		}
	}
	return w
}

// errorsOf are the interface's errors and drops in a window.
var errorsOf = []string{
	"rx errors", "rx drops", "rx fifo errors", "rx frame errors",
	"tx errors", "tx drops", "tx fifo errors", "tx collisions", "tx carrier errors",
}

// flag looks for what a reader must know.
func (r *Release) flag() {
	r.Flags = []Flag{}
	add := func(name, form string, args ...any) {
		r.Flags = append(r.Flags, Flag{name, fmt.Sprintf(form, args...)})
	}
	if r.Aborted != "" {
		add("aborted", "it is not whole: %s", r.Aborted)
	}
	if err := r.Host.Path.fit(); err != nil {
		add("path", "%v", err)
	}
	if l := r.Mode.Load; l != nil && !l.Quiet {
		add("noise", "the gateway was not at rest: %.3f %% CPU, %.1f wakeups a second", l.CPU, l.Wakeups)
	}
	for _, p := range r.Phases {
		for i, run := range p.Runs {
			if run.Error != "" {
				add("failed", "%s, run %d failed: %s", p.Title, i+1, run.Error)
			}
		}
		if p.Summary == nil {
			continue
		}
		if p.Floor > 0 && p.Summary.Median < p.Floor {
			add("floor", "%s: the median of %.1f Mbit/s is below the floor of %.1f", p.Title, p.Summary.Median, p.Floor)
		}
	}
	for _, w := range r.Windows {
		if w.Name != windowTCP {
			continue
		}
		if n := w.Delta.SNMP["Tcp.RetransSegs"]; n > r.Suite.MaxRetransmits {
			add("retransmits", "the gateway sent %d segments again while TCP was measured; at most %d is right", n, r.Suite.MaxRetransmits)
		}
		for _, name := range errorsOf {
			if n := w.Delta.Device[name]; n > r.Suite.MaxErrors {
				add("errors", "%s of the interface grew by %d while TCP was measured; at most %d is right", name, n, r.Suite.MaxErrors)
			}
		}
		for _, name := range []string{"Tcp.InErrs", "Tcp.InCsumErrors"} {
			if n := w.Delta.SNMP[name]; n > r.Suite.MaxErrors {
				add("errors", "%s grew by %d while TCP was measured; at most %d is right", name, n, r.Suite.MaxErrors)
			}
		}
	}
}

// outliers names the runs of a phase that do not look like the others.
func (p *PhaseResult) outliers() (numbers []int) {
	if p.Summary == nil {
		return nil
	}
	_, number, _ := p.values()
	for _, i := range p.Summary.Outliers {
		numbers = append(numbers, number[i])
	}
	slices.Sort(numbers)
	return numbers
}
