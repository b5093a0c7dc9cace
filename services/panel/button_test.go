//go:build linux

package panel

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// span is the button being pressed or not for a time.
type span struct {
	pressed bool
	ms      int
}

// play samples the button through spans, from a time on, and returns what came
// of it without the times.
func play(b *button, from, every time.Duration, spans ...span) (kinds []kind, at time.Duration) {
	at = from
	for _, s := range spans {
		for end := at + time.Duration(s.ms)*time.Millisecond; at < end; at += every {
			for _, e := range b.step(at, s.pressed) {
				kinds = append(kinds, e.kind)
			}
		}
	}
	return kinds, at
}

func TestButton(t *testing.T) {
	const down, up = true, false
	idle := span{up, 1000}
	reset := []span{idle, {down, 21000}, idle}
	tests := []struct {
		name    string
		powerUp bool
		from    time.Duration
		every   time.Duration
		spans   []span
		want    []kind
	}{
		{name: "a bounce", spans: []span{idle, {down, 100}, idle}},
		{name: "too short", spans: []span{idle, {down, 700}, idle}, want: []kind{evShort}},
		{name: "one press", spans: []span{idle, {down, 1500}, idle}, want: []kind{evPress}},
		{name: "three presses", spans: []span{idle, {down, 1500}, idle, {down, 1100}, {up, 9000}, {down, 2800}, idle}, want: []kind{evPress, evPress, evEnrol}},
		{name: "six presses", spans: []span{idle, {down, 1500}, idle, {down, 1500}, idle, {down, 1500}, idle, {down, 1500}, idle, {down, 1500}, idle, {down, 1500}, idle}, want: []kind{evPress, evPress, evEnrol, evPress, evPress, evEnrol}},
		{name: "three presses, too far apart", spans: []span{idle, {down, 1500}, {up, 11000}, {down, 1500}, {up, 11000}, {down, 1500}, idle}, want: []kind{evPress, evPress, evPress}},
		{name: "a short one between", spans: []span{idle, {down, 1500}, idle, {down, 1500}, idle, {down, 500}, idle, {down, 1500}, idle}, want: []kind{evPress, evPress, evShort, evPress}},
		{name: "four seconds", spans: []span{idle, {down, 4000}, idle}, want: []kind{evNothing}},
		{name: "just below five", spans: []span{idle, {down, 4900}, idle}, want: []kind{evNothing}},
		{name: "five seconds", spans: []span{idle, {down, 5200}, idle}, want: []kind{evHeldForRadio, evRadio}},
		{name: "nineteen seconds", spans: []span{idle, {down, 19000}, idle}, want: []kind{evHeldForRadio, evRadio}},
		{name: "a bounce while held", spans: []span{idle, {down, 3000}, {up, 100}, {down, 3000}, idle}, want: []kind{evHeldForRadio, evRadio}},
		{name: "reset, confirmed", spans: append(reset, span{down, 1500}, idle), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evReset}},
		{name: "reset, confirmed at the last moment", spans: append(reset, span{up, 28500}, span{down, 1500}, idle), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evReset}},
		{name: "reset, not confirmed", spans: append(reset, span{up, 60000}), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evNoReset}},
		{name: "reset, a press too late", spans: append(reset, span{up, 31000}, span{down, 1500}, idle), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evNoReset, evPress}},
		{name: "reset, another press", spans: append(reset, span{down, 500}, idle, span{down, 1500}, idle), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evNoReset, evPress}},
		{name: "reset, held long again", spans: append(reset, span{down, 6000}, idle), want: []kind{evHeldForRadio, evHeldForReset, evAskReset, evHeldForRadio, evNoReset}},
		{name: "stuck", spans: []span{idle, {down, 200000}, idle}, want: []kind{evHeldForRadio, evHeldForReset, evStuck}},
		{name: "after it was stuck", spans: []span{idle, {down, 70000}, idle, {down, 1500}, idle}, want: []kind{evHeldForRadio, evHeldForReset, evStuck, evPress}},
		{name: "stuck from the start", spans: []span{{down, 200000}, idle, {down, 1500}, idle}, want: []kind{evPress}},
		{name: "pressed when a service restarts", from: time.Hour, spans: []span{{down, 8000}, idle}},
		{name: "held from power-up", powerUp: true, from: 4 * time.Second, spans: []span{{down, 3000}, idle}, want: []kind{evHeldForBoot, evFactoryBoot}},
		{name: "held from power-up, let go early", powerUp: true, from: time.Second, spans: []span{{down, 1000}, idle}},
		{name: "held from power-up, to the end", powerUp: true, from: 4 * time.Second, spans: []span{{down, 100000}, idle}, want: []kind{evHeldForBoot, evStuck}},
		{name: "a first look an hour later", powerUp: true, from: time.Hour, spans: []span{{down, 5000}, idle}},
		{name: "not pressed at power-up", powerUp: true, spans: []span{idle, {down, 4000}, idle}, want: []kind{evNothing}},
		{name: "starved", every: 3 * time.Second, spans: []span{{up, 9000}, {down, 12000}, {up, 9000}}, want: []kind{evLost}},
		{name: "never released", powerUp: true, from: 59900 * time.Millisecond, spans: []span{{down, 100000}}, want: []kind{evStuck}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			every := tt.every
			if every == 0 {
				every = sampleEvery
			}
			b := &button{powerUp: tt.powerUp}
			got, _ := play(b, tt.from, every, tt.spans...)
			if len(got)+len(tt.want) > 0 && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestButtonLight(t *testing.T) {
	b := &button{}
	for _, tt := range []struct {
		s    span
		name string
		on   time.Duration
		show bool
	}{
		{span{false, 1000}, "", 0, false},
		{span{true, 2000}, "button", steady, true},
		{span{true, 4000}, "button", 0, true},
		{span{true, 15000}, "button", 500 * time.Millisecond, true},
		{span{false, 20000}, "button", 500 * time.Millisecond, true}, // waits for the press that confirms
		{span{false, 20000}, "", 0, false},
	} {
		_, _ = play(b, b.lastAt+sampleEvery, sampleEvery, tt.s)
		l, show := b.light()
		if show != tt.show || l.on != tt.on || l.name != tt.name {
			t.Errorf("after %+v: %+v, %v", tt.s, l, show)
		}
	}
}

// Where the line has an interrupt, nobody looks while nothing goes on; what is
// asked for in between is enough to notice everything.
func TestButtonNext(t *testing.T) {
	b := &button{}
	at := time.Duration(0)
	var got []kind
	press := func(pressed bool, until time.Duration) {
		for {
			for _, e := range b.step(at, pressed) {
				got = append(got, e.kind)
			}
			next := b.next(at)
			if next <= 0 {
				t.Fatalf("asks for a sample in %v", next)
			}
			if next == never || at+next > until {
				break
			}
			at += next
		}
		at = until
	}
	press(false, time.Second)
	if n := b.next(at); n != never {
		t.Errorf("idle: looks again in %v", n)
	}
	press(false, 100*time.Second)
	press(true, 125*time.Second)
	press(false, 200*time.Second)
	if want := []kind{evHeldForRadio, evHeldForReset, evAskReset, evNoReset}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Whatever comes, nothing that lasts is done without a whole press that was
// seen from its begin to its end.
func FuzzButton(f *testing.F) {
	f.Add(uint64(1), true)
	f.Fuzz(func(t *testing.T, seed uint64, powerUp bool) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := &button{powerUp: powerUp}
		at, asked, released := time.Duration(0), time.Duration(0), false
		var longest time.Duration // held, but for what is too short to be a release
		var since, upAt time.Duration
		was, up := false, true
		for range 400 {
			pressed := r.IntN(8) > 2
			for range r.IntN(120) + 1 {
				at += time.Duration(r.IntN(140)) * time.Millisecond
				switch {
				case pressed:
					if up {
						up, since = false, at
					}
					longest = at - since
				case was:
					upAt = at
				case at-upAt >= settle:
					up = true
				}
				was = pressed
				released = released || !pressed
				for _, e := range b.step(at, pressed) {
					switch e.kind {
					case evAskReset:
						asked = at
						if longest < resetAfter-time.Second {
							t.Fatalf("a reset after %v", longest)
						}
					case evReset:
						if asked == 0 || at-asked > confirmAfter+pressAtMost+time.Second {
							t.Fatalf("reset at %v, asked for at %v", at, asked)
						}
					case evFactoryBoot:
						if !powerUp || at > stuckAfter+time.Second {
							t.Fatalf("factory copy at %v", at)
						}
					case evRadio, evEnrol:
						if !released {
							t.Fatal("armed without having been seen released")
						}
					}
				}
				if n := b.next(at); n <= 0 {
					t.Fatalf("asks for a sample in %v", n)
				}
			}
		}
	})
}
