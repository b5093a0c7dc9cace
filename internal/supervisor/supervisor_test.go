package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
	"gwinit/internal/supervisor"
	"gwinit/internal/supervisor/supervisortest"
)

// box is a supervisor with processes that are none.
type box struct {
	*supervisor.Supervisor
	t    *testing.T
	l    *supervisortest.Launcher
	ring *logring.Ring
}

// inBox runs f in a bubble with a booted box, and ends the box.
func inBox(t *testing.T, o supervisor.Options, l *supervisortest.Launcher, specs []supervisor.Spec, f func(*box)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if l == nil {
			l = &supervisortest.Launcher{}
		}
		b := &box{t: t, l: l, ring: logring.New(0, func() (int64, int64) { return 1, 0 })}
		o.Launcher, o.Ring = l, b.ring
		for i := range specs {
			specs[i].Argv = []string{"gw", specs[i].Name}
		}
		s, err := supervisor.New(o, specs)
		if err != nil {
			t.Fatal(err)
		}
		b.Supervisor = s
		s.Boot()
		f(b)
		l.Deaf = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if left := s.StopAll(ctx); left != nil {
			t.Errorf("left behind: %v", left)
		}
		l.Wait()
	})
}

func (b *box) service(name string) api.Service {
	b.t.Helper()
	for _, s := range b.Snapshot() {
		if s.Name == name {
			return s
		}
	}
	b.t.Fatalf("no service %s", name)
	return api.Service{}
}

func (b *box) want(name, state string) {
	b.t.Helper()
	synctest.Wait()
	if s := b.service(name); s.State != state {
		b.t.Errorf("%s is %s, want %s; last end: %s", name, s.State, state, s.LastExit)
	}
}

func (b *box) wantStarted(names ...string) {
	b.t.Helper()
	synctest.Wait()
	if got := b.l.Names(); fmt.Sprint(got) != fmt.Sprint(names) {
		b.t.Errorf("started %v, want %v", got, names)
	}
}

// restartsIn returns after how long the service has another process.
func (b *box) restartsIn(name string) time.Duration {
	b.t.Helper()
	before, start := b.l.Process(name), time.Now()
	for range 200 {
		synctest.Wait()
		if b.l.Process(name) != before {
			return time.Since(start)
		}
		time.Sleep(500 * time.Millisecond)
	}
	b.t.Fatalf("%s is not started again", name)
	return 0
}

func TestDependencies(t *testing.T) {
	specs := []supervisor.Spec{
		{Name: "late", Needs: []string{"core", "mount"}},
		{Name: "mount", Oneshot: true},
		{Name: "core"},
		{Name: "other"},
		{Name: "soft", After: []string{"mount"}},
	}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		b.wantStarted("mount", "core", "other") // in parallel: none waits for another
		b.want("late", supervisor.Waiting)
		b.l.Process("mount").Exit(0)
		b.want("mount", supervisor.Done)
		b.wantStarted("mount", "core", "other", "soft")
		b.want("core", supervisor.Starting)
		b.l.Process("core").Ready()
		b.want("core", supervisor.Running)
		b.wantStarted("mount", "core", "other", "soft", "late")
		// An end takes nobody down, but holds up the next start.
		b.l.Process("core").Exit(1)
		b.want("core", supervisor.Backoff)
		b.want("late", supervisor.Starting)
		b.l.Process("late").Exit(1)
		b.want("late", supervisor.Backoff)
		time.Sleep(1500 * time.Millisecond)
		b.want("late", supervisor.Waiting)
		b.l.Process("core").Ready()
		b.want("late", supervisor.Starting)
	})
}

