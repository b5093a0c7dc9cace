package emu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Processes are modelled as far as starting programs needs: the child of
// clone with CLONE_VM and CLONE_VFORK is a thread that stands in for a process
// until it executes a program, which becomes a process of the host, or exits.
// A plain fork fails with ENOSYS.

// vforked is what such a child has of its own.
type vforked struct {
	parent  *thread
	fds     *fdTable
	actions [nsig + 1]sigaction
	dir     string
	attr    syscall.SysProcAttr
}

// child is a process that the guest made and has not waited for.
type child struct {
	pid    int
	pidfd  int  // of the host's process; -1 where there never was one
	guest  bool // runs in an interpreter of its own
	told   bool // SIGCHLD was sent
	status uint32
}

func processCalls(tab map[uint32]sysEntry) {
	for nr, e := range map[uint32]sysEntry{
		4011: {"execve", sysExecve},
		4057: {"setpgid", func(_ *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			if t.vforked == nil {
				return 0, syscall.EPERM
			}
			t.vforked.attr.Setpgid, t.vforked.attr.Pgid = true, int(a[1])
			return 0, 0
		}},
		4066: {"setsid", func(_ *Machine, t *thread, _ *[8]uint32) (uint32, syscall.Errno) {
			if t.vforked == nil {
				return 0, syscall.EPERM
			}
			t.vforked.attr.Setsid = true
			return uint32(t.tid), 0
		}},
		4065: {"getpgrp", func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return uint32(syscall.Getpgrp()), 0 }},
		4114: {"wait4", sysWait4},
		4278: {"waitid", sysWaitid},
	} {
		tab[nr] = e
	}
}

// vfork makes the stand-in and lets the parent wait for it.
func (m *Machine) vfork(t *thread, stack uint32) (uint32, syscall.Errno) {
	c := m.newThread()
	c.cpu = t.cpu
	c.fifo, c.blocked, c.tls = t.fifo, t.blocked, t.tls
	if stack != 0 {
		c.r[29] = stack
	}
	fds, err := m.fds.clone()
	if err != nil {
		c.state = threadDead
		return 0, errnoOf(err)
	}
	c.vforked = &vforked{parent: t, fds: fds, actions: m.actions}
	c.r[2], c.r[7] = 0, 0
	m.ready(c)
	return t.block(wait{vfork: true}, false, nil)
}

// as runs a call with the descriptors and signal actions of t's process.
func (m *Machine) as(t *thread, call func() (uint32, syscall.Errno)) (uint32, syscall.Errno) {
	v := t.vforked
	if v == nil {
		return call()
	}
	m.fds, v.fds = v.fds, m.fds
	m.actions, v.actions = v.actions, m.actions
	r, e := call()
	m.fds, v.fds = v.fds, m.fds
	m.actions, v.actions = v.actions, m.actions
	return r, e
}

// endVfork ends the stand-in and gives the parent its child.
func (m *Machine) endVfork(t *thread, c *child) {
	v := t.vforked
	t.state, t.vforked = threadDead, nil
	// The machine's own table is swapped back by as, which still runs.
	m.fds.closeAll()
	m.children[c.pid] = c
	m.result(v.parent, uint32(c.pid), 0)
	m.ready(v.parent)
}

// vector reads a list of strings that ends with a null pointer.
func (m *Machine) vector(addr uint32) ([]string, syscall.Errno) {
	var list []string
	for ; addr != 0; addr += 4 {
		p, ok := m.mem.load32(addr)
		if !ok {
			return nil, syscall.EFAULT
		}
		if p == 0 {
			break
		}
		s, ok := m.mem.cstring(p)
		if !ok {
			return nil, syscall.EFAULT
		}
		list = append(list, s)
	}
	return list, 0
}

// isGuest reports whether a file is a program of the guest's kind.
func isGuest(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var h [20]byte
	if n, _ := f.Read(h[:]); n < len(h) {
		return false, nil
	}
	const mips = 8
	return string(h[:6]) == "\x7fELF\x01\x02" && binary.BigEndian.Uint16(h[18:]) == mips, nil
}

