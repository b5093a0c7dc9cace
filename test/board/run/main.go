// Run boots the emulated gateway for people: `make run`, `make stop` and
// `make status`.
//
//	run      boot; the console is on the terminal, or with HEADLESS=1 in a file
//	stop     end the one that runs
//	status   type `gwctl status` on its console and print the answer
//
// The variables of `make run` (HEADLESS, KERNEL, ROOTFS, BRIDGE_PORT, SSH_PORT,
// BENCH_PORT, BOARD, RESET) are read from the environment; -h lists the flags that go by
// the same names. Everything it keeps is in build/run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"gwinit/test/board"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}

// options is what a run is asked for.
type options struct {
	dir        string // build/run
	kernel     string
	rootfs     string
	userdata   string
	radio      string // the simulator's program; "" is no radio
	board      string
	bridgePort int
	sshPort    int
	benchPort  int
	headless   bool
	reset      bool
	serve      bool // we are the background half of a headless run
}

// boards are those that have an emulation, with their RAM in MiB.
var boards = map[string]int{
	"":                32,
	"emulated":        32,
	"lidl":            32,
	"sengled-e39-g8c": 64,
}

func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	o, err := parse(args, env, out)
	if err != nil {
		return err
	}
	switch {
	case command == "run" && o.serve:
		return serve(ctx, o)
	case command == "run" && missing(o) != nil:
		return missing(o)
	case command == "run" && ours(o.kernel):
		// Before the background half, so that its progress is seen.
		if o.kernel, err = board.Kernel(ctx, o.kernel); err != nil {
			return err
		}
	}
	switch {
	case command == "run" && o.headless:
		return headless(ctx, o, out)
	case command == "run":
		return foreground(ctx, o)
	case command == "stop":
		return stopRunning(o, out)
	case command == "status":
		return status(o, out)
	}
	return errors.New("usage: board run|stop|status [flags]")
}

// ours tells the name of a kernel of this tree from a path.
func ours(kernel string) bool { return kernel == board.KernelFull || kernel == board.KernelIncumbent }

// missing names a file that was asked for and is not there, before anything is
// started with it.
func missing(o options) error {
	for _, f := range []struct{ variable, path string }{{"KERNEL", o.kernel}, {"ROOTFS", o.rootfs}, {"USERDATA", o.userdata}} {
		if f.path == "" || f.path == o.kernel && ours(o.kernel) {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			return fmt.Errorf("%s: %w; `make image` builds the images of this tree", f.variable, err)
		}
	}
	return nil
}

// parse reads flags, with the environment as their defaults.
func parse(args []string, env func(string) string, out io.Writer) (options, error) {
	var o options
	var wrong error
	text := func(name, otherwise string) string {
		if v := env(name); v != "" {
			return v
		}
		return otherwise
	}
	number := func(name string, otherwise int) int {
		v := env(name)
		if v == "" {
			return otherwise
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 65535 {
			wrong = fmt.Errorf("%s=%s: not a port number", name, v)
		}
		return n
	}
	truth := func(name string) bool { v := env(name); return v != "" && v != "0" }

	f := flag.NewFlagSet("board", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.dir, "dir", "build/run", "folder for flash, console log and process ID")
	f.StringVar(&o.kernel, "kernel", text("KERNEL", board.KernelFull), "kernel of this tree (full, incumbent) or a vmlinux")
	f.StringVar(&o.rootfs, "rootfs", text("ROOTFS", "build/rootfs.bin"), "root file system image")
	f.StringVar(&o.userdata, "userdata", text("USERDATA", "build/userdata.bin"), "what jffs2-fs holds at the first run or after RESET=1")
	f.StringVar(&o.radio, "radio", text("RADIO", "build/radiosim"), "radio simulator; none for an open UART")
	f.StringVar(&o.board, "board", env("BOARD"), "lidl (32 MiB) or sengled-e39-g8c (64 MiB)")
	f.IntVar(&o.bridgePort, "bridge-port", number("BRIDGE_PORT", 8888), "port on 127.0.0.1 for the gateway's 8888")
	f.IntVar(&o.sshPort, "ssh-port", number("SSH_PORT", 2222), "port on 127.0.0.1 for the gateway's 22")
	f.IntVar(&o.benchPort, "bench-port", number("BENCH_PORT", 5201), "port on 127.0.0.1 for the gateway's 5201, iperf3's in bench mode")
	f.BoolVar(&o.headless, "headless", truth("HEADLESS"), "return when the bridge answers; the console goes to console.log")
	f.BoolVar(&o.reset, "reset", truth("RESET"), "begin with fresh userdata")
	f.BoolVar(&o.serve, "serve", false, "be the background half of -headless")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if wrong != nil {
		return o, wrong
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q: not understood; see -h", f.Arg(0))
	}
	if _, ok := boards[o.board]; !ok {
		return o, fmt.Errorf("BOARD=%s: no such board; lidl or sengled-e39-g8c", o.board)
	}
	if o.radio == "none" {
		o.radio = ""
	}
	dir, err := filepath.Abs(o.dir)
	o.dir = dir
	return o, err
}
