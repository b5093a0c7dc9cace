// Package proc is the tools that show, signal and wrap processes. They read
// /proc below a root of their own choice, so that a test can lay one out.
package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

// system is the machine that the tools look at.
type system struct {
	root  string                                                        // in front of /proc; empty on the box
	kill  func(pid int, sig syscall.Signal) error                       // kill(2)
	sleep func(ctx context.Context, d time.Duration) error              // nil when d has passed
	run   func(ctx context.Context, std applet.IO, argv []string) error // a command, to its end
	self  int                                                           // our own process
}

// Applets returns the tools.
func Applets() []applet.Applet {
	s := system{kill: syscall.Kill, sleep: sleepFor, run: runCommand, self: os.Getpid()}
	return s.applets()
}

func (s system) applets() []applet.Applet {
	tool := func(name, summary, usage string, run func(context.Context, applet.IO, []string) error) applet.Applet {
		return applet.Applet{Name: name, Group: applet.Process, Summary: summary, Usage: usage, Run: run}
	}
	list := []applet.Applet{
		tool("env", "print or change the environment", "env [-i] [-u NAME] [NAME=VALUE...] [COMMAND [ARG...]]\n\n  -i  start with none\n  -u  without NAME", env),
		tool("false", "fail", "false", func(context.Context, applet.IO, []string) error { return applet.Exit(1) }),
		tool("free", "memory in use", "free [-hkm]\n\n  -k  in KiB (the default)\n  -m  in MiB\n  -h  in K, M, G", s.free),
		tool("kill", "send a signal to processes", "kill [-SIGNAL | -s SIGNAL] PID...\nkill -l\n\n  SIGNAL  name or number of this CPU (TERM; 0 only asks whether PID is there)\n  PID     negative: the process group\n  -l      list the signals", s.killCommand),
		tool("killall", "send a signal to processes by name", "killall [-q] [-SIGNAL] NAME...\n\n  -q  no error if there is none", s.killall),
		tool("nohup", "run a command that survives the hang-up", "nohup COMMAND [ARG...]\n\nOutput to a terminal goes to nohup.out, or to $HOME/nohup.out.", nohup),
		tool("pidof", "find processes by name", "pidof [-s] NAME...\n\n  -s  only one", s.pidof),
		tool("ps", "list processes", "ps [-o FIELD,...] [ax|aux|w|-e|-f|-A]\n\n  FIELD  pid ppid user stat vsz rss anon time comm args\n\nEvery process is always shown, and every thread's time in its process.", s.ps),
		tool("sleep", "wait", "sleep N[smhd]...\n\n  N may have a fraction; several are added up", s.sleepCommand),
		tool("timeout", "end a command after a time", "timeout [-s SIGNAL] [-k SECS] SECS COMMAND [ARG...]\n\n  -k  KILL if it still runs SECS later\n\nExit status 124: time was up.", timeout),
		tool("top", "the busiest processes", "top [-b] [-d SECS] [-n COUNT]\n\n  -b  one screen after the other, for a file\n  -d  every SECS seconds (5)\n  -n  only COUNT screens\n\nq or ctrl-C ends it.", s.top),
		tool("true", "succeed", "true", func(context.Context, applet.IO, []string) error { return nil }),
		tool("uptime", "how long, how busy", "uptime", s.uptime),
		tool("watch", "repeat a command", "watch [-n SECS] [-t] COMMAND [ARG...]\n\n  -n  every SECS seconds (2)\n  -t  no headline", s.watch),
		tool("xargs", "run a command with arguments from input", "xargs [-0rt] [-n MAX] [-I MARK] [COMMAND [ARG...]]\n\n  -0  arguments end in NUL, not in white space\n  -n  at most MAX a command\n  -I  one line a command, in place of MARK\n  -r  none at all: no command\n  -t  say what is run", s.xargs),
		tool("yes", "say y until nobody listens", "yes [WORD...]", yes),
	}
	for i := range list {
		list[i].OwnH = list[i].Name == "free"
	}
	return list
}

func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func runCommand(ctx context.Context, std applet.IO, argv []string) error {
	cmd := command(ctx, std, argv)
	return cmd.Run()
}

func command(ctx context.Context, std applet.IO, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = std.In, std.Out, std.Err
	return cmd
}

