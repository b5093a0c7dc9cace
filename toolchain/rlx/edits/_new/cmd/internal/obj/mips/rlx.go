package mips

// Code for the RLX4181 and its like: MIPS-I with LL, SC, MOVZ and MOVN, big
// endian, without FPU, whose loads arrive one instruction late with no
// interlock. The register that a load writes has its old value in the
// instruction after it. There is no trap: a program that breaks the rule
// computes with wrong numbers.
//
// Everything is done here, after the Progs of compiler and assembler have been
// put together, so both are covered: rlxLower takes out what the core does not
// have, rlxSchedule (rlxsched.go) orders instructions so that few delays cost
// anything, rlxPad fills what is left with NOPs, and rlxCheck, which trusts none
// of them, looks at every word on its way out.

import (
	"cmd/internal/obj"
	"cmd/internal/sys"
	"internal/abi"
)

// Bits of Prog.Mark beside those of a.out.go.
const (
	// rlxUnsafe: REGTMP is live here although the Prog does not name it.
	rlxUnsafe = 1 << (8 + iota)
	// rlxTarget: a branch leads here.
	rlxTarget
)

// rlx reports whether the code is for such a core. All of GOARCH=mips is.
func (c *ctxt0) rlx() bool { return c.ctxt.Arch.Arch == sys.ArchMIPS }

// rlxWords assembles a Prog without keeping anything of it, and returns what
// its words do. A word that the core does not have does nothing here;
// rlxCheck rejects it later.
func (c *ctxt0) rlxWords(p *obj.Prog, buf *[4]rlxWord) []rlxWord {
	o := c.oplook(p)
	if o.size == 0 {
		return nil
	}
	q := *p
	if q.To.Type == obj.TYPE_BRANCH {
		q.To.Val = nil // distances are not known yet and do not matter
	}
	var out [4]uint32
	relocs := len(c.cursym.R)
	c.asmout(&q, o, out[:])
	c.cursym.R = c.cursym.R[:relocs]
	n := int(o.size / 4)
	for i := range n {
		buf[i], _ = rlxDecode(out[i])
	}
	return buf[:n]
}

// rlxAppend puts a new Prog after p.
func (c *ctxt0) rlxAppend(p *obj.Prog, as obj.As) *obj.Prog {
	q := obj.Appendp(p, c.newprog)
	q.As = as
	q.Pos = p.Pos
	return q
}

// rlxLower replaces what the core does not have and what has a plain
// substitute: MUL with a destination by MULT and MFLO, UNDEF (TEQ) by BREAK,
// and a call through the link register by one through REGTMP. It also marks the targets of branches.
func (c *ctxt0) rlxLower() {
	if !c.rlx() {
		return
	}
	for p := c.cursym.Func().Text; p != nil; p = p.Link {
		if p.To.Type == obj.TYPE_BRANCH {
			if t := p.To.Target(); t != nil {
				t.Mark |= rlxTarget
			}
		}
		switch p.As {
		case obj.AUNDEF:
			p.As, p.Optab = ABREAK, 0
		case AJAL:
			// A call through the link register cannot be started again after
			// an exception in its slot.
			if p.To.Type == obj.TYPE_BRANCH || p.To.Reg != REGLINK || p.Reg != obj.REG_NONE {
				break
			}
			q := c.newprog()
			*q = *p
			q.To.Reg = REGTMP
			q.Mark &^= rlxTarget
			*p = obj.Prog{Ctxt: p.Ctxt, Link: q, Pc: p.Pc, Pos: p.Pos, As: AMOVW, Mark: p.Mark &^ BRANCH}
			p.From.Type = obj.TYPE_REG
			p.From.Reg = REGLINK
			p.To.Type = obj.TYPE_REG
			p.To.Reg = REGTMP
			p = q
		case AMUL:
			if p.To.Type != obj.TYPE_REG {
				break
			}
			if p.Reg == obj.REG_NONE {
				p.Reg = p.To.Reg
			}
			q := c.rlxAppend(p, AMOVW)
			q.From.Type = obj.TYPE_REG
			q.From.Reg = REG_LO
			q.To.Type = obj.TYPE_REG
			q.To.Reg = p.To.Reg
			p.To = obj.Addr{}
			p.Optab = 0
		}
	}
}

