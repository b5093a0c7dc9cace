package metrics

import (
	"strconv"

	"gwinit/internal/api"
)

// The series. Units are base units (bytes, seconds); names say direction as rx,
// from the radio or the network, and tx, to it.

const kib = 1 << 10

func (w *writer) box(s *api.Status) {
	w.family("build_info", gauge, "The firmware, and what it runs on. Always 1.")
	w.uint(labels(label("version", s.Version), label("board", s.Board.ID), label("hostname", s.Hostname), label("boot_mode", s.BootMode)), 1)
	w.seconds("uptime_seconds", "Time since the boot.", s.Uptime)
	w.gauge("warnings", "Warnings of gwctl status.", uint64(len(s.Warnings)))

	w.gauge("memory_size_bytes", "Memory that the kernel has.", s.Memory.Total*kib)
	w.gauge("memory_free_bytes", "Memory that nobody uses.", s.Memory.Free*kib)
	w.gauge("memory_available_bytes", "Memory that could be had without swapping.", s.Memory.Available*kib)

	mounted := s.Userdata.State == "mounted"
	w.is("userdata_mounted", "Whether the writable flash partition is mounted.", mounted)
	if mounted {
		w.gauge("userdata_size_bytes", "Size of the writable flash partition.", s.Userdata.Total*kib)
		w.gauge("userdata_free_bytes", "What is free of it.", s.Userdata.Free*kib)
	}

	r := &s.Radio
	w.family("radio_info", gauge, "How the radio is used, and who has its UART. Always 1.")
	w.uint(labels(label("mode", r.Mode), label("flow", r.Flow), label("engine", r.Engine), label("owner", r.Owner), label("firmware", r.Firmware), label("firmware_version", r.FirmwareVersion)), 1)
	w.gauge("radio_baud", "Speed of the radio's UART.", uint64(max(r.Baud, 0)))
	w.seconds("radio_released_seconds", "How long the bridge still leaves the UART to another program, at most.", r.Released)
}

func (w *writer) services(all []api.Service) {
	each := func(name, kind, help string, sample func(x *api.Service, l string)) {
		w.family(name, kind, help)
		for i := range all {
			sample(&all[i], label("service", all[i].Name))
		}
	}
	alive := func(show func(x *api.Service, l string)) func(x *api.Service, l string) {
		return func(x *api.Service, l string) {
			if x.PID > 0 {
				show(x, l)
			}
		}
	}
	each("service_state", gauge, "State of a service: running, idle, backoff, failed and so on. 1 for the one it is in.", func(x *api.Service, l string) {
		w.uint(labels(l, label("state", x.State)), 1)
	})
	each("service_state_seconds", gauge, "How long a service has been in its state.", func(x *api.Service, l string) { w.float(l, x.Since) })
	each("service_restarts_total", counter, "Restarts of a service since the boot.", func(x *api.Service, l string) { w.uint(l, uint64(max(x.Restarts, 0))) })
	each("service_cpu_seconds_total", counter, "Processor time of a service's present process.", alive(func(x *api.Service, l string) { w.float(l, x.CPU) }))
	each("service_resident_memory_bytes", gauge, "Memory of a service, with what it shares.", alive(func(x *api.Service, l string) { w.uint(l, x.RSS*kib) }))
	each("service_anonymous_memory_bytes", gauge, "Memory that is a service's own.", alive(func(x *api.Service, l string) { w.uint(l, x.Anon*kib) }))
}

func (w *writer) clock(s *api.Status) {
	if s.Wall != 0 {
		w.seconds("time_seconds", "The gateway's clock, since 1970.", float64(s.Wall/1e6)/1e3)
	}
	c := s.Clock
	if c == nil {
		return
	}
	w.is("clock_synchronised", "Whether time servers keep the clock.", c.State == api.ClockSynced)
	w.family("clock_state", gauge, "What is known of the time: unknown, near, synced. 1 for the one that holds.")
	w.uint(label("state", c.State), 1)
	if c.Source != "" {
		w.seconds("clock_offset_seconds", "What the clock was behind by at the last answer of time servers.", c.Offset)
		w.seconds("clock_error_seconds", "What the clock may have been wrong by after that, at most.", c.Error)
		w.seconds("clock_answer_age_seconds", "Time since that answer.", c.Since)
		w.gauge("clock_stratum", "Distance of the server that was believed from a reference clock.", uint64(max(c.Stratum, 0)))
	}
}

func (w *writer) network(n *api.Network) {
	on := label("interface", n.Interface)
	w.family("network_up", gauge, "Whether there is a link.")
	w.bool(on, n.Carrier)
	w.family("network_state", gauge, "State of the addresses: bound, static, asking, fallback and so on. 1 for the one that holds.")
	w.uint(labels(on, label("method", n.Method), label("state", n.State)), 1)
	if n.SpeedMbit > 0 {
		w.family("network_speed_bytes", gauge, "Speed of the link, a second.")
		w.uint(on, uint64(n.SpeedMbit)*125000)
	}
	w.family("network_addresses", gauge, "Addresses that the interface has.")
	w.uint(on, uint64(len(n.Addresses)))
	w.family("network_conflicts", gauge, "Addresses that another host has, too.")
	w.uint(on, uint64(len(n.Conflicts)))
	if n.Lease > 0 {
		w.family("network_lease_seconds", gauge, "What is left of the DHCP lease.")
		w.uint(on, uint64(n.Lease))
	}
}

