//go:build linux

package remote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
	"gwinit/internal/gwctl"
)

// box is an SSH server with a gateway behind it.
type box struct {
	t      *testing.T
	l      net.Listener
	socket string
	calls  func(api.CallArgs) (json.RawMessage, error) // what core answers
	log    *controltest.Backend
	hold   chan struct{} // if there is one, a command waits for its end

	mu     sync.Mutex // guards the rest
	host   ssh.Signer
	user   ssh.PublicKey // who is let in
	code   string        // of setup; "": none
	other  bool          // knows no control protocol
	ends   bool          // commands well, and not with 3
	ran    []string      // commands
	logins int
}

func newKey(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return s, private
}

func newBox(t *testing.T, user ssh.PublicKey) *box {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gateway := &controltest.Backend{Box: api.Status{Hostname: "attic", Board: api.Board{ID: "lidl"}, Version: "1.2"}}
	b := &box{t: t, l: l, user: user, log: gateway}
	b.host, _ = newKey(t)
	gateway.Append("bridge", "hello")
	gateway.OnCall = func(_ context.Context, a api.CallArgs) (json.RawMessage, error) { return b.calls(a) }
	b.socket = controltest.Start(t, gateway, control.Options{})
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		var all sync.WaitGroup
		defer all.Wait()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.serve(c) })
		}
	}()
	return b
}

func (b *box) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// facts are those of a box that are read while it runs.
type facts struct {
	host  ssh.Signer
	user  ssh.PublicKey
	code  string
	other bool
	ran   []string
	n     int
	ends  bool
}

func (b *box) get() facts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return facts{b.host, b.user, b.code, b.other, b.ran, b.logins, b.ends}
}

func (b *box) port() int { return b.l.Addr().(*net.TCPAddr).Port }

func (b *box) target() target {
	return target{name: "attic", user: "root", host: "127.0.0.1", port: b.port()}
}

func (b *box) serve(c net.Conn) {
	defer c.Close()
	f := b.get()
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if m.User() == setupUser && f.code != "" {
				return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
					KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
						a, err := ask("", "The console shows a code.", []string{"Code: "}, []bool{true})
						if err != nil || a[0] != f.code {
							return nil, errors.New("no")
						}
						return nil, nil
					},
				}}
			}
			if f.user != nil && equal(key, f.user) && m.User() == "root" {
				return nil, nil
			}
			return nil, errors.New("unknown key")
		},
		PasswordCallback: func(_ ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
			if string(p) == "secret" {
				return nil, nil
			}
			return nil, errors.New("wrong")
		},
	}
	config.AddHostKey(f.host)
	conn, chans, reqs, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	defer conn.Close()
	b.mu.Lock()
	b.logins++
	b.mu.Unlock()
	go ssh.DiscardRequests(reqs)
	for n := range chans {
		ch, reqs, err := n.Accept()
		if err != nil {
			return
		}
		go b.session(ch, reqs)
	}
}

func (b *box) session(ch ssh.Channel, reqs <-chan *ssh.Request) {
	defer ch.Close()
	for r := range reqs {
		var p struct{ Name string }
		_ = ssh.Unmarshal(r.Payload, &p)
		switch {
		case r.Type == "subsystem" && p.Name == controlSubsystem && !b.get().other:
			_ = r.Reply(true, nil)
			c, err := net.Dial("unix", b.socket)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(reqs)
			go func() { _, _ = io.Copy(c, ch); _ = c.(*net.UnixConn).CloseWrite() }()
			_, _ = io.Copy(ch, c)
			return
		case r.Type == "exec" && p.Name == "hang":
			_ = r.Reply(true, nil)
			b.set(func() { b.ran = append(b.ran, p.Name) })
		case r.Type == "exec":
			_ = r.Reply(true, nil)
			b.mu.Lock()
			b.ran = append(b.ran, p.Name)
			b.mu.Unlock()
			if b.hold != nil {
				<-b.hold
			}
			in, _ := io.ReadAll(ch)
			fmt.Fprintf(ch, "ran %s with %q\n", p.Name, in)
			fmt.Fprintln(ch.Stderr(), "and complained")
			status := uint32(3)
			if b.get().ends {
				status = 0
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{status}))
			return
		default:
			_ = r.Reply(false, nil)
		}
	}
}

// fakeAsker answers what is asked, in order, and keeps the questions.
type fakeAsker struct {
	mu      sync.Mutex // guards all
	answers []string
	asked   []string
}

