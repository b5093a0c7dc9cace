// Package isa decodes instruction words of big- or little-endian MIPS and says
// what the RLX4181 does with them: which registers a word reads and writes,
// where it can lead, and whether the core executes it as the MIPS manual means
// it.
//
// It knows MIPS-I, what the RLX4181 has beyond it (LL/SC, MOVZ/MOVN, MADD), and
// by name most of what later MIPS levels added, because that is what a compiler
// for them would emit. It does not execute anything and does not know MIPS16 or
// microMIPS.
//
// Encodings: "MIPS32 Architecture For Programmers, Volume II" (MD00086) and
// "MIPS RISC Architecture" (Kane, Heinrich) for MIPS-I. Verdicts: measurements
// on the core by others, each as one program per encoding; where nobody
// measured, the verdict is [Unproven].
package isa

import (
	"fmt"
	"math/bits"
	"strings"
)

// Regs is a set of registers: bit n is general register n, then HI and LO.
// Register 0 is never a member: it cannot be written and is always right.
type Regs uint64

// The two halves of a product, or remainder and quotient.
const (
	HI Regs = 1 << (32 + iota)
	LO
)

// Reg is the set of general register n, empty for n = 0.
func Reg(n uint32) Regs { return 1 << (n & 31) &^ 1 }

// String lists the registers as assemblers write them, "$4 hi".
func (r Regs) String() string {
	var list []string
	for g := r & (1<<32 - 1); g != 0; g &= g - 1 {
		list = append(list, fmt.Sprintf("$%d", bits.TrailingZeros64(uint64(g))))
	}
	if r&HI != 0 {
		list = append(list, "hi")
	}
	if r&LO != 0 {
		list = append(list, "lo")
	}
	return strings.Join(list, " ")
}

// Flag says what an instruction does. The first ones name the fields that hold
// registers, the others classes.
type Flag uint32

// What is read and written: rs is bits 25-21, rt 20-16, rd 15-11.
const (
	ReadRS Flag = 1 << iota
	ReadRT
	ReadRD
	WriteRT
	WriteRD
	WriteRA // register 31, without a field
	ReadHI
	ReadLO
	WriteHI
	WriteLO

	Load       // the register comes out of memory, one instruction late on this core
	Store      // writes memory
	Merge      // LWL, LWR: writes a part of rt, keeps the rest
	LinkedLoad // LL, also a Load
	StoreCond  // SC, also a Store; writes its success to rt
	Branch     // PC-relative, may be not taken
	Jump       // always taken
	Indirect   // a Jump to what a register holds
	Link       // keeps the address behind the slot: a call
	Likely     // a Branch whose slot is annulled when it is not taken
	MulDiv     // starts the multiplier or divider (MULT, DIV, MADD ...)
	FromHILO   // MFHI, MFLO
	ToHILO     // MTHI, MTLO
	Trap       // conditional trap
	Syscall    // enters the kernel and comes back behind itself
	Break      // enters the kernel, which sends a signal
)

// Verdict says what the RLX4181 under Linux makes of an instruction in user
// mode.
type Verdict uint8

// The verdicts.
const (
	OK         Verdict = iota // as the manual says
	Emulated                  // traps; the kernel does it, at about 1 us each
	Traps                     // the program dies of SIGILL
	Wrong                     // executes as something else, without a trap
	Privileged                // for the kernel only: SIGILL
	Unproven                  // nobody has measured it, or the encoding is reserved
)

// String names the verdict in a few words.
func (v Verdict) String() string {
	switch v {
	case OK:
		return "executes"
	case Emulated:
		return "trapped and emulated by the kernel"
	case Traps:
		return "traps (SIGILL)"
	case Wrong:
		return "executes as something else"
	case Privileged:
		return "privileged (SIGILL)"
	}
	return "not proven on this core"
}

// Def is what all words of one instruction have in common.
type Def struct {
	Name    string // as assemblers write it, lower case
	Args    string // operands for String: see there
	Flags   Flag
	Verdict Verdict
	Why     string // what a Verdict other than OK comes from, may be empty

	zero uint32 // bits that must be zero in the word
}

// Inst is one decoded word.
type Inst struct {
	Word uint32
	*Def
}

// Is reports whether the instruction has all of the flags.
func (i Inst) Is(f Flag) bool { return i.Flags&f == f }

// RS, RT and RD are the register fields, whether or not they are used.
func (i Inst) RS() uint32 { return i.Word >> 21 & 31 }

// RT is bits 20-16.
func (i Inst) RT() uint32 { return i.Word >> 16 & 31 }

// RD is bits 15-11.
func (i Inst) RD() uint32 { return i.Word >> 11 & 31 }

// Imm is the low half, sign-extended.
func (i Inst) Imm() int32 { return int32(int16(i.Word)) }

