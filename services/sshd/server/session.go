//go:build linux

package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"gwinit/services/sshd/sftp"
)

const (
	// hangUpTime is what a program has between SIGHUP and SIGKILL when its
	// session ends.
	hangUpTime = 5 * time.Second
	// lastWords is how long a terminal is read after its program has ended,
	// for what others still write there.
	lastWords = 200 * time.Millisecond
	// copyBytes is a buffer between a program or a forwarding and its channel.
	copyBytes = 8 << 10
)

// Commands that are not the shell's.
const (
	controlCommand = "gwctl-control" // the control protocol (docs/control.md)
	sftpCommand    = "internal-sftp" // as in authorized_keys of OpenSSH
)

// session is one channel of type session, in which one program runs.
type session struct {
	*connection
	ch   ssh.Channel
	term string // of pty-req
	tty  bool

	mu      sync.Mutex // guards the rest, which the program's goroutine uses, too
	size    unix.Winsize
	ptmx    *os.File // nil: none
	process *os.Process
}

// session serves such a channel to its end.
func (k *connection) session(ctx context.Context, n ssh.NewChannel) error {
	ch, requests, err := n.Accept()
	if err != nil {
		return nil // the connection is gone
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{connection: k, ch: ch}
	defer ch.Close()
	ran := make(chan error, 1)
	started := false
	for {
		select {
		case r, ok := <-requests:
			if !ok { // the client has closed the channel
				if !started {
					return nil
				}
				cancel()
				return <-ran
			}
			started = s.request(ctx, r, started, ran)
		case err := <-ran:
			// What still comes is of no use; the library must not wait for it.
			go ssh.DiscardRequests(requests)
			return err
		}
	}
}

// request answers one, and tells whether a program runs from then on.
func (s *session) request(ctx context.Context, r *ssh.Request, started bool, ran chan<- error) bool {
	ok := false
	var start func(context.Context) (status int, err error)
	p := wireReader{b: r.Payload}
	switch r.Type {
	case "pty-req":
		term := string(p.string())
		columns, rows, width, height := p.uint32(), p.uint32(), p.uint32(), p.uint32()
		if ok = !p.bad && !started && !s.grant.noPTY && !s.grant.setup; ok {
			s.tty, s.term = true, printable(term)
			s.resize(winsize(columns, rows, width, height))
		}
	case "window-change":
		columns, rows, width, height := p.uint32(), p.uint32(), p.uint32(), p.uint32()
		if ok = !p.bad && s.tty; ok {
			s.resize(winsize(columns, rows, width, height))
		}
	case "signal":
		name := string(p.string())
		if ok = !p.bad; ok {
			s.signal(name)
		}
	case "shell":
		ok = !started
		start = s.program("")
	case "exec":
		command := string(p.string())
		ok = !started && p.ended()
		start = s.program(command)
	case "subsystem":
		command := subsystem(string(p.string()))
		ok = !started && p.ended() && command != ""
		start = s.program(command)
	}
	if r.WantReply {
		_ = r.Reply(ok, nil) // the connection is gone, if it fails
	}
	if !ok || start == nil {
		return started
	}
	go func() {
		status, err := start(ctx)
		if status < 0 {
			_, e := s.ch.SendRequest("exit-signal", false, exitSignal(-status))
			_ = e // as above
		} else {
			_, e := s.ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(status)))
			_ = e // as above
		}
		ran <- err
	}()
	return true
}

// subsystem is the command that stands for a subsystem; empty: there is no such.
func subsystem(name string) string {
	switch name {
	case "sftp":
		return sftpCommand
	case controlCommand:
		return controlCommand
	}
	return ""
}

// program returns what runs a command, or a login shell. It returns an exit
// status, or the negative number of the signal that ended it.
func (s *session) program(command string) func(ctx context.Context) (int, error) {
	var original string
	switch forced := s.grant.command; {
	case s.grant.setup:
		return func(context.Context) (int, error) {
			_, err := io.WriteString(s.ch, "The key is let in from now on, as the user root.\r\n")
			return 0, err
		}
	case forced != "":
		original, command = command, forced
	}
	switch command {
	case sftpCommand:
		return func(ctx context.Context) (int, error) {
			if err := sftp.Serve(ctx, s.ch, sftp.Options{Home: home}); err != nil {
				return 1, err
			}
			return 0, nil
		}
	case controlCommand:
		return s.control
	}
	return func(ctx context.Context) (int, error) {
		cmd := s.command(command, original)
		if s.tty {
			return s.onTerminal(ctx, cmd)
		}
		return s.onPipes(ctx, cmd)
	}
}

