package core

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev/netlab"
	"gwinit/services/clock"
	"gwinit/services/eth"
	"gwinit/services/eth/tune"
	"gwinit/services/netwatch"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// The link goes down and up ten times a second for 5 s, with all running that
// looks at it: nobody takes a step for it, floods the log or stays behind.
func TestFlapping(t *testing.T) {
	root := netlab.Root(t)
	peer := netlab.Cable(t, "eth0", "srv0")
	peer.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "srv0")
	dir := t.TempDir()
	peer.Start("dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--no-ping", "--port=0", "--no-resolv",
		"--interface=srv0", "--bind-interfaces", "--dhcp-authoritative", "--dhcp-range=10.7.0.50,10.7.0.60,1h",
		"--dhcp-leasefile="+dir+"/leases", "--pid-file="+dir+"/pid")
	for name, text := range map[string]string{
		"mac_address": "02:00:00:00:00:01\n", "netwatch.conf": "POLL_SEC=5\nFAIL_MIN=1\n", "gateway.conf": "ETH_KNOBS=\"tx_queue_len=100\"\n",
		"ntp.conf": "server 10.7.0.1\n",
	} {
		if err := os.WriteFile(filepath.Join(root, "userdata/etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var lines []string
	log := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
		t.Log(line)
	}
	var watch *netwatch.Service
	var timing *clock.Service
	network := eth.New(eth.Options{
		Root: root, Log: log, SetHostname: func(string) error { return nil }, Userdata: func() bool { return true },
		Changed: func() { watch.NetworkChanged(); timing.NetworkChanged() },
	})
	watch = netwatch.New(netwatch.Options{
		Root: root, Log: log, Renew: network.Renew, Bounce: network.Bounce, Network: network.Status, Writable: func() error { return nil },
	})
	timing = clock.New(clock.Options{Root: root, Log: log, Clock: still{}, Network: network.NTP})
	tuner := tune.New(tune.Options{Root: root, Log: log})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{network.Run, watch.Run, timing.Run, tuner.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer running.Wait()
	defer stop()
	until := func(limit time.Duration, what string, ok func() bool) {
		t.Helper()
		poll := time.NewTicker(50 * time.Millisecond)
		defer poll.Stop()
		for began := time.Now(); !ok(); <-poll.C {
			if time.Since(began) > limit {
				t.Fatalf("not %s after %v: %+v, %+v", what, limit, network.Status(), watch.Status())
			}
		}
	}
	reachable := func() bool {
		n := watch.Status()
		return n.State == "reachable" && len(n.Targets) > 0 && n.Targets[0].Address == "10.7.0.1"
	}
	until(30*time.Second, "bound", func() bool { return network.Status().State == "bound" })
	until(30*time.Second, "reachable", reachable)
	addr := network.Status().Addresses[0]
	mu.Lock()
	before := len(lines)
	mu.Unlock()

	peer.Run("sh", "-c", `for i in $(seq 50); do ip link set srv0 down; sleep 0.05; ip link set srv0 up; sleep 0.05; done`)
	until(30*time.Second, "bound again", func() bool { n := network.Status(); return n.Carrier && n.State == "bound" })
	looked := time.Now()
	until(30*time.Second, "looked at again", func() bool {
		return reachable() && time.Since(looked) > time.Duration(watch.Status().Looked+1)*time.Second
	})
	if got := network.Status().Addresses[0]; got != addr {
		t.Errorf("address %s, was %s", got, addr)
	}
	for _, step := range watch.Status().Steps {
		if step.Used != 0 {
			t.Errorf("%+v", step)
		}
	}
	if k := tuner.Status().All; !tuned(k) {
		t.Errorf("knobs %+v", k)
	}
	said := func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(lines[before:], "\n")
	}
	until(30*time.Second, "told as a whole", func() bool { return strings.Contains(said(), " changes in ") })
	if n := strings.Count(said(), "\n"); n > 20 {
		t.Errorf("%d lines in the log for it", n)
	}
}

// tuned tells whether the knob that the settings name is as they say.
func tuned(all []api.EthKnob) bool {
	for _, k := range all {
		if k.Name == "tx_queue_len" {
			return k.Actual == "100" && !k.Failed
		}
	}
	return false
}

// still is a clock that nobody may set.
type still struct{}

func (still) Now() time.Time                   { return time.Now() }
func (still) Step(time.Time) error             { panic("set") }
func (still) Slew(_, _, _ time.Duration) error { panic("slewed") }
func (still) Synchronised() (bool, error)      { return false, nil }
