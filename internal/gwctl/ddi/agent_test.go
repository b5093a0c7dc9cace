package ddi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/gwctl/ddi/dditest"
	"gwinit/internal/gwctl/fleet/fleettest"
)

const serverName = "https://updates.example.org"

// inProcess calls a server without a network, so that a test has the clock.
type inProcess struct{ s *dditest.Server }

func (p inProcess) RoundTrip(q *http.Request) (_ *http.Response, err error) {
	if err := q.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	ended := false
	func() {
		defer func() { ended = recover() != nil }()
		p.s.ServeHTTP(w, q)
	}()
	a := w.Result()
	if ended {
		a.Body = io.NopCloser(io.MultiReader(w.Body, broken{}))
	}
	a.Request = q
	return a, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// lab is a server, an agent and its gateways.
type lab struct {
	t       *testing.T
	s       *dditest.Server
	f       *fleettest.Fleet
	o       Options
	targets []Target
	file    dditest.File

	mu   sync.Mutex // guards text
	text string
}

func newLab(t *testing.T, gateways int) *lab {
	l := &lab{t: t, s: dditest.New(serverName)}
	u, err := url.Parse(serverName)
	if err != nil {
		t.Fatal(err)
	}
	f, all := fleettest.New(gateways)
	l.f = f
	for _, g := range all {
		l.targets = append(l.targets, Target{Gateway: g, ID: g.Name, Auth: "GatewayToken gateway-secret"})
	}
	dir := t.TempDir()
	l.o = Options{
		Server: u, Tenant: "DEFAULT", HTTP: &http.Client{Transport: inProcess{l.s}},
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache"), Cache: 1 << 20, Updates: 4,
		Log: func(gateway, text string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.text += gateway + ": " + text + "\n"
		},
	}
	body, err := os.ReadFile(fleettest.Bundle(t, "2.0", 64<<10))
	if err != nil {
		t.Fatal(err)
	}
	l.file = dditest.File{Name: "gw-2.0.update", Body: body}
	return l
}

func (l *lab) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

// forced is an action as most are.
func (l *lab) forced(files ...dditest.File) dditest.Action {
	if len(files) == 0 {
		files = []dditest.File{l.file}
	}
	return dditest.Action{Download: "forced", Update: "forced", Files: files}
}

// run runs the agent for a time.
func (l *lab) run(d time.Duration) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), d)
	defer cancel()
	if err := Run(ctx, l.o, l.targets); err != nil {
		l.t.Fatal(err)
	}
	if wrong := l.s.Wrong(); len(wrong) > 0 {
		l.t.Errorf("the API does not have: %q", wrong)
	}
}

// ends runs the agent until an action has a status, for two hours at most.
func (l *lab) ends(id string, action int, status string) dditest.Action {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Hour)
	defer cancel()
	go func() {
		for ctx.Err() == nil && l.s.Action(id, action).Status != status {
			time.Sleep(time.Second)
		}
		cancel()
	}()
	if err := Run(ctx, l.o, l.targets); err != nil {
		l.t.Fatal(err)
	}
	if wrong := l.s.Wrong(); len(wrong) > 0 {
		l.t.Errorf("the API does not have: %q", wrong)
	}
	a := l.s.Action(id, action)
	if a.Status != status {
		l.t.Errorf("action %d of %s is %s, want %s: %+v\n%s", action, id, a.Status, status, a.Told, l.said())
	}
	return a
}

// story is a feedback for each line.
func story(all []dditest.Told) (text string) {
	for _, f := range all {
		text += f.Execution + " " + f.Finished + ": " + strings.Join(f.Details, "|") + "\n"
	}
	return text
}

