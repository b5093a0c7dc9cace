// Package dhcptest is a network for dhcp.Client: it records what the client
// sends and answers as a test says.
package dhcptest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"gwinit/services/eth/dhcp"
)

// Sent is a message of the client.
type Sent struct {
	At  time.Duration // since the network was made
	Msg *dhcpv4.DHCPv4
	Raw []byte
	To  netip.Addr
	UDP bool // else over the packet socket
}

// String is short, for comparing a course of events.
func (s Sent) String() string {
	path := "packet"
	if s.UDP {
		path = "udp"
	}
	t := fmt.Sprintf("%v %s %v", s.Msg.MessageType(), path, s.To)
	if a := s.Msg.ClientIPAddr; !a.IsUnspecified() {
		t += " ciaddr " + a.String()
	}
	if a := s.Msg.RequestedIPAddress(); a != nil {
		t += " want " + a.String()
	}
	if a := s.Msg.ServerIdentifier(); a != nil {
		t += " server " + a.String()
	}
	return t
}

// Net implements dhcp.Transport.
type Net struct {
	began time.Time

	mu     sync.Mutex // guards everything below
	answer func(Sent) *dhcpv4.DHCPv4
	sent   []Sent
	open   map[*conn]bool
	fail   error
	failIn error // InUse's
	used   map[netip.Addr][6]byte
}

// New returns a network without a server.
func New() *Net {
	return &Net{began: time.Now(), open: map[*conn]bool{}, used: map[netip.Addr][6]byte{}}
}

// Serve makes f answer every message from now on; nil answers nothing.
func (n *Net) Serve(f func(Sent) *dhcpv4.DHCPv4) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = f
}

// Fail makes every Packet, UDP and Send fail with err until it is nil.
func (n *Net) Fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

// FailCheck makes every InUse fail with err until it is nil.
func (n *Net) FailCheck(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failIn = err
}

// Take returns what was sent since the last Take.
func (n *Net) Take() []Sent {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.sent
	n.sent = nil
	return s
}

// Open tells how many sockets are open.
func (n *Net) Open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.open)
}

// Deliver sends b to every open socket.
func (n *Net) Deliver(b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		c.put(b)
	}
}

// Packet implements dhcp.Transport.
func (n *Net) Packet() (dhcp.Conn, error) { return n.newConn(false) }

// UDP implements dhcp.Transport.
func (n *Net) UDP() (dhcp.Conn, error) { return n.newConn(true) }

// checkTime is how long InUse takes where nobody has the address.
const checkTime = 450 * time.Millisecond

// InUse implements dhcp.Transport.
func (n *Net) InUse(ctx context.Context, addr netip.Addr) ([6]byte, bool, error) {
	n.mu.Lock()
	other, used := n.used[addr]
	err := n.failIn
	n.mu.Unlock()
	if used || err != nil {
		return other, used, err
	}
	timer := time.NewTimer(checkTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return other, false, nil
	case <-ctx.Done():
		return other, false, ctx.Err()
	}
}

// Use makes another host have addr, or nobody if mac is zero.
func (n *Net) Use(addr netip.Addr, mac [6]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if mac == [6]byte{} {
		delete(n.used, addr)
		return
	}
	n.used[addr] = mac
}

func (n *Net) newConn(udp bool) (dhcp.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return nil, n.fail
	}
	c := &conn{net: n, udp: udp, rx: make(chan []byte, 64), closed: make(chan struct{})}
	n.open[c] = true
	return c, nil
}

type conn struct {
	net    *Net
	udp    bool
	rx     chan []byte
	closed chan struct{}
}

func (c *conn) put(b []byte) {
	select {
	case c.rx <- b:
	default: // a socket's queue is finite too
	}
}

// Send implements dhcp.Conn.
func (c *conn) Send(msg []byte, to netip.Addr) error {
	m, err := dhcpv4.FromBytes(msg)
	if err != nil {
		return fmt.Errorf("the client sent nonsense: %w", err)
	}
	n := c.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return n.fail
	}
	s := Sent{At: time.Since(n.began), Msg: m, Raw: append([]byte(nil), msg...), To: to, UDP: c.udp}
	n.sent = append(n.sent, s)
	if n.answer != nil {
		if reply := n.answer(s); reply != nil {
			c.put(reply.ToBytes())
		}
	}
	return nil
}

// Receive implements dhcp.Conn.
func (c *conn) Receive(buf []byte) (int, netip.Addr, error) {
	select {
	case b := <-c.rx:
		return copy(buf, b), netip.Addr{}, nil
	case <-c.closed:
		return 0, netip.Addr{}, net.ErrClosed
	}
}

// Close implements dhcp.Conn.
func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if !c.net.open[c] {
		return errors.New("closed twice")
	}
	delete(c.net.open, c)
	close(c.closed)
	return nil
}

// Server is a well-behaved server for one address.
type Server struct {
	ID      netip.Addr
	Addr    netip.Addr
	Lease   time.Duration
	Options map[uint8][]byte // further ones, or other values
}

// Answer is for Net.Serve. A request for another server is not answered, one
// for another address is refused.
func (s Server) Answer(in Sent) *dhcpv4.DHCPv4 {
	m := in.Msg
	if id := m.ServerIdentifier(); id != nil && !id.Equal(s.ID.AsSlice()) {
		return nil
	}
	if in.To != s.ID && in.To != netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return nil
	}
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return s.Reply(m, dhcpv4.MessageTypeOffer)
	case dhcpv4.MessageTypeRequest:
		want := m.RequestedIPAddress()
		if want == nil {
			want = m.ClientIPAddr
		}
		if !want.Equal(s.Addr.AsSlice()) {
			return s.Reply(m, dhcpv4.MessageTypeNak)
		}
		return s.Reply(m, dhcpv4.MessageTypeAck)
	}
	return nil
}

// Reply makes an answer of any type to m.
func (s Server) Reply(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	r := &dhcpv4.DHCPv4{
		OpCode:        dhcpv4.OpcodeBootReply,
		HWType:        m.HWType,
		TransactionID: m.TransactionID,
		ClientIPAddr:  m.ClientIPAddr,
		YourIPAddr:    s.Addr.AsSlice(),
		ServerIPAddr:  s.ID.AsSlice(),
		GatewayIPAddr: net.IPv4zero,
		ClientHWAddr:  m.ClientHWAddr,
		Options:       dhcpv4.Options{},
	}
	r.UpdateOption(dhcpv4.OptMessageType(kind))
	r.UpdateOption(dhcpv4.OptServerIdentifier(s.ID.AsSlice()))
	if kind == dhcpv4.MessageTypeNak {
		r.YourIPAddr = net.IPv4zero
		r.UpdateOption(dhcpv4.OptMessage("wrong network"))
		return r
	}
	r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(s.Lease))
	r.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(24, 32)))
	r.UpdateOption(dhcpv4.OptRouter(s.ID.AsSlice()))
	for code, v := range s.Options {
		if v == nil {
			r.Options.Del(dhcpv4.GenericOptionCode(code))
			continue
		}
		r.Options[code] = v
	}
	return r
}
