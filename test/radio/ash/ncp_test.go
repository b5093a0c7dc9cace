package ash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// rig is an NCP, what it said, and a clock that the test turns.
type rig struct {
	t    *testing.T
	n    *NCP
	now  time.Time
	out  []Frame
	got  [][]byte
	rsts int
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.Unix(1000, 0)}
	r.n = NewNCP(DefaultConfig())
	r.n.Out = func(_ Kind, b []byte) time.Time {
		var d Decoder
		for _, c := range b {
			if f, done, err := d.Write(c); done {
				if err != nil {
					t.Fatalf("own frame % X: %v", b, err)
				}
				r.out = append(r.out, f)
			}
		}
		return r.now
	}
	r.n.Receive = func(p []byte) { r.got = append(r.got, p) }
	r.n.Reset = func() { r.rsts++; r.n.Boot(ResetSoftware) }
	return r
}

func connected(t *testing.T) *rig {
	r := newRig(t)
	r.n.Boot(ResetPowerOn)
	r.host(Frame{Kind: Rst})
	if r.n.State() != Connected {
		t.Fatalf("state %v after RST", r.n.State())
	}
	r.out = nil
	return r
}

func (r *rig) host(f Frame) { r.n.Write(r.now, f.Append(nil)) }

// after moves the clock in steps of a millisecond.
func (r *rig) after(d time.Duration) {
	for end := r.now.Add(d); r.now.Before(end); {
		r.now = r.now.Add(time.Millisecond)
		if at, ok := r.n.Deadline(); ok && !at.After(r.now) {
			r.n.Tick(r.now)
		}
	}
}

// said checks what the NCP sent since the last call.
func (r *rig) said(want ...string) {
	r.t.Helper()
	var got []string
	for _, f := range r.out {
		s := f.Kind.String()
		switch f.Kind {
		case Data:
			s += fmt.Sprintf(" %d,%d", f.FrmNum, f.AckNum)
			if f.ReTx {
				s += " again"
			}
		case Ack, Nak:
			s += fmt.Sprintf(" %d", f.AckNum)
		case RstAck, Error:
			s += fmt.Sprintf(" %02X", f.Code)
		}
		got = append(got, s)
	}
	r.out = nil
	if !slices.Equal(got, want) {
		r.t.Fatalf("NCP said %q, want %q", got, want)
	}
}

var abc = []byte("abc")

func TestConnect(t *testing.T) {
	r := newRig(t)
	r.host(Frame{Kind: Rst})
	r.said() // still booting: nobody hears
	r.n.Boot(ResetPowerOn)
	r.said("RSTACK 02")
	r.host(Frame{Kind: Data, Payload: abc})
	r.said() // no link before RST
	r.host(Frame{Kind: Rst})
	r.said("RSTACK 0B")
	if len(r.got) != 0 {
		t.Errorf("received %q without a link", r.got)
	}
}

// What the client's own tests expect of a chip (UG101 section 5.2).
func TestGoldenBoot(t *testing.T) {
	r := newRig(t)
	var wire []byte
	r.n.Out = func(_ Kind, b []byte) time.Time { wire = append(wire, b...); return r.now }
	r.n.Boot(ResetSoftware)
	if want := []byte{0x1A, 0xC1, 0x02, 0x0B, 0x0A, 0x52, 0x7E}; !bytes.Equal(wire, want) {
		t.Errorf("after a reset % X, want % X", wire, want)
	}
}

func TestReceiveAcknowledges(t *testing.T) {
	r := connected(t)
	r.host(Frame{Kind: Data, FrmNum: 0, Payload: abc})
	r.said()
	r.after(20 * time.Millisecond)
	r.said("ACK 1")
	r.host(Frame{Kind: Data, FrmNum: 1, Payload: abc})
	r.n.Respond(r.now, abc) // the acknowledgement rides along
	r.said("DATA 0,2")
	r.after(100 * time.Millisecond)
	r.said()
	if len(r.got) != 2 {
		t.Errorf("received %d payloads, want 2", len(r.got))
	}
}

func TestRejectCondition(t *testing.T) {
	r := connected(t)
	broken := Frame{Kind: Data, Payload: abc}.Append(nil)
	broken[1] ^= 0x40
	r.n.Write(r.now, broken)
	r.said("NAK 0")
	r.host(Frame{Kind: Data, FrmNum: 1, Payload: abc})
	r.host(Frame{Kind: Data, FrmNum: 2, Payload: abc})
	r.said() // one NAK only
	for i := range uint8(3) {
		r.host(Frame{Kind: Data, FrmNum: i, ReTx: true, Payload: abc})
	}
	r.after(50 * time.Millisecond)
	r.said("ACK 3")
	r.host(Frame{Kind: Data, FrmNum: 2, ReTx: true, Payload: abc}) // a duplicate is acknowledged again
	r.after(50 * time.Millisecond)
	r.said("ACK 3")
	if len(r.got) != 3 {
		t.Errorf("received %d payloads, want 3", len(r.got))
	}
}