// An update goes to all gateways, is downloaded once, and told step by step.
func TestUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 12)
		var actions []int
		for _, target := range l.targets {
			actions = append(actions, l.s.Assign(target.ID, l.forced()))
		}
		l.run(40 * time.Minute)
		for i, target := range l.targets {
			a := l.s.Action(target.ID, actions[i])
			const want = "download none: downloading gw-2.0.update\ndownloaded none: \n" +
				"proceeding none: sending 2.0 to the gateway, which has 1.0\nproceeding none: the gateway tries 2.0\n" +
				"closed success: it runs 2.0 and keeps it\n"
			if a.Status != dditest.Finished || story(a.Told) != want {
				t.Errorf("%s: %s\n%s", target.ID, a.Status, story(a.Told))
			}
		}
		if n := len(l.s.Ranges()); n != 1 {
			t.Errorf("%d downloads", n)
		}
		if l.f.Most != 4 || l.f.Sent() != 12 {
			t.Errorf("%d at a time, %d sent", l.f.Most, l.f.Sent())
		}
		l.s.Do("gw003", func(target *dditest.Target) {
			// Asked for at first, and after an update.
			if target.Config["version"] != "2.0" || target.Config["board"] != "lidl" || target.Config["name"] != "gw003" {
				t.Errorf("%v", target.Config)
			}
			// Every 5 min, more or less.
			if target.Polls < 7 || target.Polls > 10 {
				t.Errorf("%d polls in 40 minutes", target.Polls)
			}
		})
		// The same once more is no work.
		again := l.s.Assign("gw003", l.forced())
		if a := l.ends("gw003", again, dditest.Finished); story(a.Told[2:]) != "closed success: it runs 2.0 already\n" || l.f.Sent() != 12 {
			t.Errorf("%s", story(a.Told))
		}
	})
}

// What goes wrong ends an action with a reason, once.
func TestFailures(t *testing.T) {
	other := func(change func(f *dditest.File)) func(*lab) dditest.Action {
		return func(l *lab) dditest.Action {
			f := l.file
			change(&f)
			return l.forced(f)
		}
	}
	for name, c := range map[string]struct {
		gateway func(g *fleettest.Gateway)
		action  func(l *lab) dditest.Action
		want    string // of the last feedback
		sent    int
	}{
		"rolled back": {func(g *fleettest.Gateway) { g.Bad = "ssh never answered" }, (*lab).plain, "it went back: ssh never answered", 1},
		"refused":     {func(g *fleettest.Gateway) { g.Refuses = 9 }, (*lab).plain, "it does not take it: no space", 0},
		"not sent":    {func(g *fleettest.Gateway) { g.Cuts = 99 }, (*lab).plain, "it could not be sent: connection reset by peer", 0},
		"lost":        {func(g *fleettest.Gateway) { g.Stays = true }, (*lab).plain, "nothing is known of it any more: no route to host", 1},
		"wrong hash":  {nil, other(func(f *dditest.File) { f.Lie = true }), "the download is not the file that the server announced", 0},
		"no update":   {nil, other(func(f *dditest.File) { f.Body = []byte("hello, I am something else") }), "gw-2.0.update: the update is not whole", 0},
		"damaged":     {nil, other(func(f *dditest.File) { f.Body = slices.Clone(f.Body); f.Body[60000] ^= 1 }), "the binary is not the manifest's", 0},
		"no file":     {nil, func(l *lab) dditest.Action { return dditest.Action{Download: "forced", Update: "forced"} }, "a gateway takes one file that ends with .update, and the deployment has 0", 0},
		"two":         {nil, func(l *lab) dditest.Action { return l.forced(l.file, l.file) }, "and the deployment has 2", 0},
		"one of two": {func(g *fleettest.Gateway) { g.Bad = "x" }, func(l *lab) dditest.Action {
			return l.forced(dditest.File{Name: "README", Body: []byte("read me")}, l.file)
		}, "it went back: x", 1},
		"old hash":      {func(g *fleettest.Gateway) { g.Bad = "x" }, other(func(f *dditest.File) { f.NoSHA256 = true }), "it went back: x", 1},
		"too large":     {nil, other(func(f *dditest.File) { f.Body = make([]byte, 17<<20) }), "has 17825792 bytes, and no update has", 0},
		"a long reason": {func(g *fleettest.Gateway) { g.Bad = strings.Repeat("ä", 2000) }, (*lab).plain, "it went back: ä", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, 1)
				if c.gateway != nil {
					l.f.Set("gw000", c.gateway)
				}
				id := l.s.Assign("gw000", c.action(l))
				a := l.ends("gw000", id, dditest.Error)
				last := a.Told[len(a.Told)-1]
				if last.Execution != "closed" || last.Finished != "failure" || !strings.Contains(strings.Join(last.Details, ""), c.want) {
					t.Errorf("last: %+v", last)
				}
				if len(a.Told) > 3*sendTries+1 {
					t.Errorf("%d feedbacks: %s", len(a.Told), story(a.Told))
				}
				l.run(time.Hour)
				if b := l.s.Action("gw000", id); len(b.Told) != len(a.Told) || l.f.Sent() != c.sent {
					t.Errorf("afterwards: %s; %d sent", story(b.Told[len(a.Told):]), l.f.Sent())
				}
			})
		})
	}
}

