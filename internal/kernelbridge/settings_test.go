//go:build linux

package kernelbridge_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/kernelbridge/kernelbridgetest"
)

func good() kernelbridge.Settings {
	return kernelbridge.Settings{TTY: "/dev/ttyS1", Baud: 460800, Flow: "hw", Port: 8888}
}

func TestConfigure(t *testing.T) {
	tests := []struct {
		name     string
		hardware bool
		change   func(*kernelbridge.Settings)
		flow     string
		writes   []string
	}{
		{"only what differs", true, func(*kernelbridge.Settings) {}, "hw", []string{"baud=460800"}},
		{"everything", true, func(s *kernelbridge.Settings) {
			*s = kernelbridge.Settings{TTY: "/dev/ttyS2", Baud: 1200, Flow: "none", Bind: netip.MustParseAddr("192.168.1.7"), Port: 1}
		}, "none", []string{"tty=/dev/ttyS2", "baud=1200", "flow_control=0", "bind_addr=192.168.1.7", "port=1"}},
		{"hw is sw where it is not wired", false, func(*kernelbridge.Settings) {}, "sw", []string{"baud=460800", "flow_control=1"}},
		{"flow as seeded", false, func(s *kernelbridge.Settings) { s.Flow = "" }, "sw", []string{"baud=460800"}},
		{"mapped IPv4", true, func(s *kernelbridge.Settings) { s.Bind = netip.MustParseAddr("::ffff:127.0.0.1") }, "hw", []string{"baud=460800", "bind_addr=127.0.0.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := kernelbridgetest.NewDriver(tt.hardware)
			s := good()
			tt.change(&s)
			flow, err := kernelbridge.Over(f).Configure(t.Context(), s)
			if err != nil || flow != tt.flow {
				t.Errorf("flow %q, %v; want %q", flow, err, tt.flow)
			}
			if !slices.Equal(f.Writes(), tt.writes) {
				t.Errorf("wrote %q, want %q", f.Writes(), tt.writes)
			}
		})
	}
}

func TestConfigureRefuses(t *testing.T) {
	for _, change := range []func(*kernelbridge.Settings){
		func(s *kernelbridge.Settings) { s.TTY = "" },
		func(s *kernelbridge.Settings) { s.TTY = "/dev/" + strings.Repeat("x", 60) },
		func(s *kernelbridge.Settings) { s.Baud = 1199 },
		func(s *kernelbridge.Settings) { s.Baud = 4_000_001 },
		func(s *kernelbridge.Settings) { s.Flow = "rtscts" },
		func(s *kernelbridge.Settings) { s.Bind = netip.IPv6Loopback() },
		func(s *kernelbridge.Settings) { s.Port = 0 },
	} {
		f, s := kernelbridgetest.NewDriver(true), good()
		change(&s)
		if _, err := kernelbridge.Over(f).Configure(t.Context(), s); !errors.Is(err, kernelbridge.ErrSettings) {
			t.Errorf("%+v: %v", s, err)
		}
		if w := f.Writes(); len(w) != 0 {
			t.Errorf("%+v: wrote %q", s, w)
		}
	}
}

// otherwise is a driver that takes a value and has another one afterwards.
type otherwise struct{ *kernelbridgetest.Driver }

func (o otherwise) Read(name string) (string, error) {
	if name == "baud" {
		return "115200", nil
	}
	return o.Driver.Read(name)
}

func TestReadbackIsCompared(t *testing.T) {
	d := kernelbridge.Over(otherwise{kernelbridgetest.NewDriver(true)})
	_, err := d.Configure(t.Context(), good())
	if err == nil || !strings.Contains(err.Error(), `baud=460800: it reads "115200" afterwards`) {
		t.Errorf("got %v", err)
	}
}

func TestFailedWriteIsSaid(t *testing.T) {
	f := kernelbridgetest.NewDriver(true)
	f.FailWrite("baud", unix.EINVAL)
	_, err := kernelbridge.Over(f).Configure(t.Context(), good())
	if !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "baud=460800") {
		t.Errorf("got %v", err)
	}
	if got := f.Value("baud"); got != "115200" {
		t.Errorf("baud is %s, want the one before", got)
	}
}

func TestStats(t *testing.T) {
	f := kernelbridgetest.NewDriver(true)
	d := kernelbridge.Over(f)
	want := kernelbridge.Stats{Rx: 1, Tx: 2, DropsNoClient: 3, DropsErr: 4, DropsTx: 5, XOFF: 6, XON: 7, TxPauseTimeouts: 1 << 40}
	f.Count(want)
	if got, err := d.Stats(t.Context()); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if err := d.Arm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Stats(t.Context()); err != nil || got != (kernelbridge.Stats{}) {
		t.Errorf("after arming %+v, %v", got, err)
	}
}

