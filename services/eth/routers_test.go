package eth

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// More routes than a gateway can hold: what routers said is forgotten, and they are
// not listened to for two minutes, or until the cable is elsewhere.
func TestRouterFlood(t *testing.T) {
	conf := "proc/sys/net/ipv6/conf/eth0/"
	run(t, nil, func(l *lab, _ *Options) {
		if err := os.MkdirAll(filepath.Join(l.root, conf), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"accept_ra", "disable_ipv6"} {
			if err := os.WriteFile(filepath.Join(l.root, conf, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}, func(l *lab) {
		l.bound()
		accept := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := file(t, l.root, conf+"accept_ra"); got != want {
				t.Errorf("%s: accept_ra %q, want %s", when, got, want)
			}
			if w := l.Warnings(); (len(w) == 1) != (want == "0") {
				t.Errorf("%s: warnings %q", when, w)
			}
		}
		addr := l.Status().Addresses[0]
		l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::53"))
		l.kernel.SetRoutes6(512)
		accept("as many as there may be", "2")
		if got := file(t, l.root, conf+"disable_ipv6"); got != "" {
			t.Errorf("disable_ipv6 %q", got)
		}
		l.kernel.SetRoutes6(513)
		accept("one too many", "0")
		if n := l.Status(); n.Addresses[0] != addr || n.State != "bound" || slices.Contains(n.DNS, "fd00::53") {
			t.Errorf("%+v", n)
		}
		if got := file(t, l.root, resolvFile); strings.Contains(got, "fd00::53") {
			t.Errorf("resolv.conf %q", got)
		}
		if got := file(t, l.root, conf+"disable_ipv6"); got != "0" { // 1, and then 0
			t.Errorf("disable_ipv6 %q", got)
		}
		// What was on its way when the kernel was told to listen no more.
		l.kernel.Advertise("eth0", time.Hour, netip.MustParseAddr("fd00::54"))
		if n := l.after(time.Second); slices.Contains(n.DNS, "fd00::54") {
			t.Errorf("a router is listened to: %v", n.DNS)
		}
		l.kernel.SetRoutes6(7)
		l.kernel.Calls()
		l.after(shunFor - 2*time.Second)
		accept("1 s before the end", "0")
		l.after(time.Second)
		accept("at the end", "2")
		if calls := l.kernel.Calls(); !slices.Contains(calls, "solicit") {
			t.Errorf("routers are not asked: %q", calls)
		}

		// It goes on: two minutes more.
		l.kernel.SetRoutes6(2000)
		l.after(time.Second)
		accept("again", "0")
		l.after(shunFor)
		accept("still", "0")
		if n := l.count("IPv6 routes: forgotten"); n != 3 {
			t.Errorf("logged %d times", n)
		}
		// The cable goes elsewhere.
		l.kernel.SetRoutes6(9)
		l.after(time.Second)
		accept("before", "0")
		l.kernel.Flap("eth0")
		l.after(time.Second)
		accept("elsewhere", "2")
	})
}