func (l *lab) plain() dditest.Action { return l.forced() }

// An agent that is ended at any moment goes on where it was: a gateway gets an
// update once, and the server hears of one end.
func TestRestart(t *testing.T) {
	for at := time.Second; at < 6*time.Minute; at += 7 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, 3)
			var ids []int
			l.f.Set("gw002", func(g *fleettest.Gateway) { g.Bad = "crashed" })
			for _, target := range l.targets {
				ids = append(ids, l.s.Assign(target.ID, l.forced()))
			}
			l.run(at)
			l.run(time.Hour)
			for i, want := range []string{"closed success: it runs 2.0 and keeps it\n", "closed success: it runs 2.0 and keeps it\n", "closed failure: it went back: crashed\n"} {
				a := l.s.Action(l.targets[i].ID, ids[i])
				if s := story(a.Told); !strings.HasSuffix(s, want) || strings.Count(s, "closed") != 1 {
					t.Errorf("after %v: %s: %s\n%s", at, l.targets[i].ID, s, l.said())
				}
			}
			if l.f.Sent() != 3 || len(l.f.Finished) != 3 {
				t.Errorf("after %v: %d updates, %d trials", at, l.f.Sent(), len(l.f.Finished))
			}
		})
	}
}

// An action is canceled as long as the gateway has nothing of it, and not later.
func TestCancel(t *testing.T) {
	cancel := func(a *dditest.Action) { a.Status = dditest.Canceling }
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.s.Sleep = "00:00:10"
		l.o.Updates = 0 // nobody's turn comes
		id := l.s.Assign("gw000", l.forced())
		time.AfterFunc(time.Minute, func() { l.s.Change("gw000", id, cancel) })
		a := l.ends("gw000", id, dditest.Canceled)
		if story(a.CancelBy) != "closed success: \n" || l.f.Sent() != 0 {
			t.Errorf("%s%s", story(a.Told), story(a.CancelBy))
		}
		// Nobody knows of it.
		id = l.s.Assign("gw000", dditest.Action{Download: "skip", Update: "forced", Files: []dditest.File{l.file}})
		l.s.Change("gw000", id, cancel)
		l.ends("gw000", id, dditest.Canceled)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.s.Sleep = "00:00:10"
		id := l.s.Assign("gw000", l.forced())
		time.AfterFunc(2*time.Minute, func() { l.s.Change("gw000", id, cancel) })
		a := l.ends("gw000", id, dditest.Finished)
		if story(a.CancelBy) != "rejected none: the gateway has got the update: it keeps it, or goes back by itself\n" {
			t.Errorf("%s", story(a.CancelBy))
		}
	})
	// Closed by force, or replaced, while it is tried: it is watched to its end, and
	// then comes the next.
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.s.Sleep = "00:00:10"
		id := l.s.Assign("gw000", l.forced())
		time.AfterFunc(2*time.Minute, func() {
			l.s.Change("gw000", id, func(a *dditest.Action) { a.Status = dditest.Canceled })
			id = l.s.Assign("gw000", l.forced())
		})
		l.run(20 * time.Minute)
		if a := l.s.Action("gw000", id); id != 2 || a.Status != dditest.Finished || l.f.Sent() != 1 || !strings.HasSuffix(story(a.Told), "it runs 2.0 already\n") {
			t.Errorf("%d: %s, %d sent: %s\n%s", id, a.Status, l.f.Sent(), story(a.Told), l.said())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		l.s.Sleep = "00:00:10"
		l.o.Updates = 0
		id := l.s.Assign("gw000", l.forced())
		time.AfterFunc(2*time.Minute, func() { l.s.Change("gw000", id, func(a *dditest.Action) { a.Status = dditest.Canceled }) })
		l.run(20 * time.Minute)
		if !strings.Contains(l.said(), "gw000: action 1 was ended by the server\n") || l.f.Sent() != 0 {
			t.Errorf("%s", l.said())
		}
	})
}

