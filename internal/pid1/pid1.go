// Package pid1 is gwinit: the first process. It makes the early root, feeds
// the watchdog, has the supervisor start the services, answers the control
// socket, and ends the boot in order.
//
// It runs no service's code, opens no network socket and waits for nothing
// that may hang: flash, network, clock and entropy are other processes'
// business or a goroutine's with a deadline (INV 1, INV 10).
package pid1

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/boothold"
	"gwinit/internal/config"
	"gwinit/internal/control"
	"gwinit/internal/giveback"
	"gwinit/internal/logring"
	"gwinit/internal/reaper"
	"gwinit/internal/rootfsflash"
	"gwinit/internal/supervisor"
	"gwinit/services/userdata"
)

// logName is PID 1 in the log.
const logName = supervisor.LogName

// gcPercent keeps the garbage of PID 1 and, by the environment, of every
// service near 1 MiB: Go would otherwise let each heap grow to 4 MiB first,
// which is a quarter of what a 32 MiB board has to spare.
const gcPercent = 25

// initd is PID 1.
type initd struct {
	version string
	board   rtl8196e.Board
	ring    *logring.Ring
	sup     *supervisor.Supervisor
	wd      *watchdog

	feeding     context.Context // the watchdog is fed until it ends
	stopFeeding context.CancelFunc

	ending atomic.Bool // a shutdown has begun

	last lastWords

	bench benchMode

	health    health
	resetting atomic.Bool // a reset for the health's sake is being decided
	failed    string      // as told at api.FailedPath; of the one question to the supervisor at a time

	mu      sync.Mutex // guards the following
	mode    string
	notices []string // what `gwctl status` warns of
}

// Main is the life of PID 1. It does not return.
func Main(version string) {
	in := &initd{version: version, mode: modeNormal}
	in.feeding, in.stopFeeding = context.WithCancel(context.Background())
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is not process 1: it would mount over your system and is refused")
		os.Exit(1)
	}
	if !in.boot() {
		// A box without supervisor or console is helped by a reset only.
		in.stopFeeding()
	}
	select {}
}

// boot brings everything up and returns; from then on only goroutines act. It
// reports whether it came to its end.
func (in *initd) boot() (complete bool) {
	defer in.survive("boot")
	debug.SetGCPercent(gcPercent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, deadlySignals()...)
	unix.Umask(0o022)

	in.ring = logring.New(logring.DefaultBytes, logring.System)
	for _, p := range makeRoot(earlyRoot, "/") {
		in.notice("early root: " + p)
	}
	_ = os.Chdir("/")
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF) // ctrl-alt-del comes as SIGINT

	if wd, err := openWatchdog("/dev/watchdog"); err != nil {
		in.notice("no watchdog: " + err.Error())
	} else {
		in.wd = wd
	}
	go func() { defer in.survive("watchdog"); runWatchdog(in.feeding, in.wd, in.checkHealth) }()

	in.board = rtl8196e.Detect("")
	in.mode = in.chooseMode()
	in.logf("gwinit %s on %s, boot mode %s", in.version, in.board.Model, in.mode)
	in.takeLastWords("")

	// Both errors are faults of the build, or a kernel without epoll.
	system, err := supervisor.NewSystem(reaper.New(reaper.Options{Log: func(s string) { in.ring.Append(logName, s) }}), in.ring,
		append(environment, api.EnvBootMode+"="+in.mode))
	if err != nil {
		panic(err)
	}
	in.sup, err = supervisor.New(supervisor.Options{Launcher: system, Ring: in.ring, Safe: in.mode == modeSafe}, services(in.board))
	if err != nil {
		panic(err)
	}
	in.sup.Boot()
	go in.handle(signals)
	go in.watchConsole()
	go giveback.Run(context.Background())
	go in.afterUserdata()
	in.serveControl()
	in.health.watch(partSupervisor, false)
	for name := range questions {
		in.health.watch(name, true)
	}
	return true
}

// chooseMode finds out which boot this is. The word in the boothold page holds
// for one boot and is cleared by reading it.
func (in *initd) chooseMode() string {
	if in.board.Emulated {
		if m := modeByParameter(""); m != modeNormal {
			return m
		}
	}
	once, err := boothold.TakeOnce("")
	if err != nil {
		in.notice("one-boot choice: " + err.Error())
	}
	switch once {
	case boothold.Safe:
		return modeSafe
	case boothold.Factory:
		return modeFactory
	}
	return modeNormal
}

