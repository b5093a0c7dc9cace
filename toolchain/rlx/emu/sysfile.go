package emu

import (
	"encoding/binary"
	"slices"
	"syscall"
	"unsafe"
)

// file is a guest's descriptor: the host's behind it.
type file struct {
	host    int
	cloexec bool
	borrow  bool // not to be closed: the machine's caller owns it
	regular bool // reads and writes never wait
	event   bool // an eventfd, whose count is in the host's order of bytes
}

// fdTable maps the guest's descriptors, so that it sees the numbers that a
// process of its own would.
type fdTable struct {
	files []*file
}

func newFDTable(std ...int) *fdTable {
	t := new(fdTable)
	for _, fd := range std {
		t.files = append(t.files, &file{host: fd, borrow: true, regular: isRegular(fd)})
	}
	return t
}

func isRegular(fd int) bool {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return false
	}
	return st.Mode&syscall.S_IFMT == syscall.S_IFREG || st.Mode&syscall.S_IFMT == syscall.S_IFDIR
}

func (t *fdTable) get(fd int32) *file {
	if fd < 0 || int(fd) >= len(t.files) {
		return nil
	}
	return t.files[fd]
}

// add gives a host descriptor the lowest free number from on.
func (t *fdTable) add(f *file, from int) uint32 {
	for len(t.files) < from {
		t.files = append(t.files, nil)
	}
	for i := from; i < len(t.files); i++ {
		if t.files[i] == nil {
			t.files[i] = f
			return uint32(i)
		}
	}
	t.files = append(t.files, f)
	return uint32(len(t.files) - 1)
}

// open adds a fresh host descriptor.
func (t *fdTable) open(host int, cloexec bool) uint32 {
	return t.add(&file{host: host, cloexec: cloexec, regular: isRegular(host)}, 0)
}

// set puts f at a number, closing what was there.
func (t *fdTable) set(fd int32, f *file) {
	for len(t.files) <= int(fd) {
		t.files = append(t.files, nil)
	}
	if old := t.files[fd]; old != nil {
		old.close()
	}
	t.files[fd] = f
}

func (f *file) close() syscall.Errno {
	if f.borrow {
		return 0
	}
	return errnoOf(syscall.Close(f.host))
}

// clone duplicates the descriptors, for a child.
func (t *fdTable) clone() (*fdTable, error) {
	n := new(fdTable)
	for _, f := range t.files {
		if f == nil {
			n.files = append(n.files, nil)
			continue
		}
		h, err := dupHost(f.host)
		if err != nil {
			n.closeAll()
			return nil, err
		}
		c := *f
		c.host, c.borrow = h, false
		n.files = append(n.files, &c)
	}
	return n, nil
}

func (t *fdTable) closeAll() {
	for i, f := range t.files {
		if f != nil {
			f.close()
			t.files[i] = nil
		}
	}
}

// Flags of open that differ (arch/mips/include/uapi/asm/fcntl.h).
var openFlags = [...][2]uint32{
	{0x8, syscall.O_APPEND},
	{0x100, syscall.O_CREAT},
	{0x400, syscall.O_EXCL},
	{0x200, syscall.O_TRUNC},
	{0x10, syscall.O_DSYNC},
	{0x4000, syscall.O_SYNC &^ syscall.O_DSYNC},
	{0x80, syscall.O_NONBLOCK},
	{0x800, syscall.O_NOCTTY},
	{0x1000, syscall.O_ASYNC},
	{0x8000, syscall.O_DIRECT},
	{0x10000, syscall.O_DIRECTORY},
	{0x20000, syscall.O_NOFOLLOW},
	{0x40000, syscall.O_NOATIME},
	{0x80000, syscall.O_CLOEXEC},
	{0x200000, 0x200000},
	{0x400000, 0x400000},
}

func hostFlags(g uint32) int {
	h := g & 3
	for _, f := range openFlags {
		if g&f[0] != 0 {
			h |= f[1]
		}
	}
	return int(h)
}

func guestFlags(h uint32) uint32 {
	g := h & 3
	for _, f := range openFlags {
		if f[1] != 0 && h&f[1] == f[1] {
			g |= f[0]
		}
	}
	return g
}

const (
	atFDCWD           = -100
	cwdFD             = 1<<32 - 100 // atFDCWD in a register
	atSymlinkNofollow = 0x100
	atEmptyPath       = 0x1000
)

