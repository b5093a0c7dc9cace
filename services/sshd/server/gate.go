//go:build linux

package server

import (
	"io"
	"net/netip"
	"sync"
	"time"
)

// The limits of who has not logged in, and of who has.
const (
	// loginTime is how long a login may take, the key exchange with it, and the
	// person who looks for a password or walks to the serial console for a code. It
	// is OpenSSH's. The gateway's own part is 33 million instructions with a key, a
	// third of a second, and 115 more with a password; the first one since sshd was
	// started, 270. A long time invites nobody: who has no place gets one of those
	// that wait longest (enter).
	loginTime = 2 * time.Minute
	// maxPending is how many connections may be logging in at a time.
	maxPending = 8
	// freeVisits is how many connections an address may open one right after the
	// other without a login, and visitEvery is when it may open another one. A key
	// exchange takes a third of a second of the gateway's CPU, so that a flood gets
	// a third of it, at the lowest priority.
	freeVisits = 16
	visitEvery = time.Second
	// maxOpen is how many connections there may be that have logged in.
	maxOpen = 4
	// maxAuthTries is how many attempts one connection has.
	maxAuthTries = 6

	// freeFailures is how many failed logins an address has before it waits.
	freeFailures = 3
	firstWait    = 500 * time.Millisecond // doubles with each failure more
	maxWait      = 16 * time.Second
	// forgetAfter is when an address that failed is as any other again.
	forgetAfter = 10 * time.Minute
	// maxAddresses bounds the tables of those that failed, and of those that came.
	maxAddresses = 64
)

// gate counts connections and failures.
type gate struct {
	mu      sync.Mutex // guards the rest
	pending []*visitor // oldest first
	open    int
	failed  map[netip.Addr]*failures
	visits  map[netip.Addr]*visits
}

// visits are connections of an address that have not logged in, less one for each
// visitEvery.
type visits struct {
	n    int
	last time.Time // when n was right
}

// visitor is a connection that is logging in.
type visitor struct {
	conn    io.Closer
	from    netip.Addr    // as key has it
	evicted chan struct{} // closed when its place was taken
}

type failures struct {
	n    int
	last time.Time
}

// key is what is counted as one address: a host's network, where IPv6 gives it
// as many addresses as it likes.
func key(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || !a.IsValid() {
		return a
	}
	p, _ := a.Prefix(64) // 64 fits every IPv6 address
	return p.Addr()
}

// tooOften counts a connection from an address, and tells whether it is one too
// many: it came right after others that did not log in.
func (g *gate) tooOften(from netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	from = key(from)
	v := g.visits[from]
	if v == nil {
		if g.visits == nil {
			g.visits = make(map[netip.Addr]*visits)
		}
		var oldest netip.Addr
		for a, o := range g.visits {
			if now.Sub(o.last) > freeVisits*visitEvery {
				delete(g.visits, a) // as any other
			} else if f := g.visits[oldest]; f == nil || o.last.Before(f.last) {
				oldest = a
			}
		}
		if len(g.visits) >= maxAddresses {
			delete(g.visits, oldest)
		}
		v = &visits{last: now}
		g.visits[from] = v
	}
	if gone := int(now.Sub(v.last) / visitEvery); gone > 0 {
		v.n = max(0, v.n-gone)
		v.last = v.last.Add(time.Duration(gone) * visitEvery)
	}
	if v.n >= freeVisits {
		return true
	}
	v.n++
	return false
}

// enter lets a connection log in. When maxPending are doing that already, it
// takes the place of one: the oldest of those of the address that has most, so
// that who opens many connections closes their own and nobody else's. evicted
// is that one; it is closed.
func (g *gate) enter(c io.Closer, from netip.Addr) (v, evicted *visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v = &visitor{conn: c, from: key(from), evicted: make(chan struct{})}
	if len(g.pending) >= maxPending {
		count := make(map[netip.Addr]int)
		most := 0
		for _, p := range g.pending {
			count[p.from]++
			most = max(most, count[p.from])
		}
		for i, p := range g.pending {
			if count[p.from] == most {
				evicted = p
				g.pending = append(g.pending[:i], g.pending[i+1:]...)
				break
			}
		}
		close(evicted.evicted)
		evicted.conn.Close()
	}
	g.pending = append(g.pending, v)
	return v, evicted
}

// leave ends a login, as it may have been by enter.
func (g *gate) leave(v *visitor) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, p := range g.pending {
		if p == v {
			g.pending = append(g.pending[:i], g.pending[i+1:]...)
			return
		}
	}
}

// admit turns a login into an open connection, if there is room for one;
// forget gives that back.
func (g *gate) admit(v *visitor) bool {
	g.leave(v)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.failed, v.from)
	delete(g.visits, v.from)
	if g.open >= maxOpen {
		return false
	}
	g.open++
	return true
}

func (g *gate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
}

// fail notes a failed login and returns how long its answer has to wait.
func (g *gate) fail(from netip.Addr) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	from = key(from)
	f := g.failed[from]
	if f == nil {
		g.makeRoom(now)
		f = &failures{}
		g.failed[from] = f
	}
	if now.Sub(f.last) > forgetAfter {
		f.n = 0
	}
	f.n++
	f.last = now
	wait := firstWait
	for n := f.n - freeFailures; n > 1 && wait < maxWait; n-- {
		wait *= 2
	}
	if f.n <= freeFailures {
		return 0
	}
	return min(wait, maxWait)
}

// makeRoom keeps the table within maxAddresses: those go that are forgotten
// anyway, or the one that failed longest ago.
func (g *gate) makeRoom(now time.Time) {
	if g.failed == nil {
		g.failed = make(map[netip.Addr]*failures)
	}
	var oldest netip.Addr
	for a, f := range g.failed {
		if now.Sub(f.last) > forgetAfter {
			delete(g.failed, a)
		} else if o := g.failed[oldest]; o == nil || f.last.Before(o.last) {
			oldest = a
		}
	}
	if len(g.failed) >= maxAddresses {
		delete(g.failed, oldest)
	}
}