func (w *writer) ethernet(e *api.Ethernet) {
	on := label("interface", e.Interface)
	t := &e.Traffic
	for _, c := range []struct {
		name, help string
		v          uint64
	}{
		{"network_rx_bytes_total", "Bytes received.", t.RxBytes},
		{"network_tx_bytes_total", "Bytes sent.", t.TxBytes},
		{"network_rx_packets_total", "Frames received.", t.RxPackets},
		{"network_tx_packets_total", "Frames sent.", t.TxPackets},
		{"network_rx_errors_total", "Frames that came damaged.", t.RxErrors},
		{"network_tx_errors_total", "Frames that could not be sent.", t.TxErrors},
		{"network_rx_dropped_total", "Frames received for which there was no room.", t.RxDropped},
		{"network_tx_dropped_total", "Frames to be sent for which there was no room.", t.TxDropped},
		{"network_queue_dropped_total", "Frames that the queue in front of the driver dropped.", uint64(e.Qdisc.Drops)},
	} {
		w.family(c.name, counter, c.help)
		w.uint(on, c.v)
	}
	w.family("network_queue_bytes", gauge, "What waits in that queue.")
	w.uint(on, uint64(e.Qdisc.Backlog))
	w.family("network_driver", untyped, "The Ethernet driver's own counters, those that have counted (gwctl eth tells what they mean).")
	for _, c := range e.Counters {
		w.uint(labels(on, label("counter", c.Name)), c.Value)
	}
}

func (w *writer) bridge(b *api.Bridge) {
	w.is("bridge_uart_open", "Whether the bridge has the radio's UART open.", b.UARTOpen)
	if k := b.Kernel; k != nil {
		w.kernel(b, k)
		return
	}
	w.is("bridge_client_connected", "Whether a client has the radio.", b.Client != nil)
	since := 0.0
	if b.Client != nil {
		since = b.Client.Since
	}
	w.seconds("bridge_client_seconds", "How long it has been connected.", since)
	w.gauge("bridge_pending_connections", "Newcomers that have not shown what they are.", uint64(max(b.Pending, 0)))
	w.bytes(b)
	w.count("bridge_tx_dropped_bytes_total", "Bytes to the radio that were dropped when their client ended.", b.TxDropped)
	w.count("bridge_queue_dropped_bytes_total", "Bytes that were dropped because a queue was full and the radio has no flow control.", b.QueueDropped)
	w.count("bridge_connects_total", "Clients that got the radio.", b.Connects)
	w.count("bridge_takeovers_total", "Of them, those that took it from another.", b.Takeovers)
	w.count("bridge_contentions_total", "Of these, those in a fight: three or more within a minute between the same two hosts.", b.Contentions)
	w.count("bridge_refused_total", "Connections that did not get the radio.", b.Refused)
	w.count("bridge_not_allowed_total", "Of them, those refused for their address.", b.NotAllowed)
	w.count("bridge_ssh_connections_total", "Connections at the bridge's port that were SSH.", b.SSH)
	w.count("bridge_stalls_total", "Times that the radio took nothing for BRIDGE_STALL_S.", b.Stalls)
	w.count("bridge_xoffs_undone_total", "XOFF of the radio that held for more than 1 s.", b.XOFFs)
	w.family("bridge_line_errors_total", counter, "Errors on the line from the radio since the UART was opened.")
	w.uint(label("kind", "frame"), b.FrameErrors)
	w.uint(label("kind", "parity"), b.ParityErrors)
	w.uint(label("kind", "overrun"), b.Overruns)
	w.uint(label("kind", "buffer_overrun"), b.BufOverruns)
}

// bytes are the counters that both engines have.
func (w *writer) bytes(b *api.Bridge) {
	w.count("bridge_rx_bytes_total", "Bytes from the radio to clients.", b.RxBytes)
	w.count("bridge_tx_bytes_total", "Bytes from clients to the radio.", b.TxBytes)
	w.count("bridge_discarded_bytes_total", "Bytes from the radio while nobody was connected.", b.Discarded)
}

func (w *writer) kernel(b *api.Bridge, k *api.BridgeKernel) {
	w.bytes(b)
	w.family("bridge_kernel_dropped_bytes_total", counter, "Bytes that the kernel's bridge dropped: the other side did not take them in time.")
	w.uint(label("direction", "rx"), k.DropsErr)
	w.uint(label("direction", "tx"), k.DropsTx)
	w.count("bridge_kernel_xoffs_total", "XOFF of the radio to the kernel's bridge.", k.XOFF)
	w.count("bridge_xoffs_undone_total", "XOFF of the radio that held for more than 1 s.", k.TxPauseTimeouts)
}

