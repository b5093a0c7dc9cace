//go:build linux

package metrics

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/config"
	"gwinit/internal/live"
	text "gwinit/internal/metrics"
	"gwinit/internal/onlink"
	"gwinit/internal/wait"
)

const (
	// maxConns is how many connections there are at a time. One more takes the
	// place of the oldest of which the request has not come yet, or the answer
	// has gone; where there is none, it is closed.
	maxConns = 8
	// headTime is how long a request may take to come, answerTime an answer to
	// be taken, and lingerTime the wait for the peer's end after it.
	headTime   = 3 * time.Second
	answerTime = 10 * time.Second
	lingerTime = time.Second
	// fresh is for how long figures are given again.
	fresh = time.Second
	// collectTime bounds the collection of figures: PID 1 waits 0.8 s for a
	// service that hangs.
	collectTime = 8 * time.Second
	// listenRetry is the pause after the address could not be had.
	listenRetry = 5 * time.Second
	// acceptRetry is the pause after an accept failed for want of descriptors.
	acceptRetry = 100 * time.Millisecond
	// refusalEvery bounds the lines about strangers.
	refusalEvery = time.Minute
	// linksFor is how long the gateway's networks are taken to be what they were.
	linksFor = 10 * time.Second
)

// Options are what the service works with.
type Options struct {
	// Settings returns what holds now: where to listen, as for net.Listen ("":
	// nowhere), and who is let in beside local networks.
	Settings func() (listen string, allow []netip.Prefix)
	// Collect returns the figures of this gateway.
	Collect func(ctx context.Context) (text.Sample, error)
	// OnLink returns the networks of the interfaces.
	OnLink func() ([]netip.Prefix, error)
	// Log takes an event, one line.
	Log func(string)

	// Listening is told where, each time there is a socket; may be nil.
	Listening func(net.Addr)
}

// Service is the responder.
type Service struct {
	o      Options
	reload live.Reload

	figures struct {
		sync.Mutex // held while they are collected
		body       []byte
		at         time.Time
	}
	links struct {
		sync.Mutex // guards the rest
		on         []netip.Prefix
		at         time.Time
	}
	refused time.Time // when a line about a stranger was written; of the accepting goroutine
}

// Settings are the Options' for the files below root ("" on the box).
func Settings(root string) func() (listen string, allow []netip.Prefix) {
	return func() (string, []netip.Prefix) {
		g, _ := config.LoadGateway(root)
		return g.Metrics, g.MetricsAllow
	}
}

// New returns the service, which Run starts.
func New(o Options) *Service {
	return &Service{o: o, reload: live.New()}
}

// Reload has the settings read again.
func (s *Service) Reload() { s.reload.Raise() }

// Run serves until ctx ends, and returns nil then. What fails is logged and
// tried again.
func (s *Service) Run(ctx context.Context) error {
	type settings struct {
		listen string
		allow  []netip.Prefix
	}
	load := func() (now settings) {
		now.listen, now.allow = s.o.Settings()
		return now
	}
	same := func(a, b settings) bool { return a.listen == b.listen && slices.Equal(a.allow, b.allow) }
	live.Run(ctx, s.reload, load, same, func(ctx context.Context, now settings) {
		if now.listen != "" {
			s.serve(ctx, now.listen, now.allow)
		}
	})
	return nil
}

// serve listens until ctx ends.
func (s *Service) serve(ctx context.Context, listen string, allow []netip.Prefix) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	var l net.Listener
	for said := false; l == nil; {
		var err error
		if l, err = config.Listen(ctx, "tcp", listen); err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		if !said {
			said = true
			s.o.Log("no metrics on " + listen + " yet, it is tried again every " + listenRetry.String() + ": " + err.Error())
		}
		if !wait.For(ctx, listenRetry) {
			return
		}
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	s.o.Log("metrics at http://" + l.Addr().String() + "/metrics")
	if s.o.Listening != nil {
		s.o.Listening(l.Addr())
	}
	var p peers
	defer p.end()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ENOMEM):
			wait.For(ctx, acceptRetry)
			continue
		case err != nil:
			continue // the peer was gone already
		}
		if from := address(c); !s.allowed(from, allow) {
			c.Close()
			if time.Since(s.refused) > refusalEvery {
				s.refused = time.Now()
				s.o.Log("metrics: " + from.String() + " is on no network of this gateway and was refused; METRICS_ALLOW lets others in")
			}
			continue
		}
		p.add(c, func() { s.answer(ctx, &p, c) })
	}
}

func address(c net.Conn) netip.Addr {
	a, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return a.AddrPort().Addr().Unmap().WithZone("")
}

