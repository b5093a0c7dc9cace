// Package wireguard is a WireGuard tunnel to the gateway: the kernel's own
// where the kernel has one, else by golang.zx2c4.com/wireguard over a TUN
// interface in this process. It reads wireguard.conf and wireguard/wg0.conf,
// keeps the names of peers resolved, and tells how the tunnel is.
//
// It runs no command of its files, touches no name server, no firewall and no
// default route, and forwards nothing between the tunnel and the network.
//
// What it takes of memory is bounded by its queues (toolchain/rlx/edits) and by
// the number of peers; batches are of one packet.
package wireguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/config"
	"gwinit/services/wireguard/conf"
	"gwinit/services/wireguard/nl"
)

// File is the tunnel's own file, which holds its private key.
const File = conf.File

// ErrPointless is wrapped where another start would not help.
var ErrPointless = errors.New("the tunnel cannot be set up")

// The tuned numbers.
const (
	// DefaultMTU fits a path of 1500 bytes by IPv6, and of 1492 by IPv4.
	DefaultMTU = 1420
	// maxUserMTU is what fits a buffer of toolchain/rlx/edits: 2048 bytes less
	// a header of 16, a tag of 16 and padding to 16.
	maxUserMTU = 2000

	maxFile = 64 << 10

	poll           = 10 * time.Second
	resolveTimeout = 10 * time.Second
	// staleAfter: who sends has shaken hands again after 120 s (protocol's
	// REKEY_AFTER_TIME) or tries in vain since; so do wireguard-tools.
	staleAfter = 135 * time.Second
	// connectedFor: a session ends 180 s after its handshake (REJECT_AFTER_TIME).
	connectedFor = 180 * time.Second
	// resolveEvery is the least time between two look-ups of a name that gave
	// an address, and the most between two that did not.
	resolveEvery = time.Minute
)

// Options are what a Service works with; the zero value is the box.
type Options struct {
	Root string // where /userdata is below; "" is /
	// Status takes the line that people see behind the service.
	Status func(text string)
	Logf   func(format string, a ...any)
	// Resolve looks a name up; the first address is to be tried first.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Poll is how often the tunnel is looked at; 0: 10 s.
	Poll time.Duration
	// Stale is how long a handshake may fail until a name is looked up again;
	// 0: 135 s.
	Stale time.Duration
}

// Service is one tunnel. Its methods may be called by several goroutines.
type Service struct {
	o    Options
	kick chan struct{} // the files have changed

	mu       sync.Mutex // guards the following
	engine   engine
	settings config.WireGuard
	conf     conf.Config
	mtu      int
	routes   []netip.Prefix // those that were added
	addrs    []netip.Prefix
	peers    []*peer
	loaded   []string // warnings of the files
	applied  []string // warnings of what the kernel refused
	repaired string   // warning about the file's mode
	status   string
}

// peer is a peer with what is known of it. Times are monotonic (INV 13): the
// clock may be set while a tunnel is up.
type peer struct {
	conf.Peer
	host  string // of the endpoint, "" without one
	port  uint16
	named bool // host has to be resolved

	since     time.Time // it is as it is: set up, or its endpoint changed
	handshake time.Time // when the last one was seen; zero: none
	stamp     time.Time // of the last one, by the clock
	now       nl.Peer   // as it was seen last
	txMark    uint64    // TxBytes when it was well last

	lookedUp time.Time // zero: never
	misses   int       // look-ups in a row that gave nothing
	problem  string    // of the last look-up
}