// Downloaded, and installed in its window; or never, where the server wants that.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		id := l.s.Assign("gw000", dditest.Action{Download: "forced", Update: "skip", Window: "unavailable", Files: []dditest.File{l.file}})
		l.run(time.Hour)
		if a := l.s.Action("gw000", id); story(a.Told) != "download none: downloading gw-2.0.update\ndownloaded none: \n" || l.f.Sent() != 0 {
			t.Errorf("before: %s", story(a.Told))
		}
		time.AfterFunc(time.Hour, func() {
			l.s.Change("gw000", id, func(a *dditest.Action) { a.Update, a.Window = "forced", "available" })
		})
		l.ends("gw000", id, dditest.Finished)
		id = l.s.Assign("gw000", dditest.Action{Download: "forced", Update: "skip", Files: []dditest.File{l.file}})
		l.ends("gw000", id, dditest.Downloaded)
		if n := len(l.s.Ranges()); n != 1 || l.f.Sent() != 1 {
			t.Errorf("%d downloads, %d sent", n, l.f.Sent())
		}
	})
}

// A server with trouble is left alone for as long as it says, and asked again.
func TestTrouble(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError, http.StatusUnauthorized} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, 1)
			begin := time.Now()
			var mu sync.Mutex
			var asked []time.Duration
			l.s.Trouble = func(w http.ResponseWriter, r *http.Request) bool {
				mu.Lock()
				defer mu.Unlock()
				now := time.Since(begin)
				if now > time.Hour {
					return false
				}
				asked = append(asked, now)
				if code != http.StatusUnauthorized && code != http.StatusInternalServerError {
					w.Header().Set("Retry-After", "600")
				}
				w.WriteHeader(code)
				return true
			}
			id := l.s.Assign("gw000", l.forced())
			a := l.ends("gw000", id, dditest.Finished)
			for i := 1; i < len(asked); i++ {
				if gap := asked[i] - asked[i-1]; code == 429 || code == 503 {
					if gap < 10*time.Minute {
						t.Errorf("%d: asked again after %v", code, gap)
					}
				} else if gap > 6*time.Minute || i > 5 && gap < 4*time.Minute {
					t.Errorf("%d: asked again after %v", code, gap)
				}
			}
			if len(asked) < 4 || len(asked) > 25 || len(a.Told) != 5 {
				t.Errorf("%d: asked %d times: %s", code, len(asked), story(a.Told))
			}
			if n := strings.Count(l.said(), fmt.Sprint(code)); n != 1 || strings.Count(l.said(), "answers again") != 1 {
				t.Errorf("%d: said %s", code, l.said())
			}
		})
	}
	// Trouble with each kind of request, half of the time.
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 6)
		l.s.Sleep = "00:00:30"
		chance := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		l.s.Trouble = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if chance.IntN(2) == 0 {
				return false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		var ids []int
		for _, target := range l.targets {
			ids = append(ids, l.s.Assign(target.ID, l.forced()))
		}
		l.run(4 * time.Hour)
		for i, target := range l.targets {
			if a := l.s.Action(target.ID, ids[i]); a.Status != dditest.Finished {
				t.Errorf("%s: %s: %s", target.ID, a.Status, story(a.Told))
			}
		}
		if l.f.Sent() != 6 {
			t.Errorf("%d sent", l.f.Sent())
		}
	})
	// The end is told by a later agent, if the server was away.
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1)
		id := l.s.Assign("gw000", l.forced())
		away := false
		var mu sync.Mutex
		l.s.Trouble = func(w http.ResponseWriter, r *http.Request) bool {
			mu.Lock()
			defer mu.Unlock()
			if away {
				w.WriteHeader(http.StatusBadGateway)
			}
			return away
		}
		set := func(yes bool) { mu.Lock(); away = yes; mu.Unlock() }
		time.AfterFunc(2*time.Minute, func() { set(true) })
		l.run(20 * time.Minute)
		set(false)
		if a := l.ends("gw000", id, dditest.Finished); l.f.Sent() != 1 || !strings.HasSuffix(story(a.Told), "closed success: it runs 2.0 and keeps it\n") {
			t.Errorf("%s", story(a.Told))
		}
	})
}

