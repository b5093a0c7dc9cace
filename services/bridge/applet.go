//go:build linux

package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/config"
	"gwinit/internal/giveback"
	"gwinit/internal/handoff"
	"gwinit/internal/notify"
	"gwinit/internal/onlink"
	"gwinit/internal/radiolock"
	"gwinit/internal/radiouart"
	"gwinit/internal/tty"
	"gwinit/services/bridge/kernelengine"
)

// storedName is the listening socket's name in PID 1's descriptor store,
// whatever its port is.
const storedName = "8888"

const usage = `gw bridge [-port N] [-device PATH] [-baud N] [-flow none|sw|hw] [-bind ADDR] [-any]

  -port N        TCP port (8888)
  -device PATH   the radio's UART (the board's)
  -baud N        bit/s (radio.conf, else the board's)
  -flow KIND     none, sw or hw (radio.conf, else as the kernel says, else the board's)
  -bind ADDR     listen on this address only (radio.conf, else all, IPv6 and IPv4)
  -any           who comes with any bytes takes the radio from a client, as a flasher does

Connects the radio's UART with one TCP client, until SIGTERM, SIGINT (ctrl-c)
or SIGHUP. An in-kernel bridge is disarmed first; started by hand, it is armed
again at the end.`

// inThreadMode is what a client is told, in the log, while MODE=otbr.
const inThreadMode = "the radio is in Thread (OTBR) mode"

// errThreadMode is the end of a bridge that was started by hand for nothing.
var errThreadMode = errors.New(inThreadMode + ": radio.conf says MODE=otbr; with any option this bridges all the same")

// Applet returns the service's command.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "bridge", Group: applet.Service, Summary: "the radio's UART on a TCP port",
		Usage: usage, Run: runApplet,
	}
}

// settings are what flags and configuration come to.
type settings struct {
	options Options
	opener  DeviceOpener
	otbr    bool
	args    []string
	kernel  bool // the engine is the kernel's driver
}

// load reads the board, radio.conf and the arguments, which win.
func load(root string, args []string, log func(string)) (settings, error) {
	board := rtl8196e.Detect(root)
	radio, warnings := config.LoadRadio(root, board)
	for _, w := range warnings {
		log(w.String())
	}
	s := settings{
		args: args, otbr: radio.Mode == config.ModeOTBR, kernel: radio.KernelEngine,
		opener: DeviceOpener{
			wish: new(wish),
			Root: root, Device: board.Radio.Device, Baud: radio.Baud,
			Flow: radio.Flow, DefaultFlow: board.Radio.Flow,
			HardwareFlow: board.Radio.HardwareFlow, BaseBaud: board.Radio.BaseBaud,
		},
		options: Options{
			Port: DefaultPort, Listener: -1, Log: log, Limits: DefaultLimits(),
			Takeover: radio.Door.Takeover, Allow: radio.Door.Allow, OnLink: onlink.Prefixes,
		},
	}
	if ms := radio.Door.ClaimMS; ms != 0 {
		s.options.Limits.Claim = time.Duration(ms) * time.Millisecond
	}
	if seconds := radio.Door.StallS; seconds != 0 {
		s.options.Limits.Stall = time.Duration(seconds) * time.Second
	}
	bind := radio.Bind
	if len(args) > 0 {
		s.otbr, s.kernel = false, false // by hand: somebody knows what they do
		if err := s.parse(args, &bind); err != nil {
			return settings{}, err
		}
	}
	if bind != "" {
		a, err := netip.ParseAddr(bind)
		if err != nil {
			return settings{}, applet.Usagef("bind address %q: want an IPv4 or IPv6 address", bind)
		}
		s.options.Bind = a
	}
	s.options.UART, s.options.Baud = s.opener.Device, s.opener.Baud
	if s.options.Flow = s.opener.Flow; s.options.Flow == "" {
		s.options.Flow = s.opener.DefaultFlow
	}
	return s, nil
}