// New makes a service; Run sets the tunnel up.
func New(o Options) *Service {
	if o.Status == nil {
		o.Status = func(string) {}
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	if o.Poll == 0 {
		o.Poll = poll
	}
	if o.Stale == 0 {
		o.Stale = staleAfter
	}
	return &Service{o: o, kick: make(chan struct{}, 1)}
}

// resolve asks the name servers. The resolver sorts by RFC 6724, so that a box
// without an IPv6 route gets IPv4 first.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Run sets the tunnel up, calls ready, and keeps it until ctx ends, when it
// removes it and returns nil. An error that wraps ErrPointless says what has to
// be changed first.
func (s *Service) Run(ctx context.Context, ready func()) error {
	if err := s.open(); err != nil {
		return err
	}
	defer func() {
		if err := s.engine.close(); err != nil {
			s.o.Logf("%v", err)
		}
	}()
	s.look()
	ready()
	t := time.NewTicker(s.o.Poll)
	defer t.Stop()
	for {
		s.resolveNames(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-s.engine.ended():
			return fmt.Errorf("the interface %s ended: was it removed?", s.engine.link().Name)
		case <-t.C:
		case <-s.kick:
		}
		s.look()
	}
}

// open reads the files and makes the tunnel.
func (s *Service) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings, c, err := s.load()
	if err != nil {
		return err
	}
	e, err := openEngine(settings.Interface, DefaultMTU, s.o.Logf)
	if errors.Is(err, errNoTUN) {
		err = fmt.Errorf("%w: %w", ErrPointless, err)
	}
	if err != nil {
		return err
	}
	s.engine, s.settings = e, settings
	err = s.apply(settings, c)
	if err == nil {
		err = e.up()
	}
	if err != nil {
		return errors.Join(err, e.close())
	}
	return nil
}

// Reload reads the files again and changes what is different. Sessions with
// peers that stay as they are go on.
func (s *Service) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings, c, err := s.load()
	if err != nil {
		return err
	}
	if settings.Interface != s.settings.Interface {
		return errors.New("another INTERFACE needs another tunnel: gwctl restart wireguard")
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return s.apply(settings, c)
}

// load reads the files, and leaves what is wrong with them in s.loaded.
func (s *Service) load() (config.WireGuard, conf.Config, error) {
	settings, found := config.LoadWireGuard(s.o.Root)
	s.loaded = nil
	for _, w := range found {
		s.warn(w.String())
	}
	path := filepath.Join("/", s.o.Root, File)
	text, err := s.read(path)
	if errors.Is(err, os.ErrNotExist) {
		return settings, conf.Config{}, fmt.Errorf("%w: there is no %s; docs/wireguard.md says what belongs into it", ErrPointless, File)
	}
	if err != nil {
		return settings, conf.Config{}, fmt.Errorf("the tunnel's file: %w", err)
	}
	c, problems := conf.Parse(text)
	for _, p := range problems {
		s.warn(fmt.Sprintf("%s:%d: %s", File, p.Line, p.Text))
	}
	if c.PrivateKey.Zero() {
		return settings, c, fmt.Errorf("%w: %s has no PrivateKey; gwctl wg genkey makes one", ErrPointless, File)
	}
	if len(c.Peers) == 0 {
		s.warn(File + " has no [Peer]: nobody can come")
	}
	return settings, c, nil
}

// warn adds a warning of the files and logs it.
func (s *Service) warn(text string) {
	s.loaded = append(s.loaded, text)
	s.o.Logf("%s", text)
}

// read reads the file with the private key, and takes it from others than root.
func (s *Service) read(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		s.repaired = fmt.Sprintf("%s was open to others than root (mode %04o): it is 0600 now. Who may have read it has the private key: gwctl wg genkey makes another", File, mode)
		if err := f.Chmod(0o600); err != nil {
			s.repaired = fmt.Sprintf("%s is open to others than root (mode %04o), and that cannot be changed: %v", File, mode, err)
		}
		s.o.Logf("%s", s.repaired)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}

// apply makes the tunnel what the files say, from what it was.
func (s *Service) apply(settings config.WireGuard, c conf.Config) error {
	s.applied = nil
	mtu := s.wantMTU(settings, c)
	d := nl.Device{ListenPort: c.ListenPort, SetPort: s.peers == nil || c.ListenPort != s.conf.ListenPort}
	if c.PrivateKey != s.conf.PrivateKey {
		d.PrivateKey = c.PrivateKey
	}
	var peers []*peer
	for _, p := range c.Peers {
		i := slices.IndexFunc(s.peers, func(old *peer) bool { return old.PublicKey == p.PublicKey })
		if i >= 0 && same(s.peers[i].Peer, p) {
			s.peers[i].Line = p.Line
			peers = append(peers, s.peers[i])
			continue
		}
		n := newPeer(p)
		set := nl.Peer{PublicKey: p.PublicKey, PresharedKey: p.PresharedKey, Keepalive: p.Keepalive, AllowedIPs: p.AllowedIPs}
		if i >= 0 && s.peers[i].Endpoint == p.Endpoint {
			old := *s.peers[i] // where it is now, it stays
			old.Peer = p
			n = &old
		} else if n.host != "" && !n.named {
			a, _ := netip.ParseAddr(n.host)
			set.Endpoint = netip.AddrPortFrom(a.Unmap(), n.port)
		}
		d.Peers = append(d.Peers, set)
		peers = append(peers, n)
	}
	for _, old := range s.peers {
		if !slices.ContainsFunc(c.Peers, func(p conf.Peer) bool { return p.PublicKey == old.PublicKey }) {
			d.Peers = slices.Insert(d.Peers, 0, nl.Peer{PublicKey: old.PublicKey, Remove: true})
		}
	}
	if err := s.engine.set(d); err != nil {
		return err
	}
	if peers == nil {
		peers = []*peer{}
	}
	s.settings, s.conf, s.peers = settings, c, peers
	return s.applyLink(mtu)
}