// serveControl answers gwctl.
func (in *initd) serveControl() {
	s, err := control.Listen(&backend{in: in, sup: in.sup, ring: in.ring, flash: newPatience()}, control.Options{Logf: in.logf})
	if err != nil {
		in.notice("no control socket: " + err.Error())
		return
	}
	in.health.watch(partControl, false)
	go func() {
		defer in.survive("control")
		if err := s.Serve(context.Background()); err != nil {
			in.notice("control socket: " + err.Error())
		}
	}()
}

// afterUserdata takes over what only the mounted partition says. A mount that
// was too slow for the boot is waited for here, and then the services that went
// on with their defaults get the settings.
func (in *initd) afterUserdata() {
	defer in.survive("settings")
	if err := in.sup.AwaitSettled(context.Background(), svcUserdata); err != nil {
		return
	}
	if u, err := userdata.ReadVerdict(""); err == nil && u.State == userdata.Failed {
		if !in.awaitLateMount() {
			return
		}
		in.notice("/userdata was mounted late: bridge and core are restarted with its settings")
		for _, name := range []string{svcBridge, svcCore} {
			if err := in.sup.Restart(context.Background(), name); err != nil {
				in.logf("%s: %v", name, err)
			}
		}
	}
	g, _ := config.LoadGateway("")
	in.ring.Resize(g.LogKiB << 10)
	if in.bootMode() == modeSafe {
		return
	}
	w, _ := config.LoadWireGuard("")
	for _, s := range []struct {
		name   string
		wanted bool
	}{{svcOTBR, in.wantsOTBR()}, {svcTunnel, w.Enabled}} {
		if !s.wanted {
			continue
		}
		go func() {
			defer in.survive(s.name)
			if err := in.sup.Start(context.Background(), s.name); err != nil {
				in.logf("%v", err)
			}
		}()
	}
}

// wantsOTBR tells whether radio.conf gives the radio to the Thread border router.
func (in *initd) wantsOTBR() bool {
	r, _ := config.LoadRadio("", in.board)
	return r.Mode == config.ModeOTBR
}

// awaitLateMount waits for a verdict to be put right; it gives up after ten
// minutes, when nothing comes any more.
func (in *initd) awaitLateMount() bool {
	t := time.NewTicker(lateMountPoll)
	defer t.Stop()
	for range lateMountPolls {
		<-t.C
		if u, err := userdata.ReadVerdict(""); err == nil && u.State == userdata.Mounted {
			return true
		}
	}
	return false
}

// How often and how many times a late mount is looked for: /run is memory.
const (
	lateMountPoll  = 5 * time.Second
	lateMountPolls = 120
)

// deadlySignals are those that would end a Go program when somebody sends them
// (kill -QUIT 1), or tell it something: PID 1 takes them and goes on. A fault of
// its own still is one: only sent signals come this way. Left out are the ones
// that cannot be caught, those whose default is to do nothing, and SIGURG, by
// which the Go runtime talks to itself.
func deadlySignals() []os.Signal {
	left := []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGCHLD, unix.SIGURG, unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
	var all []os.Signal
	for s := unix.Signal(1); s < 32; s++ {
		if !slices.Contains(left, s) {
			all = append(all, s)
		}
	}
	return all
}

// handle carries out what signals ask PID 1 for, with busybox's meanings.
func (in *initd) handle(signals <-chan os.Signal) {
	defer in.survive("signals")
	for s := range signals {
		action := map[os.Signal]string{unix.SIGINT: "reboot", unix.SIGTERM: "reboot", unix.SIGUSR1: "halt", unix.SIGUSR2: "poweroff"}[s]
		if s == unix.SIGPIPE { // of a client that went, besides who sends it
			continue
		}
		if action == "" {
			in.logf("%v: not a signal that PID 1 acts on", s.(syscall.Signal))
			continue
		}
		in.logf("%v asks for a %s", s.(syscall.Signal), action)
		if err := in.requestShutdown(api.ShutdownArgs{Action: action}); err != nil {
			in.logf("%s: %v", action, err)
		}
	}
}

// requestShutdown begins a shutdown and returns. A one-boot choice that cannot
// be left for the next boot is refused before anything is stopped.
func (in *initd) requestShutdown(args api.ShutdownArgs) error {
	cmd, ok := rebootCommands[args.Action]
	if !ok {
		return &api.Error{Code: api.CodeBadRequest, Message: fmt.Sprintf("no action %q; there are reboot, poweroff, halt", args.Action)}
	}
	mode, ok := map[string]boothold.Mode{"": boothold.Normal, modeFlash: boothold.Normal, modeSafe: boothold.Safe, modeFactory: boothold.Factory}[args.Mode]
	if !ok || args.Mode != "" && args.Action != "reboot" {
		return &api.Error{Code: api.CodeBadRequest, Message: fmt.Sprintf("%s takes no mode %q", args.Action, args.Mode)}
	}
	if _, err := os.Stat(rootfsflash.Staged); args.Mode == modeFlash && err != nil {
		return &api.Error{Code: api.CodeFailed, Message: "there is no image to be written: flash-rootfs checks one and asks for this"}
	}
	if !in.ending.CompareAndSwap(false, true) {
		return &api.Error{Code: api.CodeBusy, Message: "the box is shutting down already"}
	}
	if mode != boothold.Normal {
		if err := boothold.SetOnce("", mode); err != nil {
			in.ending.Store(false)
			return &api.Error{Code: api.CodeFailed, Message: fmt.Sprintf("the next boot cannot be told to be %s: %v; on the serial console press s within 2 s of the start instead", args.Mode, err)}
		}
	}
	go in.shutdown(args, cmd)
	return nil
}

