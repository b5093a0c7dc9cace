package netwatch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/incident"
)

// lab is a box with a fake network, in a synctest bubble.
type lab struct {
	*Service
	t     *testing.T
	root  string
	boots int
	began time.Time // of this boot
	stop  func()
	safe  bool

	mu       sync.Mutex // guards what follows
	wall     time.Duration
	link     linkState
	gateways []netip.Addr
	alive    map[netip.Addr]string // how it answers
	lookErr  error
	lookups  map[string][]netip.Addr
	asked    []string // names that were looked up
	rebind   error
	can      bool
	bridge   api.Bridge
	silent   error // of the bridge
	refusal  error // of the reboot
	readOnly error
	method   string
	did      []string
	log      []string
	looks    int
}

var gw = netip.MustParseAddr("10.0.0.1")

// run starts a service on a box that has answered at all times; conf is
// netwatch.conf.
func run(t *testing.T, conf string, test func(l *lab)) {
	root := t.TempDir()
	put(t, filepath.Join(root, "userdata/etc/netwatch.conf"), conf)
	put(t, filepath.Join(root, "proc/net/dev"), "eth0: 1 2 3\n")
	synctest.Test(t, func(t *testing.T) {
		l := &lab{
			t: t, root: root, link: plugged, gateways: []netip.Addr{gw}, alive: map[netip.Addr]string{gw: byEcho},
			lookups: map[string][]netip.Addr{}, method: "dhcp",
		}
		l.boot()
		defer func() { l.stop() }()
		test(l)
	})
}

// cut ends a boot without anything that a clean end does.
func (l *lab) cut() {
	l.set(func() { l.readOnly = errors.New("the power is cut") })
	l.stop()
	l.set(func() { l.readOnly = nil })
}

// boot starts the next boot.
func (l *lab) boot() {
	l.boots++
	put(l.t, filepath.Join(l.root, "proc/sys/kernel/random/boot_id"), fmt.Sprintf("boot-%d\n", l.boots))
	l.began = time.Now().Add(-time.Second)
	l.start()
}

func (l *lab) start() {
	began := l.began
	l.Service = New(Options{
		Root: l.root, Safe: l.safe,
		Renew:   func() { l.note("renew") },
		Bounce:  func() { l.note("bounce") },
		Network: func() api.Network { return api.Network{Interface: "eth0", Method: l.method, State: "bound"} },
		Writable: func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.readOnly
		},
		Box:    (*fakeBox)(l),
		Uptime: func() time.Duration { return time.Since(began) },
		Wall: func() time.Time {
			l.mu.Lock()
			defer l.mu.Unlock()
			return time.Now().Add(l.wall)
		},
		Log: func(line string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.log = append(l.log, fmt.Sprintf("%v %s", time.Since(began), line))
		},
		net: (*fakeNet)(l),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Errorf("Run: %v", err)
		}
	})
}

func (l *lab) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.did = append(l.did, fmt.Sprintf("%s@%v", what, time.Since(l.began).Round(time.Minute)))
}

// set changes the world.
func (l *lab) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// dead and live are the gateway's states.
func (l *lab) dead() { l.set(func() { delete(l.alive, gw) }) }
func (l *lab) live() { l.set(func() { l.alive[gw] = byEcho }) }

// after lets d pass and returns the status then.
func (l *lab) after(d time.Duration) api.Netwatch {
	time.Sleep(d)
	synctest.Wait()
	return l.Status()
}

// want compares what was done since the last want.
func (l *lab) want(did ...string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.did, did) {
		l.t.Errorf("did  %q\nwant %q\nlog:\n%s", l.did, did, strings.Join(l.log, "\n"))
	}
	l.did = nil
}

