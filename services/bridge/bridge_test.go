//go:build linux

package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/kernelbridge/kernelbridgetest"
	"gwinit/internal/notify"
	"gwinit/internal/radiolock"
)

func TestBothWaysByteExact(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			g := start(t, func(_ *gateway, o *Options) { o.Bind = netip.Addr{} }).open()
			c := dial(t, netip.AddrPortFrom(netip.MustParseAddr(host), g.b.Addr().Port()))
			g.active(c)
			if a := g.status().Client.Addr; a != c.LocalAddr().String() {
				t.Errorf("status names the client %s, it is %s", a, c.LocalAddr())
			}
			up, down := noise(1<<20), noise(1<<20+1)
			var both sync.WaitGroup
			both.Go(func() { g.radioSays(down) })
			both.Go(func() { write(t, c, up) })
			both.Go(func() {
				if !bytes.Equal(readN(t, c, len(down)), down) {
					t.Error("radio to client: bytes differ")
				}
			})
			if !bytes.Equal(g.radioHears(len(up)), up) {
				t.Error("client to radio: bytes differ")
			}
			both.Wait()
			s := g.status()
			if s.RxBytes != uint64(len(down)) || s.TxBytes != uint64(len(up)) || s.Client.Rx != s.RxBytes || s.Client.Tx != s.TxBytes {
				t.Errorf("counted %+v, client %+v", s, s.Client)
			}
			if s.QueueDropped != 0 || s.Discarded != 0 {
				t.Errorf("dropped %d, discarded %d", s.QueueDropped, s.Discarded)
			}
		})
	}
}

// INV 2: the bridge pushes back.
func TestBackPressure(t *testing.T) {
	t.Run("radio that does not read", func(t *testing.T) {
		g := start(t, nil).open()
		c := g.client()
		p := noise(1 << 20)
		sent := make(chan struct{})
		go func() { write(t, c, p); close(sent) }()
		g.until("stop", stands(func() uint64 { return g.status().TxBytes }))
		if n := g.status().TxBytes; n > 64<<10 {
			t.Errorf("%d bytes taken from the client for a radio that takes none", n)
		}
		if !bytes.Equal(g.radioHears(len(p)), p) {
			t.Error("bytes differ")
		}
		<-sent
	})
	t.Run("client that does not read", func(t *testing.T) {
		g := start(t, nil).open()
		c := g.client()
		p := noise(8 << 20)
		sent := make(chan struct{})
		go func() { g.radioSays(p); close(sent) }()
		g.until("stop", stands(func() uint64 { return g.status().RxBytes }))
		select {
		case <-sent:
			t.Error("all was taken from the radio for a client that takes nothing")
		default:
		}
		if !bytes.Equal(readN(t, c, len(p)), p) {
			t.Error("bytes differ")
		}
		<-sent
		if s := g.status(); s.QueueDropped != 0 {
			t.Errorf("dropped %d", s.QueueDropped)
		}
	})
}

// stands tells when a counter above zero was the same 20 times in a row.
func stands(count func() uint64) func() bool {
	last, same := uint64(0), 0
	return func() bool {
		n := count()
		if n != last || n == 0 {
			last, same = n, 0
			return false
		}
		same++
		return same == 20
	}
}

// INV 2: where it cannot push back, it counts, closes and says why.
func TestNoFlowControl(t *testing.T) {
	g := start(t, func(g *gateway, _ *Options) { g.opener.Flow = "none" }).open()
	c := g.client()
	p := noise(8 << 20)
	sent := make(chan struct{})
	go func() { g.radioSays(p); close(sent) }()
	g.says(c.LocalAddr().String(), "disconnected", "without flow control the radio cannot be stopped")
	if s := g.status(); s.QueueDropped == 0 || s.Client != nil {
		t.Errorf("dropped %d, client %v", s.QueueDropped, s.Client)
	}
	<-sent // the radio is never held
	got, err := io.ReadAll(c)
	if !bytes.Equal(got, p[:len(got)]) {
		t.Error("what the client got is not the beginning of what the radio said")
	}
	if err != nil && !errors.Is(err, unix.ECONNRESET) {
		t.Error(err) // after Linger the connection may be reset
	}
}

func TestClientThatTakesNothing(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	// The loop's alone, for the kernel would reset it after its own.
	if err := g.b.do(t.Context(), func(l *loop) { l.b.o.Limits.Stall = 200 * time.Millisecond }); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { g.radioSays(noise(8 << 20)); close(done) }()
	g.says(c.LocalAddr().String(), "disconnected", "took nothing for 200ms")
	<-done
	if g.status().Client != nil {
		t.Error("still the client")
	}
	next := g.client()
	write(t, next, []byte("alive"))
	if got := g.radioHears(5); string(got) != "alive" {
		t.Errorf("radio heard %q", got)
	}
}

// INV 3.
func TestLineIsEmptyAtConnect(t *testing.T) {
	g := start(t, nil).open()
	g.radioSays([]byte("stale"))
	g.until("discard", func() bool { return g.status().Discarded == 5 })
	c := g.client()
	g.says("client "+c.LocalAddr().String()+" connected", "5 older bytes from the radio discarded")
	g.radioSays([]byte("fresh"))
	if got := readN(t, c, 5); string(got) != "fresh" {
		t.Errorf("client got %q", got)
	}
	c.Close()
	g.says("disconnected", "5 bytes from the radio, 0 to it: closed by the client")
}

