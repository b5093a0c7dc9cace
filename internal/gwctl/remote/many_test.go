//go:build linux

package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/internal/metrics/metricstest"
)

// Facts stand side by side, and who failed is told.
func TestSideBySide(t *testing.T) {
	w := newWorkstation(t)
	t.Setenv("COLUMNS", "")
	w.r.known.accept = true
	a, c := newBox(t, w.key), newBox(t, w.key)
	gone := newBox(t, nil)
	gone.l.Close()
	targets := []target{a.target(), gone.target(), c.target()}
	targets[0].name, targets[1].name, targets[2].name = "a", "middle", "cellar"
	err := w.r.many(t.Context(), targets, []string{"version"})
	var x applet.Exit
	if !errors.As(err, &x) || int(x) != 1 {
		t.Errorf("%v", err)
	}
	const want = "        a     cellar\n" +
		"gwinit  1.2   1.2\n" +
		"board   lidl  lidl\n"
	if w.out.String() != want {
		t.Errorf("got\n%swant\n%s", w.out.String(), want)
	}
	if e := w.errs.String(); !strings.HasSuffix(e, "gwctl: 1 of 3 failed: middle\n") || !strings.HasPrefix(e, "middle  gwctl: 127.0.0.1:") {
		t.Errorf("stderr %q", e)
	}
}

