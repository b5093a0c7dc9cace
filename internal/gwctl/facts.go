package gwctl

import (
	"encoding/json"
	"fmt"
	"strings"

	"gwinit/internal/api"
)

// Fact is one of what a gateway answered, in a few words, for a table of several.
type Fact struct{ Name, Value string }

// SideBySide tells whether a command's answer is such facts.
func SideBySide(command string) bool {
	return command == "status" || command == "version" || command == "doctor"
}

// Facts reads the answer that a command gives with -json; for version it is that
// of status.
func Facts(command string, answer []byte) ([]Fact, error) {
	if command == "doctor" {
		return doctorFacts(answer)
	}
	var st api.Status
	if err := decode(command, answer, &st); err != nil {
		return nil, err
	}
	all := statusFacts(st)
	if command == "version" {
		all = all[:2]
	}
	return all, nil
}

func statusFacts(st api.Status) []Fact {
	var all []Fact
	add := func(name, format string, a ...any) { all = append(all, Fact{name, clean(fmt.Sprintf(format, a...))}) }
	add("gwinit", "%s", st.Version)
	add("board", "%s", st.Board.ID)
	if st.BootMode != "normal" && st.BootMode != "" {
		add("boot", "!! %s", st.BootMode)
	}
	add("up", "%s", duration(st.Uptime))
	if st.Clock != nil {
		add("clock", "%s", st.Clock.State)
	}
	add("memory", "%s available", kib(st.Memory.Available))
	if st.Userdata.State == "mounted" {
		add("userdata", "%s free", kib(st.Userdata.Free))
	} else {
		add("userdata", "!! %s", or(st.Userdata.State, "unknown"))
	}
	switch n := st.Network; {
	case n == nil:
		add("network", "not known")
	case !n.Carrier:
		add("network", "!! no link")
	default:
		add("network", "%s", strings.TrimSpace(n.State+" "+firstAddress(n.Addresses)))
	}
	add("radio", "%s", strings.TrimSpace(fmt.Sprintf("%s %d %s", st.Radio.Mode, st.Radio.Baud, st.Radio.Flow)))
	if b := st.Bridge; b != nil {
		switch {
		case !b.UARTOpen:
			add("client", "!! the UART is not open")
		case b.Kernel != nil:
			add("client", "by the kernel")
		case b.Client == nil:
			add("client", "none")
		default:
			add("client", "%s", b.Client.Addr)
			add("connected", "%s", duration(b.Client.Since))
		}
		add("from radio", "%s", size(b.RxBytes))
		add("to radio", "%s", size(b.TxBytes))
		if b.Takeovers > 0 {
			add("takeovers", "%d", b.Takeovers)
		}
		if b.Refused > 0 {
			add("refused", "%d", b.Refused)
		}
		if lost := b.FrameErrors + b.ParityErrors + b.Overruns + b.BufOverruns; lost > 0 {
			add("line errors", "!! %d", lost)
		}
		if b.QueueDropped > 0 {
			add("dropped", "!! %s", size(b.QueueDropped))
		}
	}
	var ill []string
	restarts := 0
	for _, x := range st.Services {
		restarts += x.Restarts
		if x.State == "failed" || x.State == "backoff" {
			ill = append(ill, x.Name+" "+x.State)
		}
	}
	if len(ill) > 0 {
		add("services", "!! %s", strings.Join(ill, ", "))
	} else {
		add("services", "well")
	}
	add("restarts", "%d", restarts)
	add("warnings", "%d", len(st.Warnings))
	return all
}

// firstAddress is IPv4's, which people know a gateway by.
func firstAddress(all []string) string {
	for _, a := range all {
		if !strings.Contains(a, ":") {
			return a
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return ""
}

// doctorFacts are what each check found, but for what is well.
func doctorFacts(answer []byte) ([]Fact, error) {
	var r struct {
		Findings []struct{ Check, Severity, Text string } `json:"findings"`
		Faults   int                                      `json:"faults"`
		Warnings int                                      `json:"warnings"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return nil, fmt.Errorf("the answer to doctor is not understood: %w", err)
	}
	all := []Fact{{"faults", fmt.Sprint(r.Faults)}, {"warnings", fmt.Sprint(r.Warnings)}}
	for _, f := range r.Findings {
		name, text := clean(f.Check), "ok"
		switch f.Severity {
		case "ok":
		case "note":
			text = clean(f.Text)
		default:
			text = "!! " + clean(f.Text)
		}
		if n := len(all); all[n-1].Name != name {
			all = append(all, Fact{name, text})
		} else if text != "ok" { // a check may find several things
			all[n-1].Value = strings.TrimPrefix(all[n-1].Value+"; "+text, "ok; ")
		}
	}
	return all, nil
}
