// Package logring keeps the box's log in memory: the newest lines of all
// services in one ring bounded in bytes, and beside it the last lines of each
// service, so that a talkative one does not wash away why a quiet one died.
//
// It writes nowhere: nothing here touches flash. Writers never wait for
// readers; a reader that falls behind is told how many lines it missed.
package logring

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
)

// Limits of the ring. A line of a service is some 80 bytes, and a record has
// 27 bytes more, so the default holds about 600 lines.
const (
	DefaultBytes = 64 << 10
	MaxText      = 1 << 10  // bytes of a line; the rest is cut, and the line says so
	TailLines    = 100      // kept for each service ...
	TailBytes    = 12 << 10 // ... or as many as fit into this
	maxServices  = 48       // beyond these, lines are those of the service "other"
	batchLines   = 64       // at most this many a Next
)

// Clock returns CLOCK_MONOTONIC in ns and the wall clock in Unix ns.
type Clock func() (mono, wall int64)

// WallKnown is 2024-01-01 in Unix ns: there is no RTC, so an earlier time is none.
const WallKnown = 1_704_067_200_000_000_000

// System is the Clock of the box.
func System() (mono, wall int64) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, time.Now().UnixNano()
	}
	return ts.Nano(), time.Now().UnixNano()
}

// Ring is the log. Its methods may be called by several goroutines.
type Ring struct {
	clock Clock

	mu    sync.Mutex // guards all below
	all   slab
	names []string
	tails []slab // of names with the same index
	next  uint64 // sequence number of the next line, from 1
	wake  chan struct{}
}

// New makes a ring of so many bytes, records included; less than 4 KiB, for
// instance 0, is DefaultBytes.
func New(bytes int, clock Clock) *Ring {
	if bytes < 4<<10 {
		bytes = DefaultBytes
	}
	return &Ring{clock: clock, next: 1, all: slab{buf: make([]byte, bytes), limit: bytes}}
}

// Resize changes the size of the ring, with New's bounds. The newest lines that
// fit stay, and followers keep their place.
func (r *Ring) Resize(bytes int) {
	if bytes < 4<<10 {
		bytes = DefaultBytes
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes != r.all.limit {
		r.all.resize(bytes)
	}
}

// Append adds the lines of text. It does not block and makes no copy but the
// one in the ring.
func (r *Ring) Append(service, text string) {
	r.AppendBytes(service, unsafe.Slice(unsafe.StringData(text), len(text)))
}

// AppendBytes is Append. text is the caller's again when it returns.
func (r *Ring) AppendBytes(service string, text []byte) {
	for more := true; more; {
		var line []byte
		line, text, more = bytes.Cut(text, newline)
		r.put(service, line, 0)
	}
}

var newline = []byte{'\n'}

// put adds one line, of which lost bytes more are gone already. An empty line
// says nothing and is none.
func (r *Ring) put(service string, text []byte, lost int) {
	if len(text) > MaxText {
		lost += len(text) - MaxText
		text = text[:MaxText]
	}
	var mark []byte
	if lost > 0 {
		for i := 0; i < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[len(text)-1]); i++ {
			text, lost = text[:len(text)-1], lost+1
		}
		if len(text) > 0 && text[len(text)-1] >= utf8.RuneSelf {
			text, lost = text[:len(text)-1], lost+1
		}
		var room [40]byte
		mark = append(strconv.AppendInt(append(room[:0], " [... "...), int64(lost), 10), " bytes cut]"...)
	} else if len(text) > 0 && text[len(text)-1] == '\r' {
		text = text[:len(text)-1]
	}
	if len(text) == 0 {
		return
	}
	mono, wall := r.clock()
	if wall < WallKnown {
		wall = 0
	}
	r.mu.Lock()
	id := r.id(service)
	h := header{seq: r.next, mono: mono, wall: wall, service: uint8(id), length: uint16(len(text) + len(mark))}
	r.next++
	r.all.push(h, text, mark)
	r.tails[id].push(h, text, mark)
	wake := r.wake
	r.wake = nil
	r.mu.Unlock()
	if wake != nil {
		close(wake)
	}
}

// id returns the index of a service's name.
func (r *Ring) id(service string) int {
	if i := r.find(service); i >= 0 {
		return i
	}
	if len(r.names) >= maxServices {
		service = "other"
		if i := r.find(service); i >= 0 {
			return i
		}
	}
	r.names = append(r.names, service)
	r.tails = append(r.tails, slab{limit: TailBytes, lines: TailLines})
	return len(r.names) - 1
}

func (r *Ring) find(service string) int {
	for i, name := range r.names {
		if name == service {
			return i
		}
	}
	return -1
}

// Seq returns the sequence number of the newest line, 0 before the first.
func (r *Ring) Seq() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next - 1
}

