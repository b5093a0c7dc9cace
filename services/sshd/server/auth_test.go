//go:build linux

package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/enrol"
)

func TestUserKeys(t *testing.T) {
	b := newBox(t)
	var keys []ssh.Signer
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys = append(keys, signer(t, ec))
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey := signer(t, r)
	keys = append(keys, rsaKey, user(t))
	file := ""
	for _, k := range keys {
		file += line(k)
	}
	b.put("userdata/ssh/authorized_keys", file)
	for _, k := range keys {
		c, _, err := b.dial("root", ssh.PublicKeys(k))
		if err != nil {
			t.Errorf("%s: %v", k.PublicKey().Type(), err)
			continue
		}
		c.Close()
		// A place must be free for the next one.
		b.awaitLog("connection from " + c.LocalAddr().String() + " ended")
	}
	sha1, err := ssh.NewSignerWithAlgorithms(rsaKey.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.dial("root", ssh.PublicKeys(sha1)); err == nil {
		t.Error("a signature with SHA-1")
	}
	if _, _, err := b.dial("root", ssh.PublicKeys(user(t))); err == nil {
		t.Error("a key that nobody has authorised")
	}
	if _, banner, err := b.dial("admin", ssh.PublicKeys(keys[0])); err == nil || !strings.Contains(banner, "the user here is root") {
		t.Errorf("another user: %v, %q", err, banner)
	}
}

func TestOptions(t *testing.T) {
	u := user(t)
	tests := []struct {
		options string
		refused string // part of the log, if the key is
		command string // what `echo x` gives; empty: as it is
		noPTY   bool
	}{
		{options: ""},
		{options: "restrict", noPTY: true},
		{options: "restrict,pty"},
		{options: "no-pty,no-port-forwarding,no-agent-forwarding,no-X11-forwarding,no-user-rc", noPTY: true},
		{options: `command="env SSH_ORIGINAL_COMMAND"`, command: "echo x\n"},
		{options: `command="echo \"a, b\""`, command: "\"a, b\"\n"},
		{options: `from="127.0.0.0/8,10.0.0.1"`},
		{options: `from="127.0.0.?"`},
		{options: `from="*,!127.0.0.1"`, refused: "may not be used from 127.0.0.1"},
		{options: `from="192.168.*"`, refused: "may not be used from 127.0.0.1"},
		{options: `from="example.org"`, refused: "may not be used from 127.0.0.1"},
		{options: `permitopen="127.0.0.1:80",permitopen="[::1]:*"`},
		{options: `permitopen="127.0.0.1"`, refused: "line 2 is not used: permitopen"},
		{options: `environment="A=b"`, refused: `line 2 is not used: the option "environment" is not known`},
		{options: `expiry-time="20300101"`, refused: `the option "expiry-time" is not known`},
		{options: "cert-authority", refused: `the option "cert-authority" is not known`},
		{options: `command=x`, refused: "is not in quotes"},
		{options: `command=""`, refused: "is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.options, func(t *testing.T) {
			b := newBox(t)
			b.put("userdata/ssh/authorized_keys", "# line 1\n"+strings.TrimSpace(tt.options+" "+line(u))+"\n")
			c, _, err := b.dial("root", ssh.PublicKeys(u))
			if tt.refused != "" {
				if err == nil || !strings.Contains(b.lines(), tt.refused) {
					t.Errorf("%v; logged %q", err, b.lines())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := tt.command
			if want == "" {
				want = "x\n"
			}
			if got, status := run(t, c, "echo x"); got != want || status != 0 {
				t.Errorf("%q, %d", got, status)
			}
			s, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			if err := s.RequestPty("vt100", 24, 80, ssh.TerminalModes{}); (err != nil) != tt.noPTY {
				t.Errorf("terminal: %v", err)
			}
		})
	}
}

// What stands in an authorized_keys that is no file, or too large a one, is no
// reason to wait, or to let somebody in.
func TestKeysFile(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("etc/ssh/authorized_keys", line(u))
	if err := os.MkdirAll(filepath.Join(b.root, "userdata/ssh/authorized_keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := b.mustDial("root", ssh.PublicKeys(u))
	c.Close()
	b.awaitLog("/userdata/ssh/authorized_keys: not a regular file")
	if err := os.Remove(filepath.Join(b.root, "userdata/ssh/authorized_keys")); err != nil {
		t.Fatal(err)
	}
	other := user(t)
	b.put("userdata/ssh/authorized_keys", strings.Repeat("#\n", maxKeysFile/2)+line(other))
	if _, _, err := b.dial("root", ssh.PublicKeys(other)); err == nil {
		t.Error("a key behind the limit")
	}
	b.awaitLog("more than 65536")
}

func TestCheckAuthorized(t *testing.T) {
	u := user(t)
	for _, tt := range []struct{ file, wrong string }{
		{line(u), ""},
		{"# a comment\n\nrestrict " + line(u), ""},
		{"", "no key in it"},
		{"# nothing\n", "no key in it"},
		{line(u) + "environment=\"A=b\" " + line(u), `line 2: the option "environment" is not known`},
		{"-----BEGIN OPENSSH PRIVATE KEY-----\n", "line 1: no key in it"},
		{strings.Repeat("#", maxKeysFile+1), "more than 65536"},
	} {
		err := CheckAuthorized([]byte(tt.file))
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%.50q: %v", tt.file, err)
		}
	}
}

func TestPasswords(t *testing.T) {
	// Of correct, by libxcrypt, and of root.
	const (
		sha512Correct = "$6$saltstring$nJI6Zb2x"
		des           = "ab6TRGT20sY26" // root
		sha512Root    = "$6$saltstringsaltst$Es7OVLNufgw4YtTmce7dj.D.zZJ63puHUNgla4PkChfsWMOU4kdeHdkVmjbP8/eQCWh4t.17bGSLHtnXSHUXX0"
		desOther      = "rl.3StKT.4T8M" // rasmuslerdorf
	)
	tests := []struct {
		name, passwd, shadow, password string
		in                             bool
		offered                        bool
		banner                         string
	}{
		{name: "right", passwd: "root:" + desOther + ":0:0::/root:/bin/sh\n", password: "rasmuslerdorf", in: true, offered: true},
		{name: "wrong", passwd: "root:" + desOther + ":0:0::/root:/bin/sh\n", password: "wrong", offered: true},
		{name: "in shadow", passwd: "root:x:0:0::/root:/bin/sh\n", shadow: "daemon:*:\nroot:" + desOther + ":1::\n", password: "rasmuslerdorf", in: true, offered: true},
		{name: "the known one", passwd: "root:" + des + ":0:0::/root:/bin/sh\n", password: "root", banner: "the one that everybody knows"},
		{name: "the known one, slow to find out", passwd: "root:" + sha512Root + ":0:0::/root:/bin/sh\n", password: "root", offered: true, banner: "the one that everybody knows"},
		{name: "a form that is not known", passwd: "root:$y$j9T$x$y:0:0::/root:/bin/sh\n", password: "x", banner: "a form that this gateway cannot check"},
		{name: "none", passwd: "root::0:0::/root:/bin/sh\n", banner: "nobody may log in yet: press the gateway's button three times"},
		{name: "locked", passwd: "root:!:0:0::/root:/bin/sh\n", banner: "nobody may log in yet"},
		{name: "no root", passwd: "admin:" + desOther + ":0:0::/root:/bin/sh\n", password: "rasmuslerdorf", banner: "nobody may log in yet"},
		{name: "no file", banner: "nobody may log in yet"},
		{name: "broken", passwd: "root\nroot:", banner: "nobody may log in yet"},
		{name: "another's", passwd: "root:" + sha512Correct + ":0:0::/root:/bin/sh\n", password: "correct", offered: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t)
			if tt.passwd != "" {
				b.put("userdata/etc/passwd", tt.passwd)
			}
			if tt.shadow != "" {
				b.put("userdata/etc/shadow", tt.shadow)
			}
			asked := false
			methods := map[string]ssh.AuthMethod{
				"password": ssh.PasswordCallback(func() (string, error) { asked = true; return tt.password, nil }),
				"keyboard-interactive": ssh.KeyboardInteractive(func(_, _ string, questions []string, echo []bool) ([]string, error) {
					asked = true
					if len(questions) != 1 || questions[0] != "Password: " || echo[0] {
						t.Errorf("asked %q, %v", questions, echo)
					}
					return []string{tt.password}, nil
				}),
			}
			for name, m := range methods {
				asked = false
				c, banner, err := b.dial("root", m)
				if (err == nil) != tt.in || asked != tt.offered || !strings.Contains(banner, tt.banner) || tt.banner == "" && banner != "" {
					t.Errorf("%s: %v, asked %v, banner %q", name, err, asked, banner)
				}
				if c != nil {
					c.Close()
				}
			}
		})
	}
}

// Other users have no password, whatever the file says.
func TestPasswordOfOthers(t *testing.T) {
	b := newBox(t)
	b.put("userdata/etc/passwd", "root:rl.3StKT.4T8M:0:0::/root:/bin/sh\nme:rl.3StKT.4T8M:0:0::/root:/bin/sh\n")
	for _, name := range []string{"me", "setup", ""} {
		if _, _, err := b.dial(name, ssh.Password("rasmuslerdorf")); err == nil {
			t.Errorf("user %q", name)
		}
	}
}

func (b *box) beginSetup() string {
	b.t.Helper()
	if err := enrol.Begin(b.root, rand.Reader); err != nil {
		b.t.Fatal(err)
	}
	return enrol.Look(b.root).Code()
}

// gives answers every question with the same.
func gives(answer string) ssh.AuthMethod {
	return ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
		return slicesOf(answer, len(questions)), nil
	})
}

