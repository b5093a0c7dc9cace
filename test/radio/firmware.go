package radio

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"time"

	"gwinit/internal/radioproto/cpc"
	"gwinit/internal/radioproto/hdlc"
	"gwinit/internal/radioproto/spinel"
	"gwinit/test/radio/ash"
	"gwinit/test/radio/gecko"
	"gwinit/test/radio/line"
)

// The kinds of applications.
const (
	kindNCP    = "ncp"
	kindRCP    = "rcp"
	kindOTRCP  = "otrcp"
	kindRouter = "router"
	kindLoader = "bootloader" // which is none
)

// say sends to the line, or not when a frame is to be dropped.
func (s *Sim) say(p []byte) {
	if s.faults.drop > 0 {
		s.faults.drop--
		return
	}
	if s.faults.flipTx > 0 {
		s.faults.flipTx--
		p = bytes.Clone(p)
		p[s.rnd.IntN(len(p))] ^= 1 << s.rnd.IntN(8)
	}
	s.line.Send(time.Now(), p)
}

// untimed is a firmware without timers.
type untimed struct{ up bool }

func (u *untimed) Shutdown()                 { u.up = false }
func (*untimed) Tick(time.Time)              {}
func (*untimed) Deadline() (time.Time, bool) { return time.Time{}, false }

// otrcp is a Thread radio co-processor: it tells its version and restarts.
type otrcp struct {
	untimed
	s  *Sim
	in hdlc.Receiver
}

func (o *otrcp) Boot(uint8) {
	o.up, o.in = true, hdlc.Receiver{}
	o.is(0, spinel.LastStatus, spinel.AppendPacked(nil, spinel.StatusResetFirst+2))
}

func (o *otrcp) is(tid uint8, p spinel.Property, value []byte) {
	o.s.say(hdlc.Append(nil, spinel.Frame{TID: tid, Command: spinel.PropIs, Property: p, Payload: value}.Append(nil)))
}

func (o *otrcp) Write(_ time.Time, p []byte) {
	for len(p) > 0 && o.up {
		n, raw := o.in.Next(p)
		p = p[n:]
		f, ok := spinel.Parse(raw)
		if !ok {
			continue
		}
		switch {
		case f.Command == spinel.Reset && bytes.Equal(f.Payload, []byte{spinel.ResetBootloader}):
			o.s.bootloader()
		case f.Command == spinel.Reset:
			o.s.reset(ash.ResetSoftware)
		case f.Command == spinel.PropGet && f.Property == spinel.NCPVersion:
			o.is(f.TID, f.Property, []byte(o.s.version("SL-OPENTHREAD/2.4.4.0_GitHub-7074a43e4; EFR32; Sep 12 2024 09:30:11")+"\x00"))
		case f.Command == spinel.PropGet && f.Property == spinel.ProtocolVersion:
			o.is(f.TID, f.Property, []byte{4, 3})
		case f.Command == spinel.PropGet && f.Property == spinel.HWAddr:
			o.is(f.TID, f.Property, binary.BigEndian.AppendUint64(nil, ChipEUI64))
		default:
			o.is(f.TID, spinel.LastStatus, []byte{2}) // STATUS_UNIMPLEMENTED
		}
	}
}

// rcp is a co-processor that speaks CPC: its system endpoint.
type rcp struct {
	untimed
	s    *Sim
	in   cpc.Receiver
	mode uint32 // of the next reset
}

func (r *rcp) Boot(uint8) { r.up, r.in, r.mode = true, cpc.Receiver{}, 0 }

