//go:build linux

package mdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/config"
	"gwinit/internal/netdev"
)

// retryEvery is when something that failed is tried again.
const retryEvery = 30 * time.Second

// Kernel is what the service needs from the kernel; netdev.System has it.
type Kernel interface {
	Link(name string) (netdev.Link, error)
	Addrs(index int) ([]netdev.Addr, error)
	// WatchAddrs signals changes of links and addresses, as netdev.Kernel's
	// Watch does those of links.
	WatchAddrs(ctx context.Context) (<-chan struct{}, error)
}

// Options is what a Service works on. The zero value is the box in normal mode.
type Options struct {
	Root      string // file system root; "" is /
	Interface string // default eth0
	Kernel    Kernel
	Version   string // of the firmware
	Safe      bool   // only console, network and ssh run: no radio
	SSH       uint16 // port of SSH; default 22
	Bridge    uint16 // port of the bridge; default 8888
	// Log takes one event, a line without its end.
	Log func(string)
}

// Service announces one interface's host.
type Service struct {
	opt    Options
	began  time.Time
	reload chan struct{}
	wake   chan struct{} // something is due earlier
	broken chan error    // a socket of no use any more

	// Of Run's goroutine.
	board   rtl8196e.Board
	config  facts           // without addresses
	changed <-chan struct{} // nil: not subscribed
	link    netdev.Link     // with which the sockets were made
	readers sync.WaitGroup
	problem string // the last one in the log

	mu      sync.Mutex // guards what follows
	r       *responder
	sockets [families]*socket
	armed   instant // when Run wakes up by itself; zero: not
	sendErr string  // the last one in the log
}

