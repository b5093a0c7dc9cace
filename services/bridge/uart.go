//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/kernelbridge"
	"gwinit/internal/radiouart"
	"gwinit/internal/tty"
)

// Port is an open UART: *tty.Port, which describes the methods.
type Port interface {
	FD() int
	Baud() int
	Flow() tty.Flow
	Set(baud int, flow tty.Flow) error
	Unsent() (int, error)
	Idle() (bool, error)
	FlushOutput() error
	ResumeOutput() error
	Counts() (tty.Counts, error)
}

// OpenFunc opens the UART for the bridge. release gives it up again and closes
// the port; the bridge calls it once, from the goroutine that called OpenFunc.
type OpenFunc func(ctx context.Context) (p Port, release func(), err error)

// notOpen begins what is said of a UART that is not open.
const notOpen = "the UART is not open: "

// LockOwner is the bridge's name as an owner of the radio (INV 5).
const LockOwner = "bridge"

// DeviceOpener opens a UART as the box needs it: the radio's lock taken, the
// kernel bridge disarmed, then the port.
type DeviceOpener struct {
	Root   string // file-system root for sysfs and the lock
	Device string // path, used as it is
	Baud   int
	// Flow is none, sw or hw; "" means what the kernel bridge's driver says
	// the board is wired for, and DefaultFlow where there is no driver.
	Flow, DefaultFlow string
	// HardwareFlow tells whether RTS and CTS are wired. Where they are not,
	// hw is sw.
	HardwareFlow bool
	BaseBaud     int // see tty.Config

	way  *radiouart.UART // made at the first use
	wish *wish           // changes of Baud and Flow; nil: there are none
}

// Open is an OpenFunc.
func (d *DeviceOpener) Open(ctx context.Context) (Port, func(), error) {
	held, err := d.uart().Take(ctx, LockOwner) // INV 5
	if err != nil {
		return nil, nil, err
	}
	port, err := d.openPort(ctx, held)
	if err != nil {
		return nil, nil, errors.Join(err, held.Release())
	}
	return port, func() {
		// Neither error changes anything: both descriptors are gone.
		_ = port.Close()
		_ = held.Release()
	}, nil
}

func (d *DeviceOpener) openPort(ctx context.Context, held *radiouart.Held) (*tty.Port, error) {
	baud, name := d.wish.get(d.Baud, d.Flow)
	flow, err := d.flow(ctx, name, held.Driver)
	if err != nil {
		return nil, err
	}
	return tty.Open(d.Device, tty.Config{Baud: baud, Flow: flow, BaseBaud: d.BaseBaud})
}

// flow returns the flow control that a name of the field Flow means.
func (d *DeviceOpener) flow(ctx context.Context, name string, driver *kernelbridge.Driver) (tty.Flow, error) {
	switch {
	case name != "":
	case driver == nil:
		name = d.DefaultFlow
	default:
		ctx, cancel := context.WithTimeout(ctx, radiouart.DisarmLimit)
		defer cancel()
		var err error
		if name, err = driver.FlowControl(ctx); err != nil {
			return tty.FlowNone, err
		}
	}
	flow, err := tty.ParseFlow(name)
	if flow == tty.FlowHard && !d.HardwareFlow {
		flow = tty.FlowSoft
	}
	return flow, err
}

func (d *DeviceOpener) uart() *radiouart.UART {
	if d.way == nil {
		d.way = radiouart.New(d.Root)
	}
	return d.way
}

// freePort has the kernel bridge give up its port, which may be ours.
func (d *DeviceOpener) freePort(ctx context.Context) error {
	held, err := d.uart().Take(ctx, LockOwner)
	if err != nil {
		return err
	}
	return held.Release()
}

// Rearm gives the UART back to the kernel bridge if it was taken from there.
// Call it when nothing uses d any more.
func (d *DeviceOpener) Rearm(ctx context.Context) error { return d.uart().Rearm(ctx) }

// opener opens the UART, now and whenever the loop has lost it, until ctx
// ends. It is the only one that opens or closes a port, for both can block.
func (b *Bridge) opener(ctx context.Context) {
	lim := &b.o.Limits
	backoff := lim.ReopenMin
	reported := ""
	for {
		port, release, err := b.o.Open(ctx)
		opened := time.Now()
		if err == nil {
			reported = ""
			detail := fmt.Sprintf("%s at %d baud, flow control %s", b.o.UART, port.Baud(), port.Flow())
			taken, lost := make(chan struct{}), make(chan error, 1)
			if b.post(func(l *loop) { l.uartOpened(port, lost); close(taken) }) {
				select {
				case <-taken: // said only when a client can use it
					b.uartChanged(true, detail)
				case <-b.done:
				}
				select {
				case err = <-lost:
				case <-b.done:
				}
			}
			release()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			text := err.Error()
			if text != reported {
				reported = text
				b.o.Log(notOpen + text)
				b.uartChanged(false, notOpen+text)
			}
			b.post(func(l *loop) { l.uartErr, l.acceptAt, l.dirty = text, 0, true })
		}
		// One that lasted begins anew; one that breaks at once must not be
		// opened ten times a second for ever.
		if time.Since(opened) > lim.ReopenMax {
			backoff = lim.ReopenMin
		}
		pause := time.NewTimer(backoff)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return
		}
		backoff = min(2*backoff, lim.ReopenMax)
	}
}

func (b *Bridge) uartChanged(open bool, detail string) {
	b.uartMu.Lock()
	defer b.uartMu.Unlock()
	if b.o.UARTChanged != nil {
		b.o.UARTChanged(open, detail)
	}
}
