// Package check reads a static big-endian MIPS program and reports every place
// where it breaks a rule of the RLX4181: instructions that the core lacks or
// executes as something else, registers used in the delay of a load, HI and LO
// overwritten too early, LL left without SC, and control flow that leads out of
// the code. The core has no interlocks, so most of these compute a wrong value
// without a trap, now and then.
//
// It follows control flow from every function (or, where there is no function
// table, from what looks like a pointer to code) through branches, delay slots
// and calls, and judges each instruction with what can execute directly after
// it. It proves nothing about values: where an indirect jump leads is unknown
// to it, and such a jump must be harmless whatever its target. It does not know
// MIPS16 or microMIPS, shared libraries and object files; a file with these is
// an error.
//
// Rules: "MIPS RISC Architecture" (Kane, Heinrich), chapter 3 and appendix A
// (delayed loads, HI/LO, instructions in delay slots); package isa for what the
// core executes.
package check

import (
	"errors"
	"fmt"
	"os"

	"gwinit/toolchain/rlx/isa"
)

// Rule names one rule of the core.
type Rule string

// The rules. Those of HI and LO and of the load's delay hold on every path:
// over branches, delay slots and calls.
const (
	// LoadUse: the instruction after a load reads the loaded register, and gets
	// its old value.
	LoadUse Rule = "load-use"
	// LoadRace: the instruction after a load writes the loaded register. The
	// later write should win; the manual does not promise it.
	LoadRace Rule = "load-race"
	// LoadInSlot: a load in the delay slot of a jump to an unknown target, whose
	// first instruction may use the register.
	LoadInSlot Rule = "load-in-slot"
	// Forbidden: an instruction that this core does not execute as meant.
	Forbidden Rule = "forbidden"
	// Emulated: an instruction that the kernel emulates, right but slow.
	Emulated Rule = "emulated"
	// HILO: fewer than two instructions between a read of HI or LO and the next
	// multiplication, division or write of them.
	HILO Rule = "hilo"
	// BranchInSlot: a branch or jump in a delay slot.
	BranchInSlot Rule = "branch-in-slot"
	// BadTarget: a branch, jump, symbol or entry point that leads out of the
	// code or is no multiple of 4.
	BadTarget Rule = "bad-target"
	// RunOff: control runs over the end of a function.
	RunOff Rule = "run-off"
	// LLWithoutSC: a path from an LL leaves the function, enters the kernel or
	// meets another LL, and has executed no SC.
	LLWithoutSC Rule = "ll-without-sc"
	// SCUse: the instruction after an SC reads its result. Nobody has measured
	// whether this core delivers it late, as it does a load's.
	SCUse Rule = "sc-use"
)

// Rules are all rules, in the order of the report.
func Rules() []Rule {
	return []Rule{LoadUse, LoadRace, LoadInSlot, Forbidden, HILO, LLWithoutSC, BranchInSlot, BadTarget, RunOff, Emulated, SCUse}
}

// Options choose how strictly to judge.
type Options struct {
	// Foreign is for programs of other compilers, which keep the core's rules
	// but not ours: LoadRace, LLWithoutSC, RunOff, Emulated and calls of
	// address 0 become notes.
	Foreign bool
	// StrictSC makes a SCUse a violation; it is a note otherwise.
	StrictSC bool
	// Max is how many violations of one rule WriteTo prints; a negative number
	// means all of them.
	Max int
	// Names, if not nil, is asked first for the name of an address: a symbol
	// file of a stripped program.
	Names Namer
}

// Namer names addresses of code.
type Namer interface {
	// Name tells where an address belongs; ok is false if it does not know.
	Name(addr uint64) (p Place, ok bool)
}

// Place is an address in a programmer's terms. What is not known is zero.
type Place struct {
	Func   string
	Offset uint64 // bytes behind the function's start
	File   string
	Line   int
}

// String is "func+0x1c file:line", as far as known, or "?".
func (p Place) String() string {
	s := "?"
	if p.Func != "" {
		s = fmt.Sprintf("%s+%#x", p.Func, p.Offset)
	}
	if p.File != "" {
		s += fmt.Sprintf(" %s:%d", p.File, p.Line)
	}
	return s
}

// Violation is one broken rule at one place.
type Violation struct {
	Rule Rule
	// Note is set for what Options let pass.
	Note bool
	// Addr and Word are the instruction that is at fault: the load, the
	// forbidden word, the MFLO, the LL, the branch.
	Addr uint32
	Word uint32
	// Next and NextWord are the second instruction concerned, if Other is set:
	// the use, the MULT, the exit.
	Other    bool
	Next     uint32
	NextWord uint32
	// Regs are the registers concerned.
	Regs isa.Regs
	// Where names Addr.
	Where Place

	text string
}

// String is one line for a person: address, place, rule, words.
func (v Violation) String() string {
	s := fmt.Sprintf("%#08x %s: %s: %s [%08x]", v.Addr, v.Where, v.Rule, isa.Decode(v.Word).At(v.Addr), v.Word)
	if v.Other {
		s += fmt.Sprintf("; %#08x %s [%08x]", v.Next, isa.Decode(v.NextWord).At(v.Next), v.NextWord)
	}
	if v.text != "" {
		s += ": " + v.text
	}
	return s
}

// Errors that say what kind of file cannot be judged.
var (
	// ErrNotMIPS: no 32-bit big-endian MIPS ELF program at all.
	ErrNotMIPS = errors.New("not a 32-bit big-endian MIPS program")
	// ErrUnsupported: a MIPS program of a kind that cannot be judged.
	ErrUnsupported = errors.New("cannot be judged")
)

// maxFile is the largest file that is read, in bytes; the gateway has 32 MiB of
// memory, a symbol table on the workstation may come on top.
const maxFile = 256 << 20

// File judges the program in a file. An error means that it was not judged;
// violations are in the report.
func File(path string, o Options) (*Report, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("check %s: not a regular file", path)
	}
	if st.Size() > maxFile {
		return nil, fmt.Errorf("check %s: %d bytes are more than the %d that are read: %w", path, st.Size(), maxFile, ErrUnsupported)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r, err := Bytes(b, o)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	r.Path = path
	return r, nil
}

// Bytes judges the program whose file's bytes are given.
func Bytes(b []byte, o Options) (*Report, error) {
	im, err := load(b)
	if err != nil {
		return nil, err
	}
	c := &checker{image: im, opt: o, report: newReport(o)}
	c.findFunctions()
	c.findRoots()
	c.follow()
	c.sweep()
	c.judge()
	c.name()
	return c.report, nil
}
