//go:build linux

// Package radioctl is what gwctl radio does on the gateway beyond asking: it takes
// the radio from whoever has it, resets it, finds out what runs on it, installs
// firmware, writes that down in radio.conf, and gives the radio to the service that
// it is for. It is a command that somebody runs, and no service that stays.
//
// Who has the radio gives it up in an orderly way: the bridge lends it for a time
// (internal/radiolock), which ends by itself if this process does; the Thread border
// router is stopped. The lock of the UART decides (INV 5).
package radioctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/gpio"
	"gwinit/internal/radiochip"
	"gwinit/internal/radiolock"
	"gwinit/internal/radiopins"
	"gwinit/internal/radioreset"
	"gwinit/internal/radiouart"
	"gwinit/internal/tty"
	"gwinit/internal/wait"
)

// The services that have the radio, and the names under which they do.
const (
	bridge = "bridge"
	thread = "otbr"
	core   = "core"
)

// Box is the gateway.
type Box struct {
	Root   string // of the file system, "" on the box
	Board  rtl8196e.Board
	Kernel gpio.Kernel
	// Ask sends a request to PID 1 (docs/control.md).
	Ask func(ctx context.Context, op string, args any) (json.RawMessage, error)
	// Say tells a person what happens.
	Say func(text string)
}

const (
	// handOver is how long the radio may take to change hands: a bridge tries every
	// 5 s at most, and its service may be restarted first.
	handOver = 20 * time.Second
	poll     = 100 * time.Millisecond
	// giveBack bounds that after an operation that was ended.
	giveBack = 40 * time.Second
)

// held is the radio in this process's hands.
type held struct {
	*radiochip.Chip
	box    *Box
	uart   *radiouart.Held
	port   *tty.Port
	pins   radiochip.Pins
	radio  config.Radio
	lent   bool // by the bridge
	thread bool // the border router was stopped
}

// pins are radiochip's.
type pins struct{ radiopins.Pins }

// Bootloader implements radiochip.Pins.
func (p pins) Bootloader(ctx context.Context) error {
	err := p.Pins.Bootloader(ctx)
	if errors.Is(err, radiopins.ErrNone) {
		return radiochip.ErrNoPin
	}
	return err
}

// take gets the radio from whoever has it, as name, for d at most where the bridge
// lends it.
func (b *Box) take(ctx context.Context, name string, d time.Duration) (h *held, err error) {
	st, err := b.status(ctx)
	if err != nil {
		return nil, err
	}
	h = &held{box: b}
	h.radio, _ = config.LoadRadio(b.Root, b.Board)
	defer func() {
		if err != nil {
			err = errors.Join(err, h.giveBack(ctx))
		}
	}()
	if s := find(st, thread); s != nil && live(s.State) {
		b.Say("the Thread border router is stopped meanwhile")
		h.thread = true
		if err := b.service(ctx, thread, "stop"); err != nil {
			return h, err
		}
	}
	if s := find(st, bridge); s != nil && live(s.State) {
		params, err := json.Marshal(api.ReleaseParams{Seconds: d.Seconds()})
		if err != nil {
			return h, err
		}
		_, err = b.Ask(ctx, api.OpCall, api.CallArgs{Service: bridge, Method: "release", Params: params})
		var told *api.Error
		if err != nil && !errors.As(err, &told) {
			return h, err
		}
		// One that has not the radio, in Thread mode, refuses; then the lock tells.
		h.lent = err == nil
	}
	uart := radiouart.New(b.Root)
	for end := time.Now().Add(handOver); ; {
		if h.uart, err = uart.Take(ctx, name); err == nil {
			break
		}
		if !errors.Is(err, radiolock.ErrHeld) || time.Now().After(end) {
			return h, err
		}
		if err := sleep(ctx, poll); err != nil {
			return h, err
		}
	}
	h.pins = pins{radiopins.Pins{Line: radioreset.Line{Root: b.Root, Kernel: b.Kernel, Board: b.Board, Driver: h.uart.Driver}}}
	h.port, err = tty.Open(b.Board.Radio.Device, tty.Config{Baud: 115200, BaseBaud: b.Board.Radio.BaseBaud})
	if err != nil {
		return h, err
	}
	h.Chip = radiochip.New(&line{port: h.port, baud: 115200}, b.Say)
	return h, nil
}

// giveBack gives the radio to whoever had it. It also does so when ctx has ended.
func (h *held) giveBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBack)
	defer cancel()
	err := h.close()
	if h.lent {
		_, e := h.box.Ask(ctx, api.OpCall, api.CallArgs{Service: bridge, Method: "take"})
		err = errors.Join(err, e)
	}
	if h.thread {
		err = errors.Join(err, h.box.followMode(ctx))
	}
	if err != nil {
		return fmt.Errorf("give the radio back: %w", err)
	}
	return nil
}

// close leaves the UART, whose next owner finds what it has set up itself.
func (h *held) close() (err error) {
	if h.port != nil {
		err = h.port.Close()
		h.port = nil
	}
	if h.uart != nil {
		err = errors.Join(err, h.uart.Release())
		h.uart = nil
	}
	return err
}

func (b *Box) status(ctx context.Context) (st api.Status, err error) {
	data, err := b.Ask(ctx, api.OpStatus, nil)
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	return st, err
}

func (b *Box) service(ctx context.Context, name, action string) error {
	_, err := b.Ask(ctx, api.OpService, api.ServiceArgs{Name: name, Action: action})
	return err
}

// followMode has the border router run or not, as MODE says, without waiting until it
// is ready. One that cannot run says so, and is no failure of a radio operation.
func (b *Box) followMode(ctx context.Context) error {
	err := b.service(ctx, thread, "try-restart")
	var told *api.Error
	if errors.As(err, &told) {
		if told.Code != api.CodeNotFound { // this gateway has none
			b.Say(told.Message)
		}
		return nil
	}
	return err
}

func find(st api.Status, name string) *api.Service {
	for i := range st.Services {
		if st.Services[i].Name == name {
			return &st.Services[i]
		}
	}
	return nil
}

// live tells whether a service runs, or will by itself.
func live(state string) bool {
	return state == "running" || state == "starting" || state == "backoff" || state == "waiting"
}

func sleep(ctx context.Context, d time.Duration) error {
	wait.For(ctx, d)
	return ctx.Err()
}

// settings are where firmware may answer: what radio.conf says first, without flow
// control, which the radio does not need for a few bytes and which may hold up
// everything where nobody drives CTS.
func (h *held) settings(more ...int) (all []radiochip.Setting) {
	for _, baud := range append(append(more, h.radio.Baud), radiochip.Bauds()...) {
		if s := (radiochip.Setting{Baud: baud, Flow: config.FlowNone}); baud > 0 && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// flow is what flow control the board has: as radio.conf says, or the kernel, or the
// board's data.
func (h *held) flow(ctx context.Context) string {
	if h.radio.Flow != "" {
		return h.radio.Flow
	}
	return h.boardFlow(ctx)
}

func (h *held) boardFlow(ctx context.Context) string {
	if d := h.uart.Driver; d != nil {
		ctx, cancel := context.WithTimeout(ctx, kernelLimit)
		defer cancel()
		if f, err := d.FlowControl(ctx); err == nil {
			return f
		}
	}
	return h.box.Board.Radio.Flow
}

// kernelLimit bounds a look at the kernel's driver.
const kernelLimit = 2 * time.Second
