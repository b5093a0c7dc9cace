package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/update"
	"gwinit/internal/gwctl/words"
)

// Usage is what -h prints.
const Usage = `usage: gwctl -G GROUP,...|-H HOST,... update [OPTIONS] FILE|URL
bring an update to several gateways, and stop at the first that does not keep it

  -max-unavailable N  so many at a time (1). Each is away for a minute or two,
                      then tries the update for three
  -canary N           so many have to have kept it before the rest gets it (1)
  -except NAME,...    leave these out
  -force              also those that run this version, or a newer one, already
  -n                  ask them all, tell what would be done, and change nothing
  -json               a line of JSON for each gateway, at the end

The same command again goes on where the last one ended, however that was: who
has it already is left alone, who did not keep it is tried first. -timeout TIME
is for one gateway (1h). The exit status is 0 when all of them run the update.
`

// Env is what the command works with.
type Env struct {
	// Gateways are those that were named. force is for an update that they would
	// refuse without it.
	Gateways func(force bool) []fleet.Gateway
	Plan     Plan // what options do not say; Log and Progress are not needed
	Out, Err io.Writer
	Bar      bool // Err is a terminal
	JSON     bool
}

// Command carries `update` out on several gateways. args is without that word.
func Command(ctx context.Context, e Env, args []string) error {
	p := e.Plan
	var except string
	f := flag.NewFlagSet("update", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.IntVar(&p.MaxUnavailable, "max-unavailable", 1, "")
	f.IntVar(&p.Canaries, "canary", 1, "")
	f.StringVar(&except, "except", "", "")
	f.BoolVar(&p.Force, "force", false, "")
	f.BoolVar(&p.Dry, "n", false, "")
	f.BoolVar(&e.JSON, "json", e.JSON, "")
	f.Bool("w", true, "") // it always waits
	files, err := words.Parse(f, args)
	switch {
	case err != nil:
		return err
	case len(files) != 1:
		return applet.Usagef("update takes one FILE")
	case p.MaxUnavailable < 1 || p.Canaries < 0:
		return applet.Usagef("-max-unavailable is 1 at least, -canary 0")
	}
	if p.File = files[0]; strings.HasPrefix(p.File, "http://") || strings.HasPrefix(p.File, "https://") {
		b, _, err := update.Load(ctx, p.File)
		if err != nil {
			return err
		}
		// It is read for each gateway; the journal knows it by its hash.
		f, err := os.CreateTemp("", "gwctl-update-*")
		if err != nil {
			return err
		}
		defer os.Remove(f.Name())
		_, err = f.Write(b)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		p.File = f.Name()
	}
	all := e.Gateways(p.Force)
	for name := range strings.SplitSeq(except, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.IndexFunc(all, func(g fleet.Gateway) bool { return g.Name == name })
		if i < 0 {
			return applet.Usagef("-except %s: no such gateway among those that were named", name)
		}
		all = slices.Delete(all, i, i+1)
	}
	if p.Journal == "" {
		if p.Journal, err = fleet.StateDir("updates"); err != nil {
			return err
		}
	}
	s := &screen{w: e.Err, bar: e.Bar}
	for _, g := range all {
		s.wide = max(s.wide, len(g.Name))
	}
	p.Log = s.log
	if s.bar {
		p.Progress = s.progress
	}
	results, err := Run(ctx, p, all)
	s.clear()
	if err != nil && !errors.Is(err, ErrStopped) && !slices.ContainsFunc(results, func(r Result) bool { return r.Outcome != Waiting && r.Outcome != Unreachable }) {
		return err // before anything
	}
	if e.JSON {
		for _, r := range results {
			b, err := json.Marshal(r)
			if err != nil {
				return err
			}
			if _, err := e.Out.Write(append(b, '\n')); err != nil {
				return err
			}
		}
	} else if _, err := io.WriteString(e.Out, summary(results)); err != nil {
		return err
	}
	if errors.Is(err, ErrStopped) || ctx.Err() != nil {
		if slices.ContainsFunc(results, func(r Result) bool { return r.Outcome == Waiting || r.Outcome == Begun }) {
			fmt.Fprintln(e.Err, "gwctl: the same command again goes on from here")
		}
		return applet.Exit(1)
	}
	return err
}

// summary tells what came of whom.
func summary(results []Result) string {
	var text strings.Builder
	good := 0
	for _, r := range results {
		if r.Outcome == Committed || r.Outcome == Already {
			good++
		}
	}
	fmt.Fprintf(&text, "%d of %d run the update\n", good, len(results))
	for _, kind := range []struct{ outcome, words string }{
		{Ready, "would get it"},
		{Failed, "failed"},
		{Begun, "try it now"},
		{Unreachable, "not reached"},
		{Waiting, "not begun"},
	} {
		var names []string
		for _, r := range results {
			if r.Outcome == kind.outcome {
				names = append(names, r.Gateway)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(&text, "%d %s: %s\n", len(names), kind.words, strings.Join(names, ", "))
		}
	}
	for _, r := range results {
		if r.Outcome == Failed || r.Outcome == Unreachable {
			fmt.Fprintf(&text, "  %s: %s\n", r.Gateway, strings.ReplaceAll(r.Why, "\n", "; "))
		}
	}
	return text.String()
}

// screen is where a person looks.
type screen struct {
	mu    sync.Mutex // guards the rest
	w     io.Writer
	bar   bool
	wide  int // of names
	drawn bool
}

func (s *screen) log(gateway, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(s.w, "%-*s  %s\n", s.wide, gateway, line)
	}
}

func (s *screen) progress(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(s.w, "\r"+text+"\x1b[K")
	s.drawn = true
}

func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

func (s *screen) wipe() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}
