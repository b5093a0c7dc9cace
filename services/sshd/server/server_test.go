//go:build linux

package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

const patience = 20 * time.Second

// TestMain is also the shell of the sessions.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case "sh", "-sh":
		os.Exit(shell(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// box is a server with a file system of its own.
type box struct {
	t    testing.TB
	root string
	s    *Server
	addr string

	mu     sync.Mutex // guards logged
	logged []string
}

func (b *box) log(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.logged = append(b.logged, line)
}

func (b *box) lines() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.logged, "\n")
}

// awaits polls until done, which other goroutines or processes bring about.
func awaits(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// awaitLog waits until every part was logged.
func (b *box) awaitLog(parts ...string) {
	b.t.Helper()
	for _, p := range parts {
		awaits(b.t, "not logged: "+p, func() bool { return strings.Contains(b.lines(), p) })
	}
}

// put writes a file of the box.
func (b *box) put(name, content string) {
	b.t.Helper()
	path := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func newBox(t testing.TB, change ...func(*Options)) *box {
	t.Helper()
	b := &box{t: t, root: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(b.root, "userdata"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Root: b.root, Program: self, Log: b.log, Noise: b.log, Control: filepath.Join(b.root, "control.sock")}
	o.delay = func(time.Duration) time.Duration { return 0 } // TestGateDelays has them
	for _, f := range change {
		f(&o)
	}
	if b.s, err = New(o); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { b.s.Session(ctx, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		running.Wait()
		if t.Failed() {
			t.Log("logged:\n" + b.lines())
		}
	})
	return b
}

// user is a user's key.
func user(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

func signer(t testing.TB, key any) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func line(s ssh.Signer) string { return string(ssh.MarshalAuthorizedKey(s.PublicKey())) }

// dial logs in.
func (b *box) dial(name string, auth ...ssh.AuthMethod) (*ssh.Client, string, error) {
	b.t.Helper()
	return b.dialFrom("127.0.0.1", name, auth...)
}

// dialFrom logs in from one of this machine's addresses.
func (b *box) dialFrom(from, name string, auth ...ssh.AuthMethod) (*ssh.Client, string, error) {
	b.t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	raw, err := d.Dial("tcp", b.addr)
	if err != nil {
		return nil, "", err
	}
	var banner strings.Builder
	conn, channels, requests, err := ssh.NewClientConn(raw, b.addr, &ssh.ClientConfig{
		User: name, Auth: auth, Timeout: patience, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		BannerCallback: func(m string) error { banner.WriteString(m); return nil },
	})
	if err != nil {
		raw.Close()
		return nil, banner.String(), err
	}
	c := ssh.NewClient(conn, channels, requests)
	b.t.Cleanup(func() { c.Close() })
	return c, banner.String(), nil
}

func (b *box) mustDial(name string, auth ...ssh.AuthMethod) *ssh.Client {
	b.t.Helper()
	c, banner, err := b.dial(name, auth...)
	if err != nil {
		b.t.Fatalf("%v; banner %q", err, banner)
	}
	return c
}

// run runs a command and returns what it printed and its status.
func run(t testing.TB, c *ssh.Client, command string) (string, int) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.CombinedOutput(command)
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return string(out), 0
	case errors.As(err, &exit):
		if exit.Signal() != "" {
			return string(out) + "signal " + exit.Signal(), -1
		}
		return string(out), exit.ExitStatus()
	}
	t.Fatalf("%s: %v", command, err)
	return "", 0
}

func TestExec(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", "# mine\n\n"+line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	for _, tt := range []struct {
		command, out string
		status       int
	}{
		{"echo a b", "a b\n", 0},
		{"status 7", "", 7},
		{"stderr x", "x\n", 0},
		{"kill", "signal KILL", -1},
		{"env HOME USER SHELL SSH_TTY SSH_ORIGINAL_COMMAND", "/root root /bin/sh  \n", 0},
		{"session", "leader\n", 0},
		{"niceness", "0\n", 0},
		{"env SSH_CONNECTION", strings.ReplaceAll(c.LocalAddr().String()+" "+b.addr, ":", " ") + "\n", 0},
	} {
		if out, status := run(t, c, tt.command); out != tt.out || status != tt.status {
			t.Errorf("%s: %q, %d; want %q, %d", tt.command, out, status, tt.out, tt.status)
		}
	}
	// Input, to its end.
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Stdin = strings.NewReader(strings.Repeat("0123456789", 100_000))
	if out, err := s.Output("count"); string(out) != "1000000\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	c.Close()
	b.awaitLog("made the host key SHA256:", "login from "+c.LocalAddr().String()+" by "+ssh.FingerprintSHA256(u.PublicKey()),
		"connection from "+c.LocalAddr().String()+" ended after ")
}

func TestTerminal(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("etc/ssh/authorized_keys", line(u)) // the image's
	c := b.mustDial("root", ssh.PublicKeys(u))
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.RequestPty("xterm", 40, 100, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	r := &expecter{t: t, r: out}
	r.expect("login shell, xterm\r\n# ")
	send := func(text string) {
		if _, err := in.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}
	send("size\r")
	r.expect("100x40\r\n# ")
	// With an answer, since data and requests are read by goroutines of their own.
	change := ssh.Marshal(struct{ Columns, Rows, Width, Height uint32 }{132, 50, 0, 0})
	if ok, err := s.SendRequest("window-change", true, change); err != nil || !ok {
		t.Fatalf("window-change: %v, %v", ok, err)
	}
	send("size\r")
	r.expect("132x50\r\n# ")
	send("tty\r")
	r.expect("controlling terminal /dev/pts/")
	send("hang\r")
	r.expect("hanging\r\n")
	send("\x03")
	r.expect("interrupted\r\n# ")
	send("exit 3\r")
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("ended with %v", err)
	}
}

// A session that ends takes its program along.
func TestProgramsEndWithTheirSession(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	mark := filepath.Join(t.TempDir(), "mark")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("hangup " + mark); err != nil {
		t.Fatal(err)
	}
	(&expecter{t: t, r: out}).expect("waiting\n")
	c.Close()
	awaits(t, "the program was not told", func() bool {
		got, err := os.ReadFile(mark)
		return err == nil && string(got) == "hangup"
	})
	b.awaitLog("ended after")
}

// What a program leaves behind keeps its output, as with OpenSSH, and not the
// connection's place after its end.
func TestLeftBehind(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("hold"); err != nil {
		t.Fatal(err)
	}
	r := &expecter{t: t, r: out}
	for range 3 {
		r.expect("still here\n")
	}
	c.Close()
	b.awaitLog("connection from " + c.LocalAddr().String() + " ended after ")
}

// Whoever has one connection too many is told.
func TestConnectionsAreBounded(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	for range maxOpen {
		run(t, b.mustDial("root", ssh.PublicKeys(u)), "echo")
	}
	c := b.mustDial("root", ssh.PublicKeys(u))
	if _, err := c.NewSession(); err == nil || !strings.Contains(err.Error(), "4 SSH connections open already") {
		t.Errorf("one more: %v", err)
	}
	b.awaitLog("refused: there are 4 already")
}

func TestChannelsAreBounded(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	var last *ssh.Session
	for range maxChannels {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		last = s
	}
	if _, err := c.NewSession(); err == nil || !strings.Contains(err.Error(), "at most 8") {
		t.Errorf("one more: %v", err)
	}
	last.Close()
	awaits(t, "a place is not given back", func() bool {
		_, err := c.NewSession()
		return err == nil
	})
	for _, kind := range []string{"x11", "forwarded-tcpip", "direct-streamlocal@openssh.com"} {
		_, _, err := c.OpenChannel(kind, nil)
		var open *ssh.OpenChannelError
		if !errors.As(err, &open) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("remote forwarding")
	}
}

// The weak is not offered.
func TestAlgorithms(t *testing.T) {
	b := newBox(t)
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	lists := kexInit(t, c)
	for i, want := range []string{
		"mlkem768x25519-sha256 curve25519-sha256 curve25519-sha256@libssh.org kex-strict-s-v00@openssh.com",
		"ssh-ed25519",
		"chacha20-poly1305@openssh.com aes256-ctr aes128-ctr",
		"chacha20-poly1305@openssh.com aes256-ctr aes128-ctr",
		"hmac-sha2-256-etm@openssh.com hmac-sha2-256",
		"hmac-sha2-256-etm@openssh.com hmac-sha2-256",
		"none",
		"none",
	} {
		if got := strings.Join(lists[i], " "); got != want {
			t.Errorf("list %d is %s, want %s", i, got, want)
		}
	}
}

// Goroutines and descriptors of sessions end with them.
func TestNoLeaks(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	session := func() {
		c := b.mustDial("root", ssh.PublicKeys(u))
		run(t, c, "echo")
		c.Close()
		if raw, err := net.Dial("tcp", b.addr); err == nil {
			raw.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
			raw.Close()
		}
	}
	count := func() (goroutines, descriptors int) {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(names)
	}
	idle, open := count() // with no session yet
	for range 5 {
		session()
	}
	awaits(t, "something of the sessions stays", func() bool {
		g, fds := count()
		return g <= idle && fds <= open+2 // the poller's own, made by the first
	})
}

// Where memory is short there is one program, and no more.
func TestProgramsAreBounded(t *testing.T) {
	var p programs
	now := time.Now()
	kib := 0
	available := func() (int, error) { return kib, nil }
	begin := func() bool { return p.begin(available, now) == nil }
	if !begin() {
		t.Error("the first one is refused")
	}
	if begin() {
		t.Error("a second one is let in where there is no memory")
	}
	// The first may not have taken yet what it will.
	for kib = spareKiB; !begin(); kib += 16 {
		if kib > 64<<10 {
			t.Fatal("none is ever let in")
		}
	}
	if kib < spareKiB+programKiB+programKiB/2 {
		t.Errorf("a second one is let in with %d KiB", kib)
	}
	if now = now.Add(settleTime + 1); kib >= spareKiB+programKiB && !begin() {
		t.Error("one is refused when the others have what they need")
	}
	for range 3 {
		p.end()
	}
	if kib = 0; !begin() {
		t.Error("the first one is refused")
	}
	if err := p.begin(func() (int, error) { return 0, errors.New("no /proc") }, now); err == nil {
		t.Error("let in without knowing")
	}
}

// And who is refused is told why.
func TestShortOfMemory(t *testing.T) {
	b := newBox(t, func(o *Options) { o.available = func() (int, error) { return spareKiB, nil } })
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	first, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := first.Start("count"); err != nil { // it reads
		t.Fatal(err)
	}
	awaits(t, "the first program", func() bool { b.s.programs.mu.Lock(); defer b.s.programs.mu.Unlock(); return b.s.programs.running == 1 })
	second, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := second.CombinedOutput("echo b")
	if err == nil || !strings.Contains(string(out), "with 1 sessions and 4608 KiB available the gateway is short of memory: end one") {
		t.Errorf("%q, %v", out, err)
	}
	first.Close()
	awaits(t, "its end", func() bool { b.s.programs.mu.Lock(); defer b.s.programs.mu.Unlock(); return b.s.programs.running == 0 })
	if out, status := run(t, c, "echo again"); out != "again\n" || status != 0 {
		t.Errorf("%q, %d", out, status)
	}
}
