//go:build linux

package selftest

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Every group passes where these tests run: on the workstation without machine
// code, on a MIPS (`go test -exec qemu-mips`) with it.
func TestGroups(t *testing.T) {
	if len(groups()) != 10 {
		t.Errorf("%d groups", len(groups()))
	}
	for _, g := range groups() {
		t.Run(g.name, func(t *testing.T) {
			said := map[string]Verdict{}
			runGroup(t.Context(), g, &env{quick: true, emit: func(r Result) {
				if r.Group != g.name || r.Name == "" || r.Detail == "" {
					t.Errorf("%+v", r)
				}
				if _, twice := said[r.Name]; twice {
					t.Errorf("two lines are called %q", r.Name)
				}
				said[r.Name] = r.Verdict
				t.Log(r.Verdict, r.Name, r.Detail) // for -v: what this machine is like
				// The runtime of the stock compiler reads its timeouts wrongly there.
				if r.Verdict == Fail && (runtime.GOARCH != "mips" || r.Name != "waiting costs nothing") {
					t.Errorf("%s: %s", r.Name, r.Detail)
				}
			}})
			if v := said["machine code"]; runtime.GOARCH == "mips" && v == Skip {
				t.Error("no machine code")
			}
			for _, name := range map[string][]string{
				"atomics": {"Add, 32 bits", "CompareAndSwap, 64 bits", "Mutex"},
				"compute": {"floats in software", "CRC-32"},
				"clock":   {"monotonic", "sleep of 1ms", "timers", "waiting costs nothing"},
				"threads": {"futex", "a loop that only calls gives way", "nil, division by zero, bounds"},
				"memory":  {"deep recursion", "collector", "page faults", "RAM"},
				"kernel":  {"has"},
			}[g.name] {
				if said[name] == "" {
					t.Errorf("nothing about %s in %v", name, said)
				}
			}
		})
	}
}

// A sum that is wrong fails.
func TestComputeNotices(t *testing.T) {
	for _, c := range computations {
		if got := c.run(computeRounds - 1); got == c.want {
			t.Errorf("%s does not depend on what it computes", c.name)
		}
	}
}

func TestTreeCheck(t *testing.T) {
	root := grow(5, 1)
	if n := root.check(5, 1); n != 0 {
		t.Errorf("%d nodes of a fresh tree are wrong", n)
	}
	root.left.right.sum++
	root.right.right.right.right.right.pad = nil
	if n := root.check(5, 1); n != 2 {
		t.Errorf("%d nodes are wrong, want 2", n)
	}
}

func TestDescend(t *testing.T) {
	for _, depth := range []int{0, 1, 16, 17, 300} {
		var top uint32
		if wrong := descend(depth, &top); wrong != 0 || top != message(depth) {
			t.Errorf("depth %d: %d wrong, message %d", depth, wrong, top)
		}
	}
}

func TestMeminfo(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if total, available := meminfo(root); total != 0 || available != 0 {
		t.Errorf("%d, %d from nothing", total, available)
	}
	write(t, root, "proc/meminfo", "MemTotal:          28932 kB\nMemFree:  9 kB\nMemAvailable:      20512 kB\n")
	if total, available := meminfo(root); total != 28932 || available != 20512 {
		t.Errorf("%d, %d", total, available)
	}
	for info, want := range map[string]int{
		"MemTotal: 5 kB\n": 5, "MemTotal: -5 kB\n": 0, "MemTotal: x kB\n": 0, "MemTotal:": 0, "": 0, "XMemTotal: 5 kB\n": 0,
	} {
		if got := kib(info, "MemTotal:"); got != want {
			t.Errorf("%q: %d, want %d", info, got, want)
		}
	}
}

func TestNetlinkError(t *testing.T) {
	t.Parallel()
	answer := func(kind uint16, code int32) []byte {
		b := make([]byte, 36)
		binary.NativeEndian.PutUint16(b[4:], kind)
		binary.NativeEndian.PutUint32(b[16:], uint32(code))
		return b
	}
	for _, tt := range []struct {
		name   string
		answer []byte
		want   error
	}{
		{"refused", answer(unix.NLMSG_ERROR, -int32(unix.EOPNOTSUPP)), unix.EOPNOTSUPP},
		{"acknowledged", answer(unix.NLMSG_ERROR, 0), nil},
		{"a list", answer(unix.RTM_NEWQDISC, -1), nil},
		{"short", answer(unix.NLMSG_ERROR, -1)[:19], nil},
		{"nothing", nil, nil},
	} {
		if err := netlinkError(tt.answer); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestThere(t *testing.T) {
	t.Parallel()
	if there(nil) != nil || there(unix.EINVAL) != nil || !errors.Is(there(unix.ENOSYS), unix.ENOSYS) {
		t.Error("only ENOSYS is a call that is not there")
	}
	if there(call(9999)) == nil {
		t.Error("there is no system call 9999")
	}
}

func TestFutexWaitEnds(t *testing.T) {
	t.Parallel()
	word := uint32(1)
	if err := futexWait(&word, 2); err != nil {
		t.Errorf("another value: %v", err)
	}
	began := time.Now()
	if err := futexWait(&word, 1); !errors.Is(err, unix.ETIMEDOUT) || time.Since(began) < 900*time.Millisecond {
		t.Errorf("%v after %v, want a timeout after a second", err, time.Since(began))
	}
	if err := futexWake(&word); err != nil {
		t.Error(err)
	}
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