func (s *settings) parse(args []string, bind *string) error {
	f := flag.NewFlagSet("bridge", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	port := f.Uint("port", DefaultPort, "")
	f.StringVar(&s.opener.Device, "device", s.opener.Device, "")
	f.IntVar(&s.opener.Baud, "baud", s.opener.Baud, "")
	flow := f.String("flow", "", "")
	f.StringVar(bind, "bind", *bind, "")
	f.BoolVar(&s.options.AnyWins, "any", false, "")
	if err := f.Parse(args); err != nil {
		return applet.UsageError(err.Error())
	}
	switch {
	case f.NArg() > 0:
		return applet.Usagef("unexpected argument %q", f.Arg(0))
	case *port == 0 || *port > 65535:
		return applet.Usagef("port %d: want 1 to 65535", *port)
	case s.opener.Baud < 50 || s.opener.Baud > 4_000_000:
		return applet.Usagef("baud rate %d: want 50 to 4000000", s.opener.Baud)
	}
	s.options.Port = uint16(*port)
	if *flow != "" {
		if _, err := tty.ParseFlow(*flow); err != nil {
			return applet.UsageError(err.Error())
		}
		s.opener.Flow = *flow
	}
	return nil
}

func runApplet(ctx context.Context, std applet.IO, args []string) error {
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	defer conn.Close()
	log := logger(std.Err)
	s, err := load("/", args, log)
	if err != nil {
		return err
	}
	return run(ctx, conn, &s)
}

// run is the service, or with a nil conn the command that somebody typed.
func run(ctx context.Context, conn *notify.Conn, s *settings) error {
	if conn == nil {
		return runUser(ctx, nil, s)
	}
	ctx, cancel := context.WithCancel(ctx)
	var giving sync.WaitGroup
	giving.Go(func() { giveback.Rarely(ctx) })
	defer giving.Wait()
	defer cancel()
	log := s.options.Log
	if s.kernel && !s.otbr {
		e, err := newKernelEngine(conn, s)
		if err == nil {
			return runKernel(ctx, conn, s, e)
		}
		// INV 11: detected, reported, worked around.
		text := "BRIDGE_ENGINE=kernel cannot be had, the engine user is used instead: " + err.Error()
		log(text)
		s.options.Warnings = append(s.options.Warnings, text)
	}
	if err := kernelengine.Restore(ctx, s.opener.Root); err != nil {
		log(err.Error())
	}
	return runUser(ctx, conn, s)
}

// runUser is run with the engine of this package.
func runUser(ctx context.Context, conn *notify.Conn, s *settings) (err error) {
	o := s.options
	log := o.Log
	if s.otbr {
		if conn == nil {
			return errThreadMode
		}
		// The port stays, so that who connects gets an end and not silence.
		o.Unavailable = inThreadMode
	}
	if conn != nil {
		o.Loan = s.loan()
	}
	o.SSH = func(fd int) error {
		return handoff.Send(filepath.Join("/", s.opener.Root, handoff.SSH), fd)
	}
	o.Open = s.opener.Open
	o.UARTChanged = announcer(conn, log)
	if fd, ok := conn.FD(storedName); ok {
		o.Listener = fd
	}
	b, err := Listen(o)
	// Only now, since the boot waits for the port and there was nothing yet
	// that a signal would leave in disorder.
	ctx, stop := signal.NotifyContext(ctx, endings()...)
	defer stop()
	if conn == nil {
		// Tried by hand on a box whose kernel may have its own bridge, which
		// gets the radio back whatever happens here.
		defer func() { err = errors.Join(err, s.opener.Rearm(context.WithoutCancel(ctx))) }()
	}
	if errors.Is(err, unix.EADDRINUSE) {
		// The kernel bridge may be what has the port.
		if ferr := s.opener.freePort(ctx); ferr != nil {
			return errors.Join(err, ferr)
		}
		o.Listener = -1
		b, err = Listen(o)
	}
	if err != nil {
		return err
	}
	if fd, fresh := b.ListenerFD(); fresh {
		// So that a restart, even after kill -9, refuses no connect. It takes
		// the place of one that had another address.
		if err := conn.StoreFD(storedName, fd); err != nil {
			log("the next start makes its own socket: " + err.Error())
		}
	}
	log("listening on " + b.Addr().String())

	serving, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	calls.Go(func() {
		reload := func(ctx context.Context) error { return s.reload(ctx, b, conn) }
		if err := conn.Serve(serving, answerer(b, reload)); err != nil {
			log("no more calls from PID 1: " + err.Error())
		}
	})
	err = b.Run(ctx)
	cancel()
	calls.Wait()
	return err
}

// loan returns what is noted of a release of the radio.
func (s *settings) loan() *radiolock.Loan {
	l, err := radiolock.OpenLoan(s.opener.Root)
	if err != nil {
		s.options.Log("a release of the radio is forgotten: " + err.Error())
	}
	return l
}

// endings are the signals that end the bridge in the orderly way: PID 1's, and
// by hand also ctrl-c and the end of the session, unless whoever started it
// had it ignore them (nohup, a job in the background).
func endings() []os.Signal {
	signals := []os.Signal{unix.SIGTERM}
	for _, s := range [...]os.Signal{unix.SIGINT, unix.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// supervisor is what announcer needs of a notify.Conn.
type supervisor interface {
	Ready(status string) error
	Status(text string) error
}

// announcer returns what tells PID 1 of the UART. The first attempt to open it
// makes the service ready, whatever came of it: with a broken UART its job is
// to say so to whoever connects, and what is started after the bridge (the
// network) must not wait for a radio (INV 11).
func announcer(s supervisor, log func(string)) func(open bool, detail string) {
	first := true
	return func(_ bool, detail string) {
		tell := s.Status
		if first {
			tell, first = s.Ready, false
		}
		if err := tell(detail); err != nil {
			log(err.Error())
		}
	}
}

// engine is what answers for the bridge: Bridge, or the kernel's.
type engine interface {
	Status(ctx context.Context) (api.Bridge, error)
	Release(ctx context.Context, d time.Duration) error
	Take(ctx context.Context) error
	// Lent is for how long the radio is still released.
	Lent() time.Duration
}

// errMethod is the answer to a call that nobody knows.
var errMethod = errors.New("the bridge has no such method: it answers status, watch, tap, release, take and reload")

// answerer returns the notify.Handler for e. reload, if any, is the method of
// that name; its answer is the status afterwards.
func answerer(e engine, reload func(ctx context.Context) error) notify.Handler {
	return func(ctx context.Context, method string, params []byte) ([]byte, error) {
		switch {
		case method == "reload" && reload != nil:
			if err := reload(ctx); err != nil {
				return nil, err
			}
			fallthrough
		case method == "status":
			s, err := e.Status(ctx)
			if err != nil {
				return nil, err
			}
			return json.Marshal(s)
		case method == "release":
			d, err := releaseTime(params)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, releaseLimit)
			defer cancel()
			if err := e.Release(ctx, d); err != nil {
				return nil, err
			}
		case method == "take":
			if err := e.Take(ctx); err != nil {
				return nil, err
			}
		default:
			return observe(ctx, e, method, params)
		}
		return json.Marshal(api.Released{Seconds: e.Lent().Seconds()})
	}
}

// releaseLimit bounds the wait for the UART to be closed, during which nothing
// else is answered: the kernel's bridge may be in a pulse, the tty may wait for
// bytes that the radio does not take.
const releaseLimit = radiouart.DisarmLimit + 2*time.Second

// releaseTime reads the parameters of release.
func releaseTime(params []byte) (time.Duration, error) {
	var p api.ReleaseParams
	if len(params) > 0 {
		if err := json.Unmarshal(params, &p); err != nil {
			return 0, errors.New("release: wrong params: " + err.Error())
		}
	}
	if p.Seconds == 0 {
		return radiolock.DefaultLoan, nil
	}
	if !(p.Seconds >= radiolock.MinLoan.Seconds() && p.Seconds <= radiolock.MaxLoan.Seconds()) {
		return 0, errors.New("release: seconds: want 1 to 86400")
	}
	return time.Duration(p.Seconds * float64(time.Second)), nil
}

// logger returns a function that writes lines and never waits for their
// reader: the data path logs too.
func logger(w io.Writer) func(string) {
	f, ok := w.(*os.File)
	if !ok {
		return func(line string) { _, _ = io.WriteString(w, line+"\n") }
	}
	fd := int(f.Fd())
	return func(line string) {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if n, _ := rawPoll(p[:], 0); n > 0 && p[0].Revents&unix.POLLOUT != 0 {
			// Below PIPE_BUF, so that a pipe with room takes it whole.
			_, _ = unix.Write(fd, []byte(line+"\n"))
		}
	}
}
