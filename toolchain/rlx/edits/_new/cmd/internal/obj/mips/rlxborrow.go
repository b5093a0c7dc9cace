package mips

// Instructions for delays from behind a branch: what a block itself cannot fill
// is filled with an instruction of the block that follows if the branch is not
// taken, or with a copy of the first one at the branch's target, which then is
// entered behind it. Such an instruction is executed whichever way the branch
// goes. So it must neither fault nor store, and what it writes must be dead the
// other way, which a pass over the whole function finds out. Only code of the
// compiler is treated so: what a call in assembly reads is not known.

import (
	"cmd/internal/obj"
	"strings"
)

// rlxAll is every register; rlxKept are those that calls keep or need.
const (
	rlxAll  uint64 = 1<<34 - 1
	rlxKept        = rlxSP | rlxG | 1<<(REGCTXT-REG_R0)
)

// rlxSearch is how many instructions behind a branch are looked at.
const rlxSearch = 8

// live returns which registers are live in front of each Prog, by the Prog's
// number, which it leaves in Pc.
func (s *rlxSched) live() []uint64 {
	var progs []*obj.Prog
	for p := s.cursym.Func().Text; p != nil; p = p.Link {
		p.Pc = int64(len(progs))
		progs = append(progs, p)
	}
	type effect struct{ reads, writes uint64 }
	effects := make([]effect, len(progs))
	var buf [4]rlxWord
	for i, p := range progs {
		if s.empty(p) {
			continue
		}
		e := &effects[i]
		for _, w := range s.rlxWords(p, &buf) {
			e.reads |= w.reads &^ e.writes
			e.writes |= w.writes
		}
	}
	live := make([]uint64, len(progs)+1)
	for changed := true; changed; {
		changed = false
		after := uint64(0) // live behind Prog i
		for i := len(progs) - 1; i >= 0; i-- {
			if i > 0 && progs[i-1].Mark&BRANCH != 0 {
				after = s.behind(progs[i-1], i+1, live)
			}
			e := &effects[i]
			after = after&^e.writes | e.reads
			if live[i] != after {
				live[i] = after
				changed = true
			}
		}
	}
	return live
}

// behind returns what is live after the slot of a branch, whose other way
// leads to the Prog with the given number.
func (s *rlxSched) behind(p *obj.Prog, next int, live []uint64) uint64 {
	t := p.To.Target()
	if p.To.Type != obj.TYPE_BRANCH {
		t = nil
	}
	switch {
	case p.As == AJAL && p.To.Sym != nil && rlxKeeps(p.To.Sym.Name):
		return rlxAll
	case p.As == AJAL:
		return rlxKept
	case p.As == AJMP && p.To.Type != obj.TYPE_BRANCH && p.To.Reg == REGLINK:
		return rlxKept // a return; results are on the stack
	case t == nil:
		return rlxAll
	case p.As == AJMP:
		return live[t.Pc]
	case s.conditional(p):
		return live[t.Pc] | live[next]
	}
	return rlxAll
}

