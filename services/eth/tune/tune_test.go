package tune

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/internal/netdev/netdevtest"
	"gwinit/internal/netdev/netlab"
	"gwinit/services/eth/ethtool"
	"gwinit/services/eth/qdisc"
	"gwinit/services/eth/tune/tunetest"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// bench is a box whose tuner has not started.
type bench struct {
	t     *testing.T
	root  string
	links *netdevtest.Kernel
	card  *tunetest.Card
	queue *tunetest.Queue
	safe  bool
	log   []string
	tuner *Tuner
	stop  func()
}

func newBench(t *testing.T, files map[string]string, settings string) *bench {
	t.Helper()
	b := &bench{t: t, root: tunetest.Root(t, files), links: netdevtest.New(), card: &tunetest.Card{}, queue: &tunetest.Queue{}}
	tunetest.Write(t, b.root, "userdata/etc/gateway.conf", settings)
	b.links.Add("eth0", netdev.MAC{2})
	b.card.Offload(ethtool.RxChecksum, true)
	return b
}

// start runs a tuner, as a new process would. It is to be called in a bubble.
func (b *bench) start() {
	b.t.Helper()
	b.tuner = New(Options{
		Root: b.root, Safe: b.safe, Links: b.links, Card: b.card, Queue: b.queue, Log: func(line string) { b.log = append(b.log, line) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- b.tuner.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Errorf("Run ended with %v", err)
		}
	}
	synctest.Wait()
}

// up sets the link up, with its cable in.
func (b *bench) up(up bool) {
	b.t.Helper()
	l, err := b.links.Link("eth0")
	if err == nil {
		err = b.links.SetUp(l.Index, up)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *bench) file(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.root, name))
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// knob is what the kernel holds of one, "" if it has none.
func (b *bench) knob(name string) string {
	b.t.Helper()
	v, err := b.tuner.read(&knobs[find(name)])
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return v
}

// logged returns what was logged since it was last called.
func (b *bench) logged() []string {
	l := b.log
	b.log = nil
	return l
}

func (b *bench) set(p api.EthSet) (api.Ethernet, error) {
	b.t.Helper()
	params, err := json.Marshal(p)
	if err != nil {
		b.t.Fatal(err)
	}
	answer, err := b.tuner.Call("eth-set", params)
	var e api.Ethernet
	if err == nil {
		err = json.Unmarshal(answer, &e)
	}
	return e, err
}

func status(e *api.Ethernet, name string) api.EthKnob {
	i := slices.IndexFunc(e.All, func(k api.EthKnob) bool { return k.Name == name })
	return e.All[i]
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n%+v, want\n%+v", what, got, want)
	}
}

// The tables fit together.
func TestTables(t *testing.T) {
	for i, k := range knobs {
		if find(k.name) != i || k.does == "" || (k.path == "") != (k.flag != 0) {
			t.Errorf("knob %+v", k)
		}
	}
	names := []string{config.EthProfiles[0]}
	for _, p := range profiles {
		names = append(names, p.name)
		for _, driver := range []on{ours, others} {
			seen := map[string]bool{}
			for _, s := range p.set {
				if find(s.knob) < 0 {
					t.Errorf("%s sets %s, which there is not", p.name, s.knob)
					continue
				}
				if s.on == every || s.on == driver {
					if seen[s.knob] {
						t.Errorf("%s sets %s twice", p.name, s.knob)
					}
					seen[s.knob] = true
				}
				if _, bad := parseKnobs(s.knob + "=" + s.value); bad != "" {
					t.Errorf("%s: %s", p.name, bad)
				}
			}
		}
	}
	same(t, "profiles", names, config.EthProfiles[:])
	for i, c := range counters {
		if c.means == "" || slices.ContainsFunc(counters[i+1:], func(d counter) bool { return d.name == c.name }) {
			t.Errorf("counter %+v", c)
		}
	}
}

