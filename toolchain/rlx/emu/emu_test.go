package emu_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/emu"
	"gwinit/toolchain/rlx/goroot"
)

// goCommand is the go command that builds what runs, our own, and the CPU that
// it is for.
func goCommand(t *testing.T) (string, emu.Mode) {
	t.Helper()
	root, err := goroot.Ready(t.Context(), goroot.Options{Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "bin", "go"), emu.ModeStrict
}

func compile(t *testing.T, goCmd, name string, args ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	args = append(args[:1:1], append([]string{"-p", "1", "-o", bin}, args[1:]...)...)
	c := exec.Command(goCmd, args...)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0", "GOFLAGS=", "GOTOOLCHAIN=local")
	if goCmd != "go" {
		c.Env = append(c.Env, "GOROOT=")
	}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", goCmd, strings.Join(args, " "), err, out)
	}
	return bin
}

// build compiles a program of testdata.
func build(t *testing.T, goCmd, name string) string {
	t.Helper()
	return compile(t, goCmd, name, "build", "./testdata/"+name)
}

// command builds rlxemu, for the programs that a guest starts.
func command(t *testing.T, mode emu.Mode) []string {
	t.Helper()
	self := filepath.Join(t.TempDir(), "rlxemu")
	if out, err := exec.Command("go", "build", "-o", self, "./rlxemu").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return []string{self, "-mode", map[emu.Mode]string{emu.ModeStrict: "strict", emu.ModeMIPS32: "mips32"}[mode]}
}

