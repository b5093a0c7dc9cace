package tune

import (
	"time"

	"gwinit/services/eth/ethtool"
	"gwinit/services/eth/qdisc"
)

// knob is one thing that can be set.
type knob struct {
	name string
	// path is the file below the root, with IF for the interface's name; a *
	// stands for every transmit queue. "": it is an offload, on or off, where
	// the others are numbers.
	path string
	flag ethtool.Flag
	does string
}

const (
	device  = "sys/class/net/IF/"
	queues  = device + "queues/tx-*/byte_queue_limits/"
	tcp     = "proc/sys/net/ipv4/"
	modules = "sys/module/rtl8196e_eth/parameters/"

	// marker is a file that only the RTL8196E's driver makes.
	marker = device + "kick_threshold"
)

// knobs are all there are, in the order in which they are set and shown.
//
// led_mode is not among them, for leds.conf decides about it, nor link_poll_ms,
// which the driver reads once; nor the byte queue limits' stall_thrs: the
// driver takes finished frames back when it next has to do with the ring, so
// an idle link would count as a stall. Each driver here has one NAPI instance, so
// what netdev-genl sets for one is what these files set for all.
var knobs = [...]knob{
	{name: "gro_flush_timeout", path: device + "gro_flush_timeout", does: "ns from a poll to the next without an interrupt"},
	{name: "napi_defer_hard_irqs", path: device + "napi_defer_hard_irqs", does: "empty polls before interrupts are on again"},
	{name: "kick_threshold", path: marker, does: "frames handed to the switch at once, 1 to 64"},
	{name: "rx_stall_thresh", path: modules + "rtl8196e_rx_stall_thresh", does: "polls without a frame before the switch is reset; 0: never"},
	{name: "bql_limit_min", path: queues + "limit_min", does: "bytes the driver may always hold"},
	{name: "bql_limit_max", path: queues + "limit_max", does: "bytes the driver may hold at most"},
	{name: "tx_queue_len", path: device + "tx_queue_len", does: "packets that pfifo_fast holds; fq_codel has its own"},
	{name: "rx_checksum", flag: ethtool.RxChecksum, does: "checksums of received frames by the card"},
	{name: "tx_checksum", flag: ethtool.TxChecksum, does: "checksums of sent frames by the card"},
	{name: "tcp_slow_start_after_idle", path: tcp + "tcp_slow_start_after_idle", does: "1: a connection begins slowly after a pause"},
	{name: "tcp_no_metrics_save", path: tcp + "tcp_no_metrics_save", does: "1: a connection learns nothing from earlier ones"},
}

// on is which drivers a setting is for.
type on uint8

const (
	every  on = iota
	ours      // the RTL8196E's
	others    // those without its knobs
)

// values has one for each of knobs; "": none.
type values [len(knobs)]string

// find returns the place of a knob, or -1.
func find(name string) int {
	for i := range knobs {
		if knobs[i].name == name {
			return i
		}
	}
	return -1
}

type setting struct {
	knob, value string
	on          on
}

// profiles is what each profile sets. A profile that is not here, stock, sets
// nothing.
//
// Only the driver's own values are measured (2 ms and 1 poll: 93 Mbit/s received
// instead of 70, 71 sent instead of 52); the others are reasoned, and `gwctl
// eth tune` tells what they are worth on a gateway.
var profiles = [...]struct {
	name string
	set  []setting
}{
	// A frame that comes alone is seen at once: the driver's 2 ms are what it
	// may wait otherwise. What waits in front of the bridge's answers is
	// short: two frames with the driver, 64 in the queue (8 ms at 100 Mbit/s).
	{"latency", []setting{
		{"gro_flush_timeout", "0", every},
		{"napi_defer_hard_irqs", "0", every},
		{"kick_threshold", "1", ours},
		{"bql_limit_max", "3028", every},
		{"tx_queue_len", "64", every},
		{"tcp_slow_start_after_idle", "0", every},
	}},
	// Few interrupts, and a ring that does not run dry: by itself the limit
	// settles at 2.5 KB, which are 0.2 ms, and the driver takes frames back
	// late. 12112 are 8 frames.
	{"throughput", []setting{
		{"gro_flush_timeout", "2000000", ours},
		{"napi_defer_hard_irqs", "1", ours},
		{"gro_flush_timeout", "20000", others},
		{"napi_defer_hard_irqs", "1", others},
		{"kick_threshold", "4", ours},
		{"bql_limit_min", "12112", every},
		{"rx_checksum", "on", every},
		{"tx_checksum", "on", others},
		{"tcp_slow_start_after_idle", "0", every},
	}},
	// What driver and kernel start with, said in full: two measurements compare,
	// whatever was set before. A run learns nothing from the one before it.
	{"bench", []setting{
		{"gro_flush_timeout", "2000000", ours},
		{"napi_defer_hard_irqs", "1", ours},
		{"gro_flush_timeout", "0", others},
		{"napi_defer_hard_irqs", "0", others},
		{"kick_threshold", "4", ours},
		{"rx_stall_thresh", "32", ours},
		{"bql_limit_min", "0", every},
		{"bql_limit_max", "1879048192", every}, // none
		{"tx_queue_len", "1000", every},
		{"rx_checksum", "on", every},
		{"tx_checksum", "on", others},
		{"tcp_slow_start_after_idle", "1", every},
		{"tcp_no_metrics_save", "1", every},
	}},
}

