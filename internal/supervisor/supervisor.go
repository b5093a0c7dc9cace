package supervisor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
)

// LogName is under which this package logs: one line for each change of state.
const LogName = "init"

// The states, as the control protocol names them.
const (
	Waiting  = "waiting"
	Idle     = "idle"
	Starting = "starting"
	Running  = "running"
	Backoff  = "backoff"
	Stopping = "stopping"
	Stopped  = "stopped"
	Failed   = "failed"
	Done     = "done"
)

// Errors of this package.
var (
	ErrSpec         = errors.New("bad service table")
	ErrUnknown      = errors.New("no such service")
	ErrShuttingDown = errors.New("the box is shutting down")
	ErrNotRunning   = errors.New("is not running")
	ErrBusy         = errors.New("has too many calls to answer")
	ErrHeld         = errors.New("services are held")

	errPanic = errors.New("a fault in the supervisor; see the log")
)

// CallError is what a service answered instead of a result.
type CallError struct {
	Service, Method string
	Text            string // the service's own words
}

// Error implements error.
func (e *CallError) Error() string { return e.Service + ": " + e.Method + ": " + e.Text }

// Options are what a Supervisor works with. All but Safe and Proc are needed.
type Options struct {
	Launcher Launcher
	Ring     *logring.Ring
	Safe     bool   // leave out what is not Safe
	Proc     string // where procfs is; empty: /proc
}

// Supervisor runs a fixed set of services. Its methods may be called by
// several goroutines.
type Supervisor struct {
	o Options

	mu       sync.Mutex // guards all below
	services []*service // as in the table
	closing  bool
	hold     []string // who may run while others are held; nil: everybody
	callID   uint32
	watchID  uint32
	changed  chan struct{} // closed at the next change of a state, if somebody waits
}

// service is one service. Supervisor.mu guards it.
type service struct {
	Spec
	state    string
	since    time.Time
	want     bool // Start was last, not Stop
	again    bool // stopping only in order to start
	settled  bool // has had its chance
	held     bool // stopped by Hold, and started again by Release
	history  history
	restarts int  // starts after an end that nobody asked for
	unasked  bool // the last end was one
	status   string
	lastExit string
	stored   []notify.Stored
	watch    uint32 // number of the watch at the socket; 0: none
	called   bool   // something waits at the socket

	// Of the present process.
	process   Process
	gen       int // counts processes, so that a late timer finds another one
	startedAt time.Time
	readyAt   time.Time
	firstLine uint64 // of its log
	reason    string // why it was killed, if we did it
	calls     map[uint32]chan answer
	timer     *time.Timer // the one thing that the state waits for
	watchdog  *time.Timer
}

// answer is a reply to a call.
type answer struct {
	body []byte
	err  error
}

// New makes a supervisor; it starts nothing before Boot.
func New(o Options, specs []Spec) (*Supervisor, error) {
	if err := validate(specs); err != nil {
		return nil, err
	}
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	s := &Supervisor{o: o}
	now := time.Now()
	for _, spec := range specs {
		spec.defaults()
		s.services = append(s.services, &service{Spec: spec, state: Stopped, since: now})
	}
	return s, nil
}

// Boot starts every service, in safe mode those that are Safe. It returns
// when those that depend on nothing have been started.
func (s *Supervisor) Boot() {
	s.locked(func() {
		for _, sv := range s.services {
			if s.o.Safe && !sv.Safe {
				sv.status, sv.settled = "left out: safe mode", true
				continue
			}
			if sv.Manual { // it has not had its chance: who is After it waits
				sv.state = Idle
				continue
			}
			sv.want = true
			s.set(sv, Waiting, "")
		}
		s.settle()
	})
}

// Start starts a service, at once if it is in backoff or failed, and waits
// until it is running, idle or done (nil), has ended (an error with its last words)
// or ctx ends. One that is running is left alone.
func (s *Supervisor) Start(ctx context.Context, name string) error {
	if err := s.act(name, s.start); err != nil {
		return err
	}
	return s.awaitUp(ctx, name)
}

