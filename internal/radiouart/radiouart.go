//go:build linux

// Package radiouart is how a process becomes the owner of the radio's UART
// (INV 5): the lock first, then the kernel's own bridge driver, which may still
// have UART and port from an owner that was killed, is disarmed. Whoever wants
// the UART takes it here: the bridge with either engine, OTBR, a radio
// operation. It opens no device.
package radiouart

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiolock"
)

// DisarmLimit bounds the wait for the kernel bridge: a pulse on a radio pin,
// during which the driver answers nobody, takes 1.2 s.
const DisarmLimit = 3 * time.Second

// UART is one process's way to the UART. Its methods are called by one
// goroutine at a time.
type UART struct {
	root     string
	driver   *kernelbridge.Driver // found once, so that one that hangs holds one goroutine
	disarmed bool
}

// New returns the UART of the box whose file system is at root, "" or "/" on
// the box.
func New(root string) *UART { return &UART{root: root} }

// With is New with a driver that was found already.
func With(root string, d *kernelbridge.Driver) *UART { return &UART{root: root, driver: d} }

// Held is the ownership of the UART.
type Held struct {
	// Driver is the kernel bridge, disarmed; nil where the kernel has none.
	Driver *kernelbridge.Driver
	lock   *radiolock.Lock
}

// Release gives the UART up. Who armed the driver disarms it first.
func (h *Held) Release() error { return h.lock.Release() }

// Take makes this process the owner, under that name. A UART that another
// process has is an error that wraps radiolock.ErrHeld, at once, and then the
// driver was not touched. It waits for the driver for DisarmLimit at most.
func (u *UART) Take(ctx context.Context, owner string) (*Held, error) {
	lock, err := radiolock.Acquire(u.root, owner)
	if err != nil {
		return nil, err
	}
	if err := u.disarm(ctx); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	return &Held{Driver: u.driver, lock: lock}, nil
}

func (u *UART) find() error {
	if u.driver != nil {
		return nil
	}
	d, err := kernelbridge.Detect(u.root)
	if err == nil {
		u.driver = d
	}
	return err
}

func (u *UART) disarm(ctx context.Context) error {
	if err := u.find(); err != nil {
		if errors.Is(err, kernelbridge.ErrAbsent) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, DisarmLimit)
	defer cancel()
	was, err := u.driver.Disarm(ctx)
	u.disarmed = u.disarmed || was // also when it was told so and stays armed
	return err
}

// Rearm gives the UART back to the driver if a Take has disarmed it, for a
// command that somebody tries on a kernel whose bridge is in use. The UART must
// not be held.
func (u *UART) Rearm(ctx context.Context) error {
	if !u.disarmed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, DisarmLimit)
	defer cancel()
	if err := u.driver.Arm(ctx); err != nil {
		return fmt.Errorf("give the radio back: %w", err)
	}
	u.disarmed = false
	return nil
}
