package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gwinit/internal/gwctl/bench/iperf"
)

// box is a gateway that counts what passes, and what it is told.
type box struct {
	now      time.Time
	c        Counters
	in       bool
	enters   int
	log      []string // what happened
	load     Load
	enterErr error
	look     func() error // before counters are read
}

func newBox() *box {
	b := &box{now: time.Unix(1_800_000_000, 0), load: Load{CPU: 0.01, Wakeups: 0.5, Quiet: true}}
	b.c = Counters{At: 1e9, Device: map[string]uint64{}, SNMP: map[string]uint64{}, Driver: map[string]uint64{}, Kernel: "6.18.54"}
	return b
}

func (b *box) Facts(context.Context) (Facts, error) {
	return Facts{Version: "1.0", Board: "lidl", Hostname: "attic", Interface: "eth0", SpeedMbit: 100, Driver: "rtl8196e-eth 2.24"}, nil
}

func (b *box) Enter(context.Context) (Mode, error) {
	if b.in {
		return Mode{}, errors.New("entered twice")
	}
	b.enters++
	b.log = append(b.log, "enter")
	if b.enterErr != nil {
		return Mode{}, b.enterErr
	}
	b.in = true
	load := b.load
	return Mode{Port: 5201, Profile: "bench", Door: "nftables", Stopped: []string{"bridge", "sshd"}, Load: &load}, nil
}

func (b *box) Leave(context.Context) error {
	if b.in {
		b.log = append(b.log, "leave")
	}
	b.in = false
	return nil
}

func (b *box) Counters(context.Context) (Counters, error) {
	if !b.in {
		return Counters{}, errors.New("it is not in bench mode")
	}
	if b.look != nil {
		if err := b.look(); err != nil {
			return Counters{}, err
		}
	}
	b.c.At += 1e7 // what looking takes
	b.c.Total++
	c := b.c
	c.Device, c.SNMP, c.Driver = clone(b.c.Device), clone(b.c.SNMP), clone(b.c.Driver)
	return c, nil
}

func clone(m map[string]uint64) map[string]uint64 {
	to := map[string]uint64{}
	for k, v := range m {
		to[k] = v
	}
	return to
}

// pass is a run of so many seconds: packets of 1500 bytes, half of the processor.
func (b *box) pass(l iperf.Load, mbit float64) {
	n := uint64(mbit * 1e6 / 8 / 1460 * float64(l.Seconds))
	to := "rx packets"
	if l.Reverse {
		to = "tx packets"
	}
	b.c.Device[to] += n
	b.c.Driver["isr_cnt"] += n / 4
	b.c.At += int64(l.Seconds) * 1e9
	b.c.Total += uint64(l.Seconds) * 100
	b.c.Busy += uint64(l.Seconds) * 50
	b.now = b.now.Add(time.Duration(l.Seconds) * time.Second)
}

// traffic is an iperf3 that reports what speed says.
type traffic struct {
	b     *box
	speed func(l iperf.Load) (mbit float64, err error)
	loads []iperf.Load
}

func (g *traffic) Run(ctx context.Context, l iperf.Load, host string, port int) (iperf.Report, []byte, error) {
	if !g.b.in || host != "gw" || port != 5201 {
		return iperf.Report{}, nil, fmt.Errorf("asked for %s port %d, in bench mode %v", host, port, g.b.in)
	}
	g.loads = append(g.loads, l)
	v, err := g.speed(l)
	if err != nil {
		return iperf.Report{}, []byte(`{"error":"x"}`), err
	}
	g.b.pass(l, v)
	protocol, more := "TCP", `"retransmits":2`
	if l.UDP {
		protocol, more = "UDP", `"lost_packets":5,"packets":10,"jitter_ms":0.1`
	}
	raw := fmt.Appendf(nil, `{"start":{"version":"iperf 3.12","test_start":{"protocol":%q,"duration":%d}},"intervals":[{"sum":{"bits_per_second":%g}},{"sum":{"bits_per_second":%g}}],"end":{"sum_sent":{"seconds":%d,%s},"sum_received":{"seconds":%d,"bits_per_second":%g,%s},"cpu_utilization_percent":{"host_total":3}}}`,
		protocol, l.Seconds, v*1e6, v*1e6-1e6, l.Seconds, more, l.Seconds, v*1e6, more)
	r, err := iperf.Parse(raw)
	return r, raw, err
}

// newSession is one with a folder and without pauses.
func newSession(t *testing.T, speed func(l iperf.Load) (float64, error)) (*session, *box, *traffic) {
	t.Helper()
	b := newBox()
	g := &traffic{b: b, speed: speed}
	dir := filepath.Join(t.TempDir(), "out")
	if err := newFolder(dir); err != nil {
		t.Fatal(err)
	}
	return &session{box: b, load: g, host: "gw", dir: dir, say: t.Logf}, b, g
}

func exists(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		if info, err := os.Stat(filepath.Join(dir, n)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", n, err)
		}
	}
}
