package otbr

import "time"

// The tuned numbers of restarts. The delays are those of PID 1 for services.
const (
	firstDelay = time.Second
	maxDelay   = time.Minute
	// budget is how many ends in a row there may be before the next step: with
	// the delays some two minutes when it ends at once.
	budget = 5
	// healthyAfter of being ready the count starts over. It is longer than the
	// time after which a silent agent is given up.
	healthyAfter = 10 * time.Minute
)

// reset is how the radio is reset before the next start.
type reset int

const (
	resetPulse reset = iota // as by the button
	resetCold               // held for long
)

// verdict is what follows from an end of the agent.
type verdict struct {
	reset  reset
	delay  time.Duration // from then to the next start
	failed bool          // there is no next start
}

// machine decides what follows. It knows no clock.
type machine struct {
	ends  int // in a row
	cold  bool
	delay time.Duration
}

// ended is told of an end of an agent that had been ready for that long, 0 if it
// never was.
func (m *machine) ended(ready time.Duration) verdict {
	if ready >= healthyAfter {
		*m = machine{}
	}
	m.ends++
	m.delay = min(max(2*m.delay, firstDelay), maxDelay)
	switch {
	case m.ends < budget:
		return verdict{delay: m.delay}
	case !m.cold:
		// The radio has had a reset before each start: it gets one that any
		// chip comes out of, and then the budget once more.
		*m = machine{cold: true}
		return verdict{reset: resetCold, delay: firstDelay}
	}
	return verdict{failed: true}
}
