package gwctl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
)

func TestFirewallScreen(t *testing.T) {
	on := api.Firewall{
		State: "on", Set: true, Allow: "tcp/8081", Confirm: 41.6,
		Rules:   []api.FirewallRule{{Text: "answers", Packets: 1234567, Bytes: 98765432}, {Text: "other TCP\x1b", Drop: true, Packets: 12, Bytes: 720}},
		Dropped: []api.FirewallPort{{Port: "udp/1900", Packets: 30}, {Port: "tcp/23", Packets: 2}},
	}
	for _, tt := range []struct {
		name string
		f    api.Firewall
		want string
	}{
		{"on", on, `firewall on: what no rule lets in is dropped
         open beside the gateway's own: tcp/8081
         !! for 42 s more, unless: gwctl firewall confirm (by a new connection,
         which shows that one gets in)

         PACKETS     BYTES
open     1234567    94 MiB  answers
drop          12     720 B  other TCP\x1b

packets dropped in the last hour, by port
         udp/1900 30, tcp/23 2
`},
		{"off", api.Firewall{State: "off"}, "firewall off: every port is open; gwctl firewall set on\n"},
		{"safe", api.Firewall{State: "off", Set: true, Problem: "this is a safe boot"}, "firewall off: this is a safe boot\n"},
		{"absent", api.Firewall{State: "absent", Problem: "no nftables"}, "firewall none: no nftables\n"},
		{"failed", api.Firewall{State: "failed", Problem: "no memory"}, "firewall !! failed: no memory\n"},
		{"changed", api.Firewall{State: "changed"}, "firewall !! somebody else has changed its rules: gwctl reload core puts them\n         right\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			s := screen{b: &b}
			s.firewall(tt.f)
			s.firewallRules(tt.f)
			if b.String() != tt.want {
				t.Errorf("\n%s, want\n%s", b.String(), tt.want)
			}
		})
	}
}

func TestFirewallCommands(t *testing.T) {
	b := gateway()
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		switch asked := fmt.Sprintf("%s %s %s", a.Service, a.Method, a.Params); asked {
		case "core firewall ":
			return json.RawMessage(`{"state":"off","set":false}`), nil
		case `core firewall-set {"on":true}`:
			return json.RawMessage(`{"state":"on","set":true,"confirmSeconds":60}`), nil
		case "core firewall-confirm ", "core firewall-undo ", `core firewall-set {"allow":""}`, `core firewall-set {"allow":"tcp/1 udp/2"}`, `core firewall-set {"on":false}`:
			return json.RawMessage(fmt.Sprintf(`{"state":"on","set":true,"allow":%q}`, strings.ReplaceAll(asked, `"`, ""))), nil
		default:
			return nil, &api.Error{Code: api.CodeFailed, Message: "asked " + asked}
		}
	}
	path := controltest.Start(t, b, control.Options{})
	const on = "firewall on: what no rule lets in is dropped\n"
	said := func(what string) string { return on + "         open beside the gateway's own: core " + what + "\n" }
	for _, tt := range []struct {
		args   string
		status int
		out    string
		err    string
	}{
		{"firewall", 0, "firewall off: every port is open; gwctl firewall set on\n", ""},
		// On the box nobody confirms it but who asked for it.
		{"firewall set on", 0, on + "         !! for 60 s more, unless: gwctl firewall confirm (by a new connection,\n         which shows that one gets in)\n", ""},
		{"firewall set off", 0, said("firewall-set {on:false}"), ""},
		{"firewall allow tcp/1 udp/2", 0, said("firewall-set {allow:tcp/1 udp/2}"), ""},
		{"firewall allow", 0, said("firewall-set {allow:}"), ""},
		{"firewall confirm", 0, said("firewall-confirm "), ""},
		{"firewall undo", 0, said("firewall-undo "), ""},
		{"firewall set", 2, "", "firewall set takes on or off"},
		{"firewall set maybe", 2, "", "firewall set takes on or off"},
		{"firewall confirm now", 2, "", `firewall has no verb "confirm now"`},
		{"firewall open", 2, "", `firewall has no verb "open"`},
		{"firewall -json", 0, `{"state":"off","set":false}` + "\n", ""},
	} {
		status, out, errs := call(t.Context(), append([]string{"-socket", path}, strings.Fields(tt.args)...)...)
		if status != tt.status || strings.TrimRight(out, " \n") != strings.TrimRight(tt.out, " \n") || !strings.Contains(errs, tt.err) || (tt.err == "") != (errs == "") {
			t.Errorf("%s: status %d\n%s%s\nwant %d\n%s%s", tt.args, status, out, errs, tt.status, tt.out, tt.err)
		}
	}
}