func (f *fakeAsker) next(q string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
	if len(f.answers) == 0 {
		return "", errNobody
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	return a, nil
}

func (f *fakeAsker) there() bool                     { f.mu.Lock(); defer f.mu.Unlock(); return len(f.answers) > 0 }
func (f *fakeAsker) yes(q string) (bool, error)      { a, err := f.next(q); return a == "yes", err }
func (f *fakeAsker) line(q string) (string, error)   { return f.next(q) }
func (f *fakeAsker) secret(q string) (string, error) { return f.next(q) }
func (f *fakeAsker) say(q string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, q)
}

// workstation is a home folder with a key in it.
type workstation struct {
	r    *runner
	ask  *fakeAsker
	out  bytes.Buffer
	errs bytes.Buffer
	key  ssh.PublicKey
}

func newWorkstation(t *testing.T, answers ...string) *workstation {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("SSH_AUTH_SOCK", "")
	s, private := newKey(t)
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".ssh", "id_ed25519"), pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &workstation{ask: &fakeAsker{answers: answers}, key: s.PublicKey()}
	w.r = &runner{version: "9", ask: w.ask, known: &known{path: filepath.Join(dir, ".ssh", "known_hosts")}}
	w.r.std = applet.IO{In: strings.NewReader("input"), Out: &w.out, Err: &w.errs}
	return w
}

func (w *workstation) one(t *testing.T, b *box, args ...string) error {
	t.Helper()
	return w.r.one(t.Context(), w.r.std, b.target(), args)
}

// A change of the firewall is confirmed by a login that begins after it, and not
// at all where there is none.
func TestFirewallConfirmed(t *testing.T) {
	w := newWorkstation(t)
	b := newBox(t, w.key)
	w.r.known.accept = true
	asked := ""
	b.calls = func(a api.CallArgs) (json.RawMessage, error) {
		asked += fmt.Sprintf("%s by login %d\n", a.Method, b.get().n)
		if a.Method == "firewall-set" {
			return json.RawMessage(`{"state":"on","set":true,"confirmSeconds":60}`), nil
		}
		return json.RawMessage(`{"state":"on","set":true}`), nil
	}
	if err := w.one(t, b, "firewall", "set", "on"); err != nil {
		t.Fatal(err)
	}
	if want := "firewall-set by login 1\nfirewall-confirm by login 2\n"; asked != want {
		t.Errorf("asked\n%s, want\n%s", asked, want)
	}
	if want := "firewall on: what no rule lets in is dropped\n"; w.out.String() != want {
		t.Errorf("it says %q, want %q", w.out.String(), want)
	}

	asked = ""
	set := b.calls
	b.calls = func(a api.CallArgs) (json.RawMessage, error) {
		b.set(func() { b.user = nil }) // nobody gets in any more
		return set(a)
	}
	if err := w.one(t, b, "firewall", "set", "on"); err == nil || !strings.HasPrefix(err.Error(), "the change is not confirmed and ends within a minute: ") {
		t.Errorf("not let in again: %v", err)
	}
	if want := "firewall-set by login 3\n"; asked != want {
		t.Errorf("asked\n%s, want\n%s", asked, want)
	}
}

// A new gateway's key is shown and kept; from then on it is known, by whichever
// of its ports, and another key in its place is refused.
func TestHostKeys(t *testing.T) {
	w := newWorkstation(t, "no", "yes")
	b := newBox(t, w.key)
	err := w.one(t, b, "logs")
	if err == nil || !strings.Contains(err.Error(), "was not accepted") {
		t.Fatalf("refused by hand: %v", err)
	}
	if err := w.one(t, b, "logs"); err != nil {
		t.Fatal(err)
	}
	if want := "[       0.250] bridge: hello\n"; w.out.String() != want {
		t.Errorf("%q, want %q", w.out.String(), want)
	}
	if q := w.ask.asked[len(w.ask.asked)-1]; !strings.Contains(q, ssh.FingerprintSHA256(b.host.PublicKey())) {
		t.Errorf("asked %q", q)
	}
	file, err := os.ReadFile(w.r.known.path)
	if want := knownhosts.Line([]string{knownhosts.Normalize(b.l.Addr().String())}, b.host.PublicKey()) + "\n"; err != nil || string(file) != want {
		t.Errorf("known_hosts %q, %v; want %q", file, err, want)
	}
	w.r.known = &known{path: w.r.known.path} // as the next gwctl
	if err := w.one(t, b, "logs"); err != nil {
		t.Errorf("known by now: %v", err)
	}
	old := b.get()
	b.set(func() { b.host, _ = newKey(t) })
	err = w.one(t, b, "logs")
	if err == nil || !strings.Contains(err.Error(), "HAS CHANGED") || !strings.Contains(err.Error(), "known_hosts:1") {
		t.Errorf("another key: %v", err)
	}
	if b.get().n != old.n {
		t.Error("it logged in all the same")
	}

	// The key is listed for port 22, the gateway answers on another.
	line := knownhosts.Line([]string{"127.0.0.1"}, b.host.PublicKey())
	if err := os.WriteFile(w.r.known.path, []byte(line), 0o600); err != nil { // no line end
		t.Fatal(err)
	}
	w.r.known = &known{path: w.r.known.path}
	if err := w.one(t, b, "logs"); err != nil {
		t.Errorf("known by port 22: %v", err)
	}
	other := newBox(t, w.key)
	w.r.known.accept = true
	if err := w.r.one(t.Context(), w.r.std, target{name: "x", user: "root", host: "localhost", port: other.port()}, []string{"logs"}); err != nil {
		t.Errorf("-accept-new: %v", err)
	}
	file, _ = os.ReadFile(w.r.known.path)
	if got := strings.Count(string(file), "\n"); got != 2 {
		t.Errorf("known_hosts has %d lines: %q", got, file)
	}
}

