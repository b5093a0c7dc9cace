package arp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/netdev"
)

// On returns the Opener of a link, with AF_PACKET sockets. Nothing but a
// conflict wakes their readers.
func On(l netdev.Link) Opener {
	return func(addr netip.Addr) (Conn, error) { return open(l, addr) }
}

func open(l netdev.Link, addr netip.Addr) (Conn, error) {
	// Protocol 0: nothing arrives before the filter is in place.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open ARP socket: %w", err)
	}
	code := filter(l.MAC, addr)
	if err = attach(fd, code); err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: netdev.NetworkOrder(unix.ETH_P_ARP), Ifindex: l.Index})
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up ARP socket on %s: %w", l.Name, err)
	}
	f := os.NewFile(uintptr(fd), "arp "+l.Name)
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("ARP socket on %s: %w", l.Name, err)
	}
	return &socket{f, rc, l, code}, nil
}

// attach puts a filter in the place of the one that a socket has.
func attach(fd int, code []unix.SockFilter) error {
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}

// filter passes ARP of other hosts that have addr (classic BPF over what a
// SOCK_DGRAM packet socket sees, which starts at the ARP header).
func filter(mac netdev.MAC, addr netip.Addr) []unix.SockFilter {
	a := addr.As4()
	ip, high, low := binary.BigEndian.Uint32(a[:]), binary.BigEndian.Uint32(mac[:4]), uint32(binary.BigEndian.Uint16(mac[4:]))
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 14},           // sender's address
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 5, K: ip},   //
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 8},            // sender's MAC
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 2, K: high}, //
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12},           //
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: low},  //
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},                     // all of it
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},                          // none
	}
}

// socket is a Conn; the file makes a blocked Receive end at Close.
type socket struct {
	file *os.File
	rc   syscall.RawConn
	link netdev.Link
	code []unix.SockFilter // its filter; the last instruction alone drops all
}

// Send implements Conn.
func (s *socket) Send(p Packet) error {
	dst := &unix.SockaddrLinklayer{
		Protocol: netdev.NetworkOrder(unix.ETH_P_ARP), Ifindex: s.link.Index,
		Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255},
	}
	b := p.Marshal()
	var errSend error
	err := s.rc.Write(func(fd uintptr) bool {
		errSend = unix.Sendto(int(fd), b, 0, dst)
		return errSend != unix.EAGAIN
	})
	if err = errors.Join(err, errSend); err != nil {
		return fmt.Errorf("send ARP on %s: %w", s.link.Name, err)
	}
	return nil
}

// Receive implements Conn. What is no ARP is passed over, and so is the link
// going down.
func (s *socket) Receive() (Packet, error) {
	var buf [64]byte
	for {
		var n int
		var errRecv error
		err := s.rc.Read(func(fd uintptr) bool {
			n, _, errRecv = unix.Recvfrom(int(fd), buf[:], 0)
			return errRecv != unix.EAGAIN
		})
		if err != nil {
			return Packet{}, fmt.Errorf("receive ARP: %w", err)
		}
		switch errRecv {
		case nil:
			if p, err := Parse(buf[:n]); err == nil {
				return p, nil
			}
		case unix.EINTR, unix.ENETDOWN:
		default:
			return Packet{}, fmt.Errorf("receive ARP: %w", errRecv)
		}
	}
}

// Deaf implements Conn.
func (s *socket) Deaf(deaf bool) error {
	code := s.code
	if deaf {
		code = code[len(code)-1:]
	}
	var errSet error
	err := s.rc.Control(func(fd uintptr) { errSet = attach(int(fd), code) })
	if err = errors.Join(err, errSet); err != nil {
		return fmt.Errorf("filter ARP on %s: %w", s.link.Name, err)
	}
	return nil
}

// Close implements Conn.
func (s *socket) Close() error { return s.file.Close() }
