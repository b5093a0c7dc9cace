package netwatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// all steps, with a reboot after 15 minutes: renew at 3, link at 6, driver at 9.
func ladder() machine {
	return machine{fail: 15 * 60, most: 70, may: [steps]bool{true, true, true, true}}
}

// course feeds a script to a machine and tells what it did, as "renew@3m0s". A
// script is a list of TIMES*WHAT, a minute each: "ok", "dead", "client" (a radio
// client moves bytes), "out" (no cable), "gone" (no interface), "none" (nobody
// to ask). The first round is at 0.
func course(m *machine, script string) (did []string, over []secs) {
	at := secs(0)
	for f := range strings.FieldsSeq(script) {
		times, what, many := strings.Cut(f, "*")
		n := 1
		if many {
			fmt.Sscan(times, &n)
		} else {
			what = f
		}
		for range n {
			r := round{at: at, link: plugged, targets: true}
			switch what {
			case "ok":
				r.answered = true
			case "client":
				r.busy = true
			case "out":
				r.link, r.targets = unplugged, false
			case "gone":
				r.link, r.targets = absent, false
			case "none":
				r.targets = false
			case "dead":
			default:
				panic(what)
			}
			v := m.look(r)
			if v.due != nothing {
				did = append(did, names[v.due]+"@"+at.String())
				m.did(v.due)
			}
			if v.over {
				over = append(over, v.lasted)
			}
			at += 60
		}
	}
	return did, over
}

func TestMachine(t *testing.T) {
	const full = "renew@4m0s link@7m0s driver@10m0s reboot@16m0s"
	const min secs = 60
	for _, tt := range []struct {
		name, script, did string
		over              []secs
		change            func(m *machine)
	}{
		{name: "reachable", script: "60*ok"},
		{name: "the ladder", script: "ok 17*dead", did: full},
		{name: "a lost packet now and then", script: "ok dead ok dead ok 2*dead ok", over: []secs{1 * min, 1 * min, 2 * min}},
		{name: "an answer in the middle ends it", script: "ok 10*dead ok 5*dead ok", did: "renew@4m0s link@7m0s driver@10m0s renew@15m0s", over: []secs{10 * min, 5 * min}},
		{name: "one answer just before the reboot", script: "ok 15*dead ok 4*dead", did: "renew@4m0s link@7m0s driver@10m0s renew@20m0s", over: []secs{15 * min}},
		{name: "flapping: the streak never gets long", script: "2*dead ok 2*dead ok 2*dead ok 2*dead ok", over: []secs{2 * min, 2 * min, 2 * min, 2 * min}},
		{name: "again and again", script: "ok 33*dead", did: full + " renew@20m0s link@23m0s driver@26m0s reboot@32m0s"},
		{name: "no cable is no failure", script: "ok 60*out"},
		{name: "the cable is pulled within an outage", script: "ok 2*dead 60*out", over: []secs{2 * min}},
		{name: "and comes back to nobody", script: "ok 2*dead 5*out 4*dead", did: "renew@11m0s", over: []secs{2 * min}},
		{name: "a client moves bytes", script: "ok 60*client"},
		{name: "a client ends an outage", script: "ok 5*dead client 5*dead", did: "renew@4m0s renew@10m0s", over: []secs{5 * min}},
		{name: "never anybody to ask", script: "60*none"},
		{name: "the gateway went with the lease", script: "ok 5*none", did: "renew@4m0s"},
		{name: "a gateway that never answered", script: "5*dead", did: "renew@3m0s"},
		{name: "no interface from the start", script: "60*gone"},
		{name: "the interface goes by itself", script: "ok 5*gone", did: "renew@4m0s"},
		{
			name: "the link does not come back from our bounce", script: "ok 7*dead 10*out", did: full,
		},
		{
			name: "it does, and then the cable is pulled", script: "ok 7*dead 2*dead 10*out", did: "renew@4m0s link@7m0s", over: []secs{9 * min},
		},
		{
			name: "the driver does not come back", script: "ok 10*dead 24*gone", did: full + " renew@20m0s link@23m0s driver@26m0s reboot@32m0s",
		},
		{
			name: "mild steps only", script: "ok 33*dead", did: "renew@4m0s link@7m0s renew@19m0s link@22m0s",
			change: func(m *machine) { m.may[stepDriver], m.may[stepReboot] = false, false },
		},
		{
			name: "no driver to bind", script: "ok 17*dead", did: "renew@4m0s link@7m0s reboot@16m0s",
			change: func(m *machine) { m.may[stepDriver] = false },
		},
		{
			// Looks an hour apart: one step each, none is left out.
			name: "rare looks", script: "ok 6*dead", did: "renew@2m0s link@3m0s driver@4m0s reboot@5m0s",
			change: func(m *machine) { m.fail = 60 },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := ladder()
			if tt.change != nil {
				tt.change(&m)
			}
			did, over := course(&m, tt.script)
			if got := strings.Join(did, " "); got != tt.did {
				t.Errorf("did  %s\nwant %s", got, tt.did)
			}
			if !slices.Equal(over, tt.over) {
				t.Errorf("outages %v, want %v", over, tt.over)
			}
		})
	}
}

// A process that stood still for an hour has seen no outage of an hour.
func TestUnseenTimeIsNoFailure(t *testing.T) {
	m := ladder()
	dead := round{link: plugged, targets: true}
	for _, at := range []secs{0, 60, 3600, 7200} {
		dead.at = at
		if v := m.look(dead); v.due != nothing && at < 7200 {
			t.Errorf("at %v: %v", at, v.due)
		}
	}
	if want := 60 + 2*m.most; m.failed != want {
		t.Errorf("failed for %v, want %v", m.failed, want)
	}
	// Nor does time that goes back count, whatever made it.
	dead.at = 60
	m.look(dead)
	if want := 60 + 2*m.most; m.failed != want {
		t.Errorf("failed for %v, want %v", m.failed, want)
	}
}

func TestUntil(t *testing.T) {
	m := ladder()
	told := func() (s string) {
		for st := range steps {
			if left, ok := m.until(st); ok {
				s += fmt.Sprintf("%v %v ", names[st], left)
			}
		}
		return s
	}
	for _, tt := range []struct{ script, want string }{
		{"ok", "renew 3m0s link 6m0s driver 9m0s reboot 15m0s "},
		{"dead 2*dead", "renew 1m0s link 4m0s driver 7m0s reboot 13m0s "},
		{"dead 5*dead", "link 1m0s driver 4m0s reboot 10m0s "},
		{"dead 14*dead", "reboot 1m0s "},
		{"dead 15*dead", "renew 3m0s link 6m0s driver 9m0s reboot 15m0s "},
		{"dead 16*dead", "renew 3m0s link 6m0s driver 9m0s reboot 15m0s "},
		{"dead 17*dead", "renew 2m0s link 5m0s driver 8m0s reboot 14m0s "},
	} {
		m = ladder()
		course(&m, tt.script)
		if got := told(); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.script, got, tt.want)
		}
	}
}