// fqCodel is for 100 Mbit/s and 32 MiB. A quantum of 300 has small packets,
// which those of the radio are, go before full ones. Of the 10240 packets and
// 32 MiB that it takes by itself the box does not have the memory; 128 flows
// are more connections than it has, and 8 KiB instead of 64.
var fqCodel = qdisc.FQCodel{
	Limit: 1024, Flows: 128, Quantum: 300, Memory: 1 << 20,
	Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond, ECN: true,
}

// counter is one of the RTL8196E driver's, without the prefix of all of them.
type counter struct {
	name  string
	zero  bool // it must stay 0
	means string
}

const counterPrefix = "rtl8196e_"

// resets is the counter of the switch resets, which undo what was set.
const resets = "swcore_deep_reset"

// counters are in the driver's order (rtl8196e-eth v2.24).
var counters = [...]counter{
	{"l2_check_ok", false, "self-checks of the switch's table that passed"},
	{"l2_check_fail", false, "self-checks of the switch's table that failed"},
	{"l2_check_last_result", false, "result of the last self-check"},
	{"tx_kicks_total", false, "times the switch was told to send"},
	{"tx_kicks_cold", false, "of them, because it was idle"},
	{"tx_kicks_threshold", false, "of them, because kick_threshold was reached"},
	{"tx_kicks_drain", false, "of them, because no more frames came"},
	{"rx_wild_pkthdr", true, "received: a descriptor outside of the ring"},
	{"rx_wild_mbuf", true, "received: a buffer outside of the pool"},
	{"rx_bad_len", true, "received: an impossible length"},
	{"rx_no_skb", true, "received: a buffer without its packet"},
	{"rx_alloc_fail", true, "received frames dropped for want of memory"},
	{"rx_rearm_badidx", true, "received: a descriptor given back to the wrong place"},
	{"tx_bad_args", true, "sending: called wrongly"},
	{"tx_bad_len", true, "sending: an impossible length"},
	{"tx_ring_full", true, "sending: no room although the queue was open"},
	{"tx_reclaim_no_skb", true, "sending: a finished descriptor without its packet"},
	{"tx_bad_pkthdr", true, "sending: a damaged descriptor"},
	{"tx_bad_mbuf", true, "sending: a damaged buffer"},
	{"rx_mbuf_no_shadow", true, "received: a buffer that nobody knows"},
	{"rx_runout_resync", true, "the receive ring was put in step again"},
	{"rx_runout_kick", true, "the receive ring had run dry"},
	{resets, true, "the switch was reset, which takes 0.65 s"},
	{"rx_pkthdr_mbuf_skew", true, "the two receive rings were out of step"},
	{"poll_budget_hit", false, "polls that left frames for the next"},
	{"rx_stall_run", false, "polls in a row without a frame, now"},
	{"tx_xoff_seen_xmit", false, "the queue was stopped when a frame came"},
	{"tx_xoff_seen_poll", false, "the queue was stopped when it was polled"},
	{"tx_defer_queued", false, "frames that waited for others to be sent with"},
	{"tx_defer_direct", false, "frames sent at once"},
	{"isr_cnt", false, "interrupts"},
	{"isr_burst_max", false, "most interrupts in a row"},
	{"poll_cnt", false, "polls"},
	{"poll_delivered", false, "frames that polls delivered"},
	{"kick_txreclaim", false, "sent frames taken back before a kick"},
	{"swcore_reprogram_fail", true, "the switch could not be set up after a reset: the link is held down"},
}
