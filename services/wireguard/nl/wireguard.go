package nl

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Peer is a peer of the kernel's device, to set or as it is.
type Peer struct {
	PublicKey    [32]byte
	Remove       bool
	PresharedKey [32]byte
	Endpoint     netip.AddrPort // not valid: keep what there is, or none
	Keepalive    uint16         // seconds
	AllowedIPs   []netip.Prefix

	// Only of a peer as it is.
	LastHandshake    time.Time // zero: none yet
	RxBytes, TxBytes uint64
}

// Device is the kernel's device to set, or as it is.
type Device struct {
	Index      int
	PrivateKey [32]byte // zero, to set: as it is
	ListenPort uint16
	SetPort    bool // to set: take ListenPort over
	Peers      []Peer
}

// From wireguard.h and genetlink.h.
const (
	genlVersion = 1

	cmdGetDevice = 0
	cmdSetDevice = 1

	deviceIfindex    = 1
	devicePrivateKey = 3
	deviceListenPort = 6
	devicePeers      = 8

	peerPublicKey     = 1
	peerPresharedKey  = 2
	peerFlags         = 3
	peerEndpoint      = 4
	peerKeepalive     = 5
	peerLastHandshake = 6
	peerRxBytes       = 7
	peerTxBytes       = 8
	peerAllowedIPs    = 9

	flagRemoveMe          = 1
	flagReplaceAllowedIPs = 2

	allowedFamily = 1
	allowedAddr   = 2
	allowedMask   = 3
)

// Family finds the number of the kernel's generic netlink family "wireguard";
// unix.ENOENT: the kernel has none.
func Family() (id uint16, err error) {
	n, err := exchange(unix.NETLINK_GENERIC, getFamily(binary.NativeEndian, "wireguard"), func(body []byte) error {
		id, err = parseFamily(binary.NativeEndian, body)
		return err
	})
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return 0, fmt.Errorf("the kernel's WireGuard: %w", err)
	}
	return id, nil
}

func genl(o Order, id uint16, flags uint16, cmd byte) *message {
	m := begin(o, id, flags)
	m.raw(cmd, genlVersion, 0, 0)
	return m
}

func getFamily(o Order, name string) *message {
	// With an acknowledgement, which ends the answer.
	m := genl(o, unix.GENL_ID_CTRL, unix.NLM_F_ACK, unix.CTRL_CMD_GETFAMILY)
	m.attrText(unix.CTRL_ATTR_FAMILY_NAME, name)
	return m
}

// genlHeaderLen is struct genlmsghdr.
const genlHeaderLen = 4

func parseFamily(o Order, body []byte) (id uint16, err error) {
	if len(body) < genlHeaderLen {
		return 0, fmt.Errorf("%w: %d bytes of a family", ErrMalformed, len(body))
	}
	err = attributes(o, body[genlHeaderLen:], func(typ uint16, v []byte) error {
		if typ == unix.CTRL_ATTR_FAMILY_ID && len(v) == 2 {
			id = o.Uint16(v)
		}
		return nil
	})
	if err == nil && id == 0 {
		err = fmt.Errorf("%w: a family without a number", ErrMalformed)
	}
	return id, err
}

// Set changes the kernel's device. Peers that d does not name stay.
func Set(id uint16, d Device) error {
	// A request has to fit the socket's buffer, and a nested attribute 64 KiB:
	// a peer is 300 bytes and 40 for each prefix.
	first := d
	first.Peers = nil
	if err := ask(unix.NETLINK_GENERIC, setDevice(binary.NativeEndian, id, first)); err != nil {
		return fmt.Errorf("set the kernel's WireGuard: %w", err)
	}
	for _, p := range d.Peers {
		if err := ask(unix.NETLINK_GENERIC, setDevice(binary.NativeEndian, id, Device{Index: d.Index, Peers: []Peer{p}})); err != nil {
			return fmt.Errorf("set a peer of the kernel's WireGuard: %w", err)
		}
	}
	return nil
}

func setDevice(o Order, id uint16, d Device) *message {
	m := genl(o, id, unix.NLM_F_ACK, cmdSetDevice)
	m.attrU32(deviceIfindex, uint32(d.Index))
	if d.PrivateKey != ([32]byte{}) {
		m.attr(devicePrivateKey, d.PrivateKey[:])
	}
	if d.SetPort {
		m.attrU16(deviceListenPort, d.ListenPort)
	}
	if len(d.Peers) == 0 {
		return m
	}
	m.nest(devicePeers, func() {
		for _, p := range d.Peers {
			m.nest(0, func() { m.peer(p) })
		}
	})
	return m
}

