package rollout

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/fleet"
	"gwinit/internal/gwctl/fleet/fleettest"
)

// What a person sees of a rollout that stops, and of the one that goes on.
func TestCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, all := fleettest.New(6)
		f.Set("gw003", func(g *fleettest.Gateway) { g.Bad = "ssh never answered" })
		f.Set("gw005", func(g *fleettest.Gateway) { g.Away = true })
		file := fleettest.Bundle(t, "2.0", 1<<20)
		var out, errs bytes.Buffer
		e := Env{Gateways: func(bool) []fleet.Gateway { return all }, Plan: Plan{Journal: t.TempDir()}, Out: &out, Err: &errs}
		run := func(args ...string) error {
			out.Reset()
			errs.Reset()
			return Command(t.Context(), e, append(args, file))
		}
		if err := run("-n"); !errors.Is(err, applet.Exit(1)) || out.String() != "0 of 6 run the update\n5 would get it: gw000, gw001, gw002, gw003, gw004\n1 not reached: gw005\n  gw005: no route to host\n" || f.Sent() != 0 {
			t.Errorf("%v: %s%s", err, out.String(), errs.String())
		}
		if err := run("-canary", "2"); !errors.Is(err, applet.Exit(1)) || out.String() != "3 of 6 run the update\n1 failed: gw003\n1 not reached: gw005\n1 not begun: gw004\n"+
			"  gw003: it went back: ssh never answered\n  gw005: no route to host\n" ||
			!strings.HasSuffix(errs.String(), "gw003  FAILED: it went back: ssh never answered\ngwctl: the same command again goes on from here\n") {
			t.Errorf("%v: %s%s", err, out.String(), errs.String())
		}
		e.JSON = true
		if err := run("-except", "gw003, gw005"); err != nil || !strings.HasPrefix(out.String(), `{"host":"gw000","outcome":"already"}`+"\n") || !strings.Contains(out.String(), `{"host":"gw004","outcome":"committed","seconds":27`) || strings.Count(out.String(), "\n") != 4 {
			t.Errorf("%v: %s%s", err, out.String(), errs.String())
		}
		for _, args := range [][]string{{"-max-unavailable", "0"}, {"-canary", "-1"}, {"-except", "gw9"}, {"second"}, {"-x"}} {
			if err := run(args...); !errors.As(err, new(applet.UsageError)) {
				t.Errorf("%q: %v", args, err)
			}
		}
	})
}
