package eth

import (
	"context"
	"net/netip"
	"slices"
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
	for _, addr := range d.Servers {
		if addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(s.opt.Interface)
		}
		if s.routerDNS = slices.DeleteFunc(s.routerDNS, func(r routerDNS) bool { return r.addr == addr }); d.Lifetime <= 0 {
			continue
		}
		r := routerDNS{addr: addr}
		if d.Lifetime != netdev.Forever {
			r.until = time.Now().Add(d.Lifetime)
		}
		if len(s.routerDNS) < maxRouterDNS {
			s.routerDNS = append(s.routerDNS, r)
		}
	}
	// A router repeats itself in any order; the file shall not change for it.
	slices.SortFunc(s.routerDNS, func(a, b routerDNS) int { return a.addr.Compare(b.addr) })
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
	before := len(s.routerDNS)
	s.routerDNS = slices.DeleteFunc(s.routerDNS, func(r routerDNS) bool {
		if r.until.IsZero() {
			return false
		}
		left := time.Until(r.until)
		if left > 0 {
			next = min(next, left)
		}
		return left <= 0
	})
	if len(s.routerDNS) != before {
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
	v4 := to.dns
	v6 := make([]netip.Addr, 0, maxRouterDNS)
	for _, r := range s.routerDNS {
		v6 = append(v6, r.addr)
	}
	first := min(len(v4), 2)
	if to.standIn {
		first = 0
	}
	return slices.Concat(v4[:first], v6, v4[first:])
}
