package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/icmp"
	"gwinit/internal/tools/opt"
)

const pingUsage = `ping [-46nq] [-c COUNT] [-i SECONDS] [-W SECONDS] [-w SECONDS] [-s BYTES] HOST

  -4, -6      only that family
  -c COUNT    stop after COUNT echoes (without it: until ctrl-C)
  -i SECONDS  time between two (1)
  -W SECONDS  how long to wait after the last one (2)
  -w SECONDS  stop after that time in any case
  -s BYTES    size of the payload (56)
  -q          only the summary

Exit status 1 if nothing came back.`

// maxPingBytes is what is left of an IPv4 packet.
const maxPingBytes = 65507

// pinger is one run of ping.
type pinger struct {
	std      applet.IO
	conn     *net.IPConn
	to       netip.Addr
	id       uint16
	count    int // 0: no end
	interval time.Duration
	linger   time.Duration
	limit    time.Duration // 0: none
	size     int
	quiet    bool

	sent, received int
	at             map[uint16]time.Time // sent and not answered
	least, most    time.Duration
	sum            time.Duration
}

func ping(ctx context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "46nqc:i:W:w:s:")
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return applet.Usagef("one HOST")
	}
	p := &pinger{std: std, id: uint16(os.Getpid()), at: map[uint16]time.Time{}, quiet: o.Has('q')}
	if p.count, err = o.Int('c', 0); err != nil {
		return err
	}
	if p.size, err = o.Int('s', 56); err != nil {
		return err
	}
	if p.size > maxPingBytes {
		return applet.Usagef("-s is %d at most", maxPingBytes)
	}
	for c, d := range map[byte]*time.Duration{'i': &p.interval, 'W': &p.linger, 'w': &p.limit} {
		*d = map[byte]time.Duration{'i': time.Second, 'W': 2 * time.Second}[c]
		if !o.Has(c) {
			continue
		}
		if *d, err = seconds(o.Val(c)); err != nil {
			return applet.Usagef("-%c %v", c, err)
		}
	}
	p.interval = max(p.interval, 10*time.Millisecond) // a flood would starve the bridge
	family := 0
	if o.Has('4') {
		family = 4
	} else if o.Has('6') {
		family = 6
	}
	if p.to, err = lookup(ctx, rest[0], family); err != nil {
		return err
	}
	network := "ip4:icmp"
	if p.to.Is6() {
		network = "ip6:ipv6-icmp"
	}
	pc, err := net.ListenPacket(network, "")
	if err != nil {
		return fmt.Errorf("open ICMP socket: %w", err)
	}
	p.conn = pc.(*net.IPConn)
	defer p.conn.Close()
	fmt.Fprintf(std.Out, "PING %s (%v): %d data bytes\n", rest[0], p.to, p.size)
	if err := p.run(ctx); err != nil {
		return err
	}
	p.summary(rest[0])
	if p.received == 0 {
		return applet.Exit(1)
	}
	return nil
}

// seconds reads a number of seconds, with a fraction.
func seconds(text string) (time.Duration, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1e6 {
		return 0, fmt.Errorf("takes seconds, not %q", text)
	}
	return time.Duration(f * float64(time.Second)), nil
}

// run sends and receives until it is done, or ctx ends, which is no error.
func (p *pinger) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	began := time.Now()
	// All of a reply, as its sum is over all of it, and the longest IPv4
	// header, which the net package reads before it takes it off.
	buf := make([]byte, 60+icmp.HeaderBytes+p.size)
	next := began
	for {
		now := time.Now()
		if ctx.Err() != nil || p.limit > 0 && now.Sub(began) >= p.limit {
			return nil
		}
		last := p.count > 0 && p.sent == p.count
		if last && (p.received >= p.count || now.Sub(next) >= 0) {
			return nil
		}
		if !last && !now.Before(next) {
			if err := p.send(); err != nil {
				return err
			}
			next = now.Add(p.interval)
			if p.count > 0 && p.sent == p.count {
				next = now.Add(p.linger)
			}
		}
		until := next
		if end := began.Add(p.limit); p.limit > 0 && end.Before(until) {
			until = end
		}
		if err := p.conn.SetReadDeadline(until); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil // it may have ended between the check and the deadline
		}
		n, from, err := p.conn.ReadFromIP(buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		p.reply(buf[:n], from, time.Now())
	}
}

func (p *pinger) send() error {
	seq := uint16(p.sent)
	p.at[seq] = time.Now()
	delete(p.at, seq-1000) // nobody answers that late
	p.sent++
	_, err := p.conn.WriteToIP(icmp.Echo(p.to.Is6(), p.id, seq, p.size), &net.IPAddr{IP: p.to.AsSlice(), Zone: p.to.Zone()})
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		fmt.Fprintf(p.std.Err, "ping: send to %v: %v\n", p.to, err) // the cable may come back
	}
	return nil
}

func (p *pinger) reply(b []byte, from *net.IPAddr, now time.Time) {
	seq, ok := icmp.ParseReply(b, p.to.Is6(), p.id)
	if !ok {
		return
	}
	sent, waited := p.at[seq]
	if !waited {
		if !p.quiet {
			fmt.Fprintf(p.std.Out, "%d bytes from %v: seq=%d duplicate\n", len(b), from, seq)
		}
		return
	}
	delete(p.at, seq)
	rtt := now.Sub(sent)
	if p.received == 0 || rtt < p.least {
		p.least = rtt
	}
	p.most = max(p.most, rtt)
	p.sum += rtt
	p.received++
	if !p.quiet {
		fmt.Fprintf(p.std.Out, "%d bytes from %v: seq=%d time=%s ms\n", len(b), from, seq, ms(rtt))
	}
}

func (p *pinger) summary(host string) {
	lost := 0
	if p.sent > 0 {
		lost = 100 * (p.sent - p.received) / p.sent
	}
	fmt.Fprintf(p.std.Out, "\n--- %s ---\n%d sent, %d received, %d%% lost\n", host, p.sent, p.received, lost)
	if p.received > 0 {
		fmt.Fprintf(p.std.Out, "round trip min/avg/max = %s/%s/%s ms\n", ms(p.least), ms(p.sum/time.Duration(p.received)), ms(p.most))
	}
}

// ms prints milliseconds with three digits behind the point.
func ms(d time.Duration) string {
	us := d.Microseconds()
	return fmt.Sprintf("%d.%03d", us/1000, us%1000)
}
