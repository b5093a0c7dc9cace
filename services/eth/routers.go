package eth

import (
	"fmt"
	"time"
)

const (
	// maxRoutes6 is how many IPv6 routes of all kinds there may be. A network with
	// two routers and three prefixes makes 20, a Thread network some dozens; the
	// kernel has no limit, and each advertisement of another router and prefix
	// takes 1 KiB of the gateway's memory.
	maxRoutes6 = 512
	// shunFor is how long routers are not listened to when there are more.
	shunFor = 2 * time.Minute
)

// boundRouters forgets what routers said, and stops listening to them for a while,
// when somebody floods the network with advertisements. It returns when to look
// again.
func (s *Service) boundRouters() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shunned.IsZero() {
		if left := time.Until(s.shunned); left > 0 {
			return left
		}
		s.shunned = time.Time{}
		s.acceptRouters()
		_ = s.opt.Kernel.SolicitRouters(s.link.Index) // they speak up by themselves, too
		s.opt.Log(s.opt.Interface + ": listening to IPv6 routers again")
	}
	n, _ := s.opt.Kernel.Routes6() // none without IPv6
	if n <= maxRoutes6 {
		return lookEvery
	}
	s.shunned = time.Now().Add(shunFor)
	s.acceptRouters()
	s.forgetIPv6()
	s.writeDNSLocked()
	s.opt.Log(fmt.Sprintf("%s: router advertisements made %d IPv6 routes: forgotten, and no router is listened to for %v", s.opt.Interface, n, shunFor))
	return shunFor
}

// Warnings are what nobody should miss, in words for the status of the box. It is
// safe for concurrent use.
func (s *Service) Warnings() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shunned.IsZero() {
		return nil
	}
	return []string{s.opt.Interface + ": a flood of IPv6 router advertisements: routers are not listened to, IPv4 works on; look for who sends them"}
}
