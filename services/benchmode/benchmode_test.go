//go:build linux

package benchmode

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
)

// box is a gateway that is none.
type box struct {
	left    []string
	leftFor time.Duration // it is gone after that
	busy    uint64        // ns of CPU that each look at the usage adds
	failed  error         // of Forget
	crash   error         // of Serve, once

	mu    sync.Mutex // guards the following
	did   []string
	tell  func(Event)
	looks uint64
	born  time.Time
}

func (b *box) note(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.did = append(b.did, what)
}

// done is what was done so far.
func (b *box) done() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.did)
}

func (b *box) Left() ([]string, error) {
	if time.Since(b.born) >= b.leftFor {
		return nil, nil
	}
	return b.left, nil
}

func (b *box) Tune(profile string) error { b.note("tune " + profile); return nil }

func (b *box) Forget(neighbours bool) error {
	if neighbours {
		b.note("forget all")
	} else {
		b.note("forget TCP")
	}
	return b.failed
}

func (b *box) Close(peer string, _ int) (string, error) {
	b.note("close for " + peer)
	return "closed", nil
}

func (b *box) Serve(ctx context.Context, _ string, _ int, tell func(Event)) error {
	b.note("serve")
	b.mu.Lock()
	b.tell = tell
	crash := b.crash
	b.crash = nil
	b.mu.Unlock()
	if crash != nil {
		return crash
	}
	<-ctx.Done()
	return ctx.Err()
}

func (b *box) Usage() (*Usage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	p := map[int]Process{1: {Name: "init", CPU: b.looks * b.busy, Wakeups: 1}}
	return &Usage{Processes: p, Total: 100 * b.looks}, nil
}

func (b *box) Count() (*api.BenchCount, error) { return &api.BenchCount{At: 7}, nil }

func (b *box) event(k EventKind, peer string) {
	b.mu.Lock()
	tell := b.tell
	b.mu.Unlock()
	tell(Event{k, peer})
	synctest.Wait()
}

// running is bench mode in a bubble.
type running struct {
	*Service
	t      *testing.T
	box    *box
	began  time.Time
	ended  chan string
	log    *[]string
	cancel context.CancelFunc
}

func inBubble(t *testing.T, b *box, a api.BenchArgs, f func(*running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.born = time.Now()
		if a.Seconds == 0 {
			a.Seconds = 1800
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var log []string
		var mu sync.Mutex
		r := &running{t: t, box: b, began: time.Now(), ended: make(chan string, 1), log: &log, cancel: cancel}
		r.Service = New(Options{
			File: api.BenchFile{Args: a, Stopped: []string{"bridge"}}, Box: b,
			Ready: func() error { b.note("ready"); return nil },
			Log: func(s string) {
				mu.Lock()
				defer mu.Unlock()
				log = append(log, s)
			},
		})
		go func() {
			why, err := r.Run(ctx)
			if err != nil {
				why = "error: " + err.Error()
			}
			r.ended <- why
		}()
		synctest.Wait()
		f(r)
		cancel()
		synctest.Wait()
	})
}

func (r *running) call(method, params string) (b api.Bench, err error) {
	r.t.Helper()
	answer, err := r.Call(method, []byte(params))
	if err == nil {
		err = json.Unmarshal(answer, &b)
	}
	synctest.Wait()
	return b, err
}

