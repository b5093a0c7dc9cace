//go:build linux

// Package kernelengine is the bridge's engine "kernel": the in-kernel driver
// carries the bytes and has the TCP port, this package arms it, watches it and
// says what it counts.
//
// It holds the radio's lock while the driver is armed, and nothing else of the
// data path. The driver has one IPv4 port and one client; first bytes, takeover
// policy and SSH on that port are the engine "user"'s alone. Package kernelbridge
// has the driver's parameters, radiouart the way to the UART.
//
// Run's goroutine arms and disarms. Calls from others (Status, Configure, Release,
// Take) share the state by a mutex that is not held over an access to the driver,
// which may block for a second.
package kernelengine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
	"gwinit/internal/radiouart"
)

// Limits are the engine's times. Tests shorten them.
type Limits struct {
	// Watch is how often armed and the counters are read.
	Watch time.Duration
	// Alarm is how often losses are reported at most.
	Alarm time.Duration
	// Answer bounds a reading of the counters for a status. The driver answers
	// at once but while a radio pin is pulsed.
	Answer time.Duration
	// RetryMin and RetryMax bound the back-off between attempts to arm.
	RetryMin, RetryMax time.Duration
}

// DefaultLimits returns the limits of the product.
func DefaultLimits() Limits {
	return Limits{
		Watch:    5 * time.Second,
		Alarm:    time.Minute,
		Answer:   400 * time.Millisecond,
		RetryMin: 100 * time.Millisecond,
		RetryMax: 5 * time.Second,
	}
}

// Options say what an Engine does. All but Changed must be set.
type Options struct {
	Root     string // file-system root for the lock, /proc/sys and /run
	Driver   *kernelbridge.Driver
	Settings kernelbridge.Settings
	Owner    string // the name to hold the radio's lock under
	Released string // the reason to give while the radio is lent
	Loan     *radiolock.Loan
	Log      func(string)
	// Changed hears in a line for people that the driver was armed, or why not.
	Changed func(armed bool, detail string)
	Limits  Limits
}

// ErrEnded is returned by calls after Run has ended.
var ErrEnded = errors.New("the bridge is not running")

// Engine runs the driver. Make it with New, then call Run once.
type Engine struct {
	o    Options
	uart *radiouart.UART
	done chan struct{}     // closed when Run has ended
	asks chan chan<- error // for the counters to be read

	// Of Run's goroutine.
	alarmed   kernelbridge.Stats // as of the last alarm
	nextAlarm time.Time
	silent    bool // the driver did not answer, and that was said

	setup sync.Mutex // held while the driver is set up, so that settings are not passed over

	mu       sync.Mutex // guards the following
	settings kernelbridge.Settings
	idle     chan struct{} // closed while the UART is not ours
	arming   int           // counts armings
	armed    bool
	why      string             // it is not armed
	flow     string             // in effect
	seed     string             // flow control that the driver had before us
	clamped  bool               // hw became sw
	before   kernelbridge.Stats // of armings before this one
	last     kernelbridge.Stats // read last of this one
	lossy    string             // what was lost in the last interval
	refused  string             // a setting that the driver did not take while armed
}

// New returns the engine, or kernelbridge.ErrSettings for settings that the
// driver cannot do.
func New(o Options) (*Engine, error) {
	if err := o.Settings.Check(); err != nil {
		return nil, err
	}
	e := &Engine{
		o: o, uart: radiouart.With(o.Root, o.Driver), done: make(chan struct{}), asks: make(chan chan<- error),
		settings: o.Settings, idle: make(chan struct{}), why: "not armed yet",
	}
	close(e.idle)
	return e, nil
}

// Why a run of the driver ended.
var (
	errDisarmed = errors.New("somebody has disarmed it")
	errLent     = errors.New("lent")
)

// notArmed begins what is said of a driver that is not armed.
const notArmed = "the kernel's bridge is not armed: "