func TestSoftDependencies(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(b *box)
	}{
		{"ready", func(b *box) { b.l.Process("dep").Ready() }},
		{"ended once", func(b *box) { b.l.Process("dep").Exit(1) }},
		{"pointless", func(b *box) { b.l.Process("dep").Exit(supervisor.ExitPointless) }},
		{"stopped", func(b *box) {
			if err := b.Stop(b.t.Context(), "dep"); err != nil {
				b.t.Error(err)
			}
		}},
		{"hangs", func(*box) { time.Sleep(supervisor.DefaultReadyTimeout + time.Second) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			specs := []supervisor.Spec{{Name: "dep"}, {Name: "held", Needs: []string{"dep"}}, {Name: "x", After: []string{"dep"}}, {Name: "y", After: []string{"held"}}}
			inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
				b.want("x", supervisor.Waiting)
				b.want("y", supervisor.Waiting)
				tt.do(b)
				b.want("x", supervisor.Starting)
				if tt.name == "ready" {
					b.want("held", supervisor.Starting)
					b.want("y", supervisor.Waiting)
					b.l.Process("held").Ready()
				} else {
					b.want("held", supervisor.Waiting)
				}
				// held cannot start for want of dep: that is its chance.
				b.want("y", supervisor.Starting)
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			time.Sleep(11 * time.Second) // not a fast end
			b.l.Process("s").Exit(1)
			b.want("s", supervisor.Backoff)
			if got := b.restartsIn("s"); got != want*time.Second {
				t.Errorf("restart %d after %v, want %v s", i, got, int(want))
			}
		}
		if n := b.service("s").Restarts; n != 8 {
			t.Errorf("%d restarts", n)
		}
		// Ready for less than five minutes does not reset the delay.
		b.l.Process("s").Ready()
		time.Sleep(5*time.Minute - time.Second)
		b.l.Process("s").Exit(0)
		if got := b.restartsIn("s"); got != time.Minute {
			t.Errorf("restart after %v", got)
		}
		b.l.Process("s").Ready()
		time.Sleep(5 * time.Minute)
		b.l.Process("s").Exit(0)
		if got := b.restartsIn("s"); got != time.Second {
			t.Errorf("restart after %v of health: %v", 5*time.Minute, got)
		}
	})
}

// A start by hand after an end that nobody asked for is a restart, one after a
// stop is not.
func TestRestartsCount(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s", NoNotify: true}}, func(b *box) {
		for range 3 {
			b.l.Process("s").Exit(1)
			b.want("s", supervisor.Backoff)
			if err := b.Start(context.Background(), "s"); err != nil {
				t.Fatal(err)
			}
		}
		if n := b.service("s").Restarts; n != 3 {
			t.Errorf("%d restarts after three ends", n)
		}
		if err := b.Stop(context.Background(), "s"); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(context.Background(), "s"); err != nil {
			t.Fatal(err)
		}
		if n := b.service("s").Restarts; n != 3 {
			t.Errorf("%d restarts after a stop and a start", n)
		}
	})
}

// Manual services wait for Start.
func TestManual(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s", NoNotify: true, Manual: true}, {Name: "x", After: []string{"s"}, NoNotify: true}}, func(b *box) {
		b.want("s", supervisor.Idle) // nobody has asked for it
		b.want("x", supervisor.Waiting)
		if err := b.Start(context.Background(), "s"); err != nil {
			t.Fatal(err)
		}
		if err := b.AwaitSettled(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		b.want("x", supervisor.Running)
		if err := b.AwaitSettled(context.Background(), "none"); !errors.Is(err, supervisor.ErrUnknown) {
			t.Errorf("a service that is none: %v", err)
		}
	})
}

func TestFailsFast(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		for i := range 5 {
			b.ring.Append("s", fmt.Sprintf("words %d", i))
			b.l.Process("s").Exit(3)
			if i < 4 {
				b.restartsIn("s")
			}
		}
		b.want("s", supervisor.Failed)
		if got := b.service("s").LastExit; !strings.HasPrefix(got, "exit status 3 after") || !strings.HasSuffix(got, ": words 4") {
			t.Errorf("last end %q", got)
		}
		time.Sleep(24 * time.Hour)
		b.want("s", supervisor.Failed)

		// Start is at once, and the count starts over.
		started := make(chan error)
		go func() { started <- b.Start(b.t.Context(), "s") }()
		synctest.Wait()
		b.l.Process("s").Ready()
		if err := <-started; err != nil {
			t.Error(err)
		}
		b.l.Process("s").Exit(3)
		b.want("s", supervisor.Backoff)
		if got := b.restartsIn("s"); got != time.Second {
			t.Errorf("restart after %v", got)
		}
	})
}

func TestASlowEndResetsTheCount(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		for i := range 10 {
			b.want("s", supervisor.Starting)
			if i == 4 {
				time.Sleep(10 * time.Second)
			}
			b.l.Process("s").Exit(1)
			if i < 9 {
				b.restartsIn("s")
			}
		}
		b.want("s", supervisor.Failed)
	})
}