// Each profile on the gateway's driver and on a card without its knobs.
func TestProfiles(t *testing.T) {
	const unlimited = "1879048192"
	type want map[string]string
	gateway := want{
		"gro_flush_timeout": "2000000", "napi_defer_hard_irqs": "1", "kick_threshold": "4", "rx_stall_thresh": "32",
		"bql_limit_min": "0", "bql_limit_max": unlimited, "tx_queue_len": "1000", "rx_checksum": "on", "tx_checksum": "off",
		"tcp_slow_start_after_idle": "1", "tcp_no_metrics_save": "0",
	}
	plain := want{
		"gro_flush_timeout": "0", "napi_defer_hard_irqs": "0", "kick_threshold": "", "rx_stall_thresh": "",
		"bql_limit_min": "0", "bql_limit_max": unlimited, "tx_queue_len": "1000", "rx_checksum": "on", "tx_checksum": "off",
		"tcp_slow_start_after_idle": "1", "tcp_no_metrics_save": "0",
	}
	for _, tt := range []struct {
		profile        string
		gateway, plain want // what differs
	}{
		{"stock", want{}, want{}},
		{
			"latency",
			want{
				"gro_flush_timeout": "0", "napi_defer_hard_irqs": "0", "kick_threshold": "1", "bql_limit_max": "3028",
				"tx_queue_len": "64", "tcp_slow_start_after_idle": "0",
			},
			want{"bql_limit_max": "3028", "tx_queue_len": "64", "tcp_slow_start_after_idle": "0"},
		},
		{
			"throughput",
			want{"bql_limit_min": "12112", "tcp_slow_start_after_idle": "0"},
			want{
				"gro_flush_timeout": "20000", "napi_defer_hard_irqs": "1", "bql_limit_min": "12112",
				"tx_checksum": "on", "tcp_slow_start_after_idle": "0",
			},
		},
		{"bench", want{"tcp_no_metrics_save": "1"}, want{"tx_checksum": "on", "tcp_no_metrics_save": "1"}},
	} {
		for _, card := range []struct {
			name          string
			files         map[string]string
			before, after want
		}{{"gateway", tunetest.Gateway(), gateway, tt.gateway}, {"plain", tunetest.Files(), plain, tt.plain}} {
			t.Run(tt.profile+" "+card.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, card.files, "ETH_PROFILE="+tt.profile+"\nETH_QDISC=default\n")
					if card.name == "plain" {
						b.card.Offload(ethtool.TxChecksum, false)
					}
					b.up(true)
					b.start()
					defer b.stop()
					for name, value := range card.before {
						if other, ok := card.after[name]; ok {
							value = other
						}
						if got := b.knob(name); got != value {
							t.Errorf("%s is %q, want %q", name, got, value)
						}
					}
					e := b.tuner.Status()
					for _, k := range e.All {
						if k.Failed || k.Wanted != "" && k.Wanted != k.Actual {
							t.Errorf("%+v", k)
						}
					}
					if e.Profile != tt.profile || !e.Kept {
						t.Errorf("profile %s, kept %v", e.Profile, e.Kept)
					}
					same(t, "warnings", b.tuner.Warnings(), []string(nil))

					// And back: everything is as it was found.
					if _, err := b.set(api.EthSet{Profile: "stock"}); err != nil {
						t.Fatal(err)
					}
					for name, value := range card.before {
						if got := b.knob(name); got != value {
							t.Errorf("afterwards %s is %q, want %q", name, got, value)
						}
					}
					if tt.profile != "stock" {
						same(t, "record", b.file("run/eth0.tune"), "")
					}
				})
			})
		}
	}
}

// Nothing of a kernel is touched by the defaults, but for the queue.
func TestStockTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "")
		b.up(true)
		b.start()
		defer b.stop()
		if _, err := os.Stat(filepath.Join(b.root, "run/eth0.tune")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a record was written: %v", err)
		}
		same(t, "log", b.logged(), []string{"eth0: profile stock: qdisc fq_codel"})
		same(t, "queue", b.queue.Calls(), []string{"set"})
		for range 3 {
			time.Sleep(lookEvery)
		}
		synctest.Wait()
		same(t, "log", b.logged(), []string(nil))
		same(t, "queue", b.queue.Calls(), []string(nil))
	})
}

func TestEveryLinkUpAndReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const gro = "sys/class/net/eth0/gro_flush_timeout"
		b := newBench(t, tunetest.Gateway(), "ETH_PROFILE=latency\n")
		b.start()
		defer b.stop()
		if got := b.file(gro); got != "0" {
			t.Errorf("without a cable it is not set: %s", got)
		}
		for _, event := range []struct {
			name string
			do   func()
		}{
			{"link up", func() { b.up(true) }},
			{"a short flap", func() { b.links.Flap("eth0") }},
			{"switch reset", func() {
				b.card.Count(ethtool.Stat{Name: "rtl8196e_swcore_deep_reset", Value: 1})
				time.Sleep(lookEvery)
			}},
			{"another interface of that name", func() { b.links.Remove("eth0"); synctest.Wait(); b.links.Add("eth0", netdev.MAC{2}) }},
		} {
			tunetest.Write(t, b.root, gro, "2000000")
			event.do()
			synctest.Wait()
			if got := b.file(gro); got != "0" {
				t.Errorf("after %s it holds %s", event.name, got)
			}
		}
		// By hand: left alone, and told.
		tunetest.Write(t, b.root, gro, "7")
		time.Sleep(3 * lookEvery)
		synctest.Wait()
		if got := b.file(gro); got != "7" {
			t.Errorf("what somebody set became %s", got)
		}
		k := status(b.tuner.Status(), "gro_flush_timeout")
		same(t, "knob", k, api.EthKnob{Name: "gro_flush_timeout", Wanted: "0", Actual: "7", Failed: true, Why: "somebody changed it; the next link up changes it back"})
	})
}

// A process that starts anew knows what the kernel held before the one before.
func TestRestartPutsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "ETH_PROFILE=latency\n")
		b.up(true)
		b.start()
		b.stop()
		if got := b.file("run/eth0.tune"); !strings.Contains(got, "gro_flush_timeout=2000000\n") || !strings.Contains(got, "kick_threshold=4\n") {
			t.Errorf("record %q", got)
		}
		tunetest.Write(t, b.root, "userdata/etc/gateway.conf", "ETH_PROFILE=throughput")
		b.start()
		if got := b.knob("gro_flush_timeout") + " " + b.knob("bql_limit_max") + " " + b.knob("bql_limit_min"); got != "2000000 1879048192 12112" {
			t.Errorf("after the change: %s", got)
		}
		b.stop()
		tunetest.Write(t, b.root, "userdata/etc/gateway.conf", "")
		tunetest.Write(t, b.root, "run/eth0.tune", b.file("run/eth0.tune")+"\nnonsense\nno_knob=1\ntx_queue_len")
		b.start()
		defer b.stop()
		if got := b.knob("bql_limit_min") + " " + b.knob("tcp_slow_start_after_idle"); got != "0 1" {
			t.Errorf("at the end: %s", got)
		}
	})
}

// INV 11: what there is not is told, and the rest is set.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := tunetest.Gateway()
		delete(files, "sys/class/net/eth0/napi_defer_hard_irqs")
		delete(files, "sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit_max")
		b := newBench(t, files, "ETH_PROFILE=latency\nETH_KNOBS=\"tx_checksum=on kick=1 rx_stall_thresh=-1 tx_queue_len=100\"\n")
		b.queue.Err = qdisc.ErrNone
		b.up(true)
		b.start()
		defer b.stop()
		const none = "this kernel or driver has none"
		if got := b.knob("gro_flush_timeout") + " " + b.knob("tx_queue_len"); got != "0 100" {
			t.Errorf("the others are %s", got)
		}
		e := b.tuner.Status()
		for name, want := range map[string]api.EthKnob{
			"napi_defer_hard_irqs": {Wanted: "0", Failed: true, Why: none},
			"bql_limit_max":        {Wanted: "3028", Failed: true, Why: none},
			"tx_checksum":          {Wanted: "on", Actual: "off", Failed: true, Why: none},
		} {
			want.Name = name
			same(t, name, status(e, name), want)
		}
		same(t, "queue", e.Qdisc, api.EthQdisc{Wanted: "fq_codel", Actual: "pfifo_fast", Why: "this kernel has no queueing disciplines (CONFIG_NET_SCHED): packets wait in pfifo_fast, and BQL keeps what the driver holds short"})
		same(t, "warnings", b.tuner.Warnings(), []string{
			"eth0: napi_defer_hard_irqs is not 0: " + none,
			"eth0: bql_limit_max is not 3028: " + none,
			"eth0: tx_checksum is not on: " + none,
			`ETH_KNOBS: rx_stall_thresh is a number from 0 to 4294967295, not "-1"`,
		})
		// Once, and again only when it is something else.
		first := b.logged()
		if n := len(first); n != 2 || !strings.Contains(first[1], "napi_defer_hard_irqs: "+none) {
			t.Errorf("log %q", first)
		}
		b.links.Flap("eth0")
		synctest.Wait()
		same(t, "log", b.logged(), []string(nil))
	})
}

func TestKernelMakesSomethingElseOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Files(), "ETH_KNOBS=tx_queue_len=5")
		path := filepath.Join(b.root, "sys/class/net/eth0/tx_queue_len")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/null", path); err != nil { // takes all, holds nothing
			t.Fatal(err)
		}
		b.up(true)
		b.start()
		defer b.stop()
		if k := status(b.tuner.Status(), "tx_queue_len"); !k.Failed || k.Why != "the kernel made  of it" {
			t.Errorf("%+v", k)
		}
	})
}

func TestQueue(t *testing.T) {
	const foreign = 0x10000
	for _, tt := range []struct {
		name, settings string
		prepare        func(*tunetest.Queue)
		calls          []string
		actual, why    string
	}{
		{"the default", "", func(*tunetest.Queue) {}, []string{"set"}, "fq_codel", ""},
		{"not wanted", "ETH_QDISC=default", func(*tunetest.Queue) {}, nil, "pfifo_fast", ""},
		{"not wanted any more", "ETH_QDISC=default", func(q *tunetest.Queue) { q.Put(qdisc.State{Kind: "fq_codel", Handle: qdisc.Handle}) }, []string{"clear"}, "pfifo_fast", ""},
		{"somebody's, not wanted", "ETH_QDISC=default", func(q *tunetest.Queue) { q.Put(qdisc.State{Kind: "tbf", Handle: foreign}) }, nil, "tbf", ""},
		{"somebody's", "", func(q *tunetest.Queue) { q.Put(qdisc.State{Kind: "tbf", Handle: foreign}) }, nil, "tbf", "tbf was set by somebody and stays until the kernel's default is there again"},
		{"there already", "", func(q *tunetest.Queue) {
			q.Put(qdisc.State{Kind: "fq_codel", Handle: qdisc.Handle, FQCodel: fqCodel})
		}, nil, "fq_codel", ""},
		{"the kernel's own fq_codel", "", func(q *tunetest.Queue) { q.Put(qdisc.State{Kind: "fq_codel", FQCodel: fqCodel}) }, []string{"set"}, "fq_codel", ""},
		{"with other parameters", "", func(q *tunetest.Queue) { q.Put(qdisc.State{Kind: "fq_codel", Handle: qdisc.Handle}) }, []string{"set"}, "fq_codel", ""},
		{"no fq_codel", "", func(q *tunetest.Queue) { q.SetErr = qdisc.ErrKind }, []string{"set"}, "pfifo_fast", "this kernel has no fq_codel (CONFIG_NET_SCH_FQ_CODEL)"},
		{"none at all, none wanted", "ETH_QDISC=default", func(q *tunetest.Queue) { q.Err = qdisc.ErrNone }, nil, "pfifo_fast", ""},
		{"unreadable", "", func(q *tunetest.Queue) { q.Err = unix.EBUSY }, nil, "", "device or resource busy"},
		{
			"made something else of it", "",
			func(q *tunetest.Queue) { q.Change = func(p *qdisc.FQCodel) { p.Memory, p.ECN = 0, false } },
			[]string{"set"},
			"fq_codel", "the kernel made fq_codel limit 1024p flows 128 quantum 300 target 5ms interval 100ms memory_limit 0 of it",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tunetest.Files(), tt.settings)
				tt.prepare(b.queue)
				b.up(true)
				b.start()
				defer b.stop()
				same(t, "calls", b.queue.Calls(), tt.calls)
				q := b.tuner.Status().Qdisc
				if q.Actual != tt.actual || q.Why != tt.why {
					t.Errorf("%+v, want %s, why %q", q, tt.actual, tt.why)
				}
			})
		})
	}
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "")
		b.card.Count(
			ethtool.Stat{Name: "rtl8196e_tx_kicks_total", Value: 5}, ethtool.Stat{Name: "rtl8196e_rx_wild_mbuf", Value: 3},
			ethtool.Stat{Name: "rtl8196e_tx_bad_len"}, ethtool.Stat{Name: "rtl8196e_new", Value: 1}, ethtool.Stat{Name: "rx_bytes", Value: 9},
		)
		b.start()
		defer b.stop()
		e := b.tuner.Status()
		if e.Interface != "eth0" || e.Driver != "rtl8196e-eth" || e.Version != "2.24" || e.At == 0 {
			t.Errorf("%+v", e)
		}
		same(t, "traffic", e.Traffic, api.EthTraffic{RxBytes: 1000, TxBytes: 2000, RxPackets: 10, TxPackets: 20, RxDropped: 7})
		same(t, "BQL", e.BQL, &api.EthBQL{Limit: 2568, Inflight: 1514})
		same(t, "counters", e.Counters, []api.EthCounter{
			{Name: "rtl8196e_tx_kicks_total", Value: 5, Meaning: "times the switch was told to send"},
			{Name: "rtl8196e_rx_wild_mbuf", Value: 3, Meaning: "received: a buffer outside of the pool", Alarm: true},
			{Name: "rtl8196e_new", Value: 1},
			{Name: "rx_bytes", Value: 9},
		})
		same(t, "notes", e.Notes, []string{noteDropped})
		same(t, "warnings", b.tuner.Warnings(), []string{"eth0: rtl8196e_rx_wild_mbuf is 3 and should be 0: received: a buffer outside of the pool"})
		// Another card's counters are nobody's alarm, and are not asked for.
		if err := os.Remove(b.tuner.path(marker)); err != nil {
			t.Fatal(err)
		}
		same(t, "warnings", b.tuner.Warnings(), []string(nil))
		same(t, "parameters", e.Qdisc.Parameters, "limit 1024p flows 128 quantum 300 target 5ms interval 100ms memory_limit 1048576 ecn")

		// A driver that has the files and does not use them.
		tunetest.Write(t, b.root, "sys/class/net/eth0/queues/tx-0/byte_queue_limits/limit", "0")
		e = b.tuner.Status()
		if k := status(e, "bql_limit_max"); e.BQL != nil || k.Why != "without effect: this driver has no byte queue limits" || k.Failed {
			t.Errorf("BQL %+v, knob %+v", e.BQL, k)
		}
		b.links.Remove("eth0")
		synctest.Wait()
		same(t, "notes", b.tuner.Status().Notes, []string{"there is no eth0"})
	})
}

