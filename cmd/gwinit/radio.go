//go:build !no_radio && !no_bridge && !no_gwctl

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gpio"
	"gwinit/internal/gwctl"
	"gwinit/internal/radioproto/gbl"
	"gwinit/services/radioctl"
)

// radioCommands are those verbs of gwctl radio that take the radio themselves.
func radioCommands() (all []gwctl.Local) {
	for _, verb := range []string{"probe", "reset", "bootloader", "recover", "flash", "passthrough"} {
		l := gwctl.Boxed("radio " + verb)
		l.Usage = "usage: gwctl " + l.Synopsis() + "\n" + l.Summary + "\n" + radioUsage[verb]
		l.Steer = func(ctx context.Context, std applet.IO, args []string, json bool, ask gwctl.Asker) error {
			return radio(ctx, std, verb, args, json, ask)
		}
		all = append(all, l)
	}
	return all
}

// radioUsage is the rest of a verb's help.
var radioUsage = map[string]string{
	"probe":      "Its client gets an orderly end; a Zigbee co-processor is reset.\n",
	"bootloader": "gwctl radio reset starts the application again.\n",
	"flash": `
FILE is a .gbl image; - is standard input. radio.conf is written afterwards. If it
fails, it says what the radio is like, and the way back.

  -baud N     rate of the new firmware, if it is none of the usual
  -flow KIND  flow control of the new firmware: none, sw or hw (as the board is wired)
  -force      send an image that the board's data speaks against
`,
	"passthrough": `
Then everything is as it was.

  -baud N     115200, that of the bootloader
  -flow KIND  none
  -for TIME   10m; 24h at most
`,
}

// radioOptions takes the options of a verb.
type radioOptions struct {
	baud  int
	flow  string
	time  time.Duration
	force bool
	file  string
}

func parseRadio(verb string, args []string) (o radioOptions, err error) {
	flash, pass := verb == "flash", verb == "passthrough"
	o.time = 10 * time.Minute
	for i := 0; i < len(args); i++ {
		value := func() string {
			if i++; i < len(args) {
				return args[i]
			}
			return ""
		}
		switch a := args[i]; {
		case a == "-baud" && (flash || pass):
			if o.baud, err = strconv.Atoi(value()); err != nil || o.baud < 1200 || o.baud > 4_000_000 {
				return o, applet.Usagef("-baud takes a rate of 1200 to 4000000")
			}
		case a == "-flow" && (flash || pass):
			if o.flow = value(); o.flow != "none" && o.flow != "sw" && o.flow != "hw" {
				return o, applet.Usagef("-flow takes none, sw or hw")
			}
		case a == "-for" && pass:
			if o.time, err = time.ParseDuration(value()); err != nil || o.time < time.Second || o.time > 24*time.Hour {
				return o, applet.Usagef("-for takes a time of 1s to 24h")
			}
		case a == "-force" && flash:
			o.force = true
		case flash && o.file == "" && (a == "-" || a != "" && a[0] != '-'):
			o.file = a
		default:
			return o, applet.Usagef("radio %s takes no argument %q", verb, a)
		}
	}
	if flash && o.file == "" {
		return o, applet.Usagef("radio flash what? A FILE, or - for standard input")
	}
	return o, nil
}

// radio carries out a verb.
func radio(ctx context.Context, std applet.IO, verb string, args []string, asJSON bool, ask gwctl.Asker) error {
	o, err := parseRadio(verb, args)
	if err != nil {
		return err
	}
	// Ended by a signal, it still gives the radio back.
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	told := std.Out
	if asJSON {
		told = std.Err
	}
	b := &radioctl.Box{
		Board: rtl8196e.Detect(""), Kernel: gpio.System{}, Ask: ask,
		// Nobody may read it any more, which is no reason to stop.
		Say: func(text string) { _, _ = fmt.Fprintln(told, text) },
	}
	var a api.RadioAnswer
	switch verb {
	case "probe":
		a, err = b.Probe(ctx)
	case "reset":
		if err = b.Reset(ctx); err == nil && !asJSON {
			b.Say("the radio was reset")
		}
	case "bootloader":
		a, err = b.Bootloader(ctx)
	case "recover":
		a, err = b.Recover(ctx)
	case "passthrough":
		err = b.Passthrough(ctx, radioctl.Passthrough{Baud: cmp.Or(o.baud, 115200), Flow: cmp.Or(o.flow, "none"), For: o.time, Serve: serveBridge(std)})
	case "flash":
		var done radioctl.Flashed
		if done, err = flash(ctx, b, std, o, signals); err == nil {
			if asJSON {
				return printJSON(std.Out, done)
			}
			for _, w := range done.Warnings {
				b.Say(w.String())
			}
			return nil
		}
	}
	if err != nil {
		return &api.Error{Code: api.CodeFailed, Message: err.Error()}
	}
	if asJSON {
		return printJSON(std.Out, a)
	}
	if a.Kind != "" {
		b.Say(a.String())
	}
	return nil
}

func printJSON(w io.Writer, v any) error {
	line, err := wire.Marshal(v)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

// flash reads the file first, as a whole: the radio waits for no network.
func flash(ctx context.Context, b *radioctl.Box, std applet.IO, o radioOptions, signals []os.Signal) (done radioctl.Flashed, err error) {
	in := std.In
	if o.file != "-" {
		f, err := os.Open(o.file)
		if err != nil {
			return done, err
		}
		defer f.Close()
		in = f
	}
	file, err := io.ReadAll(io.LimitReader(in, gbl.MaxBytes+1))
	if err != nil {
		return done, err
	}
	if len(file) > gbl.MaxBytes {
		// Taken all the same: who is still sending it does not hear why not.
		_, _ = io.Copy(io.Discard, in)
		return done, errors.New("the file is too long for an image of any radio")
	}
	return b.Flash(ctx, radioctl.Flash{
		File: file, Baud: o.baud, Flow: o.flow, Force: o.force,
		Point: func() {
			// An SSH session that ends, or a ctrl-c, would leave the radio without
			// an application. A leader of its process group has only itself to end.
			signal.Ignore(append(signals, syscall.SIGPIPE)...)
			_, _ = syscall.Setsid()
		},
	})
}

// serveBridge is the bridge's own command, in a process of its own.
func serveBridge(std applet.IO) func(ctx context.Context, baud int, flow string) error {
	return func(ctx context.Context, baud int, flow string) error {
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Args = []string{"gw", "bridge", "-baud", strconv.Itoa(baud), "-flow", flow, "-any"}
		cmd.Stdout, cmd.Stderr = std.Err, std.Err
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 10 * time.Second
		// A ctrl-c is for this process, which ends it in order.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		return cmd.Run()
	}
}