// A gateway that is away is waited for, and the server told of it once.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 2)
		l.f.Set("gw001", func(g *fleettest.Gateway) { g.Away = true })
		id := l.s.Assign("gw001", l.forced())
		time.AfterFunc(time.Hour, func() { l.f.Set("gw001", func(g *fleettest.Gateway) { g.Away = false }) })
		a := l.ends("gw001", id, dditest.Finished)
		if s := story(a.Told); !strings.HasPrefix(s, "proceeding none: the gateway does not answer the agent: no route to host\ndownload none: ") {
			t.Error(s)
		}
	})
}

// Hundreds of gateways do not ask all at once, and get it so many at a time.
func TestHundreds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 400)
		l.o.Updates = 50
		var mu sync.Mutex
		at := map[int64]int{} // polls in a second
		l.s.Trouble = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Count(r.URL.Path, "/") == 4 {
				mu.Lock()
				at[time.Now().Unix()]++
				mu.Unlock()
			}
			return false
		}
		for _, target := range l.targets {
			l.s.Assign(target.ID, l.forced())
		}
		l.run(time.Hour)
		most := 0
		for _, n := range at {
			most = max(most, n)
		}
		// 400 in 40 s at first.
		if most > 30 {
			t.Errorf("%d polls in a second", most)
		}
		if l.f.Sent() != 400 || l.f.Most != 50 || len(l.s.Ranges()) != 1 {
			t.Errorf("%d sent, %d at a time, %d downloads", l.f.Sent(), l.f.Most, len(l.s.Ranges()))
		}
	})
}

// By a real connection with TLS: a download that breaks off goes on where it was,
// and a token goes to the server and nowhere else.
func TestTLS(t *testing.T) {
	s := dditest.New("")
	server := httptest.NewTLSServer(s)
	defer server.Close()
	cdn := httptest.NewTLSServer(s)
	defer cdn.Close()
	s.Base, s.CDN, s.CutAfter = server.URL, cdn.URL, 20000
	body, err := os.ReadFile(fleettest.Bundle(t, "2.0", 64<<10))
	if err != nil {
		t.Fatal(err)
	}
	s.Do("gw000", func(target *dditest.Target) { target.Token = "mine" })
	s.Assign("gw000", dditest.Action{Download: "forced", Update: "forced", Files: []dditest.File{{Name: "x.update", Body: body}}})
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{http: server.Client(), server: u, root: "/DEFAULT/controller/v1/gw000", auth: "TargetToken mine"}
	b, etag, err := c.poll(t.Context(), "")
	if err != nil || b.deploymentBase == "" || b.sleep != 5*time.Minute || etag == "" {
		t.Fatalf("%v, %+v", err, b)
	}
	if same, again, err := c.poll(t.Context(), etag); same != nil || again != etag || err != nil {
		t.Errorf("the same: %v, %q, %v", same, again, err)
	}
	d, err := c.deployment(t.Context(), b.deploymentBase)
	if err != nil {
		t.Fatal(err)
	}
	k, err := openCache(t.TempDir(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	// Pauses between the pieces are real here: let it end in the middle, too.
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = k.get(ctx, d.file, func(ctx context.Context, href string, at int64) (io.ReadCloser, int64, error) {
		body, begin, err := c.fetch(ctx, href, at)
		cancel() // when the first piece is there
		return body, begin, err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("ended: %v", err)
	}
	s.CutAfter = 50000
	path, done, err := k.get(t.Context(), d.file, c.fetch)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	ranges := s.Ranges()
	if len(ranges) < 2 || ranges[0] != "" || !strings.HasPrefix(ranges[len(ranges)-1], "bytes=") {
		t.Errorf("ranges %q", ranges)
	}
	if wrong := s.Wrong(); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
	// Others are not believed.
	strange := &client{http: &http.Client{}, server: u, root: c.root, auth: c.auth}
	if _, _, err := strange.poll(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	c.auth = "TargetToken other"
	var status Status
	if _, _, err := c.poll(t.Context(), ""); !errors.As(err, &status) || status.Code != http.StatusUnauthorized || !strings.Contains(err.Error(), "is the token right") {
		t.Errorf("a wrong token: %v", err)
	}
}
