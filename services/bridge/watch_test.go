//go:build linux

package bridge

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/radio/ash"
)

// framed returns the bytes of frames, one after the other.
func framed(frames ...ash.Frame) (p []byte) {
	for _, f := range frames {
		p = f.Append(p)
	}
	return p
}

func data(frm uint8, again bool, n int) ash.Frame {
	return ash.Frame{Kind: ash.Data, FrmNum: frm, ReTx: again, Payload: make([]byte, n)}
}

// session is what a start of an EZSP client looks like on the line.
var (
	hostBegins  = append([]byte{0x1A}, framed(ash.Frame{Kind: ash.Rst})...)
	radioBegins = framed(ash.Frame{Kind: ash.RstAck, Code: ash.ResetSoftware})
)

func newWatch() *watch { return &watch{clock: newClock(), resetAt: never} }

func TestWatchASH(t *testing.T) {
	w := newWatch()
	w.begin()
	w.saw(fromClient, hostBegins)
	w.saw(fromRadio, radioBegins)
	client := framed(data(0, false, 4), data(0, true, 4), ash.Frame{Kind: ash.Ack, AckNum: 1}, data(1, false, 40))
	radio := framed(data(0, false, 10), ash.Frame{Kind: ash.Nak}, ash.Frame{Kind: ash.Error, Code: ash.ErrorTimeouts})
	broken := framed(data(2, false, 8))
	broken[3] ^= 0x01
	for _, b := range append(broken, client...) { // one by one
		w.saw(fromClient, []byte{b})
	}
	w.saw(fromRadio, append([]byte{0x01, 0x18, 0x02, 0x7E}, radio...)) // a byte lost
	if w.protocol != speaksASH {
		t.Fatalf("protocol %q", w.protocol)
	}
	if got, want := w.sides[fromClient].count, (api.ASHCounter{Data: 3, Resent: 1, Ack: 1, Rst: 1, CRC: 1}); got != want {
		t.Errorf("to the radio %+v, want %+v", got, want)
	}
	if got, want := w.sides[fromRadio].count, (api.ASHCounter{Data: 1, Nak: 1, RstAck: 1, Error: 1, Invalid: 1}); got != want {
		t.Errorf("from the radio %+v, want %+v", got, want)
	}
	if w.reset.Code != ash.ErrorTimeouts || w.resetAt == never {
		t.Errorf("last reset %+v", w.reset)
	}
	if got, want := w.sides[fromClient].bytes, uint64(len(hostBegins)+len(broken)+len(client)); got != want {
		t.Errorf("%d bytes to the radio, want %d", got, want)
	}
}

func TestWatchDetects(t *testing.T) {
	spinel := []byte{0x7E, 0x80, 0x06, 0x00, 0x70, 0xEE, 0x74, 0x7E}
	text := []byte(strings.Repeat("no radio protocol ", 300)) // more than patienceBytes
	tests := []struct {
		name          string
		client, radio []byte
		want          protocol
	}{
		{"nothing", nil, nil, notKnown},
		{"half a frame", hostBegins[:3], nil, notKnown},
		{"ASH by the host", hostBegins, nil, speaksASH},
		{"ASH by the radio", nil, radioBegins, speaksASH},
		{"ASH behind noise", append([]byte("noise"), 0x7E), radioBegins, speaksASH},
		{"Spinel", nil, spinel, speaksSpinel},
		{"Spinel for long", spinel, append(slices.Clone(spinel), text...), speaksSpinel},
		{"text", text, nil, speaksOther},
		{"text before ASH", text, radioBegins, speaksOther}, // until the next client
		// A firmware upload after the radio was sent to its bootloader.
		{"ASH, then something else", append(slices.Clone(hostBegins), noise(2*patienceBytes)...), radioBegins, speaksOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWatch()
			w.begin()
			for p := range slices.Chunk(tt.client, 100) {
				w.saw(fromClient, p)
			}
			w.saw(fromRadio, tt.radio)
			if w.protocol != tt.want {
				t.Errorf("%q, want %q", w.protocol, tt.want)
			}
			// What is no ASH counts no faults of it.
			for i := range w.sides {
				if c := w.sides[i].count; c.CRC+c.Invalid != 0 {
					t.Errorf("side %d: %+v", i, c)
				}
			}
			w.begin()
			w.saw(fromClient, hostBegins)
			if w.protocol != speaksASH {
				t.Errorf("of the next client %q", w.protocol)
			}
		})
	}
}