func slicesOf(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestSetup(t *testing.T) {
	b := newBox(t)
	u := user(t)
	code := b.beginSetup()
	if _, banner, err := b.dial("root", ssh.PublicKeys(u)); err == nil || !strings.Contains(banner, "the serial console shows a code; log in as setup") {
		t.Errorf("root: %v, %q", err, banner)
	}
	if _, _, err := b.dial("setup", gives(code)); err == nil {
		t.Error("the code without a key")
	}
	if _, banner, err := b.dial("setup", ssh.PublicKeys(u), gives("AAAA-AAAA")); err == nil || !strings.Contains(banner, "that is not the code") {
		t.Errorf("a wrong code: %v, %q", err, banner)
	}
	c := b.mustDial("setup", ssh.PublicKeys(u), gives(strings.ToLower(code)))
	if got, status := run(t, c, "echo x"); got != "The key is let in from now on, as the user root.\r\n" || status != 0 {
		t.Errorf("%q, %d", got, status)
	}
	if s, err := c.NewSession(); err != nil {
		t.Error(err)
	} else if err := s.RequestPty("vt100", 24, 80, ssh.TerminalModes{}); err == nil {
		t.Error("a terminal for setup")
	}
	if _, err := c.Dial("tcp", b.addr); err == nil {
		t.Error("forwarding for setup")
	}
	c.Close()
	file, err := os.ReadFile(filepath.Join(b.root, "userdata/ssh/authorized_keys"))
	if err != nil || string(file) != strings.TrimSpace(line(u))+" setup from 127.0.0.1\n" {
		t.Errorf("%q, %v", file, err)
	}
	c = b.mustDial("root", ssh.PublicKeys(u))
	if got, _ := run(t, c, "echo x"); got != "x\n" {
		t.Errorf("%q", got)
	}
	if _, banner, err := b.dial("setup", ssh.PublicKeys(user(t)), gives(code)); err == nil || !strings.Contains(banner, "no setup to be done") {
		t.Errorf("a second key by the same code: %v, %q", err, banner)
	}
	b.awaitLog("may log in from now on: "+ssh.FingerprintSHA256(u.PublicKey()), "setup from 127.0.0.1: that is not the code")
}

// Who pressed the button needs no code, for one key, and has to have it.
func TestSetupByButton(t *testing.T) {
	b := newBox(t)
	first := user(t)
	b.put("userdata/ssh/authorized_keys", line(first)) // a key that is lost
	u := user(t)
	if _, _, err := b.dial("setup", ssh.PublicKeys(u)); err == nil {
		t.Error("nobody pressed the button")
	}
	b.put("run/enrol-until", strconv.FormatInt(int64(enrol.Uptime()+time.Minute), 10)+"\n")
	if _, _, err := b.dial("setup", ssh.Password("x")); err == nil {
		t.Error("without a key")
	}
	// One that is only shown, and not proved, is not let in.
	if _, _, err := b.dial("setup", ssh.PublicKeys(unprovable{u})); err == nil {
		t.Error("a key that the client does not have")
	}
	file, err := os.ReadFile(filepath.Join(b.root, "userdata/ssh/authorized_keys"))
	if err != nil || strings.Contains(string(file), "setup from") {
		t.Fatalf("%q, %v", file, err)
	}
	nothing := ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
		if len(questions) > 0 {
			t.Errorf("asked %q", questions)
		}
		return nil, nil
	})
	c := b.mustDial("setup", ssh.PublicKeys(u), nothing)
	c.Close()
	c = b.mustDial("root", ssh.PublicKeys(u))
	if got, _ := run(t, c, "echo x"); got != "x\n" {
		t.Errorf("%q", got)
	}
	c = b.mustDial("root", ssh.PublicKeys(first))
	c.Close()
	if _, _, err := b.dial("setup", ssh.PublicKeys(user(t)), nothing); err == nil {
		t.Error("a second key for the same press")
	}
}