// said counts the lines of the log that hold part.
func (l *lab) said(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// once wants one line of the log with part.
func (l *lab) once(part string) {
	l.t.Helper()
	if n := l.said(part); n != 1 {
		l.t.Errorf("%q is said %d times, want once:\n%s", part, n, strings.Join(l.log, "\n"))
	}
}

// fakeNet is the lab as a network.
type fakeNet lab

func (n *fakeNet) Look() (linkState, []netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks++
	return n.link, slices.Clone(n.gateways), n.lookErr
}

func (n *fakeNet) Ask(_ context.Context, list []asked) {
	time.Sleep(time.Second) // as long as a real look takes, about
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range list {
		a := &list[i]
		if a.how = n.alive[a.addr]; a.how == byEcho {
			a.rtt = 800
		}
	}
}

func (n *fakeNet) Resolve(_ context.Context, name string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	if a := n.lookups[name]; len(a) > 0 {
		return a, nil
	}
	return nil, errors.New("no such host")
}

func (n *fakeNet) CanRebind() bool { return n.can }

func (n *fakeNet) Rebind() error {
	(*lab)(n).note("rebind")
	return n.rebind
}

// fakeBox is the lab as PID 1.
type fakeBox lab

func (b *fakeBox) Bridge(context.Context) (*api.Bridge, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bridge := b.bridge
	return &bridge, b.silent
}

func (b *fakeBox) Log(context.Context, int) ([]api.LogLine, error) {
	return []api.LogLine{{Mono: 12_500_000_000, Service: "core", Text: "eth0: link up"}}, nil
}

func (b *fakeBox) Reboot(context.Context) error {
	// INV 8: it was written down before.
	if text, err := os.ReadFile(filepath.Join(b.root, BudgetPath)); err != nil || !strings.Contains(string(text), "\nreboot 0\nend") {
		b.t.Errorf("at the reboot the budget holds %q, %v", text, err)
	}
	(*lab)(b).note("reboot")
	return b.refusal
}

const enabled = "ENABLED=1\nMAX_REBOOT=2\n"

func TestReachable(t *testing.T) {
	run(t, enabled, func(l *lab) {
		if st := l.after(time.Second); st.State != "starting" {
			t.Errorf("at first %+v", st)
		}
		st := l.after(time.Hour)
		l.want()
		if st.State != "reachable" || st.By != "target" || st.Failed != 0 || !st.Enabled || st.Problem != "" || st.Poll != 30 || st.Fail != 900 || st.Window != 86400 {
			t.Errorf("%+v", st)
		}
		want := api.NetwatchTarget{Target: "gateway", Address: "10.0.0.1", By: "icmp", Latency: 800, Since: st.Looked}
		if len(st.Targets) != 1 || st.Targets[0] != want || st.Looked < 0 || st.Looked > 31 {
			t.Errorf("%+v, looked %v", st.Targets, st.Looked)
		}
		if len(st.Steps) != 3 || st.Steps[2].Step != "reboot" || st.Steps[2].Next != 900 || st.Steps[2].Most != 2 || st.Steps[0].After != 180 {
			t.Errorf("%+v", st.Steps)
		}
		if len(l.log) != 0 || len(l.Warnings()) != 0 {
			t.Errorf("said %q, warns %q", l.log, l.Warnings())
		}
		if l.looks < 110 || l.looks > 120 {
			t.Errorf("%d looks in an hour", l.looks)
		}
	})
}

func TestLadderToReboot(t *testing.T) {
	run(t, enabled+"MAX_REBOOT=2\n", func(l *lab) {
		l.after(time.Minute)
		l.dead()
		st := l.after(4 * time.Minute)
		l.want("renew@4m0s")
		l.once("netwatch: no answer from gateway 10.0.0.1 for 3m0s: asking the DHCP server again")
		if w := l.Warnings(); st.State != "unreachable" || len(w) != 1 || !strings.Contains(w[0], "nothing has answered for 3m") {
			t.Errorf("%+v, %q", st, w)
		}
		if st.Steps[0].Next != -1 || st.Steps[0].Used != 1 || st.Steps[1].Next < 0 || st.Steps[1].Next > 180 {
			t.Errorf("%+v", st.Steps)
		}
		l.after(3 * time.Minute)
		l.want("bounce@7m0s")
		l.after(10 * time.Minute)
		l.want("reboot@16m0s")
		st = l.Status()
		if r := st.Steps[2]; r.Used != 1 || r.Most != 2 || st.Incidents != 1 {
			t.Errorf("%+v", st)
		}
		// It comes back: no word about the budget, one about the end.
		l.live()
		l.after(time.Minute)
		l.once("there is an answer again, after 17m")
	})
}

// Over real ends of boots there are as many reboots as the budget has, and then
// it says so and stays up.
func TestRebootLoop(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.dead()
		for i := range 5 {
			l.after(14 * time.Minute)
			l.want("renew@3m0s", "bounce@6m0s")
			l.after(3 * time.Minute)
			if i < 2 {
				l.want("reboot@15m0s")
			} else {
				l.want()
				l.once("no reboot, the budget is spent (2 in 24 h)")
			}
			if i%2 == 0 {
				l.stop()
			} else {
				l.cut()
			}
			l.log = nil
			l.boot()
			l.after(time.Second)
			l.once(fmt.Sprintf("%d of 2 reboots in 24 h are spent", min(i+1, 2)))
		}
		// The window is over at last: no sooner than 24 h after.
		l.after(23 * time.Hour)
		if n := l.said(": rebooting"); n != 0 {
			t.Errorf("%d reboots within the window", n)
		}
		l.after(2 * time.Hour)
		if n := l.said(": rebooting"); n != 2 {
			t.Errorf("%d reboots in the next window, want 2:\n%s", n, strings.Join(l.log, "\n"))
		}
		if n := l.Status().Incidents; n != incident.Most {
			t.Errorf("%d incidents", n)
		}
	})
}

