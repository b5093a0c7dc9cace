//go:build linux

package kernelbridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Limits of the driver's parameters.
const (
	MinBaud   = 1200
	MaxBaud   = 4_000_000
	maxTTYLen = 63
)

// flowNumbers are the names that configuration has for what the driver reads
// as a number, whatever was written.
var flowNumbers = map[string]string{flowNone: "0", flowHard: "1", flowSoft: "2"}

const (
	flowNone = "none"
	flowHard = "hw"
	flowSoft = "sw"
)

// ErrSettings means that the driver cannot be had with such settings at all.
var ErrSettings = errors.New("the kernel bridge cannot do that")

// Settings are what the driver does when it is armed.
type Settings struct {
	TTY  string     // device path
	Baud int        // bit/s, MinBaud to MaxBaud
	Flow string     // none, sw, hw; "": as it is, which the device tree seeded
	Bind netip.Addr // the zero Addr: every IPv4 address; IPv6 it has not
	Port uint16
}

// Check says, with ErrSettings, what of s the driver cannot do.
func (s Settings) Check() error {
	_, known := flowNumbers[s.Flow]
	switch {
	case s.TTY == "" || len(s.TTY) > maxTTYLen:
		return fmt.Errorf("%w: the UART's path %q has not 1 to %d bytes", ErrSettings, s.TTY, maxTTYLen)
	case s.Baud < MinBaud || s.Baud > MaxBaud:
		return fmt.Errorf("%w: %d baud; it takes %d to %d", ErrSettings, s.Baud, MinBaud, MaxBaud)
	case s.Flow != "" && !known:
		return fmt.Errorf("%w: flow control %q; it takes none, sw and hw", ErrSettings, s.Flow)
	case s.Bind.IsValid() && !s.Bind.Unmap().Is4():
		return fmt.Errorf("%w: listen on %s; it has IPv4 only", ErrSettings, s.Bind)
	case s.Port == 0:
		return fmt.Errorf("%w: port 0", ErrSettings)
	}
	return nil
}

// Address is what the driver listens on.
func (s Settings) Address() netip.AddrPort {
	a := netip.IPv4Unspecified()
	if s.Bind.IsValid() {
		a = s.Bind.Unmap()
	}
	return netip.AddrPortFrom(a, s.Port)
}

// Configure gives the driver its settings, disarmed or armed, and returns the
// flow control that came of it: none, sw or hw. What it has already is not
// written. Each is read back: one that is not what was asked is an error, but
// for hw on a board whose device tree has no RTS and CTS, where the driver takes
// sw. While it is armed a change is made on the open port, and on a failure the
// driver goes back to what it had, or is disarmed when it cannot.
func (d *Driver) Configure(ctx context.Context, s Settings) (flow string, err error) {
	if err := s.Check(); err != nil {
		return "", err
	}
	at := s.Address()
	for _, p := range [...]struct{ name, value string }{
		{"tty", s.TTY},
		{"baud", strconv.Itoa(s.Baud)},
		{"flow_control", flowNumbers[s.Flow]},
		{"bind_addr", at.Addr().String()},
		{"port", strconv.Itoa(int(s.Port))},
	} {
		if p.value == "" {
			continue
		}
		if err := d.set(ctx, p.name, p.value); err != nil {
			return "", err
		}
	}
	return d.FlowControl(ctx)
}

// set writes one parameter and reads it back.
func (d *Driver) set(ctx context.Context, name, value string) error {
	has, err := d.read(ctx, name)
	if err != nil || has == value {
		return err
	}
	if err := d.write(ctx, name, value); err != nil {
		return err
	}
	has, err = d.read(ctx, name)
	switch {
	case err != nil:
		return err
	case has == value, name == "flow_control" && value == flowNumbers[flowHard] && has == flowNumbers[flowSoft]:
		return nil
	}
	return fmt.Errorf("write kernel bridge %s=%s: it reads %.64q afterwards", name, value, has)
}

// SetFlow gives the driver a flow control: none, sw or hw.
func (d *Driver) SetFlow(ctx context.Context, flow string) error {
	number, ok := flowNumbers[flow]
	if !ok {
		return fmt.Errorf("%w: flow control %q", ErrSettings, flow)
	}
	return d.set(ctx, "flow_control", number)
}

// Stats are the driver's counters, since it was armed.
type Stats struct {
	Rx, Tx          uint64 // bytes: UART to TCP, TCP to UART
	DropsNoClient   uint64 // bytes from the radio while nobody was connected
	DropsErr        uint64 // bytes from the radio that the client's socket did not take
	DropsTx         uint64 // bytes to the radio that the UART did not take
	XOFF, XON       uint64 // from the radio, with software flow control
	TxPauseTimeouts uint64 // an XOFF that held for more than 1 s and was undone
}

// statNames are the driver's names of the counters, in the order of fields.
var statNames = [...]string{"rx", "tx", "drops_nocli", "drops_err", "drops_tx", "xoff", "xon", "tx_pause_timeouts"}

func (s *Stats) fields() [len(statNames)]*uint64 {
	return [...]*uint64{&s.Rx, &s.Tx, &s.DropsNoClient, &s.DropsErr, &s.DropsTx, &s.XOFF, &s.XON, &s.TxPauseTimeouts}
}

// Stats reads the counters.
func (d *Driver) Stats(ctx context.Context) (Stats, error) {
	line, err := d.read(ctx, "stats")
	if err != nil {
		return Stats{}, err
	}
	return ParseStats(line)
}

// ErrStats is a line of counters that is not understood.
var ErrStats = errors.New("not the kernel bridge's counters")

// ParseStats reads the driver's line of counters, such as
//
//	rx=12 tx=3 drops_nocli=0 drops_err=0 drops_tx=0 xoff=0 xon=0 tx_pause_timeouts=0
//
// Names are only ever added to it. Unknown ones are ignored; rx and tx must be
// there, and the others are 0 where a driver does not have them.
func ParseStats(line string) (Stats, error) {
	var s Stats
	fields := s.fields()
	for f := range strings.FieldsSeq(line) {
		name, value, ok := strings.Cut(f, "=")
		at := slices.Index(statNames[:], name)
		if ok && at < 0 {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil || fields[at] == nil { // a second one is no counter
			return Stats{}, fmt.Errorf("%w: %.40q in %.200q", ErrStats, f, line)
		}
		*fields[at], fields[at] = n, nil
	}
	if fields[0] != nil || fields[1] != nil {
		return Stats{}, fmt.Errorf("%w: no rx or tx in %.200q", ErrStats, line)
	}
	return s, nil
}

// Since returns how far s is from an earlier reading of the same arming, and
// false when a counter went back: the driver was armed anew in between.
func (s Stats) Since(before Stats) (Stats, bool) {
	was := before.fields()
	for i, v := range s.fields() {
		if *v < *was[i] {
			return Stats{}, false
		}
		*v -= *was[i]
	}
	return s, true
}

// Plus returns the sum.
func (s Stats) Plus(t Stats) Stats {
	more := t.fields()
	for i, v := range s.fields() {
		*v += *more[i]
	}
	return s
}
