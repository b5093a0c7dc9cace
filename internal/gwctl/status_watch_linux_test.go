package gwctl

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/control/wire"
)

// A page is over what the terminal shows, and no longer than it.
func TestOnScreen(t *testing.T) {
	if got, want := onScreen("a\nb\n", 24), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := onScreen("1\n2\n3\n4\n5\n", 5), "\x1b[H1\x1b[K\n2\x1b[K\n3\x1b[K\n... and 2 lines more; gwctl status shows all\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := strings.Count(onScreen("1\n2\n3\n4\n", 5), "\n"); got != 4 {
		t.Errorf("%d lines for 4 in 5", got)
	}
}

// What changes all the time is no change.
func TestSteady(t *testing.T) {
	a := settled()
	b := settled()
	b.Uptime, b.Wall, b.Memory.Free, b.Userdata.Free = 5, 6, 7, 8
	b.Network.Lease, b.Bridge.RxBytes, b.Bridge.Client.Since, b.Bridge.Client.Tx = 9, 10, 11, 12
	b.Services[1].CPU, b.Services[1].RSS, b.Services[1].Since = 13, 14, 15
	if steady(a) != steady(b) {
		t.Errorf("%s\nis another than\n%s", steady(a), steady(b))
	}
	if b.Bridge.Client.Tx != 12 || b.Services[1].CPU != 13 || b.Network.Lease != 9 {
		t.Error("it changes what it looks at")
	}
	for name, change := range map[string]func(*api.Status){
		"client":  func(s *api.Status) { s.Bridge.Client.Addr = "192.168.1.11:1" },
		"gone":    func(s *api.Status) { s.Bridge.Client = nil },
		"service": func(s *api.Status) { s.Services[2].State = "backoff" },
		"link":    func(s *api.Status) { s.Network.Carrier = false },
		"warning": func(s *api.Status) { s.Warnings = []string{"x"} },
		"losses":  func(s *api.Status) { s.Bridge.Overruns++ },
	} {
		c := settled()
		change(&c)
		if steady(a) == steady(c) {
			t.Errorf("%s is no change", name)
		}
	}
}

// twice answers two requests with a status and ends then.
func twice(t *testing.T, st api.Status) *client.Client {
	t.Helper()
	near, far := net.Pipe()
	line, err := wire.Line(map[string]any{"ok": true, "data": st})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer far.Close()
		for in, n := bufio.NewReader(far), 0; n < 2; n++ {
			if _, err := in.ReadString('\n'); err != nil {
				return
			}
			if _, err := far.Write(line); err != nil {
				return
			}
		}
	}()
	return client.New(near)
}

// Where there is no terminal, a screen comes when something has changed, also
// that the gateway is away and back.
func TestStatusWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := settled()
		n := 0
		var out strings.Builder
		e := &env{
			ctx: ctx, name: "status", std: applet.IO{Out: &out},
			dial: func(context.Context, string) (*client.Client, error) {
				n++
				switch n {
				case 1, 2: // each answers two requests
				case 3:
					return nil, Unreachable{context.DeadlineExceeded}
				case 4:
					b.Services[2].State = "backoff"
				default:
					cancel()
					return nil, context.Canceled
				}
				b.Uptime++
				return twice(t, b), nil
			},
		}
		begin := time.Now()
		if err := e.watch(); err != nil {
			t.Error(err)
		}
		var seen []string
		for line := range strings.Lines(out.String()) {
			if rest, is := strings.CutPrefix(line, "gateway  "); is {
				seen = append(seen, rest[:9])
			}
		}
		if got, want := strings.Join(seen, "|"), "zigbee-gw|!! no ans|zigbee-gw|!! no ans|zigbee-gw|!! no ans"; got != want {
			t.Errorf("%s, want %s:\n%s", got, want, out.String())
		}
		if d := time.Since(begin); d < 10*time.Second || d > 30*time.Second {
			t.Errorf("took %v", d)
		}
	})
}
