package netwatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/icmp"
	"gwinit/internal/netdev"
)

// Timing of a look. The incumbent's netwatch waits for 1.5 s; a host that has no
// ICMP is asked by the kernel three times, a second apart.
const (
	echoWait    = 1500 * time.Millisecond
	echoAgain   = 700 * time.Millisecond
	askedWait   = 3500 * time.Millisecond
	askedPoll   = 250 * time.Millisecond
	rebindTries = 3
)

// How somebody answered.
const (
	byEcho = "icmp"
	byARP  = "arp" // no echo, but the question where it is
	byND   = "nd"
)

// asked is an address of a look.
type asked struct {
	spec string     // as in the settings
	addr netip.Addr // not valid: there is none
	how  string     // it answered; "": it did not
	rtt  int        // us, of an echo
	err  error      // why it could not be asked
	// since is when it answered last; 0: not yet.
	since secs
	deaf  bool // an answer of its table would be an old one
	own   bool // it is this box, whose answer says nothing
}

var errOwn = errors.New("it is this gateway itself, or no host: name another one")

// network is what the Service needs of one interface; system is the real one.
type network interface {
	// Look returns the interface's state and its default gateways.
	Look() (linkState, []netip.Addr, error)
	// Ask asks every address that there is and fills in how each answered. It
	// blocks for some seconds at most.
	Ask(ctx context.Context, list []asked)
	// Resolve looks a name up.
	Resolve(ctx context.Context, name string) ([]netip.Addr, error)
	// CanRebind tells whether the driver can be bound anew.
	CanRebind() bool
	// Rebind does it; the interface goes and comes back.
	Rebind() error
}

// system is the kernel.
type system struct {
	root, name string
	dev        netdev.System
}

// Look implements network.
func (s *system) Look() (linkState, []netip.Addr, error) {
	link, err := s.dev.Link(s.name)
	switch {
	case errors.Is(err, netdev.ErrNoLink):
		return absent, nil, nil
	case err != nil:
		return absent, nil, err
	case !link.Carrier:
		return unplugged, nil, nil
	}
	gateways, err := s.dev.Gateways(link.Index, link.Name)
	return plugged, gateways, err
}

// Ask implements network.
func (s *system) Ask(ctx context.Context, list []asked) {
	until := time.Now().Add(askedWait)
	for i := range list {
		if a := &list[i]; a.addr.IsValid() && isOwn(a.addr) {
			a.own, a.err = true, errOwn
		}
	}
	// The kernel asks those that it knows on the link from now on; the others
	// when they are sent to.
	s.neighbours(list, func(a *asked, n netdev.Neighbour) { a.deaf = s.dev.AskNeighbour(n) != nil })
	echo(ctx, false, list)
	echo(ctx, true, list)
	for {
		answered, asking := false, false
		s.neighbours(list, func(a *asked, n netdev.Neighbour) {
			asking = asking || n.Asking
			switch {
			case a.how != "" || a.deaf || !n.Answers:
			case n.Addr.Is4():
				a.how = byARP
			default:
				a.how = byND
			}
		})
		for i := range list {
			answered = answered || list[i].how != ""
		}
		if answered || !asking || time.Now().After(until) || ctx.Err() != nil {
			return
		}
		time.Sleep(askedPoll)
	}
}

// neighbours gives those of list that the kernel's tables have to each.
func (s *system) neighbours(list []asked, each func(*asked, netdev.Neighbour)) {
	link, err := s.dev.Link(s.name)
	if err != nil {
		return
	}
	for i := range list {
		a := &list[i]
		if !a.addr.IsValid() {
			continue
		}
		if n, ok := s.dev.Neighbour(link.Index, a.addr); ok { // else only an echo counts
			each(a, n)
		}
	}
}

// isOwn tells whether an address is this box's: only such a one can be bound. A
// resolver that blocks a name, as many do, gives 0.0.0.0 or 127.0.0.1.
func isOwn(a netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err == nil {
		c.Close()
	}
	return err == nil
}

// asks tells whether an echo of one family is sent to it.
func (a *asked) asks(v6 bool) bool { return a.addr.IsValid() && a.addr.Is6() == v6 && !a.own }

