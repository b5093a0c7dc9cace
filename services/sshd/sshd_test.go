//go:build linux

package sshd

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/handoff"
	"gwinit/internal/notify"
)

const patience = 10 * time.Second

// TestMain is also the service.
func TestMain(m *testing.M) {
	if os.Getenv("SSHD_CHILD") != "" {
		a := Applet(Greeting)
		os.Exit(a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// service is a running Server and the way to it.
type service struct {
	t     *testing.T
	path  string
	door  net.Listener // TCP, where the test's clients connect
	ended chan error
}

func serve(t *testing.T, s Server) *service {
	t.Helper()
	v := &service{t: t, path: filepath.Join(t.TempDir(), "s.sock"), ended: make(chan error, 1)}
	fd, err := handoff.Listen(v.path)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), v.path)
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	if v.door, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	if s.Log == nil {
		s.Log = func(line string) { t.Log(line) }
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { v.ended <- s.Serve(ctx, l.(*net.UnixListener)) }()
	t.Cleanup(func() {
		cancel()
		v.end()
		v.door.Close()
	})
	return v
}

// end waits for Serve to return.
func (v *service) end() {
	v.t.Helper()
	select {
	case err := <-v.ended:
		if err != nil {
			v.t.Error(err)
		}
		v.ended <- nil
	case <-time.After(patience):
		v.t.Fatal("Serve does not end")
	}
}

// client connects and is handed over.
func (v *service) client() (*net.TCPConn, error) {
	v.t.Helper()
	c, err := net.Dial("tcp", v.door.Addr().String())
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn), handOver(v.t, v.door, v.path)
}

func handOver(t *testing.T, door net.Listener, path string) error {
	t.Helper()
	in, err := door.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	f, err := in.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return handoff.Send(path, int(f.Fd()))
}

// OpenSSH's client gets as far as this goes, and is not reset.
func TestOpenSSH(t *testing.T) {
	v := serve(t, Server{Session: greeting(func(string) {}), Max: 1, Idle: time.Minute})
	_, port, _ := net.SplitHostPort(v.door.Addr().String())
	handed := make(chan error, 1)
	go func() { handed <- handOver(t, v.door, v.path) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ssh", "-F", "none", "-v", "-o", "BatchMode=yes", "-p", port, "127.0.0.1", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 255 {
		t.Errorf("ssh: %v", err)
	}
	if err := <-handed; err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(out), "remote software version gwinit") || strings.Contains(string(out), "reset by peer") {
		t.Errorf("ssh said:\n%s", out)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	const most = 3
	running := make(chan net.Conn, most+1)
	v := serve(t, Server{Session: func(_ context.Context, c net.Conn) {
		running <- c
		io.Copy(io.Discard, c)
		c.Close()
	}, Max: most, Idle: time.Minute})
	var clients []*net.TCPConn
	for range most + handoff.Backlog {
		c, err := v.client()
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
		if len(clients) <= most {
			<-running
		}
	}
	if _, err := v.client(); !errors.Is(err, handoff.ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	if len(running) != 0 {
		t.Error("more sessions than there may be")
	}
	for i := range handoff.Backlog { // one ends, the next has its turn
		clients[i].Close()
		if c := <-running; c.RemoteAddr().String() != clients[most+i].LocalAddr().String() {
			t.Errorf("session of %v, want %v", c.RemoteAddr(), clients[most+i].LocalAddr())
		}
	}
	for _, c := range clients {
		c.Close()
	}
}

// It ends when it was idle, not while there is a session, and what comes later
// waits in the socket for the next process.
func TestIdle(t *testing.T) {
	const idle = 50 * time.Millisecond
	release := make(chan struct{})
	v := serve(t, Server{Session: func(_ context.Context, c net.Conn) { <-release; c.Close() }, Max: 2, Idle: idle})
	c, err := v.client()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-v.ended:
		t.Fatalf("ended with a session: %v", err)
	case <-time.After(3 * idle):
	}
	close(release)
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
	v.end()
}

func TestEndWithSessions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	fd, err := handoff.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), path)
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s := Server{Session: greeting(func(string) {}), Max: 1, Idle: time.Minute, Log: func(string) {}}
	go func() { ended <- s.Serve(ctx, l.(*net.UnixListener)) }()
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	c, err := net.Dial("tcp", door.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := handOver(t, door, path); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "SSH-2.0-x\r\n")
	line := make([]byte, len(ours))
	if _, err := io.ReadFull(c, line); err != nil {
		t.Error(err)
	}
	cancel() // it is waiting for the peer's end
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Serve waits for a session that does not end")
	}
}

// The command, as PID 1 starts it.
func TestService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	fd, err := handoff.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := notify.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ours)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "SSHD_CHILD=1")
	child.Env = append(child.Env, notify.Environ(3, []notify.Stored{{Name: handoff.StoredName, FD: fd}})...)
	child.ExtraFiles = []*os.File{os.NewFile(uintptr(theirs), "notify"), os.NewFile(uintptr(fd), path)}
	var said strings.Builder
	child.Stderr = &said
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range child.ExtraFiles {
		f.Close()
	}
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	c, err := net.Dial("tcp", door.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if err := handOver(t, door, path); err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "SSH-2.0-test\r\n")
	got, err := io.ReadAll(c)
	if string(got) != "SSH-2.0-gwinit\r\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	c.Close()
	child.Process.Signal(unix.SIGTERM)
	if err := child.Wait(); err != nil {
		t.Errorf("%v: %s", err, said.String())
	}
	buf := make([]byte, notify.MaxMessage)
	n, _, err := notify.Receive(ours, buf)
	if err != nil || string(buf[:n]) != "READY=1\n" {
		t.Errorf("said %q, %v", buf[:max(n, 0)], err)
	}
}

func TestRunByHand(t *testing.T) {
	if err := run(t.Context(), Greeting, func(string) {}); err == nil || !strings.Contains(err.Error(), "gwinit starts this") {
		t.Error(err)
	}
}

func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		log := limited(time.Second, func(s string) { got = append(got, s) })
		for i := range 5 {
			log(strconv.Itoa(i))
			time.Sleep(400 * time.Millisecond)
		}
		want := "0|3 (and 2 more since the last such line)"
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("logged %s, want %s", s, want)
		}
	})
}

func FuzzIdentification(f *testing.F) {
	for _, s := range []string{"", "SSH-2.0-x\r\n", "SSH-2.0-x\nrest", "\n", "SSH-\n", strings.Repeat("SSH-", 80)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		r := strings.NewReader(string(p))
		got, err := identification(r)
		read := string(p[:len(p)-r.Len()])
		if len(read) > maxIdentification {
			t.Fatalf("read %d bytes", len(read))
		}
		if err != nil {
			return
		}
		if !strings.HasPrefix(got, "SSH-") || strings.Contains(got, "\n") || got+"\n" != read && got+"\r\n" != read {
			t.Fatalf("%q of %q", got, read)
		}
	})
}
