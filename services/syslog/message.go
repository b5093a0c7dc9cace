package syslog

import (
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
)

// Facilities and severities of RFC 5424, tables 1 and 2.
const (
	facilityDaemon = 3
	facilitySyslog = 5
	facilityAuth   = 10

	severityCritical = 2
	severityWarning  = 4
	severityInfo     = 6
)

// Limits of RFC 5424, section 6, in bytes.
const (
	maxHostname = 255
	maxApp      = 48
	maxSequence = 1<<31 - 1
)

// priority is what a line is, as far as its words tell: no service says.
func priority(l *api.LogLine) int {
	facility := facilityDaemon
	if l.Service == "sshd" {
		facility = facilityAuth
	}
	severity := severityInfo
	for _, s := range []string{"panic: ", "fatal error: ", "runtime: "} {
		if strings.HasPrefix(l.Text, s) {
			severity = severityCritical
		}
	}
	if severity == severityInfo {
		for _, s := range []string{"fail", "error", "cannot", "refused", "lost", "not answer", "overwritten", "signal ", "no such", "timed out"} {
			if strings.Contains(l.Text, s) {
				severity = severityWarning
				break
			}
		}
	}
	return facility<<3 | severity
}

// appendLine adds the message of a line of the log.
func appendLine(b []byte, host string, l *api.LogLine) []byte {
	b = appendHead(b, priority(l), host, l)
	for i := range len(l.Text) {
		c := l.Text[i]
		if c < ' ' || c == 0x7f { // section 6.4 would rather have none
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// appendLost adds the message that says that n lines before l are gone. It has
// the place of the last of them.
func appendLost(b []byte, host string, n uint64, l *api.LogLine) []byte {
	at := *l
	at.Seq--
	at.Service = "gwinit"
	b = appendHead(b, facilitySyslog<<3|severityWarning, host, &at)
	b = strconv.AppendUint(b, n, 10)
	return append(b, " lines of the log were overwritten before they could be sent"...)
}

// appendHead adds all but a message's text. sequenceId is the line's number
// in the log since the boot, so that a receiver sees what it did not get.
func appendHead(b []byte, priority int, host string, l *api.LogLine) []byte {
	b = append(strconv.AppendInt(append(b, '<'), int64(priority), 10), ">1 "...)
	if l.Wall != 0 {
		b = time.Unix(0, l.Wall).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	} else {
		b = append(b, '-')
	}
	b = appendName(append(b, ' '), host, maxHostname)
	b = appendName(append(b, ' '), l.Service, maxApp)
	b = append(b, ` - - [meta sequenceId="`...)
	sequence := uint64(0)
	if l.Seq > 0 {
		sequence = (l.Seq-1)%maxSequence + 1
	}
	b = strconv.AppendUint(b, sequence, 10)
	b = append(b, `" sysUpTime="`...)
	b = strconv.AppendInt(b, l.Mono/1e7, 10) // in 1/100 s
	return append(b, `"] `...)
}

// appendName adds what may stand in a header: printable ASCII, or "-".
func appendName(b []byte, s string, most int) []byte {
	if s == "" {
		s = "-"
	}
	for i := range min(len(s), most) {
		c := s[i]
		if c <= ' ' || c > '~' {
			c = '_'
		}
		b = append(b, c)
	}
	return b
}
