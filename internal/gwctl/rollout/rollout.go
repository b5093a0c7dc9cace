package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gwinit/internal/bundle"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/wait"
)

const (
	// askAtOnce is how many gateways are asked at a time what they run, before
	// anything changes.
	askAtOnce = 32
	// eachTime is how long one gateway may take: three attempts that each end at
	// their deadline, and the restarts between them.
	eachTime = time.Hour
	// sendTries is how often a gateway gets the update, if its connection is lost
	// on the way.
	sendTries = 3
	// sendPause is between two of them: a gateway that restarts is back then.
	sendPause = time.Minute
)

// Plan is a rollout.
type Plan struct {
	File           string // the bundle
	MaxUnavailable int    // gateways that are updated at a time, 1 at least
	Canaries       int    // that must have kept it before the rest gets it
	Force          bool   // those that run the version already, too
	Dry            bool   // ask, tell, and change nothing
	Each           time.Duration
	// Journal is the folder that the journal is in.
	Journal string
	// Log is told what happens, one line at a time. Progress is told how it stands,
	// often; nil is allowed.
	Log      func(gateway, text string)
	Progress func(text string)

	pause time.Duration // for tests; 0: sendPause
}

// What can come of a gateway.
const (
	Committed   = "committed"   // it runs the update and keeps it
	Already     = "already"     // it did before
	Failed      = "failed"      // it does not keep it, does not want it, or is not back
	Unreachable = "unreachable" // it could not be asked, and nothing was sent
	Begun       = "begun"       // it has it, and the rollout was interrupted before its end
	Waiting     = "waiting"     // it was not its turn
	Ready       = "ready"       // it would get it (Dry)
)

// Result is what came of one gateway.
type Result struct {
	Gateway string  `json:"host"`
	Outcome string  `json:"outcome"`
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// OK tells whether the gateway is as it should be.
func (r Result) OK() bool {
	return r.Outcome == Committed || r.Outcome == Already || r.Outcome == Ready
}

// ErrStopped: not all gateways run the update.
var ErrStopped = errors.New("not all gateways run the update")

// Run carries a rollout out and returns a result for each gateway, in their
// order, also beside an error. The error is ErrStopped where results say why, or
// one that changed nothing anywhere.
func Run(ctx context.Context, p Plan, all []fleet.Gateway) ([]Result, error) {
	r := &run{Plan: p, all: all, results: make([]Result, len(all)), states: make([]fleet.State, len(all)), sent: make([]int64, len(all))}
	r.MaxUnavailable = max(1, p.MaxUnavailable)
	r.Each, r.pause = cmp.Or(p.Each, eachTime), cmp.Or(p.pause, sendPause)
	for i, g := range all {
		r.results[i] = Result{Gateway: g.Name, Outcome: Waiting}
	}
	var err error
	if r.about, err = look(p.File); err != nil {
		return r.results, err
	}
	if r.journal, err = openJournal(p.Journal, r.about, p.Dry); err != nil {
		return r.results, err
	}
	defer r.journal.close()
	r.ask(ctx)
	if err := ctx.Err(); err != nil {
		return r.results, err
	}
	if err := r.fits(); err != nil {
		return r.results, err
	}
	underway, failed, todo := r.plan()
	if p.Dry {
		for _, i := range slices.Concat(underway, failed, todo) {
			r.results[i].Outcome = Ready
		}
		return r.results, r.verdict()
	}
	// What is under way already has nothing to wait for, and who did not keep it
	// before is the one to find out with.
	r.work(ctx, underway, len(underway), len(underway))
	if r.lost {
		r.stopped = true
	}
	failed = r.work(ctx, failed, r.MaxUnavailable, len(failed))
	todo = append(failed, todo...)
	todo = r.work(ctx, todo, r.MaxUnavailable, max(0, p.Canaries-r.kept))
	todo = r.work(ctx, todo, r.MaxUnavailable, len(todo))
	// Who could not be asked may be there by now.
	var late []int
	for i := range r.results {
		if r.results[i].Outcome == Unreachable {
			late = append(late, i)
		}
	}
	if len(todo) == 0 {
		r.work(ctx, late, r.MaxUnavailable, len(late))
	}
	err = errors.Join(r.verdict(), r.broken())
	if err == nil {
		err = r.journal.done()
	}
	return r.results, err
}

// run is a rollout that is carried out.
type run struct {
	Plan
	about   about
	all     []fleet.Gateway
	results []Result
	states  []fleet.State // valid where the gateway answered
	journal *journal
	kept    int  // gateways that run it and keep it
	lost    bool // one that has it does not answer any more
	stopped bool // nothing more is begun

	mu      sync.Mutex // guards the rest
	sent    []int64    // bytes, of those that are being sent to; -1: it is tried
	failure error      // of the journal
}

// about is what is known of a bundle.
type about struct {
	manifest *bundle.Manifest
	size     int64
	sum      string // SHA-256 of the file, in hexadecimal
}

func (r *run) verdict() error {
	if slices.ContainsFunc(r.results, func(res Result) bool { return !res.OK() }) {
		return ErrStopped
	}
	return nil
}

// ask asks everybody what runs there.
func (r *run) ask(ctx context.Context) {
	slots := make(chan struct{}, askAtOnce)
	var all sync.WaitGroup
	for i, g := range r.all {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			st, err := g.State(ctx)
			r.states[i] = st
			if err != nil {
				r.results[i].Outcome, r.results[i].Why = Unreachable, err.Error()
			}
		})
	}
	all.Wait()
}

