package radio

import (
	"time"

	"gwinit/test/radio/ash"
)

// faults are what is still to go wrong, in frames.
type faults struct {
	flipTx int // a bit of frames to the host
	flipRx int // a bit of what arrives
	drop   int // frames to the host, any kind
	ack    int // ACK frames to the host
}

// transmit puts a frame on the line, or what a fault makes of it.
func (s *Sim) transmit(kind ash.Kind, frame []byte) time.Time {
	now := time.Now()
	switch {
	case kind == ash.Ack && s.faults.ack > 0:
		s.faults.ack--
		return now
	case s.faults.drop > 0:
		s.faults.drop--
		return now
	case s.faults.flipTx > 0:
		s.faults.flipTx--
		// Not the Flag: two frames would become one, which is another fault.
		frame[s.rnd.IntN(len(frame)-1)] ^= 1 << s.rnd.IntN(8)
	}
	return s.line.Send(now, frame)
}

func (s *Sim) receive(p []byte) {
	if s.faults.flipRx > 0 {
		s.faults.flipRx--
		p[s.rnd.IntN(len(p))] ^= 1 << s.rnd.IntN(8)
	}
	s.modes[s.mode].Write(time.Now(), p)
}

// noise sends n bytes that mean nothing.
func (s *Sim) noise(n int) {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(s.rnd.Uint32())
	}
	s.line.Send(time.Now(), p)
}

// stall makes the firmware take no bytes for d, as one that is busy with
// flash does.
func (s *Sim) stall(d time.Duration) {
	s.line.Hold()
	s.after(d, false, func() { s.receiveAll(s.line.Release()) })
}

func (s *Sim) receiveAll(p []byte) {
	if len(p) > 0 {
		s.receive(p)
	}
}