func TestPointless(t *testing.T) {
	specs := []supervisor.Spec{{Name: "s"}, {Name: "e", Essential: true}, {Name: "once", Oneshot: true}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		for _, name := range []string{"s", "e", "once"} {
			b.l.Process(name).Exit(125)
		}
		b.want("s", supervisor.Failed)
		b.want("once", supervisor.Failed)
		b.want("e", supervisor.Backoff)
		if got := b.restartsIn("e"); got != time.Minute {
			t.Errorf("restart after %v", got)
		}
	})
}

func TestEssentialIsTriedForEver(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "e", Essential: true}}, func(b *box) {
		want := []time.Duration{1, 2, 4, 8}
		for i := range 100 {
			b.l.Process("e").Exit(1)
			b.want("e", supervisor.Backoff)
			seconds := time.Duration(60)
			if i < len(want) {
				seconds = want[i]
			}
			if got := b.restartsIn("e"); got != seconds*time.Second {
				t.Fatalf("restart %d after %v", i, got)
			}
		}
	})
}

func TestOneshotIsTriedAgain(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s", Oneshot: true}}, func(b *box) {
		b.l.Process("s").Ready() // says nothing for a oneshot
		b.want("s", supervisor.Starting)
		b.l.Process("s").Exit(1)
		b.want("s", supervisor.Backoff)
		b.restartsIn("s")
		b.l.Process("s").Exit(0)
		b.want("s", supervisor.Done)
	})
}

func TestConsoleRespawns(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "console", TTY: "/dev/null", Essential: true}}, func(b *box) {
		b.want("console", supervisor.Running)
		for i := range 20 {
			time.Sleep(3 * time.Second)
			b.l.Process("console").Exit(i % 3)
			if got := b.restartsIn("console"); got != time.Second {
				t.Fatalf("logout %d: a shell after %v", i, got)
			}
		}
		// A shell that cannot run is no reason to spin.
		for range 6 {
			b.l.Process("console").Exit(1)
			b.restartsIn("console")
		}
		b.l.Process("console").Exit(1)
		if got := b.restartsIn("console"); got != time.Minute {
			t.Errorf("restart after %v", got)
		}
	})
}

func TestNotReadyInTime(t *testing.T) {
	l := &supervisortest.Launcher{Deaf: func(_ string, s syscall.Signal) bool { return s == syscall.SIGQUIT }}
	specs := []supervisor.Spec{{Name: "s", ReadyTimeout: 5 * time.Second}, {Name: "patient", ReadyTimeout: -1}}
	inBox(t, supervisor.Options{}, l, specs, func(b *box) {
		time.Sleep(5*time.Second - 1)
		b.want("s", supervisor.Starting)
		time.Sleep(time.Nanosecond)
		b.want("s", supervisor.Stopping)
		p := b.l.Process("s")
		time.Sleep(2 * time.Second)
		b.want("s", supervisor.Backoff)
		if got := fmt.Sprint(p.Signals()); got != "[quit killed]" {
			t.Errorf("signals %s", got)
		}
		if got := b.service("s").LastExit; got != "signal 9 (killed) after 7s (not ready within 5s)" {
			t.Errorf("last end %q", got)
		}
		time.Sleep(time.Hour)
		b.want("patient", supervisor.Starting)
	})
}

func TestWatchdog(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s", Watchdog: 10 * time.Second}}, func(b *box) {
		p := b.l.Process("s")
		p.Ready()
		for range 10 {
			time.Sleep(9 * time.Second)
			p.Say(notify.Message{Watchdog: true})
		}
		b.want("s", supervisor.Running)
		time.Sleep(10 * time.Second)
		b.want("s", supervisor.Backoff)
		if got := b.service("s").LastExit; !strings.Contains(got, "no sign of life for 10s") || fmt.Sprint(p.Signals()) != "[quit]" {
			t.Errorf("last end %q, signals %v", got, p.Signals())
		}
	})
}

