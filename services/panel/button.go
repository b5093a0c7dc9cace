//go:build linux

package panel

import "time"

// What presses mean, by how long they last.
const (
	pressAtLeast = time.Second      // below: nothing, a sleeve or a wire
	pressAtMost  = 3 * time.Second  // up to here a press; three of them open SSH's enrolment
	radioAfter   = 5 * time.Second  // from here to resetAfter: the radio is reset
	resetAfter   = 20 * time.Second // from here: a factory reset is asked for
	stuckAfter   = 60 * time.Second // from here nobody holds it any more: nothing
	pressesApart = 10 * time.Second // at most, from one press to the next
	confirmAfter = 30 * time.Second // at most, from asking to the press that confirms

	// bootAtLeast is for how long from power-up on the button is held to start
	// the factory copy.
	bootAtLeast = 3 * time.Second

	// settle is for how long a level has to stay to be one.
	settle = 150 * time.Millisecond
	// sampleEvery is between samples while something goes on, and always where
	// the line has no interrupt.
	sampleEvery = 100 * time.Millisecond
	// maxGap between samples while it is held: after more nobody knows whether it
	// was held all the time, so that nothing is done.
	maxGap = time.Second
)

// kind is what a press came to.
type kind int

const (
	evShort kind = iota
	evHeldForRadio
	evHeldForReset
	evHeldForBoot
	evPress // Count of three
	evEnrol
	evNothing // held for a time that means nothing
	evRadio
	evAskReset
	evReset
	evNoReset // it was not confirmed
	evFactoryBoot
	evStuck
	evLost // too few samples
)

// event is one of them, with how long the button was held.
type event struct {
	kind  kind
	held  time.Duration
	count int // evPress
}

// button is the state machine. Times are since the start of the box, by a clock
// that nobody sets (INV 13).
type button struct {
	// powerUp is set for the first look of a boot: a button that is pressed then
	// has been so from power-up on.
	powerUp bool

	started bool
	raw     bool // the last sample
	rawAt   time.Duration
	lastAt  time.Duration // of the last sample
	known   bool          // level has been settled once
	pressed bool          // settled
	armed   bool          // seen released since the start, or since it was stuck
	booting bool          // held from power-up on
	downAt  time.Duration
	marked  kind // the last mark that was told

	presses   int
	lastUp    time.Duration
	confirmBy time.Duration // 0: no reset is asked for
}

// step takes a sample and returns what follows from it.
func (b *button) step(at time.Duration, pressed bool) (out []event) {
	gap := at - b.lastAt
	if !b.started {
		b.started, b.raw, b.rawAt, gap = true, pressed, at, 0
	}
	b.lastAt = at
	if b.held() && gap > maxGap {
		out = append(out, event{kind: evLost, held: at - b.downAt})
		b.disarm()
	}
	if pressed != b.raw {
		b.raw, b.rawAt = pressed, at
	}
	if (!b.known || b.raw != b.pressed) && at-b.rawAt >= settle {
		first := !b.known
		b.known, b.pressed = true, b.raw
		if b.pressed {
			b.down(first)
		} else {
			out = append(out, b.up()...)
		}
	}
	if b.held() && b.raw {
		return append(out, b.marks(at)...)
	}
	if b.confirmBy > 0 && at > b.confirmBy && !b.pressed {
		b.confirmBy = 0
		out = append(out, event{kind: evNoReset})
	}
	return out
}

// held tells whether the button is held in a way that can come to something.
func (b *button) held() bool { return b.pressed && (b.armed || b.booting) }

// disarm has the present press come to nothing.
func (b *button) disarm() { b.armed, b.booting, b.presses, b.confirmBy = false, false, 0, 0 }

func (b *button) down(first bool) {
	b.downAt, b.marked = b.rawAt, evShort
	if first && b.powerUp && b.rawAt < stuckAfter {
		b.booting, b.downAt = true, 0
	}
}

// marks tells once when the time of a meaning begins.
func (b *button) marks(at time.Duration) []event {
	held := at - b.downAt
	mark := evShort
	switch {
	case held >= stuckAfter:
		b.disarm()
		return []event{{kind: evStuck, held: held}}
	case b.booting && held >= bootAtLeast:
		mark = evHeldForBoot
	case b.booting:
	case held >= resetAfter:
		mark = evHeldForReset
	case held >= radioAfter:
		mark = evHeldForRadio
	}
	if mark == b.marked {
		return nil
	}
	b.marked = mark
	return []event{{kind: mark, held: held}}
}

// up decides what a press has come to.
func (b *button) up() []event {
	held := b.rawAt - b.downAt
	armed, booting := b.armed, b.booting
	b.armed, b.booting = true, false
	asked := b.confirmBy > 0 && b.downAt <= b.confirmBy
	press := held >= pressAtLeast && held < pressAtMost
	presses := b.presses
	if armed {
		b.presses, b.confirmBy = 0, 0
	}
	switch {
	case booting && held >= bootAtLeast && held < stuckAfter:
		return []event{{kind: evFactoryBoot, held: held}}
	case !armed:
		return nil
	case asked && press:
		return []event{{kind: evReset, held: held}}
	case asked:
		return []event{{kind: evNoReset, held: held}}
	case press:
		if presses > 0 && b.downAt-b.lastUp > pressesApart {
			presses = 0
		}
		if presses++; presses == 3 {
			return []event{{kind: evEnrol, held: held}}
		}
		b.presses, b.lastUp = presses, b.rawAt
		return []event{{kind: evPress, held: held, count: presses}}
	case held < pressAtLeast:
		return []event{{kind: evShort, held: held}}
	case held >= stuckAfter:
		return []event{{kind: evStuck, held: held}}
	case held >= resetAfter:
		b.confirmBy = b.rawAt + confirmAfter
		return []event{{kind: evAskReset, held: held}}
	case held >= radioAfter:
		return []event{{kind: evRadio, held: held}}
	}
	return []event{{kind: evNothing, held: held}}
}

// next is in how long the next sample has to be taken even if nothing is heard
// of the line; never is for ever.
func (b *button) next(at time.Duration) time.Duration {
	switch {
	case !b.known || b.raw != b.pressed || b.held():
		return sampleEvery
	case b.confirmBy > 0:
		return max(sampleEvery, b.confirmBy-at+1)
	}
	return never
}

const never = time.Duration(1<<63 - 1)

// light is what the LED shows of a press, and whether it shows any.
func (b *button) light() (light, bool) {
	switch {
	case b.held():
		switch b.marked {
		case evHeldForRadio:
			return light{name: "button", always: true}, true
		case evHeldForReset, evHeldForBoot:
			return blinkFast, true
		}
		return light{name: "button", on: steady, always: true}, true
	case b.confirmBy > 0:
		return blinkFast, true
	}
	return light{}, false
}
