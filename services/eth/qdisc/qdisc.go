// Package qdisc sets and reads the root queueing discipline of an interface over
// rtnetlink: fq_codel with all of its parameters, and what any of them counts.
//
// The messages are made and read here and carried by vishvananda/netlink's nl,
// whose own FqCodel leaves out the target, the memory limit and the batch.
// Formats are those of linux/rtnetlink.h, pkt_sched.h and gen_stats.h.
package qdisc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Sentinels.
var (
	// ErrNone: the kernel schedules packets by pfifo_fast only.
	ErrNone = errors.New("this kernel has no queueing disciplines (CONFIG_NET_SCHED)")
	// ErrKind: the kernel does not have this discipline.
	ErrKind = errors.New("this kernel has no fq_codel (CONFIG_NET_SCH_FQ_CODEL)")

	errShort = errors.New("a short message from rtnetlink")
)

// Handle marks a root discipline as the one that Set made. A default one has 0,
// and tc(8) picks from 8001: up unless it is told.
const Handle = 0x8196_0000

// Kind is the discipline that Set makes.
const Kind = "fq_codel"

// FQCodel is its parameters (RFC 8290). The kernel keeps times in units of
// 1.024 us.
type FQCodel struct {
	Limit    uint32 // packets
	Flows    uint32 // queues
	Quantum  uint32 // bytes a queue may send in a round
	Memory   uint32 // bytes, buffers included
	Target   time.Duration
	Interval time.Duration
	ECN      bool
}

// Same tells whether got is what the kernel makes of p.
func (p FQCodel) Same(got FQCodel) bool {
	near := func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Microsecond }
	times := near(p.Target, got.Target) && near(p.Interval, got.Interval)
	p.Target, p.Interval = got.Target, got.Interval
	return times && p == got
}

// State is a root discipline as the kernel has it.
type State struct {
	Kind    string // "": the kernel does not say
	Handle  uint32 // 0: the kernel's default
	FQCodel FQCodel
	Stats   Stats
}

// Stats is what a discipline counted. The second half is fq_codel's.
type Stats struct {
	Bytes      uint64
	Packets    uint32
	Backlog    uint32 // bytes waiting
	Length     uint32 // packets waiting
	Drops      uint32
	Requeues   uint32 // the driver was not ready
	Overlimits uint32

	DropOverlimit uint32 // of Drops: Limit or Memory was reached
	Marked        uint32 // ECN
	NewFlows      uint32
	MemoryUsed    uint32 // bytes
}

// Attributes.
const (
	attrKind    = 1 // TCA_KIND
	attrOptions = 2 // TCA_OPTIONS
	attrStats   = 7 // TCA_STATS2

	fqTarget   = 1
	fqLimit    = 2
	fqInterval = 3
	fqECN      = 4
	fqFlows    = 5
	fqQuantum  = 6
	fqMemory   = 9

	statsBasic = 1
	statsQueue = 3
	statsApp   = 4
)

// root is TC_H_ROOT.
const root = 0xffff_ffff

// message is what linux/pkt_sched.h calls tcmsg, with attributes behind it.
type message struct {
	order binary.ByteOrder
	b     []byte
}

// newMessage starts one about the root discipline of interface index.
func newMessage(order binary.ByteOrder, index int, handle uint32) *message {
	m := &message{order, make([]byte, 20)} // family and its padding are 0
	order.PutUint32(m.b[4:], uint32(index))
	order.PutUint32(m.b[8:], handle)
	order.PutUint32(m.b[12:], root)
	return m
}

// grow adds an attribute of n bytes, padded to 4, and returns them.
func (m *message) grow(kind uint16, n int) []byte {
	at := len(m.b)
	m.b = append(m.b, make([]byte, 4+(n+3)&^3)...)
	m.order.PutUint16(m.b[at:], uint16(4+n))
	m.order.PutUint16(m.b[at+2:], kind)
	return m.b[at+4:]
}

// setMessage is the body of the RTM_NEWQDISC that makes p the root.
func setMessage(order binary.ByteOrder, index int, p FQCodel) []byte {
	m := newMessage(order, index, Handle)
	copy(m.grow(attrKind, len(Kind)+1), Kind)
	ecn := uint32(0)
	if p.ECN {
		ecn = 1
	}
	words := [...]struct {
		kind  uint16
		value uint32
	}{
		{fqTarget, uint32(p.Target / time.Microsecond)},
		{fqLimit, p.Limit},
		{fqInterval, uint32(p.Interval / time.Microsecond)},
		{fqECN, ecn},
		{fqFlows, p.Flows},
		{fqQuantum, p.Quantum},
		{fqMemory, p.Memory},
	}
	options := message{order: order}
	for _, w := range words {
		order.PutUint32(options.grow(w.kind, 4), w.value)
	}
	copy(m.grow(attrOptions, len(options.b)), options.b)
	return m.b
}

