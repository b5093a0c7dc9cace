package clock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/logring"
	"gwinit/internal/savedtime"
	"gwinit/internal/seed"
	"gwinit/internal/time64"
)

// Timing.
const (
	minPoll = 64 * time.Second   // between rounds at first (RFC 4330 section 10)
	maxPoll = 1024 * time.Second // and once the clock runs well
	// firstRetry is when a round that brought nothing is tried again; then
	// it takes twice as long each time, up to maxPoll.
	firstRetry = 8 * time.Second
	// spacing keeps rounds apart when the network comes and goes.
	spacing = time.Second
	// A server that says RATE or DENY is left alone for so long.
	rateRest = maxPoll
	denyRest = 24 * time.Hour
	// saveEvery is how old the saved time gets while the box runs.
	saveEvery = 24 * time.Hour
	// seedPoll is how often the first boot looks for entropy.
	seedPoll = 5 * time.Second
)

// steady is how far the clock may be off for a longer interval, and shaky when
// it takes the shortest again.
const (
	steady = 25 * time.Millisecond
	shaky  = 128 * time.Millisecond
)

// maxPeers is how many servers are asked at a time: four outvote one that is
// wrong even when another does not answer.
const maxPeers = 4

// Clock is the kernel's wall clock.
type Clock interface {
	// Now returns the wall clock.
	Now() time.Time
	// Step sets it. Nobody calls it synchronised then.
	Step(to time.Time) error
	// Slew takes offset away gradually and calls the clock synchronised, with
	// an error of so much; see time64.Slew.
	Slew(offset, maxError, poll time.Duration) error
	// Synchronised tells whether somebody has called it so, not too long ago.
	Synchronised() (bool, error)
}

// Options is what a Service works on. The zero value is the box.
type Options struct {
	Root  string // file system root; "" is /
	Clock Clock
	Seed  seed.Kernel
	// Network tells whether there is an address to ask from, and the servers
	// that the DHCP server names.
	Network func() (up bool, servers []netip.Addr)
	// Log takes one event, a line without its end.
	Log func(string)
}

// Service keeps the clock.
type Service struct {
	opt     Options
	kick    chan struct{}
	ask     func(context.Context, peer) (sample, error)
	resolve func(context.Context, string) ([]netip.Addr, error)

	// Of Run's goroutine, and of the round's while there is one.
	cfg     config.NTP
	peers   []peer // of the last round, if all of them were good
	rest    map[netip.AddrPort]time.Time
	poll    time.Duration
	failed  int       // rounds since the last good one
	began   time.Time // of the last round
	problem string    // the last one in the log

	mu     sync.Mutex // guards what follows
	status api.Clock
	synced time.Time // the last good round; zero: none yet
}

// New returns the service; nothing happens before Run.
func New(opt Options) *Service {
	if opt.Clock == nil {
		opt.Clock = kernel{}
	}
	if opt.Seed == nil {
		opt.Seed = seed.System{}
	}
	if opt.Network == nil {
		opt.Network = func() (bool, []netip.Addr) { return true, nil }
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	return &Service{opt: opt, kick: make(chan struct{}, 1), ask: ask, resolve: resolve, rest: map[netip.AddrPort]time.Time{}, poll: minPoll}
}

// NetworkChanged has the servers asked now, with what the DHCP server says now.
// It does not block, and is safe for concurrent use.
func (s *Service) NetworkChanged() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Run keeps the clock until ctx ends, leaves time and seed for the next boot
// then, and returns nil; there is no failure it would end for (INV 10).
func (s *Service) Run(ctx context.Context) error {
	s.cfg, _ = config.LoadNTP(s.opt.Root) // what is wrong in it is among core's warnings
	var seeding sync.WaitGroup
	seeding.Go(func() { s.firstSeed(ctx) })
	defer func() {
		seeding.Wait()
		s.leave()
	}()
	for {
		wait := s.attend(ctx)
		timer := time.NewTimer(wait)
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
				waiting = false
			case <-s.kick:
				// A network that flaps is no reason to ask again.
				if s.failed == 0 && time.Since(s.began) < minPoll {
					continue
				}
				s.failed, s.peers = 0, nil
				timer.Reset(spacing - min(time.Since(s.began), spacing))
			}
		}
	}
}

// attend makes a round and returns how long to wait for the next one. A network
// that comes up during a round that can bring nothing ends it.
func (s *Service) attend(ctx context.Context) time.Duration {
	s.began = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.round(ctx) }()
	kicked := false
	for {
		select {
		case err := <-done:
			switch {
			case err == nil:
				s.failed = 0
				s.note("")
				return jitter(s.poll)
			case kicked:
				s.failed, s.peers = 0, nil
				return spacing - min(time.Since(s.began), spacing)
			case ctx.Err() != nil:
				return 0
			}
			s.note(err.Error())
			s.peers = nil
			retry := min(firstRetry<<min(s.failed, 7), maxPoll)
			s.failed++
			return jitter(retry)
		case <-s.kick:
			kicked = true
			cancel()
		}
	}
}

