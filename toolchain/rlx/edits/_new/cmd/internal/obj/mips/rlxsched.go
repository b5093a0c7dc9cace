package mips

// The order of instructions for a core whose loads arrive one instruction late
// and whose branches execute the instruction behind them: within a straight run
// of Progs, independent ones are moved between a load and its use and into the
// slots of branches, calls and returns.
//
// What must not change:
//   - what a deferred function sees after a fault: stores keep their order with
//     accesses that may fault, except stores to stack slots that only this frame
//     can read and that die with it;
//   - which access of a nil pointer faults at a small address, by which the
//     runtime tells it from a wild one;
//   - asynchronous preemption: PCDATA that begins or ends an unsafe range is a
//     barrier, no Prog that names REGTMP gets into a slot, and the ranges of
//     REGTMP are marked afterwards (rlxMarkTmp);
//   - unwinding: what changes SP is a barrier, except the addition in front of a
//     return, which goes into the return's slot. A signal in a slot reports the
//     branch's pc, where SP is as the tables say, and the branch is executed
//     again;
//   - tracebacks: the slot of a call has the call's position, since the return
//     address less one is looked up; marks of inlined calls keep their own.
//
// SYNC, LL, SC, SYSCALL, BREAK, WORD and explicit NOPs of assembly are barriers.

import (
	"cmd/internal/obj"
	"internal/abi"
	"math/bits"
	"strings"
)

// rlxRun is how many Progs are ordered at a time. Their dependences are sets of
// bits, and the time is quadratic.
const rlxRun = 48

// Kinds of memory that a Prog accesses.
const (
	rlxNoMem = iota
	rlxStack
	rlxGlobal
	rlxPointer
)

// rlxNode is a Prog in a run.
type rlxNode struct {
	p             *obj.Prog
	words         [4]rlxWord
	n             int
	reads, writes uint64
	store         bool
	mem           uint8
	off, size     int64 // from the base register, or from SP
	// private: no pointer leads to this stack slot.
	private bool
	// faults: the access may fault.
	faults bool
	// near: a fault of it, if any, is at an address near zero.
	near bool
	base uint8
	// since is the node that wrote the base register last, -1 if none of the
	// run did.
	since int
	// safe, less one, is the node that has shown the base register to be a good
	// pointer: behind it this access does not fault.
	safe int
	// loaded: the base register comes from a load in this run, so it is a
	// pointer or nil and not computed from one.
	loaded bool
}

func (a *rlxNode) first() *rlxWord { return &a.words[0] }
func (a *rlxNode) last() *rlxWord  { return &a.words[a.n-1] }

// rlxSched is the state for one function.
type rlxSched struct {
	*ctxt0
	marks map[*obj.Prog]bool // marks of inlined calls
	// Whose addresses the function takes: the area of outgoing arguments, local
	// variables, arguments or results by name.
	outAddr, autoAddr bool
	argAddr           map[*obj.LSym]bool
	unsafe            map[*obj.Prog]bool
	// defers: frames are looked at after a fault.
	defers bool

	// inRun: the nodes are a run, and not single Progs.
	inRun bool
	// valid: the farthest offset from each register that has been accessed.
	valid [32]int32

	nodes [rlxRun]rlxNode
	zeros []*obj.Prog // Progs without size in the run, which go to its end
	real  *obj.Prog   // the last instruction put in place, or nil
	preds [rlxRun]uint64
	lat   [rlxRun][rlxRun]uint8
	prio  [rlxRun]int
}

