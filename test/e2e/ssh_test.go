//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// codeShown is the setup code as the console has it.
var codeShown = regexp.MustCompile(`lets your key in for good: ([A-Z2-9]{4}-[A-Z2-9]{4})`)

// person has a key and OpenSSH's programs, and the gateway at two ports.
type person struct {
	t    *testing.T
	m    *board.Machine
	dir  string
	code string
}

func newPerson(t *testing.T, m *board.Machine) *person {
	t.Helper()
	p := &person{t: t, m: m, dir: t.TempDir()}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.file("id")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return p
}

func (p *person) file(name string) string { return filepath.Join(p.dir, name) }

// try runs one of OpenSSH's programs. The gateway's CPU is emulated on a loaded
// machine, where a file of megabytes takes minutes.
func (p *person) try(port int, in io.Reader, program string, args ...string) (stdout, stderr string, err error) {
	p.t.Helper()
	_, number, err := net.SplitHostPort(p.m.Addr(port))
	if err != nil {
		p.t.Fatal(err)
	}
	return p.tryAt(number, in, program, args...)
}

// tryAt is try at a port of any address of the gateway's.
func (p *person) tryAt(number string, in io.Reader, program string, args ...string) (stdout, stderr string, err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{
		"-F", "none", "-o", "StrictHostKeyChecking=accept-new", "-o", "UserKnownHostsFile=" + p.file("known"), "-o", "HostKeyAlias=gateway",
		"-o", "IdentitiesOnly=yes", "-o", "IdentityFile=" + p.file("id"), "-o", "Port=" + number, "-o", "LogLevel=INFO",
	}, args...)...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=", "SSH_ASKPASS="+p.file("answer"), "SSH_ASKPASS_REQUIRE=force")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (p *person) must(port int, in io.Reader, program string, args ...string) string {
	p.t.Helper()
	out, errs, err := p.try(port, in, program, args...)
	if err != nil {
		p.t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, errs)
	}
	return out
}

