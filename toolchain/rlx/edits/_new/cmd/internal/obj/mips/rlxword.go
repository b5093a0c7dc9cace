package mips

// What one machine word does on a MIPS-I core with an exposed load delay
// (RLX4181), as far as the order of words matters.
//
// This is the only table of instructions that the passes in rlx.go and
// rlxsched.go know: they assemble each Prog and read its words, so compiler
// output, hand-written assembly and words given as data are treated alike.

// Register sets: bit n is general register n.
const (
	rlxHI uint64 = 1 << 32
	rlxLO uint64 = 1 << 33

	rlxTmp  uint64 = 1 << (REGTMP - REG_R0)
	rlxSP   uint64 = 1 << (REGSP - REG_R0)
	rlxLink uint64 = 1 << (REGLINK - REG_R0)
	rlxG    uint64 = 1 << (REGG - REG_R0)
)

// rlxWord is what one word does.
type rlxWord struct {
	reads, writes uint64
	// late is the part of writes that the next instruction cannot see yet.
	late uint64
	// merge: LWL or LWR, which may follow each other on one register.
	merge bool
	load  bool
	store bool
	// branch: the next word is its delay slot.
	branch bool
	// serial: nothing may be moved over it.
	serial bool
	// A memory access's base register, offset and size in bytes.
	base, size uint8
	offset     int32
}

// mulDiv reports whether the word starts a multiplication or division, or sets
// HI or LO.
func (w *rlxWord) mulDiv() bool { return w.writes&(rlxHI|rlxLO) != 0 }

// fromHILO reports whether the word reads HI or LO, after which two
// instructions must pass before either is written.
func (w *rlxWord) fromHILO() bool { return w.reads&(rlxHI|rlxLO) != 0 }

// rlxDecode tells what a word does, and why the core must not get it; the
// reason is empty for a good word.
func rlxDecode(v uint32) (w rlxWord, reason string) {
	rs, rt, rd, sa := v>>21&31, v>>16&31, v>>11&31, v>>6&31
	bit := func(r uint32) uint64 { return 1 << r &^ 1 }
	w.base, w.offset = uint8(rs), int32(int16(v))

	switch op := v >> 26; op {
	case 0: // SPECIAL
		switch fn := v & 63; fn {
		case 0, 2, 3: // SLL, SRL, SRA
			if rs != 0 {
				return w, "a rotation, which this core executes as a shift"
			}
			w.reads, w.writes = bit(rt), bit(rd)
		case 4, 6, 7: // SLLV, SRLV, SRAV
			if sa != 0 {
				return w, "a rotation, which this core executes as a shift"
			}
			w.reads, w.writes = bit(rs)|bit(rt), bit(rd)
		case 8: // JR
			w.reads, w.branch = bit(rs), true
		case 9: // JALR
			if rs == rd {
				return w, "JALR with one register as target and link: it cannot be restarted after an exception in its slot"
			}
			w.reads, w.writes, w.branch = bit(rs), bit(rd), true
		case 10, 11: // MOVZ, MOVN
			w.reads, w.writes = bit(rs)|bit(rt)|bit(rd), bit(rd)
		case 12, 13: // SYSCALL, BREAK
			w.serial = true
		case 16: // MFHI
			w.reads, w.writes = rlxHI, bit(rd)
		case 17: // MTHI
			w.reads, w.writes = bit(rs), rlxHI
		case 18: // MFLO
			w.reads, w.writes = rlxLO, bit(rd)
		case 19: // MTLO
			w.reads, w.writes = bit(rs), rlxLO
		case 24, 25, 26, 27: // MULT, MULTU, DIV, DIVU
			w.reads, w.writes = bit(rs)|bit(rt), rlxHI|rlxLO
		case 32, 33, 34, 35, 36, 37, 38, 39, 42, 43: // ADD ... NOR, SLT, SLTU
			w.reads, w.writes = bit(rs)|bit(rt), bit(rd)
		case 15:
			return w, "SYNC, which this core does not have"
		case 48, 49, 50, 51, 52, 54:
			return w, "a conditional trap, which this core does not have"
		default:
			return w, "an instruction that this core does not have"
		}
	case 1: // REGIMM
		switch rt {
		case 0, 1: // BLTZ, BGEZ
			w.reads, w.branch = bit(rs), true
		case 16, 17: // BLTZAL, BGEZAL
			if rs == 31 {
				return w, "a branch and link that tests its own link register"
			}
			w.reads, w.writes, w.branch = bit(rs), rlxLink, true
		default:
			return w, "an instruction that this core does not have"
		}
	case 2: // J
		w.branch = true
	case 3: // JAL
		w.writes, w.branch = rlxLink, true
	case 4, 5: // BEQ, BNE
		w.reads, w.branch = bit(rs)|bit(rt), true
	case 6, 7: // BLEZ, BGTZ
		if rt != 0 {
			return w, "an instruction that this core does not have"
		}
		w.reads, w.branch = bit(rs), true
	case 8, 9, 10, 11, 12, 13, 14: // ADDI, ADDIU, SLTI, SLTIU, ANDI, ORI, XORI
		w.reads, w.writes = bit(rs), bit(rt)
	case 15: // LUI
		w.writes = bit(rt)
	case 32, 33, 35, 36, 37: // LB, LH, LW, LBU, LHU
		w.load = true
		w.reads, w.writes, w.late = bit(rs), bit(rt), bit(rt)
		w.size = [...]uint8{1, 2, 0, 4}[op&3]
	case 34, 38: // LWL, LWR: either end of the word may be read
		w.load, w.merge = true, true
		w.reads, w.writes, w.late = bit(rs)|bit(rt), bit(rt), bit(rt)
		w.size, w.offset = 7, w.offset-3
	case 48: // LL
		w.load, w.serial, w.size = true, true, 4
		w.reads, w.writes, w.late = bit(rs), bit(rt), bit(rt)
	case 40, 41, 43: // SB, SH, SW
		w.store = true
		w.reads = bit(rs) | bit(rt)
		w.size = [...]uint8{1, 2, 0, 4}[op&3]
	case 42, 46: // SWL, SWR
		w.store = true
		w.reads = bit(rs) | bit(rt)
		w.size, w.offset = 7, w.offset-3
	case 56: // SC: its result is taken to be as late as a load's
		w.store, w.serial, w.size = true, true, 4
		w.reads, w.writes, w.late = bit(rs)|bit(rt), bit(rt), bit(rt)
	case 17, 49, 53, 57, 61:
		return w, "a floating point instruction; build with GOMIPS=softfloat"
	case 20, 21, 22, 23:
		return w, "a branch-likely, which this core does not have"
	case 28:
		return w, "MUL, CLZ, CLO or the like, which this core does not have"
	default:
		return w, "an instruction that this core does not have"
	}
	return w, ""
}