func TestStop(t *testing.T) {
	deaf := map[string]bool{"deaf": true}
	l := &supervisortest.Launcher{Deaf: func(name string, s syscall.Signal) bool { return deaf[name] && s == syscall.SIGTERM }}
	specs := []supervisor.Spec{{Name: "s"}, {Name: "deaf"}, {Name: "console", TTY: "/dev/null"}}
	inBox(t, supervisor.Options{}, l, specs, func(b *box) {
		for _, tt := range []struct {
			name    string
			after   time.Duration
			signals string
		}{
			{"s", 0, "[terminated]"},
			{"deaf", supervisor.DefaultStopTimeout, "[terminated killed]"},
			{"console", 0, "[terminated]"}, // and a hang-up, had it survived that
		} {
			start := time.Now()
			if err := b.Stop(b.t.Context(), tt.name); err != nil {
				t.Error(err)
			}
			if got := time.Since(start); got != tt.after {
				t.Errorf("%s: stopped after %v", tt.name, got)
			}
			b.want(tt.name, supervisor.Stopped)
			if got := fmt.Sprint(b.l.Process(tt.name).Signals()); got != tt.signals {
				t.Errorf("%s: signals %s", tt.name, got)
			}
		}
		time.Sleep(time.Hour)
		b.want("s", supervisor.Stopped)
		if err := b.Stop(b.t.Context(), "s"); err != nil {
			t.Errorf("stop of a stopped one: %v", err)
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		go b.Start(b.t.Context(), "deaf")
		synctest.Wait()
		if err := b.Stop(ctx, "deaf"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRestart(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		b.l.Process("s").Ready()
		for range 10 { // asked for: never failed, never a delay
			done := make(chan error)
			start := time.Now()
			go func() { done <- b.Restart(b.t.Context(), "s") }()
			synctest.Wait()
			b.l.Process("s").Ready()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d != 0 {
				t.Errorf("took %v", d)
			}
		}
		if n := len(b.l.Names()); n != 11 {
			t.Errorf("%d processes", n)
		}
		if n := b.service("s").Restarts; n != 0 {
			t.Errorf("%d restarts that nobody asked for", n)
		}
	})
}

func TestStopThatIsOvertakenByAStart(t *testing.T) {
	l := &supervisortest.Launcher{Deaf: func(_ string, s syscall.Signal) bool { return s == syscall.SIGTERM }}
	inBox(t, supervisor.Options{}, l, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		stopped, started := make(chan error), make(chan error)
		go func() { stopped <- b.Stop(b.t.Context(), "s") }()
		synctest.Wait()
		go func() { started <- b.Start(b.t.Context(), "s") }()
		synctest.Wait()
		b.l.Process("s").Exit(0)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		b.wantStarted("s", "s")
		b.l.Process("s").Ready()
		if err := <-started; err != nil {
			t.Error(err)
		}
	})
}

func TestStartTellsWhy(t *testing.T) {
	specs := []supervisor.Spec{{Name: "s"}, {Name: "needs", Needs: []string{"s"}}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		done := make(chan error)
		go func() { done <- b.Start(b.t.Context(), "s") }()
		synctest.Wait()
		b.ring.Append("s", "no such device")
		b.l.Process("s").Exit(1)
		if err := <-done; err == nil || !strings.Contains(err.Error(), "no such device") {
			t.Errorf("got %v", err)
		}
		short, cancel := context.WithTimeout(b.t.Context(), time.Millisecond)
		defer cancel()
		if err := b.Start(short, "needs"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "which is waiting (waits for s)") {
			t.Errorf("got %v", err)
		}
		go func() { done <- b.Start(b.t.Context(), "needs") }()
		synctest.Wait()
		if err := b.Stop(b.t.Context(), "needs"); err != nil {
			t.Error(err)
		}
		if err := <-done; err == nil {
			t.Error("a start that was stopped worked")
		}
		if got := b.service("needs"); got.Status != "" {
			t.Errorf("stopped and %q", got.Status)
		}
		if err := b.Start(b.t.Context(), "nobody"); !errors.Is(err, supervisor.ErrUnknown) {
			t.Errorf("got %v", err)
		}
	})
}

func TestStartFails(t *testing.T) {
	var mended atomic.Bool
	l := &supervisortest.Launcher{Fail: func(s *supervisor.Spec) error {
		switch {
		case s.Name == "s" && !mended.Load():
			return syscall.ENOEXEC
		case s.Name == "bug":
			panic("boom")
		}
		return nil
	}}
	specs := []supervisor.Spec{{Name: "bug"}, {Name: "s"}, {Name: "soft", After: []string{"s"}}}
	inBox(t, supervisor.Options{}, l, specs, func(b *box) {
		b.want("bug", supervisor.Backoff)
		if lines := b.ring.Last(supervisor.LogName, 0); !strings.Contains(fmt.Sprint(lines), "boom") {
			t.Errorf("log: %v", lines)
		}
		b.want("s", supervisor.Backoff)
		b.want("soft", supervisor.Starting)
		if got := b.service("s").LastExit; got != "cannot start: exec format error" {
			t.Errorf("last end %q", got)
		}
		mended.Store(true)
		time.Sleep(time.Second)
		b.want("s", supervisor.Starting)
		time.Sleep(time.Minute)
		b.want("bug", supervisor.Failed)
	})
}

func TestStopping(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}, {Name: "hangs"}}, func(b *box) {
		for _, name := range []string{"s", "hangs"} {
			b.l.Process(name).Ready()
			b.l.Process(name).Say(notify.Message{Stopping: true})
			b.want(name, supervisor.Stopping)
		}
		b.l.Process("s").Exit(0)
		b.want("s", supervisor.Backoff)
		time.Sleep(supervisor.DefaultStopTimeout)
		b.want("hangs", supervisor.Backoff)
	})
}

