package clock

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/savedtime"
	"gwinit/internal/seed"
	"gwinit/internal/seed/seedtest"
	"gwinit/services/clock/clocktest"
)

// lab is a Service on fakes, in a synctest bubble: time there begins at
// 2000-01-01, which no packet could bring.
type lab struct {
	*Service
	t     *testing.T
	root  string
	clock *clocktest.Clock
	pool  *seedtest.Kernel
	stop  func()

	mu     sync.Mutex
	log    []string
	asked  []string       // "address at since the start"
	times  map[string]any // what a server says: a time.Duration ahead of true time, or an error
	names  map[string]any // addresses, or an error
	leased []netip.Addr
	down   bool // no network
	began  time.Time
}

// truth is the time in the lab's world.
func (l *lab) truth() time.Time { return noon.Add(time.Since(l.began)) }

func newLab(t *testing.T, shows time.Time, conf string) *lab {
	t.Helper()
	l := &lab{
		t: t, root: t.TempDir(), clock: clocktest.New(shows), pool: &seedtest.Kernel{},
		times: map[string]any{}, names: map[string]any{}, began: time.Now(),
	}
	if err := os.MkdirAll(filepath.Join(l.root, "userdata/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if conf != "" {
		if err := os.WriteFile(filepath.Join(l.root, "userdata/etc/ntp.conf"), []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l.Service = New(Options{
		Root: l.root, Clock: l.clock, Seed: l.pool,
		Network: func() (bool, []netip.Addr) {
			l.mu.Lock()
			defer l.mu.Unlock()
			return !l.down, l.leased
		},
		Log: func(line string) { l.mu.Lock(); defer l.mu.Unlock(); l.log = append(l.log, line) },
	})
	l.Service.ask = func(_ context.Context, p peer) (sample, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked = append(l.asked, fmt.Sprintf("%v %v", p.addr, time.Since(l.began).Round(time.Second)))
		switch v := l.times[p.addr.Addr().String()].(type) {
		case time.Duration:
			return sample{peer: p, at: time.Now(), truth: l.truth().Add(v), distance: 20 * time.Millisecond, stratum: 2}, nil
		case error:
			return sample{}, v
		}
		return sample{}, errNoAnswer
	}
	l.Service.resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch v := l.names[host].(type) {
		case []netip.Addr:
			return v, nil
		case error:
			return nil, v
		}
		return nil, errors.New("no such host")
	}
	return l
}

func (l *lab) start() {
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	l.stop = func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("Run: %v", err)
		}
	}
	synctest.Wait()
}

func (l *lab) set(what map[string]any, key string, v any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what[key] = v
}

// questions returns what was asked, and forgets it.
func (l *lab) questions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.asked
	l.asked = nil
	return q
}

func (l *lab) logged(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// off is how far the clock is from true time.
func (l *lab) off() time.Duration { return l.clock.Now().Sub(l.truth()) }

func addrs(all ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func TestFirstAnswerStepsLaterOnesSlew(t *testing.T) {
	for _, years := range []int{-56, -1, 0, 1, 20} {
		t.Run(fmt.Sprint(years), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, noon.AddDate(years, 0, 0).Add(time.Millisecond), "server 10.0.0.1\n")
				l.times["10.0.0.1"] = time.Duration(0)
				want := "near"
				if years == -56 {
					want = "unknown"
				}
				if got := l.Status().State; got != want {
					t.Errorf("state %s at first, want %s", got, want)
				}
				l.start()
				if steps, slews := l.clock.Changes(); len(steps) != 1 || len(slews) != 1 || slews[0] != 0 || l.off().Abs() > time.Millisecond {
					t.Fatalf("%v, %v, %v off; want one step to true time", steps, slews, l.off())
				}
				if st := l.Status(); st.State != "synced" || st.Source != "10.0.0.1" || st.Stratum != 2 || st.Asked != 1 || st.Agree != 1 {
					t.Errorf("%+v", st)
				}
				l.clock.Drift(-40 * time.Millisecond)
				time.Sleep(80 * time.Second)
				steps, slews := l.clock.Changes()
				if len(steps) != 1 || len(slews) != 2 || slews[1] != 40*time.Millisecond {
					t.Errorf("%v, %v; want no more steps and a slew of 40 ms", steps, slews)
				}
				if st := l.Status(); st.Offset != 0.04 || st.Since > 30 {
					t.Errorf("%+v, want an offset of 0.04 s, not long ago", st)
				}
				// By hand, or a leap second.
				l.clock.Drift(time.Second)
				time.Sleep(80 * time.Second)
				if steps, _ := l.clock.Changes(); len(steps) != 2 || l.off() != 0 || l.logged("it was off by -1s") != 1 {
					t.Errorf("%v, %v off, log %q; want a step that is told of", steps, l.off(), l.log)
				}
				l.stop()
			})
		})
	}
}

