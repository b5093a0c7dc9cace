//go:build linux

package radiouart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/radiolock"
)

func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func owner(t *testing.T, dir, want string) {
	t.Helper()
	if h, err := radiolock.Look(dir); err != nil || h.Name != want {
		t.Errorf("owner %+v, %v; want %q", h, err, want)
	}
}

func TestTakeDisarms(t *testing.T) {
	dir, f := root(t), kernelbridgetest.NewDriver(true)
	f.SetArmed(true)
	u := With(dir, kernelbridge.Over(f))
	held, err := u.Take(t.Context(), "otbr")
	if err != nil {
		t.Fatal(err)
	}
	owner(t, dir, "otbr")
	if f.Armed() || held.Driver == nil {
		t.Errorf("armed %v, driver %v", f.Armed(), held.Driver)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	owner(t, dir, "")
	if err := u.Rearm(t.Context()); err != nil || !f.Armed() {
		t.Errorf("armed %v, %v", f.Armed(), err)
	}
	if err := u.Rearm(t.Context()); err != nil || !slices.Equal(f.Writes(), []string{"enable=0", "enable=1"}) {
		t.Errorf("wrote %q, %v", f.Writes(), err)
	}
}

func TestNoDriver(t *testing.T) {
	dir := root(t)
	u := New(dir)
	held, err := u.Take(t.Context(), "bridge")
	if err != nil || held.Driver != nil {
		t.Fatalf("%+v, %v", held, err)
	}
	if err := errors.Join(held.Release(), u.Rearm(t.Context())); err != nil {
		t.Error(err)
	}
}

// The driver of somebody who has the lock is left alone.
func TestHeld(t *testing.T) {
	dir, f := root(t), kernelbridgetest.NewDriver(true)
	lock, err := radiolock.Acquire(dir, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	f.SetArmed(true)
	if _, err := With(dir, kernelbridge.Over(f)).Take(t.Context(), "otbr"); !errors.Is(err, radiolock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	if !f.Armed() || len(f.Writes()) != 0 {
		t.Errorf("armed %v, wrote %q", f.Armed(), f.Writes())
	}
}

// A driver that keeps the UART, or does not answer, leaves nobody the owner.
func TestTakeFails(t *testing.T) {
	for name, want := range map[string]error{"stuck": kernelbridge.ErrStillArmed, "hanging": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			dir := root(t)
			synctest.Test(t, func(t *testing.T) {
				f := kernelbridgetest.NewDriver(true)
				f.SetArmed(true)
				f.SetStuck(true)
				if name == "hanging" {
					defer f.Pulse()()
				}
				if _, err := With(dir, kernelbridge.Over(f)).Take(t.Context(), "otbr"); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				owner(t, dir, "")
			})
		})
	}
}
