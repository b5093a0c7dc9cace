//go:build linux

package syslog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/config"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
	"gwinit/internal/wait"
)

// box is the sender and the log that it follows.
type box struct {
	t    *testing.T
	log  *controltest.Backend
	s    *Service
	root string

	mu    sync.Mutex // guards the rest
	to    config.Syslog
	lines []string        // what the sender logged
	waits []time.Duration // the pauses, but for those between datagrams
}

func newBox(t *testing.T, network, address string) *box {
	b := &box{t: t, log: &controltest.Backend{}, root: t.TempDir(), to: config.Syslog{Network: network, Address: address}}
	if err := os.Mkdir(filepath.Join(b.root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	socket := controltest.Start(t, b.log, control.Options{})
	b.s = New(Options{
		Root: b.root,
		Settings: func() config.Syslog {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.to
		},
		Open: func(ctx context.Context) (Source, error) { return client.Dial(ctx, socket) },
		Log: func(line string) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.lines = append(b.lines, line)
		},
		wait: func(ctx context.Context, d time.Duration) bool {
			if d == paceUDP {
				return ctx.Err() == nil
			}
			b.mu.Lock()
			b.waits = append(b.waits, d)
			b.mu.Unlock()
			return wait.For(ctx, time.Millisecond)
		},
	})
	return b
}

func (b *box) run() (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(stop)
	return stop
}

func (b *box) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.lines...)
}

// receiver is a server that reads one connection or socket at a time.
type receiver struct {
	t *testing.T
	l net.Listener
	c net.Conn
	r *bufio.Reader
}

func listenTCP(t *testing.T, addr string) *receiver {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &receiver{t: t, l: l}
}

func (r *receiver) addr() string { return r.l.Addr().String() }

func (r *receiver) accept() {
	r.t.Helper()
	c, err := r.l.Accept()
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // passed by a hang only
		r.t.Fatal(err)
	}
	r.c, r.r = c, bufio.NewReader(c)
}