func (r *rcp) Write(_ time.Time, p []byte) {
	if !r.up {
		return
	}
	r.in.Write(p)
	for f, ok := r.in.Next(); ok && r.up; f, ok = r.in.Next() {
		prop, value, isProp := f.Property()
		answer := binary.LittleEndian.AppendUint32(nil, uint32(prop))
		switch {
		case f.Command == cpc.Reset:
			r.s.say(cpc.Frame{Command: cpc.Reset, Sequence: f.Sequence, Payload: make([]byte, 4)}.Append(nil))
			if r.mode == cpc.RebootBootloader {
				r.s.bootloader()
			} else {
				r.s.reset(ash.ResetSoftware)
			}
			return
		case !isProp:
			continue
		case f.Command == cpc.PropSet && prop == cpc.BootloaderRebootMode && len(value) == 4:
			r.mode = binary.LittleEndian.Uint32(value)
			answer = append(answer, value...)
		case prop == cpc.SecondaryCPCVersion:
			for _, v := range []uint32{4, 4, 4} {
				answer = binary.LittleEndian.AppendUint32(answer, v)
			}
		case prop == cpc.SecondaryAppVersion:
			answer = append(append(answer, r.s.version("UNDEFINED")...), 0)
		default:
			answer = append(binary.LittleEndian.AppendUint32(nil, uint32(cpc.LastStatus)), 13, 0, 0, 0) // PROP_NOT_FOUND
		}
		r.s.say(cpc.Frame{Command: cpc.PropIs, Sequence: f.Sequence, Payload: answer}.Append(nil))
	}
}

// router is a Zigbee router with a small command line, which echoes.
type router struct {
	untimed
	s    *Sim
	text []byte
}

func (r *router) Boot(uint8) {
	r.up, r.text = true, nil
	r.s.say([]byte("\r\n> "))
}

func (r *router) Write(_ time.Time, p []byte) {
	for _, b := range p {
		if !r.up {
			return
		}
		r.s.say([]byte{b})
		if b != '\n' && b != '\r' {
			if r.text = append(r.text, b); len(r.text) > 100 {
				r.text = r.text[:0]
			}
			continue
		}
		text := string(r.text)
		r.text = r.text[:0]
		switch strings.TrimSpace(text) {
		case "":
			continue
		case "version":
			r.s.say([]byte("\r\nstack ver. [" + r.s.version("7.5.1.0") + "]\r\n> "))
		case "bootloader reboot":
			r.s.say([]byte("\r\nRebooting...\r\n"))
			r.s.bootloader()
		default:
			r.s.say([]byte("\r\nunknown command\r\n> "))
		}
	}
}

// nothing is an application that says nothing.
type nothing struct{ untimed }

func (*nothing) Boot(uint8)              {}
func (*nothing) Write(time.Time, []byte) {}

// version is what the application says, or what its kind does by itself.
func (s *Sim) version(usual string) string {
	if a := s.flash.App; a != nil && a.Version != "" {
		return a.Version
	}
	return usual
}

// firmwares fills the table.
func (s *Sim) firmwares() {
	s.flash = gecko.Flash{App: &gecko.App{Kind: kindNCP}, Bootloader: 0x02040002}
	s.loader = &gecko.Loader{Flash: &s.flash, Out: s.say}
	s.loader.Leave = func() { s.reset(ash.ResetSoftware) }
	s.loader.PowerFails = func() { s.reset(ash.ResetPowerOn) }
	s.modes = map[string]Firmware{
		kindNCP: ncp{s}, kindOTRCP: &otrcp{s: s}, kindRCP: &rcp{s: s}, kindRouter: &router{s: s}, kindLoader: s.loader,
	}
	s.mode = kindNCP
}

// bootloader restarts the chip into its bootloader.
func (s *Sim) bootloader() {
	s.stay = true
	s.reset(ash.ResetSoftware)
}

// choose picks what runs after a reset, and sets its line up.
func (s *Sim) choose() {
	s.mode = kindLoader
	baud, flow := 115200, line.None
	if a := s.flash.App; a != nil && !s.stay {
		s.mode = a.Kind
		if s.modes[a.Kind] == nil {
			s.modes[a.Kind] = &nothing{}
		}
		baud, flow = s.opt.Line.Baud, s.opt.Line.Flow
		if a.Baud != 0 {
			baud = a.Baud
		}
		if a.Flow != "" {
			flow = line.Flow(a.Flow)
		}
	}
	s.stay = false
	if !s.adaptive {
		s.line.Configure(baud, flow)
	}
}

// Adaptive has the radio take the rate of the far end, whatever its firmware's is:
// for an emulated UART whose rate cannot be known.
func (s *Sim) Adaptive() { s.adaptive = true }

// Peek lets f look at the flash and the bootloader while nothing else does.
func (s *Sim) Peek(ctx context.Context, f func(*gecko.Flash, *gecko.Loader)) error {
	return s.call(ctx, func() { f(&s.flash, s.loader) })
}
