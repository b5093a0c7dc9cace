// Package arptest is a cable with other hosts at its end, for who asks whether
// an address is in use.
package arptest

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"gwinit/internal/netdev"
	"gwinit/services/eth/arp"
)

// Cable has hosts that answer for their addresses.
type Cable struct {
	mu    sync.Mutex // guards everything below
	hosts map[netip.Addr]netdev.MAC
	open  map[*conn]bool
	sent  []string
	heard int
	fail  error
}

// New returns a cable without hosts.
func New() *Cable { return &Cable{hosts: map[netip.Addr]netdev.MAC{}, open: map[*conn]bool{}} }

// Take makes mac a host that has addr; it says nothing by itself.
func (c *Cable) Take(addr netip.Addr, mac netdev.MAC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hosts[addr] = mac
}

// Leave makes addr nobody's.
func (c *Cable) Leave(addr netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.hosts, addr)
}

// Say sends p to everybody who listens.
func (c *Cable) Say(p arp.Packet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(p)
}

func (c *Cable) say(p arp.Packet) {
	for o := range c.open {
		if o.deaf {
			continue
		}
		select {
		case o.rx <- p:
			c.heard++
		default: // a socket's queue is finite too
		}
	}
}

// Fail makes every Open and Send fail with err until it is nil.
func (c *Cable) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// Sent returns what was sent since the last Sent: "probe ADDRESS" or "announce
// ADDRESS".
func (c *Cable) Sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sent
	c.sent = nil
	return s
}

// Heard returns how many packets have arrived since the last Heard.
func (c *Cable) Heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.heard
	c.heard = 0
	return n
}

// Sockets tells how many are open.
func (c *Cable) Sockets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Open is an arp.Opener.
func (c *Cable) Open(netip.Addr) (arp.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return nil, c.fail
	}
	o := &conn{cable: c, rx: make(chan arp.Packet, 16), closed: make(chan struct{})}
	c.open[o] = true
	return o, nil
}

type conn struct {
	cable  *Cable
	rx     chan arp.Packet
	closed chan struct{}
	deaf   bool // guarded by cable.mu
}

// Send implements arp.Conn.
func (o *conn) Send(p arp.Packet) error {
	c := o.cable
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	kind := "probe"
	if p.SenderIP == p.TargetIP {
		kind = "announce"
	}
	c.sent = append(c.sent, fmt.Sprintf("%s %v", kind, p.TargetIP))
	if mac, ok := c.hosts[p.TargetIP]; ok && kind == "probe" {
		c.say(arp.Packet{Sender: mac, SenderIP: p.TargetIP, TargetIP: p.SenderIP})
	}
	return nil
}

// Receive implements arp.Conn.
func (o *conn) Receive() (arp.Packet, error) {
	select {
	case p := <-o.rx:
		return p, nil
	case <-o.closed:
		return arp.Packet{}, net.ErrClosed
	}
}

// Deaf implements arp.Conn.
func (o *conn) Deaf(deaf bool) error {
	o.cable.mu.Lock()
	defer o.cable.mu.Unlock()
	o.deaf = deaf
	return nil
}

// Close implements arp.Conn.
func (o *conn) Close() error {
	o.cable.mu.Lock()
	defer o.cable.mu.Unlock()
	delete(o.cable.open, o)
	close(o.closed)
	return nil
}