// Several queues of which each had its own value get it back.
func TestQueuesThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := tunetest.Files()
		const path = "sys/class/net/eth0/queues/tx-%/byte_queue_limits/limit_max"
		for i, v := range []string{"100", "100", "1100"} {
			files[strings.Replace(path, "%", string(rune('0'+i)), 1)] = v
		}
		b := newBench(t, files, "ETH_PROFILE=latency")
		b.up(true)
		b.start()
		defer b.stop()
		if got := b.knob("bql_limit_max"); got != "3028" {
			t.Errorf("set to %s", got)
		}
		if _, err := b.set(api.EthSet{Profile: "stock"}); err != nil {
			t.Fatal(err)
		}
		if got := b.knob("bql_limit_max"); got != "100 100 1100" {
			t.Errorf("put back as %s", got)
		}
	})
}

func TestSet(t *testing.T) {
	text := func(s string) *string { return &s }
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "GW_LOG_KIB=32\n")
		b.up(true)
		b.start()
		defer b.stop()
		for _, tt := range []struct {
			set api.EthSet
			err string
		}{
			{api.EthSet{Profile: "fast"}, `there is no profile "fast": stock, latency, throughput, bench`},
			{api.EthSet{Qdisc: "cake"}, `there is no queue "cake": fq_codel, default`},
			{api.EthSet{Knobs: text("kick=1")}, `there is no knob "kick"; gwctl eth names them`},
			{api.EthSet{Knobs: text("kick_threshold")}, `kick_threshold is a number from 0 to 4294967295, not ""`},
			{api.EthSet{Knobs: text("kick_threshold=08")}, `kick_threshold is a number from 0 to 4294967295, not "08"`},
			{api.EthSet{Knobs: text("rx_checksum=1")}, `rx_checksum is on or off, not "1"`},
		} {
			if _, err := b.set(tt.set); err == nil || err.Error() != tt.err {
				t.Errorf("%+v: %v, want %s", tt.set, err, tt.err)
			}
		}
		if _, err := b.tuner.Call("eth-set", []byte(`{"later":true}`)); err == nil {
			t.Error("an argument that nobody knows was taken")
		}
		// Until the next start.
		e, err := b.set(api.EthSet{Knobs: text("  kick_threshold=8   tx_queue_len=50 ")})
		if err != nil || e.Kept || e.Knobs != "kick_threshold=8 tx_queue_len=50" || b.knob("kick_threshold") != "8" {
			t.Errorf("%+v, %v", e, err)
		}
		if got := b.file("userdata/etc/gateway.conf"); got != "GW_LOG_KIB=32" {
			t.Errorf("gateway.conf %q", got)
		}
		// A reload for something else does not end it.
		b.tuner.Reload()
		if got := b.knob("kick_threshold"); got != "8" {
			t.Errorf("after a reload: %s", got)
		}
		// Kept, but not what was until the next start.
		e, err = b.set(api.EthSet{Profile: "latency", Qdisc: "default", Keep: true})
		if err != nil || e.Kept || b.knob("kick_threshold") != "8" {
			t.Errorf("%+v, %v", e, err)
		}
		if got := strings.Fields(b.file("userdata/etc/gateway.conf")); strings.Join(got, " ") != "GW_LOG_KIB=32 ETH_PROFILE=latency ETH_QDISC=default" {
			t.Errorf("gateway.conf %q", got)
		}
		e, err = b.set(api.EthSet{Knobs: &e.Knobs, Keep: true})
		if err != nil || !e.Kept || b.knob("kick_threshold") != "8" || b.knob("gro_flush_timeout") != "0" {
			t.Errorf("%+v, %v", e, err)
		}
		want := config.Ethernet{Profile: "latency", Knobs: "kick_threshold=8 tx_queue_len=50", Qdisc: "default"}
		if g, warnings := config.LoadGateway(b.root); g.Ethernet != want || len(warnings) != 0 || g.LogKiB != 32 {
			t.Errorf("settings %+v, %v", g, warnings)
		}
		// Without knobs, for good.
		if e, err = b.set(api.EthSet{Knobs: text(""), Keep: true}); err != nil || !e.Kept || b.knob("kick_threshold") != "1" {
			t.Errorf("%+v, %v", e, err)
		}
		if got := b.file("userdata/etc/gateway.conf"); strings.Contains(got, "ETH_KNOBS") {
			t.Errorf("gateway.conf %q", got)
		}
		// Changed by config set, and told.
		tunetest.Write(t, b.root, "userdata/etc/gateway.conf", "ETH_PROFILE=stock")
		b.tuner.Reload()
		if got := b.knob("kick_threshold") + " " + b.tuner.Status().Qdisc.Actual; got != "4 fq_codel" {
			t.Errorf("after the change: %s", got)
		}
		// Nowhere to keep it: it is in force and the error says so.
		if err := os.RemoveAll(filepath.Join(b.root, "userdata")); err != nil {
			t.Fatal(err)
		}
		_, err = b.set(api.EthSet{Profile: "latency", Keep: true})
		if !errors.Is(err, config.ErrNoUserdata) || !strings.HasPrefix(err.Error(), "it is so until the next start: ") || b.knob("kick_threshold") != "1" {
			t.Errorf("error %v", err)
		}
	})
}

