// Package asm turns a few lines of MIPS assembly language into machine words,
// for code that a program writes into memory and calls on the spot.
//
// It puts in exactly the words that are written: no NOP is added, nothing is
// reordered, and no instruction is refused because a CPU lacks it. It knows
// what internal/selftest writes and is no general assembler: no sections, no
// expressions, no directives but .word.
package asm

import (
	"fmt"
	"strconv"
	"strings"
)

// op is one instruction: the word without its operands, and one letter for
// each operand in the order in which it is written.
//
//	d s t  register in rd, rs, rt
//	c      register in rd and in rt (clz, clo)
//	a      shift count
//	i      16 bits, signed or not
//	m      offset(register)
//	b      label, as a branch's distance
//	j      label, as a jump's 26 bits
type op struct {
	name, operands string
	word           uint32
}

// ops follows the encoding tables of the MIPS32 architecture manual, volume
// II-A. What MIPS I lacks is here to be tried.
var ops = [...]op{
	{"nop", "", 0},
	{"move", "ds", 0x21}, // addu d, s, zero
	{"b", "b", 4 << 26},  // beq zero, zero

	{"sll", "dta", 0},
	{"srl", "dta", 2},
	{"sra", "dta", 3},
	{"sllv", "dts", 4},
	{"srlv", "dts", 6},
	{"srav", "dts", 7},
	{"jr", "s", 8},
	{"jalr", "ds", 9},
	{"movz", "dst", 10},
	{"movn", "dst", 11},
	{"syscall", "", 12},
	{"break", "", 13},
	{"sync", "", 15},
	{"mfhi", "d", 16},
	{"mthi", "s", 17},
	{"mflo", "d", 18},
	{"mtlo", "s", 19},
	{"mult", "st", 24},
	{"multu", "st", 25},
	{"div", "st", 26},
	{"divu", "st", 27},
	{"addu", "dst", 33},
	{"subu", "dst", 35},
	{"and", "dst", 36},
	{"or", "dst", 37},
	{"xor", "dst", 38},
	{"nor", "dst", 39},
	{"slt", "dst", 42},
	{"sltu", "dst", 43},
	{"teq", "st", 52},

	{"bltz", "sb", 1<<26 | 0<<16},
	{"bgez", "sb", 1<<26 | 1<<16},
	{"bltzl", "sb", 1<<26 | 2<<16},
	{"teqi", "si", 1<<26 | 12<<16},
	{"bltzal", "sb", 1<<26 | 16<<16},
	{"bgezal", "sb", 1<<26 | 17<<16},
	{"j", "j", 2 << 26},
	{"jal", "j", 3 << 26},
	{"beq", "stb", 4 << 26},
	{"bne", "stb", 5 << 26},
	{"blez", "sb", 6 << 26},
	{"bgtz", "sb", 7 << 26},
	{"beql", "stb", 20 << 26},
	{"addiu", "tsi", 9 << 26},
	{"slti", "tsi", 10 << 26},
	{"sltiu", "tsi", 11 << 26},
	{"andi", "tsi", 12 << 26},
	{"ori", "tsi", 13 << 26},
	{"xori", "tsi", 14 << 26},
	{"lui", "ti", 15 << 26},

	{"madd", "st", 28 << 26},
	{"maddu", "st", 28<<26 | 1},
	{"mul", "dst", 28<<26 | 2},
	{"msub", "st", 28<<26 | 4},
	{"clz", "cs", 28<<26 | 32},
	{"clo", "cs", 28<<26 | 33},

	{"lb", "tm", 32 << 26},
	{"lh", "tm", 33 << 26},
	{"lwl", "tm", 34 << 26},
	{"lw", "tm", 35 << 26},
	{"lbu", "tm", 36 << 26},
	{"lhu", "tm", 37 << 26},
	{"lwr", "tm", 38 << 26},
	{"sb", "tm", 40 << 26},
	{"sh", "tm", 41 << 26},
	{"swl", "tm", 42 << 26},
	{"sw", "tm", 43 << 26},
	{"swr", "tm", 46 << 26},
	{"ll", "tm", 48 << 26},
	{"sc", "tm", 56 << 26},
}

// registers are the o32 names, by number.
const registers = "zero at v0 v1 a0 a1 a2 a3 t0 t1 t2 t3 t4 t5 t6 t7 s0 s1 s2 s3 s4 s5 s6 s7 t8 t9 k0 k1 gp sp s8 ra "

// register returns a register's number.
func register(name string) (uint32, error) {
	i := strings.Index(registers, name+" ")
	if name == "" || i < 0 || i > 0 && registers[i-1] != ' ' {
		return 0, fmt.Errorf("no register %q", name)
	}
	return uint32(strings.Count(registers[:i], " ")), nil
}