// dir translates a directory's descriptor.
func (m *Machine) dir(fd uint32) (int, syscall.Errno) {
	if int32(fd) == atFDCWD {
		return atFDCWD, 0
	}
	f := m.fds.get(int32(fd))
	if f == nil {
		return 0, syscall.EBADF
	}
	return f.host, 0
}

func fileCalls(tab map[uint32]sysEntry) {
	id := func(f func() int) func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) {
		return func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return uint32(f()), 0 }
	}
	for nr, e := range map[uint32]sysEntry{
		4009: {"link", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPaths(a[0], a[1], syscall.Link)
		}},
		4010: {"unlink", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], syscall.Unlink)
		}},
		4012: {"chdir", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			if t.vforked != nil {
				return m.onPath(a[0], func(p string) error { t.vforked.dir = p; return syscall.Access(p, 1) })
			}
			return m.onPath(a[0], syscall.Chdir)
		}},
		4015: {"chmod", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Chmod(p, a[1]) })
		}},
		4016: {"lchown", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Lchown(p, int(int32(a[1])), int(int32(a[2]))) })
		}},
		4019: {"lseek", sysLseek},
		4024: {"getuid", id(syscall.Getuid)},
		4033: {"access", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Access(p, a[1]) })
		}},
		4038: {"rename", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPaths(a[0], a[1], syscall.Rename)
		}},
		4039: {"mkdir", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Mkdir(p, a[1]) })
		}},
		4040: {"rmdir", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], syscall.Rmdir)
		}},
		4041: {"dup", sysDup},
		4047: {"getgid", id(syscall.Getgid)},
		4049: {"geteuid", id(syscall.Geteuid)},
		4050: {"getegid", id(syscall.Getegid)},
		4054: {"ioctl", sysIoctl},
		4055: {"fcntl", sysFcntl},
		4060: {"umask", func(_ *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return uint32(syscall.Umask(int(a[0]))), 0
		}},
		4063: {"dup2", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysDup3(m, t, &[8]uint32{a[0], a[1], 0, 1})
		}},
		4064: {"getppid", id(func() int { return 1 })},
		4075: {"setrlimit", func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return 0, 0 }},
		4076: {"getrlimit", sysGetrlimit},
		4077: {"getrusage", sysGetrusage},
		4083: {"symlink", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPaths(a[0], a[1], syscall.Symlink)
		}},
		4085: {"readlink", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysReadlinkat(m, t, &[8]uint32{cwdFD, a[0], a[1], a[2]})
		}},
		4094: {"fchmod", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Fchmod(fd, a[1]) })
		}},
		4095: {"fchown", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Fchown(fd, int(int32(a[1])), int(int32(a[2]))) })
		}},
		4118: {"fsync", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], syscall.Fsync)
		}},
		4133: {"fchdir", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], syscall.Fchdir)
		}},
		4140: {"_llseek", sysLlseek},
		4143: {"flock", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Flock(fd, int(a[1])) })
		}},
		4145: {"readv", sysReadv},
		4146: {"writev", sysWritev},
		4152: {"fdatasync", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], syscall.Fdatasync)
		}},
		4201: {"pwrite64", sysPwrite},
		4202: {"chown", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Chown(p, int(int32(a[1])), int(int32(a[2]))) })
		}},
		4203: {"getcwd", sysGetcwd},
		4211: {"truncate64", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPath(a[0], func(p string) error { return syscall.Truncate(p, wide(a[2], a[3])) })
		}},
		4212: {"ftruncate64", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Ftruncate(fd, wide(a[2], a[3])) })
		}},
		4213: {"stat64", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.fstatat(cwdFD, a[0], a[1], 0)
		}},
		4214: {"lstat64", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.fstatat(cwdFD, a[0], a[1], atSymlinkNofollow)
		}},
		4215: {"fstat64", sysFstat},
		4219: {"getdents64", sysGetdents},
		4220: {"fcntl64", sysFcntl},
		4288: {"openat", sysOpenat},
		4289: {"mkdirat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPathAt(a[0], a[1], func(d int, p string) error { return syscall.Mkdirat(d, p, a[2]) })
		}},
		4291: {"fchownat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPathAt(a[0], a[1], func(d int, p string) error {
				return syscall.Fchownat(d, p, int(int32(a[2])), int(int32(a[3])), int(a[4]))
			})
		}},
		4293: {"fstatat64", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.fstatat(a[0], a[1], a[2], a[3])
		}},
		4294: {"unlinkat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPathAt(a[0], a[1], func(d int, p string) error { return hostAt(syscall.SYS_UNLINKAT, d, p, uintptr(a[2])) })
		}},
		4295: {"renameat", sysRenameat},
		4296: {"linkat", sysLinkat},
		4297: {"symlinkat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			target, ok := m.mem.cstring(a[0])
			if !ok {
				return 0, syscall.EFAULT
			}
			return m.onPathAt(a[1], a[2], func(d int, p string) error { return symlinkAt(target, d, p) })
		}},
		4298: {"readlinkat", sysReadlinkat},
		4299: {"fchmodat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPathAt(a[0], a[1], func(d int, p string) error { return hostAt(syscall.SYS_FCHMODAT, d, p, uintptr(a[2])) })
		}},
		4300: {"faccessat", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onPathAt(a[0], a[1], func(d int, p string) error { return hostAt(syscall.SYS_FACCESSAT, d, p, uintptr(a[2])) })
		}},
		// The files are of a kind that cannot be spliced: callers copy then.
		4304: {"splice", func(*Machine, *thread, *[8]uint32) (uint32, syscall.Errno) { return 0, syscall.EINVAL }},
		4316: {"utimensat", sysUtimensat},
		4327: {"dup3", sysDup3},
		4328: {"pipe2", sysPipe2},
		4338: {"prlimit64", sysPrlimit},
		4366: {"statx", sysStatx},
	} {
		tab[nr] = e
	}
	socketCalls(tab)
}

