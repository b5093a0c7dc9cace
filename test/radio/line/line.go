// Package line is the wire between the radio and whoever holds the other end:
// it takes the time that a UART takes.
//
// A socket or a pseudo terminal moves bytes at memory speed. Line lets them
// pass no faster than 8N1 at a baud rate does (ten bit times a byte), in both
// directions, and loses what a UART would lose: bytes that the receiver has
// no room for when they arrive. Everything lost is counted.
//
// It models RTS/CTS and XON/XOFF as the radio's end sees them; the far end's
// modem lines cannot be seen through a socket, so a far end that takes no
// bytes stands for CTS low. It does not model parity, break or noise.
package line

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Port is the transport: a socket or the master of a pseudo terminal.
type Port interface {
	// Read blocks until there are bytes, and returns an error once the port
	// is closed.
	Read(p []byte) (int, error)
	// TryWrite writes what can be taken at once and never blocks; 0, nil
	// means that there is no room.
	TryWrite(p []byte) (int, error)
	Close() error
}

// Flow is the flow control that the radio's firmware was built with.
type Flow string

// Kinds of flow control.
const (
	None     Flow = "none"
	Software Flow = "sw" // XON/XOFF
	Hardware Flow = "hw" // RTS/CTS
)

const (
	xon  = 0x11
	xoff = 0x13
)

// Config sets a line up.
type Config struct {
	Baud int // of the radio, bits per second
	Flow Flow
	// PeerFIFO is how many bytes the far end holds beyond what the transport
	// takes, before they are lost: a 16550 has 16.
	PeerFIFO int
	// RadioFIFO is the radio's receive buffer, in bytes. It fills only while
	// the radio is held (Hold).
	RadioFIFO int
}

// DefaultConfig is the gateway's factory setting: 115200 baud.
func DefaultConfig() Config {
	return Config{Baud: 115200, Flow: None, PeerFIFO: 16, RadioFIFO: 128}
}

// Counters are in bytes unless the name says otherwise.
type Counters struct {
	ToHost      uint64 // delivered
	ToRadio     uint64
	LostToHost  uint64 // far end had no room
	LostToRadio uint64 // radio's buffer was full
	Unheard     uint64 // sent while nothing was attached
	Silenced    uint64 // sent while the line was cut (Silence)
	Garbled     uint64 // both directions, while the far end's baud differed
	XOffSent    uint64 // times the radio told the host to stop
	XOffSeen    uint64 // times the host told the radio
}

// chunkTime is how much line time is moved at once: one timer wake-up for it.
// At 115200 baud that is 11 bytes, less than a 16550's FIFO.
const chunkTime = time.Millisecond

// late is how far behind its schedule the line may run and still catch up;
// a longer delay is the machine's and is not made good by a burst.
const late = 2 * time.Millisecond

// Line is one UART connection. Its methods may be called from any goroutine.
type Line struct {
	mu       sync.Mutex
	cfg      Config
	peerBaud int // 0: not known, taken as right
	peer     func() int
	count    Counters

	attached bool
	out      []byte    // bytes the radio has handed to its UART
	free     time.Time // when the last of them will have left
	paused   bool      // XOFF from the far end
	held     bool      // the radio takes nothing
	fifo     []byte    // received while held
	stopped  bool      // the radio has told the far end to stop
	silent   time.Time // what is sent before this is lost
	wake     chan struct{}
	unhold   chan struct{}
}

// New returns a line that nothing is attached to.
func New(cfg Config) *Line {
	return &Line{cfg: cfg, wake: make(chan struct{}, 1), unhold: make(chan struct{}, 1)}
}

func byteTime(baud int) time.Duration { return 10 * time.Second / time.Duration(baud) }

// chunk is how many bytes pass in chunkTime, at least one.
func chunk(baud int) int { return max(1, int(chunkTime/byteTime(baud))) }

