package radiochip

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"gwinit/internal/radioproto/ash"
	"gwinit/internal/radioproto/cpc"
	"gwinit/internal/radioproto/ezsp"
	"gwinit/internal/radioproto/hdlc"
	"gwinit/internal/radioproto/spinel"
)

// How long answers are waited for.
const (
	// rstackWait: a chip boots before it answers RST. These take 1 s; two tries are
	// UG101's T_RSTACK_MAX.
	rstackWait = 1600 * time.Millisecond
	answerWait = 700 * time.Millisecond // of a firmware that runs
	tries      = 2
)

// ashLink is the host's end of an ASH link with one frame at a time.
type ashLink struct {
	c      *Chip
	in     ash.Receiver
	tx, rx uint8 // number of the next frame to send, and of the next one expected
	seq    uint8 // of EZSP
}

// ezsp starts a link, asks the version of NCP and stack, and returns the link.
func (c *Chip) ezsp(ctx context.Context, f *Found) (*ashLink, error) {
	l := &ashLink{c: c}
	rst := ash.Append([]byte{ash.Cancel}, ash.ControlRst, nil)
	ok, err := c.ask(ctx, tries, rstackWait, func(int) []byte { return rst }, func(p []byte) bool {
		for len(p) > 0 {
			n, fr, _, ok := l.in.Next(p)
			if p = p[n:]; ok && fr.Kind == ash.RstAck {
				return true
			}
		}
		return false
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	if err != nil {
		return nil, err
	}
	// In the form of all versions first; the answer names the one to speak.
	p, err := l.command(ctx, 0, ezsp.Version, 4)
	if err == nil && len(p) >= 4 && p[0] != 4 {
		f.Protocol = int(p[0])
		p, err = l.command(ctx, p[0], ezsp.Version, p[0])
	}
	if err != nil {
		return nil, err
	}
	if len(p) < 4 {
		return nil, fmt.Errorf("%w: what it says of its version is too short", ErrNoAnswer)
	}
	f.Protocol, f.Version = int(p[0]), ezsp.StackVersion(binary.LittleEndian.Uint16(p[2:]))
	return l, nil
}

// command sends one EZSP command and returns the parameters of its response.
func (l *ashLink) command(ctx context.Context, version uint8, id uint16, params ...byte) (answer []byte, err error) {
	seq := l.seq
	l.seq++
	frm := l.tx
	l.tx = (l.tx + 1) & 7
	taken, nak := false, false
	for try := range 4 {
		out := ash.Append(nil, ash.ControlData(frm, l.rx, try > 0), ezsp.AppendCommand(nil, version, seq, id, params...))
		if err := l.c.line.Write(out); err != nil {
			return nil, err
		}
		nak = false
		var werr error
		ok, err := l.c.listen(ctx, answerWait, func(p []byte) bool {
			for len(p) > 0 {
				n, f, data, ok := l.in.Next(p)
				p = p[n:]
				switch {
				case !ok:
				case f.Kind == ash.Nak:
					nak = true
					return true
				case f.Kind == ash.Data:
					if f.FrmNum == l.rx {
						l.rx = (l.rx + 1) & 7
						if s, got, params, ok := ezsp.ParseResponse(data); ok && s == seq && got == id {
							answer, taken = bytes.Clone(params), true
						}
					}
					if werr = l.c.line.Write(ash.Append(nil, ash.ControlAck|l.rx, nil)); werr != nil || taken {
						return true
					}
				}
			}
			return false
		})
		if err != nil || werr != nil {
			return nil, firstOf(err, werr)
		}
		if ok && !nak {
			return answer, nil
		}
	}
	return nil, fmt.Errorf("%w: EZSP command %#04x has no response", ErrNoAnswer, id)
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func (c *Chip) launchEZSP(ctx context.Context, f Found) error {
	l, err := c.ezsp(ctx, &f)
	if err != nil {
		return err
	}
	p, err := l.command(ctx, uint8(f.Protocol), ezsp.LaunchStandaloneBootloader, ezsp.BootloaderNormalMode)
	if err == nil && len(p) > 0 && p[0] != 0 {
		err = fmt.Errorf("%w: the firmware refuses to start it, with status %#02x", ErrNoBootloader, p[0])
	}
	return err
}

// property asks a Spinel co-processor.
func (c *Chip) property(ctx context.Context, prop spinel.Property) (answer spinel.Frame, err error) {
	var in hdlc.Receiver
	ok, err := c.ask(ctx, tries, answerWait, func(i int) []byte {
		return hdlc.Append(nil, spinel.Frame{TID: uint8(i + 1), Command: spinel.PropGet, Property: prop}.Append(nil))
	}, func(p []byte) bool {
		for len(p) > 0 {
			n, frame := in.Next(p)
			p = p[n:]
			f, ok := spinel.Parse(frame)
			if ok && f.TID != 0 && f.Answer(f.TID, prop) {
				f.Payload = bytes.Clone(f.Payload)
				answer = f
				return true
			}
		}
		return false
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	return answer, err
}

func (c *Chip) spinel(ctx context.Context, f *Found) error {
	answer, err := c.property(ctx, spinel.NCPVersion)
	f.Version = printable(answer.Text())
	return err
}

// launchSpinel has no answer: the co-processor restarts.
func (c *Chip) launchSpinel(context.Context) error {
	reset := spinel.Frame{Command: spinel.Reset, Payload: []byte{spinel.ResetBootloader}}
	return c.line.Write(hdlc.Append(nil, reset.Append(nil)))
}

// system asks CPC's system endpoint and returns the answer to that question.
func (c *Chip) system(ctx context.Context, f cpc.Frame) (answer cpc.Frame, err error) {
	var in cpc.Receiver
	ok, err := c.ask(ctx, tries, answerWait, func(int) []byte { return f.Append(nil) }, func(p []byte) bool {
		in.Write(p)
		for {
			got, ok := in.Next()
			if !ok {
				return false
			}
			if got.Sequence != f.Sequence || f.Command != cpc.Reset && got.Command != cpc.PropIs {
				continue
			}
			got.Payload = bytes.Clone(got.Payload)
			answer = got
			return true
		}
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	return answer, err
}

func (c *Chip) cpc(ctx context.Context, f *Found) error {
	answer, err := c.system(ctx, cpc.Get(1, cpc.SecondaryCPCVersion))
	if err != nil {
		return err
	}
	_, v, ok := answer.Property()
	if !ok || len(v) < 12 {
		return fmt.Errorf("%w: what it says of its version is too short", ErrNoAnswer)
	}
	for i := range 3 {
		if i > 0 {
			f.Version += "."
		}
		f.Version += strconv.FormatUint(uint64(binary.LittleEndian.Uint32(v[4*i:])), 10)
	}
	// Of the application, where it has one.
	if answer, err = c.system(ctx, cpc.Get(2, cpc.SecondaryAppVersion)); err == nil {
		if _, v, ok := answer.Property(); ok {
			v, _, _ = bytes.Cut(v, []byte{0})
			if text := printable(string(v)); text != "" && text != "UNDEFINED" {
				f.Version = text
			}
		}
	}
	return ctx.Err()
}

func (c *Chip) launchCPC(ctx context.Context) error {
	answer, err := c.system(ctx, cpc.Set(3, cpc.BootloaderRebootMode, cpc.RebootBootloader))
	if err != nil {
		return err
	}
	if p, v, ok := answer.Property(); !ok || p != cpc.BootloaderRebootMode || len(v) == 0 || v[0] != cpc.RebootBootloader {
		return fmt.Errorf("%w: the firmware has no way to start it", ErrNoBootloader)
	}
	// It may restart before its answer has left.
	return c.line.Write(cpc.Frame{Command: cpc.Reset, Sequence: 4}.Append(nil))
}

// A router's command line.
const (
	routerVersion = "\r\nversion\r\n"
	routerReboot  = "\r\nbootloader reboot\r\n"
	routerTitle   = "stack ver. ["
)

func (c *Chip) router(ctx context.Context, f *Found) error {
	var text said
	ok, err := c.ask(ctx, tries, answerWait, func(int) []byte { return []byte(routerVersion) }, func(p []byte) bool {
		text.add(p)
		_, rest, ok := bytes.Cut(text, []byte(routerTitle))
		v, _, whole := bytes.Cut(rest, []byte("]"))
		f.Version = printable(string(v))
		return ok && whole
	})
	if err == nil && !ok {
		err = ErrNoAnswer
	}
	return err
}

func (c *Chip) launchRouter(context.Context) error { return c.line.Write([]byte(routerReboot)) }

// printable is text from the radio for a terminal: what is not printable ASCII is
// left out, and it is cut where it is long.
func printable(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s) && len(out) < 100; i++ {
		if s[i] >= ' ' && s[i] <= '~' {
			out = append(out, s[i])
		}
	}
	return string(out)
}
