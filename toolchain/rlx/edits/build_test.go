package edits_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gwinit/toolchain/rlx/emu"
	"gwinit/toolchain/rlx/goroot"
)

// ourGo is the folder of the edited Go.
func ourGo(t *testing.T) string {
	t.Helper()
	root, err := goroot.Ready(t.Context(), goroot.Options{Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// program builds a program of testdata with the edited Go.
func program(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	said, err := goroot.Command(t.Context(), ourGo(t), "build", "-ldflags=-checklinkname=0", "-o", bin, "./testdata/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, said)
	}
	return bin
}

// stockProgram builds it with the installed Go.
func stockProgram(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-checklinkname=0", "-o", bin, "./testdata/"+name)
	build.Env = append(os.Environ(), goroot.Env()...)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, said)
	}
	return bin
}

// execute runs a program on the interpreter and returns what it says, how it
// ends and what was counted.
func execute(t *testing.T, cfg emu.Config, bin string, args ...string) (string, emu.Exit, emu.Counters) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cfg.Args = append([]string{bin}, args...)
	cfg.Stdin, cfg.Stdout, cfg.Stderr = int(null.Fd()), int(out.Fd()), int(out.Fd())
	m, err := emu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	exit, err := m.Run(t.Context(), bin)
	said, rerr := os.ReadFile(out.Name())
	if err != nil || rerr != nil {
		t.Fatalf("%s: %+v, %v, %v\n%s", filepath.Base(bin), exit, err, rerr, said)
	}
	return string(said), exit, m.Counters()
}

// interpret runs a program that has to end well, on a CPU that takes what
// either Go makes.
func interpret(t *testing.T, cfg emu.Config, bin string, args ...string) (string, emu.Counters) {
	t.Helper()
	cfg.Mode = emu.ModeMIPS32
	if cfg.Limit == 0 {
		cfg.Limit = 1e9
	}
	said, exit, count := execute(t, cfg, bin, args...)
	if exit != (emu.Exit{}) {
		t.Fatalf("%s: %+v\n%s", filepath.Base(bin), exit, said)
	}
	return said, count
}

// strict runs a program on the CPU that ends it at its first broken rule.
func strict(t *testing.T, cfg emu.Config, bin string, args ...string) (string, emu.Exit) {
	t.Helper()
	cfg.Mode, cfg.Limit = emu.ModeStrict, 4e9
	said, exit, _ := execute(t, cfg, bin, args...)
	return said, exit
}

// qemu runs a program under qemu-mips (package qemu-user) on one core.
func qemu(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "taskset", append([]string{"-c", "0", "qemu-mips"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

// words are a function's instructions.
func words(t *testing.T, bin, name string) []uint32 {
	t.Helper()
	f, err := elf.Open(bin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != name {
			continue
		}
		text := f.Section(".text")
		b := make([]byte, s.Size)
		if _, err := text.ReadAt(b, int64(s.Value-text.Addr)); err != nil {
			t.Fatal(err)
		}
		list := make([]uint32, len(b)/4)
		for i := range list {
			list[i] = binary.BigEndian.Uint32(b[4*i:])
		}
		return list
	}
	t.Fatalf("%s has no symbol %s", bin, name)
	return nil
}
