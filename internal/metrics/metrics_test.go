package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/metrics/metricstest"
)

// full is a gateway of which everything is known.
func full() Sample {
	st := &api.Status{
		Version: "0.1.0-abc", Board: api.Board{ID: "lidl"}, BootMode: "normal", Uptime: 7400.5, Wall: 1767366245123e6, Hostname: `a"\b` + "\n",
		Memory: api.Memory{Total: 25492, Free: 9120, Available: 11468}, Userdata: api.Userdata{State: "mounted", Total: 12288, Free: 10035},
		Network:  &api.Network{Interface: "eth0", Carrier: true, SpeedMbit: 100, Method: "dhcp", State: "bound", Addresses: []string{"192.0.2.50/24"}, Lease: 43100, Conflicts: []api.Conflict{{}}},
		Clock:    &api.Clock{State: api.ClockSynced, Source: "192.0.2.1", Stratum: 2, Offset: -0.0012, Error: 0.02, Since: 12},
		Radio:    api.Radio{Owner: "bridge", Mode: "zigbee", Baud: 115200, Flow: "hw", Engine: "user", Released: 1.5},
		Bridge:   &api.Bridge{UARTOpen: true, Client: &api.BridgeClient{Since: 7385}, Pending: 1, RxBytes: 1 << 40, TxBytes: 307200, Discarded: 2, TxDropped: 3, QueueDropped: 4, Connects: 5, Takeovers: 6, Refused: 7, NotAllowed: 8, SSH: 9, Contentions: 10, Stalls: 11, XOFFs: 12, FrameErrors: 13, ParityErrors: 14, Overruns: 15, BufOverruns: 16},
		Services: []api.Service{{Name: "bridge", State: "running", PID: 51, Since: 7399, Restarts: 2, CPU: 15.25, RSS: 3212, Anon: 604}, {Name: "sshd", State: "idle", Since: 3}},
		Warnings: []string{"x"},
	}
	w := &api.BridgeWatch{Bridge: *st.Bridge}
	w.FromRadio = api.BridgeFlow{Queued: 1, QueueMost: 2, QueueSize: 3, Held: 4, HeldSeconds: 5.5, HeldLongest: 6.5, LatencySeconds: 0.125, Latency: []uint32{1, 0, 0, 0, 0, 2, 3}, ASH: api.ASHCounter{Data: 1, Resent: 2, Ack: 3, Nak: 4, Rst: 5, RstAck: 6, Error: 7, CRC: 8, Invalid: 9}}
	w.ToRadio = api.BridgeFlow{Latency: make([]uint32, api.LatencyBuckets)}
	w.ToRadio.Latency[api.LatencyBuckets-1] = 7
	e := &api.Ethernet{Interface: "eth0", Traffic: api.EthTraffic{RxBytes: 1, TxBytes: 2, RxPackets: 3, TxPackets: 4, RxErrors: 5, TxErrors: 6, RxDropped: 7, TxDropped: 8}, Qdisc: api.EthQdisc{Drops: 9, Backlog: 10}, Counters: []api.EthCounter{{Name: "rx_desc_full", Value: 3}}}
	n := &api.Netwatch{
		State: "reachable", Failed: 4, Incidents: 2, Targets: []api.NetwatchTarget{
			{Target: "gateway", Address: "192.0.2.1", By: "icmp", Latency: 1500}, {Target: "gateway", Address: "fe80::1", By: "nd"}, {Target: "192.0.2.9"}, {Target: "192.0.2.9", By: "arp"},
		},
		Steps: []api.NetwatchStep{{Step: "renew", Used: 1, Most: 6}},
	}
	return Sample{st, w, e, n, &api.SSH{Open: 2, Logins: 3, Failed: 4, Aborted: 5}}
}