// What the settings have broken is reached in safe mode.
func TestSafeMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "ETH_PROFILE=latency\nETH_KNOBS=tx_queue_len=1\n")
		b.safe = true
		b.up(true)
		b.start()
		defer b.stop()
		same(t, "log", b.logged(), []string(nil))
		same(t, "queue", b.queue.Calls(), []string(nil))
		tunetest.Write(t, b.root, "userdata/etc/gateway.conf", "ETH_PROFILE=throughput")
		b.tuner.Reload()
		e := b.tuner.Status()
		if e.Profile != "stock" || e.Kept || e.Qdisc.Wanted != "default" || b.knob("tcp_slow_start_after_idle") != "1" {
			t.Errorf("%+v", e)
		}
		same(t, "notes", e.Notes, []string{"safe mode: the settings are not used", noteDropped})
		// By hand it can be done.
		if _, err := b.set(api.EthSet{Profile: "latency"}); err != nil || b.knob("kick_threshold") != "1" {
			t.Errorf("%v", err)
		}
	})
}

// A watch that cannot be had costs half a minute, not the tuning.
func TestWithoutNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, tunetest.Gateway(), "ETH_PROFILE=latency")
		b.links.Fail("Watch", errors.New("no memory"))
		b.links.Remove("eth0")
		b.start()
		defer b.stop()
		b.links.Add("eth0", netdev.MAC{2})
		time.Sleep(lookEvery)
		synctest.Wait()
		if got := b.knob("gro_flush_timeout"); got != "0" {
			t.Errorf("it holds %s", got)
		}
		b.links.Fail("Watch", nil)
		time.Sleep(lookEvery)
		synctest.Wait()
		b.links.Unwatch(nil)
		synctest.Wait()
		tunetest.Write(t, b.root, "sys/class/net/eth0/gro_flush_timeout", "2000000")
		b.links.Flap("eth0")
		b.up(true)
		if got := b.knob("gro_flush_timeout"); got != "0" {
			t.Errorf("after a new watch it holds %s", got)
		}
	})
}

