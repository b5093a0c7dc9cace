//go:build linux

package bridge

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/handoff"
	"gwinit/internal/tty"
)

// Takeovers, clients that half-close, reset, stop reading or say a byte now and
// then, SSH, some 200 connects a second, changes of every setting, releases and a
// UART that breaks, all at once: nothing is left behind, and the radio is there
// for who comes next. The soak does it for ten minutes.
func TestStorm(t *testing.T) {
	const pause = 2 * time.Millisecond
	d, long := time.Second, 10*pause
	if os.Getenv("GW_SOAK") == "1" {
		d, long = 10*time.Minute, 100*pause
	}
	var path string
	g := start(t, func(g *gateway, o *Options) {
		o.Bind = netip.MustParseAddr("127.0.0.1")
		o.Limits.Claim, o.Limits.HalfClosed, o.Limits.Linger, o.Limits.Pending = 2*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond
		path = g.sshService(o)
	}).open()
	l, err := net.FileListener(listeners[path])
	if err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	ctx, cancel := context.WithTimeout(t.Context(), d+3*patience)
	defer cancel()

	var helpers, storm sync.WaitGroup
	helpers.Go(func() { // the SSH service
		for {
			c, err := handoff.Take(l.(*net.UnixListener))
			if err == nil {
				c.Close()
			} else if !errors.Is(err, handoff.ErrNothing) {
				return
			}
		}
	})
	hear := func(radio *os.File) {
		helpers.Go(func() { _, _ = io.Copy(io.Discard, radio) })
	}
	hear(g.radio)
	during := func(seed uint64, f func(r *rand.Rand)) {
		storm.Go(func() {
			r := rand.New(rand.NewPCG(4, seed))
			for end := time.Now().Add(d); time.Now().Before(end); {
				f(r)
			}
		})
	}
	for i, pause := range []time.Duration{pause, pause, pause, long} {
		during(uint64(i), func(r *rand.Rand) {
			c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(g.b.Addr()))
			if err != nil {
				return // the socket was moved just now
			}
			defer c.Close()
			stays := time.Duration(1+r.IntN(10)) * pause
			c.SetDeadline(time.Now().Add(stays))
			_, _ = io.WriteString(c, []string{"", "\x1a", "\x1a\xc0\x38\xbc\x7e", "\x7e\x80", "x", "S", "SSH-2.0-x\r\n", "GET / HTTP/1.0\r\n\r\n"}[r.IntN(8)])
			switch r.IntN(7) {
			case 0:
				_, _ = c.Write(noise(20 << 10))
			case 1:
				c.CloseWrite()
			case 2:
				c.SetLinger(0)
				return
			case 3:
				return
			case 4:
				<-time.After(stays) // reads nothing
				return
			case 5:
				tick := time.NewTicker(5 * pause)
				defer tick.Stop()
				for err == nil {
					<-tick.C
					_, err = c.Write([]byte{'x'})
				}
				return
			}
			_, _ = io.Copy(io.Discard, c)
		})
	}
	during(10, func(r *rand.Rand) {
		<-time.After(5 * pause)
		o := Options{Limits: DefaultLimits(), Takeover: []string{"", "never", "same-host"}[r.IntN(3)]}
		o.Limits.Claim = 2 * time.Millisecond
		if r.IntN(4) == 0 {
			o.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}
		if err := g.b.SetDoor(ctx, &o); err != nil {
			t.Error(err)
		}
	})
	during(11, func(r *rand.Rand) {
		err := g.b.SetLine(ctx, []int{115200, 230400, 460800}[r.IntN(3)], tty.Flow(r.IntN(3)))
		if err != nil && !errors.Is(err, unix.EIO) { // it breaks now and then
			t.Error(err)
		}
	})
	during(12, func(r *rand.Rand) {
		<-time.After(5 * pause)
		fd, err := g.b.Rebind(ctx, []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}[r.IntN(2)], g.b.Addr().Port())
		if err != nil {
			t.Error(err)
		}
		if fd >= 0 {
			unix.Close(fd)
		}
	})
	during(13, func(*rand.Rand) {
		<-time.After(10 * pause)
		if err := g.b.Release(ctx, time.Hour); err != nil {
			t.Error(err)
		} else if got := g.owner(); got != "" {
			t.Errorf("released, and %q has it", got)
		}
		if err := g.b.Take(ctx); err != nil {
			t.Error(err)
		}
		_, _ = g.b.Watch(ctx)
		if _, _, _, err := g.b.Tap(ctx, api.BridgeTapArgs{}); err != nil {
			t.Error(err)
		}
	})
	during(14, func(r *rand.Rand) {
		<-time.After(pause)
		_, _ = g.radio.Write(noise(1 + r.IntN(5000)))
		if r.IntN(20) > 0 {
			return
		}
		old := g.radio
		g.plug()
		hear(g.radio)
		old.Close()
	})
	storm.Wait()
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}

	o := Options{Limits: DefaultLimits()}
	if err := errors.Join(g.b.SetDoor(ctx, &o), g.b.Take(ctx)); err != nil {
		t.Fatal(err)
	}
	g.open()
	g.until("the end of everybody", func() bool { s := g.status(); return s.Client == nil && s.Pending == 0 })
	g.until("descriptors", func() bool { return descriptors(t) <= before })
	c := g.dial()
	write(t, c, []byte{0x1a})
	g.active(c)
	g.radioSays([]byte("there"))
	if got := string(readN(t, c, 5)); got != "there" {
		t.Errorf("got %q", got)
	}
	l.Close()
	g.radio.Close()
	helpers.Wait()
}
