//go:build linux

package bridge

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/notify"
	"gwinit/internal/tty"
)

// setting is a port that notes what is set on it, and may refuse.
type setting struct {
	holding
	refuse error
}

func (s *setting) Set(baud int, flow tty.Flow) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "set")
	if s.refuse != nil {
		err := s.refuse
		s.refuse = nil // the way back works
		return err
	}
	return s.Port.Set(baud, flow)
}

func (s *setting) refuses(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// withSetting is a gateway on such a port.
func withSetting(t *testing.T) (*gateway, *setting) {
	t.Helper()
	p := &setting{}
	g := start(t, func(g *gateway, o *Options) {
		o.Open = func(ctx context.Context) (Port, func(), error) {
			port, release, err := g.opener.Open(ctx)
			p.Port = port
			return p, release, err
		}
	}).open()
	return g, p
}

func (g *gateway) setLine(baud int, flow tty.Flow) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	return g.b.SetLine(ctx, baud, flow)
}

// The rate changes on the open port, the client stays, and no byte is lost.
func TestSetLine(t *testing.T) {
	g, _ := withSetting(t)
	c := g.client()
	up := noise(256 << 10)
	sent := make(chan struct{})
	go func() { write(t, c, up); close(sent) }()
	changed := make(chan error, 1)
	go func() {
		for _, baud := range []int{115200, 230400, 691200} {
			if err := g.setLine(baud, tty.FlowSoft); err != nil {
				changed <- err
				return
			}
		}
		changed <- nil
	}()
	heard := g.radioHears(len(up))
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	<-sent
	if !bytes.Equal(heard, up) {
		t.Error("bytes differ")
	}
	if s := g.status(); s.Baud != 691200 || s.Flow != "sw" || s.Client == nil || s.TxDropped != 0 {
		t.Errorf("status %+v", s)
	}
	g.says("ttyS1 runs at 691200 baud, flow control sw now")
}

