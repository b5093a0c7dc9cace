package wireguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
)

// endpoint is where a peer is, and by which of our addresses it reaches us. It
// does not change but for the latter being forgotten.
type endpoint struct {
	to     netip.AddrPort
	from   netip.Addr // our address; not valid: the kernel chooses
	oob    []byte     // says from to the kernel
	forget atomic.Bool
}

// newEndpoint makes one; from may be not valid.
func newEndpoint(to netip.AddrPort, from netip.Addr) *endpoint {
	e := &endpoint{to: to, from: from}
	// Without the interface: the route to the peer decides about that.
	switch {
	case from.Is4():
		e.oob = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from.As4()})
	case from.Is6():
		e.oob = unix.PktInfo6(&unix.Inet6Pktinfo{Addr: from.As16()})
	}
	return e
}

func (e *endpoint) ClearSrc()           { e.forget.Store(true) }
func (e *endpoint) SrcIP() netip.Addr   { return e.from }
func (e *endpoint) SrcToString() string { return e.from.String() }
func (e *endpoint) DstIP() netip.Addr   { return e.to.Addr() }
func (e *endpoint) DstToString() string { return e.to.String() }
func (e *endpoint) DstToBytes() []byte  { b, _ := e.to.MarshalBinary(); return b }

// source is the control message that asks for our address, or nil.
func (e *endpoint) source() []byte {
	if e.forget.Load() {
		return nil
	}
	return e.oob
}

// bind is the tunnel's UDP sockets, one for each family, and one datagram at a
// time: batches of 128 as the module's own has are more memory than the box
// has to spare. What arrives at one of our addresses is answered from there.
type bind struct {
	logf func(format string, a ...any)

	mu    sync.Mutex // guards the following
	socks [2]*net.UDPConn
}

var _ conn.Bind = (*bind)(nil)

const (
	sock4 = 0
	sock6 = 1
)

func (b *bind) BatchSize() int { return 1 }

// Open implements conn.Bind. A kernel without IPv6 has the other socket only.
func (b *bind) Open(port uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.socks[sock4] != nil || b.socks[sock6] != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	// A port that one family gave may be taken in the other.
	for tries := 0; ; tries++ {
		actual = port
		for i, network := range [...]string{"udp4", "udp6"} {
			c, err := net.ListenUDP(network, &net.UDPAddr{Port: int(actual)})
			if errors.Is(err, syscall.EAFNOSUPPORT) {
				continue
			}
			if err == nil {
				b.socks[i] = c
				err = wantSource(c, i)
			}
			if err != nil {
				b.closeLocked()
				if port == 0 && errors.Is(err, syscall.EADDRINUSE) && tries < 100 {
					break
				}
				return nil, 0, fmt.Errorf("listen on UDP port %d: %w", actual, err)
			}
			actual = uint16(c.LocalAddr().(*net.UDPAddr).Port)
		}
		if b.socks[sock4] != nil || b.socks[sock6] != nil {
			break
		}
		if tries >= 100 {
			return nil, 0, syscall.EAFNOSUPPORT
		}
	}
	for i, c := range b.socks {
		if c != nil {
			fns = append(fns, b.receiver(c, i))
		}
	}
	return fns, actual, nil
}

// wantSource asks for our address of each datagram.
func wantSource(c *net.UDPConn, family int) error {
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if family == sock6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, 1) })
	return errors.Join(err, failed)
}

func (b *bind) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closeLocked()
}

func (b *bind) closeLocked() (err error) {
	for i, c := range b.socks {
		if c != nil {
			err = errors.Join(err, c.Close())
			b.socks[i] = nil
		}
	}
	return err
}

// SetMark implements conn.Bind; there are no routing rules here to mark for.
func (b *bind) SetMark(mark uint32) error {
	if mark == 0 {
		return nil
	}
	return errors.ErrUnsupported
}

// ParseEndpoint implements conn.Bind.
func (b *bind) ParseEndpoint(s string) (conn.Endpoint, error) {
	to, err := netip.ParseAddrPort(s)
	if err != nil {
		return nil, err
	}
	return newEndpoint(netip.AddrPortFrom(to.Addr().Unmap(), to.Port()), netip.Addr{}), nil
}

// oobSize holds a control message with our address: struct in6_pktinfo is 20 bytes.
const oobSize = 64

// pause is how long a socket that cannot receive for want of memory is left alone.
const pause = 100 * time.Millisecond

// receiver returns what receives from c. Datagrams that follow each other from
// one address have one endpoint, so that a transfer allocates nothing.
func (b *bind) receiver(c *net.UDPConn, family int) conn.ReceiveFunc {
	var oob [oobSize]byte
	var last *endpoint
	return func(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
		for {
			n, oobn, flags, from, err := c.ReadMsgUDPAddrPort(bufs[0], oob[:])
			switch {
			case errors.Is(err, net.ErrClosed):
				return 0, net.ErrClosed
			case err != nil:
				// Any other error would end the module's receiver for good.
				b.logf("receive: %v", err)
				time.Sleep(pause)
				continue
			case flags&unix.MSG_TRUNC != 0:
				continue // larger than any packet of a tunnel
			}
			source := localAddr(oob[:oobn])
			if last == nil || last.to != from || last.from != source || last.forget.Load() {
				last = newEndpoint(from, source)
			}
			sizes[0], eps[0] = n, last
			return 1, nil
		}
	}
}

// localAddr is our address in a datagram's control messages.
func localAddr(oob []byte) netip.Addr {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		switch {
		// struct in_pktinfo: interface, our address, the datagram's
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= 12:
			return netip.AddrFrom4([4]byte(data[4:8]))
		// struct in6_pktinfo: our address, interface
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= 20:
			return netip.AddrFrom16([16]byte(data[:16]))
		}
		oob = rest
	}
	return netip.Addr{}
}

// Send implements conn.Bind.
func (b *bind) Send(bufs [][]byte, ep conn.Endpoint) error {
	e, ok := ep.(*endpoint)
	if !ok {
		return conn.ErrWrongEndpointType
	}
	i := sock4
	if e.to.Addr().Is6() {
		i = sock6
	}
	b.mu.Lock()
	c := b.socks[i]
	b.mu.Unlock()
	if c == nil {
		return syscall.EAFNOSUPPORT
	}
	for _, buf := range bufs {
		oob := e.source()
		_, _, err := c.WriteMsgUDPAddrPort(buf, oob, e.to)
		if err != nil && oob != nil && !errors.Is(err, net.ErrClosed) {
			// Our address may be gone: the kernel shall choose.
			e.ClearSrc()
			_, _, err = c.WriteMsgUDPAddrPort(buf, nil, e.to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