func TestWindow(t *testing.T) {
	r := connected(t)
	for range 8 {
		if !r.n.Callback(r.now, abc, nil) {
			t.Fatal("refused")
		}
	}
	r.said("DATA 0,0", "DATA 1,0", "DATA 2,0", "DATA 3,0", "DATA 4,0")
	r.host(Frame{Kind: Ack, AckNum: 2})
	r.said("DATA 5,0", "DATA 6,0")
	r.host(Frame{Kind: Nak, AckNum: 5})
	r.said("DATA 5,0 again", "DATA 6,0 again", "DATA 7,0")
	r.host(Frame{Kind: Ack, AckNum: 0})
	r.host(Frame{Kind: Ack, AckNum: 3}) // names frames that were never sent
	if r.n.Counters.BadAckNum != 1 {
		t.Errorf("BadAckNum %d, want 1", r.n.Counters.BadAckNum)
	}
	if _, ok := r.n.Deadline(); ok {
		t.Error("a timer runs though all is acknowledged")
	}
}

func TestQueueIsBounded(t *testing.T) {
	r := connected(t)
	acked := map[bool]int{}
	for range 40 {
		r.n.Callback(r.now, abc, func(ok bool) { acked[ok]++ })
	}
	if r.n.Counters.RefusedQueue != 3 { // 5 in flight, 32 queued
		t.Errorf("refused %d, want 3", r.n.Counters.RefusedQueue)
	}
	r.host(Frame{Kind: Ack, AckNum: 4})
	r.n.Shutdown()
	if acked[true] != 4 || acked[false] != 33 {
		t.Errorf("acked %v, want 4 true and 33 false", acked)
	}
	if r.n.Counters.Unacked != 5 {
		t.Errorf("Unacked %d, want 5", r.n.Counters.Unacked)
	}
}

func TestTimeoutsFail(t *testing.T) {
	r := connected(t)
	r.n.Callback(r.now, abc, nil)
	r.said("DATA 0,0")
	r.after(1599 * time.Millisecond)
	r.said()
	r.after(2 * time.Millisecond)
	r.said("DATA 0,0 again")
	r.after(2 * 3201 * time.Millisecond)
	r.said("DATA 0,0 again", "DATA 0,0 again")
	r.after(3201 * time.Millisecond)
	r.said("ERROR 51")
	r.host(Frame{Kind: Ack})
	r.said("ERROR 51") // says so until it is reset
	r.host(Frame{Kind: Rst})
	r.said("RSTACK 0B")
}

func TestAdaptivePeriod(t *testing.T) {
	r := connected(t)
	for i := range uint8(30) {
		r.n.Callback(r.now, abc, nil)
		r.after(5 * time.Millisecond)
		r.host(Frame{Kind: Ack, AckNum: (i + 1) & 7})
	}
	r.out = nil
	r.n.Callback(r.now, abc, nil)
	r.said("DATA 6,0")
	r.after(399 * time.Millisecond)
	r.said()
	r.after(2 * time.Millisecond)
	r.said("DATA 6,0 again") // the period went down to its minimum
}

func TestNotReadyHoldsCallbacks(t *testing.T) {
	r := connected(t)
	r.host(Frame{Kind: Ack, NotReady: true})
	r.n.Callback(r.now, abc, nil)
	r.said()
	r.n.Respond(r.now, abc)
	r.said("DATA 0,0") // answers go through
	r.host(Frame{Kind: Ack, AckNum: 1})
	r.said("DATA 1,0") // ready again
	r.host(Frame{Kind: Ack, AckNum: 2, NotReady: true})
	r.n.Callback(r.now, abc, nil)
	r.after(999 * time.Millisecond)
	r.said()
	r.after(2 * time.Millisecond)
	r.said("DATA 2,0") // it does not wait for ever
}

// A host that acknowledges what arrives, over a line that loses and breaks
// frames both ways, gets every payload once and in order.
func TestLossyLine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	r := connected(t)
	var d Decoder
	next, expect := uint8(0), 0
	nak := false
	var reply []Frame
	r.n.Out = func(_ Kind, b []byte) time.Time {
		if rnd.IntN(10) == 0 {
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		}
		for _, c := range b {
			f, done, err := d.Write(c)
			switch {
			case !done:
			case err != nil && !nak:
				nak = true
				reply = append(reply, Frame{Kind: Nak, AckNum: next})
			case err == nil && f.Kind == Data && f.FrmNum == next:
				if want := fmt.Appendf(nil, "%08d", expect); !bytes.Equal(f.Payload, want) {
					t.Fatalf("payload %q, want %q", f.Payload, want)
				}
				nak = false
				expect++
				next = (next + 1) & 7
				reply = append(reply, Frame{Kind: Ack, AckNum: next})
			case err == nil && f.Kind == Data && f.ReTx:
				reply = append(reply, Frame{Kind: Ack, AckNum: next})
			}
		}
		return r.now
	}
	const total = 300
	for sent, rounds := 0, 0; expect < total; rounds++ {
		if rounds > 20000 {
			t.Fatalf("stuck at %d; %+v", expect, r.n.Counters)
		}
		for sent < total && r.n.Room() {
			r.n.Callback(r.now, fmt.Appendf(nil, "%08d", sent), nil)
			sent++
		}
		r.after(10 * time.Millisecond)
		todo := reply
		reply = nil
		for _, f := range todo {
			if rnd.IntN(10) > 0 {
				r.host(f)
			}
		}
	}
	if r.n.Counters.TxReTx == 0 || r.n.Counters.RxNak == 0 || r.n.Counters.Failures != 0 {
		t.Errorf("nothing was repaired, or the link failed: %+v", r.n.Counters)
	}
}
