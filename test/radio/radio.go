// Package radio is a simulated EFR32 with network co-processor firmware: what
// a Zigbee client finds behind the gateway's UART.
//
// A Sim is the chip. Its firmware (ASH and EZSP, packages ash and ezsp) sits
// on a line with a baud rate (package line) that a transport is attached to,
// and hears one virtual device (package zigbee). What it remembers over resets
// is a state file. Faults are injected by commands (Do), which tests and the
// program sim pass on.
//
// Its flash holds one application and a Gecko bootloader (package gecko), through
// which another one is installed.
//
// The chip is not modelled below the frames: no radio waves, no routing, no
// encryption.
package radio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"gwinit/internal/atomicfile"
	"gwinit/test/radio/ash"
	"gwinit/test/radio/ezsp"
	"gwinit/test/radio/gecko"
	"gwinit/test/radio/line"
	"gwinit/test/radio/zigbee"
)

// Firmware is what runs on the chip. All calls come from one goroutine. Other
// firmware (an RCP, the bootloader) is another Firmware in Sim's table.
type Firmware interface {
	// Boot starts it; code is why the chip was reset (ash.Reset...).
	Boot(code uint8)
	// Shutdown ends it; it says nothing more.
	Shutdown()
	// Write takes bytes from the line.
	Write(now time.Time, p []byte)
	// Tick acts on timers that have run out.
	Tick(now time.Time)
	// Deadline is when Tick wants to be called.
	Deadline() (time.Time, bool)
}

// Options set a Sim up.
type Options struct {
	Line line.Config
	// StateFile keeps the NCP's flash; "" keeps it in memory.
	StateFile string
	// Form puts ezsp.DefaultNetwork into a state file that is new or empty.
	Form bool
	// BootDelay is how long the chip is deaf after a reset.
	BootDelay time.Duration
	// Seed makes the injected faults repeatable.
	Seed uint64
	// Log, if not nil, gets a line per event.
	Log func(format string, args ...any)
}

// DefaultOptions returns a radio at 115200 baud without a network. 100 ms to
// boot is short for the chip; it is longer than any timer that must survive it.
func DefaultOptions() Options {
	return Options{Line: line.DefaultConfig(), BootDelay: 100 * time.Millisecond, Seed: 1}
}

// The virtual device and the chip's own address.
const (
	DeviceEUI64 = 0x00124B00CAFE0001
	DeviceAddr  = 0x4A3C
	ChipEUI64   = 0x00124B0011223344
)

type timer struct {
	at       time.Time
	fn       func()
	volatile bool // a reset of the chip cancels it
}

// Sim is the chip. Run owns everything in it.
type Sim struct {
	opt  Options
	line *line.Line
	rx   chan []byte
	do   chan func()
	done chan struct{} // closed when Run has ended

	modes  map[string]Firmware
	mode   string // which of them runs, or starts
	flash  gecko.Flash
	loader *gecko.Loader
	stay   bool // the next reset ends in the bootloader

	adaptive bool
	link     *ash.NCP
	stack    *ezsp.NCP
	state    ezsp.State
	device   *zigbee.Node
	timers   []timer
	faults   faults
	report   reports
	rnd      *rand.Rand
}

// New returns a Sim with the state file's content. It does not run yet.
func New(opt Options) (*Sim, error) {
	s := &Sim{
		opt: opt, line: line.New(opt.Line),
		rx: make(chan []byte), do: make(chan func()), done: make(chan struct{}),
		rnd:    rand.New(rand.NewPCG(opt.Seed, 0)),
		device: zigbee.NewSensor(DeviceEUI64, DeviceAddr),
		state:  ezsp.State{EUI64: ChipEUI64},
		report: reports{next: 1},
	}
	if opt.StateFile != "" {
		b, err := os.ReadFile(opt.StateFile)
		if err == nil && len(b) > 0 {
			err = json.Unmarshal(b, &s.state)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("state file %s: %w", opt.StateFile, err)
		}
	}
	if opt.Form && s.state.Network == nil {
		s.state.Network = ezsp.DefaultNetwork()
	}
	s.newNCP()
	for _, d := range s.state.Devices {
		if uint64(d.EUI64) == s.device.EUI64 {
			s.stack.Devices = append(s.stack.Devices, s.device)
		}
	}
	s.firmwares()
	if err := s.save(); err != nil {
		return nil, err
	}
	return s, nil
}