// home is root's folder.
const home = "/root"

// command is the shell's process, with the environment of a login. It leads a
// session of its own, so that its group can be told to end.
func (s *session) command(command, original string) *exec.Cmd {
	cmd := &exec.Cmd{Path: s.s.o.Program, Args: []string{"-sh"}, Dir: home, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if command != "" {
		cmd.Args = []string{"sh", "-c", command}
	}
	if _, err := os.Stat(home); err != nil {
		cmd.Dir = "/"
	}
	cmd.Env = []string{"HOME=" + home, "USER=root", "LOGNAME=root", "SHELL=/bin/sh"}
	for _, name := range []string{"PATH", "GOGC", "TZ"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	from, fromPort := split(s.peer)
	to, toPort := split(s.local)
	cmd.Env = append(cmd.Env, "SSH_CLIENT="+from+" "+fromPort+" "+toPort, "SSH_CONNECTION="+from+" "+fromPort+" "+to+" "+toPort)
	if original != "" {
		cmd.Env = append(cmd.Env, "SSH_ORIGINAL_COMMAND="+original)
	}
	return cmd
}

func split(a net.Addr) (host, port string) {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().String(), strconv.Itoa(t.Port)
	}
	return "?", "0"
}

// onPipes runs cmd with a pipe for each of its standard files. Like OpenSSH it
// waits for the ends of its output, which a job in the background may hold, but
// no longer than the connection lasts.
func (s *session) onPipes(ctx context.Context, cmd *exec.Cmd) (int, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return s.cannot(err)
	}
	var copying sync.WaitGroup
	var childs, ours []*os.File
	for _, f := range []struct {
		to  io.Writer
		std *io.Writer
	}{{s.ch, &cmd.Stdout}, {s.ch.Stderr(), &cmd.Stderr}} {
		r, w, perr := os.Pipe()
		if perr != nil {
			err = perr
			break
		}
		*f.std = w
		childs, ours = append(childs, w), append(ours, r)
		copying.Go(func() {
			_, _ = io.CopyBuffer(writer{f.to}, reader{r}, make([]byte, copyBytes)) // the program's or the client's end
			r.Close()
		})
	}
	if err == nil {
		err = s.start(cmd)
	}
	for _, w := range childs {
		w.Close()
	}
	if err != nil {
		in.Close()
		copying.Wait()
		return s.cannot(err)
	}
	go func() {
		_, _ = io.CopyBuffer(writer{in}, reader{s.ch}, make([]byte, copyBytes)) // as above
		in.Close()
	}()
	status, err := s.wait(ctx, cmd)
	stop := context.AfterFunc(ctx, func() {
		for _, r := range ours {
			r.Close()
		}
	})
	defer stop()
	copying.Wait()
	return status, err
}

// onTerminal runs cmd on a pseudo terminal.
func (s *session) onTerminal(ctx context.Context, cmd *exec.Cmd) (int, error) {
	ptmx, pts, err := openPTY()
	if err != nil {
		return s.cannot(err)
	}
	defer ptmx.Close()
	s.mu.Lock()
	s.ptmx = ptmx
	s.setSize()
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.ptmx = nil
		s.mu.Unlock()
	}()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pts, pts, pts
	cmd.SysProcAttr.Setctty = true
	cmd.Env = append(cmd.Env, "SSH_TTY="+pts.Name())
	if s.term != "" {
		cmd.Env = append(cmd.Env, "TERM="+s.term)
	}
	err = s.start(cmd)
	pts.Close()
	if err != nil {
		return s.cannot(err)
	}
	go func() {
		_, _ = io.CopyBuffer(writer{ptmx}, reader{s.ch}, make([]byte, copyBytes)) // as above
	}()
	read := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, copyBytes)
		for {
			select {
			case <-ended:
				_ = ptmx.SetReadDeadline(time.Now().Add(lastWords)) // a pseudo terminal takes one
			default:
			}
			n, err := ptmx.Read(buf)
			if n > 0 {
				if _, werr := s.ch.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil { // EIO: nobody has the other end open any more
				return
			}
		}
	}()
	status, err := s.wait(ctx, cmd)
	close(ended)
	_ = ptmx.SetReadDeadline(time.Now().Add(lastWords)) // as above
	select {
	case <-read:
	case <-time.After(hangUpTime): // somebody writes on and on
	case <-ctx.Done():
	}
	return status, err
}