// Last returns the newest n lines of a service, oldest first, or all that are
// kept for n <= 0; service "" means all services.
func (r *Ring) Last(service string, n int) []api.LogLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := -1
	if service != "" {
		if id = r.find(service); id < 0 {
			return nil
		}
	}
	// each calls f for every line that counts: the service's own tail up to
	// where the ring begins, then the ring.
	each := func(f func(s *slab, off uint64, h header)) {
		oldest := r.next
		if r.all.count > 0 {
			oldest = r.all.header(r.all.tail).seq
		}
		if id >= 0 {
			t := &r.tails[id]
			for off := t.tail; off < t.head; {
				h := t.header(off)
				if h.seq < oldest {
					f(t, off, h)
				}
				off += h.size()
			}
		}
		for off := r.all.tail; off < r.all.head; {
			h := r.all.header(off)
			if id < 0 || int(h.service) == id {
				f(&r.all, off, h)
			}
			off += h.size()
		}
	}
	count := 0
	each(func(*slab, uint64, header) { count++ })
	skip := 0
	if n > 0 && count > n {
		skip = count - n
	}
	lines := make([]api.LogLine, 0, count-skip)
	each(func(s *slab, off uint64, h header) {
		if skip > 0 {
			skip--
			return
		}
		lines = append(lines, r.line(s, off, h))
	})
	return lines
}

func (r *Ring) line(s *slab, off uint64, h header) api.LogLine {
	return api.LogLine{Seq: h.seq, Mono: h.mono, Wall: h.wall, Service: r.names[h.service], Text: s.text(off, h)}
}

// Follower reads the ring as it grows. It is for one goroutine.
type Follower struct {
	ring    *Ring
	service string
	off     uint64 // in ring.all, of line seq
	seq     uint64
	placed  bool
}

// Follow returns a Follower that begins with line after+1, thus with what
// comes from now on for Seq(). service "" means all services.
func (r *Ring) Follow(service string, after uint64) *Follower {
	return &Follower{ring: r, service: service, seq: after + 1}
}

// Next waits for lines and returns some of them, oldest first, and how many
// lines (of any service) were overwritten before they could be read. It
// returns the cause of ctx's end as its error.
func (f *Follower) Next(ctx context.Context) (lines []api.LogLine, missed uint64, err error) {
	for {
		lines, more, wake := f.take(&missed)
		if len(lines) > 0 {
			return lines, missed, nil
		}
		if err := context.Cause(ctx); err != nil {
			return nil, missed, err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, missed, context.Cause(ctx)
		case <-wake:
		}
	}
}

// take returns what is there, or a channel that is closed by the next line.
// more says that it stopped at its limit and not at the newest line.
func (f *Follower) take(missed *uint64) (lines []api.LogLine, more bool, wake chan struct{}) {
	r := f.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	if !f.placed || f.off < r.all.tail {
		f.place(missed)
	}
	for f.off < r.all.head {
		if len(lines) == batchLines {
			return lines, true, nil
		}
		h := r.all.header(f.off)
		if f.service == "" || r.names[h.service] == f.service {
			lines = append(lines, r.line(&r.all, f.off, h))
		}
		f.off += h.size()
		f.seq = h.seq + 1
	}
	if len(lines) > 0 {
		return lines, false, nil
	}
	if r.wake == nil {
		r.wake = make(chan struct{})
	}
	return nil, false, r.wake
}

// place puts off to line seq, or to the oldest that is left after it.
func (f *Follower) place(missed *uint64) {
	all := &f.ring.all
	f.placed, f.off = true, all.tail
	for f.off < all.head {
		h := all.header(f.off)
		if h.seq >= f.seq {
			*missed += h.seq - f.seq
			f.seq = h.seq
			return
		}
		f.off += h.size()
	}
}

// Writer makes lines of a byte stream: what a service writes to its stderr, or
// a log.Logger. It is for one goroutine.
type Writer struct {
	ring    *Ring
	service string
	partial []byte // a line whose end has not come, at most MaxText bytes
	lost    int    // bytes of that line beyond partial
}

// Writer returns a Writer for a service.
func (r *Ring) Writer(service string) *Writer { return &Writer{ring: r, service: service} }

// Write implements io.Writer; it never fails.
func (w *Writer) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ended := bytes.Cut(p, newline)
		switch {
		case !ended:
			w.keep(line)
			return n, nil
		case len(w.partial) == 0:
			w.ring.put(w.service, line, 0)
		default:
			w.keep(line)
			w.Flush()
		}
		p = rest
	}
}

// keep adds b to the partial line.
func (w *Writer) keep(b []byte) {
	n := min(len(b), MaxText-len(w.partial))
	w.partial = append(w.partial, b[:n]...)
	w.lost += len(b) - n
}

// Flush ends a line that has no newline: the stream is at its end.
func (w *Writer) Flush() {
	if len(w.partial) > 0 {
		w.ring.put(w.service, w.partial, w.lost)
	}
	w.partial, w.lost = w.partial[:0], 0
}
