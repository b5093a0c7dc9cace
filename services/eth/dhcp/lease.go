package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"gwinit/internal/searchlist"
)

// ErrLease is what every refusal of a server's offer or answer wraps.
var ErrLease = errors.New("unusable lease")

// Infinite is the duration of a lease that does not end (RFC 2131 section 3.3:
// 0xffffffff).
const Infinite time.Duration = math.MaxInt64

const (
	// defaultLease stands in for a missing option 51, which RFC 2131 table 3
	// demands and a BOOTP server does not send.
	defaultLease = time.Hour
	// minLease keeps a server that leases for seconds from making the client
	// ask all the time.
	minLease = 10 * time.Second
)

// Route is one classless static route (RFC 3442).
type Route struct {
	Dst netip.Prefix
	Via netip.Addr // 0.0.0.0: Dst is on the link
}

// Lease is what a server granted, with everything that is not sane left out.
type Lease struct {
	Addr netip.Prefix // the address with its prefix length
	// Broadcast is option 28 if it is an address of Addr's network; not valid:
	// the last one.
	Broadcast netip.Addr
	Server    netip.Addr   // option 54, who is asked for a renewal
	Routers   []netip.Addr // option 3, hosts other than Addr; empty when Routes holds something (RFC 3442)
	Routes    []Route      // option 121
	DNS       []netip.Addr // option 6
	NTP       []netip.Addr // option 42
	Domain    string       // option 15, a valid name or empty
	Search    []string     // option 119, valid names
	MTU       int          // option 26, 576..1500, or 0

	// From Acquired on; T1 <= T2 <= Duration.
	Duration, T1, T2 time.Duration
	// Acquired is when the request that was granted left (RFC 2131 section
	// 4.4.1), with a monotonic reading (INV 13). JSON cannot hold that.
	Acquired time.Time `json:"-"`
}

// Left returns how much of the lease is left at now, at least 0, or Infinite.
func (l Lease) Left(now time.Time) time.Duration {
	if l.Duration == Infinite {
		return Infinite
	}
	return max(0, l.Duration-now.Sub(l.Acquired))
}

// parseLease reads an OFFER or ACK. Acquired is left to the caller.
func parseLease(m *dhcpv4.DHCPv4) (Lease, error) {
	addr, ok := hostAddr(m.YourIPAddr)
	if !ok {
		return Lease{}, fmt.Errorf("%w: address %v", ErrLease, m.YourIPAddr)
	}
	l := Lease{}
	bits := classfulBits(addr)
	if mask := m.Options.Get(dhcpv4.OptionSubnetMask); mask != nil {
		ones, size := net.IPMask(mask).Size()
		if size != 32 || ones == 0 {
			return Lease{}, fmt.Errorf("%w: mask %x", ErrLease, mask)
		}
		bits = ones
	}
	l.Addr = netip.PrefixFrom(addr, bits)
	if !isHost(l.Addr, addr) {
		return Lease{}, fmt.Errorf("%w: %v is its network's own address or broadcast", ErrLease, l.Addr)
	}
	if l.Server, ok = hostAddr(m.Options.Get(dhcpv4.OptionServerIdentifier)); !ok {
		return Lease{}, fmt.Errorf("%w: no server identifier", ErrLease)
	}
	if b := m.Options.Get(dhcpv4.OptionBroadcastAddress); len(b) == net.IPv4len {
		if a := netip.AddrFrom4([4]byte(b)); l.Addr.Contains(a) && a != addr && bits < 31 {
			l.Broadcast = a
		}
	}
	l.Routers = slices.DeleteFunc(addrList(m.Options.Get(dhcpv4.OptionRouter)), func(a netip.Addr) bool {
		return a == addr || !isHost(l.Addr, a)
	})
	l.DNS = addrList(m.Options.Get(dhcpv4.OptionDomainNameServer))
	l.NTP = addrList(m.Options.Get(dhcpv4.OptionNTPServers))
	if routes := parseRoutes(m.Options.Get(dhcpv4.OptionClasslessStaticRoute)); len(routes) > 0 {
		l.Routes, l.Routers = routes, nil
	}
	if d := trimNul(m.Options.Get(dhcpv4.OptionDomainName)); searchlist.Valid(d) {
		l.Domain = d
	}
	l.Search = searchlist.Parse(m.Options.Get(dhcpv4.OptionDNSDomainSearchList))
	if b := m.Options.Get(dhcpv4.OptionInterfaceMTU); len(b) == 2 {
		if mtu := int(binary.BigEndian.Uint16(b)); mtu >= 576 && mtu <= 1500 {
			l.MTU = mtu
		}
	}

	l.Duration = defaultLease
	if d, ok := seconds(m.Options.Get(dhcpv4.OptionIPAddressLeaseTime)); ok {
		l.Duration = max(d, minLease)
	}
	if l.Duration == Infinite {
		l.T1, l.T2 = Infinite, Infinite
		return l, nil
	}
	// RFC 2131 section 4.4.5, also for a server whose own figures are not
	// in order.
	l.T1, l.T2 = l.Duration/2, l.Duration/8*7
	t1, ok1 := seconds(m.Options.Get(dhcpv4.OptionRenewTimeValue))
	t2, ok2 := seconds(m.Options.Get(dhcpv4.OptionRebindingTimeValue))
	if ok2 && t2 >= minLease/2 && t2 < l.Duration {
		l.T2 = t2
	}
	if ok1 && t1 >= minLease/2 && t1 < l.T2 {
		l.T1 = t1
	}
	l.T1 = min(l.T1, l.T2)
	return l, nil
}