func TestStopAll(t *testing.T) {
	specs := []supervisor.Spec{
		{Name: "mount", Oneshot: true},
		{Name: "core", Needs: []string{"mount"}},
		{Name: "bridge", After: []string{"core"}},
		{Name: "sshd", Needs: []string{"core"}},
		{Name: "sick"},
	}
	for _, tt := range []struct {
		name    string
		deaf    map[string]bool // to SIGTERM
		dead    map[string]bool // to all
		took    time.Duration
		signals map[string]string
		left    string
	}{
		{"all obey", nil, nil, 0, map[string]string{"bridge": "[terminated]", "core": "[terminated]"}, "[]"},
		{"one needs its time", map[string]bool{"bridge": true}, nil, 10 * time.Second, map[string]string{"bridge": "[terminated killed]", "core": "[terminated]"}, "[]"},
		{"the second has what is left", map[string]bool{"bridge": true, "core": true}, nil, 15 * time.Second, map[string]string{"core": "[terminated killed]"}, "[]"},
		{"one cannot be killed", nil, map[string]bool{"bridge": true}, 16 * time.Second, map[string]string{"bridge": "[terminated killed killed]", "core": "[killed]"}, "[bridge]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &supervisortest.Launcher{Deaf: func(name string, s syscall.Signal) bool {
					return tt.dead[name] || tt.deaf[name] && s == syscall.SIGTERM
				}}
				ring := logring.New(0, logring.System)
				table := append([]supervisor.Spec(nil), specs...)
				for i := range table {
					table[i].Argv = []string{"gw"}
				}
				s, err := supervisor.New(supervisor.Options{Launcher: l, Ring: ring}, table)
				if err != nil {
					t.Fatal(err)
				}
				s.Boot()
				l.Process("mount").Exit(0)
				for _, name := range []string{"core", "bridge", "sshd"} {
					l.Process(name).Ready()
				}
				l.Process("sick").Exit(1)
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				start := time.Now()
				left := s.StopAll(ctx)
				if got := time.Since(start); got != tt.took {
					t.Errorf("took %v, want %v", got, tt.took)
				}
				if fmt.Sprint(left) != tt.left {
					t.Errorf("left %v, want %s", left, tt.left)
				}
				for name, want := range tt.signals {
					if got := fmt.Sprint(l.Process(name).Signals()); got != want {
						t.Errorf("%s: signals %s, want %s", name, got, want)
					}
				}
				if len(tt.dead) == 0 {
					at := map[string]int{}
					for i, line := range ring.Last(supervisor.LogName, 0) {
						at[line.Text] = i
						if name, _, ok := strings.Cut(line.Text, ": stopped:"); ok {
							at[name] = i
						}
					}
					if began := at["core: stopping: shutdown"]; began < at["bridge"] || began < at["sshd"] {
						t.Errorf("core was stopped before those that depend on it: %v", at)
					}
				}
				time.Sleep(time.Hour)
				for _, sv := range s.Snapshot() {
					want := supervisor.Stopped
					switch {
					case sv.Name == "mount":
						want = supervisor.Done
					case tt.dead[sv.Name]:
						want = supervisor.Stopping
					}
					if sv.State != want {
						t.Errorf("%s is %s, want %s", sv.Name, sv.State, want)
					}
				}
				if err := s.Start(t.Context(), "core"); !errors.Is(err, supervisor.ErrShuttingDown) {
					t.Errorf("start: %v", err)
				}
				if err := s.Restart(t.Context(), "core"); !errors.Is(err, supervisor.ErrShuttingDown) {
					t.Errorf("restart: %v", err)
				}
				l.Wait()
			})
		})
	}
}

