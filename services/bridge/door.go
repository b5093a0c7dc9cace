//go:build linux

package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/tty"
)

// Who comes and who goes: accept, the first bytes, takeover, orderly ends.

const (
	// acceptRetry is the pause after an accept that failed for want of
	// descriptors or memory.
	acceptRetry = 100 * time.Millisecond
	// acceptBatch bounds how many newcomers are taken before the data path
	// has its turn again.
	acceptBatch = 8
	// While there is a client, newcomers are taken one each crowdEvery, and
	// crowdAtOnce without waiting before that: each costs the data path's thread
	// some system calls, so that a flood of them would be the client's. The others
	// wait in the kernel, backlog of them, and others have no answer, by which they
	// come less often, too.
	crowdEvery  = 100 * time.Millisecond
	crowdAtOnce = 32
	// sentPoll is how often it is looked at whether the UART has sent
	// everything, when the bridge or its client ends.
	sentPoll = 10 * time.Millisecond
	// refusalEvery bounds the lines about refused connections.
	refusalEvery = time.Second
)

// accept takes newcomers into the pending slots.
func (l *loop) accept() {
	batch := acceptBatch
	if l.queued {
		batch = backlog // of those that came before, the newest is to be found
	}
	for range batch {
		if l.crowded(l.now()) {
			return
		}
		fd, sa, err := unix.Accept4(l.b.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			switch {
			case unixIs(err, unix.EMFILE), unixIs(err, unix.ENFILE), unixIs(err, unix.ENOBUFS), unixIs(err, unix.ENOMEM):
				l.acceptAt = l.now() + acceptRetry
			case unixIs(err, unix.EAGAIN):
				l.queued = false
			}
			return // also one that was gone before it was taken
		}
		l.n.connects++
		l.crowd += crowdEvery
		p := l.slot()
		*p = newcomer{fd: fd, peer: addrPort(sa), nth: l.n.connects, since: l.now()}
		l.judge(p, p.since)
		l.look(p, 0) // mostly its first bytes are here already
		if p.said == isSSH {
			l.toSSH(p) // so that a crowd of them needs no slots
			continue
		}
		if l.queued && p.said.raw() && halfClosed(fd) {
			// What it said was meant for a radio of some time ago.
			l.refuse(p, "it ended before it could be served")
		}
	}
}

// crowded tells whether the client is to be spared another newcomer for now, and
// sees that they are taken later.
func (l *loop) crowded(now time.Duration) bool {
	l.crowd = max(l.crowd, now)
	soon := l.crowd - crowdAtOnce*crowdEvery
	if l.client.fd < 0 {
		l.crowd = min(l.crowd, now+crowdAtOnce*crowdEvery) // nobody has to be spared
		return false
	}
	if soon < now {
		return false
	}
	l.acceptAt = max(l.acceptAt, soon+1)
	return true
}

// slot returns a free pending slot. When all are taken the oldest newcomer
// goes: it had its chance, and a client that speaks needs no more than a
// moment in here.
func (l *loop) slot() *newcomer {
	oldest := &l.pending[0]
	for i := range l.pending {
		p := &l.pending[i]
		if p.fd < 0 {
			return p
		}
		if p.nth < oldest.nth {
			oldest = p
		}
	}
	reason := "it did not show what it is, and others are waiting"
	if oldest.said.raw() {
		reason = "too many newer ones came at the same time"
	}
	l.refuse(oldest, reason)
	return oldest
}

// look peeks at a newcomer's first bytes; they stay in its socket.
func (l *loop) look(p *newcomer, r int16) {
	n, e := rawPeek(p.fd, l.scratch[:sniffBytes])
	switch {
	case again(e):
		return
	case e != 0 || n == 0:
		p.gone = true
		return
	}
	if r&(unix.POLLHUP|unix.POLLERR) != 0 {
		// It was reset: nobody is there for whom it could take the radio.
		p.said, p.gone = undecided, true
		return
	}
	p.said = sniff(l.scratch[:n])
	if p.said == undecided {
		p.gone = r&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
		// Poll must not report what was seen already.
		lowWater(p.fd, n+1)
		p.seen = n
	}
}

