//go:build linux

package syslog

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// rsyslogd is where test/deps/deps.sh has unpacked it, with its libraries.
func rsyslogd(t *testing.T) (program, libraries string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "gwinit/rsyslog")
	program = filepath.Join(root, "usr/sbin/rsyslogd")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v; test/deps/deps.sh test unpacks it", err)
	}
	found, err := filepath.Glob(filepath.Join(root, "usr/lib/*/rsyslog"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rsyslogd's modules for %s: %q, %v", runtime.GOARCH, found, err)
	}
	return program, filepath.Dir(found[0])
}

// freePort is one that was free.
func freePort(t *testing.T, network string) string {
	t.Helper()
	addr := ""
	if network == "udp" {
		c, err := net.ListenPacket(network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		addr = c.LocalAddr().String()
	} else {
		l, err := net.Listen(network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addr = l.Addr().String()
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// A real server understands what it gets.
func TestRsyslog(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		t.Run(network, func(t *testing.T) {
			program, libraries := rsyslogd(t)
			dir, port := t.TempDir(), freePort(t, network)
			out, conf := filepath.Join(dir, "out"), filepath.Join(dir, "conf")
			if err := os.WriteFile(conf, fmt.Appendf(nil, `module(load="im%s")
input(type="im%s" port="%s" address="127.0.0.1")
template(name="t" type="string" string="%%pri%%|%%timestamp:::date-rfc3339%%|%%app-name%%|%%structured-data%%|%%msg%%\n")
*.* action(type="omfile" file="%s" template="t")
`, network, network, port, out), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "-n", "-f", conf, "-i", filepath.Join(dir, "pid"), "-M", filepath.Join(libraries, "rsyslog"))
			cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+libraries)
			var said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill() // it may have ended
				_ = cmd.Wait()
			}()
			b := newBox(t, network, "127.0.0.1:"+port)
			b.log.Append("bridge", "listening on [::]:8888")
			b.log.Append("sshd", "login from 192.0.2.1 by password")
			b.run()
			want := []string{
				`30|bridge|[meta sequenceId="1" sysUpTime="25"]|listening on [::]:8888`,
				`86|sshd|[meta sequenceId="2" sysUpTime="50"]|login from 192.0.2.1 by password`,
			}
			for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				text, err := os.ReadFile(out)
				if err == nil && bytes.Count(text, []byte("\n")) >= len(want) {
					var got []string
					for line := range strings.Lines(string(text)) {
						// Without the time, which is the server's own here.
						f := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3)
						got = append(got, f[0]+"|"+f[2])
					}
					if strings.Join(got[:len(want)], "\n") != strings.Join(want, "\n") {
						t.Errorf("rsyslogd has\n%s\nwant\n%s", text, strings.Join(want, "\n"))
					}
					return
				}
				if time.Now().After(end) {
					t.Fatalf("rsyslogd has %q, and said:\n%s", text, said.Bytes())
				}
			}
		})
	}
}
