package emu

import "math/bits"

// stop says why run came back.
type stop uint8

const (
	stopBudget  stop = iota
	stopSyscall      // pc and npc stand behind the instruction
	stopFault        // machine.fault is set; pc is the exception's EPC
	stopLoad         // machine.late holds a load that the next instruction must not see
	stopStrict       // machine.broken is set
)

// fault is an exception that becomes a signal.
type fault struct {
	sig, code, addr uint32
}

// late is a load whose value arrives one instruction later.
type late struct {
	reg   uint8
	value uint32
}

// cpu is the state of a thread in the core. The array is 256 long so that an
// index of eight bits needs no check.
type cpu struct {
	r       [256]uint32
	pc, npc uint32
	// inSlot: pc is the delay slot of the branch right before it.
	inSlot bool
	// sinceHL is the number of instructions since the last MFHI or MFLO, at
	// most 3.
	sinceHL int64
}

// fetch returns the decoded page of addr, or nil when it may not be executed.
func (m *Machine) fetch(addr uint32) *codePage {
	if addr >= userTop || m.mem.perm[addr/pageSize]&permExec == 0 {
		return nil
	}
	if p := m.mem.code.get(addr); p != nil {
		return p
	}
	start := addr &^ (pageSize - 1)
	p := new(codePage)
	mips32 := m.cfg.Mode == ModeMIPS32
	prevBranch := start >= pageSize && m.mem.perm[start/pageSize-1]&permExec != 0 && isBranch(word(m.mem.base, start-4))
	for i := range p {
		pc := start + uint32(i)*4
		w := word(m.mem.base, pc)
		p[i] = decode(w, pc, mips32)
		if isLoad(w) && !mips32 {
			slow := prevBranch
			if i+1 < len(p) || pc+4 < userTop && m.mem.perm[(pc+4)/pageSize]&permExec != 0 {
				slow = slow || loadHazard(w, word(m.mem.base, pc+4)) != hazardNone
			}
			if slow {
				p[i].c, p[i].op = uint8(p[i].op), opLoadSlow
			}
		}
		prevBranch = isBranch(w)
	}
	m.mem.perm[start/pageSize] &^= permStore
	m.mem.code.put(addr, p)
	return p
}

