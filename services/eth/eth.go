// Package eth gives the box its network: the loopback and Ethernet links, the
// MAC, an address from DHCP or from eth0.conf, routes, resolv.conf, hosts and
// the host name.
//
// Nothing in it is fatal (INV 10, 11): an interface that is not there is waited
// for, a step that fails is logged and done again later. IPv6 addresses are the
// kernel's own work (SLAAC), the name servers of its routers are ours (RFC 8106).
// It does not judge whether the network is of any use; netwatch does.
//
// # One address, one host
//
// An address is announced when it comes and when the link came back, and watched
// over (package arp). A lease whose address another host has is declined; an
// address of eth0.conf or eth0.bak stays, as without it nobody would find the
// box, and the status names the other.
//
// # What a restart finds
//
// The address stays on the interface when the process ends, its name in
// /run/eth0.addr and its lease in /run/eth0.lease. The next start goes on with
// that lease until its end, whether or not a server answers, so no connection
// breaks. The kernel removes a leased address at the lease's end by itself.
//
// A reboot finds the address alone, in /userdata/etc/eth0.lease, and asks for it
// first.
package eth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/internal/wait"
	"gwinit/services/eth/arp"
	"gwinit/services/eth/dhcp"
)

const (
	// retryEvery is when something that failed is tried again, and how often
	// an interface that is not there is looked for besides its notification.
	retryEvery = 5 * time.Second
	// lookEvery is how often the link is looked at without a notification.
	lookEvery = 30 * time.Second
)

// Options is what a Service works on. The zero value is the box.
type Options struct {
	Root      string // file system root; "" is /
	Interface string // default eth0
	Kernel    netdev.Kernel
	// Transport makes the DHCP client's sockets on a link.
	Transport func(netdev.Link) dhcp.Transport
	// ARP gives the way to ask who has an address on a link.
	ARP func(netdev.Link) arp.Opener
	// SetHostname sets the kernel's host name.
	SetHostname func(string) error
	// Random fills b, waiting for entropy until ctx ends at most.
	Random func(ctx context.Context, b []byte) error
	// Userdata tells whether /userdata is mounted, so that a MAC made now
	// will be there at the next boot.
	Userdata func() bool
	// Uptime is CLOCK_MONOTONIC, which a restart does not set back (INV 13).
	Uptime func() time.Duration
	// Changed is called when the link came up, or with another address or
	// another choice of time servers. It must not block, nor call the Service.
	Changed func()
	// Log takes one event, a line without its end.
	Log func(string)
}

// Service is the network of one interface.
type Service struct {
	opt    Options
	wishes chan wish // holds one
	// Of Run's goroutine.
	cfg         config.Network
	changed     <-chan struct{}         // nil: not subscribed
	watchSaid   bool                    // why not was logged
	routers     <-chan netdev.RouterDNS // nil: not subscribed
	routersSaid bool
	flaps       flaps

	guards sync.WaitGroup // what guard started

	// mu guards what follows, and is held while a setup is applied, so that
	// there is one at a time.
	mu        sync.Mutex
	link      netdev.Link // last seen; Index 0: not there
	mtu       int         // of the interface when it was found
	cur       setup
	since     time.Time // of cur's address
	guard     guarding
	network   netip.Prefix // of the last lease
	saved     saved
	conflict  conflict // addr not valid: none
	routerDNS []routerDNS
	shunned   time.Time // routers are not listened to until then; zero: they are
	lease     *dhcp.Lease
	dirty     bool // cur could not be applied in full
	retryAt   time.Time
	lastErr   string
}

// setup is a complete IPv4 configuration.
type setup struct {
	method, state string // as in api.Network
	addr          netip.Prefix
	broadcast     netip.Addr // not valid: the last one of addr
	expires       time.Time  // zero: never
	routes        []netdev.Route
	gateway       netip.Addr
	dns           []netip.Addr
	standIn       bool // dns is not of this network
	ntp           []netip.Addr
	search        []string
	server        netip.Addr
	mtu           int // 0: the interface's own
}

