package gwctl

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

const netwatchMore = `  incidents         how things were before it rebooted, and panics of the kernel
  incidents show N  one of them
`

// netwatch shows whether anybody answers the gateway, and what is done if not.
func netwatch(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		switch {
		case len(args) == 0:
			return e.netwatch()
		case args[0] != "incidents":
			return applet.Usagef("netwatch takes incidents or nothing, not %q", args[0])
		}
		return incidents(e, nil)(args[1:])
	}
}

// incidents lists what is kept, or shows one.
func incidents(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		switch {
		case len(args) == 0:
			return e.incidents(0)
		case len(args) == 2 && args[0] == "show":
			if n, err := strconv.Atoi(args[1]); err == nil && n > 0 {
				return e.incidents(n)
			}
		}
		return applet.Usagef("incidents takes show and a number, or nothing; not %q", strings.Join(args, " "))
	}
}

func (e *env) netwatch() error {
	data, err := e.ask(api.OpCall, api.CallArgs{Service: "core", Method: "netwatch"})
	if err != nil {
		return err
	}
	if e.json {
		return e.print(data)
	}
	var n api.Netwatch
	if err := decode(e.name, data, &n); err != nil {
		return err
	}
	return e.write(func(b *bytes.Buffer) { screen{b, e.colour()}.netwatch(n) })
}

// stepTexts say what the steps are.
var stepTexts = map[string]string{
	"renew":  "asks the DHCP server again",
	"link":   "sets the link down and up",
	"driver": "binds the Ethernet driver anew",
	"reboot": "reboots the gateway",
}

func (s screen) netwatch(n api.Netwatch) {
	looked := fmt.Sprintf("looked %s ago, every %s", duration(float64(n.Looked)), duration(float64(n.Poll)))
	switch n.State {
	case "reachable":
		text := "somebody answers, "
		if n.By == "client" {
			text = "a radio client moves bytes, "
		}
		s.row("network", text+looked)
	case "unreachable":
		s.alarm("network", "nobody has answered for "+duration(float64(n.Failed)))
	case "unplugged":
		s.row("network", "no cable, which is no failure")
	case "no-target":
		s.row("network", "there is nobody to ask: no default gateway, and netwatch.TARGETS is not set")
	case "starting":
		s.row("network", "not looked at yet")
	default:
		s.row("network", or(n.State, "unknown"))
	}
	name := "targets"
	for _, t := range n.Targets {
		who := t.Target
		if t.Address != "" && t.Address != t.Target {
			who += " " + t.Address
		}
		switch {
		case t.By == "icmp":
			s.row(name, who+": answers, "+seconds(float64(t.Latency)/1e6))
		case t.By != "":
			s.row(name, who+": answers "+strings.ToUpper(t.By)+", but no echo")
		case t.Address == "" && t.Target == "gateway":
			s.row(name, "gateway: there is none")
		default:
			text := who + ": no answer"
			if t.Since > 0 {
				text += ", the last " + duration(float64(t.Since)) + " ago"
			}
			if t.Problem != "" {
				text += ": " + t.Problem
			}
			s.row(name, text)
		}
		name = ""
	}
	if len(n.Steps) > 0 {
		s.b.WriteString("\nsteps\n")
	}
	for _, st := range n.Steps {
		when := "after " + duration(float64(st.After))
		if n.State == "unreachable" {
			when = "passed"
			if st.Next >= 0 {
				when = "in " + duration(float64(st.Next))
			}
		}
		fmt.Fprintf(s.b, "  %-11s%-36s%d of %d left in %s\n", when, or(stepTexts[st.Step], clean(st.Step)),
			max(0, st.Most-st.Used), st.Most, duration(float64(n.Window)))
	}
	s.b.WriteByte('\n')
	switch {
	case n.DryRun:
		s.row("reboot", "netwatch.DRY_RUN is set: no step is taken, the log says which would be")
	case !n.Enabled:
		s.row("reboot", "it does not reboot the gateway; gwctl config set netwatch.ENABLED=1 lets it")
	}
	if n.Problem != "" {
		s.alarm("reboot", "not possible: "+n.Problem)
	}
	if n.Incidents > 0 {
		s.row("kept", count(uint64(n.Incidents), "incident")+": gwctl netwatch incidents")
	}
}

// incidents lists what is kept, or shows one.
func (e *env) incidents(number int) error {
	args := api.CallArgs{Service: "core", Method: "incidents"}
	if number > 0 {
		args.Params = json.RawMessage(fmt.Sprintf(`{"number":%d}`, number))
	}
	data, err := e.ask(api.OpCall, args)
	if err != nil {
		return err
	}
	if e.json {
		return e.print(data)
	}
	var all []api.Incident
	if err := decode(e.name, data, &all); err != nil {
		return err
	}
	return e.write(func(b *bytes.Buffer) {
		if len(all) == 0 {
			b.WriteString("none: one is kept before netwatch reboots the gateway, and after a panic of the kernel\n")
		}
		for _, i := range all {
			if number == 0 {
				fmt.Fprintf(b, "%-4d%s\n", i.Number, clean(i.Summary))
				continue
			}
			for line := range strings.Lines(i.Text) {
				b.WriteString(clean(strings.TrimSuffix(line, "\n")) + "\n")
			}
		}
	})
}
