//go:build linux

package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gwinit/internal/api"
	text "gwinit/internal/metrics"
	"gwinit/internal/metrics/metricstest"
)

// gateway is a responder with a box of few words behind it.
type gateway struct {
	t    *testing.T
	s    *Service
	addr chan net.Addr

	mu     sync.Mutex // guards the rest
	listen string
	allow  []netip.Prefix
	log    []string

	asked atomic.Int32
	fails atomic.Bool
	hold  chan struct{} // while it is open, no status is told; nil: at once
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{t: t, listen: "127.0.0.1:0", addr: make(chan net.Addr, 8)}
	g.s = New(Options{
		Settings: func() (string, []netip.Prefix) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.listen, g.allow
		},
		Collect: func(ctx context.Context) (text.Sample, error) {
			g.asked.Add(1)
			if g.hold != nil {
				select {
				case <-g.hold:
				case <-ctx.Done():
					return text.Sample{}, ctx.Err()
				}
			}
			if g.fails.Load() {
				return text.Sample{}, errors.New("gwinit does not answer")
			}
			return text.Sample{Status: &api.Status{Hostname: "attic", Uptime: 12}}, nil
		},
		OnLink:    func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, nil },
		Listening: func(a net.Addr) { g.addr <- a },
		Log: func(line string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.log = append(g.log, line)
		},
	})
	return g
}

// run starts it, and returns where it listens.
func (g *gateway) run() string {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	done := make(chan error, 1)
	go func() { done <- g.s.Run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			g.t.Error(err)
		}
	})
	return (<-g.addr).String()
}

func (g *gateway) set(change func()) {
	g.mu.Lock()
	change()
	g.mu.Unlock()
	g.s.Reload()
}

// dial connects with a deadline that only a hang passes.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask sends a request and reads the whole answer.
func ask(t *testing.T, addr, request, method string) (*http.Response, string) {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	r, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("behind the answer to %q: %q, %v", request, rest, err)
	}
	return r, string(body)
}

func TestScrape(t *testing.T) {
	g := newGateway(t)
	addr := g.run()
	r, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || r.StatusCode != 200 || r.Header.Get("Content-Type") != text.ContentType {
		t.Fatalf("%v, %v, %v", r.Status, r.Header, err)
	}
	families, err := metricstest.Parse(string(body))
	if err != nil || len(families) == 0 {
		t.Fatalf("%v in\n%s", err, body)
	}
	const get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
	head, none := ask(t, addr, strings.Replace(get, "GET", "HEAD", 1), "HEAD")
	if head.StatusCode != 200 || none != "" || head.ContentLength != int64(len(body)) {
		t.Errorf("HEAD: %v, %q, length %d of %d", head.Status, none, head.ContentLength, len(body))
	}
	// Who asks within the second has the same figures.
	if n := g.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	for request, want := range map[string]int{
		"GET /metrics HTTP/1.0\r\n\r\n":                                             200,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                         404,
		"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n":                               405,
		"GET /metrics HTTP/3.0\r\n\r\n":                                             505,
		"hello\r\n\r\n":                                                             400,
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello":       405,
		"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", maxHead):    431,
		strings.Repeat("G", 2*maxHead) + " /metrics HTTP/1.1\r\nHost: x\r\n\r\n":    431,
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n": 200,
	} {
		r, body := ask(t, addr, request, "GET")
		if r.StatusCode != want || !r.Close || int64(len(body)) != r.ContentLength {
			t.Errorf("%.40q: %v, %v, want %d", request, r.Status, r.Header, want)
		}
		if allow := r.Header.Get("Allow"); (want == 405) != (allow == "GET, HEAD") {
			t.Errorf("%.40q: Allow: %q", request, allow)
		}
	}
}

