package bench

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/gwctl/bench/iperf"
)

var wiredPath = Path{Address: "192.0.2.5", Interface: "eno1", Kind: wired, SpeedMbit: 1000}

func testSuite() Suite {
	m := measures(rates{tx: "0", rx: "100M"}, 30, 20)
	return Suite{Phases: []Phase{
		{Name: "tcp-rx", Title: "TCP RX", Load: m["rx"].Load, Repeat: 5, Floor: 88},
		{Name: "tcp-tx", Title: "TCP TX", Load: m["tx"].Load, Repeat: 5, Floor: 69},
		{Name: "tcp-stress", Title: "TCP RX, stress"}, // left out
		{Name: "udp-rx", Title: "UDP RX", Load: m["udp-rx"].Load, Repeat: 2},
	}}
}

// steady is a gateway of today's figures.
func steady(l iperf.Load) (float64, error) {
	switch {
	case l.UDP:
		return 41.9, nil
	case l.Reverse:
		return 82.6, nil
	}
	return 93.3, nil
}

func newRelease() *Release {
	return &Release{Label: "v1", Host: Host{OS: "linux/amd64", Name: "pc", IPerf3: "3.12", Path: wiredPath}, Suite: testSuite()}
}

func flagNames(r *Release) (all []string) {
	for _, f := range r.Flags {
		all = append(all, f.Name)
	}
	return all
}

