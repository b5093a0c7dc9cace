package metrics

import (
	"slices"
	"strings"

	"gwinit/internal/api"
)

// The series. Units are base units (bytes, seconds); names say direction as rx,
// from the radio or the network, and tx, to it. A table has a line for each
// family: the letter of its type, its name and its help. What writes its samples
// goes through it from the first line to the last, which costs half the flash of
// names and helps in the calls.

const kib = 1 << 10

const boxTable = `g build_info The firmware, and what it runs on. Always 1.
g uptime_seconds Time since the boot.
g warnings Warnings of gwctl status.
g memory_size_bytes Memory that the kernel has.
g memory_free_bytes Memory that nobody uses.
g memory_available_bytes Memory that could be had without swapping.
g radio_baud Speed of the radio's UART.
g userdata_mounted Whether the writable flash partition is mounted.
g userdata_size_bytes Size of the writable flash partition.
g userdata_free_bytes What is free of it.
g radio_info How the radio is used, and who has its UART. Always 1.
g radio_released_seconds How long the bridge still leaves the UART to another program, at most.
`

func (w *writer) box(s *api.Status) {
	w.table = boxTable
	w.next()
	w.uint(labels(label("version", s.Version), label("board", s.Board.ID), label("hostname", s.Hostname), label("boot_mode", s.BootMode)), 1)
	w.floats("", s.Uptime)
	m, u, r := &s.Memory, &s.Userdata, &s.Radio
	mounted := u.State == "mounted"
	w.uints("", uint64(len(s.Warnings)), m.Total*kib, m.Free*kib, m.Available*kib, positive(r.Baud), bit(mounted))
	if mounted {
		w.uints("", u.Total*kib, u.Free*kib)
	} else {
		w.skip(2)
	}
	w.next()
	w.uint(labels(label("mode", r.Mode), label("flow", r.Flow), label("engine", r.Engine), label("owner", r.Owner), label("firmware", r.Firmware), label("firmware_version", r.FirmwareVersion)), 1)
	w.floats("", r.Released)
}

const serviceTable = `g service_state State of a service: running, idle, backoff, failed and so on. 1 for the one it is in.
g service_state_seconds How long a service has been in its state.
c service_restarts_total Restarts of a service since the boot.
c service_cpu_seconds_total Processor time of a service's present process.
g service_resident_memory_bytes Memory of a service, with what it shares.
g service_anonymous_memory_bytes Memory that is a service's own.
`

func (w *writer) services(all []api.Service) {
	w.table = serviceTable
	for k := range 6 {
		w.next()
		for i := range all {
			x := &all[i]
			l := label("service", x.Name)
			switch {
			case k == 0:
				w.uint(labels(l, label("state", x.State)), 1)
			case k == 1:
				w.float(l, x.Since)
			case k == 2:
				w.uint(l, positive(x.Restarts))
			case x.PID == 0: // what follows is of a process
			case k == 3:
				w.float(l, x.CPU)
			case k == 4:
				w.uint(l, x.RSS*kib)
			default:
				w.uint(l, x.Anon*kib)
			}
		}
	}
}

const clockTable = `g time_seconds The gateway's clock, since 1970.
g clock_synchronised Whether time servers keep the clock.
g clock_state What is known of the time: unknown, near, synced. 1 for the one that holds.
g clock_offset_seconds What the clock was behind by at the last answer of time servers.
g clock_error_seconds What the clock may have been wrong by after that, at most.
g clock_answer_age_seconds Time since that answer.
g clock_stratum Distance of the server that was believed from a reference clock.
`

func (w *writer) clock(s *api.Status) {
	w.table = clockTable
	if s.Wall != 0 {
		w.floats("", float64(s.Wall/1e6)/1e3)
	} else {
		w.skip(1)
	}
	c := s.Clock
	if c == nil {
		return
	}
	w.uints("", bit(c.State == api.ClockSynced))
	w.uints(label("state", c.State), 1)
	if c.Source != "" {
		w.floats("", c.Offset, c.Error, c.Since)
		w.uints("", positive(c.Stratum))
	}
}

const networkTable = `g network_up Whether there is a link.
g network_addresses Addresses that the interface has.
g network_conflicts Addresses that another host has, too.
g network_state State of the addresses: bound, static, asking, fallback and so on. 1 for the one that holds.
g network_speed_bytes Speed of the link, a second.
g network_lease_seconds What is left of the DHCP lease.
`

func (w *writer) network(n *api.Network) {
	w.table = networkTable
	on := label("interface", n.Interface)
	w.uints(on, bit(n.Carrier), uint64(len(n.Addresses)), uint64(len(n.Conflicts)))
	w.uints(labels(on, label("method", n.Method), label("state", n.State)), 1)
	if n.SpeedMbit > 0 {
		w.uints(on, uint64(n.SpeedMbit)*125000)
	} else {
		w.skip(1)
	}
	if n.Lease > 0 {
		w.uints(on, uint64(n.Lease))
	}
}

