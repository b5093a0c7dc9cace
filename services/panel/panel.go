//go:build linux

package panel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/factoryreset"
	"gwinit/internal/gpio"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
)

// EnrolPath says until when a key may be enrolled over SSH because somebody
// pressed the button: nanoseconds of the monotonic clock, in decimal, and a
// line end. Who has enrolled one removes it, which ends the time.
const EnrolPath = "/run/enrol-until"

// Timing.
const (
	enrolFor = 3 * time.Minute
	// lookEvery is how often what the LEDs show is looked at.
	lookEvery = 2 * time.Second
	// patience is for an address: a boot shows no fault before.
	patience = time.Minute
	// driverWait is for the kernel's bridge driver, which may be pulsing a pin.
	driverWait = 3 * time.Second
	// debounce is what a line with an interrupt is asked for.
	debounce = 20 * time.Millisecond
)

// Box is the rest of the box, by its control socket.
type Box interface {
	// Client tells whether a client has the radio.
	Client(ctx context.Context) (bool, error)
	// Release has the bridge leave the UART for d at most, Take ends that.
	Release(ctx context.Context, d time.Duration) error
	Take(ctx context.Context) error
	// Reboot reboots, in a mode if one is named.
	Reboot(ctx context.Context, mode string) error
}

// Options is what a Service works on. Root, Kernel, Box, Uptime, Edges and Log
// have the box's for their zero value.
type Options struct {
	Root     string // file system root
	Board    rtl8196e.Board
	BootMode string // as api.EnvBootMode gives it
	Port     int    // that radio clients connect to
	Kernel   gpio.Kernel
	Box      Box
	// Online tells whether the box has an address. Nil: it has.
	Online func() bool
	// Uptime is the monotonic clock, since the start of the box.
	Uptime func() time.Duration
	// Edges tells of each change of a line with an interrupt, until end.
	Edges func(fd int) (changes <-chan struct{}, end func())
	Log   func(string)
	// Bench, if set, is bench mode: the LED shows it, a press calls Bench, and
	// nothing else is looked at.
	Bench func()
}

// facts are what the LEDs tell.
type facts struct {
	client, failed, online, trial, bench bool
}

// healthy is what is taken to be so until somebody has looked.
var healthy = facts{online: true}

// Service runs the panel.
type Service struct {
	opt    Options
	reload chan struct{}

	// Of Run's goroutine.
	line    *gpio.Line
	changes <-chan struct{} // nil: it is sampled
	button  button
	lamp    *lamp
	facts   facts
	busy    bool // an operation is under way
	done    chan struct{}
	enrol   time.Duration // until then; 0: not open

	mu     sync.Mutex // guards the following
	status api.Panel
	kernel bool // the driver in the kernel has the radio, as it is set
	thread bool // the Thread border router has it, as it is set
}

// New returns the service; nothing happens before Run.
func New(o Options) *Service {
	if o.Kernel == nil {
		o.Kernel = gpio.System{}
	}
	if o.Box == nil {
		o.Box = control{}
	}
	if o.Online == nil {
		o.Online = func() bool { return true }
	}
	if o.Uptime == nil {
		o.Uptime = uptime
	}
	if o.Edges == nil {
		o.Edges = edges
	}
	if o.Log == nil {
		o.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	return &Service{opt: o, reload: make(chan struct{}, 1), done: make(chan struct{}, 1), facts: healthy}
}

// Reload has leds.conf and the bridge's engine read again. It does not block.
func (s *Service) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is under way
	}
}

// Status returns what there is and what is shown.
func (s *Service) Status() api.Panel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// change changes the status.
func (s *Service) change(f func(*api.Panel)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Service) path(name string) string { return filepath.Join("/", s.opt.Root, name) }

