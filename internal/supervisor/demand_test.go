package supervisor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/handoff"
	"gwinit/internal/supervisor"
	"gwinit/internal/supervisor/supervisortest"
)

// onDemand is a box with one service that something may wait for at /s.
func onDemand(t *testing.T, spec supervisor.Spec, l *supervisortest.Launcher, f func(*box)) {
	t.Helper()
	spec.Name, spec.Socket = "s", "/s"
	inBox(t, supervisor.Options{}, l, []supervisor.Spec{spec}, f)
}

func TestOnDemand(t *testing.T) {
	onDemand(t, supervisor.Spec{}, nil, func(b *box) {
		b.want("s", supervisor.Idle)
		b.wantStarted()
		for round := 1; round <= 3; round++ {
			if !b.l.Knock("/s") {
				t.Fatal("the socket is not watched")
			}
			b.want("s", supervisor.Starting)
			p := b.l.Process("s")
			if len(p.Stored) != 1 || p.Stored[0].Name != handoff.StoredName {
				t.Errorf("started with %v", p.Stored)
			}
			if b.l.Knock("/s") {
				t.Error("the socket is watched while the process has it")
			}
			p.Ready()
			b.want("s", supervisor.Running)
			time.Sleep(11 * time.Second)
			p.Exit(0)
			b.want("s", supervisor.Idle)
			if n := b.service("s").Restarts; n != 0 {
				t.Errorf("%d restarts", n)
			}
		}
	})
}

// One that does not take what waits must not be started for ever.
func TestOnDemandBacksOff(t *testing.T) {
	for name, code := range map[string]int{"at once": 0, "a fault": 1} {
		t.Run(name, func(t *testing.T) {
			onDemand(t, supervisor.Spec{Essential: true}, nil, func(b *box) {
				b.l.Knock("/s")
				for _, delay := range []time.Duration{1, 2, 4, 8} {
					b.l.Process("s").Exit(code)
					b.want("s", supervisor.Backoff)
					if b.l.Knock("/s") {
						t.Error("watched in backoff")
					}
					time.Sleep(delay*time.Second - 1)
					b.want("s", supervisor.Backoff)
					time.Sleep(time.Nanosecond)
					b.want("s", supervisor.Idle)
					b.l.Knock("/s") // it waits still
					b.want("s", supervisor.Starting)
				}
				b.l.Process("s").Exit(code)
				time.Sleep(59 * time.Second)
				b.want("s", supervisor.Backoff)
				time.Sleep(time.Second)
				b.want("s", supervisor.Idle)
			})
		})
	}
}

func TestOnDemandStopAndStart(t *testing.T) {
	onDemand(t, supervisor.Spec{}, nil, func(b *box) {
		stop := func() {
			if err := b.Stop(b.t.Context(), "s"); err != nil {
				t.Error(err)
			}
			b.want("s", supervisor.Stopped)
		}
		start := func(f func(context.Context, string) error) {
			if err := f(b.t.Context(), "s"); err != nil {
				t.Error(err)
			}
			b.want("s", supervisor.Idle)
		}
		stop()
		b.l.Knock("/s") // the old watch, which ends with its socket
		b.want("s", supervisor.Stopped)
		start(b.Start)
		start(b.Restart)
		b.l.Knock("/s")
		b.want("s", supervisor.Starting)
		start(b.Restart) // from a process back to its socket
		b.l.Knock("/s")
		b.want("s", supervisor.Starting)
		stop()
		start(b.Start)
		b.l.Knock("/s")
		b.want("s", supervisor.Starting)
	})
}

func TestOnDemandWithoutASocket(t *testing.T) {
	var failed atomic.Bool
	l := &supervisortest.Launcher{FailListen: func() error {
		if failed.Swap(true) {
			return nil
		}
		return unix.EROFS
	}}
	onDemand(t, supervisor.Spec{}, l, func(b *box) {
		b.want("s", supervisor.Backoff)
		if s := b.service("s"); !strings.Contains(s.LastExit, "read-only file system") {
			t.Errorf("last exit %q", s.LastExit)
		}
		time.Sleep(time.Second)
		b.want("s", supervisor.Idle)
	})
}

// What an on-demand service is needed for can start while it is idle.
func TestOnDemandIsEnoughForNeeds(t *testing.T) {
	specs := []supervisor.Spec{{Name: "s", Socket: "/s"}, {Name: "after", Needs: []string{"s"}}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		synctest.Wait()
		b.wantStarted("after")
	})
}

// The same with a real process and a real socket.
func TestRealOnDemand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	s := spec("s", "taker")
	s.Socket = path
	b := boot(t, s)
	give := func() (*os.File, error) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[1])
		return os.NewFile(uintptr(pair[0]), "ours"), handoff.Send(path, pair[1])
	}
	var first int
	for range 2 {
		c, err := give()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if n, err := c.Read(got); string(got[:max(n, 0)]) != "taken" {
			t.Errorf("%q, %v", got[:max(n, 0)], err)
		}
		c.Close()
		pid := b.up("s").PID
		if pid == first {
			t.Error("the same process")
		}
		first = pid
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.ended(pid)
	}
	if err := b.Stop(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	c, err := give()
	c.Close()
	if !errors.Is(err, handoff.ErrNobody) {
		t.Errorf("after the stop: %v", err)
	}
	if err := b.Start(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if c, err = give(); err != nil {
		t.Error(err)
	}
	c.Close()
	b.up("s")
}
