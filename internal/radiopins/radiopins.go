//go:build linux

// Package radiopins moves the radio's two pins: nRST, which restarts it (package
// radioreset), and on some boards one that has it start in its bootloader. The
// kernel's bridge driver does it where there is one, since it holds the lines; else
// the GPIO character device. The lines are open drain: released, they float.
//
// Who moves them owns the UART (INV 5), or has the driver in charge.
package radiopins

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio"
	"gwinit/internal/radioreset"
	"gwinit/internal/wait"
)

// ErrNone means that the board has no such pin.
var ErrNone = errors.New("this board has no pin that starts the radio's bootloader")

// look is how long the bootloader's pin is held after a reset: the chip has looked
// at it then.
const look = time.Second

// Pins are the radio's, with its reset line.
type Pins struct{ radioreset.Line }

// Reset restarts the radio. It blocks for 0.1 s.
func (p Pins) Reset(ctx context.Context) error { return p.Pulse(ctx, radioreset.Hold) }

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
	want, ok := p.Board.GPIO.Line(rtl8196e.LineRadioBoot)
	if !ok {
		return ErrNone
	}
	boot, err := gpio.Open(p.Kernel, p.Root, p.Board.GPIO, want, p.Board.ID != rtl8196e.Unknown, gpio.Output, 0, "gw radio")
	if err != nil {
		return err
	}
	defer boot.Close()
	err = boot.Set(true)
	if err == nil {
		err = p.Reset(ctx)
	}
	if err == nil {
		wait.For(ctx, look)
	}
	return errors.Join(err, boot.Set(false))
}
