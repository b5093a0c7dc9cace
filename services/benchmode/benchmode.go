//go:build linux

package benchmode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/wait"
)

const (
	// settleFor is the rest before runs count, and restFor how much of it is
	// over when it is measured that the box is at rest.
	settleFor = 15 * time.Second
	restFor   = 5 * time.Second
	// answeredFor is from an answer to a measurement: who asked goes to rest.
	answeredFor = 2 * time.Second
	// lostFor is for how long it goes on without its control connection.
	lostFor = api.BenchLostSeconds * time.Second
	// leftFor is how long it waits for what is still there: a connection that
	// was closed a moment ago has its process a moment longer.
	leftFor  = 3 * time.Second
	leftPoll = 200 * time.Millisecond
	// serverRetry is the pause after the server has ended.
	serverRetry = time.Second
	// mostNotes bounds what is kept of what went wrong.
	mostNotes = 8

	never = time.Duration(1<<63 - 1)
)

// Event is what the iperf3 server tells.
type Event struct {
	Kind EventKind
	Peer string
}

// EventKind is what happened.
type EventKind byte

// The kinds, which are also the first byte of a line of it.
const (
	Begins  EventKind = 'b' // a run does
	Ends    EventKind = 'e'
	Refused EventKind = 'r' // somebody was sent away
)

// Box is the rest of the gateway.
type Box interface {
	// Left names what still runs or listens and is not to.
	Left() ([]string, error)
	// Tune sets the driver up by a profile.
	Tune(profile string) error
	// Forget has the kernel forget neighbours, if they are wanted, and what it
	// has learnt of earlier TCP connections.
	Forget(neighbours bool) error
	// Close lets nobody in but the peer (or everybody, if that is "") to the
	// port, and says how.
	Close(peer string, port int) (how string, err error)
	// Serve runs the iperf3 server until ctx ends or it does.
	Serve(ctx context.Context, peer string, port int, tell func(Event)) error
	// Usage is what has been used until now.
	Usage() (*Usage, error)
	// Count returns what runs are judged by.
	Count() (*api.BenchCount, error)
}

// Options is what a Service works with; all of it is needed.
type Options struct {
	File api.BenchFile
	Box  Box
	// Ready is called once, when nothing but the rest is missing.
	Ready func() error
	Log   func(string)
}

// Service is bench mode. Its times are since New; 0 is none.
type Service struct {
	opt  Options
	born time.Time
	kick chan struct{}
	end  chan string

	mu      sync.Mutex // guards what follows
	b       api.Bench  // but for what depends on the time
	until   time.Duration
	settled time.Duration
	began   time.Duration // of the run
	control bool
	// lost is when the control connection was lost, or the last run after that
	// ended.
	lost    time.Duration
	first   *Usage        // of the measurement that goes on
	measure time.Duration // when that begins
	measBy  time.Duration // its end; 0: there is none
	spoilt  bool          // a run has been in it
}

// New returns the service.
func New(o Options) *Service {
	s := &Service{opt: o, born: time.Now(), kick: make(chan struct{}, 1), end: make(chan string, 1)}
	a := &o.File.Args
	s.b = api.Bench{State: api.BenchSettling, Peer: a.Peer, Port: a.Port, Profile: a.Profile, Stopped: o.File.Stopped}
	return s
}

// now is not 0.
func (s *Service) now() time.Duration { return time.Since(s.born) + 1 }

// Button ends bench mode.
func (s *Service) Button() { s.finish("the button was pressed") }

func (s *Service) finish(why string) {
	select {
	case s.end <- why:
	default: // it ends already
	}
}

func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it will look
	}
}

// Run carries bench mode out and returns why it ended. An error is why it did
// not begin.
func (s *Service) Run(ctx context.Context) (why string, err error) {
	if err := s.begin(ctx); err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		s.serve(ctx)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return "it was told to end", nil
		case why := <-s.end:
			return why, nil
		case <-s.kick:
		case <-timer.C:
		}
		timer.Reset(s.step())
	}
}

// begin has the box quiet.
func (s *Service) begin(ctx context.Context) error {
	a, box := &s.opt.File.Args, s.opt.Box
	for tries := leftFor / leftPoll; ; tries-- {
		left, err := box.Left()
		if err == nil && len(left) == 0 {
			break
		}
		if tries == 0 || err != nil || !wait.For(ctx, leftPoll) {
			return errors.Join(errors.New("still there: "+strings.Join(left, ", ")), err)
		}
	}
	if a.Profile != api.BenchLeave {
		if err := box.Tune(a.Profile); err != nil {
			return err
		}
	}
	s.note(box.Forget(true))
	how, err := box.Close(a.Peer, a.Port)
	s.note(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.b.Door, s.until, s.settled = how, now+time.Duration(a.Seconds)*time.Second, now+settleFor
	s.measure, s.measBy = now+restFor, s.settled
	return s.opt.Ready()
}

// note keeps what somebody who measures should know.
func (s *Service) note(err error) {
	if err == nil {
		return
	}
	s.opt.Log("bench mode: " + err.Error())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.b.Notes) < mostNotes {
		s.b.Notes = append(s.b.Notes, err.Error())
	}
}

