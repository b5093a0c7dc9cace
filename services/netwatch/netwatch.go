package netwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/logring"
)

// Timing.
const (
	firstLook = 10 * time.Second // after the start, or when the network comes
	settle    = 2 * time.Second  // from a change of the network to a look
	// While nobody answers it is looked at more often than POLL_SEC may say, so
	// that the steps come at their times.
	fastest  = 5 * time.Second
	fastPart = 20 // of the time until the reboot
	// resolveEvery is how long the addresses of a name are believed,
	// resolveAgain how soon one is asked for again that brought none.
	resolveEvery = time.Hour
	resolveAgain = time.Minute
)

// mildLimit is the budget of the mild steps within the settings' window. It is
// kept in memory: what it bounds leaves nothing behind that lasts.
var mildLimit = [steps]int{stepRenew: 24, stepLink: 8, stepReboot: 4}

// toldSnapshots is the row of mildLimit for snapshots of steps that were not
// taken: they take flash, too.
const toldSnapshots = stepReboot

// maxAddrs bounds what is asked in one look; a name brings two at most.
const (
	maxAddrs   = 16
	maxPerName = 2
	whyTargets = 3 // named in a line of the log
)

// Box is what the Service asks of PID 1, and through it of other processes.
type Box interface {
	// Bridge returns the bridge's status.
	Bridge(ctx context.Context) (api.Bridge, error)
	// Log returns the newest lines of the log.
	Log(ctx context.Context, lines int) ([]api.LogLine, error)
	// Reboot asks for a reboot; it returns once that is accepted.
	Reboot(ctx context.Context) error
}

// Options is what a Service works on. Renew, Bounce, Network and Writable must
// be given; the zero value of the others is the box.
type Options struct {
	Root      string // file system root; "" is /
	Interface string // default eth0
	Safe      bool   // a safe boot: no hard steps
	Renew     func() // has the DHCP server asked; must not block
	Bounce    func() // has the link set down and up; must not block
	Network   func() api.Network
	// Writable tells why nothing that lasts a reboot can be written, or nil.
	Writable func() error
	Box      Box
	// Uptime is CLOCK_MONOTONIC, which counts from the start of the box.
	Uptime func() time.Duration
	// Wall is the clock's time, for people only.
	Wall func() time.Time
	// Log takes one event, a line without its end.
	Log func(string)

	net network
}

// target is one of the settings.
type target struct {
	spec  string
	name  bool // to be resolved
	addrs []netip.Addr
	tried time.Duration // when it was resolved last; 0: never
	err   error
}

// asked is an address of a look.
type asked struct {
	spec string
	addr netip.Addr // not valid: there is none
	answer
	since time.Duration // when it answered last; 0: not yet
}

// Service watches.
type Service struct {
	opt  Options
	kick chan struct{}

	// Of Run's goroutine.
	cfg     config.Netwatch
	driver  bool
	poll    time.Duration // between two looks
	often   time.Duration // the same, while nobody answers
	targets []target
	budget  budget
	heard   map[netip.Addr]time.Duration // last answers
	counted bool                         // bytes is known
	bytes   uint64                       // that have passed the bridge
	mild    ledger                       // the account of mildLimit
	told    [steps]bool                  // of this outage: what was not done, and why
	spoke   bool                         // of it: the log knows of it
	lastErr string

	mu    sync.Mutex // guards what follows, which Status reads
	m     machine
	link  linkState
	busy  bool
	seen  []asked
	spent ledger // the budget's account, and with it
	why   error  // why no hard step can be taken
	used  ledger // a copy of mild
}

