//go:build linux

package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/dnssd"
	"gwinit/internal/netdev"
)

const (
	// maxPacket is what is read of a packet. Those with more known answers
	// than that are answered by their beginning.
	maxPacket = 4 << 10
	// receiveBytes is SO_RCVBUF: a burst of queries, and no more of 25 MiB.
	receiveBytes = 32 << 10
	// A burst of so many packets is heard at once, then one every so often. While
	// there are more, each wakeup is behind a pause and finds as many as came back
	// to the bucket: the kernel drops what the socket has no room for.
	hearBurst  = 100
	hearEvery  = 5 * time.Millisecond
	floodPause = 100 * time.Millisecond
	// sendWait is how long a packet may wait for room in the card's queue.
	sendWait = 100 * time.Millisecond
)

// socket is one family's, on one interface.
type socket struct {
	conn   *net.UDPConn
	family family
	group  netip.AddrPort
	oob    [64]byte
}

// listen makes a socket on port 5353 of an interface. deaf is why it hears what
// is sent to this box only, and not what goes to the group.
func listen(f family, link netdev.Link) (s *socket, deaf, err error) {
	s = &socket{family: f, group: netip.AddrPortFrom(dnssd.Group4(), dnssd.Port)}
	network, at := "udp4", "0.0.0.0:5353"
	if f == v6 {
		s.group = netip.AddrPortFrom(dnssd.Group6(), dnssd.Port)
		network, at = "udp6", "[::]:5353"
	}
	lc := net.ListenConfig{Control: func(_, _ string, rc syscall.RawConn) error {
		var errSet error
		err := rc.Control(func(fd uintptr) { deaf, errSet = setUp(int(fd), f, link) })
		return errors.Join(err, errSet)
	}}
	conn, err := lc.ListenPacket(context.Background(), network, at)
	if err != nil {
		return nil, nil, fmt.Errorf("mdns: port 5353 on %s: %w", link.Name, err)
	}
	s.conn = conn.(*net.UDPConn)
	return s, deaf, nil
}

// setUp prepares a socket before it is bound: others (a border router's agent)
// may share the port, packets stay on the interface and bear hop limit 255, and
// come with the address that they were sent to.
func setUp(fd int, f family, link netdev.Link) (deaf, err error) {
	type option struct{ level, name, value int }
	common := []option{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBytes},
	}
	own := []option{
		{unix.IPPROTO_IP, unix.IP_PKTINFO, 1},
		{unix.IPPROTO_IP, unix.IP_TTL, 255},
		{unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, 255},
		{unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 0},
	}
	if f == v6 {
		own = []option{
			{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1},
			{unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 255},
			{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255},
			{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 0},
			{unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, link.Index},
		}
	}
	for _, o := range append(common, own...) {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return nil, fmt.Errorf("socket option %d.%d: %w", o.level, o.name, err)
		}
	}
	if err := unix.BindToDevice(fd, link.Name); err != nil {
		return nil, fmt.Errorf("bind to device: %w", err)
	}
	if f == v6 {
		deaf = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP,
			&unix.IPv6Mreq{Multiaddr: dnssd.Group6().As16(), Interface: uint32(link.Index)})
		return deaf, nil
	}
	mreq := &unix.IPMreqn{Multiaddr: dnssd.Group4().As4(), Ifindex: int32(link.Index)}
	if err := unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, mreq); err != nil {
		return nil, fmt.Errorf("choose the interface for multicast: %w", err)
	}
	return unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, mreq), nil
}

// receive reads a packet into p, whose msg has the memory for it. It returns an
// error when the socket is closed, or of no use any more.
func (s *socket) receive(p *packet) error {
	buf := p.msg[:cap(p.msg)]
	for {
		n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(buf, s.oob[:])
		switch {
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ECONNREFUSED),
			errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
			continue // an earlier packet of ours, or the cable
		case err != nil:
			return fmt.Errorf("mdns: receive: %w", err)
		}
		to, ok := sentTo(s.oob[:oobn])
		*p = packet{family: s.family, from: from, multicast: ok && to.IsMulticast(), msg: buf[:n]}
		return nil
	}
}

// sentTo finds the address that a packet was sent to in its control messages.
func sentTo(oob []byte) (netip.Addr, bool) {
	for len(oob) > 0 {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= 12:
			// struct in_pktinfo: interface, local address, address in the header.
			return netip.AddrFrom4([4]byte(data[8:12])), true
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= 16:
			return netip.AddrFrom16([16]byte(data[:16])), true
		}
		oob = rest
	}
	return netip.Addr{}, false
}

// send sends to the group, or to a host when to is valid.
func (s *socket) send(to netip.AddrPort, msg []byte) error {
	if !to.IsValid() {
		to = s.group
	}
	// It fails only for a socket that is closed, as the write does.
	_ = s.conn.SetWriteDeadline(time.Now().Add(sendWait))
	if _, err := s.conn.WriteToUDPAddrPort(msg, to); err != nil {
		return fmt.Errorf("mdns: %w", err)
	}
	return nil
}
