//go:build linux

package radioctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/radiochip"
	"gwinit/internal/radionote"
	"gwinit/internal/radioproto/gecko"
)

// lend is how long the bridge lends the radio for what takes less than a minute, and
// for an upload: a process that is killed leaves it so long.
const (
	lend       = 3 * time.Minute
	lendUpload = 20 * time.Minute
)

func answer(f radiochip.Found) api.RadioAnswer {
	return api.RadioAnswer{Kind: string(f.Kind), Firmware: f.Kind.Firmware(), Version: f.Version, Protocol: f.Protocol, Baud: f.Baud, Flow: f.Flow}
}

// Probe finds out what answers.
func (b *Box) Probe(ctx context.Context) (a api.RadioAnswer, err error) {
	h, err := b.take(ctx, "probe", lend)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, h.giveBack(ctx)) }()
	return h.probe(ctx)
}

func (h *held) probe(ctx context.Context) (api.RadioAnswer, error) {
	f, err := h.Chip.Probe(ctx, h.settings())
	if err == nil && f.Kind != radiochip.Bootloader {
		f, err = h.FlowOf(ctx, f, h.flow(ctx))
	}
	if err != nil {
		return api.RadioAnswer{}, wayBack(err)
	}
	a := answer(f)
	return a, radionote.Write(h.box.Root, a)
}

// wayBack adds what to do about a radio that does not answer.
func wayBack(err error) error {
	if errors.Is(err, radiochip.ErrNoAnswer) {
		err = fmt.Errorf("%w, whatever is tried: gwctl radio recover resets it; without power for a moment it starts anew, too", err)
	}
	return err
}

// Reset restarts the radio by its pin.
func (b *Box) Reset(ctx context.Context) (err error) {
	h, err := b.take(ctx, "reset", lend)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.giveBack(ctx)) }()
	return h.pins.Reset(ctx)
}

// Bootloader brings the radio into its bootloader, and returns the version.
func (b *Box) Bootloader(ctx context.Context) (a api.RadioAnswer, err error) {
	h, err := b.take(ctx, "bootloader", lend)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, h.giveBack(ctx)) }()
	v, err := h.Enter(ctx, h.pins, h.settings())
	if err != nil {
		return a, wayBack(err)
	}
	a = answer(radiochip.Found{Kind: radiochip.Bootloader, Version: v.String(), Setting: radiochip.Setting{Baud: gecko.Baud, Flow: config.FlowNone}})
	return a, radionote.Write(b.Root, a)
}

// recoverTries is how often a radio that does not answer is reset.
const recoverTries = 2

// Recover resets the radio until something answers.
func (b *Box) Recover(ctx context.Context) (a api.RadioAnswer, err error) {
	h, err := b.take(ctx, "recover", lend)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, h.giveBack(ctx)) }()
	for try := 1; ; try++ {
		b.Say("the radio is reset")
		if err := h.pins.Reset(ctx); err != nil {
			return a, err
		}
		if err := sleep(ctx, time.Second); err != nil { // it boots
			return a, err
		}
		a, err = h.probe(ctx)
		if !errors.Is(err, radiochip.ErrNoAnswer) || try == recoverTries {
			return a, err
		}
	}
}
