//go:build linux

package bridge

import (
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the data path. None of them can block: every descriptor here is
// non-blocking, so they go past entersyscall (see the package comment).

//go:nosplit
//go:norace
func rawRead(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), e
}

//go:nosplit
//go:norace
func rawWrite(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), e
}

// rawSend is rawWrite for a socket, without SIGPIPE.
//
//go:nosplit
//go:norace
func rawSend(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

// rawPeek looks at the first bytes of a socket and leaves them there.
//
//go:nosplit
//go:norace
func rawPeek(fd int, p []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

// again tells whether e only means "not now".
func again(e unix.Errno) bool { return e == unix.EAGAIN || e == unix.EINTR }

// addrPort returns a socket address as netip has it; IPv4 is never mapped.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 && a.Is6() {
			a = a.WithZone(strconv.Itoa(int(sa.ZoneId)))
		}
		return netip.AddrPortFrom(a, uint16(sa.Port))
	}
	return netip.AddrPort{}
}