// parsed is the text of s, read as Prometheus would.
func parsed(t *testing.T, s Sample) map[string]float64 {
	t.Helper()
	families, err := metricstest.Parse(string(Append(nil, s)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, Append(nil, s))
	}
	all := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.Name, Prefix) {
			t.Errorf("%s does not begin with %s", f.Name, Prefix)
		}
		for series, v := range f.Samples {
			all[series] = v
		}
	}
	return all
}

func TestAppend(t *testing.T) {
	got := parsed(t, full())
	for series, want := range map[string]float64{
		`gateway_build_info{version="0.1.0-abc",board="lidl",hostname="a\"\\b\n",boot_mode="normal"}`: 1,
		`gateway_uptime_seconds`:                                                        7400.5,
		`gateway_time_seconds`:                                                          1767366245.123,
		`gateway_memory_available_bytes`:                                                11468 << 10,
		`gateway_userdata_free_bytes`:                                                   10035 << 10,
		`gateway_radio_released_seconds`:                                                1.5,
		`gateway_service_state{service="bridge",state="running"}`:                       1,
		`gateway_service_restarts_total{service="bridge"}`:                              2,
		`gateway_service_cpu_seconds_total{service="bridge"}`:                           15.25,
		`gateway_service_resident_memory_bytes{service="bridge"}`:                       3212 << 10,
		`gateway_clock_offset_seconds`:                                                  -0.0012,
		`gateway_clock_synchronised`:                                                    1,
		`gateway_network_up{interface="eth0"}`:                                          1,
		`gateway_network_speed_bytes{interface="eth0"}`:                                 12.5e6,
		`gateway_network_rx_bytes_total{interface="eth0"}`:                              1,
		`gateway_network_tx_dropped_total{interface="eth0"}`:                            8,
		`gateway_network_queue_dropped_total{interface="eth0"}`:                         9,
		`gateway_network_driver{interface="eth0",counter="rx_desc_full"}`:               3,
		`gateway_bridge_rx_bytes_total`:                                                 1 << 40,
		`gateway_bridge_client_connected`:                                               1,
		`gateway_bridge_contentions_total`:                                              10,
		`gateway_bridge_line_errors_total{kind="buffer_overrun"}`:                       16,
		`gateway_bridge_held_seconds_total{direction="rx"}`:                             5.5,
		`gateway_bridge_ash_frames_total{direction="rx",type="rstack"}`:                 6,
		`gateway_bridge_ash_resent_frames_total{direction="rx"}`:                        2,
		`gateway_bridge_ash_crc_errors_total{direction="tx"}`:                           0,
		`gateway_bridge_latency_seconds_bucket{direction="rx",le="3.2e-05"}`:            3,
		`gateway_bridge_latency_seconds_bucket{direction="rx",le="6.4e-05"}`:            6,
		`gateway_bridge_latency_seconds_bucket{direction="rx",le="4.194304"}`:           6,
		`gateway_bridge_latency_seconds_bucket{direction="rx",le="+Inf"}`:               6,
		`gateway_bridge_latency_seconds_sum{direction="rx"}`:                            0.125,
		`gateway_bridge_latency_seconds_count{direction="rx"}`:                          6,
		`gateway_bridge_latency_seconds_bucket{direction="tx",le="4.194304"}`:           0,
		`gateway_bridge_latency_seconds_count{direction="tx"}`:                          7,
		`gateway_netwatch_state{state="reachable"}`:                                     1,
		`gateway_netwatch_target_up{target="192.0.2.9",address=""}`:                     0,
		`gateway_netwatch_target_latency_seconds{target="gateway",address="192.0.2.1"}`: 0.0015,
		`gateway_netwatch_steps{step="renew"}`:                                          1,
		`gateway_incidents`:                                                             2,
		`gateway_ssh_connections`:                                                       0, // its process is gone
		`gateway_ssh_failed_logins_total`:                                               4,
	} {
		v, ok := got[series]
		if !ok {
			t.Errorf("no %s", series)
		} else if v != want {
			t.Errorf("%s is %v, want %v", series, v, want)
		}
	}
	if _, there := got[`gateway_service_cpu_seconds_total{service="sshd"}`]; there {
		t.Error("processor time of a service without a process")
	}
	if _, there := got[`gateway_netwatch_target_latency_seconds{target="192.0.2.9",address=""}`]; there {
		t.Error("latency of a target that does not answer")
	}
}