func TestOffByDefault(t *testing.T) {
	run(t, "", func(l *lab) {
		l.dead()
		l.after(24 * time.Hour)
		if n := l.said("reboot"); n != 0 {
			t.Errorf("reboots are spoken of %d times", n)
		}
		renews, bounces := 0, 0
		for _, d := range l.did {
			if strings.HasPrefix(d, "renew") {
				renews++
			} else if strings.HasPrefix(d, "bounce") {
				bounces++
			} else {
				t.Errorf("did %s", d)
			}
		}
		if renews != mildLimit[stepRenew] || bounces != mildLimit[stepLink] {
			t.Errorf("%d renewals, %d bounces in a day", renews, bounces)
		}
		l.once("no link, the budget is spent (8 in 24 h)")
		if _, err := os.Stat(filepath.Join(l.root, "userdata/netwatch")); err == nil {
			t.Error("flash was written")
		}
		// The next day has its own.
		l.set(func() { l.did = nil })
		l.after(2 * time.Hour)
		if len(l.did) == 0 {
			t.Error("nothing is tried any more")
		}
	})
}

func TestSafeBoot(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.stop()
		l.safe = true
		l.start()
		l.dead()
		if st := l.after(20 * time.Minute); st.Enabled || len(st.Steps) != 2 {
			t.Errorf("%+v", st)
		}
		l.want("renew@3m0s", "bounce@6m0s", "renew@18m0s")
	})
}

func TestDryRun(t *testing.T) {
	run(t, enabled+"DRY_RUN=1\n", func(l *lab) {
		l.dead()
		st := l.after(time.Hour)
		l.want()
		l.once("not asking the DHCP server again, because DRY_RUN is set")
		l.once("not setting the link down and up, because DRY_RUN is set")
		l.once("not rebooting, because DRY_RUN is set")
		if st.Incidents != 1 || st.Steps[2].Used != 0 {
			t.Errorf("%+v", st)
		}
		// Each outage is told, and only some take flash.
		for range 6 {
			l.live()
			l.after(2 * time.Minute)
			l.dead()
			l.after(20 * time.Minute)
		}
		if n := l.said("not rebooting"); n != 7 {
			t.Errorf("told %d times", n)
		}
		all, err := l.Incidents(api.IncidentParams{})
		if err != nil || len(all) != incident.Most || all[0].Number != mildLimit[toldSnapshots] {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

// What DRY_RUN tells is what would be: nothing, where the budget is spent.
func TestDryRunWithoutBudget(t *testing.T) {
	run(t, enabled+"DRY_RUN=1\nMAX_REBOOT=0\n", func(l *lab) {
		l.dead()
		l.after(time.Hour)
		l.want()
		l.once("not setting the link down and up, because DRY_RUN is set")
		l.once("no reboot, the budget is spent (0 in 24 h)")
		if n := l.said("not rebooting"); n != 0 {
			t.Errorf("a reboot that could not be was told %d times", n)
		}
	})
}

// INV 8: no reboot where it cannot be written down.
func TestNoRebootWithoutBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(l *lab)
		said  string
	}{
		{"no flash", func(l *lab) { l.set(func() { l.readOnly = errors.New("no JFFS2 is mounted on /userdata") }) }, "no reboot, no JFFS2 is mounted"},
		{"torn", func(l *lab) { put(l.t, filepath.Join(l.root, BudgetPath), "gwinit netwatch bud") }, "is damaged, so no hard step is taken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run(t, enabled, func(l *lab) {
				l.after(time.Minute)
				tt.spoil(l)
				l.dead()
				st := l.after(time.Hour)
				l.once(tt.said)
				if n := l.said("rebooting"); n != 0 {
					t.Error("it rebooted")
				}
				if st.Problem == "" || !slices.ContainsFunc(l.Warnings(), func(w string) bool { return strings.Contains(w, "cannot reboot") }) {
					t.Errorf("%+v, %q", st, l.Warnings())
				}
			})
		})
	}
}