func TestCall(t *testing.T) {
	specs := []supervisor.Spec{{Name: "s"}, {Name: "alien", NoNotify: true}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		p := b.l.Process("s")
		type result struct {
			body string
			err  error
		}
		call := func(ctx context.Context, service string) chan result {
			c := make(chan result, 1)
			go func() {
				body, err := b.Call(ctx, service, "status", []byte("{}"))
				c <- result{string(body), err}
			}()
			synctest.Wait()
			return c
		}
		body := []byte(`{"a":1}`)
		// Two at once, answered the other way round.
		one, two := call(b.t.Context(), "s"), call(b.t.Context(), "s")
		if got := fmt.Sprintf("%q", p.Sent()); got != `["CALL=1 status\n{}" "CALL=2 status\n{}"]` {
			t.Errorf("sent %s", got)
		}
		p.Say(notify.Message{Answer: true, ID: 2, Failed: true, Body: []byte("no")})
		p.Say(notify.Message{Answer: true, ID: 1, Body: body})
		body[0] = 'X' // the packet's memory is used again
		if r := <-one; r.err != nil || r.body != `{"a":1}` {
			t.Errorf("got %+v", r)
		}
		r := <-two
		var call2 *supervisor.CallError
		if !errors.As(r.err, &call2) || call2.Error() != "s: status: no" {
			t.Errorf("got %+v", r)
		}

		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		defer cancel()
		late := call(ctx, "s")
		time.Sleep(time.Second)
		if r := <-late; !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("got %+v", r)
		}
		p.Say(notify.Message{Answer: true, ID: 3})  // nobody waits
		p.Say(notify.Message{Answer: true, ID: 99}) // nobody asked

		var many []chan result
		for range 8 {
			many = append(many, call(b.t.Context(), "s"))
		}
		if r := <-call(b.t.Context(), "s"); !errors.Is(r.err, supervisor.ErrBusy) {
			t.Errorf("got %+v", r)
		}
		p.Exit(1)
		for _, c := range many {
			if r := <-c; !errors.Is(r.err, supervisor.ErrNotRunning) {
				t.Errorf("got %+v", r)
			}
		}
		for _, name := range []string{"s", "alien"} {
			if r := <-call(b.t.Context(), name); !errors.Is(r.err, supervisor.ErrNotRunning) {
				t.Errorf("%s: got %+v", name, r)
			}
		}
		if r := <-call(b.t.Context(), "nobody"); !errors.Is(r.err, supervisor.ErrUnknown) {
			t.Errorf("got %+v", r)
		}
		b.restartsIn("s")
		for send, want := range map[error]error{unix.EAGAIN: supervisor.ErrBusy, notify.ErrClosed: supervisor.ErrNotRunning, unix.EIO: unix.EIO} {
			b.l.Process("s").FailSend(send)
			if r := <-call(b.t.Context(), "s"); !errors.Is(r.err, want) {
				t.Errorf("%v: got %+v", send, r)
			}
		}
	})
}

