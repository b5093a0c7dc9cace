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

// watching is a netwatch to which everybody answers.
func watching() api.Netwatch {
	return api.Netwatch{
		State: "reachable", By: "target", Enabled: true, Poll: 30, Fail: 900, Window: 86400, Looked: 12,
		Targets: []api.NetwatchTarget{
			{Target: "gateway", Address: "192.168.1.1", By: "icmp", Latency: 812, Since: 12},
			{Target: "gateway", Address: "fe80::1%eth0", By: "nd", Since: 12},
			{Target: "192.168.1.7", Address: "192.168.1.7", Since: 4000},
			{Target: "nas.lan", Problem: "lookup nas.lan: no such host"},
		},
		Steps: []api.NetwatchStep{
			{Step: "renew", After: 180, Next: 180, Most: 24},
			{Step: "link", After: 360, Next: 360, Used: 1, Most: 8},
			{Step: "driver", After: 540, Next: 540, Most: 3},
			{Step: "reboot", After: 900, Next: 900, Used: 3, Most: 3},
		},
		Incidents: 3,
	}
}

func TestNetwatch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(n *api.Netwatch)
	}{
		{"reachable", func(*api.Netwatch) {}},
		{"unreachable", func(n *api.Netwatch) {
			n.State, n.By, n.Failed, n.Targets = "unreachable", "", 400, n.Targets[2:]
			n.Steps[0].Next, n.Steps[1].Next, n.Steps[2].Next, n.Steps[3].Next = -1, -1, 140, 500
			n.Problem = "/userdata/netwatch/budget is damaged, so no hard step is taken; remove it if you know of no reboot loop"
		}},
		{"client", func(n *api.Netwatch) {
			n.By, n.Targets, n.Steps, n.Enabled, n.Incidents = "client", n.Targets[2:3], n.Steps[:2], false, 0
		}},
		{"dry", func(n *api.Netwatch) { n.State, n.Targets, n.DryRun = "unplugged", nil, true }},
		{"fresh", func(n *api.Netwatch) { *n = api.Netwatch{State: "starting"} }},
		{"nobody", func(n *api.Netwatch) {
			*n = api.Netwatch{State: "no-target", Targets: []api.NetwatchTarget{{Target: "gateway"}}}
		}},
		{"newer", func(n *api.Netwatch) {
			*n = api.Netwatch{State: "dreaming\x1b", Steps: []api.NetwatchStep{{Step: "dance\x1b[1m", After: 60}}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := watching()
			tt.change(&n)
			var b bytes.Buffer
			screen{b: &b}.netwatch(n)
			golden(t, "netwatch-"+tt.name, b.String())
			for l := range strings.Lines(b.String()) {
				if l = strings.TrimSuffix(l, "\n"); len(l) > columns || strings.TrimRight(l, " ") != l {
					t.Errorf("%d columns: %q", len(l), l)
				}
			}
		})
	}
}

func TestNetwatchCommands(t *testing.T) {
	b := gateway()
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		switch asked := fmt.Sprintf("%s %s %s", a.Service, a.Method, a.Params); asked {
		case "core netwatch ":
			return json.Marshal(watching())
		case "core incidents ":
			return json.RawMessage(`[{"number":12,"summary":"2026-12-01 01:02:03 UTC, no answer\u001b: rebooting"},{"number":11,"summary":"x"}]`), nil
		case `core incidents {"number":12}`:
			return json.RawMessage(`[{"number":12,"summary":"a","text":"a\nboot \u001b[1m\n\n== log\nlast"}]`), nil
		default:
			return nil, &api.Error{Code: api.CodeFailed, Message: "core: no incident; asked " + asked}
		}
	}
	path := controltest.Start(t, b, control.Options{})
	for _, tt := range []struct {
		args   string
		status int
		out    string
		err    string
	}{
		{"netwatch incidents", 0, "12  2026-12-01 01:02:03 UTC, no answer\\x1b: rebooting\n11  x\n", ""},
		{"incidents", 0, "12  2026-12-01 01:02:03 UTC, no answer\\x1b: rebooting\n11  x\n", ""},
		{"incidents show 12", 0, "a\nboot \\x1b[1m\n\n== log\nlast\n", ""},
		{"incidents show", 2, "", "takes show and a number"},
		{"netwatch incidents show 12", 0, "a\nboot \\x1b[1m\n\n== log\nlast\n", ""},
		{"netwatch incidents -json", 0, `[{"number":12,"summary":"2026-12-01 01:02:03 UTC, no answer` + "\\u001b" + `: rebooting"},{"number":11,"summary":"x"}]` + "\n", ""},
		{"netwatch incidents show 3", 1, "", "no incident"},
		{"netwatch incidents show x", 2, "", "takes show and a number"},
		{"netwatch incidents show", 2, "", "takes show and a number"},
		{"netwatch incidents 12", 2, "", "takes show and a number"},
		{"netwatch now", 2, "", "netwatch takes incidents or nothing"},
	} {
		status, out, errs := call(t.Context(), append([]string{"-socket", path}, strings.Fields(tt.args)...)...)
		if status != tt.status || out != tt.out || !strings.Contains(errs, tt.err) || (tt.err == "") != (errs == "") {
			t.Errorf("%s: status %d\n%s%s\nwant %d\n%s%s", tt.args, status, out, errs, tt.status, tt.out, tt.err)
		}
	}
	status, out, _ := call(t.Context(), "-socket", path, "netwatch", "-json")
	var n api.Netwatch
	if err := json.Unmarshal([]byte(out), &n); err != nil || status != 0 || n.Targets[0] != watching().Targets[0] || n.Steps[3] != watching().Steps[3] {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
	if _, out, _ := call(t.Context(), "-socket", path, "netwatch"); !strings.Contains(out, "gateway 192.168.1.1: answers, 812 us") {
		t.Errorf("%s", out)
	}
}

func TestNoIncidents(t *testing.T) {
	b := gateway()
	b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) { return json.RawMessage(`[]`), nil }
	path := controltest.Start(t, b, control.Options{})
	if status, out, _ := call(t.Context(), "-socket", path, "netwatch", "incidents"); status != 0 || !strings.HasPrefix(out, "none: ") {
		t.Errorf("status %d: %s", status, out)
	}
}