// INV 13: steps of the clock change nothing.
func TestClockSteps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, by := range []time.Duration{year, -year, -60 * year} {
		run(t, enabled, func(l *lab) {
			l.dead()
			l.after(5 * time.Minute)
			l.set(func() { l.wall += by })
			l.after(5 * time.Minute)
			l.want("renew@3m0s", "bounce@6m0s")
			l.set(func() { l.wall -= 2 * by })
			l.after(6 * time.Minute)
			l.want("reboot@15m0s")
			l.set(func() { l.wall += by })
			l.cut()
			l.boot()
			l.after(16 * time.Minute)
			l.want("renew@3m0s", "bounce@6m0s", "reboot@15m0s")
			l.stop()
			l.boot()
			l.after(16 * time.Minute)
			l.want("renew@3m0s", "bounce@6m0s")
		})
	}
}

func TestOneTargetIsEnough(t *testing.T) {
	run(t, enabled+"TARGETS=\"10.0.0.7 fe80::7 nas.lan gateway\"\n", func(l *lab) {
		far := netip.MustParseAddr("10.0.0.9")
		l.set(func() {
			l.lookups["nas.lan"] = []netip.Addr{far, netip.MustParseAddr("fd00::9"), netip.MustParseAddr("fd00::10")}
		})
		l.dead()
		l.set(func() { l.alive[far] = byARP })
		st := l.after(time.Hour)
		l.want()
		var got []string
		for _, a := range st.Targets {
			got = append(got, a.Target+"="+a.Address+"="+a.By)
		}
		want := []string{"10.0.0.7=10.0.0.7=", "fe80::7=fe80::7%eth0=", "nas.lan=10.0.0.9=arp", "nas.lan=fd00::9=", "gateway=10.0.0.1="}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if n := len(l.asked); n > 2 {
			t.Errorf("the name was looked up %d times in an hour", n)
		}

		// The host moves: nobody answers, so the name is asked again.
		near := netip.MustParseAddr("10.0.0.10")
		l.set(func() {
			delete(l.alive, far)
			l.lookups["nas.lan"], l.alive[near] = []netip.Addr{near}, byEcho
		})
		l.after(3 * time.Minute)
		l.want()
		if st := l.Status(); st.State != "reachable" || st.Failed != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A name that nobody knows is somebody who does not answer, and is asked for
// now and then; what it meant before stays.
func TestNamesWithoutResolver(t *testing.T) {
	run(t, "TARGETS=nas.lan\n", func(l *lab) {
		st := l.after(4 * time.Minute)
		l.want("renew@3m0s")
		if len(st.Targets) != 1 || st.Targets[0].Problem != "no such host" || st.Targets[0].Address != "" {
			t.Errorf("%+v", st.Targets)
		}
		if n := len(l.asked); n < 3 || n > 5 {
			t.Errorf("looked up %d times in 4 minutes", n)
		}
		l.set(func() { l.lookups["nas.lan"] = []netip.Addr{gw} })
		if st := l.after(2 * time.Minute); st.State != "reachable" {
			t.Errorf("%+v", st)
		}
		l.set(func() { delete(l.lookups, "nas.lan") })
		l.dead()
		if st := l.after(5 * time.Minute); st.State != "unreachable" || st.Targets[0].Address != "10.0.0.1" {
			t.Errorf("%+v", st)
		}
		l.live()
		if st := l.after(time.Minute); st.State != "reachable" {
			t.Errorf("%+v", st)
		}
	})
}

// The default route is read every time.
func TestGatewayChanges(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.after(time.Minute)
		other := netip.MustParseAddr("10.9.0.1")
		l.set(func() {
			l.gateways = []netip.Addr{other}
			l.alive = map[netip.Addr]string{other: byND}
		})
		if st := l.after(time.Minute); st.State != "reachable" || st.Targets[0].Address != "10.9.0.1" || st.Targets[0].By != "nd" {
			t.Errorf("%+v", st)
		}
		l.set(func() { l.gateways = nil })
		if st := l.after(time.Minute); st.State != "unreachable" || st.Targets[0].Address != "" {
			t.Errorf("%+v", st)
		}
		l.after(3 * time.Minute)
		l.once("no answer from gateway for 3m")
	})
}

func TestNobodyToAsk(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.set(func() { l.gateways = nil })
		if st := l.after(time.Hour); st.State != "no-target" {
			t.Errorf("%+v", st)
		}
		l.want()
	})
}