// hostAddr reads the first address of b if a host can have it.
func hostAddr(b []byte) (netip.Addr, bool) {
	if len(b) == net.IPv6len { // net.IPv4zero and friends
		b = net.IP(b).To4()
	}
	if len(b) < net.IPv4len {
		return netip.Addr{}, false
	}
	a := netip.AddrFrom4([4]byte(b))
	return a, !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() && a.As4()[0] < 240 && a.As4()[0] != 0
}

// isHost tells whether a is neither the first nor the last address of p, unless
// that is so short that they are hosts' (RFC 3021).
func isHost(p netip.Prefix, a netip.Addr) bool {
	if p.Bits() >= 31 || !p.Contains(a) {
		return true
	}
	b := a.As4()
	host := binary.BigEndian.Uint32(b[:]) & (math.MaxUint32 >> p.Bits())
	return host != 0 && host != math.MaxUint32>>p.Bits()
}

// addrList reads addresses, at most 8, leaving out what no host can have.
func addrList(b []byte) []netip.Addr {
	var list []netip.Addr
	for ; len(b) >= net.IPv4len && len(list) < 8; b = b[net.IPv4len:] {
		if a, ok := hostAddr(b[:net.IPv4len]); ok {
			list = append(list, a)
		}
	}
	return list
}

func parseRoutes(b []byte) []Route {
	var in dhcpv4.Routes
	if len(b) == 0 || in.FromBytes(b) != nil {
		return nil
	}
	var out []Route
	for _, r := range in {
		dst, ok := netip.AddrFromSlice(r.Dest.IP)
		via, okVia := netip.AddrFromSlice(r.Router)
		ones, _ := r.Dest.Mask.Size()
		if !ok || !okVia || via.IsMulticast() || len(out) == 16 {
			continue
		}
		p, err := dst.Prefix(ones)
		if err != nil {
			continue
		}
		out = append(out, Route{Dst: p, Via: via})
	}
	return out
}

func seconds(b []byte) (time.Duration, bool) {
	if len(b) != 4 {
		return 0, false
	}
	n := binary.BigEndian.Uint32(b)
	if n == math.MaxUint32 {
		return Infinite, true
	}
	return time.Duration(n) * time.Second, true
}

// classfulBits is the prefix length of an address that came without a mask.
func classfulBits(a netip.Addr) int {
	switch b := a.As4()[0]; {
	case b < 128:
		return 8
	case b < 192:
		return 16
	}
	return 24
}

func trimNul(b []byte) string {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return string(b)
}
