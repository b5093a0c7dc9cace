package emu

import (
	"encoding/binary"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

func socketCalls(tab map[uint32]sysEntry) {
	for nr, e := range map[uint32]sysEntry{
		4168: {"accept", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysAccept4(m, t, &[8]uint32{a[0], a[1], a[2]})
		}},
		4169: {"bind", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.withAddr(a, syscall.SYS_BIND)
		}},
		4170: {"connect", sysConnect},
		4171: {"getpeername", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.name(a, syscall.SYS_GETPEERNAME)
		}},
		4172: {"getsockname", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.name(a, syscall.SYS_GETSOCKNAME)
		}},
		4173: {"getsockopt", sysGetsockopt},
		4174: {"listen", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Listen(fd, int(a[1])) })
		}},
		4175: {"recv", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysRecvfrom(m, t, &[8]uint32{a[0], a[1], a[2], a[3]})
		}},
		4176: {"recvfrom", sysRecvfrom},
		4177: {"recvmsg", sysRecvmsg},
		4178: {"send", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysSendto(m, t, &[8]uint32{a[0], a[1], a[2], a[3]})
		}},
		4179: {"sendmsg", sysSendmsg},
		4180: {"sendto", sysSendto},
		4181: {"setsockopt", sysSetsockopt},
		4182: {"shutdown", func(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.onFile(a[0], func(fd int) error { return syscall.Shutdown(fd, int(a[1])) })
		}},
		4183: {"socket", sysSocket},
		4184: {"socketpair", sysSocketpair},
		4188: {"poll", sysPoll},
		4249: {"epoll_ctl", sysEpollCtl},
		4250: {"epoll_wait", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.epollWait(t, a[0], a[1], a[2], milliseconds(a[3]), 0)
		}},
		4248: {"epoll_create", func(m *Machine, t *thread, _ *[8]uint32) (uint32, syscall.Errno) {
			return sysEpollCreate(m, t, &[8]uint32{})
		}},
		4313: {"epoll_pwait", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return m.epollWait(t, a[0], a[1], a[2], milliseconds(a[3]), a[4])
		}},
		4319: {"eventfd", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			return sysEventfd2(m, t, &[8]uint32{a[0]})
		}},
		4325: {"eventfd2", sysEventfd2},
		4326: {"epoll_create1", sysEpollCreate},
		4334: {"accept4", sysAccept4},
		4441: {"epoll_pwait2", func(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
			d := time.Duration(-1)
			if a[3] != 0 {
				ns, e := m.timespec(a[3], true)
				if e != 0 {
					return 0, e
				}
				d = time.Duration(ns)
			}
			return m.epollWait(t, a[0], a[1], a[2], d, a[4])
		}},
	} {
		tab[nr] = e
	}
}

func milliseconds(v uint32) time.Duration {
	if int32(v) < 0 {
		return -1
	}
	return time.Duration(int32(v)) * time.Millisecond
}

const gCloexec = 0x80000

func sysEventfd2(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	flags := hostFlags(a[1]&^3) | syscall.O_CLOEXEC | int(a[1]&1)
	fd, _, e := syscall.Syscall(syscall.SYS_EVENTFD2, uintptr(a[0]), uintptr(flags), 0)
	if e != 0 {
		return 0, e
	}
	return m.fds.add(&file{host: int(fd), cloexec: a[1]&gCloexec != 0, event: true}, 0), 0
}

func sysEpollCreate(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return 0, errnoOf(err)
	}
	return m.fds.open(fd, a[0]&gCloexec != 0), 0
}

