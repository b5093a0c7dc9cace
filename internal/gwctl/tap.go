package gwctl

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/gwctl/pcapng"
	"gwinit/internal/radioproto/ash"
	"gwinit/internal/radioproto/hdlc"
)

// tapOptions are the flags of gwctl bridge tap.
type tapOptions struct {
	hex, ash, spinel bool
	pcap             string
	limit            time.Duration // 0: none
}

// tapBacklog is how many answers wait for a slow output: a serial console
// takes less than a radio says, and the gateway ends a tap whose answers are
// not taken.
const tapBacklog = 4

// maxRaw bounds what is kept of something that does not end like a frame.
const maxRaw = 8 << 10

// tap shows what passes until the time is over or ctrl-c.
func (e *env) tap(o tapOptions) (failed error) {
	switch {
	case o.hex && (o.ash || o.spinel) || o.ash && o.spinel:
		return applet.Usagef("-hex, -ash and -spinel exclude each other")
	case o.pcap != "" && e.json:
		return applet.Usagef("-pcap and -json exclude each other")
	case o.limit < 0:
		return applet.Usagef("-for takes a time such as 30s")
	}
	ctx, cancel := context.WithCancel(e.ctx)
	if o.limit > 0 {
		ctx, cancel = context.WithTimeout(e.ctx, o.limit)
	}
	defer cancel()
	c, err := e.open()
	if err != nil {
		return err
	}
	defer c.Close()
	sink := &tapSink{e: e, o: o}
	if o.pcap != "" {
		w := e.std.Out
		if o.pcap != "-" {
			f, err := os.Create(o.pcap)
			if err != nil {
				return err
			}
			defer func() { failed = errors.Join(failed, f.Close()) }()
			w = f
		}
		if sink.pcap, err = pcapng.NewWriter(w, "gwctl "+e.version, "radio's UART", pcapng.LinkTypeUser0); err != nil {
			return err
		}
	}

	answers := make(chan api.BridgeTap, tapBacklog)
	shown := make(chan error, 1)
	go func() {
		var err error
		for t := range answers {
			if err == nil {
				if err = sink.take(t); err != nil {
					cancel()
				}
			}
		}
		shown <- err
	}()
	var lost uint64 // not passed to the sink
	err = c.Stream(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "tap", Follow: true}, func(r api.Reply) error {
		t, err := tapData(r.Data)
		if err != nil {
			return err
		}
		t.Missed += lost
		select {
		case answers <- t:
			lost = 0
		default:
			lost = t.Missed
			for _, p := range t.Pieces {
				lost += uint64(len(p.Data))
			}
		}
		return nil
	})
	ended := ctx.Err() != nil // by ctrl-c, by the time, or by a failed output
	close(answers)
	if err := <-shown; err != nil {
		return err
	}
	if lost > 0 {
		if err := sink.take(api.BridgeTap{Missed: lost}); err != nil {
			return err
		}
	}
	if ended {
		return nil
	}
	return err
}

// tapSink shows answers one after the other.
type tapSink struct {
	e     *env
	o     tapOptions
	pcap  *pcapng.Writer
	began bool
	first int64 // us, the time that is shown as 0
	wall  int64 // us to add to a time to get Unix time; 0: not known
	sides map[string]*tapSide
	note  string // for the next packet
	out   bytes.Buffer
}

// tapSide finds the frames of one direction.
type tapSide struct {
	ash  ash.Decoder
	hdlc hdlc.Decoder
	raw  []byte // of the frame that has not ended
}

func (s *tapSink) take(t api.BridgeTap) error {
	if !s.began {
		s.began, s.first = true, t.Now
	}
	if t.Wall != 0 {
		s.wall = t.Wall - t.Now
	}
	s.out.Reset()
	if t.Missed > 0 || s.sides == nil {
		// What follows is not the rest of what was before.
		s.sides = map[string]*tapSide{"radio": {}, "client": {}}
	}
	if t.Missed > 0 {
		if err := s.missed(t.Missed); err != nil {
			return err
		}
	}
	for _, p := range t.Pieces {
		if err := s.piece(p); err != nil {
			return err
		}
	}
	if s.pcap != nil {
		return nil
	}
	_, err := s.out.WriteTo(s.e.std.Out)
	return err
}

func (s *tapSink) missed(n uint64) error {
	text := count(n, "byte") + " missed"
	switch {
	case s.pcap != nil:
		s.note = text + " before this"
		return nil
	case s.e.json:
		return s.json(struct {
			Missed uint64 `json:"missed"`
		}{n})
	}
	s.out.WriteString("-- " + text + " --\n")
	return nil
}