// Run works until ctx ends. What is missing is reported and does without
// (INV 11).
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()

	s.openLED()
	end := s.openButton()
	defer end()
	if s.opt.Bench != nil {
		s.settings(ctx)
		s.runBench(ctx)
		return nil
	}
	s.button.powerUp = s.first() && s.opt.BootMode != "factory"
	s.settings(ctx)
	s.enrol = s.enrolUntil() // of core's process before

	found := make(chan facts)
	others.Go(func() { s.watch(ctx, found) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.changes:
		case f := <-found:
			s.facts = f
		case <-s.done:
			s.busy = false
		case <-s.reload:
			s.settings(ctx)
		}
		wait := s.sample(ctx, &others)
		now := s.opt.Uptime()
		if s.enrol > 0 && (now >= s.enrol || s.enrolUntil() == 0) {
			s.enrol = 0
			s.opt.Log("panel: the time to enrol a key is over")
		}
		s.show(now)
		if s.lamp != nil {
			wait = min(wait, s.lamp.next(now))
		}
		if s.enrol > 0 {
			wait = min(wait, lookEvery)
		}
		timer.Reset(wait)
	}
}

// first tells whether this is the panel's first start in this boot. A press
// that core's restart meets is not one from power-up.
func (s *Service) first() bool {
	f, err := os.OpenFile(s.path("run/panel.started"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// openButton takes the button's line.
func (s *Service) openButton() (end func()) {
	end = func() {}
	fail := func(why string) {
		s.change(func(p *api.Panel) { p.ButtonProblem = why })
		s.opt.Log("panel: the button does nothing: " + why)
	}
	want, ok := s.opt.Board.GPIO.Line(rtl8196e.LineButton)
	if !ok {
		fail("this board's data has none")
		return end
	}
	open := func(mode gpio.Mode, d time.Duration) (*gpio.Line, error) {
		return gpio.Open(s.opt.Kernel, s.opt.Root, s.opt.Board.GPIO, want, s.opt.Board.ID != rtl8196e.Unknown, mode, d, "gw panel")
	}
	how := "by its interrupt"
	line, err := open(gpio.Edges, debounce)
	if err != nil && !errors.Is(err, gpio.ErrNoChip) && !errors.Is(err, gpio.ErrNoLine) && !errors.Is(err, gpio.ErrInUse) {
		how = "10 times a second"
		line, err = open(gpio.Input, 0)
	} else if err == nil {
		s.changes, end = s.opt.Edges(line.FD())
	}
	if err != nil {
		fail(err.Error())
		return end
	}
	s.line = line
	text := fmt.Sprintf("%s line %d, looked at %s", line.Chip, line.Number, how)
	s.change(func(p *api.Panel) { p.Button = text })
	stop := end
	return func() { stop(); line.Close() }
}

// openLED finds the LEDs.
func (s *Service) openLED() {
	for _, l := range s.opt.Board.LEDs {
		var err error
		if l.Class != "" {
			var lamp *lamp
			if lamp, err = openLamp(s.path(l.Class)); err == nil {
				s.lamp = lamp
			}
		} else {
			_, err = os.Stat(s.path(l.Switch))
		}
		s.change(func(p *api.Panel) {
			if err == nil {
				p.LEDs = append(p.LEDs, l.Name)
			} else {
				p.Missing = append(p.Missing, l.Name)
			}
		})
	}
}

// settings takes over what leds.conf says, and whose the radio is.
func (s *Service) settings(ctx context.Context) {
	leds, _ := config.LoadLEDs(s.opt.Root)
	radio, _ := config.LoadRadio(s.opt.Root, s.opt.Board)
	s.mu.Lock()
	s.thread = radio.Mode == config.ModeOTBR
	s.kernel = radio.KernelEngine && !s.thread
	s.status.Mode = leds.Mode
	s.mu.Unlock()
	if s.lamp != nil {
		s.lamp.setMode(leds.Mode)
	}
	for _, l := range s.opt.Board.LEDs {
		if l.Switch == "" {
			continue
		}
		path := s.path(l.Switch)
		if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) != leds.Mode {
			s.report(writeFile(path, leds.Mode))
		}
	}
	d, err := kernelbridge.Detect(s.opt.Root)
	if errors.Is(err, kernelbridge.ErrAbsent) {
		return
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, driverWait)
		defer cancel()
		err = d.SetLED(ctx, brightness(leds.Mode))
	}
	s.report(err)
}

// report logs an error of an LED.
func (s *Service) report(err error) {
	if err != nil {
		s.opt.Log("panel: LED: " + err.Error())
	}
}

// sample looks at the button and carries out what follows. It returns in how
// long it has to look again.
func (s *Service) sample(ctx context.Context, others *sync.WaitGroup) time.Duration {
	if s.line == nil {
		return never
	}
	pressed, err := s.line.Active()
	if err != nil {
		s.line, s.changes = nil, nil
		s.change(func(p *api.Panel) { p.Button, p.ButtonProblem = "", err.Error() })
		s.opt.Log("panel: the button does nothing any more: " + err.Error())
		return never
	}
	now := s.opt.Uptime()
	for _, e := range s.button.step(now, pressed) {
		s.opt.Log("panel: button: " + e.text())
		s.act(ctx, e, others)
	}
	if s.changes == nil {
		return sampleEvery
	}
	return s.button.next(now)
}

// text is an event in the log.
func (e event) text() string {
	held := e.held.Round(100 * time.Millisecond).String()
	switch e.kind {
	case evHeldForRadio:
		return "held for " + held + ": let go now to reset the radio"
	case evHeldForReset:
		return "held for " + held + ": let go now for a factory reset, which one more press confirms"
	case evHeldForBoot:
		return "held since power-up: let go now to start the factory copy"
	case evPress:
		return "pressed for " + held + ", " + strconv.Itoa(e.count) + " of 3 that let a key be enrolled"
	case evEnrol:
		return "pressed three times: a key can be enrolled over SSH for " + enrolFor.String()
	case evRadio:
		return "held for " + held + ": the radio is reset"
	case evAskReset:
		return "held for " + held + ": a press of 1 to 3 s within " + confirmAfter.String() + " makes the factory reset"
	case evReset:
		return "the factory reset is confirmed"
	case evNoReset:
		return "the factory reset was not confirmed: nothing is done"
	case evFactoryBoot:
		return "held since power-up, for " + held + ": the factory copy is started"
	case evStuck:
		return "held for " + held + ", stuck or short-circuited: nothing is done until it is let go and pressed anew"
	case evLost:
		return "the box was too busy to see whether it was held all the time: nothing is done"
	case evShort:
		return "pressed for " + held + ", too short to mean anything (1 s)"
	}
	return "held for " + held + ", which means nothing (5 s: reset the radio, 20 s: factory reset)"
}

// act carries an event out.
func (s *Service) act(ctx context.Context, e event, others *sync.WaitGroup) {
	var run func(context.Context) error
	switch e.kind {
	case evRadio:
		run = s.resetRadio
	case evReset:
		run = func(ctx context.Context) error {
			if err := factoryreset.Request(s.opt.Root); err != nil {
				return err
			}
			return s.opt.Box.Reboot(ctx, "")
		}
	case evFactoryBoot:
		run = func(ctx context.Context) error { return s.opt.Box.Reboot(ctx, "factory") }
	case evEnrol:
		if err := s.openEnrolment(); err != nil {
			s.opt.Log("panel: " + err.Error())
		}
		return
	default:
		return
	}
	if s.busy {
		s.opt.Log("panel: the last wish of the button is still under way: nothing is done")
		return
	}
	s.busy = true
	others.Go(func() {
		if err := run(ctx); err != nil {
			s.opt.Log("panel: " + err.Error())
		}
		s.done <- struct{}{}
	})
}

// openEnrolment leaves the time for who enrols keys.
func (s *Service) openEnrolment() error {
	until := s.opt.Uptime() + enrolFor
	path := s.path(EnrolPath)
	text := strconv.FormatInt(int64(until), 10) + "\n"
	// Replaced, so that a reader sees a whole one.
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("let a key be enrolled: %w", err)
	}
	s.enrol = until
	return nil
}

