//go:build linux

package onbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control"
	"gwinit/internal/control/controltest"
)

// Each kind of line that is an event, and what it has.
var eventLines = []struct {
	service, text, kind string
	fields              map[string]string
}{
	{"bridge", "client 192.0.2.10:5123 connected, the first; 12 older bytes from the radio discarded", "client-connected", map[string]string{"client": "192.0.2.10:5123", "detail": "the first; 12 older bytes from the radio discarded"}},
	{"bridge", "client [2001:db8::1]:5123 disconnected after 1m5s: 100 bytes from the radio, 20 to it: replaced by 192.0.2.11:6", "client-left", map[string]string{
		"client": "[2001:db8::1]:5123", "after": "1m5s", "rxBytes": "100", "txBytes": "20", "reason": "replaced by 192.0.2.11:6",
	}},
	{"bridge", "connection from 192.0.2.9:1 closed: its address is not allowed", "client-refused", map[string]string{"client": "192.0.2.9:1", "reason": "its address is not allowed"}},
	{"bridge", "the radio is released for 10m0s at most", "radio-released", map[string]string{"for": "10m0s"}},
	{"bridge", "the radio is taken back", "radio-taken", map[string]string{}},
	{"bridge", "warning: the radio has taken nothing for 30s", "warning", map[string]string{"detail": "the radio has taken nothing for 30s"}},
	{"core", "eth0: link up, 100 Mbit/s", "link-up", map[string]string{"interface": "eth0", "detail": ", 100 Mbit/s"}},
	{"core", "eth0: link up", "link-up", map[string]string{"interface": "eth0"}},
	{"core", "eth0: link down, after 7 changes in 3s", "link-down", map[string]string{"interface": "eth0", "detail": ", after 7 changes in 3s"}},
	{"core", "eth0: 192.0.2.50/24 from 192.0.2.1 for 12h0m0s", "address", map[string]string{"interface": "eth0", "address": "192.0.2.50/24", "server": "192.0.2.1", "lease": "12h0m0s"}},
	{"core", "eth0: no address from a DHCP server; using 192.168.1.254/24 until there is one", "address", map[string]string{"interface": "eth0", "address": "192.168.1.254/24"}},
	{"core", "eth0: address 192.0.2.50/24 lost: the lease is over", "address-lost", map[string]string{"interface": "eth0", "address": "192.0.2.50/24", "reason": "the lease is over"}},
	{"core", "eth0: 192.0.2.50 is also used by 02:00:00:00:00:01: give one of the two another address", "address-conflict", map[string]string{
		"interface": "eth0", "address": "192.0.2.50", "mac": "02:00:00:00:00:01", "detail": "give one of the two another address",
	}},
	{"core", "netwatch: no answer from gateway for 2m0s: setting the link down and up", "netwatch", map[string]string{"step": "no answer from gateway for 2m0s: setting the link down and up"}},
	{"core", "clock: set to 2026-12-01 05:00:00 UTC, it was off by 3s; by a.example, right to 2ms", "clock", map[string]string{"time": "2026-12-01 05:00:00", "detail": ", it was off by 3s; by a.example, right to 2ms"}},
	{"core", "panel: button: pressed for 1.2s, 1 of 3 that let a key be enrolled", "button", map[string]string{"press": "pressed for 1.2s, 1 of 3 that let a key be enrolled"}},
	{"sshd", "login from 192.0.2.10:5 by SHA256:abc", "login", map[string]string{"from": "192.0.2.10:5", "key": "SHA256:abc"}},
	{"sshd", "login from 192.0.2.10:5 refused: there are 4 already", "login-refused", map[string]string{"from": "192.0.2.10:5", "reason": "there are 4 already"}},
	{"sshd", "login from 192.0.2.10 by the password that everybody knows is refused; set another with passwd on the serial console", "login-refused", map[string]string{"from": "192.0.2.10", "reason": "set another with passwd on the serial console"}},
	{"sshd", "connection from 192.0.2.10:5 ended before a login: EOF", "login-refused", map[string]string{"from": "192.0.2.10:5", "reason": "EOF"}},
	{"sshd", "connection from 192.0.2.10:5 ended after 3s", "logout", map[string]string{"from": "192.0.2.10:5", "after": "3s"}},
	{"sshd", "setup from 192.0.2.10: may log in from now on: SHA256:abc", "key-added", map[string]string{"from": "192.0.2.10", "key": "SHA256:abc"}},
	{"init", "bridge: backoff: exit code 1: no UART; next start in 1s", "service", map[string]string{"service": "bridge", "state": "backoff", "reason": "exit code 1: no UART; next start in 1s"}},
	{"init", "reboot: stopping services", "shutdown", map[string]string{"action": "reboot"}},

	{"init", "gwinit 0.1.0 on Lidl, boot mode normal", "", nil},
	{"init", "core: no sign of life for 60s: it is restarted", "", nil},
	{"core", "client 192.0.2.10:5123 connected, the first", "", nil},
	{"bridge", "client  connected, the first", "", nil},
	{"core", "eth0: still 192.0.2.50/24 from 192.0.2.1 for 11h0m0s", "address", map[string]string{"interface": "eth0", "address": "192.0.2.50/24", "server": "192.0.2.1", "lease": "11h0m0s"}},
}