// unprovable is a key whose signatures are not its own.
type unprovable struct{ ssh.Signer }

func (unprovable) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: make([]byte, 64)}, nil
}

// The code ends after so many tries, also when each is in a connection of its
// own.
func TestSetupTries(t *testing.T) {
	b := newBox(t)
	u := user(t)
	code := b.beginSetup()
	for range enrol.Tries {
		if _, _, err := b.dial("setup", ssh.PublicKeys(u), gives("AAAA-AAAA")); err == nil {
			t.Fatal("a wrong code")
		}
	}
	if _, _, err := b.dial("setup", ssh.PublicKeys(u), gives(code)); err == nil {
		t.Error("the code after too many wrong ones")
	}
	if _, err := os.Stat(filepath.Join(b.root, "userdata/ssh/authorized_keys")); err == nil {
		t.Error("a key was added")
	}
}

func TestMatchAddress(t *testing.T) {
	for _, tt := range []struct {
		patterns, a string
		want        bool
	}{
		{"192.168.1.0/24", "192.168.1.9", true},
		{"192.168.1.0/24", "::ffff:192.168.1.9", true},
		{"192.168.1.0/24", "192.168.2.9", false},
		{"192.168.1.9", "192.168.1.9", true},
		{"192.168.1.?", "192.168.1.9", true},
		{"192.168.1.?", "192.168.1.99", false},
		{"192.168.*", "192.168.1.99", true},
		{"*.9", "192.168.1.9", true},
		{"*", "2001:db8::1", true},
		{"2001:db8::/32", "2001:db8::1", true},
		{"2001:DB8::1", "2001:db8::1", true},
		{"fe80::1", "fe80::1%eth0", true},
		{"!10.0.0.1", "10.0.0.2", false}, // nothing is let in by what is not meant
		{"10.0.0.0/8,!10.0.0.1", "10.0.0.2", true},
		{"10.0.0.0/8,!10.0.0.1", "10.0.0.1", false},
		{"!10.0.0.1,10.0.0.0/8", "10.0.0.1", false},
		{"", "10.0.0.1", false},
		{"10.0.0.1, 10.0.0.2", "10.0.0.2", true},
	} {
		if got := matchAddress(strings.Split(tt.patterns, ","), netip.MustParseAddr(tt.a)); got != tt.want {
			t.Errorf("%s of %s: %v", tt.a, tt.patterns, got)
		}
	}
}

