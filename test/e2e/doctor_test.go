//go:build e2e

package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/doctor"
	"gwinit/test/board"
)

// What gwctl doctor can tell that today's kernel lacks, without its config.gz.
var lackedByIncumbent = []string{
	"IGMP", "IPv6 route information", "LED timer", "SYN cookies", "config.gz", "fq_codel", "madvise", "nftables", "tmpfs",
}

// gwctl doctor on a fresh box names what the kernel lacks and nothing else: with
// the options of kernel.fragment that is nothing.
func TestDoctor(t *testing.T) {
	t.Parallel()
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		m := start(t, on)
		shell(t, m)
		await(t, m, "everything running", settled)
		out, code, err := m.Console().RunCommand("gwctl doctor -json", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var r doctor.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		var lacks []string
		for _, f := range r.Findings {
			switch {
			case f.Severity == doctor.OK:
			case f.Check == "kernel":
				_, name, _ := strings.Cut(f.Text, " has no ")
				name, _, _ = strings.Cut(name, ":")
				lacks = append(lacks, name)
			case f.Check == "clock", f.Check == "entropy", f.Check == "login":
				// The time servers may be out of reach, the first seed is
				// made a while after the boot, and nobody has put a key there.
			default:
				t.Errorf("%+v", f)
			}
		}
		slices.Sort(lacks)
		var want []string
		if strings.HasSuffix(t.Name(), board.KernelIncumbent) {
			want = lackedByIncumbent
		}
		if !slices.Equal(lacks, want) {
			t.Errorf("the kernel lacks %q, want %q", lacks, want)
		}
		if r.Faults != 0 || code != min(r.Warnings, 1) {
			t.Errorf("exit status %d, %d faults, %d warnings:\n%s", code, r.Faults, r.Warnings, run(t, m, "gwctl doctor || true"))
		}
	})
}