// fits refuses an update that is not for all of them, before any has it.
func (r *run) fits() error {
	var errs []error
	for i, st := range r.states {
		if r.results[i].Outcome == Unreachable || st.Board == "" || st.Kernel == "" {
			continue
		}
		if err := r.about.manifest.Fits(st.Board, st.Kernel); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.all[i].Name, err))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was begun: %w", errors.Join(errs...))
	}
	return nil
}

// plan tells who has it and tries it, who did not keep it before, and who else
// does not run it.
func (r *run) plan() (underway, failed, rest []int) {
	m := r.about.manifest
	for i, g := range r.all {
		res, st, before := &r.results[i], r.states[i], r.journal.of(g.Name).State
		away := res.Outcome == Unreachable
		switch {
		case away && before == stateCommitted:
			res.Outcome, res.Why = Already, "it kept it before, and does not answer now"
			r.kept++
		case away && before == stateSent:
			res.Outcome, res.Why = Failed, "it has got the update, and does not answer any more: "+res.Why
			r.lost = true
		case away:
		case st.Trying == m.Version:
			underway = append(underway, i)
		case st.Keeps(r.about.manifest) && (!r.Force || before == stateCommitted || before == stateSent):
			res.Outcome = Already
			r.kept++
		case before == stateFailed, before == stateSent && st.Failed == m.Version:
			failed = append(failed, i)
		default:
			rest = append(rest, i)
		}
	}
	return underway, failed, rest
}

// work updates those of todo, width at a time, until so many have kept it or one
// has not, and returns who is left.
func (r *run) work(ctx context.Context, todo []int, width, commits int) []int {
	type done struct {
		i   int
		res Result
	}
	results := make(chan done)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	running, got := 0, 0
	for {
		for !r.stopped && ctx.Err() == nil && len(todo) > 0 && running < min(width, commits-got) {
			i := todo[0]
			todo = todo[1:]
			running++
			r.results[i].Outcome = Begun
			go func() { results <- done{i, r.one(ctx, i)} }()
		}
		if running == 0 {
			return todo
		}
		select {
		case d := <-results:
			running--
			r.results[d.i] = d.res
			switch d.res.Outcome {
			case Committed:
				got++
				r.kept++
				r.Log(d.res.Gateway, fmt.Sprintf("runs %s and keeps it, after %.0f s", r.about.manifest.Version, d.res.Seconds))
			case Already: // since somebody else was faster
				got++
				r.kept++
			case Failed:
				r.Log(d.res.Gateway, "FAILED: "+d.res.Why)
				if !r.stopped && running > 0 {
					r.Log(d.res.Gateway, fmt.Sprintf("the rollout stops here; waiting for the %d that have it already", running))
				}
				r.stopped = true
			case Unreachable:
				r.Log(d.res.Gateway, "not reached: "+d.res.Why)
			}
			if r.broken() != nil {
				r.stopped = true
			}
		case <-tick.C:
			r.tell()
		}
	}
}

