//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"gwinit/test/board"
)

// A reset that nobody asked for is told of by the boot after it, with the last
// lines of the log, which no flash was written for; a reboot is told of as one.
func TestPreviousBoot(t *testing.T) {
	t.Parallel()
	onEachKernel(t, previousBoot)
}

func previousBoot(t *testing.T, on func(*board.Config)) {
	m := start(t, on)
	shell(t, m)
	await(t, m, "everything running", settled)
	if out := run(t, m, "gwctl logs init"); !strings.Contains(out, "the boot before left no word") {
		t.Errorf("of a start without power:\n%s", out)
	}
	reboot(t, m, "reboot")
	await(t, m, "everything running", settled)
	if out := run(t, m, "gwctl logs init"); !strings.Contains(out, "the boot before ended by reboot") {
		t.Errorf("of a reboot:\n%s", out)
	}
	if out := run(t, m, "gwctl incidents"); !strings.HasPrefix(out, "none") {
		t.Errorf("a reboot is an incident: %s", out)
	}
	// A round of the watchdog, in which the page is written.
	run(t, m, "sleep 12")
	if err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := m.Console().WaitBoot(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	await(t, m, "everything running", settled)
	if out := run(t, m, "gwctl logs init"); !strings.Contains(out, "was reset without an end of its own") {
		t.Errorf("of a reset:\n%s", out)
	}
	awaitLog(t, m, "netwatch: the box was reset before this boot")
	out := run(t, m, "gwctl incidents show 1")
	for _, want := range []string{"the box was reset before this boot", "== the end of its log", " core: "} {
		if !strings.Contains(out, want) {
			t.Errorf("the incident has no %q:\n%s", want, out)
		}
	}
}
