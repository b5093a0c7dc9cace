package pid1

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/config"
	"gwinit/internal/control"
	"gwinit/internal/logring"
	"gwinit/internal/radiolock"
	"gwinit/internal/radionote"
	"gwinit/internal/supervisor"
	"gwinit/services/userdata"
)

// callTimeout bounds what a status waits for a service: one that hangs is left
// out of it and the rest is shown.
const callTimeout = 800 * time.Millisecond

// backend answers the control socket. Its fields do not change after boot
// but for what the supervisor and the ring guard themselves.
type backend struct {
	in   *initd
	sup  *supervisor.Supervisor
	ring *logring.Ring

	flash patience // what a status asks of /userdata
}

var _ control.Backend = (*backend)(nil)

// Status implements control.Backend.
func (b *backend) Status(ctx context.Context, args api.StatusArgs) api.Status {
	s := api.Status{
		Version:  b.in.version,
		Board:    api.Board{ID: b.in.board.ID, Model: b.in.board.Model, Emulated: b.in.board.Emulated},
		BootMode: b.in.bootMode(),
		Services: b.sup.Snapshot(),
		Warnings: b.in.warnings(),
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		s.Hostname = unix.ByteSliceToString(uts.Nodename[:])
	}
	if m, err := os.ReadFile("/proc/meminfo"); err == nil {
		s.Memory = parseMeminfo(string(m))
	}
	var radio config.Radio
	if !b.flash.try(callTimeout, func() func() {
		u := readUserdata()
		r, _ := config.LoadRadio("", b.in.board)
		return func() { s.Userdata, radio = u, r }
	}) {
		s.Userdata, _ = userdata.ReadVerdict("")
		s.Warnings = append(s.Warnings, "/userdata does not answer: the flash or its driver hangs")
	}
	owner, err := radiolock.Look("")
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	released, err := radiolock.Lent("")
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	said, err := radionote.Read("")
	if err != nil {
		s.Warnings = append(s.Warnings, err.Error())
	}
	s.Radio = api.Radio{
		Answer: said,
		Owner:  owner.Name, OwnerPID: owner.PID, Since: owner.Held.Seconds(), Released: released.Seconds(),
		Device: b.in.board.Radio.Device, Mode: config.ModeZigbee, Engine: radio.Engine(),
		Firmware: radio.Firmware, FirmwareVersion: radio.FirmwareVersion, BootloaderVersion: radio.BootloaderVersion,
	}
	if radio.Mode != "" {
		s.Radio.Mode = radio.Mode
	}
	s.Radio.Baud, s.Radio.Flow = radio.Baud, radio.Flow
	if radio.Flow == "" {
		s.Radio.Flow = b.in.board.Radio.Flow
	}
	if !args.Own {
		b.ofServices(ctx, &s)
	}
	// Behind the answers: what they say of the clock holds for it.
	mono, wall := logring.System()
	s.Uptime = float64(mono) / 1e9
	if wall >= logring.WallKnown {
		s.Wall = wall
	}
	return s
}

// ofServices adds what services say of themselves.
func (b *backend) ofServices(ctx context.Context, s *api.Status) {
	// The two answers are asked for side by side: a hung one costs its time once.
	var bridge api.Bridge
	var network api.Network
	var clock api.Clock
	var panel *api.Panel
	var bench *api.Bench
	var warnings []string
	done := make(chan bool, 1)
	go func() {
		defer b.in.survive("status")
		if b.in.bench.is() {
			bench = b.benchState(ctx)
			done <- b.ask(ctx, svcBench, "network", &network)
			return
		}
		ok := b.ask(ctx, svcCore, "status", &network)
		if ok {
			b.ask(ctx, svcCore, "clock", &clock)
			b.ask(ctx, svcCore, "panel", &panel)
			b.ask(ctx, svcCore, "warnings", &warnings)
		}
		if s.Radio.Mode == config.ModeOTBR {
			var thread []string
			b.ask(ctx, svcOTBR, "warnings", &thread)
			warnings = append(warnings, thread...)
		}
		done <- ok
	}()
	if b.ask(ctx, svcBridge, "status", &bridge) {
		s.Bridge = &bridge
		s.Radio.Baud, s.Radio.Flow = bridge.Baud, bridge.Flow
		s.Warnings = append(s.Warnings, bridge.Warnings...)
	}
	select {
	case ok := <-done:
		if ok {
			s.Network, s.Panel = &network, panel
			if clock.State != "" {
				s.Clock = &clock
			}
		}
		s.Bench = bench
		s.Warnings = append(s.Warnings, warnings...)
	case <-ctx.Done():
	}
}

// ask calls a service and decodes its answer. It tells whether both worked.
func (b *backend) ask(ctx context.Context, service, method string, into any) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := b.sup.Call(ctx, service, method, nil)
	return err == nil && json.Unmarshal(answer, into) == nil
}

// readUserdata is the verdict of the service of that name, with the space as it
// is now. It asks the file system, which may hang.
func readUserdata() api.Userdata {
	u, err := userdata.ReadVerdict("")
	switch {
	case errors.Is(err, userdata.ErrNoVerdict):
		return api.Userdata{State: "waiting", Reason: err.Error()}
	case err != nil:
		return api.Userdata{State: userdata.Failed, Reason: err.Error()}
	}
	if u.State != userdata.Mounted {
		return u
	}
	total, free, readOnly, err := userdata.Space("")
	switch {
	case err != nil:
		u.State, u.Reason, u.Total, u.Free = userdata.Failed, "it was mounted and is not any more: "+err.Error(), 0, 0
		return u
	case readOnly:
		u.Reason = "read-only: changes are refused; mount -o remount,rw " + userdata.Dir
	}
	u.Total, u.Free = total, free
	return u
}