// tell says how it stands.
func (r *run) tell() {
	if r.Progress == nil {
		return
	}
	kept, now := 0, []string{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, res := range r.results {
		switch {
		case res.OK():
			kept++
		case res.Outcome != Begun || len(now) == 4:
		case r.sent[i] < 0:
			now = append(now, res.Gateway+" tries it")
		default:
			now = append(now, fmt.Sprintf("%s %d%%", res.Gateway, 100*r.sent[i]/r.about.size))
		}
	}
	r.Progress(fmt.Sprintf("%d of %d run it; %s", kept, len(r.all), strings.Join(now, ", ")))
}

// one updates one gateway.
func (r *run) one(ctx context.Context, i int) Result {
	begin := time.Now()
	within, cancel := context.WithTimeout(ctx, r.Each)
	defer cancel()
	res := r.update(within, i)
	res.Gateway, res.Seconds = r.all[i].Name, time.Since(begin).Seconds()
	switch {
	case ctx.Err() != nil && res.Outcome == Failed:
		res.Outcome, res.Why = Begun, "the rollout was interrupted; the gateway goes on by itself"
	case within.Err() != nil && res.Outcome == Failed:
		res.Why = fmt.Sprintf("nothing is known of it after %v: %s", r.Each, res.Why)
	}
	state := map[string]string{Committed: stateCommitted, Failed: stateFailed}[res.Outcome]
	if state != "" {
		r.note(entry{Gateway: res.Gateway, State: state, Why: res.Why})
	}
	return res
}

// note writes into the journal. Without one nothing more is begun.
func (r *run) note(e entry) {
	if err := r.journal.add(e); err != nil {
		r.mu.Lock()
		r.failure = err
		r.mu.Unlock()
	}
}

// broken is why the journal cannot be written.
func (r *run) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *run) update(ctx context.Context, i int) Result {
	g, version := r.all[i], r.about.manifest.Version
	for try := 1; ; try++ {
		st, err := g.State(ctx)
		switch {
		case err != nil && try == 1:
			return Result{Outcome: Unreachable, Why: err.Error()}
		case err != nil && (try == sendTries || ctx.Err() != nil):
			return Result{Outcome: Failed, Why: "the connection was lost while it was sent, and it does not answer: " + err.Error()}
		case err != nil:
			wait.For(ctx, r.pause)
			continue
		case st.Trying == version:
			r.set(i, -1)
			return r.wait(ctx, g)
		case try > 1 && st.Keeps(r.about.manifest):
			return Result{Outcome: Committed} // the connection was lost behind the last byte
		case st.Keeps(r.about.manifest) && !r.Force:
			return Result{Outcome: Already}
		}
		r.note(entry{Gateway: g.Name, State: stateSent})
		r.Log(g.Name, "gets "+version+", has "+st.Version)
		err = r.send(ctx, i)
		switch {
		case err == nil:
			r.set(i, -1)
			return r.wait(ctx, g)
		case errors.As(err, new(fleet.Refused)):
			return Result{Outcome: Failed, Why: "it does not take it: " + err.Error()}
		case try == sendTries || ctx.Err() != nil:
			return Result{Outcome: Failed, Why: "it could not be sent: " + err.Error()}
		}
		r.Log(g.Name, "sending failed, once more in a moment: "+err.Error())
		wait.For(ctx, r.pause)
	}
}

func (r *run) set(i int, n int64) {
	r.mu.Lock()
	r.sent[i] = n
	r.mu.Unlock()
}

// send sends the file as it was looked at.
func (r *run) send(ctx context.Context, i int) error {
	f, err := os.Open(r.File)
	if err != nil {
		return fleet.Refused{Err: err}
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() != r.about.size {
		return fleet.Refused{Err: fmt.Errorf("%s is not the file any more that the rollout began with", r.File)}
	}
	return r.all[i].Send(ctx, &counted{f, func(n int64) { r.set(i, n) }, 0}, r.about.size)
}

// counted tells how much was read.
type counted struct {
	io.Reader
	tell func(int64)
	n    int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}

func (r *run) wait(ctx context.Context, g fleet.Gateway) Result {
	o, err := g.Wait(ctx, r.about.manifest.Version)
	switch {
	case err != nil:
		return Result{Outcome: Failed, Why: err.Error()}
	case !o.Committed:
		return Result{Outcome: Failed, Why: "it went back: " + cmp.Or(o.Reason, "it does not say why")}
	}
	return Result{Outcome: Committed}
}