// rlxSchedule orders the Progs of the function.
func (c *ctxt0) rlxSchedule() {
	if !c.rlx() || !c.ctxt.IsAsm && !c.ctxt.Flag_optimize {
		return
	}
	s := &rlxSched{ctxt0: c, marks: c.cursym.Func().RlxInlMarks()}
	text := c.cursym.Func().Text
	for p := text.Link; p != nil; p = p.Link {
		s.notice(p)
	}

	s.inRun = true
	n := 0
	prev := text // the Prog before the run
	for p := text.Link; p != nil; {
		next := p.Link
		if p.Mark&rlxTarget != 0 && n > 0 {
			prev = s.run(prev, n, p, nil, nil)
			n = 0
		}
		switch {
		case p.Mark&rlxTarget == 0 && s.transparent(p):
			if n == 0 {
				prev = p
			} else {
				s.zeros = append(s.zeros, p)
			}
		case p.Mark&BRANCH != 0 && next != nil && next.As == ANOOP:
			prev = s.run(prev, n, p, p, nil)
			n = 0
			if prev == p {
				prev = s.relink(p, p.Link)
			}
			next = prev.Link
		case s.leave(p):
			jmp := p.Link
			q := p
			p.Spadj, jmp.Spadj = 0, 0
			// The addition takes the NOP's place.
			end := jmp.Link.Link
			if p.Mark&rlxTarget != 0 {
				q = s.split(p)
				prev = s.relink(prev, p)
			}
			prev = s.run(prev, n, jmp, jmp, q)
			n = 0
			next = end
		case s.movable(p) && s.node(n, p):
			n++
			if n == rlxRun {
				prev = s.run(prev, n, next, nil, nil)
				n = 0
			}
		default:
			prev = s.run(prev, n, p, nil, nil)
			n = 0
			prev = s.relink(prev, p)
		}
		p = next
	}
	s.run(prev, n, nil, nil, nil)
	s.inRun = false
	s.noticeUnsafe()
	if !c.ctxt.IsAsm {
		s.borrow()
	}
	s.jumps()
}

// relink makes p the Prog after prev and returns p.
func (s *rlxSched) relink(prev, p *obj.Prog) *obj.Prog {
	prev.Link = p
	if !s.empty(p) {
		s.real = p
	}
	return p
}

// empty reports whether p leaves no word in the text.
func (s *rlxSched) empty(p *obj.Prog) bool {
	switch p.As {
	case obj.ATEXT, obj.APCDATA, obj.AFUNCDATA, obj.ANOP, ASYNC:
		return true
	}
	return false
}

// notice collects what is known of the whole function.
func (s *rlxSched) notice(p *obj.Prog) {
	for _, a := range [...]*obj.Addr{&p.From, &p.To} {
		if a.Type != obj.TYPE_ADDR && !(a.Type == obj.TYPE_CONST && a.Reg != obj.REG_NONE) && !(a.Type == obj.TYPE_REG && a.Reg == REGSP) {
			continue
		}
		switch a.Name {
		case obj.NAME_NONE:
			s.outAddr = s.outAddr || a.Reg == REGSP && p.Spadj == 0 && !(p.As == ASGTU)
		case obj.NAME_AUTO:
			s.autoAddr = true
		case obj.NAME_PARAM:
			if s.argAddr == nil {
				s.argAddr = map[*obj.LSym]bool{}
			}
			s.argAddr[a.Sym] = true
		}
	}
	if p.Reg == REGSP && p.As != ASGTU {
		s.outAddr = true
	}
	if p.Mark&BRANCH != 0 && p.To.Sym != nil && strings.HasPrefix(p.To.Sym.Name, "runtime.defer") {
		s.defers = true
	}
}

// transparent reports whether p has no size and says nothing about the
// instructions around it but about the next call.
func (s *rlxSched) transparent(p *obj.Prog) bool {
	switch p.As {
	case obj.APCDATA:
		return p.From.Offset != abi.PCDATA_UnsafePoint
	case obj.ANOP:
		return true
	}
	return false
}

