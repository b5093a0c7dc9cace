// Package applet says what one command of the multi-call binary is.
//
// It holds the shape of an applet, its exit status and the table lookup; it
// knows no applet. cmd/gwinit holds the table.
package applet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// IO is where an applet reads and writes. Out and Err are unbuffered unless
// the applet buffers them itself.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// Group is the heading under which `gw` lists an applet.
type Group string

// The groups, in the order in which `gw` lists them.
const (
	Service Group = "services"
	Manage  Group = "management"
	Files   Group = "files"
	Text    Group = "text"
	Process Group = "processes and system"
	Network Group = "network"
)

// Applet is one command of the binary.
type Applet struct {
	Name    string
	Group   Group
	Summary string // one line, no full stop, for the list that `gw` prints
	Usage   string // what -h prints: synopsis, then options, a line each
	// OwnH marks the few commands that are called with nothing but an -h of
	// their own (df, du, free, ls): only --help prints their usage.
	OwnH bool
	// Run does the work; args does not hold the name. It returns nil,
	// an Exit, or an error that the dispatcher prints behind the name.
	Run func(ctx context.Context, std IO, args []string) error
}

// Exit is an exit status that needs no message (grep that found nothing).
type Exit int

// Error implements error.
func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// UsageError is a wrong call: the dispatcher prints it and the way to -h.
type UsageError string

// Error implements error.
func (e UsageError) Error() string { return string(e) }

// Usagef makes a UsageError.
func Usagef(format string, a ...any) error { return UsageError(fmt.Sprintf(format, a...)) }

// Execute runs a with args and returns the process exit status:
// 0, the status of an Exit, 2 for a wrong call and 1 for any other error.
func (a *Applet) Execute(ctx context.Context, std IO, args []string) int {
	// An -h among other arguments is the command's own (grep -h TEXT FILE...).
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-help" || args[0] == "-h" && len(args) == 1 && !a.OwnH) {
		fmt.Fprintf(std.Out, "%s - %s\n\n%s\n", a.Name, a.Summary, strings.TrimSpace(a.Usage))
		return 0
	}
	err := a.Run(ctx, std, args)
	var exit Exit
	var usage UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		help := "-h"
		if a.OwnH {
			help = "--help"
		}
		fmt.Fprintf(std.Err, "%s: %v; see %s %s\n", a.Name, err, a.Name, help)
		return 2
	default:
		fmt.Fprintf(std.Err, "%s: %v\n", a.Name, err)
		return 1
	}
}

// Table is a set of applets.
type Table []Applet

// Find returns the applet of that name.
func (t Table) Find(name string) (*Applet, bool) {
	i := slices.IndexFunc(t, func(a Applet) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return &t[i], true
}

// List writes every applet with its line, by group.
func (t Table) List(w io.Writer) {
	for _, g := range []Group{Service, Manage, Files, Text, Process, Network} {
		var in []Applet
		for _, a := range t {
			if a.Group == g {
				in = append(in, a)
			}
		}
		if len(in) == 0 {
			continue
		}
		slices.SortFunc(in, func(a, b Applet) int { return strings.Compare(a.Name, b.Name) })
		fmt.Fprintf(w, "%s:\n", g)
		for _, a := range in {
			fmt.Fprintf(w, "  %-14s %s\n", a.Name, a.Summary)
		}
	}
}
