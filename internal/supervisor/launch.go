package supervisor

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/handoff"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
	"gwinit/internal/reaper"
)

// Launcher starts processes: System, or a fake.
type Launcher interface {
	// Start starts a process of the service with its stored descriptors. The
	// caller holds the lock that ev's functions take.
	Start(s *Spec, stored []notify.Stored, ev Events) (Process, error)
	// Listen makes the socket of an on-demand service.
	Listen(path string) (fd int, err error)
	// Watch calls wanted once, from another goroutine, when something waits at
	// the socket fd, or after its shutdown. fd stays the caller's.
	Watch(fd int, wanted func()) error
}

// Events are what a process does, told from other goroutines than the one that
// started it. Both block for as long as the supervisor starts something.
type Events struct {
	// Message passes what the service sent; fds are the callee's.
	Message func(m notify.Message, fds []int)
	// Exit comes last.
	Exit func(reaper.Exit)
}

// Process is a started process. Its methods do not block.
type Process interface {
	PID() int
	Signal(syscall.Signal) error // to its group
	Send(packet []byte) error    // on its notification socket
}

// System starts real processes.
type System struct {
	reaper *reaper.Reaper
	ring   *logring.Ring
	loop   *loop
	env    []string
}

// NewSystem starts the goroutine that reads what services say. env is the
// environment of all services.
func NewSystem(r *reaper.Reaper, ring *logring.Ring, env []string) (*System, error) {
	l, err := newLoop(notify.MaxMessage, func(text string) { ring.Append(LogName, text) })
	if err != nil {
		return nil, err
	}
	return &System{reaper: r, ring: ring, loop: l, env: env}, nil
}

// Close ends the reading and waits for that, after every process has ended.
// Only tests do that.
func (y *System) Close() { y.loop.close() }

// notifySocket is the number of the socket in the child, behind stderr.
const notifySocket = 3

// Start implements Launcher. It blocks until the program is loaded.
func (y *System) Start(s *Spec, stored []notify.Stored, ev Events) (_ Process, err error) {
	p := &process{socket: -1}
	cmd := reaper.Cmd{Path: s.Path, Argv: s.Argv, Dir: s.Dir}
	cmd.Env = append(append(cmd.Env, y.env...), s.Env...)

	var mine, childs []int // to close on failure, and in any case
	defer func() {
		notify.CloseAll(childs)
		if err != nil {
			notify.CloseAll(mine)
		}
	}()
	var sources []*source
	if s.TTY != "" {
		tty, err := openTTY(s.TTY)
		if err != nil {
			return nil, err
		}
		childs = append(childs, tty)
		cmd.Files, cmd.TTY = []int{tty, tty, tty}, true
	} else {
		null, err := openNull()
		if err != nil {
			return nil, err
		}
		childs = append(childs, null)
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("log pipe: %w", err)
		}
		mine, childs = append(mine, pipe[0]), append(childs, pipe[1])
		if err := unix.SetNonblock(pipe[0], true); err != nil {
			return nil, fmt.Errorf("log pipe: %w", err)
		}
		cmd.Files = []int{null, pipe[1], pipe[1]}
		sources = append(sources, y.logSource(s.Name, pipe[0]))
	}
	if !s.NoNotify {
		ours, theirs, err := notify.Pair()
		if err != nil {
			return nil, err
		}
		mine, childs = append(mine, ours), append(childs, theirs)
		p.socket = ours
		cmd.Files = append(cmd.Files, theirs)
		for _, f := range stored {
			cmd.Files = append(cmd.Files, f.FD)
		}
		cmd.Env = append(cmd.Env, notify.Environ(notifySocket, stored)...)
		sources = append(sources, y.notifySource(s.Name, p, ev))
	}

	// The reaper may learn of the end before the sources are in the loop.
	started := make(chan struct{})
	defer close(started)
	p.Child, err = y.reaper.Start(cmd, func(e reaper.Exit) {
		<-started
		for _, src := range sources {
			y.loop.finish(src)
		}
		ev.Exit(e)
	})
	if err != nil {
		return nil, err
	}
	if s.OOMScoreAdj != 0 {
		if err := writeFile("/proc/"+strconv.Itoa(p.PID())+"/oom_score_adj", strconv.Itoa(s.OOMScoreAdj)); err != nil {
			y.ring.Append(LogName, s.Name+": cannot set its oom_score_adj: "+err.Error())
		}
	}
	if s.FileLimit != 0 {
		limit := unix.Rlimit{Cur: s.FileLimit, Max: unix.RLIM_INFINITY}
		if err := unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
			y.ring.Append(LogName, s.Name+": cannot limit its files: "+err.Error())
		}
	}
	for _, src := range sources {
		if err := y.loop.add(src); err != nil {
			// Unheard it would block on a full pipe; its end is dealt with.
			y.ring.Append(LogName, s.Name+": killed, since it cannot be heard: "+err.Error())
			_ = p.SignalGroup(syscall.SIGKILL)
		}
	}
	return p, nil
}