// run executes at most budget instructions of c and returns why it stopped and
// how many it executed. An instruction that faults counts as one.
func (m *Machine) run(c *cpu, budget int64) (stop, int64) {
	var (
		r         = &c.r
		base      = m.mem.base
		perm      = m.mem.perm
		pc, npc   = c.pc, c.npc
		left      = budget
		ins       *codePage
		page      = uint32(1) // no page begins there
		bleft     = int64(-1) // left when the last branch was executed
		hleft     = budget + c.sinceHL
		why       = stopBudget
		nloads    int64
		nstores   int64
		nnops     int64
		cur       uint32
		slotFirst = c.inSlot
		fetchSlot bool
	)
	if pc&3 != 0 {
		m.fault = fault{sigBUS, siKERNEL, 0}
		return stopFault, 0
	}
loop:
	for left > 0 {
		off := pc - page
		if off >= pageSize {
			ins = m.fetch(pc)
			if ins == nil {
				// The exception is the fetch's: EPC is pc itself.
				m.fault = m.accessFault(pc)
				why = stopFault
				cur = pc
				fetchSlot = bleft == left || left == budget && slotFirst
				break loop
			}
			page = pc &^ (pageSize - 1)
			off = pc - page
		}
		in := &ins[off/4%1024]
		left--
		cur = pc
		pc = npc
		npc += 4
		switch in.op {
		case opNop:
			nnops++
		case opADDIU:
			r[in.c] = r[in.a] + in.imm
		case opADDU:
			r[in.c] = r[in.a] + r[in.b]
		case opSUBU:
			r[in.c] = r[in.a] - r[in.b]
		case opLW:
			nloads++
			a := r[in.a] + in.imm
			if perm[a/pageSize]&permRead != 0 && a&3 == 0 {
				r[in.b] = word(base, a)
				continue
			}
			v, ok := m.load(opLW, a, 0)
			if !ok {
				why = stopFault
				break loop
			}
			r[in.b] = v
		case opSW:
			nstores++
			a := r[in.a] + in.imm
			if perm[a/pageSize]&permStore != 0 && a&3 == 0 {
				putWord(base, a, r[in.b])
				continue
			}
			if !m.store(opSW, a, r[in.b]) {
				why = stopFault
				break loop
			}
			page = 1
		case opLBU:
			nloads++
			a := r[in.a] + in.imm
			if perm[a/pageSize]&permRead != 0 {
				r[in.b] = uint32(*byteAt(base, a))
				continue
			}
			v, ok := m.load(opLBU, a, 0)
			if !ok {
				why = stopFault
				break loop
			}
			r[in.b] = v
		case opLB, opLH, opLHU, opLWL, opLWR, opLL:
			nloads++
			v, ok := m.load(in.op, r[in.a]+in.imm, r[in.b])
			if !ok {
				why = stopFault
				break loop
			}
			r[in.b] = v
		case opSB:
			nstores++
			a := r[in.a] + in.imm
			if perm[a/pageSize]&permStore != 0 {
				*byteAt(base, a) = uint8(r[in.b])
				continue
			}
			if !m.store(opSB, a, r[in.b]) {
				why = stopFault
				break loop
			}
			page = 1
		case opSH, opSWL, opSWR:
			nstores++
			a := r[in.a] + in.imm
			if perm[a/pageSize]&permStore == 0 {
				page = 1
			}
			if !m.store(in.op, a, r[in.b]) {
				why = stopFault
				break loop
			}
		case opSC:
			ok, done := m.storeConditional(r[in.a]+in.imm, r[in.b])
			if !ok {
				why = stopFault
				break loop
			}
			r[dest(uint32(in.b))] = done
			page = 1 // the store may have been to code
			if m.cfg.Mode != ModeMIPS32 && m.readsNext(pc, in.b) && m.violation(ViolationSC, cur, pc, in.b) {
				why = stopStrict
				break loop
			}
		case opLoadSlow:
			nloads++
			v, ok := m.load(op(in.c), r[in.a]+in.imm, r[in.b])
			if !ok {
				why = stopFault
				break loop
			}
			// pc is where the next instruction comes from, slot or not.
			h := m.hazardAt(cur, pc)
			if h == hazardNone {
				r[in.b] = v
				continue
			}
			if m.violation(violationOf(h), cur, pc, in.b) {
				r[in.b] = v
				why = stopStrict
				break loop
			}
			m.late = late{in.b, v}
			why = stopLoad
			break loop
		case opBEQ:
			bleft = left
			if r[in.a] == r[in.b] {
				npc = in.imm
			}
		case opBNE:
			bleft = left
			if r[in.a] != r[in.b] {
				npc = in.imm
			}
		case opBLEZ:
			bleft = left
			if int32(r[in.a]) <= 0 {
				npc = in.imm
			}
		case opBGTZ:
			bleft = left
			if int32(r[in.a]) > 0 {
				npc = in.imm
			}
		case opBLTZ:
			bleft = left
			if int32(r[in.a]) < 0 {
				npc = in.imm
			}
		case opBGEZ:
			bleft = left
			if int32(r[in.a]) >= 0 {
				npc = in.imm
			}
		case opBLTZAL:
			bleft = left
			taken := int32(r[in.a]) < 0
			r[31] = cur + 8
			if taken {
				npc = in.imm
			}
		case opBGEZAL:
			bleft = left
			taken := int32(r[in.a]) >= 0
			r[31] = cur + 8
			if taken {
				npc = in.imm
			}
		case opJ:
			bleft = left
			npc = in.imm
		case opJAL:
			bleft = left
			r[31] = cur + 8
			npc = in.imm
		case opJR, opJALR:
			bleft = left
			target := r[in.a]
			if in.op == opJALR {
				r[in.c] = cur + 8
			}
			npc = target
			if target&3 != 0 {
				// Execute the slot, then let the entry of run find the odd pc.
				if left > 1 {
					budget -= left - 1
					hleft -= left - 1
					bleft = 1
					left = 1
				}
			}
		case opSLL:
			r[in.c] = r[in.b] << (in.imm & 31)
		case opSRL:
			r[in.c] = r[in.b] >> (in.imm & 31)
		case opSRA:
			r[in.c] = uint32(int32(r[in.b]) >> (in.imm & 31))
		case opSLLV:
			r[in.c] = r[in.b] << (r[in.a] & 31)
		case opSRLV:
			r[in.c] = r[in.b] >> (r[in.a] & 31)
		case opSRAV:
			r[in.c] = uint32(int32(r[in.b]) >> (r[in.a] & 31))
		case opMOVZ:
			if r[in.b] == 0 {
				r[in.c] = r[in.a]
			}
		case opMOVN:
			if r[in.b] != 0 {
				r[in.c] = r[in.a]
			}
		case opAND:
			r[in.c] = r[in.a] & r[in.b]
		case opOR:
			r[in.c] = r[in.a] | r[in.b]
		case opXOR:
			r[in.c] = r[in.a] ^ r[in.b]
		case opNOR:
			r[in.c] = ^(r[in.a] | r[in.b])
		case opSLT:
			if int32(r[in.a]) < int32(r[in.b]) {
				r[in.c] = 1
			} else {
				r[in.c] = 0
			}
		case opSLTU:
			if r[in.a] < r[in.b] {
				r[in.c] = 1
			} else {
				r[in.c] = 0
			}
		case opSLTI:
			if int32(r[in.a]) < int32(in.imm) {
				r[in.c] = 1
			} else {
				r[in.c] = 0
			}
		case opSLTIU:
			if r[in.a] < in.imm {
				r[in.c] = 1
			} else {
				r[in.c] = 0
			}
		case opANDI:
			r[in.c] = r[in.a] & in.imm
		case opORI:
			r[in.c] = r[in.a] | in.imm
		case opXORI:
			r[in.c] = r[in.a] ^ in.imm
		case opLUI:
			r[in.c] = in.imm
		case opADD, opSUB, opADDI:
			x, y := r[in.a], in.imm
			if in.op != opADDI {
				y = r[in.b]
			}
			s := x + y
			over := (x^s)&(y^s)>>31 != 0
			if in.op == opSUB {
				s = x - y
				over = (x^y)&(x^s)>>31 != 0
			}
			if over {
				m.fault = fault{sigFPE, fpeINTOVF, cur}
				why = stopFault
				break loop
			}
			r[in.c] = s
		case opMFHI:
			hleft = left
			r[in.c] = r[regHI]
		case opMFLO:
			hleft = left
			r[in.c] = r[regLO]
		case opMTHI, opMTLO, opMULT, opMULTU, opDIV, opDIVU, opMADD:
			if hleft-left <= 2 && m.cfg.Mode != ModeMIPS32 && m.violation(ViolationHILO, cur, cur, 0) {
				why = stopStrict
				break loop
			}
			m.multiply(in, r)
		case opSYSCALL:
			why = stopSyscall
			break loop
		case opSYNC:
			m.count.Syncs++
			if m.cfg.Mode != ModeMIPS32 {
				m.emulated()
			}
		case opRDHWR:
			m.count.Emulated++
			m.emulated()
			r[in.b] = m.tls()
		case opBREAK:
			m.fault = trapSignal(in.imm, cur)
			why = stopFault
			break loop
		case opTEQ, opTNE, opTGE, opTGEU, opTLT, opTLTU:
			if trapTaken(in.op, r[in.a], r[in.b]) {
				m.fault = trapSignal(in.imm, cur)
				why = stopFault
				break loop
			}
		case opMUL:
			r[in.c] = r[in.a] * r[in.b]
		case opCLZ:
			r[in.c] = uint32(bits.LeadingZeros32(r[in.a]))
		case opCLO:
			r[in.c] = uint32(bits.LeadingZeros32(^r[in.a]))
		case opMADDU, opMSUB, opMSUBU:
			m.multiply(in, r)
		default:
			m.fault = fault{sigILL, siKERNEL, 0}
			why = stopFault
			break loop
		}
	}
	done := budget - left
	c.inSlot = bleft == left && done > 0 || done == 0 && slotFirst
	switch why {
	case stopFault, stopStrict:
		// cur did not complete; when it stood in a slot the exception's EPC is
		// the branch.
		inSlot := bleft == left+1 || done == 1 && slotFirst && bleft < 0
		if why == stopFault && ins == nil {
			inSlot = fetchSlot
		}
		pc = cur
		if inSlot {
			pc -= 4
		}
		npc = pc + 4
		c.inSlot = false
	}
	c.pc, c.npc = pc, npc
	c.sinceHL = min(hleft-left, 3)
	m.count.Instructions += uint64(done)
	m.count.Loads += uint64(nloads)
	m.count.Stores += uint64(nstores)
	m.count.NOPs += uint64(nnops)
	return why, done
}