// leave reports whether p is the addition to SP in front of a return.
func (s *rlxSched) leave(p *obj.Prog) bool {
	jmp := p.Link
	return p.Spadj < 0 && p.As == AADDU && jmp != nil && jmp.As == AJMP && jmp.Spadj == -p.Spadj &&
		jmp.Mark&BRANCH != 0 && jmp.Mark&rlxTarget == 0 && jmp.Link != nil && jmp.Link.As == ANOOP && s.oplook(p).size == 4
}

// movable reports whether p may be moved at all.
func (s *rlxSched) movable(p *obj.Prog) bool {
	if s.empty(p) || p.As == AWORD || p.As == ANOOP && s.ctxt.IsAsm {
		return false // a NOOP of the compiler's is the mark of an inlined call
	}
	return p.Mark&(BRANCH|SYNC) == 0 && p.Spadj == 0
}

// node makes p the run's node i, and reports whether it may be one.
func (s *rlxSched) node(i int, p *obj.Prog) bool {
	a := &s.nodes[i]
	*a = rlxNode{p: p}
	a.n = len(s.rlxWords(p, &a.words))
	if a.n == 0 {
		return false
	}
	for j := range a.n {
		w := &a.words[j]
		if w.branch || w.serial {
			return false
		}
		a.reads |= w.reads &^ a.writes
		a.writes |= w.writes
		if w.load || w.store {
			if a.mem != rlxNoMem {
				return false
			}
			s.access(i, w)
		}
	}
	if a.writes == 0 && !a.store && p.As != ANOOP {
		return false // a NOP that somebody wants, or a load for its fault
	}
	return a.writes&(rlxSP|rlxG) == 0
}

// access fills in what is known of node i's memory access, done by w.
func (s *rlxSched) access(i int, w *rlxWord) {
	a := &s.nodes[i]
	addr := &a.p.From
	if w.store {
		addr, a.store = &a.p.To, true
	}
	a.base = w.base
	a.off, a.size = int64(w.offset), int64(w.size)
	switch cls := s.aclass(addr); {
	case cls == C_ADDR:
		a.mem = rlxGlobal
	case cls == C_SAUTO || cls == C_LAUTO || addr.Reg == REGSP:
		a.mem = rlxStack
		if a.n != 1 {
			a.off, a.size = -1<<40, 1<<41
		}
		switch addr.Name {
		case obj.NAME_NONE:
			// Zeros at the entry go to variables.
			a.private = !s.outAddr && !(s.autoAddr && a.store && a.p.From.Reg == REGZERO)
		case obj.NAME_AUTO:
			a.private = !s.autoAddr
		case obj.NAME_PARAM:
			a.private = !s.argAddr[addr.Sym]
		}
		a.private = a.private && !s.ctxt.IsAsm
	default:
		a.mem, a.faults = rlxPointer, true
		a.near = a.n == 1 && w.offset >= 0 && w.offset < 4096-8
		a.since = i - 1
		for ; a.since >= 0; a.since-- {
			if b := &s.nodes[a.since]; b.writes>>w.base&1 != 0 {
				a.loaded = b.last().late>>w.base&1 != 0
				break
			}
		}
		if w.base == REGG-REG_R0 && s.inRun {
			a.faults = false
		}
		for j := 0; j < i && s.inRun && a.near && a.faults; j++ {
			if b := &s.nodes[j]; b.near && b.base == a.base && b.since == a.since {
				a.safe, a.faults = j+1, false
			}
		}
	}
}

// seen reports whether a store can be seen after a fault in this frame.
func (s *rlxSched) seen(a *rlxNode) bool { return !a.private || s.defers }

// dep returns how far behind a the later b must be: 0 says that they are
// independent.
func (s *rlxSched) dep(a, b *rlxNode) uint8 {
	if a.mem != rlxNoMem && b.mem != rlxNoMem && s.memDep(a, b) {
		return max(1, s.regDep(a, b))
	}
	return s.regDep(a, b)
}