// allowed tells whether an address may ask: one of local networks, as for the
// radio, or of the list.
func (s *Service) allowed(a netip.Addr, allow []netip.Prefix) bool {
	if onlink.Local(a) {
		return true
	}
	in := func(all []netip.Prefix) bool {
		for _, p := range all {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	if in(allow) {
		return true
	}
	s.links.Lock()
	defer s.links.Unlock()
	if s.links.at.IsZero() || time.Since(s.links.at) > linksFor {
		on, err := s.o.OnLink()
		if err != nil {
			s.o.Log("metrics: the networks of the interfaces are not known: " + err.Error())
		}
		s.links.on, s.links.at = on, time.Now()
	}
	return in(s.links.on)
}

// peers are the connections.
type peers struct {
	running sync.WaitGroup

	mu  sync.Mutex // guards the rest
	all []*peer    // oldest first
}

type peer struct {
	c    net.Conn
	busy bool // its request is there, and its answer not
}

// add runs serve for c, which it closes, if there is room or somebody makes it.
func (p *peers) add(c net.Conn, serve func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) >= maxConns && !p.evict() {
		c.Close()
		return
	}
	me := &peer{c: c}
	p.all = append(p.all, me)
	p.running.Go(func() {
		defer p.remove(me)
		serve()
	})
}

// evict takes the place of the oldest that has not asked, or has its answer.
func (p *peers) evict() bool {
	for i, o := range p.all {
		if !o.busy {
			o.c.Close()
			p.all = append(p.all[:i], p.all[i+1:]...)
			return true
		}
	}
	return false
}

func (p *peers) remove(me *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	me.c.Close()
	for i, o := range p.all {
		if o == me {
			p.all = append(p.all[:i], p.all[i+1:]...)
			return
		}
	}
}

// set says whether the request of c is there, and its answer not.
func (p *peers) set(c net.Conn, busy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.all {
		if o.c == c {
			o.busy = busy
		}
	}
}

// end closes all and waits for them.
func (p *peers) end() {
	p.mu.Lock()
	for _, o := range p.all {
		o.c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// answer serves one request. An error on c is its end, and nothing is to be
// done about it.
func (s *Service) answer(ctx context.Context, p *peers, c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(headTime)) // as above
	buf := make([]byte, maxHead)
	n, end := 0, -1
	for end < 0 && n < len(buf) {
		k, err := c.Read(buf[n:])
		n += k
		if end = headEnd(buf[:n]); end < 0 && err != nil {
			return
		}
	}
	r, head := tooLong, false
	if end >= 0 {
		r, head = parse(buf[:end])
	}
	p.set(c, true)
	var body []byte
	if r == ok {
		var err error
		if body, err = s.collect(ctx); err != nil {
			r, body = unavailable, []byte(err.Error()+"\n")
		}
	} else {
		body = []byte(r.text)
	}
	_ = c.SetDeadline(time.Now().Add(answerTime)) // as above
	if _, err := c.Write(answerHead(r, len(body))); err != nil {
		return
	}
	if !head {
		if _, err := c.Write(body); err != nil {
			return
		}
	}
	p.set(c, false)
	// A close with bytes unread would be a reset, by which the peer may lose
	// the answer.
	if t, is := c.(*net.TCPConn); is && t.CloseWrite() == nil {
		_ = c.SetDeadline(time.Now().Add(lingerTime)) // as above
		for {
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	}
}

// answerHead is what comes before the body.
func answerHead(r reply, length int) []byte {
	b := append([]byte("HTTP/1.1 "), r.status...)
	b = append(b, "\r\nContent-Type: "...)
	if r == ok {
		b = append(b, text.ContentType...)
	} else {
		b = append(b, "text/plain; charset=utf-8"...)
	}
	if r.allow {
		b = append(b, "\r\nAllow: GET, HEAD"...)
	}
	b = append(b, "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\nContent-Length: "...)
	return append(strconv.AppendInt(b, int64(length), 10), "\r\n\r\n"...)
}

// collect returns the figures, those of less than a second ago if there are
// such. What it returns is not changed any more.
func (s *Service) collect(ctx context.Context) ([]byte, error) {
	f := &s.figures
	f.Lock()
	defer f.Unlock()
	if f.body != nil && time.Since(f.at) < fresh {
		return f.body, nil
	}
	ctx, cancel := context.WithTimeout(ctx, collectTime)
	defer cancel()
	sample, err := s.o.Collect(ctx)
	if err != nil {
		f.body = nil
		return nil, err
	}
	f.body, f.at = text.Append(make([]byte, 0, len(f.body)+1<<10), sample), time.Now()
	return f.body, nil
}