// INV 3: neither a connect nor a disconnect makes a call that touches modem
// lines; here: the port keeps its descriptor and its settings over a session.
func TestPortStaysOpenOverSessions(t *testing.T) {
	opened := 0
	g := start(t, func(g *gateway, o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context) (Port, func(), error) { opened++; return open(ctx) }
	}).open()
	for range 3 {
		c := g.client()
		c.Close()
		g.until("end", func() bool { return g.status().Client == nil })
	}
	g.stop()
	if opened != 1 {
		t.Errorf("the UART was opened %d times", opened)
	}
}

func TestBefore(t *testing.T) {
	const now = 10 * time.Second
	for left, want := range map[time.Duration]string{
		never:                       ", the first",
		now - 1500*time.Millisecond: ", 2s after the last one left",
		now - 20*time.Millisecond:   ", 20ms after the last one left",
		now + time.Millisecond:      ", 0s after the last one left",
	} {
		l := loop{leftAt: left}
		if got := l.before(now); got != want {
			t.Errorf("left at %v: %q, want %q", left, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	const at = 100 * time.Second
	nobody := client{fd: -1, nth: 9}
	older := client{fd: 3, nth: 1, peer: netip.MustParseAddrPort("192.0.2.1:5"), sniffed: true}
	probe := older // came in by silence, and has said nothing since
	probe.sniffed = false
	newer := older
	newer.nth = 3
	mute := newer
	mute.sniffed = false
	over := newer
	over.halfClosed = true
	same, other := netip.MustParseAddrPort("192.0.2.1:6"), netip.MustParseAddrPort("192.0.2.2:5")
	list := []netip.Prefix{}
	tests := []struct {
		name   string
		n      newcomer
		after  time.Duration
		client client
		o      Options
		want   action
		until  time.Duration
		reason string // a part of it
	}{
		{name: "silent, nobody on the line, too early", after: 249 * time.Millisecond, client: nobody, want: wait, until: at + 250*time.Millisecond},
		{name: "silent, nobody on the line", after: 250 * time.Millisecond, client: nobody, want: promote},
		{name: "silent, client active", after: 250 * time.Millisecond, client: older, want: wait, until: at + 60*time.Second},
		{name: "silent, client active, just before the end", after: 60*time.Second - 1, client: older, want: wait, until: at + 60*time.Second},
		{name: "silent, client active, too long", after: 60 * time.Second, client: older, want: refuse, reason: "did not show what it is"},
		{name: "radio bytes, nobody", n: newcomer{said: isRadio}, client: nobody, want: promote},
		{name: "other bytes, nobody", n: newcomer{said: isOther}, client: nobody, want: promote},
		{name: "radio bytes, client active", n: newcomer{said: isRadio}, client: older, want: promote},
		{name: "other bytes, client active", n: newcomer{said: isOther}, client: older, want: refuse, reason: "does not begin as a radio's client does, and 192.0.2.1:5 has the radio"},
		{name: "other bytes, client active, any wins", n: newcomer{said: isOther, peer: other}, client: older, o: Options{AnyWins: true}, want: promote},
		{name: "other bytes, newer client active, any wins", n: newcomer{said: isOther}, client: newer, o: Options{AnyWins: true}, want: refuse, reason: "does not begin as a radio's client does"},
		{name: "silent, client active, any wins", n: newcomer{}, after: time.Second, client: older, o: Options{AnyWins: true}, want: wait, until: at + 60*time.Second},
		{name: "foreign, client active, any wins", n: newcomer{said: isForeign}, client: older, o: Options{AnyWins: true}, want: refuse, reason: "not for a radio"},
		{name: "radio bytes at the last moment", n: newcomer{said: isRadio}, after: 60 * time.Second, client: older, want: promote},
		{name: "radio bytes, newer client active", n: newcomer{said: isRadio}, after: time.Second, client: newer, want: refuse, reason: "the newer client 192.0.2.1:5"},
		{name: "radio bytes, newer client that has said nothing", n: newcomer{said: isRadio}, after: time.Second, client: mute, want: promote},
		{name: "silent, newer client active", after: time.Second, client: newer, want: wait, until: at + 60*time.Second},
		{name: "radio bytes, newer client half-closed", n: newcomer{said: isRadio}, client: over, want: promote},
		{name: "other bytes, newer client half-closed", n: newcomer{said: isOther}, client: over, want: promote},
		{name: "silent, client half-closed, too early", after: 249 * time.Millisecond, client: over, want: wait, until: at + 250*time.Millisecond},
		{name: "silent, client half-closed", after: 250 * time.Millisecond, client: over, want: promote},
		{name: "a beginning of SSH, client half-closed", n: newcomer{seen: 2}, after: time.Second, client: over, want: wait, until: at + 60*time.Second},
		{name: "SSH, nobody", n: newcomer{said: isSSH}, client: nobody, want: handOver},
		{name: "SSH, client active", n: newcomer{said: isSSH}, client: older, want: handOver},
		{name: "SSH, and gone", n: newcomer{said: isSSH, gone: true}, client: older, want: handOver},
		{name: "a beginning of SSH is not silence", n: newcomer{seen: 2}, after: time.Second, client: nobody, want: wait, until: at + 60*time.Second},
		{name: "a beginning of SSH, too long", n: newcomer{seen: 2}, after: 60 * time.Second, client: nobody, want: refuse, reason: "did not show what it is"},
		{name: "gone without a word", n: newcomer{gone: true}, after: time.Second, client: nobody, want: forget},
		{name: "gone after a beginning of SSH", n: newcomer{seen: 3, gone: true}, client: older, want: forget},
		{name: "gone after raw bytes", n: newcomer{said: isRadio, gone: true}, client: nobody, want: promote},
		{name: "foreign, nobody", n: newcomer{said: isForeign}, client: nobody, want: refuse, reason: "not for a radio"},
		{name: "foreign, client active", n: newcomer{said: isForeign}, client: older, want: refuse, reason: "not for a radio"},

		{name: "same host, from it", n: newcomer{said: isRadio, peer: same}, client: older, o: Options{Takeover: "same-host"}, want: promote},
		{name: "same host, from another", n: newcomer{said: isRadio, peer: other}, client: older, o: Options{Takeover: "same-host"}, want: refuse, reason: "192.0.2.1:5 has the radio, and BRIDGE_TAKEOVER=same-host"},
		{name: "same host, nobody", n: newcomer{said: isRadio, peer: other}, client: nobody, o: Options{Takeover: "same-host"}, want: promote},
		{name: "same host, client half-closed", n: newcomer{said: isRadio, peer: other}, client: over, o: Options{Takeover: "same-host"}, want: promote},
		{name: "never, from the same host", n: newcomer{said: isRadio, peer: same}, client: older, o: Options{Takeover: "never"}, want: refuse, reason: "192.0.2.1:5 has the radio, and BRIDGE_TAKEOVER=never"},
		{name: "never, from a silent one", n: newcomer{said: isRadio, peer: other}, client: probe, o: Options{Takeover: "never"}, want: promote},
		{name: "same host, from a silent one", n: newcomer{said: isRadio, peer: other}, client: probe, o: Options{Takeover: "same-host"}, want: promote},
		{name: "never, other bytes, from a silent one", n: newcomer{said: isOther, peer: other}, client: probe, o: Options{Takeover: "never"}, want: refuse, reason: "does not begin as a radio's client does"},
		{name: "never, nobody", n: newcomer{said: isRadio}, client: nobody, o: Options{Takeover: "never"}, want: promote},
		{name: "never, silent", client: older, after: time.Second, o: Options{Takeover: "never"}, want: wait, until: at + 60*time.Second},
		{name: "newest", n: newcomer{said: isRadio, peer: other}, client: older, o: Options{Takeover: "newest"}, want: promote},

		{name: "outside, raw", n: newcomer{said: isRadio, from: outside}, client: nobody, want: refuse, reason: "on no network of this gateway"},
		{name: "outside, other", n: newcomer{said: isOther, from: outside}, client: nobody, want: refuse, reason: "on no network of this gateway"},
		{name: "not listed, raw", n: newcomer{said: isRadio, from: outside}, client: older, o: Options{Allow: list}, want: refuse, reason: "BRIDGE_ALLOW does not list"},
		{name: "outside, SSH", n: newcomer{said: isSSH, from: outside}, client: nobody, o: Options{Allow: list}, want: handOver},
		{name: "outside, silent is no listener", n: newcomer{from: outside}, after: time.Second, client: nobody, want: wait, until: at + 60*time.Second},
		{name: "outside, silent too long", n: newcomer{from: outside}, after: 60 * time.Second, client: nobody, want: refuse, reason: "did not show what it is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Limits = DefaultLimits()
			tt.n.since, tt.n.nth = at, 2
			if tt.n.from == asking {
				tt.n.from = inside
			}
			got, until, reason := tt.n.next(at+tt.after, &tt.client, &tt.o)
			if got != tt.want || until != tt.until {
				t.Errorf("action %d until %v, want %d until %v", got, until, tt.want, tt.until)
			}
			if !strings.Contains(reason, tt.reason) || (reason != "") != (tt.want == refuse) {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
		})
	}
	// Until it is known where it stands, it is neither let in nor refused.
	for _, said := range []verdict{undecided, isRadio, isOther} {
		n := newcomer{said: said, since: at, nth: 2}
		o := Options{Limits: DefaultLimits()}
		if got, until, _ := n.next(at+time.Second, &nobody, &o); got != wait || until != at+60*time.Second {
			t.Errorf("not known, said %d: action %d until %v", said, got, until)
		}
	}
}

// INV 4.
func TestTakeover(t *testing.T) {
	g := start(t, nil).open()
	first := g.client()
	write(t, first, []byte("one"))
	g.radioHears(3)

	silent := g.dial()
	g.until("pending newcomer", func() bool { return g.status().Pending == 1 })
	g.radioSays([]byte("still"))
	if got := readN(t, first, 5); string(got) != "still" {
		t.Errorf("the client got %q", got)
	}

	// The loser keeps writing and must still see FIN, not RST.
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := first.Write(noise(100)); err != nil {
					return
				}
			}
		}
	})
	var hearing sync.WaitGroup
	heard := make(chan byte, 1)
	two := []byte("\x1atwo-two-two")
	hearing.Go(func() {
		p := make([]byte, 4096)
		for {
			n, err := g.radio.Read(p)
			if i := bytes.Index(p[:n], two); i >= 0 {
				heard <- 1
				return
			}
			if err != nil {
				return
			}
		}
	})
	g.radio.SetReadDeadline(time.Now().Add(patience))
	write(t, silent, two)
	ends(t, first)
	close(stop)
	writer.Wait()
	first.Close()
	hearing.Wait()
	select {
	case <-heard:
	default:
		t.Error("the radio did not hear the winner")
	}
	g.says(first.LocalAddr().String(), "disconnected after", "5 bytes from the radio", "replaced by "+silent.LocalAddr().String())
	g.says("client " + silent.LocalAddr().String() + " connected")
	if s := g.status(); s.Takeovers != 1 || s.Client == nil || s.Client.Addr != silent.LocalAddr().String() || s.Pending != 0 {
		t.Errorf("status %+v client %+v", s, s.Client)
	}
}

