//go:build e2e

// Package e2e boots the real image on emulated gateways and looks at it as its
// users do: on the console, through port 8888, with the power cut.
//
// The tests need QEMU and the built image for everything, and root for networks of
// their own only: `make test` makes what they boot, and what is missing is a failure
// here.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// Paths below the module's root.
const (
	rootfsBin   = "../../build/rootfs.bin"
	userdataBin = "../../build/userdata.bin"
)

// soak is the long form of the tests that have one (`make soak`).
var soak = os.Getenv("GW_SOAK") == "1"

// kernel is the emulated board's full one, built or found in the cache by
// TestMain.
var kernel string

// incumbentKernel is the other one, looked for when a test wants it.
var incumbentKernel = sync.OnceValues(func() (string, error) {
	return board.Kernel(context.Background(), board.KernelIncumbent)
})

func TestMain(m *testing.M) {
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	k, err := board.Kernel(ctx, board.KernelFull)
	cancel()
	if err == nil {
		_, err = os.Stat(rootfsBin)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v; `make test` builds what these tests boot\n", err)
		os.Exit(1)
	}
	kernel = k
	os.Exit(m.Run())
}

// bootTime is how long a board may take to its prompt on a loaded machine.
const bootTime = 5 * time.Minute

// start boots a board with the image and ends it with the test. Its console is
// shown when the test fails.
func start(t *testing.T, change func(*board.Config)) *board.Machine {
	t.Helper()
	cfg := board.Config{
		Kernel: kernel, Rootfs: rootfsBin, Userdata: userdataBin, Dir: t.TempDir(),
		Forward: map[int]int{board.BridgePort: 0},
	}
	if change != nil {
		change(&cfg)
	}
	m, err := board.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the console said:\n%s", m.Transcript())
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// onEachKernel runs a test on both, side by side. on is for start.
func onEachKernel(t *testing.T, test func(t *testing.T, on func(*board.Config))) {
	t.Helper()
	for _, name := range []string{board.KernelFull, board.KernelIncumbent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := kernel
			if name == board.KernelIncumbent {
				var err error
				if path, err = incumbentKernel(); err != nil {
					t.Fatal(err)
				}
			}
			test(t, func(c *board.Config) { c.Kernel = path })
		})
	}
}

// shell waits for the login shell.
func shell(t *testing.T, m *board.Machine) {
	t.Helper()
	if err := m.Console().WaitShell(bootTime); err != nil {
		t.Fatal(err)
	}
}

// run runs a command on the console and wants it to succeed.
func run(t *testing.T, m *board.Machine, command string) string {
	t.Helper()
	out, status, err := m.Console().RunCommand(command, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if status != 0 {
		t.Fatalf("%s: exit status %d:\n%s", command, status, out)
	}
	return out
}

// answer runs a command on the console that prints one JSON object in a line. The
// kernel may put in lines of its own there, and break one; then it runs once
// more.
func answer[T any](t *testing.T, m *board.Machine, command string) T {
	t.Helper()
	var out string
	var err error
	for range 2 {
		out = run(t, m, command)
		for line := range strings.Lines(out) {
			var v T
			if strings.HasPrefix(line, "{") {
				if err = json.Unmarshal([]byte(line), &v); err == nil {
					return v
				}
			}
		}
	}
	t.Fatalf("%s: %v:\n%s", command, err, out)
	panic("unreachable")
}

func status(t *testing.T, m *board.Machine) api.Status {
	t.Helper()
	return answer[api.Status](t, m, "gwctl status -json")
}

// await asks for the status until ok holds. A service that keeps ending is tried
// every minute, so two are what anything may take.
func await(t *testing.T, m *board.Machine, what string, ok func(api.Status) bool) api.Status {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		s := status(t, m)
		if ok(s) {
			return s
		}
		if time.Now().After(end) {
			b, _ := json.MarshalIndent(s, "", " ")
			t.Fatalf("never seen: %s; the last status:\n%s", what, b)
		}
	}
}

// service finds one in a status.
func service(t *testing.T, s api.Status, name string) api.Service {
	t.Helper()
	for _, svc := range s.Services {
		if svc.Name == name {
			return svc
		}
	}
	t.Fatalf("no service %s in %+v", name, s.Services)
	return api.Service{}
}

// settled holds once the box has nothing more to do by itself.
func settled(s api.Status) bool {
	for _, svc := range s.Services {
		if svc.State != "running" && svc.State != "done" && svc.State != "idle" {
			return false
		}
	}
	return s.Network != nil && s.Network.State == "bound" && s.Bridge != nil
}