// devNull returns a descriptor of its own.
func devNull(t *testing.T) int {
	t.Helper()
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestDescriptorStore(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		p := b.l.Process("s")
		tcp, ssh := devNull(t), devNull(t)
		p.Say(notify.Message{Store: true, FDName: "tcp"}, tcp)
		p.Say(notify.Message{Store: true, FDName: "ssh"}, ssh)
		second := devNull(t)
		p.Say(notify.Message{Store: true, FDName: "tcp"}, second)
		if isOpen(tcp) {
			t.Error("a replaced descriptor is still open")
		}
		stray := []int{devNull(t), devNull(t), devNull(t)}
		p.Say(notify.Message{Store: true, FDName: "two"}, stray[:2]...)
		p.Say(notify.Message{Ready: true}, stray[2])
		for _, fd := range stray {
			if isOpen(fd) {
				t.Errorf("stray descriptor %d is still open", fd)
			}
		}
		p.Say(notify.Message{Store: true, FDName: "none"})
		p.Exit(1)
		b.restartsIn("s")
		p = b.l.Process("s")
		if got, want := fmt.Sprint(p.Stored), fmt.Sprint([]notify.Stored{{Name: "tcp", FD: second}, {Name: "ssh", FD: ssh}}); got != want {
			t.Errorf("started with %s, want %s", got, want)
		}
		p.Say(notify.Message{Remove: true, FDName: "ssh"})
		if isOpen(ssh) {
			t.Error("a removed descriptor is still open")
		}
		for i := range notify.MaxStored {
			p.Say(notify.Message{Store: true, FDName: fmt.Sprint(i)}, devNull(t))
		}
		go b.Restart(b.t.Context(), "s")
		synctest.Wait()
		if !isOpen(second) {
			t.Error("a restart closed a stored descriptor")
		}
		if n := len(b.l.Process("s").Stored); n != notify.MaxStored {
			t.Errorf("%d descriptors stored", n)
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		defer cancel()
		b.StopAll(ctx)
		if isOpen(second) {
			t.Error("the shutdown left a descriptor open")
		}
	})
}

// Nobody serves a socket that stays open after a stop by hand.
func TestStopForgetsDescriptors(t *testing.T) {
	tests := []struct {
		name string
		// way leads to the state from where the service is stopped.
		way  func(*box, *supervisortest.Process)
		act  func(*box) error
		kept bool
	}{
		{"stop of one that runs", nil, nil, false},
		{"stop in back-off", func(b *box, p *supervisortest.Process) { p.Exit(1); b.want("s", supervisor.Backoff) }, nil, false},
		{"stop of one that failed", func(b *box, p *supervisortest.Process) { p.Exit(125); b.want("s", supervisor.Failed) }, nil, false},
		{
			"stop of one that ends by itself",
			func(b *box, p *supervisortest.Process) {
				p.Say(notify.Message{Stopping: true})
				b.want("s", supervisor.Stopping)
				go func() { time.Sleep(time.Second); p.Exit(0) }()
			}, nil, false,
		},
		{
			"stop and a start before the end", func(b *box, _ *supervisortest.Process) {
				b.l.Deaf = func(string, syscall.Signal) bool { return true }
			},
			func(b *box) error {
				p := b.l.Process("s")
				go b.Stop(b.t.Context(), "s")
				synctest.Wait()
				go b.Start(b.t.Context(), "s")
				synctest.Wait()
				p.Exit(0)
				return nil
			}, true,
		},
		{
			"restart in back-off", func(b *box, p *supervisortest.Process) { p.Exit(1) },
			func(b *box) error { go b.Restart(b.t.Context(), "s"); return nil }, true,
		},
		{
			"start of one that failed", func(b *box, p *supervisortest.Process) { p.Exit(125) },
			func(b *box) error { go b.Start(b.t.Context(), "s"); return nil }, true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
				p, fd := b.l.Process("s"), devNull(t)
				p.Say(notify.Message{Store: true, FDName: "tcp", Ready: true}, fd)
				if tt.way != nil {
					tt.way(b, p)
				}
				act := tt.act
				if act == nil {
					act = func(b *box) error { return b.Stop(b.t.Context(), "s") }
				}
				if err := act(b); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if isOpen(fd) != tt.kept {
					t.Errorf("the descriptor is open: %v, want %v", !tt.kept, tt.kept)
				}
				if !tt.kept {
					b.want("s", supervisor.Stopped)
					go b.Start(b.t.Context(), "s")
					synctest.Wait()
				}
				if n := len(b.l.Process("s").Stored); (n == 1) != tt.kept {
					t.Errorf("started with %d descriptors", n)
				}
				b.l.Deaf = nil
			})
		})
	}
}