// flows are what the bridge measures of the two directions.
func (w *writer) flows(rx, tx *api.BridgeFlow) {
	both := func(name, kind, help string, sample func(f *api.BridgeFlow, l string)) {
		w.family(name, kind, help)
		sample(rx, label("direction", "rx"))
		sample(tx, label("direction", "tx"))
	}
	both("bridge_queue_bytes", gauge, "What waits in the bridge.", func(f *api.BridgeFlow, l string) { w.uint(l, uint64(max(f.Queued, 0))) })
	both("bridge_queue_most_bytes", gauge, "The most that waited in the bridge since it started.", func(f *api.BridgeFlow, l string) { w.uint(l, uint64(max(f.QueueMost, 0))) })
	both("bridge_queue_size_bytes", gauge, "What the bridge's queue holds at most.", func(f *api.BridgeFlow, l string) { w.uint(l, uint64(max(f.QueueSize, 0))) })
	both("bridge_held_total", counter, "Times that the other side did not take all at once.", func(f *api.BridgeFlow, l string) { w.uint(l, f.Held) })
	both("bridge_held_seconds_total", counter, "How long these took together.", func(f *api.BridgeFlow, l string) { w.float(l, f.HeldSeconds) })
	both("bridge_held_longest_seconds", gauge, "How long the longest of them took.", func(f *api.BridgeFlow, l string) { w.float(l, f.HeldLongest) })
	both("bridge_ash_frames_total", counter, "Frames of ASH (Zigbee), by type.", func(f *api.BridgeFlow, l string) {
		a := &f.ASH
		for _, t := range []struct {
			name string
			n    uint64
		}{{"data", a.Data}, {"ack", a.Ack}, {"nak", a.Nak}, {"rst", a.Rst}, {"rstack", a.RstAck}, {"error", a.Error}, {"invalid", a.Invalid}} {
			w.uint(labels(l, label("type", t.name)), t.n)
		}
	})
	both("bridge_ash_resent_frames_total", counter, "DATA frames of ASH that were sent again.", func(f *api.BridgeFlow, l string) { w.uint(l, f.ASH.Resent) })
	both("bridge_ash_crc_errors_total", counter, "Frames of ASH whose checksum was wrong.", func(f *api.BridgeFlow, l string) { w.uint(l, f.ASH.CRC) })
	both("bridge_latency_seconds", histogram, "From bytes that are ready to be read to their last being written to the other side, of one in 17 reads.", w.latency)
}

// The buckets of bridge_latency_seconds are powers of two us, from 2^first to
// 2^last: 32 us, which is less than a step of the gateway's clock, to 4.2 s.
const (
	firstBucket = 5
	lastBucket  = 22
)

// latency writes a histogram. The bridge counts what is below a bound, and le is
// up to it: a time that is exactly the bound is in the next bucket.
func (w *writer) latency(f *api.BridgeFlow, l string) {
	var sum uint64
	for i := range max(len(f.Latency), lastBucket+1) {
		if i < len(f.Latency) {
			sum += uint64(f.Latency[i])
		}
		if i >= firstBucket && i <= lastBucket {
			bound := strconv.FormatFloat(float64(uint64(1)<<i)/1e6, 'g', -1, 64)
			w.uintOf("_bucket", labels(l, label("le", bound)), sum)
		}
	}
	w.uintOf("_bucket", labels(l, label("le", "+Inf")), sum)
	w.floatOf("_sum", l, f.LatencySeconds)
	w.uintOf("_count", l, sum)
}

func (w *writer) netwatch(n *api.Netwatch) {
	w.family("netwatch_state", gauge, "Whether the gateway is reachable: reachable, unreachable, unplugged, no-target, starting. 1 for the one that holds.")
	w.uint(label("state", n.State), 1)
	w.gauge("netwatch_failed_seconds", "For how long nobody has answered.", uint64(max(n.Failed, 0)))
	w.family("netwatch_target_up", gauge, "Whether a target answered at the last look.")
	for i := range n.Targets {
		w.bool(label("target", n.Targets[i].Target), n.Targets[i].By != "")
	}
	w.family("netwatch_target_latency_seconds", gauge, "How long its echo took.")
	for i := range n.Targets {
		if t := &n.Targets[i]; t.Latency > 0 {
			w.float(label("target", t.Target), float64(t.Latency)/1e6)
		}
	}
	w.family("netwatch_steps", gauge, "Recovery steps taken within the window.")
	for i := range n.Steps {
		w.uint(label("step", n.Steps[i].Step), uint64(max(n.Steps[i].Used, 0)))
	}
	w.family("netwatch_steps_limit", gauge, "Recovery steps that may be taken within the window.")
	for i := range n.Steps {
		w.uint(label("step", n.Steps[i].Step), uint64(max(n.Steps[i].Most, 0)))
	}
	w.gauge("incidents", "Incidents that are kept (gwctl incidents).", uint64(max(n.Incidents, 0)))
}

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
	w.gauge("ssh_connections", "SSH connections that have logged in.", uint64(max(open, 0)))
	w.count("ssh_logins_total", "SSH logins.", s.Logins)
	w.count("ssh_failed_logins_total", "SSH connections that tried to log in and were not let in.", s.Failed)
	w.count("ssh_aborted_total", "SSH connections that ended before they tried.", s.Aborted)
}