// The first minute of a gateway and what comes after it, all through the
// radio's port and past a client of the radio that notices nothing.
func TestSSH(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Forward[board.SSHPort] = 0 })
	shell(t, m)
	await(t, m, "everything running, and sshd idle", func(s api.Status) bool {
		return settled(s) && service(t, s, "sshd").State == "idle"
	})
	// A raw client, echoed by the radio.
	radio, raw := wire(t, m), dial(t, m)
	ctx, cancel := context.WithCancel(t.Context())
	var echoing sync.WaitGroup
	defer echoing.Wait()
	defer cancel()
	echoing.Go(func() { _, _ = io.Copy(radio, radio) })
	trips, longest := 0, time.Duration(0)
	var broken error
	echoing.Go(func() {
		defer radio.Close()
		for n := 0; ctx.Err() == nil; n++ {
			text := fmt.Sprintf("\x1afrom client %d", n)
			begin := time.Now()
			_ = raw.SetDeadline(begin.Add(30 * time.Second)) // of a socket that is open
			got := make([]byte, len(text))
			if _, broken = io.WriteString(raw, text); broken == nil {
				_, broken = io.ReadFull(raw, got)
			}
			if broken == nil && string(got) != text {
				broken = fmt.Errorf("%q came back as %q", text, got)
			}
			if broken != nil {
				return
			}
			trips++
			longest = max(longest, time.Since(begin))
		}
	})

	p := newPerson(t, m)
	_, said, err := p.try(board.BridgePort, nil, "ssh", "-o", "BatchMode=yes", "root@127.0.0.1", "true")
	if err == nil || !strings.Contains(said, "nobody may log in yet") {
		t.Errorf("before there is a key: %v\n%s", err, said)
	}
	for end := time.Now().Add(time.Minute); p.code == ""; {
		if err := m.Console().Send("\r"); err != nil {
			t.Fatal(err)
		}
		if match, err := m.Console().WaitMatch(codeShown, 5*time.Second); err == nil {
			p.code = match[1]
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.file("answer"), []byte("#!/bin/sh\necho "+p.code+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out := p.must(board.BridgePort, nil, "ssh", "setup@127.0.0.1"); !strings.Contains(out, "The key is let in") {
		t.Errorf("setup: %q", out)
	}

	var s api.Status
	if err := json.Unmarshal([]byte(p.must(board.BridgePort, nil, "ssh", "root@127.0.0.1", "gwctl status -json")), &s); err != nil {
		t.Fatal(err)
	}
	sshd := service(t, s, "sshd")
	t.Logf("sshd with one session: %d KiB of memory, %d of them its own; %.2f s of CPU", sshd.RSS, sshd.Anon, sshd.CPU)
	if s.Bridge == nil || s.Bridge.Client == nil || s.Bridge.Takeovers != 0 || sshd.State != "running" {
		t.Errorf("status by SSH: %+v, %+v", s.Bridge, sshd)
	}
	reply := p.must(board.SSHPort, strings.NewReader(`{"v":1,"op":"call","args":{"service":"bridge","method":"status"}}`+"\n"), "ssh", "root@127.0.0.1", "gwctl-control")
	if !strings.HasPrefix(reply, `{"ok":true,"data":{"engine":"user","listen":`) {
		t.Errorf("gwctl-control: %q", reply)
	}
	if out := p.must(board.SSHPort, strings.NewReader("echo $SSH_TTY; stty size; exit 0\n"), "ssh", "-tt", "root@127.0.0.1"); !strings.Contains(out, "/dev/pts/") || strings.Contains(out, "unknown") {
		t.Errorf("a terminal: %q", out)
	}
	// Three sessions more, for the figure.
	var more sync.WaitGroup
	for range 3 {
		more.Go(func() {
			if _, said, err := p.try(board.SSHPort, nil, "ssh", "root@127.0.0.1", "sleep 15"); err != nil {
				t.Errorf("a session of several: %v\n%s", err, said)
			}
		})
	}
	await(t, m, "three shells", func(s api.Status) bool {
		sshd = service(t, s, "sshd")
		return strings.Count(run(t, m, "netstat -n"), ":22 ") >= 3
	})
	t.Logf("sshd with three sessions: %d KiB of memory, %d of them its own", sshd.RSS, sshd.Anon)
	more.Wait()
	// Strangers, many at a time, at the radio's port.
	var strangers []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", m.Addr(board.BridgePort))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "SSH-2.0-stranger\r\n") // it may be closed already
		strangers = append(strangers, c)
	}
	for _, c := range strangers[50:] {
		c.Close()
	}
	content := bytes.Repeat([]byte("gateway "), 1<<14)
	if err := os.WriteFile(p.file("up"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	// All of them come from this address, and it may have to wait for a place.
	for end := time.Now().Add(2 * time.Minute); ; wait(2 * time.Second) {
		_, said, err := p.try(board.BridgePort, nil, "scp", "-s", p.file("up"), "root@127.0.0.1:/userdata/up")
		if err == nil {
			break
		}
		if !strings.Contains(said, "kex_exchange_identification") || time.Now().After(end) {
			t.Fatalf("scp: %v\n%s", err, said)
		}
	}
	p.must(board.SSHPort, nil, "scp", "-s", "root@127.0.0.1:/userdata/up", p.file("down"))
	if got, err := os.ReadFile(p.file("down")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	// A forwarding, to where nobody is.
	if _, said, err := p.try(board.SSHPort, nil, "ssh", "-W", "127.0.0.1:1", "root@127.0.0.1"); err == nil || !strings.Contains(said, "refused") {
		t.Errorf("forwarding to nobody: %v\n%s", err, said)
	}

	cancel()
	echoing.Wait()
	if broken != nil || trips == 0 {
		t.Errorf("the raw client: %v after %d echoes", broken, trips)
	}
	t.Logf("the raw client: %d echoes, the longest took %v", trips, longest)
	await(t, m, "sshd idle again", func(s api.Status) bool { return service(t, s, "sshd").State == "idle" })
	// The key and the host's key outlive a reboot.
	run(t, m, "gwctl reboot")
	if err := m.Console().WaitBoot(bootTime); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	await(t, m, "everything running again", settled)
	if out := p.must(board.SSHPort, nil, "ssh", "-o", "StrictHostKeyChecking=yes", "root@127.0.0.1", "cat /userdata/ssh/authorized_keys"); !strings.Contains(out, " setup from ") {
		t.Errorf("after a reboot: %q", out)
	}
}

// zeros is an input without an end, which counts.
type zeros struct{ n atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.n.Add(int64(len(p)))
	return len(p), nil
}

// Who sends as fast as they can to programs that read nothing is stopped, and takes
// no more memory than is there: each channel of a connection holds 128 KiB, and no
// more programs are started than leave the gateway room to work.
func TestSSHBoundedMemory(t *testing.T) {
	t.Parallel()
	const channels, mostKiB = 8, 2560 // what they hold, and as much again of garbage, and a bit
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	run(t, m, "mkdir -p /userdata/ssh && echo '"+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))+"' >/userdata/ssh/authorized_keys")
	var c *ssh.Client
	for end := time.Now().Add(5 * time.Minute); ; wait(time.Second) {
		if c, err = ssh.Dial("tcp", m.Addr(board.BridgePort), &ssh.ClientConfig{
			User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // a board of our own
		}); err == nil {
			break
		}
		if time.Now().After(end) { // the emulated CPU is a slow one on a loaded machine
			t.Fatalf("%v; the log:\n%s", err, run(t, m, "gwctl logs sshd; gwctl logs bridge"))
		}
	}
	defer c.Close()
	before := service(t, status(t, m), "sshd")
	var in zeros
	for range channels {
		s, err := c.NewSession()
		if err == nil {
			s.Stdin = &in
			err = s.Start("sleep 1000")
		}
		if err != nil {
			t.Fatalf("%v; the log:\n%s", err, run(t, m, "gwctl logs sshd; gwctl logs init; dmesg | tail -20"))
		}
	}
	for last, since, end := int64(0), time.Now(), time.Now().Add(5*time.Minute); time.Since(since) < 10*time.Second; wait(200 * time.Millisecond) {
		if n := in.n.Load(); n != last || n == 0 {
			last, since = n, time.Now()
		}
		if time.Now().After(end) {
			t.Fatalf("the gateway takes more and more: %d bytes", last)
		}
	}
	s := status(t, m)
	after := service(t, s, "sshd")
	t.Logf("%d KiB sent to %d programs that do not read: sshd has %d KiB of its own, and had %d; %d KiB available", in.n.Load()>>10, channels, after.Anon, before.Anon, s.Memory.Available)
	if s.Memory.Available < 3500 {
		t.Errorf("%d KiB are available", s.Memory.Available)
	}
	if log := run(t, m, "gwctl logs sshd"); !strings.Contains(log, "the gateway is short of memory") {
		t.Errorf("%d sessions, and nobody was refused:\n%s", channels, log)
	}
	if after.PID != before.PID || after.Anon > before.Anon+mostKiB {
		t.Errorf("sshd has %d KiB of its own and had %d, want %d more at most (process %d, was %d)", after.Anon, before.Anon, mostKiB, after.PID, before.PID)
	}
}