// A process that comes after another goes on with its clock.
func TestRestartDoesNotStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, noon.Add(100*time.Millisecond), "server 10.0.0.1\n")
		l.times["10.0.0.1"] = time.Duration(0)
		_ = l.clock.Slew(0, 0, 0) // the process before
		if got := l.Status().State; got != "synced" {
			t.Errorf("state %s, want synced", got)
		}
		l.start()
		if steps, slews := l.clock.Changes(); len(steps) != 0 || len(slews) != 2 || slews[1] != -100*time.Millisecond {
			t.Errorf("%v, %v", steps, slews)
		}
		l.stop()
	})
}

// A server that comes between two rounds is asked at once when the network changes,
// and not when the next round would have been.
func TestNetworkComesBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server 10.0.0.1\n")
		l.start()
		time.Sleep(40 * time.Second)
		l.set(l.times, "10.0.0.1", time.Duration(0))
		if st := l.Status(); st.State == "synced" {
			t.Fatalf("%+v", st)
		}
		l.NetworkChanged()
		time.Sleep(2 * time.Second)
		if st := l.Status(); st.State != "synced" {
			t.Errorf("%+v 2 s after the network came", st)
		}
		l.stop()
	})
}

// Intervals go up to 17 minutes whatever happens, and the network's return
// ends them.
func TestNeverGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server 10.0.0.1\n")
		l.start()
		time.Sleep(24 * time.Hour)
		q := l.questions()
		// 8 s doubling to 1024 s, an eighth more or less.
		if len(q) < 75 || len(q) > 105 {
			t.Errorf("asked %d times in a day, want some 90", len(q))
		}
		if n := l.logged("no answer"); n != 1 {
			t.Errorf("said %d times in a day, want once", n)
		}
		if p := l.Status().Problem; !strings.Contains(p, "10.0.0.1: no answer") {
			t.Errorf("problem %q", p)
		}
		l.set(l.times, "10.0.0.1", time.Duration(0))
		l.NetworkChanged()
		time.Sleep(2 * time.Second)
		if st := l.Status(); st.State != "synced" || st.Problem != "" {
			t.Errorf("%+v 2 s after the network came back", st)
		}
		l.questions()
		// It flaps: nobody is asked more for it.
		for range 50 {
			l.NetworkChanged()
			time.Sleep(time.Second)
		}
		if q := l.questions(); len(q) != 0 {
			t.Errorf("asked %v for a flapping link", q)
		}
		time.Sleep(24 * time.Hour)
		if q := l.questions(); len(q) < 75 || len(q) > 105 {
			t.Errorf("asked %d times in a good day, want some 90", len(q))
		}
		l.stop()
	})
}

// Without an address nothing is asked, and nothing looked up.
func TestNoNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server time.example\n")
		l.names["time.example"] = addrs("10.0.0.1")
		l.times["10.0.0.1"] = time.Duration(0)
		l.down = true
		l.start()
		time.Sleep(time.Hour)
		if q, st := l.questions(), l.Status(); len(q) != 0 || st.Problem != "no network" || len(l.log) != 0 {
			t.Errorf("asked %v, %+v, log %q", q, st, l.log)
		}
		l.mu.Lock()
		l.down = false
		l.mu.Unlock()
		l.NetworkChanged()
		time.Sleep(2 * time.Second)
		if st := l.Status(); st.State != "synced" {
			t.Errorf("%+v", st)
		}
		l.stop()
	})
}

// A round that waits for a dead resolver does not keep the network waiting.
func TestNetworkComesDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server time.example\n")
		l.times["10.0.0.1"] = time.Duration(0)
		up := false
		l.Service.resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			l.mu.Lock()
			ok := up
			l.mu.Unlock()
			if ok {
				return addrs("10.0.0.1"), nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		l.start()
		time.Sleep(5 * time.Second)
		l.mu.Lock()
		up = true
		l.mu.Unlock()
		l.NetworkChanged()
		time.Sleep(2 * time.Second)
		if st := l.Status(); st.State != "synced" || l.logged("cancel") != 0 {
			t.Errorf("%+v; log %q", st, l.log)
		}
		l.stop()
	})
}