// New returns the service; nothing happens before Run.
func New(opt Options) *Service {
	opt.Interface = cmp.Or(opt.Interface, "eth0")
	if opt.Uptime == nil {
		opt.Uptime = func() time.Duration { mono, _ := logring.System(); return time.Duration(mono) }
	}
	if opt.Wall == nil {
		opt.Wall = time.Now
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	if opt.Box == nil {
		opt.Box = control{}
	}
	if opt.net == nil {
		opt.net = newSystem(opt.Root, opt.Interface)
	}
	return &Service{opt: opt, kick: make(chan struct{}, 1), heard: map[netip.Addr]time.Duration{}}
}

// NetworkChanged has the network looked at soon. It does not block, and is safe
// for concurrent use.
func (s *Service) NetworkChanged() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends, and returns nil then; there is no failure it
// would end for.
func (s *Service) Run(ctx context.Context) error {
	s.load()
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	began, due := time.Time{}, time.Now().Add(firstLook)
	for {
		select {
		case <-ctx.Done():
			if s.cfg.Enabled {
				if err := s.budget.leave(); err != nil {
					s.opt.Log("netwatch: " + err.Error())
				}
			}
			return nil
		case <-s.kick:
			// A network that flaps is not asked all the time, nor never.
			if wait := max(settle, fastest-time.Since(began)); wait < time.Until(due) {
				timer.Reset(wait)
				due = time.Now().Add(wait)
			}
		case <-timer.C:
			began = time.Now()
			wait := s.attend(ctx)
			timer.Reset(wait)
			due = time.Now().Add(wait)
		}
	}
}

// load takes the settings.
func (s *Service) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg, _ = config.LoadNetwatch(s.opt.Root) // what is wrong in them is among core's warnings
	g, _ := config.LoadGateway(s.opt.Root)
	s.driver = g.NetwatchDriver
	n, _ := config.LoadNetwork(s.opt.Root)
	specs := s.cfg.Targets
	if len(specs) == 0 {
		specs = []string{config.TargetGateway}
	}
	for _, spec := range specs {
		t := target{spec: spec}
		if a, err := netip.ParseAddr(spec); err == nil {
			t.addrs = []netip.Addr{withZone(a.Unmap(), s.opt.Interface)}
		} else {
			t.name = spec != config.TargetGateway
		}
		s.targets = append(s.targets, t)
	}
	window := time.Duration(s.cfg.WindowHours) * time.Hour
	s.budget = budget{
		path: filepath.Join("/", s.opt.Root, BudgetPath), window: window, limit: s.cfg.MaxReboots,
		boot: bootID(s.opt.Root), uptime: s.opt.Uptime, writable: s.opt.Writable,
	}
	s.mild = ledger{boot: s.budget.boot, uptime: s.opt.Uptime()}
	hard := s.cfg.Enabled && !s.opt.Safe
	s.poll = time.Duration(s.cfg.PollSeconds) * time.Second
	fail := time.Duration(s.cfg.FailMinutes) * time.Minute
	s.often = min(s.poll, max(fastest, fail/fastPart))
	s.m = machine{
		fail: fail,
		most: 2*s.often + firstLook,
		may:  [steps]bool{stepRenew: n.Static == nil, stepLink: true, stepReboot: hard},
	}
	if hard {
		s.spent, s.why = s.budget.read()
	}
}

// bootID names this boot.
func bootID(root string) string {
	b, err := os.ReadFile(filepath.Join("/", root, "proc/sys/kernel/random/boot_id"))
	if id := strings.TrimSpace(string(b)); err == nil && id != "" && !strings.Contains(id, " ") {
		return id
	}
	// One name for every boot makes steps seem younger, never older.
	return "unknown"
}

// attend looks once, acts on it, and returns when to look again.
func (s *Service) attend(ctx context.Context) time.Duration {
	r, seen, err := s.look(ctx)
	if ctx.Err() != nil {
		return s.poll
	}
	s.note(err)
	if err != nil {
		return s.poll // not known is neither good nor bad
	}
	hard := s.cfg.Enabled && !s.opt.Safe
	var spent ledger
	var why error
	if hard {
		spent, why = s.budget.read()
	}
	s.mild = s.mild.moved(s.budget.boot, r.at)
	s.mu.Lock()
	s.m.may[stepDriver] = hard && s.driver && (s.m.may[stepDriver] || s.opt.net.CanRebind())
	v := s.m.look(r)
	s.link, s.busy, s.seen, s.spent, s.why, s.used = r.link, r.busy, seen, spent, why, s.mild
	m := s.m
	s.mu.Unlock()
	if v.over {
		if s.spoke {
			s.opt.Log(fmt.Sprintf("netwatch: %s, after %v without an answer", end(r), v.lasted.Round(time.Second)))
		}
		s.told, s.spoke = [steps]bool{}, false
	}
	if v.due != nothing {
		s.take(ctx, v.due, m, seen)
	}
	if !m.failing {
		return s.poll
	}
	wait := s.often
	for st := range steps {
		if left, ok := m.until(st); ok && m.may[st] {
			wait = min(wait, max(left, time.Second))
		}
	}
	return wait
}

// end is what has ended an outage.
func end(r round) string {
	switch {
	case r.link != plugged:
		return "the cable is out"
	case r.busy:
		return "a radio client moves bytes"
	}
	return "there is an answer again"
}

// note logs what is in the way of a look, unless it is the last one's
// repetition.
func (s *Service) note(err error) {
	text := ""
	if err != nil {
		text = oneLine(err)
	}
	if text != "" && text != s.lastErr {
		s.opt.Log("netwatch: " + text)
	}
	s.lastErr = text
}

