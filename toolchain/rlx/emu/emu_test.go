package emu_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gwinit/toolchain/rlx/emu"
)

// build compiles a program of testdata with the stock Go for MIPS.
func build(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	c := exec.Command("go", "build", "-o", bin, "./testdata/"+name)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", name, err, out)
	}
	return bin
}

// run executes a program and returns its standard output.
func run(t *testing.T, cfg emu.Config, bin string) (string, emu.Exit, emu.Counters, error) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cfg.Stdin, cfg.Stdout, cfg.Stderr = int(in.Fd()), int(out.Fd()), int(out.Fd())
	m, err := emu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	exit, err := m.Run(context.Background(), bin)
	text, rerr := os.ReadFile(out.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), exit, m.Counters(), err
}

func TestHello(t *testing.T) {
	bin := build(t, "hello")
	out, exit, first, err := run(t, emu.Config{Mode: emu.ModeMIPS32}, bin)
	if err != nil || exit != (emu.Exit{}) || out != "hello, world\n" {
		t.Fatalf("got %q, %+v, %v", out, exit, err)
	}
	if first.Instructions < 100_000 || first.Loads == 0 || first.NOPs == 0 || first.LL == 0 || first.Syscalls == 0 {
		t.Errorf("counted too little: %+v", first)
	}
	_, _, second, err := run(t, emu.Config{Mode: emu.ModeMIPS32}, bin)
	if err != nil || second.Instructions != first.Instructions {
		t.Errorf("not repeatable: %d and %d instructions, %v", first.Instructions, second.Instructions, err)
	}
}

// Stock output uses a loaded register at once, within its first instructions.
func TestStockBreaksTheRules(t *testing.T) {
	_, _, c, err := run(t, emu.Config{Mode: emu.ModeStrict}, build(t, "hello"))
	var v emu.Violation
	if !errors.As(err, &v) || v.Kind != emu.ViolationRead || c.Instructions > 100 {
		t.Fatalf("got %v after %d instructions", err, c.Instructions)
	}
}