// enrolUntil is when the time to enrol a key ends; 0: there is none, or somebody
// has ended it.
func (s *Service) enrolUntil() time.Duration {
	b, err := os.ReadFile(s.path(EnrolPath))
	if err != nil {
		return 0
	}
	ns, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return time.Duration(ns)
}

// show has the LED show what is to be seen now.
func (s *Service) show(now time.Duration) {
	want := s.pattern(now)
	s.change(func(p *api.Panel) {
		p.Pattern, p.Enrol = want.name, max(0, (s.enrol-now).Seconds())
	})
	if s.lamp == nil {
		return
	}
	failing := s.lamp.err != nil
	s.lamp.show(now, want)
	if !failing {
		s.report(s.lamp.err)
	}
}

// pattern picks the most important one.
func (s *Service) pattern(now time.Duration) light {
	if l, ok := s.button.light(); ok {
		return l
	}
	kernel := s.kernelEngine()
	switch {
	case s.enrol > 0:
		return enrolOpen
	case s.facts.failed:
		return failed
	case s.facts.trial:
		return trialUpdate
	case s.facts.bench:
		return benchMode
	case !s.facts.online && now >= patience:
		return noAddress
	case kernel && s.lamp != nil && s.lamp.has(triggerClient):
		return byKernel
	case s.facts.client:
		return lit
	}
	return dark
}

