// Package tooltest runs applets inside a test.
package tooltest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"gwinit/internal/applet"
)

// Result is what one call printed and how it ended.
type Result struct {
	Out, Err string
	Status   int
}

// Run calls the applet called name of table; in is its standard input.
func Run(t testing.TB, table []applet.Applet, in io.Reader, name string, args ...string) Result {
	t.Helper()
	a, ok := applet.Table(table).Find(name)
	if !ok {
		t.Fatalf("no applet %s", name)
	}
	if in == nil {
		in = strings.NewReader("")
	}
	var out, errs bytes.Buffer
	status := a.Execute(t.Context(), applet.IO{In: in, Out: &out, Err: &errs}, args)
	return Result{out.String(), errs.String(), status}
}

// CheckTable fails if an applet of table lacks what gw and -h print, if two
// have one name, if -h does not print the usage, or if an unknown option is not refused.
func CheckTable(t *testing.T, table []applet.Applet, takesAnything ...string) {
	t.Helper()
	seen := map[string]bool{}
	for _, a := range table {
		if a.Name == "" || a.Group == "" || a.Summary == "" || a.Usage == "" || a.Run == nil || seen[a.Name] {
			t.Errorf("applet %q is not complete, or there twice", a.Name)
		}
		seen[a.Name] = true
		if strings.HasSuffix(a.Summary, ".") || !strings.Contains(a.Usage, a.Name) {
			t.Errorf("%s: summary %q, usage %q", a.Name, a.Summary, a.Usage)
		}
		flag := "-h"
		if a.OwnH {
			flag = "--help"
		}
		if r := Run(t, table, nil, a.Name, flag); r.Status != 0 || !strings.Contains(r.Out, strings.TrimSpace(a.Usage)) {
			t.Errorf("%s %s: %+v", a.Name, flag, r)
		}
		free := false
		for _, n := range takesAnything {
			free = free || n == a.Name
		}
		if r := Run(t, table, nil, a.Name, "-?"); !free && (r.Status != 2 || !strings.Contains(r.Err, "see "+a.Name)) {
			t.Errorf("%s -?: %+v", a.Name, r)
		}
	}
}

// Context ends after n calls of the wait function that it comes with, which
// stands for the passing of time.
func Context(t testing.TB, n int) (context.Context, func(context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, func(ctx context.Context) error {
		if n--; n < 0 {
			cancel()
			return ctx.Err()
		}
		return nil
	}
}
