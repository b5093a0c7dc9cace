//go:build linux

// Package kernelbridge speaks to the in-kernel UART bridge of the incumbent
// firmware's kernel (driver rtl8196e_uart_bridge) through its parameters in
// sysfs.
//
// It finds the driver, arms and disarms it, sets it up, each setting read back
// and compared, and reads its counters. It decides nothing: the bridge's engine
// that runs on the driver does, and package radiouart whose the UART is. On a
// kernel without the driver everything says ErrAbsent.
//
// Reading or writing any parameter can block, for as long as another process
// pulses a radio pin (about 1.2 s): the functions therefore take a context and
// do each access in a goroutine that outlives them only while the driver hangs.
// There is one such goroutine at a time: the driver has one lock for all.
package kernelbridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Dir is the driver's parameter folder, below the file-system root.
const Dir = "sys/module/rtl8196e_uart_bridge/parameters"

// ErrAbsent means that this kernel has no such driver.
var ErrAbsent = errors.New("no kernel bridge in this kernel")

// ErrStillArmed means that the driver kept the UART although it was told to
// give it up.
var ErrStillArmed = errors.New("the kernel bridge stays armed")

// pollEvery is how often armed is read again after a write of enable: the
// driver's threads end within milliseconds, and a read is one exclusive lock.
const pollEvery = 10 * time.Millisecond

// Params are the driver's parameters, by their names. Values are text without
// a line end. Both methods may block.
type Params interface {
	Read(name string) (string, error)
	Write(name, value string) error
}

// Driver is the kernel bridge. Its methods may be called by several goroutines.
type Driver struct {
	params Params
	busy   chan struct{} // holds a token while an access is under way
}

// Over returns the driver with those parameters.
func Over(p Params) *Driver { return &Driver{params: p, busy: make(chan struct{}, 1)} }

// Detect returns the driver, or ErrAbsent. root is the file-system root, ""
// or "/" on the box.
func Detect(root string) (*Driver, error) {
	dir := filepath.Join("/", root, Dir)
	st, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("look for the kernel bridge: %w", err)
	}
	return Over(folder(dir)), nil
}

// Armed says whether the driver has the UART and its port.
func (d *Driver) Armed(ctx context.Context) (bool, error) {
	v, err := d.read(ctx, "armed")
	if err != nil {
		return false, err
	}
	switch v {
	case "1", "Y", "y":
		return true, nil
	case "0", "N", "n":
		return false, nil
	}
	return false, fmt.Errorf("read kernel bridge armed: %q is neither 0 nor 1", v)
}

// Disarm makes the driver give up the UART and its port, and returns whether
// it had them. It waits until armed reads 0, until ctx ends at most; then the
// error wraps ErrStillArmed and the context's error. The UART must not be
// opened after an error.
func (d *Driver) Disarm(ctx context.Context) (was bool, err error) {
	was, err = d.Armed(ctx)
	if err != nil || !was {
		return was, err
	}
	return true, d.enable(ctx, "0", false)
}

// Arm makes the driver take the UART and its port with the settings it has.
func (d *Driver) Arm(ctx context.Context) error { return d.enable(ctx, "1", true) }

func (d *Driver) enable(ctx context.Context, value string, want bool) error {
	if err := d.write(ctx, "enable", value); err != nil {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for seen := false; ; seen = true {
		armed, err := d.Armed(ctx)
		switch {
		case err != nil && (!seen || ctx.Err() == nil):
			return err
		case err == nil && armed == want:
			return nil
		}
		// The time may also end in the middle of a reading after others.
		select {
		case <-ctx.Done():
			if want {
				return fmt.Errorf("arm the kernel bridge: armed reads 0: %w", ctx.Err())
			}
			return fmt.Errorf("%w: %w", ErrStillArmed, ctx.Err())
		case <-tick.C:
		}
	}
}

// FlowControl returns the driver's flow control as configuration names it:
// none, sw or hw. The driver seeds it from the device tree, so it is what the
// board is wired for.
func (d *Driver) FlowControl(ctx context.Context) (string, error) {
	v, err := d.read(ctx, "flow_control")
	if err != nil {
		return "", err
	}
	for name, number := range flowNumbers {
		if v == number {
			return name, nil
		}
	}
	return "", fmt.Errorf("read kernel bridge flow_control: %q is not 0, 1 or 2", v)
}

// SetLED sets how bright the status LED is from the next connect of a client
// on, 0 to 255.
func (d *Driver) SetLED(ctx context.Context, brightness int) error {
	return d.write(ctx, "status_led_brightness", strconv.Itoa(brightness))
}

// PulseReset resets the radio by its reset line, for 100 ms, and returns when
// that is done. The driver's client stays.
func (d *Driver) PulseReset(ctx context.Context) error { return d.write(ctx, "nrst_pulse", "1") }

// PulseBootloader resets the radio with its bootloader's pin held, and returns when
// that is released, after 1.1 s. On a board without the pin the error wraps
// unix.ENODEV.
func (d *Driver) PulseBootloader(ctx context.Context) error { return d.write(ctx, "blmode_pulse", "1") }

func (d *Driver) read(ctx context.Context, name string) (string, error) {
	return d.within(ctx, "read kernel bridge "+name, func() (string, error) { return d.params.Read(name) })
}

func (d *Driver) write(ctx context.Context, name, value string) error {
	_, err := d.within(ctx, "write kernel bridge "+name+"="+value, func() (string, error) {
		return "", d.params.Write(name, value)
	})
	return err
}

// within runs a system call that cannot be interrupted and gives up waiting
// for it, or for its turn, when ctx ends.
func (d *Driver) within(ctx context.Context, op string, f func() (string, error)) (string, error) {
	type result struct {
		v   string
		err error
	}
	done := make(chan result, 1) // buffered: a late answer must not hold its goroutine
	select {
	case d.busy <- struct{}{}:
		go func() {
			v, err := f()
			<-d.busy
			done <- result{v, err}
		}()
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		if r.err != nil {
			return "", fmt.Errorf("%s: %w", op, r.err)
		}
		return r.v, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%s: the driver does not answer: %w", op, ctx.Err())
	}
}

// folder is Params in sysfs.
type folder string

func (dir folder) Read(name string) (string, error) {
	b, err := os.ReadFile(filepath.Join(string(dir), name))
	return strings.TrimSpace(string(b)), err
}

func (dir folder) Write(name, value string) error {
	// Truncated as a shell's > does, which sysfs ignores.
	f, err := os.OpenFile(filepath.Join(string(dir), name), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}
