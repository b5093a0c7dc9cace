package supervisor_test

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/supervisor"
)

// What Hold stops is as it was after Release, and what it did not stop, too.
func TestHold(t *testing.T) {
	specs := []supervisor.Spec{
		{Name: "first", Oneshot: true, NoNotify: true},
		{Name: "bridge", NoNotify: true, Essential: true},
		{Name: "core", NoNotify: true, After: []string{"bridge"}},
		{Name: "stopped", NoNotify: true},
		{Name: "asked", NoNotify: true, Manual: true},
		{Name: "guest", NoNotify: true, Manual: true, Once: true},
	}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		synctest.Wait()
		b.l.Process("first").Exit(0)
		b.want("first", supervisor.Done)
		if err := b.Stop(b.t.Context(), "stopped"); err != nil {
			t.Fatal(err)
		}
		before := states(b)

		held, left := b.Hold(b.t.Context(), "guest")
		if want := []string{"bridge", "core"}; !slices.Equal(held, want) || left != nil {
			t.Errorf("held %v, left %v; want %v", held, left, want)
		}
		for _, name := range held {
			b.want(name, supervisor.Stopped)
		}
		if err := b.Start(b.t.Context(), "bridge"); !errors.Is(err, supervisor.ErrHeld) {
			t.Errorf("start while it is held: %v", err)
		}
		if err := b.Restart(b.t.Context(), "core"); !errors.Is(err, supervisor.ErrHeld) {
			t.Errorf("restart while it is held: %v", err)
		}
		if err := b.Start(b.t.Context(), "guest"); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute) // nothing comes back by itself
		for _, name := range held {
			b.want(name, supervisor.Stopped)
		}
		b.l.Process("guest").Exit(3)
		b.want("guest", supervisor.Idle)
		if err := b.AwaitEnd(b.t.Context(), "guest"); err != nil {
			t.Error(err)
		}
		b.Release()
		synctest.Wait()
		after := states(b)
		delete(before, "guest")
		delete(after, "guest")
		for name, state := range before {
			if after[name] != state {
				t.Errorf("%s is %s afterwards, and was %s", name, after[name], state)
			}
		}
	})
}

func states(b *box) map[string]string {
	synctest.Wait()
	all := map[string]string{}
	for _, s := range b.Snapshot() {
		all[s.Name] = s.State
	}
	return all
}

// One in back-off and one that failed are as they were, and nothing starts in
// between.
func TestHoldBackoffAndFailed(t *testing.T) {
	specs := []supervisor.Spec{{Name: "sick", NoNotify: true}, {Name: "dead", NoNotify: true}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		synctest.Wait()
		b.l.Process("dead").Exit(supervisor.ExitPointless)
		b.want("dead", supervisor.Failed)
		b.l.Process("sick").Exit(1)
		b.want("sick", supervisor.Backoff)
		held, left := b.Hold(b.t.Context())
		if !slices.Equal(held, []string{"sick"}) || left != nil {
			t.Errorf("held %v, left %v", held, left)
		}
		time.Sleep(time.Hour)
		b.want("sick", supervisor.Stopped)
		b.want("dead", supervisor.Failed)
		b.Release()
		b.want("sick", supervisor.Running)
		b.want("dead", supervisor.Failed)
	})
}

// Who is stopped by hand during a hold stays stopped.
func TestHoldAndStop(t *testing.T) {
	inBox(t, supervisor.Options{}, nil, []supervisor.Spec{{Name: "core", NoNotify: true}}, func(b *box) {
		b.want("core", supervisor.Running)
		b.Hold(b.t.Context())
		if err := b.Stop(b.t.Context(), "core"); err != nil {
			t.Fatal(err)
		}
		b.Release()
		b.want("core", supervisor.Stopped)
	})
}

// A process that does not die is named.
func TestHoldNamesWhatIsLeft(t *testing.T) {
	specs := []supervisor.Spec{{Name: "core", NoNotify: true}, {Name: "stuck", NoNotify: true}}
	inBox(t, supervisor.Options{}, nil, specs, func(b *box) {
		b.want("stuck", supervisor.Running)
		b.l.Deaf = func(name string, _ syscall.Signal) bool { return name == "stuck" }
		ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
		defer cancel()
		held, left := b.Hold(ctx)
		if !slices.Equal(held, []string{"core", "stuck"}) || !slices.Equal(left, []string{"stuck"}) {
			t.Errorf("held %v, left %v", held, left)
		}
		b.Release()
		b.want("core", supervisor.Running)
		b.l.Process("stuck").Exit(0)
		b.want("stuck", supervisor.Running)
	})
}
