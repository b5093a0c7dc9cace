package ethtune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

// gateway is one whose speed depends on how it is tuned.
type gateway struct {
	now    api.Ethernet
	speed  func(api.Ethernet) float64
	refuse string // a knob
	sets   []string
	runs   [][]string
	cancel func() // at the third measurement, if not nil
}

func (g *gateway) ask(ctx context.Context, op string, args any) (json.RawMessage, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := args.(api.CallArgs)
	if op != api.OpCall || c.Service != "core" {
		return nil, fmt.Errorf("asked for %s of %s", op, c.Service)
	}
	if c.Method == "eth-set" {
		var p api.EthSet
		if err := json.Unmarshal(c.Params, &p); err != nil {
			return nil, err
		}
		g.now.Profile, g.now.Knobs, g.now.All = p.Profile, *p.Knobs, nil
		text := p.Profile + " " + *p.Knobs
		if p.Keep {
			text += " kept"
		}
		g.sets = append(g.sets, text)
		if g.refuse != "" && strings.Contains(*p.Knobs, g.refuse) {
			g.now.All = []api.EthKnob{{Name: g.refuse, Wanted: "8", Failed: true, Why: "this kernel or driver has none"}}
		}
	}
	return json.Marshal(g.now)
}

func (g *gateway) run(ctx context.Context, argv ...string) ([]byte, error) {
	g.runs = append(g.runs, argv)
	if g.cancel != nil && len(g.runs) == 3 {
		g.cancel()
		return nil, ctx.Err()
	}
	v := g.speed(g.now)
	if argv[0] == "sh" {
		return fmt.Appendf(nil, "noise\n%g\n\n", v), nil
	}
	return fmt.Appendf(nil, `{"start":{"test_start":{"protocol":"TCP"}},"end":{"sum_received":{"seconds":3,"bits_per_second":%g}}}`, v*1e6), nil
}

// tune runs the command.
func tune(t *testing.T, g *gateway, asJSON bool, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if g.cancel != nil {
		g.cancel = cancel
	}
	tu := &tuner{ctx: ctx, std: applet.IO{Out: &b}, json: asJSON, ask: g.ask, run: g.run}
	changes, err := tu.options(args)
	if err == nil {
		err = tu.all(changes)
	}
	return b.String(), err
}

func TestKeepsWhatGains(t *testing.T) {
	n := 0.0
	g := &gateway{now: api.Ethernet{Profile: "stock", Knobs: "tx_queue_len=50 kick_threshold=4"}}
	g.speed = func(e api.Ethernet) float64 {
		n++
		v := 80 + math.Mod(n*0.7, 1) // what differs by itself
		if strings.Contains(e.Knobs, "kick_threshold=8") {
			v += 5
		}
		return v
	}
	out, err := tune(t, g, false, "-peer", "gw", "-reverse", "kick_threshold=8", "-pairs", "4", "-time", "3s")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "kick_threshold=8: 85.") || !strings.HasSuffix(out, "4 pairs); kept\n") || strings.Count(out, " of 4: ") != 4 {
		t.Errorf("output\n%s", out)
	}
	const without, with = "stock tx_queue_len=50 kick_threshold=4", "stock tx_queue_len=50 kick_threshold=8"
	want := []string{with, without, with, with, without, without, with, with, without, with + " kept"}
	if !slices.Equal(g.sets, want) {
		t.Errorf("set\n%q, want\n%q", g.sets, want)
	}
	if len(g.runs) != 9 || strings.Join(g.runs[0], " ") != "iperf3 -c gw -p 5201 -J -t 3 -R" {
		t.Errorf("%d runs, first %q", len(g.runs), g.runs[0])
	}
}

func TestLeavesWhatDoesNot(t *testing.T) {
	for _, tt := range []struct {
		name, change, out string
		gain              float64
	}{
		{"worse", "latency", "latency: 77.00 instead of 80.00, -3.00 (95 %: -3.00 to -3.00, 4 pairs); it is worse: not kept\n", -3},
		{"the same", "latency", "latency: 80.00 instead of 80.00, +0.00 (95 %: +0.00 to +0.00, 4 pairs); no difference to be seen: not kept\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &gateway{now: api.Ethernet{Profile: "stock"}}
			g.speed = func(e api.Ethernet) float64 {
				if e.Profile == "latency" {
					return 80 + tt.gain
				}
				return 80
			}
			out, err := tune(t, g, false, "-measure", "echo x", "-pairs", "4", tt.change)
			if err != nil || !strings.HasSuffix(out, tt.out) {
				t.Errorf("%v, output\n%s", err, out)
			}
			if last := g.sets[len(g.sets)-1]; last != "stock " {
				t.Errorf("left as %q", last)
			}
			out, err = tune(t, g, true, "-measure", "echo x", "-pairs", "4", tt.change)
			var r result
			if errJSON := json.Unmarshal([]byte(out), &r); err != nil || errJSON != nil || r.Difference != tt.gain || r.Kept || r.Pairs != 4 || r.Before != 80 {
				t.Errorf("%v, %v, %s", err, errJSON, out)
			}
		})
	}
}

func TestPutsBackAfterAnError(t *testing.T) {
	steady := func(api.Ethernet) float64 { return 80 }
	for name, tt := range map[string]struct {
		g    *gateway
		args []string
		err  string
	}{
		"refused": {&gateway{refuse: "kick_threshold"}, []string{"-peer", "gw", "kick_threshold=8"}, "kick_threshold=8: kick_threshold is not 8: this kernel or driver has none"},
		"ctrl-c":  {&gateway{cancel: func() {}}, []string{"-peer", "gw", "latency"}, "latency: context canceled"},
		"no number": {
			&gateway{speed: func(api.Ethernet) float64 { return math.NaN() }},
			[]string{"-peer", "gw", "latency"},
			"latency: iperf3's report: invalid character 'N' looking for beginning of value",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := tt.g
			g.now = api.Ethernet{Profile: "throughput"}
			if g.speed == nil {
				g.speed = steady
			}
			_, err := tune(t, g, false, tt.args...)
			if err == nil || err.Error() != tt.err {
				t.Errorf("error %v, want %s", err, tt.err)
			}
			if last := g.sets[len(g.sets)-1]; last != "throughput " {
				t.Errorf("left as %q", last)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for _, args := range [][]string{
		{"-peer", "gw"},
		{"latency"},
		{"-peer", "gw", "-pairs", "5", "latency"},
		{"-peer", "gw", "-pairs", "2", "latency"},
		{"-peer", "gw", "-pairs", "32", "latency"},
		{"-peer", "gw", "-time", "10ms", "latency"},
		{"-wat", "latency"},
	} {
		var u applet.UsageError
		if _, err := tune(t, &gateway{}, false, args...); !errors.As(err, &u) {
			t.Errorf("%q: %v", args, err)
		}
	}
	g := &gateway{now: api.Ethernet{Profile: "bench", Knobs: "a=1"}}
	for _, change := range []string{"bench", "a=1"} {
		if _, err := tune(t, g, false, "-peer", "gw", change); err == nil || !strings.Contains(err.Error(), "in force already") {
			t.Errorf("%s: %v", change, err)
		}
	}
}
