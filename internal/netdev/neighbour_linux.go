package netdev

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Neighbour is a host on the link, as the kernel's ARP or ND table has it.
type Neighbour struct {
	Addr netip.Addr // without a zone
	// Answers tells that it has answered since it was last asked, Asking that
	// it is being asked. Neither: it did not answer, or was not asked lately.
	Answers, Asking bool

	entry netlink.Neigh
}

// Gateways returns the next hops of the interface's default routes, IPv4 first,
// a link-local one with its zone.
func (s System) Gateways(index int, name string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{LinkIndex: index, Table: unix.RT_TABLE_MAIN},
			netlink.RT_FILTER_OIF|netlink.RT_FILTER_TABLE)
		if err != nil {
			if family == netlink.FAMILY_V6 && errors.Is(err, unix.EAFNOSUPPORT) {
				continue
			}
			return nil, fmt.Errorf("list routes of link %d: %w", index, err)
		}
		for _, r := range routes {
			via, ok := netip.AddrFromSlice(r.Gw)
			if dst, is := prefix(r.Dst); !ok || is && dst.Bits() > 0 {
				continue
			}
			if via = via.Unmap(); via.IsLinkLocalUnicast() && via.Is6() {
				via = via.WithZone(name)
			}
			all = append(all, via)
		}
	}
	return all, nil
}

// Neighbour returns what the interface's tables have of an address, whose zone is
// not looked at, and false if it is nothing. It asks for that one: in a flood the
// tables have a thousand.
func (System) Neighbour(index int, addr netip.Addr) (Neighbour, bool) {
	family := uint8(unix.AF_INET)
	if addr.Is6() {
		family = unix.AF_INET6
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETNEIGH, 0)
	req.AddData(&netlink.Ndmsg{Family: family, Index: uint32(index)})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, addr.AsSlice()))
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH)
	if err != nil || len(msgs) != 1 {
		return Neighbour{}, false
	}
	e, err := netlink.NeighDeserialize(msgs[0])
	if err != nil {
		return Neighbour{}, false
	}
	return Neighbour{
		Addr:    addr.WithZone(""),
		Answers: e.State&unix.NUD_REACHABLE != 0,
		Asking:  e.State&(unix.NUD_INCOMPLETE|unix.NUD_DELAY|unix.NUD_PROBE) != 0,
		entry:   *e,
	}, true
}

// AskNeighbour has the kernel ask n now whether it is still there, with up to
// three unicast questions a second apart; Answers is false until it says so. A
// neighbour whose address is not known is asked by sending something to it.
func (System) AskNeighbour(n Neighbour) error {
	e := n.entry
	if e.State&(unix.NUD_REACHABLE|unix.NUD_STALE|unix.NUD_DELAY) == 0 {
		return nil
	}
	// A router stays one: the kernel takes the flag from us.
	err := netlink.NeighSet(&netlink.Neigh{
		LinkIndex: e.LinkIndex, Family: e.Family, IP: e.IP,
		State: unix.NUD_PROBE, Flags: e.Flags & unix.NTF_ROUTER,
	})
	if err != nil {
		return fmt.Errorf("ask neighbour %v on link %d: %w", n.Addr, e.LinkIndex, err)
	}
	return nil
}

// ForgetNeighbours removes what the kernel has learnt from the interface's tables.
func (System) ForgetNeighbours(index int) error {
	all, err := netlink.NeighList(index, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list neighbours of link %d: %w", index, err)
	}
	for _, e := range all {
		if e.State&(unix.NUD_PERMANENT|unix.NUD_NOARP) != 0 {
			continue
		}
		if err := netlink.NeighDel(&e); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("forget neighbour %v on link %d: %w", e.IP, index, err)
		}
	}
	return nil
}