// Run arms the driver, again whenever it is not, until ctx ends; then the
// driver is disarmed and the radio's lock given up. It returns nil, or
// ErrStillArmed when the driver would not let go.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	var helper sync.WaitGroup
	counting, cancel := context.WithCancel(ctx)
	helper.Go(func() { e.counter(counting) })
	defer helper.Wait()
	defer cancel()

	backoff := e.o.Limits.RetryMin
	reported := ""
	for {
		began, arming := time.Now(), e.arming // which only this goroutine changes
		err, kept := e.session(ctx)
		if ctx.Err() != nil {
			return kept
		}
		if kept != nil {
			err = errors.Join(err, kept)
		}
		if e.arming != arming {
			reported = ""
		}
		text := err.Error()
		lent := err == errLent
		if lent {
			text = e.o.Released
		}
		e.set(func() { e.why = text })
		if text != reported {
			reported = text
			e.o.Log(notArmed + text)
			e.say(false, notArmed+text)
		}
		if lent {
			if e.o.Loan.Wait(ctx) != nil {
				return nil
			}
			reported, backoff = "", e.o.Limits.RetryMin
			e.set(func() { e.why = "not armed again yet" })
			continue
		}
		if time.Since(began) > e.o.Limits.RetryMax {
			backoff = e.o.Limits.RetryMin // it lasted
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		backoff = min(2*backoff, e.o.Limits.RetryMax)
	}
}

// session is the radio's time with us: from the lock to its release. why tells
// what ended it, nil: ctx did; kept, why something was not given up.
func (e *Engine) session(ctx context.Context) (why, kept error) {
	// Before the look at the loan: who lends the radio after that waits for idle.
	e.set(func() { e.idle = make(chan struct{}) })
	defer e.set(func() { close(e.idle) })
	if e.o.Loan.Left() > 0 {
		return errLent, nil
	}
	held, why := e.uart.Take(ctx, e.o.Owner) // INV 5
	if why != nil {
		return why, nil
	}
	if why = e.arm(ctx); why == nil {
		why = e.watch(ctx)
	}
	return why, errors.Join(e.giveUp(ctx), held.Release())
}

func (e *Engine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *Engine) say(armed bool, detail string) {
	if e.o.Changed != nil {
		e.o.Changed(armed, detail)
	}
}

// arm sets the driver up and arms it: everything before enable is written.
func (e *Engine) arm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, radiouart.DisarmLimit)
	defer cancel()
	e.setup.Lock()
	defer e.setup.Unlock()
	e.prepare(ctx)
	s := e.wanted()
	flow, err := e.o.Driver.Configure(ctx, s)
	if err == nil {
		err = e.o.Driver.Arm(ctx)
	}
	if err != nil {
		return err
	}
	e.set(func() {
		e.before, e.last = e.before.Plus(e.last), kernelbridge.Stats{} // the driver's are 0 now
		e.arming++
		e.armed, e.why, e.refused = true, "", ""
	})
	e.settled(s, flow)
	return nil
}

// wanted are the settings with what the driver had before in place of what is
// not set.
func (e *Engine) wanted() kernelbridge.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.settings
	if s.Flow == "" {
		s.Flow = e.seed
	}
	return s
}

// settled says what the driver has now.
func (e *Engine) settled(s kernelbridge.Settings, flow string) {
	clamped := s.Flow != "" && s.Flow != flow
	var news bool
	e.set(func() {
		news = clamped && !e.clamped
		e.flow, e.clamped = flow, clamped
	})
	detail := "the kernel's bridge has " + s.TTY + " at " + strconv.Itoa(s.Baud) + " baud, flow control " + flow + ", on " + s.Address().String()
	e.o.Log(detail)
	if news {
		e.o.Log(clampNote)
	}
	e.say(true, detail)
}

// clampNote is what is said where FIRMWARE_FLOW_CTRL=hw came to sw.
const clampNote = "flow control sw is used in place of hw: by its device tree this board has no wires for RTS and CTS"

