//go:build linux

package sshport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/enrol"
)

const patience = 10 * time.Second

// port is a running service.
type port struct {
	addr net.Addr
	got  chan net.Conn // what was handed over
	end  func()

	mu     sync.Mutex // guards the rest
	logged []string
	stored int
	refuse error
}

func (p *port) log(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logged = append(p.logged, line)
}

func (p *port) lines() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.logged, "\n")
}

func start(t *testing.T, o Options) *port {
	t.Helper()
	p := &port{got: make(chan net.Conn, 4), stored: -1}
	at := make(chan net.Addr, 1)
	o.Listening = func(a net.Addr) { at <- a }
	o.Log = p.log
	if o.Root == "" {
		o.Root = keyed(t)
	}
	if o.Uptime == nil {
		o.Uptime = func() time.Duration { return time.Minute }
	}
	o.Store = func(fd int) error {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		p.stored = dup
		return err
	}
	o.Send = func(fd int) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.refuse != nil {
			return p.refuse
		}
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(dup), "conn")
		defer f.Close()
		c, err := net.FileConn(f)
		p.got <- c
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := New(o)
	if o.Passed < 0 && s.o.Port == Port {
		s.o.Port = freePort(t)
	}
	go func() { ended <- s.Run(ctx) }()
	p.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(p.end)
	select {
	case p.addr = <-at:
	case <-time.After(patience):
		t.Fatal("it does not listen")
	}
	return p
}

// keyed is a root in which somebody may log in.
func keyed(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc/ssh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/ssh/authorized_keys"), []byte("ssh-ed25519 AAAA\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func (p *port) dial(t *testing.T) net.Conn {
	t.Helper()
	_, number, _ := net.SplitHostPort(p.addr.String())
	c, err := net.Dial("tcp", "127.0.0.1:"+number)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// What connects is handed over with what it has said, and a restart of the
// service, which has the same socket, loses nobody.
func TestHandOver(t *testing.T) {
	p := start(t, Options{Passed: -1})
	c := p.dial(t)
	io.WriteString(c, "SSH-2.0-x\r\n")
	in := <-p.got
	defer in.Close()
	in.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 11)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "SSH-2.0-x\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	p.end()
	waiting := p.dial(t) // nobody accepts, and nobody refuses
	p2 := start(t, Options{Passed: p.stored})
	if p2.addr.String() != p.addr.String() || p2.stored >= 0 {
		t.Errorf("listens at %v, was %v; stored %d", p2.addr, p.addr, p2.stored)
	}
	in2 := <-p2.got
	defer in2.Close()
	if in2.RemoteAddr().String() != waiting.LocalAddr().String() {
		t.Errorf("handed over %v, want %v", in2.RemoteAddr(), waiting.LocalAddr())
	}
}

func TestNobodyTakesIt(t *testing.T) {
	p := start(t, Options{Passed: -1})
	p.mu.Lock()
	p.refuse = errors.New("its service does not run")
	p.mu.Unlock()
	for range 3 {
		if _, err := p.dial(t).Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("not closed: %v", err)
		}
	}
	p.end()
	if got := p.lines(); strings.Count(got, "closed: its service does not run") != 1 {
		t.Errorf("a line a second, and not %q", got)
	}
}

// A port that somebody else has is waited for.
func TestPortIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan string, 1)
	s := New(Options{Root: keyed(t), Passed: -1, Port: uint16(l.Addr().(*net.TCPAddr).Port), Log: func(s string) { said <- s }})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if got := <-said; !strings.Contains(got, "tried again every 5s") || !strings.Contains(got, "in use") {
		t.Error(got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What was kept is no TCP socket: another is made.
func TestUselessSocket(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	p := start(t, Options{Passed: fds[0], Port: freePort(t)})
	if p.stored < 0 || !strings.Contains(p.lines(), "made anew") {
		t.Errorf("stored %d, logged %q", p.stored, p.lines())
	}
	p.dial(t)
	(<-p.got).Close()
}

func TestSetup(t *testing.T) {
	t.Run("no key", func(t *testing.T) {
		root := t.TempDir()
		p := start(t, Options{Passed: -1, Root: root})
		for end := time.Now().Add(patience); !enrol.Look(root).Open(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no code")
			}
		}
		code := enrol.Look(root).Code()
		p.end()
		start(t, Options{Passed: -1, Root: root}).end() // as after a crash
		if got := enrol.Look(root).Code(); got != code || len(code) != 9 {
			t.Errorf("a restart made %s of %s", got, code)
		}
		if strings.Contains(p.lines(), code) || !strings.Contains(p.lines(), "the serial console shows a code") {
			t.Errorf("logged %q", p.lines())
		}
	})
	for name, o := range map[string]Options{
		"a key":         {Passed: -1, Root: keyed(t)},
		"up for a week": {Passed: -1, Root: t.TempDir(), Uptime: func() time.Duration { return 7 * 24 * time.Hour }},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(o)
			s.o.Log = func(line string) { t.Error(line) }
			s.offerSetup(t.Context())
			if enrol.Look(o.Root).Open() {
				t.Error("a code")
			}
		})
	}
}
