package board

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Waits are for a machine that shares its host with others.
const (
	bootTimeout    = 60 * time.Second
	commandTimeout = 20 * time.Second
)

// guestRootfs makes the root file system of guest/, once for all tests.
var guestRootfs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gwguest")
	if err != nil {
		return "", err
	}
	cleanup = func() error { return os.RemoveAll(dir) }
	tree := filepath.Join(dir, "root")
	for _, d := range []string{"proc", "sys", "dev", "userdata", "sbin"} {
		if err := os.MkdirAll(filepath.Join(tree, d), 0o755); err != nil {
			return "", err
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(tree, "sbin/init"), "./guest")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=mips", "GOMIPS=softfloat", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("guest: %w\n%s", err, out)
	}
	image := filepath.Join(dir, "rootfs")
	pack := exec.Command("mksquashfs", tree, image, "-comp", "xz", "-b", "256K", "-all-root", "-noappend", "-no-progress", "-quiet")
	if out, err := pack.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mksquashfs: %w\n%s", err, out)
	}
	return image, nil
})

var cleanup = func() error { return nil }

func TestMain(m *testing.M) {
	code := m.Run()
	if err := cleanup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// boot starts a machine with the guest and waits for its prompt.
func boot(t *testing.T, cfg Config) *Machine {
	t.Helper()
	rootfs, err := guestRootfs()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Rootfs, cfg.Dir = rootfs, t.TempDir()
	m, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("console:\n%s", m.Transcript())
		}
	})
	shellReady(t, m)
	return m
}

func shellReady(t *testing.T, m *Machine) {
	t.Helper()
	if err := m.Console().WaitShell(bootTimeout); err != nil {
		t.Fatal(err)
	}
}

// do runs a command that must succeed and returns its output.
func do(t *testing.T, m *Machine, command string) string {
	t.Helper()
	out, status, err := m.Console().RunCommand(command, commandTimeout)
	if err != nil || status != 0 {
		t.Fatalf("%s: status %d, %v: %s", command, status, err, out)
	}
	return out
}