// One access at a time waits for a driver that does not answer, whoever asks.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := kernelbridgetest.NewDriver(true)
		d := kernelbridge.Over(f)
		end := f.Pulse()
		for range 3 {
			ctx, cancel := contextFor(t, time.Second)
			if _, err := d.Stats(ctx); err == nil || !strings.Contains(err.Error(), "the driver does not answer") {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		end()
		if _, err := d.Stats(t.Context()); err != nil {
			t.Errorf("after the pulse: %v", err)
		}
	})
}

func TestParseStats(t *testing.T) {
	const line = "rx=10 tx=20 drops_nocli=1 drops_err=2 drops_tx=3 xoff=4 xon=5 tx_pause_timeouts=6"
	full := kernelbridge.Stats{Rx: 10, Tx: 20, DropsNoClient: 1, DropsErr: 2, DropsTx: 3, XOFF: 4, XON: 5, TxPauseTimeouts: 6}
	tests := []struct {
		line string
		want kernelbridge.Stats
		ok   bool
	}{
		{line, full, true},
		{line + " frames=7 mode=fast\n", full, true},
		{"rx=18446744073709551615 tx=0", kernelbridge.Stats{Rx: 1<<64 - 1}, true},
		{"rx=18446744073709551616 tx=0", kernelbridge.Stats{}, false},
		{"rx=1 tx=2 rx=3", kernelbridge.Stats{}, false},
		{"rx=1", kernelbridge.Stats{}, false},
		{"rx=-1 tx=2", kernelbridge.Stats{}, false},
		{"rx=1 tx=2 drops_err=", kernelbridge.Stats{}, false},
		{"rx 1 tx 2", kernelbridge.Stats{}, false},
		{"", kernelbridge.Stats{}, false},
	}
	for _, tt := range tests {
		got, err := kernelbridge.ParseStats(tt.line)
		if got != tt.want || (err == nil) != tt.ok || err != nil && !errors.Is(err, kernelbridge.ErrStats) {
			t.Errorf("%q: %+v, %v; want %+v", tt.line, got, err, tt.want)
		}
	}
}

func TestStatsDifference(t *testing.T) {
	a := kernelbridge.Stats{Rx: 10, DropsTx: 3, XON: 1}
	b := kernelbridge.Stats{Rx: 12, DropsTx: 3, XON: 2}
	if got, ok := b.Since(a); !ok || got != (kernelbridge.Stats{Rx: 2, XON: 1}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if got, ok := a.Since(b); ok || got != (kernelbridge.Stats{}) {
		t.Errorf("backwards: %+v, %v", got, ok)
	}
	if got := a.Plus(b); got != (kernelbridge.Stats{Rx: 22, DropsTx: 6, XON: 3}) {
		t.Errorf("sum: %+v", got)
	}
	if a.Rx != 10 || b.Rx != 12 {
		t.Errorf("the operands changed: %+v, %+v", a, b)
	}
}

func FuzzParseStats(f *testing.F) {
	f.Add("rx=10 tx=20 drops_nocli=1 drops_err=2 drops_tx=3 xoff=4 xon=5 tx_pause_timeouts=6")
	f.Add("rx=1 tx=2 x=y")
	f.Fuzz(func(t *testing.T, line string) {
		s, err := kernelbridge.ParseStats(line)
		if err != nil {
			if s != (kernelbridge.Stats{}) {
				t.Errorf("%q: %+v with %v", line, s, err)
			}
			return
		}
		again := fmt.Sprintf("rx=%d tx=%d drops_nocli=%d drops_err=%d drops_tx=%d xoff=%d xon=%d tx_pause_timeouts=%d",
			s.Rx, s.Tx, s.DropsNoClient, s.DropsErr, s.DropsTx, s.XOFF, s.XON, s.TxPauseTimeouts)
		if got, err := kernelbridge.ParseStats(again); err != nil || got != s {
			t.Errorf("%q: %+v, read again as %+v, %v", line, s, got, err)
		}
	})
}

func TestLEDAndReset(t *testing.T) {
	f := kernelbridgetest.New(t, false, "1", nil)
	f.Set("status_led_brightness", "255")
	f.Set("nrst_pulse", "")
	d := detect(t, f)
	if err := d.SetLED(t.Context(), 60); err != nil || f.Get(t, "status_led_brightness") != "60" {
		t.Errorf("brightness %s, %v", f.Get(t, "status_led_brightness"), err)
	}
	if err := d.PulseReset(t.Context()); err != nil || f.Get(t, "nrst_pulse") != "1" {
		t.Errorf("nrst_pulse %s, %v", f.Get(t, "nrst_pulse"), err)
	}
}
