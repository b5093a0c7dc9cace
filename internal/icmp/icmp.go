// Package icmp makes echo requests and reads their replies, of ICMP (RFC 792) and
// ICMPv6 (RFC 4443). It opens no socket.
package icmp

import "encoding/binary"

// ICMP types (RFC 792, RFC 4443).
const (
	EchoReply4, echoRequest4 = 0, 8
	echoRequest6, EchoReply6 = 128, 129

	// HeaderBytes is the length of an echo's header, of both versions.
	HeaderBytes = 8
)

// Echo makes an echo request with a payload of so many bytes. The kernel adds
// ICMPv6's checksum itself, as it covers an address it has not chosen yet (RFC
// 3542 section 3.1).
func Echo(v6 bool, id, seq uint16, payload int) []byte {
	b := make([]byte, HeaderBytes+payload)
	b[0] = echoRequest4
	if v6 {
		b[0] = echoRequest6
	}
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], seq)
	for i := range b[HeaderBytes:] {
		b[HeaderBytes+i] = byte(i)
	}
	if !v6 {
		binary.BigEndian.PutUint16(b[2:], ^onesSum(b))
	}
	return b
}

// onesSum is the ones' complement sum of RFC 1071.
func onesSum(b []byte) uint16 {
	sum := uint32(0)
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

// ParseReply returns the sequence number of an echo reply to id. b is a message
// without the header of IP.
func ParseReply(b []byte, v6 bool, id uint16) (seq uint16, ok bool) {
	want := byte(EchoReply4)
	if v6 {
		want = EchoReply6
	}
	if len(b) < HeaderBytes || b[0] != want || b[1] != 0 || binary.BigEndian.Uint16(b[4:]) != id {
		return 0, false
	}
	if !v6 && onesSum(b) != 0xffff {
		return 0, false
	}
	return binary.BigEndian.Uint16(b[6:]), true
}
