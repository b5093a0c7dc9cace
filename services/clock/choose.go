package clock

import (
	"slices"
	"time"
)

// maxDistance is how far from true time an answer may be at worst (RFC 5905
// section 11.2: MAXDIST 1 s, plus what a slow line takes).
const maxDistance = 1500 * time.Millisecond

// slack is added to the distance of every answer: this box wakes up when it
// comes to it, so its own readings are late by a few ms.
const slack = 10 * time.Millisecond

// sample is what one server's answer says.
type sample struct {
	peer peer
	at   time.Time // when the answer was here; its monotonic reading counts
	// truth is the time by the server at that moment, right to within distance.
	truth    time.Time
	distance time.Duration
	stratum  int
}

// measure makes a sample of a reply that took from sent to at here (RFC 5905
// section 8; half of the way there and back is taken for the way back).
func measure(p peer, r reply, sent, at time.Time) (sample, error) {
	way := at.Sub(sent) - r.sent.Sub(r.received)
	if way < -slack {
		return sample{}, errNonsense // it held the question for longer than it was away
	}
	way = max(way, 0)
	s := sample{peer: p, at: at, truth: r.sent.Add(way / 2), distance: r.distance + way/2 + slack, stratum: r.stratum}
	if s.distance > maxDistance {
		return sample{}, errTooFar
	}
	return s, nil
}

// choose returns the best of those samples that a majority can agree with, and
// how many these are (the intersection of RFC 5905 section 11.2.1). ok is false
// when there is no majority: then none of them is believed. A single one is its
// own majority.
func choose(samples []sample) (best sample, agree int, ok bool) {
	if len(samples) == 0 {
		return sample{}, 0, false
	}
	// Truth lies within an interval of each honest server: the point that most
	// of them cover, on a scale that begins with the first sample.
	ref := samples[0]
	type edge struct {
		at   time.Duration
		open bool
	}
	low := func(s sample) time.Duration { return s.truth.Sub(ref.truth) - s.at.Sub(ref.at) - s.distance }
	high := func(s sample) time.Duration { return low(s) + 2*s.distance }
	var edges []edge
	for _, s := range samples {
		edges = append(edges, edge{low(s), true}, edge{high(s), false})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		switch {
		case a.at != b.at:
			if a.at < b.at {
				return -1
			}
			return 1
		case a.open == b.open:
			return 0
		case a.open: // intervals that touch do overlap
			return -1
		}
		return 1
	})
	covers := 0
	var point time.Duration
	for _, e := range edges {
		if !e.open {
			covers--
			continue
		}
		if covers++; covers > agree {
			agree, point = covers, e.at
		}
	}
	if 2*agree <= len(samples) {
		return sample{}, agree, false
	}
	for _, s := range samples {
		if low(s) <= point && point <= high(s) && (!ok || s.distance < best.distance) {
			best, ok = s, true
		}
	}
	return best, agree, ok
}
