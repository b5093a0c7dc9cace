//go:build linux

package bridge

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Keepalive: a peer that vanished is found 15 + 3*5 s after the last byte.
const (
	keepIdleSeconds     = 15
	keepIntervalSeconds = 5
	keepProbes          = 3
)

// listen makes the listening socket, or takes passed when it is bound as
// wanted, else ends it. fresh says that it was made.
func listen(bind netip.Addr, port uint16, passed int, stall time.Duration) (fd int, at netip.AddrPort, fresh bool, err error) {
	if passed >= 0 {
		if at, ok := serves(passed, bind, port); ok {
			// Options of the process before may have been others.
			if err := tune(passed, stall); err == nil {
				return passed, at, false, nil
			}
		}
		// PID 1 has a duplicate, with which a mere close would leave the port
		// taken. After a shutdown no duplicate listens any more. There is
		// nothing to shut down, if it fails.
		_ = unix.Shutdown(passed, unix.SHUT_RDWR)
		unix.Close(passed)
	}
	fd, err = bound(bind, port, stall)
	if err != nil {
		return -1, netip.AddrPort{}, false, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		unix.Close(fd)
		return -1, netip.AddrPort{}, false, fmt.Errorf("listen on port %d: %w", port, err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return -1, netip.AddrPort{}, false, fmt.Errorf("look up the listening port: %w", err)
	}
	return fd, addrPort(sa), true, nil
}

// serves tells whether fd is a listening TCP socket on that address and port.
func serves(fd int, bind netip.Addr, port uint16) (netip.AddrPort, bool) {
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
		return netip.AddrPort{}, false
	}
	if p, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); err != nil || p != unix.IPPROTO_TCP {
		return netip.AddrPort{}, false
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	at := addrPort(sa)
	if port != 0 && at.Port() != port {
		return netip.AddrPort{}, false
	}
	if everywhere(bind) {
		return at, at.Addr().IsUnspecified()
	}
	return at, at.Addr() == bind.Unmap()
}

func everywhere(bind netip.Addr) bool { return !bind.IsValid() || bind.Unmap().IsUnspecified() }

// bound returns a socket bound to the address: to [::], which takes IPv4 too,
// when everywhere is wanted and the kernel has IPv6.
func bound(bind netip.Addr, port uint16, stall time.Duration) (int, error) {
	if !everywhere(bind) {
		return bindSocket(bind.Unmap(), port, stall)
	}
	fd, err := bindSocket(netip.IPv6Unspecified(), port, stall)
	if err == nil || unixIs(err, unix.EADDRINUSE) {
		return fd, err
	}
	return bindSocket(netip.IPv4Unspecified(), port, stall)
}

func bindSocket(a netip.Addr, port uint16, stall time.Duration) (int, error) {
	family := unix.AF_INET
	if a.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return -1, fmt.Errorf("make a TCP socket: %w", err)
	}
	if err := prepare(fd, a, port, stall); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind to %s: %w", netip.AddrPortFrom(a, port), err)
	}
	return fd, nil
}

func prepare(fd int, a netip.Addr, port uint16, stall time.Duration) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	// An address that DHCP has not brought yet can be bound (INV 10).
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1); err != nil {
		return err
	}
	if err := tune(fd, stall); err != nil {
		return err
	}
	if a.Is4() {
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)})
	}
	v6only := 1
	if a.IsUnspecified() {
		v6only = 0
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, v6only); err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)})
}

// tune sets on the listening socket what every accepted one inherits from it
// (Linux clones the socket), so that an accept costs one call.
func tune(fd int, stall time.Duration) error {
	for _, o := range [...]struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_SNDBUF, sendBufferBytes},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBufferBytes},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdleSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepIntervalSeconds},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepProbes},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(stall.Milliseconds())},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return err
		}
	}
	return unix.SetNonblock(fd, true)
}
