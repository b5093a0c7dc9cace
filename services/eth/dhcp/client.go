package dhcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// State is where the client is in RFC 2131 figure 5. INIT and SELECTING are
// one: asking everybody.
type State int

// The states.
const (
	Init State = iota
	Requesting
	Rebooting
	Checking // the address was granted, and others are asked whether they have it
	Bound
	Renewing
	Rebinding
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"init", "requesting", "rebooting", "checking", "bound", "renewing", "rebinding"}[s]
}

// The client's times. RFC 2131 section 4.1 starts at 4 s and ends at 64 s. The
// first message after a link came up is the one that gets lost (the other end
// is not forwarding yet), and a gateway whose server boots after a power cut
// should not wait that long.
const (
	askMin = time.Second
	askMax = time.Minute
	// askSpread is the part of a delay by which it varies, either way: boxes
	// that lost power together do not ask together for ever.
	askSpread = 0.2
	// requestTries is how often one server is asked before INIT.
	requestTries = 4
	// rebootWait is how long a server has to confirm an address after the
	// link came back. Some must stay silent (RFC 2131 section 4.3.2), and a
	// moved cable shall lead to a DISCOVER within 2 s.
	rebootWait = 1500 * time.Millisecond
	// noServerAfter is when Handler.NoServer is called: about when udhcpc
	// with its three tries of 3 s gave up.
	noServerAfter = 10 * time.Second
	// linkSettle and linkEvery: what happens at a link that comes up waits a
	// moment for it to go down again, and happens at most so often.
	linkSettle = 100 * time.Millisecond
	linkEvery  = time.Second
	// declinePause is how long nothing is asked for after an address was
	// declined (RFC 2131 section 3.1: 10 s at least).
	declinePause = 10 * time.Second
	// strangerWait is how long a server that the client had a lease from has
	// to answer, too, when another one was quicker.
	strangerWait = 500 * time.Millisecond
	// renewMin bounds how often a lease's server is asked to renew it; RFC
	// 2131 section 4.4.5 says 60 s, which is one try on a two minute lease.
	renewMin, renewMinShort = time.Minute, 5 * time.Second
)

// Config is what the client says about itself.
type Config struct {
	MAC      [6]byte
	Hostname string // option 12; empty: not sent; cut at 63 bytes
	// Resume is a lease of an earlier Client whose address still stands on
	// this interface, if its Addr is valid. It is asked for before any other
	// and held until its end, whether or not a server answers (RFC 2131
	// section 3.2).
	Resume Lease
	// Known is what was had before a reboot, if its Addr is valid and Resume
	// is none: it is asked for first, and not used before it is granted.
	Known Known
}

// Known is an address that a server once granted.
type Known struct {
	Addr   netip.Addr
	Server netip.Addr // option 54
}

// Handler is told what became of the lease. Its methods are called one at a
// time from Run's goroutine and should not block for long.
type Handler interface {
	// Bound has a new lease, or the one before with a new end.
	Bound(Lease)
	// Lost says that the address may no longer be used, and why.
	Lost(why string)
	// InUse says that a granted address is declined, as other has it. Lost
	// follows, if it was in use here.
	InUse(addr netip.Addr, other [6]byte)
	// NoServer says that nobody has granted an address for a while and that
	// none is held. The client goes on asking. Called once until the next Bound.
	NoServer()
	// Event is one line for the log.
	Event(text string)
}

// Transport opens the ways to a server; a fake is in dhcptest.
type Transport interface {
	// Packet sends to everybody and receives without an address.
	Packet() (Conn, error)
	// UDP sends from port 68 and receives on it.
	UDP() (Conn, error)
	// InUse asks the others on the link whether one of them has addr. It
	// blocks for less than a second, or until ctx ends.
	InUse(ctx context.Context, addr netip.Addr) (other [6]byte, used bool, err error)
}