// Counters returns what was counted so far.
func (l *Line) Counters() Counters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// Baud is the radio's rate.
func (l *Line) Baud() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cfg.Baud
}

// SetBaud changes the radio's rate.
func (l *Line) SetBaud(baud int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Baud = baud
}

// Configure changes the radio's rate and flow control: another firmware runs.
func (l *Line) Configure(baud int, flow Flow) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cfg.Baud, l.cfg.Flow, l.paused = baud, flow, false
	l.poke()
}

// SetPeerBaud says what rate the far end uses. One that differs by more than
// 2.5 % from the radio's garbles every byte, both ways. 0 means not known.
func (l *Line) SetPeerBaud(baud int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peerBaud = baud
}

// FollowPeer has f say what rate the far end uses, whenever bytes pass.
func (l *Line) FollowPeer(f func() int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer = f
}

// look returns the far end's rate now. The lock is held.
func (l *Line) look() int {
	if l.peer != nil {
		return l.peer()
	}
	return l.peerBaud
}

func (l *Line) mismatch(peer int) bool {
	if peer == 0 {
		return false
	}
	d := peer - l.cfg.Baud
	return max(d, -d)*1000 > l.cfg.Baud*25
}

// garble makes of p what a receiver at another rate makes of it: other bytes.
func (l *Line) garble(p []byte, peer int) {
	if len(p) == 0 || !l.mismatch(peer) {
		return
	}
	l.count.Garbled += uint64(len(p))
	for i := range p {
		p[i] = p[i]>>1 ^ 0xE5 ^ byte(i)
	}
}

// Send hands p to the radio's UART and returns when its last byte will have
// left. It never blocks: what is queued is bounded by the protocol above.
func (l *Line) Send(now time.Time, p []byte) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(len(p)) * byteTime(l.cfg.Baud))
	switch {
	case now.Before(l.silent):
		l.count.Silenced += uint64(len(p))
	case !l.attached:
		l.count.Unheard += uint64(len(p))
	default:
		l.out = append(l.out, p...)
		l.poke()
	}
	return l.free
}

func (l *Line) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Silence cuts the wire from the radio to the host until the given time.
func (l *Line) Silence(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = until
	l.count.Silenced += uint64(len(l.out))
	l.out = nil
}

// Hold makes the radio take no bytes until Release: they collect in its
// buffer, and its flow control does what it does.
func (l *Line) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Release ends Hold and returns what the radio's buffer has, which is older
// than anything that is received from then on.
func (l *Line) Release() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	if l.stopped {
		l.stopped = false
		l.out = append([]byte{xon}, l.out...)
		l.poke()
	}
	select {
	case l.unhold <- struct{}{}:
	default:
	}
	p := l.fifo
	l.fifo = nil
	l.count.ToRadio += uint64(len(p))
	return p
}

// Drop forgets what waits to be sent: the radio was reset.
func (l *Line) Drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out, l.paused = nil, false
}

// Attach moves bytes between the line and port until ctx ends or the port
// fails; it then closes the port and returns why (nil for ctx). receive gets
// what reaches the radio, from one goroutine that Attach waits for.
func (l *Line) Attach(ctx context.Context, port Port, receive func(p []byte)) error {
	l.mu.Lock()
	if l.attached {
		l.mu.Unlock()
		return errors.New("line: something is attached already")
	}
	l.attached, l.out, l.paused = true, nil, false
	l.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	fail := func(err error) {
		once.Do(func() { failed = err })
		cancel()
	}
	wg.Go(func() { fail(l.writer(ctx, port)) })
	wg.Go(func() { fail(l.reader(ctx, port, receive)) })
	<-ctx.Done()
	err := port.Close() // ends a Read that blocks
	wg.Wait()
	l.mu.Lock()
	l.attached, l.out = false, nil
	l.mu.Unlock()
	if failed == nil {
		failed = err
	}
	return failed
}