// rlxKeeps reports whether a function of the runtime reads or keeps registers
// that others do not.
func rlxKeeps(name string) bool {
	for _, prefix := range [...]string{"runtime.gcWriteBarrier", "runtime.panicBounds", "runtime.panicExtend", "runtime.morestack", "runtime.duff"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// conditional reports whether p branches or not.
func (s *rlxSched) conditional(p *obj.Prog) bool {
	switch p.As {
	case ABEQ, ABNE, ABLEZ, ABGTZ, ABLTZ, ABGEZ:
		return p.To.Type == obj.TYPE_BRANCH && p.To.Target() != nil
	}
	return false
}

// borrow fills what rlxSchedule left empty.
func (s *rlxSched) borrow() {
	live := s.live()
	text := s.cursym.Func().Text

	// Slots of conditional branches.
	for p := text.Link; p != nil; p = p.Link {
		if !s.conditional(p) || p.Link == nil || p.Link.As != ANOOP {
			continue
		}
		noop := p.Link
		if prev, x := s.fromFall(p, nil, live, false); x != nil {
			s.take(prev, x, noop, live)
			p.Link = x
			x.Link = noop.Link
			continue
		}
		if x := s.fromTarget(p, nil, live, false); x != nil {
			x.Link = noop.Link
			p.Link = x
		}
	}

	// Delays of loads.
	var order rlxOrder
	order.reset()
	s.forget()
	var buf [4]rlxWord
	var last, enter *obj.Prog // enter is the prologue's addition to SP
	var since []*obj.Prog     // what stands behind enter
	var up rlxUp
	start := text // the last branch or target in front of p
	for p := text.Link; p != nil; p = p.Link {
		if p.Mark&rlxTarget != 0 {
			s.forget()
			enter = nil
			up.branch = nil
			start = p
		}
		if s.empty(p) {
			if up.branch != nil && !s.transparent(p) {
				up.branch = nil
			}
			continue
		}
		words := s.rlxWords(p, &buf)
		if len(words) == 0 {
			continue
		}
		for order.late&(words[0].reads|words[0].writes) != 0 && order.wait(&words[0]) > 0 {
			if x := s.fillLoad(last, live); x != nil {
				for i := range s.nodes[0].n {
					order.add(&s.nodes[0].words[i])
					s.learn(&s.nodes[0].words[i])
				}
				enter, up.branch = nil, nil
				break
			}
			switch {
			case enter != nil && len(since) > 0 && s.early(text, enter, since):
				since = since[:len(since)-1]
				last = enter
				if len(since) > 0 {
					last = since[len(since)-1]
				}
			case up.branch != nil && len(up.since) > 1 && s.hoist(&up, live):
				up.since = up.since[:len(up.since)-1]
				last = up.since[len(up.since)-1]
			default:
				last = nil
			}
			if last == nil {
				order.nop()
				break
			}
			order.reset()
			if w := s.rlxWords(last, new([4]rlxWord)); len(w) > 0 {
				order.add(&w[len(w)-1])
			}
		}
		for i := range words {
			order.add(&words[i])
			s.learn(&words[i])
		}
		switch {
		case up.branch == nil:
		case up.branch.Link == p || s.movable(p) && len(up.since) < rlxSearch:
			up.since = append(up.since, p)
		default:
			up.branch = nil
		}
		switch {
		case p.Mark&BRANCH != 0:
			enter = nil
			if s.conditional(p) && p.Link != nil {
				up = rlxUp{branch: p, start: start, valid: s.valid, since: up.since[:0]}
			}
			start = p
			if words[0].writes != 0 {
				s.forget() // a call
			}
		case p.Spadj > 0 && len(words) == 1:
			enter, since = p, since[:0]
		case enter != nil && s.movable(p):
			since = append(since, p)
		default:
			enter = nil
		}
		last = p
	}
}

// rlxUp is a conditional branch and what stands behind it if it is not taken.
type rlxUp struct {
	branch, start *obj.Prog // start is a Prog in front of branch
	since         []*obj.Prog
	valid         [32]int32 // at the branch
}

// hoist moves the last Prog of up.since, a load, in front of the branch.
func (s *rlxSched) hoist(up *rlxUp, live []uint64) bool {
	load := up.since[len(up.since)-1]
	valid := s.valid
	s.valid = up.valid
	ok := !s.marks[load] && s.harmless(load, up.branch, up.since[:len(up.since)-1], live[up.branch.To.Target().Pc], true, false)
	s.valid = valid
	if !ok {
		return false
	}
	// The instruction in front of the branch may be a load as well.
	prev := up.start
	var order rlxOrder
	order.reset()
	for p := up.start; p != up.branch; prev, p = p, p.Link {
		if p == nil {
			return false
		}
		if w := s.rlxWords(p, new([4]rlxWord)); !s.empty(p) && len(w) > 0 {
			order.add(&w[len(w)-1])
		}
	}
	if up.start == up.branch || order.wait(s.nodes[0].first()) > 0 {
		return false
	}
	before := up.branch
	for before.Link != load {
		before = before.Link
	}
	before.Link = load.Link
	live[up.branch.Link.Link.Pc] |= s.nodes[0].writes
	prev.Link = load
	load.Link = up.branch
	return true
}

// forget forgets which accesses cannot fault.
func (s *rlxSched) forget() {
	for i := range s.valid {
		s.valid[i] = -1
	}
}

// learn notes that an access has not faulted: one through the same register and
// nearer to it will not either, since a base register points to or into what is
// accessed.
func (s *rlxSched) learn(w *rlxWord) {
	if (w.load || w.store) && w.size <= 4 && w.offset >= 0 && w.offset < 4096 {
		s.valid[w.base] = max(s.valid[w.base], w.offset)
	}
	for r := range s.valid {
		if w.writes>>r&1 != 0 {
			s.valid[r] = -1
		}
	}
}

// early moves the last Prog of since, if it loads an argument, in front of the
// addition to SP at the function's entry.
func (s *rlxSched) early(text, enter *obj.Prog, since []*obj.Prog) bool {
	load := since[len(since)-1]
	if !s.node(0, load) {
		return false
	}
	a := &s.nodes[0]
	w := a.first()
	offset := int64(w.offset) - int64(enter.Spadj)
	if a.n != 1 || !w.load || w.merge || a.mem != rlxStack || offset < s.ctxt.Arch.FixedFrameSize || a.writes&rlxLink != 0 {
		return false // a traceback from there takes LR from its register
	}
	for _, z := range since[:len(since)-1] {
		if !s.node(1, z) || s.dep(&s.nodes[1], a) != 0 {
			return false
		}
	}
	prev := text
	for prev.Link != enter {
		prev = prev.Link
	}
	if s.empty(prev) {
		return false // not the store of LR
	}
	x := s.newprog()
	*x = obj.Prog{Ctxt: load.Ctxt, Link: enter, Pc: load.Pc, Pos: load.Pos, As: load.As, To: load.To}
	x.From.Type = obj.TYPE_MEM
	x.From.Reg = REGSP
	x.From.Offset = offset
	prev.Link = x
	if s.marks[load] {
		s.marks[x] = true
		s.cursym.Func().RlxMoveInlMark(load, x)
	}
	load.As, load.Optab = obj.ANOP, 0
	load.From, load.To = obj.Addr{}, obj.Addr{}
	return true
}

// take takes x, which stands behind prev, out of the block behind a branch.
func (s *rlxSched) take(prev, x, noop *obj.Prog, live []uint64) {
	if prev == noop {
		noop.Link = x.Link
	} else {
		prev.Link = x.Link
	}
	live[noop.Link.Pc] |= s.nodes[0].writes
}

// fillLoad puts an instruction behind load, whose register the next one
// touches, and returns it, or nil.
func (s *rlxSched) fillLoad(load *obj.Prog, live []uint64) *obj.Prog {
	if load.Mark&BRANCH != 0 {
		return nil
	}
	// What it must be independent of: everything up to the branch, and its
	// slot.
	var between []*obj.Prog
	p := load.Link
	for ; ; p = p.Link {
		if p == nil || p.Mark&rlxTarget != 0 {
			return nil
		}
		if s.transparent(p) {
			continue
		}
		if p.Mark&BRANCH != 0 {
			break
		}
		if !s.movable(p) || len(between) == rlxSearch {
			return nil
		}
		between = append(between, p)
	}
	if p.Link == nil {
		return nil
	}
	between = append([]*obj.Prog{load}, between...)
	if p.Link.As != ANOOP {
		between = append(between, p.Link)
	}
	var x *obj.Prog
	if s.conditional(p) {
		var prev *obj.Prog
		if prev, x = s.fromFall(p, between, live, true); x != nil {
			s.take(prev, x, p.Link, live)
		}
	}
	if x == nil {
		x = s.fromTarget(p, between, live, true)
	}
	if x == nil {
		return nil
	}
	x.Link = load.Link
	load.Link = x
	x.Pc = load.Pc
	return x
}

// harmless reports whether x, which becomes node 0, may be executed in front of
// the branch p or in its slot, and in front of the given Progs, where the given
// registers are live the other way. Loads and Progs of two words are not for
// slots.
func (s *rlxSched) harmless(x, p *obj.Prog, between []*obj.Prog, live uint64, loads, pairs bool) bool {
	if !s.movable(x) || x.As == ANOOP || s.isUnsafePoint(x) || !s.node(0, x) {
		return false
	}
	a := &s.nodes[0]
	if a.n != 1 && !(pairs && a.n == 2) || a.store || a.writes&live != 0 {
		return false
	}
	for i := range a.n {
		if a.words[i].fromHILO() || a.words[i].mulDiv() {
			return false
		}
	}
	switch a.mem {
	case rlxGlobal:
		if !loads {
			return false
		}
	case rlxPointer:
		if !loads || a.faults && (!a.near || a.words[0].merge || a.words[0].offset > s.valid[a.base]) {
			return false
		}
		a.faults = false
	case rlxStack:
		if !loads {
			return false
		}
	}
	if !loads && (a.reads|a.writes)&rlxTmp != 0 {
		return false
	}
	var buf [4]rlxWord
	t := s.rlxWords(p, &buf)
	if t[0].reads&a.writes != 0 || t[0].writes&(a.reads|a.writes) != 0 {
		return false
	}
	for _, z := range between {
		if !s.node(1, z) || s.dep(&s.nodes[1], a) != 0 {
			return false
		}
	}
	return true
}

// fromFall looks for an instruction in the block behind p's slot. It returns
// the Prog in front of it as well.
func (s *rlxSched) fromFall(p *obj.Prog, between []*obj.Prog, live []uint64, loads bool) (prev, x *obj.Prog) {
	taken := live[p.To.Target().Pc]
	skipped := append([]*obj.Prog(nil), between...)
	before := p.Link // the last instruction in front of x
	prev = p.Link
	for x = prev.Link; x != nil && len(skipped)-len(between) < rlxSearch; prev, x = x, x.Link {
		if x.Mark&rlxTarget != 0 {
			return nil, nil
		}
		if s.transparent(x) {
			continue
		}
		if !s.movable(x) {
			return nil, nil
		}
		if x.Link != nil && s.harmless(x, p, skipped, taken, loads, loads) && !s.marks[x] && !s.parts(before, x) {
			s.node(0, x)
			return prev, x
		}
		skipped = append(skipped, x)
		before = x
	}
	return nil, nil
}

// parts reports whether x keeps a load in front of it from what follows.
func (s *rlxSched) parts(before, x *obj.Prog) bool {
	var buf [4]rlxWord
	w := s.rlxWords(before, &buf)
	if len(w) == 0 {
		return true
	}
	last := w[len(w)-1]
	if last.late == 0 && !last.fromHILO() {
		return false
	}
	var o rlxOrder
	o.reset()
	o.add(&last)
	for p := x.Link; p != nil; p = p.Link {
		if s.empty(p) {
			continue
		}
		if w := s.rlxWords(p, &buf); len(w) > 0 {
			return o.wait(&w[0]) > 0
		}
	}
	return true
}

// fromTarget makes a copy of the first instruction where p branches to, and
// lets p branch behind it.
func (s *rlxSched) fromTarget(p *obj.Prog, between []*obj.Prog, live []uint64, loads bool) *obj.Prog {
	if p.To.Type != obj.TYPE_BRANCH || p.To.Sym != nil || p.As != AJMP && !s.conditional(p) {
		return nil
	}
	t := p.To.Target()
	for t != nil && s.transparent(t) {
		t = t.Link
	}
	if t == nil || t.Link == nil {
		return nil
	}
	other := uint64(0)
	if p.As != AJMP {
		if p.Link.Link == nil {
			return nil
		}
		other = live[p.Link.Link.Pc]
	}
	if !s.harmless(t, p, between, other, loads, false) || s.unsafe[t] || s.unsafe[p] {
		return nil
	}
	s.node(0, t)
	x := s.newprog()
	*x = obj.Prog{Ctxt: t.Ctxt, Pc: p.Pc, Pos: p.Pos.WithNotStmt(), As: t.As, From: t.From, Reg: t.Reg, RestArgs: t.RestArgs, To: t.To}
	p.To.SetTarget(t.Link)
	t.Link.Mark |= rlxTarget | LABEL
	return x
}
