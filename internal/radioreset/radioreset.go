//go:build linux

// Package radioreset resets the radio by its reset line (nRST): by the kernel's
// bridge driver where there is one, which has the line then, else by the GPIO
// character device. It takes no lock: who resets the radio owns its UART, or
// asks nobody, as the driver's own client is asked by nobody (INV 5).
package radioreset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/wait"
)

// Hold is for how long the line is held: as long as the kernel's driver does.
const Hold = 100 * time.Millisecond

// ErrFailed is wrapped by every error.
var ErrFailed = errors.New("the radio is not reset")

// Line is the reset line of a box.
type Line struct {
	Root   string // file-system root, "" on the box
	Board  rtl8196e.Board
	Kernel gpio.Kernel          // nil: the box's
	Driver *kernelbridge.Driver // nil: the kernel has none
}

// Pulse holds the line for hold, or for as long as the driver does, which takes
// no time. It waits for that long, or until ctx ends.
func (l Line) Pulse(ctx context.Context, hold time.Duration) error {
	err := l.pulse(ctx, hold)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (l Line) pulse(ctx context.Context, hold time.Duration) error {
	if l.Driver != nil {
		return l.Driver.PulseReset(ctx)
	}
	want, ok := l.Board.GPIO.Line(rtl8196e.LineRadioNRST)
	if !ok {
		return errors.New("this board's data has no reset line")
	}
	if l.Kernel == nil {
		l.Kernel = gpio.System{}
	}
	line, err := gpio.Open(l.Kernel, l.Root, l.Board.GPIO, want, l.Board.ID != rtl8196e.Unknown, gpio.Output, 0, "gw radio reset")
	if err != nil {
		return err
	}
	defer line.Close()
	err = line.Set(true)
	if err == nil {
		wait.For(ctx, hold)
	}
	return errors.Join(err, line.Set(false))
}