// shutdown ends this boot within shutdownTotal, whatever hangs.
func (in *initd) shutdown(args api.ShutdownArgs, cmd uint32) {
	start := time.Now()
	left := func() time.Duration { return time.Until(start.Add(shutdownTotal)) }
	var flashing sync.Once
	var late *time.Timer
	final := func() {
		in.leaveLastWords("", args.Action)
		within(finalSync, unix.Sync) // once more, for the way past everything else
		if args.Mode == modeFlash {
			late.Stop() // it takes longer than a shutdown may
			flashing.Do(in.flashRootfs)
		}
		if in.wd != nil && args.Action != "reboot" {
			in.wd.disarm()
		}
		_ = unix.Reboot(int(int32(cmd)))
		// The kernel refused: the watchdog, no longer fed by a dead process
		// once it is restarted, is slower than sysrq.
		_ = os.WriteFile("/proc/sysrq-trigger", []byte("b"), 0)
	}
	late = time.AfterFunc(shutdownTotal-finalSync, final)
	defer final()
	defer in.survive("shutdown")

	in.say("%s: stopping services", args.Action)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownServices)
	// The bridge first: its client gets FIN, and the time for it, while the
	// network is up and whatever else hangs.
	bridge, done := context.WithTimeout(ctx, shutdownBridge)
	if err := in.sup.Stop(bridge, svcBridge); err != nil {
		in.logf("shutdown: %v", err)
	}
	done()
	if left := in.sup.StopAll(ctx); len(left) > 0 {
		in.logf("shutdown: still there: %v", left)
	}
	cancel()
	killRest(shutdownKill)
	var keep []string
	if args.Mode == modeFlash {
		keep = flashMounts
	}
	if !within(left()-2*finalSync, func() { flush(in.logf, keep...) }) {
		in.say("flash did not answer: %s without unmounting", args.Action)
	}
	in.say("%s after %.1f s", args.Action, time.Since(start).Seconds())
}

// flashRootfs becomes what writes the root file system, if nothing else runs that
// would need it. It returns if that cannot be: then nothing was changed.
func (in *initd) flashRootfs() {
	for end := time.Now().Add(flashKill); others(); time.Sleep(50 * time.Millisecond) {
		_ = unix.Kill(-1, unix.SIGKILL)
		if time.Now().After(end) {
			in.say("processes do not end: the root file system is left as it is")
			return
		}
	}
	in.say("the root file system is replaced now")
	in.say("it was not: %v", rootfsflash.Exec())
}

// stopping tells whether a shutdown has begun.
func (in *initd) stopping() bool { return in.ending.Load() }

// bootMode is the mode of this boot.
func (in *initd) bootMode() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mode
}

// warnings are what went wrong outside of any service.
func (in *initd) warnings() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.notices)
}

// notice logs a line and keeps it for `gwctl status`.
func (in *initd) notice(text string) {
	in.logf("%s", text)
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.notices) < 16 { // a loop of failures must not eat the memory
		in.notices = append(in.notices, text)
	}
}

// logf writes a line into the log.
func (in *initd) logf(format string, a ...any) { in.ring.Append(logName, fmt.Sprintf(format, a...)) }

// say logs a line and writes it on the console, where somebody may wait for it.
// A console that is stopped (ctrl-S) or full loses the line (INV 1).
func (in *initd) say(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	in.ring.Append(logName, text)
	writeConsole(in.board.Console.Device, "gwinit: "+text+"\r\n")
}

// writeConsole writes to a terminal without ever waiting for it.
func writeConsole(device, text string) {
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_, _ = unix.Write(fd, []byte(text))
	_ = unix.Close(fd)
}

// survive keeps a panic in a goroutine from ending PID 1 (INV 1).
func (in *initd) survive(what string) {
	if r := recover(); r != nil {
		in.notice(fmt.Sprintf("internal error in %s: %v", what, r))
		in.ring.AppendBytes(logName, debug.Stack())
	}
}