// What is on its way leaves at the old rate, if it can within a second.
func TestSetLineDrains(t *testing.T) {
	g, p := withSetting(t)
	c := g.client()
	p.hold(5)
	p.isBusy(true)
	write(t, c, []byte("\x1ahell"))
	g.radioHears(5)
	changed := make(chan error, 1)
	go func() { changed <- g.setLine(115200, tty.FlowHard) }()
	// The loop holds the client meanwhile.
	g.until("change that waits", func() bool {
		waits := false
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := g.b.do(ctx, func(l *loop) { waits = l.line != nil }); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	write(t, c, []byte("later"))
	g.radioHearsNothing()
	if slices.Contains(p.did(), "set") {
		t.Error("changed with bytes on their way")
	}
	p.hold(0)
	g.radioHearsNothing()
	if slices.Contains(p.did(), "set") {
		t.Error("changed with bytes in the UART's FIFO")
	}
	p.isBusy(false)
	if err := <-changed; err != nil {
		t.Error(err)
	}
	if got := string(g.radioHears(5)); got != "later" {
		t.Errorf("radio heard %q", got)
	}

	p.hold(5) // and with a radio that takes nothing, the change comes all the same
	write(t, c, []byte("\x1ahell"))
	g.radioHears(5)
	if err := g.setLine(230400, tty.FlowHard); err != nil {
		t.Error(err)
	}
	p.hold(0)
	if s := g.status(); s.Baud != 230400 || s.Client == nil || s.TxDropped != 0 {
		t.Errorf("status %+v", s)
	}
}

func TestSetLineRefused(t *testing.T) {
	g, p := withSetting(t)
	c := g.client()
	p.refuses(tty.ErrBaud)
	if err := g.setLine(999, tty.FlowSoft); !errors.Is(err, tty.ErrBaud) {
		t.Error(err)
	}
	if s := g.status(); s.Baud != 460800 || s.Flow != "hw" {
		t.Errorf("%d baud, %s", s.Baud, s.Flow)
	}
	write(t, c, []byte("\x1a"))
	g.radioHears(1)
}

// A UART that is opened later is as it was last wanted.
func TestSetLineWhileTheUARTIsNotOpen(t *testing.T) {
	opens := make(chan struct{})
	g := start(t, func(g *gateway, o *Options) {
		o.Open = func(ctx context.Context) (Port, func(), error) {
			p, release, err := g.opener.Open(ctx) // with the old settings
			<-opens
			return p, release, err
		}
	})
	if err := g.setLine(115200, tty.FlowNone); err != nil {
		t.Fatal(err)
	}
	if s := g.status(); s.Baud != 115200 || s.Flow != "none" {
		t.Errorf("%d baud, %s", s.Baud, s.Flow)
	}
	close(opens)
	g.open()
	if s := g.status(); s.Baud != 115200 || s.Flow != "none" {
		t.Errorf("opened at %d baud, %s", s.Baud, s.Flow)
	}
}

func TestRebind(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Bind = netip.MustParseAddr("127.0.0.1") }).open()
	was := g.b.Addr()
	c := g.client()
	rebind := func(bind string) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return g.b.Rebind(ctx, netip.MustParseAddr(bind), was.Port())
	}
	if fd, err := rebind("127.0.0.1"); fd != -1 || err != nil {
		t.Errorf("the same: %d, %v", fd, err)
	}
	fd, err := rebind("127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if at, ok := serves(fd, netip.MustParseAddr("127.0.0.2"), was.Port()); !ok || at != g.b.Addr() {
		t.Errorf("the duplicate serves %v, the bridge %v", at, g.b.Addr())
	}
	// Somebody else has the port there.
	other, _, _, err := listen(netip.MustParseAddr("127.0.0.3"), was.Port(), -1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(other)
	back, err := rebind("127.0.0.3")
	if !errors.Is(err, unix.EADDRINUSE) || back < 0 {
		t.Errorf("taken: %d, %v", back, err)
	}
	unix.Close(back)
	if at := g.b.Addr(); at.Addr() != netip.MustParseAddr("127.0.0.2") {
		t.Errorf("listens on %v", at)
	}
	g.active(c)
	// Another port alone.
	free, at, _, err := listen(netip.MustParseAddr("127.0.0.2"), 0, -1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	moved, err := g.b.Rebind(t.Context(), at.Addr(), at.Port())
	if err != nil || moved < 0 || g.b.Addr() != at {
		t.Errorf("%d, %v, listens on %v", moved, err, g.b.Addr())
	}
	unix.Close(moved)
	g.active(c)
	next := g.dial()
	write(t, next, []byte{0x1a})
	g.active(next)
	if s := g.status(); s.Listen != g.b.Addr().String() {
		t.Errorf("status says %s", s.Listen)
	}
}

// A bridge that has no port any more ends, and its client in the orderly way.
func TestRebindToNowhere(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Bind = netip.MustParseAddr("127.0.0.1") }).open()
	c := g.client()
	port := g.b.Addr().Port()
	for _, taken := range []string{"127.0.0.4", "127.0.0.5"} {
		fd, _, _, err := listen(netip.MustParseAddr(taken), port, -1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.b.do(ctx, func(l *loop) { l.b.o.Bind = netip.MustParseAddr("127.0.0.5") }); err != nil {
		t.Fatal(err)
	}
	write(t, c, []byte("\x1a and bytes unread, for the radio takes some of them only"))
	if fd, err := g.b.Rebind(ctx, netip.MustParseAddr("127.0.0.4"), port); fd != -1 || !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("%d, %v", fd, err)
	}
	ends(t, c)
	c.Close()
	select {
	case err := <-g.ended:
		if !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("Run: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("Run does not end")
	}
	g.ended <- nil // for the harness
}

// A client that the new list leaves out is closed; others stay.
func TestSetDoor(t *testing.T) {
	at := stranger(t, "203.0.113.71")
	g := start(t, func(_ *gateway, o *Options) {
		o.Bind, o.Allow = at, []netip.Prefix{netip.PrefixFrom(at, 32)}
	}).open()
	c := g.dial()
	write(t, c, []byte{0x1a}) // the takeover policy is for who has said something
	g.active(c)
	set := func(o Options) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := g.b.SetDoor(ctx, &o); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Limits: DefaultLimits(), Allow: []netip.Prefix{netip.PrefixFrom(at, 24)}, Takeover: "never"}
	o.Limits.Stall = 77 * time.Second
	set(o)
	next := g.dial()
	write(t, next, []byte{0x1a})
	ends(t, next)
	g.says("BRIDGE_TAKEOVER=never")
	g.active(c)
	fd, _ := g.b.ListenerFD()
	if ms := sockopt(t, fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT); ms != 77000 {
		t.Errorf("the next client's limit is %d ms", ms)
	}
	o.Allow = []netip.Prefix{}
	set(o)
	ends(t, c)
	g.says(c.LocalAddr().String(), "disconnected", outsideList)
}

