package ash

import "time"

// Reset codes of RSTACK and error codes of ERROR (UG101 section 3, EmberZNet
// reset cause list).
const (
	ResetUnknown    = 0x00
	ResetExternal   = 0x01
	ResetPowerOn    = 0x02
	ResetWatchdog   = 0x03
	ResetAssert     = 0x06
	ResetBootloader = 0x09
	ResetSoftware   = 0x0B
	ErrorTimeouts   = 0x51 // too many acknowledgement timeouts
)

// Config holds the protocol's parameters (UG101 section 5.1, names in
// brackets as there).
type Config struct {
	Window      int           // TX_K: DATA frames in flight, 1..7
	AckInit     time.Duration // T_RX_ACK_INIT
	AckMin      time.Duration // T_RX_ACK_MIN
	AckMax      time.Duration // T_RX_ACK_MAX
	AckDelay    time.Duration // T_TX_ACK_DELAY: how long an ACK waits for DATA to ride on
	NotReady    time.Duration // T_REMOTE_NOTRDY
	MaxTimeouts int           // ACK_TIMEOUTS: in a row, then FAILED
	MaxQueue    int           // callbacks that wait for the window; Callback refuses more
}

// DefaultConfig returns the values of UG101 section 5.1. The callback queue
// is the simulator's: the device has a heap of packet buffers instead.
func DefaultConfig() Config {
	return Config{
		Window:      5,
		AckInit:     1600 * time.Millisecond,
		AckMin:      400 * time.Millisecond,
		AckMax:      3200 * time.Millisecond,
		AckDelay:    20 * time.Millisecond,
		NotReady:    time.Second,
		MaxTimeouts: 4,
		MaxQueue:    32,
	}
}

// Counters count frames, except where the name says bytes.
type Counters struct {
	RxData, RxAck, RxNak, RxRst                         uint64
	TxData, TxReTx, TxAck, TxNak                        uint64
	RxCRC, RxComm, RxBad, RxDuplicate, RxOutOfSequence  uint64
	BadAckNum, Timeouts, Resets, Failures, RefusedQueue uint64
	// Unacked counts DATA frames that were sent and never acknowledged
	// before the link ended: the host may or may not have them.
	Unacked uint64
}

// State is the NCP's link state (UG101 section 5.2).
type State uint8

// The link states. While Booting nothing is heard and nothing said.
const (
	Booting State = iota
	Waiting       // RSTACK was sent with a code, no RST from the host yet
	Connected
	Failed
)

// String implements fmt.Stringer.
func (s State) String() string {
	return [...]string{"booting", "waiting", "connected", "failed"}[s]
}

type outgoing struct {
	payload []byte
	acked   func(bool)
}

// NCP is the device's end of the link. All methods belong to one goroutine.
type NCP struct {
	cfg Config

	// Out puts the bytes of one frame on the line and returns when the last
	// of them will have left it.
	Out func(kind Kind, frame []byte) time.Time
	// Receive gets the payload of each DATA frame, in order, once.
	Receive func(payload []byte)
	// Reset is called when the host asks for one (RST); the owner restarts
	// the firmware and calls Boot when that is done.
	Reset func()

	Counters Counters

	state     State
	dec       Decoder
	frmRx     uint8
	frmTx     uint8 // next number to give
	ackRx     uint8 // oldest that is not acknowledged
	inFlight  []outgoing
	responses []outgoing
	callbacks []outgoing
	reject    bool
	hostBusy  time.Time // callbacks are held until then
	ackDue    time.Time // zero: none owed
	period    time.Duration
	started   time.Time // of the acknowledgement timer; zero: stopped
	timeouts  int
}

// NewNCP returns an NCP that is booting. The three functions must be set
// before anything else is called.
func NewNCP(cfg Config) *NCP { return &NCP{cfg: cfg, period: cfg.AckInit} }

// State tells the link's state.
func (n *NCP) State() State { return n.state }

// Queued is how many callbacks wait to be sent, not counting those in flight.
func (n *NCP) Queued() int { return len(n.callbacks) }

// Room tells whether Callback would take one more.
func (n *NCP) Room() bool { return n.state == Connected && len(n.callbacks) < n.cfg.MaxQueue }

// Shutdown ends the link: the firmware is restarting. What was in flight is
// lost and counted.
func (n *NCP) Shutdown() {
	n.drop()
	n.state = Booting
}

