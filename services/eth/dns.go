package eth

import (
	"context"
	"net/netip"
	"time"

	"gwinit/internal/netdev"
)

const (
	// maxRouterDNS bounds what routers can make this process remember.
	maxRouterDNS = 6
	// staleDNS is how long a router has to repeat its name servers after the
	// cable was out, which may have come back elsewhere: the kernel asks for
	// an advertisement then.
	staleDNS = 10 * time.Second
)

// routerDNS is a name server that a router advertises (RFC 8106).
type routerDNS struct {
	addr  netip.Addr
	until time.Time // zero: for ever
}

// subscribeDNS makes sure that what routers say of name servers is heard.
func (s *Service) subscribeDNS(ctx context.Context) {
	if s.routers != nil || ctx.Err() != nil {
		return
	}
	routers, err := s.opt.Kernel.WatchDNS(ctx)
	if err != nil {
		if !s.routersSaid {
			s.routersSaid = true
			s.opt.Log(err.Error())
		}
		return
	}
	s.routers, s.routersSaid = routers, false
}

// heard takes over what a router says.
func (s *Service) heard(d netdev.RouterDNS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Index != s.link.Index {
		return
	}
	var until time.Time
	if d.Lifetime != netdev.Forever {
		until = time.Now().Add(d.Lifetime) // 0: at once
	}
	for _, addr := range d.Servers {
		if addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(s.opt.Interface)
		}
		// One that is repeated keeps its place, so that the file stays as it is.
		i := 0
		for i < len(s.routerDNS) && s.routerDNS[i].addr != addr {
			i++
		}
		if i == len(s.routerDNS) {
			if i == maxRouterDNS {
				continue
			}
			s.routerDNS = append(s.routerDNS, routerDNS{addr: addr})
		}
		s.routerDNS[i].until = until
	}
	s.endDNSLocked()
	s.writeDNSLocked()
}

// doubtDNSLocked lets the name servers of routers end soon unless they are said
// again.
func (s *Service) doubtDNSLocked() {
	soon := time.Now().Add(staleDNS)
	for i, r := range s.routerDNS {
		if r.until.IsZero() || r.until.After(soon) {
			s.routerDNS[i].until = soon
		}
	}
}

// endDNSLocked drops name servers whose time is over, and returns when the next
// one's is.
func (s *Service) endDNSLocked() time.Duration {
	next := lookEvery
	kept := s.routerDNS[:0]
	for _, r := range s.routerDNS {
		if !r.until.IsZero() {
			left := time.Until(r.until)
			if left <= 0 {
				continue
			}
			next = min(next, left)
		}
		kept = append(kept, r)
	}
	if ended := len(kept) < len(s.routerDNS); ended {
		s.routerDNS = kept
		s.writeDNSLocked()
	}
	return next
}

// writeDNSLocked writes resolv.conf, and tells who asks name servers if that
// changed it.
func (s *Service) writeDNSLocked() {
	changed, err := s.writeResolv(s.cur)
	if err != nil {
		s.opt.Log(err.Error())
	}
	if changed {
		s.opt.Changed()
	}
}

// nameServersLocked are those of both families, in the order in which they
// should be asked. A resolver reads three: one of each family is among them.
// What only stands in for the DHCP server's comes last.
func (s *Service) nameServersLocked(to setup) []netip.Addr {
	list := make([]netip.Addr, 0, len(to.dns)+maxRouterDNS)
	first := min(len(to.dns), 2)
	if to.standIn {
		first = 0
	}
	list = append(list, to.dns[:first]...)
	for _, r := range s.routerDNS {
		list = append(list, r.addr)
	}
	return append(list, to.dns[first:]...)
}
