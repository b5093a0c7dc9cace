package eth

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/netdev"
	"gwinit/services/eth/arp"
	"gwinit/services/eth/dhcp"
)

// guardSettle is how long a link has to stay before the others on it are asked and
// told again whose the address is. A lease's is asked for by the DHCP client, once
// a server has said that it holds here, too.
const guardSettle = time.Second

// conflict is another host that has an address of ours.
type conflict struct {
	addr netip.Addr
	mac  netdev.MAC
}

// guarding is what watches over the address in use; Service.mu guards it.
type guarding struct {
	ctx    context.Context // of the link, nil while there is none
	client *dhcp.Client    // nil: static
	addr   netip.Addr      // guarded, if it is valid
	stop   context.CancelFunc
	again  time.Time // when the address is guarded anew; zero: the guard stands
	moved  bool      // the link was away since the guard began
}

// guardLocked sees to it that the address in use, and no other, is guarded. anew
// begins over again, as the link may be another one.
func (s *Service) guardLocked(anew bool) {
	g := &s.guard
	addr := s.cur.addr.Addr()
	if g.ctx == nil || addr == g.addr && !anew {
		return
	}
	if g.stop != nil {
		g.stop()
		g.stop = nil
	}
	if g.addr, g.again, g.moved = addr, (time.Time{}), false; !addr.IsValid() {
		return
	}
	ctx, stop := context.WithCancel(g.ctx)
	g.stop = stop
	host := arp.Host{MAC: s.link.MAC, Open: s.opt.ARP(s.link)}
	// Whether somebody has a lease's address was asked before it was used.
	check, client := s.cur.method != "dhcp", g.client
	s.guards.Go(func() {
		err := host.Guard(ctx, addr, check, func(other netdev.MAC, used bool) {
			if s.shared(ctx, conflict{addr, other}, used) && client != nil {
				client.Conflict(addr, other)
			}
		})
		if err != nil && ctx.Err() == nil { // INV 11
			s.opt.Log(fmt.Sprintf("%s: %v is not watched over: %v", s.opt.Interface, addr, err))
		}
	})
}

// shared notes that another host uses our address, or does so no longer, and
// returns whether it does. After ctx it is of the past.
func (s *Service) shared(ctx context.Context, c conflict, used bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	if !used {
		s.conflict = conflict{}
		s.opt.Log(fmt.Sprintf("%s: no other host uses %v any more", s.opt.Interface, c.addr))
		return false
	}
	if s.conflict != c {
		s.conflict = c
		s.opt.Log(fmt.Sprintf("%s: %v is also used by %v: give one of the two another address", s.opt.Interface, c.addr, c.mac))
	}
	return true
}

// conflicts are the addresses of this host that another one has, for a status.
func conflicts(v4 conflict, addrs []netdev.Addr) []api.Conflict {
	var list []api.Conflict
	if v4.addr.IsValid() {
		list = append(list, api.Conflict{Address: v4.addr.String(), MAC: v4.mac.String()})
	}
	for _, a := range addrs {
		if a.Duplicate {
			list = append(list, api.Conflict{Address: a.Prefix.Addr().String()})
		}
	}
	return list
}
