// Package ethtune is gwctl's subcommand eth tune: it finds out by measurement
// whether a change of the Ethernet driver's tuning is one for the better, and
// keeps it only then. It drives the gateway by the control protocol and
// measures with this machine's iperf3, so only cmd/gwctl has it.
package ethtune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/bench/iperf"
	"gwinit/internal/gwctl/bench/stats"
	"gwinit/internal/gwctl/words"
)

const usage = `usage: gwctl eth tune -peer HOST [OPTIONS] CHANGE...
measure changes of the Ethernet driver's tuning, and keep those that gain

CHANGE is a profile (latency, throughput, bench, stock), or NAME=VALUE of a
knob, several with commas between them; gwctl eth shows the names. Each is
measured beside what is in force by then, in turns (without, with, with,
without, ...). It is kept, also over a boot, if the 95 % interval of the
differences within pairs is above 0; else everything is as it was.

  -peer HOST    where an iperf3 server listens: the gateway (iperf3 -s)
  -reverse      measure what the gateway sends, not what it receives
  -time TIME    of one measurement (10s)
  -pairs N      4 to 30, an even number (8)
  -measure CMD  a command for the shell instead of iperf3: the last line that it
                prints is a number, and more is better
`

// result is what is told of a change. Values are Mbit/s, or what CMD prints.
type result struct {
	Change     string  `json:"change"`
	Before     float64 `json:"before"` // means
	After      float64 `json:"after"`
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"` // its 95 % interval
	High       float64 `json:"high"`
	Pairs      int     `json:"pairs"`
	Kept       bool    `json:"kept"`
}

// Command is the subcommand.
func Command() gwctl.Local {
	return gwctl.Local{
		Name: "eth tune", Args: "CHANGE ...", Summary: "measure tuning with iperf3, keep what gains",
		Usage: usage, Workstation: true,
		Steer: func(ctx context.Context, std applet.IO, args []string, asJSON bool, ask gwctl.Asker) error {
			t := &tuner{ctx: ctx, std: std, json: asJSON, ask: ask, run: shell}
			changes, err := t.options(args)
			if err != nil {
				return err
			}
			return t.all(changes)
		},
	}
}

// tuner is one run of the command.
type tuner struct {
	ctx  context.Context
	std  applet.IO
	json bool
	ask  gwctl.Asker
	// run runs a program and returns its standard output.
	run func(ctx context.Context, argv ...string) ([]byte, error)

	peer, measure string
	reverse       bool
	seconds       int
	pairs         int
}

// options reads the command line and returns the changes.
func (t *tuner) options(args []string) (changes []string, err error) {
	f := flag.NewFlagSet("gwctl eth tune", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&t.peer, "peer", "", "")
	f.StringVar(&t.measure, "measure", "", "")
	f.BoolVar(&t.reverse, "reverse", false, "")
	f.IntVar(&t.pairs, "pairs", 8, "")
	long := f.Duration("time", 10*time.Second, "")
	if changes, err = words.Parse(f, args); err != nil {
		return nil, err
	}
	t.seconds = int(*long / time.Second)
	switch {
	case len(changes) == 0:
		return nil, applet.Usagef("eth tune takes a profile or NAME=VALUE")
	case t.peer == "" && t.measure == "":
		return nil, applet.Usagef("eth tune needs -peer HOST, where iperf3 -s runs, or -measure CMD")
	case t.pairs < 4 || t.pairs > 30 || t.pairs%2 != 0:
		return nil, applet.Usagef("-pairs is an even number from 4 to 30")
	case t.seconds < 1 || t.seconds > 3600:
		return nil, applet.Usagef("-time is 1s to 1h")
	}
	return changes, nil
}

func (t *tuner) all(changes []string) error {
	for _, change := range changes {
		r, err := t.try(change)
		if err != nil {
			return fmt.Errorf("%s: %w", change, err)
		}
		if t.json {
			b, err := wire.Marshal(r)
			if err != nil {
				return err
			}
			if _, err := t.std.Out.Write(append(b, '\n')); err != nil {
				return err
			}
			continue
		}
		verdict := "kept"
		switch {
		case r.High < 0:
			verdict = "it is worse: not kept"
		case !r.Kept:
			verdict = "no difference to be seen: not kept"
		}
		if err := t.say("%s: %.2f instead of %.2f, %+.2f (95 %%: %+.2f to %+.2f, %d pairs); %s\n",
			change, r.After, r.Before, r.Difference, r.Low, r.High, r.Pairs, verdict); err != nil {
			return err
		}
	}
	return nil
}