// applyLink gives the link its MTU, addresses and routes. What the kernel
// refuses of the last two is a warning: the rest of the tunnel works.
func (s *Service) applyLink(mtu int) error {
	l := s.engine.link()
	if mtu != s.mtu {
		if err := l.Up(mtu); err != nil {
			return err
		}
		s.engine.setMTU(mtu)
		s.mtu = mtu
	}
	s.addrs = s.change(s.addrs, s.wantAddrs(), l.AddAddr, l.DelAddr)
	s.routes = s.change(s.routes, s.wantRoutes(), l.AddRoute, l.DelRoute)
	return nil
}

// change removes what is not wanted any more, adds what is new, and returns
// what is there then.
func (s *Service) change(have, want []netip.Prefix, add, remove func(netip.Prefix) error) (now []netip.Prefix) {
	for _, p := range have {
		if !slices.Contains(want, p) {
			// A route goes with the address that it was by.
			if err := remove(p); err != nil && !errors.Is(err, unix.ESRCH) {
				s.o.Logf("%v", err)
			}
		}
	}
	for _, p := range want {
		if slices.Contains(have, p) {
			now = append(now, p)
			continue
		}
		err := add(p)
		if err == nil {
			now = append(now, p)
			continue
		}
		text := err.Error()
		if errors.Is(err, unix.EEXIST) {
			text += "; it leads elsewhere and stays there"
		}
		s.applied = append(s.applied, text)
		s.o.Logf("%s", text)
	}
	return now
}

// wantMTU is the MTU that the files say; wg0.conf has the last word.
func (s *Service) wantMTU(settings config.WireGuard, c conf.Config) int {
	mtu := DefaultMTU
	if settings.MTU != 0 {
		mtu = settings.MTU
	}
	if c.MTU != 0 {
		mtu = c.MTU
	}
	if s.engine.name() == EngineUser && mtu > maxUserMTU {
		s.warn(fmt.Sprintf("MTU %d is more than a tunnel without the kernel's help has room for: %d is used", mtu, maxUserMTU))
		mtu = maxUserMTU
	}
	return mtu
}

