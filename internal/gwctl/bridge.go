package gwctl

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

const bridgeMore = `  -w          once a second until ctrl-c; redrawn on a terminal, else a line each
tap: a copy of what passes between radio and client, until ctrl-c
  -hex        bytes, 16 a line (what it does without an option)
  -ash        a line for each ASH frame (Zigbee: EZSP)
  -spinel     a line for each Spinel frame (Thread: RCP)
  -pcap FILE  a pcapng file instead, for Wireshark; - is standard output
  -for TIME   end after this time, as in 30s or 2m
`

// bridgeOptions are the flags of gwctl bridge.
type bridgeOptions struct {
	live bool
	tap  tapOptions
}

func bridge(e *env, f *flag.FlagSet) func([]string) error {
	var o bridgeOptions
	f.BoolVar(&o.live, "w", false, "")
	f.BoolVar(&o.tap.hex, "hex", false, "")
	f.BoolVar(&o.tap.ash, "ash", false, "")
	f.BoolVar(&o.tap.spinel, "spinel", false, "")
	f.StringVar(&o.tap.pcap, "pcap", "", "")
	timeFlag(f, &o.tap.limit, "for")
	return func(args []string) error {
		switch {
		case len(args) == 0 && o.tap == tapOptions{}:
			return e.bridge(o.live)
		case len(args) == 0:
			return applet.Usagef("-hex, -ash, -spinel, -pcap and -for go with gwctl bridge tap")
		case len(args) > 1 || args[0] != "tap":
			return applet.Usagef("bridge takes tap or nothing, not %q", strings.Join(args, " "))
		case o.live:
			return applet.Usagef("-w goes without tap")
		}
		return e.tap(o.tap)
	}
}

// bridge shows what passes the bridge, once or live.
func (e *env) bridge(live bool) error {
	var last *api.BridgeWatch
	var began *api.BridgeWatch
	c, err := e.open()
	if err != nil {
		return err
	}
	defer c.Close()
	redraw := live && !e.json && e.terminal()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		data, err := c.Do(e.ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "watch"})
		if live && e.ctx.Err() != nil {
			return nil // ctrl-c is how it ends
		}
		if err != nil {
			return err
		}
		var w api.BridgeWatch
		if err := decode(e.name, data, &w); err != nil {
			return err
		}
		if began == nil {
			began = &w
		}
		switch {
		case e.json:
			err = e.print(data)
		case !live:
			err = e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.watch(w, nil) })
		case redraw:
			err = e.write(func(b *bytes.Buffer) {
				var page bytes.Buffer
				screen{&page, e.colour()}.watch(w, last)
				b.WriteString(onScreen(page.String(), e.height()))
			})
		default:
			err = e.write(func(b *bytes.Buffer) { b.WriteString(watchLine(w, last) + "\n") })
		}
		if err != nil || !live {
			return err
		}
		last = &w
		select {
		case <-tick.C:
		case <-e.ctx.Done():
			return nil
		}
	}
}

