//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"gwinit/internal/api"
)

// INV 13: the clock goes a year ahead and two back, and neither the lease nor the
// process after it notices.
func TestClockStepsAndTheLease(t *testing.T) {
	t.Parallel()
	m := start(t, nil)
	shell(t, m)
	s := await(t, m, "a lease", settled)
	began, lease, addr := s.Uptime, s.Network.Lease, s.Network.Addresses[0]
	const year = 365 * 24 * 3600
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).Unix()
	for i, step := range []int64{0, year, -year} {
		at += step
		run(t, m, fmt.Sprintf("date -s @%d", at))
		if i > 0 {
			run(t, m, "gwctl restart core")
		}
		s = await(t, m, "core's answer", func(s api.Status) bool { return s.Network != nil && s.Network.State == "bound" })
		// QEMU's server grants a day anew when it is asked to confirm a lease.
		// The guest's clock is not the host's, which it may have to catch up with.
		gone := int64(s.Uptime-began) + 2
		if n := s.Network; n.Addresses[0] != addr || n.Lease > 24*3600 || n.Lease < lease-gone {
			t.Errorf("step %d s: %+v, had %d s of the lease %d s ago", step, n, lease, gone)
		}
	}
}
