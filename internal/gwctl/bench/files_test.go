package bench

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/gwctl/bench/stats"
)

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A gateway's own files.
const (
	procDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0: 4294967000  101    2    3    4     5          6         7     1234     202    8    9   10    11      12         13
`
	procSNMP = `Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 120
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 5 17 1 0 2
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
Udp: 10 0 1 12 1 0
`
)

func TestCounters(t *testing.T) {
	d, err := parseDevice(procDev, "eth0")
	if err != nil || d["rx bytes"] != 4294967000 || d["rx errors"] != 2 || d["rx multicast"] != 7 || d["tx packets"] != 202 || d["tx compressed"] != 13 || d["tx collisions"] != 11 {
		t.Errorf("%v, %v", d, err)
	}
	for text, want := range map[string]string{"": "no interface eth0", "eth0: 1 2": "2 columns", "eth0:" + strings.Repeat(" x", 16): `rx bytes of eth0 is "x"`} {
		if _, err := parseDevice(text, "eth0"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	s, err := parseSNMP(procSNMP)
	if err != nil || s["Tcp.RetransSegs"] != 17 || s["Udp.RcvbufErrors"] != 1 || s["Tcp.InCsumErrors"] != 2 || s["Ip.InReceives"] != 120 {
		t.Errorf("%v, %v", s, err)
	}
	if _, there := s["Tcp.MaxConn"]; there {
		t.Error("a count of -1")
	}
	for _, text := range []string{"", "Tcp: A\n", "Tcp: A B\nTcp: 1", "Tcp: A\nUdp: 1"} {
		if _, err := parseSNMP(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	a := Counters{At: 1e9, Total: 100, Busy: 50, Device: map[string]uint64{"rx packets": 100, "rx bytes": 1<<32 - 10, "rx errors": 3}}
	b := Counters{At: 3e9, Total: 300, Busy: 150, Device: map[string]uint64{"rx packets": 1100, "rx bytes": 90, "rx errors": 3, "tx packets": 1000}}
	delta, err := between(a, b)
	if err != nil || delta.Seconds != 2 || delta.Busy != 0.5 || delta.Device["rx bytes"] != 100 || delta.Device["rx packets"] != 1000 {
		t.Errorf("%+v, %v", delta, err)
	}
	if _, there := delta.Device["rx errors"]; there {
		t.Error("what did not change is told")
	}
	if got := delta.nsPerPacket(); got != 0.5*2e9/2000 {
		t.Errorf("%v ns a packet", got)
	}
	if (Delta{Busy: 1, Seconds: 1}).nsPerPacket() != 0 {
		t.Error("no packet takes time")
	}
	delta.add(Delta{Seconds: 6, Busy: 1, Device: map[string]uint64{"tx packets": 1}})
	if delta.Seconds != 8 || delta.Busy != 0.875 || delta.Device["tx packets"] != 1001 {
		t.Errorf("the sum %+v", delta)
	}
	if _, err := between(b, a); err == nil {
		t.Error("a restart is not seen")
	}
}

func FuzzCounters(f *testing.F) {
	f.Add(procDev, procSNMP)
	f.Fuzz(func(t *testing.T, dev, snmp string) {
		if d, err := parseDevice(dev, "eth0"); err == nil && len(d) != len(devNames) {
			t.Errorf("%d columns", len(d))
		}
		if s, err := parseSNMP(snmp); err == nil {
			for name := range s {
				if !strings.Contains(name, ".") {
					t.Errorf("a counter %q", name)
				}
			}
		}
	})
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		text          string
		series, pairs int
		err           string
	}{
		{"68.7 70.1 69.0", 3, 0, ""},
		{"# TX\n68.7\n70.1 # a login\n\n69.0\n", 3, 0, ""},
		{"(89.1 91.1)(89.9, 90.8)", 0, 2, ""},
		{"89.1;91.1\n89.9,90.8\n", 0, 2, ""},
		{"89.1 91.1", 2, 0, ""},
		{"+0.6 -0.5 4e-1", 3, 0, ""},
		{"", 0, 0, "no numbers"},
		{"1 2\n3 4 5\n", 0, 0, "neither a series nor pairs"},
		{"1 x", 0, 0, `line 1: "x" is no number`},
		{"1\nNaN", 0, 0, `line 2: "NaN" is no number`},
		{"Inf", 0, 0, "is no number"},
	} {
		series, pairs, err := parseNumbers([]byte(tt.text))
		if len(series) != tt.series || len(pairs) != tt.pairs || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%q: %v, %v, %v", tt.text, series, pairs, err)
		}
	}
	if _, _, err := parseNumbers([]byte(strings.Repeat("1 ", mostNumbers+1))); err == nil {
		t.Error("too many are taken")
	}
}

func FuzzNumbers(f *testing.F) {
	f.Add([]byte("68.7 70.1 # x\n(1 2)(3 4)"), 0.5)
	f.Fuzz(func(t *testing.T, b []byte, bar float64) {
		series, pairs, err := parseNumbers(b)
		if err != nil || len(series)+len(pairs) > 200 || math.IsNaN(bar) || math.IsInf(bar, 0) {
			return
		}
		n, err := figure(series, pairs, false, 0, &bar)
		if err == nil && n.Series == nil && n.Paired == nil {
			t.Error("no statistics and no error")
		}
		if err == nil && len(encoded(t, n)) == 0 {
			t.Error("not told")
		}
	})
}

func TestFigure(t *testing.T) {
	bar := 0.7
	_, pairs, _ := parseNumbers([]byte("(69.1 69.4)(68.5 69.4)(68.2 69.7)(68.3 69.8)(68.6 69.3)"))
	n, err := figure(nil, pairs, false, 0, &bar)
	if err != nil || n.Verdict != stats.NotCleared || math.Abs(n.Paired.Mean-0.98) > 1e-9 || n.Decide < 6 {
		t.Errorf("%+v, %v", n, err)
	}
	if n, err := figure([]float64{0.6, 0.5, 0.4, 1.3}, nil, true, 0, nil); err != nil || math.Abs(n.Paired.Mean-0.7) > 1e-9 || n.Verdict != "" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := figure(nil, pairs, true, 0, nil); err == nil {
		t.Error("pairs are no differences")
	}
	if _, err := figure([]float64{1}, nil, true, 0, nil); err == nil {
		t.Error("one pair has an interval")
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := newFolder(dir); err != nil {
		t.Fatal(err)
	}
	if err := newFolder(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("twice: %v", err)
	}
	if _, _, err := stored(dir); err == nil || !strings.Contains(err.Error(), "holds no plan") {
		t.Errorf("%v", err)
	}
	p := testPlan(kindAB, 4, "old", "new")
	if err := keep(dir, planFile, p); err != nil {
		t.Fatal(err)
	}
	if q, s, err := stored(dir); err != nil || q.Rounds != 4 || len(s.Attempts) != 0 {
		t.Errorf("%+v, %+v, %v", q, s, err)
	}
	for name, text := range map[string]string{
		"torn":            `{"format":1,"attem`,
		"of another plan": `{"format":1,"attempts":[{"round":7}]}`,
		"out of order":    `{"format":1,"attempts":[{"round":1,"cells":[{"point":0}]}]}`,
		"done, not whole": `{"format":1,"attempts":[{"round":0,"done":true,"cells":[{"point":0}]}]}`,
		"newer":           `{"format":2}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := stored(dir); err == nil || !strings.Contains(err.Error(), stateFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, ".gwctl-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind %v, %v", left, err)
	}
}

// measured is a release that was carried out.
func measured(t *testing.T, change func(r *Release)) (string, *Release) {
	t.Helper()
	s, _, _ := newSession(t, steady)
	r := newRelease()
	r.Gateway, _ = s.box.Facts(t.Context())
	if err := s.release(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	change(r)
	if err := writeRelease(s.dir, r); err != nil {
		t.Fatal(err)
	}
	return s.dir, r
}

func TestCompareReleases(t *testing.T) {
	old, _ := measured(t, func(*Release) {})
	for name, tt := range map[string]struct {
		change   func(r *Release)
		obstacle string
		note     string
	}{
		"another kernel":  {func(r *Release) { r.Label, r.Gateway.Kernel = "v2", "7.2.8" }, "", "kernel: 6.18.54, then 7.2.8"},
		"another day":     {func(r *Release) { r.Started = r.Started.Add(100 * time.Hour) }, "", "4.2 days lie between them"},
		"another iperf3":  {func(r *Release) { r.Host.IPerf3 = "3.7" }, "iperf3 differs: 3.12 and 3.7", ""},
		"another path":    {func(r *Release) { r.Host.Path.SpeedMbit = 100 }, "the interface's speed differs: 1000 and 100", ""},
		"another board":   {func(r *Release) { r.Gateway.Board = "sengled" }, "the board differs", ""},
		"longer runs":     {func(r *Release) { r.Phases[0].Load.Seconds = 60 }, "how TCP RX was measured differs", ""},
		"aborted":         {func(r *Release) { r.Aborted = "x"; r.flag() }, "v1: it is not whole: x", ""},
		"wireless":        {func(r *Release) { r.Host.Path.Kind = wireless; r.flag() }, "the kind of path differs", ""},
		"below its floor": {func(r *Release) { r.Phases[0].Floor = 99; r.flag() }, "", "v1 is flagged: TCP RX: the median"},
		"no UDP":          {func(r *Release) { r.Phases = r.Phases[:2] }, "UDP RX was not measured by both", ""},
		"services ran on": {func(r *Release) { r.Mode.Stopped = r.Mode.Stopped[:1] }, "what bench mode stopped differs", ""},
	} {
		dir, _ := measured(t, tt.change)
		c, err := compareFolders(old, dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := c.text()
		if (len(c.Obstacles) > 0) != (tt.obstacle != "") || !strings.Contains(text, tt.obstacle) || !strings.Contains(text, tt.note) || strings.Contains(text, "may not") != (tt.obstacle != "") {
			t.Errorf("%s:\n%s", name, text)
		}
		if !strings.Contains(text, "no evidence of its cause") || len(c.Rows) < 4 {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

func TestCompareResults(t *testing.T) {
	make := func(kind string, seed float64, points ...string) string {
		p := testPlan(kind, 6, points...)
		if kind == kindNull {
			p.Hook = ""
		}
		l := newLab(t, p, map[string]float64{"old": 90 + seed, "new": 92 + seed, "x": 90 + seed})
		l.random.Uint64()
		if err := l.carry(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := evaluate(p, l.state)
		if err := writeResult(l.s.dir, &r); err != nil {
			t.Fatal(err)
		}
		return l.s.dir
	}
	a, b := make(kindAB, 0, "old", "new"), make(kindAB, 5, "old", "new")
	c, err := compareFolders(a, b)
	if err != nil || len(c.Obstacles) > 0 || len(c.Rows) != 2 || math.Abs(c.Rows[0].Difference) > 0.5 || !strings.Contains(c.text(), "the reference itself differs by +") {
		t.Errorf("%v\n%s", err, c.text())
	}
	if c, err = compareFolders(a, make(kindAB, 0, "new", "old")); err != nil || !strings.Contains(c.text(), "the reference differs: old and new") {
		t.Errorf("%v\n%s", err, c.text())
	}
	n := make(kindNull, 0, "x")
	if c, err = compareFolders(n, make(kindNull, 3, "x")); err != nil || len(c.Rows) != 2 || !strings.Contains(c.text(), "the sessions themselves differ by +") {
		t.Errorf("%v\n%s", err, c.text())
	}
	if _, err = compareFolders(a, n); err == nil || !strings.Contains(err.Error(), "nothing to compare") {
		t.Errorf("%v", err)
	}
	if _, err = compareFolders(a, t.TempDir()); err == nil {
		t.Error("an empty folder is compared")
	}
}
