package check

import (
	"fmt"

	"gwinit/toolchain/rlx/isa"
)

// judge applies every rule to every word that control reaches.
func (c *checker) judge() {
	for i, m := range c.mark {
		if m&(reached|slotted) == 0 {
			continue
		}
		c.word(i)
		if m&reached != 0 {
			c.step(step{i, false})
		}
		if m&slotted != 0 {
			c.step(step{i, true})
		}
	}
}

// violate counts a violation and keeps it.
func (c *checker) violate(v Violation) {
	switch v.Rule {
	case LoadRace, LLWithoutSC, RunOff, Emulated:
		v.Note = c.opt.Foreign
	case SCUse:
		v.Note = !c.opt.StrictSC
	case BadTarget:
		// GNU ld makes a call of address 0 of one to a weak function that is
		// not there; the program asks for it before it calls.
		t, ok := isa.Decode(v.Word).Target(v.Addr)
		v.Note = c.opt.Foreign && ok && t == 0
	}
	c.report.add(v)
}

// word judges a word by itself.
func (c *checker) word(i int) {
	w := c.words[i]
	in := isa.Decode(w)
	c.count(i, in)
	v := Violation{Addr: c.addr(i), Word: w, text: in.Verdict.String()}
	if in.Why != "" {
		v.text += ": " + in.Why
	}
	switch {
	case w == isa.TLSWord:
		c.report.Stats.RDHWR++
	case in.Verdict == isa.Emulated:
		v.Rule = Emulated
		c.violate(v)
	case in.Verdict != isa.OK:
		v.Rule = Forbidden
		c.report.Mnemonics[in.Name]++
		c.violate(v)
	}
}

// count keeps the figures of one word.
func (c *checker) count(i int, in isa.Inst) {
	s := &c.report.Stats
	switch {
	case in.Word == isa.NOP:
		s.NOPs++
	case in.Is(isa.LinkedLoad):
		s.LL++
	case in.Is(isa.StoreCond):
		s.SC++
	case in.Is(isa.MulDiv):
		s.MulDiv++
	}
	if in.Is(isa.Load) {
		s.Loads++
		r := in.Writes()
		if j, ok := c.image.after(i); ok && r != 0 {
			switch u := isa.Decode(c.words[j]); {
			case u.Word == isa.NOP:
				s.LoadsNOP++
				if k, ok := c.image.after(j); ok && isa.Decode(c.words[k]).Reads()&r != 0 {
					s.LoadsPadded++
				}
			case uses(u)&r != 0 && !merges(in, u):
				s.LoadsUsed++
			}
		}
	}
	if in.HasSlot() {
		if j, ok := c.image.after(i); ok {
			k := SlotOther
			switch {
			case in.Is(isa.Link):
				k = SlotCall
			case in.Is(isa.Branch) && !in.Always():
				k = SlotBranch
			case in.Is(isa.Indirect) && in.RS() == 31:
				k = SlotReturn
			}
			s.Slots[k].All++
			if c.words[j] == isa.NOP {
				s.Slots[k].NOP++
			}
		}
	}
}

// step judges a word with what can execute directly after it.
func (c *checker) step(s step) {
	in := isa.Decode(c.words[s.i])
	if in.HasSlot() {
		c.branch(s, in)
	}
	if !in.HasSlot() || s.slot {
		c.edges(s, in)
	}
	switch {
	case in.Is(isa.Load):
		c.load(s, in)
	case in.Is(isa.StoreCond):
		c.storeCond(s, in)
	case in.Is(isa.FromHILO):
		c.hilo(s, in)
	}
	if in.Is(isa.LinkedLoad) {
		c.linked(s)
	}
}

// branch judges a branch's place and its target.
func (c *checker) branch(s step, in isa.Inst) {
	v := Violation{Addr: c.addr(s.i), Word: in.Word}
	if s.slot {
		v.Rule, v.text = BranchInSlot, "in the delay slot of the branch before it"
		c.violate(v)
		return
	}
	if _, ok := c.image.after(s.i); !ok {
		v.Rule, v.text = RunOff, "its delay slot is not in the code"
		c.violate(v)
	}
	t, ok := in.Target(v.Addr)
	if !ok {
		if in.Is(isa.Link) {
			c.report.Stats.IndirectCalls++
		} else if in.RS() != 31 {
			c.report.Stats.IndirectJumps++
		}
		return
	}
	if _, ok := c.index(t); !ok && !in.Never() {
		v.Rule, v.text = BadTarget, fmt.Sprintf("%#x is not in the code", t)
		c.violate(v)
	}
}

// edges finds control that runs over the end of a function: by going on to the
// next word where that belongs to another one, or to none.
func (c *checker) edges(s step, in isa.Inst) {
	if s.slot {
		b := isa.Decode(c.words[s.i-1])
		if b.Always() {
			return // a jump; what is behind a call is returnsTo's business
		}
		if b.Is(isa.Link) {
			if _, ok := c.returnsTo(s.i - 1); !ok {
				return
			}
		}
	}
	v := Violation{Rule: RunOff, Addr: c.addr(s.i), Word: in.Word}
	j, ok := c.image.after(s.i)
	f := c.fn[s.i]
	switch {
	case stops(in) && (!ok || c.onlyNops(f, j)):
		return
	case !ok:
		v.text = "the code ends behind it"
	case f != none && c.fn[j] != f && !c.inner(f, j):
		v.Other, v.Next, v.NextWord = true, c.addr(j), c.words[j]
		v.text = "the function ends between them"
	default:
		return
	}
	c.violate(v)
}

// inner reports whether the function at word j stands inside function f.
func (c *checker) inner(f int32, j int) bool {
	return c.fns[f].end > c.addr(j)
}