// New returns the service; nothing happens before Run.
func New(opt Options) *Service {
	opt.Interface = cmp.Or(opt.Interface, "eth0")
	opt.SSH = cmp.Or(opt.SSH, 22)
	opt.Bridge = cmp.Or(opt.Bridge, 8888)
	if opt.Kernel == nil {
		opt.Kernel = netdev.System{Root: opt.Root}
	}
	if opt.Log == nil {
		opt.Log = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	s := &Service{
		opt: opt, began: time.Now(), reload: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		broken: make(chan error, families),
	}
	s.r = newResponder(opt.Log, func(below time.Duration) time.Duration { return rand.N(below) }, s.send)
	return s
}

// now is the responder's clock.
func (s *Service) now() instant { return clockBegin + time.Since(s.began) }

// Reload has radio.conf and the host name read again, and what has changed
// announced. It does not block, and is safe for concurrent use.
func (s *Service) Reload() { signal(s.reload) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run announces until ctx ends, takes everything back then and returns nil;
// there is no failure it would end for (INV 10).
func (s *Service) Run(ctx context.Context) error {
	defer func() {
		s.mu.Lock()
		s.r.stop()
		s.mu.Unlock()
		s.close()
		if s.changed != nil {
			for range s.changed { // until its goroutine is gone
			}
		}
	}()
	s.board = rtl8196e.Detect(s.opt.Root)
	s.load()
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	look := true
	for {
		if look {
			look = false
			s.look(ctx)
		}
		s.mu.Lock()
		now := s.now()
		next := s.r.tick(now)
		s.armed = next
		s.mu.Unlock()
		switch retry := s.problem != "" || s.changed == nil; {
		case next != 0:
			timer.Reset(next - now)
		case retry:
			timer.Reset(retryEvery)
		default:
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-s.changed:
			if look = ok; !ok {
				s.changed = nil
			}
		case <-s.reload:
			s.load()
			look = true
		case err := <-s.broken:
			s.note(err)
			s.close()
			s.mu.Lock()
			s.r.set(s.now(), s.config, false, false)
			s.mu.Unlock()
		case <-s.wake:
		case <-timer.C:
			look = next == 0
		}
	}
}

// load reads what the records say from the settings. What is wrong in them is
// said by those that act on it.
func (s *Service) load() {
	radio, _ := config.LoadRadio(s.opt.Root, s.board)
	network, _ := config.LoadNetwork(s.opt.Root)
	s.config = facts{
		hostname: network.Hostname, radio: radio, board: s.board.ID, version: s.opt.Version,
		safe: s.opt.Safe, ssh: s.opt.SSH, bridge: s.opt.Bridge,
	}
}

// look compares the interface with what is announced.
func (s *Service) look(ctx context.Context) {
	var errs []error
	if s.changed == nil {
		changed, err := s.opt.Kernel.WatchAddrs(ctx)
		if err == nil {
			s.changed = changed
		}
		errs = append(errs, err)
	}
	link, err := s.opt.Kernel.Link(s.opt.Interface)
	var addrs []netip.Prefix
	if err == nil && link.Carrier {
		addrs, err = s.usable(link.Index)
	}
	if err != nil && !errors.Is(err, netdev.ErrNoLink) { // which eth waits for, and says so
		errs = append(errs, err)
	}
	up := len(addrs) > 0
	fresh := link.Changes != s.link.Changes || link.Index != s.link.Index
	if link.Index != s.link.Index {
		s.close()
	}
	s.link = link
	f := s.config
	f.mac, f.addrs = link.MAC, addrs
	errs = append(errs, s.open(link, &f))
	s.note(errors.Join(errs...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.r.set(s.now(), f, up, fresh)
}

// usable returns the interface's addresses that others can reach, the most
// useful ones first: IPv4, IPv6, and of that the link's own last.
func (s *Service) usable(index int) ([]netip.Prefix, error) {
	all, err := s.opt.Kernel.Addrs(index)
	var out, local []netip.Prefix
	for _, a := range all {
		switch {
		case a.Tentative:
		case a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast():
			local = append(local, a.Prefix)
		default:
			out = append(out, a.Prefix)
		}
	}
	return append(out, local...), err
}

// open makes the sockets of the families that there are addresses of, if they
// are not there yet (INV 11).
func (s *Service) open(link netdev.Link, now *facts) error {
	var errs []error
	for f := range families {
		s.mu.Lock()
		there := s.sockets[f] != nil
		s.mu.Unlock()
		if there || !now.has(f) {
			continue
		}
		sock, deaf, err := listen(f, link)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if deaf != nil {
			s.opt.Log(fmt.Sprintf("mdns: join %v on %s: %v; answering only what is sent to this box itself", sock.group.Addr(), link.Name, deaf))
		}
		s.mu.Lock()
		s.sockets[f] = sock
		s.mu.Unlock()
		s.readers.Add(1)
		go s.read(sock)
	}
	return errors.Join(errs...)
}

// close closes the sockets and waits for their readers.
func (s *Service) close() {
	s.mu.Lock()
	for f, sock := range s.sockets {
		if sock != nil {
			sock.conn.Close()
			s.sockets[f] = nil
		}
	}
	s.mu.Unlock()
	s.readers.Wait()
	for {
		select {
		case <-s.broken: // of those that were closed
		default:
			return
		}
	}
}

// read hands a socket's packets to the responder, on its own goroutine: an
// answer needs no other.
func (s *Service) read(sock *socket) {
	defer s.readers.Done()
	p := packet{msg: make([]byte, maxPacket)}
	var heard bucket
	for {
		if err := sock.receive(&p); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.broken <- err // there is room for one of each
			}
			return
		}
		s.mu.Lock()
		now := s.now()
		s.r.receive(now, &p)
		next := s.r.tick(now)
		earlier := next != 0 && (s.armed == 0 || next < s.armed)
		s.mu.Unlock()
		if earlier {
			signal(s.wake)
		}
		if !heard.take(now, hearEvery, hearBurst) {
			time.Sleep(floodPause)
		}
	}
}

// send is the responder's; s.mu is held.
func (s *Service) send(f family, to netip.AddrPort, msg []byte) {
	sock := s.sockets[f]
	if sock == nil || !s.r.facts.has(f) {
		return
	}
	text := ""
	if err := sock.send(to, msg); err != nil {
		text = err.Error()
	}
	if text != "" && text != s.sendErr {
		s.opt.Log(text)
	}
	if text != "" || !to.IsValid() {
		s.sendErr = text
	}
}

// note logs a problem unless it is the last one's repetition.
func (s *Service) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != s.problem {
		s.opt.Log(text)
	}
	s.problem = text
}
