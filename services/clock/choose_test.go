package clock

import (
	"errors"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 4, 12, 0, 0, 0, time.UTC)

func TestMeasure(t *testing.T) {
	sent := time.Now()
	r := reply{received: noon, sent: noon.Add(10 * time.Millisecond), stratum: 1, distance: 5 * time.Millisecond}
	s, err := measure(peer{}, r, sent, sent.Add(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	// 40 ms on the way, so the server's last word is 20 ms old.
	if want := noon.Add(30 * time.Millisecond); !s.truth.Equal(want) || s.distance != 35*time.Millisecond {
		t.Errorf("%v within %v, want %v within 35ms", s.truth, s.distance, want)
	}
	if _, err := measure(peer{}, r, sent, sent.Add(3*time.Second)); !errors.Is(err, errTooFar) {
		t.Errorf("3 s on the way: %v", err)
	}
	r.sent = noon.Add(time.Second)
	if _, err := measure(peer{}, r, sent, sent.Add(50*time.Millisecond)); !errors.Is(err, errNonsense) {
		t.Errorf("held for longer than it was away: %v", err)
	}
}

func TestChoose(t *testing.T) {
	const ms = time.Millisecond
	type in struct{ offset, distance time.Duration }
	for _, tt := range []struct {
		name  string
		in    []in
		best  int
		agree int
		ok    bool
	}{
		{"none", nil, 0, 0, false},
		{"one", []in{{time.Hour, 20 * ms}}, 0, 1, true},
		{"two agree, the nearer one counts", []in{{5 * ms, 30 * ms}, {0, 12 * ms}}, 1, 2, true},
		{"two contradict", []in{{0, 20 * ms}, {time.Minute, 20 * ms}}, 0, 1, false},
		{"one of three is false", []in{{-time.Hour, 1 * ms}, {0, 30 * ms}, {5 * ms, 20 * ms}}, 2, 2, true},
		{"one of four is false", []in{{0, 30 * ms}, {2 * ms, 40 * ms}, {24 * time.Hour, 1 * ms}, {1 * ms, 20 * ms}}, 3, 3, true},
		{"two against two", []in{{0, 20 * ms}, {1 * ms, 20 * ms}, {time.Hour, 20 * ms}, {time.Hour, 20 * ms}}, 0, 2, false},
		{"intervals that touch", []in{{0, 20 * ms}, {40 * ms, 20 * ms}}, 0, 2, true},
		{"in different eras", []in{{0, 20 * ms}, {1 * ms, 20 * ms}, {-40 * 365 * 24 * time.Hour, 20 * ms}}, 0, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := time.Now()
			var samples []sample
			for i, s := range tt.in {
				// Answers that came one after the other.
				later := time.Duration(i) * 700 * ms
				samples = append(samples, sample{
					stratum: i, at: at.Add(later), truth: noon.Add(s.offset + later), distance: s.distance,
				})
			}
			best, agree, ok := choose(samples)
			if ok != tt.ok || agree != tt.agree || ok && best.stratum != tt.best {
				t.Errorf("number %d, %d agree, %v; want %d, %d, %v", best.stratum, agree, ok, tt.best, tt.agree, tt.ok)
			}
		})
	}
}
