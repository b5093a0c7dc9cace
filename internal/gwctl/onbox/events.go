//go:build linux

package onbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
)

// EventsUsage is the help of Events.
const EventsUsage = `usage: gwctl events [-a] [TYPE ...]
what happens, as it happens, in JSON for scripts: one event a line

  -a  those that are kept, first

Types: client-connected, client-left, client-refused, radio-released, radio-taken,
link-up, link-down, address, address-lost, address-conflict, service, shutdown,
netwatch, clock, login, logout, login-refused, key-added, button, warning, missed.
docs/control.md says what each of them has.
`

// Event is a line of gwctl events.
type Event struct {
	Seq    uint64            `json:"seq"`            // of the log's line
	Time   string            `json:"time,omitempty"` // RFC 3339; absent while the gateway does not know it
	Uptime float64           `json:"uptime"`         // seconds
	Type   string            `json:"type"`
	Fields map[string]string `json:"fields,omitempty"`
	Text   string            `json:"text"` // for people; the words may change
}

// rule makes an event of a line of the log. The log is what the services say to
// people, and costs nothing more; that its words and these stay the same, a test
// sees to.
type rule struct {
	service string // whose lines; "": anybody's
	line    string // with {name} for a field; the last takes the rest
	kind    string
}

// rules are looked at in their order.
func rules() []rule {
	return []rule{
		{"bridge", "client {client} connected, {detail}", "client-connected"},
		{"bridge", "client {client} disconnected after {after}: {rxBytes} bytes from the radio, {txBytes} to it: {reason}", "client-left"},
		{"bridge", "connection from {client} closed: {reason}", "client-refused"},
		{"bridge", "the radio is released for {for} at most", "radio-released"},
		{"bridge", "the radio is taken back", "radio-taken"},
		{"core", "{interface}: link up{detail}", "link-up"},
		{"core", "{interface}: link down{detail}", "link-down"},
		{"core", "{interface}: no address from a DHCP server; using {address} until there is one", "address"},
		{"core", "{interface}: address {address} lost: {reason}", "address-lost"},
		{"core", "{interface}: {address} is also used by {mac}: {detail}", "address-conflict"},
		{"core", "netwatch: {step}", "netwatch"},
		{"core", "clock: set to {time} UTC{detail}", "clock"},
		{"core", "panel: button: {press}", "button"},
		{"core", "{interface}: still {address} from {server} for {lease}", "address"},
		{"core", "{interface}: {address} from {server} for {lease}", "address"},
		{"sshd", "login from {from} refused: {reason}", "login-refused"},
		{"sshd", "login from {from} by the password that everybody knows is refused; {reason}", "login-refused"},
		{"sshd", "login from {from} by {key}", "login"},
		{"sshd", "connection from {from} ended before a login: {reason}", "login-refused"},
		{"sshd", "connection from {from} ended after {after}", "logout"},
		{"sshd", "setup from {from}: may log in from now on: {key}", "key-added"},
		{"init", "{action}: stopping services", "shutdown"},
		{"", "warning: {detail}", "warning"},
	}
}

// states are a service's, as PID 1 has them in its lines "NAME: STATE: WHY".
var states = [...]string{"waiting", "idle", "starting", "running", "backoff", "stopping", "stopped", "failed", "done"}

// event makes one of a line, if it is one.
func event(all []rule, l api.LogLine) (Event, bool) {
	e := Event{Seq: l.Seq, Uptime: float64(l.Mono/int64(time.Millisecond)) / 1000, Text: l.Text}
	if l.Wall != 0 {
		e.Time = time.Unix(0, l.Wall).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	for _, r := range all {
		if r.service != "" && r.service != l.Service {
			continue
		}
		if fields, ok := fieldsOf(r.line, l.Text); ok {
			e.Type, e.Fields = r.kind, fields
			return e, true
		}
	}
	if l.Service == "init" {
		if f, ok := fieldsOf("{service}: {state}: {reason}", l.Text); ok && slices.Contains(states[:], f["state"]) {
			e.Type, e.Fields = "service", f
			return e, true
		}
	}
	return e, false
}

// fieldsOf reads a line by a rule's. A field in front of other words ends at the
// first place where these are, and is not empty.
func fieldsOf(rule, text string) (map[string]string, bool) {
	fields := map[string]string{}
	for {
		words, rest, more := strings.Cut(rule, "{")
		var ok bool
		if text, ok = strings.CutPrefix(text, words); !ok || !more && text != "" {
			return nil, false
		}
		if !more {
			return fields, true
		}
		var name string
		name, rule, _ = strings.Cut(rest, "}")
		next, _, _ := strings.Cut(rule, "{")
		value := text
		if next != "" {
			n := strings.Index(text, next)
			if n < 1 {
				return nil, false
			}
			value = text[:n]
		}
		text = text[len(value):]
		if value != "" {
			fields[name] = value
		}
	}
}

// meanwhile is how many lines may come between two requests.
const meanwhile = 64

// Events follows the log and prints what is an event, until ctx ends or the
// gateway closes the connection, which is an error. What the log has overwritten
// before it could be read is an event of the type missed.
func Events(ctx context.Context, socket string, std applet.IO, args []string) error {
	old := false
	var wanted []string
	for _, arg := range args {
		switch {
		case arg == "-a":
			old = true
		case strings.HasPrefix(arg, "-"):
			return applet.Usagef("events takes -a and types, not %q", arg)
		case !strings.Contains(EventsUsage, " "+arg+",") && !strings.Contains(EventsUsage, "\n"+arg+",") && arg != "missed":
			return applet.Usagef("there is no type %q of events; gwctl events -h lists them", arg)
		default:
			wanted = append(wanted, arg)
		}
	}
	c, err := client.Dial(ctx, socket)
	if err != nil {
		return fmt.Errorf("gwinit does not answer on %s: %w", socket, err)
	}
	defer c.Close()
	a := api.LogsArgs{Follow: true}
	last := uint64(0)
	if !old {
		// What came before is none that happens; what comes until it is followed is.
		data, err := c.Do(ctx, api.OpLogs, api.LogsArgs{Lines: 1})
		var lines []api.LogLine
		if err == nil {
			err = json.Unmarshal(data, &lines)
		}
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			last = lines[0].Seq
		}
		a.Lines = meanwhile
	}
	all := rules()
	print := func(e Event) error {
		if len(wanted) > 0 && !slices.Contains(wanted, e.Type) && e.Type != "missed" {
			return nil
		}
		return printJSON(std, e)
	}
	err = c.Stream(ctx, api.OpLogs, a, func(r api.Reply) error {
		var lines []api.LogLine
		if len(r.Data) > 0 {
			if err := json.Unmarshal(r.Data, &lines); err != nil {
				return err
			}
		}
		if r.Missed > 0 {
			e := Event{Type: "missed", Fields: map[string]string{"lines": strconv.FormatUint(r.Missed, 10)}, Text: "lines of the log were overwritten before they could be read"}
			if len(lines) > 0 {
				e.Seq = lines[0].Seq
			}
			if err := print(e); err != nil {
				return err
			}
		}
		for _, l := range lines {
			if e, ok := event(all, l); ok && l.Seq > last {
				if err := print(e); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	if err == nil {
		err = errors.New("the gateway ended it")
	}
	return err
}
