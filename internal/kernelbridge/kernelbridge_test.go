//go:build linux

package kernelbridge_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/kernelbridge/kernelbridgetest"
)

func detect(t *testing.T, f *kernelbridgetest.Fake) *kernelbridge.Driver {
	t.Helper()
	d, err := kernelbridge.Detect(f.Root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func contextFor(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), d)
}

func TestAbsent(t *testing.T) {
	if _, err := kernelbridge.Detect(t.TempDir()); !errors.Is(err, kernelbridge.ErrAbsent) {
		t.Errorf("got %v", err)
	}
}

func TestDisarm(t *testing.T) {
	tests := []struct {
		name     string
		armed    bool
		onEnable func(*kernelbridgetest.Fake, string)
		limit    time.Duration
		was      bool
		err      error
		writes   []string
	}{
		{name: "idle driver is left alone", armed: false, limit: 5 * time.Second},
		{name: "armed", armed: true, limit: 5 * time.Second, was: true, writes: []string{"0"}},
		{
			name: "armed for a while longer", armed: true, limit: 5 * time.Second, was: true, writes: []string{"0"},
			onEnable: func(f *kernelbridgetest.Fake, _ string) {
				time.AfterFunc(50*time.Millisecond, func() { f.SetArmed(false) })
			},
		},
		{
			name: "armed for ever", armed: true, limit: 500 * time.Millisecond, was: true, writes: []string{"0"},
			onEnable: func(*kernelbridgetest.Fake, string) {},
			err:      kernelbridge.ErrStillArmed,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := kernelbridgetest.New(t, tt.armed, "1", tt.onEnable)
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			was, err := detect(t, f).Disarm(ctx)
			if was != tt.was || !errors.Is(err, tt.err) {
				t.Errorf("Disarm = %v, %v; want %v, %v", was, err, tt.was, tt.err)
			}
			if !slices.Equal(f.Writes(), tt.writes) {
				t.Errorf("enable got %q, want %q", f.Writes(), tt.writes)
			}
		})
	}
}

func TestArm(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", nil)
	d := detect(t, f)
	if err := d.Arm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if armed, err := d.Armed(t.Context()); err != nil || !armed {
		t.Errorf("armed %v, %v", armed, err)
	}
}

func TestArmThatFails(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", func(*kernelbridgetest.Fake, string) {})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := detect(t, f).Arm(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestHangingDriver(t *testing.T) {
	f := kernelbridgetest.New(t, true, "1", nil)
	release := f.Block(t, "armed")
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := detect(t, f).Disarm(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if w := f.Writes(); len(w) != 0 {
		t.Errorf("wrote %q", w)
	}
}

func TestFlowControl(t *testing.T) {
	for value, want := range map[string]string{"0": "none", "1": "hw", "2": "sw", "3": "", "hw": "", "": ""} {
		f := kernelbridgetest.New(t, false, value, nil)
		got, err := detect(t, f).FlowControl(t.Context())
		if got != want || (err != nil) != (want == "") {
			t.Errorf("flow_control %q: %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestOddArmed(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", nil)
	f.Set("armed", "maybe")
	if _, err := detect(t, f).Armed(t.Context()); err == nil {
		t.Error("took maybe for an answer")
	}
}
