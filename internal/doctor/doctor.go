// Package doctor is gwctl doctor: it looks the gateway over and says what is
// wrong with it, how bad that is, and what to do.
//
// It changes nothing and asks nothing of the radio. What it reads are PID 1's
// status, files of proc, sys and /userdata, and the kernel's log; a gateway whose
// PID 1 does not answer is looked at as far as that goes.
package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl"
)

// Severities of a Finding, from good to bad.
const (
	OK      = "ok"
	Note    = "note"    // good to know; nothing has to be done
	Warning = "warning" // something works less well than it could, or will not for long
	Fault   = "fault"   // something does not work, or anybody may do anything
)

// Finding is one thing that a check found. A check that found nothing worse
// says what is good.
type Finding struct {
	Check    string `json:"check"`
	Severity string `json:"severity"` // ok, note, warning, fault
	Text     string `json:"text"`
	Remedy   string `json:"remedy,omitempty"` // absent: nothing has to be done, or nothing can be
}

// Report is what gwctl doctor -json prints.
type Report struct {
	Findings []Finding `json:"findings"`
	Faults   int       `json:"faults"`
	Warnings int       `json:"warnings"`
	Notes    int       `json:"notes"`
}

// Usage is the help of gwctl doctor.
const Usage = `usage: gwctl doctor
look the gateway over: what is wrong, how bad it is, what to do

status 0: nothing, or notes; 1: warnings; 2: faults
`

// Kernel is what this package asks of the kernel beyond reading files.
type Kernel interface {
	// Log is what the kernel's log holds.
	Log() ([]byte, error)
	// Has tells whether the kernel has what one of the probes "tmpfs",
	// "madvise" and "nftables" is about.
	Has(probe string) bool
	// Entropy tells whether random numbers can be had without waiting.
	Entropy() bool
	// Verify tells whether a password is the one that is stored in a form of
	// crypt(3); an error is a form that cannot be checked. This package has no
	// cryptography of its own.
	Verify(stored, password string) (bool, error)
}

// Run looks over the gateway whose files are below root ("" on the box).
// Warnings are an applet.Exit of
// 1, faults one of 2.
func Run(ctx context.Context, root string, k Kernel, std applet.IO, args []string, asJSON bool, ask gwctl.Asker) error {
	if len(args) > 0 {
		return applet.Usagef("doctor takes no argument %q", args[0])
	}
	r := examine(newBox(ctx, root, k, ask))
	var out bytes.Buffer
	if asJSON {
		b, err := wire.Marshal(r)
		if err != nil {
			return err
		}
		out.Write(append(b, '\n'))
	} else {
		r.write(&out)
	}
	if _, err := std.Out.Write(out.Bytes()); err != nil {
		return err
	}
	switch {
	case r.Faults > 0:
		return applet.Exit(2)
	case r.Warnings > 0:
		return applet.Exit(1)
	}
	return nil
}

// write prints a report for people: the worst first.
func (r Report) write(b *bytes.Buffer) {
	for _, severity := range []string{Fault, Warning, Note, OK} {
		for _, f := range r.Findings {
			if f.Severity != severity {
				continue
			}
			first := fmt.Sprintf("%-8s %-9s ", f.Severity, f.Check)
			gwctl.Lines(b, first, f.Text)
			if f.Remedy != "" {
				gwctl.Lines(b, strings.Repeat(" ", len(first))+"-> ", f.Remedy)
			}
		}
	}
	fmt.Fprintf(b, "\n%s, %s, %s\n", count(r.Faults, "fault"), count(r.Warnings, "warning"), count(r.Notes, "note"))
}

// count is "1 fault", "2 faults".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// box is the gateway as the checks see it.
type box struct {
	root   string
	kernel Kernel
	status api.Status
	silent error // PID 1 did not answer: status is zero
	watch  *api.BridgeWatch
	// tunnelWarnings are those of the service wireguard, if it runs.
	tunnelWarnings []string
	board          rtl8196e.Board
	settings       config.Config

	check    string // the one that runs
	findings []Finding
}

func newBox(ctx context.Context, root string, k Kernel, ask gwctl.Asker) *box {
	b := &box{root: root, kernel: k, board: rtl8196e.Detect(root)}
	b.settings, _ = config.Load(root, b.board) // its warnings are in the status
	data, err := ask(ctx, api.OpStatus, nil)
	if err == nil {
		err = json.Unmarshal(data, &b.status)
	}
	b.silent = err
	if b.status.Bridge != nil {
		var w api.BridgeWatch
		data, err := ask(ctx, api.OpCall, api.CallArgs{Service: "bridge", Method: "watch"})
		if err == nil && json.Unmarshal(data, &w) == nil {
			b.watch = &w
		}
	}
	for _, s := range b.status.Services {
		if s.Name == serviceTunnel && s.State == "running" {
			data, err := ask(ctx, api.OpCall, api.CallArgs{Service: serviceTunnel, Method: "warnings"})
			if err == nil {
				err = json.Unmarshal(data, &b.tunnelWarnings)
			}
			if err != nil {
				b.tunnelWarnings = []string{"the tunnel does not say how it is: " + err.Error()}
			}
		}
	}
	return b
}

// say adds a finding of the check that runs.
func (b *box) say(severity, remedy, format string, args ...any) {
	b.findings = append(b.findings, Finding{b.check, severity, fmt.Sprintf(format, args...), remedy})
}

// examine runs every check.
func examine(b *box) Report {
	for _, c := range []struct {
		name string
		run  func(*box)
	}{
		{"gwinit", (*box).gwinit},
		{"settings", (*box).configuration},
		{"kernel", (*box).features},
		{"log", (*box).log},
		{"watchdog", (*box).watchdog},
		{"flash", (*box).flash},
		{"memory", (*box).memory},
		{"clock", (*box).clock},
		{"entropy", (*box).entropy},
		{"network", (*box).network},
		{"ports", (*box).ports},
		{"login", (*box).login},
		{"wireguard", (*box).tunnel},
		{"bridge", (*box).bridge},
		{"radio", (*box).radio},
	} {
		b.check = c.name
		c.run(b)
	}
	r := Report{Findings: b.findings}
	for _, f := range r.Findings {
		switch f.Severity {
		case Fault:
			r.Faults++
		case Warning:
			r.Warnings++
		case Note:
			r.Notes++
		}
	}
	return r
}

// path is one of the box's files.
func (b *box) path(name string) string { return filepath.Join("/", b.root, name) }

// read returns a small file without its last line feed, "" if there is none.
func (b *box) read(name string) string {
	text, _ := os.ReadFile(b.path(name))
	return strings.TrimSpace(string(text))
}
