//go:build linux

package bridge

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// xoff and xon are the radio's, under software flow control.
const (
	xoff = 0x13
	xon  = 0x11
)

// heldOff is a gateway whose radio has sent XOFF, and its client, which the
// XOFF came to, so that nothing resumes it by itself.
func heldOff(t *testing.T, halfClosed time.Duration) (*gateway, *net.TCPConn) {
	t.Helper()
	g := start(t, func(g *gateway, o *Options) {
		g.opener.Flow = "sw"
		o.Limits.HalfClosed = halfClosed
		o.Limits.XOFF = time.Hour
	}).open()
	c := g.client()
	g.radioSays([]byte{xoff, 'x'})
	if got := readN(t, c, 1); string(got) != "x" {
		t.Fatalf("client got %q", got)
	}
	return g, c
}

// The end of a client is seen while the radio holds off, and whoever comes
// next has the radio, also to listen only.
func TestEndIsSeenWhileTheRadioHoldsOff(t *testing.T) {
	ends := []struct {
		name   string
		end    func(*net.TCPConn)
		reason string
	}{
		{"close", func(c *net.TCPConn) { c.Close() }, "closed by the client; NEW came before the radio had taken everything"},
		{"half-close", func(c *net.TCPConn) { c.CloseWrite() }, "closed by the client; NEW came before the radio had taken everything"},
		{"reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, "reset by the client"},
	}
	for _, tt := range ends {
		for _, says := range []string{"", "two"} {
			t.Run(tt.name+", then "+map[bool]string{true: "a listener", false: "a speaker"}[says == ""], func(t *testing.T) {
				g, first := heldOff(t, patience)
				write(t, first, []byte("one"))
				tt.end(first)
				if tt.name == "reset" {
					g.says("reset by the client") // what it said is read before that is seen
				}
				second := g.dial()
				write(t, second, []byte(says))
				g.active(second)
				g.radioSays([]byte("fresh"))
				if got := readN(t, second, 5); string(got) != "fresh" {
					t.Errorf("the new client got %q", got)
				}
				if says == "" {
					write(t, second, []byte("two"))
				}
				if got := g.radioHears(3); string(got) != "two" {
					t.Errorf("the radio heard %q first", got)
				}
				g.radioHearsNothing()
				if s := g.status(); s.Takeovers != 0 || s.TxBytes != 3 || s.TxDropped != 3 {
					t.Errorf("%d takeovers, %d bytes to the radio, %d dropped; want 0, 3, 3", s.Takeovers, s.TxBytes, s.TxDropped)
				}
				g.says(first.LocalAddr().String(), "1 bytes from the radio, 0 to it",
					strings.ReplaceAll(tt.reason, "NEW", second.LocalAddr().String())+"; 3 bytes for the radio dropped")
			})
		}
	}
}

// With nobody waiting, the last bytes have their time, but not for ever; and
// that costs no CPU.
func TestHalfClosedIsBounded(t *testing.T) {
	const limit = 400 * time.Millisecond
	for _, tt := range []struct {
		name string
		end  func(*gateway, *net.TCPConn)
	}{
		{"half-close", func(_ *gateway, c *net.TCPConn) { c.CloseWrite() }},
		{"close", func(_ *gateway, c *net.TCPConn) { c.Close() }},
		{"close, and the radio speaks", func(g *gateway, c *net.TCPConn) { c.Close(); g.deafen() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, c := heldOff(t, limit)
			write(t, c, []byte("one"))
			tt.end(g, c)
			var before, after unix.Rusage
			unix.Getrusage(unix.RUSAGE_SELF, &before)
			g.says(c.LocalAddr().String(), "closed by the client, and the radio took nothing for 400ms; 3 bytes for the radio dropped")
			unix.Getrusage(unix.RUSAGE_SELF, &after)
			spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
			if spent > limit/2 {
				t.Errorf("%v of CPU in a wait of %v", spent, limit)
			}
			if s := g.status(); s.Client != nil || s.TxDropped != 3 || s.TxBytes != 0 {
				t.Errorf("client %v, %d dropped, %d to the radio", s.Client, s.TxDropped, s.TxBytes)
			}
		})
	}
}

// deafen has the radio speak until a client that has closed its socket has
// answered with a reset, and the bridge throws away what more comes.
func (g *gateway) deafen() {
	g.t.Helper()
	g.until("discard", func() bool { g.radioSays([]byte("y")); return g.status().Discarded > 0 })
}

// An orderly end drops nothing, though the radio held off when it came.
func TestLastBytesAfterXOFF(t *testing.T) {
	for name, end := range map[string]func(*gateway, *net.TCPConn){
		"half-close":                  func(_ *gateway, c *net.TCPConn) { c.CloseWrite() },
		"close":                       func(_ *gateway, c *net.TCPConn) { c.Close() },
		"close, and the radio speaks": func(g *gateway, c *net.TCPConn) { c.Close(); g.deafen() },
	} {
		t.Run(name, func(t *testing.T) {
			g, c := heldOff(t, patience)
			p := noise(12 << 10) // in the queue, and in the socket
			write(t, c, p)
			end(g, c)
			if s := g.status(); s.Client == nil || s.TxBytes != 0 {
				t.Errorf("client %v, %d bytes to the radio", s.Client, s.TxBytes)
			}
			g.radioSays([]byte{xon})
			if !bytes.Equal(g.radioHears(len(p)), p) {
				t.Error("bytes differ")
			}
			g.says(c.LocalAddr().String(), "12288 to it: closed by the client")
			if s := g.status(); s.TxDropped != 0 || s.TxBytes != uint64(len(p)) {
				t.Errorf("%d dropped, %d to the radio", s.TxDropped, s.TxBytes)
			}
			for _, l := range g.lines() {
				if strings.Contains(l, "dropped") {
					t.Error(l)
				}
			}
		})
	}
}

// What the tty holds of the old client does not reach the radio in front of
// the new one's bytes. Here the radio does not read, and its pty has a buffer.
func TestTakeoverFlushesTheTTY(t *testing.T) {
	g := start(t, nil).open()
	first := g.client()
	old := noise(1 << 20)
	var writer sync.WaitGroup
	writer.Go(func() { _, _ = first.Write(old) }) // broken off by the takeover
	g.until("stop", stands(func() uint64 { return g.status().TxBytes }))
	took := g.status().TxBytes
	second := g.dial()
	two := []byte("\x1atwo-two-two")
	write(t, second, two)
	g.active(second)

	g.radio.SetReadDeadline(time.Now().Add(patience))
	var heard []byte
	for !bytes.HasSuffix(heard, two) {
		p := make([]byte, 4096)
		n, err := g.radio.Read(p)
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(heard), err)
		}
		heard = append(heard, p[:n]...)
	}
	// The line discipline of the radio's side has up to 4 KiB already.
	before := heard[:len(heard)-len(two)]
	if len(before) > 4096 || uint64(len(before)) >= took || !bytes.Equal(before, old[:len(before)]) {
		t.Errorf("the radio heard %d bytes of the old client, of %d that the tty had taken", len(before), took)
	}
	g.says(first.LocalAddr().String(), "replaced by "+second.LocalAddr().String()+"; ", "bytes for the radio dropped")
	first.Close()
	writer.Wait()
}

