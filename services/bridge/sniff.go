//go:build linux

package bridge

import (
	"net/netip"
	"time"
)

// verdict is what a connection's first bytes say.
type verdict uint8

const (
	undecided verdict = iota // nothing yet, or a beginning of "SSH-"
	isRaw
	isSSH
)

// sshPrefix is how an SSH client begins (RFC 4253, 4.2). No radio protocol
// does: ASH begins with 0x1A, 0xC0, 0x11 or 0x13, HDLC with 0x7E, CPC with 0x14.
const sshPrefix = "SSH-"

// sniff judges the first bytes of a connection.
func sniff(first []byte) verdict {
	for i := range min(len(first), len(sshPrefix)) {
		if first[i] != sshPrefix[i] {
			return isRaw
		}
	}
	if len(first) >= len(sshPrefix) {
		return isSSH
	}
	return undecided
}

// newcomer is a connection that has not shown what it is.
type newcomer struct {
	fd    int // -1: free slot
	peer  netip.AddrPort
	nth   uint64        // in the order of connects, which the clock's 40 us steps do not tell
	since time.Duration // on the loop's clock
	seen  int           // bytes looked at, a beginning of "SSH-"
	said  verdict
	gone  bool // it ended, or its connection broke
}

// action is what to do with a newcomer.
type action uint8

const (
	wait    action = iota
	promote        // make it the client
	refuse         // close it, and say the reason
	forget         // close it: it left by itself
)

// next decides about a newcomer at the time now; c is who is on the line. For
// wait, until is when to ask again, bytes apart.
func (n *newcomer) next(now time.Duration, c *client, lim *Limits) (a action, until time.Duration, reason string) {
	client := c.fd >= 0 && !c.halfClosed // who has sent its FIN holds nobody up
	switch {
	case n.said == isRaw && client && n.nth < c.nth:
		// INV 4: the newest wins, also when the bytes of several come at once,
		// or in another order than their connects.
		return refuse, 0, "the newer client " + c.peer.String() + " has the radio"
	case n.said == isRaw:
		// INV 4: it has shown that it is one, so it wins.
		return promote, 0, ""
	case n.said == isSSH:
		return refuse, 0, "it speaks SSH, which this port does not serve yet; use port 22"
	case n.gone:
		// A beginning of "SSH-" and an end: nothing of that is the radio's.
		return forget, 0, ""
	case now-n.since >= lim.Pending:
		return refuse, 0, "it did not show what it is within " + lim.Pending.String()
	case !client && n.seen == 0 && now-n.since >= lim.Claim:
		// Nobody on the line: who is silent may listen.
		return promote, 0, ""
	case !client && n.seen == 0:
		return wait, n.since + lim.Claim, ""
	default:
		// INV 4: a newcomer that has sent nothing evicts nobody.
		return wait, n.since + lim.Pending, ""
	}
}