func (n *NCP) drop() {
	n.Counters.Unacked += uint64(len(n.inFlight))
	for _, q := range [][]outgoing{n.inFlight, n.responses, n.callbacks} {
		for _, o := range q {
			if o.acked != nil {
				o.acked(false)
			}
		}
	}
	n.inFlight, n.responses, n.callbacks = nil, nil, nil
	n.dec.Reset()
	n.frmRx, n.frmTx, n.ackRx = 0, 0, 0
	n.reject, n.timeouts = false, 0
	n.hostBusy, n.ackDue, n.started = time.Time{}, time.Time{}, time.Time{}
	n.period = n.cfg.AckInit
}

// Boot says that the firmware has started: RSTACK with the reset code goes
// out. Only after a reset that the host asked for (ResetSoftware) is the link
// up; after any other the NCP waits for a RST (UG101 section 5.2).
func (n *NCP) Boot(code uint8) {
	n.drop()
	n.Counters.Resets++
	n.state = Waiting
	if code == ResetSoftware {
		n.state = Connected
	}
	// The firmware before may have been cut off in the middle of a frame:
	// Cancel keeps that apart from RSTACK.
	n.Out(RstAck, Frame{Kind: RstAck, Code: code}.Append([]byte{Cancel}))
}

// Write takes bytes from the line.
func (n *NCP) Write(now time.Time, p []byte) {
	if n.state == Booting {
		return
	}
	for _, b := range p {
		f, done, err := n.dec.Write(b)
		switch {
		case !done:
			continue
		case err != nil:
			n.broken(err)
		default:
			n.frame(now, f)
		}
		if n.state == Booting {
			return // the rest arrived while the firmware restarts
		}
	}
	n.pump(now)
}

func (n *NCP) broken(err error) {
	switch err {
	case ErrCRC:
		n.Counters.RxCRC++
	case ErrComm:
		n.Counters.RxComm++
	default:
		n.Counters.RxBad++
	}
	if n.state == Connected {
		n.nak()
	}
}

// nak enters the reject condition: one NAK, then silence about what follows
// until the frame that is missing arrives (UG101 section 5.4).
func (n *NCP) nak() {
	if n.reject {
		return
	}
	n.reject = true
	n.ackDue = time.Time{}
	n.Counters.TxNak++
	n.Out(Nak, Frame{Kind: Nak, AckNum: n.frmRx}.Append(nil))
}

func (n *NCP) frame(now time.Time, f Frame) {
	if f.Kind == Rst {
		n.Counters.RxRst++
		n.Shutdown()
		n.Reset()
		return
	}
	switch n.state {
	case Failed:
		// Say it again: the host may have missed it (UG101 section 5.2).
		n.Out(Error, Frame{Kind: Error, Code: ErrorTimeouts}.Append(nil))
		return
	case Connected:
	default:
		return
	}
	switch f.Kind {
	case Data:
		n.Counters.RxData++
	case Ack:
		n.Counters.RxAck++
	case Nak:
		n.Counters.RxNak++
	default:
		n.Counters.RxBad++ // RSTACK and ERROR go the other way only
		return
	}
	if !n.acknowledged(now, f.AckNum) {
		n.Counters.BadAckNum++
		if f.Kind == Data {
			n.nak()
		}
		return
	}
	switch f.Kind {
	case Data:
		n.data(now, f)
	case Ack, Nak:
		n.hostBusy = time.Time{}
		if f.NotReady {
			n.hostBusy = now.Add(n.cfg.NotReady)
		}
		if f.Kind == Nak {
			n.retransmit(now)
		}
	}
}

// acknowledged takes an ackNum and reports whether it names a frame in flight
// or the next one.
func (n *NCP) acknowledged(now time.Time, num uint8) bool {
	count := int((num - n.ackRx) & 7)
	if count > len(n.inFlight) {
		return false
	}
	if count == 0 {
		return true
	}
	for _, o := range n.inFlight[:count] {
		if o.acked != nil {
			o.acked(true)
		}
	}
	n.inFlight = n.inFlight[count:]
	n.ackRx = num
	n.timeouts = 0
	// T_RX_ACK follows the measured time (UG101 section 5.5):
	// 7/8 of the old plus 1/2 of the measured.
	if !n.started.IsZero() {
		n.period = n.clamp(n.period*7/8 + now.Sub(n.started)/2)
	}
	n.started = time.Time{}
	if len(n.inFlight) > 0 {
		n.started = now
	}
	return true
}