func TestCable(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.dead()
		l.after(10 * time.Minute)
		l.want("renew@3m0s", "bounce@6m0s")
		l.set(func() { l.link = unplugged })
		l.NetworkChanged()
		if st := l.after(10 * time.Second); st.State != "unplugged" || st.Failed != 0 {
			t.Errorf("%+v", st)
		}
		l.once("the cable is out, after 9m")
		l.after(time.Hour)
		l.want()
		l.set(func() { l.link = plugged })
		l.NetworkChanged()
		if st := l.after(4 * time.Second); st.State != "unreachable" || st.Looked > 2 {
			t.Errorf("%+v", st)
		}
	})
}

// A radio client whose bytes move is on this network.
func TestClient(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.set(func() { l.bridge.Client = &api.BridgeClient{Addr: "192.168.1.10:5000"} })
		l.dead()
		for range 60 {
			l.set(func() { l.bridge.RxBytes += 40 })
			l.after(30 * time.Second)
		}
		l.want()
		if st := l.Status(); st.State != "reachable" || st.By != "client" || st.Failed != 0 {
			t.Errorf("%+v", st)
		}
		// It stands still, which proves nothing.
		l.after(4 * time.Minute)
		l.want("renew@33m0s")
		// It leaves, another one comes, with less bytes.
		l.set(func() { l.bridge = api.Bridge{} })
		l.after(time.Minute)
		l.set(func() {
			l.bridge = api.Bridge{RxBytes: 10, Client: &api.BridgeClient{Addr: "[fd00::10]:5000"}}
		})
		l.after(time.Minute)
		l.set(func() { l.bridge.TxBytes++ })
		if st := l.after(time.Minute); st.Failed > 50 {
			t.Errorf("%+v", st)
		}
	})
	// One on the box itself says nothing about the network, nor does a bridge
	// that does not answer.
	for _, spoil := range []func(l *lab){
		func(l *lab) { l.bridge.Client = &api.BridgeClient{Addr: "127.0.0.1:5000"} },
		func(l *lab) { l.silent = errors.New("bridge does not answer") },
		func(l *lab) {},
	} {
		run(t, enabled, func(l *lab) {
			l.set(func() { spoil(l) })
			l.dead()
			for range 8 {
				l.set(func() { l.bridge.RxBytes += 40 })
				l.after(30 * time.Second)
			}
			l.want("renew@3m0s")
		})
	}
}

func TestDriver(t *testing.T) {
	run(t, enabled, func(l *lab) {
		put(t, filepath.Join(l.root, "userdata/etc/gateway.conf"), "GW_NETWATCH_DRIVER=1\n")
		l.stop()
		l.start()
		l.set(func() { l.can, l.rebind = true, errors.New("bind the driver again: no such device") })
		l.dead()
		l.after(10 * time.Minute)
		l.want("renew@3m0s", "bounce@6m0s", "rebind@9m0s")
		l.once("driver: bind the driver again: no such device")
		// The interface is gone: no failure of the cable, so the box reboots.
		l.set(func() { l.link, l.can = absent, false })
		l.after(6 * time.Minute)
		l.want("reboot@15m0s")
		l.once("eth0 has no link, and nobody has answered for 15m0s: rebooting")
		text, err := os.ReadFile(filepath.Join(l.root, BudgetPath))
		if err != nil || !strings.Contains(string(text), "\ndriver 360") || !strings.Contains(string(text), "\nreboot 0\nend 2\n") {
			t.Errorf("%q, %v", text, err)
		}
	})
	run(t, enabled, func(l *lab) { // not without being asked for
		l.set(func() { l.can = true })
		l.dead()
		l.after(10 * time.Minute)
		l.want("renew@3m0s", "bounce@6m0s")
	})
}

