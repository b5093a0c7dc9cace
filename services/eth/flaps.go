package eth

import (
	"fmt"
	"time"
)

// Changes of the link that follow each other within flapsCalm are said one by one
// flapsBurst times. After that they are counted, and said when the link has been
// calm for as long, and every flapsLong until then.
const (
	flapsBurst = 6
	flapsCalm  = 2 * time.Second
	flapsLong  = time.Minute
)

// flaps keeps the log readable while a link flaps, which some drivers do ten
// times a second.
type flaps struct {
	quick       int    // changes in a row
	text        string // the last one that was not said; empty: none
	count       uint64 // of those that were not said
	first, last time.Time
}

// say logs text, of so many changes of the link, or keeps it for settle.
func (f *flaps) say(log func(string), text string, changes uint64) {
	now := time.Now()
	if now.Sub(f.last) > flapsCalm {
		f.quick = 0
	}
	f.last = now
	if f.quick++; f.quick <= flapsBurst {
		log(text)
		return
	}
	if f.text == "" {
		f.first, f.count = now, 0
	}
	f.text = text
	f.count += changes
}

// settle logs what say kept, if it is time, and returns when that may be.
func (f *flaps) settle(log func(string)) time.Duration {
	if f.text == "" {
		return lookEvery
	}
	wait := min(flapsCalm-time.Since(f.last), flapsLong-time.Since(f.first))
	if wait > 0 {
		return wait
	}
	log(fmt.Sprintf("%s, after %d changes in %v", f.text, f.count, f.last.Sub(f.first).Round(time.Second)))
	f.text = ""
	return lookEvery
}
