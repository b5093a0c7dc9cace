package tune

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/services/eth/qdisc"
)

// noteDropped is about what people see in ifconfig and take for a fault.
const noteDropped = "received and dropped: on networks with Realtek's loop detection (frames of type 0x8899, one every 2 s) this grows by itself and harms nothing"

// badKnobs begins the note about settings that are wrong.
const badKnobs = "ETH_KNOBS: "

// Status returns what there is now. It is safe for concurrent use.
func (t *Tuner) Status() *api.Ethernet {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := &api.Ethernet{
		Interface: t.opt.Interface, Profile: t.want.Profile, Knobs: t.want.Knobs, Kept: t.want == t.stored,
		Qdisc: api.EthQdisc{Wanted: t.want.Qdisc, Why: t.queue}, All: []api.EthKnob{},
	}
	if t.link.Index == 0 {
		e.Notes = []string{"there is no " + t.opt.Interface}
		return e
	}
	if d, err := t.opt.Card.Driver(); err == nil {
		e.Driver, e.Version = d.Name, d.Version
	}
	t.traffic(e)
	c := &e.Traffic
	// Many kernels have the files for every driver, but the limit stays 0 of
	// one that does not use them.
	b := api.EthBQL{Limit: t.number(queues + "limit"), Inflight: t.number(queues + "inflight"), Stalls: t.number(queues + "stall_cnt")}
	if b.Limit > 0 {
		e.BQL = &b
	}
	for i, wanted := range t.wanted() {
		e.All = append(e.All, t.statusKnob(i, wanted, b.Limit == 0 && c.TxPackets > 0))
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for a bad clock or pointer only
	e.At = now.Nano()
	if t.bad != "" {
		e.Notes = append(e.Notes, badKnobs+t.bad)
	}
	if t.opt.Safe {
		e.Notes = append(e.Notes, "safe mode: the settings are not used")
	}
	if c.RxDropped > 0 {
		e.Notes = append(e.Notes, noteDropped)
	}
	return e
}

// Traffic is the part of Status that tells of frames and of what the driver
// counts: a dozen files instead of a hundred. It is nil where there is no
// interface, and safe for concurrent use.
func (t *Tuner) Traffic() *api.Ethernet {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link.Index == 0 {
		return nil
	}
	e := &api.Ethernet{Interface: t.opt.Interface}
	t.traffic(e)
	return e
}

func (t *Tuner) traffic(e *api.Ethernet) {
	c := &e.Traffic
	for _, f := range [...]struct {
		name string
		to   *uint64
	}{
		{"rx_bytes", &c.RxBytes},
		{"tx_bytes", &c.TxBytes},
		{"rx_packets", &c.RxPackets},
		{"tx_packets", &c.TxPackets},
		{"rx_errors", &c.RxErrors},
		{"tx_errors", &c.TxErrors},
		{"rx_dropped", &c.RxDropped},
		{"tx_dropped", &c.TxDropped},
	} {
		*f.to = t.number(device + "statistics/" + f.name)
	}
	t.statusQueue(&e.Qdisc)
	e.Counters = t.counters()
}

func (t *Tuner) statusKnob(i int, wanted string, noBQL bool) api.EthKnob {
	k := &knobs[i]
	a := api.EthKnob{Name: k.name, Wanted: wanted, Why: k.does}
	actual, err := t.read(k)
	if err == nil {
		a.Actual = actual
	}
	switch a.Failed = wanted != "" && wanted != a.Actual; {
	case a.Failed:
		a.Why = t.why[i]
		if a.Why == "" {
			a.Why = "somebody changed it; the next link up changes it back"
		}
	case err != nil:
		a.Why = reason(err)
	case noBQL && strings.HasPrefix(k.path, queues):
		a.Why = "without effect: this driver has no byte queue limits"
	}
	return a
}

// Warnings are what somebody should look at, in words. Each status of the box
// asks for them, so what nobody has set is not read.
func (t *Tuner) Warnings() (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.link.Index == 0 {
		return nil
	}
	for i, wanted := range t.wanted() {
		if wanted == "" {
			continue
		}
		if k := t.statusKnob(i, wanted, false); k.Failed {
			all = append(all, t.opt.Interface+": "+k.Name+" is not "+wanted+": "+k.Why)
		}
	}
	if t.isOurs() {
		for _, c := range t.counters() {
			if c.Alarm {
				all = append(all, t.opt.Interface+": "+c.Name+" is "+strconv.FormatUint(c.Value, 10)+" and should be 0: "+c.Meaning)
			}
		}
	}
	if t.bad != "" {
		all = append(all, badKnobs+t.bad)
	}
	return all
}

// number is the sum of a file's numbers over the transmit queues, or the one of
// the interface; 0 if there is none.
func (t *Tuner) number(path string) (sum uint64) {
	for _, f := range t.files(path) {
		b, _ := os.ReadFile(f)
		n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		sum += n
	}
	return sum
}

func (t *Tuner) statusQueue(q *api.EthQdisc) {
	s, err := t.opt.Queue.Root(t.link.Index)
	switch {
	case errors.Is(err, qdisc.ErrNone):
		q.Actual = "pfifo_fast"
		return
	case err != nil:
		q.Why = err.Error()
		return
	}
	q.Actual = s.Kind
	if s.Kind == qdisc.Kind {
		q.Parameters = parameters(s.FQCodel)
	} else if q.Wanted == config.QdiscFQCodel && q.Why == "" {
		q.Why = "somebody changed it"
	}
	n := s.Stats
	q.Bytes, q.Packets, q.Drops, q.Requeues = n.Bytes, n.Packets, n.Drops, n.Requeues
	q.Backlog, q.Length, q.Overlimit, q.Marked = n.Backlog, n.Length, n.DropOverlimit, n.Marked
	q.NewFlows, q.Memory = n.NewFlows, n.MemoryUsed
}

// counters returns those of the driver that have counted something, and what
// they mean where that is known.
func (t *Tuner) counters() (all []api.EthCounter) {
	stats, _ := t.opt.Card.Stats() // a driver need not have any
	for _, s := range stats {
		if s.Value == 0 {
			continue
		}
		c := api.EthCounter{Name: s.Name, Value: s.Value}
		if name, ok := strings.CutPrefix(s.Name, counterPrefix); ok {
			for i := range counters {
				if counters[i].name == name {
					c.Meaning, c.Alarm = counters[i].means, counters[i].zero
				}
			}
		}
		all = append(all, c)
	}
	return all
}
