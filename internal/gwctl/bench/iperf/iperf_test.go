package iperf

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func report(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Reports of iperf 3.12 against itself over the loopback.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		file, protocol        string
		reverse               bool
		mbit, seconds         float64
		retransmits           int
		packets, lost, second int
		percent, jitter       float64
		hostCPU               float64
	}{
		{"tcp.json", "TCP", false, 2489.789813, 1.027607, 5, 0, 0, 2535, 0, 0, 7.0739400},
		{"tcpr.json", "TCP", true, 2157.677955, 1.001593, 4, 0, 0, 2157, 0, 0, 4.4526885},
		{"udp.json", "UDP", false, 99.490456, 1.001249, -1, 382, 2, 100, 0.523560, 0.024181, 2.3356398},
		{"udpr.json", "UDP", true, 40.890539, 1.000096, -1, 20680, 20524, 40, 99.245648, 0.037939, 0.1915544},
	} {
		r, err := Parse(report(t, tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		for what, v := range map[string][2]float64{
			"Mbit/s": {r.Mbit, tt.mbit}, "seconds": {r.Seconds, tt.seconds}, "lost": {r.LostPercent, tt.percent},
			"jitter": {r.JitterMs, tt.jitter}, "host CPU": {r.HostCPU, tt.hostCPU},
		} {
			if math.Abs(v[0]-v[1]) > 1e-6 {
				t.Errorf("%s: %s %v, want %v", tt.file, what, v[0], v[1])
			}
		}
		if r.Version != "3.12" || r.Protocol != tt.protocol || r.Reverse != tt.reverse || r.Retransmits != tt.retransmits || r.Packets != tt.packets || r.Lost != tt.lost {
			t.Errorf("%s: %+v", tt.file, r)
		}
		if len(r.Intervals) != 1 || int(r.Intervals[0]) != tt.second {
			t.Errorf("%s: intervals %v", tt.file, r.Intervals)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	tcp := string(report(t, "tcp.json"))
	for name, tt := range map[string]struct{ raw, err string }{
		"nothing":         {"", "report: unexpected end"},
		"no JSON":         {"iperf3: error - no route", "report: invalid character"},
		"an error":        {`{"start":{},"end":{},"error":"error - unable to connect to server: Connection refused"}`, "iperf3: unable to connect to server: Connection refused"},
		"an error behind": {strings.TrimSuffix(strings.TrimSpace(tcp), "}") + `,"error":"the server is busy running a test. try again later"}`, "iperf3: the server is busy"},
		"no end":          {`{"start":{"test_start":{"protocol":"TCP"}},"end":{}}`, "does not say what was received"},
		"nothing arrived": {`{"start":{"test_start":{"protocol":"TCP"}},"end":{"sum_received":{"seconds":1,"bits_per_second":0}}}`, "nothing arrived"},
		"SCTP":            {`{"start":{"test_start":{"protocol":"SCTP"}},"end":{"sum_received":{"seconds":1,"bits_per_second":5}}}`, "neither TCP nor UDP"},
		"cut short":       {strings.Replace(tcp, `"duration":	1,`, `"duration":	30,`, 1), "ended after 1.0 of 30 s"},
		"lost too many":   {`{"start":{"test_start":{"protocol":"UDP"}},"end":{"sum_received":{"seconds":1,"bits_per_second":5,"lost_packets":3,"packets":2}}}`, "3 of 2 packets"},
	} {
		if _, err := Parse([]byte(tt.raw)); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", name, err, tt.err)
		}
	}
	// Words before the report, and one of before 3.10.
	if r, err := Parse([]byte("warning: x\n" + tcp)); err != nil || r.Retransmits != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	// All but the first of 16 were lost, which the receiver does not know.
	tail, err := Parse([]byte(`{"start":{"test_start":{"protocol":"UDP"}},"end":{"sum_sent":{"seconds":2,"packets":16},"sum_received":{"seconds":2,"bits_per_second":5,"packets":1}}}`))
	if err != nil || tail.Lost != 15 || tail.LostPercent != 93.75 || tail.Packets != 16 {
		t.Errorf("%+v, %v", tail, err)
	}
	r, err := Parse([]byte(`{"start":{"version":"iperf 3.7","test_start":{"protocol":"UDP"}},"end":{"sum":{"seconds":10,"bits_per_second":100e6,"lost_packets":56,"packets":100,"lost_percent":56}}}`))
	if err != nil || math.Abs(r.Mbit-44) > 1e-9 || r.Lost != 56 || r.Version != "3.7" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestArgs(t *testing.T) {
	for _, tt := range []struct {
		l    Load
		want string
	}{
		{Load{Seconds: 30}, "-c gw -p 5201 -J -t 30"},
		{Load{Seconds: 30, Reverse: true, Streams: 4}, "-c gw -p 5201 -J -t 30 -R -P 4"},
		{Load{Seconds: 20, UDP: true, Reverse: true, Bitrate: "0", Extra: []string{"-l", "1400"}}, "-c gw -p 5201 -J -t 20 -u -R -b 0 -l 1400"},
	} {
		if got := tt.l.Args("gw", 5201); !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestClient(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, _, err := (Client{}).Run(t.Context(), Load{Seconds: 1}, "127.0.0.1", 1); !errors.Is(err, ErrAbsent) {
		t.Errorf("without iperf3: %v", err)
	}
	if _, err := (Client{}).Version(t.Context()); !errors.Is(err, ErrAbsent) {
		t.Errorf("without iperf3: %v", err)
	}
	if _, err := (Client{Path: "/bin/echo"}).Version(t.Context()); err == nil || !strings.Contains(err.Error(), "/bin/echo is no iperf3") {
		t.Errorf("echo: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"tcp.json", "tcpr.json", "udp.json", "udpr.json"} {
		f.Add(report(f, name))
	}
	f.Add([]byte(`{"error":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := Parse(raw)
		if err != nil {
			return
		}
		if !(r.Mbit > 0) || r.Lost < 0 || r.LostPercent < 0 || r.LostPercent > 100 || r.Protocol != "TCP" && r.Protocol != "UDP" {
			t.Errorf("%+v", r)
		}
	})
}
