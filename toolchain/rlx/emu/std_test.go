package emu_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/emu"
)

// std lists the packages of Go whose tests run here; soak are those that take
// more than a few seconds.
var std = []struct {
	path string
	soak bool
	skip string
}{
	{path: "internal/runtime/atomic"},
	{path: "math/bits"},
	{path: "container/list"},
	{path: "container/ring"},
	{path: "container/heap"},
	{path: "encoding/binary"},
	{path: "hash/crc32"},
	{path: "math", soak: true},
	{path: "sort", soak: true},
	{path: "crypto/sha256", soak: true},
	{path: "bytes", soak: true},
	{path: "strconv", soak: true},
	{path: "sync", soak: true},
	{path: "sync/atomic", soak: true},
	{path: "crypto/ed25519", soak: true},
	{path: "math/big", soak: true},
	// Left out: it builds programs for the host and waits for a hundred of them.
	{path: "runtime", soak: true, skip: "^TestGoroutineLeakProfile$"},
}

var verdict = regexp.MustCompile(`(?m)^ *--- ((?:PASS|FAIL|SKIP): \S+)`)

// verdicts are the lines of go test -v that say how a test ended, sorted.
func verdicts(out []byte) []string {
	var v []string
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		v = append(v, string(m[1]))
	}
	slices.Sort(v)
	return v
}

// TestStd runs the tests of std packages in the interpreter and with stock Go
// under qemu-mips: what passes there has to pass here, and nothing may fail
// that does not fail there. Tests that run themselves fail under qemu-mips
// where the host cannot execute MIPS programs, and may pass here.
func TestStd(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages of std")
	}
	qemu, err := exec.LookPath("qemu-mips")
	if err != nil {
		t.Fatal("the other side of the comparison is missing: install qemu-user, as make test does")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	goCmd, mode := goCommand(t)
	self := command(t, mode)
	for _, p := range std {
		t.Run(p.path, func(t *testing.T) {
			if p.soak && os.Getenv("GW_SOAK") == "" {
				t.Skip("takes minutes; run it with GW_SOAK=1")
			}
			name := strings.ReplaceAll(p.path, "/", "_") + ".test"
			stock := compile(t, "go", name, "test", "-c", "-vet=off", p.path)
			ours := compile(t, goCmd, name, "test", "-c", "-vet=off", p.path)
			t.Chdir(filepath.Join(string(bytes.TrimSpace(goroot)), "src", p.path))
			args := []string{"-test.v", "-test.short"}
			if p.skip != "" {
				args = append(args, "-test.skip="+p.skip)
			}
			// One CPU on both sides: the code relies on it.
			c := exec.Command("taskset", append([]string{"1", qemu, stock}, args...)...)
			c.Env = append(os.Environ(), "GOMAXPROCS=1")
			want, qerr := c.CombinedOutput()
			got, exit, count, err := run(t, emu.Config{Mode: mode, Exec: self, Env: append(os.Environ(), "GOMAXPROCS=1")}, ours, args...)
			if err != nil {
				t.Fatalf("%v\n%s", err, tail(got))
			}
			w, g := verdicts(want), verdicts([]byte(got))
			if len(w) == 0 {
				t.Fatalf("nothing ran under qemu-mips: %v\n%s", qerr, tail(string(want)))
			}
			for _, v := range worse(w, g) {
				t.Error(v)
			}
			if qerr == nil && exit != (emu.Exit{}) {
				t.Errorf("qemu-mips ends well; here: %+v\n%s", exit, tail(got))
			}
			t.Logf("%d verdicts, %d under qemu-mips, %d million instructions", len(g), len(w), count.Instructions/1e6)
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// worse lists what passes in want and not in got, and what fails in got alone.
func worse(want, got []string) []string {
	var list []string
	for _, w := range want {
		if strings.HasPrefix(w, "PASS") && !slices.Contains(got, w) {
			list = append(list, "under qemu-mips alone: "+w)
		}
	}
	for _, g := range got {
		if strings.HasPrefix(g, "FAIL") && !slices.Contains(want, g) {
			list = append(list, "here alone: "+g)
		}
	}
	return list
}

func TestWorse(t *testing.T) {
	got := worse([]string{"FAIL: C", "PASS: A", "PASS: B", "SKIP: D"}, []string{"FAIL: B", "PASS: A", "PASS: C", "PASS: D"})
	if want := []string{"under qemu-mips alone: PASS: B", "here alone: FAIL: B"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
