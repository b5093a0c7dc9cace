// Package netdev is one network interface as the kernel has it: link state,
// MAC, addresses and routes over rtnetlink, and a signal when a link changes.
//
// It decides nothing: services/eth does. What it hides is
// github.com/vishvananda/netlink and the few files below /proc and /sys that
// say what rtnetlink does not. The fake is in netdevtest.
package netdev

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"time"
)

// ErrNoLink is wrapped when there is no interface of that name.
var ErrNoLink = errors.New("no such interface")

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the address as aa:bb:cc:dd:ee:ff.
func (m MAC) String() string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 17)
	for i, v := range m {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[v>>4], digits[v&15])
	}
	return string(b)
}

// Link is an interface's state.
type Link struct {
	Index   int
	Name    string
	MAC     MAC
	MTU     int  // bytes
	Up      bool // administratively
	Carrier bool // there is a link partner; false while down
	// Changes counts the carrier's changes since the interface exists, both
	// ways; 0 where the kernel does not say.
	Changes   uint64
	SpeedMbit int // 0: not known
}

// Addr is an address of an interface.
type Addr struct {
	Prefix netip.Prefix // host address and prefix length
	// Valid is how long the kernel keeps it; 0: for ever. It removes the
	// address then even if nobody runs who would.
	Valid time.Duration
	// Broadcast is an IPv4 address's; not valid: the last one of Prefix.
	// Addrs does not tell it.
	Broadcast netip.Addr
	// Tentative: an IPv6 address of which the kernel does not know yet, or
	// knows that not, whether nobody else has it.
	Tentative bool
	// Duplicate: an IPv6 address that somebody else has (IFA_F_DADFAILED); it
	// is Tentative for ever.
	Duplicate bool
}

// RouterDNS is what a router's advertisement says of name servers (RFC 8106
// section 5.1), or of domains in which short names are looked up (section 5.2).
type RouterDNS struct {
	Index    int // the interface
	Servers  []netip.Addr
	Search   []string      // valid names
	Lifetime time.Duration // 0: not to be used any more
}

// Forever is a Lifetime that does not end.
const Forever time.Duration = math.MaxInt64

// Route is an IPv4 route out of an interface.
type Route struct {
	Dst    netip.Prefix // 0.0.0.0/0: the default route
	Via    netip.Addr   // not valid: Dst is on the link
	OnLink bool         // Via is on the link although no prefix says so
}

// Kernel is what services need from the kernel. Its methods block for a system
// call's time and are safe for concurrent use; errors say what was tried on
// which interface.
type Kernel interface {
	// Link returns the state of the interface called name, or ErrNoLink.
	Link(name string) (Link, error)
	// SetUp changes the administrative state.
	SetUp(index int, up bool) error
	// SetMAC changes the address; most drivers refuse while the link is up.
	SetMAC(index int, mac MAC) error
	// SetMTU changes the MTU, in bytes.
	SetMTU(index, mtu int) error
	// Addrs returns every address, IPv4 first.
	Addrs(index int) ([]Addr, error)
	// SetAddr adds an IPv4 address or changes its lifetime.
	SetAddr(index int, a Addr) error
	// DelAddr removes an address; one that is not there is no error.
	DelAddr(index int, p netip.Prefix) error
	// SetRoutes makes routes the interface's only IPv4 routes that a
	// service set; those of the kernel, and those that somebody added by
	// hand, stay.
	SetRoutes(index int, routes []Route) error
	// Watch sends, without ever blocking, after something changed at some
	// link or in the IPv6 routes. Changes that follow each other quickly may be
	// one signal, 50 to 250 ms later. The channel is closed once ctx has ended
	// and nothing runs any more.
	Watch(ctx context.Context) (<-chan struct{}, error)
	// WatchDNS sends what routers say of name servers and domains, after the kernel has
	// taken the advertisement for good. The channel is closed as Watch's; it
	// holds a few, and more than that are lost, as routers say it again.
	WatchDNS(ctx context.Context) (<-chan RouterDNS, error)
	// Routes6 counts the IPv6 routes that the kernel has, of every interface and
	// kind.
	Routes6() (int, error)
	// SolicitRouters has the routers of a link advertise themselves now. The
	// kernel does so itself when a link comes up.
	SolicitRouters(index int) error
}
