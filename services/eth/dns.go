package eth

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"gwinit/internal/netdev"
	"gwinit/internal/searchlist"
)

const (
	// maxRouterDNS bounds what routers can make this process remember: so many
	// name servers, and as many domains.
	maxRouterDNS = searchlist.Max
	// staleDNS is how long a router has to repeat what it advertises after the
	// cable was out, which may have come back elsewhere: the kernel asks for
	// an advertisement then.
	staleDNS = 10 * time.Second
)

// advertised is a name server or a domain.
type advertised struct {
	addr   netip.Addr // not valid: a domain
	domain string
}

// routerDNS is what a router advertises (RFC 8106).
type routerDNS struct {
	advertised
	said  time.Time // last
	until time.Time // zero: for ever
}

// subscribeDNS makes sure that what routers say of name servers and domains is heard.
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
	if d.Index != s.link.Index || !s.shunned.IsZero() {
		return
	}
	now := time.Now()
	var until time.Time
	if d.Lifetime != netdev.Forever {
		until = now.Add(d.Lifetime) // 0: at once
	}
	for _, addr := range d.Servers {
		if addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(s.opt.Interface)
		}
		s.keepDNSLocked(routerDNS{advertised{addr: addr}, now, until})
	}
	for _, domain := range d.Search {
		s.keepDNSLocked(routerDNS{advertised{domain: domain}, now, until})
	}
	s.endDNSLocked()
	s.writeDNSLocked()
}

// keepDNSLocked keeps one thing that a router says. One that is repeated keeps its
// place, so that the file stays as it is. Of too many of a kind the one goes that
// was said longest ago: a router that named more than are kept, for ever, and is
// gone, must not keep out those of one that is there.
func (s *Service) keepDNSLocked(r routerDNS) {
	kind, oldest := 0, -1
	for i := range s.routerDNS {
		k := &s.routerDNS[i]
		if k.advertised == r.advertised {
			*k = r
			return
		}
		if k.addr.IsValid() != r.addr.IsValid() {
			continue
		}
		kind++
		if oldest < 0 || k.said.Before(s.routerDNS[oldest].said) {
			oldest = i
		}
	}
	if r.until.Equal(r.said) {
		return // withdrawn, and not known
	}
	if kind == maxRouterDNS {
		if !s.routerDNS[oldest].said.Before(r.said) {
			return // the same router's: the first ones of it stay
		}
		s.routerDNS = slices.Delete(s.routerDNS, oldest, oldest+1)
	}
	s.routerDNS = append(s.routerDNS, r)
}

// doubtDNSLocked lets what routers advertised end soon unless it is said again.
func (s *Service) doubtDNSLocked() {
	soon := time.Now().Add(staleDNS)
	for i, r := range s.routerDNS {
		if r.until.IsZero() || r.until.After(soon) {
			s.routerDNS[i].until = soon
		}
	}
}

// endDNSLocked drops what is advertised no longer, and returns when the next one
// ends.
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
		if r.addr.IsValid() {
			list = append(list, r.addr)
		}
	}
	return append(list, to.dns[first:]...)
}

// searchLocked are the domains of both families, the DHCP server's or eth0.conf's
// first.
func (s *Service) searchLocked(to setup) []string {
	list := slices.Clone(to.search)
	for _, r := range s.routerDNS {
		if r.domain != "" && !slices.Contains(list, r.domain) {
			list = append(list, r.domain)
		}
	}
	return list[:min(len(list), searchlist.Max)]
}
