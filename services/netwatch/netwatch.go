package netwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/logring"
	"gwinit/internal/netdev"
)

// Timing.
const (
	firstLook secs = 10 // after the start
	settle    secs = 2  // from a change of the network to a look
	// While nobody answers it is looked at more often than POLL_SEC may say, so
	// that the steps come at their times.
	fastest  secs = 5
	fastPart secs = 20 // of the time until the reboot
	// resolveEvery is how long the addresses of a name are believed,
	// resolveAgain how soon one is asked for again that brought none that
	// answers.
	resolveEvery secs = 3600
	resolveAgain secs = 60
	// resolveWait bounds what a look waits for names.
	resolveWait = 5 * time.Second
)

// mildLimit is the budget of the mild steps within the settings' window. It is
// kept in memory: what it bounds leaves nothing behind that lasts.
var mildLimit = [steps]int{stepRenew: 24, stepLink: 8, toldSnapshots: 4}

// toldSnapshots is the row of mildLimit for snapshots of steps that were not
// taken: they take flash, too.
const toldSnapshots = stepReboot

const (
	maxAddrs   = 16 // asked in one look
	maxPerName = 2
	whyTargets = 3 // named in a line of the log
)

// Box is what the Service asks of PID 1, and through it of other processes.
type Box interface {
	// Bridge returns the bridge's status.
	Bridge(ctx context.Context) (*api.Bridge, error)
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
	tried secs // when it was resolved last; 0: never
	err   error
}

// Service watches.
type Service struct {
	opt  Options
	kick chan struct{}

	// Of Run's goroutine.
	driver  bool // may be bound anew
	often   secs // between two looks while nobody answers
	targets []target
	counted bool        // bytes is known
	bytes   uint64      // that have passed the bridge
	told    [steps]bool // of this outage: what was not done, and why
	spoke   bool        // of it: the log knows of it
	lastErr string

	// mu guards what follows, which Run's goroutine writes and Status reads.
	mu     sync.Mutex
	cfg    config.Netwatch
	hard   bool // hard steps are taken
	budget budget
	m      machine
	link   linkState
	busy   bool
	seen   []asked // in the last look; never changed
	spent  ledger  // the budget's account, and with it
	why    error   // why no hard step can be taken
	mild   ledger  // the account of mildLimit, of this boot's beginning
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
		opt.Box = socket(controlSocket)
	}
	if opt.net == nil {
		opt.net = &system{opt.Root, opt.Interface, netdev.System{Root: opt.Root}}
	}
	return &Service{opt: opt, kick: make(chan struct{}, 1)}
}

func (s *Service) now() secs { return secs(s.opt.Uptime() / time.Second) }

func (s *Service) log(text string) { s.opt.Log("netwatch: " + text) }

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
	s.keepCrashes()
	due := s.now() + firstLook
	looked := -fastest
	timer := time.NewTimer(firstLook.duration())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if s.hard {
				s.budget.leave()
			}
			return nil
		case <-s.kick:
			// A network that flaps is not asked all the time, nor never.
			due = min(due, max(s.now()+settle, looked+fastest))
		case <-timer.C:
			looked = s.now()
			due = looked + s.attend(ctx)
		}
		timer.Reset(max(0, due-s.now()).duration())
	}
}

// load takes the settings.
func (s *Service) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := config.LoadNetwatch(s.opt.Root) // what is wrong in them is among core's warnings
	g, _ := config.LoadGateway(s.opt.Root)
	n, _ := config.LoadNetwork(s.opt.Root)
	if len(c.Targets) == 0 {
		c.Targets = []string{config.TargetGateway}
	}
	for _, spec := range c.Targets {
		t := target{spec: spec}
		if a, err := netip.ParseAddr(spec); err == nil {
			t.addrs = []netip.Addr{s.zoned(a)}
		} else {
			t.name = spec != config.TargetGateway
		}
		s.targets = append(s.targets, t)
	}
	s.cfg, s.driver, s.hard = c, g.NetwatchDriver, c.Enabled && !s.opt.Safe
	fail := secs(c.FailMinutes) * 60
	s.often = min(secs(c.PollSeconds), max(fastest, fail/fastPart))
	s.budget = budget{
		path: filepath.Join("/", s.opt.Root, BudgetPath), window: secs(c.WindowHours) * 3600, limit: c.MaxReboots,
		boot: bootID(s.opt.Root), uptime: s.now, writable: s.opt.Writable,
	}
	s.m = machine{fail: fail, most: 2*s.often + firstLook}
	s.m.may = [steps]bool{stepRenew: n.Static == nil, stepLink: true, stepReboot: s.hard}
	if s.hard {
		s.spent, s.why = s.budget.read()
		if n := s.spent.used(stepReboot, s.budget.window, s.spent.uptime); n > 0 {
			s.log(fmt.Sprintf("%d of %d reboots in %d h are spent; gwctl netwatch incidents tells why", n, c.MaxReboots, c.WindowHours))
		}
	}
}

