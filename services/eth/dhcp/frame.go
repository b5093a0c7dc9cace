package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

const (
	serverPort, clientPort = 67, 68

	ipHeaderBytes  = 20
	udpHeaderBytes = 8
	protoUDP       = 17
	// maxFrameBytes holds any IP packet that an Ethernet frame can carry.
	maxFrameBytes = 1500
)

var errFrame = errors.New("not a DHCP answer")

// broadcastFrame wraps msg in UDP 68 -> 67 and IPv4 0.0.0.0 -> 255.255.255.255
// (RFC 768, RFC 791), for a packet socket that adds the Ethernet header.
func broadcastFrame(msg []byte) []byte {
	f := make([]byte, ipHeaderBytes+udpHeaderBytes, ipHeaderBytes+udpHeaderBytes+len(msg))
	f = append(f, msg...)
	ip, udp := f[:ipHeaderBytes], f[ipHeaderBytes:]
	ip[0] = 0x45
	ip[1] = 0x10 // TOS low delay, as every DHCP client sends
	binary.BigEndian.PutUint16(ip[2:], uint16(len(f)))
	ip[8] = 64 // TTL
	ip[9] = protoUDP
	copy(ip[16:20], []byte{255, 255, 255, 255})
	binary.BigEndian.PutUint16(ip[10:], ^onesSum(0, ip))

	binary.BigEndian.PutUint16(udp[0:], clientPort)
	binary.BigEndian.PutUint16(udp[2:], serverPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	sum := ^udpSum(ip, udp)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
	return f
}

// payload returns the DHCP message of an IPv4 packet and its sender.
// sumPending says that the sender's checksum is not there yet: between two
// virtual interfaces the hardware that would add it does not exist
// (TP_STATUS_CSUMNOTREADY of packet(7)).
func payload(f []byte, sumPending bool) ([]byte, netip.Addr, error) {
	if len(f) < ipHeaderBytes || f[0]>>4 != 4 {
		return nil, netip.Addr{}, fmt.Errorf("%w: not IPv4", errFrame)
	}
	header := int(f[0]&15) * 4
	total := int(binary.BigEndian.Uint16(f[2:]))
	if header < ipHeaderBytes || total < header+udpHeaderBytes || total > len(f) {
		return nil, netip.Addr{}, fmt.Errorf("%w: wrong length", errFrame)
	}
	if f[9] != protoUDP || binary.BigEndian.Uint16(f[6:])&0x3fff != 0 {
		return nil, netip.Addr{}, fmt.Errorf("%w: not UDP, or a fragment", errFrame)
	}
	ip, udp := f[:header], f[header:total]
	if onesSum(0, ip) != 0xffff {
		return nil, netip.Addr{}, fmt.Errorf("%w: wrong IP checksum", errFrame)
	}
	n := int(binary.BigEndian.Uint16(udp[4:]))
	if n < udpHeaderBytes || n > len(udp) || binary.BigEndian.Uint16(udp[2:]) != clientPort {
		return nil, netip.Addr{}, fmt.Errorf("%w: wrong UDP header", errFrame)
	}
	udp = udp[:n]
	if binary.BigEndian.Uint16(udp[6:]) != 0 && !sumPending && udpSum(ip, udp) != 0xffff {
		return nil, netip.Addr{}, fmt.Errorf("%w: wrong UDP checksum", errFrame)
	}
	return udp[udpHeaderBytes:], netip.AddrFrom4([4]byte(ip[12:16])), nil
}

// udpSum sums the pseudo header and udp (RFC 768).
func udpSum(ip, udp []byte) uint16 {
	pseudo := onesSum(uint32(protoUDP)+uint32(len(udp)), ip[12:20])
	return onesSum(uint32(pseudo), udp)
}

// onesSum is the ones' complement sum of RFC 1071.
func onesSum(sum uint32, b []byte) uint16 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