// slowReader is a client with little room in its kernel.
func (g *gateway) slowReader() *net.TCPConn {
	g.t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 2<<10); err != nil {
				g.t.Error(err)
			}
		})
	}}
	c, err := d.DialContext(g.t.Context(), "tcp", g.b.Addr().String())
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	g.active(c.(*net.TCPConn))
	return c.(*net.TCPConn)
}

// fills has the radio speak until the queue for a client that does not read is
// nearly full, and returns what it said, none of which is in the tty any more.
func (g *gateway) fills() (said []byte) {
	g.t.Helper()
	before := g.status()
	for end := time.Now().Add(patience); ; {
		w, err := g.b.Watch(g.t.Context())
		if err != nil || time.Now().After(end) {
			g.t.Fatalf("%v after %d bytes", err, len(said))
		}
		if w.Discarded-before.Discarded+w.RxBytes-before.RxBytes+uint64(w.FromRadio.Queued) < uint64(len(said)) {
			continue // not all is taken
		}
		if w.FromRadio.Queued > rxQueueBytes-2<<10 {
			return said
		}
		p := noise(1 << 10)
		g.radioSays(p)
		said = append(said, p...)
	}
}

// INV 3: what the radio said before the takeover is discarded and counted, also
// what the tty still has, since its reader was held.
func TestTakeoverOnAnEmptyLine(t *testing.T) {
	g := start(t, nil).open()
	first := g.slowReader()
	said := append(g.fills(), noise(4<<10)...)
	g.radioSays(said[len(said)-4<<10:])
	second := g.dial()
	write(t, second, []byte{0x1a})
	g.active(second)
	g.radioSays([]byte("fresh"))
	if got := string(readN(t, second, 5)); got != "fresh" {
		t.Errorf("the new client got %q", got)
	}
	s := g.status()
	old := s.RxBytes - s.Client.Rx
	if want := uint64(len(said)) - old; s.Discarded != want {
		t.Errorf("%d bytes discarded, want %d", s.Discarded, want)
	}
	g.says("client "+second.LocalAddr().String()+" connected", strconv.FormatUint(s.Discarded, 10)+" older bytes from the radio discarded")
	if got := ends(t, first); uint64(len(got)) != old || !bytes.Equal(got, said[:old]) {
		t.Errorf("the old client got %d bytes, counted are %d", len(got), old)
	}
}

