// Command sim runs the simulated radio behind a socket or a pseudo terminal.
//
//	sim -connect unix:/tmp/uart.sock -control unix:/tmp/radio.sock -network net.json -form
//	sim -listen tcp:127.0.0.1:8889
//	sim -pty
//
// It prints one line on standard output when it is ready: "ready", and for
// -listen and -pty where to connect.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"gwinit/test/radio"
	"gwinit/test/radio/line"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "sim: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	opt := radio.DefaultOptions()
	fs := flag.NewFlagSet("sim", flag.ContinueOnError)
	fs.SetOutput(errOut)
	connect := fs.String("connect", "", "connect to `unix:PATH` or tcp:HOST:PORT, and again when that ends")
	listen := fs.String("listen", "", "accept one connection after the other on `unix:PATH` or tcp:HOST:PORT")
	pty := fs.Bool("pty", false, "be a pseudo terminal; its path is printed")
	control := fs.String("control", "", "take commands on `unix:PATH` (see help there)")
	baud := fs.Int("baud", opt.Line.Baud, "the radio's `rate`, bits per second")
	baudFrom := fs.String("baud-from", "", "follow `FILE` for QEMU's trace lines of serial_update_parameters; without -baud the radio takes that rate, with it another rate garbles what passes")
	baseBaud := fs.Int("base-baud", 12_500_000, "the emulated UART's real clock / 16 in `Hz`, where QEMU says 115200")
	flow := fs.String("flow", string(opt.Line.Flow), "the radio's flow control: none, sw, hw")
	sndbuf := fs.Int("sndbuf", 0, "`bytes` of kernel buffer towards the far end; a small one loses early what it does not take")
	fs.IntVar(&opt.Line.PeerFIFO, "fifo", opt.Line.PeerFIFO, "`bytes` of the far end's receive FIFO")
	fs.IntVar(&opt.Line.RadioFIFO, "radio-fifo", opt.Line.RadioFIFO, "`bytes` of the radio's receive buffer")
	fs.StringVar(&opt.StateFile, "network", "", "`FILE` that keeps the radio's flash")
	fs.BoolVar(&opt.Form, "form", false, "begin with the tests' network when there is none")
	fs.DurationVar(&opt.BootDelay, "boot", opt.BootDelay, "how long the chip is deaf after a reset")
	fs.Uint64Var(&opt.Seed, "seed", opt.Seed, "of the injected faults")
	verbose := fs.Bool("v", false, "log events")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	ways := 0
	for _, on := range []bool{*connect != "", *listen != "", *pty} {
		if on {
			ways++
		}
	}
	if ways != 1 || fs.NArg() != 0 {
		return errors.New("give one of -connect, -listen and -pty")
	}
	opt.Line.Baud, opt.Line.Flow = *baud, line.Flow(*flow)
	switch opt.Line.Flow {
	case line.None, line.Software, line.Hardware:
	default:
		return fmt.Errorf("-flow %s: not none, sw or hw", *flow)
	}
	if *verbose {
		start := time.Now()
		opt.Log = func(format string, a ...any) {
			fmt.Fprintf(errOut, "%8.3f %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, a...))
		}
	}
	s, err := radio.New(opt)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = s.Run(ctx) }) // ends with ctx only
	if *control != "" {
		l, err := listenOn(*control)
		if err != nil {
			return fmt.Errorf("-control: %w", err)
		}
		wg.Go(func() { serveControl(ctx, l, s) })
	}
	if *baudFrom != "" {
		fixed := false
		fs.Visit(func(f *flag.Flag) { fixed = fixed || f.Name == "baud" })
		set := s.Line().SetBaud
		if fixed {
			set = s.Line().SetPeerBaud
		}
		wg.Go(func() { followBaud(ctx, *baudFrom, *baseBaud, set) })
	}
	logf := opt.Log
	if logf == nil {
		logf = func(string, ...any) {}
	}
	attach := func(c line.Stream) error {
		port, err := line.NewPort(c, *sndbuf)
		if err != nil {
			_ = c.Close()
			return err
		}
		logf("attached")
		err = s.Attach(ctx, port)
		logf("detached: %v", err)
		return nil
	}
	switch {
	case *pty:
		master, keep, path, err := line.OpenPTY()
		if err != nil {
			return err
		}
		defer keep.Close()
		fmt.Fprintf(out, "ready %s\n", path)
		return attach(master)
	case *listen != "":
		l, err := listenOn(*listen)
		if err != nil {
			return fmt.Errorf("-listen: %w", err)
		}
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		defer l.Close()
		fmt.Fprintf(out, "ready %s\n", l.Addr())
		for {
			c, err := l.Accept()
			if err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
			if err := attach(c.(line.Stream)); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(out, "ready")
	network, addr, err := split(*connect)
	if err != nil {
		return fmt.Errorf("-connect: %w", err)
	}
	for ctx.Err() == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			if err := attach(c.(line.Stream)); err != nil {
				return err
			}
		}
		pause(ctx, 100*time.Millisecond) // the far end is starting, or has ended
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func split(s string) (network, addr string, err error) {
	network, addr, ok := strings.Cut(s, ":")
	if !ok || addr == "" || network != "unix" && network != "tcp" {
		return "", "", fmt.Errorf("%q is not unix:PATH or tcp:HOST:PORT", s)
	}
	return network, addr, nil
}

func listenOn(s string) (net.Listener, error) {
	network, addr, err := split(s)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if fi, err := os.Lstat(addr); err == nil && fi.Mode().Type() == os.ModeSocket {
			_ = os.Remove(addr) // left by a run that was killed
		}
	}
	return net.Listen(network, addr)
}

