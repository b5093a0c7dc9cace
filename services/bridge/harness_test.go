//go:build linux

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/radiolock"
	"gwinit/internal/tty/ptytest"
)

// patience is how long anything in these tests may take.
const patience = 10 * time.Second

// gateway is a running bridge between a pty and loopback.
type gateway struct {
	t      *testing.T
	b      *Bridge
	radio  *os.File // the pty's master: what the radio would be
	device string   // a symbolic link to the pty's slave
	root   string
	opener *DeviceOpener
	loan   *radiolock.Loan

	cancel context.CancelFunc
	ended  chan error

	mu  sync.Mutex // guards log
	log []string
}

// start runs a bridge; change, when not nil, changes its options before.
func start(t *testing.T, change func(*gateway, *Options)) *gateway {
	t.Helper()
	g := &gateway{t: t, root: t.TempDir(), ended: make(chan error, 1)}
	if err := os.Mkdir(filepath.Join(g.root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	g.device = filepath.Join(g.root, "ttyS1")
	g.plug()
	g.opener = &DeviceOpener{
		Root: g.root, Device: g.device, Baud: 460800, Flow: "hw", DefaultFlow: "hw", HardwareFlow: true,
	}
	loan, err := radiolock.OpenLoan(g.root)
	if err != nil {
		t.Fatal(err)
	}
	g.loan = loan
	o := Options{
		Loan: loan,
		Bind: netip.MustParseAddr("::1"), Listener: -1, Open: g.opener.Open, UART: "ttyS1", Baud: 460800, Flow: "hw",
		Log: g.line, Limits: DefaultLimits(),
	}
	o.Limits.ReopenMin, o.Limits.ReopenMax = 5*time.Millisecond, 20*time.Millisecond
	o.Limits.Claim = 20 * time.Millisecond
	if change != nil {
		change(g, &o)
	}
	b, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	g.b = b
	ctx, cancel := context.WithCancel(t.Context())
	g.cancel = cancel
	go func() { g.ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		g.stop()
		if t.Failed() {
			t.Logf("log:\n%s", strings.Join(g.lines(), "\n"))
		}
	})
	return g
}

// plug gives the device a fresh pty.
func (g *gateway) plug() {
	g.t.Helper()
	radio, slave := ptytest.Open(g.t)
	// A pty starts with echo on: the bridge must be the one to set it raw,
	// but nobody may see what is written before that.
	g.radio = radio
	tmp := g.device + ".new"
	if err := os.Symlink(slave, tmp); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Rename(tmp, g.device); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) stop() {
	g.t.Helper()
	g.cancel()
	select {
	case err := <-g.ended:
		if err != nil {
			g.t.Errorf("Run: %v", err)
		}
		g.ended <- nil
	case <-time.After(patience):
		g.t.Fatal("Run does not end")
	}
}

func (g *gateway) line(s string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log = append(g.log, s)
}

func (g *gateway) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.log...)
}

// says waits for a line with all of parts.
func (g *gateway) says(parts ...string) {
	g.t.Helper()
	g.until(fmt.Sprintf("a log line with %q", parts), func() bool {
	next:
		for _, l := range g.lines() {
			for _, p := range parts {
				if !strings.Contains(l, p) {
					continue next
				}
			}
			return true
		}
		return false
	})
}

// until polls f, which asks the running bridge or the kernel.
func (g *gateway) until(what string, f func() bool) {
	g.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			g.t.Fatalf("no %s", what)
		}
	}
}

func (g *gateway) status() api.Bridge {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := g.b.Status(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *gateway) open() *gateway {
	g.t.Helper()
	g.until("open UART", func() bool { return g.status().UARTOpen })
	return g
}

func (g *gateway) dial() *net.TCPConn {
	g.t.Helper()
	return dial(g.t, g.b.Addr())
}

func dial(t *testing.T, at netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// client dials and waits until it is the client.
func (g *gateway) client() *net.TCPConn {
	g.t.Helper()
	c := g.dial()
	g.active(c)
	return c
}

func (g *gateway) active(c *net.TCPConn) {
	g.t.Helper()
	me := c.LocalAddr().String()
	g.until("client "+me, func() bool { s := g.status(); return s.Client != nil && s.Client.Addr == me })
}

func (g *gateway) radioSays(p []byte) {
	g.t.Helper()
	g.radio.SetWriteDeadline(time.Now().Add(patience))
	if _, err := g.radio.Write(p); err != nil {
		g.t.Errorf("radio: %v", err)
	}
}

func (g *gateway) radioHears(n int) []byte {
	g.t.Helper()
	g.radio.SetReadDeadline(time.Now().Add(patience))
	p := make([]byte, n)
	if n, err := io.ReadFull(g.radio, p); err != nil {
		g.t.Errorf("radio after %d bytes: %v", n, err)
		return p[:n]
	}
	return p
}

// radioHearsNothing checks that no byte reaches the radio for a while.
func (g *gateway) radioHearsNothing() {
	g.t.Helper()
	g.radio.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	p := make([]byte, 64)
	if n, err := g.radio.Read(p); !errors.Is(err, os.ErrDeadlineExceeded) {
		g.t.Errorf("the radio heard %q, %v", p[:n], err)
	}
}

func readN(t *testing.T, c io.Reader, n int) []byte {
	t.Helper()
	p := make([]byte, n)
	if n, err := io.ReadFull(c, p); err != nil {
		t.Errorf("after %d bytes: %v", n, err)
		return p[:n]
	}
	return p
}

// ends reads until FIN: a reset is an error.
func ends(t *testing.T, c *net.TCPConn) []byte {
	t.Helper()
	p, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("%v: want an orderly end, got %v", c.LocalAddr(), err)
	}
	return p
}

func write(t *testing.T, c io.Writer, p []byte) {
	t.Helper()
	if _, err := c.Write(p); err != nil {
		t.Errorf("write: %v", err)
	}
}

// noise is n bytes that are the same every time, of all values.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	p[0] = 0x1a // as ASH begins
	return p
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func sockopt(t *testing.T, fd, level, name int) int {
	t.Helper()
	v, err := unix.GetsockoptInt(fd, level, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func addrPortOf(o Options) netip.AddrPort { return netip.AddrPortFrom(o.Bind, o.Port) }
