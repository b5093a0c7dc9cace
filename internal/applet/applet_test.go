package applet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		ownH   bool
		args   []string
		err    error
		status int
		ran    bool
		out    string // part of standard output
		errOut string // part of standard error
	}{
		{name: "success", ran: true},
		{name: "failure", err: errors.New("no such device"), status: 1, ran: true, errOut: "tool: no such device\n"},
		{name: "status without words", err: Exit(3), status: 3, ran: true},
		{name: "wrapped status", err: fmt.Errorf("x: %w", Exit(4)), status: 4, ran: true},
		{name: "wrong call", err: Usagef("no %s", "file"), status: 2, ran: true, errOut: "tool: no file; see tool -h\n"},
		{name: "wrong call, own -h", ownH: true, err: Usagef("x"), status: 2, ran: true, errOut: "see tool --help"},
		{name: "help", args: []string{"-h"}, out: "tool - does things\n\ntool [-x]\n"},
		{name: "long help", args: []string{"--help", "x"}, out: "tool [-x]"},
		{name: "own -h", ownH: true, args: []string{"-h"}, ran: true},
		{name: "own -h, long help", ownH: true, args: []string{"--help"}, out: "tool [-x]"},
		{name: "-h of the command", args: []string{"-h", "pattern"}, ran: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			var got []string
			ran := false
			a := Applet{Name: "tool", Summary: "does things", Usage: "\ntool [-x]\n", OwnH: tt.ownH, Run: func(_ context.Context, _ IO, args []string) error {
				ran, got = true, args
				return tt.err
			}}
			status := a.Execute(t.Context(), IO{Out: &out, Err: &errOut}, tt.args)
			if status != tt.status || ran != tt.ran {
				t.Errorf("status %d, ran %v; want %d, %v", status, ran, tt.status, tt.ran)
			}
			if ran && !slices.Equal(got, tt.args) {
				t.Errorf("args %q, want %q", got, tt.args)
			}
			if !strings.Contains(out.String(), tt.out) || !strings.Contains(errOut.String(), tt.errOut) || tt.errOut == "" && errOut.Len() > 0 {
				t.Errorf("printed %q and %q", out.String(), errOut.String())
			}
		})
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := Table{{Name: "ls", Group: Files, Summary: "list"}, {Name: "ps", Group: Process, Summary: "processes"}, {Name: "cat", Group: Files, Summary: "print"}}
	if a, ok := table.Find("ps"); !ok || a.Summary != "processes" {
		t.Errorf("Find(ps) = %v, %v", a, ok)
	}
	if _, ok := table.Find("gw"); ok {
		t.Error("found what is not there")
	}
	var out bytes.Buffer
	table.List(&out)
	const want = "files:\n  cat            print\n  ls             list\nprocesses and system:\n  ps             processes\n"
	if out.String() != want {
		t.Errorf("List wrote\n%s\nwant\n%s", out.String(), want)
	}
}