// next reads a message whose octets are counted, and returns it from its
// application's name on.
func (r *receiver) next() string {
	r.t.Helper()
	n, err := r.r.ReadString(' ')
	if err != nil {
		r.t.Fatal(err)
	}
	length, err := strconv.Atoi(strings.TrimSuffix(n, " "))
	if err != nil {
		r.t.Fatalf("%q is no number", n)
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(r.r, b); err != nil {
		r.t.Fatal(err)
	}
	return short(r.t, string(b))
}

// short is a message's sequence number, application and text.
func short(t *testing.T, message string) string {
	t.Helper()
	if !form.MatchString(message) {
		t.Errorf("%q is no message", message)
		return message
	}
	f := strings.SplitN(message, " ", 10)
	return strings.Trim(strings.TrimPrefix(f[7], "sequenceId="), `"`) + " " + f[3] + ": " + f[9]
}

func (r *receiver) want(all ...string) {
	r.t.Helper()
	for _, w := range all {
		if got := r.next(); got != w {
			r.t.Fatalf("%q, want %q", got, w)
		}
	}
}

// That it works is told at once, that it works again when it has lasted, and a
// failure once.
func TestTeller(t *testing.T) {
	var said []string
	x := &teller{to: "x", log: func(line string) { said = append(said, line) }}
	gone := errors.New("gone")
	x.fails(gone)
	x.works(false)
	x.works(true)
	x.fails(gone)
	x.fails(gone)
	x.works(false)
	x.fails(gone)
	x.works(true)
	want := "the log cannot be sent to x, it is tried again: gone|the log is sent to x|the log cannot be sent to x, it is tried again: gone|the log is sent to x again"
	if got := strings.Join(said, "|"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What was in the log before comes first; what comes, follows; and a server that
// closes the connection gets the rest when it is back, and nothing twice.
func TestTCP(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	b := newBox(t, "tcp", r.addr())
	b.log.Append("bridge", "one")
	b.log.Append("core", "two")
	b.run()
	r.accept()
	r.want("1 bridge: one", "2 core: two")
	b.log.Append("sshd", "three")
	r.want("3 sshd: three")
	r.c.Close()
	r.accept()
	b.log.Append("core", "four")
	r.want("4 core: four")
	// It was away for a moment only, which needs nobody.
	if got := b.said(); len(got) != 1 || got[0] != "the log is sent to tcp://"+r.addr() {
		t.Errorf("said %q", got)
	}
}

// What the ring loses while the server is away is told in the stream.
func TestLost(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	b := newBox(t, "tcp", r.addr())
	b.log.Keep = 3
	b.log.Append("core", "one")
	b.run()
	r.accept()
	r.want("1 core: one")
	r.l.Close()
	r.c.Close()
	for n := 2; n <= 10; n++ {
		b.log.Append("core", strconv.Itoa(n))
	}
	// It may have tried meanwhile: the backlog of a closed listener is none.
	again := listenTCP(t, r.addr())
	again.accept()
	again.want("7 gwinit: 6 lines of the log were overwritten before they could be sent", "8 core: 8", "9 core: 9", "10 core: 10")
}

// A process that is restarted goes on where the one before was, and another
// server gets the log from its beginning.
func TestRestart(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	b := newBox(t, "tcp", r.addr())
	b.log.Append("core", "one")
	stop := b.run()
	r.accept()
	r.want("1 core: one")
	stop()
	b.log.Append("core", "two")
	b.run()
	r.accept()
	r.want("2 core: two")

	other := listenTCP(t, "127.0.0.1:0")
	b.mu.Lock()
	b.to.Address = other.addr()
	b.mu.Unlock()
	b.s.Reload()
	other.accept()
	other.want("1 core: one", "2 core: two")
	b.s.Reload() // nothing has changed
	b.log.Append("core", "three")
	other.want("3 core: three")
}

// A failure is logged once, and tried again ever more rarely.
func TestBackOff(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	addr := r.addr()
	r.l.Close()
	b := newBox(t, "tcp", addr)
	stop := b.run()
	for waited := 0; waited < 10; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		waited = len(b.waits)
		b.mu.Unlock()
	}
	stop()
	if got := b.said(); len(got) != 1 || !strings.Contains(got[0], "connection refused") {
		t.Errorf("said %q", got)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}
	for i, w := range want {
		if b.waits[i] != w*time.Second {
			t.Errorf("pause %d is %v, want %v", i, b.waits[i], w*time.Second)
		}
	}
}

func TestUDP(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := newBox(t, "udp", c.LocalAddr().String())
	const lines = 300 // more than a socket's buffer holds, if they came at once
	for n := 1; n <= lines; n++ {
		b.log.Append("core", strconv.Itoa(n))
	}
	b.s.o.wait = wait.For
	b.run()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // passed by a hang only
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	for n := 1; n <= lines; n++ {
		k, _, err := c.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := short(t, string(buf[:k])), fmt.Sprintf("%d core: %d", n, n); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// A datagram that nobody takes is sent again, once somebody is there.
func TestUDPRefused(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := c.LocalAddr().String()
	c.Close()
	b := newBox(t, "udp", addr)
	b.log.Append("core", "one")
	b.log.Append("core", "two")
	b.run()
	for len(b.said()) < 2 { // that it works: the first one is refused when the second is sent
		time.Sleep(time.Millisecond)
	}
	if got := b.said(); !strings.Contains(got[1], "connection refused") {
		t.Fatalf("said %q", got)
	}
	if c, err = net.ListenPacket("udp", addr); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // passed by a hang only
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	for _, want := range []string{"1 core: one", "2 core: two"} {
		k, _, err := c.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got := short(t, string(buf[:k])); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a server's kernel has not acknowledged when the connection breaks is
// sent again.
func TestGoBack(t *testing.T) {
	w := &wire{stream: true, place: &place{seq: 9}, sent: 300, unacked: 120, lines: []line{{5, 100}, {6, 180}, {7, 240}, {8, 300}}}
	if w.goBack(); w.place.seq != 7 { // 180 of 300 bytes arrived
		t.Errorf("goes back to %d", w.place.seq)
	}
	w.place.seq, w.unacked = 9, 0
	if w.goBack(); w.place.seq != 9 {
		t.Errorf("goes back to %d without need", w.place.seq)
	}
	w.place.seq, w.unacked = 9, 1000
	if w.goBack(); w.place.seq != 5 {
		t.Errorf("goes back to %d, not as far as it knows", w.place.seq)
	}
	w.stream, w.place.seq = false, 9
	if w.goBack(); w.place.seq != 8 {
		t.Errorf("a datagram goes back to %d", w.place.seq)
	}
}

// A server that takes nothing holds up nobody, and gets all when it is patient
// again.
func TestStalled(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	b := newBox(t, "tcp", r.addr())
	b.log.Keep = 100000
	text := strings.Repeat("x", 900)
	const lines = 8000 // more than sockets hold
	b.run()
	r.accept()
	for range lines {
		b.log.Append("core", text) // returns, whoever reads
	}
	for n := 1; n <= lines; n++ {
		if got := r.next(); !strings.HasPrefix(got, strconv.Itoa(n)+" core: xxx") {
			t.Fatalf("%.60q, want %d", got, n)
		}
	}
}

// The log that cannot be followed is tried again, with the same connection.
func TestSourceFails(t *testing.T) {
	r := listenTCP(t, "127.0.0.1:0")
	b := newBox(t, "tcp", r.addr())
	b.log.Append("core", "one")
	open, failures := b.s.o.Open, 3
	b.s.o.Open = func(ctx context.Context) (Source, error) {
		if failures--; failures >= 0 {
			return nil, errors.New("too many clients")
		}
		return open(ctx)
	}
	b.run()
	r.accept()
	r.want("1 core: one")
	if failures >= 0 {
		t.Error("it did not fail")
	}
}

func TestPlace(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	to := config.Syslog{Network: "udp", Address: "192.0.2.1:514"}
	p := newPlace(root, to)
	if p.seq != 0 {
		t.Errorf("begins at %d", p.seq)
	}
	p.seq = 1 << 40
	p.keep()
	if got := newPlace(root, to).seq; got != 1<<40 {
		t.Errorf("goes on at %d", got)
	}
	to.Network = "tcp"
	if got := newPlace(root, to).seq; got != 0 {
		t.Errorf("another server begins at %d", got)
	}
	for _, torn := range []string{"", "udp://192.0.2.1:514", "tcp://192.0.2.1:514 x", "tcp://192.0.2.1:514 -1"} {
		if err := os.WriteFile(p.path, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := newPlace(root, to).seq; got != 0 {
			t.Errorf("%q gives %d", torn, got)
		}
	}
}
