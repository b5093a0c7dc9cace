package gwctl

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
)

// tuned is a gateway's Ethernet with something to say in every line.
func tuned() api.Ethernet {
	return api.Ethernet{
		Interface: "eth0", Driver: "rtl8196e-eth", Version: "2.24", At: 3e9,
		Profile: "latency", Knobs: "kick_threshold=8",
		All: []api.EthKnob{
			{Name: "gro_flush_timeout", Wanted: "0", Actual: "0", Why: "ns from a poll to the next without an interrupt"},
			{Name: "napi_defer_hard_irqs", Wanted: "0", Failed: true, Why: "this kernel or driver has none"},
			{Name: "bql_limit_max", Actual: "1879048192", Why: "bytes the driver may hold at most"},
		},
		BQL: &api.EthBQL{Limit: 2568, Inflight: 1514, Stalls: 1},
		Qdisc: api.EthQdisc{
			Wanted: "fq_codel", Actual: "fq_codel", Parameters: "limit 1024p flows 128 quantum 300 target 5ms interval 100ms memory_limit 1048576 ecn",
			Bytes: 3 << 20, Packets: 4096, Drops: 5, Requeues: 6, Backlog: 1514, Length: 1, Overlimit: 2, Marked: 3, NewFlows: 1,
		},
		Traffic: api.EthTraffic{RxBytes: 2 << 20, TxBytes: 3 << 20, RxPackets: 1, TxPackets: 4096, RxErrors: 1, RxDropped: 12},
		Counters: []api.EthCounter{
			{Name: "rtl8196e_isr_cnt", Value: 123456, Meaning: "interrupts"},
			{Name: "rtl8196e_rx_wild_mbuf", Value: 3, Meaning: "received: a buffer outside of the pool", Alarm: true},
			{Name: "rx_\x1b[2Jnew", Value: 1},
		},
		Notes: []string{"there is a note"},
	}
}

func TestEthScreen(t *testing.T) {
	now, before := tuned(), tuned()
	before.At, before.Traffic.RxBytes, before.Traffic.TxBytes = 1e9, 1<<20, 3<<20
	for name, e := range map[string]api.Ethernet{"eth": now, "eth-bare": {
		Interface: "eth0", Profile: "stock", Kept: true, All: now.All[:1],
		Qdisc: api.EthQdisc{Wanted: "fq_codel", Actual: "pfifo_fast", Why: "this kernel has no queueing disciplines"},
	}} {
		var b bytes.Buffer
		screen{&b, false}.eth(e, before)
		golden(t, name, b.String())
		for line := range strings.Lines(b.String()) {
			if len(line) > columns+1 || strings.Contains(line, "\x1b") {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

func TestEthCommand(t *testing.T) {
	answer, err := json.Marshal(tuned())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		args   []string
		calls  []string // methods with their parameters
		status int
		out    string // some of it
		err    string
	}{
		{"show", []string{"eth"}, []string{"eth ", "eth "}, 0, "profile latency, and kick_threshold=8, until the next start\n", ""},
		{"json", []string{"eth", "-json"}, []string{"eth "}, 0, `{"interface":"eth0","driver":"rtl8196e-eth",`, ""},
		{"profile", []string{"eth", "profile", "latency"}, []string{`eth-set {"profile":"latency","keep":true}`}, 0, "gro_flush_timeout", ""},
		{"profile to try", []string{"eth", "profile", "bench", "-try"}, []string{`eth-set {"profile":"bench"}`}, 0, "WANTED", ""},
		{"queue", []string{"eth", "queue", "default"}, []string{`eth-set {"qdisc":"default","keep":true}`}, 0, "WANTED", ""},
		{"knobs", []string{"eth", "set", "-try", "a=1", "b=2"}, []string{`eth-set {"knobs":"a=1 b=2"}`}, 0, "WANTED", ""},
		{"no knobs", []string{"eth", "set"}, []string{`eth-set {"knobs":"","keep":true}`}, 0, "WANTED", ""},
		{"set json", []string{"eth", "set", "-json"}, []string{`eth-set {"knobs":"","keep":true}`}, 0, `"interface":"eth0"`, ""},
		{"no name", []string{"eth", "profile"}, nil, 2, "", "eth profile takes one name"},
		{"two names", []string{"eth", "queue", "a", "b"}, nil, 2, "", "eth queue takes one name"},
		{"nothing to try", []string{"eth", "-try"}, nil, 2, "", "-try goes with"},
		{"not here", []string{"eth", "tune"}, nil, 2, "", "eth tune measures from a workstation"},
		{"nor with its options", []string{"eth", "tune", "-peer", "x", "latency"}, nil, 2, "", "eth tune measures from a workstation"},
		{"no such verb", []string{"eth", "faster"}, nil, 2, "", `eth has no verb "faster"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := gateway()
			var calls []string
			b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
				calls = append(calls, a.Method+" "+string(a.Params))
				return answer, nil
			}
			path := controltest.Start(t, b, control.Options{})
			status, out, errs := call(t.Context(), append([]string{"-socket", path}, tt.args...)...)
			if status != tt.status || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.err) {
				t.Errorf("status %d, output\n%s\nerrors %s", status, out, errs)
			}
			if strings.Join(calls, "\n") != strings.Join(tt.calls, "\n") {
				t.Errorf("calls %q, want %q", calls, tt.calls)
			}
		})
	}
}
