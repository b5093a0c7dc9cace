package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"gwinit/test/bench"
)

// Frames of an echo: an ASH acknowledgement, a short and a full frame.
var sizes = []int{8, 24, 128}

// What is measured in a round of a run. The programs take turns within it, so
// that a load that comes and goes is all of theirs.
const (
	rounds = 20
	frames = 150
	// One every 5 ms, as a busy radio has them.
	pacedFrames = 20
	pacedGap    = 5000 // us
	oneWay      = 1 << 18
	lineSeconds = 2 // in one round only
)

// measures are the host's figures: how each comes out of a session.
type measureOf struct {
	name, unit string
	of         func(*session) float64
	frames     bool // the floor has it, too
}

func trips(size int) string { return fmt.Sprintf("rtt:%d:%d:0", size, frames) }

var (
	pacedPhase    = fmt.Sprintf("rtt:24:%d:%d", pacedFrames, pacedGap)
	toClientPhase = fmt.Sprintf("client:%d", oneWay)
	toRadioPhase  = fmt.Sprintf("radio:%d", oneWay)
	linePhase     = fmt.Sprintf("line:%d", lineSeconds)
)

// percentile of what is sorted.
func percentile(sorted []time.Duration, p float64) float64 {
	return float64(sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]) / 1e3
}

func hostMeasures() []measureOf {
	var all []measureOf
	trip := func(label, phase string, p float64) {
		all = append(all, measureOf{name: "round-trip/" + label, unit: "us", frames: true, of: func(s *session) float64 {
			return percentile(s.phases[phase].trips, p)
		}})
	}
	cpu := func(label, phase string, per float64, unit string) {
		all = append(all, measureOf{name: "cpu/" + label, unit: unit, frames: phase[0] == 'r' && phase[1] == 't', of: func(s *session) float64 {
			return float64(s.phases[phase].cpu) / per
		}})
	}
	for _, size := range sizes {
		for _, p := range []struct {
			name string
			at   float64
		}{{"p50", .5}, {"p99", .99}, {"p99.9", .999}} {
			trip(fmt.Sprintf("%dB/%s", size, p.name), trips(size), p.at)
		}
		cpu(fmt.Sprintf("%dB", size), trips(size), 1e3*frames*rounds, "us/frame")
	}
	trip("24B-every-5ms/p50", pacedPhase, .5)
	trip("24B-every-5ms/p99", pacedPhase, .99)
	cpu("24B-every-5ms", pacedPhase, 1e3*pacedFrames*rounds, "us/frame")
	for _, d := range []struct{ name, phase string }{{"to-client", toClientPhase}, {"to-radio", toRadioPhase}} {
		all = append(all, measureOf{name: "throughput/" + d.name, unit: "MiB/s", of: func(s *session) float64 {
			return rounds * oneWay / (1 << 20) / s.phases[d.phase].wall.Seconds()
		}})
		cpu(d.name, d.phase, 1e6*rounds*oneWay/(1<<20), "ms/MiB")
	}
	all = append(
		all,
		measureOf{name: "cpu/892857-baud-both-ways", unit: "ms/MiB", of: func(s *session) float64 {
			p := s.phases[linePhase]
			return float64(p.cpu) / 1e6 / (float64(p.bytes) / (1 << 20))
		}},
		measureOf{name: "memory/anonymous", unit: "KiB", of: func(s *session) float64 { return s.anon }},
		measureOf{name: "memory/pss", unit: "KiB", of: func(s *session) float64 { return s.pss }},
	)
	return all
}

// onHost measures every kind in turns, n times, in another order each time.
func onHost(ctx context.Context, dir, gw string, n int, cpus [2]int) ([]bench.Row, error) {
	if err := compile(ctx, dir); err != nil {
		return nil, err
	}
	list := kinds(gw)
	runs := map[string][]*session{}
	for i := range n {
		all, err := once(ctx, dir, slices.Concat(list[i%len(list):], list[:i%len(list)]), cpus)
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			runs[s.kind.name] = append(runs[s.kind.name], s)
		}
		fmt.Printf("run %d of %d\n", i+1, n)
	}
	var rows []bench.Row
	for _, m := range hostMeasures() {
		for _, k := range list[1:] {
			if k.floor && !m.frames {
				continue
			}
			rows = append(rows, paired("host/"+m.name, m.unit, values(runs[ours], m.of), k.name, values(runs[k.name], m.of)))
		}
	}
	return rows, nil
}

// once measures a fresh process of each kind.
func once(ctx context.Context, dir string, list []kind, cpus [2]int) (all []*session, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.close())
		}
	}()
	for _, k := range list {
		s, err := open(ctx, dir, k, cpus)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	echoes := []string{pacedPhase}
	for _, size := range sizes {
		echoes = append(echoes, trips(size))
	}
	streams := []string{toClientPhase, toRadioPhase}
	for round := range rounds {
		for _, phase := range append(slices.Clone(echoes), streams...) {
			for i := range all {
				s := all[(i+round)%len(all)]
				if s.kind.floor && slices.Contains(streams, phase) {
					continue
				}
				if err := s.do(phase); err != nil {
					return all, err
				}
			}
		}
	}
	for _, s := range all {
		if !s.kind.floor {
			if err := s.do(linePhase); err != nil {
				return all, err
			}
		}
		if err := s.weigh(); err != nil {
			return all, err
		}
		for _, p := range s.phases {
			slices.Sort(p.trips)
		}
	}
	return all, nil
}

func values(all []*session, of func(*session) float64) []float64 {
	var v []float64
	for _, s := range all {
		v = append(v, of(s))
	}
	return v
}

// paired makes a row of values that belong together one by one: medians, and
// the median of their ratios, which a load that comes and goes leaves alone.
func paired(name, unit string, value []float64, peer string, peerValue []float64) bench.Row {
	ratios := make([]float64, len(value))
	for i := range value {
		ratios[i] = value[i] / peerValue[i]
	}
	return bench.Row{
		Name: name, Unit: unit, Value: median(value), Peer: peer, PeerValue: median(peerValue),
		Ratio: median(ratios), N: len(value),
	}
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// show prints the rows, a line for each figure and a column for each peer.
func show(w io.Writer, rows []bench.Row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	last := ""
	for _, r := range rows {
		if r.Name != last {
			fmt.Fprintf(t, "\n%s\t%.4g %s", r.Name, r.Value, r.Unit)
			last = r.Name
		}
		fmt.Fprintf(t, "\t%s %.4g (%.2f)", r.Peer, r.PeerValue, r.Ratio)
	}
	fmt.Fprintln(t)
}
