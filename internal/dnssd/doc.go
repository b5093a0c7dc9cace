// Package dnssd is the wire format of multicast DNS (RFC 6762) and of service
// discovery by it (RFC 6763): names, messages to read, messages to write. It
// opens no socket and knows no services; services/mdns answers with it, and
// gwctl asks with it.
//
// It is our own because golang.org/x/net/dns/dnsmessage refuses every message
// with a dot inside a label, which people's instance names have ("Hall 2.1"),
// allocates for what it reads, and costs 11 KiB of flash beside the copy inside
// net (this: 8).
package dnssd

import "net/netip"

// Port is mDNS's UDP port.
const Port = 5353

// Group4 and Group6 are where mDNS packets go (RFC 6762 section 3).
func Group4() netip.Addr { return netip.AddrFrom4([4]byte{224, 0, 0, 251}) }

// Group6 is Group4 for IPv6; it needs the interface's zone.
func Group6() netip.Addr { return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 15: 0xfb}) }

// Types of records.
const (
	TypeA     = 1
	TypeNS    = 2
	TypeCNAME = 5
	TypePTR   = 12
	TypeTXT   = 16
	TypeAAAA  = 28
	TypeSRV   = 33
	TypeDNAME = 39
	TypeNSEC  = 47
	TypeANY   = 255
)

// Classes, and the bits that mDNS keeps in them.
const (
	ClassIN  = 1
	ClassANY = 255
	// Unicast in a question asks for a unicast answer (RFC 6762 section 5.4).
	Unicast = 1 << 15
	// Flush in a record says that there are no others of its name and type
	// (section 10.2).
	Flush = 1 << 15
)

// Flags of a message's header.
const (
	FlagResponse      = 1 << 15
	FlagAuthoritative = 1 << 10
	FlagTruncated     = 1 << 9
	maskOpcode        = 0xf << 11
	maskRcode         = 0xf
)

// The services that a gateway announces, and what tells it from others of the
// same type.
const (
	ServiceSSH    = "_ssh._tcp"
	ServiceZigbee = "_zigbee-coordinator._tcp"
	// Mark is a TXT string of a gateway that runs this firmware.
	Mark = "os=gwinit"
)
