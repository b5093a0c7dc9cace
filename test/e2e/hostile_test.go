//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
	"gwinit/test/hostile"
)

// flood sends frames to the gateway, so many a second, until stop, which returns how
// many there were.
func (w *lan) flood(perSecond int, frame hostile.Frame) (stop func() int) {
	return hostile.Flood(perSecond, frame, func(b []byte) error {
		_, err := w.conn.WriteTo(b, w.gate)
		if err != nil {
			w.t.Error(err)
		}
		return err
	})
}

// A gateway among hosts that mean no good: frames pass the bridge, its address and
// its memory stay, and the services have nothing to do with it.
func TestHostileNetwork(t *testing.T) {
	t.Parallel()
	const (
		perSecond = 300 // the emulated card is full at some 2000 on a busy host
		lasts     = 15 * time.Second
	)
	w, raw := cable(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // for a port that is free
	if err != nil {
		t.Fatal(err)
	}
	bridge := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	kind, rest, _ := strings.Cut(raw, ",")
	m := start(t, func(c *board.Config) {
		c.Forward, c.Netdev = nil, "hubport,hubid=0"
		c.Extra = append(c.Extra,
			"-netdev", "user,id=u1,hostfwd=tcp:"+bridge+"-:8888", "-netdev", "hubport,id=p1,hubid=0,netdev=u1",
			"-netdev", kind+",id=raw,"+rest, "-netdev", "hubport,id=p2,hubid=0,netdev=raw")
	})
	shell(t, m)
	var own6 netip.Addr
	before := await(t, m, "everything running, with IPv6", func(s api.Status) bool {
		if !settled(s) {
			return false
		}
		for _, a := range s.Network.Addresses {
			if p, err := netip.ParsePrefix(a); err == nil && p.Addr().Is6() && p.Addr().IsLinkLocalUnicast() {
				own6 = p.Addr()
			}
		}
		return own6.IsValid()
	})
	own := netip.MustParsePrefix(before.Network.Addresses[0]).Addr()
	radio := wire(t, m)
	go func() { _, _ = io.Copy(radio, radio) }()
	client, err := net.Dial("tcp", bridge)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	trip := func() time.Duration {
		t.Helper()
		began := time.Now()
		b := []byte("a frame to the radio and back")
		if _, err := client.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, b); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	trip()
	// wakes is how often core's threads have been woken.
	wakes := func() (n int) {
		t.Helper()
		text := run(t, m, fmt.Sprintf("grep -h ^voluntary /proc/%d/task/*/status", service(t, before, "core").PID))
		for line := range strings.Lines(text) {
			var k int
			if _, err := fmt.Sscanf(line, "voluntary_ctxt_switches: %d", &k); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			n += k
		}
		return n
	}
	// during floods while frames pass the bridge, and tells what it took. Nothing is
	// another after it.
	during := func(name string, frame hostile.Frame) (frames, woken int) {
		t.Helper()
		woken = -wakes()
		stop := func() int { return 0 }
		if frame != nil {
			stop = w.flood(perSecond, frame)
		}
		var trips []time.Duration
		for began := time.Now(); time.Since(began) < lasts; {
			trips = append(trips, trip())
		}
		woken += wakes()
		frames = stop()
		s := await(t, m, "core's answer", func(s api.Status) bool { return s.Network != nil })
		slices.Sort(trips)
		t.Logf("%s: %d frames, core woken %d times; %d round trips, p50 %v, longest %v; %d KiB available, %d before",
			name, frames, woken, len(trips), trips[len(trips)/2], trips[len(trips)-1], s.Memory.Available, before.Memory.Available)
		if len(trips) < 10 {
			t.Errorf("%s: %d round trips through the bridge in %v", name, len(trips), lasts)
		}
		if s.Memory.Available+4096 < before.Memory.Available {
			t.Errorf("%s: %d KiB available, %d before", name, s.Memory.Available, before.Memory.Available)
		}
		if n := s.Network; n.State != "bound" || n.Addresses[0] != before.Network.Addresses[0] || n.Gateway != before.Network.Gateway {
			t.Errorf("%s: %+v, was %+v", name, n, before.Network)
		}
		for _, svc := range before.Services {
			if now := service(t, s, svc.Name); now.Restarts != svc.Restarts || now.PID != svc.PID {
				t.Errorf("%s: %s is another process: %+v", name, svc.Name, now)
			}
		}
		return frames, woken
	}
	_, calm := during("calm", nil)
	for _, tt := range []struct {
		name  string
		frame hostile.Frame
		table string
	}{
		{"ARP", hostile.ARP(own), "arp_cache"},
		{"ND", hostile.Neighbour(own6), "ndisc_cache"},
	} {
		if frames, woken := during(tt.name, tt.frame); woken > 2*calm+frames/10 { // none of it is for core
			t.Errorf("%s: core was woken %d times by %d frames, and %d times by none", tt.name, woken, frames, calm)
		}
		// How many there are, and were: the kernel drops old ones when it likes.
		var entries, allocs int
		text := run(t, m, "tail -n 1 /proc/net/stat/"+tt.table)
		if _, err := fmt.Sscanf(text, "%x %x", &entries, &allocs); err != nil || allocs < 1000 || entries > 1100 {
			t.Errorf("%s: %d neighbours, %d so far, %v: %q", tt.name, entries, allocs, err, text)
		}
	}

	during("mDNS", hostile.Query(before.Hostname))
	during("routers", hostile.Router)
	await(t, m, "what routers said forgotten", func(s api.Status) bool {
		return s.Network != nil && len(s.Network.Addresses) == 2 && slices.ContainsFunc(s.Warnings, func(w string) bool {
			return strings.Contains(w, "a flood of IPv6 router advertisements")
		}) && slices.Equal(s.Network.DNS, before.Network.DNS)
	})
	var routes int
	text := run(t, m, "cut -d ' ' -f 4 /proc/net/rt6_stats")
	if _, err := fmt.Sscanf(text, "%x", &routes); err != nil || routes > 50 {
		t.Errorf("%d IPv6 routes, %v: %q", routes, err, text)
	}
	log := run(t, m, "gwctl logs core")
	if n := strings.Count(log, "\n"); n > 40 || !strings.Contains(log, "IPv6 routes: forgotten") {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
	// Two minutes later routers are listened to, and the one that is there has not
	// been forgotten for good.
	await(t, m, "the router's address again", func(s api.Status) bool {
		return s.Network != nil && len(s.Network.Addresses) == 3 && len(s.Warnings) == len(before.Warnings)
	})
	trip()
}
