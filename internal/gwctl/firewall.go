package gwctl

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"strings"

	"gwinit/internal/api"
	"gwinit/internal/applet"
)

const firewallMore = `  set on|off      drop what the gateway has no use for, or nothing
  allow PORT ...  ports that are open beside its own, instead of those before:
                  tcp/8081, udp/5683-5684, tcp/9100@192.168.1.20, tcp/5201@bridge
                  (from whom BRIDGE_ALLOW lets have the radio); none: no others
  confirm         keep the change: within 60 s of it, else it is undone
  undo            undo it now

With -H the change is confirmed when the gateway answers a new connection.
`

// firewall shows which ports are open, and changes that.
func firewall(e *env, _ *flag.FlagSet) func([]string) error {
	return func(args []string) error {
		verb, rest := "", args
		if len(args) > 0 {
			verb, rest = args[0], args[1:]
		}
		var p api.FirewallSet
		switch {
		case verb == "" || (verb == "confirm" || verb == "undo") && len(rest) == 0:
			return e.firewall(strings.TrimSuffix("firewall-"+verb, "-"), nil)
		case verb == "set" && len(rest) == 1 && (rest[0] == "on" || rest[0] == "off"):
			on := rest[0] == "on"
			p.On = &on
		case verb == "allow":
			ports := strings.Join(rest, " ")
			p.Allow = &ports
		case verb == "set":
			return applet.Usagef("firewall set takes on or off")
		default:
			return applet.Usagef("firewall has no verb %q: set, allow, confirm or undo?", strings.Join(args, " "))
		}
		params, err := json.Marshal(p)
		if err != nil {
			return err
		}
		return e.firewall("firewall-set", params)
	}
}

// firewall asks for a method and shows what comes of it.
func (e *env) firewall(method string, params json.RawMessage) error {
	ask := func(method string, params json.RawMessage) (data json.RawMessage, f api.Firewall, err error) {
		data, err = e.ask(api.OpCall, api.CallArgs{Service: "core", Method: method, Params: params})
		if err == nil {
			err = decode(e.name, data, &f)
		}
		return data, f, err
	}
	data, f, err := ask(method, params)
	// Only a connection that begins now shows that one can.
	if err == nil && method == "firewall-set" && f.Confirm > 0 && e.redial() {
		if data, f, err = ask("firewall-confirm", nil); err != nil {
			return fmt.Errorf("the change is not confirmed and ends within a minute: %w", err)
		}
	}
	if err != nil {
		return err
	}
	if e.json {
		return e.print(data)
	}
	return e.write(func(b *bytes.Buffer) {
		s := screen{b, e.colour()}
		s.firewall(f)
		if method == "firewall" {
			s.firewallRules(f)
		}
	})
}

// firewall writes what it is.
func (s screen) firewall(f api.Firewall) {
	switch f.State {
	case "on":
		s.row("firewall", "on: what no rule lets in is dropped")
	case "off":
		text := "off: every port is open; gwctl firewall set on"
		if f.Problem != "" {
			text = "off: " + f.Problem
		}
		s.row("firewall", text)
	case "absent":
		s.row("firewall", "none: "+f.Problem)
	case "changed":
		s.alarm("firewall", "somebody else has changed its rules: gwctl reload core puts them right")
	default:
		s.alarm("firewall", f.State+": "+f.Problem)
	}
	if f.Allow != "" {
		s.row("", "open beside the gateway's own: "+f.Allow)
	}
	if f.Confirm > 0 {
		s.alarm("", fmt.Sprintf("for %.0f s more, unless: gwctl firewall confirm (by a new connection, which shows that one gets in)", f.Confirm))
	}
}

// firewallRules writes the rules, and what was dropped.
func (s screen) firewallRules(f api.Firewall) {
	if len(f.Rules) > 0 {
		s.b.WriteString("\n         PACKETS     BYTES\n")
	}
	for _, r := range f.Rules {
		verdict := "open"
		if r.Drop {
			verdict = "drop"
		}
		fmt.Fprintf(s.b, "%s %11d %9s  %s\n", verdict, r.Packets, size(r.Bytes), clean(r.Text))
	}
	var dropped []string
	for _, p := range f.Dropped {
		dropped = append(dropped, fmt.Sprintf("%s %d", p.Port, p.Packets))
	}
	if len(dropped) > 0 {
		s.b.WriteString("\npackets dropped in the last hour, by port\n")
		s.list("", dropped...)
	}
}
