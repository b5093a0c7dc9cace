//go:build linux

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/logring"
	"gwinit/internal/radioproto/ash"
	"gwinit/internal/radioproto/hdlc"
)

// origin is who said something.
type origin uint8

const (
	fromRadio origin = iota
	fromClient
)

// protocol is what a client and the radio speak.
type protocol uint8

const (
	notKnown protocol = iota // not seen enough
	speaksASH
	speaksSpinel
	speaksOther
)

func (p protocol) String() string { return [...]string{"", "ash", "spinel", "unknown"}[p] }

// patienceBytes is how many bytes may pass in one direction without a good
// frame until nobody looks for one any more, before the first as after it:
// some 16 frames of the longest kind. A firmware upload (XMODEM) is what this
// is for. The next client is looked at anew.
const patienceBytes = 4 << 10

// recent are the last frames of a direction, some recentFrames/2 to
// recentFrames of them: at that many all counts are halved.
type recent struct{ data, resent, crc uint32 }

const recentFrames = 1024

// What is worth a warning, in parts of the recent frames; see docs/bridge.md.
const (
	resentPart = 20  // one in so many sent again
	crcPart    = 100 // one in so many damaged
	fewFaults  = 10  // less of either says nothing yet
)

//go:nosplit
//go:norace
func (r *recent) halve() {
	if r.data >= recentFrames {
		r.data, r.resent, r.crc = r.data/2, r.resent/2, r.crc/2
	}
}

// percent returns part of the frames.
func (r *recent) percent(part uint32) string {
	return strconv.Itoa(int((100*part+r.data/2)/max(r.data, 1))) + " %"
}

// warnings are about the client's session.
func (w *watch) warnings() (all []string) {
	radio, client := &w.sides[fromRadio].recent, &w.sides[fromClient].recent
	if radio.crc >= fewFaults && radio.crc*crcPart >= radio.data {
		all = append(all, radio.percent(radio.crc)+" of the radio's last frames arrived damaged: bytes are lost or changed on the serial line; compare FIRMWARE_FLOW_CTRL with the radio's firmware, and look at the line errors in gwctl status")
	}
	if radio.resent >= fewFaults && radio.resent*resentPart >= radio.data {
		all = append(all, "the radio sent "+radio.percent(radio.resent)+" of its last frames again, since the client acknowledged late: its host is busy, or the network to it is slow (Wi-Fi?)")
	}
	if client.resent >= fewFaults && client.resent*resentPart >= client.data {
		all = append(all, "the client sent "+client.percent(client.resent)+" of its last frames again, since the radio answered late or not at all: gwctl bridge shows more")
	}
	return all
}

// watch counts what passes. It belongs to the loop, which calls saw behind the
// write of the bytes: nothing here is between the radio and its client.
type watch struct {
	clock
	protocol protocol
	sides    [2]side // by origin
	reset    ash.Frame
	resetAt  time.Duration // never: there was none
	tap      tap
}

// side is one direction.
type side struct {
	bytes  uint64
	since  int // bytes after the last good frame
	ash    ash.Decoder
	hdlc   hdlc.Decoder
	count  api.ASHCounter
	recent recent
	faults [2]uint64 // CRC, invalid: not counted until a good frame comes
}

// begin forgets what the client before spoke, and its half frames.
func (w *watch) begin() {
	w.protocol = notKnown
	for i := range w.sides {
		s := &w.sides[i]
		s.since, s.ash, s.hdlc, s.faults, s.recent = 0, ash.Decoder{}, hdlc.Decoder{}, [2]uint64{}, recent{}
	}
}

// saw takes bytes that passed. They stay the caller's.
func (w *watch) saw(who origin, p []byte) {
	if w.tap.wanted {
		w.tap.add(w.now(), who, w.passed(), p)
	}
	unknown := w.protocol == notKnown
	w.frames(who, p)
	if unknown && w.protocol != speaksASH {
		w.spinelFrames(&w.sides[who], p)
	}
}

// settled tells whether frames does all that saw would.
func (w *watch) settled() bool { return w.protocol != notKnown && !w.tap.wanted }

// frames counts bytes that passed, and the frames of ASH that end in them.
//
//go:nosplit
//go:norace
func (w *watch) frames(who origin, p []byte) {
	s := &w.sides[who]
	s.bytes += uint64(len(p))
	if w.protocol != speaksASH && w.protocol != notKnown {
		return
	}
	s.since += len(p)
	w.ashFrames(s, p)
	if s.since > patienceBytes {
		w.protocol = speaksOther
	}
}

