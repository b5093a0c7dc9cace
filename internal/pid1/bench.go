package pid1

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/radiolock"
	"gwinit/internal/supervisor"
)

// Bench mode, as PID 1 has it: one service runs instead of the others, and when
// it ends, however it does, the others are started again (INV 9). What is kept for
// that is in memory, so a reboot ends it, too. What bench mode is, is that
// service's business (services/benchmode).
const (
	// benchHold is for what has to end: more than a service has until it is
	// killed.
	benchHold = supervisor.DefaultStopTimeout + 5*time.Second
	// benchGrace is how much later than itself PID 1 ends it.
	benchGrace = 20 * time.Second
	// benchLate is for when it says that it has settled.
	benchLate = 300 * time.Millisecond
	// benchRestore bounds the wait for what is started again.
	benchRestore = 30 * time.Second
	// benchAnswer is for core to say how the driver is set up.
	benchAnswer = 5 * time.Second
	// benchMemory is what this process may take in bench mode before it collects
	// garbage, in bytes: it has 3 MiB.
	benchMemory = 8 << 20
	// benchRounds is of how many rounds of the watchdog one looks after the
	// health: bench mode is to be quiet, and ends by itself.
	benchRounds = 6
)

// benchMode is the state of it.
type benchMode struct {
	root    string        // file system root; "" is /
	mu      sync.Mutex    // guards the following
	state   string        // "" is off
	why     string        // it ends, or ended
	changed chan struct{} // closed at the next change; nil: nobody waits
	rounds  int
}

func (m *benchMode) path(name string) string { return filepath.Join("/", m.root, name) }

// is tells whether it is on, or about to be, or just ends.
func (m *benchMode) is() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state != "" && m.state != api.BenchIsOff
}

// begin begins it, unless it is on.
func (m *benchMode) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != "" && m.state != api.BenchIsOff {
		return false
	}
	m.state, m.why = api.BenchStopping, ""
	return true
}

// skips tells whether this round of the health is left out.
func (m *benchMode) skips() bool {
	m.rounds++ // of the watchdog's goroutine
	return m.is() && m.rounds%benchRounds != 0
}

