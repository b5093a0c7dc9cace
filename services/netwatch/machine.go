package netwatch

import "time"

// step is a rung of the ladder, from mild to hard.
type step int

const (
	stepRenew step = iota
	stepLink
	stepDriver
	stepReboot
	steps

	nothing step = -1
)

// names are those of the steps in the budget's file and in the status.
var names = [steps]string{"renew", "link", "driver", "reboot"}

// hard steps cost what lasts, are off by default, and are written down before
// they are taken.
func (s step) hard() bool { return s >= stepDriver }

// secs is a time in seconds: since the start of the box, or a length. It takes
// half the code that a time.Duration takes on a CPU of 32 bits, and seconds are
// what the steps are about.
type secs int

func (s secs) duration() time.Duration { return time.Duration(s) * time.Second }

func (s secs) String() string { return s.duration().String() }

// fifths is when a step is due, in fifths of the time without an answer after
// which the box reboots.
var fifths = [steps]secs{1, 2, 3, 5}

// linkState is what there is of the interface.
type linkState int

const (
	absent linkState = iota
	unplugged
	plugged
)

// round is what one look has found.
type round struct {
	at       secs // since the start of the box
	link     linkState
	targets  bool // there was somebody to ask
	answered bool // one of them answers
	busy     bool // a radio client's bytes move
}

// verdict is what follows from a round.
type verdict struct {
	due step // nothing, or what is to be done now
	// over: an outage has ended, after so long.
	over   bool
	lasted secs
}

// machine decides. It has no clock: time is what rounds bring.
type machine struct {
	fail secs        // without an answer until the last step
	most secs        // that one round adds: what nobody looked at is no failure
	may  [steps]bool // the steps that there are

	looked bool
	last   secs // when
	had    bool // there was somebody to ask, once
	// owed: a step of ours took the carrier, and it has not been back since.
	// Its absence is our doing then, and not that of whoever pulled the cable.
	owed bool

	failing bool
	failed  secs // of this outage
	base    secs // of it, when the present ladder began
	next    step // of the ladder; steps: all are behind
}

// at is when a step is due, counted from the ladder's beginning.
func (m *machine) at(s step) secs { return m.fail * fifths[s] / 5 }

// look takes a round in and returns what follows.
func (m *machine) look(r round) verdict {
	gap := min(max(0, r.at-m.last), m.most)
	if !m.looked {
		gap = 0
	}
	m.looked, m.last = true, r.at
	if r.link == plugged {
		m.owed = false
		m.had = m.had || r.targets
	}
	if !m.fails(r) {
		v := verdict{due: nothing, over: m.failing, lasted: m.failed + gap}
		m.failing, m.failed, m.base, m.next = false, 0, 0, 0
		return v
	}
	if m.failing {
		m.failed += gap
	}
	m.failing = true
	pos := m.failed - m.base
	for m.next < steps && pos >= m.at(m.next) {
		s := m.next
		m.next++
		if m.may[s] {
			return verdict{due: s}
		}
	}
	if m.next == steps {
		m.base, m.next = m.failed, 0
	}
	return verdict{due: nothing}
}

// fails tells whether a round is a failure.
func (m *machine) fails(r round) bool {
	switch r.link {
	case plugged:
		// Somebody to ask who is gone, with the lease or with an IPv6
		// router's lifetime, is a failure; never to have had one is not.
		return !r.answered && !r.busy && (r.targets || m.had)
	case unplugged:
		return m.owed
	}
	return m.owed || m.had // nobody pulls the interface out
}

// did tells that a step was taken.
func (m *machine) did(s step) {
	if s == stepLink || s == stepDriver {
		m.owed = true
	}
}

// until is how long a step is away if nobody answers from now on, and false if
// it is not one of the present ladder.
func (m *machine) until(s step) (secs, bool) {
	if m.next == steps {
		return m.at(s), true
	}
	return max(0, m.at(s)-(m.failed-m.base)), s >= m.next
}
