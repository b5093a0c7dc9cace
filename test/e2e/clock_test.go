//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/services/clock/clocktest"
)

// The box starts in 1970, gets the time, and has it nearly right at the next
// boot, together with entropy.
func TestTimeAndEntropy(t *testing.T) {
	t.Parallel()
	// Not the machine's own time, so that it can only be the server's: past
	// 2036, when NTP's seconds begin anew, and 2038, when 32 bits end.
	ahead := time.Until(time.Date(2041, 5, 6, 7, 8, 9, 0, time.UTC))
	server := clocktest.Serve(t, func() time.Time { return time.Now().Add(ahead) }, nil)
	m := start(t, nil)
	shell(t, m)
	clock := func() time.Time {
		n, err := strconv.ParseInt(run(t, m, "date +%s"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.Unix(n, 0)
	}
	near := func(limit time.Duration) {
		t.Helper()
		want := time.Now().Add(ahead)
		if got := clock(); got.Sub(want).Abs() > limit {
			t.Errorf("the clock shows %v, want %v", got.UTC(), want.UTC())
		}
	}
	synced := func(s api.Status) bool { return settled(s) && s.Clock != nil && s.Clock.State == api.ClockSynced }

	if s := await(t, m, "everything running", settled); s.Clock == nil || s.Clock.State != api.ClockUnknown || s.Wall != 0 {
		t.Errorf("clock %+v, wall %d in 1970", s.Clock, s.Wall)
	}
	run(t, m, fmt.Sprintf("gwctl config set ntp.server=10.0.2.2:%d", server.Port()))
	s := await(t, m, "the server's time", synced)
	near(10 * time.Second) // what the console takes
	if s.Clock.Source != "10.0.2.2" || s.Clock.Stratum != 1 || s.Wall == 0 {
		t.Errorf("clock %+v, wall %d", s.Clock, s.Wall)
	}
	if screen := run(t, m, "gwctl status"); !strings.Contains(screen, "synchronised, by 10.0.2.2, stratum 1") {
		t.Errorf("gwctl status:\n%s", screen)
	}
	if log := run(t, m, "gwctl logs userdata"); strings.Contains(log, "entropy") {
		t.Errorf("a factory image has a seed:\n%s", log)
	}
	t.Logf("without a seed: %s", run(t, m, "dmesg | grep 'crng init'"))
	// Made as soon as there was entropy, for boxes whose power is only cut.
	if ls := run(t, m, "ls -l /userdata/etc/random-seed"); !strings.HasPrefix(ls, "-rw-------") {
		t.Error(ls)
	}

	reboot(t, m, "reboot")
	s = await(t, m, "the server's time again", synced)
	near(10 * time.Second)
	log := run(t, m, "gwctl logs userdata")
	if !strings.Contains(log, "entropy: saved seed counted") || !strings.Contains(log, "clock: set to the saved time, 2041-05-06") {
		t.Errorf("the second boot says:\n%s", log)
	}
	t.Logf("with a seed: %s", run(t, m, "dmesg | grep 'crng init'"))
	if len(s.Warnings) != 0 {
		t.Errorf("warnings: %q", s.Warnings)
	}

	// A power cut, and nobody who knows the time.
	run(t, m, "gwctl config set ntp.server=10.0.2.9")
	if err := m.PowerCut(); err != nil {
		t.Fatal(err)
	}
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	shell(t, m)
	s = await(t, m, "the saved time", func(s api.Status) bool { return s.Clock != nil && s.Clock.State == api.ClockNear })
	near(10 * time.Minute)
	if log := run(t, m, "gwctl logs userdata"); !strings.Contains(log, "entropy: saved seed counted") {
		t.Errorf("the third boot says:\n%s", log)
	}
}
