package dhcp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// parameters is option 55 of every message, in ascending order: mask, router,
// DNS, host name, domain, MTU, broadcast, NTP, lease, server, T1, T2, search
// list, classless routes.
var parameters = []byte{1, 3, 6, 12, 15, 26, 28, 42, 51, 54, 58, 59, 119, 121}

// maxMessageBytes is option 57: what fits an Ethernet frame, so that a long
// search list or route table is not cut at 576.
const maxMessageBytes = 1472

// maxHostname is the longest label of a name (RFC 1035 section 2.3.4); option
// 12 names one host.
const maxHostname = 63

// question is what differs between the client's messages.
type question struct {
	kind   dhcpv4.MessageType
	xid    uint32
	secs   uint16
	ciaddr netip.Addr // our address when it is configured: RENEWING, REBINDING
	want   netip.Addr // option 50
	server netip.Addr // option 54
}

// build encodes q. The options travel in ascending order.
func (cfg *Config) build(q question) []byte {
	mac := net.HardwareAddr(cfg.MAC[:])
	m := dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootRequest,
		HWType:        iana.HWTypeEthernet,
		TransactionID: dhcpv4.TransactionID{byte(q.xid >> 24), byte(q.xid >> 16), byte(q.xid >> 8), byte(q.xid)},
		NumSeconds:    q.secs,
		ClientIPAddr:  net.IPv4zero,
		YourIPAddr:    net.IPv4zero,
		ServerIPAddr:  net.IPv4zero,
		GatewayIPAddr: net.IPv4zero,
		ClientHWAddr:  mac,
		Options: dhcpv4.Options{
			uint8(dhcpv4.OptionDHCPMessageType):        {byte(q.kind)},
			uint8(dhcpv4.OptionParameterRequestList):   parameters,
			uint8(dhcpv4.OptionMaximumDHCPMessageSize): {maxMessageBytes >> 8, maxMessageBytes & 0xff},
			uint8(dhcpv4.OptionClientIdentifier):       cfg.clientID(),
		},
	}
	if q.kind == dhcpv4.MessageTypeDecline { // RFC 2131 table 5
		delete(m.Options, uint8(dhcpv4.OptionParameterRequestList))
		delete(m.Options, uint8(dhcpv4.OptionMaximumDHCPMessageSize))
	} else if name := cfg.Hostname; name != "" {
		m.Options[uint8(dhcpv4.OptionHostName)] = []byte(name[:min(len(name), maxHostname)])
	}
	if q.ciaddr.Is4() {
		m.ClientIPAddr = q.ciaddr.AsSlice()
	}
	if q.want.Is4() {
		m.Options[uint8(dhcpv4.OptionRequestedIPAddress)] = q.want.AsSlice()
	}
	if q.server.Is4() {
		m.Options[uint8(dhcpv4.OptionServerIdentifier)] = q.server.AsSlice()
	}
	return m.ToBytes()
}

func (cfg *Config) clientID() []byte {
	return append([]byte{byte(iana.HWTypeEthernet)}, cfg.MAC[:]...)
}

// errNotOurs is a message for somebody else or an answer to an older question.
var errNotOurs = errors.New("not an answer to this client")

// parse decodes an answer to the question xid.
func (cfg *Config) parse(b []byte, xid uint32) (*dhcpv4.DHCPv4, error) {
	m, err := dhcpv4.FromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("decode message: %w", err)
	}
	x := m.TransactionID
	got := uint32(x[0])<<24 | uint32(x[1])<<16 | uint32(x[2])<<8 | uint32(x[3])
	if m.OpCode != dhcpv4.OpcodeBootReply || got != xid || !bytes.Equal(m.ClientHWAddr, cfg.MAC[:]) {
		return nil, errNotOurs
	}
	if err := overload(m, b); err != nil {
		return nil, fmt.Errorf("decode overloaded options: %w", err)
	}
	// RFC 6842: a server that returns the identifier returns ours.
	if id := m.Options.Get(dhcpv4.OptionClientIdentifier); id != nil && !bytes.Equal(id, cfg.clientID()) {
		return nil, errNotOurs
	}
	return m, nil
}

// overload adds the options that a server had no more room for and put where
// names of a boot server and file would stand (option 52, RFC 2131 section 4.1);
// b is the message m. An option that is split continues there (RFC 3396).
func overload(m *dhcpv4.DHCPv4, b []byte) error {
	const sname, file, cookie = 44, 108, 236 // offsets, RFC 2131 figure 1
	which := m.Options.Get(dhcpv4.OptionOptionOverload)
	if len(which) != 1 {
		return nil
	}
	if which[0]&1 != 0 {
		if err := m.Options.FromBytes(b[file:cookie]); err != nil {
			return err
		}
	}
	if which[0]&2 != 0 {
		return m.Options.FromBytes(b[sname:file])
	}
	return nil
}

// nakText is why a server said no, printable.
func nakText(m *dhcpv4.DHCPv4) string {
	text := m.Options.Get(dhcpv4.OptionMessage)
	clean := make([]byte, 0, min(len(text), 80))
	for _, c := range text {
		if c >= ' ' && c < 0x7f && len(clean) < 80 {
			clean = append(clean, c)
		}
	}
	return string(clean)
}