func (s *Service) kernelEngine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kernel
}

// watch finds out what the LEDs tell, in a goroutine of its own: who hangs
// holds up no sample of the button.
func (s *Service) watch(ctx context.Context, found chan<- facts) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	last := healthy
	for {
		f := facts{
			online: s.opt.Online(), client: s.client(ctx, last.client), failed: s.failing(),
			trial: s.there(api.TrialPath), bench: s.there(api.BenchPath),
		}
		if f != last {
			select {
			case found <- f:
			case <-ctx.Done():
				return
			}
			last = f
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// failing tells whether PID 1 has given up a service.
func (s *Service) failing() bool {
	st, err := os.Stat(s.path(api.FailedPath))
	return err == nil && st.Size() > 0
}

func (s *Service) there(name string) bool {
	_, err := os.Stat(s.path(name))
	return err == nil
}

// client tells whether a client has the radio. Only if there are connections at
// all, and it is not known, the bridge is asked whether one of them is.
func (s *Service) client(ctx context.Context, was bool) bool {
	s.mu.Lock()
	thread := s.thread
	s.mu.Unlock()
	if thread {
		return s.attached()
	}
	n := 0
	for _, name := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		b, _ := os.ReadFile(s.path(name)) // a kernel without IPv6 has no tcp6
		n += established(string(b), s.opt.Port)
	}
	switch {
	case n == 0:
		return false
	case s.kernelEngine() || was && n == 1:
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, driverWait)
	defer cancel()
	is, err := s.opt.Box.Client(ctx)
	return is && err == nil
}

// attached tells whether the box is part of a Thread network. The role that the
// border router has left counts as long as it owns the radio.
func (s *Service) attached() bool {
	b, err := os.ReadFile(s.path(api.RolePath))
	if err != nil || !api.Attached(strings.TrimSpace(string(b))) {
		return false
	}
	h, err := radiolock.Look(s.opt.Root)
	return err == nil && h.Name == config.ModeOTBR
}

// established counts the connections to a local port in /proc/net/tcp or tcp6:
// the second column is address:port and the fourth the state, 01 for them.
func established(text string, port int) (n int) {
	end := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "01" && strings.HasSuffix(f[1], end) {
			n++
		}
	}
	return n
}

// uptime is the clock of Options.Uptime on the box.
func uptime() time.Duration {
	now, err := radiolock.Monotonic()
	if err != nil {
		return 0 // no press is old then, and nothing follows from it
	}
	return now
}

// edges reads the events of a line as they come. What they say is not of
// interest: the level is looked at after each.
func edges(fd int) (<-chan struct{}, func()) {
	changes, ended := make(chan struct{}, 1), make(chan struct{})
	// A descriptor of our own: the line's closes its.
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, func() {}
	}
	_ = unix.SetNonblock(own, true) // else the runtime gives it a thread
	f := os.NewFile(uintptr(own), "gpio line")
	go func() {
		defer close(ended)
		b := make([]byte, 16*gpio.EventSize)
		for {
			if _, err := f.Read(b); err != nil {
				return
			}
			select {
			case changes <- struct{}{}:
			default: // there is one that nobody has taken yet
			}
		}
	}()
	return changes, func() { f.Close(); <-ended }
}
