package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// foreground boots with the console on the terminal, until the guest powers
// off, ctrl-a x is typed, or ctx ends.
func foreground(ctx context.Context, o options) (err error) {
	if pid, err := owner(o.dir); err != nil {
		return err
	} else if pid != 0 {
		return errRunning
	}
	if err := portsFree(o); err != nil {
		return err
	}
	fmt.Printf(`The gateway boots here, in about 5 s.
  radio bridge   tcp://127.0.0.1:%d   (Zigbee2MQTT: serial port, adapter ember)
  SSH            ssh -p %d root@127.0.0.1
  iperf3         port %d of 127.0.0.1, while gwctl bench-mode is on
  on its console gwctl status
  to end it      ctrl-a x
`, o.bridgePort, o.sshPort, o.benchPort)
	s, err := open(ctx, o, os.Stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()

	restore, err := rawTerminal(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	defer restore()
	wg.Go(func() {
		defer cancel()
		_ = s.Wait(ctx)
	})
	wg.Go(func() {
		// Input that ends, as under a script, ends nothing.
		if typed(ctx, int(os.Stdin.Fd()), s.Console().Send) {
			cancel()
		}
	})
	<-ctx.Done()
	return nil
}

// rawTerminal makes the terminal pass every key on; output keeps its line ends.
func rawTerminal(fd int) (restore func(), err error) {
	if !term.IsTerminal(fd) {
		return func() {}, nil
	}
	state, err := term.MakeRaw(fd)
	if err != nil {
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return func() {
		_ = term.Restore(fd, state)
		fmt.Println()
	}, nil
}

// inputPoll is how soon the reader of the terminal notices that it shall end:
// a read cannot be interrupted.
const inputPollMs = 100

// typed sends what comes from fd, until ctrl-a x (true), the end of input or
// of ctx.
func typed(ctx context.Context, fd int, send func(string) error) bool {
	var esc escape
	buf := make([]byte, 256)
	for ctx.Err() == nil {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, inputPollMs)
		if errors.Is(err, unix.EINTR) || err == nil && ready == 0 {
			continue
		}
		if err != nil {
			return false
		}
		n, err := unix.Read(fd, buf)
		if err != nil || n <= 0 {
			return false
		}
		keys, end := esc.filter(buf[:n])
		if len(keys) > 0 && send(string(keys)) != nil {
			return false
		}
		if end {
			return true
		}
	}
	return false
}

// escape finds ctrl-a x among the keys, as QEMU's own console does: ctrl-a
// twice is one ctrl-a for the guest.
type escape struct{ begun bool }

const ctrlA = 1

// filter returns the guest's keys, and whether the machine shall end.
func (e *escape) filter(in []byte) (keys []byte, end bool) {
	for _, b := range in {
		switch {
		case !e.begun && b == ctrlA:
			e.begun = true
			continue
		case e.begun && (b == 'x' || b == 'X'):
			return keys, true
		case e.begun && b != ctrlA:
			keys = append(keys, ctrlA)
		}
		e.begun = false
		keys = append(keys, b)
	}
	return keys, false
}