// status turns the end of a command into this process's own: 127 not found,
// 126 not executable, 128 plus the signal.
func status(name string, std applet.IO, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		ws := exit.Sys().(syscall.WaitStatus)
		if ws.Signaled() {
			return applet.Exit(128 + int(ws.Signal()))
		}
		return applet.Exit(ws.ExitStatus())
	}
	fmt.Fprintf(std.Err, "%s: %v\n", name, err)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return applet.Exit(127)
	}
	return applet.Exit(126)
}

func env(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "+iu:")
	if err != nil {
		return err
	}
	list := os.Environ()
	if o.Has('i') {
		list = nil
	}
	drop := func(name string) {
		list = slices.DeleteFunc(list, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	if o.Has('u') {
		drop(o.Val('u'))
	}
	for len(rest) > 0 {
		name, _, ok := strings.Cut(rest[0], "=")
		if !ok {
			break
		}
		drop(name)
		list = append(list, rest[0])
		rest = rest[1:]
	}
	if len(rest) == 0 {
		for _, kv := range list {
			if _, err := fmt.Fprintln(std.Out, kv); err != nil {
				return err
			}
		}
		return nil
	}
	return become("env", std, rest, list)
}

// become replaces this process by a command; it returns only if it cannot.
func become(name string, std applet.IO, argv, environ []string) error {
	path, err := exec.LookPath(argv[0])
	if err == nil {
		err = &os.PathError{Op: "exec", Path: path, Err: syscall.Exec(path, argv, environ)}
	}
	return status(name, std, err)
}

func nohup(_ context.Context, std applet.IO, args []string) error {
	if len(args) == 0 {
		return applet.Usagef("needs a command")
	}
	signal.Ignore(unix.SIGHUP)
	isTTY := func(fd int) bool {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return err == nil
	}
	if isTTY(1) {
		name := "nohup.out"
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			name = filepath.Join(os.Getenv("HOME"), name)
			if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
				return err
			}
		}
		defer f.Close()
		fmt.Fprintf(std.Err, "nohup: output goes to %s\n", name)
		if err := unix.Dup3(int(f.Fd()), 1, 0); err != nil {
			return err
		}
	}
	if isTTY(2) {
		if err := unix.Dup3(1, 2, 0); err != nil {
			return err
		}
	}
	if isTTY(0) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer null.Close()
		if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
			return err
		}
	}
	return become("nohup", std, args, os.Environ())
}

// duration reads sleep's N[smhd].
func duration(s string) (time.Duration, error) {
	unit := time.Second
	digits := s
	if s != "" {
		if i := strings.IndexByte("smhd", s[len(s)-1]); i >= 0 {
			unit = []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}[i]
			digits = s[:len(s)-1]
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > float64(100*365*24*time.Hour) {
		return 0, applet.Usagef("%q is no time", s)
	}
	return time.Duration(f * float64(unit)), nil
}

func (s system) sleepCommand(ctx context.Context, _ applet.IO, args []string) error {
	if len(args) == 0 {
		return applet.Usagef("needs a time")
	}
	var sum time.Duration
	for _, a := range args {
		d, err := duration(a)
		if err != nil {
			return err
		}
		sum += d
	}
	if s.sleep(ctx, sum) != nil {
		return applet.Exit(128 + int(unix.SIGINT))
	}
	return nil
}

func timeout(ctx context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "+s:k:")
	if err != nil {
		return err
	}
	if len(rest) < 2 {
		return applet.Usagef("needs a time and a command")
	}
	after, err := duration(rest[0])
	if err != nil {
		return err
	}
	sig := unix.SIGTERM
	if o.Has('s') {
		if sig, err = parseSignal(o.Val('s')); err != nil {
			return err
		}
	}
	var killAfter time.Duration
	if o.Has('k') {
		if killAfter, err = duration(o.Val('k')); err != nil {
			return err
		}
	}
	limit, cancel := context.WithTimeout(ctx, after)
	if after == 0 {
		limit, cancel = context.WithCancel(ctx)
	}
	defer cancel()
	cmd := command(limit, std, rest[1:])
	cmd.Cancel = func() error { return cmd.Process.Signal(sig) }
	cmd.WaitDelay = killAfter
	err = cmd.Run()
	if errors.Is(limit.Err(), context.DeadlineExceeded) && cmd.ProcessState != nil {
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == unix.SIGKILL {
			return applet.Exit(128 + int(unix.SIGKILL))
		}
		return applet.Exit(124)
	}
	return status("timeout", std, err)
}

