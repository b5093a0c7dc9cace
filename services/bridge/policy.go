//go:build linux

package bridge

import (
	"context"
	"net/netip"
	"time"

	"gwinit/internal/config"
	"gwinit/internal/onlink"
)

// Who may have the radio, and who may take it from whom. Nothing here has a
// socket or a clock.

// newcomer is a connection that has not shown what it is.
type newcomer struct {
	fd    int // -1: free slot
	peer  netip.AddrPort
	from  standing
	nth   uint64        // in the order of connects, which the clock's 40 us steps do not tell
	since time.Duration // on the loop's clock
	seen  int           // bytes looked at, a beginning of "SSH-"
	said  verdict
	gone  bool // it ended, or its connection broke
}

// action is what to do with a newcomer.
type action uint8

const (
	wait     action = iota
	promote         // make it the client
	handOver        // to the SSH service
	refuse          // close it, and say the reason
	forget          // close it: it left by itself
)

// Reasons of a refusal.
const (
	notForRadio = "what it says is not for a radio; a web browser or a port scan?"
	outsideList = "BRIDGE_ALLOW does not list its address"
	outsideLink = "it is on no network of this gateway; BRIDGE_ALLOW in radio.conf lets others in"
)

// next decides about a newcomer at the time now; c is who is on the line. For
// wait, until is when to ask again, bytes apart.
func (n *newcomer) next(now time.Duration, c *client, o *Options) (a action, until time.Duration, reason string) {
	lim := &o.Limits
	client := c.fd >= 0 && !c.halfClosed // who has sent its FIN holds nobody up
	// BRIDGE_TAKEOVER protects who has shown that it is one, not a probe that
	// came in by silence.
	settled := client && c.sniffed
	switch {
	case n.said == isSSH:
		// Whoever has the radio, whoever asks: SSH knows by itself whom to let in.
		return handOver, 0, ""
	case n.said == isForeign:
		return refuse, 0, notForRadio
	case n.said.raw() && n.from == outside && o.Allow != nil:
		return refuse, 0, outsideList
	case n.said.raw() && n.from == outside:
		return refuse, 0, outsideLink
	case n.said.raw() && n.from == asking:
		return wait, n.since + lim.Pending, ""
	case n.said == isOther && client && (!o.AnyWins || n.nth < c.nth):
		// INV 4: it has not shown that it is a client, so it evicts nobody.
		return refuse, 0, "it does not begin as a radio's client does, and " + c.peer.String() + " has the radio"
	case n.said == isRadio && settled && n.nth < c.nth:
		// INV 4: the newest wins, also when the bytes of several come at once,
		// or in another order than their connects. A newer one that has said
		// nothing keeps the radio from nobody.
		return refuse, 0, "the newer client " + c.peer.String() + " has the radio"
	case n.said == isRadio && settled && o.Takeover == config.TakeoverNever:
		return refuse, 0, c.peer.String() + " has the radio, and BRIDGE_TAKEOVER=never"
	case n.said == isRadio && settled && o.Takeover == config.TakeoverSameHost && n.peer.Addr() != c.peer.Addr():
		return refuse, 0, c.peer.String() + " has the radio, and BRIDGE_TAKEOVER=same-host"
	case n.said.raw():
		// INV 4: it has shown that it is one, so it wins.
		return promote, 0, ""
	case n.gone:
		// A beginning of "SSH-" and an end: nothing of that is the radio's.
		return forget, 0, ""
	case now-n.since >= lim.Pending:
		return refuse, 0, "it did not show what it is within " + lim.Pending.String()
	case client || n.seen > 0 || n.from != inside:
		// INV 4: a newcomer that has sent nothing evicts nobody. One that may
		// not have the radio may still speak SSH.
		return wait, n.since + lim.Pending, ""
	case now-n.since >= lim.Claim:
		// Nobody on the line: who is silent may listen.
		return promote, 0, ""
	default:
		return wait, n.since + lim.Claim, ""
	}
}

// standing is whether an address may have the radio.
type standing uint8

const (
	asking standing = iota // the networks of the interfaces are being looked up
	inside
	outside
)

// linksFor is how long the networks of the interfaces are taken to be what they
// were. It bounds the look-ups that strangers can cause.
const linksFor = 10 * time.Second

// links are the networks of the gateway's interfaces, as last looked up.
type links struct {
	prefixes []netip.Prefix
	at       time.Duration // when; never: not yet
	asked    bool          // a look-up is under way
}

// standing tells where a peer stands. The gateway itself is always inside. For
// a public address, without a list, the interfaces' networks decide; known
// tells that they were looked up and lately.
func (o *Options) standing(peer netip.Addr, on *links, now time.Duration) standing {
	// A prefix contains no address with a zone.
	peer = peer.Unmap().WithZone("")
	in := func(all []netip.Prefix) standing {
		for _, p := range all {
			if p.Contains(peer) {
				return inside
			}
		}
		return outside
	}
	switch {
	case peer.IsLoopback():
		return inside
	case o.Allow != nil:
		return in(o.Allow)
	case onlink.Local(peer):
		return inside
	case o.OnLink == nil:
		return outside
	case on.at == never || now-on.at >= linksFor:
		return asking
	}
	return in(on.prefixes)
}

// judge sets where a newcomer stands, and has the networks looked up where that
// depends on them.
func (l *loop) judge(p *newcomer, now time.Duration) {
	p.from = l.b.o.standing(p.peer.Addr(), &l.links, now)
	if p.from == asking && !l.links.asked {
		select {
		case l.b.askLinks <- struct{}{}:
			l.links.asked = true
		default: // it is being answered
		}
	}
}

// linker looks the networks up for the loop, which must not wait for the
// kernel's lock on interfaces.
func (b *Bridge) linker(ctx context.Context) {
	for {
		select {
		case <-b.askLinks:
		case <-ctx.Done():
			return
		}
		prefixes, err := b.o.OnLink()
		if err != nil {
			b.o.Log("the networks of the interfaces are not known, so only private addresses may have the radio: " + err.Error())
		}
		b.post(func(l *loop) {
			l.links = links{prefixes: prefixes, at: l.now()}
			l.judgeAll()
		})
	}
}

// judgeAll judges every newcomer anew.
func (l *loop) judgeAll() {
	for i := range l.pending {
		if p := &l.pending[i]; p.fd >= 0 {
			l.judge(p, l.now())
		}
	}
	l.dirty = true
}
