package dhcp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gwinit/internal/netdev"
	"gwinit/services/eth/arp"
)

// Sockets is the Transport of a real interface.
type Sockets struct {
	Link netdev.Link
}

// udpHead is the part of a filter that a packet socket needs, which sees IP
// headers: unfragmented UDP to port 68, and X is the header's length.
var udpHead = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 9},                         // protocol
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 5 + toDrop, K: protoUDP}, //
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 6},                         // flags, fragment offset
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 3 + toDrop, K: 0x1fff},  //
	{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},                        //
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 2},                         // UDP destination
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: toDrop, K: clientPort},   //
}

// toDrop is how many instructions answerFilter puts behind udpHead, but the last.
const toDrop = 7

// answerFilter passes DHCP answers to mac (classic BPF), so that neither the
// box's other traffic nor what servers say to others wakes the client. udp is
// for a socket that sees UDP headers, X being 0 in the beginning; any other sees
// those of IP.
func answerFilter(mac [6]byte, udp bool) []unix.SockFilter {
	// Offsets behind a UDP header, RFC 2131 figure 1.
	const op, chaddr, bootReply = 8, 8 + 28, 2
	high, low := binary.BigEndian.Uint32(mac[:4]), uint32(binary.BigEndian.Uint16(mac[4:]))
	var code []unix.SockFilter
	if !udp {
		code = append(code, udpHead[:]...)
	}
	return append(code,
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: op},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 5, K: bootReply},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_IND, K: chaddr},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: high},
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: chaddr + 4},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: low},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff}, // all of it
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0},      // none
	)
}

// attach gives a socket answerFilter.
func (s Sockets) attach(fd int, udp bool) error {
	code := answerFilter(s.Link.MAC, udp)
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}

// Packet implements Transport with an AF_PACKET socket.
func (s Sockets) Packet() (Conn, error) {
	// Protocol 0: nothing arrives before the filter is in place.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	err = s.attach(fd, false)
	if err == nil {
		// Without it every checksum is checked, which is right for what
		// comes from a wire.
		_ = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1)
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: netdev.NetworkOrder(unix.ETH_P_IP), Ifindex: s.Link.Index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up packet socket on %s: %w", s.Link.Name, err)
	}
	return newSocket(fd, s)
}

// UDP implements Transport with a socket on port 68 of the interface.
func (s Sockets) UDP() (Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open UDP socket: %w", err)
	}
	err = s.attach(fd, true)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}
	if err == nil {
		err = unix.BindToDevice(fd, s.Link.Name)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: clientPort})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up UDP port %d on %s: %w", clientPort, s.Link.Name, err)
	}
	c, err := newSocket(fd, s)
	if err != nil {
		return nil, err
	}
	c.udp = true
	return c, nil
}

// InUse implements Transport.
func (s Sockets) InUse(ctx context.Context, addr netip.Addr) ([6]byte, bool, error) {
	return arp.Host{MAC: s.Link.MAC, Open: arp.On(s.Link)}.Check(ctx, addr)
}

// socket is a Conn; the file makes a blocked Receive end at Close.
type socket struct {
	file  *os.File
	iface Sockets
	udp   bool
	oob   [128]byte
}

func newSocket(fd int, iface Sockets) (*socket, error) {
	f := os.NewFile(uintptr(fd), "dhcp "+iface.Link.Name)
	if f == nil {
		return nil, fmt.Errorf("dhcp socket: bad descriptor %d", fd)
	}
	return &socket{file: f, iface: iface}, nil
}

// Send implements Conn.
func (s *socket) Send(msg []byte, to netip.Addr) error {
	var dst unix.Sockaddr = &unix.SockaddrInet4{Port: serverPort, Addr: to.As4()}
	if !s.udp {
		msg = broadcastFrame(msg)
		dst = &unix.SockaddrLinklayer{
			Protocol: netdev.NetworkOrder(unix.ETH_P_IP),
			Ifindex:  s.iface.Link.Index,
			Halen:    6,
			Addr:     [8]byte{255, 255, 255, 255, 255, 255},
		}
	}
	rc, err := s.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	var errSend error
	err = rc.Write(func(fd uintptr) bool {
		errSend = unix.Sendto(int(fd), msg, 0, dst)
		return errSend != unix.EAGAIN
	})
	if err = errors.Join(err, errSend); err != nil {
		return fmt.Errorf("send to %v: %w", to, err)
	}
	return nil
}

// Receive implements Conn. What is no DHCP answer is passed over, and so is
// the link going down (ENETDOWN) and a server's closed port (ECONNREFUSED).
func (s *socket) Receive(buf []byte) (int, netip.Addr, error) {
	rc, err := s.file.SyscallConn()
	if err != nil {
		return 0, netip.Addr{}, fmt.Errorf("receive: %w", err)
	}
	for {
		var n, oobn int
		var from unix.Sockaddr
		var errRecv error
		err := rc.Read(func(fd uintptr) bool {
			n, oobn, _, from, errRecv = unix.Recvmsg(int(fd), buf, s.oob[:], 0)
			return errRecv != unix.EAGAIN
		})
		if err != nil {
			return 0, netip.Addr{}, fmt.Errorf("receive: %w", err)
		}
		switch errRecv {
		case nil:
		case unix.EINTR, unix.ENETDOWN, unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH:
			continue
		default:
			return 0, netip.Addr{}, fmt.Errorf("receive: %w", errRecv)
		}
		if s.udp {
			if sa, ok := from.(*unix.SockaddrInet4); ok && n > 0 {
				return n, netip.AddrFrom4(sa.Addr), nil
			}
			continue
		}
		msg, src, err := payload(buf[:n], sumPending(s.oob[:oobn]))
		if err != nil {
			continue
		}
		return copy(buf, msg), src, nil
	}
}

// Close implements Conn.
func (s *socket) Close() error { return s.file.Close() }

// sumPending finds TP_STATUS_CSUMNOTREADY in a packet socket's auxiliary data.
func sumPending(oob []byte) bool {
	const csumNotReady = 1 << 3 // linux/if_packet.h
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return false
	}
	for _, m := range msgs {
		// struct tpacket_auxdata starts with tp_status, in host order.
		if m.Header.Level == unix.SOL_PACKET && m.Header.Type == unix.PACKET_AUXDATA && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data)&csumNotReady != 0
		}
	}
	return false
}