// serveControl answers each line of each connection with a line of JSON:
// {"ok":true,"data":...} or {"ok":false,"error":"..."}.
func serveControl(ctx context.Context, l net.Listener, s *radio.Sim) {
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		wg.Go(func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			in := bufio.NewScanner(c)
			enc := json.NewEncoder(c)
			for in.Scan() {
				data, err := s.Do(ctx, in.Text())
				answer := struct {
					OK    bool   `json:"ok"`
					Error string `json:"error,omitempty"`
					Data  any    `json:"data,omitempty"`
				}{OK: err == nil, Data: data}
				if err != nil {
					answer.Error = err.Error()
				}
				if enc.Encode(answer) != nil {
					return
				}
			}
		})
	}
}

// Rates outside of these are another UART's: the trace does not say whose
// line it is, and the console runs at the standard clock.
const (
	minBaud = 1200
	maxBaud = 1_000_000
)

// parseSpeed reads a trace line of QEMU's serial_update_parameters.
func parseSpeed(s string, baseBaud int) (baud int, ok bool) {
	_, rest, ok := strings.Cut(s, "serial_update_parameters")
	if !ok {
		return 0, false
	}
	_, rest, ok = strings.Cut(rest, "speed=")
	if !ok {
		return 0, false
	}
	var speed int
	if n, err := fmt.Sscanf(rest, "%d", &speed); n != 1 || err != nil || speed < 0 || speed > 1<<24 {
		return 0, false
	}
	baud = int(int64(baseBaud) * int64(speed) / 115200)
	return baud, baud >= minBaud && baud <= maxBaud
}

// followBaud reads FILE as it grows.
func followBaud(ctx context.Context, path string, baseBaud int, set func(int)) {
	var f *os.File
	var part string
	buf := make([]byte, 4096)
	for ctx.Err() == nil {
		if f == nil {
			f, _ = os.Open(path) // not there yet: the next time
		}
		n := 0
		if f != nil {
			n, _ = f.Read(buf)
		}
		if n == 0 {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		lines := strings.Split(part+string(buf[:n]), "\n")
		part = lines[len(lines)-1]
		if len(part) > len(buf) {
			part = "" // no trace line is that long
		}
		for _, l := range lines[:len(lines)-1] {
			if baud, ok := parseSpeed(l, baseBaud); ok {
				set(baud)
			}
		}
	}
	if f != nil {
		_ = f.Close()
	}
}