func (s *rlxSched) regDep(a, b *rlxNode) uint8 {
	if a.writes&(b.reads|b.writes) == 0 && a.reads&b.writes == 0 {
		return 0
	}
	o := rlxOrder{since: 2}
	o.add(a.last())
	return uint8(1 + o.wait(b.first()))
}

func (s *rlxSched) memDep(a, b *rlxNode) bool {
	overlap := a.off < b.off+b.size && b.off < a.off+a.size
	if a.near && b.near && a.base == b.base && a.since == b.since && s.inRun {
		// Near one pointer: both fault or none, and what one accesses the
		// other does not if the offsets say so. Stores keep their order all the
		// same, for whoever reads them on another thread or in a signal's
		// handler.
		return a.store && b.store || (a.store || b.store) && overlap
	}
	if a.store || b.store {
		switch {
		case a.mem == rlxStack && b.mem == rlxStack:
			if overlap {
				return true
			}
		case a.mem == rlxStack && a.private, b.mem == rlxStack && b.private:
		case a.mem == rlxStack && b.mem == rlxGlobal, a.mem == rlxGlobal && b.mem == rlxStack:
		default:
			return true
		}
	}
	switch {
	case a.faults && b.faults:
		if a.store || b.store {
			return true
		}
		// b in front of a may be the one that faults: it must do so near zero
		// if a would have.
		return !b.near || !b.loaded && !(a.near && a.base == b.base)
	case a.faults:
		return b.store && s.seen(b)
	case b.faults:
		return a.store && s.seen(a)
	}
	// Stores that others may see keep their order.
	return a.store && b.store && !a.private && !b.private
}

// run orders the first n nodes, which stand between prev and end, and returns
// the last Prog in front of end, or of the slot if term, a branch, is end. slot
// is what its slot must hold, or nil.
func (s *rlxSched) run(prev *obj.Prog, n int, end, term, slot *obj.Prog) *obj.Prog {
	if n == 0 && slot == nil {
		for _, p := range s.zeros {
			prev = s.relink(prev, p)
		}
		s.zeros = s.zeros[:0]
		if term != nil {
			return s.relink(prev, term)
		}
		return prev
	}

	var termWord, slotWord [4]rlxWord
	if term != nil {
		s.rlxWords(term, &termWord)
	}
	if slot != nil {
		s.rlxWords(slot, &slotWord)
	}
	var start rlxOrder
	start.reset()
	if s.real != nil {
		if w := s.rlxWords(s.real, new([4]rlxWord)); len(w) > 0 {
			start.add(&w[len(w)-1])
		}
	}
	s.graph(n, term, &termWord[0])

	// What follows the run.
	var after [2]*rlxWord
	if term != nil {
		after[0] = &termWord[0]
		after[1] = &slotWord[0]
	} else {
		for p := end; p != nil; p = p.Link {
			if !s.empty(p) && s.rlxWords(p, &termWord) != nil {
				after[0] = &termWord[0]
				break
			}
		}
	}

	var best, order [rlxRun]uint8
	bestLen, bestCost, bestSlot := 0, 1<<30, -1
	try := func(out int) {
		if cost := s.inOrder(&order, n, out, start, after); cost < bestCost {
			best, bestLen, bestCost, bestSlot = order, s.count(n, out), cost, out
		}
		if cost := s.list(&order, n, out, start, after); cost < bestCost {
			best, bestLen, bestCost, bestSlot = order, s.count(n, out), cost, out
		}
	}
	try(-1)
	if term != nil && slot == nil {
		bestCost++ // its NOP
		tries := 0
		for i := n - 1; i >= 0 && tries < 6; i-- {
			if s.fits(i, n, term, &termWord[0]) {
				tries++
				try(i)
			}
		}
	}

	// Put it together.
	if bestSlot == 0 || bestLen > 0 && best[0] != 0 {
		if first := s.nodes[0].p; first.Mark&rlxTarget != 0 {
			s.nodes[0].p = s.split(first)
			prev = s.relink(prev, first)
		}
	}
	for _, i := range best[:bestLen] {
		prev = s.relink(prev, s.nodes[i].p)
	}
	for _, p := range s.zeros {
		prev = s.relink(prev, p)
	}
	s.zeros = s.zeros[:0]
	if term == nil {
		prev.Link = end
		return prev
	}
	prev = s.relink(prev, term)
	if bestSlot >= 0 {
		slot = s.nodes[bestSlot].p
	}
	if slot == nil {
		return prev
	}
	rest := term.Link
	if rest == slot { // not reached: a return's addition is in front of it
		rest = slot.Link
	}
	rest = rest.Link // past the NOP
	if !s.marks[slot] {
		slot.Pos = term.Pos.WithNotStmt()
	}
	prev = s.relink(prev, slot)
	slot.Link = rest
	return prev
}

