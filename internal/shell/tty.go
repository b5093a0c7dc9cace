package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var errInterrupted = errors.New("interrupted")

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// tty is the terminal of an interactive shell, and the signals that come from it.
type tty struct {
	file *os.File // as inherited: what commands get
	in   *os.File // the same terminal, non-blocking, so that a read can be ended
	raw  bool

	saved *unix.Termios // the modes commands run with

	signals  chan os.Signal
	done     chan struct{}
	onHangup func()

	mu     sync.Mutex         // guards what follows
	cancel context.CancelFunc // ends the running program; nil at the prompt
	hungUp os.Signal          // what ended the terminal
}

// openTTY takes the terminal over. Without a terminal (sh -i with standard
// input from a pipe) it reads f as it is.
func openTTY(f *os.File, login bool, onHangup func()) *tty {
	t := &tty{file: f, in: f, onHangup: onHangup, signals: make(chan os.Signal, 8), done: make(chan struct{})}
	fd := int(f.Fd())
	if modes, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
		t.saved = modes
		claim(fd, login)
		// Through /proc: a second description of the same terminal. O_NONBLOCK
		// on the inherited one would reach everybody who shares it.
		if in, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err == nil {
			t.in = in
		}
	}
	// Stop and background access are job control, which is not here: a
	// stopped command could never be continued. Children inherit this.
	signal.Ignore(unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	signal.Notify(t.signals, unix.SIGINT, unix.SIGQUIT, unix.SIGHUP, unix.SIGTERM)
	go t.watch()
	return t
}

// claim makes fd the controlling terminal and this process group its
// foreground, so that ctrl-C on it is a signal at all. PID 1's child on ttyS0
// starts without one. Nothing here is an error: a shell without ctrl-C is
// better than none.
func claim(fd int, login bool) {
	pid := os.Getpid()
	sid, _ := unix.Getsid(0)
	if sid != pid {
		if ctty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0); err == nil {
			ctty.Close()
			return // somebody else's session, and a terminal that works
		}
		if !login {
			return
		}
		if _, err := unix.Setsid(); err != nil {
			return
		}
	}
	_ = unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0)
	_ = unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
}

func (t *tty) watch() {
	defer close(t.done)
	for sig := range t.signals {
		switch sig {
		case unix.SIGINT:
			t.interrupt()
		case unix.SIGHUP, unix.SIGTERM:
			t.mu.Lock()
			t.hungUp = sig
			t.mu.Unlock()
			t.interrupt()
			t.onHangup()
			_ = t.in.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// interrupt ends the running program, not the shell.
func (t *tty) interrupt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
}

// ended tells which signal took the terminal away; nil: none.
func (t *tty) ended() os.Signal {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hungUp
}

// begin hands the terminal to a program; end takes it back.
func (t *tty) begin(ctx context.Context) context.Context {
	t.restore()
	ctx, cancel := context.WithCancel(ctx)
	t.mu.Lock()
	t.cancel = cancel
	if t.hungUp != nil {
		cancel()
	}
	t.mu.Unlock()
	return ctx
}

func (t *tty) end() {
	t.mu.Lock()
	// Not cancelled: background jobs of this line live on it.
	t.cancel = nil
	t.mu.Unlock()
	t.setModes(t.saved)
}

// commandEnded keeps the modes that stty set, and turns a death by ctrl-C
// into the end of the loop around the command.
func (t *tty) commandEnded(name string, err error) {
	if name == "stty" && err == nil && t.saved != nil {
		if modes, err := unix.IoctlGetTermios(int(t.file.Fd()), unix.TCGETS); err == nil {
			t.saved = modes
		}
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGINT {
			t.interrupt()
		}
	}
}

func (t *tty) setModes(m *unix.Termios) {
	if m != nil {
		_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, m)
	}
}

func (t *tty) makeRaw() {
	if t.saved != nil && !t.raw {
		raw := *t.saved
		// Not term.MakeRaw: without OPOST a background job's lines would
		// form stairs, without ICRNL a line typed ahead would reach the
		// command it is for without its newline.
		raw.Iflag &^= unix.IXON | unix.ISTRIP | unix.INLCR | unix.IGNCR
		raw.Iflag |= unix.ICRNL
		raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ECHONL | unix.ISIG | unix.IEXTEN
		raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
		t.raw = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, &raw) == nil
	}
}

func (t *tty) restore() {
	if t.raw {
		t.setModes(t.saved)
		t.raw = false
	}
}

// size returns the terminal's columns and rows; a serial line knows none.
func (t *tty) size() (cols, rows int) {
	ws, err := unix.IoctlGetWinsize(int(t.file.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}

// Read gives one byte at a time: what was typed ahead belongs to the command
// that the line starts. ctrl-C is an error of its own.
func (t *tty) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := t.in.Read(p[:1])
	if n == 1 && p[0] == 3 && t.raw {
		return 0, errInterrupted
	}
	if err != nil && t.ended() != nil {
		err = io.EOF
	}
	return n, err
}

// Write implements io.Writer for the line editor, whose lines end in CR LF:
// the terminal adds the CR itself.
func (t *tty) Write(p []byte) (int, error) {
	out := p
	if t.raw && t.saved.Oflag&(unix.OPOST|unix.ONLCR) == unix.OPOST|unix.ONLCR {
		out = bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n"))
	}
	if _, err := t.file.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *tty) close() {
	t.restore()
	signal.Stop(t.signals)
	close(t.signals)
	<-t.done
	signal.Reset(unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)
	if t.in != t.file {
		t.in.Close()
	}
}