func (m *message) peer(p Peer) {
	m.attr(peerPublicKey, p.PublicKey[:])
	if p.Remove {
		m.attrU32(peerFlags, flagRemoveMe)
		return
	}
	m.attrU32(peerFlags, flagReplaceAllowedIPs)
	m.attr(peerPresharedKey, p.PresharedKey[:])
	if p.Endpoint.IsValid() {
		m.attr(peerEndpoint, m.sockaddr(p.Endpoint))
	}
	m.attrU16(peerKeepalive, p.Keepalive)
	m.nest(peerAllowedIPs, func() {
		for _, a := range p.AllowedIPs {
			m.nest(0, func() {
				m.attrU16(allowedFamily, uint16(family(a.Addr())))
				m.attr(allowedAddr, a.Addr().AsSlice())
				m.attrU8(allowedMask, uint8(a.Bits()))
			})
		}
	})
}

// sockaddr is struct sockaddr_in or sockaddr_in6. Port and address are in
// network byte order, family and scope in the machine's.
func (m *message) sockaddr(a netip.AddrPort) []byte {
	b := m.o.AppendUint16(nil, uint16(family(a.Addr())))
	b = binary.BigEndian.AppendUint16(b, a.Port())
	if a.Addr().Is4() {
		b = append(b, a.Addr().AsSlice()...)
		return append(b, make([]byte, 8)...)
	}
	b = append(b, 0, 0, 0, 0) // flow
	b = append(b, a.Addr().AsSlice()...)
	return m.o.AppendUint32(b, 0)
}

func parseSockaddr(o Order, b []byte) netip.AddrPort {
	switch {
	case len(b) >= 8 && o.Uint16(b) == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))
	case len(b) >= 24 && o.Uint16(b) == unix.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// Get returns the kernel's device. Its keys are not asked for.
func Get(id uint16, index int) (Device, error) {
	var d Device
	m := genl(binary.NativeEndian, id, unix.NLM_F_DUMP, cmdGetDevice)
	m.attrU32(deviceIfindex, uint32(index))
	_, err := exchange(unix.NETLINK_GENERIC, m, func(body []byte) error { return parseDevice(binary.NativeEndian, body, &d) })
	if err != nil {
		return d, fmt.Errorf("ask the kernel's WireGuard: %w", err)
	}
	return d, nil
}

// parseDevice adds one message of a dump to d. A peer with many prefixes goes
// on in the next message, with its key alone before them.
func parseDevice(o Order, body []byte, d *Device) error {
	if len(body) < genlHeaderLen {
		return fmt.Errorf("%w: %d bytes of a device", ErrMalformed, len(body))
	}
	return attributes(o, body[genlHeaderLen:], func(typ uint16, v []byte) error {
		switch {
		case typ == deviceIfindex && len(v) == 4:
			d.Index = int(o.Uint32(v))
		case typ == deviceListenPort && len(v) == 2:
			d.ListenPort = o.Uint16(v)
		case typ == devicePeers:
			return attributes(o, v, func(_ uint16, v []byte) error {
				p, err := parsePeer(o, v)
				if err != nil {
					return err
				}
				if n := len(d.Peers); n > 0 && d.Peers[n-1].PublicKey == p.PublicKey {
					d.Peers[n-1].AllowedIPs = append(d.Peers[n-1].AllowedIPs, p.AllowedIPs...)
				} else {
					d.Peers = append(d.Peers, p)
				}
				return nil
			})
		}
		return nil
	})
}

func parsePeer(o Order, b []byte) (p Peer, err error) {
	err = attributes(o, b, func(typ uint16, v []byte) error {
		switch {
		case typ == peerPublicKey && len(v) == 32:
			p.PublicKey = [32]byte(v)
		case typ == peerEndpoint:
			p.Endpoint = parseSockaddr(o, v)
		case typ == peerKeepalive && len(v) == 2:
			p.Keepalive = o.Uint16(v)
		case typ == peerLastHandshake && len(v) == 16: // struct __kernel_timespec
			if s, ns := int64(o.Uint64(v)), int64(o.Uint64(v[8:])); s != 0 || ns != 0 {
				p.LastHandshake = time.Unix(s, ns)
			}
		case typ == peerRxBytes && len(v) == 8:
			p.RxBytes = o.Uint64(v)
		case typ == peerTxBytes && len(v) == 8:
			p.TxBytes = o.Uint64(v)
		case typ == peerAllowedIPs:
			return attributes(o, v, func(_ uint16, v []byte) error {
				a, err := parseAllowed(o, v)
				if err == nil {
					p.AllowedIPs = append(p.AllowedIPs, a)
				}
				return err
			})
		}
		return nil
	})
	return p, err
}

func parseAllowed(o Order, b []byte) (netip.Prefix, error) {
	var a netip.Addr
	bits := -1
	err := attributes(o, b, func(typ uint16, v []byte) error {
		switch {
		case typ == allowedAddr:
			a, _ = netip.AddrFromSlice(v)
		case typ == allowedMask && len(v) == 1:
			bits = int(v[0])
		}
		return nil
	})
	p := netip.PrefixFrom(a, bits)
	if err == nil && !p.IsValid() {
		err = fmt.Errorf("%w: no prefix", ErrMalformed)
	}
	return p, err
}
