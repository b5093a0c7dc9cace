package mdns

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"gwinit/internal/dnssd"
)

// Times of RFC 6762.
const (
	probeWait     = 250 * time.Millisecond // before the first probe at most, and behind each; section 8.1
	probes        = 3
	announceEvery = time.Second // section 8.3
	announcements = 2
	deferProbe    = time.Second // after a lost tie-break; section 8.2
	// Section 8.1: after 15 conflicts, 5 s before each further attempt, until
	// there was none for 10 s.
	conflictBurst  = 15
	conflictWindow = 10 * time.Second
	conflictPause  = 5 * time.Second

	// An answer of which others may have parts waits for them, by chance
	// (section 6 has 20 to 120 ms; the shorter end keeps answers below 100 ms),
	// and one to a question with more known answers to come for those
	// (section 7.2).
	sharedMin, sharedSpan   = 20 * time.Millisecond, 60 * time.Millisecond
	partialMin, partialSpan = 400 * time.Millisecond, 100 * time.Millisecond

	recordEvery  = time.Second            // a record is multicast no more often; section 6
	defenceEvery = 250 * time.Millisecond // unless to defend a name
	legacyTTL    = 10                     // seconds; section 6.7
)

// Unicast answers go to whoever an address claims to be: they are bounded, to
// more than a network of impatient clients needs.
const (
	unicastBurst = 20
	unicastEvery = 50 * time.Millisecond
)

// bucket holds tokens, of which one comes back every so often.
type bucket struct {
	tokens int
	at     instant
}