func sysEpollCtl(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	ep, f := m.fds.get(int32(a[0])), m.fds.get(int32(a[2]))
	if ep == nil || f == nil {
		return 0, syscall.EBADF
	}
	var ev *syscall.EpollEvent
	if a[3] != 0 {
		b, ok := m.mem.bytes(a[3], 16, permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		be := binary.BigEndian
		// The user's word goes through the host as it is.
		ev = &syscall.EpollEvent{Events: be.Uint32(b), Fd: int32(be.Uint32(b[8:])), Pad: int32(be.Uint32(b[12:]))}
	}
	return 0, errnoOf(syscall.EpollCtl(ep.host, int(a[1]), f.host, ev))
}

func (m *Machine) epollWait(t *thread, fd, buf, n uint32, timeout time.Duration, mask uint32) (uint32, syscall.Errno) {
	ep := m.fds.get(int32(fd))
	if ep == nil {
		return 0, syscall.EBADF
	}
	if int32(n) <= 0 || n > 1<<16 {
		return 0, syscall.EINVAL
	}
	if mask != 0 {
		// Go passes none; a mask for the time of the wait is not modelled.
		return 0, syscall.ENOSYS
	}
	if !m.mem.ok(buf, n*16, permWrite) {
		return 0, syscall.EFAULT
	}
	look := func() (uint32, syscall.Errno) {
		evs := make([]syscall.EpollEvent, n)
		k, err := syscall.EpollWait(ep.host, evs, 0)
		if err != nil {
			return 0, errnoOf(err)
		}
		b, ok := m.mem.bytes(buf, n*16, permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		be := binary.BigEndian
		for i, ev := range evs[:k] {
			be.PutUint32(b[16*i:], ev.Events)
			be.PutUint32(b[16*i+8:], uint32(ev.Fd))
			be.PutUint32(b[16*i+12:], uint32(ev.Pad))
		}
		return uint32(k), 0
	}
	if k, e := look(); k > 0 || e != 0 || timeout == 0 {
		return k, e
	}
	w := waitFor(ep, pollIn)
	if timeout > 0 {
		w.deadline = m.monotonic() + int64(timeout)
	}
	return t.block(w, false, func(why wake) (uint32, syscall.Errno) {
		switch why {
		case wakeTimeout:
			return look()
		case wakeSignal:
			return 0, syscall.EINTR
		}
		if k, e := look(); k > 0 || e != 0 {
			return k, e
		}
		return 0, eBlock
	})
}

func sysPoll(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	const size = 8
	n := a[1]
	if n > 1024 {
		return 0, syscall.EINVAL
	}
	if !m.mem.ok(a[0], n*size, permRead|permWrite) {
		return 0, syscall.EFAULT
	}
	addr := a[0]
	look := func() uint32 {
		b, ok := m.mem.bytes(addr, n*size, permWrite)
		if !ok {
			return 0
		}
		be := binary.BigEndian
		hit := uint32(0)
		for i := range n {
			e := b[i*size:]
			fd, ev, rev := int32(be.Uint32(e)), be.Uint16(e[4:]), uint16(0)
			if f := m.fds.get(fd); f != nil {
				p := []pollfd{{fd: int32(f.host), events: int16(ev)}}
				if k, _ := hostPoll(p, 0); k > 0 {
					rev = uint16(p[0].revents)
				}
			} else if fd >= 0 {
				rev = 0x20 // POLLNVAL
			}
			be.PutUint16(e[6:], rev)
			if rev != 0 {
				hit++
			}
		}
		return hit
	}
	timeout := milliseconds(a[2])
	if k := look(); k > 0 || timeout == 0 {
		return k, 0
	}
	var w wait
	if timeout > 0 {
		w.deadline = m.monotonic() + int64(timeout)
	}
	b, _ := m.mem.bytes(addr, n*size, permRead)
	for ; len(b) > 0; b = b[size:] {
		if f := m.fds.get(int32(binary.BigEndian.Uint32(b))); f != nil {
			w.fds = append(w.fds, pollfd{fd: int32(f.host), events: int16(binary.BigEndian.Uint16(b[4:]))})
		}
	}
	return t.block(w, false, func(why wake) (uint32, syscall.Errno) {
		switch k := look(); {
		case k > 0 || why == wakeTimeout:
			return k, 0
		case why == wakeSignal:
			return 0, syscall.EINTR
		}
		return 0, eBlock
	})
}

// socketType swaps what MIPS numbers the other way round and moves the flags.
func socketType(g uint32) int {
	h := int(g & 0xf)
	switch h {
	case 1:
		h = syscall.SOCK_DGRAM
	case 2:
		h = syscall.SOCK_STREAM
	}
	if g&0x80 != 0 {
		h |= syscall.SOCK_NONBLOCK
	}
	return h | syscall.SOCK_CLOEXEC
}

func sysSocket(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	switch a[0] {
	case syscall.AF_UNIX, syscall.AF_INET, syscall.AF_INET6:
	default:
		return 0, syscall.EAFNOSUPPORT
	}
	fd, err := syscall.Socket(int(a[0]), socketType(a[1]), int(a[2]))
	if err != nil {
		return 0, errnoOf(err)
	}
	return m.fds.open(fd, a[1]&gCloexec != 0), 0
}

func sysSocketpair(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	if !m.mem.ok(a[3], 8, permWrite) {
		return 0, syscall.EFAULT
	}
	p, err := syscall.Socketpair(int(a[0]), socketType(a[1]), int(a[2]))
	if err != nil {
		return 0, errnoOf(err)
	}
	for i, fd := range p {
		m.mem.store32(a[3]+uint32(i)*4, m.fds.open(fd, a[1]&gCloexec != 0))
	}
	return 0, 0
}

// hostAddr copies a guest's socket address with its family, and the scope of
// IPv6, turned round.
func (m *Machine) hostAddr(addr, n uint32) ([]byte, syscall.Errno) {
	if n > 128 {
		return nil, syscall.EINVAL
	}
	g, ok := m.mem.bytes(addr, n, permRead)
	if !ok {
		return nil, syscall.EFAULT
	}
	b := append([]byte(nil), g...)
	turnAddr(b)
	return b, 0
}

func turnAddr(b []byte) {
	if len(b) < 2 {
		return
	}
	b[0], b[1] = b[1], b[0]
	if family := b[0] | b[1]; family == syscall.AF_INET6 && len(b) >= 28 {
		b[24], b[25], b[26], b[27] = b[27], b[26], b[25], b[24]
	}
}

// putAddr writes an address of the host, cut to the guest's room, and its
// length.
func (m *Machine) putAddr(h []byte, addr, lenAddr uint32) syscall.Errno {
	if addr == 0 || lenAddr == 0 {
		return 0
	}
	room, ok := m.mem.load32(lenAddr)
	if !ok {
		return syscall.EFAULT
	}
	turnAddr(h)
	b, ok := m.mem.bytes(addr, min(room, uint32(len(h))), permWrite)
	if !ok {
		return syscall.EFAULT
	}
	copy(b, h)
	m.mem.store32(lenAddr, uint32(len(h)))
	return 0
}

func (m *Machine) withAddr(a *[8]uint32, nr uintptr) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	b, e := m.hostAddr(a[1], a[2])
	if e != 0 {
		return 0, e
	}
	_, _, e = syscall.Syscall(nr, uintptr(f.host), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return 0, e
}

// sysConnect on a socket that may wait is done without waiting, and then looked
// at until it is writable.
func sysConnect(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	if f.nonblocking() {
		return m.withAddr(a, syscall.SYS_CONNECT)
	}
	if err := syscall.SetNonblock(f.host, true); err != nil {
		return 0, errnoOf(err)
	}
	_, e := m.withAddr(a, syscall.SYS_CONNECT)
	if err := syscall.SetNonblock(f.host, false); err != nil {
		return 0, errnoOf(err)
	}
	if e != syscall.EINPROGRESS {
		return 0, e
	}
	return t.block(waitFor(f, pollOut), false, func(why wake) (uint32, syscall.Errno) {
		if why == wakeSignal {
			return 0, syscall.EINTR
		}
		if !hostReady(f.host, pollOut) {
			return 0, eBlock
		}
		v, err := syscall.GetsockoptInt(f.host, syscall.SOL_SOCKET, syscall.SO_ERROR)
		if err != nil {
			return 0, errnoOf(err)
		}
		return 0, syscall.Errno(v)
	})
}

func (m *Machine) name(a *[8]uint32, nr uintptr) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	var b [128]byte
	n := uint32(len(b))
	if _, _, e := syscall.Syscall(nr, uintptr(f.host), uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&n))); e != 0 {
		return 0, e
	}
	return 0, m.putAddr(b[:n], a[1], a[2])
}

