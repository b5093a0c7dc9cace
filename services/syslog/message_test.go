package syslog

import (
	"regexp"
	"strings"
	"testing"

	"gwinit/internal/api"
)

func TestAppendLine(t *testing.T) {
	for _, tt := range []struct {
		name, host string
		l          api.LogLine
		want       string
	}{
		{"a line", "attic", api.LogLine{Seq: 7, Mono: 12_345_678_901, Wall: 1767366245_123456789, Service: "bridge", Text: "listening on [::]:8888"}, `<30>1 2026-01-02T15:04:05.123456Z attic bridge - - [meta sequenceId="7" sysUpTime="1234"] listening on [::]:8888`},
		{"no clock yet", "attic", api.LogLine{Seq: 1, Mono: 5e6, Service: "gwinit", Text: "hello"}, `<30>1 - attic gwinit - - [meta sequenceId="1" sysUpTime="0"] hello`},
		{"no name", "", api.LogLine{Seq: 2, Service: "", Text: "x"}, `<30>1 - - - - - [meta sequenceId="2" sysUpTime="0"] x`},
		{"SSH", "a b", api.LogLine{Seq: 3, Service: "sshd", Text: "login from 192.0.2.1"}, `<86>1 - a_b sshd - - [meta sequenceId="3" sysUpTime="0"] login from 192.0.2.1`},
		{"what went wrong", "a", api.LogLine{Seq: 4, Service: "core", Text: "eth0: cannot be set up"}, `<28>1 - a core - - [meta sequenceId="4" sysUpTime="0"] eth0: cannot be set up`},
		{"a crash", "a", api.LogLine{Seq: 5, Service: "core", Text: "panic: runtime error: index out of range"}, `<26>1 - a core - - [meta sequenceId="5" sysUpTime="0"] panic: runtime error: index out of range`},
		{"control characters", "a", api.LogLine{Seq: 6, Service: "core", Text: "\x1b[31mred\ttab\x7f \u00e4"}, `<30>1 - a core - - [meta sequenceId="6" sysUpTime="0"]  [31mred tab  ` + "\u00e4"},
		{"a number beyond 31 bits", "a", api.LogLine{Seq: 1 << 31, Service: "core", Text: "x"}, `<30>1 - a core - - [meta sequenceId="1" sysUpTime="0"] x`},
	} {
		if got := string(appendLine(nil, tt.host, &tt.l)); got != tt.want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
	l := api.LogLine{Seq: 10, Mono: 1e9, Service: "core", Text: "x"}
	const want = `<44>1 - a gwinit - - [meta sequenceId="9" sysUpTime="100"] 4 lines of the log were overwritten before they could be sent`
	if got := string(appendLost(nil, "a", 4, &l)); got != want || l.Service != "core" || l.Seq != 10 {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// form is RFC 5424's, section 6, for messages of this package.
var form = regexp.MustCompile(`^<\d{1,3}>1 (-|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) [!-~]{1,255} [!-~]{1,48} - - \[meta sequenceId="\d{1,10}" sysUpTime="-?\d+"\] `)

// Whatever a service says, and the box is called, is one message.
func FuzzAppendLine(f *testing.F) {
	f.Add("attic", "bridge", "text", uint64(1), int64(1767366245e9))
	f.Add("", "a b\n", "\x00<30>1", uint64(0), int64(0))
	f.Fuzz(func(t *testing.T, host, service, text string, seq uint64, wall int64) {
		wall %= 8e18 // to the year 2223
		if wall < 0 {
			wall = -wall
		}
		got := string(appendLine(nil, host, &api.LogLine{Seq: seq, Wall: wall, Service: service, Text: text}))
		if !form.MatchString(got) || strings.ContainsAny(got, "\n\r\x00\x1b") {
			t.Errorf("%q", got)
		}
	})
}
