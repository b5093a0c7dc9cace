//go:build linux

package panel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gpio"
	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
)

// Timing of a reset of the radio. The pulse is as long as the kernel's driver
// makes it.
const (
	releaseFor  = 30 * time.Second // the loan's deadline, if we die in between
	releaseWait = 10 * time.Second
	pulse       = 100 * time.Millisecond
)

// lockName is who has the radio meanwhile.
const lockName = "reset by the button"

// resetRadio resets the radio by its reset line. With the driver in the kernel
// in charge, its client stays, as people know it. Else the bridge lends the UART,
// which ends its client's connection properly, and takes it back afterwards.
func (s *Service) resetRadio(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseFor)
	defer cancel()
	driver, derr := kernelbridge.Detect(s.opt.Root)
	if derr != nil && !errors.Is(derr, kernelbridge.ErrAbsent) {
		return derr
	}
	if driver != nil && s.kernelEngine() {
		return s.told(driver.PulseReset(ctx))
	}
	lent := s.opt.Box.Release(ctx, releaseFor)
	if lent == nil {
		defer func() {
			// Also at the end of the service: the radio is not left lying.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
			defer cancel()
			err = errors.Join(err, s.opt.Box.Take(ctx))
		}()
	}
	// A bridge that does not run has nothing to lend: then the lock tells.
	lock, err := radiolock.Acquire(s.opt.Root, lockName)
	if err != nil {
		return fmt.Errorf("the radio is not reset: %w", errors.Join(err, lent))
	}
	defer lock.Release()
	if driver != nil {
		return s.told(driver.PulseReset(ctx))
	}
	return s.told(s.pulse(ctx))
}

func (s *Service) told(err error) error {
	if err != nil {
		return fmt.Errorf("the radio is not reset: %w", err)
	}
	s.opt.Log("panel: the radio was reset")
	return nil
}

// pulse holds the radio's reset line.
func (s *Service) pulse(ctx context.Context) error {
	want, ok := s.opt.Board.GPIO.Line(rtl8196e.LineRadioNRST)
	if !ok {
		return errors.New("this board's data has no reset line")
	}
	line, err := gpio.Open(s.opt.Kernel, s.opt.Root, s.opt.Board.GPIO, want, s.opt.Board.ID != rtl8196e.Unknown, gpio.Output, 0, "gw radio reset")
	if err != nil {
		return err
	}
	defer line.Close()
	err = line.Set(true)
	if err == nil {
		t := time.NewTimer(pulse)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return errors.Join(err, line.Set(false))
}
