package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// Exit statuses of a command that did not run (POSIX shell, 2.8.2).
const (
	statusNotExecutable = 126
	statusNotFound      = 127
	statusSignal        = 128 // plus the signal's number
)

// exec runs a command that is neither function nor builtin. A context that
// ends does not end the command: ctrl-C reached it through the terminal, and
// what it does about it is its own affair (ping prints its figures, an editor
// ignores it).
func (s *shell) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if args[0] == startCommand {
		return s.startJob(hc)
	}
	path, status := s.lookup(hc, args[0])
	switch status {
	case statusNotFound:
		fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", args[0])
		return interp.NewExitStatus(uint8(status))
	case statusNotExecutable:
		fmt.Fprintf(hc.Stderr, "sh: %s: cannot be executed\n", args[0])
		return interp.NewExitStatus(uint8(status))
	}
	cmd := &exec.Cmd{
		Path: path, Args: args, Env: exported(hc.Env), Dir: hc.Dir,
		Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr,
	}
	if s.tty != nil && hc.Stdin == io.Reader(s.tty.in) {
		// The shell's own descriptor of the terminal is non-blocking.
		cmd.Stdin = s.stdin
	}
	if hc.Stdin == io.Reader((*os.File)(nil)) {
		cmd.Stdin = nil
	}
	run := s.jobs.run
	if hc.Env.Get(execMark).IsSet() {
		run = become
	}
	err := run(cmd)
	if errors.Is(err, syscall.ENOEXEC) && isText(path) {
		// A script without #!.
		script := &exec.Cmd{
			Path: s.self, Args: append([]string{"sh", path}, args[1:]...), Env: cmd.Env, Dir: cmd.Dir,
			Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
		}
		err = run(script)
	}
	if s.tty != nil {
		s.tty.commandEnded(args[0], err)
	}
	return exitStatus(hc.Stderr, args[0], err)
}

// exitStatus turns how a process ended into what $? shows.
func exitStatus(stderr io.Writer, name string, err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		ws, _ := exit.Sys().(syscall.WaitStatus)
		if !ws.Signaled() {
			return interp.NewExitStatus(uint8(ws.ExitStatus()))
		}
		sig := ws.Signal()
		if sig == syscall.SIGINT {
			// Whoever pressed ctrl-C meant the script or the loop too. That
			// this shell's own SIGINT comes first is not certain.
			return errInterrupted
		}
		if sig != syscall.SIGPIPE {
			fmt.Fprintf(stderr, "sh: %s: %v\n", name, sig)
		}
		return interp.NewExitStatus(uint8(statusSignal + int(sig)))
	case errors.Is(err, fs.ErrNotExist):
		fmt.Fprintf(stderr, "sh: %s: %v\n", name, err)
		return interp.NewExitStatus(statusNotFound)
	default:
		fmt.Fprintf(stderr, "sh: %s: %v\n", name, err)
		return interp.NewExitStatus(statusNotExecutable)
	}
}

// lookup finds the file of a command. Applets come before PATH: finding one
// costs no system call, and a full name reaches any file that one hides.
func (s *shell) lookup(hc interp.HandlerContext, name string) (path string, status int) {
	if s.names[name] {
		return s.self, 0
	}
	path, err := interp.LookPathDir(hc.Dir, hc.Env, name)
	if err == nil {
		return path, 0
	}
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = hc.Dir + "/" + name
		}
		if _, err := os.Stat(name); err == nil {
			return "", statusNotExecutable
		}
	}
	return "", statusNotFound
}

// exported is the environment of a command.
func exported(env expand.Environ) []string {
	var list []string
	at := map[string]int{}
	env.Each(func(name string, v expand.Variable) bool {
		if strings.HasPrefix(name, privatePrefix) {
			return true
		}
		i, seen := at[name]
		switch {
		case v.Exported && v.IsSet() && v.Kind == expand.String:
			kv := name + "=" + v.String()
			if seen {
				list[i] = kv
			} else {
				at[name] = len(list)
				list = append(list, kv)
			}
		case seen:
			// Unset, or hidden by a variable that is not exported.
			list[i] = ""
		}
		return true
	})
	out := list[:0]
	for _, kv := range list {
		if kv != "" {
			out = append(out, kv)
		}
	}
	return out
}

