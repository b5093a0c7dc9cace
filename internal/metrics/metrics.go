// Package metrics makes Prometheus text of what a gateway says of itself, for
// `gwctl metrics`, `gwctl exporter` and the responder on the box (docs/metrics.md).
// All of them have the series of this package and no other.
//
// The text is that of format version 0.0.4 (prometheus.io, "Exposition
// formats"). The package asks over the control protocol and holds no state.
package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"gwinit/internal/api"
)

// ContentType is that of the text, for HTTP.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Sample is what is known of a gateway at one time. What is nil did not answer,
// and has no series.
type Sample struct {
	Status   *api.Status
	Bridge   *api.BridgeWatch
	Ethernet *api.Ethernet
	Netwatch *api.Netwatch
	SSH      *api.SSH
}

// Asker sends one request of the control protocol and returns its answer; the
// Do of a control client is one.
type Asker func(ctx context.Context, op string, args any) (json.RawMessage, error)

// Collect asks a gateway. A service that does not answer is left out; the error
// is that of PID 1's status, or of the connection.
func Collect(ctx context.Context, ask Asker) (s Sample, err error) {
	if err := fill(ctx, ask, api.OpStatus, nil, &s.Status); err != nil {
		return s, err
	}
	call := func(service, method string, to any) {
		if err != nil {
			return
		}
		var refused *api.Error
		e := fill(ctx, ask, api.OpCall, api.CallArgs{Service: service, Method: method}, to)
		if !errors.As(e, &refused) {
			err = e
		}
	}
	if s.Status.Bridge != nil {
		call("bridge", "watch", &s.Bridge)
	}
	if s.Status.Network != nil {
		call("core", "eth", &s.Ethernet)
		call("core", "netwatch", &s.Netwatch)
		call("core", "ssh", &s.SSH)
	}
	return s, err
}

// Local is what the process core knows without asking: its own part of a Sample.
type Local struct {
	Network  *api.Network // nil: nothing yet, and nothing of the rest
	Clock    *api.Clock
	Warnings []string
	Ethernet *api.Ethernet
	Netwatch *api.Netwatch
	SSH      *api.SSH
}

// CollectLocal is Collect for core: it asks for what others know. That takes a
// third of the instructions, as each answer of core would go through two processes.
func CollectLocal(ctx context.Context, ask Asker, local Local) (s Sample, err error) {
	if err := fill(ctx, ask, api.OpStatus, api.StatusArgs{Own: true}, &s.Status); err != nil {
		return s, err
	}
	var refused *api.Error
	err = fill(ctx, ask, api.OpCall, api.CallArgs{Service: "bridge", Method: "watch"}, &s.Bridge)
	if err != nil && !errors.As(err, &refused) {
		return s, err
	}
	st := s.Status
	st.Network, st.Clock, st.Warnings = local.Network, local.Clock, append(st.Warnings, local.Warnings...)
	if s.Bridge != nil {
		st.Bridge = &s.Bridge.Bridge
		st.Radio.Baud, st.Radio.Flow = st.Bridge.Baud, st.Bridge.Flow
		st.Warnings = append(st.Warnings, st.Bridge.Warnings...)
	}
	s.Ethernet, s.Netwatch, s.SSH = local.Ethernet, local.Netwatch, local.SSH
	return s, nil
}

func fill(ctx context.Context, ask Asker, op string, args, to any) error {
	data, err := ask(ctx, op, args)
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	return err
}

// Prefix begins the name of every family.
const Prefix = "gateway_"

// writer makes the text.
type writer struct {
	b     []byte
	table string // the families that are still to come
	// The family that is being written, and whether its lines HELP and TYPE are
	// there: they come with its first sample.
	name, kind, help string
	begun            bool
}

// next begins the next family of the table. One without samples is not in the
// text.
func (w *writer) next() {
	line, rest, _ := strings.Cut(w.table, "\n")
	w.table = rest
	w.kind, line, _ = strings.Cut(line, " ")
	w.name, w.help, _ = strings.Cut(line, " ")
	w.begun = false
}

// skip leaves the next n families out.
func (w *writer) skip(n int) {
	for range n {
		w.next()
	}
}

// begin writes a sample up to its value. labels are as label makes them, with
// commas between.
func (w *writer) begin(suffix, labels string) {
	if !w.begun {
		w.begun = true
		kind := "untyped"
		switch w.kind {
		case "c":
			kind = "counter"
		case "g":
			kind = "gauge"
		case "h":
			kind = "histogram"
		}
		w.put("# HELP ", Prefix, w.name, " ", w.help, "\n# TYPE ", Prefix, w.name, " ", kind, "\n")
	}
	w.put(Prefix, w.name, suffix)
	if labels != "" {
		w.put("{", labels, "}")
	}
	w.b = append(w.b, ' ')
}

func (w *writer) put(all ...string) {
	for _, s := range all {
		w.b = append(w.b, s...)
	}
}

func (w *writer) uintOf(suffix, labels string, v uint64) {
	w.begin(suffix, labels)
	w.b = append(strconv.AppendUint(w.b, v, 10), '\n')
}

func (w *writer) floatOf(suffix, labels string, v float64) {
	w.begin(suffix, labels)
	w.b = append(strconv.AppendFloat(w.b, v, 'g', -1, 64), '\n')
}

func (w *writer) uint(labels string, v uint64)   { w.uintOf("", labels, v) }
func (w *writer) float(labels string, v float64) { w.floatOf("", labels, v) }

// uints writes the next families, a sample each.
func (w *writer) uints(labels string, all ...uint64) {
	for _, v := range all {
		w.next()
		w.uint(labels, v)
	}
}

func (w *writer) floats(labels string, all ...float64) {
	for _, v := range all {
		w.next()
		w.float(labels, v)
	}
}

// each writes samples of one family, whose label of that name has one value of
// the list after the other. more are the other labels, or "".
func (w *writer) each(name, list, more string, all ...uint64) {
	for _, v := range all {
		var value string
		value, list, _ = strings.Cut(list, " ")
		l := label(name, value)
		if more != "" {
			l = labels(more, l)
		}
		w.uint(l, v)
	}
}

// label is name="value".
func label(name, value string) string {
	if strings.ContainsAny(value, "\\\"\n") {
		value = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value)
	}
	return name + `="` + strings.ToValidUTF8(value, "\uFFFD") + `"`
}

// labels joins them.
func labels(all ...string) string { return strings.Join(all, ",") }

// Append adds the text of s to b.
func Append(b []byte, s Sample) []byte {
	w := &writer{b: b}
	if st := s.Status; st != nil {
		w.box(st)
		w.services(st.Services)
		w.clock(st)
		if st.Network != nil {
			w.network(st.Network)
		}
	}
	if s.Ethernet != nil {
		w.ethernet(s.Ethernet)
	}
	if s.Status != nil && s.Status.Bridge != nil {
		w.bridge(s.Status.Bridge)
	}
	if s.Bridge != nil && s.Bridge.Engine != "kernel" {
		w.flows(&s.Bridge.FromRadio, &s.Bridge.ToRadio)
	}
	if s.Netwatch != nil {
		w.netwatch(s.Netwatch)
	}
	if s.SSH != nil {
		w.ssh(s.SSH, s.Status)
	}
	return w.b
}