// piece shows a piece, or the frames that end in it.
func (s *tapSink) piece(p api.TapPiece) error {
	if !s.o.ash && !s.o.spinel {
		return s.show(p.At, p.From, "", p.Data)
	}
	side := s.sides[p.From]
	if side == nil {
		return fmt.Errorf("the bridge knows a side %.20q that this gwctl does not: use a gwctl of its version", p.From)
	}
	for data := p.Data; len(data) > 0; {
		text, n, ok := side.next(s.o.ash, data)
		side.raw = append(side.raw, data[:n]...)
		data = data[n:]
		if ok {
			if strings.HasPrefix(text, "DATA ") { // a good one
				text += ezsp(side.raw)
			}
			if err := s.show(p.At, p.From, text, side.raw); err != nil {
				return err
			}
		}
		if ok || len(side.raw) > maxRaw {
			side.raw = side.raw[:0]
		}
	}
	return nil
}

// next takes bytes until a frame ends, and returns it in words.
func (d *tapSide) next(isASH bool, p []byte) (text string, n int, ok bool) {
	if isASH {
		n, f, ok := d.ash.Next(p)
		if !ok {
			return "", n, false
		}
		return f.String(), n, true
	}
	n, f, ok := d.hdlc.Next(p)
	if !ok {
		return "", n, false
	}
	if f.Fault != hdlc.Good {
		return f.Fault.String(), n, true
	}
	if m, is := f.Spinel(); is {
		return m.String() + fmt.Sprintf(" len %d", f.Len), n, true
	}
	return fmt.Sprintf("no Spinel, %d bytes", f.Len), n, true
}

// show adds bytes to the output; text is what they are, if they are a frame.
func (s *tapSink) show(at int64, from, text string, data []byte) error {
	if s.pcap != nil {
		d := pcapng.Inbound
		if from == "client" {
			d = pcapng.Outbound
		}
		comment := text
		if s.note != "" {
			comment, s.note = s.note, ""
			if text != "" {
				comment = text + "; " + comment
			}
		}
		return s.pcap.Packet(at+s.wall, d, data, comment)
	}
	seconds := float64(at-s.first) / 1e6
	if s.e.json {
		line := struct {
			At    float64 `json:"at"`
			Wall  int64   `json:"wall,omitempty"`
			From  string  `json:"from"`
			Frame string  `json:"frame,omitempty"`
			Data  string  `json:"data"`
		}{At: seconds, From: from, Frame: text, Data: hex.EncodeToString(data)}
		if s.wall != 0 {
			line.Wall = at + s.wall
		}
		return s.json(line)
	}
	head := fmt.Sprintf("%12.6f %-6s ", seconds, clean(from))
	if text != "" {
		s.out.WriteString(head + " " + text + "\n")
		return nil
	}
	for len(data) > 0 {
		n := min(len(data), 16)
		fmt.Fprintf(&s.out, "%s % -48x %s\n", head, data[:n], printable(data[:n]))
		head = fmt.Sprintf("%*s", len(head), "")
		data = data[n:]
	}
	return nil
}

func (s *tapSink) json(v any) error {
	j := &env{std: applet.IO{Out: &s.out}}
	return j.print(v)
}

// printable shows bytes as ASCII, others as dots.
func printable(p []byte) string {
	out := bytes.Clone(p)
	for i, c := range out {
		if c < ' ' || c > '~' {
			out[i] = '.'
		}
	}
	return string(out)
}

// ezsp reads the EZSP header in a DATA frame as it was on the line (UG100
// section 3: with two bytes of frame control and of ID since version 8). It is
// empty for other frames.
func ezsp(raw []byte) string {
	p := unstuffed(raw)
	if len(p) < 6 || p[0]&0x80 != 0 {
		return ""
	}
	p = p[1 : len(p)-2]
	ash.Randomize(p)
	kind := "command"
	if p[1]&0x80 != 0 {
		if kind = "response"; p[1]&0x18 != 0 {
			kind = "callback"
		}
	}
	id := fmt.Sprintf("0x%02x", p[2])
	switch {
	case len(p) >= 5 && p[2]&3 == 1: // the format of the frame
		id = fmt.Sprintf("0x%04x", uint16(p[3])|uint16(p[4])<<8)
	case len(p) >= 5 && p[2] == 0xFF: // versions 5 to 7
		id = fmt.Sprintf("0x%02x", p[4])
	}
	return fmt.Sprintf(": EZSP %s %d, ID %s", kind, p[0], id)
}

// unstuffed returns the bytes of an ASH frame without what is for the line.
func unstuffed(raw []byte) []byte {
	p := make([]byte, 0, len(raw))
	escaped := false
	for _, b := range raw {
		switch b {
		case ash.XOn, ash.XOff, ash.Flag:
		case ash.Cancel:
			p, escaped = p[:0], false
		case ash.Escape:
			escaped = true
		case ash.Substitute:
			return nil
		default:
			if escaped {
				b, escaped = b^0x20, false
			}
			p = append(p, b)
		}
	}
	return p
}