// Listen implements Launcher.
func (y *System) Listen(path string) (int, error) { return handoff.Listen(path) }

// Watch implements Launcher.
func (y *System) Watch(fd int, wanted func()) error {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("watch a socket: %w", err)
	}
	err = y.loop.add(&source{
		fd: own,
		read: func([]byte) error {
			wanted()
			return notify.ErrClosed // once
		},
		end: func() { unix.Close(own) },
	})
	if err != nil {
		unix.Close(own)
	}
	return err
}

// process is a child with its notification socket.
type process struct {
	*reaper.Child

	mu     sync.Mutex // guards socket against being closed under a send
	socket int        // -1: none
}

// Signal implements Process.
func (p *process) Signal(s syscall.Signal) error { return p.SignalGroup(s) }

// Send implements Process.
func (p *process) Send(packet []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.socket < 0 {
		return notify.ErrClosed
	}
	return notify.SendCall(p.socket, packet)
}

// logSource reads the log pipe of a process.
func (y *System) logSource(name string, fd int) *source {
	w := y.ring.Writer(name)
	return &source{
		fd: fd,
		read: func(buf []byte) error {
			n, err := unix.Read(fd, buf)
			switch {
			case errors.Is(err, unix.EINTR):
				return nil
			case err != nil:
				return err
			case n == 0:
				return notify.ErrClosed
			}
			w.Write(buf[:n])
			return nil
		},
		end: func() {
			w.Flush()
			unix.Close(fd)
		},
	}
}

// notifySource reads the notification socket of a process.
func (y *System) notifySource(name string, p *process, ev Events) *source {
	fd := p.socket
	return &source{
		fd: fd,
		read: func(buf []byte) error {
			n, fds, err := notify.Receive(fd, buf)
			if errors.Is(err, notify.ErrTooLong) {
				y.ring.Append(LogName, name+": ignored a notification: "+err.Error())
				return nil
			}
			if err != nil {
				return err
			}
			m, err := notify.Parse(buf[:n])
			if err != nil {
				notify.CloseAll(fds)
				y.ring.Append(LogName, name+": ignored a notification: "+err.Error())
				return nil
			}
			ev.Message(m, fds)
			return nil
		},
		end: func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.socket = -1
			unix.Close(fd)
		},
	}
}

// openTTY opens a terminal as a child's, without waiting for its carrier.
func openTTY(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("make %s blocking: %w", path, err)
	}
	return fd, nil
}

// openNull opens /dev/null, or where there is none, something else that is at
// its end.
func openNull() (int, error) {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		return fd, nil
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return -1, fmt.Errorf("stdin: %w", err)
	}
	unix.Close(pipe[1])
	return pipe[0], nil
}

// writeFile writes a file of /proc; see readFile.
func writeFile(path, text string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(text))
	return err
}
