package emu

// op is one operation of the interpreter. The order is of no meaning.
type op uint8

const (
	opRI  op = iota // reserved instruction: SIGILL
	opCpU           // coprocessor unusable: SIGILL on this core
	opNop
	opSLL
	opSRL
	opSRA
	opSLLV
	opSRLV
	opSRAV
	opJR
	opJALR
	opMOVZ
	opMOVN
	opSYSCALL
	opBREAK
	opSYNC
	opMFHI
	opMTHI
	opMFLO
	opMTLO
	opMULT
	opMULTU
	opDIV
	opDIVU
	opADD
	opADDU
	opSUB
	opSUBU
	opAND
	opOR
	opXOR
	opNOR
	opSLT
	opSLTU
	opBLTZ
	opBGEZ
	opBLTZAL
	opBGEZAL
	opJ
	opJAL
	opBEQ
	opBNE
	opBLEZ
	opBGTZ
	opADDI
	opADDIU
	opSLTI
	opSLTIU
	opANDI
	opORI
	opXORI
	opLUI
	opMADD
	opLB
	opLH
	opLWL
	opLW
	opLBU
	opLHU
	opLWR
	opLL
	opSB
	opSH
	opSWL
	opSW
	opSWR
	opSC
	opRDHWR // rdhwr rt,$29, which the kernel emulates
	// opLoadSlow is a load whose successor has to be looked at: it stands in
	// a branch's slot, or the next instruction uses the register. inst.c holds
	// the load's own op.
	opLoadSlow
	// From here on: only in ModeMIPS32.
	opMUL
	opCLZ
	opCLO
	opMADDU
	opMSUB
	opMSUBU
	opTEQ
	opTNE
	opTGE
	opTGEU
	opTLT
	opTLTU
)

// Registers beside the 32. Writes to $0 go to regTrash.
const (
	regTrash = 32
	regHI    = 33
	regLO    = 34
)

// inst is a decoded instruction: a is rs, b is rt, c is rd or the shift's
// register of destination; imm holds the immediate, the shift's amount or the
// target of a jump or branch.
type inst struct {
	op      op
	a, b, c uint8
	imm     uint32
}

type codePage [pageSize / 4]inst

// codeCache keeps the decoded instructions of user space's pages, in tables of
// 4 MiB.
type codeCache struct {
	dir [512]*[1024]*codePage
}

func (c *codeCache) get(addr uint32) *codePage {
	if t := c.dir[addr>>22]; t != nil {
		return t[addr>>12&1023]
	}
	return nil
}

func (c *codeCache) put(addr uint32, p *codePage) {
	t := c.dir[addr>>22]
	if t == nil {
		t = new([1024]*codePage)
		c.dir[addr>>22] = t
	}
	t[addr>>12&1023] = p
}

// drop forgets the pages of [addr, addr+n) and the one before, whose last
// load was judged by the first word of the range.
func (c *codeCache) drop(addr, n uint32) {
	first := addr / pageSize
	if first > 0 {
		first--
	}
	for p := first; p < addr/pageSize+pages(addr%pageSize+n); p++ {
		if t := c.dir[p>>10]; t != nil {
			t[p&1023] = nil
		}
	}
}

func dest(r uint32) uint8 {
	if r == 0 {
		return regTrash
	}
	return uint8(r)
}