func sysExecve(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	v := t.vforked
	if v == nil {
		return 0, syscall.ENOSYS // a program that replaces itself
	}
	path, ok := m.mem.cstring(a[0])
	if !ok {
		return 0, syscall.EFAULT
	}
	argv, e := m.vector(a[1])
	if e != 0 {
		return 0, e
	}
	env, e := m.vector(a[2])
	if e != 0 {
		return 0, e
	}
	path = m.hostPath(path)
	file := path
	if v.dir != "" && !filepath.IsAbs(file) {
		file = filepath.Join(v.dir, file)
	}
	guest, err := isGuest(file)
	if err != nil {
		var errno syscall.Errno
		errors.As(err, &errno)
		return 0, errno
	}
	if err := syscall.Access(file, 1); err != nil {
		return 0, errnoOf(err)
	}
	if guest {
		if len(m.cfg.Exec) == 0 {
			return 0, syscall.ENOSYS
		}
		if len(argv) > 0 {
			argv = argv[1:]
		}
		argv = slices.Concat(m.cfg.Exec, []string{"-seed", strconv.FormatUint(m.rng.Uint64(), 10), path}, argv)
		path = m.cfg.Exec[0]
	}
	attr := syscall.ProcAttr{Dir: v.dir, Env: env, Sys: &v.attr}
	for _, f := range m.fds.files { // the child's: see as
		fd := ^uintptr(0)
		if f != nil && !f.cloexec {
			fd = uintptr(f.host)
		}
		attr.Files = append(attr.Files, fd)
	}
	pid, err := syscall.ForkExec(path, argv, &attr)
	if err != nil {
		return 0, errnoOf(err)
	}
	const pidfdOpen = 434 // on every architecture
	pidfd, _, e := syscall.Syscall(pidfdOpen, uintptr(pid), 0, 0)
	if e != 0 {
		m.broken = fmt.Errorf("pidfd_open: %w", e)
		return 0, e
	}
	syscall.CloseOnExec(int(pidfd))
	m.endVfork(t, &child{pid: pid, pidfd: int(pidfd), guest: guest})
	return 0, 0
}

// ended reports whether c has ended, and keeps its status.
func (c *child) ended() bool {
	if c.pidfd < 0 {
		return true
	}
	if !hostReady(c.pidfd, pollIn) {
		return false
	}
	var ws syscall.WaitStatus
	if pid, err := syscall.Wait4(c.pid, &ws, syscall.WNOHANG, nil); err != nil || pid != c.pid {
		return false
	}
	c.status = uint32(ws)
	switch {
	case ws.Signaled():
		c.status = uint32(ws)&^0x7f | guestSignal(ws.Signal())
	case c.guest && ws.ExitStatus() > 128 && ws.ExitStatus() <= 128+nsig:
		// How the interpreter says that a signal killed its guest.
		c.status = uint32(ws.ExitStatus() - 128)
	}
	_ = syscall.Close(c.pidfd)
	c.pidfd = -1
	return true
}

// tellChildren sends SIGCHLD for those that ended.
func (m *Machine) tellChildren() {
	for _, c := range m.children {
		if !c.told && c.ended() {
			c.told = true
			m.send(nil, sigCHLD, siginfo{code: 1, union: [3]uint32{uint32(c.pid)}})
		}
	}
}

// waitChild finds an ended child among those that pid means, or blocks.
func (m *Machine) waitChild(t *thread, pid int32, nohang, keep bool, done func(*child) (uint32, syscall.Errno)) (uint32, syscall.Errno) {
	look := func() (uint32, syscall.Errno) {
		var w wait
		any := false
		for _, c := range m.children {
			if pid > 0 && c.pid != int(pid) {
				continue
			}
			any = true
			if c.ended() {
				v, e := done(c)
				if !keep && e == 0 {
					delete(m.children, c.pid)
				}
				return v, e
			}
			w.fds = append(w.fds, pollfd{fd: int32(c.pidfd), events: pollIn})
		}
		switch {
		case !any:
			return 0, syscall.ECHILD
		case nohang:
			return done(nil)
		}
		t.wait.fds = w.fds
		return 0, eBlock
	}
	t.wait = wait{}
	v, e := look()
	if e != eBlock {
		return v, e
	}
	return t.block(t.wait, true, func(why wake) (uint32, syscall.Errno) {
		if why == wakeSignal {
			return 0, syscall.EINTR
		}
		return look()
	})
}

func sysWait4(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	args := *a
	return m.waitChild(t, int32(args[0]), args[2]&1 != 0, false, func(c *child) (uint32, syscall.Errno) {
		if c == nil {
			return 0, 0
		}
		if args[1] != 0 && !m.mem.store32(args[1], c.status) {
			return 0, syscall.EFAULT
		}
		if b, ok := m.mem.bytes(args[3], 72, permWrite); ok && args[3] != 0 {
			clear(b)
		}
		return uint32(c.pid), 0
	})
}

func sysWaitid(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	const pAll, pPID, noWait, exited = 0, 1, 0x1000000, 4
	if a[0] > pPID || a[3]&exited == 0 {
		return 0, syscall.EINVAL
	}
	pid := int32(a[1])
	if a[0] == pAll {
		pid = -1
	}
	args := *a
	return m.waitChild(t, pid, args[3]&1 != 0, args[3]&noWait != 0, func(c *child) (uint32, syscall.Errno) {
		b, ok := m.mem.bytes(args[2], 32, permWrite)
		if args[2] == 0 || !ok {
			return 0, 0
		}
		clear(b)
		if c == nil {
			return 0, 0
		}
		be := binary.BigEndian
		be.PutUint32(b, sigCHLD)
		be.PutUint32(b[12:], uint32(c.pid))
		code, status := uint32(1), c.status>>8&0xff
		if s := c.status & 0x7f; s != 0 {
			code, status = 2, s
		}
		be.PutUint32(b[4:], code)
		be.PutUint32(b[20:], status)
		return 0, 0
	})
}
