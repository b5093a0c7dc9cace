package flash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"gwinit/internal/wait"
)

// link is how this computer reaches a gateway.
type link struct {
	name   string
	local  netip.Addr
	prefix netip.Prefix
}

// linkTo returns the link on which an address is a direct neighbour: a loader
// knows no router.
func linkTo(a netip.Addr) (link, error) {
	all, err := net.Interfaces()
	if err != nil {
		return link{}, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagPointToPoint != 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, n := range addrs {
			p, err := netip.ParsePrefix(n.String())
			if err == nil && p.Addr().Is4() && p.Bits() < 31 && p.Contains(a) {
				return link{i.Name, p.Addr(), p.Masked()}, nil
			}
		}
	}
	return link{}, fmt.Errorf("%s is on no network that this computer has a cable or Wi-Fi in. A gateway's loader knows no router: use a computer in the gateway's own network", a)
}

// last returns the last address of a prefix, its broadcast address.
func last(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}

// checkLoaderAddr tells why an address cannot be the loader's on a link.
func (l link) checkLoaderAddr(a netip.Addr) error {
	switch {
	case !a.Is4() || a.IsMulticast() || a.IsUnspecified():
		return fmt.Errorf("%s is no address for a loader", a)
	case !l.prefix.Contains(a):
		return fmt.Errorf("the loader's address %s is not in this network, %s", a, l.prefix)
	case a == l.prefix.Addr() || a == last(l.prefix):
		return fmt.Errorf("the loader's address %s is the network's own", a)
	case a == l.local:
		return fmt.Errorf("the loader's address %s is this computer's", a)
	}
	return nil
}

// hostParts are tried for a loader that is told no address: 6 is what loaders
// have by themselves.
var hostParts = []byte{6, 7, 8, 9, 16, 26, 36, 46, 56, 66, 76, 86, 96, 106, 126, 156, 186, 206, 226, 246}

// freeAddr looks for an address for the loader that nobody has.
func (l link) freeAddr(ctx context.Context, gateway netip.Addr, used func(context.Context, netip.Addr) bool) (netip.Addr, error) {
	for _, h := range hostParts {
		b := gateway.As4()
		b[3] = h
		a := netip.AddrFrom4(b)
		if a == gateway || l.checkLoaderAddr(a) != nil || used(ctx, a) {
			continue
		}
		return a, ctx.Err()
	}
	return netip.Addr{}, errors.New("no free address was found for the loader; name one with -loader ADDRESS")
}

// answersPing tells whether a host answers. The system's own program is used:
// what opens such a socket differs, and needs privileges on some.
func answersPing(ctx context.Context, a netip.Addr) bool {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	args := []string{"-c", "1", "-W", "1"}
	switch runtime.GOOS {
	case "windows":
		args = []string{"-n", "1", "-w", "1000"}
	case "darwin":
		args = []string{"-c", "1", "-t", "1"}
	}
	out, err := exec.CommandContext(ctx, "ping", append(args, a.String())...).Output()
	// Windows' is content with a router's answer that nobody is there.
	return err == nil && (runtime.GOOS != "windows" || bytes.Contains(out, []byte("TTL=")))
}

var mac = regexp.MustCompile(`(?i)\b(?:[0-9a-f]{1,2}[:-]){5}[0-9a-f]{1,2}\b`)

// neighbour returns the MAC that the system knows for an address, or "": a host
// that answers no ping has one all the same.
func neighbour(ctx context.Context, a netip.Addr) string {
	var text []byte
	if runtime.GOOS == "linux" {
		text, _ = os.ReadFile("/proc/net/arp")
	} else {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		text, _ = exec.CommandContext(ctx, "arp", "-a").Output()
	}
	return parseNeighbour(string(text), a)
}

// parseNeighbour reads /proc/net/arp, or what arp -a of macOS and Windows prints.
func parseNeighbour(text string, a netip.Addr) string {
	for line := range strings.Lines(text) {
		if !slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t()\r\n", r) }), a.String()) {
			continue
		}
		if m := mac.FindString(line); strings.Trim(m, "0:-") != "" && strings.Trim(strings.ToLower(m), "f:-") != "" {
			return m
		}
	}
	return ""
}

// inUse tells whether somebody has an address. One lost answer must not hide it,
// nor must a host that answers no ping, or a computer without that program.
func inUse(ctx context.Context, a netip.Addr) bool {
	for range 3 {
		// Whatever is sent there has the system ask who it is; 9 is discard.
		if c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 9))); err == nil {
			_, _ = c.Write([]byte{0})
			c.Close()
		}
		if answersPing(ctx, a) || wait.For(ctx, 300*time.Millisecond) && neighbour(ctx, a) != "" {
			return true
		}
	}
	return false
}