// jitter makes up to an eighth more or less of d, so that gateways that came
// back together do not ask together.
func jitter(d time.Duration) time.Duration { return d - d/8 + rand.N(d/4) }

// round asks the servers once and acts on what they say.
func (s *Service) round(ctx context.Context) error {
	if len(s.peers) == 0 {
		peers, err := s.find(ctx)
		if err != nil {
			return err
		}
		s.peers = peers
	}
	samples := make([]sample, len(s.peers))
	errs := make([]error, len(s.peers))
	var wg sync.WaitGroup
	for i, p := range s.peers {
		wg.Go(func() { samples[i], errs[i] = s.ask(ctx, p) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var good []sample
	for i, err := range errs {
		p := s.peers[i]
		switch {
		case err == nil:
			good = append(good, samples[i])
			continue
		case errors.Is(err, errTooOften):
			s.rest[p.addr] = time.Now().Add(rateRest)
		case errors.Is(err, errDenied):
			s.rest[p.addr] = time.Now().Add(denyRest)
		}
		errs[i] = fmt.Errorf("%v: %w", p, err)
	}
	if len(good) == 0 {
		return errors.Join(errs...)
	}
	best, agree, ok := choose(good)
	if !ok {
		return fmt.Errorf("the time servers contradict each other (%s), so none is believed; name one that is right: gwctl config set ntp.server=NAME", list(s.peers))
	}
	if err := s.correct(best); err != nil {
		return err
	}
	s.mu.Lock()
	s.status.Asked, s.status.Agree = len(s.peers), agree
	s.mu.Unlock()
	if agree < len(s.peers) {
		s.peers = nil // others next time
	}
	return nil
}

func list(peers []peer) string {
	names := make([]string, len(peers))
	for i, p := range peers {
		names[i] = p.String()
	}
	return strings.Join(names, ", ")
}

// correct brings the clock to what the sample says.
func (s *Service) correct(best sample) error {
	clock := s.opt.Clock
	before, _ := clock.Synchronised() // not known is not
	now := clock.Now()
	truth := best.truth.Add(time.Since(best.at))
	offset := truth.Sub(now)
	switch {
	case !before || offset.Abs() > time64.MaxSlew:
		if err := clock.Step(truth); err != nil {
			return fmt.Errorf("set the clock: %w", err)
		}
		s.poll = minPoll
		if err := clock.Slew(0, best.distance, s.poll); err != nil {
			return err
		}
		text := "set to " + truth.UTC().Format(time.DateTime) + " UTC"
		if now.UnixNano() >= logring.WallKnown {
			text += fmt.Sprintf(", it was off by %v", offset.Round(time.Millisecond))
		}
		s.opt.Log(fmt.Sprintf("clock: %s; by %v, right to %v", text, best.peer, best.distance.Round(time.Millisecond)))
	default:
		switch {
		case offset.Abs() > shaky:
			s.poll = minPoll
		case offset.Abs() <= steady:
			s.poll = min(2*s.poll, maxPoll)
		}
		if err := clock.Slew(offset, best.distance, s.poll); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.status.Source, s.status.Stratum = best.peer.String(), best.stratum
	s.status.Offset, s.status.Error = offset.Seconds(), best.distance.Seconds()
	s.synced = time.Now()
	s.mu.Unlock()
	s.keepTime(truth, false)
	return nil
}

// errNoNetwork is a problem for the status; the log has eth's lines of it.
var errNoNetwork = errors.New("no network")

// find returns whom to ask: ntp.conf's servers, else the DHCP server's, else
// the pool's.
func (s *Service) find(ctx context.Context) ([]peer, error) {
	for addr, until := range s.rest {
		if time.Until(until) <= 0 {
			delete(s.rest, addr)
		}
	}
	up, leased := s.opt.Network()
	if !up {
		// Go's resolver would remember for 5 s that there is no server.
		return nil, errNoNetwork
	}
	servers := s.cfg.Servers
	// Servers that a DHCP server only thinks are there must not keep the clock
	// wrong for ever: every fourth round in vain does without them.
	if !s.cfg.Set && len(leased) > 0 && s.failed%4 < 3 {
		servers = nil
		for _, a := range leased {
			servers = append(servers, a.String())
		}
	}
	found := make([][]peer, len(servers))
	errs := make([]error, len(servers))
	for i, server := range servers { // one by one: a resolver takes memory while it asks
		found[i], errs[i] = s.lookUp(ctx, server)
	}
	var peers []peer
	resting := false
	// One of each in turn: two names are more independent than two addresses.
	for rank := 0; len(peers) < maxPeers; rank++ {
		more := false
		for _, all := range found {
			if rank >= len(all) {
				continue
			}
			more = true
			p := all[rank]
			_, rests := s.rest[p.addr]
			resting = resting || rests
			if !rests && len(peers) < maxPeers && !slices.ContainsFunc(peers, func(q peer) bool { return q.addr == p.addr }) {
				peers = append(peers, p)
			}
		}
		if !more {
			break
		}
	}
	switch {
	case len(peers) > 0:
		return peers, nil
	case resting:
		return nil, errors.New("every time server has refused to be asked; name another: gwctl config set ntp.server=NAME")
	}
	return nil, errors.Join(errs...)
}

// lookUp returns the addresses of a server.
func (s *Service) lookUp(ctx context.Context, server string) ([]peer, error) {
	host, port, _ := config.SplitServer(server)
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = s.resolve(ctx, host); err != nil {
		return nil, err
	}
	peers := make([]peer, len(addrs))
	for i, a := range addrs {
		peers[i] = peer{host, netip.AddrPortFrom(a.Unmap(), cmp.Or(port, defaultPort))}
	}
	return peers, nil
}

// note logs a problem unless it is the last one's repetition.
func (s *Service) note(text string) {
	// errors.Join has a line for each.
	text = strings.ReplaceAll(text, "\n", "; ")
	if text != "" && text != s.problem && text != errNoNetwork.Error() {
		s.opt.Log("clock: " + text)
	}
	s.problem = text
	s.mu.Lock()
	s.status.Problem = text
	s.mu.Unlock()
}

// Status returns what is known of the clock. It is safe for concurrent use.
func (s *Service) Status() api.Clock {
	s.mu.Lock()
	st, synced := s.status, s.synced
	s.mu.Unlock()
	// The kernel knows, for every process and over our restarts.
	switch on, _ := s.opt.Clock.Synchronised(); {
	case on:
		st.State = api.ClockSynced
	case s.opt.Clock.Now().UnixNano() >= logring.WallKnown:
		st.State = api.ClockNear
	default:
		st.State = api.ClockUnknown
	}
	if !synced.IsZero() {
		st.Since = time.Since(synced).Seconds()
	}
	return st
}

// keepTime saves the time if the saved one is a day old, or wrong; at a clean
// end also if it is only older (INV 6: this is the one write that comes with
// time, and what it is worth grows with the time since the last).
func (s *Service) keepTime(now time.Time, end bool) {
	saved, err := savedtime.Load(s.opt.Root)
	age := now.Sub(saved)
	if err == nil && (age >= 0 && age < saveEvery || age < 0 && age > -time.Minute) && (!end || age < time.Second) {
		return
	}
	s.unlessAbsent(savedtime.Save(s.opt.Root, now))
}

// leave does what a clean end leaves for the next boot.
func (s *Service) leave() {
	now := s.opt.Clock.Now()
	synced, _ := s.opt.Clock.Synchronised()
	saved, err := savedtime.Load(s.opt.Root)
	// A clock that nobody vouches for may be right or not, but it went on.
	if synced || now.UnixNano() >= logring.WallKnown && (err != nil || now.After(saved)) {
		s.keepTime(now, true)
	}
	if err := seed.Save(s.opt.Root, s.opt.Seed); !errors.Is(err, seed.ErrNotReady) {
		s.unlessAbsent(err)
	}
}

// firstSeed makes a seed when there is none, so that a box whose power is only
// ever cut has one.
func (s *Service) firstSeed(ctx context.Context) {
	if seed.Exists(s.opt.Root) {
		return
	}
	tick := time.NewTicker(seedPoll)
	defer tick.Stop()
	for {
		err := seed.Save(s.opt.Root, s.opt.Seed)
		if !errors.Is(err, seed.ErrNotReady) {
			s.unlessAbsent(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// unlessAbsent logs an error that is not just a box without /userdata, which
// others tell of.
func (s *Service) unlessAbsent(err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) {
		s.opt.Log("clock: " + err.Error())
	}
}

// kernel is the real Clock.
type kernel struct{}

func (kernel) Now() time.Time          { return time.Now().Round(0) }
func (kernel) Step(to time.Time) error { return time64.SetRealtime(to) }
func (kernel) Slew(offset, maxError, poll time.Duration) error {
	return time64.Slew(offset, maxError, poll)
}
func (kernel) Synchronised() (bool, error) { return time64.Synchronised() }