// New returns the service; nothing happens before Run.
func New(opt Options) *Service {
	opt.Interface = cmp.Or(opt.Interface, "eth0")
	if opt.Kernel == nil {
		opt.Kernel = netdev.System{Root: opt.Root}
	}
	if opt.Transport == nil {
		opt.Transport = func(l netdev.Link) dhcp.Transport { return dhcp.Sockets{Link: l} }
	}
	if opt.ARP == nil {
		opt.ARP = arp.On
	}
	if opt.SetHostname == nil {
		opt.SetHostname = func(name string) error { return syscall.Sethostname([]byte(name)) }
	}
	if opt.Random == nil {
		opt.Random = random
	}
	if opt.Userdata == nil {
		opt.Userdata = func() bool { return mounted(filepath.Join("/", opt.Root, "userdata")) }
	}
	if opt.Uptime == nil {
		opt.Uptime = uptime
	}
	if opt.Changed == nil {
		opt.Changed = func() {}
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	return &Service{opt: opt, wishes: make(chan wish, 1), cur: setup{method: "none", state: "down"}}
}

// Run keeps the network up until ctx ends, and returns nil then; there is no
// failure it would end for (INV 10). The interface and its address stay as
// they are.
func (s *Service) Run(ctx context.Context) error {
	cfg, warnings := config.LoadNetwork(s.opt.Root)
	s.cfg = cfg
	for _, w := range warnings {
		s.opt.Log(w.String())
	}
	if err := s.opt.SetHostname(cfg.Hostname); err != nil {
		s.opt.Log(fmt.Sprintf("set host name %q: %v", cfg.Hostname, err))
	}
	s.writeHosts(netip.Addr{})
	s.loopback()

	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	said := false
	for {
		s.subscribe(ctx)
		link, err := s.opt.Kernel.Link(s.opt.Interface)
		if ctx.Err() != nil {
			// An ended context is one of the things that the select below
			// may take; nothing is set up on the way out.
		} else if err == nil {
			said = false
			s.runLink(ctx, link)
		} else if !said {
			said = true
			s.opt.Log(fmt.Sprintf("%v; waiting for it", err))
		}
		select {
		case <-ctx.Done():
			if s.changed != nil {
				for range s.changed { // until its goroutine is gone
				}
			}
			if s.routers != nil {
				for range s.routers {
				}
			}
			return nil
		case _, ok := <-s.changed:
			if !ok {
				s.changed = nil
			}
		case _, ok := <-s.routers: // there is no link to hear it on
			if !ok {
				s.routers = nil
			}
		case <-s.wishes: // there is no link to grant it on
		case <-tick.C:
		}
	}
}

// subscribe makes sure that link changes are notified. Without it the link is
// looked at every few seconds (INV 11).
func (s *Service) subscribe(ctx context.Context) {
	s.subscribeDNS(ctx)
	if s.changed != nil || ctx.Err() != nil {
		return
	}
	changed, err := s.opt.Kernel.Watch(ctx)
	if err != nil {
		if !s.watchSaid {
			s.watchSaid = true
			s.opt.Log(err.Error())
		}
		return
	}
	s.changed, s.watchSaid = changed, false
}

// loopback sets lo up.
func (s *Service) loopback() {
	lo, err := s.opt.Kernel.Link("lo")
	if err == nil && !lo.Up {
		err = s.opt.Kernel.SetUp(lo.Index, true)
	}
	if err != nil {
		s.opt.Log(err.Error())
	}
}

// acceptRouters lets the kernel configure IPv6 as routers say. 2: also where
// forwarding is switched on, which must come later, as the kernel drops the routes
// of routers that it accepts no longer. Service.mu is held.
func (s *Service) acceptRouters() {
	value := "2"
	if !s.shunned.IsZero() {
		value = "0"
	}
	s.setSysctl("net/ipv6/conf/"+s.opt.Interface+"/accept_ra", value)
}

// runLink looks after the interface until it is gone or ctx ends.
func (s *Service) runLink(ctx context.Context, link netdev.Link) {
	s.mu.Lock()
	s.acceptRouters()
	s.mu.Unlock()
	wasUp := link.Up
	if err := s.bringUp(ctx, &link); err != nil {
		s.mu.Lock()
		s.note(err)
		s.mu.Unlock()
		wait.For(ctx, retryEvery)
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() == nil {
			s.link, s.cur, s.lease = netdev.Link{}, setup{method: "none", state: "down"}, nil
			s.conflict, s.routerDNS = conflict{}, nil
		}
	}()
	if wasUp {
		// What routers said to the process before is lost. They say it again
		// by themselves, too, so this may fail.
		_ = s.opt.Kernel.SolicitRouters(link.Index)
	}
	ctxGuard, endGuard := context.WithCancel(ctx)
	defer func() {
		endGuard()
		s.mu.Lock()
		s.guard = guarding{}
		s.mu.Unlock()
		s.guards.Wait()
	}()

	kept := s.kept(link.Index)
	var resume dhcp.Lease
	s.mu.Lock()
	s.link, s.mtu = link, link.MTU
	s.cur = setup{method: "dhcp", state: "asking", addr: kept}
	s.guard.ctx = ctxGuard
	s.mu.Unlock()

	var client *dhcp.Client
	if s.cfg.Static != nil {
		s.apply(static(s.cfg.Static, "static"))
	} else {
		l, unended := s.unended(link.MAC, kept)
		if unended {
			resume = l
		}
		client = dhcp.New(dhcp.Config{MAC: link.MAC, Hostname: s.cfg.Hostname, Resume: resume, Known: s.recall(link.MAC)},
			s.opt.Transport(link), (*handler)(s))
		s.mu.Lock()
		s.guard.client = client
		s.mu.Unlock()
		if unended {
			s.resume(l)
		}
		ctxClient, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			client.Run(ctxClient)
		}()
		defer func() {
			stop()
			<-done
		}()
		if link.Carrier {
			client.Carrier(true)
		}
	}
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	said := false
	for {
		next := min(s.again(), s.flaps.settle(s.opt.Log), s.boundRouters())
		said = said || link.Carrier
		if !said { // a link needs a few seconds to come up
			next = retryEvery
		}
		if s.subscribe(ctx); s.changed == nil {
			next = retryEvery
		}
		look.Reset(next)
		select {
		case <-ctx.Done():
			return
		case _, ok := <-s.changed:
			if !ok {
				s.changed = nil
			}
		case d, ok := <-s.routers:
			if !ok {
				s.routers = nil
			} else {
				s.heard(d)
			}
			continue
		case w := <-s.wishes:
			var ok bool
			if link, ok = s.grant(ctx, w, link, client); !ok {
				return
			}
		case <-look.C:
			if !link.Carrier && !said {
				said = true
				s.opt.Log(link.Name + ": no cable")
			}
		}
		now, err := s.opt.Kernel.Link(s.opt.Interface)
		if errors.Is(err, netdev.ErrNoLink) || err == nil && now.Index != link.Index {
			s.opt.Log(link.Name + " is gone")
			return
		}
		if err != nil {
			s.opt.Log(err.Error())
			continue
		}
		s.moved(link, now, client)
		link = now
	}
}