func TestBootTellsTheTruth(t *testing.T) {
	t.Parallel()
	onEachKernel(t, bootTellsTheTruth)
}

func bootTellsTheTruth(t *testing.T, on func(*board.Config)) {
	m := start(t, on)
	shell(t, m)
	s := await(t, m, "everything running", settled)

	version, err := os.ReadFile("../../VERSION")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(s.Version, strings.TrimSpace(string(version))) {
		t.Errorf("version %q, want that of VERSION", s.Version)
	}
	if !s.Board.Emulated || s.Board.Model != run(t, m, "cat /proc/device-tree/model | tr -d '\\000'") {
		t.Errorf("board %+v is not what the device tree says", s.Board)
	}
	if s.BootMode != "normal" || s.Userdata.State != "mounted" || !strings.Contains(s.Userdata.Device, "mtd") {
		t.Errorf("boot mode %s, userdata %+v", s.BootMode, s.Userdata)
	}
	if s.Network.Method != "dhcp" || !strings.HasPrefix(strings.Join(s.Network.Addresses, " "), "10.0.2.15/24") || s.Network.Gateway != "10.0.2.2" {
		t.Errorf("network %+v, want QEMU's 10.0.2.15/24 by 10.0.2.2", s.Network)
	}
	if s.Radio.Owner != "bridge" || s.Radio.Device != "/dev/ttyS1" || s.Radio.Mode != "zigbee" || !s.Bridge.UARTOpen || s.Bridge.Client != nil {
		t.Errorf("radio %+v, bridge %+v", s.Radio, s.Bridge)
	}
	if free := run(t, m, "cat /proc/meminfo"); !strings.Contains(free, fmt.Sprintf("MemTotal:%15d kB", s.Memory.Total)) {
		t.Errorf("memory %+v, but the kernel says\n%s", s.Memory, free)
	}
	if len(s.Warnings) != 0 {
		t.Errorf("a fresh box warns: %q", s.Warnings)
	}
	// The screen for people, and the partitions as on the gateway.
	screen := run(t, m, "gwctl status")
	for _, want := range []string{s.Version, "10.0.2.15", "bridge", "core", "console"} {
		if !strings.Contains(screen, want) {
			t.Errorf("gwctl status does not show %q:\n%s", want, screen)
		}
	}
	mtd := run(t, m, "cat /proc/mtd")
	for i, want := range []string{`00020000 00010000 "boot+cfg"`, `001e0000 00010000 "linux"`, `00200000 00010000 "rootfs"`, `00c00000 00010000 "jffs2-fs"`} {
		if !strings.Contains(mtd, fmt.Sprintf("mtd%d: %s", i, want)) {
			t.Errorf("/proc/mtd has no mtd%d: %s:\n%s", i, want, mtd)
		}
	}
	if logs := run(t, m, "gwctl logs bridge"); !strings.Contains(logs, "8888") {
		t.Errorf("the bridge's log does not say where it listens:\n%s", logs)
	}
}

// The memory budget of an idle box with 32 MiB in Zigbee mode, in KiB.
const (
	budgetAvailable = 15872 // 15.5 MiB at least
	budgetAnon      = 4608  // 4.5 MiB of PID 1 and the services at most
)

func TestMemoryBudget(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	s := await(t, m, "everything running", settled)
	anon := anon(t, m, s)
	t.Logf("available %d KiB, anonymous memory of PID 1 and the services %d KiB", s.Memory.Available, anon)
	if s.Memory.Available < budgetAvailable {
		t.Errorf("%d KiB available, want at least %d", s.Memory.Available, budgetAvailable)
	}
	if anon > budgetAnon {
		t.Errorf("PID 1 and the services have %d KiB of anonymous memory, want at most %d", anon, budgetAnon)
	}
}