func yes(_ context.Context, std applet.IO, args []string) error {
	word := "y"
	if len(args) > 0 {
		word = strings.Join(args, " ")
	}
	line := []byte(strings.Repeat(word+"\n", max(1, 4096/(len(word)+1))))
	for {
		if _, err := std.Out.Write(line); err != nil {
			return applet.Exit(1)
		}
	}
}

func (s system) watch(ctx context.Context, std applet.IO, args []string) error {
	o, argv, err := opt.Parse(args, "+n:t")
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		return applet.Usagef("needs a command")
	}
	every := 2 * time.Second
	if o.Has('n') {
		if every, err = duration(o.Val('n')); err != nil {
			return err
		}
	}
	every = max(every, 100*time.Millisecond)
	title := strings.Join(argv, " ")
	if len(argv) == 1 {
		argv = []string{"sh", "-c", argv[0]}
	}
	for {
		fmt.Fprint(std.Out, clearScreen)
		if !o.Has('t') {
			fmt.Fprintf(std.Out, "Every %v: %s\n\n", every, title)
		}
		if err := s.run(ctx, std, argv); err != nil && ctx.Err() == nil {
			fmt.Fprintf(std.Err, "watch: %v\n", err)
		}
		if s.sleep(ctx, every) != nil {
			return nil
		}
	}
}

// clearScreen is the VT100's: cursor home, erase to the end.
const clearScreen = "\x1b[H\x1b[J"

func (s system) xargs(ctx context.Context, std applet.IO, args []string) error {
	o, argv, err := opt.Parse(args, "+0rtn:I:")
	if err != nil {
		return err
	}
	if len(argv) == 0 {
		argv = []string{"echo"}
	}
	perCommand, err := o.Int('n', 0)
	if err != nil {
		return err
	}
	mark := o.Val('I')
	in := bufio.NewReader(std.In)
	// ARG_MAX is 128 KiB at the least; half of it is a step that never fails.
	const maxBytes = 64 << 10
	var batch []string
	size, ran, failed := 0, false, false
	flush := func() error {
		full := append(slices.Clone(argv), batch...)
		if mark != "" {
			full = slices.Clone(argv)
			for i := range full {
				full[i] = strings.ReplaceAll(full[i], mark, batch[0])
			}
		}
		batch, size, ran = nil, 0, true
		if o.Has('t') {
			fmt.Fprintln(std.Err, strings.Join(full, " "))
		}
		err := s.run(ctx, applet.IO{In: nil, Out: std.Out, Err: std.Err}, full)
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			failed = true
			return ctx.Err()
		}
		return err
	}
	for {
		word, err := nextWord(in, o.Has('0'), mark != "")
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(batch) > 0 && (size+len(word)+1 > maxBytes) {
			if err := flush(); err != nil {
				return status("xargs", std, err)
			}
		}
		batch = append(batch, word)
		size += len(word) + 1
		if mark != "" || perCommand > 0 && len(batch) == perCommand {
			if err := flush(); err != nil {
				return status("xargs", std, err)
			}
		}
	}
	if len(batch) > 0 || !ran && !o.Has('r') && mark == "" {
		if err := flush(); err != nil {
			return status("xargs", std, err)
		}
	}
	if failed {
		return applet.Exit(123)
	}
	return nil
}

// nextWord reads one argument of xargs: to a NUL, to the end of a line, or to
// white space, with quotes and backslashes as xargs knows them.
func nextWord(r *bufio.Reader, nul, line bool) (string, error) {
	if nul {
		word, err := r.ReadString(0)
		if word == "" {
			return "", err
		}
		return strings.TrimSuffix(word, "\x00"), nil
	}
	var b strings.Builder
	started := false
	var quote byte
	for {
		c, err := r.ReadByte()
		switch {
		case err == io.EOF && quote != 0:
			return "", errors.New("a quote is not closed")
		case err == io.EOF && started:
			return b.String(), nil
		case err != nil:
			return "", err
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case c == '\n' && started:
			return b.String(), nil
		case (c == ' ' || c == '\t') && started && !line:
			return b.String(), nil
		case (c == ' ' || c == '\t' || c == '\n') && !started:
		case c == '\'' || c == '"':
			quote, started = c, true
		case c == '\\':
			if c, err = r.ReadByte(); err == nil {
				b.WriteByte(c)
				started = true
			}
		default:
			b.WriteByte(c)
			started = true
		}
	}
}