// Conn carries DHCP messages, without headers.
type Conn interface {
	// Send sends to port 67 of to, 255.255.255.255 for everybody.
	Send(msg []byte, to netip.Addr) error
	// Receive returns the next message, in buf, and its sender. It blocks
	// until Close, after which it returns an error.
	Receive(buf []byte) (n int, from netip.Addr, err error)
	Close() error
}

// Client is one DHCP client.
type Client struct {
	cfg Config
	tr  Transport
	h   Handler

	// link carries what Carrier said to Run, conflict what Conflict said; mu
	// guards them.
	mu   sync.Mutex
	link struct {
		up  bool
		ups uint // how often it came up
	}
	conflict struct {
		addr  netip.Addr
		other [6]byte
	}
	wake chan struct{} // holds one

	// Everything below belongs to Run.
	state State
	lease Lease // valid while held
	held  bool  // the address is in use
	known Known // what to ask for first, and from whom it was
	offer Lease // Requesting, and Init while an offer waits for a better one
	check check // Checking

	// A stranger's answer is acted upon then, unless the known server answers
	// first; zero: there is none.
	strangerAt time.Time
	stranger   func(now time.Time)

	up       bool
	upsSeen  uint
	linkAt   time.Time // when the link's return is acted upon; zero: never
	linkLast time.Time

	xid      uint32
	began    time.Time // of this acquisition, for secs
	askAt    time.Time // next message
	tries    int
	askedAt  time.Time // last request, where the lease will count from
	giveUpAt time.Time // NoServer; zero: said, or not asking
	naks     int

	path       path
	lastIO     string                // last I/O error that was told
	complained [complaints]time.Time // when it was, last
}

// What is complained of: each kind now and then.
const (
	badAnswer = iota
	cannotSend
	cannotCheck
	complaints
)

// check is the question whether others have the address that was granted.
type check struct {
	lease  Lease
	cancel context.CancelFunc
	result <-chan inUse // nil: nothing is asked
}

type inUse struct {
	other [6]byte
	used  bool
	err   error
}

// path is the open Conn and its reader.
type path struct {
	conn Conn
	udp  bool
	rx   chan []byte // closed when the reader ends
	stop chan struct{}
}

// New returns a client. The link counts as down until Carrier says otherwise.
func New(cfg Config, tr Transport, h Handler) *Client {
	return &Client{cfg: cfg, tr: tr, h: h, wake: make(chan struct{}, 1)}
}