func sysAccept4(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	args := *a
	return m.whenReady(t, f, pollIn, func() (uint32, syscall.Errno) {
		var b [128]byte
		n := uint32(len(b))
		flags := uintptr(syscall.SOCK_CLOEXEC)
		if args[3]&0x80 != 0 {
			flags |= syscall.SOCK_NONBLOCK
		}
		fd, _, e := syscall.Syscall6(syscall.SYS_ACCEPT4, uintptr(f.host), uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&n)), flags, 0, 0)
		if e != 0 {
			return 0, e
		}
		if e := m.putAddr(b[:n], args[1], args[2]); e != 0 {
			_ = syscall.Close(int(fd))
			return 0, e
		}
		return m.fds.open(int(fd), args[3]&gCloexec != 0), 0
	})
}

func sysRecvfrom(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	args := *a
	get := func() (uint32, syscall.Errno) {
		buf, ok := m.mem.bytes(args[1], args[2], permWrite)
		if !ok {
			return 0, syscall.EFAULT
		}
		var b [128]byte
		n := uint32(len(b))
		k, _, e := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(f.host), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)),
			uintptr(args[3]), uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&n)))
		if e != 0 {
			return 0, e
		}
		return uint32(k), m.putAddr(b[:n], args[4], args[5])
	}
	if args[3]&syscall.MSG_DONTWAIT != 0 {
		return get()
	}
	return m.whenReady(t, f, pollIn, get)
}