// echo asks every address of one family by echo, twice, and fills in who
// answered within echoWait.
func echo(ctx context.Context, v6 bool, list []asked) {
	left := 0
	for i := range list {
		if a := &list[i]; a.asks(v6) {
			left++
		}
	}
	if left == 0 {
		return
	}
	kind := "ip4:icmp"
	if v6 {
		kind = "ip6:ipv6-icmp"
	}
	pc, err := net.ListenPacket(kind, "")
	if err != nil {
		for i := range list {
			list[i].err = fmt.Errorf("open ICMP socket: %w", err)
		}
		return
	}
	defer pc.Close()
	id := uint16(rand.Uint32())
	listenFor(pc, v6, id)
	defer context.AfterFunc(ctx, func() { _ = pc.SetReadDeadline(time.Unix(1, 0)) })()
	var sent [2]time.Time
	// The longest IPv4 header is read before the net package takes it off.
	var buf [60 + icmp.HeaderBytes + 64]byte
	for try := range sent {
		sent[try] = time.Now()
		for i := range list {
			a := &list[i]
			if !a.asks(v6) || a.how != "" {
				continue
			}
			to := net.IPAddr{IP: a.addr.AsSlice(), Zone: a.addr.Zone()}
			_, err := pc.WriteTo(icmp.Echo(v6, id, uint16(try<<8|i), 0), &to)
			a.err = reason(err)
		}
		until := sent[0].Add(echoAgain)
		if try == len(sent)-1 {
			until = sent[0].Add(echoWait)
		}
		if pc.SetReadDeadline(until) != nil || ctx.Err() != nil {
			return
		}
		for left > 0 {
			n, from, err := pc.ReadFrom(buf[:])
			if err != nil {
				break // the deadline, or an error that the next try meets again
			}
			seq, ok := icmp.ParseReply(buf[:n], v6, id)
			i, try := int(seq&0xff), int(seq>>8)
			if !ok || i >= len(list) || try >= len(sent) || list[i].how != "" || !sameHost(list[i].addr, from) {
				continue
			}
			list[i].how, list[i].rtt = byEcho, max(1, int(time.Since(sent[try])/time.Microsecond))
			left--
		}
		if left == 0 || ctx.Err() != nil {
			return
		}
	}
}

// replies passes echo replies to id (classic BPF). A raw socket sees IPv4's header,
// and none of IPv6.
func replies(v6 bool, id uint16) []unix.SockFilter {
	code := []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND, K: 0}, // type
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: icmp.EchoReply4},
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 4}, // identifier
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: uint32(id)},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	if v6 {
		code[2].K = icmp.EchoReply6
		return code[1:]
	}
	return code
}

// listenFor has nothing else wake who reads pc: a raw socket sees every ICMP packet,
// of which ND is some, and a flood of it all. Without the filter they are read and
// dropped.
func listenFor(pc net.PacketConn, v6 bool, id uint16) {
	rc, err := pc.(*net.IPConn).SyscallConn()
	if err != nil {
		return
	}
	code := replies(v6, id)
	_ = rc.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
	})
}

// sameHost tells whether a reply is from whom it should be.
func sameHost(a netip.Addr, from net.Addr) bool {
	ip, ok := from.(*net.IPAddr)
	if !ok {
		return false
	}
	f, _ := netip.AddrFromSlice(ip.IP)
	return f.Unmap() == a.WithZone("")
}

// reason takes the net package's words about the socket off an error.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// Resolve implements network.
func (s *system) Resolve(ctx context.Context, name string) ([]netip.Addr, error) {
	r := net.Resolver{PreferGo: true}
	return r.LookupNetIP(ctx, "ip", name)
}

// device is the folder of the interface's device.
func (s *system) device() string {
	return filepath.Join("/", s.root, "sys/class/net", s.name, "device")
}

// CanRebind implements network. A driver may refuse to be unbound: then it has
// no such file.
func (s *system) CanRebind() bool {
	_, err := os.Stat(s.device() + "/driver/unbind")
	return err == nil
}

// Rebind implements network.
func (s *system) Rebind() error {
	device, err := filepath.EvalSymlinks(s.device())
	if err != nil {
		return err
	}
	driver, err := filepath.EvalSymlinks(device + "/driver")
	if err != nil {
		return err
	}
	id := []byte(filepath.Base(device))
	if err := os.WriteFile(driver+"/unbind", id, 0); err != nil {
		return err
	}
	for range rebindTries {
		if err = os.WriteFile(driver+"/bind", id, 0); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

// oneLine makes an error fit the log: errors.Join has a line for each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