// patience is for calls that may hang in the kernel: at most one is under way.
type patience struct {
	one chan struct{} // holds a token while a call is under way
}

func newPatience() patience { return patience{make(chan struct{}, 1)} }

// try runs f, which may hang, and waits at most d for it and for its turn. What
// f returns is run here when it was in time, so that nothing is written after
// try has returned. It reports whether f was in time; it does not start f while
// an earlier one hangs.
func (p patience) try(d time.Duration, f func() func()) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case p.one <- struct{}{}:
	case <-t.C:
		return false
	}
	done := make(chan func(), 1)
	go func() {
		defer func() { <-p.one }()
		done <- f()
	}()
	select {
	case use := <-done:
		use()
		return true
	case <-t.C:
		return false
	}
}

// Logs implements control.Backend.
func (b *backend) Logs(args api.LogsArgs) ([]api.LogLine, error) {
	if err := b.known(args.Service); err != nil {
		return nil, err
	}
	return b.ring.Last(args.Service, args.Lines), nil
}

// Follow implements control.Backend.
func (b *backend) Follow(args api.LogsArgs) (control.Follower, error) {
	lines, err := b.Logs(args)
	if err != nil {
		return nil, err
	}
	after := b.ring.Seq()
	if len(lines) > 0 {
		after = lines[len(lines)-1].Seq
	}
	return &follower{first: lines, rest: b.ring.Follow(args.Service, after)}, nil
}

// follower yields what was there and then what comes.
type follower struct {
	first []api.LogLine
	rest  *logring.Follower
}

func (f *follower) Next(ctx context.Context) ([]api.LogLine, uint64, error) {
	if len(f.first) > 0 {
		lines := f.first
		f.first = nil
		return lines, 0, nil
	}
	return f.rest.Next(ctx)
}

func (f *follower) Close() {}

// known tells whether there is such a service, for a log that may be asked for
// after it ended.
func (b *backend) known(service string) error {
	if service == "" || service == logName || b.sup.Has(service) {
		return nil
	}
	return &api.Error{Code: api.CodeNotFound, Message: "no service " + strconv.Quote(service) + "; there are " + logName + ", " + strings.Join(b.sup.Names(), ", ")}
}

// Service implements control.Backend.
func (b *backend) Service(ctx context.Context, args api.ServiceArgs) (api.Service, error) {
	if err := b.known(args.Name); err != nil || args.Name == logName {
		if err == nil {
			err = &api.Error{Code: api.CodeFailed, Message: logName + " is PID 1: gwctl reboot restarts it"}
		}
		return api.Service{}, err
	}
	if args.Name == svcConsole && args.Action == "stop" {
		return api.Service{}, &api.Error{Code: api.CodeFailed, Message: "the console stays: it is the way in when nothing else is; leaving its shell starts a new one"}
	}
	if b.in.stopping() {
		return api.Service{}, &api.Error{Code: api.CodeBusy, Message: "the box is shutting down"}
	}
	if b.in.bench.is() && args.Action != "stop" {
		return api.Service{}, &api.Error{Code: api.CodeBusy, Message: "bench mode is on, in which services are stopped: gwctl bench-mode off ends it"}
	}
	if args.Name == svcBench && args.Action != "stop" {
		return api.Service{}, &api.Error{Code: api.CodeFailed, Message: "gwctl bench-mode on starts it"}
	}
	var err error
	switch args.Action {
	case "start":
		err = b.sup.Start(ctx, args.Name)
	case "stop":
		err = b.sup.Stop(ctx, args.Name)
	case "restart":
		err = b.sup.Restart(ctx, args.Name)
	case "try-restart":
		if args.Name == svcOTBR {
			// Whether it is to run at all is the setting that has changed.
			err = b.followMode(ctx)
			break
		}
		// One that is starting may have read its settings already; one in
		// backoff may have waited for the new ones.
		switch b.service(args.Name).State {
		case supervisor.Starting, supervisor.Running, supervisor.Backoff:
			err = b.sup.Restart(ctx, args.Name)
		}
	}
	if err != nil {
		return api.Service{}, err
	}
	return b.service(args.Name), nil
}

// followMode has the Thread border router run or not, as radio.conf says now. It
// does not wait until it is ready: that may take as long as the radio likes.
func (b *backend) followMode(ctx context.Context) error {
	if !b.in.wantsOTBR() || b.in.bootMode() == modeSafe {
		return b.sup.Stop(ctx, svcOTBR)
	}
	ctx, cancel := context.WithTimeout(ctx, otbrStart)
	defer cancel()
	err := b.sup.Restart(ctx, svcOTBR)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// otbrStart is how long a change of settings waits for the border router.
const otbrStart = 2 * time.Second

// service is the present state of a service that is known: the set is fixed.
func (b *backend) service(name string) api.Service {
	for _, s := range b.sup.Snapshot() {
		if s.Name == name {
			return s
		}
	}
	return api.Service{}
}

// Shutdown implements control.Backend.
func (b *backend) Shutdown(args api.ShutdownArgs) error { return b.in.requestShutdown(args) }

// Call implements control.Backend.
func (b *backend) Call(ctx context.Context, args api.CallArgs) (json.RawMessage, error) {
	if err := b.known(args.Service); err != nil {
		return nil, err
	}
	return b.sup.Call(ctx, args.Service, args.Method, args.Params)
}

// parseMeminfo reads the three lines of /proc/meminfo that are shown, its first.
func parseMeminfo(s string) (m api.Memory) {
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			m.Total = n
		case "MemFree:":
			m.Free = n
		case "MemAvailable:":
			m.Available = n
			return m // the others are behind it, some forty
		}
	}
	return m
}
