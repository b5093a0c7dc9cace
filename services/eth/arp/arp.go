// Package arp finds out whether somebody else uses an IPv4 address, and says
// whose it is: address conflict detection (RFC 5227) on one interface.
//
// It sets no address and gives none up; whoever asked decides. The answers to
// other hosts' questions are the kernel's own work.
package arp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"gwinit/internal/netdev"
)

// The times of RFC 5227 section 1.1 are made for links that need seconds to
// carry the first frame; together they take 4 to 7 s, for which a gateway would
// have no address. This one asks when a DHCP server has just answered, or while
// the address is in use already.
const (
	probes     = 3
	probeEvery = 150 * time.Millisecond
	// announceAgain is when the announcement is repeated, ANNOUNCE_INTERVAL.
	announceAgain = 2 * time.Second
	// rest is how long conflicts are passed over after one was dealt with,
	// DEFEND_INTERVAL.
	rest = 10 * time.Second
	// recheck is how often a host that uses our address is asked whether it
	// still does.
	recheck = time.Minute
)

// CheckTime is how long Check takes where nobody has the address.
const CheckTime = probes * probeEvery

// Operations.
const (
	request = 1
	reply   = 2
)

// packetBytes is the length of ARP for IPv4 on Ethernet (RFC 826).
const packetBytes = 28

// errPacket is what Parse gives for anything but ARP for IPv4 on Ethernet.
var errPacket = errors.New("not ARP for IPv4 on Ethernet")

// errDeaf is what became of a socket that cannot be read any more.
var errDeaf = errors.New("ARP socket: no longer readable")

// Packet is ARP for IPv4 on Ethernet, without the target's MAC, which means
// nothing in a question.
type Packet struct {
	Request  bool // else a reply
	Sender   netdev.MAC
	SenderIP netip.Addr
	TargetIP netip.Addr
}

// Marshal encodes p.
func (p Packet) Marshal() []byte {
	b := make([]byte, packetBytes)
	copy(b, []byte{0, 1, 8, 0, 6, 4, 0, reply}) // Ethernet, IPv4, lengths
	if p.Request {
		b[7] = request
	}
	copy(b[8:], p.Sender[:])
	src, dst := p.SenderIP.As4(), p.TargetIP.As4()
	copy(b[14:], src[:])
	copy(b[24:], dst[:])
	return b
}

// Parse decodes what follows an Ethernet header.
func Parse(b []byte) (Packet, error) {
	if len(b) < packetBytes || [6]byte(b[:6]) != [6]byte{0, 1, 8, 0, 6, 4} {
		return Packet{}, errPacket
	}
	op := binary.BigEndian.Uint16(b[6:])
	if op != request && op != reply {
		return Packet{}, fmt.Errorf("%w: operation %d", errPacket, op)
	}
	return Packet{
		Request: op == request, Sender: netdev.MAC(b[8:14]),
		SenderIP: netip.AddrFrom4([4]byte(b[14:18])), TargetIP: netip.AddrFrom4([4]byte(b[24:28])),
	}, nil
}

// Conn carries ARP of an interface; a fake is in arptest.
type Conn interface {
	// Send broadcasts a packet.
	Send(Packet) error
	// Receive returns the next packet. It blocks until Close, after which it
	// returns an error.
	Receive() (Packet, error)
	// Deaf has nothing more arrive, or again what does; what has arrived stays.
	Deaf(bool) error
	Close() error
}

// Opener opens a Conn that passes what other hosts say which have addr.
type Opener func(addr netip.Addr) (Conn, error)

// Host is the one that asks: its MAC and the way to the others.
type Host struct {
	MAC  netdev.MAC
	Open Opener
}

// Check asks whether another host has addr; this one may have it. It blocks for
// CheckTime, or until somebody answers or ctx ends.
//
// Who only asks whether addr is free, as it is about to take it, is no answer,
// although RFC 5227 section 2.1.1 counts it: switches that keep track of hosts ask
// the same way.
func (h Host) Check(ctx context.Context, addr netip.Addr) (other netdev.MAC, used bool, err error) {
	e, err := h.listen(addr)
	if err != nil {
		return other, false, err
	}
	defer e.close()
	return e.check(ctx)
}