// merges reports whether b completes the word that a began to load: LWL and LWR
// of one register may follow each other directly ("MIPS RISC Architecture",
// appendix A, LWL), if the address does not need it.
func merges(a, b isa.Inst) bool {
	return a.Is(isa.Merge) && b.Is(isa.Merge) && a.Word>>26 != b.Word>>26 && a.RT() == b.RT() && b.RS() != b.RT()
}

// uses is the set of registers whose value an instruction takes. That a MOVZ or
// MOVN leaves its destination as it was needs no value: it writes or does not, and
// one behind the load of its destination was measured on the core to be right
// when it does not. When it does, it is a second write.
func uses(in isa.Inst) isa.Regs {
	r := in.Reads()
	if d := in.RD(); in.Is(isa.ReadRD) && d != in.RS() && d != in.RT() {
		r &^= isa.Reg(d)
	}
	return r
}

// load judges the delay of a load.
func (c *checker) load(s step, in isa.Inst) {
	r := in.Writes()
	if r == 0 {
		return
	}
	x := c.successors(s)
	if x.unknown {
		c.violate(Violation{
			Rule: LoadInSlot, Addr: c.addr(s.i), Word: in.Word, Regs: r,
			Other: true, Next: c.addr(s.i - 1), NextWord: c.words[s.i-1],
			text: "nobody knows what its target does first",
		})
	}
	for _, n := range x.to[:x.n] {
		u := isa.Decode(c.words[n.i])
		v := Violation{Addr: c.addr(s.i), Word: in.Word, Other: true, Next: c.addr(n.i), NextWord: u.Word}
		switch {
		case merges(in, u):
			continue
		case uses(u)&r != 0:
			v.Rule, v.Regs, v.text = LoadUse, r, "reads the old value of "+r.String()
		case u.Writes()&r != 0:
			v.Rule, v.Regs, v.text = LoadRace, r, "writes "+r.String()+" as well"
		default:
			continue
		}
		c.violate(v)
	}
}

// storeCond looks whether the result of an SC is read at once.
func (c *checker) storeCond(s step, in isa.Inst) {
	x := c.successors(s)
	for _, n := range x.to[:x.n] {
		u := isa.Decode(c.words[n.i])
		if r := u.Reads() & in.Writes(); r != 0 {
			c.violate(Violation{
				Rule: SCUse, Addr: c.addr(s.i), Word: in.Word, Other: true, Next: c.addr(n.i), NextWord: u.Word, Regs: r,
				text: "reads the result at once",
			})
		}
	}
}

// hiloGap is how many instructions must stand between a read of HI or LO and
// what overwrites them.
const hiloGap = 2

// hilo judges a read of HI or LO: what follows may overwrite them only after
// two other instructions.
func (c *checker) hilo(s step, in isa.Inst) {
	at := c.addr(s.i)
	seen := map[Violation]bool{} // paths that meet again count once
	var walk func(s step, left int)
	walk = func(s step, left int) {
		x := c.successors(s)
		v := Violation{Rule: HILO, Addr: at, Word: in.Word, Regs: in.Reads(), Other: true}
		if x.unknown {
			v.Next, v.NextWord, v.text = c.addr(s.i-1), c.words[s.i-1], "nobody knows what its target does first"
			seen[v] = true
		}
		for _, n := range x.to[:x.n] {
			u := isa.Decode(c.words[n.i])
			if u.Is(isa.MulDiv) || u.Is(isa.ToHILO) {
				v := v
				v.Next, v.NextWord = c.addr(n.i), u.Word
				v.text = fmt.Sprintf("%d of %d instructions between them", hiloGap-left, hiloGap)
				seen[v] = true
				continue
			}
			if left > 1 {
				walk(n, left-1)
			}
		}
	}
	walk(s, hiloGap)
	for v := range seen {
		c.violate(v)
	}
}

// longLinked is how many instructions are followed from an LL at most. Sequences
// have ten or so; one that is preempted again and again never ends.
const longLinked = 500

// manyExits is how many ways out of one sequence are reported at most.
const manyExits = 8

// linked follows every path from an LL to its SC.
func (c *checker) linked(ll step) {
	seen := map[step]bool{}
	exits := map[int]bool{}
	exit := func(i int, text string) {
		if exits[i] {
			return
		}
		exits[i] = true
		c.violate(Violation{
			Rule: LLWithoutSC, Addr: c.addr(ll.i), Word: c.words[ll.i],
			Other: true, Next: c.addr(i), NextWord: c.words[i], text: text,
		})
	}
	f := c.fn[ll.i]
	todo := []step{ll}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if len(exits) == manyExits {
			return
		}
		if len(seen) > longLinked {
			exit(s.i, fmt.Sprintf("has no SC for more than %d instructions", longLinked))
			return
		}
		x := c.successors(s)
		if s.slot {
			if b := isa.Decode(c.words[s.i-1]); b.Is(isa.Link) && !b.Never() || b.Is(isa.Indirect) {
				exit(s.i-1, "leaves the function without an SC")
				if b.Always() || x.n == 0 {
					continue
				}
				x.to[0], x.n = x.to[x.n-1], 1 // not taken
			}
		}
		for _, n := range x.to[:x.n] {
			u := isa.Decode(c.words[n.i])
			switch {
			case seen[n]:
				continue
			case f != none && c.fn[n.i] != f && !n.slot:
				exit(s.i, "leaves the function without an SC")
			case u.Is(isa.StoreCond):
			case u.Is(isa.LinkedLoad):
				exit(n.i, "meets an LL before an SC")
			case u.Is(isa.Syscall):
				exit(n.i, "enters the kernel without an SC")
			case !stops(u):
				todo = append(todo, n)
			}
			seen[n] = true
		}
	}
}
