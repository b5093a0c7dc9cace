package pid1

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/supervisor"
)

// The health that the watchdog is fed for, in rounds of feedEvery. A box that is
// starved must not be taken for one that hangs: a flood of packets, a busy shell or
// too little memory do that for minutes. So rounds are counted and not time, and an
// answer is waited for until the verdict: with some per cent of the CPU left, one
// takes ten seconds.
const (
	askEvery    = 2 // without a sign of life: it is asked for one
	stallRounds = 6 // without a sign of life: 60 s
	// stallParts is stallRounds for who cannot be restarted: what a service has in
	// all.
	stallParts = 2 * stallRounds
	mildRounds = 60  // after a restart: a second stall within them is one that a restart does not mend
	tryRounds  = 360 // after a reset that the budget forbids, until one is tried again
	// failedAfter is how long a service has to wait for its next start to be
	// shown as failed: essential ones never are in that state.
	failedAfter = 10.0

	// drawWait is for the flash that the budget is on (INV 1).
	drawWait = 10 * time.Second
)

// The parts of PID 1 that are asked for a sign of life, beside the services.
const (
	partControl    = "the control socket"
	partSupervisor = "the supervisor"
)

// questions are what an essential service is asked: something that the
// goroutine or loop answers which does its work.
var questions = map[string]string{svcBridge: "status", svcCore: "clock"}

// vital is somebody who has to give signs of life.
type vital struct {
	service bool // can be restarted
	asked   bool // a question is under way
	rounds  int  // since the last sign
	mild    int  // rounds since it was restarted for its silence; 0: it was not
}

// health decides what follows from signs of life and their absence. It knows no
// clock.
type health struct {
	mu         sync.Mutex // guards the following
	vitals     map[string]*vital
	regardless int // rounds for which the watchdog is fed whatever happens
}

// watch has a part or service watched from now on.
func (h *health) watch(name string, service bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.vitals == nil {
		h.vitals = map[string]*vital{}
	}
	h.vitals[name] = &vital{service: service}
}

// stall is how many rounds without a sign of life are too many.
func (v *vital) stall() int {
	if v.service {
		return stallRounds
	}
	return stallParts
}

// patience is how long an answer is waited for.
func (v *vital) patience() time.Duration { return time.Duration(v.stall()-askEvery) * feedEvery }

// seen is a sign of life.
func (h *health) seen(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.vitals[name]; v != nil {
		v.rounds = 0
	}
}

// forbidden says that the reset which round asked for may not be.
func (h *health) forbidden() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.regardless = tryRounds
}

// round counts a round. restart are the services that gave no sign for too long,
// for the first time; reset says who is beyond that, or is empty. The watchdog
// is fed if feed is set. ask are those to be asked now.
func (h *health) round() (feed bool, ask, restart []string, reset string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lost []string
	for name, v := range h.vitals {
		v.rounds++
		if v.mild > 0 {
			if v.mild++; v.mild > mildRounds {
				v.mild = 0
			}
		}
		switch {
		case v.rounds < v.stall():
		case v.service && v.mild == 0:
			restart = append(restart, name)
			v.rounds, v.mild = 0, 1
		default:
			lost = append(lost, name)
		}
		if !v.asked && v.rounds%askEvery == 0 {
			v.asked = true
			ask = append(ask, name)
		}
	}
	if h.regardless > 0 {
		h.regardless--
		return true, ask, restart, ""
	}
	return lost == nil, ask, restart, strings.Join(lost, ", ")
}

// ask looks for a sign of life, and notes it.
func (in *initd) ask(name string) {
	defer in.survive("health")
	defer func() {
		in.health.mu.Lock()
		defer in.health.mu.Unlock()
		in.health.vitals[name].asked = false
	}()
	in.health.mu.Lock()
	patience := in.health.vitals[name].patience()
	in.health.mu.Unlock()
	ctx, cancel := context.WithTimeout(in.feeding, patience)
	defer cancel()
	alive := false
	switch name {
	case partControl:
		alive = answers(ctx, control.SocketPath)
	case partSupervisor:
		in.tellFailed(in.sup.Snapshot())
		alive = true
	default:
		alive = serviceAlive(ctx, in.sup, name)
	}
	if alive {
		in.health.seen(name)
	}
}

// serviceAlive tells whether a service answers, or has an excuse: one that is
// not up is the supervisor's business, and no reason for a reset.
func serviceAlive(ctx context.Context, sup *supervisor.Supervisor, name string) bool {
	_, err := sup.Call(ctx, name, questions[name], nil)
	var told *supervisor.CallError
	if err == nil || errors.As(err, &told) {
		return true
	}
	for _, s := range sup.Snapshot() {
		if s.Name == name {
			return s.State != supervisor.Running && s.State != supervisor.Stopping
		}
	}
	return false
}

// answers tells whether the control socket gives an answer, be it a refusal.
func answers(ctx context.Context, path string) bool {
	c, err := client.Dial(ctx, path)
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Do(ctx, api.OpLogs, api.LogsArgs{Lines: 1})
	var told *api.Error
	return err == nil || errors.As(err, &told)
}

// failedNames are the services that do not come up, a line each.
func failedNames(all []api.Service) string {
	text := ""
	for _, s := range all {
		if s.State == supervisor.Failed || s.State == supervisor.Backoff && s.Since >= failedAfter {
			text += s.Name + "\n"
		}
	}
	return text
}

// tellFailed leaves their names for who shows them, when they change.
func (in *initd) tellFailed(all []api.Service) {
	if text := failedNames(all); text != in.failed {
		in.failed = text
		_ = os.WriteFile(api.FailedPath, []byte(text), 0o644) // memory
	}
}

// checkHealth is a round: it tells whether the watchdog is to be fed, and has
// everything else done by others, as it must not wait (INV 1).
func (in *initd) checkHealth() (feed bool) {
	if in.stopping() {
		return true // whose end has a limit of its own
	}
	if in.bench.skips() {
		return true // it ends by itself, and in.health counts its rounds slower
	}
	go in.leaveLastWords("", api.PreviousRunning)
	feed, ask, restart, reset := in.health.round()
	for _, name := range ask {
		go in.ask(name)
	}
	for _, name := range restart {
		in.logf("%s: no sign of life for %v: it is restarted", name, stallRounds*feedEvery)
		go func() {
			defer in.survive("health")
			ctx, cancel := context.WithTimeout(in.feeding, mildRounds*feedEvery)
			defer cancel()
			if err := in.sup.Restart(ctx, name); err != nil {
				in.logf("%s: %v", name, err)
			}
		}()
	}
	if reset != "" && in.resetting.CompareAndSwap(false, true) {
		go in.healthReset(reset, drawReset, in.requestShutdown)
	}
	return feed
}

// healthReset reboots because of who does not live, if the budget allows it
// (INV 8). It does so by reboot(2), which takes a second: the watchdog of the
// gateways takes eleven minutes.
func (in *initd) healthReset(who string, draw func() error, shutdown func(api.ShutdownArgs) error) {
	defer in.survive("health")
	defer in.resetting.Store(false)
	err := errors.New("the flash does not answer")
	var mu sync.Mutex // guards err: a late answer is not waited for
	within(drawWait, func() {
		e := draw()
		mu.Lock()
		defer mu.Unlock()
		err = e
	})
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		in.health.forbidden()
		in.notice(who + ": no sign of life, and no reset for it: " + err.Error())
		return
	}
	in.logf("%s: no sign of life: the box is rebooted", who)
	if err := shutdown(api.ShutdownArgs{Action: "reboot"}); err != nil {
		in.logf("reboot: %v", err)
	}
}