func isText(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 128)
	n, _ := f.Read(head)
	return n > 0 && bytes.IndexByte(head[:n], 0) < 0
}

// jobs are the processes this shell started.
type jobs struct {
	mu         sync.Mutex // guards everything below
	foreground map[*exec.Cmd]bool
	background map[string]*job // by process ID
	ended      []string        // of background, oldest first
	last       string          // $!
	hungUp     bool
	killer     *time.Timer
}

// job is a background statement.
type job struct {
	done   chan struct{} // closed when it ended
	status int           // valid then
}

// keptStatuses is how many jobs that nobody waited for keep their status: a
// loop that starts one a second must not fill the memory.
const keptStatuses = 64

// hangupGrace is how long a foreground command has after SIGHUP.
const hangupGrace = time.Second

func (j *jobs) run(cmd *exec.Cmd) error {
	j.mu.Lock()
	if j.hungUp {
		j.mu.Unlock()
		return context.Canceled
	}
	if err := cmd.Start(); err != nil {
		j.mu.Unlock()
		return err
	}
	if j.foreground == nil {
		j.foreground = map[*exec.Cmd]bool{}
	}
	j.foreground[cmd] = true
	j.mu.Unlock()
	err := cmd.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.foreground, cmd)
	return err
}

// start runs cmd in the background. A goroutine reaps it; both the wait
// builtin and the end of this process end what that goroutine is for.
func (j *jobs) start(cmd *exec.Cmd) (<-chan struct{}, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hungUp {
		return nil, context.Canceled
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if j.background == nil {
		j.background = map[string]*job{}
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	b := &job{done: make(chan struct{})}
	j.background[pid] = b
	j.last = pid
	go func() {
		_ = cmd.Wait() // its result is in ProcessState
		j.mu.Lock()
		defer j.mu.Unlock()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			b.status = statusSignal + int(ws.Signal())
		} else {
			b.status = cmd.ProcessState.ExitCode()
		}
		close(b.done)
		if j.background[pid] == b {
			j.ended = append(j.ended, pid)
		}
		if len(j.ended) > keptStatuses {
			delete(j.background, j.ended[0])
			j.ended = j.ended[1:]
		}
	}()
	return b.done, nil
}

// newest is $!.
func (j *jobs) newest() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// wait waits for one job and forgets it.
func (j *jobs) wait(ctx context.Context, pid string) (status int, err error) {
	j.mu.Lock()
	b := j.background[pid]
	j.mu.Unlock()
	if b == nil {
		return statusNotFound, nil
	}
	select {
	case <-b.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.background[pid] == b {
		delete(j.background, pid)
	}
	j.ended = slices.DeleteFunc(j.ended, func(p string) bool { return p == pid })
	return b.status, nil
}

func (j *jobs) waitAll(ctx context.Context) error {
	j.mu.Lock()
	pids := slices.Collect(maps.Keys(j.background))
	j.mu.Unlock()
	for _, pid := range pids {
		if _, err := j.wait(ctx, pid); err != nil {
			return err
		}
	}
	return nil
}

// dupAbove2 duplicates fd, close-on-exec, to a number that is no standard stream's.
func dupAbove2(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3) }

// hangUp ends the commands in the foreground and lets no other start.
func (j *jobs) hangUp() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hungUp = true
	j.signal(unix.SIGHUP)
	if j.killer == nil {
		j.killer = time.AfterFunc(hangupGrace, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.signal(unix.SIGKILL)
		})
	}
}

func (j *jobs) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.killer != nil {
		j.killer.Stop()
	}
}

// signal is called with mu held, so no process in the map was reaped unseen:
// os.Process refuses to signal one that was.
func (j *jobs) signal(sig syscall.Signal) {
	for cmd := range j.foreground {
		_ = cmd.Process.Signal(sig)
	}
}
