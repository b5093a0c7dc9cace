//go:build linux

package radioctl

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Passthrough is how port 8888 is for a while.
type Passthrough struct {
	Baud int
	Flow string
	For  time.Duration
	// Serve is the bridge at that rate, until ctx ends: its command, in a process of
	// its own.
	Serve func(ctx context.Context, baud int, flow string) error
}

// Passthrough serves port 8888 at another rate, raw, for a time or until ctx ends,
// and then has everything as it was: for flashers elsewhere, which cannot change the
// speed of a socket, and whose bootloader speaks 115200 baud without flow control
// whatever the firmware does.
func (b *Box) Passthrough(ctx context.Context, p Passthrough) (err error) {
	st, err := b.status(ctx)
	if err != nil {
		return err
	}
	var stopped []string
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
		defer cancel()
		for _, name := range stopped {
			if name == thread {
				err = errors.Join(err, b.followMode(ctx))
			} else {
				err = errors.Join(err, b.service(ctx, name, "start"))
			}
		}
		if err == nil {
			b.Say("everything is as it was")
		}
	}()
	for _, name := range []string{bridge, thread} {
		if s := find(st, name); s != nil && live(s.State) {
			// Before it is tried: who is interrupted in it starts it all the same.
			stopped = append(stopped, name)
			if err := b.service(ctx, name, "stop"); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.For)
	defer cancel()
	b.Say(fmt.Sprintf("port 8888 is the radio at %d baud, flow control %s, for %v or until ctrl-c", p.Baud, p.Flow, p.For))
	err = p.Serve(ctx, p.Baud, p.Flow)
	if ctx.Err() != nil {
		return nil // as it was to
	}
	if err == nil {
		err = errors.New("the bridge has ended by itself")
	}
	return err
}
