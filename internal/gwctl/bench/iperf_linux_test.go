package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/gwctl/bench/iperf"
	"gwinit/internal/gwctl/bench/stats"
	"gwinit/internal/netdev/netlab"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// here is a gateway that is this network namespace, with iperf3's own server.
type here struct {
	t    *testing.T
	port int
}

func (h here) Facts(context.Context) (Facts, error) { return Facts{Interface: "eth0"}, nil }

func (h here) Enter(context.Context) (Mode, error) { return Mode{Port: h.port}, nil }
func (h here) Leave(context.Context) error         { return nil }

func (h here) Counters(context.Context) (c Counters, err error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return c, err
	}
	c.At = now.Nano()
	dev, err1 := os.ReadFile("/proc/thread-self/net/dev")
	snmp, err2 := os.ReadFile("/proc/thread-self/net/snmp")
	if err1 != nil || err2 != nil {
		return c, fmt.Errorf("%w, %w", err1, err2)
	}
	if c.Device, err = parseDevice(string(dev), "eth0"); err != nil {
		return c, err
	}
	c.SNMP, err = parseSNMP(string(snmp))
	return c, err
}

// cable is two namespaces with a cable of 100 Mbit/s between them, and iperf3's server
// at this end.
func cable(t *testing.T) *session {
	t.Helper()
	pc := netlab.Cable(t, "eth0", "pc0")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.1/24", "dev", "eth0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	pc.Run("ip", "addr", "add", "10.7.0.2/24", "dev", "pc0")
	netlab.Start(t, "iperf3", "-s", "-B", "10.7.0.1")
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); !strings.Contains(netlab.Run(t, "ss", "-nlt"), ":5201"); <-poll.C {
		if time.Since(began) > 30*time.Second {
			t.Fatal("iperf3 never listens")
		}
	}
	dir := t.TempDir()
	if err := newFolder(dir); err != nil {
		t.Fatal(err)
	}
	client := iperf.Client{Prefix: []string{"nsenter", "-t", pc.PID(), "-n", "--"}}
	return &session{box: here{t, 5201}, load: client, host: "10.7.0.1", dir: dir, say: t.Logf}
}

// The whole of a release with real iperf3 at both ends of a cable, and the kernel's
// own counters.
func TestReleaseByIperf3(t *testing.T) {
	s := cable(t)
	m := measures(rates{tx: "20M", rx: "10M", length: 1400}, 1, 1)
	r := newRelease()
	r.Suite = Suite{GapSeconds: 0.1, MaxRetransmits: 1 << 30, Phases: []Phase{
		{Name: "tcp-rx", Title: "TCP RX", Load: m["rx"].Load, Repeat: 3},
		{Name: "tcp-tx", Title: "TCP TX", Load: m["tx"].Load, Repeat: 3},
		{Name: "udp-tx", Title: "UDP TX", Load: m["udp-tx"].Load, Repeat: 2},
		{Name: "udp-rx", Title: "UDP RX", Load: m["udp-rx"].Load, Repeat: 2},
	}}
	if err := s.release(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := writeRelease(s.dir, r); err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Phases {
		if p.Summary == nil || p.Summary.N != p.Repeat {
			t.Fatalf("%s: %+v", p.Title, p)
		}
		// Each payload byte has passed the interface, in the right direction.
		for i, run := range p.Runs {
			counter := "rx bytes"
			if p.Load.Reverse {
				counter = "tx bytes"
			}
			payload := run.Mbit * 1e6 / 8 * 0.9
			if got := float64(run.Delta.Device[counter]); got < payload {
				t.Errorf("%s, run %d: %s grew by %.0f, payload was %.0f", p.Title, i+1, counter, got, payload)
			}
			if run.Raw == "" {
				t.Error("no report is kept")
			}
		}
	}
	// The rate that was asked for, which any machine makes.
	if v := r.Phases[3].Summary.Median; v > 10.5 {
		t.Errorf("%v of 10 Mbit/s of UDP arrived", v)
	}
	if n := r.Windows[1].Delta.SNMP["Udp.InDatagrams"]; n == 0 || r.Windows[0].Delta.SNMP["Tcp.OutSegs"] == 0 {
		t.Errorf("windows %+v", r.Windows)
	}
	exists(t, s.dir, reportFile, resultsFile, "plots/udp-tx.svg", "raw/udp-tx-02.json")
}

// Two points of which one is really faster: the queue of this end lets less through.
func TestABByIperf3(t *testing.T) {
	s := cable(t)
	m := measures(rates{}, 1, 1)
	p := &Plan{Format: format, Kind: kindAB, Points: []string{"30mbit", "60mbit"}, Rounds: 4, Repeat: 1, Measures: []Measure{m["tx"]}, GapSeconds: 0.1, Hook: "tc {}", Bar: 5, Replays: 5, Registered: time.Now()}
	p.Order = order(2, 4)
	st := &State{Format: format}
	put := func(_ context.Context, rate string) error {
		netlab.Run(t, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16k", "latency", "50ms")
		return nil
	}
	if err := s.paired(t.Context(), p, st, put, func() error { return keep(s.dir, stateFile, st) }); err != nil {
		t.Fatal(err)
	}
	r := evaluate(p, st)
	if len(r.Comparisons) != 1 {
		t.Fatalf("%+v", r)
	}
	if c := r.Comparisons[0]; c.Verdict != stats.Cleared || c.Paired.Mean < 15 || c.Paired.Sign.Up != 4 {
		t.Errorf("%s, %+v", c.Verdict, c.Paired)
	}
	if err := writeResult(s.dir, &r); err != nil {
		t.Fatal(err)
	}
	exists(t, s.dir, reportFile, "plots/B-tcp-tx.svg")
}

func TestRoutes(t *testing.T) {
	root := netlab.Root(t)
	netlab.Run(t, "ip", "link", "set", "lo", "up")
	if p, err := findPath(t.Context(), root, "127.0.0.1"); err != nil || p.Kind != loopback || p.Interface != "lo" || p.Routed || p.Address != "127.0.0.1" || p.fit() != nil {
		t.Errorf("this computer: %+v, %v", p, err)
	}
	netlab.Cable(t, "eth0", "pc0")
	netlab.Run(t, "ip", "addr", "add", "10.7.0.1/24", "dev", "eth0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	netlab.Run(t, "ip", "route", "add", "10.9.0.0/24", "via", "10.7.0.2")
	if p, err := findPath(t.Context(), root, "10.7.0.2"); err != nil || p.Kind != wired || p.Interface != "eth0" || p.fit() != nil {
		t.Errorf("on the link: %+v, %v", p, err)
	}
	if p, err := findPath(t.Context(), root, "10.9.0.1"); err != nil || !p.Routed || p.Via != "10.7.0.2" || p.fit() == nil {
		t.Errorf("behind a router: %+v, %v", p, err)
	}
	if _, err := findPath(t.Context(), root, "10.8.0.1"); err == nil {
		t.Error("there is no way there")
	}
}