// What is not known has no series, and what is left is well-formed.
func TestAppendLittle(t *testing.T) {
	if b := Append(nil, Sample{}); len(b) != 0 {
		t.Errorf("of nothing: %s", b)
	}
	got := parsed(t, Sample{Status: &api.Status{Services: []api.Service{{Name: "core", State: "backoff"}}}})
	for series := range got {
		for _, part := range []string{"bridge_", "network_", "clock_", "ssh_", "netwatch_", "time_seconds", "userdata_free"} {
			if strings.HasPrefix(series, Prefix+part) {
				t.Errorf("%s of a gateway whose services do not answer", series)
			}
		}
	}
	s := full()
	s.Status.Bridge = &api.Bridge{RxBytes: 5, Kernel: &api.BridgeKernel{DropsErr: 1, DropsTx: 2, XOFF: 3, TxPauseTimeouts: 4}}
	s.Bridge.Engine = "kernel"
	got = parsed(t, s)
	if got[`gateway_bridge_kernel_dropped_bytes_total{direction="tx"}`] != 2 || got["gateway_bridge_rx_bytes_total"] != 5 || got["gateway_bridge_xoffs_undone_total"] != 4 {
		t.Errorf("the kernel's bridge: %v", got)
	}
	if _, there := got[`gateway_bridge_latency_seconds_count{direction="rx"}`]; there {
		t.Error("latency of the kernel's bridge, which does not measure it")
	}
	s = full()
	s.Status.Services[1].PID = 7
	if got = parsed(t, s); got["gateway_ssh_connections"] != 2 {
		t.Errorf("SSH connections: %v", got["gateway_ssh_connections"])
	}
}

// The documentation has every family, and no other.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(gateway_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = true
	}
	s := full()
	text := Append(nil, s)
	s.Status.Bridge.Kernel = &api.BridgeKernel{}
	text = append(text, Append(nil, s)...)
	made := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(string(text), -1) {
		made[m[1]] = true
		if !documented[m[1]] {
			t.Errorf("docs/metrics.md does not have %s", m[1])
		}
	}
	for name := range documented {
		if !made[name] && name != "gateway_up" && name != "gateway_scrape_seconds" {
			t.Errorf("docs/metrics.md has %s, which nothing makes", name)
		}
	}
}