// say prints for people.
func (t *tuner) say(format string, args ...any) error {
	if t.json {
		return nil
	}
	_, err := fmt.Fprintf(t.std.Out, format, args...)
	return err
}

// try measures one change. Unless it is kept, or after an error, the gateway is
// as it was.
func (t *tuner) try(change string) (r result, err error) {
	r = result{Change: change, Pairs: t.pairs}
	now, err := t.call("eth", nil)
	if err != nil {
		return r, err
	}
	without := api.EthSet{Profile: now.Profile, Knobs: &now.Knobs}
	with := changed(now, change)
	if *with.Knobs == now.Knobs && with.Profile == now.Profile {
		return r, errors.New("it is in force already")
	}
	defer func() {
		if r.Kept {
			return
		}
		// Also when ctrl-c ended it: what was tried must not stay.
		t.ctx = context.WithoutCancel(t.ctx)
		if _, undo := t.call("eth-set", without); undo != nil {
			err = errors.Join(err, fmt.Errorf("put back profile %s, knobs %q: %w", now.Profile, now.Knobs, undo))
		}
	}()
	measure := func(set api.EthSet) (float64, error) {
		e, err := t.call("eth-set", set)
		if err != nil {
			return 0, err
		}
		for _, k := range e.All {
			if k.Failed {
				return 0, fmt.Errorf("%s is not %s: %s", k.Name, k.Wanted, k.Why)
			}
		}
		return t.value()
	}
	// The first run after a pause is not like the others.
	if _, err := measure(with); err != nil {
		return r, err
	}
	var differences []float64
	for i := range t.pairs {
		var v [2]float64
		for half := range v {
			which := (half + i) % 2 // without, with, with, without, ...
			if v[which], err = measure([]api.EthSet{without, with}[which]); err != nil {
				return r, err
			}
		}
		differences = append(differences, v[1]-v[0])
		r.Before += v[0] / float64(t.pairs)
		r.After += v[1] / float64(t.pairs)
		if err := t.say("%2d of %d: %.2f, with it %.2f\n", i+1, t.pairs, v[0], v[1]); err != nil {
			return r, err
		}
	}
	d, err := stats.Pairs(differences, 0)
	if err != nil {
		return r, err
	}
	r.Difference, r.Low, r.High = d.Mean, d.In.Low, d.In.High
	if r.Low <= 0 {
		return r, nil
	}
	with.Keep = true
	_, err = t.call("eth-set", with)
	r.Kept = err == nil
	return r, err
}

// changed is what to set for a change of what is in force.
func changed(now api.Ethernet, change string) api.EthSet {
	knobs := now.Knobs
	if !strings.Contains(change, "=") {
		return api.EthSet{Profile: change, Knobs: &knobs}
	}
	more := strings.Split(change, ",")
	var all []string
	for _, old := range strings.Fields(knobs) {
		name, _, _ := strings.Cut(old, "=")
		replaced := false
		for _, m := range more {
			replaced = replaced || strings.HasPrefix(m, name+"=")
		}
		if !replaced {
			all = append(all, old)
		}
	}
	knobs = strings.Join(append(all, more...), " ")
	return api.EthSet{Profile: now.Profile, Knobs: &knobs}
}

// call asks core.
func (t *tuner) call(method string, params any) (e api.Ethernet, err error) {
	a := api.CallArgs{Service: "core", Method: method}
	if params != nil {
		if a.Params, err = json.Marshal(params); err != nil {
			return e, err
		}
	}
	data, err := t.ask(t.ctx, api.OpCall, a)
	if err == nil {
		err = json.Unmarshal(data, &e)
	}
	return e, err
}

// value measures once.
func (t *tuner) value() (float64, error) {
	if t.measure != "" {
		out, err := t.run(t.ctx, "sh", "-c", t.measure)
		if err != nil {
			return 0, err
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		v, err := strconv.ParseFloat(strings.TrimSpace(lines[len(lines)-1]), 64)
		if err != nil {
			return 0, fmt.Errorf("the last line of %s is %.40q and no number", t.measure, lines[len(lines)-1])
		}
		return v, nil
	}
	l := iperf.Load{Seconds: t.seconds, Reverse: t.reverse}
	out, err := t.run(t.ctx, append([]string{"iperf3"}, l.Args(t.peer, iperf.Port)...)...)
	r, errParse := iperf.Parse(out)
	switch {
	case errParse == nil:
		return r.Mbit, err
	case err != nil && len(bytes.TrimSpace(out)) == 0:
		return 0, err
	}
	return 0, errParse
}

func shell(ctx context.Context, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w %s", argv[0], err, strings.TrimSpace(words.String()))
	}
	return out, err
}