// terminal tells whether output goes to one.
func (e *env) terminal() bool {
	f, ok := e.std.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// protocolName is that of api.BridgeWatch for people.
func protocolName(p string) string {
	switch p {
	case "ash":
		return "ASH (EZSP, Zigbee)"
	case "spinel":
		return "Spinel (Thread)"
	case "unknown":
		return "neither ASH nor Spinel"
	}
	return or(p, "nothing recognised yet")
}

// watch writes the bridge's page. last is the sample before, for rates; nil:
// the rates are the averages of this client.
func (s screen) watch(w api.BridgeWatch, last *api.BridgeWatch) {
	s.bridge(api.Status{Bridge: &w.Bridge, Radio: api.Radio{Baud: w.Baud}})
	inKernel := w.Engine == "kernel"
	if inKernel {
		s.row("protocol", "not looked at, and no times: the kernel carries the bytes")
	} else {
		s.row("protocol", protocolName(w.Protocol))
	}
	if r := w.Reset; r != nil {
		s.row("reset", fmt.Sprintf("the radio's last: %s, %s, %s ago", r.Frame, r.Reason, duration(r.Ago)))
	}
	s.b.WriteByte('\n')
	s.pair("", "FROM RADIO", "TO RADIO")
	from, to := w.FromRadio, w.ToRadio
	s.pair("bytes", size(from.Bytes), size(to.Bytes))
	in, out := rates(w, last)
	name := "rate"
	if last == nil {
		name = "average"
	}
	if in >= 0 {
		s.pair(name, rate(in), rate(out))
	}
	if inKernel {
		return
	}
	each := func(name string, show func(f api.BridgeFlow) string) { s.pair(name, show(from), show(to)) }
	each("queue", func(f api.BridgeFlow) string {
		return size(uint64(f.Queued)) + ", most " + size(uint64(f.QueueMost)) + " of " + size(uint64(f.QueueSize))
	})
	each("held", held)
	each("time", func(f api.BridgeFlow) string { return below(f, "half <", 50) + below(f, ", 99 % <", 99) })
	each("longest", func(f api.BridgeFlow) string { return below(f, "<", 100) })
	if from.ASH != (api.ASHCounter{}) || to.ASH != (api.ASHCounter{}) {
		s.b.WriteByte('\n')
		each("DATA", func(f api.BridgeFlow) string { return number(f.ASH.Data) })
		each("resent", func(f api.BridgeFlow) string { return number(f.ASH.Resent) + percent(f.ASH.Resent, f.ASH.Data) })
		each("ACK NAK", func(f api.BridgeFlow) string { return number(f.ASH.Ack) + ", " + number(f.ASH.Nak) })
		each("resets", func(f api.BridgeFlow) string {
			text := number(f.ASH.Rst) + " RST"
			if f.ASH.Rst == 0 {
				text = number(f.ASH.RstAck) + " RSTACK, " + number(f.ASH.Error) + " ERROR"
			}
			return text
		})
		each("CRC", func(f api.BridgeFlow) string {
			return number(f.ASH.CRC) + " wrong, " + number(f.ASH.Invalid) + " invalid"
		})
	}
}

// pair writes a row of two columns.
func (s screen) pair(name, left, right string) {
	fmt.Fprintf(s.b, "%-*s%-35s%s\n", label, name, left, right)
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func percent(part, whole uint64) string {
	if part == 0 || whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.2f %%)", 100*float64(part)/float64(whole))
}

func rate(bytesPerSecond float64) string { return size(uint64(bytesPerSecond+0.5)) + "/s" }

// rates are bytes a second from and to the radio: since last, or on the average
// of this client's session. They are negative when there is nothing to tell.
func rates(w api.BridgeWatch, last *api.BridgeWatch) (from, to float64) {
	switch {
	case last != nil && w.At > last.At && w.FromRadio.Bytes >= last.FromRadio.Bytes && w.ToRadio.Bytes >= last.ToRadio.Bytes:
		d := w.At - last.At
		return float64(w.FromRadio.Bytes-last.FromRadio.Bytes) / d, float64(w.ToRadio.Bytes-last.ToRadio.Bytes) / d
	case last == nil && w.Client != nil && w.Client.Since > 0:
		return float64(w.Client.Rx) / w.Client.Since, float64(w.Client.Tx) / w.Client.Since
	}
	return -1, -1
}

func held(f api.BridgeFlow) string {
	if f.Held == 0 {
		return "never"
	}
	text := count(f.Held, "time") + ", at most " + seconds(f.HeldLongest)
	if f.HeldNow > 0 {
		text += ", now"
	}
	return text
}

// seconds is a short time for people.
func seconds(s float64) string {
	switch {
	case s < 0.001:
		return fmt.Sprintf("%.0f us", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	case s < 60:
		return fmt.Sprintf("%.1f s", s)
	}
	return duration(s)
}

// below is a percentile of the samples, as the bound that it is below.
func below(f api.BridgeFlow, words string, p uint64) string {
	v := percentile(f.Latency, p)
	switch {
	case v > 0:
		return words + seconds(v)
	case p == 99:
		return "" // said already
	}
	return "no sample yet"
}

// percentile is the bound in seconds below which p percent of the samples are,
// a power of two us; 0 without samples.
func percentile(histogram []uint32, p uint64) float64 {
	var all uint64
	for _, n := range histogram {
		all += uint64(n)
	}
	var sum uint64
	for i, n := range histogram {
		if sum += uint64(n); n > 0 && sum*100 >= all*p {
			return float64(uint64(1)<<i) / 1e6
		}
	}
	return 0
}

// watchLine is a sample of gwctl bridge -w where no terminal is.
func watchLine(w api.BridgeWatch, last *api.BridgeWatch) string {
	who := "no client"
	if w.Client != nil {
		who = w.Client.Addr
	}
	in, out := rates(w, last)
	flow := func(name string, r float64, f api.BridgeFlow) string {
		speed := "-"
		if r >= 0 {
			speed = rate(r)
		}
		return fmt.Sprintf("  %s %s queue %d held %d", name, speed, f.Queued, f.Held)
	}
	line := clean(who) + flow("from radio", in, w.FromRadio) + flow(" to radio", out, w.ToRadio)
	if w.Protocol == "ash" {
		a, b := w.FromRadio.ASH, w.ToRadio.ASH
		line += fmt.Sprintf("  resent %d/%d crc %d/%d nak %d/%d", a.Resent, b.Resent, a.CRC, b.CRC, a.Nak, b.Nak)
	}
	return line
}

// tapData reads a followed answer's data into a BridgeTap.
func tapData(data json.RawMessage) (t api.BridgeTap, err error) {
	if len(data) > 0 {
		err = decode("bridge tap", data, &t)
	}
	return t, err
}