// A reboot that PID 1 refuses is tried again, as far as the budget goes.
func TestRebootRefused(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.set(func() { l.refusal = errors.New("the box is shutting down already") })
		l.dead()
		l.after(time.Hour)
		if n := l.said("reboot: the box is shutting down already"); n != 2 {
			t.Errorf("refused %d times", n)
		}
		l.once("no reboot, the budget is spent")
	})
}

// What cannot be looked at is neither good nor bad, and said once.
func TestLookFails(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.after(time.Minute)
		l.set(func() { l.lookErr = errors.New("read link eth0: no buffer space") })
		l.dead()
		l.after(time.Hour)
		l.want()
		l.once("netwatch: read link eth0: no buffer space")
	})
}

func TestStaticHasNoRenewal(t *testing.T) {
	run(t, "", func(l *lab) {
		put(t, filepath.Join(l.root, "userdata/etc/eth0.conf"), "IPADDR=10.0.0.2\nNETMASK=255.255.255.0\nGATEWAY=10.0.0.1\n")
		l.stop()
		l.start()
		l.dead()
		l.after(7 * time.Minute)
		l.want("bounce@6m0s")
	})
}

// The shortest times: every step comes at its own.
func TestShortTimes(t *testing.T) {
	run(t, "ENABLED=1\nFAIL_MIN=1\nPOLL_SEC=3600\n", func(l *lab) {
		l.set(func() { l.did = nil })
		l.dead()
		l.after(90 * time.Second)
		var got []string
		for _, line := range l.log {
			at, _, _ := strings.Cut(line, " ")
			got = append(got, at)
		}
		// The first look is 10 s after the start and takes a second.
		if want := []string{"24s", "36s", "1m12s", "1m29s"}; !slices.Equal(got, want) {
			t.Errorf("steps at %q, want %q:\n%s", got, want, strings.Join(l.log, "\n"))
		}
	})
}

func TestIncident(t *testing.T) {
	run(t, enabled, func(l *lab) {
		l.set(func() { l.bridge = api.Bridge{Listen: "[::]:8888", LastClose: "192.168.1.10 left"} })
		l.after(time.Minute)
		l.dead()
		l.after(16 * time.Minute)
		all, err := l.Incidents(api.IncidentParams{})
		if err != nil || len(all) != 1 || all[0].Number != 1 || all[0].Text != "" {
			t.Fatalf("%+v, %v", all, err)
		}
		// A bubble's clock begins in 2000, which no box believes.
		if want := "the clock is not set, no answer from gateway 10.0.0.1 for 15m0s: rebooting"; all[0].Summary != want {
			t.Errorf("%q, want %q", all[0].Summary, want)
		}
		one, err := l.Incidents(api.IncidentParams{Number: 1})
		if err != nil || len(one) != 1 {
			t.Fatalf("%+v, %v", one, err)
		}
		for _, want := range []string{
			all[0].Summary + "\nboot boot-1, up 16m", "== netwatch\n{", `"target":"gateway"`, `"failedSeconds":90`, `"state":"bound"`,
			"192.168.1.10 left", "== /proc/net/dev\neth0: 1 2 3\n", "12.5s core: eth0: link up", "== kernel log\n",
		} {
			if !strings.Contains(one[0].Text, want) {
				t.Errorf("no %q in\n%s", want, one[0].Text)
			}
		}
		if _, err := l.Incidents(api.IncidentParams{Number: 2}); err == nil || !strings.Contains(err.Error(), "gwctl incidents") {
			t.Errorf("one that is not there: %v", err)
		}
	})
}

// The quota holds, whatever else is in the folder, and the numbers go on.
func TestIncidentQuota(t *testing.T) {
	run(t, enabled, func(l *lab) {
		dir := filepath.Join(l.root, incident.Dir)
		for _, name := range []string{"7.txt", "notes", "08.txt", "-1.txt", ".9.txt.new", "99999999999999999999.txt"} {
			put(t, filepath.Join(dir, name), "old\n")
		}
		for range 6 {
			if err := l.keep(make([]byte, maxIncident)); err != nil {
				t.Fatal(err)
			}
		}
		if got := l.numbers(); !slices.Equal(got, []int{10, 11, 12, 13}) {
			t.Errorf("%v", got)
		}
		l.set(func() { l.readOnly = errors.New("read-only") })
		if err := l.keep([]byte("x")); err == nil {
			t.Error("kept on what cannot be written")
		}
	})
}
