//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// ethernet is `gwctl eth -json`, or that of a verb.
func ethernet(t *testing.T, m *board.Machine, verb string) api.Ethernet {
	t.Helper()
	return answer[api.Ethernet](t, m, "gwctl eth -json "+verb)
}

// The kernel has fq_codel with the gateway's parameters, and the knobs of the
// profiles, and both are what the commands and the settings say.
func TestEthernetTuning(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)

	e := ethernet(t, m, "")
	if e.Profile != "stock" || !e.Kept || e.Driver != "e1000" {
		t.Errorf("at first %+v", e)
	}
	const parameters = "limit 1024p flows 128 quantum 300 target 4.999ms interval 99.999ms memory_limit 1048576 ecn"
	if q := e.Qdisc; q.Actual != "fq_codel" || q.Why != "" || q.Parameters != parameters || q.Packets == 0 {
		t.Errorf("queue %+v, want fq_codel %s", q, parameters)
	}
	// A card with byte queue limits has sent something.
	if e.BQL == nil || e.BQL.Limit == 0 || e.Traffic.TxPackets == 0 || len(e.Counters) == 0 {
		t.Errorf("BQL %+v, traffic %+v, %d counters", e.BQL, e.Traffic, len(e.Counters))
	}

	const device = "/sys/class/net/eth0/"
	files := []string{
		device + "gro_flush_timeout", device + "napi_defer_hard_irqs", device + "queues/tx-0/byte_queue_limits/limit_min",
		device + "queues/tx-0/byte_queue_limits/limit_max", device + "tx_queue_len", "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
	}
	held := func() string { return strings.Join(strings.Fields(run(t, m, "cat "+strings.Join(files, " "))), " ") }
	found := held()
	for _, tt := range []struct{ verb, want string }{
		{"profile throughput", "20000 1 12112 1879048192 1000 0"},
		{"profile latency", "0 0 0 3028 64 0"},
		{"set tx_queue_len=100", "0 0 0 3028 100 0"},
	} {
		e := ethernet(t, m, tt.verb)
		if got := held(); got != tt.want {
			t.Errorf("after %s the kernel holds %s, want %s", tt.verb, got, tt.want)
		}
		for _, k := range e.All {
			if k.Failed {
				t.Errorf("after %s: %+v", tt.verb, k)
			}
		}
	}
	if w := status(t, m).Warnings; len(w) != 0 {
		t.Errorf("warnings %q", w)
	}

	// Kept over a boot.
	reboot(t, m, "reboot")
	await(t, m, "everything running", settled)
	if got := held(); got != "0 0 0 3028 100 0" {
		t.Errorf("after a boot the kernel holds %s", got)
	}
	// And a restart in between knows what was there before.
	run(t, m, "gwctl restart core")
	await(t, m, "everything running", settled)
	run(t, m, "gwctl config unset gateway.ETH_KNOBS gateway.ETH_PROFILE")
	if got := held(); got != found {
		t.Errorf("at the end the kernel holds %s, at first %s", got, found)
	}
	e = ethernet(t, m, "queue default")
	if q := e.Qdisc; q.Actual == "fq_codel" || !e.Kept {
		t.Errorf("queue default gave %+v", q)
	}
	screen := run(t, m, "gwctl eth")
	for _, want := range []string{"e1000", "profile stock", "gro_flush_timeout", "pfifo_fast"} {
		if !strings.Contains(screen, want) {
			t.Errorf("gwctl eth does not show %q:\n%s", want, screen)
		}
	}
}
