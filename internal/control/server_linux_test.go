package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/control"
	"gwinit/internal/control/client"
	"gwinit/internal/control/controltest"
)

func box() *controltest.Backend {
	return &controltest.Backend{Box: api.Status{
		Version:  "1.2.3",
		Services: []api.Service{{Name: "core", State: "running", PID: 71}, {Name: "bridge", State: "running", PID: 72}},
	}}
}

// peer is a client that may break every rule.
type peer struct {
	*net.UnixConn
	r *bufio.Reader
}

func connect(t testing.TB, path string) *peer {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
	for errors.Is(err, unix.EAGAIN) { // the backlog is full, and net does not wait
		runtime.Gosched()
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	// Far more than any test needs; it only ends a test that would hang.
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &peer{c, bufio.NewReader(c)}
}

func (p *peer) send(t testing.TB, s string) {
	t.Helper()
	if _, err := io.WriteString(p, s); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) reply(t testing.TB) api.Reply {
	t.Helper()
	line, err := p.r.ReadBytes('\n')
	if err != nil {
		t.Fatalf("read a reply: %v (got %q)", err, line)
	}
	if len(line) > api.MaxLine {
		t.Fatalf("a reply of %d bytes", len(line))
	}
	var r api.Reply
	if err := json.Unmarshal(line, &r); err != nil {
		t.Fatalf("%v in %q", err, line)
	}
	return r
}

// closed checks that the server ends the connection without another reply.
func (p *peer) closed(t testing.TB) {
	t.Helper()
	rest, err := io.ReadAll(p.r)
	if len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection goes on: %q, %v", rest, err)
	}
}