// ncp is the network co-processor firmware.
type ncp struct{ s *Sim }

func (n ncp) Boot(code uint8) {
	n.s.stack.Boot()
	n.s.link.Boot(code)
}
func (n ncp) Shutdown()                     { n.s.link.Shutdown() }
func (n ncp) Write(now time.Time, p []byte) { n.s.link.Write(now, p) }
func (n ncp) Tick(now time.Time)            { n.s.link.Tick(now) }
func (n ncp) Deadline() (time.Time, bool)   { return n.s.link.Deadline() }

func (s *Sim) newNCP() {
	s.link = ash.NewNCP(ash.DefaultConfig())
	s.link.Out = s.transmit
	s.link.Receive = func(p []byte) { s.stack.Handle(p) }
	s.link.Reset = func() { s.reset(ash.ResetSoftware) }
	s.stack = ezsp.New(ezsp.DefaultConfig(), &s.state)
	s.stack.Respond = func(f []byte) { s.link.Respond(time.Now(), f) }
	s.stack.Callback = func(f []byte, acked func(bool)) bool { return s.link.Callback(time.Now(), f, acked) }
	s.stack.Later = func(d time.Duration, fn func()) { s.after(d, true, fn) }
	s.stack.Reset = func() { s.reset(ash.ResetSoftware) }
	s.stack.Bootloader = s.bootloader
	s.stack.Changed = func() {
		if err := s.save(); err != nil {
			s.log("%v", err)
		}
	}
	s.stack.Boot()
}

func (s *Sim) log(format string, args ...any) {
	if s.opt.Log != nil {
		s.opt.Log(format, args...)
	}
}

func (s *Sim) save() error {
	if s.opt.StateFile == "" {
		return nil
	}
	b, err := json.MarshalIndent(&s.state, "", "\t")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.opt.StateFile, append(b, '\n'), 0o644)
}

// Line is the wire, for its baud rates and counters.
func (s *Sim) Line() *line.Line { return s.line }

func (s *Sim) after(d time.Duration, volatile bool, fn func()) {
	s.timers = append(s.timers, timer{time.Now().Add(d), fn, volatile})
}

// reset restarts the chip, into the firmware of the present mode.
func (s *Sim) reset(code uint8) {
	s.log("reset, code %#02x", code)
	s.modes[s.mode].Shutdown()
	s.line.Drop()
	s.timers = slices.DeleteFunc(s.timers, func(t timer) bool { return t.volatile })
	s.choose()
	s.after(s.opt.BootDelay, true, func() { s.modes[s.mode].Boot(code) })
}

// Run is the chip's life: it powers up, and runs until ctx ends.
func (s *Sim) Run(ctx context.Context) error {
	defer close(s.done)
	s.reset(ash.ResetPowerOn)
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		fw := s.modes[s.mode]
		at, timed := fw.Deadline()
		for _, t := range s.timers {
			if !timed || t.at.Before(at) {
				at, timed = t.at, true
			}
		}
		if next, ok := s.reportDeadline(); ok && (!timed || next.Before(at)) {
			at, timed = next, true
		}
		if timed {
			wake.Reset(time.Until(at))
		} else {
			wake.Stop()
		}
		select {
		case <-ctx.Done():
			return nil
		case p := <-s.rx:
			s.receive(p)
		case fn := <-s.do:
			fn()
		case <-wake.C:
			now := time.Now()
			for i := 0; i < len(s.timers); i++ {
				if t := s.timers[i]; !t.at.After(now) {
					s.timers = slices.Delete(s.timers, i, i+1)
					t.fn()
					i = -1 // fn may have changed the list
				}
			}
			s.modes[s.mode].Tick(now)
		}
		s.pumpReports()
	}
}

// Attach connects a transport to the line, until ctx or the transport ends;
// the chip neither knows nor cares. Run must be running.
func (s *Sim) Attach(ctx context.Context, port line.Port) error {
	return s.line.Attach(ctx, port, func(p []byte) {
		select {
		case s.rx <- slices.Clone(p):
		case <-ctx.Done():
		case <-s.done:
		}
	})
}

// call runs fn on Run's goroutine.
func (s *Sim) call(ctx context.Context, fn func()) error {
	ready := make(chan struct{})
	select {
	case s.do <- func() { fn(); close(ready) }:
		<-ready
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errors.New("radio: not running")
	}
}
