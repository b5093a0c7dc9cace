//go:build linux

package panel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
	"gwinit/internal/radioreset"
)

// Timing of a reset of the radio.
const (
	releaseFor  = 30 * time.Second // the loan's deadline, if we die in between
	releaseWait = 10 * time.Second
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
		return s.told(s.resetLine(driver).Pulse(ctx, radioreset.Hold))
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
	return s.told(s.resetLine(driver).Pulse(ctx, radioreset.Hold))
}

func (s *Service) told(err error) error {
	if err != nil {
		return err
	}
	s.opt.Log("panel: the radio was reset")
	return nil
}

// resetLine is the radio's reset line.
func (s *Service) resetLine(driver *kernelbridge.Driver) radioreset.Line {
	return radioreset.Line{Root: s.opt.Root, Board: s.opt.Board, Kernel: s.opt.Kernel, Driver: driver}
}
