// Command rlxemu runs a static MIPS program on the interpreter of package emu.
//
//	rlxemu [flags] PROGRAM [ARGS...]
//
// It stands where an emulator does in "go test -exec": environment, working
// directory and standard files are the guest's, and so is the exit status. A
// program that a signal killed ends with 128 and the signal's number, one that
// broke a rule of the CPU in strict mode with 125.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"gwinit/toolchain/rlx/emu"
)

const exitBroken = 125

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	fs := flag.NewFlagSet("rlxemu", flag.ContinueOnError)
	mode := fs.String("mode", "strict", "CPU: strict (RLX4181, ends at the first violation), count (violations reported at the end), rlx (silent) or mips32")
	ll := fs.String("ll", "exception", "link flag of LL/SC: address, exception or weakest")
	policy := fs.String("policy", "other", "scheduling: other or fifo")
	seed := fs.Uint64("seed", 1, "`number` that decides the schedule and the random bytes")
	slice := fs.Int64("slice", 0, "time slice in `instructions` (0: 400000)")
	preempt := fs.Float64("preempt", 0, "`probability` of a preemption after an instruction")
	cycle := fs.Float64("ns", 0, "virtual `nanoseconds` of an instruction (0: 2.5)")
	count := fs.String("count", "", "write the counters to `file` as JSON")
	strace := fs.Bool("strace", false, "write the system calls to standard error")
	realClock := fs.Bool("real", false, "use the host's clock")
	noMadvise := fs.Bool("nomadvise", false, "madvise fails with ENOSYS, as on the gateways' kernel")
	limit := fs.Uint64("limit", 0, "end after so many `instructions`")
	timeout := fs.Duration("timeout", 0, "end after this `time` of the host")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: rlxemu [flags] PROGRAM [ARGS...]")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return 2
	}
	if fs.NArg() == 0 {
		fs.Usage()
		return 2
	}
	cfg := emu.Config{
		Seed: *seed, Slice: *slice, Preempt: *preempt, NsPerInst: *cycle, RealClock: *realClock,
		NoMadvise: *noMadvise, Limit: *limit, Args: fs.Args(), Env: os.Environ(),
		Stdin: 0, Stdout: 1, Stderr: 2,
	}
	if *realClock {
		cfg.Epoch = time.Now()
	}
	if *strace {
		cfg.Trace = os.Stderr
	}
	ok := [3]bool{}
	cfg.Mode, ok[0] = map[string]emu.Mode{"strict": emu.ModeStrict, "count": emu.ModeCount, "rlx": emu.ModeRLX, "mips32": emu.ModeMIPS32}[*mode]
	cfg.LL, ok[1] = map[string]emu.Link{"address": emu.LinkAddress, "exception": emu.LinkException, "weakest": emu.LinkWeakest}[*ll]
	cfg.Policy, ok[2] = map[string]emu.Policy{"other": emu.PolicyOther, "fifo": emu.PolicyFIFO}[*policy]
	if ok != [3]bool{true, true, true} {
		fmt.Fprintln(os.Stderr, "rlxemu: unknown value of -mode, -ll or -policy")
		fs.Usage()
		return 2
	}
	if exe, err := os.Executable(); err == nil {
		cfg.Exec = []string{exe}
		fs.Visit(func(f *flag.Flag) {
			if f.Name != "count" { // the children would write over it
				cfg.Exec = append(cfg.Exec, "-"+f.Name+"="+f.Value.String())
			}
		})
	}
	code, err := execute(cfg, fs.Arg(0), *count, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rlxemu:", err)
	}
	return code
}

func execute(cfg emu.Config, program, count string, timeout time.Duration) (int, error) {
	m, err := emu.New(cfg)
	if err != nil {
		return 2, err
	}
	defer m.Close()
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT, syscall.SIGWINCH)
	done := make(chan struct{})
	defer func() {
		signal.Stop(sigs)
		close(sigs)
		<-done
	}()
	go func() {
		defer close(done)
		for s := range sigs {
			m.Signal(s.(syscall.Signal))
		}
	}()
	// The guest may change the working directory.
	if count != "" {
		if count, err = filepath.Abs(count); err != nil {
			return 2, fmt.Errorf("write the counters: %w", err)
		}
	}
	exit, err := m.Run(ctx, program)
	for _, v := range m.Violations() {
		fmt.Fprintf(os.Stderr, "rlxemu: %d times %v\n", v.Count, v)
	}
	if count != "" {
		if e := writeCounters(m, count); err == nil {
			err = e
		}
	}
	var v emu.Violation
	switch {
	case errors.As(err, &v):
		return exitBroken, err
	case err != nil:
		return 2, err
	case exit.Signal != 0:
		return 128 + exit.Signal, fmt.Errorf("%s: killed by signal %d: %s", program, exit.Signal, exit.Detail)
	}
	return exit.Code, nil
}

func writeCounters(m *emu.Machine, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write the counters: %w", err)
	}
	c := m.Counters()
	if err := c.WriteJSON(f); err != nil {
		f.Close()
		return fmt.Errorf("write the counters to %s: %w", path, err)
	}
	return f.Close()
}