func (r *running) status() api.Bench {
	r.t.Helper()
	b, err := r.call(api.BenchStatus, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// end wants the reason after that time since the start.
func (r *running) end(after time.Duration, why string) {
	r.t.Helper()
	got := <-r.ended
	if !strings.Contains(got, why) {
		r.t.Errorf("it ended: %s; want %s", got, why)
	}
	if took := time.Since(r.began); took < after || took > after+time.Second {
		r.t.Errorf("it ended after %v, want %v", took, after)
	}
}

func TestOrderAndDeadline(t *testing.T) {
	b := &box{left: []string{"nc (process 7)"}, leftFor: time.Second}
	inBubble(t, b, api.BenchArgs{Seconds: 60, Peer: "192.0.2.9", Profile: "bench"}, func(r *running) {
		time.Sleep(3 * time.Second)
		if want := []string{"tune bench", "forget all", "close for 192.0.2.9", "ready", "serve"}; !slices.Equal(b.done(), want) {
			t.Errorf("did %q, want %q", b.done(), want)
		}
		if st := r.status(); st.State != api.BenchSettling || st.Door != "closed" || st.Measuring < 12 || st.Measuring > 14 {
			t.Errorf("while it settles: %+v", st)
		}
		time.Sleep(14 * time.Second)
		st := r.status()
		if st.State != api.BenchIsOn || st.Left < 42 || st.Left > 45 || st.Stopped[0] != "bridge" || st.Peer != "192.0.2.9" || st.Profile != "bench" {
			t.Errorf("on: %+v", st)
		}
		if st.Load == nil || !st.Load.Quiet || st.Load.Seconds != 10 || st.Load.CPU != 0 {
			t.Errorf("at rest: %+v", st.Load)
		}
		r.end(61*time.Second, "its time was over")
	})
}

func TestLeaveTheDriver(t *testing.T) {
	b := &box{}
	inBubble(t, b, api.BenchArgs{Profile: api.BenchLeave}, func(*running) {
		if strings.Contains(strings.Join(b.done(), " "), "tune") {
			t.Errorf("did %q", b.done())
		}
	})
}

func TestNamesWhatIsLeft(t *testing.T) {
	b := &box{left: []string{"nc (process 7)", "a listener on tcp/23"}, leftFor: time.Hour}
	inBubble(t, b, api.BenchArgs{}, func(r *running) {
		r.end(leftFor, "error: still there: nc (process 7), a listener on tcp/23")
		if b.done() != nil {
			t.Errorf("did %q all the same", b.done())
		}
	})
}

func TestButton(t *testing.T) {
	inBubble(t, &box{}, api.BenchArgs{}, func(r *running) {
		time.Sleep(20 * time.Second)
		r.Button()
		r.Button() // and does not block
		r.end(20*time.Second, "button")
	})
}

// Without its control connection it lasts for five minutes beyond the last run.
func TestLost(t *testing.T) {
	b := &box{}
	inBubble(t, b, api.BenchArgs{Seconds: 3600}, func(r *running) {
		_, _ = r.call("control", "true")
		time.Sleep(20 * time.Minute)
		_, _ = r.call("control", "false")
		time.Sleep(4 * time.Minute)
		if st := r.status(); st.Lost != 240 {
			t.Errorf("lost for %v s, want 240", st.Lost)
		}
		b.event(Begins, "192.0.2.9")
		time.Sleep(10 * time.Minute)
		if st := r.status(); st.Run == nil || st.Run.Since != 600 {
			t.Errorf("in a run: %+v", st)
		}
		b.event(Ends, "192.0.2.9")
		r.end(39*time.Minute, "control connection was lost")
	})
	// One that comes back keeps it, and one that was never there does not end it.
	inBubble(t, &box{}, api.BenchArgs{Seconds: 3600}, func(r *running) {
		_, _ = r.call("control", "true")
		_, _ = r.call("control", "false")
		time.Sleep(4 * time.Minute)
		if st, _ := r.call("control", "true"); st.Lost != 0 {
			t.Errorf("back: %+v", st)
		}
		r.end(time.Hour, "its time was over")
	})
	inBubble(t, &box{}, api.BenchArgs{Seconds: 3600}, func(r *running) {
		_, _ = r.call("control", "false")
		r.end(time.Hour, "its time was over")
	})
}

func TestRuns(t *testing.T) {
	b := &box{}
	inBubble(t, b, api.BenchArgs{}, func(r *running) {
		time.Sleep(20 * time.Second)
		b.event(Begins, "192.0.2.9")
		b.event(Refused, "192.0.2.10")
		b.event(Ends, "192.0.2.9")
		b.event(Ends, "192.0.2.9") // of nothing
		if st := r.status(); st.Runs != 1 || st.Refused != 1 || st.Run != nil {
			t.Errorf("%+v", st)
		}
		if n := strings.Count(strings.Join(b.done(), " "), "forget TCP"); n != 1 {
			t.Errorf("TCP's metrics were forgotten %d times", n)
		}
	})
}

func TestServerIsStartedAgain(t *testing.T) {
	b := &box{crash: errors.New("signal: killed")}
	inBubble(t, b, api.BenchArgs{}, func(r *running) {
		time.Sleep(2 * serverRetry)
		if n := strings.Count(strings.Join(b.done(), " "), "serve"); n != 2 {
			t.Errorf("started %d times", n)
		}
		if st := r.status(); len(st.Notes) != 1 || !strings.Contains(st.Notes[0], "signal: killed") {
			t.Errorf("notes %q", st.Notes)
		}
	})
}

func TestVerify(t *testing.T) {
	b := &box{busy: 60e6}
	inBubble(t, b, api.BenchArgs{}, func(r *running) {
		if _, err := r.call(api.BenchVerify, `{"seconds":60}`); err == nil {
			t.Error("it was not on yet")
		}
		time.Sleep(20 * time.Second)
		if st := r.status(); st.Load == nil || st.Load.Quiet || st.Load.CPU < 0.59 || st.Load.CPU > 0.61 || len(st.Load.By) != 1 {
			t.Errorf("0.6 %% in 10 s: %+v", st.Load)
		}
		st, err := r.call(api.BenchVerify, `{"seconds":60}`)
		if err != nil || st.Measuring != 62 || st.Load != nil {
			t.Errorf("verify: %+v, %v", st, err)
		}
		if _, err := r.call(api.BenchVerify, `{"seconds":60}`); err == nil {
			t.Error("two at a time")
		}
		time.Sleep(63 * time.Second)
		if st := r.status(); st.Load == nil || st.Load.Quiet || st.Load.Seconds != 60 || st.Load.CPU < 0.099 || st.Load.CPU > 0.101 || st.Measuring != 0 {
			t.Errorf("0.1 %% in 60 s: %+v", st.Load)
		}
		b.mu.Lock()
		b.busy = 0
		b.mu.Unlock()
		_, _ = r.call(api.BenchVerify, `{"seconds":30}`)
		time.Sleep(10 * time.Second)
		b.event(Begins, "192.0.2.9")
		time.Sleep(25 * time.Second)
		if st := r.status(); st.Load == nil || st.Load.Quiet || !strings.Contains(strings.Join(st.Load.By, " "), "a run") {
			t.Errorf("with a run in it: %+v", st.Load)
		}
		if _, err := r.call(api.BenchVerify, `{"seconds":30}`); err == nil {
			t.Error("while a run goes on")
		}
	})
}

func TestCalls(t *testing.T) {
	inBubble(t, &box{failed: errors.New("no netlink")}, api.BenchArgs{}, func(r *running) {
		if got, err := r.Call(api.BenchCounters, nil); err != nil || !strings.HasPrefix(string(got), `{"at":7,`) {
			t.Errorf("counters: %s, %v", got, err)
		}
		if _, err := r.Call("dance", nil); err == nil {
			t.Error("it dances")
		}
		if _, err := r.Call(api.BenchVerify, []byte("[")); err == nil {
			t.Error("no JSON, and no error")
		}
		if st := r.status(); !slices.Contains(st.Notes, "no netlink") {
			t.Errorf("notes %q", st.Notes)
		}
	})
}