func TestPendingSlots(t *testing.T) {
	g := start(t, nil).open()
	g.client()
	var silent []*net.TCPConn
	for range pendingSlots + 1 {
		silent = append(silent, g.dial())
		n := len(silent)
		g.until("connect", func() bool { return g.status().Connects == uint64(n)+1 })
	}
	ends(t, silent[0]) // the oldest made room
	if s := g.status(); s.Pending != pendingSlots || s.Refused != 1 {
		t.Errorf("pending %d, refused %d", s.Pending, s.Refused)
	}
	speaks := g.dial()
	write(t, speaks, []byte{0x1a})
	g.active(speaks)
}

func TestPendingEnds(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Pending = 50 * time.Millisecond }).open()
	g.client()
	silent := g.dial()
	ends(t, silent)
	g.says(silent.LocalAddr().String(), "did not show what it is within 50ms")
}

// A silent newcomer that waited takes the line when the client leaves.
func TestPendingFollowsClient(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	next := g.dial()
	g.until("pending", func() bool { return g.status().Pending == 1 })
	c.Close()
	g.active(next)
}

// INV 7: whatever way the bytes come, SSH never reaches the radio.
func TestSSHNeverReachesTheRadio(t *testing.T) {
	banner := "SSH-2.0-OpenSSH_9.2\r\n"
	for cut := 1; cut < 6; cut++ {
		for _, late := range []bool{false, true} {
			for _, busy := range []bool{false, true} {
				name := banner[:cut] + " then the rest"
				if late {
					name += ", late"
				}
				if busy {
					name += ", client active"
				}
				t.Run(name, func(t *testing.T) {
					g := start(t, func(_ *gateway, o *Options) {
						if !late {
							o.Limits.Claim = time.Minute
						}
					}).open()
					if busy {
						x := g.dial()
						write(t, x, []byte{0x1a})
						g.active(x)
						g.radioHears(1)
					}
					c := g.dial()
					if late && !busy {
						g.active(c) // it came in by silence
					}
					write(t, c, []byte(banner[:cut]))
					if cut < 4 {
						g.radioHearsNothing()
					}
					c.Write([]byte(banner[cut:])) // may come after the FIN: no error to check
					if got := ends(t, c); len(got) != 0 {
						t.Errorf("got %q", got)
					}
					g.radioHearsNothing()
					g.says(c.LocalAddr().String(), "it speaks SSH: nobody serves SSH here")
					if s := g.status(); s.TxBytes != map[bool]uint64{true: 1}[busy] {
						t.Errorf("%d bytes to the radio", s.TxBytes)
					}
				})
			}
		}
	}
}

