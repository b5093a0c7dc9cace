package pid1

import (
	"fmt"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/handoff"
	"gwinit/internal/ramfiles"
	"gwinit/internal/supervisor"
)

// The services, by name.
const (
	svcUserdata = "userdata"
	svcBridge   = "bridge"
	svcCore     = "core"
	svcSSHD     = "sshd"
	svcTunnel   = "wireguard"
	svcOTBR     = "otbr"
	svcBench    = "bench"
	svcConsole  = "console"
)

// otbrWatchdog is longer than the Thread border router waits anywhere, flash and a
// radio that gives no answer included.
const otbrWatchdog = 3 * time.Minute

// addonReady is for a program that is read from JFFS2 as a whole, and its sum made,
// before it runs: 2.6 MiB. One that is killed at it begins anew.
const addonReady = 2 * time.Minute

// environment is what every service starts with.
var environment = []string{
	"PATH=/bin:/sbin:/userdata/usr/bin:/userdata/usr/sbin", "HOME=/root",
	fmt.Sprintf("GOGC=%d", gcPercent),
}

// services is the table of processes. Which services share one is decided by
// memory: a bare Go process costs 0.4 MiB of anonymous memory here, one with
// netlink and what it brings 1.1 MiB.
func services(b rtl8196e.Board) []supervisor.Spec {
	return []supervisor.Spec{
		{Name: svcUserdata, Argv: []string{"gw", "userdata"}, Oneshot: true, Safe: true},
		{
			// Essential but not first: it works without /userdata (INV 10).
			Name: svcBridge, Argv: []string{"gw", "bridge"}, After: []string{svcUserdata},
			Essential: true, OOMScoreAdj: -900,
		},
		{
			// After the bridge: what eth needs from flash is decompressed
			// when the port listens already.
			Name: svcCore, Argv: []string{"gw", "core"}, After: []string{svcUserdata, svcBridge},
			Essential: true, Safe: true, OOMScoreAdj: -500,
		},
		{
			// On demand: it has the memory and the attack surface of its
			// sessions, while there are any.
			Name: svcSSHD, Argv: []string{"gw", "sshd"}, After: []string{svcUserdata}, Socket: "/" + handoff.SSH,
			Essential: true, Safe: true, OOMScoreAdj: 200, FileLimit: ramfiles.LimitBytes,
		},
		{
			// Off until somebody asks for it, or wireguard.conf does. It is an
			// add-on, which the applet becomes.
			Name: svcTunnel, Argv: []string{"gw", "wireguard"}, After: []string{svcUserdata, svcBridge, svcCore},
			Manual: true, ReadyTimeout: addonReady, OOMScoreAdj: 100,
		},
		{
			// Only in OTBR mode. It says ready when its agent works, which may
			// take any time, and a sign of life at each look at it.
			Name: svcOTBR, Argv: []string{"gw", "otbr"}, After: []string{svcUserdata, svcBridge, svcCore},
			Manual: true, ReadyTimeout: -1, Watchdog: otbrWatchdog, OOMScoreAdj: -500,
		},
		{
			// Bench mode, while which it runs instead of the others.
			Name: svcBench, Argv: []string{"gw", "bench"}, Manual: true, Once: true, Safe: true, OOMScoreAdj: -500,
		},
		{
			Name: svcConsole, Argv: []string{"-sh"}, Env: []string{"TERM=vt100"}, TTY: b.Console.Device,
			Manual: true, Essential: true, Safe: true, OOMScoreAdj: 300, FileLimit: ramfiles.LimitBytes,
		},
	}
}