// onPath, onPaths, onPathAt and onFile translate what a call is about.
func (m *Machine) onPath(addr uint32, call func(string) error) (uint32, syscall.Errno) {
	p, ok := m.mem.cstring(addr)
	if !ok {
		return 0, syscall.EFAULT
	}
	return 0, errnoOf(call(m.hostPath(p)))
}

func (m *Machine) onPaths(from, to uint32, call func(string, string) error) (uint32, syscall.Errno) {
	p, ok := m.mem.cstring(from)
	if !ok {
		return 0, syscall.EFAULT
	}
	q, ok := m.mem.cstring(to)
	if !ok {
		return 0, syscall.EFAULT
	}
	return 0, errnoOf(call(p, q))
}

func (m *Machine) onPathAt(fd, addr uint32, call func(int, string) error) (uint32, syscall.Errno) {
	d, e := m.dir(fd)
	if e != 0 {
		return 0, e
	}
	return m.onPath(addr, func(p string) error { return call(d, p) })
}

func (m *Machine) onFile(fd uint32, call func(int) error) (uint32, syscall.Errno) {
	f := m.fds.get(int32(fd))
	if f == nil {
		return 0, syscall.EBADF
	}
	return 0, errnoOf(call(f.host))
}

// hostAt is a call of the host's with a directory, a path and a third word.
func hostAt(nr uintptr, dir int, path string, arg uintptr) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall6(nr, uintptr(dir), uintptr(unsafe.Pointer(p)), arg, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

func sysOpen(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	return sysOpenat(m, t, &[8]uint32{cwdFD, a[0], a[1], a[2]})
}

func sysOpenat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	path, ok := m.mem.cstring(a[1])
	if !ok {
		return 0, syscall.EFAULT
	}
	dir, e := m.dir(a[0])
	if e != 0 {
		return 0, e
	}
	fd, err := syscall.Openat(dir, m.hostPath(path), hostFlags(a[2])|syscall.O_CLOEXEC, a[3])
	if err != nil {
		return 0, errnoOf(err)
	}
	return m.fds.open(fd, a[2]&0x80000 != 0), 0
}

func sysClose(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	m.fds.files[a[0]] = nil
	return 0, f.close()
}

// nonblocking asks the host.
func (f *file) nonblocking() bool {
	fl, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.host), syscall.F_GETFL, 0)
	return e == 0 && fl&syscall.O_NONBLOCK != 0
}

func waitFor(f *file, events int16) wait {
	return wait{fds: []pollfd{{fd: int32(f.host), events: events}}}
}

