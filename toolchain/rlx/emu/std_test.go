package emu_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/emu"
)

// std lists the packages of Go whose tests run here, with the seconds that
// they take of a quiet machine of 2026 where that is more than a few; those
// run only with GW_SOAK=1.
var std = []struct {
	path string
	soak bool
	skip string // tests that do not end in a sensible time
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
	{path: "runtime", soak: true, skip: "^(TestStackAllOutput|TestDebugCall.*)$"},
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
// under qemu-mips: the same tests have to pass, fail and be skipped.
func TestStd(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles packages of std")
	}
	qemu, err := exec.LookPath("qemu-mips")
	if err != nil {
		t.Skip("the other side of the comparison is missing: install qemu-user")
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	goCmd, mode := goCommand()
	self := command(t, mode)
	for _, p := range std {
		t.Run(p.path, func(t *testing.T) {
			if p.soak && os.Getenv("GW_SOAK") == "" {
				t.Skip("takes minutes; run it with GW_SOAK=1")
			}
			name := strings.ReplaceAll(p.path, "/", "_") + ".test"
			stock := compile(t, "go", name, "test", "-c", "-vet=off", p.path)
			ours := stock
			if goCmd != "go" {
				ours = compile(t, goCmd, name, "test", "-c", "-vet=off", p.path)
			}
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
			if len(w) == 0 || !slices.Equal(w, g) {
				t.Errorf("differ: %s", diff(w, g))
			}
			if (qerr == nil) != (exit == emu.Exit{}) {
				t.Errorf("qemu-mips: %v; here: %+v\n%s", qerr, exit, tail(got))
			}
			t.Logf("%d verdicts, %d million instructions", len(g), count.Instructions/1e6)
		})
	}
}

func tail(s string) string { return s[max(0, len(s)-2000):] }

// diff lists what is in one of the sorted lists only.
func diff(want, got []string) string {
	var b strings.Builder
	for _, w := range want {
		if !slices.Contains(got, w) {
			fmt.Fprintf(&b, "\n- %s", w)
		}
	}
	for _, g := range got {
		if !slices.Contains(want, g) {
			fmt.Fprintf(&b, "\n+ %s", g)
		}
	}
	return b.String()
}
