//go:build linux

package selftest

import (
	"fmt"
	"strings"
)

// load is one kind of load into t0, and the value that it brings.
type load struct {
	name, code string
	value      uint32
}

// loads are all that the compiler emits.
var loads = [...]load{
	{"lw", "lw t0 0(a0)", word0},
	{"lh", "lh t0 0(a0)", 0xFFFF8091},
	{"lhu", "lhu t0 2(a0)", 0xA2B3},
	{"lb", "lb t0 3(a0)", 0xFFFFFFB3},
	{"lbu", "lbu t0 1(a0)", 0x91},
	{"ll", "ll t0 0(a0)", word0},
	{"lwl+lwr", "lwl t0 1(a0); lwr t0 4(a0)", 0x91A2B3C4},
	{"lwl nop lwr", "lwl t0 1(a0); nop; lwr t0 4(a0)", 0x91A2B3C4},
	{"lwr+lwl", "lwr t0 6(a0); lwl t0 3(a0)", 0xB3C4D5E6},
	{"lw after sw", "sw a3 32(a0); lw t0 32(a0)", argA3},
	{"lbu after sw", "li t5 0x11223344; sw t5 32(a0); lbu t0 34(a0)", 0x33},
	{"lw after sb", "lw t5 0(a0); nop; sw t5 32(a0); sb a2 33(a0); lw t0 32(a0)", 0x8007A2B3},
	{"lw after sh", "sh a1 34(a0); lw t0 32(a0)", 0x0BAD},
}

// use is what reads t0 behind a load. Its code holds L, the load, and G, what
// stands between: a nop where it has to be right, nothing to see what happens.
type use struct {
	name, code string
	want       func(loaded uint32) uint32
}

func same(v uint32) uint32 { return v }

// uses are the ways in which an instruction reads a register.
var uses = [...]use{
	{"addu", "move t0 a1; nop; nop; L; G; move v0 t0", same},
	{"addu, rt", "move t0 a1; nop; nop; L; G; addu v0 zero t0", same},
	{"ori", "move t0 a1; L; G; ori v0 t0 0", same},
	{"sll", "move t0 a1; L; G; sll v0 t0 4", func(v uint32) uint32 { return v << 4 }},
	{"sllv, count", "move t0 a1; L; G; sllv v0 a2 t0", func(v uint32) uint32 { return argA2 << (v & 31) }},
	{"slt", "move t0 a1; L; G; slt v0 t0 zero", func(v uint32) uint32 { return v >> 31 }},
	{"sw, data", "move t0 a1; L; G; sw t0 36(a0); nop; lw v0 36(a0); nop", same},
	{"sb, data", "move t0 a1; L; G; sb t0 36(a0); nop; lbu v0 36(a0); nop", func(v uint32) uint32 { return v & 0xff }},
	{"swl+swr, data", "move t0 a1; L; G; swl t0 37(a0); swr t0 40(a0); lwl v0 37(a0); lwr v0 40(a0); nop", same},
	{"movn, condition", "move t0 zero; move v0 zero; L; G; movn v0 a2 t0", func(uint32) uint32 { return argA2 }},
	{"movz, condition", "move t0 zero; move v0 zero; L; G; movz v0 a2 t0", func(uint32) uint32 { return 0 }},
	{"movn, source", "move t0 a1; move v0 zero; L; G; movn v0 t0 a2", same},
	{"movz, source", "move t0 a1; move v0 zero; L; G; movz v0 t0 zero", same},
	{"beq", "move t0 zero; addiu v0 zero 1; L; G; beq t0 zero x; nop; addiu v0 zero 2; x: nop", func(uint32) uint32 { return 2 }},
	{"bne", "move t0 zero; addiu v0 zero 1; L; G; bne t0 zero x; nop; addiu v0 zero 2; x: nop", func(uint32) uint32 { return 1 }},
	{"bltz", "move t0 zero; addiu v0 zero 1; L; G; bltz t0 x; nop; move v0 zero; x: nop", func(v uint32) uint32 { return v >> 31 }},
	{"bgez", "addiu t0 zero -1; addiu v0 zero 1; L; G; bgez t0 x; nop; move v0 zero; x: nop", func(v uint32) uint32 { return v>>31 ^ 1 }},
	{"mult", "move t0 a1; L; G; mult t0 a2; mflo v0", func(v uint32) uint32 { return v * argA2 }},
	{"divu", "move t0 a1; L; G; divu t0 a2; mflo v0", func(v uint32) uint32 { return v / argA2 }},
	{"mthi", "move t0 a1; L; G; mthi t0; mfhi v0", same},
}