// Carrier tells the client the link's state. It does not block. Two calls with
// true are a link that went down and up in between.
func (c *Client) Carrier(up bool) {
	c.mu.Lock()
	c.link.up = up
	if up {
		c.link.ups++
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Conflict tells the client that another host uses addr, with the MAC other,
// and does not give it up. It does not block. The client declines the lease and
// asks for another address.
func (c *Client) Conflict(addr netip.Addr, other [6]byte) {
	c.mu.Lock()
	c.conflict.addr, c.conflict.other = addr, other
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run asks for a lease and keeps it until ctx ends. It releases nothing: the
// address stays in use while the process is restarted.
func (c *Client) Run(ctx context.Context) {
	defer c.closePath()
	defer c.endCheck()
	c.known = c.cfg.Known
	if l := c.cfg.Resume; l.Addr.IsValid() {
		c.state, c.lease, c.held = Rebooting, l, true
		c.known = Known{l.Addr.Addr(), l.Server}
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.step(time.Now())
		timer.Reset(max(0, time.Until(c.next())))
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			c.noteLink(time.Now())
			c.noteConflict(time.Now())
		case r := <-c.check.result:
			c.checked(r, time.Now())
		case <-timer.C:
		case b, ok := <-c.path.rx:
			if !ok {
				c.closePath()
				continue
			}
			c.receive(b, time.Now())
		}
	}
}

// next is when step has something to do; far away if only a message or the
// link can change anything.
func (c *Client) next() time.Time {
	t := time.Now().Add(24 * time.Hour)
	earlier := func(at time.Time) {
		if !at.IsZero() && at.Before(t) {
			t = at
		}
	}
	if c.up {
		earlier(c.linkAt)
		if c.linkAt.IsZero() {
			earlier(c.askAt)
			earlier(c.strangerAt)
		}
		if c.state != Checking {
			earlier(c.giveUpAt)
		}
	}
	if c.held && c.lease.Duration != Infinite {
		earlier(c.lease.Acquired.Add(c.lease.Duration))
		if c.up && c.state == Bound {
			earlier(c.lease.Acquired.Add(c.lease.T1))
		}
		if c.up && c.state == Renewing {
			earlier(c.lease.Acquired.Add(c.lease.T2))
		}
	}
	return t
}

// step does what is due at now.
func (c *Client) step(now time.Time) {
	if c.held && c.lease.Left(now) == 0 {
		c.lose("the lease ended unrenewed", now)
	}
	if !c.up {
		c.closePath()
		c.endCheck()
		return
	}
	if !c.linkAt.IsZero() && !now.Before(c.linkAt) {
		c.linkAt, c.linkLast = time.Time{}, now
		c.begin(now)
	}
	if c.held && c.lease.Duration != Infinite {
		age := now.Sub(c.lease.Acquired)
		if c.state == Bound && age >= c.lease.T1 {
			c.enter(Renewing, now)
			c.newXID()
		}
		if c.state == Renewing && age >= c.lease.T2 {
			c.enter(Rebinding, now)
			c.h.Event(fmt.Sprintf("%v does not renew the lease, asking everybody", c.lease.Server))
		}
	}
	if c.linkAt.IsZero() && !c.strangerAt.IsZero() && !now.Before(c.strangerAt) {
		act := c.stranger
		c.strangerAt, c.stranger = time.Time{}, nil
		act(now)
	}
	if c.state != Checking && !c.giveUpAt.IsZero() && !now.Before(c.giveUpAt) {
		c.giveUpAt = time.Time{}
		if !c.held {
			c.h.NoServer()
		}
	}
	// While a link that just came up settles, begin decides what to ask.
	if c.linkAt.IsZero() && !c.askAt.IsZero() && !now.Before(c.askAt) {
		c.ask(now)
	}
}

// noteLink takes over what Carrier said.
func (c *Client) noteLink(now time.Time) {
	c.mu.Lock()
	up, ups := c.link.up, c.link.ups
	c.mu.Unlock()
	c.up = up
	if up && ups != c.upsSeen {
		at := now.Add(linkSettle)
		if first := c.linkLast.Add(linkEvery); !c.linkLast.IsZero() && at.Before(first) {
			at = first
		}
		c.linkAt = at
		if c.linkLast.IsZero() { // the first link needs no settling
			c.linkAt = now
		}
	}
	c.upsSeen = ups
}

// begin starts an acquisition: the link is there, or there again.
func (c *Client) begin(now time.Time) {
	if c.known.Addr.IsValid() {
		c.enter(Rebooting, now)
	} else {
		c.enter(Init, now)
	}
	c.newXID()
	c.began = now
	c.giveUpAt = now.Add(noServerAfter)
}

// enter changes the state and asks at once.
func (c *Client) enter(s State, now time.Time) {
	c.endCheck()
	c.state, c.tries, c.askAt = s, 0, now
	c.strangerAt, c.stranger = time.Time{}, nil
}

func (c *Client) newXID() { c.xid = rand.Uint32() }

// ask sends the state's message, or moves on when it has been sent often
// enough, and sets when to ask again.
func (c *Client) ask(now time.Time) {
	switch c.state {
	case Rebooting:
		if c.tries == 2 {
			c.enter(Init, now)
			c.newXID()
		}
	case Requesting:
		if c.tries == requestTries {
			c.h.Event(fmt.Sprintf("%v offered %v and does not grant it", c.offer.Server, c.offer.Addr.Addr()))
			c.known.Server = netip.Addr{} // another one may
			c.enter(Init, now)
			c.newXID()
		}
	case Bound, Checking:
		c.askAt = time.Time{}
		return
	}
	q := question{kind: dhcpv4.MessageTypeRequest, xid: c.xid, secs: c.secs(now)}
	to, udp := broadcast, false
	switch c.state {
	case Init:
		q.kind = dhcpv4.MessageTypeDiscover
		q.want = c.known.Addr // a wish, no claim: the server may know better
		c.askAt = now.Add(backoff(c.tries))
	case Requesting:
		q.want, q.server = c.offer.Addr.Addr(), c.offer.Server
		c.askAt = now.Add(backoff(c.tries))
	case Rebooting:
		q.want = c.known.Addr
		c.askAt = now.Add(rebootWait / 2)
	case Renewing:
		q.secs, q.ciaddr = 0, c.lease.Addr.Addr()
		to, udp = c.lease.Server, true
		c.askAt = c.renewAt(now, c.lease.T2)
	case Rebinding:
		q.secs, q.ciaddr = 0, c.lease.Addr.Addr()
		udp = true
		c.askAt = c.renewAt(now, c.lease.Duration)
	}
	c.tries++
	c.askedAt = now
	c.send(c.cfg.build(q), to, udp)
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// secs is how long this acquisition has taken (RFC 2131 table 1).
func (c *Client) secs(now time.Time) uint16 {
	return uint16(min(now.Sub(c.began)/time.Second, 0xffff))
}

// renewAt is when to ask for a renewal again: half of what is left until end,
// as RFC 2131 section 4.4.5, and never so close to it that it is not waited
// for.
func (c *Client) renewAt(now time.Time, end time.Duration) time.Time {
	least := max(renewMinShort, min(renewMin, c.lease.Duration/16))
	return now.Add(max(least, (end-now.Sub(c.lease.Acquired))/2))
}

// backoff is the delay after the try'th message, from 0.
func backoff(try int) time.Duration {
	d := min(askMax, askMin<<min(try, 8))
	return d + time.Duration((rand.Float64()*2-1)*askSpread*float64(d))
}

// send opens what is needed and sends. A failure is an event, once; the next
// try comes at its time.
func (c *Client) send(msg []byte, to netip.Addr, udp bool) {
	err := c.openPath(udp)
	if err == nil {
		err = c.path.conn.Send(msg, to)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == "" || text != c.lastIO && c.complain(cannotSend, "cannot ask for an address: "+text, time.Now()) {
		c.lastIO = text
	}
}

func (c *Client) openPath(udp bool) error {
	if c.path.conn != nil && c.path.udp == udp {
		return nil
	}
	c.closePath()
	open := c.tr.Packet
	if udp {
		open = c.tr.UDP
	}
	conn, err := open()
	if err != nil {
		return err
	}
	c.path = path{conn: conn, udp: udp, rx: make(chan []byte), stop: make(chan struct{})}
	go read(conn, c.path.rx, c.path.stop)
	return nil
}

// closePath ends the reader, waits for it and closes the socket.
func (c *Client) closePath() {
	if c.path.conn == nil {
		return
	}
	close(c.path.stop)
	if err := c.path.conn.Close(); err != nil {
		c.h.Event("close: " + err.Error())
	}
	for range c.path.rx { // until the reader has closed it
	}
	c.path = path{}
}

// read hands over what arrives, until conn is closed or fails.
func read(conn Conn, rx chan<- []byte, stop <-chan struct{}) {
	defer close(rx)
	buf := make([]byte, maxFrameBytes)
	for {
		n, _, err := conn.Receive(buf)
		if err != nil {
			return
		}
		select {
		case rx <- append([]byte(nil), buf[:n]...):
		case <-stop:
			return
		}
	}
}

// receive looks at one message.
func (c *Client) receive(b []byte, now time.Time) {
	m, err := c.cfg.parse(b, c.xid)
	if err != nil {
		return // broadcast traffic of others
	}
	from, named := hostAddr(m.Options.Get(dhcpv4.OptionServerIdentifier))
	stranger := named && c.known.Server.IsValid() && from != c.known.Server
	switch kind := m.MessageType(); {
	case kind == dhcpv4.MessageTypeOffer && c.state == Init:
		l, err := parseLease(m)
		if err != nil {
			c.complain(badAnswer, "offer refused: "+err.Error(), now)
			return
		}
		accept := func(now time.Time) {
			c.offer = l
			c.enter(Requesting, now)
		}
		if stranger {
			// Whose answer is first is chance, and a box that somebody
			// plugged in with a server of its own is often near.
			c.wait(now, accept)
			return
		}
		accept(now)
		c.step(now)
	case kind == dhcpv4.MessageTypeAck && c.asking():
		switch {
		case c.state == Requesting && named && from != c.offer.Server:
			return // another server, which was not asked
		case (c.state == Rebooting || c.state == Rebinding) && stranger:
			// It may grant what another one has granted, with itself as the
			// router.
			asked := c.askedAt
			c.wait(now, func(now time.Time) {
				c.askedAt = asked
				c.acked(m, now)
			})
			return
		}
		c.acked(m, now)
	case kind == dhcpv4.MessageTypeNak && c.asking():
		text := nakText(m)
		switch {
		case c.state == Requesting && named && from != c.offer.Server, c.state == Renewing && stranger:
			return // another server, which was not asked
		case (c.state == Rebooting || c.state == Rebinding) && stranger:
			// It refuses what it has not granted. Where the one that has is
			// there too, the address is good.
			c.wait(now, func(now time.Time) { c.refused(from, text, now) })
			return
		}
		c.refused(from, text, now)
	}
}

// wait has act follow from a stranger's answer in a while, unless there is one
// already, or the known server answers meanwhile.
func (c *Client) wait(now time.Time, act func(now time.Time)) {
	if c.strangerAt.IsZero() {
		c.strangerAt, c.stranger = now.Add(strangerWait), act
	}
}

// complain tells of what happens again and again, a minute apart, and returns
// whether it did: who floods the link, and a link that flaps, must not fill the log.
func (c *Client) complain(kind int, text string, now time.Time) bool {
	at := &c.complained[kind]
	if !at.IsZero() && now.Sub(*at) < askMax {
		return false
	}
	*at = now
	c.h.Event(text)
	return true
}

// asking tells whether a server was asked to grant an address.
func (c *Client) asking() bool {
	return c.state == Requesting || c.state == Rebooting || c.state == Renewing || c.state == Rebinding
}

func (c *Client) acked(m *dhcpv4.DHCPv4, now time.Time) {
	l, err := parseLease(m)
	if errors.Is(err, ErrLease) && c.held && m.Options.Get(dhcpv4.OptionServerIdentifier) == nil {
		// A renewal that does not repeat who grants it.
		m.Options[uint8(dhcpv4.OptionServerIdentifier)] = c.lease.Server.AsSlice()
		l, err = parseLease(m)
	}
	if err != nil {
		c.complain(badAnswer, "answer refused: "+err.Error(), now)
		return
	}
	if c.state == Requesting && l.Addr.Addr() != c.offer.Addr.Addr() {
		c.h.Event(fmt.Sprintf("%v granted %v and had offered %v", l.Server, l.Addr.Addr(), c.offer.Addr.Addr()))
	}
	l.Acquired = c.askedAt
	if c.held && l.Addr.Addr() == c.lease.Addr.Addr() && (c.state == Renewing || c.state == Rebinding) {
		c.bind(l)
		return
	}
	// RFC 2131 section 4.4.1: the others are asked before an address is used,
	// and RFC 5227 section 2.1 wants it for one that moved with the cable, too.
	c.enter(Checking, now)
	c.askAt = time.Time{}
	c.closePath()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan inUse, 1)
	c.check = check{l, cancel, result}
	go func() {
		var r inUse
		r.other, r.used, r.err = c.tr.InUse(ctx, l.Addr.Addr())
		result <- r
	}()
}

// endCheck ends what InUse does, and waits for it.
func (c *Client) endCheck() {
	if c.check.result != nil {
		c.check.cancel()
		<-c.check.result
		c.check = check{}
	}
}

// checked acts on what the others say of the address that was granted.
func (c *Client) checked(r inUse, now time.Time) {
	l := c.check.lease
	c.check.cancel()
	c.check = check{}
	switch {
	case r.used:
		c.decline(l, r.other, now)
	case r.err != nil: // INV 11: without the question as before there was one
		c.complain(cannotCheck, fmt.Sprintf("cannot ask whether %v is in use: %v", l.Addr.Addr(), r.err), now)
		c.bind(l)
	default:
		c.bind(l)
	}
}

// bind uses a lease.
func (c *Client) bind(l Lease) {
	c.lease, c.held, c.naks = l, true, 0
	c.known = Known{l.Addr.Addr(), l.Server}
	c.state, c.askAt, c.giveUpAt = Bound, time.Time{}, time.Time{}
	c.strangerAt, c.stranger = time.Time{}, nil
	c.closePath()
	c.h.Bound(l)
}

// noteConflict takes over what Conflict said.
func (c *Client) noteConflict(now time.Time) {
	c.mu.Lock()
	addr, other := c.conflict.addr, c.conflict.other
	c.conflict.addr = netip.Addr{}
	c.mu.Unlock()
	if c.held && addr == c.lease.Addr.Addr() {
		c.decline(c.lease, other, now)
	}
}

// decline tells the server that another host has the address it granted, and
// begins anew after a while.
func (c *Client) decline(l Lease, other [6]byte, now time.Time) {
	why := fmt.Sprintf("%v is used by another host, %v", l.Addr.Addr(), net.HardwareAddr(other[:]))
	c.newXID()
	if c.up {
		c.send(c.cfg.build(question{
			kind: dhcpv4.MessageTypeDecline, xid: c.xid, want: l.Addr.Addr(), server: l.Server,
		}), broadcast, false)
	}
	c.h.InUse(l.Addr.Addr(), other)
	// One more attempt has its time before the fallback, and no others: on the
	// link may be a host that claims every address.
	giveUpAt := c.giveUpAt
	switch {
	case c.held:
		giveUpAt = now.Add(declinePause + noServerAfter)
	case !giveUpAt.IsZero():
		giveUpAt = c.began.Add(declinePause + noServerAfter)
	}
	c.lose(why, now)
	c.askAt, c.giveUpAt = now.Add(declinePause), giveUpAt
}

// refused handles a NAK: the address is not ours here, start anew, with a
// delay that grows when a server keeps offering what it then refuses.
func (c *Client) refused(from netip.Addr, text string, now time.Time) {
	why := "refused by the server"
	if from.IsValid() {
		why = fmt.Sprintf("refused by %v", from)
	}
	if text != "" {
		why += ": " + text
	}
	wait := time.Duration(0)
	if c.naks > 0 {
		wait = backoff(c.naks - 1)
	}
	c.naks++
	c.known = Known{}
	c.lose(why, now)
	c.askAt = now.Add(wait)
}

// lose gives the address up and asks anew.
func (c *Client) lose(why string, now time.Time) {
	held := c.held
	c.held, c.known.Addr = false, netip.Addr{}
	c.enter(Init, now)
	c.newXID()
	c.began = now
	if held {
		c.giveUpAt = now.Add(noServerAfter)
		c.h.Lost(why)
	} else {
		c.h.Event(why)
	}
}
