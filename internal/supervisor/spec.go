package supervisor

import (
	"fmt"
	"slices"
	"time"

	"gwinit/internal/notify"
)

// The tuned numbers of the package.
const (
	firstDelay     = time.Second
	maxDelay       = time.Minute
	essentialDelay = time.Minute     // of an essential service that would be failed
	healthyAfter   = 5 * time.Minute // of being ready: the delay starts over
	fastExit       = 10 * time.Second
	maxFast        = 5 // fast ends in a row
	sessionTime    = 2 * time.Second

	quitGrace = 2 * time.Second // from SIGQUIT to SIGKILL: time to write the stacks
	killGrace = time.Second     // from SIGKILL to giving up, at the end of StopAll

	maxCalls = 8 // outstanding for one service

	// DefaultStopTimeout is for a Spec that names none.
	DefaultStopTimeout = 10 * time.Second
	// DefaultReadyTimeout is for a Spec that names none.
	DefaultReadyTimeout = 30 * time.Second
	// ExitPointless is the status of a service that another start would not
	// help: its configuration makes it pointless.
	ExitPointless = 125
)

// Spec is one service.
type Spec struct {
	Name  string   // as notify.ValidName has it
	Path  string   // the program; empty: /proc/self/exe
	Argv  []string // with argv[0]: {"gw", "bridge"}
	Env   []string // beside Options.Env
	Dir   string   // empty: /
	Needs []string // must be running or done before it starts
	After []string // must have had their chance before it starts

	Oneshot   bool // runs to its end; done with status 0
	Essential bool // never failed
	NoNotify  bool // a program that knows nothing of package notify: ready when started
	Safe      bool // also started in safe mode
	Manual    bool // not started by Boot, only by Start
	Once      bool // idle after whatever end: nothing but Start starts it again

	// Socket is the path of a socket of package handoff, which PID 1 makes and
	// watches. The service is then on demand: idle until something waits there,
	// started with the socket as the stored descriptor handoff.StoredName, and
	// idle again when it ends with status 0, which it does by itself when it
	// has nothing to do, and not within 10 s of its start (that counts as a
	// fault, so that one which does not take what waits is not started for ever).
	Socket string

	// TTY is a device that becomes stdin, stdout, stderr and the controlling
	// terminal; nothing of it is logged. It implies NoNotify.
	TTY string

	ReadyTimeout time.Duration // 0: DefaultReadyTimeout; negative: none
	StopTimeout  time.Duration // 0: DefaultStopTimeout
	Watchdog     time.Duration // longest time between two WATCHDOG=1; 0: none asked

	OOMScoreAdj int // -1000 (never killed) to 1000 (first)
	// FileLimit is the size of the largest file that it, and what it starts,
	// may write, in bytes (RLIMIT_FSIZE, soft); 0: any.
	FileLimit uint64
}

func (s *Spec) defaults() {
	if s.Path == "" {
		s.Path = "/proc/self/exe"
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
	if s.TTY != "" {
		s.NoNotify = true
	}
	if s.ReadyTimeout == 0 {
		s.ReadyTimeout = DefaultReadyTimeout
	}
	if s.StopTimeout == 0 {
		s.StopTimeout = DefaultStopTimeout
	}
}

// validate checks the table: it is ours, so a fault is one of the build.
func validate(specs []Spec) error {
	find := func(name string) int {
		return slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name })
	}
	for i, s := range specs {
		if !notify.ValidName(s.Name) || find(s.Name) != i {
			return fmt.Errorf("service %q: %w: bad or doubled name", s.Name, ErrSpec)
		}
		if len(s.Argv) == 0 {
			return fmt.Errorf("service %s: %w: no argv", s.Name, ErrSpec)
		}
		for _, dep := range slices.Concat(s.Needs, s.After) {
			if find(dep) < 0 {
				return fmt.Errorf("service %s: %w: depends on %q, which is none", s.Name, ErrSpec, dep)
			}
		}
		for _, dep := range s.Needs {
			if s.Safe && !specs[find(dep)].Safe {
				return fmt.Errorf("service %s: %w: needs %s, which safe mode leaves out", s.Name, ErrSpec, dep)
			}
		}
	}
	// A service is placed when all it depends on are.
	placed := make(map[string]bool)
	for range specs {
		for _, s := range specs {
			if !slices.ContainsFunc(slices.Concat(s.Needs, s.After), func(d string) bool { return !placed[d] }) {
				placed[s.Name] = true
			}
		}
	}
	for _, s := range specs {
		if !placed[s.Name] {
			return fmt.Errorf("service %s: %w: depends on itself in a circle", s.Name, ErrSpec)
		}
	}
	return nil
}