const ethernetTable = `c network_rx_bytes_total Bytes received.
c network_tx_bytes_total Bytes sent.
c network_rx_packets_total Frames received.
c network_tx_packets_total Frames sent.
c network_rx_errors_total Frames that came damaged.
c network_tx_errors_total Frames that could not be sent.
c network_rx_dropped_total Frames received for which there was no room.
c network_tx_dropped_total Frames to be sent for which there was no room.
c network_queue_dropped_total Frames that the queue in front of the driver dropped.
g network_queue_bytes What waits in that queue.
u network_driver The Ethernet driver's own counters, those that have counted (gwctl eth tells what they mean).
`

func (w *writer) ethernet(e *api.Ethernet) {
	w.table = ethernetTable
	on, t := label("interface", e.Interface), &e.Traffic
	w.uints(on, t.RxBytes, t.TxBytes, t.RxPackets, t.TxPackets, t.RxErrors, t.TxErrors, t.RxDropped, t.TxDropped, uint64(e.Qdisc.Drops), uint64(e.Qdisc.Backlog))
	w.next()
	for i := range e.Counters {
		w.uint(labels(on, label("counter", e.Counters[i].Name)), e.Counters[i].Value)
	}
}

const bridgeTable = `g bridge_uart_open Whether the bridge has the radio's UART open.
c bridge_rx_bytes_total Bytes from the radio to clients.
c bridge_tx_bytes_total Bytes from clients to the radio.
c bridge_discarded_bytes_total Bytes from the radio while nobody was connected.
c bridge_xoffs_undone_total XOFF of the radio that held for more than 1 s.
`

const clientTable = `g bridge_client_connected Whether a client has the radio.
g bridge_pending_connections Newcomers that have not shown what they are.
c bridge_tx_dropped_bytes_total Bytes to the radio that were dropped when their client ended.
c bridge_queue_dropped_bytes_total Bytes that were dropped because a queue was full and the radio has no flow control.
c bridge_connects_total Clients that got the radio.
c bridge_takeovers_total Of them, those that took it from another.
c bridge_contentions_total Of these, those in a fight: three or more within a minute between the same two hosts.
c bridge_refused_total Connections that did not get the radio.
c bridge_not_allowed_total Of them, those refused for their address.
c bridge_ssh_connections_total Connections at the bridge's port that were SSH.
c bridge_stalls_total Times that the radio took nothing for BRIDGE_STALL_S.
g bridge_client_seconds How long the client has been connected.
c bridge_line_errors_total Errors on the line from the radio since the UART was opened.
`

const kernelTable = `c bridge_kernel_xoffs_total XOFF of the radio to the kernel's bridge.
c bridge_kernel_dropped_bytes_total Bytes that the kernel's bridge dropped: the other side did not take them in time.
`

// The directions, as labels.
const (
	fromRadio = `direction="rx"`
	toRadio   = `direction="tx"`
)

func (w *writer) bridge(b *api.Bridge) {
	k, xoffs := b.Kernel, b.XOFFs
	if k != nil {
		xoffs = k.TxPauseTimeouts
	}
	w.table = bridgeTable
	w.uints("", bit(b.UARTOpen), b.RxBytes, b.TxBytes, b.Discarded, xoffs)
	if k != nil {
		w.table = kernelTable
		w.uints("", k.XOFF)
		w.next()
		w.uint(fromRadio, k.DropsErr)
		w.uint(toRadio, k.DropsTx)
		return
	}
	since := 0.0
	if b.Client != nil {
		since = b.Client.Since
	}
	w.table = clientTable
	w.uints("", bit(b.Client != nil), positive(b.Pending), b.TxDropped, b.QueueDropped, b.Connects, b.Takeovers, b.Contentions, b.Refused, b.NotAllowed, b.SSH, b.Stalls)
	w.floats("", since)
	w.next()
	w.each("kind", "frame parity overrun buffer_overrun", "", b.FrameErrors, b.ParityErrors, b.Overruns, b.BufOverruns)
}

const flowTable = `g bridge_queue_bytes What waits in the bridge.
g bridge_queue_most_bytes The most that waited in the bridge since it started.
g bridge_queue_size_bytes What the bridge's queue holds at most.
c bridge_held_total Times that the other side did not take all at once.
c bridge_held_seconds_total How long these took together.
g bridge_held_longest_seconds How long the longest of them took.
c bridge_ash_frames_total Frames of ASH (Zigbee), by type.
c bridge_ash_resent_frames_total DATA frames of ASH that were sent again.
c bridge_ash_crc_errors_total Frames of ASH whose checksum was wrong.
h bridge_latency_seconds From bytes that are ready to be read to their last being written to the other side, of one in 17 reads.
`