func (n *NCP) clamp(d time.Duration) time.Duration {
	return min(max(d, n.cfg.AckMin), n.cfg.AckMax)
}

func (n *NCP) data(now time.Time, f Frame) {
	if f.FrmNum != n.frmRx {
		if f.ReTx {
			n.Counters.RxDuplicate++
			n.oweAck(now)
			return
		}
		n.Counters.RxOutOfSequence++
		n.nak()
		return
	}
	n.reject = false
	n.frmRx = (n.frmRx + 1) & 7
	n.oweAck(now)
	n.Receive(f.Payload)
}

func (n *NCP) oweAck(now time.Time) {
	if n.ackDue.IsZero() {
		n.ackDue = now.Add(n.cfg.AckDelay)
	}
}

// Respond queues the answer to a command. It goes before callbacks, and also
// while the host is not ready for those.
func (n *NCP) Respond(now time.Time, payload []byte) {
	if n.state != Connected {
		return
	}
	n.responses = append(n.responses, outgoing{payload: payload})
	n.pump(now)
}

// Callback queues an unsolicited frame. It returns false, and counts, when
// the link is down or the queue is full. acked, if given, is called once:
// true when the host acknowledged the frame, false when the link ended first.
func (n *NCP) Callback(now time.Time, payload []byte, acked func(bool)) bool {
	if !n.Room() {
		n.Counters.RefusedQueue++
		return false
	}
	n.callbacks = append(n.callbacks, outgoing{payload, acked})
	n.pump(now)
	return true
}

// pump sends what the window allows.
func (n *NCP) pump(now time.Time) {
	for n.state == Connected && len(n.inFlight) < n.cfg.Window {
		var o outgoing
		switch {
		case len(n.responses) > 0:
			o, n.responses = n.responses[0], n.responses[1:]
		case len(n.callbacks) > 0 && !now.Before(n.hostBusy):
			o, n.callbacks = n.callbacks[0], n.callbacks[1:]
		default:
			return
		}
		n.inFlight = append(n.inFlight, o)
		n.transmit(n.frmTx, o.payload, false)
		n.frmTx = (n.frmTx + 1) & 7
	}
}

func (n *NCP) transmit(num uint8, payload []byte, again bool) {
	n.ackDue = time.Time{} // the acknowledgement rides on this frame
	n.Counters.TxData++
	if again {
		n.Counters.TxReTx++
	}
	sent := n.Out(Data, Frame{Kind: Data, FrmNum: num, AckNum: n.frmRx, ReTx: again, Payload: payload}.Append(nil))
	if n.started.IsZero() {
		n.started = sent
	}
}

// retransmit sends everything in flight again, oldest first.
func (n *NCP) retransmit(now time.Time) {
	if len(n.inFlight) == 0 {
		return
	}
	n.started = time.Time{}
	for i, o := range n.inFlight {
		n.transmit((n.ackRx+uint8(i))&7, o.payload, true)
	}
}

// Tick acts on timers that have run out by now.
func (n *NCP) Tick(now time.Time) {
	if n.state != Connected {
		return
	}
	if !n.ackDue.IsZero() && !now.Before(n.ackDue) {
		n.ackDue = time.Time{}
		n.Counters.TxAck++
		n.Out(Ack, Frame{Kind: Ack, AckNum: n.frmRx}.Append(nil))
	}
	if !n.started.IsZero() && !now.Before(n.started.Add(n.period)) {
		n.Counters.Timeouts++
		n.timeouts++
		if n.timeouts >= n.cfg.MaxTimeouts {
			n.drop()
			n.state = Failed
			n.Counters.Failures++
			n.Out(Error, Frame{Kind: Error, Code: ErrorTimeouts}.Append(nil))
			return
		}
		n.period = n.clamp(2 * n.period)
		n.retransmit(now)
	}
	n.pump(now)
}

// Deadline is when Tick wants to be called next; ok is false when no timer
// runs.
func (n *NCP) Deadline() (at time.Time, ok bool) {
	if n.state != Connected {
		return time.Time{}, false
	}
	consider := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	consider(n.ackDue)
	if !n.started.IsZero() {
		consider(n.started.Add(n.period))
	}
	if len(n.callbacks) > 0 && len(n.inFlight) < n.cfg.Window {
		consider(n.hostBusy)
	}
	return at, ok
}