// rule is a piece of code with its result.
type rule struct {
	name, code string
	want       uint32
}

// ruleSet is one line of the report.
type ruleSet struct {
	name  string
	rules []rule
}

// ruleSets are the rules that are no load with a use one instruction behind it.
var ruleSets = [...]ruleSet{
	{"load used as an address, one instruction behind", []rule{
		{"lw base", "move t0 a0; lw t0 16(a0); nop; lw v0 0(t0); nop", pointed},
		{"lwl+lwr base", "move t0 a0; lwl t0 16(a0); lwr t0 19(a0); nop; lw v0 0(t0); nop", pointed},
		{"sw base", "move t0 a0; lw t0 16(a0); nop; sw a2 0(t0); nop; lw v0 48(a0); nop", argA2},
		{"sb base", "move t0 a0; lw t0 16(a0); nop; sb zero 0(t0); nop; lw v0 48(a0); nop", pointed & 0xffffff},
		{"ll base", "move t0 a0; lw t0 16(a0); nop; ll v0 0(t0); nop; sc v0 0(t0); nop; lw v0 48(a0); nop", pointed},
		{"jr target", "la t1 x; sw t1 32(a0); la t0 y; lw t0 32(a0); nop; jr t0; nop; y: b z; addiu v0 zero 1; x: addiu v0 zero 2; z: nop", 2},
		{"jalr target", "move s0 ra; la t1 x; sw t1 32(a0); la t0 y; lw t0 32(a0); nop; jalr ra t0; nop; y: b z; addiu v0 zero 1; x: addiu v0 zero 2; z: move ra s0", 2},
		{"syscall number", "move v0 zero; lw v0 20(a0); nop; syscall; xori v0 a3 1", 1},
	}},
	{"two loads", []rule{
		{"the first used behind the second", "move t0 a1; lw t0 0(a0); lw t1 4(a0); move v0 t0", word0},
		{"both", "lw t0 0(a0); lw t1 4(a0); nop; xor v0 t0 t1", word0 ^ word1},
		{"same register, a nop between", "lw t0 0(a0); nop; lw t0 4(a0); nop; move v0 t0", word1},
		{"a chain", "sw a0 32(a0); lw t0 32(a0); nop; lw t0 32(t0); nop; lw t0 16(t0); nop; lw v0 0(t0); nop", pointed},
		{"lw, sw to it, lw", "lw t0 0(a0); nop; sw t0 4(a0); lw t1 4(a0); nop; move v0 t1", word0},
	}},
	{"a register written behind a load of it", []rule{
		{"one instruction behind", "lw t0 0(a0); nop; addiu t0 zero 5; move v0 t0", 5},
		{"by mflo", "mult a2 a2; lw t0 0(a0); nop; mflo t0; move v0 t0", 49},
		{"by movn", "lw t0 0(a0); nop; movn t0 a1 a2; move v0 t0", oldValue},
		{"by movn that does not", "lw t0 0(a0); nop; movn t0 a1 zero; move v0 t0", word0},
	}},
	{"loads and branches", []rule{
		{"in the slot, taken", "move t0 a1; b x; lw t0 0(a0); x: nop; move v0 t0", word0},
		{"in the slot, not taken", "move t0 a1; bne zero zero x; lw t0 0(a0); nop; x: move v0 t0", word0},
		{"in the slot of a loop", "move t0 a1; addiu t1 zero 3; x: addiu t1 t1 -1; bgtz t1 x; lw t0 0(a0); nop; move v0 t0", word0},
		{"in the slot of jal", "move s0 ra; move t0 a1; jal x; lw t0 0(a0); b y; nop; x: nop; move v0 t0; jr ra; nop; y: move ra s0", word0},
		{"in the slot of jr", "move s0 ra; move t0 a1; jal x; nop; nop; move v0 t0; b y; nop; x: jr ra; lw t0 0(a0); y: move ra s0", word0},
		{"before a branch, used in its slot", "move t0 a1; lw t0 0(a0); b x; move v0 t0; nop; x: nop", word0},
		{"before a branch, used at its target", "move t0 a1; lw t0 0(a0); b x; nop; nop; x: move v0 t0", word0},
		{"before a branch that is not taken", "move t0 a1; lw t0 0(a0); bne zero zero x; move v0 t0; nop; x: nop", word0},
		{"before jal, used in its slot", "move s0 ra; move t0 a1; lw t0 0(a0); jal x; move v0 t0; b y; nop; x: jr ra; nop; y: move ra s0", word0},
		{"before jr, used in its slot", "move s0 ra; move t0 a1; jal x; nop; b y; nop; x: lw t0 0(a0); jr ra; move v0 t0; y: move ra s0", word0},
		{"before jr, used behind the call", "move s0 ra; move t0 a1; jal x; nop; move v0 t0; b y; nop; x: lw t0 0(a0); jr ra; nop; y: move ra s0", word0},
		{"ra itself", "move s0 ra; jal x; addiu v0 zero 1; b y; addiu v0 v0 2; x: sw ra 32(a0); la ra z; lw ra 32(a0); nop; jr ra; nop; z: addiu v0 zero 9; y: move ra s0", 3},
	}},
	{"branches and their slots", []rule{
		{"b", "move v0 zero; b x; ori v0 v0 1; ori v0 v0 2; x: nop", 1},
		{"beq, taken", "move v0 zero; beq a1 a1 x; ori v0 v0 1; ori v0 v0 2; x: nop", 1},
		{"beq, not taken", "move v0 zero; beq a1 a2 x; ori v0 v0 1; ori v0 v0 2; x: nop", 3},
		{"bne, taken", "move v0 zero; bne a1 a2 x; ori v0 v0 1; ori v0 v0 2; x: nop", 1},
		{"bne, not taken", "move v0 zero; bne a1 a1 x; ori v0 v0 1; ori v0 v0 2; x: nop", 3},
		{"a slot that changes the condition", "move v0 zero; beq a2 a2 x; move a2 zero; ori v0 v0 2; x: addu v0 v0 a2", 0},
		{"a slot that changes jr's register", "la t0 x; jr t0; move t0 zero; ori v0 zero 9; x: move v0 t0", 0},
		{"backwards", "addiu v0 zero 0; addiu t0 zero 10; x: addiu t0 t0 -1; bne t0 zero x; addiu v0 v0 1", 10},
		{"j", "move v0 zero; j x; ori v0 v0 1; ori v0 v0 2; x: nop", 1},
		{"jal's link", "move s0 ra; jal x; nop; y: b z; nop; x: la t0 y; xor v0 t0 ra; z: move ra s0", 0},
		{"jalr's link", "la t0 x; jalr t1 t0; nop; y: b z; nop; x: la t2 y; xor v0 t1 t2; z: nop", 0},
		{"bgezal, taken", "move s0 ra; bgezal zero x; nop; y: b z; nop; x: la t0 y; xor v0 t0 ra; z: move ra s0", 0},
		{"bgezal links, not taken", "move s0 ra; move ra zero; addiu v0 zero 1; bgezal a3 x; nop; y: la t0 y; xor v0 t0 ra; x: move ra s0", 0},
		{"bltzal, taken", "move s0 ra; bltzal a3 x; nop; y: b z; nop; x: la t0 y; xor v0 t0 ra; z: move ra s0", 0},
	}},
	{"mult, div, HI and LO", []rule{
		{"mult, mflo", "li t0 0x12345678; li t1 0x9abcdef0; mult t0 t1; mflo v0", 0x242d2080},
		{"mult, mfhi", "li t0 0x12345678; li t1 0x9abcdef0; mult t0 t1; mfhi v0", 0xf8cc93d6},
		{"multu, mfhi", "li t0 0x12345678; li t1 0x9abcdef0; multu t0 t1; mfhi v0", 0x0b00ea4e},
		{"mult, mflo, mfhi", "li t0 0x12345678; li t1 0x9abcdef0; mult t0 t1; mflo t2; mfhi t3; xor v0 t2 t3", 0x242d2080 ^ 0xf8cc93d6},
		{"multu, mfhi, mflo", "li t0 0x12345678; li t1 0x9abcdef0; multu t0 t1; mfhi t3; mflo t2; xor v0 t2 t3", 0x242d2080 ^ 0x0b00ea4e},
		{"mult of -1s", "mult a3 a3; mfhi t0; mflo v0; addu v0 v0 t0", 1},
		{"multu of all ones", "multu a3 a3; mfhi v0", 0xfffffffe},
		{"div, mflo", "li t0 0xfff0bdbd; div t0 a2; mflo v0", 0xfffdd1f7},
		{"div, mfhi", "addiu t0 zero -1003; div t0 a2; mfhi v0", 0xfffffffe},
		{"divu, mflo", "divu a3 a2; mflo v0", 0x24924924},
		{"divu, mfhi", "divu a3 a2; mfhi v0", 3},
		{"divu by a large one", "li t0 0x80000001; divu a3 t0; mflo t1; mfhi v0; addu v0 v0 t1", 0x7fffffff},
		{"mthi, mfhi", "mthi a1; mfhi v0", oldValue},
		{"mtlo, mflo", "mtlo a1; mflo v0", oldValue},
		{"mult twice", "mult a2 a2; mult a2 a1; mflo v0", oldValue * 7 & 0xffffffff},
		{"mflo, two instructions, mult", "mult a2 a2; mflo v0; nop; nop; mult a1 a1; mflo t0; nop", 49},
		{"mfhi, two instructions, mult", "multu a3 a3; mfhi v0; nop; nop; mult a2 a2; mflo t0; nop", 0xfffffffe},
		{"mflo, two instructions, div", "mult a2 a2; mflo v0; nop; nop; div a1 a2; mflo t0; nop", 49},
		{"mflo, two instructions, mtlo", "mult a2 a2; mflo v0; nop; nop; mtlo a1; mflo t0; nop", 49},
		{"div, arithmetic, mflo", "divu a3 a2; addu t0 a2 a2; xor t1 t0 a1; sw t1 32(a0); mflo v0", 0x24924924},
	}},
	{"shifts, compares, immediates", []rule{
		{"sra", "lui t0 0x8000; sra v0 t0 31", 0xffffffff},
		{"sra by 0", "lw t0 0(a0); nop; sra v0 t0 0", word0},
		{"srl", "lui t0 0x8000; srl v0 t0 31", 1},
		{"sll", "sll v0 a3 31", 0x80000000},
		{"sllv takes 5 bits", "addiu t0 zero 33; sllv v0 a2 t0", 14},
		{"srlv takes 5 bits", "addiu t0 zero 36; srlv v0 a3 t0", 0x0fffffff},
		{"srav takes 5 bits", "lui t1 0x8000; addiu t0 zero -1; srav v0 t1 t0", 0xffffffff},
		{"slt, signed", "slt v0 a3 zero", 1},
		{"slt, corner", "li t0 0x80000000; li t1 0x7fffffff; slt v0 t0 t1", 1},
		{"slt, corner turned", "li t0 0x80000000; li t1 0x7fffffff; slt v0 t1 t0", 0},
		{"sltu", "li t0 0x80000000; li t1 0x7fffffff; sltu v0 t1 t0", 1},
		{"slti", "slti v0 a3 0", 1},
		{"sltiu extends the sign", "addiu t0 zero -2; sltiu v0 t0 -1", 1},
		{"addiu extends the sign", "addiu v0 zero -32768", 0xffff8000},
		{"andi does not", "andi v0 a3 0xffff", 0xffff},
		{"ori does not", "ori v0 zero 0x8000", 0x8000},
		{"xori does not", "xori v0 a3 0xffff", 0xffff0000},
		{"lui", "lui v0 0xffff", 0xffff0000},
		{"nor", "nor v0 a1 a2", ^uint32(oldValue | argA2)},
		{"subu wraps", "subu v0 zero a2", 0xfffffff9},
		{"zero stays", "addiu zero a3 5; lw zero 0(a0); nop; move v0 zero", 0},
	}},
	{"movz and movn", []rule{
		{"movz, true", "move v0 a1; movz v0 a2 zero", argA2},
		{"movz, false", "move v0 a1; movz v0 a2 a3", oldValue},
		{"movn, true", "move v0 a1; movn v0 a2 a3", argA2},
		{"movn, false", "move v0 a1; movn v0 a2 zero", oldValue},
		{"the result used at once", "move t0 a1; movn t0 a2 a3; addu v0 t0 t0", 2 * argA2},
	}},
	// An interrupt between the two has sc fail, and rightly: each is tried 100 times.
	{"ll and sc", []rule{
		{"sc says 1", "addiu t2 zero 100; x: addiu t2 t2 -1; beq t2 zero y; nop; ll t0 32(a0); addiu t0 zero 1; sc t0 32(a0); nop; beq t0 zero x; nop; y: move v0 t0", 1},
		{"sc stores", "addiu t2 zero 100; x: addiu t2 t2 -1; beq t2 zero y; nop; ll t0 32(a0); nop; addiu t0 t0 77; sc t0 32(a0); nop; beq t0 zero x; nop; y: lw v0 32(a0); nop", 77},
		{"ll loads", "ll v0 0(a0); nop; move t0 v0; sc t0 0(a0); nop", word0},
		{"an exchange loop", "x: ll v0 0(a0); move t0 a1; sc t0 0(a0); nop; beq t0 zero x; nop; lw t1 0(a0); nop; xor v0 v0 t1", word0 ^ oldValue},
		{"an add loop", "addiu t2 zero 100; x: ll t0 32(a0); nop; addiu t0 t0 1; sc t0 32(a0); nop; beq t0 zero x; nop; addiu t2 t2 -1; bne t2 zero x; nop; lw v0 32(a0); nop", 100},
		{"sc's data one behind a load", "addiu t2 zero 100; x: addiu t2 t2 -1; beq t2 zero y; nop; lw t0 0(a0); ll t1 32(a0); nop; sc t0 32(a0); nop; beq t0 zero x; nop; y: lw v0 32(a0); nop", word0},
		{"a failed compare, a dummy sc", "ll t0 32(a0); nop; bne t0 a1 x; nop; nop; x: sc t0 36(a0); lw v0 32(a0); nop", 0},
	}},
}