func TestNobodyToAsk(t *testing.T) {
	w := newWorkstation(t)
	b := newBox(t, w.key)
	err := w.one(t, b, "logs")
	if err == nil || !strings.Contains(err.Error(), "-accept-new") || !strings.Contains(err.Error(), "SHA256:") {
		t.Errorf("%v", err)
	}
}

func TestLogins(t *testing.T) {
	w := newWorkstation(t, "secret")
	w.r.known.accept = true
	b := newBox(t, nil)
	if err := w.one(t, b, "logs"); err != nil {
		t.Errorf("by password: %v", err)
	}
	if want := "root@127.0.0.1's password: "; len(w.ask.asked) != 1 || w.ask.asked[0] != want {
		t.Errorf("asked %q", w.ask.asked)
	}
	err := w.one(t, b, "logs") // no answers left
	if err == nil || !strings.Contains(err.Error(), "~/.ssh/id_ed25519") || !strings.Contains(err.Error(), "authorized_keys") {
		t.Errorf("nothing to log in with: %v", err)
	}
	w.r.identity = filepath.Join(t.TempDir(), "none")
	if err := w.one(t, b, "logs"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("-i of a file that is not there: %v", err)
	}
	b.set(func() { b.other, b.user = true, w.key })
	w.r.identity = ""
	if err := w.one(t, b, "logs"); err == nil || !strings.Contains(err.Error(), "no gateway with this firmware") {
		t.Errorf("another server: %v", err)
	}
}

// What only the box has is run there, with its words, its errors and its exit
// status.
func TestExec(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	b := newBox(t, w.key)
	err := w.one(t, b, "config", "set", "hostname=it's a 'name'")
	var x applet.Exit
	if !errors.As(err, &x) || int(x) != 3 {
		t.Errorf("status %v, want 3", err)
	}
	const line = `gwctl config set 'hostname=it'\''s a '\''name'\'''`
	if want := "ran " + line + ` with "input"` + "\n"; w.out.String() != want {
		t.Errorf("%q, want %q", w.out.String(), want)
	}
	if w.errs.String() != "and complained\n" {
		t.Errorf("stderr %q", w.errs.String())
	}
}

func TestSetup(t *testing.T) {
	w := newWorkstation(t, "WRONG", "ABCD2345")
	w.r.known.accept = true
	b := newBox(t, nil)
	b.set(func() { b.code = "ABCD2345" })
	if err := w.one(t, b, "setup"); err == nil || !strings.Contains(err.Error(), "took no new key") || strings.Contains(err.Error(), "setup brings in") {
		t.Errorf("with a wrong code: %v", err)
	}
	err := w.one(t, b, "setup")
	if err == nil || !strings.Contains(err.Error(), "status 3") && !strings.Contains(err.Error(), "3") {
		t.Errorf("%v", err) // the box of this test ends every command with 3
	}
	if ran := b.get().ran; len(ran) != 1 || ran[0] != "setup" {
		t.Errorf("ran %q", ran)
	}
	if last := w.ask.asked[len(w.ask.asked)-1]; last != "Code: " {
		t.Errorf("asked %q", w.ask.asked)
	}
}