// Status warns of what a user should do something about: of the last frames, of
// this client, and of no few.
func TestWatchWarns(t *testing.T) {
	w := newWatch()
	w.begin()
	w.saw(fromClient, hostBegins)
	say := func(who origin, frames, resent, broken int) {
		for i := range frames {
			f := framed(data(uint8(i)&7, i < resent, 4))
			if i < broken {
				b := slices.Clone(f)
				b[3] ^= 1
				w.saw(who, b)
			}
			w.saw(who, f)
		}
	}
	check := func(what string, want ...string) {
		t.Helper()
		got := w.warnings()
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", what, got, want)
			return
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q, want %q", what, got[i], want[i])
			}
		}
	}
	say(fromRadio, 9, 9, 9)
	check("too few to say")
	say(fromRadio, 191, 1, 1)
	check("many", "5 % of the radio's last frames arrived damaged", "the radio sent 5 % of its last frames again")
	say(fromRadio, 20*recentFrames, 0, 0)
	check("long ago")
	say(fromClient, 100, 30, 0)
	check("the client", "the client sent 30 % of its last frames again")
	w.begin()
	check("another client")
}

func TestWatchAllocatesNothing(t *testing.T) {
	w := newWatch()
	w.saw(fromClient, hostBegins)
	p := framed(data(0, false, 40))
	if n := testing.AllocsPerRun(100, func() { w.saw(fromRadio, p); w.saw(fromClient, p) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBucket(t *testing.T) {
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, 999: 0, time.Microsecond: 1, 2 * time.Microsecond: 2, 3 * time.Microsecond: 2, 4 * time.Microsecond: 3,
		1023 * time.Microsecond: 10, 1024 * time.Microsecond: 11, time.Second: 20, 16 * time.Second: 24, time.Hour: api.LatencyBuckets - 1,
	} {
		if got := bucket(d); got != want {
			t.Errorf("%v in %d, want %d", d, got, want)
		}
	}
}

func flow(q *queue) (f api.BridgeFlow) { q.flow(&f); return f }

// A queue's samples are one in sampleEvery reads, and end with their last byte.
func TestGauge(t *testing.T) {
	q := queue{buf: make([]byte, 100), clock: newClock()}
	samples := func() (n uint32) {
		for _, h := range flow(&q).Latency {
			n += h
		}
		return n
	}
	for range 3 * sampleEvery {
		q.reading()
		q.added(10)
		q.took(10)
		q.settled()
	}
	if n := samples(); n != 3 {
		t.Errorf("%d samples of %d reads", n, 3*sampleEvery)
	}
	if f := flow(&q); f.Held != 0 || f.QueueMost != 0 || f.QueueSize != 100 {
		t.Errorf("never held: %+v", f)
	}
	for !q.armed {
		q.reading()
	}
	q.reading() // after a read that gave nothing
	q.added(10)
	q.took(4)
	q.settled()
	q.reading()
	q.added(20) // not of the sample
	q.took(5)
	q.settled()
	if n := samples(); n != 3 {
		t.Errorf("the sample ended before its last byte")
	}
	q.took(1)
	q.settled()
	if n := samples(); n != 4 {
		t.Errorf("the sample did not end with its last byte")
	}
	if f := flow(&q); f.Held != 1 || f.HeldNow <= 0 || f.QueueMost != 26 || f.Queued != 20 {
		t.Errorf("held: %+v", f)
	}
	q.took(20)
	q.settled()
	if f := flow(&q); f.Held != 1 || f.HeldNow != 0 || f.HeldLongest <= 0 || f.HeldSeconds != f.HeldLongest {
		t.Errorf("released: %+v", f)
	}
	// What is thrown away is no sample, and holds nothing.
	for !q.armed {
		q.reading()
	}
	q.added(10)
	q.settled()
	q.reset()
	if f := flow(&q); samples() != 4 || f.Held != 2 || f.HeldNow != 0 {
		t.Errorf("after a reset: %+v", f)
	}
}

// What Watch says of a session of both.
func TestWatchOfBridge(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	write(t, c, hostBegins)
	g.radioHears(len(hostBegins))
	g.radioSays(radioBegins)
	readN(t, c, len(radioBegins))
	frame := framed(data(0, false, 20))
	const rounds = 4 * sampleEvery
	for range rounds {
		write(t, c, frame)
		g.radioHears(len(frame))
		g.radioSays(frame)
		readN(t, c, len(frame))
	}
	var w api.BridgeWatch
	// A client has bytes before the loop has counted them.
	g.until("all frames counted", func() bool {
		raw, err := answerer(g.b, nil)(t.Context(), "watch", nil)
		if err != nil {
			t.Fatal(err)
		}
		w = api.BridgeWatch{}
		if err := json.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		return w.FromRadio.ASH.Data == rounds && w.ToRadio.ASH.Data == rounds
	})
	if w.Protocol != "ash" || w.ToRadio.ASH.Rst != 1 || w.FromRadio.ASH.RstAck != 1 {
		t.Errorf("%+v", w)
	}
	if w.Reset == nil || w.Reset.Frame != "RSTACK" || w.Reset.Code != 0x0B || w.Reset.Reason != "software reset (0x0b)" {
		t.Errorf("reset %+v", w.Reset)
	}
	if want := uint64(len(hostBegins) + rounds*len(frame)); w.ToRadio.Bytes != want || w.TxBytes != want {
		t.Errorf("%d and %d bytes to the radio, want %d", w.ToRadio.Bytes, w.TxBytes, want)
	}
	for name, f := range map[string]api.BridgeFlow{"from": w.FromRadio, "to": w.ToRadio} {
		var n uint32
		for _, h := range f.Latency {
			n += h
		}
		if n < 3 || n > 6 {
			t.Errorf("%s the radio: %d samples of %d reads", name, n, rounds+1)
		}
	}
}

// A client that does not read: the queue is said to hold, how much and how long.
func TestWatchHeld(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	p := noise(4 << 20)
	sent := make(chan struct{})
	go func() { g.radioSays(p); close(sent) }()
	g.until("full queue", func() bool {
		w, err := g.b.Watch(t.Context())
		return err == nil && w.FromRadio.Held > 0 && w.FromRadio.Queued == rxQueueBytes && w.FromRadio.QueueMost == rxQueueBytes && w.FromRadio.HeldNow > 0
	})
	if !bytes.Equal(readN(t, c, len(p)), p) {
		t.Error("bytes differ")
	}
	<-sent
	g.until("empty queue", func() bool {
		w, err := g.b.Watch(t.Context())
		return err == nil && w.FromRadio.Queued == 0 && w.FromRadio.HeldNow == 0 && w.FromRadio.HeldLongest > 0
	})
}

// kernelsEngine is an engine that the bytes do not pass.
type kernelsEngine struct{ engine }

func (kernelsEngine) Status(context.Context) (api.Bridge, error) {
	return api.Bridge{Engine: "kernel", RxBytes: 12, TxBytes: 34}, nil
}

func TestWatchOfKernelEngine(t *testing.T) {
	answer := answerer(kernelsEngine{}, nil)
	raw, err := answer(t.Context(), "watch", nil)
	var w api.BridgeWatch
	if err == nil {
		err = json.Unmarshal(raw, &w)
	}
	if err != nil || w.Engine != "kernel" || w.FromRadio.Bytes != 12 || w.ToRadio.Bytes != 34 || w.At <= 0 || w.FromRadio.Latency == nil {
		t.Errorf("%s, %v", raw, err)
	}
	if _, err := answer(t.Context(), "tap", nil); !errors.Is(err, errNoTap) {
		t.Errorf("tap: %v", err)
	}
	if _, err := answer(t.Context(), "dance", nil); !errors.Is(err, errMethod) {
		t.Errorf("dance: %v", err)
	}
}

// tapReader follows a tap as PID 1 does.
type tapReader struct {
	g      *gateway
	params []byte
	radio  []byte
	client []byte
	missed uint64
	last   int64
}

func (r *tapReader) step() (pause int) {
	t := r.g.t
	t.Helper()
	raw, err := answerer(r.g.b, nil)(t.Context(), "tap", r.params)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 60<<10 {
		t.Fatalf("an answer of %d bytes", len(raw))
	}
	var a struct {
		Data    *api.BridgeTap  `json:"data"`
		Next    json.RawMessage `json:"next"`
		PauseMs int             `json:"pauseMs"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		t.Fatal(err)
	}
	r.params = a.Next
	if a.Data == nil {
		return a.PauseMs
	}
	r.missed += a.Data.Missed
	for _, p := range a.Data.Pieces {
		if p.At < r.last || p.At > a.Data.Now {
			t.Fatalf("a piece at %d us, the one before at %d, now it is %d", p.At, r.last, a.Data.Now)
		}
		r.last = p.At
		if p.From == "client" {
			r.client = append(r.client, p.Data...)
		} else {
			r.radio = append(r.radio, p.Data...)
		}
	}
	return a.PauseMs
}

func TestTap(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	write(t, c, []byte("before"))
	g.radioHears(6)
	r := &tapReader{g: g}
	g.until("the bytes before", func() bool { w, err := g.b.Watch(t.Context()); return err == nil && w.ToRadio.Bytes == 6 })
	r.step()
	if r.params == nil || len(r.client) > 0 {
		t.Fatalf("the first answer has next %s and %q", r.params, r.client)
	}
	up, down := noise(50_000), noise(60_001)
	for i := range up {
		up[i] &= 0x7f
	}
	for len(up) > 0 || len(down) > 0 {
		a, b := up[:min(len(up), 3000)], down[:min(len(down), 3000)]
		up, down = up[len(a):], down[len(b):]
		write(t, c, a)
		g.radioHears(len(a))
		g.radioSays(b)
		readN(t, c, len(b))
		r.step()
	}
	up, down = noise(50_000), noise(60_001)
	for i := range up {
		up[i] &= 0x7f
	}
	g.until("all bytes", func() bool { r.step(); return len(r.client) >= len(up) && len(r.radio) >= len(down) })
	if !bytes.Equal(r.client, up) || !bytes.Equal(r.radio, down) || r.missed != 0 {
		t.Errorf("%d and %d bytes, %d missed", len(r.client), len(r.radio), r.missed)
	}
}

// A reader that is slow misses bytes, is told how many, and holds nobody up.
func TestTapMissed(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	r := &tapReader{g: g}
	r.step()
	p := noise(1 << 20)
	go g.radioSays(p)
	readN(t, c, len(p))
	g.until("all bytes", func() bool { r.step(); return r.missed+uint64(len(r.radio)) >= uint64(len(p)) })
	if r.missed+uint64(len(r.radio)) != uint64(len(p)) || len(r.radio) < tapBytes/2 {
		t.Errorf("%d read, %d missed of %d", len(r.radio), r.missed, len(p))
	}
	if !bytes.Equal(r.radio, p[len(p)-len(r.radio):]) {
		t.Error("what came is not the end of what passed")
	}
	if s := g.status(); s.QueueDropped != 0 || s.RxBytes != uint64(len(p)) {
		t.Errorf("%+v", s)
	}
}

// Nobody reads any more: the memory goes, and what passed then is missed.
func TestTapLease(t *testing.T) {
	w := newWatch()
	next := w.read(0).next
	w.saw(fromRadio, []byte("abc"))
	got := w.read(next)
	if string(got.bytes) != "abc" || got.missed != 0 || got.more {
		t.Fatalf("%+v", got)
	}
	w.tap.asked -= tapLease + time.Second
	w.saw(fromClient, []byte("defg"))
	if w.tap.wanted || w.tap.ring != nil {
		t.Error("the copy goes on")
	}
	w.saw(fromClient, []byte("h"))
	got = w.read(got.next)
	if got.missed != 5 || len(got.bytes) != 0 {
		t.Errorf("%+v, want 5 missed", got)
	}
	w.saw(fromRadio, []byte("ij"))
	if got = w.read(got.next); string(got.bytes) != "ij" || got.missed != 0 {
		t.Errorf("%+v", got)
	}
}

// Small pieces fill the ring of pieces before that of bytes; an answer of them
// fits its packet.
func TestTapSmallPieces(t *testing.T) {
	w := newWatch()
	next := w.read(0).next
	for i := range 3000 {
		w.saw(origin(i%2), []byte{byte(i)})
	}
	missed, read := uint64(0), 0
	for more := true; more; {
		got := w.read(next)
		missed += got.missed
		read += len(got.bytes)
		next, more = got.next, got.more
		if n := len(got.pieces) * pieceJSON; n > tapAnswer {
			t.Errorf("%d pieces in an answer", len(got.pieces))
		}
	}
	if read != tapPieces || missed != 3000-tapPieces {
		t.Errorf("%d read, %d missed", read, missed)
	}
	// A cursor of another process, or of nobody, is no reason to fall over.
	if got := w.read(1 << 62); len(got.bytes) != 0 || got.next != 3000 {
		t.Errorf("%+v", got)
	}
}

func TestTapParams(t *testing.T) {
	g := start(t, nil).open()
	for _, bad := range []string{`{"after":-1}`, `[`, `"x"`} {
		if _, err := answerer(g.b, nil)(t.Context(), "tap", []byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
	// The cursor of an earlier process begins anew.
	raw, err := answerer(g.b, nil)(t.Context(), "tap", []byte(`{"bridge":1,"after":999}`))
	if err != nil || strings.Contains(string(raw), `"missed"`) {
		t.Errorf("%s, %v", raw, err)
	}
}

// The whole path at once must not depend on how bytes fall into reads.
func FuzzWatch(f *testing.F) {
	f.Add(hostBegins, radioBegins, uint8(3))
	f.Add([]byte{0x7E, 0x80, 0x06}, []byte{0x18, 0x7E}, uint8(1))
	f.Fuzz(func(t *testing.T, client, radio []byte, piece uint8) {
		if len(client) > patienceBytes || len(radio) > patienceBytes {
			return // whether patience ends within a read depends on the reads
		}
		whole, parts := newWatch(), newWatch()
		whole.read(0)
		parts.read(0)
		whole.saw(fromClient, client)
		whole.saw(fromRadio, radio)
		for p := range slices.Chunk(client, int(piece)+1) {
			parts.saw(fromClient, p)
		}
		for p := range slices.Chunk(radio, int(piece)+1) {
			parts.saw(fromRadio, p)
		}
		if whole.protocol != speaksSpinel && parts.protocol != speaksSpinel {
			for i := range whole.sides {
				if whole.sides[i].count != parts.sides[i].count {
					t.Fatalf("%s|%s: %+v in one, %+v in pieces", hex.EncodeToString(client), hex.EncodeToString(radio), whole.sides[i].count, parts.sides[i].count)
				}
			}
		}
		if whole.passed() != uint64(len(client)+len(radio)) {
			t.Fatalf("%d bytes", whole.passed())
		}
	})
}