func sysSendto(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	to, e := m.hostAddr(a[4], a[5])
	if a[4] == 0 {
		to, e = nil, 0
	}
	if e != 0 {
		return 0, e
	}
	flags := a[3] | syscall.MSG_NOSIGNAL
	put := func(b []byte) (int, error) {
		k, _, e := syscall.Syscall6(syscall.SYS_SENDTO, uintptr(f.host), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			uintptr(flags), uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)))
		if e != 0 {
			return 0, e
		}
		return int(k), nil
	}
	if isDatagram(f.host) || flags&syscall.MSG_DONTWAIT != 0 {
		// A datagram cannot be cut.
		b, ok := m.mem.bytes(a[1], a[2], permRead)
		if !ok {
			return 0, syscall.EFAULT
		}
		k, err := put(b)
		return uint32(k), errnoOf(err)
	}
	return m.write(t, f, a[1], a[2], put)
}

func isDatagram(fd int) bool {
	v, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	return err == nil && v != syscall.SOCK_STREAM
}

// message is a guest's struct msghdr.
type message struct {
	name, nameLen, iov, iovLen, control, controlLen uint32
}

func (m *Machine) message(addr uint32) (message, syscall.Errno) {
	b, ok := m.mem.bytes(addr, 28, permRead)
	if !ok {
		return message{}, syscall.EFAULT
	}
	w := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	return message{w(0), w(1), w(2), w(3), w(4), w(5)}, 0
}

// sysRecvmsg takes no control messages: what comes with them is dropped.
func sysRecvmsg(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	msg, e := m.message(a[1])
	if e != 0 {
		return 0, e
	}
	hdr, flags := a[1], a[2]
	get := func() (uint32, syscall.Errno) {
		// Gather in one buffer and scatter by hand.
		size := uint32(0)
		if _, e := m.iovec(msg.iov, msg.iovLen, permWrite, func(b []byte) (int, error) { size += uint32(len(b)); return len(b), nil }); e != 0 {
			return 0, e
		}
		buf := make([]byte, size)
		var from [128]byte
		n := uint32(len(from))
		k, _, e := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(f.host), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)),
			uintptr(flags&^0x40000000), uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&n)))
		if e != 0 {
			return 0, e
		}
		rest := buf[:min(uint32(k), size)]
		if _, e := m.iovec(msg.iov, msg.iovLen, permWrite, func(b []byte) (int, error) {
			c := copy(b, rest)
			rest = rest[c:]
			return c, nil
		}); e != 0 {
			return 0, e
		}
		if msg.name != 0 {
			if e := m.putAddr(from[:n], msg.name, hdr+4); e != 0 {
				return 0, e
			}
		}
		m.mem.store32(hdr+20, 0)
		m.mem.store32(hdr+24, 0)
		return uint32(k), 0
	}
	if flags&syscall.MSG_DONTWAIT != 0 {
		return get()
	}
	return m.whenReady(t, f, pollIn, get)
}

