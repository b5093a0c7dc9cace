//go:build linux

package radiopins

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio/gpiotest"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/radioreset"
)

// chip is a bank with the lines of the board, by their numbers.
func chip(b rtl8196e.Board) *gpiotest.Chip {
	lines := make([]gpiotest.Line, 32)
	for _, l := range b.GPIO.Lines {
		lines[l.Number].Name = l.Name
	}
	return gpiotest.New(b.GPIO.Chip, lines...)
}

func TestByGPIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := rtl8196e.ByID(rtl8196e.Sengled)
		c := chip(b)
		p := Pins{radioreset.Line{Kernel: c, Board: b}}
		const nRST, boot = 11, 13
		start := time.Now()
		if err := p.Reset(t.Context()); err != nil || time.Since(start) != radioreset.Hold {
			t.Errorf("reset: %v, after %v", err, time.Since(start))
		}
		if d := c.Line(nRST).Driven; !slices.Equal(d, []bool{true, false}) || len(c.Line(boot).Driven) != 0 {
			t.Errorf("reset drives nRST %v, boot %v", d, c.Line(boot).Driven)
		}
		done := make(chan error, 1)
		go func() { done <- p.Bootloader(t.Context()) }()
		last := func(n int) bool { d := c.Line(n).Driven; return len(d) > 0 && d[len(d)-1] }
		for _, at := range []struct {
			after      time.Duration
			nRST, boot bool
		}{{radioreset.Hold / 2, true, true}, {radioreset.Hold, false, true}, {look, false, false}} {
			time.Sleep(at.after)
			synctest.Wait()
			if last(nRST) != at.nRST || last(boot) != at.boot {
				t.Errorf("after %v more nRST is held %v, boot %v", at.after, last(nRST), last(boot))
			}
		}
		if err := <-done; err != nil || c.OpenFDs() != 0 {
			t.Errorf("%v, %d descriptors open", err, c.OpenFDs())
		}
		// Interrupted, it leaves nothing held.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Bootloader(ctx); err != nil || last(nRST) || last(boot) {
			t.Errorf("interrupted: %v, nRST %v, boot %v", err, last(nRST), last(boot))
		}
	})
}

func TestNoPin(t *testing.T) {
	b, _ := rtl8196e.ByID(rtl8196e.Lidl)
	p := Pins{radioreset.Line{Kernel: chip(b), Board: b}}
	if err := p.Bootloader(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("got %v", err)
	}
}

// The kernel's driver does it where there is one.
func TestByDriver(t *testing.T) {
	f := kernelbridgetest.New(t, false, "0", nil)
	f.Set("nrst_pulse", "")
	f.Set("blmode_pulse", "")
	d, err := kernelbridge.Detect(f.Root)
	if err != nil {
		t.Fatal(err)
	}
	p := Pins{radioreset.Line{Driver: d}}
	if err := errors.Join(p.Reset(t.Context()), p.Bootloader(t.Context())); err != nil {
		t.Error(err)
	}
	if f.Get(t, "nrst_pulse") != "1" || f.Get(t, "blmode_pulse") != "1" {
		t.Errorf("nrst_pulse %q, blmode_pulse %q", f.Get(t, "nrst_pulse"), f.Get(t, "blmode_pulse"))
	}
	driver := kernelbridgetest.NewDriver(true)
	driver.FailWrite("blmode_pulse", unix.ENODEV) // blmode_gpio is -1
	if err := (Pins{radioreset.Line{Driver: kernelbridge.Over(driver)}}).Bootloader(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("a board without the pin: %v", err)
	}
}
