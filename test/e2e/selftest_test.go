//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/selftest"
	"gwinit/test/board"
)

// selftestTime is what the whole test may take on a loaded host; a gateway
// takes less than two minutes.
const selftestTime = 8 * time.Minute

// The self-test passes on the emulated board, as a person runs it: a copy of
// the program in /tmp, beside everything that runs. It changes nothing.
func TestSelftest(t *testing.T) {
	t.Parallel()
	onEachKernel(t, selfTest)
}

func selfTest(t *testing.T, on func(*board.Config)) {
	m := start(t, on)
	shell(t, m)
	before := await(t, m, "everything running", settled)
	run(t, m, "cat /proc/1/exe >/tmp/try && chmod +x /tmp/try")
	// The clock's first seed comes when there is entropy, which may be meanwhile.
	const list = "ls -l /userdata /userdata/etc /tmp /run | grep -v random-seed; cat /proc/mtd; ls /sys/class/net"
	files := run(t, m, list)

	out, code, err := m.Console().RunCommand("/tmp/try selftest", selftestTime)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	if code != 0 || !strings.Contains(out, "verdict: ok") || strings.Contains(out, "FAIL ") {
		t.Errorf("exit status %d:\n%s", code, out)
	}
	for _, want := range []string{
		"-- cpu:", "-- opcodes:", "-- storm:", "-- link:", "-- atomics:", "-- compute:", "-- clock:", "-- threads:", "-- memory:", "-- kernel:",
		"gw selftest " + before.Version, "emulated", "jffs2-fs",
		"ok    cpu/lw, used behind one instruction: ",
		"info  cpu/load delay: not exposed", // QEMU is no RLX4181
		"info  link/conclusion: link flag: ",
		"ok    link/atomics: ",
		"ok    atomics/Add, 32 bits: 10000000, want 10000000",
		"ok    clock/waiting costs nothing: ",
		"ok    threads/futex: ",
		"ok    memory/RAM: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not hold %q", want)
		}
	}
	if now := run(t, m, list); now != files {
		t.Errorf("before\n%s\nafter\n%s", files, now)
	}
	run(t, m, "rm /tmp/try") // or there is a warning of what is left of the memory
	after := await(t, m, "everything still running, without a warning", func(s api.Status) bool { return settled(s) && len(s.Warnings) == 0 })
	for _, s := range after.Services {
		if old := service(t, before, s.Name); s.Restarts != old.Restarts || s.PID != old.PID {
			t.Errorf("%s was %+v and is %+v", s.Name, old, s)
		}
	}
	t.Run("json", func(t *testing.T) { selftestJSON(t, before, run(t, m, "gw selftest -quick -json -group cpu")) })
}

func selftestJSON(t *testing.T, s api.Status, out string) {
	var r selftest.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if r.Version != s.Version || !r.Quick || r.Counts[selftest.OK] < 20 || r.Counts[selftest.Fail] != 0 || r.UID != 0 || r.FileCRC32 == "" {
		t.Errorf("%+v", r)
	}
}