// hazardAt compares the load at pc with the instruction at next.
func (m *Machine) hazardAt(pc, next uint32) hazard {
	if next&3 != 0 || !m.mem.ok(next, 4, permExec) {
		return hazardNone // an exception comes first and the load ends
	}
	return loadHazard(word(m.mem.base, pc), word(m.mem.base, next))
}

// readsNext reports whether the instruction at next reads a register.
func (m *Machine) readsNext(next uint32, reg uint8) bool {
	if next&3 != 0 || !m.mem.ok(next, 4, permExec) {
		return false
	}
	reads, _ := effects(word(m.mem.base, next))
	return reads>>reg&1 != 0
}

// step executes the one instruction behind a late load, which sees the old
// value of the register, and lets the value arrive. The later write wins where
// that instruction writes the register itself.
func (m *Machine) step(c *cpu) (stop, int64) {
	l := m.late
	var w uint32
	if m.mem.ok(c.pc, 4, permExec) {
		w = word(m.mem.base, c.pc)
	}
	_, writes := effects(w)
	if f := w & 63; w>>26 == 0 && (f == 10 || f == 11) && (c.r[w>>16&31] == 0) != (f == 10) {
		writes = 0 // MOVZ, MOVN: no write where the condition is false
	}
	why, n := m.run(c, 1)
	switch {
	case why == stopFault || why == stopSyscall:
		c.r[l.reg] = l.value // an exception, and the load has ended
	case writes>>l.reg&1 == 0:
		c.r[l.reg] = l.value
	case writes>>l.reg&1 != 0 && why == stopLoad && m.late.reg == l.reg:
		// A second load of the same register: between the two arrives the first.
		c.r[l.reg] = l.value
	}
	return why, n
}

