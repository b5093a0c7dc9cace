package eth

import (
	"fmt"
	"net/netip"
	"time"

	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/services/eth/dhcp"
)

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// static makes the configuration of st; method is also the state's name.
func static(st *config.Static, method string) setup {
	to := setup{method: method, state: method, addr: st.Addr, gateway: st.Gateway, dns: st.DNS}
	if st.Domain != "" {
		to.search = []string{st.Domain}
	}
	to.standIn = method == "fallback"
	if st.Gateway.IsValid() {
		to.routes = []netdev.Route{{Dst: anywhere, Via: st.Gateway, OnLink: st.OnLink}}
	}
	return to
}

// publicDNS stands in where a server names none, as on the firmware before.
var publicDNS = netip.AddrFrom4([4]byte{8, 8, 8, 8})

// leased makes the configuration of a lease.
func leased(l dhcp.Lease) setup {
	to := setup{method: "dhcp", state: "bound", addr: l.Addr, broadcast: l.Broadcast, dns: l.DNS, ntp: l.NTP, search: l.Search, server: l.Server, mtu: l.MTU}
	if l.Duration != dhcp.Infinite {
		to.expires = l.Acquired.Add(l.Duration)
	}
	if len(to.dns) == 0 {
		to.dns, to.standIn = []netip.Addr{publicDNS}, true
	}
	if len(to.search) == 0 && l.Domain != "" {
		to.search = []string{l.Domain}
	}
	for _, r := range l.Routes {
		route := netdev.Route{Dst: r.Dst}
		if !r.Via.IsUnspecified() {
			route.Via, route.OnLink = r.Via, !l.Addr.Contains(r.Via)
		}
		to.routes = append(to.routes, route)
		if r.Dst.Bits() == 0 {
			to.gateway = route.Via
		}
	}
	if len(l.Routers) > 0 {
		// One default route: the kernel would take the first of several
		// with one metric anyway.
		to.gateway = l.Routers[0]
		to.routes = append(to.routes, netdev.Route{Dst: anywhere, Via: to.gateway, OnLink: !l.Addr.Contains(to.gateway)})
	}
	return to
}

// resume goes on with the lease of the process before.
func (s *Service) resume(l dhcp.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Log(fmt.Sprintf("%s: still %v from %v %s", s.opt.Interface, l.Addr, l.Server, term(l.Left(time.Now()))))
	s.lease, s.network = &l, l.Addr.Masked()
	s.applyLocked(leased(l))
}

// term is how long a lease lasts, in words.
func term(d time.Duration) string {
	if d == dhcp.Infinite {
		return "for ever"
	}
	return "for " + d.Round(time.Second).String()
}

// handler is the Service as the DHCP client sees it.
type handler Service

// Bound implements dhcp.Handler.
func (h *handler) Bound(l dhcp.Lease) {
	s := (*Service)(h)
	to := leased(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur.addr != to.addr || s.cur.state != to.state || s.lease == nil || s.lease.Server != l.Server {
		s.opt.Log(fmt.Sprintf("%s: %v from %v %s", s.opt.Interface, l.Addr, l.Server, term(l.Duration)))
	}
	if before := s.network; before.IsValid() && before != to.addr.Masked() {
		s.forgetIPv6()
	}
	s.network = to.addr.Masked()
	s.lease, s.conflict = &l, conflict{}
	s.applyLocked(to)
	if s.guard.moved {
		s.guardLocked(true)
	}
}

// forgetIPv6 has the kernel drop the addresses and routes of the network that the
// cable was in before, which it would else use for as long as their router said,
// and begin anew.
func (s *Service) forgetIPv6() {
	name := "net/ipv6/conf/" + s.link.Name + "/disable_ipv6"
	s.setSysctl(name, "1")
	s.setSysctl(name, "0")
	s.routerDNS = nil
}

// InUse implements dhcp.Handler.
func (h *handler) InUse(addr netip.Addr, other [6]byte) {
	s := (*Service)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conflict = conflict{addr, other}
}

// Lost implements dhcp.Handler.
func (h *handler) Lost(why string) {
	s := (*Service)(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.Log(fmt.Sprintf("%s: address %v lost: %s", s.opt.Interface, s.cur.addr, why))
	s.lease = nil
	s.applyLocked(setup{method: "dhcp", state: "asking"})
}

// NoServer implements dhcp.Handler.
func (h *handler) NoServer() {
	s := (*Service)(h)
	fallback := &s.cfg.Fallback
	s.opt.Log(fmt.Sprintf("%s: no address from a DHCP server; using %v until there is one", s.opt.Interface, fallback.Addr))
	s.apply(static(fallback, "fallback"))
}

// Event implements dhcp.Handler.
func (h *handler) Event(text string) {
	h.opt.Log(h.opt.Interface + ": " + text)
}