// look asks everybody once.
func (s *Service) look(ctx context.Context) (r round, seen []asked, err error) {
	link, gateways, err := s.opt.net.Look()
	if err != nil {
		return r, nil, err
	}
	r.link = link
	if link == plugged {
		s.resolve(ctx)
		seen, r.targets = s.list(gateways)
		var addrs []netip.Addr
		for _, a := range seen {
			if a.addr.IsValid() {
				addrs = append(addrs, a.addr)
			}
		}
		answers := s.opt.net.Ask(ctx, addrs)
		now := s.opt.Uptime()
		heard := map[netip.Addr]time.Duration{}
		for i := range seen {
			a := &seen[i]
			if !a.addr.IsValid() {
				continue
			}
			a.answer, answers = answers[0], answers[1:]
			if a.how != "" {
				r.answered = true
				s.heard[a.addr] = now
			}
			if a.since = s.heard[a.addr]; a.since > 0 {
				heard[a.addr] = a.since
			}
		}
		s.heard = heard
		if r.answered {
			s.counted = false
		} else {
			r.busy = s.clientMoves(ctx)
		}
	}
	r.at = s.opt.Uptime()
	return r, seen, nil
}

// list is whom to ask, and whether the settings name anybody who is there.
func (s *Service) list(gateways []netip.Addr) (all []asked, any bool) {
	for i := range s.targets {
		t := &s.targets[i]
		addrs := t.addrs
		if t.spec == config.TargetGateway {
			addrs = gateways
		}
		any = any || len(addrs) > 0 || t.name
		if len(addrs) == 0 {
			all = append(all, asked{spec: t.spec, answer: answer{err: t.err}})
		}
		for _, a := range addrs {
			if len(all) < maxAddrs && !slices.ContainsFunc(all, func(b asked) bool { return b.addr == a }) {
				all = append(all, asked{spec: t.spec, addr: a})
			}
		}
	}
	return all, any
}

// resolve looks up the names that it is time for, side by side. A name keeps the
// addresses that it had while nobody knows others.
func (s *Service) resolve(ctx context.Context) {
	var wg sync.WaitGroup
	now := s.opt.Uptime()
	for i := range s.targets {
		t := &s.targets[i]
		silent := !slices.ContainsFunc(t.addrs, func(a netip.Addr) bool { return s.heard[a] > t.tried })
		age := now - t.tried
		if !t.name || t.tried > 0 && (age < resolveAgain || !silent && age < resolveEvery) {
			continue
		}
		t.tried = now
		wg.Go(func() {
			addrs, err := s.opt.net.Resolve(ctx, t.spec)
			if t.err = err; err == nil && len(addrs) > 0 {
				t.addrs = addrs[:min(len(addrs), maxPerName)]
			}
		})
	}
	wg.Wait()
}

// clientMoves tells whether a client of the bridge has moved bytes since the
// look before, which is an answer, too: it came over this network.
func (s *Service) clientMoves(ctx context.Context) bool {
	b, err := s.opt.Box.Bridge(ctx)
	if err != nil || b.Client == nil && b.Engine != "kernel" || b.Client != nil && local(b.Client.Addr) {
		s.counted = false
		return false
	}
	bytes := b.RxBytes + b.TxBytes
	moves := s.counted && bytes > s.bytes
	s.counted, s.bytes = true, bytes
	return moves
}

