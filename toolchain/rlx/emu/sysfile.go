package emu

import (
	"encoding/binary"
	"syscall"
)

// file is a guest's descriptor: the host's behind it.
type file struct {
	host    int
	cloexec bool
	borrow  bool // not to be closed: the machine's caller owns it
	regular bool // reads and writes never wait
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

const atFDCWD = -100

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
	for nr, e := range map[uint32]sysEntry{
		4055: {"fcntl", sysFcntl},
		4220: {"fcntl64", sysFcntl},
		4288: {"openat", sysOpenat},
	} {
		tab[nr] = e
	}
}

func sysOpen(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	cwd := int32(atFDCWD)
	return sysOpenat(m, t, &[8]uint32{uint32(cwd), a[0], a[1], a[2]})
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

// mayWait reports whether an operation on f would make the host wait.
func (f *file) mayWait(events int16) bool {
	return !f.regular && !hostReady(f.host, events) && !f.nonblocking()
}

// whenReady does call now where f is ready, or makes t wait for that.
func (m *Machine) whenReady(t *thread, f *file, events int16, call func() (uint32, syscall.Errno)) (uint32, syscall.Errno) {
	if !f.mayWait(events) {
		return call()
	}
	return t.block(wait{fd: f.host, events: events}, true, func(why wake) (uint32, syscall.Errno) {
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
	return m.write(t, f, a[1], a[2], func(b []byte) (int, error) { return syscall.Write(f.host, b) })
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
	return t.block(wait{fd: f.host, events: pollOut}, true, func(why wake) (uint32, syscall.Errno) {
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