func TestOperations(t *testing.T) {
	b := box()
	b.Append("core", "<ready> & willing")
	b.Append("bridge", "listening")
	p := connect(t, controltest.Start(t, b, control.Options{}))
	tests := []struct{ name, request, want string }{
		{"service", `{"v":1,"op":"service","args":{"name":"core","action":"restart"}}`, `{"ok":true,"data":{"name":"core","state":"running","pid":71,"sinceSeconds":0,"restarts":0,"essential":false,"cpuSeconds":0,"rssKiB":0,"anonKiB":0}}`},
		{"unknown service", `{"v":1,"op":"service","args":{"name":"x","action":"stop"}}`, `{"ok":false,"error":{"code":"not-found","message":"no service x; gwctl status lists them"}}`},
		{"logs", `{"v":1,"op":"logs"}`, `{"ok":true,"data":[{"seq":1,"mono":250000000,"service":"core","text":"<ready> & willing"},{"seq":2,"mono":500000000,"service":"bridge","text":"listening"}]}`},
		{"logs of one", `{"v":1,"op":"logs","args":{"service":"bridge","lines":1}}`, `{"ok":true,"data":[{"seq":2,"mono":500000000,"service":"bridge","text":"listening"}]}`},
		{"no logs", `{"v":1,"op":"logs","args":{"service":"core","lines":1}}`, `{"ok":true,"data":[{"seq":1,"mono":250000000,"service":"core","text":"<ready> & willing"}]}`},
		{"logs of nobody", `{"v":1,"op":"logs","args":{"service":"x"}}`, `{"ok":false,"error":{"code":"not-found","message":"no service x; gwctl status lists them"}}`},
		{"shutdown", `{"v":1,"op":"shutdown","args":{"action":"reboot","mode":"safe"}}`, `{"ok":true,"data":{"action":"reboot","mode":"safe"}}`},
		{"call", `{"v":1,"op":"call","args":{"service":"core","method":"m","params":[1]}}`, `{"ok":true,"data":{"service":"core","method":"m","params":[1]}}`},
		{"garbage", `}{`, ""},
		{"after garbage", `{"v":1,"op":"shutdown","args":{"action":"halt"}}`, `{"ok":true,"data":{"action":"halt"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.send(t, tt.request+"\n")
			got, err := p.r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if !strings.Contains(got, `"code":"bad-request"`) {
					t.Errorf("reply %s", got)
				}
			} else if got != tt.want+"\n" {
				t.Errorf("reply\n%swant\n%s", got, tt.want)
			}
		})
	}
	if got := fmt.Sprint(b.Shutdowns()); got != "[{reboot safe} {halt }]" {
		t.Errorf("the backend was told %s", got)
	}
	p.send(t, `{"v":1,"op":"status"}`+"\n")
	var st api.Status
	if r := p.reply(t); json.Unmarshal(r.Data, &st) != nil || st.Version != "1.2.3" || len(st.Services) != 2 {
		t.Errorf("status %s", r.Data)
	}
}

func TestBackendErrors(t *testing.T) {
	b := box()
	b.OnShutdown = func(api.ShutdownArgs) error { return errors.New("no boothold page on this board") }
	b.OnService = func(ctx context.Context, _ api.ServiceArgs) (api.Service, error) {
		<-ctx.Done()
		return api.Service{}, ctx.Err()
	}
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		switch a.Method {
		case "torn":
			return json.RawMessage(`{"a":`), nil
		case "long":
			return json.Marshal(strings.Repeat("x", api.MaxLine))
		case "spread":
			return json.RawMessage("{\n \"a\": 1\n}"), nil
		case "wordy":
			return nil, errors.New(strings.Repeat("\x01", api.MaxLine))
		}
		return nil, nil
	}
	p := connect(t, controltest.Start(t, b, control.Options{RequestTimeout: 20 * time.Millisecond}))
	tests := []struct{ name, request, code, says string }{
		{"plain error", `{"v":1,"op":"shutdown","args":{"action":"reboot"}}`, "failed", "no boothold page"},
		{"too slow", `{"v":1,"op":"service","args":{"name":"core","action":"stop"}}`, "failed", "within 20ms"},
		{"not JSON", `{"v":1,"op":"call","args":{"service":"core","method":"torn"}}`, "failed", "not JSON"},
		{"too long", `{"v":1,"op":"call","args":{"service":"core","method":"long"}}`, "failed", "longer than"},
		{"long words", `{"v":1,"op":"call","args":{"service":"core","method":"wordy"}}`, "failed", "(cut)"},
		{"newlines within", `{"v":1,"op":"call","args":{"service":"core","method":"spread"}}`, "", `{"a":1}`},
		{"no data", `{"v":1,"op":"call","args":{"service":"core","method":"none"}}`, "", `null`},
		{"long argument", `{"v":1,"op":"status","args":{"` + strings.Repeat(`\u0001`, 9000) + `":1}}`, "bad-request", "(cut)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p.send(t, tt.request+"\n")
			r := p.reply(t)
			switch {
			case tt.code == "":
				if !r.OK || string(r.Data) != tt.says {
					t.Errorf("reply %+v %s, want %s", r, r.Data, tt.says)
				}
			case r.OK || r.Error == nil || r.Error.Code != tt.code || !strings.Contains(r.Error.Message, tt.says):
				t.Errorf("reply %+v, error %+v; want %s with %q", r, r.Error, tt.code, tt.says)
			}
		})
	}
}

func TestLogsInSeveralReplies(t *testing.T) {
	b := box()
	for i := range 200 {
		b.Append("core", fmt.Sprint(i, strings.Repeat("\x01", 1000))) // 6 bytes each in JSON
	}
	b.Append("core", strings.Repeat("\x01", 60<<10)) // does not fit a line
	p := connect(t, controltest.Start(t, b, control.Options{}))
	p.send(t, `{"v":1,"op":"logs"}`+"\n")
	var seq, replies uint64
	var last api.LogLine
	for more := true; more; replies++ {
		r := p.reply(t)
		var lines []api.LogLine
		if err := json.Unmarshal(r.Data, &lines); err != nil || len(lines) == 0 {
			t.Fatalf("%v, %d lines", err, len(lines))
		}
		for _, l := range lines {
			if seq++; l.Seq != seq {
				t.Fatalf("line %d came where %d belongs", l.Seq, seq)
			}
			last = l
		}
		more = r.More
	}
	if seq != 201 || replies < 10 {
		t.Errorf("%d lines in %d replies", seq, replies)
	}
	if !strings.HasSuffix(last.Text, "(cut)") {
		t.Error("the endless line is not marked as cut")
	}
}

func TestFollow(t *testing.T) {
	b := box()
	b.Append("core", "old")
	b.Append("core", "one")
	p := connect(t, controltest.Start(t, b, control.Options{}))
	p.send(t, `{"v":1,"op":"logs","args":{"service":"core","lines":1,"follow":true}}`+"\n")
	next := func() (texts []string, r api.Reply) {
		r = p.reply(t)
		var lines []api.LogLine
		if r.Data != nil {
			if err := json.Unmarshal(r.Data, &lines); err != nil {
				t.Fatal(err)
			}
		}
		for _, l := range lines {
			texts = append(texts, l.Text)
		}
		return texts, r
	}
	if got, r := next(); fmt.Sprint(got) != "[one]" || !r.More {
		t.Fatalf("first %v, %+v", got, r)
	}
	// What is sent meanwhile is the next request, and shutting the sending
	// side down is not leaving.
	p.send(t, `{"v":1,"op":"nonsense"}`+"\n")
	if err := p.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	b.Append("bridge", "not asked for")
	b.Append("core", "two")
	if got, r := next(); fmt.Sprint(got) != "[two]" || !r.More || r.Missed != 0 {
		t.Fatalf("then %v, %+v", got, r)
	}
	b.End()
	if got, r := next(); len(got) != 0 || r.More || !r.OK {
		t.Fatalf("last %v, %+v", got, r)
	}
	if r := p.reply(t); r.Error == nil || r.Error.Code != api.CodeUnknownOp {
		t.Errorf("the request that waited: %+v", r)
	}
	p.closed(t)
	if n := b.Followers(); n != 0 {
		t.Errorf("%d followers are left open", n)
	}
}

// A reader that does not keep up is told how much it missed.
func TestFollowMissed(t *testing.T) {
	b := box()
	b.Keep = 10
	f, err := b.Follow(api.LogsArgs{})
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	path := controltest.Start(t, &lagging{Backend: b}, control.Options{})
	p := connect(t, path)
	p.send(t, `{"v":1,"op":"logs","args":{"follow":true}}`+"\n")
	r := p.reply(t)
	var lines []api.LogLine
	if err := json.Unmarshal(r.Data, &lines); err != nil {
		t.Fatal(err)
	}
	if r.Missed != 15 || len(lines) != 10 || lines[0].Seq != 16 {
		t.Errorf("missed %d, %d lines: %v", r.Missed, len(lines), lines)
	}
	p.Close()
}

// lagging writes 25 lines between the moment a follower takes its place and
// its first look.
type lagging struct{ *controltest.Backend }

func (l *lagging) Follow(a api.LogsArgs) (control.Follower, error) {
	f, err := l.Backend.Follow(a)
	for i := range 25 {
		l.Append("core", fmt.Sprint(i))
	}
	return f, err
}

// A follower that leaves while nothing is logged gives its place back.
func TestFollowerLeaves(t *testing.T) {
	b := box()
	o := control.Options{MaxClients: 100, MaxFollowers: 1} // those that left may still have their places
	path := controltest.Start(t, b, o)
	const follow = `{"v":1,"op":"logs","args":{"follow":true}}` + "\n"
	for range 20 {
		p := connect(t, path)
		for {
			b.Append("core", "hello")
			p.send(t, follow)
			r := p.reply(t)
			if r.OK {
				break
			}
			// The one before is on its way out.
			if r.Error.Code != api.CodeBusy || !strings.Contains(r.Error.Message, "follow already") {
				t.Fatalf("refused: %+v", r.Error)
			}
			runtime.Gosched()
		}
		other := connect(t, path)
		other.send(t, follow)
		if r := other.reply(t); r.OK || r.Error.Code != api.CodeBusy {
			t.Fatalf("a second follower: %+v", r)
		}
		other.send(t, `{"v":1,"op":"status"}`+"\n")
		if r := other.reply(t); !r.OK {
			t.Fatalf("a status beside a follower: %+v", r.Error)
		}
		other.Close()
		p.Close()
	}
}

// A call that is followed goes on with what each answer says, and sends what
// has data.
func TestFollowCall(t *testing.T) {
	b := box()
	asked := make(chan string, 10)
	b.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) {
		asked <- string(a.Params)
		switch string(a.Params) {
		case "":
			return json.RawMessage(`{"data":{"n":1},"next":{"after":1}}`), nil
		case `{"after":1}`:
			return json.RawMessage(`{"next":{"after":2},"pauseMs":1}`), nil // nothing new
		case `{"after":2}`:
			return json.RawMessage(`{"data":{"n":3},"next":{"after":3}}`), nil
		}
		return json.RawMessage(`{"data":{"n":4}}`), nil
	}
	p := connect(t, controltest.Start(t, b, control.Options{}))
	p.send(t, `{"v":1,"op":"call","args":{"service":"bridge","method":"tap","follow":true}}`+"\n")
	for i, want := range []string{`{"n":1}`, `{"n":3}`, `{"n":4}`} {
		if r := p.reply(t); !r.OK || string(r.Data) != want || r.More != (i < 2) {
			t.Errorf("reply %d: %+v, want %s", i, r, want)
		}
	}
	for _, want := range []string{``, `{"after":1}`, `{"after":2}`, `{"after":3}`} {
		if got := <-asked; got != want {
			t.Errorf("called with %s, want %s", got, want)
		}
	}
	// The connection is as good as before.
	p.send(t, `{"v":1,"op":"status"}`+"\n")
	if r := p.reply(t); !r.OK {
		t.Errorf("status afterwards: %+v", r)
	}
}

func TestFollowCallRefused(t *testing.T) {
	tests := []struct {
		name, answer string
		fail         error
		code, says   string
	}{
		{name: "a plain answer", answer: `{"listen":"[::]:8888"}`, code: "bad-request", says: "cannot be followed"},
		{name: "no object", answer: `[1]`, code: "bad-request", says: "cannot be followed"},
		{name: "an error", fail: errors.New("the bridge is not running"), code: "failed", says: "not running"},
		{name: "a later error", answer: `{"data":1,"next":{}}`, fail: errors.New("it ended"), code: "failed", says: "it ended"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := box()
			first := true
			b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) {
				if tt.answer != "" && first {
					first = false
					return json.RawMessage(tt.answer), nil
				}
				return nil, tt.fail
			}
			p := connect(t, controltest.Start(t, b, control.Options{}))
			p.send(t, `{"v":1,"op":"call","args":{"service":"bridge","method":"m","follow":true}}`+"\n")
			r := p.reply(t)
			if r.More {
				r = p.reply(t)
			}
			if r.OK || r.Error.Code != tt.code || !strings.Contains(r.Error.Message, tt.says) {
				t.Errorf("%+v %+v", r, r.Error)
			}
		})
	}
}

// A client that leaves ends the calls, and a server that ends says so.
func TestFollowCallEnds(t *testing.T) {
	b := box()
	b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) {
		return json.RawMessage(`{"data":0,"next":{},"pauseMs":3600000}`), nil
	}
	path, stop := controltest.StartStop(t, b, control.Options{MaxFollowers: 1})
	defer stop()
	const follow = `{"v":1,"op":"call","args":{"service":"bridge","method":"m","follow":true}}` + "\n"
	first := connect(t, path)
	first.send(t, follow)
	if r := first.reply(t); !r.OK || !r.More {
		t.Fatalf("%+v", r)
	}
	// It holds the one place until it leaves.
	second := connect(t, path)
	second.send(t, follow)
	if r := second.reply(t); r.OK || r.Error.Code != api.CodeBusy {
		t.Fatalf("%+v", r)
	}
	first.Close()
	for {
		second.send(t, follow)
		r := second.reply(t)
		if r.OK {
			break
		}
		if r.Error.Code != api.CodeBusy {
			t.Fatalf("%+v", r.Error)
		}
		runtime.Gosched()
	}
	go stop()
	if r := second.reply(t); r.OK || r.Error.Code != api.CodeBusy || !strings.Contains(r.Error.Message, "shutting down") {
		t.Errorf("%+v", r)
	}
}

func TestRootOnly(t *testing.T) {
	logged := make(chan string, 1)
	path := controltest.Start(t, box(), control.Options{Logf: func(f string, a ...any) { logged <- fmt.Sprintf(f, a...) }})
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("the socket's mode is %v", fi.Mode())
	}
	// Open every door but the check of the peer.
	for _, p := range []string{path, filepath.Dir(path)} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends with its uid
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); e != 0 {
			got <- fmt.Errorf("setresuid: %w (the tests run as root)", e)
			return
		}
		c, err := client.Dial(t.Context(), path)
		if err != nil {
			got <- err
			return
		}
		defer c.Close()
		_, err = c.Do(t.Context(), api.OpStatus, nil)
		got <- err
	}()
	var refused *api.Error
	if err := <-got; !errors.As(err, &refused) || refused.Code != api.CodeDenied || !strings.Contains(refused.Message, "uid 65534") {
		t.Errorf("uid 65534 got %v", err)
	}
	if line := <-logged; !strings.Contains(line, "uid is 65534") {
		t.Errorf("log: %s", line)
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	for range 2 { // the second finds the first one's socket
		if _, err := control.Listen(box(), control.Options{Path: path}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"a file": file, "no folder": filepath.Join(dir, "no", "s"), "too long": filepath.Join(dir, strings.Repeat("x", 200))} {
		if _, err := control.Listen(box(), control.Options{Path: path}); err == nil {
			t.Errorf("%s: Listen did not fail", name)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

func TestPanicCostsOneClient(t *testing.T) {
	b := box()
	b.OnCall = func(context.Context, api.CallArgs) (json.RawMessage, error) {
		var none *api.Status
		return nil, errors.New(none.Version)
	}
	logged := make(chan string, 1)
	path := controltest.Start(t, b, control.Options{Logf: func(f string, a ...any) { logged <- fmt.Sprintf(f, a...) }})
	p, other := connect(t, path), connect(t, path)
	p.send(t, `{"v":1,"op":"call","args":{"service":"core","method":"m"}}`+"\n")
	if r := p.reply(t); r.OK || r.Error.Code != api.CodeFailed {
		t.Errorf("reply %+v", r)
	}
	p.closed(t)
	if line := <-logged; !strings.Contains(line, "nil pointer") || !strings.Contains(line, "TestPanicCostsOneClient") || strings.Contains(line, "\n") {
		t.Errorf("log: %s", line)
	}
	other.send(t, `{"v":1,"op":"status"}`+"\n")
	if r := other.reply(t); !r.OK {
		t.Errorf("the other client: %+v", r)
	}
}

func TestAttacks(t *testing.T) {
	const status = `{"v":1,"op":"status"}` + "\n"
	tests := []struct {
		name   string
		attack func(t *testing.T, b *controltest.Backend, path string)
	}{
		{"silence", func(t *testing.T, _ *controltest.Backend, path string) {
			connect(t, path).closed(t)
		}},
		{"half a line, then silence", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			p.send(t, `{"v":1,"op":"shut`)
			p.closed(t)
		}},
		{"half a line, then gone", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			p.send(t, `{"v":1,"op":"shutdown","args":{"action":"halt"}}`)
			if err := p.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			p.closed(t)
		}},
		{"a byte now and then", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for range tick.C { // every byte in time, the line not
				if _, err := p.Write([]byte(" ")); err != nil {
					return
				}
			}
		}},
		{"1 MiB without a newline", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			if _, err := p.Write(bytes.Repeat([]byte("["), 1<<20)); err == nil {
				t.Error("the server took 1 MiB")
			}
			if r := p.reply(t); r.OK || r.Error.Code != api.CodeBadRequest {
				t.Errorf("reply %+v", r)
			}
			p.closed(t)
		}},
		{"the longest line", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			p.send(t, strings.Repeat("[", api.MaxLine-1)+"\n"+status)
			if r := p.reply(t); r.OK || r.Error.Code != api.CodeBadRequest {
				t.Errorf("reply %+v", r)
			}
			if r := p.reply(t); !r.OK {
				t.Errorf("the next request: %+v", r.Error)
			}
		}},
		{"does not read", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			for { // until the server has closed
				if _, err := io.WriteString(p, strings.Repeat(status, 100)); err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("the server waits for a reader that does not read")
					}
					return
				}
			}
		}},
		{"follows and does not read", func(t *testing.T, b *controltest.Backend, path string) {
			p := connect(t, path)
			p.send(t, `{"v":1,"op":"logs","args":{"follow":true}}`+"\n")
			p.reply(t)
			for b.Followers() > 0 { // go test's own deadline ends a server that never gives up
				b.Append("core", strings.Repeat("y", 1000))
				runtime.Gosched()
			}
		}},
		{"binary", func(t *testing.T, _ *controltest.Backend, path string) {
			p := connect(t, path)
			p.send(t, "SSH-2.0-x\r\n\x00\xff\xfe\n\x1a\xc0\x38\xbc\x7e\n")
			for range 3 {
				if r := p.reply(t); r.OK || r.Error.Code != api.CodeBadRequest {
					t.Errorf("reply %+v", r)
				}
			}
		}},
		{"200 connects", func(t *testing.T, _ *controltest.Backend, path string) {
			var wg sync.WaitGroup
			for range 200 {
				p := connect(t, path)
				wg.Go(func() {
					defer p.Close()
					_, _ = io.WriteString(p, status) // fails if refused already
					line, err := p.r.ReadBytes('\n')
					if err != nil || !bytes.Contains(line, []byte(`"ok":true`)) && !bytes.Contains(line, []byte(`"busy"`)) {
						t.Errorf("got %q, %v", line, err)
					}
				})
			}
			wg.Wait()
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := box()
			for range 100 {
				b.Append("core", strings.Repeat("x", 1000))
			}
			path := controltest.Start(t, b, control.Options{IdleTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond})
			// The other clients notice nothing.
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
					}
					c, err := client.Dial(t.Context(), path)
					if err != nil {
						t.Error(err)
						return
					}
					_, err = c.Do(t.Context(), api.OpStatus, nil)
					var e *api.Error
					if err != nil && (!errors.As(err, &e) || e.Code != api.CodeBusy) {
						t.Errorf("meanwhile: %v", err)
					}
					c.Close()
				}
			})
			func() {
				defer wg.Wait() // also when the attack ends the test
				defer close(stop)
				tt.attack(t, b, path)
			}()
			if n := len(b.Shutdowns()); n != 0 {
				t.Errorf("%d shutdowns", n)
			}
			waitStatus(t, path)
		})
	}
}