func TestRelease(t *testing.T) {
	runs := 0
	s, b, g := newSession(t, func(l iperf.Load) (float64, error) {
		v, err := steady(l)
		if runs++; runs == 8 { // the third TX: somebody logged in
			v -= 17
		}
		return v + 0.1*float64(runs%3), err
	})
	r := newRelease()
	r.Gateway, _ = b.Facts(t.Context())
	if err := s.release(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := writeRelease(s.dir, r); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(b.log, []string{"enter", "leave"}) || len(g.loads) != 12 || len(r.Flags) != 0 || r.verdict() != "pass" {
		t.Errorf("%v, %d runs, flags %v", b.log, len(g.loads), r.Flags)
	}
	if len(r.Phases) != 3 || len(r.Windows) != 2 || r.Windows[0].Name != windowTCP || r.Windows[1].Name != windowUDP {
		t.Fatalf("%d phases, windows %+v", len(r.Phases), r.Windows)
	}
	tx := r.Phases[1]
	if got := tx.outliers(); !slices.Equal(got, []int{3}) {
		t.Errorf("outliers %v", got)
	}
	if tx.Summary.N != 5 || math.Abs(tx.Summary.Median-82.6) > 1e-9 || tx.Retransmits != 10 || tx.Runs[0].Slowest >= tx.Runs[0].Mbit {
		t.Errorf("TX %+v", tx)
	}
	// Half of the processor for 30 s, and 30 s * 82.6e6 / 8 / 1460 packets a run; a
	// look takes 10 ms and no time of the processor.
	if want := 0.5 * 30e9 / (82.6e6 / 8 / 1460 * 30); math.Abs(tx.Runs[1].NsPerPacket/want-1) > 0.01 {
		t.Errorf("%v ns a packet, want %v", tx.Runs[1].NsPerPacket, want)
	}
	if udp := r.Phases[2]; udp.LostPercent != 50 || udp.Runs[0].Packets != 10 {
		t.Errorf("UDP %+v", udp)
	}
	w := r.Windows[0]
	// RX and TX of ten runs.
	if d := w.DriverPerPacket["isr_cnt"]; math.Abs(d-0.25) > 0.001 || w.Delta.Seconds < 300 || w.Delta.Seconds > 301 {
		t.Errorf("TCP window %+v", w)
	}
	exists(t, s.dir, resultsFile, reportFile, "raw/tcp-rx-01.json", "raw/tcp-tx-05.json", "raw/udp-rx-02.json", "plots/tcp-tx.svg", "plots/distribution.svg")
	text, err := os.ReadFile(filepath.Join(s.dir, reportFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"**PASS**", "Outlier: **TCP TX, run 3**, 65.80 Mbit/s", "| TCP RX | 5 | **93.40** |", "UDP window", "isr_cnt", "attic, board lidl", "iperf3 -c GATEWAY -p 5201 -J -t 30 -R"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	svg, err := os.ReadFile(filepath.Join(s.dir, "plots/tcp-tx.svg"))
	if err != nil {
		t.Fatal(err)
	}
	in := xml.NewDecoder(strings.NewReader(string(svg)))
	for err == nil {
		_, err = in.Token()
	}
	if !errors.Is(err, io.EOF) || !strings.Contains(string(svg), "run 3") {
		t.Errorf("the plot is no SVG that names the outlier: %v", err)
	}
	var again Release
	if err := load(s.dir, resultsFile, &again); err != nil || again.Phases[1].Summary.Median != tx.Summary.Median || again.Format != format {
		t.Errorf("read back %v, %+v", err, again.Phases)
	}
}

func TestReleaseFlags(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(b *box, r *Release, run int)
		slower float64
		fail   int // this run fails
		want   []string
		text   string
	}{
		"floor":         {slower: 20, want: []string{"floor", "floor"}, text: "TCP RX: the median of 73.3 Mbit/s is below the floor of 88.0"},
		"retransmits":   {change: func(b *box, _ *Release, run int) { b.c.SNMP["Tcp.RetransSegs"] = uint64(run) }, want: []string{"retransmits"}, text: "sent 10 segments again"},
		"errors":        {change: func(b *box, _ *Release, _ int) { b.c.Device["rx errors"]++ }, want: []string{"errors"}, text: "rx errors of the interface grew by 10"},
		"drops in UDP":  {change: func(b *box, _ *Release, run int) { b.c.Device["rx drops"] += uint64(run / 11) }},
		"a failed run":  {fail: 4, want: []string{"failed"}, text: "TCP RX, run 4 failed: iperf3: the server is busy"},
		"noise":         {change: func(b *box, r *Release, _ int) { r.Mode.Load.Quiet, r.Mode.Load.CPU = false, 3.2 }, want: []string{"noise"}, text: "3.200 % CPU"},
		"wireless path": {change: func(_ *box, r *Release, _ int) { r.Host.Path.Kind = wireless }, want: []string{"path"}, text: "wireless"},
		"bad checksums": {change: func(b *box, _ *Release, _ int) { b.c.SNMP["Tcp.InCsumErrors"]++ }, want: []string{"errors"}, text: "Tcp.InCsumErrors grew by 10"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelease()
			var b *box
			run := 0
			s, b, _ := newSession(t, func(l iperf.Load) (float64, error) {
				run++
				if tt.change != nil {
					tt.change(b, r, run)
				}
				if run == tt.fail {
					return 0, errors.New("iperf3: the server is busy")
				}
				v, err := steady(l)
				return v - tt.slower, err
			})
			if err := s.release(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			if got := flagNames(r); !slices.Equal(got, tt.want) {
				t.Errorf("flags %v", r.Flags)
			}
			if tt.text != "" && !strings.Contains(r.Flags[0].Text, tt.text) {
				t.Errorf("%q does not say %q", r.Flags[0].Text, tt.text)
			}
			if tt.fail > 0 && (r.Phases[0].Summary.N != 4 || len(r.Phases[0].Runs) != 5) {
				t.Errorf("%+v", r.Phases[0])
			}
			if err := writeRelease(s.dir, r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReleaseAborts(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(b *box, run int) error
		err    string
		runs   int
	}{
		"dirty log": {func(b *box, run int) error {
			if run == 3 {
				b.c.Faults = []string{"WARNING: CPU: 0 PID: 1 at drivers/net"}
			}
			return nil
		}, "TCP RX, run 3: the gateway's kernel log is not clean: WARNING: CPU: 0", 2},
		"restart": {func(b *box, run int) error {
			if run == 3 {
				b.c.At = 5e8
			}
			return nil
		}, "TCP RX, run 3: the gateway was restarted meanwhile", 2},
		"no server": {func(*box, int) error { return errors.New("iperf3: unable to connect to server: Connection refused") }, "TCP RX: 3 runs failed one after the other: iperf3: unable to connect", 3},
		"ctrl-c":    {nil, "context canceled", 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var b *box
			run := 0
			s, b, _ := newSession(t, func(l iperf.Load) (float64, error) {
				run++
				if tt.change == nil && run == 3 {
					cancel()
				}
				if tt.change != nil {
					if err := tt.change(b, run); err != nil {
						return 0, err
					}
				}
				v, _ := steady(l)
				if run == 3 && name == "restart" {
					v = 0.0001 // for its clock to be behind
					l.Seconds = 0
				}
				return v, ctx.Err()
			})
			r := newRelease()
			err := s.release(ctx, r)
			if err == nil || !strings.Contains(err.Error(), tt.err) || b.in {
				t.Errorf("%v, still in bench mode %v", err, b.in)
			}
			if len(r.Phases) != 1 || len(r.Phases[0].Runs) != tt.runs || r.Flags[0].Name != "aborted" || r.verdict() != "aborted" {
				t.Errorf("%+v", r)
			}
			if err := writeRelease(s.dir, r); err != nil {
				t.Error(err)
			}
		})
	}
	s, b, _ := newSession(t, steady)
	b.enterErr = errors.New("a radio client is connected")
	r := newRelease()
	if err := s.release(t.Context(), r); !errors.Is(err, b.enterErr) || len(r.Phases) != 0 {
		t.Errorf("%v", err)
	}
}