func (s *Service) wantAddrs() (all []netip.Prefix) {
	for _, p := range slices.Concat(s.settings.Addresses, s.conf.Addresses) {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// wantRoutes are those of ROUTES, and with wg-quick's form of the file (it has
// an Address) also what peers may have. The default route is nobody's there:
// the tunnel's own packets would go into the tunnel.
func (s *Service) wantRoutes() (all []netip.Prefix) {
	add := func(p netip.Prefix) {
		onLink := slices.ContainsFunc(s.wantAddrs(), func(a netip.Prefix) bool { return a.Masked() == p })
		if !onLink && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	for _, p := range s.settings.Routes {
		add(p)
	}
	if len(s.conf.Addresses) == 0 {
		return all
	}
	for _, peer := range s.conf.Peers {
		for _, p := range peer.AllowedIPs {
			if p.Bits() > 0 {
				add(p)
			}
		}
	}
	return all
}

// newPeer is a peer of which nothing is known.
func newPeer(p conf.Peer) *peer {
	n := &peer{Peer: p, since: time.Now()}
	if p.Endpoint != "" {
		n.host, n.port, _ = conf.SplitEndpoint(p.Endpoint)
		_, err := netip.ParseAddr(n.host)
		n.named = err != nil
	}
	return n
}

// same tells whether two forms of a peer mean the same.
func same(a, b conf.Peer) bool {
	return a.PresharedKey == b.PresharedKey && a.Endpoint == b.Endpoint && a.Keepalive == b.Keepalive && slices.Equal(a.AllowedIPs, b.AllowedIPs)
}

// look asks the tunnel how it is, and says so if that is new.
func (s *Service) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lookLocked(); err != nil {
		s.o.Logf("%v", err)
		return
	}
	n := 0
	for _, p := range s.peers {
		if p.connected() {
			n++
		}
	}
	text := fmt.Sprintf("%s by %s, %d of %d peers connected", s.engine.link().Name, s.engine.name(), n, len(s.peers))
	if text != s.status {
		s.status = text
		s.o.Status(text)
	}
}

func (s *Service) lookLocked() error {
	d, err := s.engine.state()
	if err != nil {
		return err
	}
	for _, p := range s.peers {
		i := slices.IndexFunc(d.Peers, func(n nl.Peer) bool { return n.PublicKey == p.PublicKey })
		if i < 0 {
			continue
		}
		p.now = d.Peers[i]
		if stamp := p.now.LastHandshake; !stamp.IsZero() && !stamp.Equal(p.stamp) {
			// Its time is by the clock, which may have been set since: it was
			// between the last look and now in any case.
			ago := min(max(0, time.Since(stamp.Round(0))), s.o.Poll)
			p.stamp, p.handshake, p.txMark = stamp, time.Now().Add(-ago), p.now.TxBytes
		}
	}
	return nil
}

// connected tells whether there is a session.
func (p *peer) connected() bool {
	return !p.handshake.IsZero() && time.Since(p.handshake) < connectedFor
}

// failing tells whether somebody tries to reach the peer, in vain for that long.
func (p *peer) failing(stale time.Duration) bool {
	well := p.handshake
	if well.Before(p.since) {
		well = p.since
	}
	return time.Since(well) > stale && p.now.TxBytes > p.txMark
}

// due tells whether the peer's name has to be looked up now.
func (p *peer) due(poll, stale time.Duration) bool {
	switch {
	case !p.named:
		return false
	case p.lookedUp.IsZero():
		return true
	case p.misses > 0: // 10 s, 20 s, ... by the polls
		return time.Since(p.lookedUp) >= min(resolveEvery, poll*time.Duration(p.misses))
	}
	return time.Since(p.lookedUp) >= min(resolveEvery, stale) && p.failing(stale)
}

// resolveNames looks up what has to be. It takes as long as the name servers
// do, without the lock.
func (s *Service) resolveNames(ctx context.Context) {
	s.mu.Lock()
	var due []*peer
	for _, p := range s.peers {
		if p.due(s.o.Poll, s.o.Stale) {
			due = append(due, p)
		}
	}
	s.mu.Unlock()
	for _, p := range due {
		limit, cancel := context.WithTimeout(ctx, resolveTimeout)
		addrs, err := s.o.Resolve(limit, p.host)
		cancel()
		if ctx.Err() != nil {
			return
		}
		s.resolved(p, addrs, err)
	}
}

// resolved takes over where a name leads.
func (s *Service) resolved(p *peer, addrs []netip.Addr, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.peers, p) {
		return // the file has changed meanwhile
	}
	p.lookedUp = time.Now()
	if err == nil && len(addrs) == 0 {
		err = errors.New("it has no address")
	}
	if err != nil {
		if p.misses++; p.misses == 1 {
			s.o.Logf("peer %s: %s: %v", short(p.PublicKey), p.host, err)
		}
		p.problem = err.Error()
		return
	}
	p.misses, p.problem = 0, ""
	to := addrs[0].Unmap()
	// One that is in use and fails is not tried again before the others.
	if i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Unmap() == p.now.Endpoint.Addr() }); i >= 0 {
		to = addrs[(i+1)%len(addrs)].Unmap()
	}
	at := netip.AddrPortFrom(to, p.port)
	if at == p.now.Endpoint {
		return
	}
	err = s.engine.set(nl.Device{Peers: []nl.Peer{{
		PublicKey: p.PublicKey, PresharedKey: p.PresharedKey, Keepalive: p.Keepalive, AllowedIPs: p.AllowedIPs, Endpoint: at,
	}}})
	if err != nil {
		s.o.Logf("%v", err)
		return
	}
	s.o.Logf("peer %s: %s is %s", short(p.PublicKey), p.host, at)
	p.now.Endpoint, p.since, p.txMark = at, time.Now(), p.now.TxBytes
}

// short names a peer in a line of the log.
func short(k conf.Key) string { return k.String()[:8] }