// waitStatus checks that the server answers again: places are free at once or
// after a deadline of its own.
func waitStatus(t testing.TB, path string) {
	t.Helper()
	for range 1000 {
		c, err := client.Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(t.Context(), api.OpStatus, nil)
		c.Close()
		var e *api.Error
		if err == nil {
			return
		} else if !errors.As(err, &e) || e.Code != api.CodeBusy {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	t.Fatal("no place becomes free")
}

func TestTooManyClients(t *testing.T) {
	path := controltest.Start(t, box(), control.Options{})
	var in []*peer
	for range 8 {
		p := connect(t, path)
		p.send(t, `{"v":1,"op":"status"}`+"\n")
		if r := p.reply(t); !r.OK {
			t.Fatalf("one of eight: %+v", r.Error)
		}
		in = append(in, p)
	}
	p := connect(t, path)
	if r := p.reply(t); r.OK || r.Error.Code != api.CodeBusy || !strings.Contains(r.Error.Message, "8 clients") {
		t.Errorf("the ninth: %+v", r)
	}
	p.closed(t)
	in[3].Close()
	waitStatus(t, path)
}

// The end of the server is prompt, and tells those who wait.
func TestServeEnds(t *testing.T) {
	b := box()
	asked := make(chan struct{})
	b.OnService = func(ctx context.Context, _ api.ServiceArgs) (api.Service, error) {
		close(asked)
		<-ctx.Done()
		return api.Service{}, ctx.Err()
	}
	path, stop := controltest.StartStop(t, b, control.Options{})
	defer stop()
	before := runtime.NumGoroutine()
	idle, half, following, waiting := connect(t, path), connect(t, path), connect(t, path), connect(t, path)
	half.send(t, `{"v":1,`)
	b.Append("core", "hello")
	following.send(t, `{"v":1,"op":"logs","args":{"follow":true}}`+"\n")
	if r := following.reply(t); !r.OK {
		t.Fatal(r.Error)
	}
	waiting.send(t, `{"v":1,"op":"service","args":{"name":"core","action":"stop"}}`+"\n")
	<-asked
	stop()
	for _, p := range []*peer{following, waiting} {
		if r := p.reply(t); r.OK || r.Error.Code != api.CodeBusy || !strings.Contains(r.Error.Message, "shutting down") {
			t.Errorf("told at the end: %+v", r)
		}
	}
	for _, p := range []*peer{idle, half, following, waiting} {
		p.closed(t)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := client.Dial(t.Context(), path); err == nil {
		t.Error("somebody still listens")
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before the clients came", after, before)
	}
}

// No descriptor outlives its client.
func TestDescriptors(t *testing.T) {
	count := func() int {
		e, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(e)
	}
	path, stop := controltest.StartStop(t, box(), control.Options{})
	waitStatus(t, path)
	before := count()
	for range 50 {
		waitStatus(t, path)
	}
	stop()
	if after := count(); after >= before {
		t.Errorf("%d descriptors after the server's end, %d while it ran", after, before)
	}
}

func FuzzConnection(f *testing.F) {
	for _, s := range []string{
		"", "\n", "{}\n", `{"v":1,"op":"status"}` + "\n", `{"v":1,"op":"logs","args":{"follow":true}}` + "\n" + `{"v":1,"op":"status"}` + "\n",
		`{"v":1,"op":"call","args":{"service":"core","method":"x","params":{"<":"\u2028"}}}` + "\n", "\x00\n\xff\n", `{"v":1,"op":"shutdown","args":{"action":"halt"}}`,
		strings.Repeat("x", api.MaxLine+1),
	} {
		f.Add([]byte(s))
	}
	b := box()
	b.Append("core", "hello")
	b.End()
	path := controltest.Start(f, b, control.Options{})
	f.Fuzz(func(t *testing.T, in []byte) {
		p := connect(t, path)
		defer p.Close()
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = p.Write(in) // fails when a line is too long
			_ = p.CloseWrite()
		})
		defer wg.Wait()
		requests, whole := 0, true
		for l := range bytes.Lines(in) {
			if len(l) > api.MaxLine || len(l) == api.MaxLine && l[len(l)-1] != '\n' {
				whole = false
				requests++ // refused, and the last
				break
			}
			if l[len(l)-1] == '\n' {
				requests++
			}
		}
		finals := 0
		for {
			line, err := p.r.ReadBytes('\n')
			if err != nil {
				if len(line) > 0 || whole && !errors.Is(err, io.EOF) {
					t.Fatalf("%q, %v", line, err)
				}
				break
			}
			var r api.Reply
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			if r.OK == (r.Error != nil) {
				t.Fatalf("neither yes nor no: %q", line)
			}
			if !r.More {
				finals++
			}
		}
		if finals != requests {
			t.Fatalf("%d requests, %d answers", requests, finals)
		}
	})
}