// Guard announces addr, which this host uses, and watches over it until ctx
// ends: tell is called when another host turns out to use it as well, and when
// that one no longer does. It is told again while it does, now and then. If
// check is set, the others are asked first; else only what is heard counts. A
// host that is heard to use the address is asked as well, after it was told
// whose it is, so one that gives way is not told.
func (h Host) Guard(ctx context.Context, addr netip.Addr, check bool, tell func(other netdev.MAC, used bool)) error {
	e, err := h.listen(addr)
	if err != nil {
		return err
	}
	defer e.close()
	shared := false
	// What cannot be sent, as the link is down, is no failure: whoever sees
	// the link come back starts another Guard.
	look := func() {
		other, used, err := e.check(ctx)
		if ctx.Err() == nil && err == nil && (used || shared) {
			shared = used
			tell(other, used)
		}
	}
	if check {
		look()
	}
	if !shared {
		_ = e.announce()
	}
	next := time.NewTimer(announceAgain)
	defer next.Stop()
	announced := false
	// A host that says a thousand times a second that it has the address, or
	// that many hosts do, is heard once in a rest.
	hear := time.NewTimer(rest)
	hear.Stop()
	defer hear.Stop()
	deaf := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case p, ok := <-e.rx:
			if !ok {
				return errDeaf
			}
			if !e.conflict(p) || deaf {
				continue
			}
			_ = e.announce()
			look()
			deaf = true
			_ = e.conn.Deaf(true) // or it is read and dropped
			hear.Reset(rest)
		case <-hear.C:
			deaf = false
			if err := e.conn.Deaf(false); err != nil {
				return err
			}
		case <-next.C:
			if shared {
				look()
			} else if !announced {
				_ = e.announce()
			}
			announced = true
		}
		if shared {
			next.Reset(recheck)
		}
	}
}

// ears are an open Conn and its reader.
type ears struct {
	mac  netdev.MAC
	addr netip.Addr
	conn Conn
	rx   chan Packet // closed when the reader ends
	stop chan struct{}
}

func (h Host) listen(addr netip.Addr) (*ears, error) {
	conn, err := h.Open(addr)
	if err != nil {
		return nil, err
	}
	e := &ears{h.MAC, addr, conn, make(chan Packet), make(chan struct{})}
	go func() {
		defer close(e.rx)
		for {
			p, err := conn.Receive()
			if err != nil {
				return
			}
			select {
			case e.rx <- p:
			case <-e.stop:
				return
			}
		}
	}()
	return e, nil
}

// close ends the reader, waits for it and closes the socket.
func (e *ears) close() {
	close(e.stop)
	_ = e.conn.Close() // nothing was written that could be lost
	for range e.rx {   // until the reader has closed it
	}
}

// check sends probes and waits for who answers.
func (e *ears) check(ctx context.Context) (other netdev.MAC, used bool, err error) {
	every := time.NewTicker(probeEvery)
	defer every.Stop()
	for range probes {
		// A question without a sender's address changes nobody's table.
		if err := e.conn.Send(Packet{Request: true, Sender: e.mac, SenderIP: netip.IPv4Unspecified(), TargetIP: e.addr}); err != nil {
			return other, false, err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return other, false, ctx.Err()
			case p, ok := <-e.rx:
				if !ok {
					return other, false, errDeaf
				}
				if e.conflict(p) {
					return p.Sender, true, nil
				}
			case <-every.C:
				waiting = false
			}
		}
	}
	return other, false, nil
}

// conflict tells whether p is of another host that has the address. What a switch
// sends back is our own.
func (e *ears) conflict(p Packet) bool { return p.SenderIP == e.addr && p.Sender != e.mac }

// announce tells everybody whose the address is (RFC 5227 section 2.3).
func (e *ears) announce() error {
	return e.conn.Send(Packet{Request: true, Sender: e.mac, SenderIP: e.addr, TargetIP: e.addr})
}