func TestWhomToAsk(t *testing.T) {
	pool := map[string]any{
		"0.pool.ntp.org": addrs("10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"),
		"1.pool.ntp.org": addrs("10.1.0.1", "fd00::2", "10.2.0.3"),
	}
	for _, tt := range []struct {
		name   string
		conf   string
		leased []netip.Addr
		want   []string
	}{
		{"pool", "", nil, []string{"10.1.0.1:123", "10.1.0.2:123", "10.1.0.3:123", "[fd00::2]:123"}},
		{"DHCP before pool", "", addrs("192.168.1.1"), []string{"192.168.1.1:123"}},
		{"settings before DHCP", "server 10.9.0.1:1123\nserver 10.9.0.2\n", addrs("192.168.1.1"), []string{"10.9.0.1:1123", "10.9.0.2:123"}},
		{"at most four", "server 10.0.0.1\nserver 10.0.0.2\nserver 10.0.0.3\nserver 10.0.0.4\nserver 10.0.0.5\n", nil, []string{"10.0.0.1:123", "10.0.0.2:123", "10.0.0.3:123", "10.0.0.4:123"}},
		{"one that is not found", "server none.example\nserver 10.0.0.2\n", nil, []string{"10.0.0.2:123"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, time.Unix(0, 0), tt.conf)
				l.names, l.leased = pool, tt.leased
				l.start()
				l.stop()
				var got []string
				for _, q := range l.questions() {
					got = append(got, strings.Fields(q)[0])
				}
				slices.Sort(got)
				if !slices.Equal(got, tt.want) {
					t.Errorf("asked %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// A router that names itself as a time server and is none.
func TestLeasedServerThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "")
		l.leased = addrs("192.168.1.1")
		l.names["0.pool.ntp.org"] = addrs("10.1.0.1")
		l.times["10.1.0.1"] = time.Duration(0)
		l.start()
		time.Sleep(2 * time.Minute)
		if st := l.Status(); st.State != "synced" || st.Source != "0.pool.ntp.org (10.1.0.1)" {
			t.Errorf("%+v; asked %v", st, l.questions())
		}
		l.stop()
	})
}

func TestFalseticker(t *testing.T) {
	const conf = "server 10.0.0.1\nserver 10.0.0.2\nserver 10.0.0.3\n"
	t.Run("outvoted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, time.Unix(0, 0), conf)
			l.times = map[string]any{"10.0.0.1": 3 * time.Hour, "10.0.0.2": time.Duration(0), "10.0.0.3": time.Duration(0)}
			l.start()
			if st := l.Status(); st.Agree != 2 || st.Asked != 3 || l.off() != 0 {
				t.Errorf("%+v, %v off", st, l.off())
			}
			l.stop()
		})
	})
	t.Run("no majority", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, time.Unix(0, 0), conf)
			l.times = map[string]any{"10.0.0.1": 3 * time.Hour, "10.0.0.2": time.Duration(0)}
			l.start()
			if steps, _ := l.clock.Changes(); len(steps) != 0 || !strings.Contains(l.Status().Problem, "contradict each other") {
				t.Errorf("steps %v, status %+v", steps, l.Status())
			}
			l.stop()
		})
	})
}

// Kisses of death are obeyed.
func TestServerThatRefuses(t *testing.T) {
	for _, tt := range []struct {
		kiss error
		rest time.Duration
	}{{errTooOften, rateRest}, {fmt.Errorf("%w: DENY", errDenied), denyRest}} {
		t.Run(tt.kiss.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, time.Unix(0, 0), "server 10.0.0.1\n")
				l.times["10.0.0.1"] = tt.kiss
				l.start()
				l.set(l.times, "10.0.0.1", time.Duration(0))
				l.NetworkChanged()
				time.Sleep(tt.rest - time.Second)
				if q := l.questions(); len(q) != 1 {
					t.Errorf("asked %v, want once", q)
				}
				if p := l.Status().Problem; !strings.Contains(p, "has refused") {
					t.Errorf("problem %q", p)
				}
				time.Sleep(1200 * time.Second)
				if l.Status().State != "synced" {
					t.Errorf("%+v; asked %v", l.Status(), l.questions())
				}
				l.stop()
			})
		})
	}
}

// A clock that cannot be set is said and tried again (INV 11).
func TestClockThatCannotBeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server 10.0.0.1\n")
		l.times["10.0.0.1"] = time.Duration(0)
		l.clock.Fail(errors.New("operation not permitted"))
		l.start()
		if p := l.Status().Problem; p != "set the clock: operation not permitted" {
			t.Errorf("problem %q", p)
		}
		l.clock.Fail(nil)
		time.Sleep(10 * time.Second)
		if l.Status().State != "synced" {
			t.Errorf("%+v", l.Status())
		}
		l.stop()
	})
}

