//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// The firewall on the board's own kernel, which holds the rules as they were
// given to it or is not "on": what the gateway serves stays open, the rest is
// dropped and counted, an unconfirmed change ends by itself, and a confirmed one
// stays.
func TestFirewall(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) { c.Forward[board.SSHPort], c.Forward[23] = 0, 0 })
	shell(t, m)
	await(t, m, "everything running", settled)
	firewall := func(verb string) api.Firewall {
		t.Helper()
		return answer[api.Firewall](t, m, "gwctl -json firewall "+verb)
	}
	if f := firewall(""); f.State != "off" || f.Set {
		t.Fatalf("at first %+v", f)
	}
	if f := firewall("set on"); f.State != "on" || f.Confirm < 50 || len(f.Rules) < 15 {
		t.Fatalf("set on: %+v", f)
	}
	if s := status(t, m); len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "gwctl firewall confirm") {
		t.Errorf("warnings %q", s.Warnings)
	}
	if f := firewall("confirm"); f.State != "on" || f.Confirm != 0 || !f.Set {
		t.Errorf("confirmed: %+v", f)
	}

	// From outside: the radio's port and SSH's answer, port 23 does not, not
	// even with a refusal.
	for _, guest := range []int{board.BridgePort, board.SSHPort} {
		conn, err := net.Dial("tcp", m.Addr(guest))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write([]byte("SSH-2.0-scan\r\n")); err != nil {
			t.Fatal(err)
		}
		banner, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.HasPrefix(banner, "SSH-2.0-") {
			t.Errorf("port %d says %q, %v", guest, banner, err)
		}
		conn.Close()
	}
	conn, err := net.Dial("tcp", m.Addr(23)) // with QEMU, which asks the gateway
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	await(t, m, "a dropped packet", func(api.Status) bool {
		for _, p := range firewall("").Dropped {
			if p.Port == "tcp/23" && p.Packets > 0 {
				return true
			}
		}
		return false
	})
	// To outside: an echo, and a lease that is asked for anew.
	run(t, m, "ping -c 1 10.0.2.2")
	for _, up := range []bool{false, true} {
		if err := m.SetLink(up); err != nil {
			t.Fatal(err)
		}
		await(t, m, "the link", func(s api.Status) bool { return s.Network != nil && s.Network.Carrier == up })
	}
	await(t, m, "a lease through it", settled)

	if f := firewall("set off"); f.State != "off" || f.Confirm < 50 {
		t.Errorf("set off: %+v", f)
	}
	awaitLog(t, m, "firewall: nobody has confirmed it: as it was before")
	if f := firewall(""); f.State != "on" || !f.Set || f.Confirm != 0 {
		t.Errorf("after a minute %+v", f)
	}
	if out, code, err := m.Console().RunCommand("gwctl firewall confirm", time.Minute); err != nil || code != 1 || !strings.Contains(out, "no change of the firewall waits") {
		t.Errorf("confirmed too late: status %d, %v: %s", code, err, out)
	}
	firewall("allow tcp/8081")
	before := firewall("")
	if before.Confirm == 0 || before.Allow != "tcp/8081" {
		t.Errorf("on trial: %+v", before)
	}
	// A core that is killed takes its trial with it, and the next one leaves
	// the rules of the settings, and what they counted, as they are.
	run(t, m, fmt.Sprintf("kill -9 %d", service(t, status(t, m), "core").PID))
	await(t, m, "core again", settled)
	f := firewall("")
	if f.State != "on" || f.Confirm != 0 || f.Allow != "" {
		t.Errorf("after a crash of core %+v", f)
	}
	run(t, m, "gwctl restart core")
	await(t, m, "core once more", settled)
	if again := firewall(""); again.State != "on" || again.Rules[1].Packets < f.Rules[1].Packets {
		t.Errorf("a restart of core: %+v, before %+v", again, f)
	}
	if got := run(t, m, "gwctl config get gateway.FIREWALL"); got != "1" {
		t.Errorf("FIREWALL=%s", got)
	}
	if w := status(t, m).Warnings; len(w) != 0 {
		t.Errorf("warnings %q", w)
	}
	t.Logf("%s", run(t, m, "gwctl firewall"))
}

// INV 11: today's kernel has no nftables.
func TestFirewallWithout(t *testing.T) {
	t.Parallel()
	m := start(t, func(c *board.Config) {
		path, err := incumbentKernel()
		if err != nil {
			t.Fatal(err)
		}
		c.Kernel = path
	})
	shell(t, m)
	await(t, m, "everything running", settled)
	const none = "this kernel has no nftables"
	if out := run(t, m, "gwctl firewall"); !strings.Contains(out, none) {
		t.Errorf("it says %s", out)
	}
	if out, code, err := m.Console().RunCommand("gwctl firewall set on", time.Minute); err != nil || code != 1 || !strings.Contains(out, none) {
		t.Errorf("set on: status %d, %v: %s", code, err, out)
	}
	run(t, m, "gwctl config set gateway.FIREWALL=1")
	await(t, m, "a warning", func(s api.Status) bool {
		return len(s.Warnings) == 1 && strings.Contains(s.Warnings[0], "there is no firewall, although FIREWALL is set: "+none)
	})
}
