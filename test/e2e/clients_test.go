//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// sshClient is one of the programs that people log in with.
type sshClient struct {
	name string
	// ssh is the program with its options, up to the host, which comes next.
	ssh    func(options ...string) []string
	copies []fileCopy // the ways that files travel
}

// fileCopy makes commands, with their input, that copy a file to the gateway and
// back.
type fileCopy struct {
	name     string
	put, get func(local, remote string) (args []string, in string)
}

// talk runs a program of a client's.
func (p *person) talk(in string, args ...string) (out string, status int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "SSH_AUTH_SOCK="+p.file("agent"))
	cmd.Stdin = strings.NewReader(in)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatalf("%q: %v\n%s", args, err, b)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// onTerminal runs a program on a terminal of 100 columns and 30 rows and gives
// it to use, which types and reads. It returns the program's exit status.
func (p *person) onTerminal(args []string, use func(tty *terminal)) int {
	p.t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	tty := &terminal{t: p.t, fd: fd, f: os.NewFile(uintptr(fd), "ptmx")}
	defer tty.f.Close()
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	tty.size(100, 30)
	pts, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "SSH_AUTH_SOCK="+p.file("agent"), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pts, pts, pts
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	pts.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	use(tty)
	tty.drain()
	_ = cmd.Wait() // its status is returned
	return cmd.ProcessState.ExitCode()
}

// terminal is a person's, seen from the person.
type terminal struct {
	t    *testing.T
	fd   int
	f    *os.File
	read []byte
}

func (y *terminal) size(columns, rows uint16) {
	y.t.Helper()
	if err := unix.IoctlSetWinsize(y.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		y.t.Fatal(err)
	}
}

func (y *terminal) send(line string) {
	y.t.Helper()
	if _, err := io.WriteString(y.f, line+"\r"); err != nil {
		y.t.Fatal(err)
	}
}

// expect reads until text is there, behind what an expect before this one took.
func (y *terminal) expect(text string) {
	y.t.Helper()
	if err := y.f.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		y.t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		if i := bytes.Index(y.read, []byte(text)); i >= 0 {
			y.read = y.read[i+len(text):]
			return
		}
		n, err := y.f.Read(buf)
		y.read = append(y.read, buf[:n]...)
		if err != nil {
			y.t.Fatalf("no %q on the terminal, but %q (%v)", text, y.read, err)
		}
	}
}

// drain reads to the end of the program.
func (y *terminal) drain() {
	if err := y.f.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		y.t.Fatal(err)
	}
	_ = discard(y.f) // EIO: nobody has the other end any more
}

