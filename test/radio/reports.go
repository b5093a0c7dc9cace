package radio

import (
	"time"

	"gwinit/test/radio/ash"
	"gwinit/test/radio/zigbee"
)

// Session is what became of the reports while one link was up, by number.
// Numbers First..Last were passed to the NCP, one after the other; Acked of
// them were acknowledged by the host, and Unacked were in the NCP when the
// link ended: the host may have some of those, but only the oldest.
type Session struct {
	First   int `json:"first"`
	Last    int `json:"last"`
	Acked   int `json:"acked"`
	Unacked int `json:"unacked"`
}

// reports is the virtual device's counter. It keeps its place when the link
// ends, and goes on when it is told to: a client that has just connected is
// not listening yet.
type reports struct {
	next, last int // numbers; done when next > last
	interval   time.Duration
	at         time.Time // of the next one
	paused     bool
	sessions   []Session
	live       bool // the last of them is the present link's
}

// reportDeadline is when pumpReports has something to do that nothing but the
// clock brings about.
func (s *Sim) reportDeadline() (time.Time, bool) {
	r := &s.report
	if r.paused || r.next > r.last || r.interval == 0 || !s.stack.Up() || !s.link.Room() {
		return time.Time{}, false
	}
	return r.at, true
}

// pumpReports passes on what is due and fits.
func (s *Sim) pumpReports() {
	r := &s.report
	if s.link.State() != ash.Connected || !s.stack.Up() {
		if r.live {
			r.live = false
			r.paused = r.next <= r.last
		}
		return
	}
	now := time.Now()
	for !r.paused && r.next <= r.last && !now.Before(r.at) && s.link.Room() {
		if !r.live {
			r.live = true
			r.sessions = append(r.sessions, Session{First: r.next})
		}
		i := len(r.sessions) - 1
		m := s.device.Report(1, zigbee.Attr{Cluster: zigbee.ClusterAnalog, ID: zigbee.AttrPresent}, zigbee.Single(float32(r.next)))
		err := s.stack.Deliver(s.device, m, func(acked bool) {
			if acked {
				r.sessions[i].Acked++
			} else {
				r.sessions[i].Unacked++
			}
		})
		if err != nil {
			return // no room after all: tried again
		}
		r.sessions[i].Last = r.next
		r.next++
		r.at = now.Add(r.interval)
	}
}
