// Package netlab runs a package's tests in a network namespace of their own,
// beside others that hold real servers. It is for tests only and needs root,
// ip(8) and nsenter(1).
package netlab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const inside = "GWINIT_NETLAB"

// Main runs m in a fresh network, mount and UTS namespace; call it from
// TestMain. It runs the test binary again, so it must come first.
func Main(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	// The tests that run Alone wait nearly all the time.
	cmd := again("1", append(os.Args[1:], "-test.parallel=16")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Fprintf(os.Stderr, "network namespace for the tests: %v (they need root)\n", err)
			os.Exit(1)
		}
		os.Exit(cmd.ProcessState.ExitCode())
	}
	os.Exit(0)
}

// again is this test binary in new namespaces.
func again(mark string, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), inside+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// Alone runs t, a test and no part of one, in a process with namespaces of its
// own, so that it can take its time beside others that do. It returns true in
// that process; false means that the test is over.
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		return true
	}
	t.Parallel()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	if d, ok := t.Deadline(); ok { // before this process's, so that it tells where it hangs
		args = append(args, "-test.timeout="+(time.Until(d)*9/10).String())
	}
	out, err := again(t.Name(), args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	if bytes.Contains(out, []byte("--- SKIP: ")) {
		t.Skip("skipped in its own process")
	}
	return false
}

// Root makes a file system root with this namespace's /sys and /proc, an empty
// /run and /userdata/etc.
func Root(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"sys", "proc", "run", "userdata/etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, fs := range []string{"sysfs", "proc"} {
		at := filepath.Join(root, map[string]string{"sysfs": "sys", "proc": "proc"}[fs])
		if err := syscall.Mount(fs, at, fs, 0, ""); err != nil {
			t.Fatalf("mount %s: %v", fs, err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	}
	return root
}

// Peer is another network namespace at the end of a cable.
type Peer struct {
	t   testing.TB
	pid string
}

// Cable makes a pair of interfaces, local here and remote in a new namespace,
// where it is up. The local one is left down.
func Cable(t testing.TB, local, remote string) *Peer {
	t.Helper()
	p := newPeer(t)
	Run(t, "ip", "link", "add", local, "type", "veth", "peer", "name", remote, "netns", p.pid)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", local).Run() })
	p.Run("ip", "link", "set", remote, "up")
	return p
}

// Switch is an Ethernet switch in a namespace of its own.
type Switch struct {
	peer  *Peer
	ports int
}

// NewSwitch makes a switch with local here at its first port, which is left down.
func NewSwitch(t testing.TB, local string) *Switch {
	t.Helper()
	s := &Switch{peer: Cable(t, local, "port0")}
	s.peer.Run("ip", "link", "add", "br0", "type", "bridge")
	s.peer.Run("ip", "link", "set", "br0", "up")
	s.peer.Run("ip", "link", "set", "port0", "master", "br0")
	return s
}

// Plug puts another host at the switch, with the interface remote, which is up.
func (s *Switch) Plug(remote string) *Peer {
	s.peer.t.Helper()
	p := newPeer(s.peer.t)
	s.ports++
	port := fmt.Sprint("port", s.ports)
	s.peer.Run("ip", "link", "add", port, "type", "veth", "peer", "name", remote, "netns", p.pid)
	s.peer.Run("ip", "link", "set", port, "master", "br0", "up")
	p.Run("ip", "link", "set", remote, "up")
	return p
}

func newPeer(t testing.TB) *Peer {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := holder.Start(); err != nil {
		t.Fatalf("namespace: %v", err)
	}
	p := &Peer{t: t, pid: fmt.Sprint(holder.Process.Pid)}
	t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	p.Run("ip", "link", "set", "lo", "up")
	return p
}

// PID returns the process that holds the namespace, for nsenter(1).
func (p *Peer) PID() string { return p.pid }

// Run runs a command in the peer's namespace and returns what it printed.
func (p *Peer) Run(args ...string) string {
	p.t.Helper()
	return Run(p.t, append([]string{"nsenter", "-t", p.pid, "-n", "--"}, args...)...)
}

// Start starts a program in the peer's namespace. stop ends it and returns what
// it printed; it is called at the test's end if not before.
func (p *Peer) Start(args ...string) (stop func() string) {
	p.t.Helper()
	return Start(p.t, append([]string{"nsenter", "-t", p.pid, "-n", "--"}, args...)...)
}

// Start starts a program here, as Peer.Start does there.
func Start(t testing.TB, args ...string) (stop func() string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	ended := false
	stop = func() string {
		if !ended {
			ended = true
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
		}
		return out.String()
	}
	t.Cleanup(func() {
		text := stop()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(args, " "), text)
		}
	})
	return stop
}

// Run runs a command here and returns what it printed.
func Run(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