// immediate returns a number of 16 bits, signed or not.
func immediate(s string) (uint32, error) {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil || n < -1<<15 || n >= 1<<16 {
		return 0, fmt.Errorf("%q is no number of 16 bits", s)
	}
	return uint32(n) & 0xffff, nil
}

// statement is an instruction with its operands, at an index of the words.
type statement struct {
	fields []string
	at     int
}

// words is how many machine words it becomes.
func (s statement) words() int {
	if s.fields[0] == "li" || s.fields[0] == "la" {
		return 2
	}
	return 1
}

// Assemble returns the machine words of source, to be placed at address base.
//
// Statements end with a semicolon or a line's end; operands are separated by
// blanks or commas; "x:" before a statement names the next word for branches,
// jumps and la. "li r n" and "la r label" always are two words (lui, ori);
// ".word n" is that word. An error names the statement: it is a fault of the
// program that holds the source.
func Assemble(source string, base uint32) ([]uint32, error) {
	var statements []statement
	labels := map[string]int{}
	at := 0
	for line := range strings.FieldsFuncSeq(source, func(r rune) bool { return r == ';' || r == '\n' }) {
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' })
		for len(fields) > 0 && strings.HasSuffix(fields[0], ":") {
			labels[strings.TrimSuffix(fields[0], ":")] = at
			fields = fields[1:]
		}
		if len(fields) > 0 {
			s := statement{fields, at}
			statements = append(statements, s)
			at += s.words()
		}
	}
	words := make([]uint32, 0, at)
	for _, s := range statements {
		w, err := s.encode(base, labels)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(s.fields, " "), err)
		}
		words = append(words, w...)
	}
	return words, nil
}

func (s statement) encode(base uint32, labels map[string]int) ([]uint32, error) {
	name, operands := s.fields[0], s.fields[1:]
	label := func(name string) (int, error) {
		i, ok := labels[name]
		if !ok {
			return 0, fmt.Errorf("no label %q", name)
		}
		return i, nil
	}
	switch name {
	case ".word", "li", "la":
		return s.literal(base, label)
	}
	for i := range ops {
		o := &ops[i]
		if o.name != name {
			continue
		}
		if len(operands) != len(o.operands) {
			return nil, fmt.Errorf("%d operands, want %d", len(operands), len(o.operands))
		}
		word := o.word
		for i, text := range operands {
			bits, err := s.operand(o.operands[i], text, base, label)
			if err != nil {
				return nil, err
			}
			word |= bits
		}
		return []uint32{word}, nil
	}
	return nil, fmt.Errorf("no instruction %q", name)
}

// literal encodes what holds a whole word.
func (s statement) literal(base uint32, label func(string) (int, error)) ([]uint32, error) {
	last := s.fields[len(s.fields)-1]
	var n uint32
	if s.fields[0] == "la" {
		i, err := label(last)
		if err != nil {
			return nil, err
		}
		n = base + uint32(4*i)
	} else {
		wide, err := strconv.ParseUint(last, 0, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no number of 32 bits", last)
		}
		n = uint32(wide)
	}
	if s.fields[0] == ".word" {
		return []uint32{n}, nil
	}
	if len(s.fields) != 3 {
		return nil, fmt.Errorf("%d operands, want 2", len(s.fields)-1)
	}
	r, err := register(s.fields[1])
	if err != nil {
		return nil, err
	}
	return []uint32{15<<26 | r<<16 | n>>16, 13<<26 | r<<21 | r<<16 | n&0xffff}, nil
}

// operand encodes one operand.
func (s statement) operand(kind byte, text string, base uint32, label func(string) (int, error)) (uint32, error) {
	switch kind {
	case 'i':
		return immediate(text)
	case 'a':
		n, err := strconv.ParseUint(text, 0, 5)
		if err != nil {
			return 0, fmt.Errorf("%q is no shift count", text)
		}
		return uint32(n) << 6, nil
	case 'm':
		offset, reg, ok := strings.Cut(strings.TrimSuffix(text, ")"), "(")
		if !ok {
			return 0, fmt.Errorf("%q is no offset(register)", text)
		}
		r, err := register(reg)
		if err != nil {
			return 0, err
		}
		n, err := immediate(offset)
		return r<<21 | n, err
	case 'b':
		i, err := label(text)
		return uint32(i-s.at-1) & 0xffff, err
	case 'j':
		i, err := label(text)
		return (base + uint32(4*i)) >> 2 & (1<<26 - 1), err
	}
	r, err := register(text)
	switch kind {
	case 's':
		return r << 21, err
	case 't':
		return r << 16, err
	case 'd':
		return r << 11, err
	default: // 'c'
		return r<<16 | r<<11, err
	}
}
