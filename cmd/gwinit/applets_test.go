package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
)

// Every applet has a line for the list and a usage that begins with its name,
// no two have the same name, and -h (or --help) prints the usage and runs
// nothing.
func TestEveryApplet(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	seen := map[string]bool{}
	for _, a := range applets() {
		if !name.MatchString(a.Name) || seen[a.Name] {
			t.Errorf("name %q is bad or there twice", a.Name)
		}
		seen[a.Name] = true
		if a.Group == "" || a.Summary == "" || strings.HasSuffix(a.Summary, ".") || strings.Contains(a.Summary, "\n") {
			t.Errorf("%s: group %q, summary %q", a.Name, a.Group, a.Summary)
		}
		var out, errOut bytes.Buffer
		help := "-h"
		if a.OwnH {
			help = "--help"
		}
		status := a.Execute(t.Context(), applet.IO{In: strings.NewReader(""), Out: &out, Err: &errOut}, []string{help})
		if status != 0 || errOut.Len() != 0 || !strings.Contains(strings.SplitN(out.String(), "\n", 2)[1], a.Name) {
			t.Errorf("%s %s: status %d, printed %q and %q", a.Name, help, status, out.String(), errOut.String())
		}
	}
	for _, must := range strings.Fields(`help bridge core userdata gwctl boothold reboot poweroff halt sh ls cat cp mv rm mkdir chmod find grep
		ps top free df dmesg mount umount kill ping ip netstat hexdump tar gzip devmem watch tail date sync`) {
		if !seen[must] {
			t.Errorf("there is no applet %s", must)
		}
	}
	// What boots is found without the table, and is the same.
	for _, n := range []string{"userdata", "bridge"} {
		if a, ok := bootApplet(n); !ok || a.Name != n {
			t.Errorf("bootApplet(%s) = %v, %v", n, a, ok)
		}
	}
	if _, ok := bootApplet("ls"); ok {
		t.Error("bootApplet finds what does not boot")
	}
}

func TestDispatch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		argv []string
		want int
	}{
		{"by argv[0]", []string{"true"}, 0},
		{"by argv[0], false", []string{"false"}, 1},
		{"by argv[1]", []string{"gw", "false"}, 1},
		{"by another name of the binary", []string{"gwinit.test", "true"}, 0},
		{"unknown", []string{"gw", "no-such-applet"}, 127},
		{"help", []string{"help"}, 0},
		{"help of one", []string{"gw", "help", "ls"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := dispatch(tt.argv[0], tt.argv[1:]); got != tt.want {
				t.Errorf("dispatch(%q) = %d, want %d", tt.argv, got, tt.want)
			}
		})
	}
}

// What a workstation says that a gateway's own gwctl has, it has.
func TestOnTheBox(t *testing.T) {
	a, ok := applets().Find("gwctl")
	if !ok {
		t.Fatal("no gwctl")
	}
	for _, l := range gwctl.OnTheBox() {
		var out bytes.Buffer
		if status := a.Execute(t.Context(), applet.IO{Out: &out, Err: &out}, append(strings.Fields(l.Name), "-h")); status != 0 || !strings.HasPrefix(out.String(), "usage: gwctl "+l.Name) {
			t.Errorf("%s -h: status %d, %s", l.Name, status, out.String())
		}
	}
}
