// Package reaper starts the children of PID 1 and collects every child that
// ends, its own and the orphans that PID 1 inherits.
//
// There is one collector because wait4 takes a status away from whoever else
// waits: package os must not wait for anything in this process. A child is
// started and collected under one lock, so no status is lost between fork and
// the entry in the table, and a process number is never signalled after it may
// belong to somebody else.
//
// Each child is the leader of its own session and process group. What is left
// of that group when its leader ends is killed while the leader is still a
// zombie, for then the group's number cannot have a new owner. A descendant that
// made itself another session escapes that, and becomes an orphan of PID 1.
package reaper

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Errors of this package.
var (
	ErrDone   = errors.New("the process has ended")
	ErrClosed = errors.New("the reaper is closed")
)

// Cmd says what to start.
type Cmd struct {
	Path  string
	Argv  []string // with the name the process sees as argv[0]
	Env   []string // the whole environment
	Dir   string   // where it starts; empty: PID 1's folder
	Files []int    // its descriptors 0, 1, 2 ...
	TTY   bool     // Files[0] becomes its controlling terminal
}

// Exit is how a process ended.
type Exit struct {
	PID    int
	Status syscall.WaitStatus
	Usage  syscall.Rusage // with that of the descendants it waited for
}

// Options are what a Reaper reports to. Both may be nil.
type Options struct {
	Orphan func(Exit)   // a process ended that Start did not start
	Log    func(string) // a fault in here
}

// Reaper is the one collector of a process.
type Reaper struct {
	orphans atomic.Uint64
	o       Options
	wake    chan struct{} // capacity 1: there may be a child again
	done    chan struct{}

	mu       sync.Mutex // guards all below, and fork against wait
	children map[int]*Child
	closed   bool
}

// New starts the collecting goroutine.
func New(o Options) *Reaper {
	r := &Reaper{o: o, wake: make(chan struct{}, 1), done: make(chan struct{}), children: make(map[int]*Child)}
	go r.run()
	return r
}

// Close makes the goroutine end when the last child has ended, waits for that,
// and refuses further starts. Only tests do that; PID 1 keeps its reaper.
func (r *Reaper) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.poke()
	<-r.done
}

// Orphans returns how many processes ended that Start did not start.
func (r *Reaper) Orphans() uint64 { return r.orphans.Load() }

// Child is a process that Start started.
type Child struct {
	r      *Reaper
	pid    int
	onExit func(Exit)
	done   chan struct{}
	ended  bool // guarded by r.mu; set before the number is free again
	exit   Exit // final once done is closed
}

// Start starts a process. onExit, if not nil, is called once, by the
// collecting goroutine, after the process has ended and been collected,
// possibly before Start returns; the goroutine collects nothing meanwhile.
// Start blocks until the new program is loaded, or has turned out not to be
// loadable.
func (r *Reaper) Start(c Cmd, onExit func(Exit)) (*Child, error) {
	files := make([]uintptr, len(c.Files))
	for i, fd := range c.Files {
		files[i] = uintptr(fd)
	}
	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: c.TTY},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fmt.Errorf("start %s: %w", c.Path, ErrClosed)
	}
	pid, err := syscall.ForkExec(c.Path, c.Argv, attr)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	child := &Child{r: r, pid: pid, onExit: onExit, done: make(chan struct{})}
	r.children[pid] = child
	r.poke()
	return child, nil
}

// PID returns the process number.
func (c *Child) PID() int { return c.pid }

// Done is closed when the process has been collected.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for the end of the process.
func (c *Child) Wait() Exit {
	<-c.done
	return c.exit
}

// Signal sends s to the process, or returns ErrDone.
func (c *Child) Signal(s syscall.Signal) error { return c.signal(c.pid, s) }

// SignalGroup sends s to the process and all of its group, or returns ErrDone.
func (c *Child) SignalGroup(s syscall.Signal) error { return c.signal(-c.pid, s) }

func (c *Child) signal(to int, s syscall.Signal) error {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if c.ended {
		return ErrDone
	}
	if err := syscall.Kill(to, s); err != nil {
		return fmt.Errorf("send %v to process %d: %w", s, c.pid, err)
	}
	return nil
}

func (r *Reaper) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *Reaper) run() {
	defer close(r.done)
	stuck := 0
	for {
		pid, err := next()
		switch {
		case errors.Is(err, unix.ECHILD):
			r.mu.Lock()
			ended := r.closed && len(r.children) == 0
			r.mu.Unlock()
			if ended {
				return
			}
			<-r.wake // no child, nothing that could end
		case err != nil || !r.collect(pid):
			// Not seen; but it would be a spin in PID 1.
			if stuck++; stuck > 3 {
				r.log(fmt.Sprintf("cannot collect process %d: %v", pid, err))
				time.Sleep(time.Second)
			}
		default:
			stuck = 0
		}
	}
}

// next waits for a child that has ended and leaves it uncollected.
func next() (pid int, err error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		// siginfo_t is three ints and then a union whose first member for
		// SIGCHLD is the process number (asm-generic/siginfo.h); pointers in
		// the union align it.
		offset := unsafe.Sizeof(int32(0)) * 3
		offset += offset % unsafe.Alignof(uintptr(0))
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), offset))), nil
	}
}

// collect collects one process that has ended, and reports it.
func (r *Reaper) collect(pid int) bool {
	r.mu.Lock()
	child := r.children[pid]
	if child != nil {
		// The error can be no more than that nobody is left.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	var exit Exit
	got, err := syscall.Wait4(pid, &exit.Status, syscall.WNOHANG, &exit.Usage)
	if got != pid {
		r.mu.Unlock()
		// ECHILD: Start has collected it, a child that could not exec.
		return errors.Is(err, syscall.ECHILD)
	}
	exit.PID = pid
	if child != nil {
		child.ended = true
		child.exit = exit
		delete(r.children, pid)
	}
	r.mu.Unlock()
	defer func() {
		// INV 1: a fault in who is told must not end the collecting.
		if p := recover(); p != nil {
			r.log(fmt.Sprintf("panic after process %d ended: %v\n%.2000s", pid, p, debug.Stack()))
		}
	}()
	switch {
	case child == nil:
		r.orphans.Add(1)
		if r.o.Orphan != nil {
			r.o.Orphan(exit)
		}
	default:
		close(child.done)
		if child.onExit != nil {
			child.onExit(exit)
		}
	}
	return true
}

func (r *Reaper) log(text string) {
	if r.o.Log != nil {
		r.o.Log(text)
	}
}