// run executes a program and returns its standard output and error.
func run(t *testing.T, cfg emu.Config, bin string, args ...string) (string, emu.Exit, emu.Counters, error) {
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
	cfg.Args = append([]string{bin}, args...)
	if cfg.Env == nil {
		cfg.Env = []string{"HOME=/", "PATH=/bin", "TMPDIR=" + t.TempDir()}
	}
	m, err := emu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	exit, err := m.Run(t.Context(), bin)
	text, rerr := os.ReadFile(out.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return string(text), exit, m.Counters(), err
}

func TestHello(t *testing.T) {
	goCmd, mode := goCommand(t)
	bin := build(t, goCmd, "hello")
	out, exit, first, err := run(t, emu.Config{Mode: mode}, bin)
	if err != nil || exit != (emu.Exit{}) || out != "hello, world\n" {
		t.Fatalf("got %q, %+v, %v", out, exit, err)
	}
	if first.Instructions < 100_000 || first.Loads == 0 || first.NOPs == 0 || first.LL == 0 || first.Syscalls == 0 {
		t.Errorf("counted too little: %+v", first)
	}
	_, _, second, err := run(t, emu.Config{Mode: mode}, bin)
	if err != nil || second.Instructions != first.Instructions {
		t.Errorf("not repeatable: %d and %d instructions, %v", first.Instructions, second.Instructions, err)
	}
}

// Stock output uses a loaded register at once, within its first instructions.
func TestStockBreaksTheRules(t *testing.T) {
	_, _, c, err := run(t, emu.Config{Mode: emu.ModeStrict}, build(t, "go", "hello"))
	var v emu.Violation
	if !errors.As(err, &v) || v.Kind != emu.ViolationRead || c.Instructions > 100 {
		t.Fatalf("got %v after %d instructions", err, c.Instructions)
	}
}

func TestMixed(t *testing.T) {
	const want = `sum 190
recovered: runtime error: invalid memory address or nil pointer dereference
recovered: runtime error: integer divide by zero
tick 0
tick 1
tick 2
tick 3
tick 4
f0d4547fb817222a1b3b27a7d083d553558bc7a089ae06568e2d3632466eba5d
end
panic: assignment to entry in nil map
`
	goCmd, mode := goCommand(t)
	out, exit, c, err := run(t, emu.Config{Mode: mode}, build(t, goCmd, "mixed"))
	if err != nil || exit.Code != 2 || !strings.HasPrefix(out, want) {
		t.Fatalf("got %+v, %v\n%s", exit, err, out)
	}
	// The ticker alone sleeps 250 ms, and the fault is a signal.
	if c.VirtualNanos < 1_250_000_000 || c.Signals < 1 || c.Preemptions == 0 {
		t.Errorf("%+v", c)
	}
}

func TestHost(t *testing.T) {
	const want = `stat 10 -rw-r----- true
read 567 10 12
truncated 0123
link file
dir [---------- L--------- d--------- link moved sub]
none true
wd true
pipe 300000
blocking pipe 200000
tcp true
deadline true true true
unix true
deadline true true true
udp 9000 back true
refused true
not here true
program "in env\n" exit status 5
itself "args [child]\n" signal: killed
random true
killed signal: killed
none true
`
	goCmd, mode := goCommand(t)
	bin := build(t, goCmd, "host")
	self := command(t, mode)
	t.Chdir(t.TempDir()) // the guest changes it
	out, exit, _, err := run(t, emu.Config{Mode: mode, Exec: self}, bin)
	if err != nil || exit.Code != 3 || out != want {
		t.Fatalf("got %+v, %v\n%s", exit, err, out)
	}
}

// lost runs the stress of atomics and returns what it printed about losses,
// "" where nothing was lost.
func lost(t *testing.T, cfg emu.Config, bin string, args ...string) string {
	t.Helper()
	cfg.Limit = 400_000_000
	out, exit, c, err := run(t, cfg, bin, args...)
	if err == nil && exit == (emu.Exit{}) && strings.Count(out, " lost 0\n") == 8 {
		if c.Switches < 1000 || c.LL == 0 {
			t.Fatalf("no stress: %+v", c)
		}
		return ""
	}
	var v emu.Violation
	if errors.As(err, &v) {
		t.Fatal(err)
	}
	return out + exit.Detail
}

// No update is lost where exceptions clear the link flag, nor at the weakest
// flag where threads do not preempt each other. At the weakest flag with
// preemption updates must be lost, or this were no stress.
func TestAtomics(t *testing.T) {
	goCmd, mode := goCommand(t)
	bin := build(t, goCmd, "atomics")
	for _, test := range []struct {
		name string
		cfg  emu.Config
		args []string
	}{
		{"exception", emu.Config{LL: emu.LinkException, Preempt: 0.05}, nil},
		{"exception, signals", emu.Config{LL: emu.LinkException, Preempt: 0.02}, []string{"-alarm"}},
		{"address", emu.Config{LL: emu.LinkAddress, Preempt: 0.05}, nil},
		{"weakest, fifo", emu.Config{LL: emu.LinkWeakest, Policy: emu.PolicyFIFO, Preempt: 0.05}, nil},
	} {
		test.cfg.Mode = mode
		test.cfg.Seed = 1
		if s := lost(t, test.cfg, bin, append(test.args, "-n", "1000")...); s != "" {
			t.Errorf("%s: %s", test.name, s)
		}
	}
	if mode == emu.ModeStrict {
		// The signal at the weakest flag needs atomics that always end in an SC.
		cfg := emu.Config{Mode: mode, Seed: 1, LL: emu.LinkWeakest, Policy: emu.PolicyFIFO, Preempt: 0.02}
		if s := lost(t, cfg, bin, "-alarm", "-n", "1000"); s != "" {
			t.Errorf("weakest, fifo, signals: %s", s)
		}
	}
	out, _, _, _ := run(t, emu.Config{Mode: mode, Seed: 1, LL: emu.LinkWeakest, Preempt: 0.02, Limit: 100_000_000}, bin, "-ops", "add32,bits", "-n", "2000")
	if !strings.Contains(out, "add32 lost") || strings.Contains(out, "add32 lost 0\n") {
		t.Errorf("preemption at the weakest flag lost nothing: %s", out)
	}
}
