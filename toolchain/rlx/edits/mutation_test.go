package edits_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gwinit/toolchain/rlx/check"
	"gwinit/toolchain/rlx/edits"
	"gwinit/toolchain/rlx/goroot"
)

// forSpeed are the edits of the code generator without which its output still
// keeps the rules.
var forSpeed = []string{
	"schedule", "one store of LR", "use the stack check's delay",
	"the last register", "not the last register again", "how registers are picked", "cheap multiplications",
	"zeros of 64 bits by halves", "the runtime's zeros of 64 bits by halves",
	"length of 64 bits by halves", "the runtime's length of 64 bits by halves",
	"no thread pointer", // the kernel emulates that RDHWR, and nothing executes it
}

// forOthers are edits whose absence other tests show: what is missing is no
// word that is wrong where it stands.
var forOthers = []string{
	"check each word",     // TestRejects
	"know REGTMP's range", // TestOrder
	// TestStoresEndLinks
	"Store ends other links", "Store8 ends other links",
	"inline Store ends other links", "inline Store of zero ends other links",
	"a return from a signal ends the link", "a thread's last store ends other links",
	// TestStress: nothing would end
	"the lock of 64-bit atomics yields",
	"Load64 takes no lock",
}

// noticed tells where the lack of an edit shows first, if not in the checker.
var noticed = map[string]string{
	// It defines what the edit of the lock calls.
	"the lock of 64-bit atomics yields: in assembly": "program",
}

// dependent are edits of what another one brought: they go with it.
var dependent = map[string][]string{"pad delays": {"schedule"}}

// Left out one by one, each edit that keeps a rule is missed: the checker finds
// what it breaks, or the tools or the program do not build.
func TestEachEditIsNeeded(t *testing.T) {
	if os.Getenv("GW_SOAK") == "" {
		t.Skip("builds the tools once for each edit, half an hour; run it with GW_SOAK=1")
	}
	cache := t.TempDir()
	source, err := filepath.Abs("testdata/stress")
	if err != nil {
		t.Fatal(err)
	}
	exempt := map[string]bool{}
	for _, name := range slices.Concat(forSpeed, forOthers) {
		exempt[name] = true
	}
	for _, s := range edits.Subjects() {
		if !slices.Contains([]string{"assembler", "compiler", "atomics"}, s.Name) {
			continue
		}
		for _, e := range s.Edits {
			if exempt[e.Name] {
				delete(exempt, e.Name)
				continue
			}
			t.Run(e.Name, func(t *testing.T) {
				want := noticed[e.Name]
				if want == "" {
					want = "checker"
				}
				if got := whoMisses(t, cache, source, e.Name); got != want {
					t.Errorf("noticed by: %s, want %s", got, want)
				}
			})
		}
	}
	for name := range exempt {
		t.Errorf("no edit of the code generator is called %q", name)
	}
}

// whoMisses builds a program by tools that lack an edit, and tells who notices:
// tools, program, checker or nobody.
func whoMisses(t *testing.T, cache, source, name string) string {
	// The assembler's own check would refuse what the checker is to find.
	without := append([]string{name, "check each word"}, dependent[name]...)
	if _, err := edits.Select(without); err != nil {
		t.Fatal(err)
	}
	root, err := goroot.Ready(t.Context(), goroot.Options{Cache: cache, Without: without})
	if err != nil {
		t.Log(err)
		return "tools"
	}
	defer os.RemoveAll(root)
	bin := filepath.Join(t.TempDir(), "program")
	build := goroot.Command(t.Context(), root, "build", "-ldflags=-checklinkname=0", "-o", bin, ".")
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		t.Logf("%s", said)
		return "program"
	}
	report, err := check.File(bin, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Violations) == 0 {
		return "nobody"
	}
	t.Log(report.Violations[0])
	return "checker"
}
