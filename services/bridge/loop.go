//go:build linux

package bridge

import (
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/tty"
)

// Places in the array that poll(2) gets. The first four are always there, and
// all there is while a client is served; the rest is arranged when it changes.
const (
	atWake = iota
	atListener
	atUART
	atClient
	atOthers

	pendingSlots = 4
	// lingerSlots is how many ended connections wait for their peer's FIN at
	// a time; when more end, the oldest is closed without.
	lingerSlots = 16
	pollSlots   = atOthers + pendingSlots + lingerSlots
)

// firstOpen is how long connections wait for the first attempt on the UART to
// be over.
const firstOpen = 3 * time.Second

// never is a deadline that does not come.
const never = time.Duration(1<<63 - 1)

// lingering is a connection whose sending side is shut down.
type lingering struct {
	fd    int // -1: free slot
	until time.Duration
}

// client is the one raw client.
type client struct {
	fd       int // -1: nobody
	peer     netip.AddrPort
	nth      uint64 // as of a newcomer
	since    time.Duration
	rx, tx   uint64        // bytes from the radio, and to the UART's driver
	sniffed  bool          // its first bytes are known not to be SSH's
	stalled  time.Duration // since when it takes nothing; never: it does
	counters tty.Counts    // of the UART when it came

	// Its end, which it may have to wait for: see lastWords.
	halfClosed bool          // it has sent its FIN
	readAll    bool          // what it said before that is read
	deaf       bool          // it has closed its receiving side, too
	sent       uint64        // of tx, what had left the driver
	sentAt     time.Duration // when that was last found to have grown
}

// loop is the state of the data path. It belongs to one goroutine.
type loop struct {
	b *Bridge
	clock
	fds    [pollSlots]unix.PollFd
	used   int            // of fds
	who    [pollSlots]int // slot of an entry from atOthers on: pending, or ^linger
	due    time.Duration  // next deadline
	steady steady
	// dirty: arrange must run before the next wait.
	dirty bool

	port    Port // nil: the UART is not open
	lost    chan<- error
	uartErr string
	base    tty.Counts // counters when the port was opened
	counted [4]uint64  // frame, parity, overrun, buffer overrun of ports before

	line   *lineChange // of the open port, when it can be made; nil: none
	want   *lineChange // what the port has to be when it is opened; nil: as it is
	failed error       // why it stops, if nobody wants it to

	client  client
	rx, tx  queue // to the client, to the radio
	watch   watch
	scratch []byte
	pending [pendingSlots]newcomer
	linger  [lingerSlots]lingering

	links      links
	takeovers  takeovers
	stall      stall
	strangerAt time.Duration // when somebody who may not was last refused; never: nobody was
	stranger   string        // who that was, and why

	acceptAt   time.Duration // accept again then; 0: accept
	crowd      time.Duration // when the newcomers that came have had their crowdEvery each
	queued     bool          // the backlog may hold who came before the UART was open
	stopping   bool
	stopBy     time.Duration
	leftAt     time.Duration // when the last client left; never: there was none
	lastClose  string
	sessions   budget // lines about clients
	refusals   budget // and about those who did not become one
	n          counters
	drainedNow uint64 // thrown away since the last client left
}

// counters are since the process started.
type counters struct {
	rx, tx, discarded, dropped   uint64 // tx: to the UART's driver
	txDropped                    uint64
	connects, takeovers, refused uint64
	notAllowed, ssh, contentions uint64
	stalls, xoffs                uint64
}

func newLoop(b *Bridge) *loop {
	l := &loop{
		b:       b,
		clock:   newClock(),
		dirty:   true,
		leftAt:  never,
		uartErr: "not opened yet",
		links:   links{at: never}, takeovers: takeovers{seen: never}, strangerAt: never,
		stall: stall{since: never},
		// Who connects during a restart waits in the backlog for the UART,
		// instead of being told that it is not open.
		acceptAt: firstOpen,
		queued:   true,
		sessions: budget{lines: sessionLines, every: sessionLineEvery},
		refusals: budget{lines: 1, every: refusalEvery},
		scratch:  make([]byte, scratchBytes),
	}
	l.rx = queue{buf: make([]byte, rxQueueBytes), clock: l.clock}
	l.tx = queue{buf: make([]byte, txQueueBytes), clock: l.clock}
	l.watch = watch{clock: l.clock, resetAt: never}
	l.steady = steady{fds: &l.fds, watch: &l.watch, rx: pipe{queue: &l.rx}, tx: pipe{queue: &l.tx}}
	if b.o.Unavailable != "" {
		l.uartErr, l.acceptAt = b.o.Unavailable, 0
	}
	l.client.fd, l.client.stalled = -1, never
	for i := range l.pending {
		l.pending[i].fd = -1
	}
	for i := range l.linger {
		l.linger[i].fd = -1
	}
	l.fds[atWake] = unix.PollFd{Fd: int32(b.wakeR), Events: unix.POLLIN}
	l.fds[atListener] = unix.PollFd{Fd: int32(b.listener), Events: unix.POLLIN}
	l.fds[atUART].Fd, l.fds[atClient].Fd = -1, -1
	return l
}