// The saved time is written once a day, and at the end (INV 6).
func TestSavedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, time.Unix(0, 0), "server 10.0.0.1\n")
		l.times["10.0.0.1"] = time.Duration(0)
		saved := func() time.Duration {
			at, err := savedtime.Load(l.root)
			if err != nil {
				t.Fatal(err)
			}
			return at.Sub(noon)
		}
		l.start()
		if got := saved(); got != 0 {
			t.Errorf("saved %v after noon, want noon", got)
		}
		time.Sleep(23*time.Hour + 40*time.Minute)
		if got := saved(); got != 0 {
			t.Errorf("saved %v after noon within the day", got)
		}
		time.Sleep(time.Hour)
		next := saved()
		if next < 24*time.Hour || next > 24*time.Hour+20*time.Minute {
			t.Errorf("saved %v after noon, want a day", next)
		}
		l.stop()
		if got, want := saved(), l.truth().Sub(noon).Truncate(time.Second); got != want {
			t.Errorf("saved %v after noon at the end, want %v", got, want)
		}
	})
}

// What was saved by a clock that was wrong is put right at once.
func TestSavedTimeAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, noon.AddDate(5, 0, 0), "server 10.0.0.1\n")
		l.times["10.0.0.1"] = time.Duration(0)
		if err := savedtime.Save(l.root, noon.AddDate(5, 0, 0)); err != nil {
			t.Fatal(err)
		}
		l.start()
		if at, err := savedtime.Load(l.root); err != nil || !at.Equal(noon) {
			t.Errorf("saved %v, %v; want noon", at, err)
		}
		l.stop()
	})
}

// Without a server, the end moves the saved time on, and only on.
func TestEndWithoutServer(t *testing.T) {
	for _, tt := range []struct {
		name         string
		shows, saved time.Time
		want         time.Time
	}{
		{"went on", noon.Add(time.Hour), noon, noon.Add(time.Hour)},
		{"behind", noon, noon.Add(time.Hour), noon.Add(time.Hour)},
		{"unknown", time.Unix(77, 0), noon, noon},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, tt.shows, "server 10.0.0.1\n")
				if err := savedtime.Save(l.root, tt.saved); err != nil {
					t.Fatal(err)
				}
				l.start()
				l.stop()
				if at, err := savedtime.Load(l.root); err != nil || !at.Equal(tt.want) {
					t.Errorf("saved %v, %v; want %v", at, err, tt.want)
				}
			})
		})
	}
}

func TestSeeds(t *testing.T) {
	read := func(l *lab) string {
		b, _ := os.ReadFile(filepath.Join(l.root, seed.Path))
		return string(b)
	}
	of := func(n byte) string { return strings.Repeat(string([]byte{n}), seed.Bytes) }
	t.Run("first boot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, time.Unix(0, 0), "")
			l.start()
			if got := read(l); got != "" {
				t.Errorf("seed %x without entropy", got)
			}
			l.pool.Count(256)
			time.Sleep(seedPoll)
			synctest.Wait()
			if got := read(l); got != of(1) {
				t.Errorf("seed %x, want the first one drawn", got)
			}
			time.Sleep(48 * time.Hour)
			if got := read(l); got != of(1) {
				t.Errorf("seed %x, want it left alone", got)
			}
			l.stop()
			if got := read(l); got != of(2) {
				t.Errorf("seed %x at the end, want a new one", got)
			}
		})
	})
	t.Run("end without entropy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, time.Unix(0, 0), "")
			if err := os.WriteFile(filepath.Join(l.root, seed.Path), []byte(of(9)), 0o600); err != nil {
				t.Fatal(err)
			}
			l.start()
			l.stop()
			if got := read(l); got != of(9) || len(l.log) > 1 {
				t.Errorf("seed %x, log %q; want the old one and no word of it", got, l.log)
			}
		})
	})
	t.Run("no userdata", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, noon, "")
			l.pool.Bits = 256
			if err := os.RemoveAll(filepath.Join(l.root, "userdata")); err != nil {
				t.Fatal(err)
			}
			l.start()
			l.stop()
			if l.logged("seed") != 0 || l.logged("userdata") != 0 {
				t.Errorf("log %q, want nothing of it: others tell of the partition", l.log)
			}
		})
	})
}