// settle decides about every newcomer, the newest first, so that those who
// came before it find it on the line.
func (l *loop) settle(now time.Duration) {
	for {
		var newest *newcomer
		var do action
		var reason string
		for i := range l.pending {
			p := &l.pending[i]
			if p.fd < 0 {
				continue
			}
			a, until, why := p.next(now, &l.client, &l.b.o)
			if a == wait {
				l.due = min(l.due, until)
				continue
			}
			if newest == nil || p.nth > newest.nth {
				newest, do, reason = p, a, why
			}
		}
		if newest == nil {
			return
		}
		switch do {
		case promote:
			l.promote(newest, now)
		case handOver:
			l.toSSH(newest)
		case refuse:
			if reason == outsideList || reason == outsideLink {
				l.n.notAllowed++
				l.stranger, l.strangerAt = newest.peer.Addr().String()+": "+reason, now
			}
			l.refuse(newest, reason)
		case forget:
			unix.Close(newest.fd)
			newest.fd = -1
		case wait:
		}
	}
}

// promote makes a newcomer the client. INV 4: one raw client, newest wins.
func (l *loop) promote(p *newcomer, now time.Duration) {
	if l.port == nil {
		l.refuse(p, l.closed())
		return
	}
	came := *p
	p.fd = -1
	switch {
	case l.client.halfClosed:
		l.leave(closedByClient + "; " + came.peer.String() + " came before the radio had taken everything")
	case l.client.fd >= 0:
		l.n.takeovers++
		l.takenOver(l.client.peer.Addr(), came.peer.Addr(), now)
		l.leave("replaced by " + came.peer.String())
	}
	l.drain()
	if l.port == nil { // it broke just now
		p.fd = came.fd
		l.refuse(p, l.closed())
		return
	}
	if l.port.Flow() == tty.FlowSoft {
		// An XOFF from before, or a noise byte that looked like one, must not
		// hold the new client.
		_ = l.port.ResumeOutput()
	}
	if came.seen > 0 {
		lowWater(came.fd, 1)
	}
	l.client = client{
		fd: came.fd, peer: came.peer, nth: came.nth, since: now, sniffed: came.said.raw(), stalled: never,
	}
	l.stall.since, l.stall.reported = never, false
	l.client.counters, _ = l.port.Counts()
	l.watch.begin()
	l.sessions.log(l.b.o.Log, "client "+came.peer.String()+" connected"+l.before(now), now)
	l.drainedNow = 0
}

// takenOver looks for hosts that take the radio from each other in turns.
func (l *loop) takenOver(loser, winner netip.Addr, now time.Duration) {
	contention, news := l.takeovers.add(loser, winner, now)
	if contention {
		l.n.contentions++
	}
	if news {
		l.b.o.Log("warning: " + l.takeovers.text())
	}
}

// errNoSSH is what a bridge without Options.SSH says.
var errNoSSH = errors.New("nobody serves SSH here")

// toSSH gives a newcomer to the SSH service. It holds nobody up and evicts
// nobody; nothing it says is read here.
func (l *loop) toSSH(p *newcomer) {
	if err := l.giveSSH(p.fd); err != nil {
		l.refuse(p, "it speaks SSH: "+err.Error())
		return
	}
	unix.Close(p.fd)
	p.fd = -1
}

// giveSSH hands a socket over; it stays open here.
func (l *loop) giveSSH(fd int) error {
	lowWater(fd, 1)
	err := errNoSSH
	if l.b.o.SSH != nil {
		err = l.b.o.SSH(fd)
	}
	if err == nil {
		l.n.ssh++
	}
	return err
}

// clientIsSSH is for a client that came in by silence and speaks SSH after all.
func (l *loop) clientIsSSH() {
	if err := l.giveSSH(l.client.fd); err != nil {
		l.n.refused++
		l.leave("it speaks SSH: " + err.Error())
		return
	}
	unix.Close(l.part("it speaks SSH, and is handed over"))
}

// closed says why there is no radio to be had.
func (l *loop) closed() string {
	if l.b.o.Unavailable != "" {
		return l.b.o.Unavailable
	}
	return notOpen + l.uartErr
}

// before tells what was before this client.
func (l *loop) before(now time.Duration) string {
	s := ", the first"
	if l.leftAt != never {
		// Who is replaced leaves a little after the decision that was made now.
		s = ", " + span(max(0, now-l.leftAt)) + " after the last one left"
	}
	if l.drainedNow > 0 {
		s += "; " + strconv.FormatUint(l.drainedNow, 10) + " older bytes from the radio discarded"
	}
	return s
}

// closedByClient is the reason of an end that the client wanted.
const closedByClient = "closed by the client"

// halfClose notes the client's FIN.
func (l *loop) halfClose() {
	c := &l.client
	if c.halfClosed {
		return
	}
	c.halfClosed, l.dirty = true, true
	c.sent, c.sentAt = c.tx-l.unsent(), l.now()
}

