package ddi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/update"
	"gwinit/internal/wait"
)

const (
	// requestTime bounds a request but for downloads, which go on while bytes come.
	requestTime = time.Minute
	// firstWait bounds what a poll waits for that has failed; each next one waits
	// for twice that, up to what the server wants between two polls.
	firstWait = 15 * time.Second
	// firstGap is between the first polls of two gateways, on the average, and
	// firstMost the time for all of them.
	firstGap  = 100 * time.Millisecond
	firstMost = time.Minute
	// askAtOnce is how many gateways are asked at a time what they run.
	askAtOnce = 32
	// jitter is the part of a wait that is left to chance, so that thousands that
	// were started together do not stay together.
	jitter = 0.2
	// sendTries is how many polls may begin to send an action's update before it
	// counts as failed.
	sendTries = 5
	// trialTime bounds what comes behind the sending, as in update.Wait.
	trialTime = update.WaitAtMost + 5*time.Minute
)

// Target is a gateway with the name that the server has for it.
type Target struct {
	fleet.Gateway
	ID   string // controllerId
	Auth string // of the header Authorization: "TargetToken ..." or "GatewayToken ..."
}

// Options are how an agent works. All of them are needed.
type Options struct {
	Server   *url.URL
	Tenant   string
	HTTP     *http.Client
	Plain    bool // links of http are followed
	StateDir string
	CacheDir string
	Cache    int64 // bytes
	// Updates is how many gateways are updated at a time.
	Updates int
	// Log is told what happens, a line at a time.
	Log func(gateway, text string)
}

// Run is the agent of all targets until ctx ends. The error is about its folders.
func Run(ctx context.Context, o Options, targets []Target) error {
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return err
	}
	c, err := openCache(o.CacheDir, o.Cache)
	if err != nil {
		return err
	}
	asks, updates := make(chan struct{}, askAtOnce), make(chan struct{}, o.Updates)
	spread := min(firstMost, time.Duration(len(targets))*firstGap)
	var all sync.WaitGroup
	var agents []*agent
	for _, t := range targets {
		a := &agent{
			Options: o, target: t, cache: c, store: store{o.StateDir}, asks: asks, updates: updates, spread: spread,
			client: &client{http: o.HTTP, server: o.Server, root: o.Server.JoinPath(url.PathEscape(o.Tenant), "controller", "v1", url.PathEscape(t.ID)).Path, auth: t.Auth, plain: o.Plain},
		}
		if a.state, err = a.store.load(t.ID); err != nil {
			return err
		}
		agents = append(agents, a)
	}
	for _, a := range agents {
		all.Go(func() { a.run(ctx) })
	}
	all.Wait()
	return nil
}

// agent is one gateway's.
type agent struct {
	Options
	target  Target
	client  *client
	cache   *cache
	store   store
	asks    chan struct{} // holds a token of each gateway that is asked
	updates chan struct{} // holds a token of each gateway that is being updated
	spread  time.Duration // over which the first polls are spread

	state   state // as it is written down; of who works: the job, or none and run
	job     *job
	said    string // the last trouble that was logged
	tries   int    // of sending tried's update
	tried   string // action
	fetched string // action whose file is there and is not to be sent yet
	last    told   // by a job
	later   string // the last that a job logged of why it ended without an end
	etag    string
	base    base // as polled last
}

// told is what the server was told of an action.
type told struct {
	action string
	f      feedback
}

// job is an action that is carried out.
type job struct {
	action string
	cancel context.CancelFunc
	href   string
	ended  chan struct{} // closed behind its end

	mu    sync.Mutex // guards the rest
	fixed bool       // the gateway may have it: there is no way back
	stop  bool       // it was canceled
}

// commit is the point behind which a job is not canceled any more.
func (j *job) commit() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fixed = !j.stop
	return j.fixed
}

// release says that a gateway does not have it after all.
func (j *job) release() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fixed = false
	return !j.stop
}

// abort cancels a job, unless it is too late.
func (j *job) abort() bool {
	j.mu.Lock()
	j.stop = !j.fixed
	stop := j.stop
	j.mu.Unlock()
	if stop {
		j.cancel()
		<-j.ended
	}
	return stop
}

func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// around is d, more or less.
func around(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter/2 + jitter*rand.Float64()))
}

// run polls until ctx ends, and waits for what it began.
func (a *agent) run(ctx context.Context) {
	defer func() {
		if a.job != nil {
			<-a.job.ended
		}
	}()
	// All at once would be a load that the server never sees else.
	sleep, trouble := plainSleep, firstWait
	if !wait.For(ctx, time.Duration(rand.Float64()*float64(a.spread))) {
		return
	}
	for {
		next, err := a.round(ctx)
		var s Status
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			a.trouble("")
			sleep, trouble = next, firstWait
			next = around(next)
		case errors.As(err, &s) && s.After > 0:
			a.trouble(err.Error())
			next = s.After + time.Duration(rand.Float64()*float64(firstWait)) // not before
		default:
			a.trouble(err.Error())
			next = around(trouble)
			trouble = min(2*trouble, max(sleep, firstWait))
		}
		if !wait.For(ctx, next) {
			return
		}
	}
}

