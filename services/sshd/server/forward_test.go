//go:build linux

package server

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// echo is a TCP server that says back what it hears, and then ends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func TestForward(t *testing.T) {
	at := echo(t)
	_, port, _ := net.SplitHostPort(at)
	onLink := func() ([]netip.Prefix, error) { return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, nil }
	u := user(t)
	for _, tt := range []struct {
		name, options, to, refused string
	}{
		{"loopback", "", at, ""},
		{"by name", "", "localhost:" + port, ""},
		{"permitted", `permitopen="127.0.0.1:` + port + `" `, at, ""},
		{"any port", `permitopen="127.0.0.1:*" `, at, ""},
		{"another port", `permitopen="127.0.0.1:1" `, at, "does not permit it"},
		{"a higher port", `permitopen="127.0.0.1:65535" `, at, "does not permit it"},
		{"forbidden", "no-port-forwarding ", at, "does not permit it"},
		{"restricted", "restrict ", at, "does not permit it"},
		{"restricted but for this", "restrict,port-forwarding ", at, ""},
		{"elsewhere", "", "198.51.100.1:80", "on no network of this gateway"},
		{"a name", "", "example.org:80", "looks no names up"},
		{"nobody there", "", "127.0.0.1:1", "connection refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBox(t, func(o *Options) { o.OnLink = onLink })
			b.put("userdata/ssh/authorized_keys", tt.options+line(u))
			c := b.mustDial("root", ssh.PublicKeys(u))
			f, err := c.Dial("tcp", tt.to)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			text := strings.Repeat("to and fro ", 50_000)
			go func() {
				_, _ = io.WriteString(f, text)
				_ = f.(interface{ CloseWrite() error }).CloseWrite()
			}()
			if got, err := io.ReadAll(f); string(got) != text || err != nil {
				t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
			}
		})
	}
}

func TestTarget(t *testing.T) {
	k := &connection{s: &Server{}, grant: &grant{}}
	k.s.o.OnLink = func() ([]netip.Prefix, error) {
		return []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64"), netip.MustParsePrefix("fe80::/64")}, nil
	}
	for host, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "LOCALHOST": true, "0.0.0.0": true, "::ffff:127.0.0.1": true, "192.0.2.9": true, "::ffff:192.0.2.9": true,
		"2001:db8::9": true, "fe80::1%eth0": true, "192.0.3.9": false, "8.8.8.8": false, "": false, "localhost.": false, "2001:db8:1::1": false,
	} {
		if _, why := k.target(host, 80); (why == "") != want {
			t.Errorf("%q: %s", host, why)
		}
	}
	k.s.o.OnLink = func() ([]netip.Prefix, error) { return nil, errors.New("no netlink") }
	if _, why := k.target("192.0.2.9", 80); !strings.Contains(why, "no netlink") {
		t.Errorf("networks are not known: %q", why)
	}
}

// The control protocol travels as it is, by a command and as a subsystem.
func TestControl(t *testing.T) {
	b := newBox(t)
	u := user(t)
	b.put("userdata/ssh/authorized_keys", line(u))
	c := b.mustDial("root", ssh.PublicKeys(u))
	if out, status := run(t, c, "gwctl-control"); status != 126 || !strings.Contains(out, "control.sock") {
		t.Errorf("without PID 1: %q, %d", out, status)
	}
	l, err := net.Listen("unix", b.s.o.Control)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					line, err := readLine(c)
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "answer to "+line+"\n")
				}
			}()
		}
	}()
	for _, start := range []func(*ssh.Session) error{
		func(s *ssh.Session) error { return s.Start("gwctl-control") },
		func(s *ssh.Session) error { return s.RequestSubsystem("gwctl-control") },
	} {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := start(s); err != nil {
			t.Fatal(err)
		}
		r := &expecter{t: t, r: out}
		for _, request := range []string{"one", "two"} { // on one connection
			if _, err := io.WriteString(in, request+"\n"); err != nil {
				t.Fatal(err)
			}
			r.expect("answer to " + request + "\n")
		}
		in.Close()
		if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	}
	// A key with a forced command has that and nothing else.
	b.put("userdata/ssh/authorized_keys", `restrict,command="gwctl-control" `+line(u))
	c2 := b.mustDial("root", ssh.PublicKeys(u))
	s, err := c2.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	s.Stdin = strings.NewReader("x\n")
	if out, err := s.Output("echo y"); string(out) != "answer to x\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}