// branchRules are the branches on a sign, each with -1, 0 and 1.
func branchRules() ruleSet {
	set := ruleSet{name: "branches on a sign"}
	for _, b := range []struct {
		name  string
		taken func(int) bool
	}{
		{"bltz", func(n int) bool { return n < 0 }},
		{"bgez", func(n int) bool { return n >= 0 }},
		{"blez", func(n int) bool { return n <= 0 }},
		{"bgtz", func(n int) bool { return n > 0 }},
	} {
		for n := -1; n <= 1; n++ {
			want := uint32(3)
			if b.taken(n) {
				want = 1
			}
			set.rules = append(set.rules, rule{
				fmt.Sprint(b.name, " ", n),
				fmt.Sprintf("addiu t0 zero %d; move v0 zero; %s t0 x; ori v0 v0 1; ori v0 v0 2; x: nop", n, b.name), want,
			})
		}
	}
	return set
}

// unalignedRules are lwl, lwr, swl and swr at every alignment, big-endian.
func unalignedRules() ruleSet {
	set := ruleSet{name: "lwl, lwr, swl, swr at every alignment"}
	add := func(name, code string, want uint32) { set.rules = append(set.rules, rule{name, code, want}) }
	for n := range 4 {
		up := uint32(8 * n)       // what lwl takes from the word's left
		down := uint32(24 - 8*n)  // what lwr takes from its right
		high := ^uint32(0) << up  // the bytes that lwl fills
		low := ^uint32(0) >> down // the bytes that lwr fills
		pair := uint32(uint64(word0)<<(32+up)>>32) | uint32(uint64(word1)<<up>>32)
		at := fmt.Sprint(n)
		next := fmt.Sprint(n + 3)
		add("lwl "+at, "move t0 a1; lwl t0 "+at+"(a0); nop; move v0 t0", word0<<up&0xffffffff|oldValue&^high)
		add("lwr "+at, "move t0 a1; lwr t0 "+at+"(a0); nop; move v0 t0", word0>>down|oldValue&^low)
		add("lwl, lwr "+at, "move t0 a1; lwl t0 "+at+"(a0); lwr t0 "+next+"(a0); nop; move v0 t0", pair)
		add("lwr, lwl "+at, "move t0 a1; lwr t0 "+next+"(a0); lwl t0 "+at+"(a0); nop; move v0 t0", pair)
		add("lwl, nop, lwr "+at, "move t0 a1; lwl t0 "+at+"(a0); nop; lwr t0 "+next+"(a0); nop; move v0 t0", pair)
		// Stores, into word 0.
		add("swl "+at, "swl a1 "+at+"(a0); nop; lw v0 0(a0); nop", oldValue>>up|word0&^(^uint32(0)>>up))
		add("swr "+at, "swr a1 "+at+"(a0); nop; lw v0 0(a0); nop", oldValue<<down&0xffffffff|word0&^(^uint32(0)<<down))
		add("swl, swr "+at, "swl a1 "+at+"(a0); swr a1 "+next+"(a0); lwl v0 "+at+"(a0); lwr v0 "+next+"(a0); nop", oldValue)
	}
	return set
}

