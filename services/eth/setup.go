package eth

import (
	"fmt"
	"net/netip"
	"time"

	"gwinit/internal/config"
	"gwinit/internal/netdev"
	"gwinit/services/eth/dhcp"
)

// static is a config.Static that can be used.
type static struct {
	config.Static
	onLink bool // the gateway is in no prefix of ours
}

// usable checks that address, mask and gateway fit each other. It returns nil
// if there is nothing to use (c is nil, or no host can have that address), and
// what is wrong, each with what happens instead.
func usable(c *config.Static) (*static, []string) {
	if c == nil {
		return nil, nil
	}
	st := &static{Static: *c}
	a := c.Addr.Addr()
	switch bad := ""; {
	case !c.Addr.IsValid() || !a.Is4():
		return nil, []string{"no IPv4 address and mask; using DHCP"}
	default:
		switch {
		case a.IsUnspecified() || a.As4()[0] == 0 || a.IsLoopback() || a.IsMulticast() || a.As4()[0] >= 240 || c.Addr.Bits() == 0:
			bad = "is none that a host can have"
		case c.Addr.Bits() < 31 && a == c.Addr.Masked().Addr():
			bad = "is the network's own"
		case c.Addr.Bits() < 31 && a == lastAddr(c.Addr):
			bad = "is the broadcast address"
		}
		if bad != "" {
			return nil, []string{fmt.Sprintf("address %v %s; using DHCP", c.Addr, bad)}
		}
	}
	var problems []string
	switch g := c.Gateway; {
	case !g.IsValid():
	case !g.Is4() || g == a || g.IsUnspecified() || g.IsMulticast() || g.IsLoopback():
		problems = append(problems, fmt.Sprintf("gateway %v cannot be one; using no default route", g))
		st.Gateway = netip.Addr{}
	case c.Addr.Contains(g) && c.Addr.Bits() < 31 && (g == c.Addr.Masked().Addr() || g == lastAddr(c.Addr)):
		problems = append(problems, fmt.Sprintf("gateway %v is no host of %v; using no default route", g, c.Addr.Masked()))
		st.Gateway = netip.Addr{}
	case !c.Addr.Contains(g):
		problems = append(problems, fmt.Sprintf("gateway %v is not in %v; using it as if it were on the cable", g, c.Addr.Masked()))
		st.onLink = true
	}
	return st, problems
}

// lastAddr is the broadcast address of an IPv4 prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

var anywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// setup makes the configuration; method is also the state's name.
func (st *static) setup(method string) setup {
	to := setup{method: method, state: method, addr: st.Addr, gateway: st.Gateway, dns: st.DNS}
	if st.Domain != "" {
		to.search = []string{st.Domain}
	}
	if st.Gateway.IsValid() {
		to.routes = []netdev.Route{{Dst: anywhere, Via: st.Gateway, OnLink: st.onLink}}
	}
	return to
}

// publicDNS stands in where a server names none, as on the firmware before.
var publicDNS = netip.AddrFrom4([4]byte{8, 8, 8, 8})

// leased makes the configuration of a lease.
func leased(l dhcp.Lease) setup {
	to := setup{method: "dhcp", state: "bound", addr: l.Addr, dns: l.DNS, search: l.Search, server: l.Server, mtu: l.MTU}
	if l.Duration != dhcp.Infinite {
		to.expires = l.Acquired.Add(l.Duration)
	}
	if len(to.dns) == 0 {
		to.dns = []netip.Addr{publicDNS}
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
	if len(l.Routers) > 0 && l.Routers[0] != l.Addr.Addr() {
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
	s.lease = &l
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
	s.lease = &l
	s.applyLocked(to)
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
	fallback, problems := usable(&s.cfg.Fallback)
	s.report("eth0.bak", problems)
	if fallback == nil {
		s.opt.Log(s.opt.Interface + ": no DHCP server answers; still asking")
		return
	}
	s.opt.Log(fmt.Sprintf("%s: no DHCP server answers; using %v until one does", s.opt.Interface, fallback.Addr))
	s.apply(fallback.setup("fallback"))
}

// Event implements dhcp.Handler.
func (h *handler) Event(text string) {
	h.opt.Log(h.opt.Interface + ": " + text)
}