func TestSafeMode(t *testing.T) {
	specs := []supervisor.Spec{{Name: "radio"}, {Name: "core", Safe: true}, {Name: "sshd", Safe: true, Needs: []string{"core"}, After: []string{"radio"}}}
	inBox(t, supervisor.Options{Safe: true}, nil, specs, func(b *box) {
		b.wantStarted("core")
		b.l.Process("core").Ready()
		b.wantStarted("core", "sshd")
		if s := b.service("radio"); s.State != supervisor.Stopped || s.Status != "left out: safe mode" {
			t.Errorf("radio: %+v", s)
		}
		go b.Start(b.t.Context(), "radio")
		b.wantStarted("core", "sshd", "radio")
	})
}

func TestTable(t *testing.T) {
	gw := []string{"gw"}
	for _, tt := range []struct {
		name  string
		specs []supervisor.Spec
		ok    bool
	}{
		{"good", []supervisor.Spec{{Name: "b", Argv: gw, Needs: []string{"a"}}, {Name: "a", Argv: gw}}, true},
		{"no argv", []supervisor.Spec{{Name: "a"}}, false},
		{"bad name", []supervisor.Spec{{Name: "a b", Argv: gw}}, false},
		{"twice", []supervisor.Spec{{Name: "a", Argv: gw}, {Name: "a", Argv: gw}}, false},
		{"unknown dependency", []supervisor.Spec{{Name: "a", Argv: gw, After: []string{"b"}}}, false},
		{"circle", []supervisor.Spec{{Name: "a", Argv: gw, After: []string{"b"}}, {Name: "b", Argv: gw, Needs: []string{"a"}}}, false},
		{"itself", []supervisor.Spec{{Name: "a", Argv: gw, After: []string{"a"}}}, false},
		{"safe needs unsafe", []supervisor.Spec{{Name: "a", Argv: gw}, {Name: "b", Argv: gw, Safe: true, Needs: []string{"a"}}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := supervisor.New(supervisor.Options{}, tt.specs)
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, supervisor.ErrSpec) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSnapshot(t *testing.T) {
	proc := t.TempDir()
	inBox(t, supervisor.Options{Proc: proc}, nil, []supervisor.Spec{{Name: "s", Essential: true}}, func(b *box) {
		p := b.l.Process("s")
		p.Say(notify.Message{Ready: true, HasStatus: true, Status: "on 8888"})
		dir := fmt.Sprintf("%s/%d", proc, p.PID())
		stat := "1 (a) b) S 1 1 1 0 -1 4194560 10 0 0 0 150 75 0 0 20 0 1 0 100 0 0\n"
		page := os.Getpagesize() / 1024
		statm := fmt.Sprintf("135000 %d %d 1300 0 33000 0\n", 2048/page, (2048-512)/page)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(dir+"/stat", []byte(stat), 0o644), os.WriteFile(dir+"/statm", []byte(statm), 0o644)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		got := b.service("s")
		want := api.Service{Name: "s", State: "running", PID: p.PID(), Since: 3, Essential: true, CPU: 2.25, RSS: 2048, Anon: 512, Status: "on 8888"}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestLastWordsOfAPanic(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "s"}}, func(b *box) {
		b.ring.Append("s", "panic: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:1 +0x20")
		b.l.Process("s").Exit(2)
		b.want("s", supervisor.Backoff)
		if got := b.service("s").LastExit; got != "exit status 2 after 0s: panic: index out of range" {
			t.Errorf("got %q", got)
		}
		b.restartsIn("s")
		b.l.Process("s").Exit(2)
		b.want("s", supervisor.Backoff)
		if got := b.service("s").LastExit; got != "exit status 2 after 0s" {
			t.Errorf("words of an earlier process: %q", got)
		}
		b.restartsIn("s")
		// With all goroutines, and registers at the end: more than a tail keeps.
		b.ring.Append("s", "SIGQUIT: quit\nPC=0x3b3b0 m=0 sigcode=0\n"+strings.Repeat("\tpc=0x13d12b +0x3e4\n", 2*logring.TailLines)+"lo   0x0 hi 0x0")
		b.l.Process("s").Exit(2)
		b.want("s", supervisor.Backoff)
		if got := b.service("s").LastExit; got != "exit status 2 after 0s: SIGQUIT: quit" {
			t.Errorf("a crash with registers: %q", got)
		}
	})
}
