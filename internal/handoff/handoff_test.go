//go:build linux

package handoff

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 10 * time.Second

// listener is a socket as a service has it, and its path.
func listener(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.sock")
	fd, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u := l.(*net.UnixListener)
	u.SetDeadline(time.Now().Add(patience))
	return u, path
}

// connected is a TCP connection: the peer's end, and a descriptor of the
// other, which is closed at the end of the test.
func connected(t *testing.T) (*net.TCPConn, int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	peer.SetDeadline(time.Now().Add(patience))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return peer.(*net.TCPConn), int(f.Fd())
}

// What was sent before goes along, also when the sender is gone by the time
// that somebody takes.
func TestSendThenTake(t *testing.T) {
	l, path := listener(t)
	peer, fd := connected(t)
	io.WriteString(peer, "SSH-2.0-early\r\n")
	if err := Send(path, fd); err != nil {
		t.Fatal(err)
	}
	c, err := Take(l)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 15)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "SSH-2.0-early\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if c.RemoteAddr().String() != peer.LocalAddr().String() {
		t.Errorf("comes from %v, want %v", c.RemoteAddr(), peer.LocalAddr())
	}
	io.WriteString(c, "back")
	if _, err := io.ReadFull(peer, got[:4]); err != nil || string(got[:4]) != "back" {
		t.Errorf("%q, %v", got[:4], err)
	}
}

func TestSendFails(t *testing.T) {
	_, fd := connected(t)
	t.Run("no socket", func(t *testing.T) {
		if err := Send(filepath.Join(t.TempDir(), "none"), fd); !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
	})
	t.Run("shut down", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.sock")
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(l)
		if err := unix.Shutdown(l, unix.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		if err := Send(path, fd); !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
	})
	t.Run("full", func(t *testing.T) {
		_, path := listener(t)
		for i := range Backlog {
			if err := Send(path, fd); err != nil {
				t.Fatalf("number %d: %v", i, err)
			}
		}
		if err := Send(path, fd); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	})
	t.Run("no descriptor", func(t *testing.T) {
		_, path := listener(t)
		if err := Send(path, -1); !errors.Is(err, unix.EBADF) {
			t.Error(err)
		}
	})
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	for range 2 { // the second one in place of the first
		fd, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs600() {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Listen(filepath.Join(path, "below")); err == nil {
		t.Error("a socket below a socket")
	}
}

func fs600() os.FileMode { return os.ModeSocket | 0o600 }

// A sender that has nothing to give is passed over.
func TestTakeNothing(t *testing.T) {
	l, path := listener(t)
	dial := func() *net.UnixConn {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial().Close()
	if _, err := Take(l); !errors.Is(err, ErrNothing) {
		t.Errorf("closed: %v", err)
	}
	c := dial()
	c.Write([]byte("x"))
	if _, err := Take(l); !errors.Is(err, ErrNothing) {
		t.Errorf("a byte: %v", err)
	}
	c.Close()
	_, fd := connected(t)
	before := descriptors(t)
	c = dial()
	c.WriteMsgUnix([]byte{0}, unix.UnixRights(fd, fd, fd), nil)
	c.Close()
	if _, err := Take(l); !errors.Is(err, ErrNothing) {
		t.Errorf("three: %v", err)
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if err := Send(path, int(null.Fd())); err != nil {
		t.Fatal(err)
	}
	null.Close()
	if _, err := Take(l); !errors.Is(err, ErrNothing) {
		t.Errorf("no connection: %v", err)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, were %d", n, before)
	}
	l.SetDeadline(time.Unix(1, 0))
	if _, err := Take(l); !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrNothing) {
		t.Errorf("deadline: %v", err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