// zoned gives a link-local address the interface that it needs.
func (s *Service) zoned(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is6() && a.IsLinkLocalUnicast() {
		a = a.WithZone(s.opt.Interface)
	}
	return a
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
func (s *Service) attend(ctx context.Context) secs {
	poll := secs(s.cfg.PollSeconds)
	r, seen, err := s.look(ctx)
	if ctx.Err() != nil {
		return poll
	}
	s.note(err)
	if err != nil {
		return poll // not known is neither good nor bad
	}
	var spent ledger
	if s.hard {
		spent, err = s.budget.read()
	}
	s.mu.Lock()
	// A driver that could be bound is one when its interface is gone, too.
	s.m.may[stepDriver] = s.hard && s.driver && (s.m.may[stepDriver] || s.opt.net.CanRebind())
	v := s.m.look(r)
	s.link, s.busy, s.seen, s.spent, s.why = r.link, r.busy, seen, spent, err
	s.mu.Unlock()
	if v.over {
		if s.spoke {
			s.log(fmt.Sprintf("%s, after %v without an answer", end(r), v.lasted))
		}
		s.told, s.spoke = [steps]bool{}, false
	}
	if v.due != nothing {
		s.take(ctx, v.due)
	}
	if !s.m.failing {
		return poll
	}
	wait := s.often
	for what := range steps {
		if left, ok := s.m.until(what); ok && s.m.may[what] {
			wait = min(wait, max(left, 1))
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
		s.log(text)
	}
	s.lastErr = text
}

// look asks everybody once.
func (s *Service) look(ctx context.Context) (r round, seen []asked, err error) {
	var gateways []netip.Addr
	r.link, gateways, err = s.opt.net.Look()
	if err != nil {
		return r, nil, err
	}
	if r.link == plugged {
		s.resolve(ctx)
		seen, r.targets = s.list(gateways)
		s.opt.net.Ask(ctx, seen)
		r.at = s.now()
		for i := range seen {
			if a := &seen[i]; a.how != "" {
				r.answered, a.since = true, r.at
			}
		}
		if r.answered {
			s.counted = false
		} else {
			r.busy = s.clientMoves(ctx)
		}
	}
	r.at = s.now()
	return r, seen, nil
}

// list is whom to ask, and whether the settings name anybody who is there.
func (s *Service) list(gateways []netip.Addr) (all []asked, some bool) {
	for i := range s.targets {
		t := &s.targets[i]
		addrs := t.addrs
		if t.spec == config.TargetGateway {
			addrs = gateways
		}
		some = some || len(addrs) > 0 || t.name
		if len(addrs) == 0 {
			addrs = []netip.Addr{{}}
		}
		for _, a := range addrs {
			one := asked{spec: t.spec, addr: a}
			if !a.IsValid() {
				one.err = t.err
			} else {
				one.since = s.heard(a)
			}
			if len(all) < maxAddrs {
				all = append(all, one)
			}
		}
	}
	return all, some
}

// heard is when an address answered last.
func (s *Service) heard(a netip.Addr) secs {
	for i := range s.seen {
		if s.seen[i].addr == a {
			return s.seen[i].since
		}
	}
	return 0
}

// resolve looks up the names that it is time for. A name keeps the addresses
// that it had while nobody knows others.
func (s *Service) resolve(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	for i := range s.targets {
		t := &s.targets[i]
		wait := resolveAgain
		for _, a := range t.addrs {
			if s.heard(a) > t.tried {
				wait = resolveEvery
			}
		}
		now := s.now()
		if !t.name || t.tried > 0 && now-t.tried < wait || ctx.Err() != nil {
			continue
		}
		t.tried = now
		addrs, err := s.opt.net.Resolve(ctx, t.spec)
		if t.err = err; len(addrs) > 0 {
			t.addrs = addrs[:min(len(addrs), maxPerName)]
			for i, a := range t.addrs {
				t.addrs[i] = s.zoned(a)
			}
		}
	}
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
func (s *Service) take(ctx context.Context, what step) {
	text := s.silence() + ": "
	err := s.permit(what)
	no := true
	switch {
	case errors.Is(err, errSpent):
		text += fmt.Sprintf("no %s, %v (%d in %d h)", names[what], errSpent, s.limit(what), s.cfg.WindowHours)
	case err != nil:
		text += "no " + names[what] + ", " + oneLine(err)
	case s.cfg.DryRun:
		text += "not " + acts[what] + ", because DRY_RUN is set"
	default:
		text += acts[what]
		no = false
	}
	if no && s.told[what] {
		return
	}
	s.spoke = true
	s.told[what] = s.told[what] || no
	s.log(text)
	if what.hard() && (!no || s.room(toldSnapshots)) {
		s.snapshot(ctx, text)
	}
	if no {
		return
	}
	s.mu.Lock()
	s.m.did(what)
	s.mu.Unlock()
	switch err = nil; what {
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
		s.log(names[what] + ": " + oneLine(err))
	}
}

// permit draws on the budget of a step, for a hard one in flash before it is
// taken (INV 8). With DRY_RUN it only tells what the budget would say.
func (s *Service) permit(what step) error {
	ok := true
	switch {
	case !what.hard():
		ok = s.room(what)
	case s.cfg.DryRun:
		l, err := s.budget.read()
		if err != nil {
			return err
		}
		ok = l.used(what, s.budget.window, l.uptime) < s.budget.limit
	default:
		return s.budget.draw(what)
	}
	if !ok {
		return errSpent
	}
	return nil
}

// room draws on the account in memory.
func (s *Service) room(what step) bool {
	now := s.now()
	if s.mild.used(what, s.budget.window, now) >= mildLimit[what] {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Ages count from the beginning, so that a step of now is that much younger.
	s.mild.entries = append(s.mild.entries, entry{what, -now})
	for s.mild.entries[0].age+now >= s.budget.window {
		s.mild.entries = s.mild.entries[1:]
	}
	return true
}

func (s *Service) limit(what step) int {
	if what.hard() {
		return s.budget.limit
	}
	return mildLimit[what]
}

// silence tells who does not answer, and for how long.
func (s *Service) silence() string {
	text := "no answer from "
	for i := range s.seen {
		a := &s.seen[i]
		if i == whyTargets {
			text += " and others"
			break
		}
		if i > 0 {
			text += ", "
		}
		text += a.spec
		if addr := a.addr.String(); a.addr.IsValid() && addr != a.spec {
			text += " " + addr
		}
	}
	if len(s.seen) == 0 { // no interface, or no carrier since a step of ours
		text = s.opt.Interface + " has no link, and nobody has answered"
	}
	return text + " for " + s.m.failed.String()
}

// Status returns what is known. It is safe for concurrent use.
func (s *Service) Status() api.Netwatch {
	incidents := len(s.numbers())
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.m
	age := min(now-m.last, m.most)
	st := api.Netwatch{
		State: "starting", Enabled: s.hard, DryRun: s.cfg.DryRun,
		Poll: s.cfg.PollSeconds, Fail: int(m.fail), Window: int(s.budget.window),
		Targets: []api.NetwatchTarget{}, Steps: []api.NetwatchStep{}, Incidents: incidents,
	}
	if s.why != nil {
		st.Problem = oneLine(s.why)
	}
	for i := range s.seen {
		a := &s.seen[i]
		t := api.NetwatchTarget{Target: a.spec, By: a.how, Latency: a.rtt}
		if a.addr.IsValid() {
			t.Address = a.addr.String()
		}
		if a.since > 0 {
			t.Since = int(now - a.since)
		}
		if a.err != nil {
			t.Problem = oneLine(a.err)
		}
		if a.how != "" {
			st.By = "target"
		}
		st.Targets = append(st.Targets, t)
	}
	switch {
	case !m.looked:
		age = 0
	case m.failing:
		st.State, st.Failed = "unreachable", int(m.failed+age)
	case s.link != plugged:
		st.State = "unplugged"
	case s.busy:
		st.State, st.By = "reachable", "client"
	case st.By != "":
		st.State = "reachable"
	default:
		st.State = "no-target"
	}
	if m.looked {
		st.Looked = int(now - m.last)
	}
	if !m.failing {
		age = 0
	}
	for what := range steps {
		if !m.may[what] {
			continue
		}
		n := api.NetwatchStep{Step: names[what], After: int(m.at(what)), Next: -1, Most: s.limit(what)}
		l := &s.mild
		if what.hard() {
			l = &s.spent
		}
		n.Used = l.used(what, s.budget.window, now)
		if left, ok := m.until(what); ok {
			n.Next = int(max(0, left-age))
		}
		st.Steps = append(st.Steps, n)
	}
	return st
}

// Warnings are what nobody should miss, in words for the status of the box.
func (s *Service) Warnings() (all []string) {
	st := s.Status()
	if st.State == "unreachable" && st.Failed >= st.Fail/5 {
		all = append(all, "netwatch: nothing has answered for "+secs(st.Failed).String()+"; gwctl netwatch tells what it does about it")
	}
	if st.Problem != "" {
		all = append(all, "netwatch: it cannot reboot the gateway: "+st.Problem)
	}
	return all
}