func TestNearlySSHIsRaw(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Claim = time.Minute }).open()
	c := g.dial()
	for _, p := range []string{"S", "S", "H", "X"} {
		write(t, c, []byte(p))
	}
	if got := g.radioHears(4); string(got) != "SSHX" {
		t.Errorf("radio heard %q", got)
	}
}

func TestHalfClose(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	p := noise(200 << 10)
	go func() { write(t, c, p); c.CloseWrite() }()
	g.until("stop", stands(func() uint64 { return g.status().TxBytes }))
	if !bytes.Equal(g.radioHears(len(p)), p) {
		t.Error("bytes differ")
	}
	ends(t, c)
	g.says("closed by the client")
}

func TestReset(t *testing.T) {
	g := start(t, nil).open()
	for range 5 {
		c := g.dial()
		write(t, c, []byte{0x1a})
		g.active(c)
		g.radioHears(1)
		c.SetLinger(0)
		c.Close()
		g.until("end", func() bool { return g.status().Client == nil })
	}
	g.says("reset by the client")
	c := g.client()
	write(t, c, []byte("ok"))
	if got := g.radioHears(2); string(got) != "ok" {
		t.Errorf("radio heard %q", got)
	}
}

func TestUARTVanishesAndReturns(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	old := g.radio
	if err := os.Remove(g.device); err != nil {
		t.Fatal(err)
	}
	old.Close()
	ends(t, c)
	g.says(c.LocalAddr().String(), "the UART hung up")
	g.says("the UART is not open", "no such file")

	for _, first := range []string{"", "\x1a"} {
		c = g.dial()
		write(t, c, []byte(first))
		ends(t, c)
	}
	g.says("connection from", "closed: the UART is not open")
	if s := g.status(); s.UARTOpen || s.UARTErr == "" || s.Refused != 2 {
		t.Errorf("status %+v", s)
	}

	g.plug()
	g.open()
	c = g.client()
	write(t, c, []byte("back"))
	if got := g.radioHears(4); string(got) != "back" {
		t.Errorf("radio heard %q", got)
	}
}

// Who connects before the first attempt on the UART is over waits for it.
func TestConnectBeforeTheUARTIsOpen(t *testing.T) {
	open := make(chan struct{})
	g := start(t, func(g *gateway, o *Options) {
		o.Open = func(ctx context.Context) (Port, func(), error) {
			<-open
			return g.opener.Open(ctx)
		}
	})
	c := g.dial()
	write(t, c, []byte("early"))
	if s := g.status(); s.Refused != 0 || s.Client != nil {
		t.Errorf("before the UART is open: %+v", s)
	}
	close(open)
	if got := g.radioHears(5); string(got) != "early" {
		t.Errorf("radio heard %q", got)
	}
}

// INV 5.
func TestRadioInUse(t *testing.T) {
	var lock *radiolock.Lock
	g := start(t, func(g *gateway, _ *Options) {
		var err error
		if lock, err = radiolock.Acquire(g.root, "flash"); err != nil {
			t.Fatal(err)
		}
	})
	c := g.dial()
	write(t, c, []byte{0x1a})
	ends(t, c)
	g.says("the UART is not open", "in use by flash")
	lock.Release()
	g.open()
	if owner, err := radiolock.Look(g.root); owner.Name != LockOwner || err != nil {
		t.Errorf("owner %+v, %v", owner, err)
	}
	g.stop()
	if owner, err := radiolock.Look(g.root); owner.Name != "" || err != nil {
		t.Errorf("owner after the end %+v, %v", owner, err)
	}
}

