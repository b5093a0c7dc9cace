package radio

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/test/radio/ash"
	"gwinit/test/radio/ezsp"
	"gwinit/test/radio/gecko"
	"gwinit/test/radio/line"
	"gwinit/test/radio/zigbee"
)

// Stats is the chip from outside.
type Stats struct {
	Mode    string        `json:"mode"`
	Baud    int           `json:"baud"`
	Link    string        `json:"link"` // state of the ASH link
	Network bool          `json:"network"`
	Open    bool          `json:"open"`
	Devices int           `json:"devices"`
	Line    line.Counters `json:"line"`
	ASH     ash.Counters  `json:"ash"`
	Reports []Session     `json:"reports"`
	Next    int           `json:"next"` // number of the next report
	Paused  bool          `json:"paused"`
}

// Help lists the commands of Do.
const Help = `join                  the virtual device joins
report N [INTERVAL]   it sends N more reports, numbered on (none: as fast as the NCP takes them)
resume                reports go on that the end of the link has stopped
fault KIND N          the next N go wrong; KIND is noise (bytes), flip, rxflip, drop, ack (frames)
reset [CODE]          the chip restarts by itself, with a reset code (default 3, watchdog)
silence DURATION      nothing that it says arrives
stall DURATION        it takes no bytes
xoff [DURATION]       it sends a stray XOFF, and XON after that time (default never)
baud N                its UART's rate becomes N
wipe                  its flash is empty after a reset
form                  its flash holds the tests' network after a reset
mode [NAME]           which firmware runs; with a name, that one is in flash and started: ncp, rcp (CPC), otrcp (Spinel),
                      router, bootloader (what is in flash stays there)
bootloader            the chip restarts into its bootloader, as by its pin
loader KIND N         its bootloader goes wrong: nak (N blocks), noack (N blocks), power (at block N), cancel (at block N),
                      refuse (N uploads), mute (1 or 0)
chip                  what is in flash: application, version of the bootloader
stats                 counters`

// Do carries out one command line and returns what to tell.
func (s *Sim) Do(ctx context.Context, text string) (any, error) {
	var answer any
	var err error
	if cerr := s.call(ctx, func() { answer, err = s.command(strings.Fields(text)) }); cerr != nil {
		return nil, cerr
	}
	return answer, err
}

var errUsage = errors.New("unknown command or wrong arguments; try help")

func (s *Sim) command(f []string) (any, error) {
	if len(f) == 0 {
		return nil, errUsage
	}
	s.log("command %q", f)
	args := f[1:]
	switch {
	case f[0] == "help":
		return Help, nil
	case f[0] == "stats":
		return s.stats(), nil
	case f[0] == "join" && len(args) == 0:
		return nil, s.stack.Join(s.device)
	case f[0] == "report" && (len(args) == 1 || len(args) == 2):
		return s.startReports(args)
	case f[0] == "resume" && len(args) == 0:
		s.report.paused = false
		return nil, nil
	case f[0] == "fault" && len(args) == 2:
		return nil, s.fault(args[0], args[1])
	case f[0] == "reset" && len(args) <= 1:
		code := uint64(ash.ResetWatchdog)
		if len(args) == 1 {
			var err error
			if code, err = strconv.ParseUint(args[0], 0, 8); err != nil {
				return nil, err
			}
		}
		s.reset(uint8(code))
		return nil, nil
	case (f[0] == "silence" || f[0] == "stall") && len(args) == 1, f[0] == "xoff" && len(args) <= 1:
		var d time.Duration
		if len(args) == 1 {
			var err error
			if d, err = time.ParseDuration(args[0]); err != nil {
				return nil, err
			}
		}
		switch f[0] {
		case "silence":
			s.line.Silence(time.Now().Add(d))
		case "stall":
			s.stall(d)
		case "xoff":
			s.line.Send(time.Now(), []byte{ash.XOff})
			if d > 0 {
				s.after(d, false, func() { s.line.Send(time.Now(), []byte{ash.XOn}) })
			}
		}
		return nil, nil
	case f[0] == "baud" && len(args) == 1:
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 300 || n > 4_000_000 {
			return nil, fmt.Errorf("%q is not a rate of 300 to 4000000", args[0])
		}
		s.line.SetBaud(n)
		return nil, nil
	case f[0] == "wipe" && len(args) == 0:
		s.stack.Wipe()
		s.reset(ash.ResetPowerOn)
		return nil, nil
	case f[0] == "form" && len(args) == 0:
		s.stack.Wipe()
		s.state.Network = ezsp.DefaultNetwork()
		s.reset(ash.ResetPowerOn)
		return nil, s.save()
	case f[0] == "mode" && len(args) == 0:
		return s.mode, nil
	case f[0] == "mode" && len(args) == 1:
		switch args[0] {
		case kindNCP, kindRCP, kindOTRCP, kindRouter:
			s.flash.App = &gecko.App{Kind: args[0]}
			s.reset(ash.ResetPowerOn)
		case kindLoader:
			s.bootloader()
		default:
			return nil, fmt.Errorf("no firmware %q", args[0])
		}
		return nil, nil
	case f[0] == "bootloader" && len(args) == 0:
		s.bootloader()
		return nil, nil
	case f[0] == "loader" && len(args) == 2:
		return nil, s.loaderFault(args[0], args[1])
	case f[0] == "chip" && len(args) == 0:
		return s.flash, nil
	}
	return nil, errUsage
}

func (s *Sim) startReports(args []string) (any, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > 1<<20 {
		return nil, fmt.Errorf("%q is not a number of reports", args[0])
	}
	var interval time.Duration
	if len(args) == 2 {
		if interval, err = time.ParseDuration(args[1]); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(s.stack.Devices, func(d *zigbee.Node) bool { return d == s.device && !d.Left }) {
		return nil, errors.New("the virtual device has not joined")
	}
	r := &s.report
	r.last += n
	r.interval, r.at, r.paused = interval, time.Now(), false
	return map[string]int{"first": r.next, "last": r.last}, nil
}

func (s *Sim) fault(kind, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1<<16 {
		return fmt.Errorf("%q is not a count", count)
	}
	switch kind {
	case "noise":
		s.noise(n)
	case "flip":
		s.faults.flipTx = n
	case "rxflip":
		s.faults.flipRx = n
	case "drop":
		s.faults.drop = n
	case "ack":
		s.faults.ack = n
	default:
		return fmt.Errorf("no fault %q", kind)
	}
	return nil
}

func (s *Sim) loaderFault(kind, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > 1<<16 {
		return fmt.Errorf("%q is not a count", count)
	}
	f := &s.loader.Faults
	switch kind {
	case "nak":
		f.Nak = n
	case "noack":
		f.NoAck = n
	case "power":
		f.Power = n
	case "cancel":
		f.Cancel = n
	case "refuse":
		f.Refuse = n
	case "mute":
		f.Mute = n != 0
	default:
		return fmt.Errorf("no fault %q of the bootloader", kind)
	}
	return nil
}

func (s *Sim) stats() Stats {
	return Stats{
		Mode: s.mode, Baud: s.line.Baud(), Link: s.link.State().String(),
		Network: s.stack.Up(), Open: s.stack.Open(), Devices: len(s.stack.Devices),
		Line: s.line.Counters(), ASH: s.link.Counters,
		Reports: append([]Session{}, s.report.sessions...), Next: s.report.next, Paused: s.report.paused,
	}
}