// Plausible reports whether a compiler for 32-bit MIPS, of any level and with or
// without an FPU, may emit the word. Most words of text and numbers are not.
func (i Inst) Plausible() bool {
	return i.Name != reserved.Name && i.Why != why64 && i.Why != whyCop && !strings.Contains(i.Name, ".")
}

// HasSlot reports whether the next word is a delay slot.
func (i Inst) HasSlot() bool { return i.Flags&(Branch|Jump) != 0 }

// Reads is the set of registers whose old value the result depends on. MOVZ,
// MOVN, LWL and LWR also read what they may leave as it was.
func (i Inst) Reads() (r Regs) {
	f := i.Flags
	if f&ReadRS != 0 {
		r |= Reg(i.RS())
	}
	if f&ReadRT != 0 {
		r |= Reg(i.RT())
	}
	if f&ReadRD != 0 {
		r |= Reg(i.RD())
	}
	if f&ReadHI != 0 {
		r |= HI
	}
	if f&ReadLO != 0 {
		r |= LO
	}
	return r
}

// Writes is the set of registers that may change.
func (i Inst) Writes() (r Regs) {
	f := i.Flags
	if f&WriteRT != 0 {
		r |= Reg(i.RT())
	}
	if f&WriteRD != 0 {
		r |= Reg(i.RD())
	}
	if f&WriteRA != 0 {
		r |= Reg(31)
	}
	if f&WriteHI != 0 {
		r |= HI
	}
	if f&WriteLO != 0 {
		r |= LO
	}
	return r
}

// Target is where a branch or direct jump at address pc leads when it is taken.
func (i Inst) Target(pc uint32) (target uint32, ok bool) {
	switch {
	case i.Flags&Branch != 0:
		return pc + 4 + uint32(i.Imm())<<2, true
	case i.Flags&Jump != 0 && i.Flags&Indirect == 0:
		return (pc+4)&0xf0000000 | i.Word&(1<<26-1)<<2, true
	}
	return 0, false
}

// Always reports whether the word leaves its path in any case: a jump, or a
// branch whose condition is true whatever the registers hold (beq $4,$4).
func (i Inst) Always() bool {
	if i.Flags&Jump != 0 {
		return true
	}
	return i.Flags&Branch != 0 && i.constant() == 1
}

// Never reports whether the word is a branch whose condition cannot be true.
func (i Inst) Never() bool { return i.Flags&Branch != 0 && i.constant() == -1 }

// constant is 1 for a branch that is always taken, -1 for one never taken.
func (i Inst) constant() int {
	rs, rt := i.RS(), i.RT()
	switch i.Word >> 26 {
	case 0x04, 0x14: // beq, beql
		if rs == rt {
			return 1
		}
	case 0x05, 0x15: // bne, bnel
		if rs == rt {
			return -1
		}
	case 0x06, 0x16: // blez, blezl
		if rs == 0 {
			return 1
		}
	case 0x07, 0x17: // bgtz, bgtzl
		if rs == 0 {
			return -1
		}
	case 0x01:
		if rs == 0 {
			if rt&1 == 1 { // bgez and its kin
				return 1
			}
			return -1 // bltz and its kin
		}
	}
	return 0
}

// NOP is the word that does nothing: sll $0,$0,0.
const NOP uint32 = 0

// TLSWord is `rdhwr $3,$29`, the one RDHWR that the kernel's fast path emulates:
// it reads the thread pointer.
const TLSWord uint32 = 0x7c03e83b

// Decode decodes a word. It always returns something: what no manual assigns is
// named after its major opcode, with the verdict [Traps] or [Unproven].
func Decode(w uint32) Inst {
	d := &major[w>>26]
	switch w >> 26 {
	case 0x00:
		d = &special[w&63]
		switch {
		case w&63 == 0x02 && w>>21&31 == 1:
			d = &rotr
		case w&63 == 0x06 && w>>6&31 == 1:
			d = &rotrv
		case w&63 == 0x09 && w>>21&31 == w>>11&31:
			d = &jalrSame
		}
	case 0x01:
		d = &regimm[w>>16&31]
	case 0x10:
		d = &cop0
		if w>>25&1 == 0 {
			switch w >> 21 & 31 {
			case 0:
				d = &mfc0
			case 4:
				d = &mtc0
			}
		}
	case 0x11, 0x12, 0x13:
		if w>>21&31 < 3 { // mfcN, dmfcN, cfcN write rt
			d = &copFrom[w>>26-0x11]
		}
	case 0x1c:
		d = &special2[w&63]
	case 0x1f:
		d = &special3[w&63]
		switch {
		case w == TLSWord:
			d = &rdhwrTLS
		case w&63 == 0x20:
			switch w >> 6 & 31 {
			case 0x02:
				d = &wsbh
			case 0x10:
				d = &seb
			case 0x18:
				d = &seh
			}
		}
	}
	if w&d.zero != 0 {
		return Inst{w, &reserved}
	}
	return Inst{w, d}
}