// passed is how many bytes of both directions were seen.
func (w *watch) passed() uint64 { return w.sides[fromRadio].bytes + w.sides[fromClient].bytes }

// ashFrames counts the frames that end in p. The first good one decides that
// this is ASH.
//
//go:nosplit
//go:norace
func (w *watch) ashFrames(s *side, p []byte) {
	for len(p) > 0 {
		n, f, ok := s.ash.Next(p)
		p = p[n:]
		if !ok {
			return
		}
		switch {
		case f.Fault == ash.CRC:
			s.faults[0]++
		case f.Fault != ash.Good:
			s.faults[1]++
		case w.protocol == notKnown:
			// What was before may have been anything.
			w.protocol, s.faults = speaksASH, [2]uint64{}
			w.good(s, f, len(p))
		default:
			w.good(s, f, len(p))
		}
	}
}

// good counts a frame, behind which are left bytes.
//
//go:nosplit
//go:norace
func (w *watch) good(s *side, f ash.Frame, left int) {
	s.since = left
	c := &s.count
	c.CRC += s.faults[0]
	c.Invalid += s.faults[1]
	s.recent.crc += uint32(s.faults[0])
	s.faults = [2]uint64{}
	switch f.Kind {
	case ash.Data:
		c.Data++
		s.recent.data++
		if f.ReTx {
			c.Resent++
			s.recent.resent++
		}
		s.recent.halve()
	case ash.Ack:
		c.Ack++
	case ash.Nak:
		c.Nak++
	case ash.Rst:
		c.Rst++
	case ash.RstAck, ash.Error:
		if f.Kind == ash.RstAck {
			c.RstAck++
		} else {
			c.Error++
		}
		if s == &w.sides[fromRadio] {
			w.reset, w.resetAt = f, w.now()
		}
	}
}

// spinelFrames looks for a frame that decides that this is Spinel.
func (w *watch) spinelFrames(s *side, p []byte) {
	for len(p) > 0 {
		n, f, ok := s.hdlc.Next(p)
		p = p[n:]
		if !ok {
			return
		}
		if _, spinel := f.Spinel(); spinel {
			w.protocol = speaksSpinel
			return
		}
	}
}

// watched answers Bridge.Watch.
func (l *loop) watched() *api.BridgeWatch {
	w := &l.watch
	out := &api.BridgeWatch{Bridge: l.status(), At: l.now().Seconds(), Protocol: w.protocol.String()}
	l.rx.flow(&out.FromRadio)
	l.tx.flow(&out.ToRadio)
	out.FromRadio.Bytes, out.FromRadio.ASH = w.sides[fromRadio].bytes, w.sides[fromRadio].count
	out.ToRadio.Bytes, out.ToRadio.ASH = w.sides[fromClient].bytes, w.sides[fromClient].count
	if w.resetAt != never {
		out.Reset = &api.ASHReset{
			Frame: w.reset.Kind.String(), Code: int(w.reset.Code), Reason: ash.Reason(w.reset.Code),
			Ago: (l.now() - w.resetAt).Seconds(),
		}
	}
	return out
}

// Watch returns what Status does, and what the bridge counts of the bytes that
// pass.
func (b *Bridge) Watch(ctx context.Context) (*api.BridgeWatch, error) {
	return inLoop(ctx, b, (*loop).watched)
}

// errNoTap is the answer of a bridge that never sees the bytes.
var errNoTap = errors.New("the kernel carries the bytes and gives nobody a copy; gwctl config set radio.BRIDGE_ENGINE user lets this bridge do it")

// observe answers the methods that tell what passes. Of the kernel's engine
// that is what it counts itself.
func observe(ctx context.Context, e engine, method string, params []byte) ([]byte, error) {
	b, ours := e.(*Bridge)
	switch {
	case method == "tap" && ours:
		return b.answerTap(ctx, params)
	case method == "tap":
		return nil, errNoTap
	case method != "watch":
		return nil, errMethod
	}
	var w *api.BridgeWatch
	var err error
	if ours {
		w, err = b.Watch(ctx)
	} else {
		w = new(api.BridgeWatch)
		w.Bridge, err = e.Status(ctx)
		mono, _ := logring.System()
		w.At = float64(mono) / 1e9
		w.FromRadio.Bytes, w.FromRadio.Latency = w.RxBytes, []uint32{}
		w.ToRadio.Bytes, w.ToRadio.Latency = w.TxBytes, []uint32{}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(w)
}
