//go:build linux

package selftest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gwinit/internal/selftest/native"
)

// outcome is what a rule gave over its runs.
type outcome struct {
	rule
	runs, wrong int
	got         uint32 // the first wrong result
}

func (o outcome) String() string {
	return fmt.Sprintf("%s: %d of %d runs gave %#x, want %#x: %s", o.name, o.wrong, o.runs, o.got, o.want, o.code)
}

// prepared is a rule that stands in memory.
type prepared struct {
	rule
	code native.Code
}

// prepare puts rules into memory.
func (m *machine) prepare(rules []rule) ([]prepared, error) {
	out := make([]prepared, 0, len(rules))
	for _, r := range rules {
		c, err := m.put(r.code)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		out = append(out, prepared{r, c})
	}
	return out, nil
}

// try runs a rule warm and cold; its very first run finds an instruction cache
// without it.
func (m *machine) try(p prepared, warm, cold int) outcome {
	o := outcome{rule: p.rule, runs: warm + cold}
	for i := range o.runs {
		if got := m.call(p.code, i >= warm); got != p.want {
			if o.wrong == 0 {
				o.got = got
			}
			o.wrong++
		}
	}
	return o
}

// machineOr is newMachine; without one it says so in the report.
func machineOr(e *env) *machine {
	m, err := newMachine()
	if errors.Is(err, native.ErrNotMIPS) {
		e.say("machine code", Skip, "%v", err)
		return nil
	}
	if e.failed("machine code", err) {
		return nil
	}
	return m
}

// runRules tries everything that has to be right, one line for each set.
func runRules(ctx context.Context, e *env) {
	m := machineOr(e)
	if m == nil {
		return
	}
	defer m.close()
	warm, cold := e.times(200, 40), e.times(20, 8)
	for _, set := range allRules() {
		if ctx.Err() != nil {
			return
		}
		ready, err := m.prepare(set.rules)
		if e.failed(set.name, err) {
			continue
		}
		var bad []string
		for _, p := range ready {
			if o := m.try(p, warm, cold); o.wrong > 0 {
				bad = append(bad, o.String())
			}
		}
		if len(bad) > 0 {
			e.say(set.name, Fail, "%d of %d wrong\n%s", len(bad), len(ready), strings.Join(bad, "\n"))
		} else {
			e.say(set.name, OK, "%d cases, %d times warm, %d cold", len(ready), warm, cold)
		}
	}
	exposure(e, m, warm, cold)
}

// exposure tells what a distance that is too short does.
func exposure(e *env, m *machine, warm, cold int) {
	const name = "loads used at once"
	var lines []string
	isNew := map[string]int{} // by use: the loads that are through in time
	for _, l := range loads {
		ready, err := m.prepare(loadRules(l, "").rules)
		if e.failed(l.name, err) {
			return
		}
		var old, mixed, oldCold int
		for _, p := range ready {
			w, c := m.try(p, warm, 0), m.try(p, 0, cold)
			switch w.wrong {
			case 0:
				isNew[p.name]++
			case w.runs:
				old++
			default:
				mixed++
			}
			if c.wrong == c.runs {
				oldCold++
			}
		}
		lines = append(lines, fmt.Sprintf("%s %d+%d/%d", l.name, old, mixed, oldCold))
	}
	e.say(name, Info, "uses of %d that saw the old value, always+sometimes/after a cache miss: %s", len(uses), strings.Join(lines, ", "))
	var always []string
	for _, u := range uses {
		if isNew[u.name] == len(loads) {
			always = append(always, u.name)
		}
	}
	switch len(always) {
	case len(uses):
		e.say("load delay", Info, "not exposed: this core waits, or it is an emulator")
	case 0:
		e.say("load delay", Info, "exposed in every use")
	default:
		e.say("load delay", Info, "exposed, but not in %s", strings.Join(always, ", "))
	}
	shortDistances(e, m, warm, cold)
}

// shortDistances tries what the compiler avoids.
func shortDistances(e *env, m *machine, warm, cold int) {
	const name = "short distances"
	ready, err := m.prepare(curiosities[:])
	if e.failed(name, err) {
		return
	}
	var plain []string
	for _, p := range ready {
		o := m.try(p, warm, cold)
		if o.wrong == 0 {
			plain = append(plain, p.name)
		} else {
			e.say(p.name, Info, "%#x instead of %#x in %d of %d runs", o.got, p.want, o.wrong, o.runs)
		}
	}
	if len(plain) > 0 {
		e.say(name, Info, "as with an interlock: %s", strings.Join(plain, "; "))
	}
}