// The real kernel of this machine: veth has most of the knobs.
func TestKernel(t *testing.T) {
	netlab.Cable(t, "eth0", "far0")
	netlab.Run(t, "ip", "link", "set", "eth0", "up")
	root := netlab.Root(t)
	tunetest.Write(t, root, "userdata/etc/gateway.conf", "ETH_PROFILE=throughput")
	tuner := New(Options{Root: root, Log: func(line string) { t.Log(line) }})
	before := tuner.Status()
	tuner.look()
	e := tuner.Status()
	for _, k := range e.All {
		// Some kernels have no byte queue limits of a veth.
		if k.Failed && (k.Name != "bql_limit_min" || k.Why != "this kernel or driver has none") {
			t.Errorf("%+v", k)
		}
	}
	for name, want := range map[string]string{
		"gro_flush_timeout": "20000", "napi_defer_hard_irqs": "1", "tcp_slow_start_after_idle": "0", "rx_checksum": "on", "tx_checksum": "on",
	} {
		if k := status(e, name); k.Actual != want || k.Wanted != want {
			t.Errorf("%+v, want %s", k, want)
		}
	}
	if e.Driver != "veth" || e.Qdisc.Actual == "" || len(before.All) != 0 {
		t.Errorf("%+v", e)
	}
	if _, err := tuner.Call("eth-set", []byte(`{"profile":"stock","qdisc":"default"}`)); err != nil {
		t.Fatal(err)
	}
	if got := netlab.Run(t, "cat", root+"/sys/class/net/eth0/gro_flush_timeout"); got != "0\n" {
		t.Errorf("put back to %q", got)
	}
}

func FuzzParseKnobs(f *testing.F) {
	f.Add("kick_threshold=8  tx_queue_len=x")
	f.Fuzz(func(t *testing.T, text string) {
		set, bad := parseKnobs(text)
		n := 0
		for i, v := range set {
			if v == "" {
				continue
			}
			n++
			if again, _ := parseKnobs(knobs[i].name + "=" + v); again[i] != v {
				t.Errorf("%q is taken once and not twice", v)
			}
		}
		if bad == "" && n == 0 && len(strings.Fields(text)) > 0 {
			t.Errorf("%q is neither taken nor refused", text)
		}
	})
}
