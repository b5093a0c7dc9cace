//go:build !no_bench

package core

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/netdev"
	"gwinit/internal/notify"
	"gwinit/services/benchmode"
	"gwinit/services/eth"
	"gwinit/services/eth/ethtool"
)

// hosted are the services of core that bench mode does without, as a status names
// them.
const hosted = "core (firewall, driver tuning, netwatch, mDNS, clock, LED patterns, SSH's port, metrics, syslog)"

// benchMemory bounds what this process takes, and the server, in bytes.
const benchMemory = 8 << 20

// interfaceName is the one that is measured.
const interfaceName = "eth0"

// BenchApplet is the process of bench mode, as PID 1 starts it instead of core:
// what is left of the rarely active services, which is the address and the button.
func BenchApplet() applet.Applet {
	return applet.Applet{
		Name: "bench", Group: applet.Service,
		Summary: "bench mode: the network and the iperf3 server, and nothing else",
		Usage: `bench
Carries bench mode out; gwctl bench-mode on has gwinit start it.`,
		Run: func(ctx context.Context, _ applet.IO, args []string) error {
			if len(args) > 0 {
				return applet.Usagef("bench takes no arguments")
			}
			ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM)
			defer stop()
			return runBench(ctx)
		},
	}
}

func runBench(ctx context.Context) error {
	// Without the collection that Go makes every two minutes.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(benchMemory)
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	var file api.BenchFile
	text, err := os.ReadFile(api.BenchPath)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return fmt.Errorf("what bench mode is to be is not known; gwctl bench-mode on starts it: %w", err)
	}
	for i, name := range file.Stopped {
		if name == "core" {
			file.Stopped[i] = hosted
		}
	}
	log := func(line string) { fmt.Fprintln(os.Stderr, line) }
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	net := eth.New(eth.Options{})
	box := benchBox{kept: file.Kept, System: benchmode.System{Interface: interfaceName}}
	s := benchmode.New(benchmode.Options{File: file, Box: box, Ready: func() error { return conn.Ready("settling") }, Log: log})
	panel := newBenchPanel(s.Button)

	services := []func(context.Context) error{net.Run, panel, func(ctx context.Context) error {
		return conn.Serve(ctx, func(_ context.Context, method string, params []byte) ([]byte, error) {
			if method == "network" {
				return json.Marshal(net.Status())
			}
			return s.Call(method, params)
		})
	}}
	ended := make(chan error, len(services)+1)
	for _, run := range services {
		go func() { ended <- run(ctx) }()
	}
	go func() {
		why, err := s.Run(ctx)
		if err != nil {
			why = err.Error()
		}
		log("bench mode ends: " + why)
		_ = conn.Status(api.BenchEnded + why) // PID 1 knows of the end otherwise, too
		ended <- err
	}()
	// The first that ends is the reason.
	err = <-ended
	cancel()
	for range services {
		if other := <-ended; err == nil {
			err = other
		}
	}
	return err
}

// benchBox is the rest of the gateway, for bench mode.
type benchBox struct {
	benchmode.System
	kept []int
}

// Left implements benchmode.Box.
func (b benchBox) Left() ([]string, error) { return b.System.Left(b.kept) }

// Tune implements benchmode.Box.
func (benchBox) Tune(profile string) error { return newTuner(false).Use(profile) }

// Forget implements benchmode.Box.
func (benchBox) Forget(neighbours bool) error {
	err := benchmode.ForgetTCP()
	if !neighbours {
		return err
	}
	k := netdev.System{}
	l, lerr := k.Link(interfaceName)
	if lerr == nil {
		lerr = k.ForgetNeighbours(l.Index)
	}
	return errors.Join(err, lerr)
}

// Close implements benchmode.Box. Listeners are closed already.
func (benchBox) Close(peer string, port int) (how string, err error) {
	how = "no listener but tcp/" + strconv.Itoa(port)
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		return how + ", for everybody", nil
	}
	how += ", which is for " + peer
	closed, err := closeDoor(addr)
	if closed {
		how += "; the kernel drops the packets of others (nftables)"
	}
	return how, err
}

// Count implements benchmode.Box.
func (b benchBox) Count() (*api.BenchCount, error) {
	c, err := b.System.Count()
	if err != nil {
		return nil, err
	}
	stats, _ := ethtool.Open(interfaceName).Stats() // a driver need not have any
	for _, s := range stats {
		c.Driver = append(c.Driver, api.EthCounter{Name: s.Name, Value: s.Value})
	}
	return c, nil
}

// Serve implements benchmode.Box.
func (benchBox) Serve(ctx context.Context, peer string, port int, tell func(benchmode.Event)) error {
	args := []string{"iperf3", "-s", "-events", "-p", strconv.Itoa(port)}
	if peer != "" {
		args = append(args, "-peer", peer)
	}
	// It is in this process's group, which PID 1 ends as a whole.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "gw"
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT="+strconv.Itoa(benchMemory))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readEvents(out, tell)
	return cmd.Wait()
}

// readEvents reads the lines of the server: what happened, a blank, and who it
// was.
func readEvents(r io.Reader, tell func(benchmode.Event)) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if b := lines.Bytes(); len(b) > 2 {
			tell(benchmode.Event{Kind: benchmode.EventKind(b[0]), Peer: string(b[2:])})
		}
	}
}