func TestNobodyAnswers(t *testing.T) {
	g := newGateway(t)
	g.fails.Store(true)
	addr := g.run()
	r, body := ask(t, addr, "GET /metrics HTTP/1.0\r\n\r\n", "GET")
	if r.StatusCode != 503 || body != "gwinit does not answer\n" {
		t.Errorf("%v, %q", r.Status, body)
	}
	g.fails.Store(false)
	if r, _ := ask(t, addr, "GET /metrics HTTP/1.0\r\n\r\n", "GET"); r.StatusCode != 200 {
		t.Errorf("afterwards: %v", r.Status)
	}
}

// Many that say nothing, or a byte now and then, keep nobody out: the newest
// takes the place of the oldest.
func TestSlowPeers(t *testing.T) {
	g := newGateway(t)
	addr := g.run()
	var slow []net.Conn
	for i := range 3 * maxConns {
		c := dial(t, addr)
		if i%2 == 0 {
			if _, err := io.WriteString(c, "GET /metr"); err != nil {
				t.Fatal(err)
			}
		}
		slow = append(slow, c)
	}
	if r, _ := ask(t, addr, "GET /metrics HTTP/1.0\r\n\r\n", "GET"); r.StatusCode != 200 {
		t.Errorf("%v", r.Status)
	}
	// All of them are closed: by a newer one, or when their time was over.
	for _, c := range slow {
		var timeout net.Error
		if n, err := c.Read(make([]byte, 1)); n > 0 || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// Who has asked keeps its place, and who comes when all have is closed.
func TestFull(t *testing.T) {
	g := newGateway(t)
	g.hold = make(chan struct{})
	addr := g.run()
	var waiting []net.Conn
	for range maxConns {
		c := dial(t, addr)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	// The next is closed once all have asked; until then it closes one of them.
	// So it is counted how many were answered and how many were not.
	more := dial(t, addr)
	_, _ = more.Read(make([]byte, 1)) // until it is closed
	close(g.hold)
	answered := 0
	for _, c := range waiting {
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && r.StatusCode == 200 {
			answered++
		}
	}
	if answered < maxConns-1 {
		t.Errorf("%d of %d were answered", answered, maxConns)
	}
}

func TestAllowed(t *testing.T) {
	g := newGateway(t)
	for a, want := range map[string]bool{
		"192.168.1.9": true, "127.0.0.1": true, "fe80::1": true, "203.0.113.7": true, "198.51.100.7": false, "2001:db8::7": true, "2001:db9::7": false,
	} {
		if got := g.s.allowed(netip.MustParseAddr(a), []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}); got != want {
			t.Errorf("%s: %v", a, got)
		}
	}
}

// A change of the settings moves the socket; one of others closes nothing.
func TestReload(t *testing.T) {
	g := newGateway(t)
	first := g.run()
	g.s.Reload()
	if r, _ := ask(t, first, "GET /metrics HTTP/1.0\r\n\r\n", "GET"); r.StatusCode != 200 {
		t.Errorf("%v", r.Status)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := free.Addr().String()
	free.Close()
	g.set(func() { g.listen = other })
	if got := (<-g.addr).String(); got != other {
		t.Errorf("listens on %s, want %s", got, other)
	}
	if c, err := net.Dial("tcp", first); err == nil {
		c.Close()
		t.Error("the old address is open")
	}
	if r, _ := ask(t, other, "GET /metrics HTTP/1.0\r\n\r\n", "GET"); r.StatusCode != 200 {
		t.Errorf("%v", r.Status)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if want := []string{fmt.Sprintf("metrics at http://%s/metrics", first), fmt.Sprintf("metrics at http://%s/metrics", other)}; strings.Join(g.log, "\n") != strings.Join(want, "\n") {
		t.Errorf("log %q", g.log)
	}
}

// off is no socket, and ends as soon as it is to.
func TestOff(t *testing.T) {
	g := newGateway(t)
	g.listen = ""
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- g.s.Run(ctx) }()
	g.s.Reload()
	cancel()
	if err := <-done; err != nil || len(g.addr) > 0 {
		t.Errorf("%v, %d sockets", err, len(g.addr))
	}
}
