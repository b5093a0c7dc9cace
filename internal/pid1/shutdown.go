package pid1

import (
	"bufio"
	"bytes"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The budget of a shutdown. Services come down in reverse order, the bridge
// closing its client with FIN while the network is still up; then whatever is
// left is killed, then flash is flushed; then the system call, whatever
// happened before.
const (
	shutdownTotal    = 15 * time.Second
	shutdownServices = 11 * time.Second // of these, for the services together
	shutdownBridge   = 4 * time.Second  // of these, for the bridge alone, before the others
	shutdownKill     = 1 * time.Second  // between SIGTERM and SIGKILL for what no service owns
	finalSync        = 500 * time.Millisecond
	flashKill        = 5 * time.Second // beyond all that, before the root file system is written
)

// rebootCommands are the arguments of reboot(2). On a 32-bit machine they only
// fit an int as a negative number.
var rebootCommands = map[string]uint32{
	"reboot":   unix.LINUX_REBOOT_CMD_RESTART,
	"poweroff": unix.LINUX_REBOOT_CMD_POWER_OFF,
	"halt":     unix.LINUX_REBOOT_CMD_HALT,
}

// keptMounts stay mounted to the end: they hold nothing that could be lost.
var keptMounts = []string{"/", "/proc", "/sys", "/dev"}

// flashMounts stay as well where the root file system is to be written: the image
// is there, and the place of what writes it.
var flashMounts = []string{"/run", "/tmp"}

// mountPoints are the mounted folders in mount order, from /proc/self/mounts.
func mountPoints(mounts []byte) []string {
	var points []string
	s := bufio.NewScanner(bytes.NewReader(mounts))
	for s.Scan() {
		if f := strings.Fields(s.Text()); len(f) >= 2 {
			points = append(points, unescapeMount(f[1]))
		}
	}
	return points
}

// unescapeMount undoes the kernel's octal escapes of blank, tab, newline and
// backslash in /proc/self/mounts.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// flush writes everything to flash and lets go of it: sync, then unmount in
// reverse order. A busy file system is made read-only instead; one that is
// neither is left to its journal (JFFS2 survives a power cut). keep stays mounted.
func flush(logf func(string, ...any), keep ...string) {
	unix.Sync()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		logf("shutdown: %v: nothing is unmounted", err)
		return
	}
	points := mountPoints(b)
	slices.Reverse(points)
	for _, p := range points {
		if slices.Contains(keptMounts, p) || slices.Contains(keep, p) {
			continue
		}
		if err := unix.Unmount(p, 0); err != nil {
			if err := unix.Mount("", p, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				logf("shutdown: %s stays mounted: %v", p, err)
			}
		}
	}
	unix.Sync()
}

// within runs f and waits for it, but no longer than d (INV 1: PID 1 does not
// block on flash). It tells whether f ended.
func within(d time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// killRest ends every process but PID 1: what no service owned, a shell's
// background jobs, a session. SIGTERM, at most grace, SIGKILL.
func killRest(grace time.Duration) {
	if !others() {
		return
	}
	_ = unix.Kill(-1, unix.SIGTERM)
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if !others() {
			return
		}
	}
	_ = unix.Kill(-1, unix.SIGKILL)
}

// others tells whether there is a process of user space besides PID 1. Kernel
// threads and zombies have an empty command line.
func others() bool {
	d, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, e := range d {
		if n := e.Name(); n[0] < '1' || n[0] > '9' || n == "1" {
			continue
		} else if b, err := os.ReadFile("/proc/" + n + "/cmdline"); err == nil && len(b) > 0 {
			return true
		}
	}
	return false
}
