//go:build linux

package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/logring"
)

// Sizes of the tap. Its memory is there while somebody reads.
const (
	// tapBytes holds 0.7 s of both directions at 460800 baud.
	tapBytes = 64 << 10
	// tapPieces holds as long of frames of 60 bytes.
	tapPieces = 1 << 10
	// tapAnswer bounds an answer's JSON, which has a packet of
	// notify.MaxMessage: base64 of the bytes, and pieceJSON for each piece.
	tapAnswer = 44 << 10
	pieceJSON = 72
	// tapPause is how long a reader that has everything waits until it asks
	// again; tapHurry is for one that has not.
	tapPause = 100 * time.Millisecond
	tapHurry = 20 * time.Millisecond
	// tapLease is after how long without a call nobody reads any more. A
	// client of the control socket may take 10 s to take an answer.
	tapLease = 15 * time.Second
)

// tap keeps a copy of what passed lately for whoever asks. It belongs to the
// loop; what nobody fetched in time is overwritten, so that a slow reader
// misses bytes and holds nothing up.
type tap struct {
	wanted bool
	asked  time.Duration // last
	ring   []byte        // the byte at position n is at n % tapBytes
	pieces []tapPiece    // a ring, too: [first, first+n)
	first  int
	n      int
}

// tapPiece is what one read gave. Positions count the bytes of both
// directions since the process started.
type tapPiece struct {
	at    time.Duration
	start uint64
	size  int32
	from  origin
}

// add copies p, which begins at position start. It is the only cost of a tap
// to the loop: a reading of the clock and a copy for each read.
func (t *tap) add(now time.Duration, who origin, start uint64, p []byte) {
	if now-t.asked > tapLease {
		*t = tap{}
		return
	}
	for len(p) > 0 {
		part := p[:min(len(p), tapBytes/4)]
		p = p[len(part):]
		end := start + uint64(len(part))
		for t.n > 0 && (t.n == tapPieces || end-t.pieces[t.first].start > tapBytes) {
			t.first = (t.first + 1) % tapPieces
			t.n--
		}
		at := int(start % tapBytes)
		copied := copy(t.ring[at:], part)
		copy(t.ring, part[copied:])
		t.pieces[(t.first+t.n)%tapPieces] = tapPiece{at: now, start: start, size: int32(len(part)), from: who}
		t.n++
		start = end
	}
}

// start makes the tap keep copies from now on.
func (t *tap) start() {
	t.ring, t.pieces = make([]byte, tapBytes), make([]tapPiece, tapPieces)
	t.first, t.n, t.wanted = 0, 0, true
}

// tapped is one answer's worth of pieces.
type tapped struct {
	began  int64 // the process, by its start
	now    time.Duration
	missed uint64
	pieces []tapPiece
	bytes  []byte // of all pieces, one after the other
	next   uint64
	more   bool // there is more to fetch at once
}

// read copies the pieces after position after, at most an answer's worth.
func (w *watch) read(after uint64) *tapped {
	t := &w.tap
	out := &tapped{now: w.now(), next: after}
	t.asked = out.now
	if !t.wanted {
		t.start()
	}
	json := 0
	for i := range t.n {
		p := t.pieces[(t.first+i)%tapPieces]
		if p.start+uint64(p.size) <= after {
			continue
		}
		if json += pieceJSON + (int(p.size)+2)/3*4; json > tapAnswer && len(out.pieces) > 0 {
			out.more = true
			break
		}
		if len(out.pieces) == 0 {
			out.missed = p.start - min(p.start, after)
		}
		at := int(p.start % tapBytes)
		head := t.ring[at:min(at+int(p.size), tapBytes)]
		out.bytes = append(append(out.bytes, head...), t.ring[:int(p.size)-len(head)]...)
		out.pieces = append(out.pieces, p)
		out.next = p.start + uint64(p.size)
	}
	if len(out.pieces) == 0 {
		// All that passed while nothing was kept.
		out.missed, out.next = w.passed()-min(after, w.passed()), w.passed()
	}
	return out
}

// Tap returns a copy of what passed after the place that args name, and what
// to ask next. The first call, with zero args, only begins: it returns nothing.
// It must be called again within 15 s; what was overwritten by then is counted
// in Missed.
func (b *Bridge) Tap(ctx context.Context, args api.BridgeTapArgs) (d api.BridgeTap, next api.BridgeTapArgs, pause time.Duration, err error) {
	got, err := inLoop(ctx, b, func(l *loop) *tapped {
		if args.Bridge != l.start/1000 { // also of a process before this one
			args.After = l.watch.passed()
		}
		got := l.watch.read(args.After)
		got.began = l.start / 1000
		return got
	})
	if err != nil {
		return d, next, 0, err
	}
	d = api.BridgeTap{Now: got.now.Microseconds(), Missed: got.missed, Pieces: make([]api.TapPiece, 0, len(got.pieces))}
	if _, wall := logring.System(); wall >= logring.WallKnown {
		d.Wall = wall / 1e3
	}
	rest := got.bytes
	for _, p := range got.pieces {
		from := "radio"
		if p.from == fromClient {
			from = "client"
		}
		d.Pieces = append(d.Pieces, api.TapPiece{At: p.at.Microseconds(), From: from, Data: rest[:p.size]})
		rest = rest[p.size:]
	}
	pause = tapPause
	if got.more {
		pause = tapHurry
	}
	return d, api.BridgeTapArgs{Bridge: got.began, After: got.next}, pause, nil
}

// answerTap is Tap as a call with Follow.
func (b *Bridge) answerTap(ctx context.Context, params []byte) ([]byte, error) {
	var args api.BridgeTapArgs
	if len(params) > 0 {
		if err := json.Unmarshal(params, &args); err != nil {
			return nil, fmt.Errorf("parameters of tap: %w; the first call has none, the others what the answer before gave as next", err)
		}
	}
	d, next, pause, err := b.Tap(ctx, args)
	if err != nil {
		return nil, err
	}
	a := api.Followed{Next: next, Pause: int(pause.Milliseconds())}
	if len(d.Pieces) > 0 || d.Missed > 0 || args == (api.BridgeTapArgs{}) {
		a.Data = d
	}
	return json.Marshal(a)
}