// local tells whether a client is on the box itself.
func local(addr string) bool {
	a, err := netip.ParseAddrPort(addr)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// acts are the steps, as the log has them behind "netwatch: ... : ".
var acts = [steps]string{
	"asking the DHCP server again", "setting the link down and up", "binding the Ethernet driver anew", "rebooting",
}

// take does a step, or says why not. Each refusal is told once in an outage.
func (s *Service) take(ctx context.Context, what step, m machine, seen []asked) {
	why := s.silence(m, seen)
	refuse := func(text string) {
		if s.told[what] {
			return
		}
		s.told[what], s.spoke = true, true
		text = "netwatch: " + why + ": " + text
		s.opt.Log(text)
		if what.hard() && s.room(toldSnapshots) {
			s.snapshot(ctx, text, m, seen)
		}
	}
	if err := s.permit(what); err != nil {
		if errors.Is(err, errSpent) {
			err = fmt.Errorf("%w (%d in %d h)", err, s.limit(what), s.cfg.WindowHours)
		}
		refuse("no " + what.String() + ", " + oneLine(err))
		return
	}
	if s.cfg.DryRun {
		refuse("not " + acts[what] + ", because DRY_RUN is set")
		return
	}
	text := "netwatch: " + why + ": " + acts[what]
	s.spoke = true
	s.opt.Log(text)
	if what.hard() {
		s.snapshot(ctx, text, m, seen)
	}
	s.mu.Lock()
	s.m.did(what)
	s.used = s.mild
	s.mu.Unlock()
	var err error
	switch what {
	case stepRenew:
		s.opt.Renew()
	case stepLink:
		s.opt.Bounce()
	case stepDriver:
		err = s.opt.net.Rebind()
	case stepReboot:
		err = s.opt.Box.Reboot(ctx)
	}
	if err != nil {
		s.opt.Log("netwatch: " + what.String() + ": " + oneLine(err))
	}
}

// permit draws on the budget of a step, for a hard one in flash before it is
// taken (INV 8). With DRY_RUN it only tells what the budget would say.
func (s *Service) permit(what step) error {
	if !what.hard() {
		if !s.room(what) {
			return errSpent
		}
		return nil
	}
	if !s.cfg.DryRun {
		return s.budget.draw(what)
	}
	l, err := s.budget.read()
	if err == nil && l.used(what, s.budget.window) >= s.budget.limit {
		err = errSpent
	}
	return err
}

// room draws on the account in memory.
func (s *Service) room(what step) bool {
	if s.mild.used(what, s.budget.window) >= mildLimit[what] {
		return false
	}
	s.mild.entries = append(slices.Clip(s.mild.entries), entry{what, 0})
	return true
}

func (s *Service) limit(what step) int {
	if what.hard() {
		return s.budget.limit
	}
	return mildLimit[what]
}

// silence tells who does not answer, and for how long.
func (s *Service) silence(m machine, seen []asked) string {
	var who []string
	for _, a := range seen {
		text := a.spec
		if a.addr.IsValid() && a.addr.String() != a.spec {
			text += " " + a.addr.String()
		}
		who = append(who, text)
	}
	if n := len(who) - whyTargets; n > 0 {
		who = append(who[:whyTargets], fmt.Sprintf("%d more", n))
	}
	lasted := m.failed.Round(time.Second)
	if len(who) == 0 { // no interface, or no carrier since a step of ours
		return fmt.Sprintf("%s has no link, and nobody has answered for %v", s.opt.Interface, lasted)
	}
	return fmt.Sprintf("no answer from %s for %v", strings.Join(who, ", "), lasted)
}

// Status returns what is known. It is safe for concurrent use.
func (s *Service) Status() api.Netwatch {
	incidents := len(s.numbers())
	now := s.opt.Uptime()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.m
	age := min(now-m.last, m.most)
	st := api.Netwatch{
		State: "starting", Enabled: s.cfg.Enabled && !s.opt.Safe, DryRun: s.cfg.DryRun,
		Poll: s.cfg.PollSeconds, Fail: s.cfg.FailMinutes * 60, Window: s.cfg.WindowHours * 3600,
		Targets: []api.NetwatchTarget{}, Steps: []api.NetwatchStep{}, Incidents: incidents,
	}
	if s.why != nil {
		st.Problem = oneLine(s.why)
	}
	failed := time.Duration(0)
	if m.looked {
		st.Looked = (now - m.last).Seconds()
		switch {
		case m.failing:
			st.State, failed = "unreachable", m.failed+age
			st.Failed = failed.Seconds()
		case s.link != plugged:
			st.State = "unplugged"
		case s.busy:
			st.State, st.By = "reachable", "client"
		case slices.ContainsFunc(s.seen, func(a asked) bool { return a.how != "" }):
			st.State, st.By = "reachable", "target"
		default:
			st.State = "no-target"
		}
	}
	for _, a := range s.seen {
		t := api.NetwatchTarget{Target: a.spec, By: a.how, Latency: a.rtt.Seconds()}
		if a.addr.IsValid() {
			t.Address = a.addr.String()
		}
		if a.since > 0 {
			t.Since = (now - a.since).Seconds()
		}
		if a.err != nil {
			t.Problem = oneLine(a.err)
		}
		st.Targets = append(st.Targets, t)
	}
	for what := range steps {
		if !m.may[what] {
			continue
		}
		n := api.NetwatchStep{Step: what.String(), After: m.at(what).Seconds(), Most: s.limit(what)}
		account := s.used
		if what.hard() {
			account = s.spent
		}
		n.Used = account.moved(s.budget.boot, now).used(what, s.budget.window)
		if left, ok := m.until(what); ok {
			if m.failing {
				left = max(0, left-age)
			}
			in := left.Seconds()
			n.Next = &in
		}
		st.Steps = append(st.Steps, n)
	}
	return st
}

// Warnings are what nobody should miss, in words for the status of the box.
func (s *Service) Warnings() []string {
	st := s.Status()
	var all []string
	if st.State == "unreachable" && len(st.Steps) > 0 && st.Failed >= st.Steps[0].After {
		all = append(all, fmt.Sprintf("netwatch: nothing has answered for %v; gwctl netwatch tells what it does about it",
			(time.Duration(st.Failed)*time.Second)))
	}
	if st.Problem != "" {
		all = append(all, "netwatch: it cannot reboot the gateway: "+st.Problem)
	}
	return all
}

// kernelLog is the end of the kernel's log, of so many bytes.
func kernelLog(bytes int) []byte {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	b := make([]byte, bytes)
	n, err := unix.Klogctl(readAll, b)
	if err != nil {
		return []byte(err.Error() + "\n")
	}
	return b[:n]
}
