// Package core is the process that holds the services which are rarely active:
// a process of their own each would cost more memory than they use. Which ones
// share it is the table in Run. It has no logic of its own.
package core

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/giveback"
	"gwinit/internal/notify"
	"gwinit/internal/ramfiles"
	"gwinit/services/eth"
)

// announcer is services/mdns, or nothing where it is left out.
type announcer interface {
	Run(ctx context.Context) error
	Reload()
}

// timekeeper is services/clock, or nothing where it is left out.
type timekeeper interface {
	Run(ctx context.Context) error
	NetworkChanged()
	Status() api.Clock
}

// tuner is services/eth/tune, or nothing where it is left out.
type tuner interface {
	Run(ctx context.Context) error
	Reload()
	Warnings() []string
	// Traffic is what Call says of frames and counters alone.
	Traffic() *api.Ethernet
	// Call answers the methods eth and eth-set.
	Call(method string, params []byte) ([]byte, error)
	// Use sets the driver up once, for bench mode.
	Use(profile string) error
}

// guard is services/firewall, or nothing where it is left out.
type guard interface {
	Run(ctx context.Context) error
	Reload()
	Warnings() []string
	// Call answers the methods firewall, firewall-set, firewall-confirm and
	// firewall-undo.
	Call(method string, params []byte) ([]byte, error)
}

// watcher is services/netwatch, or nothing where it is left out.
type watcher interface {
	Run(ctx context.Context) error
	NetworkChanged()
	Status() api.Netwatch
	Incidents(p api.IncidentParams) ([]api.Incident, error)
	Warnings() []string
}

// panelist is services/panel, or nothing where it is left out.
type panelist interface {
	Run(ctx context.Context) error
	Reload()
	// Status is nil where it is left out.
	Status() *api.Panel
}

// facts are what services of this process say of themselves, for the figures.
type facts struct {
	network  func() api.Network
	clock    func() api.Clock
	netwatch func() api.Netwatch
	traffic  func() *api.Ethernet
	warnings func() []string
}

// Applet is the process, as PID 1 starts it. version is that of the firmware.
func Applet(version string) applet.Applet {
	return applet.Applet{
		Name: "core", Group: applet.Service,
		Summary: "the rarely active services in one process: eth, firewall, netwatch, mdns, clock, panel, SSH's port, metrics, syslog",
		Usage: `core
Brings the network up, keeps it up, watches whether anybody answers, announces
the gateway, keeps the clock by time servers, minds the button and the LEDs,
hands SSH connections to sshd, and where it is set serves figures and sends the
log to a server.
gwinit starts it; it takes no options.`,
		Run: func(ctx context.Context, _ applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("core takes no arguments")
			}
			ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
			defer stop()
			return run(ctx, version)
		},
	}
}

// gcPercent keeps this process's garbage below half a MiB: what it allocates at
// a start (DHCP, names, records) would else stay, as the kernel of these boards
// takes no memory back, and collecting it rarely costs little.
const gcPercent = 10

// gcPercentFigures is that of a gateway that serves figures. A scrape allocates
// about a tenth of what this process holds: with 10 each one would have the
// garbage collected, which takes half of its instructions.
const gcPercentFigures = 25

func run(ctx context.Context, version string) error {
	debug.SetGCPercent(gcPercent)
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	var clock timekeeper
	var watch watcher
	net := eth.New(eth.Options{Changed: func() {
		clock.NetworkChanged()
		watch.NetworkChanged()
	}})
	clock = newClock(net.NTP)
	watch = newNetwatch(net, os.Getenv(api.EnvBootMode))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tune := newTuner(os.Getenv(api.EnvBootMode) == api.BootSafe)
	mdns := newMDNS(version, os.Getenv(api.EnvBootMode))
	log := func(line string) { fmt.Fprintln(os.Stderr, line) }
	port := newSSHPort(conn, log)
	mode := os.Getenv(api.EnvBootMode)
	guard := newFirewall(mode)
	wrong := func() []string {
		return slices.Concat(warnings(), net.Warnings(), guard.Warnings(), tune.Warnings(), watch.Warnings())
	}
	figures := newMetrics(mode, log, &facts{network: net.Status, clock: clock.Status, netwatch: watch.Status, traffic: tune.Traffic, warnings: wrong})
	syslog := newSyslog(mode, log)
	panel := newPanel(net.NTP, os.Getenv(api.EnvBootMode))
	services := []func(context.Context) error{guard.Run, net.Run, tune.Run, watch.Run, mdns.Run, clock.Run, panel.Run, port, figures.Run, syslog.Run}
	services = append(services, func(ctx context.Context) error { giveback.Run(ctx); return nil })
	ended := make(chan error, len(services)+1)
	for _, run := range services {
		go func() { ended <- run(ctx) }()
	}
	go func() {
		ended <- conn.Serve(ctx, func(_ context.Context, method string, params []byte) ([]byte, error) {
			switch method {
			case "status":
				return json.Marshal(net.Status())
			case "clock":
				return json.Marshal(clock.Status())
			case "netwatch":
				return json.Marshal(watch.Status())
			case "incidents":
				var p api.IncidentParams
				if len(params) > 0 {
					if err := json.Unmarshal(params, &p); err != nil {
						return nil, fmt.Errorf("incidents: wrong parameters: %w", err)
					}
				}
				all, err := watch.Incidents(p)
				if err != nil {
					return nil, err
				}
				return json.Marshal(all)
			case "warnings":
				return json.Marshal(wrong())
			case "panel":
				return json.Marshal(panel.Status())
			case "ssh":
				n, err := sshCount(api.SSHPath)
				if err != nil {
					return nil, err
				}
				return json.Marshal(n)
			case "eth", "eth-set":
				return tune.Call(method, params)
			case "firewall", "firewall-set", "firewall-confirm", "firewall-undo":
				return guard.Call(method, params)
			case "reload":
				mdns.Reload()
				guard.Reload()
				tune.Reload()
				panel.Reload()
				figures.Reload()
				syslog.Reload()
				return []byte("{}"), nil
			}
			return nil, fmt.Errorf("core has no method %q; it has status, clock, panel, eth, eth-set, firewall, firewall-set, firewall-confirm, firewall-undo, netwatch, incidents, ssh, warnings, reload", method)
		})
	}()
	if err := conn.Ready("eth"); err != nil {
		return err
	}
	// They end only because ctx ended, or for an error that a new process mends.
	err = <-ended
	cancel()
	for range services {
		if other := <-ended; err == nil {
			err = other
		}
	}
	return err
}

// warnings are what is wrong in the configuration, and with the files in memory,
// in words.
func warnings() []string {
	_, found := config.Load("", rtl8196e.Detect(""))
	lines := make([]string, 0, len(found))
	for _, w := range found {
		lines = append(lines, w.String())
	}
	if n := ramfiles.Used(""); n > ramfiles.MostKiB {
		lines = append(lines, ramfiles.Warning+strconv.FormatUint(n, 10)+" KiB of memory: delete what is not needed (du /tmp /var /run)")
	}
	return lines
}
