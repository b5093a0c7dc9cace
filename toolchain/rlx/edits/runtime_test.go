package edits_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gwinit/toolchain/rlx/emu"
	"gwinit/toolchain/rlx/goroot"
)

// cost of one more beat: the difference of 60 and 20, a fortieth of it.
func beat(t *testing.T, bin, kind string) (instructions, calls float64) {
	t.Helper()
	_, few := interpret(t, emu.Config{NoMadvise: true}, bin, kind, "20")
	_, many := interpret(t, emu.Config{NoMadvise: true}, bin, kind, "60")
	return float64(many.Instructions-few.Instructions) / 40, float64(many.Syscalls-few.Syscalls) / 40
}

// An idle program's events cost what they do, and not what watches over them.
// With stock Go a tick of 50 ms takes 19.7 million instructions and 200,000
// system calls, which is the whole CPU: the futex call loses its nanoseconds.
// With the timespec right it is 20,000 and 15; the monitor's longer sleeps, the
// smaller array of events and one wake-up in place of two do the rest.
func TestIdle(t *testing.T) {
	t.Parallel()
	bin := program(t, "beat")
	for _, test := range []struct {
		kind                string
		instructions, calls float64
	}{
		{"call", 10_000, 13},
		{"tick", 14_000, 14},
		{"pipe", 19_000, 20},
	} {
		instructions, calls := beat(t, bin, test.kind)
		t.Logf("%s: %.0f instructions, %.1f system calls", test.kind, instructions, calls)
		if instructions > test.instructions || calls > test.calls {
			t.Errorf("%s: %.0f instructions and %.1f system calls a beat, want at most %.0f and %.0f", test.kind, instructions, calls, test.instructions, test.calls)
		}
	}
}

// What is edited for the gateway goes on working for the machine that builds.
func TestHost(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "beat")
	build := goroot.Command(t.Context(), ourGo(t), "build", "-o", bin, "./testdata/beat")
	build.Env = append(build.Env, "GOOS="+runtime.GOOS, "GOARCH="+runtime.GOARCH)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	for _, kind := range []string{"call", "tick", "pipe"} {
		if said, err := exec.CommandContext(t.Context(), bin, kind, "3").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, said)
		}
	}
}

// No start reads what one core has no use for.
func TestStart(t *testing.T) {
	t.Parallel()
	var trace strings.Builder
	interpret(t, emu.Config{Trace: &trace}, program(t, "beat"), "tick", "2")
	for _, file := range []string{"cgroup", "mountinfo"} {
		if strings.Contains(trace.String(), file) {
			t.Errorf("a start opens %s", file)
		}
	}
	if !strings.Contains(trace.String(), "clock_gettime64") {
		t.Errorf("the trace is not what this test reads:\n%s", trace.String())
	}
}

// The clock goes on beyond 2038, and usleep sleeps as long as it is told.
func TestClock(t *testing.T) {
	t.Parallel()
	bin := program(t, "clock")
	for _, year := range []int{2026, 2040, 2120} {
		epoch := time.Date(year, 3, 4, 5, 6, 7, 0, time.UTC)
		said, count := interpret(t, emu.Config{Epoch: epoch}, bin)
		var sec, ms int64
		if _, err := fmt.Sscan(said, &sec, &ms); err != nil || sec-epoch.Unix() > 1 || sec < epoch.Unix() || ms < 300 || ms > 310 {
			t.Errorf("%d: the program says %q (%v), want %d and 300", year, said, err, epoch.Unix())
		}
		if n := count.BySyscall["clock_gettime"] + count.BySyscall["nanosleep"]; n > 0 {
			t.Errorf("%d: %d calls with 32-bit seconds: %v", year, n, count.BySyscall)
		}
	}
}

// A kernel older than 5.1 has the old calls only.
func TestClockOfOldKernel(t *testing.T) {
	t.Parallel()
	before := time.Now().Unix()
	said, err := qemu(t, nil, "-strace", "-r", "4.19.0", program(t, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{"clock_gettime64", "syscall 4407", "syscall 4422"} {
		if strings.Contains(said, call) {
			t.Errorf("a 4.19 kernel is asked for %s", call)
		}
	}
	plain, err := qemu(t, nil, "-r", "4.19.0", program(t, "clock"))
	var sec, ms int64
	if _, serr := fmt.Sscan(plain, &sec, &ms); err != nil || serr != nil || sec < before || sec > before+600 || ms < 300 {
		t.Errorf("the program says %q (%v, %v), want %d and 300 or more", plain, err, serr, before)
	}
}

// File times come back as they were set, in this century.
func TestFileTimes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := qemu(t, nil, program(t, "clock"), name)
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, line := range []string{"1999 true", "2026 true", "2040 true", "2105 true"} {
		if !strings.Contains(said, line) {
			t.Errorf("the program says %q, want %q in it", said, line)
		}
	}
	fi, err := os.Stat(name)
	if err != nil || fi.ModTime().UTC().Year() != 2105 {
		t.Errorf("the file's time is %v (%v), want one of 2105", fi.ModTime(), err)
	}
}

// No signal preempts a goroutine, neither the runtime's nor another's: the linker
// left out the table of the places where one may.
func TestNoPreemptionBySignal(t *testing.T) {
	t.Parallel()
	run := func(bin string) (turns int, sum uint32) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "qemu-mips", bin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for {
			select {
			case err := <-ended:
				if _, serr := fmt.Sscan(out.String(), &turns, &sum); err != nil || serr != nil {
					t.Fatalf("%v, %v: %s", err, serr, out.String())
				}
				return turns, sum
			case <-time.After(time.Millisecond):
				_ = cmd.Process.Signal(syscall.SIGURG) // it may have ended by now
			}
		}
	}
	ours, sum := run(program(t, "preempt"))
	theirs, want := run(stockProgram(t, "preempt"))
	if ours != 0 || sum != want {
		t.Errorf("others had %d turns during the loop, want none; the loop computes %d, want %d", ours, sum, want)
	}
	if theirs == 0 {
		t.Error("stock Go did not preempt the loop: this test tests nothing")
	}
}

// Three pieces of mark bits, 8 KiB each, are what a process that collects has besides
// the tables of its heap; by stock Go they are 192 KiB.
func TestMarkBits(t *testing.T) {
	t.Parallel()
	kib := func(bin string) (n int) {
		t.Helper()
		said, err := qemu(t, nil, bin)
		if _, serr := fmt.Sscan(said, &n); err != nil || serr != nil {
			t.Fatalf("%q: %v, %v", said, err, serr)
		}
		return n
	}
	ours, stock := kib(program(t, "collect")), kib(stockProgram(t, "collect"))
	t.Logf("%d KiB, by stock Go %d", ours, stock)
	if saved, want := stock-ours, 3*(64-8); saved < want {
		t.Errorf("%d KiB, by stock Go %d: %d less, want %d", ours, stock, saved, want)
	}
}