func TestWildcard(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "ab", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXbY", false},
		{"?", "", false},
		{"a?c", "abc", true},
		{"*ab", "aab", true},
		{"abc", "ab", false},
		{"ab", "abc", false},
	} {
		if got := wildcard(tt.pattern, tt.s); got != tt.want {
			t.Errorf("%q of %q: %v", tt.s, tt.pattern, got)
		}
	}
}

type closes chan struct{}

func (c closes) Close() error { close(c); return nil }

func closed(c closes) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Who opens connections without end closes their own.
func TestGateEvicts(t *testing.T) {
	var g gate
	friend, flood := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.66")
	first := make(closes)
	v, _ := g.enter(first, friend)
	var conns []closes
	for range 100 {
		c := make(closes)
		conns = append(conns, c)
		if _, evicted := g.enter(c, flood); evicted != nil && evicted.from != flood {
			t.Fatal("somebody else was closed")
		}
	}
	if closed(first) || len(g.pending) != maxPending {
		t.Errorf("the friend's is closed: %v; %d are logging in", closed(first), len(g.pending))
	}
	for i, c := range conns {
		if closed(c) != (i < 100-(maxPending-1)) {
			t.Errorf("number %d: closed %v", i, closed(c))
		}
	}
	if !g.admit(v) || g.open != 1 || len(g.pending) != maxPending-1 {
		t.Errorf("%d open, %d logging in", g.open, len(g.pending))
	}
	g.leave(v) // again: nothing
	g.forget()
	if g.open != 0 {
		t.Errorf("%d open", g.open)
	}
}