// run is the loop: wait, move bytes, look after everything else.
func (l *loop) run() error {
	for {
		if l.dirty {
			l.arrange()
			if l.stopping && l.finished() {
				l.end()
				return l.failed
			}
		}
		n, err := l.wait()
		if err != 0 {
			l.end()
			return wrap("poll", err)
		}
		if n <= 0 {
			// A deadline, a signal, or bytes that were not moved.
			l.dirty = l.dirty || l.due != never
			l.interest()
			continue
		}
		n -= ready(&l.fds[atUART]) + ready(&l.fds[atClient])
		if r := l.fds[atUART].Revents; r != 0 {
			l.uartEvent(r)
		}
		if r := l.fds[atClient].Revents; r != 0 && l.client.fd >= 0 {
			l.clientEvent(r)
		}
		l.interest()
		if n > 0 {
			l.others()
		}
	}
}

func ready(p *unix.PollFd) int {
	if p.Revents != 0 {
		return 1
	}
	return 0
}

// wait is poll(2) until the next deadline, and moves plain bytes. n is 0 or less
// when there is nothing else.
func (l *loop) wait() (n int, e unix.Errno) {
	timeout := -1
	if l.due != never {
		// Rounded up, so that the deadline has passed when poll returns.
		left := l.due - l.now()
		timeout = int(max(0, (left+time.Millisecond-1)/time.Millisecond))
		timeout = min(timeout, 1<<30)
	}
	s := &l.steady
	s.used, s.timeout = l.used, timeout
	move := l.plain()
	s.rx.may, s.tx.may = true, l.stall.asked // else the next byte for the radio has it asked
	n, e = s.wait(move)
	if move {
		l.moved()
	}
	if e == unix.EINTR {
		return 0, 0
	}
	return n, e
}

// interest says to poll what can be done next. It is cheap and runs after
// every event.
func (l *loop) interest() {
	var uart, peer int16
	if l.client.fd < 0 || l.client.deaf {
		uart = unix.POLLIN // to be thrown away (INV 3)
	} else {
		// INV 2: what has no room is not read; flow control does the rest.
		if !l.rx.full() {
			uart = unix.POLLIN
		}
		if l.tx.empty() && !l.client.readAll && l.line == nil {
			peer = unix.POLLIN
		}
		// Its end is seen at once, also while the radio holds off; and once,
		// for poll would report it for ever.
		if !l.client.halfClosed {
			peer |= unix.POLLRDHUP
		}
		if !l.rx.empty() {
			peer |= unix.POLLOUT
		}
	}
	if !l.tx.empty() {
		uart |= unix.POLLOUT
	}
	l.fds[atUART].Events = uart
	l.fds[atClient].Events = peer
}

// uartEvent moves bytes from and to the UART.
func (l *loop) uartEvent(r int16) {
	if r&unix.POLLIN != 0 {
		if l.client.fd < 0 || l.client.deaf {
			l.discard()
		} else {
			l.fromUART()
		}
	} else if r&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
		l.uartLost(unix.EIO)
	}
	if r&unix.POLLOUT != 0 && l.port != nil {
		l.toUART()
	}
}

// fromUART reads what the radio said and hands it to the client.
func (l *loop) fromUART() {
	room := l.rx.room()
	l.rx.reading()
	n, e := rawRead(l.port.FD(), room)
	if n <= 0 || e != 0 {
		if !again(e) {
			l.uartLost(e)
		}
		return
	}
	first := l.rx.empty()
	l.rx.added(n)
	if first {
		l.toClient()
	}
	l.watch.saw(fromRadio, room[:n])
	l.overflow()
}

