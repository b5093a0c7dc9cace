//go:build linux

package bridge

import (
	"time"

	"gwinit/internal/api"
)

// sampleEvery is one in how many reads of a direction is timed. A reading of
// the clock is a system call on the gateway, and a timed read takes two: 0.12
// calls a read on the average, beside the three that it costs anyway. It is a
// prime, so that traffic with a beat of its own is not always met at the same
// place.
const sampleEvery = 17

// gauge measures what becomes of the bytes of one queue: how long some of them
// stay, how often the queue does not get empty, how full it was. What is told
// of a read and a write (reading, added, took, settled) is told in the steady
// state, too, where code may do little: see steady.wait.
//
// A sample goes from the moment that the loop turns to bytes that are ready to
// be read, to that at which the last of them is written to the other side. The
// time between their arrival in the kernel and poll's return is not in it.
type gauge struct {
	countdown int           // reads until the next sample
	armed     bool          // the next read is one
	left      int           // bytes in the queue up to the sample's last; 0: none is under way
	ready     time.Duration // of the sample
	histogram [api.LatencyBuckets]uint32
	total     time.Duration // of the samples

	held      bool // not empty after a write
	heldSince time.Duration
	helds     uint64
	heldTime  time.Duration // of those that are over
	heldMost  time.Duration
	most      int // bytes in the queue after a write
}

// reading says that bytes are ready for the queue, which come with added.
//
//go:nosplit
//go:norace
func (q *queue) reading() {
	g := &q.gauge
	if g.left > 0 {
		return
	}
	if !g.armed {
		if g.countdown--; g.countdown > 0 {
			return
		}
	}
	// A read that then gives nothing leaves it armed.
	g.countdown, g.armed, g.ready = sampleEvery, true, q.now()
}

// settled says that what can be written of the queue for now is written.
//
//go:nosplit
//go:norace
func (q *queue) settled() {
	g := &q.gauge
	if q.empty() {
		if g.held {
			q.released()
		}
		return
	}
	if !g.held {
		g.held, g.heldSince = true, q.now()
		g.helds++
	}
	g.most = max(g.most, q.len())
}

// released ends a time in which the queue was never empty.
//
//go:nosplit
//go:norace
func (q *queue) released() {
	g := &q.gauge
	d := q.now() - g.heldSince
	g.held = false
	g.heldTime += d
	g.heldMost = max(g.heldMost, d)
}

// sampled says that n bytes left the queue while a sample was under way.
//
//go:nosplit
//go:norace
func (q *queue) sampled(n int) {
	g := &q.gauge
	if g.left -= n; g.left <= 0 {
		g.left = 0
		d := q.now() - g.ready
		g.total += d
		g.histogram[bucket(d)]++
	}
}

// forget ends what is under way: the queue's bytes go nowhere.
func (q *queue) forget() {
	q.left, q.armed = 0, false
	if q.held {
		q.released()
	}
}

// bucket is where a time is counted: bucket i holds those below 2^i us.
//
//go:nosplit
//go:norace
func bucket(d time.Duration) (i int) {
	// Neither a division of 64 bits nor math/bits may be called here.
	for d >= time.Microsecond<<i && i < api.LatencyBuckets-1 {
		i++
	}
	return i
}

// flow fills in what the gauge knows.
func (q *queue) flow(f *api.BridgeFlow) {
	g := &q.gauge
	f.Queued, f.QueueSize, f.QueueMost = q.len(), len(q.buf), g.most
	f.Held = g.helds
	all, most := g.heldTime, g.heldMost
	if g.held {
		now := q.now() - g.heldSince
		f.HeldNow = now.Seconds()
		all += now
		most = max(most, now)
	}
	f.HeldSeconds, f.HeldLongest = all.Seconds(), most.Seconds()
	n := len(g.histogram)
	for n > 0 && g.histogram[n-1] == 0 {
		n--
	}
	f.Latency = append([]uint32{}, g.histogram[:n]...)
	f.LatencySeconds = g.total.Seconds()
}
