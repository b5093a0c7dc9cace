//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// watched is `gwctl netwatch -json` on the console.
func watched(t *testing.T, m *board.Machine) api.Netwatch {
	t.Helper()
	return answer[api.Netwatch](t, m, "gwctl netwatch -json")
}

// awaitLog asks for core's log until it holds text.
func awaitLog(t *testing.T, m *board.Machine, text string) {
	t.Helper()
	for end := time.Now().Add(4 * time.Minute); ; wait(2 * time.Second) {
		log := run(t, m, "gwctl logs core")
		if strings.Contains(log, text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never said: %q; the log:\n%s", text, log)
		}
	}
}

// Nobody answers: the box goes from mild to hard, reboots as often as its budget
// says, which is once, and then stays up and says so (INV 8).
func TestNetwatchRebootsOnce(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	awaitWatch := func(what string, ok func(api.Netwatch) bool) api.Netwatch {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; wait(time.Second) {
			n := watched(t, m)
			if ok(n) {
				return n
			}
			if time.Now().After(end) {
				t.Fatalf("never seen: %s; %+v", what, n)
			}
		}
	}
	n := awaitWatch("somebody answers", func(n api.Netwatch) bool { return n.State == "reachable" })
	if len(n.Targets) == 0 || n.Targets[0].Address != "10.0.2.2" || n.Targets[0].By != "icmp" || n.Enabled || len(n.Steps) != 2 {
		t.Errorf("%+v", n)
	}

	// Neither QEMU's network nor the internet has these.
	run(t, m, "gwctl config set netwatch.TARGETS='10.0.2.77 203.0.113.1' netwatch.FAIL_MIN=1 netwatch.POLL_SEC=5 "+
		"netwatch.MAX_REBOOT=1 netwatch.ENABLED=1 gateway.GW_NETWATCH_DRIVER=1")
	awaitLog(t, m, ": binding the Ethernet driver anew")
	awaitLog(t, m, "eth0 is gone")
	log := run(t, m, "gwctl logs core")
	for _, want := range []string{
		"netwatch: no answer from 10.0.2.77, 203.0.113.1 for ", ": asking the DHCP server again", ": setting the link down and up",
		"eth0: set down and up again", "eth0: link down",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	if err := m.Console().WaitBoot(4 * time.Minute); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	if budget := run(t, m, "cat /userdata/netwatch/budget"); !strings.HasPrefix(budget, "gwinit netwatch budget 1") ||
		!strings.Contains(budget, "driver ") || !strings.Contains(budget, "reboot 0") {
		t.Errorf("the budget holds %q", budget)
	}
	const refusal = "no reboot, the budget is spent (1 in 24 h)"
	awaitLog(t, m, refusal)
	// A ladder later it is still there.
	n = awaitWatch("another round", func(n api.Netwatch) bool { return n.Failed > 130 })
	if last := n.Steps[len(n.Steps)-1]; n.State != "unreachable" || last.Step != "reboot" || last.Used != 1 || last.Most != 1 {
		t.Errorf("%+v", n)
	}
	if log := run(t, m, "gwctl logs core"); strings.Count(log, refusal) != 1 || strings.Contains(log, ": rebooting") {
		t.Errorf("the second boot says:\n%s", log)
	}
	if boots := strings.Count(m.Transcript(), "Linux version "); boots != 2 {
		t.Errorf("%d boots, want 2", boots)
	}
	s := await(t, m, "a network all the same", settled)
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "nothing has answered for") {
		t.Errorf("warnings %q", s.Warnings)
	}
	list := run(t, m, "gwctl netwatch incidents")
	var found api.Incident
	for line := range strings.Lines(list) {
		if strings.Contains(line, ": rebooting") {
			fmt.Sscan(line, &found.Number)
		}
	}
	text := run(t, m, fmt.Sprintf("gwctl netwatch incidents show %d", found.Number))
	for _, want := range []string{": rebooting", `"target":"10.0.2.77"`, "== network", "== /proc/net/dev", "== kernel log", "e1000"} {
		if !strings.Contains(text, want) {
			t.Errorf("the incident has no %q:\n%s", want, text)
		}
	}
	t.Logf("gwctl netwatch:\n%s\ngwctl netwatch incidents:\n%s", run(t, m, "gwctl netwatch"), list)

	run(t, m, "gwctl config unset netwatch.TARGETS")
	awaitWatch("the gateway answers", func(n api.Netwatch) bool { return n.State == "reachable" })
}