// INV 2: who has sent its FIN and reads slowly gets what the radio had said.
func TestHalfClosedReadsOn(t *testing.T) {
	g := start(t, func(_ *gateway, o *Options) { o.Limits.HalfClosed = 50 * time.Millisecond }).open()
	c := g.slowReader()
	said := g.fills()
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	halfClosed := func() (is bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := g.b.do(ctx, func(l *loop) { is = l.client.halfClosed && l.client.readAll }); err != nil {
			t.Fatal(err)
		}
		return is
	}
	g.until("FIN", halfClosed)
	g.radioHearsNothing() // not the last words' time either
	g.radioHearsNothing()
	if got := ends(t, c); !bytes.Equal(got, said) {
		t.Errorf("it got %d bytes of %d", len(got), len(said))
	}
	g.says(c.LocalAddr().String(), strconv.Itoa(len(said))+" bytes from the radio, 0 to it: closed by the client")
	if n := g.status().Discarded; n != 0 {
		t.Errorf("%d discarded", n)
	}
	// And one that does not is no longer there than any other.
	c = g.slowReader()
	g.fills()
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	g.until("FIN", halfClosed)
	next := g.dial()
	g.active(next)
}

// holding is a UART whose driver has not sent some of what it took, which a
// pty has no notion of.
type holding struct {
	Port
	mu    sync.Mutex // guards the rest
	held  int
	busy  bool // its FIFO is not empty
	calls []string
}

func (h *holding) Unsent() (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held < 0 {
		return 0, unix.EIO
	}
	return h.held, nil
}

func (h *holding) Idle() (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.busy, nil
}

func (h *holding) isBusy(busy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = busy
}

func (h *holding) FlushOutput() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = 0
	h.calls = append(h.calls, "flush")
	return nil
}

func (h *holding) ResumeOutput() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, "resume")
	return h.Port.ResumeOutput()
}

func (h *holding) hold(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = n
}

func (h *holding) did() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

// holdsBack starts a gateway on such a UART, with a client that has said
// "hello", all of which the driver took and held.
func holdsBack(t *testing.T, limit time.Duration) (*gateway, *holding, *net.TCPConn) {
	t.Helper()
	h := &holding{}
	g := start(t, func(g *gateway, o *Options) {
		g.opener.Flow = "sw"
		o.Limits.XOFF = time.Hour
		o.Limits.HalfClosed, o.Limits.Linger = limit, 50*time.Millisecond
		o.Open = func(ctx context.Context) (Port, func(), error) {
			p, release, err := g.opener.Open(ctx)
			h.Port = p
			return h, release, err
		}
	}).open()
	c := g.client()
	write(t, c, []byte("hello"))
	g.radioHears(5)
	h.hold(5)
	return g, h, c
}

func TestUnsentBytesAtTheEnd(t *testing.T) {
	t.Run("takeover", func(t *testing.T) {
		g, h, first := holdsBack(t, patience)
		if n := g.status().TxBytes; n != 0 {
			t.Errorf("%d bytes counted that are not sent", n)
		}
		second := g.dial()
		write(t, second, []byte("\x1atw"))
		g.active(second)
		g.says(first.LocalAddr().String(), "0 to it: replaced by "+second.LocalAddr().String()+"; 5 bytes for the radio dropped")
		g.radioHears(3)
		if s := g.status(); s.TxDropped != 5 || s.TxBytes != 3 || s.Takeovers != 1 || s.Client.Tx != 3 {
			t.Errorf("%+v, client %+v", s, s.Client)
		}
		if got, want := h.did(), []string{"resume", "flush", "resume"}; !slices.Equal(got, want) {
			t.Errorf("calls %q, want %q: resumed before the flush, old bytes go out", got, want)
		}
	})
	t.Run("orderly end", func(t *testing.T) {
		g, h, c := holdsBack(t, patience)
		c.CloseWrite()
		h.hold(2)
		g.until("progress", func() bool { return g.status().TxBytes == 3 })
		if g.status().Client == nil {
			t.Error("gone with bytes on their way")
		}
		h.hold(0)
		ends(t, c)
		g.says(c.LocalAddr().String(), "5 to it: closed by the client")
		if s := g.status(); s.TxDropped != 0 || s.TxBytes != 5 || slices.Contains(h.did(), "flush") {
			t.Errorf("%d dropped, %d to the radio, calls %q", s.TxDropped, s.TxBytes, h.did())
		}
	})
	t.Run("no progress", func(t *testing.T) {
		g, _, c := holdsBack(t, 50*time.Millisecond)
		c.CloseWrite()
		ends(t, c)
		g.says("0 to it: closed by the client, and the radio took nothing for 50ms; 5 bytes for the radio dropped")
		if s := g.status(); s.TxDropped != 5 || s.TxBytes != 0 {
			t.Errorf("%d dropped, %d to the radio", s.TxDropped, s.TxBytes)
		}
	})
	t.Run("reset", func(t *testing.T) {
		g, _, c := holdsBack(t, patience)
		c.SetLinger(0)
		c.Close()
		g.says("reset by the client; 5 bytes for the radio dropped")
	})
	t.Run("end of the bridge", func(t *testing.T) {
		g, _, c := holdsBack(t, patience)
		g.cancel()
		ends(t, c)
		g.stop()
		g.says("5 bytes for the radio dropped")
	})
	t.Run("UART that does not tell", func(t *testing.T) {
		g, h, c := holdsBack(t, patience)
		h.hold(-1)
		c.CloseWrite()
		ends(t, c)
		g.says("5 to it: closed by the client")
		if n := g.status().TxDropped; n != 0 {
			t.Errorf("%d dropped", n)
		}
	})
}