// rlxPad inserts NOPs where a load's register is touched too early, or HI or LO
// written too early after they were read; and takes out SYNC, which has by then
// kept the instructions around it in their places.
//
// Looking at neighbours in layout order is enough: a branch and its slot stand
// between what precedes it and its target, and neither a load nor a read of HI
// or LO is ever in a slot.
func (c *ctxt0) rlxPad() {
	if !c.rlx() {
		return
	}
	text := c.cursym.Func().Text
	var marks map[*obj.Prog]bool
	var buf [4]rlxWord
	var last *obj.Prog // the last Prog with a size
	var order rlxOrder
	order.reset()
	for p := text.Link; p != nil; p = p.Link {
		if p.As == ASYNC {
			if marks == nil {
				marks = c.cursym.Func().RlxInlMarks()
			}
			// A mark of an inlined call must keep a pc of its own.
			p.As, p.Optab = obj.ANOP, 0
			if marks[p] {
				p.As = ANOOP
			}
		}
		words := c.rlxWords(p, &buf)
		if len(words) == 0 {
			continue
		}
		for range order.wait(&words[0]) {
			last = c.rlxAppend(last, ANOOP)
			order.nop()
		}
		for i := range words {
			order.add(&words[i])
		}
		last = p
	}
	if order.late != 0 {
		c.rlxAppend(last, ANOOP) // whatever the linker puts behind
	}
	c.rlxMarkTmp()
}

// rlxOrder follows words in their order and tells when the next may come.
type rlxOrder struct {
	late  uint64 // what the last word loads
	merge bool
	since int // words since the last that read HI or LO
}

func (o *rlxOrder) reset() { *o = rlxOrder{since: 2} }

// wait returns how many words must stand between the last word and w.
func (o *rlxOrder) wait(w *rlxWord) int {
	n := 0
	if o.late&(w.reads|w.writes) != 0 && !(o.merge && w.merge && w.writes == o.late && 1<<w.base&o.late == 0) {
		n = 1
	}
	if w.mulDiv() {
		n = max(n, 2-o.since)
	}
	return n
}

func (o *rlxOrder) nop() {
	o.late, o.merge = 0, false
	o.since++
}

func (o *rlxOrder) add(w *rlxWord) {
	o.late, o.merge = w.late, w.merge
	o.since++
	if w.fromHILO() {
		o.since = 0
	}
}

// rlxMarkTmp marks the Progs that do not name REGTMP but stand where it is
// live. Asynchronous preemption, which uses REGTMP, knows a Prog that it must
// not interrupt by the registers it names.
func (c *ctxt0) rlxMarkTmp() {
	var progs []*obj.Prog
	for p := c.cursym.Func().Text.Link; p != nil; p = p.Link {
		progs = append(progs, p)
	}
	var buf [4]rlxWord
	live := false
	for i := len(progs) - 1; i >= 0; i-- {
		p := progs[i]
		words := c.rlxWords(p, &buf)
		if p.Mark&BRANCH != 0 {
			live = false
		}
		for i := len(words) - 1; i >= 0; i-- {
			if words[i].writes&rlxTmp != 0 {
				live = false
			}
			if words[i].reads&rlxTmp != 0 {
				live = true
			}
		}
		if live && len(words) > 0 {
			p.Mark |= rlxUnsafe
		}
	}
}

// rlxCheck looks at every word of the function's text and rejects what the core
// does not have and what comes too early.
func (c *ctxt0) rlxCheck() {
	if !c.rlx() {
		return
	}
	var order rlxOrder
	order.reset()
	slot := false // the word is in a delay slot
	for p := c.cursym.Func().Text.Link; p != nil; p = p.Link {
		for i := range int64(c.oplook(p).size / 4) {
			v := c.ctxt.Arch.ByteOrder.Uint32(c.cursym.P[p.Pc+4*i:])
			w, reason := rlxDecode(v)
			switch {
			case reason != "":
			case order.late&(w.reads|w.writes) != 0 && order.wait(&w) > 0:
				reason = "it touches a register that is still being loaded"
			case order.wait(&w) > 0:
				reason = "it writes HI or LO within two instructions of a read"
			case slot && w.branch:
				reason = "a branch in a delay slot"
			case slot && w.late != 0:
				reason = "a load in a delay slot"
			case slot && w.fromHILO():
				reason = "a read of HI or LO in a delay slot"
			case w.branch && p.As == AWORD:
				reason = "a branch given as a word, whose slot nobody fills"
			}
			if reason != "" {
				c.ctxt.Diag("%#08x is not for this CPU (%s): %v", v, reason, p)
			}
			order.add(&w)
			slot = w.branch
		}
	}
}

// rlxEarly moves the copy of LR for morestack in front of the check of the
// stack, which begins behind start with the load of the stack guard: it fits
// between the load and its use, or into the slot of the branch. R3 is nobody's at
// a function's entry.
func (c *ctxt0) rlxEarly(start *obj.Prog, framesize int32) {
	if !c.rlx() || framesize > abi.StackBig {
		return // in a big frame's check a branch leads to the copy
	}
	at := start.Link.Link // the start of the unsafe range
	for prev := at; prev.Link != nil; prev = prev.Link {
		p := prev.Link
		if p.As == AMOVW && p.From.Type == obj.TYPE_REG && p.From.Reg == REGLINK && p.To.Type == obj.TYPE_REG && p.To.Reg == REG_R3 {
			prev.Link = p.Link
			p.Link = at.Link
			at.Link = p
			return
		}
	}
}
