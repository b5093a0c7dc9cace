package goroot_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/goroot"
)

// A client of stock Go and x/crypto talks to a server of the edited ones, on
// the gateway's instruction set, with every algorithm; and finds what was left
// out missing. testdata/ssh says which those are.
func TestEditedSSH(t *testing.T) {
	qemu, err := exec.LookPath("qemu-mips")
	if err != nil {
		t.Fatal("the server runs under qemu-mips: install qemu-user, as make test does")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/ssh")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	root, err := goroot.Ready(t.Context(), goroot.Options{Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	flag, err := goroot.Modules(t.Context(), goroot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := "-modfile=" + filepath.Join(dir, "build", "rlx.mod"); flag != want {
		t.Fatalf("flag %q, want %q", flag, want)
	}
	before, err := os.Stat("build/golang.org/x/crypto/ssh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := goroot.Modules(t.Context(), goroot.Options{}); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat("build/golang.org/x/crypto/ssh"); err != nil || !os.SameFile(before, after) {
		t.Errorf("the second time made another copy (%v)", err)
	}
	build := goroot.Command(t.Context(), root, "build", flag, "-trimpath", "-o", "server", ".")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if said, err := exec.Command("go", "build", "-o", "try", "./client").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err := exec.CommandContext(t.Context(), "./try", qemu, "./server").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if len(lines) < 18 {
		t.Errorf("%d sessions were tried, want 18", len(lines))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "ok: ") {
			t.Error(line)
		}
	}
}

// A module that requires nothing of what is edited is built as it is, and one
// that has its own replacement is refused.
func TestModulesWithoutEdits(t *testing.T) {
	for name, tt := range map[string]struct{ mod, err string }{
		"another module": {mod: "module m\n\ngo 1.26.0\n"},
		"a replacement": {
			mod: "module m\n\ngo 1.26.0\n\nrequire golang.org/x/crypto v0.59.0\n\nreplace golang.org/x/crypto => ./fork\n",
			err: "go.mod replaces golang.org/x/crypto",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("go.mod", []byte(tt.mod), 0o644); err != nil {
				t.Fatal(err)
			}
			flag, err := goroot.Modules(t.Context(), goroot.Options{})
			if flag != "" || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Modules = %q, %v, want no flag and %q", flag, err, tt.err)
			}
		})
	}
}