// mayWait reports whether an operation on f would make the host wait.
func (f *file) mayWait(events int16) bool {
	return !f.regular && !hostReady(f.host, events) && !f.nonblocking()
}

// whenReady does call now where f is ready, or makes t wait for that.
func (m *Machine) whenReady(t *thread, f *file, events int16, call func() (uint32, syscall.Errno)) (uint32, syscall.Errno) {
	if !f.mayWait(events) {
		return call()
	}
	return t.block(waitFor(f, events), true, func(why wake) (uint32, syscall.Errno) {
		if why == wakeSignal {
			return 0, syscall.EINTR
		}
		if f.mayWait(events) {
			return 0, eBlock
		}
		return call()
	})
}

func sysRead(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	addr, n := a[1], a[2]
	return m.whenReady(t, f, pollIn, func() (uint32, syscall.Errno) {
		b, ok := m.mem.bytes(addr, n, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		k, err := syscall.Read(f.host, b)
		if f.event && k == 8 {
			slices.Reverse(b[:8])
		}
		return uint32(max(k, 0)), errnoOf(err)
	})
}

// pipeChunk is what a write may hand to a pipe or socket that polls as ready
// without waiting (PIPE_BUF).
const pipeChunk = 4096

func sysWrite(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	return m.write(t, f, a[1], a[2], func(b []byte) (int, error) {
		if f.event {
			b = slices.Clone(b)
			slices.Reverse(b)
		}
		return syscall.Write(f.host, b)
	})
}

// write hands [addr, addr+n) to put, in pieces where the host might wait.
func (m *Machine) write(t *thread, f *file, addr, n uint32, put func([]byte) (int, error)) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(addr, n, permRead)
	if !ok {
		return 0, syscall.EFAULT
	}
	if f.regular || f.nonblocking() {
		k, err := put(b)
		if err == syscall.EPIPE {
			m.send(t, sigPIPE, siginfo{code: siUSER})
		}
		return uint32(max(k, 0)), errnoOf(err)
	}
	done := uint32(0)
	push := func() (uint32, syscall.Errno) {
		for {
			if !hostReady(f.host, pollOut) {
				return 0, eBlock
			}
			k, err := put(b[done:min(n, done+pipeChunk)])
			if err == syscall.EPIPE {
				m.send(t, sigPIPE, siginfo{code: siUSER})
			}
			if err != nil {
				if done > 0 {
					return done, 0
				}
				return 0, errnoOf(err)
			}
			if done += uint32(k); done == n {
				return done, 0
			}
		}
	}
	v, e := push()
	if e != eBlock {
		return v, e
	}
	return t.block(waitFor(f, pollOut), true, func(why wake) (uint32, syscall.Errno) {
		if why != wakeSignal {
			return push()
		}
		if done > 0 {
			return done, 0
		}
		return 0, syscall.EINTR
	})
}

// wide joins the words of a 64-bit argument, which stand in a register pair.
func wide(hi, lo uint32) int64 { return int64(hi)<<32 | int64(lo) }

func sysPread(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	b, ok := m.mem.bytes(a[1], a[2], permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	k, err := syscall.Pread(f.host, b, wide(a[4], a[5]))
	return uint32(max(k, 0)), errnoOf(err)
}

func sysFcntl(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	const dupfd, getfd, setfd, getfl, setfl, getlk, setlk, setlkw, dupCloexec = 0, 1, 2, 3, 4, 33, 34, 35, 1030
	switch a[1] {
	case dupfd, dupCloexec:
		h, err := dupHost(f.host)
		if err != nil {
			return 0, errnoOf(err)
		}
		return m.fds.add(&file{host: h, cloexec: a[1] == dupCloexec, regular: f.regular}, int(a[2])), 0
	case getfd:
		if f.cloexec {
			return 1, 0
		}
		return 0, 0
	case setfd:
		f.cloexec = a[2]&1 != 0
		return 0, 0
	case getfl:
		fl, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.host), syscall.F_GETFL, 0)
		return guestFlags(uint32(fl)), e
	case setfl:
		_, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(f.host), syscall.F_SETFL, uintptr(hostFlags(a[2])))
		return 0, e
	case getlk, setlk, setlkw:
		return m.lock(f, a[1], a[2])
	}
	return 0, syscall.EINVAL
}

