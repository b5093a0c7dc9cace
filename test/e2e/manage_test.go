//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/gwctl/onbox"
	"gwinit/test/board"
)

// manager is somebody with gwctl on another computer, who reaches the gateway
// through the radio's port only.
type manager struct {
	*person
	gwctl string
	key   string // in dir
	// asWas has gateways' keys as they were before: one that is another is refused.
	asWas bool
}

// letIn adds the manager's key by hand on the console.
func (g *manager) letIn() {
	g.t.Helper()
	pub, err := os.ReadFile(g.file(g.key) + ".pub")
	if err != nil {
		g.t.Fatal(err)
	}
	run(g.t, g.m, fmt.Sprintf("mkdir -p /userdata/ssh && echo '%s' >>/userdata/ssh/authorized_keys && chmod 600 /userdata/ssh/authorized_keys", strings.TrimSpace(string(pub))))
}

func (g *manager) command(ctx context.Context, args ...string) *exec.Cmd {
	base := []string{"-H", g.m.Addr(board.BridgePort), "-i", g.file(g.key)}
	if !g.asWas {
		base = append(base, "-accept-new")
	}
	cmd := exec.CommandContext(ctx, g.gwctl, append(base, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+g.dir, "SSH_AUTH_SOCK=", "XDG_CONFIG_HOME=")
	cmd.Dir = g.dir
	return cmd
}

// do runs gwctl. A login that takes too long, since the gateway's CPU is emulated
// on a loaded machine or its first key has to wait for entropy, is tried again.
func (g *manager) do(args ...string) string {
	g.t.Helper()
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(g.t.Context(), 8*time.Minute)
		var out, errs bytes.Buffer
		cmd := g.command(ctx, args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		cancel()
		if err == nil {
			return out.String()
		}
		if said := errs.String(); try == 6 || !strings.Contains(said, "no SSH server answered within") && !strings.Contains(said, "handshake failed") {
			g.t.Fatalf("gwctl %q: %v\n%s%s", args, err, out.String(), said)
		}
		wait(5 * time.Second)
	}
}

// What a user does with the gateway from another computer, through port 8888
// alone: settings in a file, events, a report, a backup, a factory reset, and the
// backup brought back.
func TestManageFromAfar(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	g := &manager{person: newPerson(t, m), key: "id"}
	g.gwctl = g.file("gwctl")
	if out, err := exec.Command("go", "build", "-o", g.gwctl, "../../cmd/gwctl").CombinedOutput(); err != nil {
		t.Fatalf("build gwctl: %v\n%s", err, out)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", g.file("id2")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	if err := os.Mkdir(g.file(".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.letIn()

	// Settings out, changed, and in again.
	g.do("config", "set", "leds.MODE=dim", "radio.BRIDGE_STALL_S=60")
	settings := g.do("config", "export")
	if !strings.Contains(settings, "\nleds.MODE=dim\n") || !strings.Contains(settings, "\nradio.BRIDGE_STALL_S=60\n") {
		t.Errorf("exported\n%s", settings)
	}
	if err := os.WriteFile(g.file("settings"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	g.do("config", "set", "radio.BRIDGE_STALL_S=90", "gateway.GW_LOG_KIB=128")
	if out := g.do("config", "import", "-all", "settings"); out != "radio.BRIDGE_STALL_S changed in /userdata/etc/radio.conf\ngateway.GW_LOG_KIB changed in /userdata/etc/gateway.conf\nused from the next boot on\nbridge uses it from now on\n" {
		t.Errorf("imported: %q", out)
	}
	if again := g.do("config", "export"); again != settings {
		t.Errorf("exported again\n%s\nbefore\n%s", again, settings)
	}

	// Events, of a client of the radio that comes and goes.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := g.command(ctx, "events", "login", "client-connected", "client-left")
	out, err := events.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := events.Start(); err != nil {
		t.Fatal(err)
	}
	seen := make(chan onbox.Event, 64)
	go func() {
		defer close(seen)
		for in := bufio.NewScanner(out); in.Scan(); {
			var e onbox.Event
			if json.Unmarshal(in.Bytes(), &e) == nil {
				seen <- e
			}
		}
	}()
	// Its own login may be older; that of another shows that it listens.
	next := func(what string, ok func(onbox.Event) bool) onbox.Event {
		t.Helper()
		late := time.After(4 * time.Minute)
		for {
			select {
			case e, more := <-seen:
				if !more {
					t.Fatalf("the events end before %s", what)
				}
				if ok(e) {
					return e
				}
			case <-late:
				t.Fatalf("no event: %s", what)
			}
		}
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		for ctx.Err() == nil && len(seen) == 0 {
			_ = g.command(ctx, "version").Run()
		}
	}()
	next("a login", func(e onbox.Event) bool { return e.Type == "login" })
	<-listening
	radio, raw := wire(t, m), dial(t, m)
	defer radio.Close()
	me := raw.LocalAddr().(*net.TCPAddr).Port
	connected := next("the client", func(e onbox.Event) bool { return e.Type == "client-connected" })
	raw.Close()
	left := next("its end", func(e onbox.Event) bool { return e.Type == "client-left" })
	if connected.Fields["client"] == "" || left.Fields["client"] != connected.Fields["client"] || left.Fields["reason"] != "closed by the client" || left.Seq <= connected.Seq {
		t.Errorf("from port %d: %+v, then %+v", me, connected, left)
	}
	cancel()
	_ = events.Wait() // it was killed

	// A report, without the password's hash.
	run(t, m, "echo 'correct horse battery' | passwd")
	hash := strings.Split(run(t, m, "grep ^root: /userdata/etc/passwd"), ":")[1]
	g.do("report", "report.tar.gz")
	report := g.unpack("report.tar.gz")
	for _, want := range []string{"gateway-report/status.json", "gateway-report/doctor.txt", "gateway-report/log.txt", "gateway-report/dmesg.txt", "gateway-report/proc/meminfo", "gateway-report/userdata/etc/leds.conf"} {
		if len(report[want]) == 0 {
			t.Errorf("the report has no %s", want)
		}
	}
	for name, text := range report {
		if strings.Contains(text, hash) || strings.Contains(text, "\n-- ") && !strings.Contains(text, "exit status") {
			t.Errorf("%s:\n%s", name, text)
		}
	}

	// A backup, everything gone, and everything back.
	g.do("backup", "backup.tar.gz")
	check := exec.Command("sh", "-c", "mkdir b && cd b && tar xzf ../backup.tar.gz && sha256sum -c SHA256SUMS && cat gateway-backup")
	check.Dir = g.dir
	if out, err := check.CombinedOutput(); err != nil || !strings.Contains(string(out), "userdata/etc/leds.conf: OK\n") || !strings.Contains(string(out), "\nboard=emulated\n") {
		t.Errorf("the backup: %v\n%s", err, out)
	}
	m.Console().Mark()
	g.do("factory-reset", "-y")
	if err := m.Console().WaitBoot(3 * time.Minute); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	await(t, m, "everything running as new", settled)
	if led := run(t, m, "gwctl config get leds.MODE"); led != "bright" {
		t.Errorf("LEDs are %s after the factory reset", led)
	}
	if err := os.Rename(g.file(".ssh/known_hosts"), g.file("known-before")); err != nil {
		t.Fatal(err)
	}
	g.key = "id2"
	g.letIn()
	if out := g.do("restore", "-y", "backup.tar.gz"); !strings.Contains(out, "They take effect with the next boot: gwctl reboot.\n") {
		t.Errorf("restored: %q", out)
	}
	if led := run(t, m, "gwctl config get leds.MODE"); led != "bright" {
		t.Errorf("LEDs are %s before the boot", led)
	}
	if err := os.Rename(g.file(".ssh/known_hosts"), g.file("known-between")); err != nil {
		t.Fatal(err)
	}
	m.Console().Mark()
	// The host's key is the new one until the boot, and the old one after it.
	both := exec.Command("sh", "-c", "cat known-between known-before >.ssh/known_hosts")
	both.Dir = g.dir
	if out, err := both.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	g.asWas = true
	if out := g.do("reboot", "-w"); !strings.Contains(out, ": boot mode normal, ") {
		t.Errorf("rebooted: %q", out)
	}
	shell(t, m)
	await(t, m, "everything running again", settled)
	if err := os.Rename(g.file("known-before"), g.file(".ssh/known_hosts")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"id", "id2"} { // who was let in before, and who restored
		g.key = key
		if again := g.do("config", "export"); again != settings {
			t.Errorf("by %s: exported\n%s\nbefore\n%s", key, again, settings)
		}
	}
	if log := run(t, m, "gwctl logs userdata"); !strings.Contains(log, "restore: ") || strings.Contains(log, "NOT DONE") {
		t.Errorf("userdata says:\n%s", log)
	}
	if got := strings.Split(run(t, m, "grep ^root: /userdata/etc/passwd"), ":")[1]; got != hash {
		t.Errorf("the password is %q, was %q", got, hash)
	}
}

// unpack reads an archive with the ordinary tar.
func (g *manager) unpack(file string) map[string]string {
	g.t.Helper()
	dir := g.t.TempDir()
	if out, err := exec.Command("tar", "xzf", g.file(file), "-C", dir).CombinedOutput(); err != nil {
		g.t.Fatalf("tar: %v\n%s", err, out)
	}
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(b)
		return err
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}