// trouble logs what is wrong, once; "": nothing is any more.
func (a *agent) trouble(text string) {
	switch {
	case text == a.said:
	case text == "":
		a.log("the server answers again")
	default:
		a.log("%s", text)
	}
	a.said = text
}

func (a *agent) log(format string, args ...any) {
	a.Log(a.target.Name, fmt.Sprintf(format, args...))
}

// round is one poll and what follows from it. It returns what the server wants to
// pass until the next.
func (a *agent) round(ctx context.Context) (time.Duration, error) {
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if a.job != nil && a.job.over() {
		a.job = nil
	}
	b, etag, err := a.client.poll(within, a.etag)
	if err != nil {
		return 0, err
	}
	if b != nil {
		a.base = *b
	}
	a.etag = etag
	if a.job == nil && a.state.Phase == phaseClosed {
		a.etag = ""
		if err := a.tell(within, true); err != nil {
			return 0, err
		}
	}
	var untold error
	if a.base.configData != "" {
		if untold = a.describe(ctx); untold != nil {
			a.etag = ""
		}
	}
	switch {
	case a.base.cancelBase != "":
		err = a.canceled(within)
	case a.base.deploymentBase != "":
		err = a.deploy(ctx, within)
	case a.job != nil && a.job.abort():
		a.log("action %s was ended by the server", a.job.action)
	}
	if err != nil {
		a.etag = "" // have it told again
		if errors.Is(err, errGone) {
			err = nil // between the poll and now
		}
	}
	return a.base.sleep, errors.Join(err, untold)
}

// ask asks the gateway what it runs, when it is its turn.
func (a *agent) ask(ctx context.Context) (fleet.State, error) {
	select {
	case a.asks <- struct{}{}:
		defer func() { <-a.asks }()
		return a.target.State(ctx)
	case <-ctx.Done():
		return fleet.State{}, ctx.Err()
	}
}

// describe tells the server what the gateway is, if it is there.
func (a *agent) describe(ctx context.Context) error {
	st, err := a.ask(ctx)
	if err != nil {
		a.log("the server wants to know what it is, and it does not answer: %v", err)
		a.etag = ""
		return nil
	}
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return a.client.config(within, a.base.configData, map[string]string{"version": st.Version, "board": st.Board, "kernel": st.Kernel, "name": a.target.Name})
}

// tell tells the server how an action has ended. polled: a poll has just gone well.
func (a *agent) tell(ctx context.Context, polled bool) error {
	err := a.client.feedback(ctx, "deploymentBase", a.state.Action, *a.state.Last)
	var s Status
	switch {
	case errors.Is(err, errGone):
		a.log("the server had ended action %s already", a.state.Action)
	case errors.As(err, &s) && (s.Code == http.StatusBadRequest || s.Code == http.StatusForbidden && polled):
		// A server that lets it poll has a limit for what it hears of an action.
		a.log("the server does not want to know how action %s has ended: %v", a.state.Action, err)
	case err != nil:
		return err
	}
	a.state.Phase, a.state.Last = phaseTold, nil
	return a.store.save(a.target.ID, a.state)
}

// canceled ends an action, or tells why that is too late.
func (a *agent) canceled(ctx context.Context) error {
	id, stop, err := a.client.cancel(ctx, a.base.cancelBase)
	if err != nil {
		return err
	}
	answer := feedback{Execution: closed, Finished: success}
	switch {
	case a.job == nil || a.job.action != stop, a.job.abort():
		a.log("action %s was canceled", stop)
	case a.job.over():
		return errors.New("the action that is to be canceled has just ended") // which is told first
	default:
		answer = feedback{rejected, none, "the gateway has got the update: it keeps it, or goes back by itself"}
		a.log("action %s cannot be canceled any more", stop)
	}
	a.etag = ""
	return a.client.feedback(ctx, "cancelAction", id, answer)
}

// deploy begins an action, if it is new.
func (a *agent) deploy(ctx, within context.Context) error {
	if a.job != nil && a.job.href == a.base.deploymentBase {
		return nil
	}
	d, err := a.client.deployment(within, a.base.deploymentBase)
	if err != nil {
		return err
	}
	if a.job != nil {
		switch {
		case a.job.action == d.action:
			return nil
		case !a.job.abort(): // the next round looks again
			a.etag = ""
			return nil
		}
		a.log("action %s was replaced by %s", a.job.action, d.action)
		a.job = nil
	}
	if a.state.Action == d.action && a.state.Phase != phaseSent {
		// It is told, and the server has not taken it in, or lost it.
		a.etag = ""
		return nil
	}
	if d.wrong != "" {
		a.state = state{Action: d.action, Phase: phaseClosed, Last: &feedback{closed, failure, d.wrong}}
		a.log("action %s: %s", d.action, d.wrong)
		return errors.Join(a.store.save(a.target.ID, a.state), a.tell(within, true))
	}
	if !d.download || !d.install && a.fetched == d.action {
		return nil
	}
	if a.tried != d.action {
		a.tried, a.tries = d.action, 0
	}
	ctx, cancel := context.WithCancel(ctx)
	j := &job{action: d.action, href: a.base.deploymentBase, cancel: cancel, ended: make(chan struct{})}
	if a.state.Action == d.action { // sent
		j.fixed = true
	}
	a.job = j
	go func() {
		defer close(j.ended)
		defer cancel()
		end, err := a.carryOut(ctx, j, d)
		switch {
		case end != nil:
			a.log("action %s: %s %s", d.action, end.Finished, end.Detail)
			a.state = state{Action: d.action, Phase: phaseClosed, Last: end}
			if err := a.store.save(a.target.ID, a.state); err != nil {
				a.log("%v", err)
			}
			// The server hears of it at once, or with a later round.
			soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
			defer cancel()
			if err := a.tell(soon, false); err != nil {
				a.log("the server could not be told that action %s is over, which is tried again: %v", d.action, err)
			}
		case err != nil && ctx.Err() == nil:
			if text := fmt.Sprintf("action %s is tried again later: %v", d.action, err); text != a.later {
				a.later = text
				a.log("%s", text)
			}
		}
	}()
	return nil
}