func TestKernelBridge(t *testing.T) {
	for value, want := range map[string]string{"0": "none", "1": "hw", "2": "sw"} {
		t.Run("flow_control "+value, func(t *testing.T) {
			f := kernelbridgetest.New(t, true, value, nil)
			if err := os.Mkdir(filepath.Join(f.Root, "run"), 0o755); err != nil {
				t.Fatal(err)
			}
			g := start(t, func(g *gateway, o *Options) { g.opener.Root, g.opener.Flow = f.Root, "" }).open()
			if w := f.Writes(); !slices.Equal(w, []string{"0"}) {
				t.Errorf("enable got %q", w)
			}
			if s := g.status(); s.Flow != want {
				t.Errorf("flow control %s, want %s", s.Flow, want)
			}
			g.stop()
			if err := g.opener.Rearm(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w := f.Writes(); !slices.Equal(w, []string{"0", "1"}) {
				t.Errorf("enable got %q", w)
			}
		})
	}
}

func TestHardwareFlowNeedsWires(t *testing.T) {
	g := start(t, func(g *gateway, _ *Options) { g.opener.HardwareFlow = false }).open()
	if s := g.status(); s.Flow != "sw" {
		t.Errorf("flow control %s", s.Flow)
	}
}

// INV 2, 4: the end is orderly for everybody, also for who keeps writing.
func TestStop(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	waiting := g.dial()
	g.until("pending", func() bool { return g.status().Pending == 1 })
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
			}
		}
	})
	var reader sync.WaitGroup
	g.radio.SetReadDeadline(time.Now().Add(patience))
	reader.Go(func() { io.Copy(io.Discard, g.radio) })
	g.cancel()
	ends(t, c)
	ends(t, waiting)
	close(stop)
	writer.Wait()
	c.Close()
	waiting.Close()
	g.stop()
	g.radio.Close()
	reader.Wait()
	g.says("the bridge ends")
	if _, err := g.b.Status(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("status after the end: %v", err)
	}
}

func TestStopIsBounded(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Linger = 100 * time.Millisecond }).open()
	c := g.client() // never closes its side
	began := time.Now()
	g.stop()
	if d := time.Since(began); d < 100*time.Millisecond || d > 5*time.Second {
		t.Errorf("ended after %v", d)
	}
	c.Close()
}

func TestLastBytesReachTheRadio(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	p := noise(3000)
	write(t, c, p)
	g.until("bytes", func() bool { return g.status().TxBytes == uint64(len(p)) })
	c.Close()
	g.stop()
	if !bytes.Equal(g.radioHears(len(p)), p) {
		t.Error("bytes differ")
	}
}

// INV 4: of those who came during a restart the newest wins, and whoever is
// over by then says nothing to the radio.
func TestRestartRefusesNobody(t *testing.T) {
	g := start(t, nil).open()
	at := g.b.Addr()
	fd, fresh := g.b.ListenerFD()
	if !fresh {
		t.Error("a new socket is not fresh")
	}
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // as PID 1 does
	if err != nil {
		t.Fatal(err)
	}
	g.stop()
	came := func(says string) *net.TCPConn {
		c := dial(t, at)
		write(t, c, []byte(says))
		return c
	}
	old, older := came("old--"), came("older")
	newest := came("hello")
	half := came("stale")
	half.CloseWrite()
	came("STALE").Close()
	h := start(t, func(_ *gateway, o *Options) { o.Port, o.Listener = at.Port(), kept }).open()
	if _, fresh := h.b.ListenerFD(); fresh || h.b.Addr() != at {
		t.Errorf("listens on %v, fresh %v", h.b.Addr(), fresh)
	}
	if got := string(h.radioHears(5)); got != "hello" {
		t.Errorf("radio heard %q", got)
	}
	h.active(newest)
	for _, c := range []*net.TCPConn{old, older, half} {
		ends(t, c)
	}
	h.radioHearsNothing()
	if s := h.status(); s.Connects != 5 || s.Refused != 4 || s.Takeovers != 0 || s.Pending != 0 {
		t.Errorf("status %+v", s)
	}
	h.says("connection from", "closed: it ended before it could be served")
	h.radioSays([]byte("there"))
	if got := string(readN(t, newest, 5)); got != "there" {
		t.Errorf("the client got %q", got)
	}
	// Who comes later is newer still.
	again := h.dial()
	write(t, again, []byte("\x1aagain"))
	if got := string(h.radioHears(6)); got != "\x1aagain" {
		t.Errorf("radio heard %q", got)
	}
	ends(t, newest)
}

// INV 4: more than there are slots, all with bytes, and more than are taken at a
// time.
func TestRestartWithACrowd(t *testing.T) {
	g := start(t, nil).open()
	at := g.b.Addr()
	fd, _ := g.b.ListenerFD()
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	g.stop()
	var crowd []*net.TCPConn
	for range 2*acceptBatch + 1 {
		c := dial(t, at)
		write(t, c, []byte{0x1a, byte(len(crowd))})
		crowd = append(crowd, c)
	}
	h := start(t, func(_ *gateway, o *Options) { o.Port, o.Listener = at.Port(), kept }).open()
	last := len(crowd) - 1
	if got := h.radioHears(2); !bytes.Equal(got, []byte{0x1a, byte(last)}) {
		t.Errorf("radio heard % x", got)
	}
	h.active(crowd[last])
	for _, c := range crowd[:last] {
		ends(t, c)
	}
	if s := h.status(); s.Refused != uint64(last) || s.Takeovers != 0 {
		t.Errorf("status %+v", s)
	}
}