// flows are what the bridge measures of the two directions.
func (w *writer) flows(rx, tx *api.BridgeFlow) {
	w.table = flowTable
	for k := range 10 {
		w.next()
		f, l := rx, fromRadio
		for range 2 {
			a := &f.ASH
			switch k {
			case 0:
				w.uint(l, positive(f.Queued))
			case 1:
				w.uint(l, positive(f.QueueMost))
			case 2:
				w.uint(l, positive(f.QueueSize))
			case 3:
				w.uint(l, f.Held)
			case 4:
				w.float(l, f.HeldSeconds)
			case 5:
				w.float(l, f.HeldLongest)
			case 6:
				w.each("type", "data ack nak rst rstack error invalid", l, a.Data, a.Ack, a.Nak, a.Rst, a.RstAck, a.Error, a.Invalid)
			case 7:
				w.uint(l, a.Resent)
			case 8:
				w.uint(l, a.CRC)
			case 9:
				w.latency(f, l)
			}
			f, l = tx, toRadio
		}
	}
}

// The buckets of bridge_latency_seconds are powers of two us, from 2^first to
// 2^last: 32 us, which is less than a step of the gateway's clock, to 4.2 s. Their
// bounds are in words, as strconv has them: to make one takes this CPU, which has
// no FPU, some 8,000 instructions.
const (
	firstBucket = 5
	lastBucket  = 22
	bounds      = "3.2e-05 6.4e-05 0.000128 0.000256 0.000512 0.001024 0.002048 0.004096 0.008192 0.016384 0.032768 0.065536 0.131072 0.262144 0.524288 1.048576 2.097152 4.194304"
)

// latency writes a histogram. The bridge counts what is below a bound, and le is
// up to it: a time that is exactly the bound is in the next bucket.
func (w *writer) latency(f *api.BridgeFlow, l string) {
	var sum uint64
	bound, rest := "", bounds
	for i := range max(len(f.Latency), lastBucket+1) {
		if i < len(f.Latency) {
			sum += uint64(f.Latency[i])
		}
		if i >= firstBucket && i <= lastBucket {
			bound, rest, _ = strings.Cut(rest, " ")
			w.uintOf("_bucket", labels(l, label("le", bound)), sum)
		}
	}
	w.uintOf("_bucket", labels(l, label("le", "+Inf")), sum)
	w.floatOf("_sum", l, f.LatencySeconds)
	w.uintOf("_count", l, sum)
}

const netwatchTable = `g netwatch_failed_seconds For how long nobody has answered.
g incidents Incidents that are kept (gwctl incidents).
g netwatch_state Whether the gateway is reachable: reachable, unreachable, unplugged, no-target, starting. 1 for the one that holds.
g netwatch_target_up Whether a target answered at the last look.
g netwatch_target_latency_seconds How long its echo took.
g netwatch_steps Recovery steps taken within the window.
g netwatch_steps_limit Recovery steps that may be taken within the window.
`

func (w *writer) netwatch(n *api.Netwatch) {
	w.table = netwatchTable
	w.uints("", positive(n.Failed), positive(n.Incidents))
	w.uints(label("state", n.State), 1)
	for k := range 2 {
		w.next()
		for i := range n.Targets {
			t := &n.Targets[i]
			if slices.ContainsFunc(n.Targets[:i], func(o api.NetwatchTarget) bool { return o.Target == t.Target && o.Address == t.Address }) {
				continue // a series twice would spoil the whole text
			}
			// gateway is one of each address family.
			l := labels(label("target", t.Target), label("address", t.Address))
			if k == 0 {
				w.uint(l, bit(t.By != ""))
			} else if t.Latency > 0 {
				w.float(l, float64(t.Latency)/1e6)
			}
		}
	}
	for k := range 2 {
		w.next()
		for i := range n.Steps {
			x := &n.Steps[i]
			v := x.Used
			if k > 0 {
				v = x.Most
			}
			w.uint(label("step", x.Step), positive(v))
		}
	}
}

const sshTable = `g ssh_connections SSH connections that have logged in.
c ssh_logins_total SSH logins.
c ssh_failed_logins_total SSH connections that tried to log in and were not let in.
c ssh_aborted_total SSH connections that ended before they tried.
`

// ssh tells of the SSH service, whose process is there only while it is needed:
// what it left behind counts, but for who is connected.
func (w *writer) ssh(s *api.SSH, st *api.Status) {
	open := s.Open
	if st != nil {
		for i := range st.Services {
			if x := &st.Services[i]; x.Name == "sshd" && x.PID == 0 {
				open = 0
			}
		}
	}
	w.table = sshTable
	w.uints("", positive(open), s.Logins, s.Failed, s.Aborted)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func positive(n int) uint64 { return uint64(max(n, 0)) }