// broke acts on a connection that failed with e. The client is gone, but one
// that sent its FIN first (EPIPE is how TCP says that) ended in the orderly
// way, and what it said before is still the radio's.
func (l *loop) broke(e unix.Errno) {
	c := &l.client
	if e != unix.EPIPE {
		l.leave(l.broken(e))
		return
	}
	l.halfClose()
	c.deaf, c.stalled, l.dirty = true, never, true
	l.n.discarded += uint64(l.rx.len())
	l.rx.reset()
	l.fds[atClient].Fd = -1
}

// lastWords sees what a half-closed client said to the radio. It is the client
// until the UART has sent that, or as long as something moves and nobody else
// wants the radio.
func (l *loop) lastWords(now time.Duration) {
	c := &l.client
	if c.deaf && !c.readAll && l.tx.empty() {
		if l.fromClient(0); c.fd < 0 {
			return
		}
	}
	held := l.unsent()
	sent := c.tx - held
	limit := l.b.o.Limits.HalfClosed
	switch {
	case c.readAll && l.tx.empty() && held == 0:
		// INV 2: it may still read what the radio said, until it takes nothing.
		if l.rx.empty() {
			l.leave(closedByClient)
		}
	case sent > c.sent:
		c.sent, c.sentAt = sent, now
	case now-c.sentAt >= limit:
		l.leave(closedByClient + ", and the radio took nothing for " + limit.String())
	}
}

// unsent returns how much of what the driver was given it has not sent. The
// UART's own FIFO (16 bytes, or a few more) is not in it.
func (l *loop) unsent() uint64 {
	if l.port == nil {
		return 0
	}
	n, err := l.port.Unsent()
	if err != nil || n < 0 { // hung up
		return 0
	}
	if l.client.fd < 0 {
		return min(uint64(n), l.n.tx)
	}
	// All of it is this client's: the one before left none.
	return min(uint64(n), l.client.tx)
}

// drop throws away what still waits for the radio, in the queue and in the
// driver, and returns how much that was: a command that its sender did not get
// through whole is no use in front of somebody else's.
func (l *loop) drop() uint64 {
	held := l.unsent()
	n := held + uint64(l.tx.len())
	if n == 0 {
		return 0
	}
	if l.port != nil {
		_ = l.port.FlushOutput() // it fails when the UART hung up, which drops all
	}
	l.tx.reset()
	l.n.tx -= held
	l.client.tx -= min(held, l.client.tx)
	l.n.txDropped += n
	return n
}

// droppedTo says what drop dropped.
func droppedTo(n uint64) string { return strconv.FormatUint(n, 10) + " bytes for the radio dropped" }

// leave ends the client's session in the orderly way and says why.
func (l *loop) leave(reason string) {
	fd := l.part(reason)
	l.finish(fd, l.leftAt)
}

// sessionLines are logged at once, and one more every sessionLineEvery: two
// clients that evict each other ten times a second must not push everything
// else out of the log.
const (
	sessionLines     = 40
	sessionLineEvery = 3 * time.Second
)

// budget bounds log lines: so many at once, and one more each time that every
// has passed.
type budget struct {
	lines  int
	every  time.Duration
	spent  int           // lines that have not been forgiven
	at     time.Duration // up to when they were
	unsaid int           // lines left out since the last
}

// log says a line, or counts it.
func (b *budget) log(log func(string), line string, now time.Duration) {
	forgiven := int((now - b.at) / b.every)
	b.at += time.Duration(forgiven) * b.every
	if b.spent -= forgiven; b.spent <= 0 {
		b.spent, b.at = 0, now
	}
	if b.spent >= b.lines {
		b.unsaid++
		return
	}
	b.spent++
	if b.unsaid > 0 {
		line += " (and " + strconv.Itoa(b.unsaid) + " more since the last such line)"
		b.unsaid = 0
	}
	log(line)
}

// part ends the client's session and says why. Its socket is the caller's.
func (l *loop) part(reason string) (fd int) {
	c := &l.client
	now := l.now()
	var dropped uint64
	if !l.stopping { // a bridge that ends has the time to send them
		dropped = l.drop()
	}
	line := "client " + c.peer.String() + " disconnected after " + span(now-c.since) + ": " +
		strconv.FormatUint(c.rx, 10) + " bytes from the radio, " + strconv.FormatUint(c.tx, 10) + " to it: " + reason
	if dropped > 0 {
		line += "; " + droppedTo(dropped)
	}
	if errs := l.lostBytes(); errs != "" {
		line += "; the UART reports " + errs
	}
	l.sessions.log(l.b.o.Log, line, now)
	l.lastClose = c.peer.String() + ": " + reason
	fd = c.fd
	*c = client{fd: -1, stalled: never}
	l.stall.since, l.stall.reported = never, false
	l.fds[atClient].Fd = -1
	l.leftAt = now
	l.n.discarded += uint64(l.rx.len())
	l.drainedNow = uint64(l.rx.len())
	l.rx.reset()
	l.dirty = true
	return fd
}

