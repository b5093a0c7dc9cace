//go:build e2e

package e2e

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
)

// The radio is released and taken back, over the death of the bridge too, moved
// to another mode and back, and the engine that this kernel does not have is
// said and replaced (INV 5, INV 11).
func TestRadioOwnership(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	await(t, m, "everything running", settled)
	radio := func(command string) api.Radio {
		t.Helper()
		return answer[api.Radio](t, m, "gwctl radio "+command+" -json")
	}
	if r := radio(""); r.Owner != "bridge" || r.OwnerPID <= 1 || r.Since <= 0 || r.Engine != "user" || r.Mode != "zigbee" {
		t.Errorf("the radio is %+v", r)
	}
	c := dial(t, m)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	await(t, m, "the client", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.Client != nil })
	run(t, m, "gwctl radio release -for 1h")
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := discard(c); err != nil {
		t.Errorf("the client at the release: %v, want the end", err)
	}
	if r := radio(""); r.Owner != "" || r.Released < 3000 || r.Released > 3600 {
		t.Errorf("released, the radio is %+v", r)
	}
	before := service(t, status(t, m), "bridge")
	run(t, m, "kill -9 "+strconv.Itoa(before.PID))
	await(t, m, "a new bridge without the radio", func(s api.Status) bool {
		b := service(t, s, "bridge")
		return b.State == "running" && b.PID != before.PID && s.Bridge != nil && !s.Bridge.UARTOpen &&
			strings.Contains(s.Bridge.UARTErr, "released") && s.Radio.Owner == "" && s.Radio.Released > 0
	})
	if r := radio("take"); r.Owner != "bridge" || r.Released != 0 {
		t.Errorf("taken back, the radio is %+v", r)
	}
	// There is no agent: that is said, and the bridge has let go of the radio.
	if out := run(t, m, "gwctl radio mode otbr 2>&1 || true"); !strings.Contains(out, "gwctl: ") || !strings.Contains(out, "otbr") {
		t.Errorf("to Thread mode without an agent: %s", out)
	}
	await(t, m, "word of the agent that is not there", func(s api.Status) bool {
		o := service(t, s, "otbr")
		return o.State == "failed" && strings.Contains(o.LastExit, "there is no /userdata/usr/bin/otbr-agent")
	})
	if r := radio(""); r.Owner != "" || r.Mode != "otbr" {
		t.Errorf("in Thread mode the radio is %+v", r)
	}
	if r := radio("mode zigbee"); r.Owner != "bridge" || r.Mode != "zigbee" {
		t.Errorf("in Zigbee mode the radio is %+v", r)
	}
	run(t, m, "gwctl config set radio.BRIDGE_ENGINE=kernel")
	s := await(t, m, "the radio with the other engine", func(s api.Status) bool {
		return s.Radio.Engine == "kernel" && s.Radio.Owner == "bridge" && s.Bridge != nil && s.Bridge.UARTOpen
	})
	if s.Bridge.Engine != "user" || !strings.Contains(strings.Join(s.Warnings, "\n"), "BRIDGE_ENGINE=kernel cannot be had") {
		t.Errorf("engine %s, warnings %q", s.Bridge.Engine, s.Warnings)
	}
}