// freePort is one of this computer that nobody has.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The SSH clients that people have, all through the radio's port, while
// Zigbee2MQTT's library has the radio there: its network stays up, over one
// connection, and it gets every message in order.
func TestSSHClients(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	control := simulator(t, m, "-form", "-baud", "115200")
	shell(t, m)
	run(t, m, `printf 'FIRMWARE=ncp\nFIRMWARE_BAUD=115200\nFIRMWARE_FLOW_CTRL=none\n' > /userdata/etc/radio.conf`)
	run(t, m, "gwctl restart bridge")
	await(t, m, "everything running", settled)

	p := newPerson(t, m)
	for _, args := range [][]string{
		{"dropbearkey", "-t", "ed25519", "-f", p.file("dropbear")},
		{"puttygen", p.file("id"), "-o", p.file("id.ppk")},
		{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.file("in-agent")},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	agent := exec.Command("ssh-agent", "-D", "-a", p.file("agent"))
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = agent.Process.Kill() // it may have ended
		_ = agent.Wait()
	})
	for end := time.Now().Add(time.Minute); ; wait(50 * time.Millisecond) {
		out, code := p.talk("", "ssh-add", "-q", p.file("in-agent"))
		if code == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("ssh-add: %s", out)
		}
	}
	if err := os.Remove(p.file("in-agent")); err != nil { // the agent alone has it
		t.Fatal(err)
	}
	ofDropbear, _ := p.talk("", "dropbearkey", "-y", "-f", p.file("dropbear"))
	run(t, m, "mkdir -p /userdata/ssh")
	for line := range strings.Lines(ofDropbear + read(t, p.file("id.pub")) + read(t, p.file("in-agent.pub"))) {
		if strings.HasPrefix(line, "ssh-ed25519 ") {
			run(t, m, "echo '"+strings.TrimSpace(line)+"' >>/userdata/ssh/authorized_keys")
		}
	}
	run(t, m, "gwctl config set METRICS=127.0.0.1:9100")

	// The client of the radio, which is not asked to do anything but to stay.
	ended := filepath.Join(p.dir, "ended")
	zigbee := exec.CommandContext(t.Context(), "./run.sh", "--url", "tcp://"+m.Addr(board.BridgePort), "--control", control,
		"--steps", "resumed,join,steady", "--until", ended, "--timeout", "1200")
	zigbee.Dir = "../herdsman"
	var said, errs bytes.Buffer
	zigbee.Stdout, zigbee.Stderr = &said, &errs
	if err := zigbee.Start(); err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	var zigbeeEnd error
	done.Go(func() { zigbeeEnd = zigbee.Wait() })
	finish := sync.OnceFunc(func() {
		if err := os.WriteFile(ended, nil, 0o600); err != nil {
			t.Error(err)
		}
		done.Wait()
	})
	defer finish()
	before := await(t, m, "the client of the radio, and messages", func(s api.Status) bool {
		return s.Bridge != nil && s.Bridge.Client != nil && s.Bridge.RxBytes > 20000
	})

	_, port, err := net.SplitHostPort(m.Addr(board.BridgePort))
	if err != nil {
		t.Fatal(err)
	}
	// Known to OpenSSH and to PuTTY from here on, as after a user's yes.
	p.must(board.BridgePort, nil, "ssh", "root@127.0.0.1", "true")
	fingerprint, code := p.talk("", "ssh-keygen", "-l", "-f", p.file("known"))
	if code != 0 {
		t.Fatalf("ssh-keygen -l: %s", fingerprint)
	}
	hostKey := strings.Fields(fingerprint)[1]

	const to = "root@127.0.0.1"
	openssh := []string{"-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=" + p.file("known"), "-o", "HostKeyAlias=gateway", "-o", "Port=" + port}
	putty := []string{"-batch", "-P", port, "-hostkey", hostKey, "-i", p.file("id.ppk")}
	dropbear := []string{"-y", "-p", port, "-i", p.file("dropbear")}
	with := func(program string, base []string, options ...string) []string {
		return append(append([]string{program}, base...), options...)
	}
	byName := func(program string, base []string, options ...string) fileCopy {
		return fileCopy{
			name: strings.Join(append([]string{program}, options...), " "),
			put: func(local, remote string) ([]string, string) {
				return append(with(program, base, options...), local, to+":"+remote), ""
			},
			get: func(local, remote string) ([]string, string) {
				return append(with(program, base, options...), to+":"+remote, local), ""
			},
		}
	}
	byBatch := func(args ...string) fileCopy {
		return fileCopy{
			name: args[0],
			put:  func(local, remote string) ([]string, string) { return args, "put " + local + " " + remote + "\nbye\n" },
			get:  func(local, remote string) ([]string, string) { return args, "get " + remote + " " + local + "\nbye\n" },
		}
	}
	// dbclient has no file transfer of its own: OpenSSH's programs run it.
	wrapper := p.file("dbclient")
	script := "#!/bin/sh\nexec dbclient -y -p " + port + " -i " + p.file("dropbear") + ` -s root@127.0.0.1 sftp` + "\n"
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	sftpByDropbear := fileCopy{
		name: "sftp over dbclient",
		put: func(local, remote string) ([]string, string) {
			return []string{"sftp", "-q", "-b", "-", "-D", wrapper}, "put " + local + " " + remote + "\n"
		},
		get: func(local, remote string) ([]string, string) {
			return []string{"sftp", "-q", "-b", "-", "-D", wrapper}, "get " + remote + " " + local + "\n"
		},
	}
	clients := []sshClient{
		{
			name: "OpenSSH, with a key of ssh-agent",
			ssh:  func(options ...string) []string { return append(with("ssh", openssh, options...), to) },
			copies: []fileCopy{
				byBatch(append(with("sftp", openssh, "-b", "-"), to)...),
				byName("scp", openssh, "-s"), byName("scp", openssh, "-O"),
			},
		},
		{
			name: "PuTTY",
			ssh: func(options ...string) []string {
				return append(with("plink", append([]string{"-ssh"}, putty...), options...), to)
			},
			copies: []fileCopy{byBatch(append(with("psftp", putty), to)...), byName("pscp", putty, "-sftp"), byName("pscp", putty, "-scp")},
		},
		{
			name:   "dropbear",
			ssh:    func(options ...string) []string { return append(with("dbclient", dropbear, options...), to) },
			copies: []fileCopy{sftpByDropbear},
		},
	}
	content := bytes.Repeat([]byte("0123456789\r\n\x00\xff\x1a\x11\x13"), 1<<12)
	if err := os.WriteFile(p.file("up"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	const reference = "/tmp/reference"
	p.must(board.BridgePort, bytes.NewReader(content), "ssh", to, "cat >"+reference)
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			p := &person{t: t, m: m, dir: p.dir}
			// A command, its status and what it reads.
			out, code := p.talk("a\nb\n", append(c.ssh(), "wc -l; exit 7")...)
			if code != 7 || !strings.HasSuffix(strings.TrimSpace(out), "2") {
				t.Errorf("a command: %d, %q", code, out)
			}
			var s api.Status
			out, code = p.talk("", append(c.ssh(), "gwctl status -json")...)
			if err := json.Unmarshal([]byte(out[max(0, strings.IndexByte(out, '{')):]), &s); err != nil || code != 0 || s.Bridge == nil || s.Bridge.Client == nil {
				t.Errorf("gwctl status: %d, %v: %s", code, err, out)
			}
			// A shell on a terminal that grows.
			code = p.onTerminal(c.ssh("-t"), func(tty *terminal) {
				tty.expect("# ")
				tty.send("stty size; echo on $SSH_TTY as $TERM")
				tty.expect("30 100")
				tty.expect("on /dev/pts/")
				tty.expect("as xterm")
				tty.size(132, 50)
				tty.send(`while [ "$(stty size)" != "50 132" ]; do sleep 1; done; echo gr""own`)
				tty.expect("grown")
				tty.send("exit 9")
			})
			if code != 9 {
				t.Errorf("a shell ended with %d, want 9", code)
			}
			for n, f := range c.copies {
				remote, local := fmt.Sprintf("/tmp/copy-%d-%d", i, n), p.file(fmt.Sprintf("down-%d-%d", i, n))
				args, in := f.put(p.file("up"), remote)
				if out, code := p.talk(in, args...); code != 0 {
					t.Errorf("%s: put: %d: %s", f.name, code, out)
				}
				args, in = f.get(local, remote)
				if out, code := p.talk(in, args...); code != 0 {
					t.Errorf("%s: get: %d: %s", f.name, code, out)
				}
				if got, err := os.ReadFile(local); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %d of %d bytes came back, or others (%v)", f.name, len(got), len(content), err)
				}
				if out, code := p.talk("", append(c.ssh(), "cmp "+remote+" "+reference+" && rm "+remote)...); code != 0 {
					t.Errorf("%s: on the gateway: %d, %q", f.name, code, out)
				}
			}
			// A forwarding, to what the gateway serves to itself only.
			at := freePort(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			args := c.ssh("-N", "-L", fmt.Sprintf("127.0.0.1:%d:127.0.0.1:9100", at))
			forward := exec.CommandContext(ctx, args[0], args[1:]...)
			forward.Env = append(os.Environ(), "HOME="+p.dir, "SSH_AUTH_SOCK="+p.file("agent"))
			var complains bytes.Buffer
			forward.Stdout, forward.Stderr = &complains, &complains
			if err := forward.Start(); err != nil {
				t.Fatal(err)
			}
			var body []byte
			for end := time.Now().Add(2 * time.Minute); ; wait(200 * time.Millisecond) {
				r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", at))
				if err == nil {
					body, err = io.ReadAll(r.Body)
					r.Body.Close()
				}
				if err == nil {
					break
				}
				if time.Now().After(end) {
					t.Errorf("forwarding: %v", err)
					break
				}
			}
			cancel()
			_ = forward.Wait() // it was killed
			if got := figures(t, string(body)); got["gateway_bridge_client_connected"] != 1 {
				t.Errorf("by a forwarding came\n%s\n%s", tail(string(body)), complains.String())
			}
		})
	}
	finish()
	var result struct {
		OK     bool `json:"ok"`
		Steady struct{ Received int }
	}
	if err := json.Unmarshal(bytes.TrimSpace(said.Bytes()), &result); err != nil || !result.OK || zigbeeEnd != nil {
		t.Fatalf("the client of the radio: %s (%v, %v)\n%s", said.Bytes(), err, zigbeeEnd, tail(errs.String()))
	}
	after := status(t, m)
	b, a := before.Bridge, after.Bridge
	if lost := a.Overruns + a.BufOverruns + a.FrameErrors + a.QueueDropped + a.TxDropped + a.Discarded - b.Discarded; lost != 0 || a.Takeovers != 0 || a.Connects-a.SSH != b.Connects-b.SSH {
		t.Errorf("the bridge lost bytes, or its client: %+v", a)
	}
	w := answer[api.BridgeWatch](t, m, "gwctl bridge -json")
	if w.FromRadio.ASH.CRC+w.ToRadio.ASH.CRC+w.FromRadio.ASH.Invalid+w.ToRadio.ASH.Invalid != 0 {
		t.Errorf("frames were damaged: %+v, %+v", w.FromRadio.ASH, w.ToRadio.ASH)
	}
	if a.SSH < 30 {
		t.Errorf("%d SSH connections at the radio's port; there were more than 30", a.SSH)
	}
	t.Logf("%d messages over %d SSH connections at the same port; resent %d and %d", result.Steady.Received, a.SSH, w.FromRadio.ASH.Resent, w.ToRadio.ASH.Resent)
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
