//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// INV 13: the clock goes a year ahead and two back, and neither the lease nor the
// process after it notices.
func TestClockStepsAndTheLease(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	s := await(t, m, "a lease", settled)
	began, lease, addr := s.Uptime, s.Network.Lease, s.Network.Addresses[0]
	const year = 365 * 24 * 3600
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).Unix()
	for i, step := range []int64{0, year, -year} {
		at += step
		run(t, m, fmt.Sprintf("date -s @%d", at))
		if i > 0 {
			run(t, m, "gwctl restart core")
		}
		s = await(t, m, "core's answer", func(s api.Status) bool { return s.Network != nil && s.Network.State == "bound" })
		// QEMU's server grants a day anew when it is asked to confirm a lease.
		// The guest's clock is not the host's, which it may have to catch up with.
		gone := int64(s.Uptime-began) + 2
		if n := s.Network; n.Addresses[0] != addr || n.Lease > 24*3600 || n.Lease < lease-gone {
			t.Errorf("step %d s: %+v, had %d s of the lease %d s ago", step, n, lease, gone)
		}
	}
}

// monitor types at QEMU.
func monitor(t *testing.T, m *board.Machine, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if said, err := m.Monitor(command); err != nil || strings.TrimSpace(said) != "" {
			t.Fatalf("%s: %q, %v", command, said, err)
		}
	}
}

func link(t *testing.T, m *board.Machine, up bool) {
	t.Helper()
	if err := m.SetLink(up); err != nil {
		t.Fatal(err)
	}
}

// The cable goes into another network, with another server, and back.
func TestCableIntoAnotherSubnet(t *testing.T) {
	t.Parallel()
	router := func(n int, net string) []string {
		return []string{fmt.Sprintf("netdev_add user,id=u%d,net=%s", n, net), fmt.Sprintf("netdev_add hubport,id=p%d,hubid=0,netdev=u%d", n, n)}
	}
	m := start(t, func(c *board.Config) {
		c.Forward, c.Netdev = nil, "hubport,hubid=0"
		c.Extra = append(c.Extra, "-netdev", "user,id=u1", "-netdev", "hubport,id=p1,hubid=0,netdev=u1")
	})
	shell(t, m)
	await(t, m, "the first network", settled)
	for i, n := range []struct{ net, addr, gateway string }{
		{"172.16.9.0/24", "172.16.9.15/24", "172.16.9.2"},
		{"10.0.2.0/24", "10.0.2.15/24", "10.0.2.2"},
	} {
		link(t, m, false)
		until := func(want string) {
			t.Helper()
			for end := time.Now().Add(2 * time.Minute); run(t, m, "cat /sys/class/net/eth0/carrier") != want; wait(200 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the carrier is never %s", want)
				}
			}
		}
		until("0")
		monitor(t, m, fmt.Sprintf("netdev_del p%d", i+1), fmt.Sprintf("netdev_del u%d", i+1))
		monitor(t, m, router(i+2, n.net)...)
		link(t, m, true)
		s := await(t, m, "an address of "+n.net, func(s api.Status) bool {
			return settled(s) && len(s.Network.Addresses) > 0 && s.Network.Addresses[0] == n.addr
		})
		if s.Network.Gateway != n.gateway || s.Network.Server != n.gateway {
			t.Errorf("%+v", s.Network)
		}
		if routes := run(t, m, "ip route"); strings.Count(routes, "default") != 1 || !strings.Contains(routes, "default via "+n.gateway+" ") {
			t.Errorf("routes:\n%s", routes)
		}
	}
	t.Logf("the log:\n%s", run(t, m, "gwctl logs core"))
}

// The cable goes out and in ten times a second while everything that looks at the
// link runs: all of it is well afterwards, and the log can be read.
func TestFlappingLink(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	before := await(t, m, "everything running", settled)
	run(t, m, "gwctl config set netwatch.POLL_SEC=5 gateway.ETH_PROFILE=latency")
	await(t, m, "everything running again", settled)
	tick := time.NewTicker(50 * time.Millisecond)
	for i := range 200 {
		<-tick.C
		link(t, m, i%2 == 1)
	}
	tick.Stop()
	s := await(t, m, "the address of before", settled)
	if s.Network.Addresses[0] != before.Network.Addresses[0] || len(s.Warnings) != 0 {
		t.Errorf("%+v, warnings %q", s.Network, s.Warnings)
	}
	if now, was := service(t, s, "core").Restarts, service(t, before, "core").Restarts; now != was {
		t.Errorf("core was started %d times more", now-was)
	}
	// The driver has seen it, if not each time: its card takes half a second
	// to find a link.
	log := run(t, m, "gwctl logs core")
	if n := strings.Count(log, "\n"); !strings.Contains(log, "eth0: link down") || n > 60 {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
	e := ethernet(t, m, "")
	if e.Profile != "latency" || e.Qdisc.Actual != "fq_codel" {
		t.Errorf("%+v", e)
	}
	for _, k := range e.All {
		if k.Failed {
			t.Errorf("%+v", k)
		}
	}
	t.Logf("the log:\n%s", log)
}