// moved acts on what is different about the link.
func (s *Service) moved(before, now netdev.Link, client *dhcp.Client) {
	s.mu.Lock()
	s.link = now
	s.mu.Unlock()
	if now.Up && !before.Up {
		// Routes went with the link; the address did not. The loop
		// applies both.
		s.mu.Lock()
		s.dirty, s.retryAt = true, time.Time{}
		s.mu.Unlock()
	}
	changes := max(1, now.Changes-before.Changes)
	switch {
	case now.Carrier && (!before.Carrier || now.Changes != before.Changes):
		// Also a flap too short to be seen: only the count tells.
		speed := ""
		if now.SpeedMbit > 0 {
			speed = fmt.Sprintf(", %d Mbit/s", now.SpeedMbit)
		}
		s.flaps.say(s.opt.Log, now.Name+": link up"+speed, changes)
		s.mu.Lock()
		if s.guard.moved = true; s.cur.method != "dhcp" {
			s.guard.again = time.Now().Add(guardSettle)
		}
		s.doubtDNSLocked()
		if !s.shunned.IsZero() { // it may be another network
			s.shunned = time.Now()
		}
		s.mu.Unlock()
		s.opt.Changed()
		if client != nil {
			client.Carrier(true)
		}
	case before.Carrier && !now.Carrier:
		s.flaps.say(s.opt.Log, now.Name+": link down", changes)
		s.mu.Lock()
		s.guard.again = time.Time{}
		s.mu.Unlock()
		if client != nil {
			client.Carrier(false)
		}
	}
}

// bringUp gives the link its MAC and sets it up; link is what it became.
func (s *Service) bringUp(ctx context.Context, link *netdev.Link) error {
	k := s.opt.Kernel
	if mac, ok := s.mac(ctx, *link); ok && mac != link.MAC {
		// The box's driver refuses a new MAC while the link is up.
		if link.Up {
			if err := k.SetUp(link.Index, false); err != nil {
				return err
			}
		}
		if err := k.SetMAC(link.Index, mac); err != nil {
			s.opt.Log(fmt.Sprintf("%v; keeping %v", err, link.MAC))
		}
		link.Up = false
	}
	if !link.Up {
		if err := k.SetUp(link.Index, true); err != nil {
			return err
		}
	}
	now, err := k.Link(link.Name)
	if err != nil {
		return err
	}
	*link = now
	return nil
}