// writer and reader hide all but one method, so that io.Copy uses our buffer.
type (
	writer struct{ io.Writer }
	reader struct{ io.Reader }
)

// cannot tells the client that nothing could be started.
func (s *session) cannot(err error) (int, error) {
	err = fmt.Errorf("cannot start a program: %w", err)
	_, _ = io.WriteString(s.ch.Stderr(), err.Error()+"\r\n") // the log has it, too
	return 126, err
}

// start starts cmd, with the priority of any program and not this process's.
func (s *session) start(cmd *exec.Cmd) error {
	if err := s.s.programs.begin(s.s.o.available, time.Now()); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		s.s.programs.end()
		return err
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, 0) // it is a matter of speed only
	s.mu.Lock()
	s.process = cmd.Process
	s.mu.Unlock()
	return nil
}

// wait waits for cmd and has it end when ctx does.
func (s *session) wait(ctx context.Context, cmd *exec.Cmd) (int, error) {
	done := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGHUP) // it may have ended
		t := time.NewTimer(hangUpTime)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
			_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // as above
		}
	})
	err := cmd.Wait()
	s.s.programs.end()
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	close(done)
	killer.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		return 1, fmt.Errorf("wait for a program: %w", err)
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return -int(w.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

func (s *session) resize(size unix.Winsize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
	s.setSize()
}

// setSize gives the terminal, if there is one, the size that was asked for;
// under mu.
func (s *session) setSize() {
	if s.ptmx == nil {
		return
	}
	raw, err := s.ptmx.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &s.size) // a wrong size is seen, and changed again
	})
}

// signals are those of RFC 4254, 6.10.
var signals = [...]struct {
	name   string
	number syscall.Signal
}{
	{"ABRT", unix.SIGABRT},
	{"ALRM", unix.SIGALRM},
	{"FPE", unix.SIGFPE},
	{"HUP", unix.SIGHUP},
	{"ILL", unix.SIGILL},
	{"INT", unix.SIGINT},
	{"KILL", unix.SIGKILL},
	{"PIPE", unix.SIGPIPE},
	{"QUIT", unix.SIGQUIT},
	{"SEGV", unix.SIGSEGV},
	{"TERM", unix.SIGTERM},
	{"USR1", unix.SIGUSR1},
	{"USR2", unix.SIGUSR2},
}

// signal sends one to the program's group.
func (s *session) signal(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range signals {
		if x.name == name && s.process != nil {
			_ = unix.Kill(-s.process.Pid, x.number) // it may have ended
		}
	}
}

// exitSignal is the payload of the request of that name.
func exitSignal(number int) []byte {
	name := "KILL"
	for _, x := range signals {
		if int(x.number) == number {
			name = x.name
		}
	}
	b := appendString(nil, []byte(name))
	b = append(b, 0) // whether a core was dumped
	b = appendString(b, nil)
	return appendString(b, nil)
}

// control joins the channel with the control socket.
func (s *session) control(ctx context.Context) (int, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", s.s.o.Control)
	if err != nil {
		return s.cannot(err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	go func() {
		_, _ = io.CopyBuffer(writer{c}, reader{s.ch}, make([]byte, copyBytes)) // an end of either side
		if u, ok := c.(*net.UnixConn); ok {
			_ = u.CloseWrite() // as above
		}
	}()
	_, _ = io.CopyBuffer(writer{s.ch}, reader{c}, make([]byte, copyBytes)) // as above
	return 0, nil
}

func winsize(columns, rows, width, height uint32) unix.Winsize {
	short := func(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }
	return unix.Winsize{Row: short(rows), Col: short(columns), Xpixel: short(width), Ypixel: short(height)}
}

// printable is a terminal's name without what may not be in the environment.
func printable(s string) string {
	if len(s) > 64 {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, s)
}

func (r *wireReader) uint32() uint32 {
	if len(r.b) < 4 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return n
}