func TestTable(t *testing.T) {
	two := []column{
		{"attic", []gwctl.Fact{{Name: "up", Value: "3d4h"}, {Name: "client", Value: "192.168.1.10:51234"}, {Name: "warnings", Value: "0"}}},
		{"cellar", []gwctl.Fact{{Name: "up", Value: "12m"}, {Name: "boot", Value: "!! safe"}, {Name: "warnings", Value: "2"}}},
	}
	const wide = "          attic               cellar\n" +
		"up        3d4h                12m\n" +
		"boot      -                   !! safe\n" +
		"client    192.168.1.10:51234  -\n" +
		"warnings  0                   2\n"
	if got := table(two, 80); got != wide {
		t.Errorf("got\n%swant\n%s", got, wide)
	}
	const narrow = "          attic         cellar\n" +
		"up        3d4h          12m\n" +
		"boot      -             !! safe\n" +
		"client    192.168.1.10  -\n" +
		"          :51234\n" +
		"warnings  0             2\n"
	if got := table(two, 31); got != narrow {
		t.Errorf("got\n%swant\n%s", got, narrow)
	}
	if got := table(two, 28); got != "" {
		t.Errorf("does not fit, and is\n%s", got)
	}
	const lines = "attic   up        3d4h\nattic   client    192.168.1.10:51234\nattic   warnings  0\n" +
		"cellar  up        12m\ncellar  boot      !! safe\ncellar  warnings  2\n"
	if got := list(two); got != lines {
		t.Errorf("got\n%swant\n%s", got, lines)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("a", "some text with words", 40)
	f.Add("", "", 0)
	f.Fuzz(func(t *testing.T, name, value string, width int) {
		c := []column{{name, []gwctl.Fact{{Name: "x", Value: value}, {Name: value, Value: name}}}, {"b", nil}}
		text := table(c, width)
		for l := range strings.Lines(text) {
			if n := len([]rune(strings.TrimSuffix(l, "\n"))); n > width && !strings.ContainsAny(name+value, "\n") {
				t.Errorf("%d characters in %d: %q", n, width, l)
			}
		}
	})
}

// Lines of several gateways come whole, each behind its name.
func TestFollow(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	a, c := newBox(t, w.key), newBox(t, w.key)
	gone := newBox(t, nil)
	gone.l.Close()
	a.log.Append("core", "bound")
	a.log.End()
	c.log.End()
	targets := []target{a.target(), c.target(), gone.target()}
	targets[0].name, targets[1].name, targets[2].name = "a", "cellar", "gone"
	err := w.r.many(t.Context(), targets, []string{"logs", "-f"})
	var x applet.Exit
	if !errors.As(err, &x) || int(x) != 1 || !strings.HasSuffix(w.errs.String(), "gwctl: 1 of 3 failed: gone\n") {
		t.Errorf("%v, %q", err, w.errs.String())
	}
	got := strings.Split(w.out.String(), "\n")
	slices.Sort(got)
	want := []string{"", "a       [       0.250] bridge: hello", "a       [       0.500] core: bound", "cellar  [       0.250] bridge: hello"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	err = w.r.many(t.Context(), make([]target, followMost+1), []string{"logs", "-f"})
	if err == nil || !strings.Contains(err.Error(), "can be followed") {
		t.Errorf("too many: %v", err)
	}
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	var mu sync.Mutex
	l := &lines{first: "a  ", to: &b, mu: &mu}
	for _, s := range []string{"one\ntw", "o\n", "", "\nthree"} {
		if n, err := io.WriteString(l, s); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	l.end()
	l.end()
	if want := "a  one\na  two\na  \na  three\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	if _, err := l.Write(bytes.Repeat([]byte("x"), 3*maxLine)); err != nil {
		t.Error(err)
	}
	if len(l.buf) >= maxLine || b.Len() == 0 {
		t.Errorf("%d bytes of a line without an end are kept", len(l.buf))
	}
}

func TestFollows(t *testing.T) {
	for line, want := range map[string]bool{
		"logs -f": true, "-json logs --f core": true, "logs": false, "status": false, "status -w": true, "bridge -w": true, "bridge tap -ash": true, "bridge": false, "config set a -f": false,
	} {
		if got := follows(strings.Fields(line)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// sshFleet is many gateways on one port: each of 127.x.y.z is one.
type sshFleet struct {
	l       net.Listener
	config  *ssh.ServerConfig
	kind    func(ip net.IP) string // "", slow, refusing, hanging, mute
	exec    func(ip net.IP, command string, in io.Reader) string
	running sync.WaitGroup

	open, most atomic.Int32 // connections
}

func newFleet(t *testing.T, user ssh.PublicKey, kind func(net.IP) string) *sshFleet {
	t.Helper()
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &sshFleet{l: l, kind: kind}
	host, _ := newKey(t)
	f.config = &ssh.ServerConfig{PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if kind(m.LocalAddr().(*net.TCPAddr).IP) == "refusing" || !equal(key, user) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	f.config.AddHostKey(host)
	var conns sync.Map
	f.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			f.running.Go(func() { f.serve(c); c.Close(); conns.Delete(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		f.running.Wait()
	})
	return f
}

func (f *sshFleet) serve(c net.Conn) {
	n := f.open.Add(1)
	defer f.open.Add(-1)
	for m := f.most.Load(); n > m && !f.most.CompareAndSwap(m, n); m = f.most.Load() {
	}
	ip := c.LocalAddr().(*net.TCPAddr).IP
	kind := f.kind(ip)
	switch kind {
	case "slow":
		time.Sleep(100 * time.Millisecond)
	case "hanging": // says nothing at all
		_, _ = io.Copy(io.Discard, c)
		return
	}
	conn, chans, reqs, err := ssh.NewServerConn(c, f.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for n := range chans {
		ch, reqs, err := n.Accept()
		if err != nil {
			return
		}
		f.running.Go(func() {
			defer ch.Close()
			for r := range reqs {
				if r.Type == "exec" && f.exec != nil {
					_ = r.Reply(true, nil)
					var p struct{ Name string }
					_ = ssh.Unmarshal(r.Payload, &p)
					_, _ = io.WriteString(ch, f.exec(ip, p.Name, ch))
					_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{0}))
					return
				}
				_ = r.Reply(r.Type == "subsystem", nil)
				if r.Type != "subsystem" || kind == "mute" { // logs in, and answers nothing
					continue
				}
				f.running.Go(func() {
					for in := bufio.NewReader(ch); ; {
						if _, err := in.ReadString('\n'); err != nil {
							return
						}
						fmt.Fprintf(ch, `{"ok":true,"data":{"version":"1.2","board":{"id":"lidl"}}}`+"\n")
					}
				})
			}
		})
	}
	conn.Close()
}

// Five hundred gateways, of which some are slow, refuse, hang or log in and then say
// nothing: memory and connections stay bounded, it ends, and those are named.
func TestFleet(t *testing.T) {
	const all = 500
	w := newWorkstation(t)
	w.r.known = &known{accept: true}
	w.r.times.handshake, w.r.each = 2*time.Second, 20*time.Second
	kind := func(ip net.IP) string {
		ip = ip.To4()
		switch n := int(ip[2])*250 + int(ip[3]); {
		case n%50 == 7:
			return "hanging"
		case n%50 == 17:
			return "refusing"
		case n%50 == 27:
			return "slow"
		case n == 333:
			return "mute"
		}
		return ""
	}
	f := newFleet(t, w.key, kind)
	var targets []target
	var bad []string
	for n := range all {
		host := fmt.Sprintf("127.0.%d.%d", n/250, n%250+1)
		targets = append(targets, target{name: fmt.Sprintf("gw%03d", n), user: "root", host: host, port: f.l.Addr().(*net.TCPAddr).Port})
		if k := kind(net.ParseIP(host)); k != "" && k != "slow" {
			bad = append(bad, targets[n].name)
		}
	}
	ended := make(chan struct{})
	goroutines := make(chan int)
	go func() {
		most := 0
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-ended:
				tick.Stop()
				goroutines <- most
				return
			case <-tick.C:
				most = max(most, runtime.NumGoroutine())
			}
		}
	}()
	begin := time.Now()
	err := w.r.many(t.Context(), targets, []string{"version"})
	close(ended)
	most := <-goroutines
	t.Logf("%d gateways in %v, %d connections and %d goroutines of both sides at most", all, time.Since(begin), f.most.Load(), most)
	var x applet.Exit
	if !errors.As(err, &x) || int(x) != 1 {
		t.Errorf("%v", err)
	}
	if want := fmt.Sprintf("gwctl: %d of %d failed: %s\n", len(bad), all, strings.Join(bad, ", ")); !strings.HasSuffix(w.errs.String(), want) {
		t.Errorf("stderr %s\nwant at its end\n%s", w.errs.String(), want)
	}
	for _, name := range bad {
		if n := strings.Count(w.errs.String(), name+"  gwctl: "); n != 1 {
			t.Errorf("%s has %d reasons", name, n)
		}
	}
	if n := strings.Count(w.out.String(), "  gwinit  1.2\n"); n != all-len(bad) {
		t.Errorf("%d answers, want %d", n, all-len(bad))
	}
	// The server sees an end a moment after the next begins.
	if m := f.most.Load(); m > 2*atOnce {
		t.Errorf("%d connections at a time", m)
	}
	if most > 30*atOnce {
		t.Errorf("%d goroutines", most)
	}
}

// pipe has what is written read line by line.
func pipe(t *testing.T) (io.Writer, *bufio.Reader) {
	r, w := io.Pipe()
	t.Cleanup(func() { r.Close() })
	return w, bufio.NewReader(r)
}

// The exporter serves what gateways say, by SSH, and one that is away is told so.
func TestExport(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	a := newBox(t, w.key)
	gone := newBox(t, nil)
	gone.l.Close()
	targets := []target{a.target(), gone.target()}
	targets[0].name, targets[1].name = "attic", "gone"
	errs, said := pipe(t)
	w.r.std.Err = errs
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.r.export(ctx, targets, []string{"exporter", "-listen", "127.0.0.1:0"}) }()
	line, err := said.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	_, url, ok := strings.Cut(strings.TrimSpace(line), " at ")
	if !ok {
		t.Fatalf("said %q", line)
	}
	for range 2 { // the second time by the same login
		r, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := metricstest.Parse(string(body)); err != nil {
			t.Errorf("%v in\n%s", err, body)
		}
		for _, want := range []string{
			`gateway_up{gateway="attic"} 1`, `gateway_up{gateway="gone"} 0`, `gateway_build_info{gateway="attic",version="1.2",board="lidl",hostname="attic",boot_mode=""} 1`,
		} {
			if !strings.Contains(string(body), want+"\n") {
				t.Errorf("no %s in\n%s", want, body)
			}
		}
	}
	if n := a.get().n; n != 1 {
		t.Errorf("%d logins", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := w.r.export(t.Context(), targets, []string{"exporter", "x"}); err == nil {
		t.Error("takes an argument")
	}
}