// The method reads radio.conf, and changes only what that says.
func TestReload(t *testing.T) {
	root := conf(t, "FIRMWARE_BAUD=460800\nBRIDGE_BIND=127.0.0.1\n")
	if err := os.MkdirAll(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	logged := make(chan string, 100)
	s, err := load(root, nil, func(line string) { logged <- line })
	if err != nil {
		t.Fatal(err)
	}
	var conn *notify.Conn // what is stored is another test's
	var opened atomic.Int32
	g := start(t, func(g *gateway, o *Options) {
		s.opener.Device = g.device
		o.Bind, o.Allow = s.options.Bind, s.options.Allow
		o.Open = func(ctx context.Context) (Port, func(), error) { opened.Add(1); return s.opener.Open(ctx) }
	}).open()
	c := g.client()
	handler := answerer(g.b, func(ctx context.Context) error { return s.reload(ctx, g.b, conn) })
	reload := func(radio string) error {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, "userdata/etc/radio.conf"), []byte(radio), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		answer, err := handler(ctx, "reload", nil)
		if err == nil && !strings.Contains(string(answer), `"uartOpen":true`) {
			t.Errorf("answer %s", answer)
		}
		return err
	}
	if err := reload("FIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\nBRIDGE_BIND=127.0.0.2\nBRIDGE_TAKEOVER=never\nBRIDGE_CLAIM_MS=700\nBRIDGE_STALL_S=40\n"); err != nil {
		t.Fatal(err)
	}
	st := g.status()
	if st.Baud != 115200 || st.Flow != "none" || !strings.HasPrefix(st.Listen, "127.0.0.2:") || st.Client == nil {
		t.Errorf("status %+v", st)
	}
	var o Options
	if err := g.b.do(t.Context(), func(l *loop) { o = l.b.o }); err != nil {
		t.Fatal(err)
	}
	if o.Takeover != "never" || o.Limits.Claim != 700*time.Millisecond || o.Limits.Stall != 40*time.Second {
		t.Errorf("takeover %s, limits %+v", o.Takeover, o.Limits)
	}
	if err := reload("BRIDGE_BIND=127.0.0.2\n"); err != nil { // back to the defaults
		t.Fatal(err)
	}
	if st := g.status(); st.Baud != 460800 || st.Flow != "hw" {
		t.Errorf("%d baud, %s", st.Baud, st.Flow)
	}
	if err := reload("MODE=otbr\nBRIDGE_BIND=127.0.0.2\n"); !errors.Is(err, errRestart) {
		t.Errorf("another mode: %v", err)
	}
	if err := reload("FIRMWARE_BAUD=230400\nBRIDGE_BIND=127.0.0.2\n"); err != nil {
		t.Fatal(err)
	}
	g.active(c)
	if n := opened.Load(); n != 1 {
		t.Errorf("the UART was opened %d times", n)
	}
	// The next open is with the new settings.
	old := g.radio
	g.plug()
	old.Close()
	g.until("another open", func() bool { return opened.Load() == 2 && g.status().UARTOpen })
	if st := g.status(); st.Baud != 230400 {
		t.Errorf("opened again at %d baud", st.Baud)
	}
}
