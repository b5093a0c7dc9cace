//go:build linux && !no_bridge

package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/texttest"
	"gwinit/internal/tty/ptytest"
)

// execEnv names the program that a child of the test becomes.
const execEnv = "GWINIT_TEST_EXEC"

// patience is how long anything in this test may take.
const patience = 20 * time.Second

// become turns this process, which is in a mount namespace of its own, into gw
// with a /run of its own, so that it does not share the lock of the radio.
func become(gw string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("make the mounts private", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "size=64k"); err != nil {
		return os.NewSyscallError("mount /run", err)
	}
	// A handler becomes the default over an exec, what was ignored stays so.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP)
	args := []string{"gw", "bridge"}
	for i, a := range os.Args {
		if a == "--" {
			args = append(args, os.Args[i+1:]...)
		}
	}
	return os.NewSyscallError("exec "+gw, unix.Exec(gw, args, os.Environ()))
}

// TestBridgeEndsInOrder runs the program as PID 1 or a person does, and ends
// it with a client that reads nothing and never stops writing: what it sends
// lies unread in the bridge's socket. QEMU's user network hides a reset, so
// that this is seen on the host only. It needs root, for the mounts.
func TestBridgeEndsInOrder(t *testing.T) {
	if gw := os.Getenv(execEnv); gw != "" {
		t.Fatal(become(gw))
	}
	gw := filepath.Join(t.TempDir(), "gw")
	if out, err := exec.Command("go", "build", "-o", gw, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, sig := range []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			endInOrder(t, gw, sig)
		})
	}
}

func endInOrder(t *testing.T, gw string, sig os.Signal) {
	radio, device := ptytest.Open(t)
	port := freePort(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestBridgeEndsInOrder$", "--",
		"-port", strconv.Itoa(port), "-bind", "127.0.0.1", "-device", device, "-baud", "115200", "-flow", "none")
	child.Env = append(os.Environ(), execEnv+"="+gw)
	child.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	var log logBuffer
	child.Stderr, child.Stdout = &log, &log
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	defer func() {
		cancel()
		<-ended
	}()
	log.awaits(t, " is open at ")

	c, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		p := bytes.Repeat([]byte{0x1a}, 1<<10)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := c.Write(p)
			sent.Add(int64(n))
			if err != nil {
				t.Errorf("after %d bytes: %v", sent.Load(), err)
				return
			}
		}
	})
	log.awaits(t, "client "+c.LocalAddr().String()+" connected")
	if _, err := radio.WriteString("not read yet"); err != nil {
		t.Fatal(err)
	}
	// The radio reads nothing, so the bridge does not either after a while.
	for last, same := int64(-1), 0; same < 50; same++ {
		if n := sent.Load(); n != last || n == 0 {
			last, same = n, 0
		}
		pause(t)
	}

	if err := child.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil || string(got) != "not read yet" {
		t.Errorf("the client got %q, %v; want all and an orderly end", got, err)
	}
	close(stop)
	writer.Wait()
	c.Close()
	if err := <-ended; err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	ended <- nil
	log.awaits(t, "disconnected after ", "12 bytes from the radio", "the bridge ends")
}

// logBuffer is what the program wrote.
type logBuffer struct{ texttest.Buffer }

// awaits waits until all of parts are there.
func (l *logBuffer) awaits(t *testing.T, parts ...string) {
	t.Helper()
	for end := time.Now().Add(patience); ; pause(t) {
		s := l.String()
		n := 0
		for _, p := range parts {
			if strings.Contains(s, p) {
				n++
			}
		}
		if n == len(parts) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not said: %q; said:\n%s", parts, s)
		}
	}
}

// pause is between two looks at another process.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(2 * time.Millisecond):
	case <-t.Context().Done():
	}
}

// freePort returns a TCP port that nobody has right now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