// multiply does the operations on HI and LO.
func (m *Machine) multiply(in *inst, r *[256]uint32) {
	x, y := r[in.a], r[in.b]
	acc := uint64(r[regHI])<<32 | uint64(r[regLO])
	switch in.op {
	case opMTHI:
		r[regHI] = x
		return
	case opMTLO:
		r[regLO] = x
		return
	case opDIV:
		r[regHI], r[regLO] = divide(x, y)
		return
	case opDIVU:
		if y == 0 {
			r[regHI], r[regLO] = x, ^uint32(0)
			return
		}
		r[regHI], r[regLO] = x%y, x/y
		return
	case opMULT:
		acc = uint64(int64(int32(x)) * int64(int32(y)))
	case opMULTU:
		acc = uint64(x) * uint64(y)
	case opMADD:
		acc += uint64(int64(int32(x)) * int64(int32(y)))
	case opMADDU:
		acc += uint64(x) * uint64(y)
	case opMSUB:
		acc -= uint64(int64(int32(x)) * int64(int32(y)))
	case opMSUBU:
		acc -= uint64(x) * uint64(y)
	}
	r[regHI], r[regLO] = uint32(acc>>32), uint32(acc)
}

// divide never traps. What a division by zero leaves is undefined by the
// architecture; this is what an ordinary divider leaves.
func divide(x, y uint32) (hi, lo uint32) {
	switch {
	case y == 0 && int32(x) >= 0:
		return x, ^uint32(0)
	case y == 0:
		return x, 1
	case x == 1<<31 && y == ^uint32(0):
		return 0, x
	}
	return uint32(int32(x) % int32(y)), uint32(int32(x) / int32(y))
}

// trapSignal is what the kernel makes of BREAK and of a taken trap.
func trapSignal(code, pc uint32) fault {
	switch code {
	case 6:
		return fault{sigFPE, fpeINTOVF, pc}
	case 7:
		return fault{sigFPE, fpeINTDIV, pc}
	}
	return fault{sigTRAP, siKERNEL, 0}
}

func trapTaken(o op, x, y uint32) bool {
	switch o {
	case opTEQ:
		return x == y
	case opTNE:
		return x != y
	case opTGE:
		return int32(x) >= int32(y)
	case opTGEU:
		return x >= y
	case opTLT:
		return int32(x) < int32(y)
	}
	return x < y
}