// prepare shortens the kernel's times for dead connections, and notes what the
// box had before. A failure is no reason to be without a radio (INV 11).
func (e *Engine) prepare(ctx context.Context) {
	b, err := readBefore(e.o.Root)
	if err != nil {
		e.o.Log(err.Error())
	}
	if b == nil {
		b = make(before)
	}
	if b[flowBefore] == "" {
		if flow, err := e.o.Driver.FlowControl(ctx); err == nil {
			b[flowBefore] = flow
		}
	}
	e.set(func() { e.seed = b[flowBefore] })
	if err := b.shorten(e.o.Root); err != nil {
		e.o.Log("a client whose host vanishes keeps the port for hours: " + strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// giveUp disarms the driver and restores the box. The lock is given up after
// it, in any case: it would die with the process.
func (e *Engine) giveUp(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	// What came since the last look, if the driver says it soon.
	counting, cancel := context.WithTimeout(ctx, e.o.Limits.Answer)
	_ = e.count(counting)
	cancel()
	ctx, cancel = context.WithTimeout(ctx, radiouart.DisarmLimit)
	defer cancel()
	e.set(func() { e.armed = false })
	was, err := e.o.Driver.Disarm(ctx)
	if err != nil {
		return err
	}
	if was {
		e.o.Log("the kernel's bridge is disarmed")
	}
	if err := restore(ctx, e.o.Root, e.o.Driver); err != nil {
		e.o.Log(err.Error())
	}
	return nil
}

// Restore puts back what an engine has changed that was killed, if there was
// one. Nobody may be running the driver.
func Restore(ctx context.Context, root string) error {
	d, err := kernelbridge.Detect(root)
	if errors.Is(err, kernelbridge.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	return restore(ctx, root, d)
}

func restore(ctx context.Context, root string, d *kernelbridge.Driver) error {
	b, err := readBefore(root)
	if err != nil || b == nil {
		return err
	}
	err = b.restore(root)
	if flow := b[flowBefore]; flow != "" {
		err = errors.Join(err, d.SetFlow(ctx, flow))
	}
	if err = errors.Join(err, forget(root)); err != nil {
		return fmt.Errorf("restore what the box had before the kernel's bridge: %w", err)
	}
	return nil
}

// watch looks after the armed driver until it is not armed any more, the radio
// is lent, or ctx ends.
func (e *Engine) watch(ctx context.Context) error {
	tick := time.NewTicker(e.o.Limits.Watch)
	defer tick.Stop()
	for {
		// Taken before the look at the loan, so that no change is missed.
		changed := e.o.Loan.Changed()
		if e.o.Loan.Left() > 0 {
			return errLent
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
			if err := e.look(ctx); err != nil {
				return err
			}
		}
	}
}

// look reads armed and the counters.
func (e *Engine) look(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, e.o.Limits.Watch)
	defer cancel()
	armed, err := e.o.Driver.Armed(within)
	if err == nil && !armed {
		return errDisarmed
	}
	if err == nil {
		err = e.ask(within)
	}
	if err != nil && ctx.Err() == nil && !e.silent {
		e.o.Log("the kernel's bridge cannot be watched: " + err.Error())
	}
	e.silent = err != nil
	e.alarm(time.Now())
	return nil
}

// alarm reports what the driver has lost since the last time, once an interval
// at most. What came while nobody was connected is no loss.
func (e *Engine) alarm(now time.Time) {
	if now.Before(e.nextAlarm) {
		return
	}
	total := e.total()
	lost, _ := total.Since(e.alarmed)
	text := losses(lost)
	if text != "" {
		text = "the kernel's bridge has lost " + text + "; the engine user holds back instead: gwctl config set radio.BRIDGE_ENGINE=user"
		e.alarmed, e.nextAlarm = total, now.Add(e.o.Limits.Alarm)
		e.o.Log(text)
	}
	e.set(func() { e.lossy = text })
}

// losses names what of s is lost, "" when nothing is.
func losses(s kernelbridge.Stats) string {
	var all []string
	for _, l := range [...]struct {
		n    uint64
		what string
	}{
		{s.DropsErr, "bytes from the radio, which the client did not take in time (drops_err)"},
		{s.DropsTx, "bytes to the radio, which the UART did not take in time (drops_tx)"},
		{s.TxPauseTimeouts, "times its patience with an XOFF of the radio (tx_pause_timeouts)"},
	} {
		if l.n > 0 {
			all = append(all, strconv.FormatUint(l.n, 10)+" "+l.what)
		}
	}
	return strings.Join(all, ", ")
}

// total are the counters of all armings.
func (e *Engine) total() kernelbridge.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.before.Plus(e.last)
}

// counter reads the counters when asked to. It is the only one, on a goroutine
// of its own: the driver may be in a pulse, and nobody else waits longer than
// they want.
func (e *Engine) counter(ctx context.Context) {
	for {
		select {
		case answer := <-e.asks:
			within, cancel := context.WithTimeout(ctx, e.o.Limits.Watch)
			answer <- e.count(within)
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// ask has the counters read, and waits for that until ctx ends.
func (e *Engine) ask(ctx context.Context) error {
	answer := make(chan error, 1) // buffered: it may come late
	select {
	case e.asks <- answer:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count reads the counters of an armed driver.
func (e *Engine) count(ctx context.Context) error {
	e.mu.Lock()
	arming, armed := e.arming, e.armed
	e.mu.Unlock()
	if !armed {
		return nil
	}
	s, err := e.o.Driver.Stats(ctx)
	if err != nil {
		return err
	}
	e.set(func() {
		if e.arming != arming {
			return // of the arming before, which is counted already
		}
		if _, grown := s.Since(e.last); !grown {
			e.before = e.before.Plus(e.last) // somebody else has armed it anew
		}
		e.last = s
	})
	return nil
}

// Configure has the driver work with other settings from now on. The client
// stays where the driver can do that. Settings that the driver cannot do are
// kernelbridge.ErrSettings, and nothing changes.
func (e *Engine) Configure(ctx context.Context, s kernelbridge.Settings) error {
	if err := s.Check(); err != nil {
		return err
	}
	e.setup.Lock()
	defer e.setup.Unlock()
	ctx, cancel := context.WithTimeout(ctx, radiouart.DisarmLimit)
	defer cancel()
	var armed bool
	e.set(func() { e.settings, armed = s, e.armed })
	if !armed {
		return nil // the next arming has them
	}
	s = e.wanted()
	flow, err := e.o.Driver.Configure(ctx, s)
	if err != nil {
		if armed, aerr := e.o.Driver.Armed(ctx); aerr == nil && !armed {
			// It could not go back to what it had; watch sees that and arms it.
			return fmt.Errorf("the kernel's bridge ended over a setting and is armed again with it: %w", err)
		}
		err = fmt.Errorf("a setting is not used, the one before is: %w", err)
		e.set(func() { e.refused = err.Error() })
		return err
	}
	e.set(func() { e.refused = "" })
	e.settled(s, flow)
	return nil
}

// Release disarms the driver and gives the radio's lock up, for d or until
// Take. It returns when another program can have the UART.
func (e *Engine) Release(ctx context.Context, d time.Duration) error {
	if err := e.o.Loan.Begin(d); err != nil {
		return err
	}
	e.o.Log("the radio is released for " + d.String() + " at most")
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	select {
	case <-idle:
	case <-e.done:
		return errors.Join(ErrEnded, e.o.Loan.End())
	case <-ctx.Done():
		return fmt.Errorf("the kernel's bridge is not disarmed yet: %w", ctx.Err())
	}
	if armed, err := e.o.Driver.Armed(ctx); err != nil || armed {
		return fmt.Errorf("the kernel's bridge has not given the UART up: armed %v, %w", armed, errors.Join(err, kernelbridge.ErrStillArmed))
	}
	return nil
}

// Take ends a release. The driver is armed again at once, or as soon as nobody
// else holds the UART.
func (e *Engine) Take(context.Context) error {
	if e.o.Loan.Left() > 0 {
		e.o.Log("the radio is taken back")
	}
	return e.o.Loan.End()
}

// Lent returns for how long the radio is still released, 0 when it is not.
func (e *Engine) Lent() time.Duration { return e.o.Loan.Left() }

// Status returns what the driver counts, in all armings of this process. When
// the driver does not answer in time the numbers are those read last.
func (e *Engine) Status(ctx context.Context) (api.Bridge, error) {
	select {
	case <-e.done:
		return api.Bridge{}, ErrEnded
	default:
	}
	within, cancel := context.WithTimeout(ctx, e.o.Limits.Answer)
	defer cancel()
	late := e.ask(within)
	total := e.total()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := api.Bridge{
		Engine: config.EngineKernel,
		Listen: e.settings.Address().String(), UART: e.settings.TTY, UARTOpen: e.armed, UARTErr: e.why,
		Baud: e.settings.Baud, Flow: e.flow,
		RxBytes: total.Rx, TxBytes: total.Tx, Discarded: total.DropsNoClient,
		Kernel: &api.BridgeKernel{
			DropsErr: total.DropsErr, DropsTx: total.DropsTx,
			XOFF: total.XOFF, XON: total.XON, TxPauseTimeouts: total.TxPauseTimeouts,
		},
	}
	if e.flow == "" {
		s.Flow = e.settings.Flow
	}
	for _, w := range []string{e.lossy, e.refused} {
		if w != "" {
			s.Warnings = append(s.Warnings, w)
		}
	}
	if e.clamped {
		s.Warnings = append(s.Warnings, clampNote)
	}
	if late != nil {
		s.Warnings = append(s.Warnings, "the kernel's bridge does not answer, its counters are those read last: "+late.Error())
	}
	return s, nil
}