func dupHost(fd int) (int, error) {
	n, _, e := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 3)
	if e != 0 {
		return -1, e
	}
	return int(n), nil
}

// lock does the record locks, of struct flock64.
func (m *Machine) lock(f *file, cmd, addr uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(addr, 32, permRead|permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	be := binary.BigEndian
	l := syscall.Flock_t{
		Type: int16(be.Uint16(b)), Whence: int16(be.Uint16(b[2:])),
		Start: int64(be.Uint64(b[8:])), Len: int64(be.Uint64(b[16:])),
	}
	host := map[uint32]int{33: syscall.F_GETLK, 34: syscall.F_SETLK, 35: syscall.F_SETLKW}[cmd]
	if err := syscall.FcntlFlock(uintptr(f.host), host, &l); err != nil {
		return 0, errnoOf(err)
	}
	be.PutUint16(b, uint16(l.Type))
	be.PutUint16(b[2:], uint16(l.Whence))
	be.PutUint64(b[8:], uint64(l.Start))
	be.PutUint64(b[16:], uint64(l.Len))
	be.PutUint32(b[24:], uint32(l.Pid))
	return 0, 0
}

func sysDup(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	h, err := dupHost(f.host)
	if err != nil {
		return 0, errnoOf(err)
	}
	return m.fds.add(&file{host: h, regular: f.regular}, 0), 0
}

// sysDup3 is dup2 too, which says so in the fourth argument.
func sysDup3(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	switch {
	case f == nil || int32(a[1]) < 0 || a[1] > 1<<16:
		return 0, syscall.EBADF
	case a[0] == a[1] && a[3] == 1:
		return a[1], 0
	case a[0] == a[1]:
		return 0, syscall.EINVAL
	}
	h, err := dupHost(f.host)
	if err != nil {
		return 0, errnoOf(err)
	}
	m.fds.set(int32(a[1]), &file{host: h, cloexec: a[2]&0x80000 != 0, regular: f.regular})
	return a[1], 0
}

func sysPipe2(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if !m.mem.ok(a[0], 8, permWrite) {
		return 0, syscall.EFAULT
	}
	var p [2]int
	if err := syscall.Pipe2(p[:], hostFlags(a[1])|syscall.O_CLOEXEC); err != nil {
		return 0, errnoOf(err)
	}
	for i, h := range p {
		m.mem.store32(a[0]+uint32(i)*4, m.fds.open(h, a[1]&0x80000 != 0))
	}
	return 0, 0
}

func sysLseek(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	n, err := syscall.Seek(f.host, int64(int32(a[1])), int(a[2]))
	return uint32(n), errnoOf(err)
}

func sysLlseek(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	b, ok := m.mem.bytes(a[3], 8, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	n, err := syscall.Seek(f.host, wide(a[1], a[2]), int(a[4]))
	if err == nil {
		binary.BigEndian.PutUint64(b, uint64(n))
	}
	return 0, errnoOf(err)
}

func sysPwrite(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	b, ok := m.mem.bytes(a[1], a[2], permRead)
	if !ok {
		return 0, syscall.EFAULT
	}
	k, err := syscall.Pwrite(f.host, b, wide(a[4], a[5]))
	return uint32(max(k, 0)), errnoOf(err)
}

// iovec calls do for each part until one does less than its length.
func (m *Machine) iovec(addr, n uint32, want uint8, do func([]byte) (int, error)) (uint32, syscall.Errno) {
	if n > 1024 {
		return 0, syscall.EINVAL
	}
	v, ok := m.mem.bytes(addr, n*8, permRead)
	if !ok {
		return 0, syscall.EFAULT
	}
	total := uint32(0)
	for ; len(v) > 0; v = v[8:] {
		b, ok := m.mem.bytes(binary.BigEndian.Uint32(v), binary.BigEndian.Uint32(v[4:]), want)
		if !ok {
			return total, syscall.EFAULT
		}
		if len(b) == 0 {
			continue
		}
		k, err := do(b)
		if err != nil {
			if total > 0 {
				return total, 0
			}
			return 0, errnoOf(err)
		}
		if total += uint32(k); k < len(b) {
			break
		}
	}
	return total, 0
}

func sysReadv(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	addr, n := a[1], a[2]
	return m.whenReady(t, f, pollIn, func() (uint32, syscall.Errno) {
		first := true
		return m.iovec(addr, n, permWrite, func(b []byte) (int, error) {
			// Only the first part may wait.
			if !first && f.mayWait(pollIn) {
				return 0, nil
			}
			first = false
			return syscall.Read(f.host, b)
		})
	})
}

func sysWritev(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	addr, n := a[1], a[2]
	return m.whenReady(t, f, pollOut, func() (uint32, syscall.Errno) {
		v, e := m.iovec(addr, n, permRead, func(b []byte) (int, error) {
			if !f.regular && !f.nonblocking() {
				b = b[:min(len(b), pipeChunk)]
				if !hostReady(f.host, pollOut) {
					return 0, nil
				}
			}
			return syscall.Write(f.host, b)
		})
		if e == syscall.EPIPE {
			m.send(t, sigPIPE, siginfo{code: siUSER})
		}
		return v, e
	})
}

func sysGetcwd(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	wd, err := syscall.Getwd()
	if err != nil {
		return 0, errnoOf(err)
	}
	if uint32(len(wd))+1 > a[1] {
		return 0, syscall.ERANGE
	}
	b, ok := m.mem.bytes(a[0], uint32(len(wd))+1, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	copy(b, wd)
	b[len(wd)] = 0
	return uint32(len(b)), 0
}

func sysReadlinkat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	p, ok := m.mem.cstring(a[1])
	if !ok {
		return 0, syscall.EFAULT
	}
	b, ok := m.mem.bytes(a[2], a[3], permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	if h := m.hostPath(p); h != p {
		return uint32(copy(b, h)), 0
	}
	d, e := m.dir(a[0])
	if e != 0 {
		return 0, e
	}
	if len(b) == 0 {
		return 0, syscall.EINVAL
	}
	hp, err := syscall.BytePtrFromString(p)
	if err != nil {
		return 0, errnoOf(err)
	}
	n, _, e := syscall.Syscall6(syscall.SYS_READLINKAT, uintptr(d), uintptr(unsafe.Pointer(hp)), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return uint32(n), 0
}

func sysRenameat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	from, e := m.dir(a[0])
	if e != 0 {
		return 0, e
	}
	to, e := m.dir(a[2])
	if e != 0 {
		return 0, e
	}
	return m.onPaths(a[1], a[3], func(p, q string) error { return syscall.Renameat(from, p, to, q) })
}

func sysLinkat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	from, e := m.dir(a[0])
	if e != 0 {
		return 0, e
	}
	to, e := m.dir(a[2])
	if e != 0 {
		return 0, e
	}
	return m.onPaths(a[1], a[3], func(p, q string) error {
		hp, err := syscall.BytePtrFromString(p)
		if err != nil {
			return err
		}
		hq, err := syscall.BytePtrFromString(q)
		if err != nil {
			return err
		}
		_, _, e := syscall.Syscall6(syscall.SYS_LINKAT, uintptr(from), uintptr(unsafe.Pointer(hp)), uintptr(to), uintptr(unsafe.Pointer(hq)), uintptr(a[4]), 0)
		if e != 0 {
			return e
		}
		return nil
	})
}

func symlinkAt(target string, dir int, path string) error {
	ht, err := syscall.BytePtrFromString(target)
	if err != nil {
		return err
	}
	hp, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(syscall.SYS_SYMLINKAT, uintptr(unsafe.Pointer(ht)), uintptr(dir), uintptr(unsafe.Pointer(hp))); e != 0 {
		return e
	}
	return nil
}

func sysUtimensat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	var ts *[2]syscall.Timespec
	if a[2] != 0 {
		b, ok := m.mem.bytes(a[2], 16, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		ts = new([2]syscall.Timespec)
		for i := range ts {
			ts[i].Sec = int64(int32(binary.BigEndian.Uint32(b[8*i:])))
			ts[i].Nsec = int64(int32(binary.BigEndian.Uint32(b[8*i+4:])))
		}
	}
	d, e := m.dir(a[0])
	if e != 0 {
		return 0, e
	}
	var hp *byte
	if a[1] != 0 {
		p, ok := m.mem.cstring(a[1])
		if !ok {
			return 0, syscall.EFAULT
		}
		var err error
		if hp, err = syscall.BytePtrFromString(p); err != nil {
			return 0, errnoOf(err)
		}
	}
	_, _, e = syscall.Syscall6(syscall.SYS_UTIMENSAT, uintptr(d), uintptr(unsafe.Pointer(hp)), uintptr(unsafe.Pointer(ts)), uintptr(a[3]), 0, 0)
	return 0, e
}

// guestDev is the kernel's new_encode_dev of a host's device number.
func guestDev(d uint64) uint32 {
	major := d >> 8 & 0xfff
	minor := d&0xff | d>>12&0xfffff00
	return uint32(minor&0xff | major<<8 | minor&^0xff<<12)
}

func putStat64(b []byte, st *syscall.Stat_t) {
	be := binary.BigEndian
	clear(b)
	be.PutUint32(b, guestDev(uint64(st.Dev)))
	be.PutUint64(b[16:], st.Ino)
	be.PutUint32(b[24:], st.Mode)
	be.PutUint32(b[28:], uint32(st.Nlink))
	be.PutUint32(b[32:], st.Uid)
	be.PutUint32(b[36:], st.Gid)
	be.PutUint32(b[40:], guestDev(uint64(st.Rdev)))
	be.PutUint64(b[56:], uint64(st.Size))
	for i, ts := range []syscall.Timespec{st.Atim, st.Mtim, st.Ctim} {
		be.PutUint32(b[64+8*i:], uint32(ts.Sec))
		be.PutUint32(b[68+8*i:], uint32(ts.Nsec))
	}
	be.PutUint32(b[88:], uint32(st.Blksize))
	be.PutUint64(b[96:], uint64(st.Blocks))
}

const stat64Size = 104

func sysFstat(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[1], stat64Size, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	var st syscall.Stat_t
	v, e := m.onFile(a[0], func(fd int) error { return syscall.Fstat(fd, &st) })
	if e == 0 {
		putStat64(b, &st)
	}
	return v, e
}

func (m *Machine) hostStat(fd, path, flags uint32) (*syscall.Stat_t, syscall.Errno) {
	p, ok := m.mem.cstring(path)
	if !ok {
		return nil, syscall.EFAULT
	}
	d, e := m.dir(fd)
	if e != 0 {
		return nil, e
	}
	hp, err := syscall.BytePtrFromString(m.hostPath(p))
	if err != nil {
		return nil, errnoOf(err)
	}
	st := new(syscall.Stat_t)
	_, _, e = syscall.Syscall6(hostFSTATAT, uintptr(d), uintptr(unsafe.Pointer(hp)), uintptr(unsafe.Pointer(st)), uintptr(flags), 0, 0)
	return st, e
}

func (m *Machine) fstatat(fd, path, buf, flags uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(buf, stat64Size, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	st, e := m.hostStat(fd, path, flags&(atSymlinkNofollow|atEmptyPath))
	if e == 0 {
		putStat64(b, st)
	}
	return 0, e
}

// sysStatx answers with the basic fields, from the host's stat.
func sysStatx(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[4], 256, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	st, e := m.hostStat(a[0], a[1], a[2]&(atSymlinkNofollow|atEmptyPath))
	if e != 0 {
		return 0, e
	}
	clear(b)
	be := binary.BigEndian
	be.PutUint32(b, 0x7ff)
	be.PutUint32(b[4:], uint32(st.Blksize))
	be.PutUint32(b[16:], uint32(st.Nlink))
	be.PutUint32(b[20:], st.Uid)
	be.PutUint32(b[24:], st.Gid)
	be.PutUint16(b[28:], uint16(st.Mode))
	be.PutUint64(b[32:], st.Ino)
	be.PutUint64(b[40:], uint64(st.Size))
	be.PutUint64(b[48:], uint64(st.Blocks))
	for i, ts := range []syscall.Timespec{st.Atim, st.Ctim, st.Ctim, st.Mtim} {
		be.PutUint64(b[64+16*i:], uint64(ts.Sec))
		be.PutUint32(b[72+16*i:], uint32(ts.Nsec))
	}
	for i, d := range []uint64{uint64(st.Rdev), uint64(st.Dev)} {
		be.PutUint32(b[128+8*i:], uint32(d>>8&0xfff))
		be.PutUint32(b[132+8*i:], uint32(d&0xff|d>>12&0xfffff00))
	}
	return 0, 0
}

func sysGetdents(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	b, ok := m.mem.bytes(a[1], a[2], permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	n, err := syscall.ReadDirent(f.host, b)
	if err != nil {
		return 0, errnoOf(err)
	}
	// The entries have the same layout but for the order of bytes.
	for e := b[:n]; len(e) >= 19; {
		size := binary.LittleEndian.Uint16(e[16:])
		binary.BigEndian.PutUint64(e, binary.LittleEndian.Uint64(e))
		binary.BigEndian.PutUint64(e[8:], binary.LittleEndian.Uint64(e[8:]))
		binary.BigEndian.PutUint16(e[16:], size)
		if int(size) > len(e) || size == 0 {
			break
		}
		e = e[size:]
	}
	return uint32(n), 0
}

// hostIoctl is an ioctl whose argument is a structure of the same size on both
// sides.
func hostIoctl(fd int, req uintptr, b []byte) syscall.Errno {
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), req, uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	return e
}

func sysIoctl(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	const tcgets, tiocgwinsz, fionread = 0x540d, 0x40087468, 0x467f
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	var h [64]byte
	ne, be := binary.NativeEndian, binary.BigEndian
	switch a[1] {
	case tcgets:
		if e := hostIoctl(f.host, syscall.TCGETS, h[:]); e != 0 {
			return 0, e
		}
		b, ok := m.mem.bytes(a[2], 40, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		clear(b)
		for i := range 4 {
			be.PutUint32(b[4*i:], ne.Uint32(h[4*i:]))
		}
		copy(b[17:], h[17:36])
		return 0, 0
	case tiocgwinsz:
		if e := hostIoctl(f.host, syscall.TIOCGWINSZ, h[:]); e != 0 {
			return 0, e
		}
		b, ok := m.mem.bytes(a[2], 8, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		for i := range 4 {
			be.PutUint16(b[2*i:], ne.Uint16(h[2*i:]))
		}
		return 0, 0
	case fionread:
		if e := hostIoctl(f.host, syscall.TIOCINQ, h[:]); e != 0 {
			return 0, e
		}
		if !m.mem.store32(a[2], ne.Uint32(h[:])) {
			return 0, syscall.EFAULT
		}
		return 0, 0
	}
	return 0, syscall.ENOTTY
}

// hostResource translates the numbers of limits (asm/resource.h).
func hostResource(r uint32) int {
	switch r {
	case 5:
		return syscall.RLIMIT_NOFILE
	case 6:
		return syscall.RLIMIT_AS
	case 7:
		return 5 // RLIMIT_RSS
	case 8:
		return 6 // RLIMIT_NPROC
	case 9:
		return 8 // RLIMIT_MEMLOCK
	}
	return int(r)
}

func sysGetrlimit(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[1], 8, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(hostResource(a[0]), &l); err != nil {
		return 0, errnoOf(err)
	}
	const infinity = 0x7fff_ffff
	binary.BigEndian.PutUint32(b, uint32(min(l.Cur, infinity)))
	binary.BigEndian.PutUint32(b[4:], uint32(min(l.Max, infinity)))
	return 0, 0
}

// sysPrlimit reads limits of the process itself; setting them is accepted and
// changes nothing.
func sysPrlimit(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if a[0] != 0 && a[0] != uint32(m.pid) {
		return 0, syscall.ESRCH
	}
	if a[3] == 0 {
		return 0, 0
	}
	b, ok := m.mem.bytes(a[3], 16, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(hostResource(a[1]), &l); err != nil {
		return 0, errnoOf(err)
	}
	binary.BigEndian.PutUint64(b, l.Cur)
	binary.BigEndian.PutUint64(b[8:], l.Max)
	return 0, 0
}

// sysGetrusage gives the CPU time; the rest is 0.
func sysGetrusage(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	b, ok := m.mem.bytes(a[1], 72, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	clear(b)
	ns := m.cpuNanos(m.count.Instructions)
	if a[0] == 1 {
		ns = m.cpuNanos(t.executed)
	}
	binary.BigEndian.PutUint32(b, uint32(ns/1e9))
	binary.BigEndian.PutUint32(b[4:], uint32(ns%1e9/1e3))
	return 0, 0
}
