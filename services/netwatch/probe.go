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
	"slices"
	"strings"
	"sync"
	"time"

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
	resolveWait = 5 * time.Second
	rebindTries = 3
)

// How a target answered.
const (
	byEcho = "icmp"
	byARP  = "arp" // it answers no echo, but the question where it is
	byND   = "nd"
)

// answer is what a target said.
type answer struct {
	how string // "": nothing
	rtt time.Duration
	err error // why it could not be asked
}

// network is what the Service needs of one interface; System is the real one.
type network interface {
	// Look returns the interface's state and its default gateways.
	Look() (linkState, []netip.Addr, error)
	// Ask asks every address at once and returns their answers in order. It
	// blocks for some seconds at most.
	Ask(ctx context.Context, addrs []netip.Addr) []answer
	// Resolve looks a name up, within some seconds.
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

func newSystem(root, name string) *system {
	return &system{root, name, netdev.System{Root: root}}
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
func (s *system) Ask(ctx context.Context, addrs []netip.Addr) []answer {
	answers := make([]answer, len(addrs))
	began := time.Now()
	known := s.startNeighbours(addrs)
	var wg sync.WaitGroup
	for _, v6 := range []bool{false, true} {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.Is6() == v6 }) {
			wg.Go(func() { echo(ctx, v6, addrs, answers) })
		}
	}
	wg.Wait()
	if known == nil {
		return answers
	}
	for {
		asking := s.readNeighbours(known, addrs, answers)
		if !asking || slices.ContainsFunc(answers, func(a answer) bool { return a.how != "" }) || time.Since(began) > askedWait || ctx.Err() != nil {
			return answers
		}
		select {
		case <-ctx.Done():
		case <-time.After(askedPoll):
		}
	}
}

// startNeighbours has the kernel ask those of addrs that are on the link and
// known to it; the others are asked when they are sent to. It returns which of
// them cannot be judged, or nil if none can.
func (s *system) startNeighbours(addrs []netip.Addr) map[netip.Addr]bool {
	link, err := s.dev.Link(s.name)
	if err != nil {
		return nil
	}
	all, err := s.dev.Neighbours(link.Index)
	if err != nil {
		return nil
	}
	deaf := map[netip.Addr]bool{}
	for _, n := range all {
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a.WithZone("") == n.Addr }) && s.dev.AskNeighbour(n) != nil {
			deaf[n.Addr] = true // an answer could be an old one
		}
	}
	return deaf
}

// readNeighbours fills in who of those that answered no echo is there all the
// same, and tells whether somebody is still being asked.
func (s *system) readNeighbours(deaf map[netip.Addr]bool, addrs []netip.Addr, answers []answer) (asking bool) {
	link, err := s.dev.Link(s.name)
	if err != nil {
		return false
	}
	all, err := s.dev.Neighbours(link.Index)
	if err != nil {
		return false
	}
	for _, n := range all {
		for i, a := range addrs {
			if a.WithZone("") != n.Addr || answers[i].how != "" || deaf[n.Addr] {
				continue
			}
			asking = asking || n.Asking
			switch {
			case n.Answers && n.Addr.Is4():
				answers[i].how = byARP
			case n.Answers:
				answers[i].how = byND
			}
		}
	}
	return asking
}

// echo asks every address of one family by echo, twice, and fills in what came
// back within echoWait.
func echo(ctx context.Context, v6 bool, addrs []netip.Addr, answers []answer) {
	kind := "ip4:icmp"
	if v6 {
		kind = "ip6:ipv6-icmp"
	}
	left := 0
	fail := func(err error) {
		for i, a := range addrs {
			if a.Is6() == v6 && answers[i].how == "" {
				answers[i].err = err
			}
		}
	}
	pc, err := net.ListenPacket(kind, "")
	if err != nil {
		fail(fmt.Errorf("open ICMP socket: %w", err))
		return
	}
	conn := pc.(*net.IPConn)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	id := uint16(rand.Uint32())
	began := time.Now()
	var sent [2]time.Time
	// The longest IPv4 header is read before the net package takes it off.
	var buf [60 + icmp.HeaderBytes + 64]byte
	for try := range sent {
		sent[try] = time.Now()
		left = 0
		for i, a := range addrs {
			if a.Is6() != v6 || answers[i].how != "" {
				continue
			}
			left++
			_, err := conn.WriteToIP(icmp.Echo(v6, id, uint16(try*len(addrs)+i), 0), &net.IPAddr{IP: a.AsSlice(), Zone: a.Zone()})
			answers[i].err = reason(err)
		}
		until := began.Add(echoAgain)
		if try == len(sent)-1 {
			until = began.Add(echoWait)
		}
		if err := conn.SetReadDeadline(until); err != nil || ctx.Err() != nil {
			return
		}
		for left > 0 {
			n, from, err := conn.ReadFromIP(buf[:])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				fail(reason(err))
				return
			}
			seq, ok := icmp.ParseReply(buf[:n], v6, id)
			if i := int(seq) % len(addrs); ok && int(seq) < len(sent)*len(addrs) && answers[i].how == "" && sameHost(addrs[i], from.IP) {
				answers[i] = answer{how: byEcho, rtt: time.Since(sent[int(seq)/len(addrs)])}
				left--
			}
		}
		if left == 0 || ctx.Err() != nil {
			return
		}
	}
}

// sameHost tells whether a reply is from whom it should be.
func sameHost(a netip.Addr, from net.IP) bool {
	f, ok := netip.AddrFromSlice(from)
	return ok && f.Unmap() == a.WithZone("")
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
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	r := net.Resolver{PreferGo: true}
	all, err := r.LookupNetIP(ctx, "ip", name)
	for i := range all {
		all[i] = all[i].Unmap()
	}
	return all, err
}

// device is the folder of the interface's device.
func (s *system) device() string {
	return filepath.Join("/", s.root, "sys/class/net", s.name, "device")
}

// CanRebind implements network. A driver may refuse to be unbound: then it has
// no such files.
func (s *system) CanRebind() bool {
	for _, f := range []string{"unbind", "bind"} {
		if _, err := os.Stat(filepath.Join(s.device(), "driver", f)); err != nil {
			return false
		}
	}
	return true
}

// Rebind implements network.
func (s *system) Rebind() error {
	device, err := filepath.EvalSymlinks(s.device())
	if err != nil {
		return err
	}
	driver, err := filepath.EvalSymlinks(filepath.Join(device, "driver"))
	if err != nil {
		return err
	}
	id := []byte(filepath.Base(device))
	if err := os.WriteFile(filepath.Join(driver, "unbind"), id, 0); err != nil {
		return fmt.Errorf("unbind the driver: %w", err)
	}
	for range rebindTries {
		if err = os.WriteFile(filepath.Join(driver, "bind"), id, 0); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return fmt.Errorf("bind the driver again: %w", err)
}

// withZone gives a link-local address the interface that it needs.
func withZone(a netip.Addr, name string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "" {
		return a.WithZone(name)
	}
	return a
}

// oneLine makes an error fit the log: errors.Join has a line for each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
