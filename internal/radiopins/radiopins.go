//go:build linux

// Package radiopins moves the radio's two pins: nRST, which restarts it, and on some
// boards one that has it start in its bootloader. The kernel's bridge driver does
// it where there is one, since it holds the lines; else the GPIO character device.
// The lines are open drain: released, they float.
//
// Who moves them owns the UART (INV 5), or has the driver in charge.
package radiopins

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio"
	"gwinit/internal/kernelbridge"
)

// ErrNone means that the board has no such pin.
var ErrNone = errors.New("this board has no pin that starts the radio's bootloader")

// How long the lines are held: nRST as the kernel's driver does, and the other one so
// long after it that the chip has looked.
const (
	pulse = 100 * time.Millisecond
	look  = time.Second
)

// Pins are the radio's.
type Pins struct {
	Root   string // of the file system
	Kernel gpio.Kernel
	Board  rtl8196e.Board
	Driver *kernelbridge.Driver // nil where the kernel has none
}

// Reset restarts the radio. It blocks for 0.1 s.
func (p Pins) Reset(ctx context.Context) error {
	if p.Driver != nil {
		return p.Driver.PulseReset(ctx)
	}
	nRST, err := p.open(rtl8196e.LineRadioNRST)
	if err != nil {
		return err
	}
	defer nRST.Close()
	return hold(ctx, nRST, pulse)
}

// Bootloader restarts the radio into its bootloader. It blocks for 1.1 s. ErrNone
// where the board has no pin for that.
func (p Pins) Bootloader(ctx context.Context) error {
	if p.Driver != nil {
		err := p.Driver.PulseBootloader(ctx)
		if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) {
			return ErrNone
		}
		return err
	}
	if _, ok := p.Board.GPIO.Line(rtl8196e.LineRadioBoot); !ok {
		return ErrNone
	}
	boot, err := p.open(rtl8196e.LineRadioBoot)
	if err != nil {
		return err
	}
	defer boot.Close()
	nRST, err := p.open(rtl8196e.LineRadioNRST)
	if err != nil {
		return err
	}
	defer nRST.Close()
	err = boot.Set(true)
	if err == nil {
		err = hold(ctx, nRST, pulse)
	}
	if err == nil {
		pause(ctx, look)
	}
	return errors.Join(err, boot.Set(false))
}

func (p Pins) open(name string) (*gpio.Line, error) {
	want, ok := p.Board.GPIO.Line(name)
	if !ok {
		return nil, fmt.Errorf("this board's data has no line %s", name)
	}
	return gpio.Open(p.Kernel, p.Root, p.Board.GPIO, want, p.Board.ID != rtl8196e.Unknown, gpio.Output, 0, "gw radio")
}

// hold holds a line for d, or until ctx ends: it is released either way.
func hold(ctx context.Context, l *gpio.Line, d time.Duration) error {
	err := l.Set(true)
	if err == nil {
		pause(ctx, d)
	}
	return errors.Join(err, l.Set(false))
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
