package exporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/metrics/metricstest"
)

// box is a gateway that a test steers.
type box struct {
	mu     sync.Mutex // guards the rest
	broken bool       // connections that there are
	hangs  bool
	absent bool
	dials  int
	closed int
}

func (b *box) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func (b *box) dial(ctx context.Context) (Conn, error) {
	b.mu.Lock()
	b.dials++
	absent, hangs := b.absent, b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if absent {
		return nil, errors.New("connection refused")
	}
	b.set(func() { b.broken = false })
	return &conn{b}, nil
}

type conn struct{ b *box }

func (c *conn) Ask(ctx context.Context, _ string, _ any) (json.RawMessage, error) {
	c.b.mu.Lock()
	broken, hangs := c.b.broken, c.b.hangs
	c.b.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case broken:
		return nil, errors.New("broken pipe")
	}
	return json.Marshal(api.Status{Hostname: "x", Uptime: 5})
}

func (c *conn) Close() error {
	c.b.set(func() { c.b.closed++ })
	return nil
}

func get(e *Exporter, path, timeout string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if timeout != "" {
		r.Header.Set(timeoutHeader, timeout)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, r)
	return w
}

func has(t *testing.T, body string, lines ...string) {
	t.Helper()
	if _, err := metricstest.Parse(body); err != nil {
		t.Errorf("%v in\n%s", err, body)
	}
	for _, l := range lines {
		if !strings.Contains(body, l+"\n") {
			t.Errorf("no %s in\n%s", l, body)
		}
	}
}

// A login is kept for the next time, made anew when it broke, and closed when
// nobody asks any more.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &box{}
		var log []string
		e := New([]Gateway{{"attic", b.dial}}, func(line string) { log = append(log, line) })
		want := func(dials, closed int) {
			t.Helper()
			b.set(func() {
				if b.dials != dials || b.closed != closed {
					t.Errorf("%d logins, %d closed; want %d and %d", b.dials, b.closed, dials, closed)
				}
			})
		}
		has(t, get(e, "/metrics", "").Body.String(), `gateway_up{gateway="attic"} 1`, `gateway_uptime_seconds{gateway="attic"} 5`)
		get(e, "/metrics", "")
		want(1, 0)
		b.set(func() { b.broken = true })
		has(t, get(e, "/metrics", "").Body.String(), `gateway_up{gateway="attic"} 1`)
		want(2, 1)
		time.Sleep(idleTime - time.Second)
		get(e, "/metrics", "")
		time.Sleep(idleTime - time.Second)
		want(2, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(2, 2)
		b.set(func() { b.absent = true })
		has(t, get(e, "/metrics", "").Body.String(), `gateway_up{gateway="attic"} 0`)
		get(e, "/metrics", "")
		b.set(func() { b.absent = false })
		get(e, "/metrics", "")
		if got := strings.Join(log, "; "); got != "attic does not answer: connection refused; attic answers again" {
			t.Errorf("log %q", got)
		}
		e.Close()
		want(5, 3)
	})
}

// One that hangs costs the time of the scrape, and not the others.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &box{}, &box{hangs: true}
		e := New([]Gateway{{"good", good.dial}, {"bad", bad.dial}}, func(string) {})
		defer e.Close()
		for _, hanging := range []string{"dial", "ask"} {
			begin := time.Now()
			has(t, get(e, "/metrics", "3").Body.String(), `gateway_up{gateway="good"} 1`, `gateway_up{gateway="bad"} 0`, `gateway_scrape_seconds{gateway="bad"} 2.5`)
			if d := time.Since(begin); d != 2500*time.Millisecond {
				t.Errorf("%s: took %v", hanging, d)
			}
			// It logs in, and then hangs.
			bad.set(func() { bad.hangs = false })
			get(e, "/metrics", "")
			bad.set(func() { bad.hangs = true })
		}
		bad.set(func() { bad.hangs = false })
		has(t, get(e, "/metrics", "").Body.String(), `gateway_up{gateway="bad"} 1`)
	})
}

// No more than atOnce are asked at a time, and those that do not get their turn
// are told as not up.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		var all []Gateway
		for i := range 10 * atOnce {
			b := &box{}
			all = append(all, Gateway{fmt.Sprintf("gw%d", i), func(ctx context.Context) (Conn, error) {
				mu.Lock()
				now++
				most = max(most, now)
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				now--
				mu.Unlock()
				return b.dial(ctx)
			}})
		}
		e := New(all, func(string) {})
		defer e.Close()
		body := get(e, "/metrics", "4").Body.String()
		has(t, body)
		up := 0
		for l := range strings.Lines(body) {
			if strings.HasPrefix(l, "gateway_up{") && strings.HasSuffix(l, " 1\n") {
				up++
			}
		}
		if most != atOnce || up < 3*atOnce || up > 5*atOnce {
			t.Errorf("%d at a time, %d were up", most, up)
		}
	})
}

func TestRequests(t *testing.T) {
	a, b := &box{}, &box{}
	e := New([]Gateway{{"a", a.dial}, {`b"\`, b.dial}}, func(string) {})
	defer e.Close()
	w := get(e, "/metrics?target=a", "")
	has(t, w.Body.String(), `gateway_up{gateway="a"} 1`)
	if b.dials != 0 || w.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d logins elsewhere, %v", b.dials, w.Header())
	}
	has(t, get(e, "/metrics", "").Body.String(), `gateway_up{gateway="b\"\\"} 1`, `gateway_build_info{gateway="b\"\\",version="",board="",hostname="x",boot_mode=""} 1`)
	// A host that it was not started with is never asked.
	if w := get(e, "/metrics?target=127.0.0.1:22", ""); w.Code != 404 || !strings.Contains(w.Body.String(), "was started with a,") {
		t.Errorf("%d, %s", w.Code, w.Body)
	}
	if w := get(e, "/", ""); w.Code != 404 {
		t.Errorf("%d", w.Code)
	}
	w = httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("%d, %v", w.Code, w.Header())
	}
	for header, want := range map[string]time.Duration{"": 9500 * time.Millisecond, "5": 4500 * time.Millisecond, "0.1": leastTime, "x": 9500 * time.Millisecond, "-1": 9500 * time.Millisecond, "NaN": 9500 * time.Millisecond, "1e9": 9500 * time.Millisecond} {
		if got := patience(header); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}