// Several gateways: each line behind its name, in their order, and who failed.
func TestMany(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	a, c := newBox(t, w.key), newBox(t, w.key)
	gone := newBox(t, nil)
	gone.l.Close()
	targets := []target{a.target(), gone.target(), c.target()}
	targets[0].name, targets[1].name, targets[2].name = "a", "middle", "c"
	err := w.r.many(t.Context(), targets, []string{"logs"})
	var x applet.Exit
	if !errors.As(err, &x) || int(x) != 1 {
		t.Errorf("%v", err)
	}
	want := "a       [       0.250] bridge: hello\nc       [       0.250] bridge: hello\n"
	if w.out.String() != want {
		t.Errorf("got\n%swant\n%s", w.out.String(), want)
	}
	if e := w.errs.String(); !strings.HasSuffix(e, "gwctl: 1 of 3 failed: middle\n") || !strings.HasPrefix(e, "middle  gwctl: 127.0.0.1:") {
		t.Errorf("stderr %q", e)
	}
	w.out.Reset()
	err = w.r.many(t.Context(), targets, []string{"-json", "logs"})
	lines := strings.Split(w.out.String(), "\n")
	if !errors.As(err, &x) || len(lines) != 4 || lines[0] != `{"host":"a","data":{"seq":1,"mono":250000000,"service":"bridge","text":"hello"}}` ||
		!strings.HasPrefix(lines[1], `{"host":"middle","data":{"error":{"code":"unreachable","message":"127.0.0.1:`) {
		t.Errorf("%v\n%s", err, w.out.String())
	}
}

// Ctrl-c ends a login that hangs.
func TestHangingServer(t *testing.T) {
	w := newWorkstation(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := &box{l: l}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = w.r.dial(ctx, b.target())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestWatchdog(t *testing.T) {
	fired := make(chan struct{})
	w := newWatchdog(time.Hour, func() { close(fired) })
	w.pause()
	w.left = 0
	w.resume()
	w.mu.Lock()
	w.t.Reset(0)
	w.mu.Unlock()
	<-fired
	if !w.fired() {
		t.Error("it fired and does not know")
	}
}

// The keys of ssh-agent come before those in files.
func TestAgent(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	signer, private := newKey(t)
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { defer c.Close(); _ = agent.ServeAgent(ring, c) })
		}
	})
	defer all.Wait()
	defer l.Close()
	t.Setenv("SSH_AUTH_SOCK", path)
	b := newBox(t, signer.PublicKey())
	if err := w.one(t, b, "logs"); err != nil {
		t.Errorf("by the agent: %v", err)
	}
	w.r.identity = filepath.Join(home(), ".ssh", "id_ed25519")
	err = w.one(t, b, "logs")
	if err == nil || strings.Contains(err.Error(), "agent") || !strings.Contains(err.Error(), "none of these in: ~/.ssh/id_ed25519.") {
		t.Errorf("-i of another key: %v", err)
	}
}

// A workstation's command may have several words, and steer a gateway or need
// none.
func TestWorkstationsCommands(t *testing.T) {
	w := newWorkstation(t)
	w.r.known.accept = true
	b := newBox(t, w.key)
	var host, name string
	w.r.local = []gwctl.Local{
		{Name: "bench ab", Workstation: true, Steer: func(ctx context.Context, _ applet.IO, args []string, _ bool, _ gwctl.Asker) error {
			g, ok := Steered(ctx)
			if !ok || !slices.Equal(args, []string{"-pairs", "4", "A", "B"}) {
				t.Errorf("steered %v, arguments %q", ok, args)
			}
			host = g.Host
			for range 2 { // by one login
				c, err := g.Dial(ctx, "")
				if err != nil {
					return err
				}
				defer c.Close()
				data, err := c.Do(ctx, api.OpStatus, nil)
				var s api.Status
				if err == nil {
					err = json.Unmarshal(data, &s)
				}
				if err != nil {
					return err
				}
				name = s.Hostname
			}
			return nil
		}},
		{Name: "bench stats", Workstation: true, Run: func(applet.IO, []string, bool, func(string, bool) (string, error)) error { return nil }},
	}
	if err := w.one(t, b, "bench", "ab", "-pairs", "4", "A", "B"); err != nil {
		t.Fatal(err)
	}
	if host != "127.0.0.1" || name != "attic" || b.get().n != 1 || len(b.get().ran) > 0 {
		t.Errorf("host %q, name %q, %d logins, ran %q", host, name, b.get().n, b.get().ran)
	}
	if err := w.one(t, b, "bench", "stats", "FILE"); err == nil || err.Error() != "bench stats needs no gateway: leave -H and -G out" {
		t.Errorf("%v", err)
	}
	if !w.r.isLocal([]string{"-json", "bench", "stats", "x"}) || w.r.isLocal([]string{"bench", "ab"}) || w.r.isLocal([]string{"bench"}) || w.r.isLocal([]string{"stats"}) {
		t.Error("which commands need no gateway")
	}
	// What neither has is the gateway's own gwctl's.
	if err := w.one(t, b, "bench", "other"); !errors.Is(err, applet.Exit(3)) || len(b.get().ran) != 1 {
		t.Errorf("%v, ran %q", err, b.get().ran)
	}
}