// take takes a token out at now, if there is one.
func (b *bucket) take(now instant, every time.Duration, burst int) bool {
	if since := now - b.at; since >= every {
		b.tokens = int(min(int64(b.tokens)+int64(since/every), int64(burst)))
		b.at = now
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

// instant is a time on a monotonic clock (INV 13) that began so long before
// anything happens here that zero is "never". A time.Time costs this CPU, whose
// words have 32 bits, twice the code.
type instant = time.Duration

// clockBegin is what the clock shows at first.
const clockBegin instant = 24 * time.Hour

// family is IPv4 or IPv6, each of which has its group.
type family uint8

const (
	v4 family = iota
	v6
	families
)

// packet is a message that came in.
type packet struct {
	family    family
	from      netip.AddrPort
	multicast bool // sent to the group, not to this box
	msg       []byte
}

// state of the names.
type state uint8

const (
	idle       state = iota // no link or no address: silent
	probing                 // asking whether the names are free
	announcing              // saying so; answering, too
	running
)

// responder is the protocol on one interface. Its methods are not safe for
// concurrent use.
type responder struct {
	log func(string)
	// chance returns a time in [0, below).
	chance func(below time.Duration) time.Duration
	// send sends to the group, or to a host when to is valid. What fails is
	// the network's.
	send func(f family, to netip.AddrPort, msg []byte)

	facts facts
	zone  *zone
	state state
	count int     // probes or announcements sent
	next  instant // of those; zero: none
	// announced is when that was last done; said is the name in the log.
	announced instant
	said      string
	// Numbers of the names in use: kitchen, kitchen-2, ...
	hostN, instanceN int
	conflicts        int
	lastConflict     instant

	due  [families][32]instant // when to multicast a record; zero: not
	last [families][32]instant // when it was
	// partial is who has more known answers to tell.
	partial [families]netip.AddrPort

	unicast bucket

	out     dnssd.Builder
	scratch [512]byte
}

func newResponder(log func(string), chance func(time.Duration) time.Duration, send func(family, netip.AddrPort, []byte)) *responder {
	return &responder{log: log, chance: chance, send: send, hostN: 1, instanceN: 1}
}

// set says what is to be announced from now on; up tells whether there is a
// link with an address, fresh that it is not the one of before, on which
// somebody else may have the names.
func (r *responder) set(now instant, f facts, up, fresh bool) {
	if !up {
		r.facts, r.zone, r.state, r.next = f, nil, idle, 0
		r.due = [families][32]instant{}
		return
	}
	if r.state != idle && !fresh && r.facts.equal(&f) {
		return
	}
	if f.hostname != r.facts.hostname || f.mac != r.facts.mac {
		r.hostN, r.instanceN = 1, 1
	}
	old := r.zone
	r.facts = f
	r.rebuild()
	if old == nil || fresh {
		r.probe(now, r.chance(probeWait))
		return
	}
	if r.state >= announcing {
		r.goodbye(old, func(o *record) bool { return r.zone.find(o) < 0 })
	}
	for i, n := range r.zone.names {
		if r.zone.unique[i] && !slices.ContainsFunc(old.names, n.Equal) {
			r.probe(now, r.chance(probeWait)) // nobody was asked for this one
			return
		}
	}
	if r.state == probing {
		return // it goes on, with what is new
	}
	r.state, r.count, r.next = announcing, 0, now
	if free := r.announced + announceEvery; free > now {
		r.next = free
	}
}

// rebuild makes the zone anew, and keeps what is known of records that stay.
func (r *responder) rebuild() {
	z, err := r.facts.build(r.hostN, r.instanceN)
	if err != nil {
		// A host name that config lets through has no such label.
		r.log(fmt.Sprintf("mdns: host name %q: %v", r.facts.hostname, err))
	}
	var last [families][32]instant
	if r.zone != nil {
		for i := range z.records {
			if o := r.zone.find(&z.records[i]); o >= 0 {
				for f := range families {
					last[f][i] = r.last[f][o]
				}
			}
		}
	}
	r.zone, r.last, r.due = z, last, [families][32]instant{}
}

// probe starts over with asking whether the names are free.
func (r *responder) probe(now instant, wait time.Duration) {
	r.state, r.count, r.next = probing, 0, now+wait
	r.due = [families][32]instant{}
}

// stop takes back what was announced.
func (r *responder) stop() {
	if r.state >= announcing {
		r.goodbye(r.zone, func(*record) bool { return true })
	}
	r.state, r.zone, r.next = idle, nil, 0
}

// goodbye says of some of a zone's announced records that they end.
func (r *responder) goodbye(z *zone, gone func(*record) bool) {
	r.out.Begin(0, dnssd.FlagResponse|dnssd.FlagAuthoritative, false)
	for i := range z.records {
		o := &z.records[i]
		if !z.all.has(i) || !gone(o) {
			continue
		}
		end := o.Record
		end.TTL, end.Class = 0, dnssd.ClassIN
		r.out.Record(dnssd.Answers, &end)
	}
	if !r.out.Empty() {
		r.toAll()
	}
}

// toAll sends what was built to both groups.
func (r *responder) toAll() {
	for f := range families {
		r.send(f, netip.AddrPort{}, r.out.Bytes())
	}
}

// tick does what is due and returns when to call it again; zero: not before
// something happens.
func (r *responder) tick(now instant) (next instant) {
	if r.next != 0 && r.next <= now {
		r.advance(now)
	}
	next = r.next
	for f := range families {
		var m mask
		for i, at := range r.due[f] {
			switch {
			case at == 0:
			case at <= now:
				m |= 1 << i
			case next == 0 || at < next:
				next = at
			}
		}
		if m != 0 {
			r.multicast(now, f, m)
		}
	}
	return next
}

// advance is the next step of probing or announcing.
func (r *responder) advance(now instant) {
	if r.state == probing && r.count == probes {
		r.state, r.count = announcing, 0
		if name := r.zone.host.String(); name != r.said {
			r.said = name
			r.log("mdns: this is " + name)
		}
	}
	r.count++
	if r.state == probing {
		r.sendProbe()
		r.next = now + probeWait
		return
	}
	for f := range families {
		r.multicast(now, f, r.zone.all)
	}
	r.announced, r.next = now, now+announceEvery
	if r.count == announcements {
		r.state, r.next = running, 0
	}
}

// sendProbe asks for the names that must be this box's alone, with what it
// would answer itself.
func (r *responder) sendProbe() {
	r.out.Begin(0, 0, false)
	for i, n := range r.zone.names {
		if r.zone.unique[i] {
			r.out.Question(n, dnssd.TypeANY, dnssd.ClassIN|dnssd.Unicast)
		}
	}
	for i := range r.zone.records {
		if o := &r.zone.records[i]; o.unique && o.Type != dnssd.TypeNSEC {
			proposed := o.Record
			proposed.Class = dnssd.ClassIN
			r.out.Record(dnssd.Authorities, &proposed)
		}
	}
	r.toAll()
}

// multicast sends records and what goes along with them.
func (r *responder) multicast(now instant, f family, answers mask) {
	var extra mask
	for i := range r.zone.records {
		if answers.has(i) {
			extra |= r.zone.records[i].adds
		}
	}
	extra &^= answers
	for i := range r.zone.records {
		if extra.has(i) && now-r.last[f][i] < recordEvery {
			extra &^= 1 << i
		}
	}
	for answers != 0 {
		r.out.Begin(0, dnssd.FlagResponse|dnssd.FlagAuthoritative, false)
		sent := r.fill(dnssd.Answers, answers, 0)
		answers &^= sent
		if answers == 0 { // all in one packet, as nearly always
			sent |= r.fill(dnssd.Additionals, extra, 0)
		}
		if sent == 0 {
			return
		}
		for i := range r.zone.records {
			if sent.has(i) {
				r.due[f][i], r.last[f][i] = 0, now
			}
		}
		r.send(f, netip.AddrPort{}, r.out.Bytes())
	}
}

// fill writes records and returns which of them there was room for. legacy is
// the longest lifetime of an answer for a plain resolver, which knows no Flush
// either; 0 is for others.
func (r *responder) fill(s dnssd.Section, m mask, legacy uint32) (written mask) {
	for i := range r.zone.records {
		if !m.has(i) {
			continue
		}
		o := r.zone.records[i].Record
		if legacy > 0 {
			o.TTL, o.Class = min(o.TTL, legacy), dnssd.ClassIN
		}
		if r.out.Record(s, &o) {
			written |= 1 << i
		}
	}
	return written
}

// receive takes a packet in. It allocates nothing for what is not for us.
func (r *responder) receive(now instant, p *packet) {
	if r.state == idle {
		return
	}
	m, ok := dnssd.Read(p.msg)
	if !ok || p.from.Port() == dnssd.Port && r.facts.own(p.from.Addr()) {
		return
	}
	// RFC 6762 section 11: what came to the group is from this link, what
	// came to the box alone may be from anywhere.
	if !p.multicast && !r.facts.onLink(p.from.Addr()) {
		return
	}
	if m.Response() {
		if p.from.Port() == dnssd.Port {
			r.response(now, p, &m)
		}
		return
	}
	r.query(now, p, &m)
}

// response looks for other hosts' records of our names, and for answers that
// need no repetition.
func (r *responder) response(now instant, p *packet, m *dnssd.Message) {
	var it dnssd.Item
	for m.Next(&it) {
		if it.Section != dnssd.Answers && it.Section != dnssd.Additionals || it.Class&^dnssd.Flush != dnssd.ClassIN {
			continue
		}
		n := r.nameOf(m, &it)
		if n < 0 {
			continue
		}
		same, i := r.ours(m, &it, n)
		if i >= 0 { // section 7.4
			if o := &r.zone.records[i]; !o.unique && p.multicast && it.TTL >= o.TTL {
				r.due[p.family][i] = 0
			}
			continue
		}
		if it.TTL == 0 || !r.zone.unique[n] || it.Type == dnssd.TypeNSEC {
			continue
		}
		if r.state == probing || same {
			r.conflict(now, n)
			return
		}
	}
}

// nameOf returns which of the zone's names the item is about, or -1.
func (r *responder) nameOf(m *dnssd.Message, it *dnssd.Item) int {
	for i, n := range r.zone.names {
		if m.NameIs(it, n) {
			return i
		}
	}
	return -1
}

// ours returns the index of the zone's record that the item, of name n, is, or
// -1; and whether there are any of its type.
func (r *responder) ours(m *dnssd.Message, it *dnssd.Item, n int) (sameType bool, index int) {
	for i := range r.zone.records {
		o := &r.zone.records[i]
		if o.name != n || o.Type != it.Type {
			continue
		}
		sameType = true
		data, ok := m.AppendData(r.scratch[:0], it)
		if ok && bytes.Equal(data, o.Data) {
			return true, i
		}
	}
	return sameType, -1
}

// conflict is another host that has the name n. While it is being probed for,
// the other one keeps it (section 8.1); later both ask again (section 9).
func (r *responder) conflict(now instant, n int) {
	name := r.zone.names[n].String()
	if now-r.lastConflict > conflictWindow {
		r.conflicts = 0
	}
	r.conflicts, r.lastConflict = r.conflicts+1, now
	wait := r.chance(probeWait)
	if r.conflicts >= conflictBurst {
		wait = conflictPause
	}
	if r.state != probing {
		r.log("mdns: another host has " + name + ", too; asking who it is")
		r.probe(now, wait)
		return
	}
	if r.zone.names[n].Equal(r.zone.host) {
		r.hostN++
	} else {
		r.instanceN++
	}
	r.rebuild()
	instead := r.zone.names[n].String()
	r.log("mdns: " + name + " is taken by another host; this one is " + instead + " now (give it a name of its own: gwctl config set hostname=NAME)")
	r.probe(now, wait)
}

// query answers questions.
func (r *responder) query(now instant, p *packet, m *dnssd.Message) {
	legacy := p.from.Port() != dnssd.Port
	asks, defence := m.Has(dnssd.Questions), m.Has(dnssd.Authorities)
	tied := false
	var multi, uni, known mask
	var first dnssd.Item // for a plain resolver, that wants its question back
	var it dnssd.Item
	for m.Next(&it) {
		n := r.nameOf(m, &it)
		if n < 0 {
			continue
		}
		switch it.Section {
		case dnssd.Questions:
			a := r.answers(&it, n)
			if a == 0 {
				continue
			}
			if multi|uni == 0 {
				first = it
			}
			if it.Class&dnssd.Unicast != 0 {
				uni |= a
			} else {
				multi |= a
			}
		case dnssd.Answers: // section 7.1
			if _, i := r.ours(m, &it, n); i >= 0 && it.TTL >= r.zone.records[i].TTL/2 {
				known |= 1 << i
			}
		case dnssd.Authorities:
			tied = tied || r.state == probing && r.zone.unique[n]
		}
	}
	if tied {
		r.tieBreak(now, p.msg)
	}
	if r.state == probing {
		return
	}
	f := p.family
	if !asks { // the rest of somebody's known answers
		if p.from == r.partial[f] {
			for i := range r.zone.records {
				if known.has(i) {
					r.due[f][i] = 0
				}
			}
		}
		return
	}
	if legacy {
		r.reply(now, p, m, multi|uni, &first)
		return
	}
	multi, uni = multi&^known, uni&^known&^multi
	if defence { // where everybody hears it, and beyond the bound of unicast
		uni, multi = 0, uni|multi
	} else if !p.multicast {
		uni, multi = uni|multi, 0
	} else if uni != 0 {
		// Section 5.4: what the others have not heard for long goes to all,
		// and so does what would be sent off the link.
		near := r.facts.onLink(p.from.Addr())
		for i := range r.zone.records {
			age := now - r.last[f][i]
			if uni.has(i) && (!near || age > instant(r.zone.records[i].TTL)*time.Second/4) {
				uni, multi = uni&^(1<<i), multi|1<<i
			}
		}
	}
	if uni != 0 {
		r.reply(now, p, nil, uni, nil)
	}
	if multi != 0 {
		r.schedule(now, p, multi, m.Truncated(), defence)
	}
}

// answers returns the records that answer a question about name n.
func (r *responder) answers(it *dnssd.Item, n int) (m mask) {
	if c := it.Class &^ dnssd.Unicast; c != dnssd.ClassIN && c != dnssd.ClassANY {
		return 0
	}
	for i := range r.zone.records {
		o := &r.zone.records[i]
		if o.name == n && (it.Type == o.Type || it.Type == dnssd.TypeANY && r.zone.all.has(i)) {
			m |= 1 << i
		}
	}
	if m == 0 {
		m = r.zone.missing[n]
	}
	return m
}

// schedule has records multicast: at once, or later where others may answer as
// well, have more to say, or have heard it just now.
func (r *responder) schedule(now instant, p *packet, m mask, partial, defence bool) {
	f := p.family
	every, wait := recordEvery, time.Duration(0)
	if defence {
		every = defenceEvery
	} else {
		for i := range r.zone.records {
			if m.has(i) && !r.zone.records[i].unique {
				wait = sharedMin + r.chance(sharedSpan)
				break
			}
		}
		if partial {
			wait = partialMin + r.chance(partialSpan)
			r.partial[f] = p.from
		}
	}
	for i := range r.zone.records {
		if !m.has(i) {
			continue
		}
		at := now + wait
		if free := r.last[f][i] + every; free > at {
			at = free
		}
		if d := r.due[f][i]; d == 0 || at < d {
			r.due[f][i] = at
		}
	}
}

// reply sends an answer to one host: a plain resolver, if there is a question
// to repeat.
func (r *responder) reply(now instant, p *packet, m *dnssd.Message, answers mask, question *dnssd.Item) {
	if answers == 0 || !r.facts.onLink(p.from.Addr()) || !r.unicast.take(now, unicastEvery, unicastBurst) {
		return
	}
	id, legacy := uint16(0), uint32(0)
	if question != nil {
		id, legacy = m.ID, legacyTTL
	}
	r.out.Begin(id, dnssd.FlagResponse|dnssd.FlagAuthoritative, question != nil)
	if question != nil {
		name, _ := m.AppendName(r.scratch[:0], question)
		r.out.Question(name, question.Type, question.Class&^dnssd.Unicast)
	}
	var extra mask
	for i := range r.zone.records {
		if answers.has(i) {
			extra |= r.zone.records[i].adds
		}
	}
	r.fill(dnssd.Answers, answers, legacy)
	r.fill(dnssd.Additionals, extra&^answers, legacy)
	r.send(p.family, p.from, r.out.Bytes())
}

// proposal is a record that somebody probes with.
type proposal struct {
	class, typ uint16
	data       []byte
}

func (a proposal) compare(b proposal) int {
	return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.typ, b.typ), bytes.Compare(a.data, b.data))
}