// set changes the state, unless it is "", and says why it is over, unless that is
// known.
func (m *benchMode) set(state, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.why = cmp.Or(state, m.state), cmp.Or(m.why, why)
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

// await waits until the state is one of those, or ctx ends, and returns it.
func (m *benchMode) await(ctx context.Context, states ...string) (*api.Bench, error) {
	for {
		m.mu.Lock()
		b := &api.Bench{State: cmp.Or(m.state, api.BenchIsOff), Why: m.why}
		if m.changed == nil {
			m.changed = make(chan struct{})
		}
		changed := m.changed
		m.mu.Unlock()
		if states == nil || slices.Contains(states, b.State) {
			return b, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return b, context.Cause(ctx)
		}
	}
}

// Bench implements control.Backend.
func (b *backend) Bench(ctx context.Context, args api.BenchArgs, tell func(*api.Bench) error) (any, error) {
	m := &b.in.bench
	switch {
	case args.Action == api.BenchOn:
		return b.benchOn(ctx, &args, tell)
	case args.Action == api.BenchStatus:
		return b.benchState(ctx), nil
	case args.Action == api.BenchOff && m.is():
		m.set("", "it was turned off")
		if err := b.sup.Stop(ctx, svcBench); err != nil {
			return nil, err
		}
		fallthrough
	case args.Action == api.BenchOff:
		return m.await(ctx, api.BenchIsOff)
	}
	params, err := json.Marshal(args)
	if err == nil {
		params, err = b.sup.Call(ctx, svcBench, args.Action, params)
	}
	if errors.Is(err, supervisor.ErrNotRunning) {
		err = errors.New("bench mode is off: gwctl bench-mode on")
	}
	return json.RawMessage(params), err
}

// benchState is what there is to say of it now.
func (b *backend) benchState(ctx context.Context) *api.Bench {
	var told api.Bench
	if b.in.bench.is() && b.ask(ctx, svcBench, api.BenchStatus, &told) {
		return &told
	}
	st, _ := b.in.bench.await(ctx)
	return st
}

// benchOn begins it and returns when it is on, or with args.Stay, when it has
// ended.
func (b *backend) benchOn(ctx context.Context, args *api.BenchArgs, tell func(*api.Bench) error) (any, error) {
	m := &b.in.bench
	if err := b.benchMay(ctx, args); err != nil {
		return nil, err
	}
	if !m.begin() {
		return nil, b.benchBusy(ctx)
	}
	failed := make(chan error, 1)
	go func() {
		err := errors.New("a fault in gwinit; gwctl logs has it")
		defer func() { failed <- err }()
		defer b.in.survive("bench mode")
		err = b.bench(args)
	}()
	if args.Stay {
		defer b.benchControl("false") // it is gone, or the mode is over
	}
	st, err := m.await(ctx)
	for told := false; err == nil; {
		if tell != nil {
			if err := tell(st); err != nil {
				return nil, err
			}
		}
		if st.State == api.BenchIsOn && !args.Stay {
			return st, nil
		}
		if st.State == api.BenchIsOn {
			if st, err = m.await(ctx, api.BenchIsOff); err != nil {
				return nil, err
			}
		}
		if st.State == api.BenchIsOff {
			if err := <-failed; err != nil {
				return nil, err
			}
			return st, nil
		}
		if st, err = m.await(ctx, api.BenchSettling, api.BenchIsOff); err != nil || st.State == api.BenchIsOff {
			continue
		}
		if args.Stay && !told {
			told = true
			b.benchControl("true")
		}
		// It says when it will have settled, and is not disturbed before.
		if st = b.benchState(ctx); st.State == api.BenchSettling {
			rest, cancel := context.WithTimeout(ctx, time.Duration(st.Measuring*float64(time.Second))+benchLate)
			_, _ = m.await(rest, api.BenchIsOff)
			cancel()
			st, err = b.benchState(ctx), ctx.Err()
		}
	}
	return nil, err
}

// benchControl tells it whether the control connection is there.
func (b *backend) benchControl(there string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, _ = b.sup.Call(ctx, svcBench, "control", []byte(there)) // it has ended otherwise
}

// benchBusy is the refusal of a second one.
func (b *backend) benchBusy(ctx context.Context) error {
	st := b.benchState(ctx)
	return refused(api.CodeBusy, "bench mode is %s already, for %s, and ends by itself in %.0f s; gwctl bench-mode off ends it",
		st.State, cmp.Or(st.Peer, "everybody"), st.Left)
}

func refused(code, format string, a ...any) error {
	return &api.Error{Code: code, Message: fmt.Sprintf(format, a...)}
}

// benchMay says why it may not begin now.
func (b *backend) benchMay(ctx context.Context, args *api.BenchArgs) error {
	if b.in.bench.is() {
		return b.benchBusy(ctx)
	}
	if b.in.stopping() {
		return refused(api.CodeBusy, "the box is shutting down")
	}
	if _, err := os.Stat(b.in.bench.path(api.TrialPath)); err == nil {
		return refused(api.CodeBusy, "an update is on trial, which bench mode would disturb: wait until it is kept")
	}
	for _, s := range b.sup.Snapshot() {
		if s.Name == svcUserdata && (s.State == supervisor.Starting || s.State == supervisor.Waiting) {
			return refused(api.CodeBusy, "the box is still booting: try again in a few seconds")
		}
	}
	if owner, _ := radiolock.Look(b.in.bench.root); owner.Name != "" && owner.Name != svcBridge && owner.Name != "otbr" {
		return refused(api.CodeBusy, "the radio is in use by %s (process %d): bench mode would break that off; wait for its end", owner.Name, owner.PID)
	}
	var n api.SSH
	if text, err := os.ReadFile(b.in.bench.path(api.SSHPath)); err == nil && json.Unmarshal(text, &n) == nil && n.Open > 1 {
		return refused(api.CodeBusy, "%d SSH sessions are open: end all but the one that turns bench mode on", n.Open)
	}
	var bridge api.Bridge
	if !args.Drop && b.ask(ctx, svcBridge, "status", &bridge) && bridge.Client != nil {
		return refused(api.CodeConfirm, "%s is connected to the radio and would be disconnected; -y is a yes", bridge.Client.Addr)
	}
	return nil
}

// bench is the life of bench mode: it returns when everything is as it was before.
// An error is why it did not come about.
func (b *backend) bench(args *api.BenchArgs) (err error) {
	m := &b.in.bench
	// within is for a step of it.
	within := func(d time.Duration, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		defer cancel()
		return f(ctx)
	}
	// What somebody has set of the driver for now only is not in the settings.
	var eth api.Ethernet
	tuned := within(benchAnswer, func(ctx context.Context) error {
		answer, err := b.sup.Call(ctx, svcCore, "eth", nil)
		if err == nil {
			err = json.Unmarshal(answer, &eth)
		}
		return err
	}) == nil && !eth.Kept
	file := api.BenchFile{Args: *args}
	defer func() {
		why := ""
		if err != nil {
			why = err.Error()
		}
		m.set(api.BenchRestoring, why)
		_ = os.Remove(m.path(api.BenchPath))
		b.sup.Release()
		_ = within(benchRestore, func(ctx context.Context) error {
			for _, name := range file.Stopped {
				if err := b.sup.AwaitUp(ctx, name); err != nil {
					b.in.logf("bench mode: %v", err)
				}
			}
			if tuned {
				params, _ := json.Marshal(api.EthSet{Profile: eth.Profile, Knobs: &eth.Knobs, Qdisc: eth.Qdisc.Wanted})
				if _, err := b.sup.Call(ctx, svcCore, "eth-set", params); err != nil {
					b.in.logf("bench mode: the driver's tuning is that of the settings: %v", err)
				}
			}
			return nil
		})
		m.set(api.BenchIsOff, "")
		b.in.logf("bench mode is off")
	}()

	b.in.logf("bench mode: services are stopped")
	var left []string
	_ = within(benchHold, func(ctx context.Context) error {
		file.Stopped, left = b.sup.Hold(ctx, svcBench, svcSSHD, svcConsole)
		return nil
	})
	if left != nil {
		return refused(api.CodeFailed, "bench mode did not begin: after %v there is still %s", benchHold, strings.Join(left, ", "))
	}
	for _, s := range b.sup.Snapshot() {
		if s.PID != 0 {
			file.Kept = append(file.Kept, s.PID)
		}
	}
	text, err := json.Marshal(file)
	if err == nil {
		err = os.WriteFile(m.path(api.BenchPath), text, 0o600) // memory
	}
	if err == nil {
		err = within(supervisor.DefaultReadyTimeout+benchGrace, func(ctx context.Context) error { return b.sup.Start(ctx, svcBench) })
	}
	if err != nil {
		return refused(api.CodeFailed, "bench mode did not begin: %v", cmp.Or(b.benchWhy(), err.Error()))
	}
	defer rest()()
	m.set(api.BenchSettling, "")
	why := "its time was over, and it did not end by itself"
	if within(time.Duration(args.Seconds)*time.Second+benchGrace, func(ctx context.Context) error { return b.sup.AwaitEnd(ctx, svcBench) }) == nil {
		why = cmp.Or(b.benchWhy(), "its process ended: "+b.service(svcBench).LastExit)
	} else if err := within(benchHold, func(ctx context.Context) error { return b.sup.Stop(ctx, svcBench) }); err != nil {
		b.in.logf("bench mode: %v", err)
	}
	m.set("", why)
	return nil
}

// rest keeps this process from collecting garbage, which it does every two minutes
// even if there is none, until what it returns is called. What the heap may grow to
// is bounded all the same.
func rest() (end func()) {
	debug.SetMemoryLimit(benchMemory)
	debug.SetGCPercent(-1)
	return func() {
		debug.SetGCPercent(gcPercent)
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// benchWhy is why its process has ended, in its own words, or "".
func (b *backend) benchWhy() string {
	if why, ok := strings.CutPrefix(b.service(svcBench).Status, api.BenchEnded); ok {
		return why
	}
	return ""
}