// load does every kind of load, with the kernel's fixing of odd addresses. On
// false machine.fault is set. old is the register's value, for LWL and LWR.
func (m *Machine) load(o op, a, old uint32) (uint32, bool) {
	base := m.mem.base
	size := uint32(4)
	switch o {
	case opLB, opLBU:
		size = 1
	case opLH, opLHU:
		size = 2
	case opLWL, opLWR:
		size = 1 // the bytes read lie in the same word
	}
	if a&(size-1) != 0 {
		if o == opLL {
			m.fault = fault{sigBUS, siKERNEL, 0}
			return 0, false
		}
		if !m.odd(a, size, permRead) {
			return 0, false
		}
		var v uint32
		for i := range size {
			v = v<<8 | uint32(*byteAt(base, a+i))
		}
		if o == opLH {
			v = uint32(int32(int16(v)))
		}
		return v, true
	}
	if m.mem.perm[a/pageSize]&permRead == 0 {
		m.fault = m.accessFault(a)
		return 0, false
	}
	switch o {
	case opLB:
		return uint32(int32(int8(*byteAt(base, a)))), true
	case opLBU:
		return uint32(*byteAt(base, a)), true
	case opLH:
		return uint32(int32(int16(half(base, a)))), true
	case opLHU:
		return uint32(half(base, a)), true
	case opLWL:
		s := a & 3 * 8
		return word(base, a&^3)<<s | old&(1<<s-1), true
	case opLWR:
		s := (3 - a&3) * 8
		return word(base, a&^3)>>s | old&^(^uint32(0)>>s), true
	case opLL:
		m.count.LL++
		m.link, m.linkAddr = true, a
	}
	return word(base, a), true
}

// store does every kind of store. On false machine.fault is set.
func (m *Machine) store(o op, a, v uint32) bool {
	base := m.mem.base
	size := uint32(4)
	switch o {
	case opSB, opSWL, opSWR:
		size = 1
	case opSH:
		size = 2
	}
	if a&(size-1) != 0 {
		if !m.odd(a, size, permWrite) {
			return false
		}
		m.unshadow(a, size)
		for i := range size {
			*byteAt(base, a+i) = uint8(v >> ((size - 1 - i) * 8))
		}
		return true
	}
	if m.mem.perm[a/pageSize]&permWrite == 0 {
		m.fault = m.accessFault(a)
		return false
	}
	m.unshadow(a, size)
	switch o {
	case opSB:
		*byteAt(base, a) = uint8(v)
	case opSH:
		putHalf(base, a, uint16(v))
	case opSWL:
		s := a & 3 * 8
		putWord(base, a&^3, word(base, a&^3)&^(^uint32(0)>>s)|v>>s)
	case opSWR:
		s := (3 - a&3) * 8
		putWord(base, a&^3, word(base, a&^3)&(1<<s-1)|v<<s)
	default:
		putWord(base, a, v)
	}
	return true
}

// unshadow makes stores to a page of decoded instructions take effect.
func (m *Machine) unshadow(a, n uint32) {
	for _, x := range [2]uint32{a, a + n - 1} {
		if m.mem.perm[x/pageSize]&permStore == 0 {
			m.mem.code.drop(x&^3, 4)
			m.mem.perm[x/pageSize] |= permStore
		}
	}
}

// odd is the exception at an address that is not aligned, which the kernel
// fixes up. It is false, with the fault set, where the bytes are not there.
func (m *Machine) odd(a, size uint32, want uint8) bool {
	if !m.mem.ok(a, size, want) {
		m.fault = m.accessFault(a)
		return false
	}
	m.count.Unaligned++
	m.emulated()
	return true
}

// storeConditional returns false where the address faults, and the value for
// the register.
func (m *Machine) storeConditional(a, v uint32) (ok bool, done uint32) {
	if a&3 != 0 {
		m.fault = fault{sigBUS, siKERNEL, 0}
		return false, 0
	}
	if m.mem.perm[a/pageSize]&permWrite == 0 {
		m.fault = m.accessFault(a)
		return false, 0
	}
	m.count.SC++
	linked := m.link && (m.cfg.LL != LinkAddress || m.linkAddr == a)
	m.link = false
	if !linked {
		m.count.SCFailed++
		return true, 0
	}
	m.unshadow(a, 4)
	putWord(m.mem.base, a, v)
	return true, 1
}

// emulated is an exception that the kernel ends without a signal.
func (m *Machine) emulated() { m.exception() }

// exception is what every exception does to the link flag.
func (m *Machine) exception() {
	if m.cfg.LL != LinkWeakest {
		m.link = false
	}
}

// accessFault is the signal for an access that the pages do not allow. An
// address of the kernel is an address error, which becomes SIGBUS without an
// address (arch/mips/kernel/unaligned.c); the rest goes through the page fault.
func (m *Machine) accessFault(a uint32) fault {
	switch {
	case a >= userTop:
		return fault{sigBUS, siKERNEL, 0}
	case m.mem.perm[a/pageSize]&permMapped != 0:
		return fault{sigSEGV, segvACCERR, a}
	}
	return fault{sigSEGV, segvMAPERR, a}
}