// overflow closes a client that the radio's bytes have no room for any more.
func (l *loop) overflow() {
	if l.client.fd >= 0 && l.rx.full() && l.port != nil && l.port.Flow() == tty.FlowNone {
		// INV 2: nothing can hold this radio back.
		l.n.dropped += uint64(l.rx.len())
		l.rx.reset()
		l.leave("it did not read for so long that the queue of " + strconv.Itoa(rxQueueBytes>>10) +
			" KiB is full, and without flow control the radio cannot be stopped")
	}
}

// toClient sends what is queued.
func (l *loop) toClient() {
	n, e := rawSend(l.client.fd, l.rx.waiting())
	if e != 0 && !again(e) {
		l.broke(e)
		return
	}
	if e == 0 && n > 0 {
		l.rx.took(n)
		l.n.rx += uint64(n)
		l.client.rx += uint64(n)
	}
	l.rx.settled()
	switch {
	case l.rx.empty():
		if l.client.stalled != never {
			l.client.stalled, l.dirty = never, true
		}
	case n > 0 && e == 0, l.client.stalled == never:
		l.client.stalled, l.dirty = l.now(), true
	}
}

// clientEvent moves bytes from and to the client.
func (l *loop) clientEvent(r int16) {
	if r&unix.POLLOUT != 0 && !l.rx.empty() {
		l.toClient()
		if l.client.fd < 0 {
			return
		}
	}
	broken := r&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	if r&unix.POLLRDHUP != 0 && !broken {
		l.halfClose()
	}
	if r&unix.POLLIN != 0 {
		l.fromClient(r)
		return
	}
	if broken {
		e, err := unix.GetsockoptInt(l.client.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || e == 0 {
			e = int(unix.EPIPE)
		}
		l.broke(unix.Errno(e))
	}
}

// fromClient reads what the client said and hands it to the radio.
func (l *loop) fromClient(r int16) {
	if !l.client.sniffed && !l.sniffClient(r) {
		return
	}
	room := l.tx.room()
	l.tx.reading()
	n, e := rawRead(l.client.fd, room)
	switch {
	case e != 0:
		if !again(e) {
			l.client.readAll = true
			l.broke(e)
		}
	case n == 0:
		l.halfClose()
		l.client.readAll = true
	default:
		l.tx.added(n)
		l.toUART()
		l.watch.saw(fromClient, room[:n])
		l.watchRadio()
	}
}

// sniffClient looks at the first bytes of a client that came in by silence,
// and returns whether they may go to the radio (INV 7).
func (l *loop) sniffClient(r int16) bool {
	n, e := rawPeek(l.client.fd, l.scratch[:sniffBytes])
	if e != 0 {
		if !again(e) {
			l.leave(l.broken(e))
		}
		return false
	}
	switch sniff(l.scratch[:n]) {
	case isRadio, isOther:
		lowWater(l.client.fd, 1)
		l.client.sniffed = true
		return true
	case isSSH:
		l.clientIsSSH()
		return false
	case isForeign:
		l.n.refused++
		l.leave(notForRadio)
		return false
	case undecided:
	}
	if n == 0 {
		l.halfClose()
		l.client.readAll = true
		return false
	}
	if r&(unix.POLLHUP|unix.POLLERR) != 0 || halfClosed(l.client.fd) {
		l.leave(closedByClient)
		return false
	}
	lowWater(l.client.fd, n+1)
	return false
}

// toUART writes what is queued for the radio.
func (l *loop) toUART() {
	n, e := rawWrite(l.port.FD(), l.tx.waiting())
	if e != 0 {
		if !again(e) {
			l.uartLost(e)
			return
		}
		l.tx.settled()
		return
	}
	l.tx.took(n)
	l.n.tx += uint64(n)
	l.client.tx += uint64(n)
	l.tx.settled()
}

// discard throws away what the radio says while nobody listens (INV 3).
func (l *loop) discard() {
	n, e := rawRead(l.port.FD(), l.scratch)
	if n <= 0 || e != 0 {
		if !again(e) {
			l.uartLost(e)
		}
		return
	}
	l.n.discarded += uint64(n)
	l.drainedNow += uint64(n)
}

// drain empties the line for a client that comes (INV 3).
func (l *loop) drain() {
	l.n.discarded += uint64(l.rx.len())
	l.drainedNow += uint64(l.rx.len())
	l.rx.reset()
	for range drainReads {
		before := l.n.discarded
		if l.discard(); l.port == nil || l.n.discarded == before {
			return
		}
	}
}

// uartOpened takes the port over from the opener, which waits on lost.
func (l *loop) uartOpened(p Port, lost chan<- error) {
	if l.stopping || l.b.Lent() > 0 {
		lost <- nil
		return
	}
	if w := l.want; w != nil {
		// It may have been opened while the settings changed.
		if err := p.Set(w.baud, w.flow); err != nil {
			lost <- err
			return
		}
	}
	l.port, l.lost, l.uartErr = p, lost, ""
	l.acceptAt = 0
	l.base, _ = p.Counts() // a UART without counters has zeros
	l.fds[atUART].Fd = int32(p.FD())
	l.b.o.Log(l.b.o.UART + " is open at " + strconv.Itoa(p.Baud()) + " baud, flow control " + p.Flow().String())
	l.dirty = true
}

// uartLost gives a port that broke back to the opener and closes the client.
func (l *loop) uartLost(e unix.Errno) {
	why := "the UART broke: " + e.Error()
	if e == 0 || e == unix.EIO { // how a tty says it
		e, why = unix.EIO, "the UART hung up"
	}
	if l.client.fd >= 0 {
		l.leave(why)
	}
	l.giveUART(wrap(l.b.o.UART, e))
	l.uartErr = why
}

func (l *loop) giveUART(err error) {
	for i, n := range l.lineErrors() {
		l.counted[i] += n
	}
	l.port = nil
	l.fds[atUART].Fd = -1
	l.lost <- err
	l.dirty = true
}

// lineErrors returns the errors that the UART counted since it was opened:
// frame, parity, overrun, buffer overrun.
func (l *loop) lineErrors() (n [4]uint64) {
	if l.port == nil {
		return n
	}
	c, err := l.port.Counts()
	if err != nil {
		return n
	}
	// The driver's counters are int32 and wrap.
	return [4]uint64{
		uint64(uint32(c.Frame - l.base.Frame)), uint64(uint32(c.Parity - l.base.Parity)),
		uint64(uint32(c.Overrun - l.base.Overrun)), uint64(uint32(c.BufferOverrun - l.base.BufferOverrun)),
	}
}

// broken says why a call on the client's socket failed.
func (l *loop) broken(e unix.Errno) string {
	switch e {
	case unix.ECONNRESET, unix.EPIPE:
		return "reset by the client"
	case unix.ETIMEDOUT:
		if !l.rx.empty() || l.answers() {
			return l.tookNothing()
		}
		return "the client does not answer any more"
	}
	return "the connection broke: " + e.Error()
}

// answers tells whether the host of a client whose connection timed out was
// still there: the kernel asked it for room, and of these probes at most the last
// was without an answer (an answer sets their count to 0).
func (l *loop) answers() bool {
	info, err := unix.GetsockoptTCPInfo(l.client.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.Notsent_bytes > 0 && info.Probes <= 1 && info.Retransmits == 0
}

func (l *loop) tookNothing() string {
	return "it took nothing for " + l.b.o.Limits.Stall.String()
}

// others serves everything but the two ends of the data path.
func (l *loop) others() {
	l.dirty = true
	if l.fds[atWake].Revents != 0 {
		l.posts()
	}
	for i := atOthers; i < l.used; i++ {
		if l.fds[i].Revents == 0 {
			continue
		}
		fd := int(l.fds[i].Fd)
		if w := l.who[i]; w >= 0 {
			if p := &l.pending[w]; p.fd == fd {
				l.look(p, l.fds[i].Revents)
			}
		} else if g := &l.linger[^w]; g.fd == fd {
			l.hear(g)
		}
	}
	if l.fds[atListener].Revents != 0 && !l.stopping {
		l.accept()
	}
}

// posts runs what other goroutines asked for.
func (l *loop) posts() {
	for {
		if n, e := rawRead(l.b.wakeR, l.scratch[:64]); e != 0 || n < 64 {
			break
		}
	}
	for {
		select {
		case f := <-l.b.posts:
			f(l)
		default:
			return
		}
	}
}

// arrange acts on what became due, and sets up the rest of the poll array and
// the next deadline.
func (l *loop) arrange() {
	now := l.now()
	l.due = never
	l.overdue(now)
	l.settle(now)
	l.dirty = false

	l.fds[atListener].Fd = int32(l.b.listener)
	if l.stopping || l.acceptAt > now {
		l.fds[atListener].Fd = -1
	}
	l.used = atOthers
	for i := range l.pending {
		if p := &l.pending[i]; p.fd >= 0 {
			l.fds[l.used] = unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN | unix.POLLRDHUP}
			if p.said.raw() {
				// It waits for the networks to be looked up. Poll must not
				// report what was seen already, only that it is gone.
				l.fds[l.used].Events = 0
			}
			l.who[l.used] = i
			l.used++
		}
	}
	for i := range l.linger {
		if g := &l.linger[i]; g.fd >= 0 {
			l.fds[l.used] = unix.PollFd{Fd: int32(g.fd), Events: unix.POLLIN}
			l.who[l.used] = ^i
			l.used++
			l.due = min(l.due, g.until)
		}
	}
	if l.client.stalled != never {
		l.due = min(l.due, l.client.stalled+l.b.o.Limits.Stall)
	}
	if l.acceptAt > now {
		l.due = min(l.due, l.acceptAt)
	}
	if l.stopping {
		l.due = min(l.due, l.stopBy, now+sentPoll)
	}
	if l.client.halfClosed || l.line != nil {
		l.due = min(l.due, now+sentPoll)
	}
	l.fds[atClient].Fd = int32(l.client.fd)
	if l.client.deaf {
		l.fds[atClient].Fd = -1 // poll cannot be told to be silent about its end
	}
	l.interest()
}

// overdue acts on the deadlines of the client and of ended connections.
func (l *loop) overdue(now time.Duration) {
	lim := &l.b.o.Limits
	for i := range l.linger {
		if g := &l.linger[i]; g.fd >= 0 && now >= g.until {
			unix.Close(g.fd)
			g.fd = -1
		}
	}
	if l.client.stalled != never && now >= l.client.stalled+lim.Stall {
		l.leave(l.tookNothing())
	}
	if l.client.halfClosed {
		l.lastWords(now)
	}
	l.changeLine(now)
}

// warnings are what somebody should do something about.
func (l *loop) warnings() []string {
	all := slices.Clone(l.b.o.Warnings)
	now := l.now()
	if t := &l.takeovers; t.seen != never && now-t.seen < warnFor {
		all = append(all, t.text())
	}
	if l.stall.reported {
		all = append(all, l.stalledText(now))
	}
	if l.strangerAt != never && now-l.strangerAt < warnFor {
		all = append(all, "not let to the radio: "+l.stranger)
	}
	return append(all, l.watch.warnings()...)
}

// status answers Bridge.Status.
func (l *loop) status() api.Bridge {
	held := l.unsent()
	s := api.Bridge{
		Engine: config.EngineUser, Warnings: l.warnings(),
		Listen: l.b.Addr().String(), UART: l.b.o.UART,
		UARTOpen: l.port != nil, UARTErr: l.uartErr,
		Baud: l.b.o.Baud, Flow: l.b.o.Flow,
		RxBytes: l.n.rx, TxBytes: l.n.tx - held, TxDropped: l.n.txDropped,
		Discarded: l.n.discarded, QueueDropped: l.n.dropped,
		Connects: l.n.connects, Takeovers: l.n.takeovers, Refused: l.n.refused,
		NotAllowed: l.n.notAllowed, SSH: l.n.ssh, Contentions: l.n.contentions,
		Stalls: l.n.stalls, XOFFs: l.n.xoffs,
		LastClose: l.lastClose,
	}
	if l.port != nil {
		s.Baud, s.Flow = l.port.Baud(), l.port.Flow().String()
	}
	e := l.lineErrors()
	s.FrameErrors, s.ParityErrors = l.counted[0]+e[0], l.counted[1]+e[1]
	s.Overruns, s.BufOverruns = l.counted[2]+e[2], l.counted[3]+e[3]
	for i := range l.pending {
		if l.pending[i].fd >= 0 {
			s.Pending++
		}
	}
	if c := &l.client; c.fd >= 0 {
		s.Client = &api.BridgeClient{
			Addr: c.peer.String(), Since: (l.now() - c.since).Seconds(), Rx: c.rx, Tx: c.tx - held,
		}
	}
	return s
}