// table is the attributes of one level by their type. Those that are not
// there are empty, and types that nobody asks for are left out.
type table [fqMemory + 1][]byte

// attributes reads one level.
func attributes(order binary.ByteOrder, b []byte) (t table, err error) {
	for len(b) > 0 {
		if len(b) < 4 {
			return t, errShort
		}
		n, kind := int(order.Uint16(b)), order.Uint16(b[2:])&0x3fff // without NLA_F_NESTED
		if n < 4 || n > len(b) {
			return t, errShort
		}
		if int(kind) < len(t) {
			t[kind] = b[4:n]
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return t, nil
}

// words reads words into to, as many as there are.
func words(order binary.ByteOrder, b []byte, to ...*uint32) {
	for _, w := range to {
		if len(b) < 4 {
			return
		}
		*w = order.Uint32(b)
		b = b[4:]
	}
}

// parse reads an RTM_NEWQDISC. ok is false if it is about something else than
// the root discipline of interface index.
func parse(order binary.ByteOrder, index int, b []byte) (s State, ok bool, err error) {
	if len(b) < 20 {
		return s, false, errShort
	}
	if order.Uint32(b[4:]) != uint32(index) || order.Uint32(b[12:]) != root {
		return s, false, nil
	}
	s.Handle = order.Uint32(b[8:])
	top, err := attributes(order, b[20:])
	if err != nil {
		return s, true, err
	}
	s.Kind = unix.ByteSliceToString(top[attrKind])
	stats, err := attributes(order, top[attrStats])
	if err != nil {
		return s, true, err
	}
	n, p := &s.Stats, &s.FQCodel
	var skip uint32
	if basic := stats[statsBasic]; len(basic) >= 8 {
		n.Bytes = order.Uint64(basic)
		words(order, basic[8:], &n.Packets)
	}
	words(order, stats[statsQueue], &n.Length, &n.Backlog, &n.Drops, &n.Requeues, &n.Overlimits)
	if s.Kind != Kind {
		return s, true, nil
	}
	// The first word is TCA_FQ_CODEL_XSTATS_QDISC.
	words(order, stats[statsApp], &skip, &skip, &n.DropOverlimit, &n.Marked, &n.NewFlows, &skip, &skip, &skip, &n.MemoryUsed)
	options, err := attributes(order, top[attrOptions])
	var target, interval, ecn uint32
	for kind, to := range [len(options)]*uint32{
		fqTarget: &target, fqLimit: &p.Limit, fqInterval: &interval, fqECN: &ecn,
		fqFlows: &p.Flows, fqQuantum: &p.Quantum, fqMemory: &p.Memory,
	} {
		if to != nil {
			words(order, options[kind], to)
		}
	}
	p.Target, p.Interval = time.Duration(target)*time.Microsecond, time.Duration(interval)*time.Microsecond
	p.ECN = ecn != 0
	return s, true, err
}

// System is the kernel this process runs on.
type System struct{}

// do sends a request and returns its answers.
func do(kind, flags int, body []byte) ([][]byte, error) {
	r := nl.NewNetlinkRequest(kind, flags)
	r.AddRawData(body)
	answers, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWQDISC)
	if errors.Is(err, nl.ErrDumpInterrupted) {
		err = nil // something changed meanwhile; it is looked at again
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = ErrNone
	}
	return answers, err
}

// Root returns the root discipline of interface index, ErrNone if the kernel
// has no such thing.
func (System) Root(index int) (State, error) {
	answers, err := do(unix.RTM_GETQDISC, unix.NLM_F_DUMP, newMessage(nl.NativeEndian(), index, 0).b)
	if err != nil {
		return State{}, fmt.Errorf("read the root qdisc: %w", err)
	}
	for _, a := range answers {
		if s, ok, err := parse(nl.NativeEndian(), index, a); err != nil || ok {
			return s, err
		}
	}
	return State{}, nil
}

// Set makes fq_codel with p the root discipline of interface index, instead of
// whatever is there; what waits in that is dropped. The error wraps ErrNone or
// ErrKind where the kernel has not got it.
func (System) Set(index int, p FQCodel) error {
	s, err := System{}.Root(index)
	if err == nil && s.Handle == Handle {
		// The number of flows cannot be changed in place.
		err = System{}.Clear(index)
	}
	if err == nil {
		_, err = do(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, setMessage(nl.NativeEndian(), index, p))
		if errors.Is(err, unix.ENOENT) {
			err = ErrKind
		}
	}
	if err != nil {
		return fmt.Errorf("set root qdisc %s: %w", Kind, err)
	}
	return nil
}

// Clear has interface index use the kernel's default discipline again.
func (System) Clear(index int) error {
	if _, err := do(unix.RTM_DELQDISC, unix.NLM_F_ACK, newMessage(nl.NativeEndian(), index, 0).b); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the root qdisc: %w", err)
	}
	return nil
}