// INV 4: bytes may come in another order than connects.
func TestOlderNewcomerEvictsNobody(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.Claim = time.Minute }).open()
	older := g.dial()
	g.until("pending", func() bool { return g.status().Pending == 1 })
	newer := g.dial()
	write(t, newer, []byte("newer"))
	g.active(newer)
	g.radioHears(5)
	write(t, older, []byte("\x1aolder"))
	ends(t, older)
	g.says(older.LocalAddr().String(), "closed: the newer client "+newer.LocalAddr().String()+" has the radio")
	g.radioHearsNothing()
	g.active(newer)
}

// INV 4: a newer one that only holds its connection open, and has the radio by
// that, keeps it from nobody who speaks.
func TestOlderNewcomerEvictsAProbe(t *testing.T) {
	g := start(t, nil).open()
	first := g.client()
	older := g.dial()
	g.until("pending", func() bool { return g.status().Pending == 1 })
	probe := g.dial()
	g.until("two that may have it by silence", func() bool {
		silent := 0
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := g.b.do(ctx, func(l *loop) {
			for i := range l.pending {
				if p := &l.pending[i]; p.fd >= 0 && l.now()-p.since >= l.b.o.Limits.Claim {
					silent++
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		return silent == 2
	})
	first.Close()
	g.active(probe)
	write(t, older, []byte("\x1aolder"))
	if got := string(g.radioHears(6)); got != "\x1aolder" {
		t.Errorf("radio heard %q", got)
	}
	ends(t, probe)
	g.active(older)
}

func TestPassedListener(t *testing.T) {
	make := func(t *testing.T, bind string) (int, netip.AddrPort) {
		fd, at, _, err := listen(netip.MustParseAddr(bind), 0, -1, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return fd, at
	}
	tests := []struct {
		name, was, bind string
		other           bool // another port is wanted
		fresh           bool
	}{
		{"same", "127.0.0.1", "127.0.0.1", false, false},
		{"everywhere", "::", "", false, false},
		{"everywhere, in IPv4's words", "::", "0.0.0.0", false, false},
		{"other address", "127.0.0.1", "127.0.0.2", false, true},
		{"was everywhere", "::", "127.0.0.1", false, true},
		{"now everywhere", "127.0.0.1", "", false, true},
		{"other port", "127.0.0.1", "127.0.0.1", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			passed, at := make(t, tt.was)
			var bind netip.Addr
			if tt.bind != "" {
				bind = netip.MustParseAddr(tt.bind)
			}
			port := at.Port()
			if tt.other {
				port = 0
				free, at := make(t, tt.bind)
				port = at.Port()
				unix.Close(free)
			}
			// PID 1 keeps one; and so may somebody else.
			for range 2 {
				kept, err := unix.FcntlInt(uintptr(passed), unix.F_DUPFD_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer unix.Close(kept)
			}
			fd, now, fresh, err := listen(bind, port, passed, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if fresh != tt.fresh || !fresh && fd != passed {
				t.Errorf("fresh %v, descriptor %d of %d", fresh, fd, passed)
			}
			dial(t, netip.AddrPortFrom(reachable(now.Addr()), now.Port()))
			unix.Close(fd)
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(netip.AddrPortFrom(reachable(at.Addr()), at.Port())))
			if err == nil {
				c.Close()
			}
			if fresh && !errors.Is(err, unix.ECONNREFUSED) {
				t.Errorf("connect to where nobody serves: %v", err)
			}
		})
	}
	t.Run("no socket at all", func(t *testing.T) {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd, _, fresh, err := listen(netip.IPv6Loopback(), 0, null, time.Second)
		if err != nil || !fresh {
			t.Fatalf("fresh %v, %v", fresh, err)
		}
		unix.Close(fd)
	})
}

// reachable is where to connect to what is bound to a.
func reachable(a netip.Addr) netip.Addr {
	if a.IsUnspecified() {
		return netip.MustParseAddr("127.0.0.1")
	}
	return a
}

func TestAcceptedSocketsInherit(t *testing.T) {
	fd, at, _, err := listen(netip.Addr{}, 0, -1, 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	dial(t, netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()))
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(p, int(patience.Milliseconds()))
	c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(c)
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{"TCP_USER_TIMEOUT", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30000},
		{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, 2 * sendBufferBytes},
		{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, 2 * receiveBufferBytes},
	} {
		if got := sockopt(t, c, o.level, o.opt); got != o.value {
			t.Errorf("%s is %d, want %d", o.name, got, o.value)
		}
	}
}

func TestManyConnects(t *testing.T) {
	g := start(t, nil).open()
	drain := make(chan struct{})
	g.radio.SetReadDeadline(time.Now().Add(patience))
	go func() {
		defer close(drain)
		p := make([]byte, 4096)
		for {
			n, err := g.radio.Read(p)
			if err != nil || bytes.Contains(p[:n], []byte("end")) {
				return
			}
		}
	}()
	before := descriptors(t)
	tick := time.NewTicker(5 * time.Millisecond) // 200 a second
	defer tick.Stop()
	for i := range 200 {
		<-tick.C
		c := g.dial()
		switch i % 4 {
		case 0:
			write(t, c, []byte{0x1a})
		case 1:
			c.Write([]byte("SSH-2.0-x\r\n"))
		case 2:
			c.SetLinger(0)
		}
		c.Close()
	}
	g.until("quiet", func() bool { s := g.status(); return s.Client == nil && s.Pending == 0 && s.Connects >= 150 })
	c := g.client()
	write(t, c, []byte("end"))
	<-drain
	c.Close()
	g.until("descriptors", func() bool { return descriptors(t) <= before })
}

// One byte at a time, each so long after the one before that the runtime's
// monitor has taken the P meanwhile.
func TestSlowBytes(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	tick := time.NewTicker(12 * time.Millisecond)
	defer tick.Stop()
	for i := range 20 {
		<-tick.C
		write(t, c, []byte{byte(i)})
		if got := g.radioHears(1); len(got) == 1 && got[0] != byte(i) {
			t.Fatalf("radio heard %d, want %d", got[0], i)
		}
		g.radioSays([]byte{byte(i)})
		if got := readN(t, c, 1); len(got) == 1 && got[0] != byte(i) {
			t.Fatalf("client got %d, want %d", got[0], i)
		}
	}
}

// The steady state allocates nothing.
func TestNoAllocation(t *testing.T) {
	g := start(t, nil).open()
	c := g.client()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	frame, got := noise(24), make([]byte, 24)
	radioFD := int(g.radio.Fd()) // sets it blocking
	var run func()
	raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		run = func() {
			rawWrite(int(fd), frame)
			for n := 0; n < len(frame); {
				m, _ := unix.Read(radioFD, got)
				n += max(m, 0)
			}
			rawWrite(radioFD, frame)
			for n := 0; n < len(frame); {
				_, _ = unix.Poll(p, -1)
				m, _ := rawRead(int(fd), got)
				n += max(m, 0)
			}
		}
	})
	for range 100 {
		run() // everything is there after that
	}
	// The runtime allocates a little by itself (a timer, a thread), the more the longer
	// the frames take; what a frame costs is in every round.
	const rounds, frames = 10, 500
	least := uint64(1 << 32)
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range frames {
			run()
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	if least > frames/50 {
		t.Errorf("%d allocations for %d frames", least, frames)
	}
	runtime.KeepAlive(c)
}

// An XOFF from before a connect holds nobody: one noise byte would wedge a network.
func TestOldXOFF(t *testing.T) {
	g := start(t, func(g *gateway, _ *Options) { g.opener.Flow = "sw" }).open()
	g.radioSays([]byte{0x13, 'x'})
	g.until("discard", func() bool { return g.status().Discarded == 1 }) // the x; the XOFF was obeyed
	c := g.client()
	write(t, c, []byte("go"))
	if got := g.radioHears(2); string(got) != "go" {
		t.Errorf("radio heard %q", got)
	}
}

// The client knows within 50 ms that the UART is gone: of a few times one on a
// machine that did nothing else just then.
func TestUARTLossIsToldAtOnce(t *testing.T) {
	g := start(t, nil).open()
	best := patience
	for range 20 {
		c := g.client()
		if err := os.Remove(g.device); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		g.radio.Close()
		ends(t, c)
		best = min(best, time.Since(began))
		if best <= 50*time.Millisecond {
			return
		}
		g.plug()
		g.open()
	}
	t.Errorf("client closed after %v at the earliest", best)
}

// TestService runs the command as PID 1 does, over kill -9.
func TestService(t *testing.T) {
	if dev := os.Getenv("BRIDGE_TEST_SERVICE"); dev != "" {
		if os.Getuid() == 0 {
			// The radio lock is in /run, which others here have, too.
			if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
		}
		a := Applet()
		os.Exit(a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
			[]string{"-device", dev, "-port", os.Getenv("BRIDGE_TEST_PORT"), "-flow", "none", "-bind", "127.0.0.1"}))
	}
	free, at, _, err := listen(netip.MustParseAddr("127.0.0.1"), 0, -1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	g := &gateway{t: t, root: t.TempDir()}
	g.device = filepath.Join(g.root, "ttyS1")
	g.plug()

	var stored []notify.Stored
	defer func() {
		for _, s := range stored {
			unix.Close(s.FD)
		}
	}()
	var waiting *net.TCPConn
	for round := range 3 {
		ours, theirs, err := notify.Pair()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command(os.Args[0], "-test.run=^TestService$")
		if os.Getuid() == 0 {
			child.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		}
		child.Env = append(os.Environ(), "BRIDGE_TEST_SERVICE="+g.device, "BRIDGE_TEST_PORT="+strconv.Itoa(int(at.Port())))
		child.Env = append(child.Env, notify.Environ(3, stored)...)
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(theirs), "notify")}
		for _, s := range stored {
			dup, err := unix.FcntlInt(uintptr(s.FD), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			child.ExtraFiles = append(child.ExtraFiles, os.NewFile(uintptr(dup), s.Name))
		}
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		for _, f := range child.ExtraFiles {
			f.Close()
		}
		ready := false
		g.until("readiness", func() bool {
			buf := make([]byte, notify.MaxMessage)
			n, fds, err := notify.Receive(ours, buf)
			if err != nil {
				return false // nothing yet
			}
			for _, fd := range fds {
				stored = append(stored, notify.Stored{Name: storedName, FD: fd})
			}
			ready = ready || strings.Contains(string(buf[:n]), "READY=1")
			return ready
		})
		if len(stored) != 1 {
			t.Fatalf("round %d: %d sockets stored, want the one of the first round", round, len(stored))
		}
		if waiting != nil { // it connected while nobody was there
			waiting.Close()
		}
		c := dial(t, at)
		write(t, c, []byte{0x1a, byte(round)})
		if got := g.radioHears(2); !bytes.Equal(got, []byte{0x1a, byte(round)}) {
			t.Errorf("radio heard % x", got)
		}
		call, err := notify.AppendCall(nil, 7, "status", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := notify.SendCall(ours, call); err != nil {
			t.Fatal(err)
		}
		var answer string
		g.until("answer", func() bool {
			buf := make([]byte, notify.MaxMessage)
			n, _, err := notify.Receive(ours, buf)
			answer = string(buf[:max(n, 0)])
			return err == nil
		})
		if !strings.HasPrefix(answer, "REPLY=7\n") || !strings.Contains(answer, c.LocalAddr().String()) {
			t.Errorf("status: %q", answer)
		}
		if round < 2 {
			child.Process.Kill()
			child.Wait()
			waiting = dial(t, at) // is not refused
		} else {
			child.Process.Signal(unix.SIGTERM)
			ends(t, c)
			c.Close()
			if err := child.Wait(); err != nil {
				t.Errorf("after SIGTERM: %v", err)
			}
		}
		c.Close()
		unix.Close(ours)
	}
}

// TestKilled starts bridges as processes of their own and kills them.
func TestKilled(t *testing.T) {
	if at := os.Getenv("BRIDGE_TEST_DEVICE"); at != "" {
		o := Options{
			Bind: netip.IPv6Loopback(), Listener: 3, UART: at, Log: func(string) {}, Limits: DefaultLimits(),
			Open: (&DeviceOpener{Root: os.Getenv("BRIDGE_TEST_ROOT"), Device: at, Baud: 115200, Flow: "none"}).Open,
		}
		o.UARTChanged = func(open bool, _ string) { os.Stdout.WriteString("open " + strconv.FormatBool(open) + "\n") }
		port, err := strconv.Atoi(os.Getenv("BRIDGE_TEST_PORT"))
		if err != nil {
			t.Fatal(err)
		}
		o.Port = uint16(port)
		b, err := Listen(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, fresh := b.ListenerFD(); fresh {
			t.Fatal("the passed socket was not taken")
		}
		b.Run(context.Background())
		return
	}
	fd, at, _, err := listen(netip.IPv6Loopback(), 0, -1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	kept := os.NewFile(uintptr(fd), "listener")
	defer kept.Close()
	g := &gateway{t: t, root: t.TempDir()}
	g.device = filepath.Join(g.root, "ttyS1")
	if err := os.Mkdir(filepath.Join(g.root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	g.plug()
	for range 5 {
		child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		child.Env = append(os.Environ(), "BRIDGE_TEST_DEVICE="+g.device, "BRIDGE_TEST_ROOT="+g.root,
			"BRIDGE_TEST_PORT="+strconv.Itoa(int(at.Port())))
		child.ExtraFiles = []*os.File{kept}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 64)
		n, err := out.Read(line)
		if err != nil || !strings.HasPrefix(string(line[:n]), "open true") {
			t.Fatalf("child said %q, %v", line[:n], err)
		}
		c := dial(t, at)
		write(t, c, []byte{0x1a, 0xc0})
		if got := g.radioHears(2); !bytes.Equal(got, []byte{0x1a, 0xc0}) {
			t.Errorf("radio heard % x", got)
		}
		child.Process.Kill()
		child.Wait()
		c.Close()
	}
	if owner, err := radiolock.Look(g.root); owner.Name != "" || err != nil {
		t.Errorf("a killed bridge leaves the radio to %+v, %v", owner, err)
	}
}

func TestListenNeedsItsOptions(t *testing.T) {
	if _, err := Listen(Options{Listener: -1}); err == nil {
		t.Error("options without Open and Log were taken")
	}
}

func FuzzSniff(f *testing.F) {
	for _, s := range []string{"", "S", "SSH", "SSH-", "SSH-2.0", "\x1a\xc0", "SSX", "SSHSSH-", "GET / HTTP/1.0", "\r\n", "\r\n\r\n", "\x16\x03\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		decided := undecided
		for i := range len(p) + 1 {
			v := sniff(p[:i])
			// A foreign opening that comes in pieces is taken for a command.
			if decided != undecided && v != decided && (decided != isOther || v != isForeign) {
				t.Fatalf("%q was %d, is %d with more bytes", p[:i], decided, v)
			}
			decided = v
		}
		s := string(p)
		if ssh := strings.HasPrefix(s, sshPrefix); ssh != (decided == isSSH) {
			t.Fatalf("%q is %d", p, decided)
		}
		if begins := strings.HasPrefix(sshPrefix, s) && s != sshPrefix; begins != (decided == undecided) {
			t.Fatalf("%q is %d", p, decided)
		}
		if radio := s != "" && strings.ContainsRune(radioFirst, rune(p[0])); len(p) > 0 && p[0] < 0x80 && radio != (decided == isRadio) {
			t.Fatalf("%q is %d", p, decided)
		}
	})
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte{3, 1, 8, 2, 8, 8})
	f.Fuzz(func(t *testing.T, ops []byte) {
		q := queue{buf: make([]byte, 8)}
		var in, out byte
		for i, op := range ops {
			if i%2 == 0 {
				room := q.room()
				n := min(int(op), len(room))
				for j := range n {
					room[j] = in
					in++
				}
				q.added(n)
				continue
			}
			n := min(int(op), q.len())
			for _, b := range q.waiting()[:n] {
				if b != out {
					t.Fatalf("took %d, want %d", b, out)
				}
				out++
			}
			q.took(n)
		}
		if q.full() != (q.len() == 8) || q.empty() != (q.len() == 0) || byte(q.len()) != in-out {
			t.Fatalf("%d bytes waiting, want %d", q.len(), in-out)
		}
		if !q.full() && len(q.room()) == 0 {
			t.Fatal("not full and no room")
		}
	})
}
