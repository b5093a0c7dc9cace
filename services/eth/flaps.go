package eth

import (
	"fmt"
	"time"
)

// A link that goes up and down says so by itself a few times; what comes quicker
// than one line in flapsEvery is counted, and said when the link has been calm for
// flapsCalm, or in any case every minute.
const (
	flapsBurst = 6
	flapsEvery = 5 * time.Second
	flapsCalm  = 2 * time.Second
	flapsLong  = time.Minute
)

// flaps keeps the log readable while a link flaps, which some drivers do ten
// times a second.
type flaps struct {
	spent  int       // lines of the burst
	regain time.Time // when there is one more
	text   string    // what would be said; empty: nothing
	count  uint64
	first  time.Time // what count counts from
	last   time.Time
}

// say logs text, of so many changes of the link, or keeps it for settle.
func (f *flaps) say(log func(string), text string, changes uint64) {
	now := time.Now()
	if f.regain.IsZero() {
		f.regain = now.Add(flapsEvery)
	}
	for ; f.spent > 0 && !now.Before(f.regain); f.spent-- {
		f.regain = f.regain.Add(flapsEvery)
	}
	if f.spent == 0 {
		f.regain = now.Add(flapsEvery)
	}
	if f.text == "" && f.spent < flapsBurst {
		f.spent++
		log(text)
		return
	}
	if f.text == "" {
		f.first, f.count = now, 0
	}
	f.text, f.last = text, now
	f.count += changes
}

// settle logs what say kept, if it is time, and returns when that may be.
func (f *flaps) settle(log func(string)) time.Duration {
	if f.text == "" {
		return lookEvery
	}
	now := time.Now()
	due := f.last.Add(flapsCalm)
	if long := f.first.Add(flapsLong); long.Before(due) {
		due = long
	}
	if now.Before(due) {
		return due.Sub(now)
	}
	log(fmt.Sprintf("%s, after %d changes in %v", f.text, f.count, f.last.Sub(f.first).Round(time.Second)))
	f.text = ""
	if now.Before(f.last.Add(flapsCalm)) { // it goes on: no more single lines
		f.spent, f.regain = flapsBurst, now.Add(flapsEvery)
	}
	return lookEvery
}
