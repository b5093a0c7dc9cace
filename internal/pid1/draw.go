//go:build !no_netwatch && !no_core

package pid1

import (
	"gwinit/services/netwatch"
	"gwinit/services/userdata"
)

// drawReset writes a reset down in the account of automatic reboots, which
// netwatch keeps. An error is a reason not to reset. It waits for flash.
func drawReset() error {
	return netwatch.Draw("", func() error { return userdata.Writable("") })
}