// INV 10: whatever the partition holds, the box runs, says what it found and
// never erases anything by itself.
func TestUserdataThatIsNone(t *testing.T) {
	t.Parallel()
	garbage := make([]byte, 1<<20)
	for i := range garbage {
		garbage[i] = byte(i*7 + i>>9)
	}
	for _, tt := range []struct {
		name     string
		content  []byte // nil: erased flash
		state    string
		verbatim bool // not one byte of the partition may have changed
	}{
		{"erased", nil, "mounted", false}, // an erased partition is an empty JFFS2
		{"garbage", garbage, "corrupt", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := start(t, func(c *board.Config) {
				c.Userdata = ""
				if tt.content != nil {
					c.Userdata = filepath.Join(t.TempDir(), "userdata")
					if err := os.WriteFile(c.Userdata, tt.content, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			})
			var before, after bytes.Buffer
			if err := m.ReadUserdata(&before); err != nil {
				t.Fatal(err)
			}
			shell(t, m)
			s := await(t, m, "bridge and network", func(s api.Status) bool {
				return s.Bridge != nil && s.Bridge.UARTOpen && s.Network != nil && s.Network.State == "bound"
			})
			if s.Userdata.State != tt.state {
				t.Errorf("userdata %+v, want %s", s.Userdata, tt.state)
			}
			if tt.state != "mounted" && !strings.Contains(strings.ToLower(run(t, m, "gwctl status")), tt.state) {
				t.Error("gwctl status does not say so")
			}
			if err := m.PowerCut(); err != nil {
				t.Fatal(err)
			}
			if err := m.ReadUserdata(&after); err != nil {
				t.Fatal(err)
			}
			if tt.verbatim && !bytes.Equal(before.Bytes(), after.Bytes()) {
				t.Error("the partition was written to")
			}
		})
	}
}

// A board without the partition at all.
func TestNoUserdataPartition(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Append = append(c.Append, "phram.phram=") })
	shell(t, m)
	s := await(t, m, "the bridge", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.UARTOpen })
	if s.Userdata.State != "absent" {
		t.Errorf("userdata %+v, want absent", s.Userdata)
	}
}

func TestSafeMode(t *testing.T) {
	t.Parallel()
	wantSafe := func(t *testing.T, m *board.Machine) {
		t.Helper()
		s := await(t, m, "safe mode with network", func(s api.Status) bool {
			return s.BootMode == "safe" && s.Network != nil && s.Network.State == "bound"
		})
		if b := service(t, s, "bridge"); b.State != "stopped" || b.PID != 0 {
			t.Errorf("the bridge is %+v, want it stopped", b)
		}
	}
	t.Run("by kernel parameter", func(t *testing.T) {
		t.Parallel()
		m := start(t, func(c *board.Config) { c.Append = append(c.Append, "gw.safe=1") })
		shell(t, m)
		wantSafe(t, m)
	})
	t.Run("by key", func(t *testing.T) {
		t.Parallel()
		m := start(t, nil)
		if _, err := m.Console().WaitFor("for a safe boot", bootTime); err != nil {
			t.Fatal(err)
		}
		if err := m.Console().Send("s"); err != nil {
			t.Fatal(err)
		}
		shell(t, m)
		wantSafe(t, m)
	})
	t.Run("by reboot, once", func(t *testing.T) {
		t.Parallel()
		m := start(t, nil)
		shell(t, m)
		reboot(t, m, "gwctl reboot -safe")
		wantSafe(t, m)
		reboot(t, m, "reboot")
		await(t, m, "a normal boot", func(s api.Status) bool { return s.BootMode == "normal" && settled(s) })
	})
}

// reboot types a command that ends in a new boot and waits for its shell.
func reboot(t *testing.T, m *board.Machine, command string) {
	t.Helper()
	if err := m.Console().SendLine(command); err != nil {
		t.Fatal(err)
	}
	if err := m.Console().WaitBoot(time.Minute); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
}

func TestPoweroffEndsTheMachine(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	run(t, m, "echo kept > /userdata/etc/note")
	if err := m.Console().SendLine("poweroff"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := m.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if said := m.Transcript(); strings.Contains(said, "stays mounted") || strings.Contains(said, "Kernel panic") {
		t.Error("the power-off was not clean")
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	if got := run(t, m, "cat /userdata/etc/note"); got != "kept" {
		t.Errorf("the file holds %q after the power-off", got)
	}
}

// Leaving the shell, or killing it, gives a new one and never hurts PID 1.
func TestConsoleRespawns(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	for i := range 5 {
		before := run(t, m, "echo $$")
		leave := []string{"exit", "kill -9 $$", "\x04", "exit 3", "kill -9 $$"}[i]
		if leave == "\x04" {
			wait(2 * time.Second) // the prompt's change of the terminal's mode throws away what was typed before
		}
		m.Console().Mark()
		var err error
		if leave == "\x04" {
			err = m.Console().Send(leave)
		} else {
			err = m.Console().SendLine(leave)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Console().WaitFor("# ", time.Minute); err != nil {
			t.Fatal(err)
		}
		shell(t, m)
		if after := run(t, m, "echo $$"); after == before {
			t.Errorf("after %q the shell is still process %s", leave, before)
		}
	}
	if n := service(t, status(t, m), "console").Restarts; n != 5 {
		t.Errorf("the console restarted %d times, want 5", n)
	}
}

// discard reads a connection to its end and returns what ended it.
func discard(c io.Reader) error {
	_, err := io.Copy(io.Discard, c)
	return err
}