// Prometheus' own checker has nothing to say.
func TestPromtool(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	promtool := filepath.Join(cache, "gwinit/prometheus/usr/bin/promtool")
	if _, err := os.Stat(promtool); err != nil {
		t.Fatalf("%v; test/deps/deps.sh test unpacks it", err)
	}
	cmd := exec.Command(promtool, "check", "metrics")
	cmd.Stdin = strings.NewReader(string(Append(nil, full())))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// asker answers from a sample, and refuses what it does not have.
func asker(s Sample, asked *[]string) Asker {
	return func(_ context.Context, op string, args any) (json.RawMessage, error) {
		var v any
		name := op
		if c, is := args.(api.CallArgs); is {
			name = filepath.Join(c.Service, c.Method)
		}
		*asked = append(*asked, name)
		switch name {
		case "status":
			v = s.Status
		case "bridge/watch":
			v = s.Bridge
		case "core/eth":
			v = s.Ethernet
		case "core/netwatch":
			v = s.Netwatch
		case "core/ssh":
			return nil, &api.Error{Code: api.CodeFailed, Message: "core has no method ssh"}
		}
		return json.Marshal(v)
	}
}

// A service that refuses is left out; one that PID 1 got no status of is not asked.
func TestCollect(t *testing.T) {
	s := full()
	var asked []string
	got, err := Collect(t.Context(), asker(s, &asked))
	if err != nil || got.SSH != nil || got.Bridge == nil || got.Netwatch == nil || got.Ethernet == nil {
		t.Errorf("%+v, %v", got, err)
	}
	s.SSH = nil
	if want := Append(nil, s); string(Append(nil, got)) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", Append(nil, got), want)
	}
	asked = nil
	if _, err := Collect(t.Context(), asker(Sample{Status: &api.Status{}}, &asked)); err != nil || strings.Join(asked, " ") != "status" {
		t.Errorf("asked %q, %v", asked, err)
	}
	gone := errors.New("gone")
	if _, err := Collect(t.Context(), func(context.Context, string, any) (json.RawMessage, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
	// A connection that ends within is no gateway without a bridge.
	n := 0
	if _, err := Collect(t.Context(), func(ctx context.Context, op string, args any) (json.RawMessage, error) {
		if n++; n == 2 {
			return nil, gone
		}
		return asker(s, &asked)(ctx, op, args)
	}); !errors.Is(err, gone) {
		t.Errorf("%v", err)
	}
}

// What core knows itself is what it says when it is asked.
func TestCollectLocal(t *testing.T) {
	s := full()
	var asked []string
	want, err := Collect(t.Context(), asker(s, &asked))
	if err != nil {
		t.Fatal(err)
	}
	// A warning of each, of which PID 1 knows one.
	want.Status.Warnings = []string{"PID 1's", "core's"}
	want.Bridge.Warnings, want.Status.Bridge = []string{"the bridge's"}, &want.Bridge.Bridge
	want.Status.Radio.Baud, want.Status.Radio.Flow = want.Bridge.Baud, want.Bridge.Flow
	own := s
	status := *s.Status
	status.Network, status.Clock, status.Bridge, status.Warnings = nil, nil, nil, []string{"PID 1's"}
	bridge := *s.Bridge
	bridge.Warnings = want.Bridge.Warnings
	own.Status, own.Bridge = &status, &bridge
	asked = nil
	got, err := CollectLocal(t.Context(), asker(own, &asked), Local{
		Network: s.Status.Network, Clock: s.Status.Clock, Warnings: []string{"core's"}, Ethernet: want.Ethernet, Netwatch: want.Netwatch, SSH: want.SSH,
	})
	if err != nil || strings.Join(asked, " ") != "status bridge/watch" {
		t.Errorf("asked %q, %v", asked, err)
	}
	want.Status.Warnings = append(want.Status.Warnings, "the bridge's")
	if got, want := string(Append(nil, got)), string(Append(nil, want)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A bridge that does not answer is left out, and nothing else.
	got, err = CollectLocal(t.Context(), asker(Sample{Status: &status}, &asked), Local{Network: s.Status.Network})
	if err != nil || got.Bridge != nil || got.Status.Bridge != nil || got.Status.Network == nil {
		t.Errorf("%+v, %v", got, err)
	}
	gone := errors.New("gone")
	for fails := 1; fails <= 2; fails++ {
		n := 0
		if _, err := CollectLocal(t.Context(), func(ctx context.Context, op string, args any) (json.RawMessage, error) {
			if n++; n == fails {
				return nil, gone
			}
			return asker(own, &asked)(ctx, op, args)
		}, Local{}); !errors.Is(err, gone) {
			t.Errorf("question %d: %v", fails, err)
		}
	}
}

func TestBounds(t *testing.T) {
	all := strings.Fields(bounds)
	if len(all) != lastBucket-firstBucket+1 {
		t.Fatalf("%d bounds", len(all))
	}
	for i, got := range all {
		if want := strconv.FormatFloat(float64(uint64(1)<<(i+firstBucket))/1e6, 'g', -1, 64); got != want {
			t.Errorf("bound %d is %s, want %s", i, got, want)
		}
	}
}
