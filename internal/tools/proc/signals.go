package proc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

// parseSignal reads TERM, SIGTERM, term or 15. Numbers and names are this
// CPU's: MIPS numbers USR1 16 and CHLD 18.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil {
		if n < 0 || n > maxSignal {
			return 0, applet.Usagef("there is no signal %d", n)
		}
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, applet.Usagef("there is no signal %s", s)
}

// maxSignal is the last real-time signal: 127 on MIPS, 64 elsewhere.
const maxSignal = 127

// signalOption takes a leading -SIGNAL or -s SIGNAL off args.
func signalOption(args []string) (syscall.Signal, []string, error) {
	if len(args) == 0 || len(args[0]) < 2 || args[0][0] != '-' {
		return unix.SIGTERM, args, nil
	}
	name, rest := args[0][1:], args[1:]
	if name == "s" {
		if len(rest) == 0 {
			return 0, nil, applet.Usagef("-s needs a signal")
		}
		name, rest = rest[0], rest[1:]
	}
	if name == "-" {
		return unix.SIGTERM, rest, nil
	}
	sig, err := parseSignal(name)
	return sig, rest, err
}

func (s system) killCommand(_ context.Context, std applet.IO, args []string) error {
	if len(args) > 0 && args[0] == "-l" {
		for n := syscall.Signal(1); n <= 31; n++ {
			if name := unix.SignalName(n); name != "" {
				fmt.Fprintf(std.Out, "%2d %s\n", int(n), strings.TrimPrefix(name, "SIG"))
			}
		}
		return nil
	}
	sig, pids, err := signalOption(args)
	if err != nil {
		return err
	}
	if len(pids) > 0 && pids[0] == "--" {
		pids = pids[1:]
	}
	if len(pids) == 0 {
		return applet.Usagef("needs a process number")
	}
	bad := false
	for _, p := range pids {
		pid, err := strconv.Atoi(p)
		if err != nil {
			return applet.Usagef("%q is no process number; killall takes names", p)
		}
		if err := s.kill(pid, sig); err != nil {
			fmt.Fprintf(std.Err, "kill: %d: %v\n", pid, err)
			bad = true
		}
	}
	if bad {
		return applet.Exit(1)
	}
	return nil
}

func (s system) killall(_ context.Context, std applet.IO, args []string) error {
	quiet := len(args) > 0 && args[0] == "-q"
	if quiet {
		args = args[1:]
	}
	sig, names, err := signalOption(args)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return applet.Usagef("needs a name")
	}
	bad := false
	for _, name := range names {
		pids, err := s.named(name)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			bad = true
			if !quiet {
				fmt.Fprintf(std.Err, "killall: %s: no process\n", name)
			}
		}
		for _, pid := range pids {
			if err := s.kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
				fmt.Fprintf(std.Err, "killall: %d: %v\n", pid, err)
				bad = true
			}
		}
	}
	if bad {
		return applet.Exit(1)
	}
	return nil
}

func (s system) pidof(_ context.Context, std applet.IO, args []string) error {
	one := len(args) > 0 && args[0] == "-s"
	if one {
		args = args[1:]
	}
	if len(args) == 0 {
		return applet.Usagef("needs a name")
	}
	var found []string
	for _, name := range args {
		pids, err := s.named(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			found = append(found, strconv.Itoa(pid))
		}
	}
	if len(found) == 0 {
		return applet.Exit(1)
	}
	if one {
		found = found[:1]
	}
	_, err := fmt.Fprintln(std.Out, strings.Join(found, " "))
	return err
}

// named finds the processes whose program is called name: by argv[0], which
// tells the applets of this binary apart (all of them are the same file), for
// "gw NAME", as the services run, by that NAME, or by the kernel's name. Newest
// first, without ourselves.
func (s system) named(name string) ([]int, error) {
	list, err := s.processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for i := len(list) - 1; i >= 0; i-- {
		p := list[i]
		if p.pid == s.self {
			continue
		}
		arg0, rest, _ := strings.Cut(p.cmdline, " ")
		base := strings.TrimPrefix(filepath.Base(arg0), "-")
		if arg1, _, _ := strings.Cut(rest, " "); base == "gw" && arg1 == name {
			base = arg1
		}
		if p.comm == name || base == name || arg0 == name {
			pids = append(pids, p.pid)
		}
	}
	return pids, nil
}