// loadRules are a load with each use, one instruction between them.
func loadRules(l load, gap string) ruleSet {
	set := ruleSet{name: l.name + ", used behind one instruction"}
	for _, u := range uses {
		set.rules = append(set.rules, rule{u.name, u.source(l, gap), u.want(l.value)})
	}
	return set
}

// source is the use's code with a load and what stands behind it.
func (u use) source(l load, gap string) string {
	return strings.NewReplacer("L;", l.code+";", "G;", gap+";").Replace(u.code)
}

// allRules is everything that has to be right.
func allRules() []ruleSet {
	var all []ruleSet
	for _, l := range loads {
		all = append(all, loadRules(l, "nop"))
	}
	all = append(all, ruleSets[:]...)
	return append(all, branchRules(), unalignedRules())
}

// curiosities are what the compiler avoids and a person wants to know: what
// this core makes of a distance that is too short. want is what a CPU with
// interlocks computes.
var curiosities = [...]rule{
	{"load in a slot, its target reads", "move t0 a1; b x; lw t0 0(a0); nop; x: move v0 t0", word0},
	{"load in a slot, not taken, next reads", "move t0 a1; bne zero zero x; lw t0 0(a0); move v0 t0; x: nop", word0},
	{"load, syscall reads", "move v0 zero; lw v0 20(a0); syscall; xori v0 a3 1", 1},
	{"load, write of the same register", "lw t0 0(a0); addiu t0 zero 5; nop; nop; move v0 t0", 5},
	{"load, movn of it with a false condition", "move t0 a1; lw t0 0(a0); movn t0 a2 zero; nop; move v0 t0", word0},
	{"two loads of the same register", "lw t0 0(a0); lw t0 4(a0); nop; nop; move v0 t0", word1},
	{"mflo, mult", "mult a2 a2; mflo v0; mult a1 a1; mflo t0; nop", 49},
	{"mflo, one instruction, mult", "mult a2 a2; mflo v0; nop; mult a1 a1; mflo t0; nop", 49},
	{"mfhi, mult", "multu a3 a3; mfhi v0; mult a2 a2; mflo t0; nop", 0xfffffffe},
	{"mflo, div", "mult a2 a2; mflo v0; div a1 a2; mflo t0; nop", 49},
	{"mflo, mtlo", "mult a2 a2; mflo v0; mtlo a1; nop", 49},
	{"divide by zero, LO", "div a2 zero; mflo v0", 0xffffffff},
	{"divide by zero, HI", "div a2 zero; mfhi v0", argA2},
	{"-2^31 by -1, LO", "lui t0 0x8000; div t0 a3; mflo v0", 0x80000000},
	{"sc, its result at once", "ll t0 32(a0); addiu t0 zero 5; sc t0 32(a0); move v0 t0", 1},
}