// Who comes again and again without a login is closed at once, but for one in each
// visitEvery; who logs in may come as often as they like.
func TestGateVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		flood := netip.MustParseAddr("2001:db8::66")
		come := func(from netip.Addr, times int) (taken int) {
			for range times {
				if !g.tooOften(from) {
					taken++
				}
			}
			return taken
		}
		if n := come(flood, 1000); n != freeVisits {
			t.Errorf("%d of a flood were taken, want %d", n, freeVisits)
		}
		if n := come(netip.MustParseAddr("2001:db8::67"), 10); n != 0 {
			t.Errorf("%d of its neighbour's were taken", n)
		}
		if n := come(netip.MustParseAddr("2001:db8:0:1::1"), 10); n != 10 {
			t.Errorf("%d of 10 of somebody else were taken", n)
		}
		time.Sleep(5*visitEvery + visitEvery/2)
		if n := come(flood, 1000); n != 5 {
			t.Errorf("%d were taken after 5.5 s", n)
		}
		time.Sleep(visitEvery / 2)
		if n := come(flood, 1000); n != 1 {
			t.Errorf("%d were taken half a second later", n)
		}
		// A login makes it anybody again.
		v, _ := g.enter(make(closes), flood)
		g.admit(v)
		if n := come(flood, 1000); n != freeVisits {
			t.Errorf("%d were taken after a login", n)
		}
		time.Sleep(freeVisits*visitEvery + 1)
		if n := come(flood, 1000); n != freeVisits {
			t.Errorf("%d were taken after a while", n)
		}
		for i := range 3 * maxAddresses {
			g.tooOften(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
		}
		if len(g.visits) != maxAddresses {
			t.Errorf("%d addresses are kept", len(g.visits))
		}
	})
}

func TestGateDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		a := netip.MustParseAddr("2001:db8::1")
		var waits []string
		for range 10 {
			waits = append(waits, g.fail(a).String())
		}
		want := "0s 0s 0s 500ms 1s 2s 4s 8s 16s 16s"
		if got := strings.Join(waits, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		// The same host with another address of its network.
		if d := g.fail(netip.MustParseAddr("2001:db8::abcd:1")); d != maxWait {
			t.Errorf("the neighbour waits %v", d)
		}
		if d := g.fail(netip.MustParseAddr("2001:db8:0:1::1")); d != 0 {
			t.Errorf("another network waits %v", d)
		}
		time.Sleep(forgetAfter + 1)
		if d := g.fail(a); d != 0 {
			t.Errorf("after a while it waits %v", d)
		}
		for i := range 3 * maxAddresses {
			g.fail(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
			time.Sleep(time.Millisecond)
		}
		if len(g.failed) != maxAddresses {
			t.Errorf("%d addresses are kept", len(g.failed))
		}
		last := 3*maxAddresses - 1
		if g.failed[netip.AddrFrom4([4]byte{10, 0, byte(last >> 8), byte(last)})] == nil {
			t.Error("the newest is not kept")
		}
	})
}

// Strangers of all kinds, many at a time, and a friend among them.
func TestFlood(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	var conns []net.Conn
	open := func(says string) {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		if _, err := c.Write([]byte(says)); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Log(err) // it was evicted already
		}
	}
	for i := range 300 {
		open([]string{
			"", "SSH-", "SSH-2.0-x", "SSH-2.0-x\r\n", "SSH-1.5-old\r\n", "SSH-2.0-\x1b[2J\r\n", "GET / HTTP/1.0\r\n\r\n",
			"SSH-2.0-" + strings.Repeat("x", 1000), "SSH-2.0-x\r\n\xff\xff\xff\xff\xff", "SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14" + strings.Repeat("\x00", 30),
		}[i%10])
	}
	// From elsewhere, as what comes from the flood's own address may be closed.
	c, _, err := b.dialFrom("127.0.0.2", "root", ssh.PublicKeys(u))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := run(t, c, "echo still here"); got != "still here\n" {
		t.Errorf("%q", got)
	}
	for _, x := range conns {
		x.Close()
	}
	// Few of them cost a key exchange: one in each visitEvery.
	if n := strings.Count(b.lines(), "none of them logged in; one more is taken every 1s"); n < 100 {
		t.Errorf("%d were closed at once", n)
	}
}

