//go:build linux

package iperf3

import (
	"fmt"

	"gwinit/services/iperf3/proto"
)

// The server's output that a client may ask for has the figures of iperf3's own.

// mostOutput bounds it: a test of a day has a line a second for each stream.
const mostOutput = 32 << 10

// head begins it.
func (t *test) head() {
	fmt.Fprintf(&t.out, "Accepted connection from %s on port %d\n", t.peer, t.s.port)
	for i := range t.streams {
		fmt.Fprintf(&t.out, "[%3d] local %s connected to %s\n", proto.StreamID(i), t.seen[i].local, t.seen[i].peer)
	}
	t.out.WriteString("[ ID] Interval           Transfer     Bitrate         Jitter    Lost/Total Datagrams\n")
}

// lines adds one for each stream: what it has moved since the lines before, or with
// total, since its start.
func (t *test) lines(now int64, total bool) {
	if t.out.Len() > mostOutput {
		return
	}
	for i := range t.streams {
		st, s := &t.streams[i], &t.seen[i]
		from, bytes, lost, count, role := s.lastAt, st.bytes-s.shown, st.got.Lost-s.lastLost, packets(st)-s.lastPackets, ""
		if total {
			from, bytes, lost, count, role = t.started, st.bytes, st.got.Lost-s.lost, packets(st)-s.packets, "receiver"
			if st.kind&sends != 0 {
				role = "sender"
			}
		}
		d := float64(max(1, now-from)) / 1e9
		fmt.Fprintf(&t.out, "[%3d] %6.2f-%-6.2f sec  %.2f MBytes  %.2f Mbits/sec", proto.StreamID(i),
			float64(from-t.started)/1e9, float64(now-t.started)/1e9, float64(bytes)/(1<<20), float64(bytes)*8/1e6/d)
		if t.p.UDP {
			fmt.Fprintf(&t.out, "  %.3f ms  %d/%d", st.got.Jitter()*1e3, lost, count)
		}
		t.out.WriteString("  " + role + "\n")
		s.shown, s.lastAt, s.lastLost, s.lastPackets = st.bytes, now, st.got.Lost, packets(st)
	}
}