// decode translates the word w at pc.
func decode(w, pc uint32, mips32 bool) inst {
	rs, rt, rd := w>>21&31, w>>16&31, w>>11&31
	simm := uint32(int32(int16(w)))
	target := pc + 4 + simm<<2
	in := inst{a: uint8(rs), b: uint8(rt), c: dest(rd)}
	alu := func(o op) inst { in.op = o; return in }
	immediate := func(o op, imm uint32) inst { in.op, in.c, in.imm = o, dest(rt), imm; return in }
	branch := func(o op) inst { in.op, in.imm = o, target; return in }
	load := func(o op) inst { in.op, in.b, in.imm = o, dest(rt), simm; return in }
	store := func(o op) inst { in.op, in.imm = o, simm; return in }
	// sllv and nor with nothing but $0 are the usual spellings of a NOP.
	if w == 0 || w == 0x27 {
		return inst{op: opNop}
	}
	switch w >> 26 {
	case 0:
		shift := func(o op) inst { in.op, in.imm = o, w>>6&31; return in }
		switch w & 63 {
		case 0:
			return shift(opSLL)
		case 2:
			// Bit 21 makes it ROTR from MIPS32r2 on; this core shifts.
			if mips32 && rs != 0 {
				break
			}
			return shift(opSRL)
		case 3:
			return shift(opSRA)
		case 4:
			return alu(opSLLV)
		case 6:
			if mips32 && w>>6&31 != 0 {
				break
			}
			return alu(opSRLV)
		case 7:
			return alu(opSRAV)
		case 8:
			return alu(opJR)
		case 9:
			return alu(opJALR)
		case 10:
			return alu(opMOVZ)
		case 11:
			return alu(opMOVN)
		case 12:
			return alu(opSYSCALL)
		case 13:
			in.imm = w >> 6 & 0xfffff
			// The code may stand in either ten bits of the field.
			if in.imm >= 1<<10 {
				in.imm = in.imm>>10 | in.imm&0x3ff<<10
			}
			return alu(opBREAK)
		case 15:
			return alu(opSYNC)
		case 16:
			return alu(opMFHI)
		case 17:
			return alu(opMTHI)
		case 18:
			return alu(opMFLO)
		case 19:
			return alu(opMTLO)
		case 24:
			return alu(opMULT)
		case 25:
			return alu(opMULTU)
		case 26:
			return alu(opDIV)
		case 27:
			return alu(opDIVU)
		case 32:
			return alu(opADD)
		case 33:
			return alu(opADDU)
		case 34:
			return alu(opSUB)
		case 35:
			return alu(opSUBU)
		case 36:
			return alu(opAND)
		case 37:
			return alu(opOR)
		case 38:
			return alu(opXOR)
		case 39:
			return alu(opNOR)
		case 42:
			return alu(opSLT)
		case 43:
			return alu(opSLTU)
		}
		if mips32 {
			in.imm = w >> 6 & 0x3ff
			switch w & 63 {
			case 48:
				return alu(opTGE)
			case 49:
				return alu(opTGEU)
			case 50:
				return alu(opTLT)
			case 51:
				return alu(opTLTU)
			case 52:
				return alu(opTEQ)
			case 54:
				return alu(opTNE)
			}
		}
	case 1:
		switch rt {
		case 0:
			return branch(opBLTZ)
		case 1:
			return branch(opBGEZ)
		case 16:
			return branch(opBLTZAL)
		case 17:
			return branch(opBGEZAL)
		}
	case 2:
		return inst{op: opJ, imm: (pc+4)&0xf000_0000 | w<<6>>4}
	case 3:
		return inst{op: opJAL, imm: (pc+4)&0xf000_0000 | w<<6>>4}
	case 4:
		return branch(opBEQ)
	case 5:
		return branch(opBNE)
	case 6:
		if rt == 0 {
			return branch(opBLEZ)
		}
	case 7:
		if rt == 0 {
			return branch(opBGTZ)
		}
	case 8:
		return immediate(opADDI, simm)
	case 9:
		return immediate(opADDIU, simm)
	case 10:
		return immediate(opSLTI, simm)
	case 11:
		return immediate(opSLTIU, simm)
	case 12:
		return immediate(opANDI, w&0xffff)
	case 13:
		return immediate(opORI, w&0xffff)
	case 14:
		return immediate(opXORI, w&0xffff)
	case 15:
		return immediate(opLUI, w<<16)
	case 16, 17, 18, 19:
		return inst{op: opCpU}
	case 28:
		if w&63 == 0 {
			return alu(opMADD)
		}
		if mips32 {
			switch w & 63 {
			case 1:
				return alu(opMADDU)
			case 2:
				return alu(opMUL)
			case 4:
				return alu(opMSUB)
			case 5:
				return alu(opMSUBU)
			case 32:
				return alu(opCLZ)
			case 33:
				return alu(opCLO)
			}
		}
	case 31:
		// SPECIAL3 has RDHWR only, and of that only the thread pointer.
		if w&63 == 59 && rd == 29 && rs == 0 && w>>6&31 == 0 {
			return inst{op: opRDHWR, b: dest(rt)}
		}
	case 32:
		return load(opLB)
	case 33:
		return load(opLH)
	case 34:
		return load(opLWL)
	case 35:
		return load(opLW)
	case 36:
		return load(opLBU)
	case 37:
		return load(opLHU)
	case 38:
		return load(opLWR)
	case 40:
		return store(opSB)
	case 41:
		return store(opSH)
	case 42:
		return store(opSWL)
	case 43:
		return store(opSW)
	case 46:
		return store(opSWR)
	case 48:
		return load(opLL)
	case 49, 50, 57, 58, 59:
		return inst{op: opCpU}
	case 51:
		if mips32 {
			return inst{op: opNop} // PREF
		}
		return inst{op: opCpU}
	case 56:
		return store(opSC)
	}
	return inst{op: opRI}
}