// Stop stops a service and waits until it is, or ctx ends. Nothing but Start
// and Restart starts it again, without what it had stored. A oneshot that is
// done stays so.
func (s *Supervisor) Stop(ctx context.Context, name string) error {
	var gen int
	err := s.act(name, func(sv *service) error {
		gen = sv.gen
		if err := s.stop(sv); err != nil {
			return err
		}
		if sv.state == Stopped { // no process whose end would do it
			sv.forget()
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Somebody may start it again before this caller has its turn.
	return s.await(ctx, name, func(sv *service) (bool, error) { return sv.process == nil || sv.gen != gen, nil })
}

// Restart is Stop and Start, with the wait of Start.
func (s *Supervisor) Restart(ctx context.Context, name string) error {
	err := s.act(name, func(sv *service) error {
		if err := s.refuses(sv); err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
		return errors.Join(s.stop(sv), s.start(sv))
	})
	if err != nil {
		return err
	}
	return s.awaitUp(ctx, name)
}

func (s *Supervisor) awaitUp(ctx context.Context, name string) error {
	return s.await(ctx, name, func(sv *service) (bool, error) {
		switch sv.state {
		case Running, Done:
			return true, nil
		case Idle:
			if sv.Once {
				return true, fmt.Errorf("start %s: %s", name, sv.lastExit)
			}
			return true, nil
		case Backoff, Failed:
			return true, fmt.Errorf("start %s: it is in state %s: %s", name, sv.state, sv.lastExit)
		case Stopped:
			return true, fmt.Errorf("start %s: it was stopped meanwhile", name)
		}
		return false, nil
	})
}

// StopAll ends every service, each when nobody runs any more who depends on
// it, and refuses starts from then on. A service has its StopTimeout, or what
// is left until ctx ends; then all are killed at once. It returns the names of
// those that are there a second later, which hang in the kernel.
func (s *Supervisor) StopAll(ctx context.Context) []string {
	s.locked(func() {
		s.closing = true
		for _, sv := range s.services {
			sv.want, sv.again = false, false
			if sv.process == nil && sv.state != Done && sv.state != Failed {
				s.set(sv, Stopped, "shutdown")
			}
		}
		s.sweep()
	})
	gone := func(sv *service) (bool, error) { return sv.process == nil, nil }
	for _, sv := range s.services {
		// The only error is that ctx ended.
		_ = s.await(ctx, sv.Name, gone)
	}
	s.locked(func() {
		for _, sv := range s.services {
			if sv.process != nil {
				s.kill(sv, "the time for the shutdown is over")
			}
		}
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), killGrace)
	defer cancel()
	var left []string
	for _, sv := range s.services {
		if s.await(last, sv.Name, gone) != nil {
			left = append(left, sv.Name)
		}
	}
	s.locked(func() {
		for _, sv := range s.services {
			sv.forget()
		}
	})
	return left
}

// Call asks a running service and returns its answer, which is JSON. Errors
// are ErrUnknown, ErrNotRunning, ErrBusy, a *CallError, or the end of ctx.
func (s *Supervisor) Call(ctx context.Context, name, method string, params []byte) ([]byte, error) {
	var id uint32
	reply := make(chan answer, 1)
	err := s.act(name, func(sv *service) error {
		switch {
		case sv.process == nil || sv.NoNotify:
			way := ""
			if sv.state == Stopped || sv.state == Failed {
				way = "; gwctl start " + name + " starts it"
			}
			return fmt.Errorf("%s %w: it is in state %s%s", name, ErrNotRunning, sv.state, way)
		case len(sv.calls) >= maxCalls:
			return fmt.Errorf("%s %w", name, ErrBusy)
		}
		s.callID++
		id = s.callID
		packet, err := notify.AppendCall(nil, id, method, params)
		if err == nil {
			err = sv.process.Send(packet)
		}
		switch {
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("%s %w", name, ErrBusy)
		case errors.Is(err, notify.ErrClosed):
			return fmt.Errorf("%s %w: it takes no calls any more", name, ErrNotRunning)
		case err != nil:
			return fmt.Errorf("call %s: %w", name, err)
		}
		sv.calls[id] = reply
		return nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case a := <-reply:
		var call *CallError
		if errors.As(a.err, &call) {
			call.Service, call.Method = name, method
		}
		return a.body, a.err
	case <-ctx.Done():
		s.locked(func() { delete(s.find(name).calls, id) })
		return nil, fmt.Errorf("call %s %s: %w", name, method, context.Cause(ctx))
	}
}

// Snapshot returns every service, in the order of the table.
func (s *Supervisor) Snapshot() []api.Service {
	var list []api.Service
	s.locked(func() {
		now := time.Now()
		for _, sv := range s.services {
			a := api.Service{
				Name: sv.Name, State: sv.state, Since: now.Sub(sv.since).Seconds(),
				Restarts: sv.restarts, Essential: sv.Essential, Status: sv.status, LastExit: sv.lastExit,
			}
			if sv.process != nil {
				a.PID = sv.process.PID()
			}
			list = append(list, a)
		}
	})
	for i := range list {
		if list[i].PID != 0 {
			u := readUsage(s.o.Proc, list[i].PID)
			list[i].CPU, list[i].RSS, list[i].Anon = u.cpu, u.rss, u.anon
		}
	}
	return list
}

// Has tells whether there is a service of that name. The set never changes.
func (s *Supervisor) Has(name string) bool { return s.find(name) != nil }

// Names are those of all services.
func (s *Supervisor) Names() []string {
	var names []string
	for _, sv := range s.services {
		names = append(names, sv.Name)
	}
	return names
}

// locked runs f under the lock. A panic of f is logged: PID 1 goes on (INV 1).
func (s *Supervisor) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			s.logPanic(p)
		}
	}()
	f()
}

// logPanic logs a recovered panic with the top of its stack.
func (s *Supervisor) logPanic(p any) {
	stack := debug.Stack()
	s.o.Ring.Append(LogName, fmt.Sprintf("panic in the supervisor: %v\n%s", p, stack[:min(len(stack), 2<<10)]))
}

// find returns the service of that name, or nil.
func (s *Supervisor) find(name string) *service {
	for _, sv := range s.services {
		if sv.Name == name {
			return sv
		}
	}
	return nil
}

// act runs f for a service under the lock, and returns its error.
func (s *Supervisor) act(name string, f func(*service) error) error {
	sv := s.find(name) // the set is fixed
	if sv == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	err := errPanic
	s.locked(func() { err = f(sv) })
	return err
}

// await waits until met says so, with its error, or ctx ends.
func (s *Supervisor) await(ctx context.Context, name string, met func(*service) (bool, error)) error {
	sv := s.find(name)
	for {
		var ok bool
		var err error
		var changed chan struct{}
		var state, status string
		s.locked(func() {
			state, status = sv.state, sv.status
			if ok, err = met(sv); !ok {
				if s.changed == nil {
					s.changed = make(chan struct{})
				}
				changed = s.changed
			}
		})
		if ok {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if status != "" {
				state += " (" + status + ")"
			}
			return fmt.Errorf("wait for %s, which is %s: %w", name, state, context.Cause(ctx))
		}
	}
}