// sleep waits until t; false when ctx has ended.
func sleep(ctx context.Context, t time.Time) bool {
	d := time.Until(t)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// next is when the wire is done with n bytes that it could begin with at
// from: no catching up on more than late.
func next(from time.Time, n, baud int) time.Time {
	if floor := time.Now().Add(-late); from.Before(floor) {
		from = time.Now()
	}
	return from.Add(time.Duration(n) * byteTime(baud))
}

// writer is the wire from the radio to the host.
func (l *Line) writer(ctx context.Context, port Port) error {
	var wire time.Time
	var fifo []byte // at the far end
	for {
		l.mu.Lock()
		baud := l.cfg.Baud
		var p []byte
		if !l.paused && (l.cfg.Flow != Hardware || len(fifo) == 0) { // CTS
			n := min(len(l.out), chunk(baud))
			p, l.out = append(p, l.out[:n]...), l.out[n:]
			l.garble(p, l.look())
		}
		l.mu.Unlock()

		if len(p) == 0 && len(fifo) == 0 {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		// A chunk arrives when its last byte has; with none, look again
		// whether the far end has taken what is in its FIFO.
		wait := len(p)
		if wait == 0 {
			wait = chunk(baud)
		}
		wire = next(wire, wait, baud)
		if !sleep(ctx, wire) {
			return nil
		}
		fifo = append(fifo, p...)
		n, err := port.TryWrite(fifo)
		if err != nil {
			return err
		}
		fifo = fifo[n:]
		l.mu.Lock()
		l.count.ToHost += uint64(n)
		if over := len(fifo) - l.cfg.PeerFIFO; over > 0 && l.cfg.Flow != Hardware {
			l.count.LostToHost += uint64(over)
			fifo = fifo[:l.cfg.PeerFIFO] // the newest are lost, as in an overrun
		}
		l.mu.Unlock()
	}
}

// reader is the wire from the host to the radio.
func (l *Line) reader(ctx context.Context, port Port, receive func([]byte)) error {
	var wire time.Time
	buf := make([]byte, 4096)
	for {
		l.mu.Lock()
		baud := l.cfg.Baud
		// RTS: with a buffer that is nearly full the far end is told to stop;
		// one that obeys shows as bytes left in the transport.
		stop := l.cfg.Flow == Hardware && l.held && len(l.fifo) >= l.cfg.RadioFIFO*3/4
		l.mu.Unlock()
		if stop {
			select {
			case <-l.unhold:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		n, err := port.Read(buf[:chunk(baud)])
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		l.mu.Lock()
		peer := l.look() // as it was when they were sent
		l.mu.Unlock()
		wire = next(wire, n, baud)
		if !sleep(ctx, wire) {
			return nil
		}
		l.deliver(receive, buf[:n], peer)
	}
}

// deliver gives p to the radio, or to its buffer while it is held.
func (l *Line) deliver(receive func([]byte), p []byte, peer int) {
	l.mu.Lock()
	l.garble(p, peer)
	got := p
	if l.cfg.Flow == Software {
		got = make([]byte, 0, len(p))
		for _, b := range p {
			switch b {
			case xoff:
				l.paused = true
				l.count.XOffSeen++
			case xon:
				l.paused = false
				l.poke()
			default:
				got = append(got, b)
			}
		}
	}
	if !l.held {
		l.count.ToRadio += uint64(len(got))
		l.mu.Unlock()
		if len(got) > 0 {
			receive(got)
		}
		return
	}
	l.fifo = append(l.fifo, got...)
	if over := len(l.fifo) - l.cfg.RadioFIFO; over > 0 {
		l.count.LostToRadio += uint64(over)
		l.fifo = l.fifo[:l.cfg.RadioFIFO]
	}
	if l.cfg.Flow == Software && !l.stopped && len(l.fifo) >= l.cfg.RadioFIFO*3/4 {
		l.stopped = true
		l.count.XOffSent++
		l.out = append([]byte{xoff}, l.out...) // ahead of everything
		l.poke()
	}
	l.mu.Unlock()
}
