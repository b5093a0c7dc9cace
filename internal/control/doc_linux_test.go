package control_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
)

var update = flag.Bool("update", false, "write the answers in docs/control.md anew")

// documented is the box of the examples.
func documented() *controltest.Backend {
	b := &controltest.Backend{Box: api.Status{
		Version: "0.1.0", Board: api.Board{ID: "lidl", Model: "Lidl Silvercrest Gateway"},
		BootMode: "normal", Uptime: 7400.5, Wall: 1767366245e9, Hostname: "zigbee-gw",
		Memory:   api.Memory{Total: 25492, Free: 9120, Available: 11468},
		Userdata: api.Userdata{State: "mounted", Device: "/dev/mtdblock4", Total: 12288, Free: 10035},
		Network: &api.Network{
			Interface: "eth0", MAC: "02:11:22:33:44:55", Carrier: true, SpeedMbit: 100, Method: "dhcp", State: "bound",
			Addresses: []string{"192.0.2.50/24"}, Gateway: "192.0.2.1", DNS: []string{"192.0.2.1"}, Lease: 43100, Server: "192.0.2.1",
		},
		Radio: api.Radio{Owner: "bridge", Device: "/dev/ttyS1", Mode: "zigbee", Baud: 115200, Flow: "hw"},
		Bridge: &api.Bridge{
			Listen: "[::]:8888", UART: "/dev/ttyS1", UARTOpen: true, Baud: 115200, Flow: "hw",
			Client:  &api.BridgeClient{Addr: "192.0.2.10:51234", Since: 7385, Rx: 1258291, Tx: 307200},
			RxBytes: 1258291, TxBytes: 307200, Connects: 1,
		},
		Services: []api.Service{
			{Name: "bridge", State: "running", PID: 51, Since: 7399, Essential: true, CPU: 15.2, RSS: 3212, Anon: 604},
			{Name: "core", State: "running", PID: 55, Since: 7398.5, Essential: true, CPU: 1.34, RSS: 5120, Anon: 1180, Status: "bound"},
		},
	}}
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		if a.Method != "tap" {
			return json.Marshal(b.Box.Bridge)
		}
		return json.Marshal(api.Followed{
			Data: api.BridgeTap{Now: 7385120455, Wall: 1767366245000000, Missed: 12, Pieces: []api.TapPiece{
				{At: 7385080120, From: "client", Data: []byte{0x1A, 0xC0, 0x38, 0xBC, 0x7E}},
			}},
			Next: api.BridgeTapArgs{Bridge: 1767358860000000, After: 1565496}, Pause: 5000,
		})
	}
	b.Append("bridge", "listening on [::]:8888")
	b.Append("core", "eth0: link is up, 100 Mbit/s")
	b.Append("core", "eth0: 192.0.2.50/24 for 12 h from 192.0.2.1")
	return b
}

// The examples in the documentation are what the server answers.
func TestDocumentation(t *testing.T) {
	const file = "../../docs/control.md"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	path := controltest.Start(t, documented(), control.Options{})
	var out strings.Builder
	var p *peer // the connection of the block, nil outside
	requests := 0
	want := []string{} // answers that the block goes on with
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "```control":
			p = connect(t, path)
		case line == "```" && p != nil:
			p.Close()
			p = nil
		case p != nil && strings.HasPrefix(line, "> "):
			requests++
			out.WriteString(line + "\n")
			p.send(t, line[2:]+"\n")
			for more := true; more; {
				answer, err := p.r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				var r api.Reply
				if err := json.Unmarshal([]byte(answer), &r); err != nil {
					t.Fatal(err)
				}
				more = r.More && !strings.Contains(line, `"follow":true`) // that has no end
				want = append(want, "< "+strings.TrimSuffix(answer, "\n"))
				out.WriteString(want[len(want)-1] + "\n")
			}
			continue
		case p != nil && strings.HasPrefix(line, "<"):
			if i := slices.Index(want, line); i == 0 {
				want = want[1:]
			} else if !*update {
				t.Errorf("the documentation has\n%s\nthe server says\n%v", line, want)
				want = nil
			}
			continue
		}
		if p == nil && len(want) > 0 && !*update {
			t.Errorf("the documentation leaves out %q", want)
		}
		if p == nil {
			want = nil
		}
		out.WriteString(line + "\n")
	}
	if requests < 10 {
		t.Errorf("%d examples", requests)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	doc := out.String()
	for _, word := range []string{
		api.OpStatus, api.OpLogs, api.OpService, api.OpShutdown, api.OpCall,
		api.CodeBadRequest, api.CodeVersion, api.CodeUnknownOp, api.CodeNotFound, api.CodeFailed, api.CodeBusy, api.CodeDenied,
	} {
		if !strings.Contains(doc, "| `"+word+"` |") {
			t.Errorf("%s is in no table", word)
		}
	}
}