func (s *rlxSched) count(n, out int) int {
	if out >= 0 {
		return n - 1
	}
	return n
}

// graph fills in the dependences of the first n nodes and how far each is from
// the end.
func (s *rlxSched) graph(n int, term *obj.Prog, t *rlxWord) {
	for j := range n {
		s.preds[j] = 0
		for i := range j {
			s.lat[i][j] = s.dep(&s.nodes[i], &s.nodes[j])
			if s.nodes[j].safe == i+1 {
				s.lat[i][j] = max(1, s.lat[i][j])
			}
			if s.lat[i][j] > 0 {
				s.preds[j] |= 1 << i
			}
		}
	}
	for i := n - 1; i >= 0; i-- {
		a := &s.nodes[i]
		s.prio[i] = 0
		if late := a.last().late; late != 0 {
			s.prio[i] = 1
			if term != nil && late&t.reads != 0 {
				s.prio[i] = 2
			}
		}
		for j := i + 1; j < n; j++ {
			if s.preds[j]>>i&1 == 0 {
				continue
			}
			lat := int(s.lat[i][j])
			if a.last().mulDiv() && s.nodes[j].first().fromHILO() {
				lat = 4 // it waits, and may as well do something else
			}
			s.prio[i] = max(s.prio[i], lat+s.prio[j]+s.nodes[j].n-1)
		}
	}
}

// fits reports whether node i may go into the slot of term.
func (s *rlxSched) fits(i, n int, term *obj.Prog, t *rlxWord) bool {
	a := &s.nodes[i]
	w := a.first()
	switch {
	case term.To.Sym != nil && term.To.Sym.Name == "runtime.deferreturn":
		return false // a recovered panic goes on at this very call, with nothing in registers
	case a.n != 1 || w.late != 0 || w.fromHILO() || w.mulDiv():
		return false
	case a.p.As == ANOOP || (a.reads|a.writes)&rlxTmp != 0 || s.isUnsafePoint(a.p):
		return false
	case a.writes&t.reads != 0 || t.writes&(a.reads|a.writes) != 0:
		return false
	case a.mem == rlxPointer:
		return false // a fault would be the branch's
	case s.marks[a.p] && t.writes != 0:
		return false // a call's slot has the call's position
	}
	for j := i + 1; j < n; j++ {
		if s.preds[j]>>i&1 != 0 {
			return false
		}
	}
	return true
}

// cost returns how many NOPs an order takes.
func (s *rlxSched) cost(order []uint8, o rlxOrder, out int, after [2]*rlxWord) int {
	cost := 0
	step := func(w *rlxWord) {
		cost += o.wait(w)
		o.add(w)
	}
	for _, i := range order {
		a := &s.nodes[i]
		for j := range a.n {
			step(&a.words[j])
		}
	}
	if after[0] != nil {
		step(after[0])
	}
	if out >= 0 {
		step(s.nodes[out].first())
	} else if after[1] != nil {
		step(after[1])
	}
	return cost
}

