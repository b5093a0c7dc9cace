// Package supervisortest has a supervisor.Launcher without processes, for tests
// of what depends on time.
package supervisortest

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/notify"
	"gwinit/internal/reaper"
	"gwinit/internal/supervisor"
)

// Launcher pretends to start processes. A process ends on the first signal
// unless the Launcher says otherwise.
type Launcher struct {
	// Fail, if not nil, may make a start fail.
	Fail func(*supervisor.Spec) error
	// Deaf, if not nil, tells which signals a service ignores.
	Deaf func(name string, s syscall.Signal) bool
	// FailListen, if not nil, may make Listen fail.
	FailListen func() error

	mu      sync.Mutex // guards all below
	started []*Process
	sockets map[string]int // descriptors of on-demand services, by path
	watches map[int]func() // by descriptor
	running sync.WaitGroup
}

// Listen implements supervisor.Launcher.
func (l *Launcher) Listen(path string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.FailListen != nil {
		if err := l.FailListen(); err != nil {
			return -1, err
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if l.sockets == nil {
		l.sockets, l.watches = make(map[string]int), make(map[int]func())
	}
	l.sockets[path] = fd
	return fd, err
}

// Watch implements supervisor.Launcher.
func (l *Launcher) Watch(fd int, wanted func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches[fd] = wanted
	return nil
}

// Knock is what waits at the socket of that path. It tells whether the socket
// is watched.
func (l *Launcher) Knock(path string) bool {
	l.mu.Lock()
	fd, there := l.sockets[path]
	wanted := l.watches[fd]
	delete(l.watches, fd)
	l.mu.Unlock()
	if there && wanted != nil {
		wanted()
		return true
	}
	return false
}

// Start implements supervisor.Launcher.
func (l *Launcher) Start(s *supervisor.Spec, stored []notify.Stored, ev supervisor.Events) (supervisor.Process, error) {
	if l.Fail != nil {
		if err := l.Fail(s); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &Process{Name: s.Name, Stored: append([]notify.Stored(nil), stored...), l: l, pid: 1_000_000_000 + len(l.started), ev: ev}
	l.started = append(l.started, p)
	return p, nil
}

// Names returns the services of all processes so far, in order.
func (l *Launcher) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, p := range l.started {
		names = append(names, p.Name)
	}
	return names
}

// Process returns the newest process of a service, or nil.
func (l *Launcher) Process(name string) *Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.started) - 1; i >= 0; i-- {
		if l.started[i].Name == name {
			return l.started[i]
		}
	}
	return nil
}

// Wait waits until every end that a signal has caused is reported.
func (l *Launcher) Wait() { l.running.Wait() }

// Process is a process that is none.
type Process struct {
	Name   string
	Stored []notify.Stored // what it was started with
	l      *Launcher
	pid    int // of nobody
	ev     supervisor.Events

	mu      sync.Mutex // guards all below
	signals []syscall.Signal
	sent    []string
	ended   bool
	sendErr error
}

// PID implements supervisor.Process.
func (p *Process) PID() int { return p.pid }

// Signal implements supervisor.Process.
func (p *Process) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return reaper.ErrDone
	}
	p.signals = append(p.signals, s)
	if p.l.Deaf != nil && p.l.Deaf(p.Name, s) {
		return nil
	}
	p.ended = true
	p.l.running.Go(func() { p.ev.Exit(reaper.Exit{PID: p.pid, Status: syscall.WaitStatus(s)}) })
	return nil
}

// Send implements supervisor.Process.
func (p *Process) Send(packet []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sendErr == nil {
		p.sent = append(p.sent, string(packet))
	}
	return p.sendErr
}

// FailSend makes Send fail.
func (p *Process) FailSend(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendErr = err
}

// Sent returns the packets of Send.
func (p *Process) Sent() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.sent...)
}

// Signals returns what it was sent.
func (p *Process) Signals() []syscall.Signal {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]syscall.Signal(nil), p.signals...)
}

// Say sends a notification.
func (p *Process) Say(m notify.Message, fds ...int) { p.ev.Message(m, fds) }

// Ready says READY=1.
func (p *Process) Ready() { p.Say(notify.Message{Ready: true}) }

// Exit ends with a status.
func (p *Process) Exit(code int) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.ev.Exit(reaper.Exit{PID: p.pid, Status: syscall.WaitStatus(code << 8)})
}