// lostBytes names the UART's errors during this client's session (INV 2).
func (l *loop) lostBytes() string {
	if l.port == nil {
		return ""
	}
	n, err := l.port.Counts()
	if err != nil {
		return ""
	}
	o := l.client.counters
	if n.Frame == o.Frame && n.Parity == o.Parity && n.Overrun == o.Overrun && n.BufferOverrun == o.BufferOverrun {
		return ""
	}
	return fmt.Sprintf("%d framing and %d parity errors, %d overruns of its FIFO, %d of its buffer",
		n.Frame-o.Frame, n.Parity-o.Parity, n.Overrun-o.Overrun, n.BufferOverrun-o.BufferOverrun)
}

// refuse closes a newcomer in the orderly way. A flood of them is one line a
// second.
func (l *loop) refuse(p *newcomer, reason string) {
	l.n.refused++
	now := l.now()
	l.refusals.log(l.b.o.Log, "connection from "+p.peer.String()+" closed: "+reason, now)
	l.finish(p.fd, now)
	p.fd = -1
}

// finish sends FIN and keeps the socket until the peer's comes: a close with
// bytes unread would send RST, which kills clients that do not reconnect.
func (l *loop) finish(fd int, now time.Duration) {
	l.dirty = true
	lowWater(fd, 1)
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
		unix.Close(fd) // the peer has reset it
		return
	}
	g := &l.linger[0]
	for i := range l.linger {
		if l.linger[i].fd < 0 {
			g = &l.linger[i]
			break
		}
		if l.linger[i].until < g.until {
			g = &l.linger[i]
		}
	}
	if g.fd >= 0 {
		unix.Close(g.fd)
	}
	*g = lingering{fd: fd, until: now + l.b.o.Limits.Linger}
	l.hear(g)
}

// hear discards what an ended connection still sends, and closes it at the
// peer's FIN.
func (l *loop) hear(g *lingering) {
	// Bounded: a peer that writes without end does not hold the data path.
	for range 4 {
		n, e := rawRead(g.fd, l.scratch)
		if again(e) {
			return
		}
		if e != 0 || n == 0 {
			unix.Close(g.fd)
			g.fd = -1
			return
		}
	}
}

// stop begins the end: nobody new, FIN to everybody.
func (l *loop) stop() {
	if l.stopping {
		return
	}
	now := l.now()
	l.stopping, l.stopBy, l.dirty = true, now+l.b.o.Limits.Linger, true
	if l.client.fd >= 0 {
		l.leave("the bridge ends")
	}
	for i := range l.pending {
		if p := &l.pending[i]; p.fd >= 0 {
			l.finish(p.fd, now)
			p.fd = -1
		}
	}
}

// finished tells whether everybody has gone and everything is sent.
func (l *loop) finished() bool {
	if l.now() >= l.stopBy {
		return true
	}
	for i := range l.linger {
		if l.linger[i].fd >= 0 {
			return false
		}
	}
	if l.port == nil {
		return true
	}
	if !l.tx.empty() {
		return false
	}
	unsent, err := l.port.Unsent()
	return err != nil || unsent == 0
}

// end closes what is left and gives the UART back.
func (l *loop) end() {
	if l.client.fd >= 0 {
		unix.Close(l.client.fd)
	}
	for i := range l.pending {
		if l.pending[i].fd >= 0 {
			unix.Close(l.pending[i].fd)
		}
	}
	for i := range l.linger {
		if l.linger[i].fd >= 0 {
			unix.Close(l.linger[i].fd)
		}
	}
	if l.port != nil {
		if n := l.drop(); n > 0 {
			l.b.o.Log(droppedTo(n))
		}
		l.giveUART(nil)
	}
}

// lowWater sets how many bytes a socket must hold before poll reports it.
func lowWater(fd, bytes int) {
	// It cannot fail on a TCP socket; if it did, poll would only report more.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes)
}

// halfClosed tells whether the peer has sent its FIN.
func halfClosed(fd int) bool {
	p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, _ := rawPoll(p[:], 0)
	return n > 0
}

// span is d for people: milliseconds matter below a second only.
func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func wrap(what string, e unix.Errno) error { return fmt.Errorf("%s: %w", what, e) }
