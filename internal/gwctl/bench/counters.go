package bench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// devNames are the columns of /proc/net/dev behind the interface's name, receive
// then transmit (the kernel's net/core/net-procfs.c).
var devNames = [...]string{
	"rx bytes", "rx packets", "rx errors", "rx drops", "rx fifo errors", "rx frame errors", "rx compressed", "rx multicast",
	"tx bytes", "tx packets", "tx errors", "tx drops", "tx fifo errors", "tx collisions", "tx carrier errors", "tx compressed",
}

// Counters are what a gateway has counted since its boot.
type Counters struct {
	At     int64             // ns of the gateway's CLOCK_MONOTONIC
	Device map[string]uint64 // by devNames
	SNMP   map[string]uint64 // by "Tcp.RetransSegs" and so on
	// Busy and Total are processor time, in ticks of /proc/stat.
	Busy, Total uint64
	Driver      map[string]uint64 // what the driver counts itself
	Kernel      string            // its release
	Faults      []string          // lines of its log after which figures are worth nothing
}

// parseDevice reads the line of an interface in /proc/net/dev.
func parseDevice(text, name string) (map[string]uint64, error) {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(before) != name {
			continue
		}
		fields := strings.Fields(after)
		if len(fields) < len(devNames) {
			return nil, fmt.Errorf("/proc/net/dev: %s has %d columns, not %d", name, len(fields), len(devNames))
		}
		all := make(map[string]uint64, len(devNames))
		for i, column := range devNames {
			v, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("/proc/net/dev: %s of %s is %.20q", column, name, fields[i])
			}
			all[column] = v
		}
		return all, nil
	}
	return nil, fmt.Errorf("/proc/net/dev has no interface %s", name)
}

// parseSNMP reads /proc/net/snmp: a line of names and one of values for each
// protocol. Values that are no count, such as Tcp's MaxConn of -1, are left out.
func parseSNMP(text string) (map[string]uint64, error) {
	all := map[string]uint64{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines)%2 != 0 {
		return nil, fmt.Errorf("/proc/net/snmp has %d lines, which are no pairs", len(lines))
	}
	for i := 0; i < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] || !strings.HasSuffix(names[0], ":") {
			return nil, fmt.Errorf("/proc/net/snmp: %.40q has no line of values", lines[i])
		}
		protocol := strings.TrimSuffix(names[0], ":")
		for n, name := range names[1:] {
			if v, err := strconv.ParseUint(values[n+1], 10, 64); err == nil {
				all[protocol+"."+name] = v
			}
		}
	}
	return all, nil
}

// Delta is what was counted between two looks. What did not change is left out.
type Delta struct {
	Seconds float64           `json:"seconds"`
	Device  map[string]uint64 `json:"device,omitempty"`
	SNMP    map[string]uint64 `json:"snmp,omitempty"`
	Driver  map[string]uint64 `json:"driver,omitempty"`
	Busy    float64           `json:"busy"` // fraction of the processor's time
}

// add sums deltas of times that do not overlap.
func (d *Delta) add(more Delta) {
	total := d.Seconds + more.Seconds
	if total > 0 {
		d.Busy = (d.Busy*d.Seconds + more.Busy*more.Seconds) / total
	}
	d.Seconds = total
	for _, m := range []struct {
		to   *map[string]uint64
		from map[string]uint64
	}{{&d.Device, more.Device}, {&d.SNMP, more.SNMP}, {&d.Driver, more.Driver}} {
		if *m.to == nil {
			*m.to = map[string]uint64{}
		}
		for name, v := range m.from {
			(*m.to)[name] += v
		}
	}
}

// packets are those of the interface, both ways.
func (d Delta) packets() uint64 { return d.Device["rx packets"] + d.Device["tx packets"] }

// nsPerPacket is the processor's time that a packet took: busy fraction x time /
// packets. It is 0 without packets.
func (d Delta) nsPerPacket() float64 {
	if d.packets() == 0 {
		return 0
	}
	return d.Busy * d.Seconds * 1e9 / float64(d.packets())
}

// between is what was counted from a to b. The gateway must not have been restarted
// in between, which an error tells.
func between(a, b Counters) (Delta, error) {
	if b.At <= a.At || b.Total < a.Total || b.Busy < a.Busy {
		return Delta{}, errRestarted
	}
	d := Delta{Seconds: float64(b.At-a.At) / 1e9}
	if b.Total > a.Total {
		d.Busy = float64(b.Busy-a.Busy) / float64(b.Total-a.Total)
	}
	d.Device, d.SNMP, d.Driver = grown(a.Device, b.Device), grown(a.SNMP, b.SNMP), grown(a.Driver, b.Driver)
	return d, nil
}

// grown is by how much each counter is more. Counters of the kernel's are longs: on
// the gateway they begin anew after 2^32.
func grown(a, b map[string]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for name, v := range b {
		before := a[name]
		switch {
		case v > before:
			all[name] = v - before
		case v < before && before < 1<<32:
			all[name] = v + 1<<32 - before
		}
	}
	return all
}

// sorted are a map's names in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