// say tells the server how an action goes. It is no harm if that fails.
func (a *agent) say(ctx context.Context, action string, f feedback) error {
	if a.last == (told{action, f}) {
		return nil // the server keeps all of them, and not without end
	}
	within, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := a.client.feedback(within, "deploymentBase", action, f)
	if err == nil {
		a.last = told{action, f}
	}
	if err == nil || errors.Is(err, errGone) {
		return err
	}
	a.log("feedback on action %s: %v", action, err)
	return nil
}

// carryOut brings an action to its end, which it returns. With an error there is
// none yet.
func (a *agent) carryOut(ctx context.Context, j *job, d deployment) (*feedback, error) {
	fail := func(format string, args ...any) (*feedback, error) {
		return &feedback{closed, failure, fmt.Sprintf(format, args...)}, nil
	}
	st, err := a.ask(ctx)
	if err != nil {
		if err := a.say(ctx, d.action, feedback{proceeding, none, "the gateway does not answer the agent: " + err.Error()}); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the gateway does not answer: %w", err)
	}
	if a.state.Action == d.action { // it was sent
		version := a.state.Version
		switch {
		case st.Trying == version, st.Version == version:
			if err := a.say(ctx, d.action, feedback{resumed, none, "waiting for the end of its trial"}); err != nil && !errors.Is(err, errGone) {
				return nil, err
			}
			return a.await(ctx, version)
		case st.Failed == version:
			return fail("it went back: %s", st.Reason)
		}
		if !j.release() { // it did not get there
			return nil, context.Canceled
		}
	}
	if err := a.say(ctx, d.action, feedback{download, none, "downloading " + d.file.name}); err != nil {
		return nil, err
	}
	path, done, err := a.cache.get(ctx, d.file, a.client.fetch)
	if errors.Is(err, ErrHash) || errors.Is(err, ErrAnswer) {
		return fail("%v", err)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	if err := a.say(ctx, d.action, feedback{downloaded, none, ""}); err != nil {
		return nil, err
	}
	if !d.install {
		a.fetched = d.action
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := update.Inspect(f)
	if err != nil {
		return fail("%s: %v", filepath.Base(d.file.name), err)
	}
	switch {
	case st.Keeps(m):
		return &feedback{closed, success, "it runs " + m.Version + " already"}, nil
	case st.Trying != "" && st.Trying != m.Version:
		return nil, fmt.Errorf("it tries %s still", st.Trying)
	}
	select {
	case a.updates <- struct{}{}:
		defer func() { <-a.updates }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !j.commit() {
		return nil, context.Canceled
	}
	// From here on the server's word ends nothing: what began has to be watched.
	if err := a.say(ctx, d.action, feedback{proceeding, none, "sending " + m.Version + " to the gateway, which has " + st.Version}); err != nil && !errors.Is(err, errGone) {
		return nil, err
	}
	before := a.state
	a.state = state{Action: d.action, Phase: phaseSent, Version: m.Version}
	if err := a.store.save(a.target.ID, a.state); err != nil {
		a.state = before
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := a.target.Send(ctx, f, d.file.size); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.As(err, new(fleet.Refused)) {
			return fail("it does not take it: %v", err)
		}
		if a.tries++; a.tries >= sendTries {
			return fail("it could not be sent: %v", err)
		}
		return nil, fmt.Errorf("it could not be sent: %w", err)
	}
	if err := a.say(ctx, d.action, feedback{proceeding, none, "the gateway tries " + m.Version}); err != nil && !errors.Is(err, errGone) {
		return nil, err
	}
	return a.await(ctx, m.Version)
}

// await waits for the end of a trial.
func (a *agent) await(ctx context.Context, version string) (*feedback, error) {
	within, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	o, err := a.target.Wait(within, version)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return &feedback{closed, failure, "nothing is known of it any more: " + err.Error()}, nil
	case !o.Committed:
		return &feedback{closed, failure, "it went back: " + o.Reason}, nil
	}
	return &feedback{closed, success, "it runs " + version + " and keeps it"}, nil
}