// maxProposals is how many records of one name are looked at; a host with more
// addresses than that loses against one of ours at the end of its list at worst.
const maxProposals = 16

// tieBreak compares what another host probes with, for each name that both want
// at this moment: the one with the later records keeps it, the other asks again
// after a second and finds it taken (section 8.2).
func (r *responder) tieBreak(now instant, msg []byte) {
	for n := range r.zone.names {
		if !r.zone.unique[n] {
			continue
		}
		var theirs, mine []proposal
		m, _ := dnssd.Read(msg)
		var it dnssd.Item
		for m.Next(&it) && len(theirs) < maxProposals {
			if it.Section != dnssd.Authorities || !m.NameIs(&it, r.zone.names[n]) {
				continue
			}
			if data, ok := m.AppendData(nil, &it); ok {
				theirs = append(theirs, proposal{it.Class &^ dnssd.Flush, it.Type, data})
			}
		}
		if len(theirs) == 0 {
			continue
		}
		for i := range r.zone.records {
			if o := &r.zone.records[i]; o.name == n && o.Type != dnssd.TypeNSEC {
				mine = append(mine, proposal{dnssd.ClassIN, o.Type, o.Data})
			}
		}
		slices.SortFunc(theirs, proposal.compare)
		slices.SortFunc(mine, proposal.compare)
		if slices.CompareFunc(mine, theirs, proposal.compare) < 0 {
			r.log("mdns: another host asks for " + r.zone.names[n].String() + ", too; letting it go first")
			r.probe(now, deferProbe)
			return
		}
	}
}
