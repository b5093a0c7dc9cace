package gwctl

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

const ethMore = `  profile NAME     stock (nothing is touched), latency, throughput or bench
  set NAME=VALUE.. knobs beside the profile, instead of those set so before
  queue KIND       fq_codel, where the kernel has it, or default
    -try           until the next start only
`

var errTune = applet.Usagef("eth tune measures from a workstation: its gwctl has it")

// eth shows how the Ethernet driver is tuned, and tunes it.
func eth(e *env, f *flag.FlagSet) func([]string) error {
	try := f.Bool("try", false, "")
	return func(args []string) error {
		if len(args) == 0 {
			if *try {
				return applet.Usagef("-try goes with eth profile, set and queue")
			}
			return e.eth()
		}
		p := api.EthSet{Keep: !*try}
		switch verb, rest := args[0], args[1:]; {
		case verb == "profile" && len(rest) == 1:
			p.Profile = rest[0]
		case verb == "queue" && len(rest) == 1:
			p.Qdisc = rest[0]
		case verb == "set":
			knobs := strings.Join(rest, " ")
			p.Knobs = &knobs
		case verb == "profile" || verb == "queue":
			return applet.Usagef("eth %s takes one name", verb)
		case verb == "tune":
			return errTune
		default:
			return applet.Usagef("eth has no verb %q: profile, set or queue?", verb)
		}
		params, err := json.Marshal(p)
		if err != nil {
			return err
		}
		data, err := e.ask(api.OpCall, api.CallArgs{Service: "core", Method: "eth-set", Params: params})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(data)
		}
		var now api.Ethernet
		if err := decode(e.name, data, &now); err != nil {
			return err
		}
		return e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.knobs(now) })
	}
}

// eth shows the whole of it. The rates are those of a second.
func (e *env) eth() error {
	var now, before api.Ethernet
	for i, to := range []*api.Ethernet{&before, &now} {
		data, err := e.ask(api.OpCall, api.CallArgs{Service: "core", Method: "eth"})
		if err != nil {
			return err
		}
		if e.json {
			return e.print(data)
		}
		if err := decode(e.name, data, to); err != nil {
			return err
		}
		if i == 1 {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-e.ctx.Done():
			return e.ctx.Err()
		}
	}
	return e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.eth(now, before) })
}

// eth writes the page. before is the sample before, for rates.
func (s screen) eth(n, before api.Ethernet) {
	s.row("driver", strings.TrimSpace(or(n.Driver, "unknown")+" "+n.Version)+", "+n.Interface)
	t := n.Traffic
	passed := func(name string, bytes, old, packets, errors, dropped uint64) {
		text := size(bytes) + " in " + count(packets, "packet")
		if d := float64(n.At-before.At) / 1e9; d > 0 && bytes >= old {
			text += fmt.Sprintf(", now %s", rate(float64(bytes-old)/d))
		}
		s.row(name, fmt.Sprintf("%s, %s, %d dropped", text, count(errors, "error"), dropped))
	}
	passed("received", t.RxBytes, before.Traffic.RxBytes, t.RxPackets, t.RxErrors, t.RxDropped)
	passed("sent", t.TxBytes, before.Traffic.TxBytes, t.TxPackets, t.TxErrors, t.TxDropped)
	if b := n.BQL; b != nil {
		s.row("bql", fmt.Sprintf("%d bytes may be with the driver, %d are, %s", b.Limit, b.Inflight, count(b.Stalls, "stall")))
	} else {
		s.row("bql", "none seen: what the driver holds is not bounded, or it sent nothing yet")
	}
	q := n.Qdisc
	s.row("queue", strings.TrimSpace(or(q.Actual, "unknown")+" "+q.Parameters))
	if q.Packets > 0 {
		text := fmt.Sprintf("%s passed, %d dropped", count(uint64(q.Packets), "packet"), q.Drops)
		if q.Actual == "fq_codel" {
			text += fmt.Sprintf(" (%d for want of room), %d marked, %s", q.Overlimit, q.Marked, count(uint64(q.NewFlows), "new flow"))
		}
		s.row("", fmt.Sprintf("%s, requeued %d, waiting %d bytes in %d", text, q.Requeues, q.Backlog, q.Length))
	}
	if q.Why != "" {
		s.row("", "wanted "+q.Wanted+": "+q.Why)
	}
	for _, note := range n.Notes {
		s.row("note", note)
	}
	s.b.WriteByte('\n')
	s.knobs(n)
	if len(n.Counters) == 0 {
		return
	}
	s.b.WriteString("\nthe driver's counters that are not 0\n")
	for _, c := range n.Counters {
		s.lines(fmt.Sprintf("%-32s %14d  ", clean(c.Name), c.Value), mark(c.Alarm, or(c.Meaning, ".")), c.Alarm)
	}
}

// mark puts what needs somebody behind "!!".
func mark(alarm bool, text string) string {
	if alarm {
		return "!! " + text
	}
	return text
}

// knobs writes the profile and what it set.
func (s screen) knobs(n api.Ethernet) {
	text := "profile " + n.Profile
	if n.Knobs != "" {
		text += ", and " + n.Knobs
	}
	if !n.Kept {
		text += ", until the next start"
	}
	s.b.WriteString(clean(text) + "\n")
	line := func(name, wanted, actual string) string { return fmt.Sprintf("%-26s%-11s%-11s", name, wanted, actual) }
	s.b.WriteString(line("", "WANTED", "ACTUAL") + "WHY\n")
	for _, k := range n.All {
		s.lines(line(clean(k.Name), or(k.Wanted, "-"), or(k.Actual, "none")), mark(k.Failed, k.Why), k.Failed)
	}
}
