package clock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"
)

// defaultPort is NTP's.
const defaultPort = 123

// Timing of one question: a packet may be lost on the way there or back.
const (
	answerWait = 3 * time.Second
	tries      = 2
)

// peer is one address of a server.
type peer struct {
	name string // as in the settings, or the address
	addr netip.AddrPort
}

// String is what people see.
func (p peer) String() string {
	if a := p.addr.Addr().String(); a != p.name {
		return p.name + " (" + a + ")"
	}
	return p.name
}

// ask asks a server over UDP.
func ask(ctx context.Context, p peer) (sample, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(p.addr))
	if err != nil {
		return sample{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	for range tries {
		var s sample
		if s, err = exchange(ctx, conn, p); !errors.Is(err, errNoAnswer) {
			return s, withoutPort(err)
		}
	}
	return sample{}, err
}

// withoutPort takes our own port off an error, which is another one each time: the
// same problem is one line in the log.
func withoutPort(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if i := strings.LastIndex(dns.Err, ": "); i >= 0 && strings.Contains(dns.Err, "->") {
			clean := *dns
			clean.Err = dns.Err[i+2:]
			return &clean
		}
		return err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

var errNoAnswer = errors.New("no answer")

// exchange sends one question and waits for its answer.
func exchange(ctx context.Context, conn *net.UDPConn, p peer) (sample, error) {
	nonce := rand.Uint64() | 1 // 0 is what a server says that has none
	q := request(nonce)
	// Before the context's own: that one stays.
	if err := conn.SetDeadline(time.Now().Add(answerWait)); err != nil {
		return sample{}, err
	}
	if ctx.Err() != nil {
		return sample{}, ctx.Err()
	}
	sent := time.Now()
	if _, err := conn.Write(q[:]); err != nil {
		return sample{}, err
	}
	var b [128]byte
	for {
		n, err := conn.Read(b[:])
		at := time.Now()
		var late net.Error
		switch {
		case ctx.Err() != nil:
			return sample{}, ctx.Err()
		case errors.As(err, &late) && late.Timeout():
			return sample{}, fmt.Errorf("%w within %v", errNoAnswer, answerWait)
		case err != nil:
			return sample{}, err // a router's or the server's refusal
		}
		r, err := parse(b[:n], nonce)
		if errors.Is(err, errForeign) || errors.Is(err, errShort) {
			continue // late, doubled or forged: ours may yet come
		}
		if err != nil {
			return sample{}, err
		}
		return measure(p, r, sent, at)
	}
}

// resolve looks a name up.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveWait)
	defer cancel()
	r := net.Resolver{PreferGo: true}
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	return addrs, withoutPort(err)
}

// resolveWait bounds the question for one name: a resolver's servers twice.
const resolveWait = 20 * time.Second
