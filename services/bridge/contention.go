//go:build linux

package bridge

import (
	"net/netip"
	"time"
)

// A contention is two hosts that take the radio from each other in turns: both
// reconnect whenever they lose it, and no network comes up.

const (
	// contentionTakeovers within contentionWindow between the same two hosts
	// are one.
	contentionTakeovers = 3
	contentionWindow    = time.Minute
	// warnFor is how long Status warns of something after it was last seen,
	// and how often it is logged.
	warnFor = 10 * time.Minute
	// rememberedTakeovers holds what three hosts in turns need: each pair of
	// them has every third takeover.
	rememberedTakeovers = 3*contentionTakeovers + 1
	// rememberedPairs are logged once each, also when they alternate.
	rememberedPairs = 3
)

// takeovers are the last ones.
type takeovers struct {
	at   [rememberedTakeovers]time.Duration
	who  [rememberedTakeovers][2]netip.Addr // loser, winner
	next int

	hosts    [2]netip.Addr // of the last contention, in order
	seen     time.Duration // when it was last seen; never: there was none
	logged   [rememberedPairs]pairLogged
	nextPair int
}

// pairLogged is when a contention between two hosts was last logged.
type pairLogged struct {
	hosts [2]netip.Addr
	at    time.Duration
}

// add notes a takeover and tells whether it makes or continues a contention,
// and whether that is to be logged.
func (t *takeovers) add(loser, winner netip.Addr, now time.Duration) (contention, news bool) {
	t.at[t.next], t.who[t.next] = now, [2]netip.Addr{loser, winner}
	t.next = (t.next + 1) % len(t.at)
	n := 0
	for i, w := range t.who {
		same := w == [2]netip.Addr{loser, winner} || w == [2]netip.Addr{winner, loser}
		if same && now-t.at[i] <= contentionWindow {
			n++
		}
	}
	if n < contentionTakeovers {
		return false, false
	}
	hosts := [2]netip.Addr{loser, winner}
	if winner.Less(loser) {
		hosts = [2]netip.Addr{winner, loser}
	}
	t.hosts, t.seen = hosts, now
	for i := range t.logged {
		if p := &t.logged[i]; p.hosts == hosts {
			if news = now-p.at >= warnFor; news {
				p.at = now
			}
			return true, news
		}
	}
	t.logged[t.nextPair] = pairLogged{hosts, now}
	t.nextPair = (t.nextPair + 1) % rememberedPairs
	return true, true
}

// text says what is wrong and what to do.
func (t *takeovers) text() string {
	a, b := t.hosts[0].String(), t.hosts[1].String()
	if a == b {
		return "two programs on " + a + " take the radio from each other in turns, and neither can work: end one of them"
	}
	return a + " and " + b + " take the radio from each other in turns, and neither can work: end the client on one of them, or say with BRIDGE_ALLOW in radio.conf which one may have it"
}