// isLoad reports whether w loads a register with the delay of one instruction.
// SC is none: it hands its flag back without delay in all that was measured.
func isLoad(w uint32) bool {
	o := w >> 26
	return o >= 32 && o <= 38 || o == 48
}

// isBranch reports whether w has a delay slot.
func isBranch(w uint32) bool {
	switch w >> 26 {
	case 0:
		return w&63 == 8 || w&63 == 9
	case 1:
		rt := w >> 16 & 31
		return rt < 2 || rt == 16 || rt == 17
	case 2, 3, 4, 5:
		return true
	case 6, 7:
		return w>>16&31 == 0
	}
	return false
}

// effects returns the general registers that w reads and writes, a bit each.
// $0 is in neither. SYSCALL and BREAK read nothing: the kernel reads the
// registers after the exception, when loads have ended.
func effects(w uint32) (reads, writes uint32) {
	rs, rt, rd := uint32(1)<<(w>>21&31), uint32(1)<<(w>>16&31), uint32(1)<<(w>>11&31)
	switch o := w >> 26; {
	case o == 0:
		switch f := w & 63; {
		case f < 4:
			reads, writes = rt, rd
		case f == 8, f == 17, f == 19:
			reads = rs
		case f == 9:
			reads, writes = rs, rd
		case f == 16, f == 18:
			writes = rd
		case f >= 12 && f <= 15:
		case f >= 24 && f <= 27, f >= 48:
			reads = rs | rt
		default:
			reads, writes = rs|rt, rd
		}
	case o == 1:
		reads = rs
		if w>>16&16 != 0 {
			writes = 1 << 31
		}
	case o == 3:
		writes = 1 << 31
	case o == 2, o >= 16 && o <= 19:
	case o == 4, o == 5:
		reads = rs | rt
	case o == 6, o == 7:
		reads = rs
	case o == 15:
		writes = rt
	case o >= 8 && o < 15:
		reads, writes = rs, rt
	case o == 28:
		reads = rs | rt
		if w&63 == 2 || w&63 >= 32 {
			writes = rd
		}
	case o == 31:
		writes = rt
	case o == 34, o == 38, o == 56:
		reads, writes = rs|rt, rt
	case o >= 32 && o <= 37, o == 48:
		reads, writes = rs, rt
	case o >= 40 && o <= 46:
		reads = rs | rt
	default:
		reads = rs
	}
	return reads &^ 1, writes &^ 1
}

// hazard says how next, executed right after load, meets the loaded register.
type hazard uint8

const (
	hazardNone  hazard = iota
	hazardRead         // reads it: sees the old value
	hazardWrite        // writes it only: races with the load
)

func loadHazard(load, next uint32) hazard {
	rt := load >> 16 & 31
	if rt == 0 {
		return hazardNone
	}
	reads, writes := effects(next)
	if pair(load>>26) && pair(next>>26) && next>>16&31 == rt {
		// LWL and LWR of one register follow each other by design: the second
		// merges into what the first brings. Its base is an ordinary read.
		reads, writes = 1<<(next>>21&31)&^1, 0
	}
	switch {
	case reads>>rt&1 != 0:
		return hazardRead
	case writes>>rt&1 != 0:
		return hazardWrite
	}
	return hazardNone
}

func pair(opcode uint32) bool { return opcode == 34 || opcode == 38 }
