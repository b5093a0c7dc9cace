package nl

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// TxQueueLen is how many packets wait for a tunnel at most. The kernel's 500
// would be 1.1 MiB of memory, and more than a second's worth at what this CPU
// encrypts.
const TxQueueLen = 64

// ifinfomsg appends struct ifinfomsg.
func (m *message) ifinfomsg(index int, flags, change uint32) {
	m.raw(unix.AF_UNSPEC, 0, 0, 0)
	m.u32(uint32(index))
	m.u32(flags)
	m.u32(change)
}

// addLink makes a link of a kind.
func addLink(o Order, name, kind string) *message {
	m := begin(o, unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	m.ifinfomsg(0, 0, 0)
	m.attrText(unix.IFLA_IFNAME, name)
	m.nest(unix.IFLA_LINKINFO, func() { m.attrText(unix.IFLA_INFO_KIND, kind) })
	return m
}

func delLink(o Order, index int) *message {
	m := begin(o, unix.RTM_DELLINK, unix.NLM_F_ACK)
	m.ifinfomsg(index, 0, 0)
	return m
}

// setLink brings a link up with an MTU and a short queue.
func setLink(o Order, index, mtu int) *message {
	m := begin(o, unix.RTM_NEWLINK, unix.NLM_F_ACK)
	m.ifinfomsg(index, unix.IFF_UP, unix.IFF_UP)
	m.attrU32(unix.IFLA_MTU, uint32(mtu))
	m.attrU32(unix.IFLA_TXQLEN, TxQueueLen)
	return m
}

// addr adds or removes an address.
func addr(o Order, add bool, index int, p netip.Prefix) *message {
	m := begin(o, unix.RTM_DELADDR, unix.NLM_F_ACK)
	if add {
		m = begin(o, unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	}
	m.raw(family(p.Addr()), byte(p.Bits()), 0, unix.RT_SCOPE_UNIVERSE)
	m.u32(uint32(index))
	m.attr(unix.IFA_LOCAL, p.Addr().AsSlice())
	m.attr(unix.IFA_ADDRESS, p.Addr().AsSlice())
	return m
}

// route adds or removes a route to p by a link. One that is there already, by
// whatever link, stays and is an error.
func route(o Order, add bool, index int, p netip.Prefix) *message {
	m := begin(o, unix.RTM_DELROUTE, unix.NLM_F_ACK)
	if add {
		m = begin(o, unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	}
	m.raw(family(p.Addr()), byte(p.Bits()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_LINK, unix.RTN_UNICAST)
	m.u32(0)
	m.attr(unix.RTA_DST, p.Addr().AsSlice())
	m.attrU32(unix.RTA_OIF, uint32(index))
	return m
}