func TestFlashAndMemory(t *testing.T) {
	t.Parallel()
	m := boot(t, Config{})
	const table = `dev:    size   erasesize  name
mtd0: 00020000 00010000 "boot+cfg"
mtd1: 001e0000 00010000 "linux"
mtd2: 00200000 00010000 "rootfs"
mtd3: 00c00000 00010000 "jffs2-fs"`
	if got := do(t, m, "cat /proc/mtd"); got != table {
		t.Errorf("/proc/mtd:\n%s", got)
	}
	if got := do(t, m, "cat /proc/device-tree/model"); got != "RTL8196E gateway (emulated, QEMU malta)\x00" {
		t.Errorf("model %q", got)
	}
	// The product's budget of free memory rests on this.
	total := regexp.MustCompile(`MemTotal: +(\d+) kB`).FindStringSubmatch(do(t, m, "cat /proc/meminfo"))
	if kb, err := strconv.Atoi(total[1]); err != nil || kb < 27_000 || kb > 32_768 {
		t.Errorf("MemTotal %s kB, %v", total[1], err)
	}
	if got := do(t, m, "ls /proc/device-tree/reserved-memory"); !strings.Contains(got, "boothold@1ffe000\n") || !strings.Contains(got, "watchdog-crash@1ffd000") {
		t.Errorf("reserved memory:\n%s", got)
	}
	if got := do(t, m, "ls /sys/class/leds"); got != "lan\npower\nstatus" {
		t.Errorf("LEDs:\n%s", got)
	}

	// A reset keeps RAM, whoever asks for it; a power cut does not.
	do(t, m, "mount /dev/mtdblock3 /userdata jffs2; write /userdata/file kept")
	do(t, m, "poke 0x1ffeffc HOLD")
	for name, reset := range map[string]func() error{
		"reboot":      func() error { return m.Console().SendLine("reboot") },
		"reset":       m.Reset,
		"two at once": func() error { m.Console().Mark(); return m.Reset() },
	} {
		if err := reset(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := m.Console().WaitBoot(bootTimeout); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		shellReady(t, m)
		if got := do(t, m, "peek 0x1ffeffc"); got != `"HOLD"` {
			t.Errorf("boothold page after %s: %s", name, got)
		}
	}
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	if err := m.Console().SendLine("x"); err == nil && m.PID() != 0 {
		t.Error("a machine without power takes keys")
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	shellReady(t, m)
	if got := do(t, m, "peek 0x1ffeffc"); got != `"\x00\x00\x00\x00"` {
		t.Errorf("boothold page after a power cut: %s", got)
	}
	if got := do(t, m, "mount /dev/mtdblock3 /userdata jffs2; cat /userdata/file"); got != "kept" {
		t.Errorf("file after a power cut: %q", got)
	}
	var flash bytes.Buffer
	if err := m.ReadUserdata(&flash); err != nil || !bytes.Contains(flash.Bytes(), []byte{0x19, 0x85, 0xe0}) {
		t.Errorf("no JFFS2 node in the flash file: %v", err)
	}

	// The guest's own power-off ends QEMU.
	if err := m.Console().SendLine("poweroff"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	if err := m.Wait(ctx); err != nil {
		t.Error(err)
	}
	if _, err := m.Console().WaitFor("never", bootTimeout); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("console of a machine that is off: %v", err)
	}
}

func TestLarge(t *testing.T) {
	t.Parallel()
	m := boot(t, Config{RAMMiB: 64, Append: []string{"gw.board=sengled-e39-g8c"}})
	if got := do(t, m, "cat /proc/cmdline"); !strings.HasSuffix(got, " gw.board=sengled-e39-g8c") {
		t.Errorf("command line %q", got)
	}
	if got := do(t, m, "ls /proc/device-tree/reserved-memory"); !strings.Contains(got, "boothold@3ffe000\n") || strings.Contains(got, "boothold@1ffe000") {
		t.Errorf("reserved memory:\n%s", got)
	}
	do(t, m, "mount /dev/mtdblock3 /userdata jffs2; write /userdata/file x")
	do(t, m, "poke 0x3ffeffc HOLD")
	if err := m.Reset(); err != nil {
		t.Fatal(err)
	}
	if err := m.Console().WaitBoot(bootTimeout); err != nil {
		t.Fatal(err)
	}
	shellReady(t, m)
	if got := do(t, m, "peek 0x3ffeffc"); got != `"HOLD"` {
		t.Errorf("boothold page after a reset: %s", got)
	}
}

func TestRadioAndNetwork(t *testing.T) {
	t.Parallel()
	m := boot(t, Config{Unplugged: true})
	do(t, m, "echo-radio 691200")
	late := time.After(commandTimeout)
	for divisor := 0; divisor != 18; {
		select {
		case b := <-m.Bauds():
			divisor = b.Divisor
		case <-late:
			t.Fatal("the UART's divisor was not traced")
		}
	}
	if b, err := os.ReadFile(m.TracePath()); err != nil || !strings.Contains(string(b), "serial_update_parameters speed=6400\n") {
		t.Errorf("trace file: %v, %q", err, b)
	}
	radio, err := net.Dial("unix", m.RadioPath())
	if err != nil {
		t.Fatal(err)
	}
	defer radio.Close()
	if err := radio.SetDeadline(time.Now().Add(commandTimeout)); err != nil {
		t.Fatal(err)
	}
	// All byte values: the line is 8 bits wide.
	out := make([]byte, 256)
	for i := range out {
		out[i] = byte(i)
	}
	in := make([]byte, len(out))
	if _, err := radio.Write(out); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(radio, in); err != nil || !bytes.Equal(in, out) {
		t.Errorf("echo: %v, % x", err, in)
	}

	do(t, m, "address; carrier 0")
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := m.WaitPort(short, BridgePort); err == nil {
		t.Error("8888 answers without a cable")
	}
	if err := m.SetLink(true); err != nil {
		t.Fatal(err)
	}
	do(t, m, "carrier 1")
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	if err := m.WaitPort(ctx, BridgePort); err != nil {
		t.Error(err)
	}
	addr := m.Addr(BridgePort)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); string(b) != "hello\n" {
		t.Errorf("8888 says %q, %v", b, err)
	}
	refused, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := m.WaitPort(refused, SSHPort); err == nil {
		t.Error("22 answers without a listener")
	}
	if err := m.SetLink(false); err != nil {
		t.Fatal(err)
	}
	do(t, m, "carrier 0")

	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m.Addr(BridgePort) != addr {
		t.Errorf("8888 moved from %s to %s", addr, m.Addr(BridgePort))
	}
	shellReady(t, m)
	do(t, m, "address; carrier 1")
}

func TestWatchdog(t *testing.T) {
	t.Parallel()
	m := boot(t, Config{Append: []string{"softdog.soft_margin=3"}})
	do(t, m, "watchdog") // opened and never fed
	if err := m.Console().WaitBoot(bootTimeout); err != nil {
		t.Fatal(err)
	}
	shellReady(t, m)
}

func TestGarbageUserdata(t *testing.T) {
	t.Parallel()
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte{0xa5, 0x5a, 0}, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	m := boot(t, Config{Userdata: garbage})
	if out, status, err := m.Console().RunCommand("mount /dev/mtdblock3 /userdata jffs2", commandTimeout); err != nil || status == 0 {
		t.Errorf("garbage is mounted: %d %v %s", status, err, out)
	}
}

func TestStartErrors(t *testing.T) {
	rootfs, err := guestRootfs()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"odd RAM", Config{Rootfs: rootfs, RAMMiB: 48}, "32 or 64"},
		{"no rootfs", Config{Rootfs: "/nonexistent"}, "rootfs"},
		{"QEMU's complaint", Config{Rootfs: rootfs, NIC: "no-such-card"}, "no-such-card"},
		{"foreign kernel at 64 MiB", Config{Rootfs: rootfs, Kernel: rootfs, RAMMiB: 64}, "not a kernel of this board"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Dir = t.TempDir()
			m, err := Start(t.Context(), tt.cfg)
			if err == nil {
				m.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

// The counts of two boots must be so near that a change of one in a thousand
// is the firmware's.
func TestCountBoot(t *testing.T) {
	t.Parallel()
	rootfs, err := guestRootfs()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*bootTimeout)
	defer cancel()
	var total [2]float64
	for i := range total {
		n, err := CountBoot(ctx, Config{Rootfs: rootfs, Dir: t.TempDir()}, BridgePort)
		if err != nil {
			t.Fatal(err)
		}
		if n.Decompress < 10e6 || n.Kernel < 1e6 || n.User < 1e5 {
			t.Errorf("not a boot: %+v", n)
		}
		total[i] = float64(n.Total())
	}
	if d := total[0] / total[1]; d < 0.999 || d > 1.001 {
		t.Errorf("totals %v differ", total)
	}
}