// sysSendmsg sends no control messages: ENOSYS where there are some.
func sysSendmsg(m *Machine, t *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	msg, e := m.message(a[1])
	if e != 0 {
		return 0, e
	}
	if msg.controlLen != 0 {
		return 0, syscall.ENOSYS
	}
	var to []byte
	if msg.name != 0 {
		if to, e = m.hostAddr(msg.name, msg.nameLen); e != 0 {
			return 0, e
		}
	}
	flags := a[2] | syscall.MSG_NOSIGNAL
	return m.whenReady(t, f, pollOut, func() (uint32, syscall.Errno) {
		var buf []byte
		if _, e := m.iovec(msg.iov, msg.iovLen, permRead, func(b []byte) (int, error) { buf = append(buf, b...); return len(b), nil }); e != 0 {
			return 0, e
		}
		k, _, e := syscall.Syscall6(syscall.SYS_SENDTO, uintptr(f.host), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)),
			uintptr(flags), uintptr(unsafe.Pointer(unsafe.SliceData(to))), uintptr(len(to)))
		runtime.KeepAlive(to)
		if e != 0 {
			return 0, e
		}
		return uint32(k), 0
	})
}

// socketOption translates level and name (asm/socket.h).
func socketOption(level, name uint32) (int, int, bool) {
	if level != 0xffff {
		return int(level), int(name), true
	}
	host := map[uint32]int{
		0x4: syscall.SO_REUSEADDR, 0x8: syscall.SO_KEEPALIVE, 0x20: syscall.SO_BROADCAST,
		0x200: 15, 0x1001: syscall.SO_SNDBUF, 0x1002: syscall.SO_RCVBUF, 0x1007: syscall.SO_ERROR,
		0x1008: syscall.SO_TYPE, 0x1009: syscall.SO_ACCEPTCONN, 0x80: syscall.SO_LINGER,
		0x1028: 38, 0x1029: 39,
	}[name]
	return syscall.SOL_SOCKET, host, host != 0
}

// Options are words, or two for SO_LINGER; others pass as bytes.
func turnWords(b []byte) []byte {
	h := append([]byte(nil), b...)
	if len(h)%4 == 0 && len(h) <= 8 {
		for i := 0; i < len(h); i += 4 {
			binary.NativeEndian.PutUint32(h[i:], binary.BigEndian.Uint32(b[i:]))
		}
	}
	return h
}

func sysSetsockopt(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	level, name, ok := socketOption(a[1], a[2])
	if !ok {
		return 0, syscall.ENOPROTOOPT
	}
	b, ok := m.mem.bytes(a[3], a[4], permRead)
	if !ok {
		return 0, syscall.EFAULT
	}
	h := turnWords(b)
	_, _, e := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(f.host), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(h))), uintptr(len(h)), 0)
	return 0, e
}

func sysGetsockopt(m *Machine, _ *thread, a *[8]uint32) (uint32, syscall.Errno) {
	f := m.fds.get(int32(a[0]))
	if f == nil {
		return 0, syscall.EBADF
	}
	level, name, ok := socketOption(a[1], a[2])
	if !ok {
		return 0, syscall.ENOPROTOOPT
	}
	n, ok := m.mem.load32(a[4])
	if !ok {
		return 0, syscall.EFAULT
	}
	b, ok := m.mem.bytes(a[3], n, permWrite)
	if !ok {
		return 0, syscall.EFAULT
	}
	h := make([]byte, n)
	if _, _, e := syscall.Syscall6(syscall.SYS_GETSOCKOPT, uintptr(f.host), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(unsafe.SliceData(h))), uintptr(unsafe.Pointer(&n)), 0); e != 0 {
		return 0, e
	}
	h = turnWords(h[:n])
	if level == syscall.SOL_SOCKET && n == 4 {
		switch v := binary.BigEndian.Uint32(h); {
		case name == syscall.SO_ERROR:
			binary.BigEndian.PutUint32(h, mipsErrno(syscall.Errno(v)))
		case name == syscall.SO_TYPE && v <= 2:
			binary.BigEndian.PutUint32(h, 3-v)
		}
	}
	copy(b, h)
	m.mem.store32(a[4], n)
	return 0, 0
}