func TestEvents(t *testing.T) {
	all := rules()
	for _, tt := range eventLines {
		e, ok := event(all, api.LogLine{Seq: 7, Mono: 1_500_700_000, Wall: 1_790_000_000_250_000_000, Service: tt.service, Text: tt.text})
		if !ok {
			if tt.kind != "" {
				t.Errorf("%q is none", tt.text)
			}
			continue
		}
		if e.Type != tt.kind || !maps.Equal(e.Fields, tt.fields) || e.Seq != 7 || e.Uptime != 1.5 || e.Time != "2026-09-21T14:13:20.250Z" || e.Text != tt.text {
			t.Errorf("%q: %+v", tt.text, e)
		}
		if !strings.Contains(EventsUsage, " "+e.Type+",") && !strings.Contains(EventsUsage, "\n"+e.Type+",") {
			t.Errorf("the help does not name %s", e.Type)
		}
	}
	if e, _ := event(all, api.LogLine{Service: "bridge", Text: "the radio is taken back"}); e.Time != "" {
		t.Errorf("a time that is not known: %q", e.Time)
	}
}

// The words that rules look for are those of the services.
func TestServicesSaySo(t *testing.T) {
	for folder, words := range map[string][]string{
		"services/bridge":      {`"client "+came.peer.String()+" connected"+l.before(now)`, `", the first"`, `", " + span(`, `"client " + c.peer.String() + " disconnected after "`, `" bytes from the radio, "`, `" to it: " + reason`, `"connection from "+p.peer.String()+" closed: "+reason`, `"the radio is released for " + span(d) + " at most"`, `"the radio is taken back"`, `"warning: " + `},
		"services/eth":         {`now.Name+": link up"+speed`, `now.Name+": link down"`, `"%s: no address from a DHCP server; using %v until there is one"`, `"%s: address %v lost: %s"`, `"%s: %v is also used by %v: `, `"%s: %v from %v %s"`, `"for " + d.Round`},
		"services/netwatch":    {`"netwatch: " + text`},
		"services/clock":       {`"clock: %s; by %v`, `"set to " + truth.UTC().Format(time.DateTime) + " UTC"`},
		"services/panel":       {`"panel: button: " + e.text()`},
		"services/sshd/server": {`"login from " + peer + " refused: `, `" by the password that everybody knows is refused; `, `"login from " + peer + " by " + how`, `"connection from " + peer + " ended before a login: " + why`, `"connection from " + peer + " ended after "`, `": may log in from now on: "`},
		"internal/supervisor":  {`sv.Name+": "+state+": "+why`},
		"internal/pid1":        {`"%s: stopping services"`},
	} {
		var source strings.Builder
		files, err := filepath.Glob(filepath.Join("../../..", folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				source.Write(b)
			}
		}
		for _, w := range words {
			if !strings.Contains(source.String(), w) {
				t.Errorf("%s does not say %s any more: put the rules right", folder, w)
			}
		}
	}
}

// eventReader collects lines and tells when there are so many.
type eventReader struct {
	bytes.Buffer
	wait int
	done func()
}

func (r *eventReader) Write(p []byte) (int, error) {
	n, err := r.Buffer.Write(p)
	if bytes.Count(r.Bytes(), []byte("\n")) == r.wait {
		r.done()
	}
	return n, err
}

func TestFollowEvents(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want []string
	}{
		{name: "from now on", want: []string{"client-left"}},
		{name: "all that is kept", args: []string{"-a"}, want: []string{"client-connected", "login", "client-left"}},
		{name: "of a type", args: []string{"-a", "client-connected", "client-left"}, want: []string{"client-connected", "client-left"}},
	} {
		b := &controltest.Backend{Box: api.Status{Services: []api.Service{{Name: "bridge"}}}}
		b.Append("bridge", "client 192.0.2.10:5 connected, the first")
		b.Append("sshd", "login from 192.0.2.10:6 by password")
		socket := controltest.Start(t, b, control.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		out := &eventReader{wait: len(tt.want), done: cancel}
		ended := make(chan error, 1)
		go func() { ended <- Events(ctx, socket, applet.IO{Out: out}, tt.args) }()
		for b.Followers() == 0 && ctx.Err() == nil {
			select { // it has begun, or has come to its end
			case err := <-ended:
				t.Fatal(err)
			default:
			}
		}
		b.Append("bridge", "listening on [::]:8888")
		b.Append("bridge", "client 192.0.2.10:5 disconnected after 1s: 1 bytes from the radio, 2 to it: closed by the client")
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		cancel()
		var got []string
		for line := range strings.Lines(out.String()) {
			var e Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Type)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A reader that is too slow, or a short log, is told.
func TestMissedEvents(t *testing.T) {
	b := &controltest.Backend{Keep: 2}
	socket := controltest.Start(t, b, control.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { err := Events(ctx, socket, applet.IO{Out: w}, nil); w.CloseWithError(io.EOF); ended <- err }()
	for b.Followers() == 0 {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
	in := json.NewDecoder(r)
	missed := false
	for n := 0; !missed; n++ { // more than what pipes and sockets hold
		for range 500 {
			b.Append("sshd", "login from 192.0.2.10:6 by "+strings.Repeat("x", 900))
		}
		for range 3 {
			var e Event
			if err := in.Decode(&e); err != nil {
				t.Fatal(err)
			}
			if e.Type == "missed" {
				missed = e.Fields["lines"] != "" && e.Seq > 0
			}
		}
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestEventsRefuse(t *testing.T) {
	for args, want := range map[string]string{"-x": `events takes -a and types, not "-x"`, "client": `there is no type "client" of events; gwctl events -h lists them`} {
		if err := Events(t.Context(), "/no/such", applet.IO{}, []string{args}); err == nil || err.Error() != want {
			t.Errorf("%s: %v", args, err)
		}
	}
	if err := Events(t.Context(), "/no/such", applet.IO{}, []string{"missed"}); err == nil || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("no gateway: %v", err)
	}
	b := &controltest.Backend{}
	socket := controltest.Start(t, b, control.Options{})
	b.End()
	if err := Events(t.Context(), socket, applet.IO{Out: io.Discard}, nil); err == nil || err.Error() != "the gateway ended it" {
		t.Errorf("it ends: %v", err)
	}
}