// serve keeps the server running.
func (s *Service) serve(ctx context.Context) {
	a := &s.opt.File.Args
	for {
		err := s.opt.Box.Serve(ctx, a.Peer, a.Port, s.event)
		if ctx.Err() != nil {
			return
		}
		s.event(Event{Kind: Ends})
		s.note(fmt.Errorf("the iperf3 server ended, and is started again: %w", err))
		wait.For(ctx, serverRetry)
	}
}

// event is what the server tells.
func (s *Service) event(e Event) {
	s.mu.Lock()
	over := e.Kind == Ends && s.b.Run != nil
	switch {
	case e.Kind == Begins:
		s.b.Run, s.began, s.spoilt = &api.BenchRun{Peer: e.Peer}, s.now(), true
	case e.Kind == Refused:
		s.b.Refused++
		s.spoilt = true
	case over:
		s.b.Run = nil
		s.b.Runs++
		if s.lost != 0 {
			s.lost = s.now()
		}
	}
	s.mu.Unlock()
	if over {
		s.note(s.opt.Box.Forget(false)) // the next run learns nothing from this one
	}
	s.wake()
}

// step does what is due and returns in how long there is something to do.
func (s *Service) step() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, next := s.now(), s.until
	if now >= s.until {
		s.finish("its time was over")
		return never
	}
	if s.lost != 0 && s.b.Run == nil {
		if now >= s.lost+lostFor {
			s.finish("the control connection was lost, and nobody has run anything since")
			return never
		}
		next = min(next, s.lost+lostFor)
	}
	if s.b.State == api.BenchSettling && now >= s.settled {
		s.b.State = api.BenchIsOn
	}
	if s.measBy != 0 && s.first == nil && now >= s.measure {
		s.first, s.measure, s.spoilt = s.usage(), now, s.b.Run != nil
	}
	switch {
	case s.measBy == 0:
	case s.first == nil && now < s.measure:
		next = min(next, s.measure)
	case s.first == nil: // that is not known
		s.measBy = 0
	case now < s.measBy:
		next = min(next, s.measBy)
	default:
		s.measured(now)
	}
	if s.b.State == api.BenchSettling {
		next = min(next, s.settled)
	}
	return next - now
}

// usage is what has been used until now; nil: that is not known.
func (s *Service) usage() *Usage {
	u, err := s.opt.Box.Usage()
	if err != nil {
		s.opt.Log("bench mode: nothing is measured: " + err.Error())
		return nil
	}
	return u
}

// measured ends one.
func (s *Service) measured(now time.Duration) {
	if last := s.usage(); last != nil {
		s.b.Load = s.first.Until(last, now-s.measure)
		if s.spoilt {
			s.b.Load.Quiet = false
			s.b.Load.By = append(s.b.Load.By, "a run, or somebody at the port, was in this measurement")
		}
	}
	s.first, s.measBy = nil, 0
}

// Call answers the methods status, control, verify and counters.
func (s *Service) Call(method string, params []byte) ([]byte, error) {
	if method == api.BenchCounters {
		c, err := s.opt.Box.Count()
		if err != nil {
			return nil, err
		}
		return json.Marshal(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	switch method {
	case api.BenchStatus:
	case "control":
		there := string(params) == "true"
		if s.lost = 0; s.control && !there {
			s.lost = now
			s.opt.Log("bench mode: the control connection is gone; it ends " + lostFor.String() + " after that and the last run")
		}
		s.control = there
	case api.BenchVerify:
		var a api.BenchArgs
		if err := json.Unmarshal(params, &a); err != nil {
			return nil, err
		}
		if s.b.Run != nil || s.b.State != api.BenchIsOn || s.measBy != 0 {
			return nil, errors.New("a run goes on, or it is being measured already: gwctl bench-mode status tells")
		}
		s.b.Load, s.measure = nil, now+answeredFor
		s.measBy = s.measure + time.Duration(a.Seconds)*time.Second
	default:
		return nil, errors.New("bench has no such method")
	}
	s.wake()
	b := s.b
	b.Left = seconds(s.until - now)
	if b.Run != nil {
		b.Run = &api.BenchRun{Peer: b.Run.Peer, Since: seconds(now - s.began)}
	}
	if s.lost != 0 {
		b.Lost = seconds(now - s.lost)
	}
	if b.State == api.BenchSettling {
		b.Measuring = seconds(s.settled - now)
	} else if s.measBy != 0 {
		b.Measuring = seconds(s.measBy - now)
	}
	return json.Marshal(&b)
}

// seconds is d for people, who read a tenth of a second at most.
func seconds(d time.Duration) float64 { return float64(max(0, d)/(100*time.Millisecond)) / 10 }