// apply makes to the configuration of the interface.
func (s *Service) apply(to setup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyLocked(to)
}

func (s *Service) applyLocked(to setup) {
	from := s.cur
	s.cur = to
	k, index := s.opt.Kernel, s.link.Index
	var errs []error
	// The old one goes first: a second address of one subnet goes with the
	// first.
	if from.addr.IsValid() && from.addr != to.addr {
		errs = append(errs, k.DelAddr(index, from.addr))
	}
	if to.addr.IsValid() {
		a := netdev.Addr{Prefix: to.addr, Broadcast: to.broadcast}
		if !to.expires.IsZero() {
			a.Valid = max(time.Second, time.Until(to.expires))
		}
		errs = append(errs, k.SetAddr(index, a))
	}
	if mtu := cmp.Or(to.mtu, s.mtu); mtu != s.link.MTU {
		if err := k.SetMTU(index, mtu); err != nil {
			s.opt.Log(err.Error()) // the network works without
		}
		s.link.MTU = mtu // or it is not tried again
		// Below 1280 bytes the kernel drops IPv6 and what was set of it.
		s.acceptRouters()
	}
	errs = append(errs, k.SetRoutes(index, to.routes))
	errs = append(errs, s.writeFiles(to))
	s.note(errors.Join(errs...))
	if to.addr != from.addr || s.since.IsZero() {
		s.since = time.Now()
	}
	s.guardLocked(false)
	if to.addr.IsValid() && (to.addr != from.addr || to.state != from.state || !slices.Equal(to.ntp, from.ntp)) {
		s.opt.Changed()
	}
}

// note remembers a failure for again, and logs it unless it is the last one's
// repetition.
func (s *Service) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.dirty, s.retryAt = err != nil, time.Now().Add(retryEvery)
	if text != "" && text != s.lastErr {
		s.opt.Log(text)
	}
	s.lastErr = text
}

// again applies the present configuration once more if that failed, and
// returns when to look again.
func (s *Service) again() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirty && !time.Now().Before(s.retryAt) {
		s.applyLocked(s.cur)
	}
	next := s.endDNSLocked()
	if at := s.guard.again; !at.IsZero() {
		if time.Now().Before(at) {
			next = min(next, time.Until(at))
		} else {
			s.guardLocked(true)
		}
	}
	s.rememberLocked()
	if s.dirty {
		next = min(next, time.Until(s.retryAt))
	}
	return next
}

// NTP tells whether there is a link with an IPv4 address, which a network with
// nothing but IPv6 has as well, from eth0.bak, and the time servers that the
// DHCP server names (option 42). It is safe for concurrent use.
func (s *Service) NTP() (up bool, servers []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link.Carrier && s.cur.addr.IsValid(), s.cur.ntp
}

// Status returns what there is now. It is safe for concurrent use.
func (s *Service) Status() api.Network {
	s.mu.Lock()
	link, cur, shared := s.link, s.cur, s.conflict
	dns := s.nameServersLocked(cur)
	s.mu.Unlock()
	n := api.Network{
		Interface: s.opt.Interface,
		Method:    cur.method,
		State:     cur.state,
		Addresses: []string{},
	}
	if link.Index == 0 {
		return n
	}
	n.MAC, n.Carrier, n.SpeedMbit = link.MAC.String(), link.Carrier, link.SpeedMbit
	switch {
	case !link.Up:
		n.State = "down"
	case !link.Carrier:
		n.State = "no-carrier"
	}
	// From the kernel: its own IPv6 addresses, and what is really there.
	addrs, err := s.opt.Kernel.Addrs(link.Index)
	if err != nil && cur.addr.IsValid() {
		addrs = []netdev.Addr{{Prefix: cur.addr}}
	}
	for _, a := range addrs {
		if !a.Duplicate {
			n.Addresses = append(n.Addresses, a.Prefix.String())
		}
	}
	n.Conflicts = conflicts(shared, addrs)
	if cur.gateway.IsValid() {
		n.Gateway = cur.gateway.String()
	}
	for _, d := range dns {
		n.DNS = append(n.DNS, d.String())
	}
	if cur.server.IsValid() {
		n.Server = cur.server.String()
	}
	if !cur.expires.IsZero() {
		n.Lease = int64(max(0, time.Until(cur.expires)) / time.Second)
	}
	return n
}