// A delay does not keep the place of who has lost it.
func TestEvictedIsNotDelayed(t *testing.T) {
	b := newBox(t, func(o *Options) { o.delay = func(time.Duration) time.Duration { return time.Hour } })
	b.put("userdata/etc/passwd", "root:rl.3StKT.4T8M:0:0::/root:/bin/sh\n")
	ended := make(chan error, 1)
	go func() {
		_, _, err := b.dial("root", ssh.Password("wrong"))
		ended <- err
	}()
	awaits(t, "no failure is noted", func() bool {
		b.s.gate.mu.Lock()
		defer b.s.gate.mu.Unlock()
		return len(b.s.gate.failed) == 1
	})
	for range maxPending {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := <-ended; err == nil {
		t.Error("in by a wrong password")
	}
	b.awaitLog("closed the oldest one from 127.0.0.1", "ended before a login")
}

func TestWithPassword(t *testing.T) {
	for _, tt := range []struct{ name, in, out string }{
		{"changed", "root:old:0:0:root:/root:/bin/sh\nme:x:1:1::/:\n", "root:NEW:0:0:root:/root:/bin/sh\nme:x:1:1::/:\n"},
		{"no newline at the end", "root:old:0:0:root:/root:/bin/sh", "root:NEW:0:0:root:/root:/bin/sh\n"},
		{"empty", "", "root:NEW:0:0:root:/root:/bin/sh\n"},
		{"others", "me:x:1:1::/:\n", "me:x:1:1::/:\nroot:NEW:0:0:root:/root:/bin/sh\n"},
		{"twice", "root:a:0:\nroot:b:0:\n", "root:NEW:0:\nroot:b:0:\n"},
		{"torn", "root:", "root:\nroot:NEW:0:0:root:/root:/bin/sh\n"},
	} {
		if got := string(withPassword([]byte(tt.in), "NEW", false)); got != tt.out {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.out)
		}
	}
	dir := t.TempDir()
	passwd, shadow := filepath.Join(dir, "passwd"), filepath.Join(dir, "shadow")
	if err := os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	hash, err := makeHash("long enough")
	if err != nil {
		t.Fatal(err)
	}
	if err := setPassword(passwd, shadow, hash); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(shadow); err != nil || string(b) != "root:"+hash+":::::::\n" {
		t.Errorf("shadow %q, %v", b, err)
	}
	if b, _ := os.ReadFile(passwd); !strings.HasPrefix(string(b), "root:x:") {
		t.Errorf("passwd %q", b)
	}
	if _, err := makeHash("short"); err == nil {
		t.Error("a short password")
	}
	if err := setPassword(filepath.Join(dir, "no", "passwd"), shadow, hash); err == nil || !strings.Contains(err.Error(), "is /userdata mounted?") {
		t.Errorf("no folder: %v", err)
	}
}

func FuzzParseAuthorized(f *testing.F) {
	u := user(f)
	for _, o := range []string{"", "restrict ", `from="10.0.0.1",command="a\"b" `, `permitopen="[::1]:*" `, `x="`} {
		f.Add([]byte(o + line(u)))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		k, err := parseAuthorized(line)
		if err != nil {
			return
		}
		if k.key == nil || k.grant.setup {
			t.Fatalf("%+v", k)
		}
		k.grant.permits("127.0.0.1", 80)
		if k.from != nil {
			matchAddress(k.from, netip.MustParseAddr("10.0.0.1"))
		}
	})
}

func FuzzWildcard(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if !strings.ContainsAny(pattern, "*?") && wildcard(pattern, s) != (pattern == s) {
			t.Fatal(strconv.Quote(pattern), strconv.Quote(s))
		}
		if !wildcard("*"+strings.NewReplacer("*", "", "?", "").Replace(s)+"*", strings.NewReplacer("*", "", "?", "").Replace(s)) {
			t.Fatal(s)
		}
	})
}