// inOrder leaves the first n nodes but out as they are.
func (s *rlxSched) inOrder(order *[rlxRun]uint8, n, out int, start rlxOrder, after [2]*rlxWord) int {
	k := 0
	for i := range n {
		if i != out {
			order[k] = uint8(i)
			k++
		}
	}
	return s.cost(order[:k], start, out, after)
}

// list orders the first n nodes but out: at each step, of those whose
// dependences are met, one that need not wait, and of those the one farthest
// from the end.
func (s *rlxSched) list(order *[rlxRun]uint8, n, out int, start rlxOrder, after [2]*rlxWord) int {
	left := uint64(1)<<n - 1
	if out >= 0 {
		left &^= 1 << out
	}
	k := 0
	o := start
	for left != 0 {
		best, bestWait := -1, 0
		for set := left; set != 0; set &= set - 1 {
			i := bits.TrailingZeros64(set)
			if s.preds[i]&left != 0 {
				continue
			}
			wait := o.wait(s.nodes[i].first())
			if best < 0 || wait < bestWait || wait == bestWait && s.prio[i] > s.prio[best] {
				best, bestWait = i, wait
			}
		}
		for range bestWait {
			o.nop()
		}
		for j := range s.nodes[best].n {
			o.add(&s.nodes[best].words[j])
		}
		order[k] = uint8(best)
		k++
		left &^= 1 << best
	}
	return s.cost(order[:k], start, out, after)
}

// split makes p, to which branches lead, a place of its own without an
// instruction, and returns the instruction that stood there.
func (s *rlxSched) split(p *obj.Prog) *obj.Prog {
	q := s.newprog()
	*q = *p
	q.Mark &^= rlxTarget | LABEL
	*p = obj.Prog{Ctxt: p.Ctxt, Link: q, Pc: p.Pc, Pos: p.Pos, As: obj.ANOP, Mark: rlxTarget | LABEL}
	if s.marks[p] {
		delete(s.marks, p)
		s.marks[q] = true
		s.cursym.Func().RlxMoveInlMark(p, q)
	}
	return q
}

// noticeUnsafe finds the Progs that asynchronous preemption keeps away from.
func (s *rlxSched) noticeUnsafe() {
	s.unsafe = map[*obj.Prog]bool{}
	now := false
	for p := s.cursym.Func().Text; p != nil; p = p.Link {
		if p.As == obj.APCDATA && p.From.Offset == abi.PCDATA_UnsafePoint {
			now = p.To.Offset != abi.UnsafePointSafe
		}
		if now {
			s.unsafe[p] = true
		}
	}
}

// jumps fills the slots of jumps that are still empty with what stands at
// their targets, and lets them jump behind it.
func (s *rlxSched) jumps() {
	for p := s.cursym.Func().Text; p != nil; p = p.Link {
		if p.As != AJMP || p.Mark&BRANCH == 0 || p.To.Type != obj.TYPE_BRANCH || p.To.Sym != nil || p.Link == nil || p.Link.As != ANOOP {
			continue
		}
		t := p.To.Target()
		for t != nil && s.transparent(t) {
			t = t.Link
		}
		if t == nil || t.Link == nil || s.unsafe[t] || s.unsafe[p] || !s.movable(t) || t.As == ANOOP || s.isUnsafePoint(t) || !s.node(0, t) {
			continue
		}
		a := &s.nodes[0]
		w := a.first()
		if a.n != 1 || a.mem == rlxPointer || w.late != 0 || w.fromHILO() || w.mulDiv() || (a.reads|a.writes)&rlxTmp != 0 {
			continue
		}
		slot := p.Link
		*slot = obj.Prog{Ctxt: slot.Ctxt, Link: slot.Link, Pc: slot.Pc, Pos: p.Pos.WithNotStmt(), As: t.As, From: t.From, Reg: t.Reg, RestArgs: t.RestArgs, To: t.To}
		p.To.SetTarget(t.Link)
		t.Link.Mark |= rlxTarget | LABEL
	}
}
