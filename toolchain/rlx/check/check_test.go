package check

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// found lists violations as "rule@offset" or "rule@offset>offset", counted in
// words from the start of the code.
func found(r *Report, notes bool) (list []string) {
	for _, v := range r.Violations {
		if v.Note != notes {
			continue
		}
		s := fmt.Sprintf("%s@%d", v.Rule, int32(v.Addr-textAt)/4)
		if v.Other {
			s += fmt.Sprintf(">%d", int32(v.Next-textAt)/4)
		}
		list = append(list, s)
	}
	return list
}

// judge checks a program and compares what is found.
func judge(t *testing.T, p program, o Options, want, notes []string) *Report {
	t.Helper()
	r, err := Bytes(p.elf(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := found(r, false); !slices.Equal(got, want) {
		t.Errorf("violations %v, want %v", got, want)
	}
	if got := found(r, true); !slices.Equal(got, notes) {
		t.Errorf("notes %v, want %v", got, notes)
	}
	return r
}

// ret ends a function.
const ret = "jr $31; nop\n"

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, src string
		want      []string
	}{
		// Load delay, straight on.
		{"use at once", "f: \n lw $4,0($5); addu $2,$4,$3;" + ret, []string{"load-use@0>1"}},
		{"use one later", "f: \n lw $4,0($5); nop; addu $2,$4,$3;" + ret, nil},
		{"another register", "f: \n lw $4,0($5); addu $2,$6,$3;" + ret, nil},
		{"as store data", "f: \n lw $4,0($5); sw $4,4($5);" + ret, []string{"load-use@0>1"}},
		{"as a base", "f: \n lw $4,0($5); lw $6,4($4);" + ret, []string{"load-use@0>1"}},
		{"as a store's base", "f: \n lb $4,0($5); sb $6,4($4);" + ret, []string{"load-use@0>1"}},
		{"as a condition of movn", "f: \n lhu $4,0($5); movn $2,$3,$4;" + ret, []string{"load-use@0>1"}},
		{"movz over it", "f: \n lw $4,0($5); movz $4,$3,$2;" + ret, []string{"load-race@0>1"}},
		{"movn of it over it", "f: \n lw $4,0($5); movn $4,$4,$2;" + ret, []string{"load-use@0>1"}},
		{"by a multiplication", "f: \n lw $4,0($5); mult $4,$3;" + ret, []string{"load-use@0>1"}},
		{"by mthi", "f: \n lw $4,0($5); mthi $4;" + ret, []string{"load-use@0>1"}},
		{"by a shift distance", "f: \n lw $4,0($5); sllv $2,$3,$4;" + ret, []string{"load-use@0>1"}},
		{
			"each kind of load", "f: \n lb $4,0($5); or $2,$4,$0; lbu $4,0($5); or $2,$4,$0; lh $4,0($5); or $2,$4,$0; lhu $4,0($5); or $2,$4,$0;" + ret,
			[]string{"load-use@0>1", "load-use@2>3", "load-use@4>5", "load-use@6>7"},
		},
		{"register 0 has no delay", "f: \n lw $0,0($5); addu $2,$0,$3;" + ret, nil},
		{"a write races", "f: \n lw $4,0($5); addiu $4,$0,1;" + ret, []string{"load-race@0>1"}},
		{"a second load races", "f: \n lw $4,0($5); lw $4,0($6);" + ret, []string{"load-race@0>1"}},
		{"a use is worse than a race", "f: \n lw $4,0($5); lw $4,0($4);" + ret, []string{"load-use@0>1"}},
		{"lwl lwr merge", "f: \n lwl $4,0($5); lwr $4,3($5); nop; addu $2,$4,$3;" + ret, nil},
		{"lwr lwl merge", "f: \n lwr $4,3($5); lwl $4,0($5);" + ret, nil},
		{"lwl lwl does not", "f: \n lwl $4,0($5); lwl $4,4($5);" + ret, []string{"load-use@0>1"}},
		{"merged too early", "f: \n lwl $4,0($5); lwr $4,3($5); addu $2,$4,$3;" + ret, []string{"load-use@1>2"}},
		{"lw then lwr does not merge", "f: \n lw $4,0($5); lwr $4,3($5);" + ret, []string{"load-use@0>1"}},
		{"the base is no merge", "f: \n lwl $4,0($5); lwr $4,3($4);" + ret, []string{"load-use@0>1"}},
		{"swr of a load", "f: \n lw $4,0($5); swr $4,3($6);" + ret, []string{"load-use@0>1"}},
		{"syscall reads after the delay", "f: \n lw $4,0($5); syscall;" + ret, nil},

		// Load delay across branches.
		{"by a branch", "f: \n lw $4,0($5); beq $4,$0,.l; nop; .l:\n" + ret, []string{"load-use@0>1"}},
		{"by a jump", "f: \n lw $4,0($5); jr $4; nop;", []string{"load-use@0>1"}},
		{"link register", "f: \n lw $31,0($5); jal f; nop; nop;" + ret, []string{"load-race@0>1"}},
		{"return address in time", "f: \n lw $31,0($29); addiu $29,$29,8; " + ret, nil},
		{"before a branch's slot", "f: \n lw $4,0($5); beq $6,$0,.l; addu $2,$4,$4; .l:\n" + ret, nil},
		{"in a slot, used at the target", "f: \n beq $6,$0,.l; lw $4,0($5); nop;\n .l:\n addu $2,$4,$4;" + ret, []string{"load-use@1>3"}},
		{"in a slot, used where it falls", "f: \n beq $6,$0,.l; lw $4,0($5); addu $2,$4,$4;\n .l:\n nop;" + ret, []string{"load-use@1>2"}},
		{"in a slot, used later", "f: \n beq $6,$0,.l; lw $4,0($5); nop;\n .l:\n nop; addu $2,$4,$4;" + ret, nil},
		{"in a slot, backwards", "f:\n .l:\n addu $2,$4,$4; bne $6,$0,.l; lw $4,0($5); nop;" + ret, []string{"load-use@2>0"}},
		{"branch always does not fall", "f: \n beq $0,$0,.l; lw $4,0($5); addu $2,$4,$4; \n.l:\n nop;" + ret, nil},
		{"branch never does not jump", "f: \n bne $7,$7,.l; lw $4,0($5); nop; \n.l:\n nop; beq $0,$0,.m; nop;\n .l2:\n addu $2,$4,$4;\n .m:\n" + ret, nil},
		{"j in a slot", "f: \n j .l; lw $4,0($5);\n .l:\n addu $2,$4,$4;" + ret, []string{"load-use@1>2"}},
		{"end of a loop's body", "f:\n .l:\n addu $2,$2,$4; addiu $6,$6,-1; bgtz $6,.l; lw $4,0($5); nop;" + ret, []string{"load-use@3>0"}},

		// Calls and returns.
		{"in a call's slot, used by the callee", "f: \n jal g; lw $4,0($5); nop; " + ret + "g:\n addu $2,$4,$4;" + ret, []string{"load-use@1>5"}},
		{"in a call's slot, used later", "f: \n jal g; lw $4,0($5); nop; " + ret + "g:\n nop; addu $2,$4,$4;" + ret, nil},
		{"in a return's slot", "f: \n jr $31; lw $4,0($5);", []string{"load-in-slot@1>0"}},
		{"register 0 in a return's slot", "f: \n jr $31; lw $0,0($5);", nil},
		{"in an unknown call's slot", "f: \n jalr $31,$25; lw $4,0($5); nop;" + ret, []string{"load-in-slot@1>0"}},
		{"behind a call", "f: \n jal g; nop; addu $2,$4,$4; " + ret + "g:\n lw $4,0($5);" + ret, nil},
		{"bgezal falls and calls", "f: \n bgezal $6,g; lw $4,0($5); addu $3,$4,$4; nop;" + ret + "g:\n addu $2,$4,$4;" + ret, []string{"load-use@1>2", "load-use@1>6"}},

		// Forbidden instructions.
		{"mul", "f: \n mul $2,$3,$4;" + ret, []string{"forbidden@0"}},
		{"clz", "f: \n clz $2,$3;" + ret, []string{"forbidden@0"}},
		{
			"traps", "f: \n teq $2,$3; tne $2,$3; tge $2,$3; tgeu $2,$3; tlt $2,$3; tltu $2,$3;" + ret,
			[]string{"forbidden@0", "forbidden@1", "forbidden@2", "forbidden@3", "forbidden@4", "forbidden@5"},
		},
		{
			"traps with a number", "f: \n teqi $2,1; tnei $2,1; tgei $2,1; tgeiu $2,1; tlti $2,1; tltiu $2,1;" + ret,
			[]string{"forbidden@0", "forbidden@1", "forbidden@2", "forbidden@3", "forbidden@4", "forbidden@5"},
		},
		{
			"branch likely", "f: \n beql $2,$3,.l; nop; .l:\n bnel $2,$3,.m; nop; \n.m:\n blezl $2,.n; nop; \n.n:\n bgtzl $2,.o; nop; \n.o:\n bltzl $2,.p; nop; \n.p:\n bgezl $2,.q; nop; \n.q:\n" + ret,
			[]string{"forbidden@0", "forbidden@2", "forbidden@4", "forbidden@6", "forbidden@8", "forbidden@10"},
		},
		{"rotr", "f: \n .word 0x00231102;" + ret, []string{"forbidden@0"}},  // rotr $2,$3,4
		{"rotrv", "f: \n .word 0x00831046;" + ret, []string{"forbidden@0"}}, // rotrv $2,$3,$4
		{"srl and srlv", "f: \n srl $2,$3,4; srlv $2,$3,$4;" + ret, nil},
		{
			"ext ins seb seh wsbh", "f: \n .word 0x7c831900; .word 0x7c832904; .word 0x7c031420; .word 0x7c031620; .word 0x7c0310a0;" + ret,
			[]string{"forbidden@0", "forbidden@1", "forbidden@2", "forbidden@3", "forbidden@4"},
		},
		{"pref cache synci", "f: \n pref $0,0($4); cache $0,0($4); synci $4,0;" + ret, []string{"forbidden@0", "forbidden@1", "forbidden@2"}},
		{
			"fpu", "f: \n lwc1 $2,0($4); swc1 $2,0($4); ldc1 $2,0($4); sdc1 $2,0($4); .word 0x44820000; .word 0x46020000;" + ret,
			[]string{"forbidden@0", "forbidden@1", "forbidden@2", "forbidden@3", "forbidden@4", "forbidden@5"},
		},
		{"cop0 cop2 cop3", "f: \n .word 0x40026000; nop; .word 0x48020000; .word 0x4c020000;" + ret, []string{"forbidden@0", "forbidden@2", "forbidden@3"}},
		{"64-bit", "f: \n .word 0x0083102d; .word 0xdc820000; .word 0xfc830000; .word 0x64420001;" + ret, // daddu ld sd daddiu
			[]string{"forbidden@0", "forbidden@1", "forbidden@2", "forbidden@3"}},
		{"maddu msub unproven, madd not", "f: \n .word 0x70830001; .word 0x70830004; .word 0x70830000;" + ret, []string{"forbidden@0", "forbidden@1"}},
		{"reserved bits", "f: \n .word 0x00831061;" + ret, []string{"forbidden@0"}}, // addu with a shift distance
		{"link and target the same", "f: \n jalr $31,$31; nop; nop;" + ret, []string{"forbidden@0"}},
		{"sync", "f: \n sync;" + ret, []string{"emulated@0"}},
		{"the thread pointer's rdhwr", "f: \n .word 0x7c03e83b;" + ret, nil},
		{"another rdhwr", "f: \n .word 0x7c02e83b; .word 0x7c03103b;" + ret, []string{"forbidden@0", "forbidden@1"}},
		{"movz movn lwl ll sc madd", "f: \n movz $2,$3,$4; movn $2,$3,$4; swl $2,0($4); swr $2,3($4); madd $2,$3;" + ret, nil},

		// HI and LO.
		{"mult directly behind mflo", "f: \n mflo $2; mult $3,$4;" + ret, []string{"hilo@0>1"}},
		{"one between", "f: \n mfhi $2; nop; divu $3,$4;" + ret, []string{"hilo@0>2"}},
		{"two between", "f: \n mfhi $2; nop; nop; div $3,$4;" + ret, nil},
		{"both reads", "f: \n mfhi $2; mflo $3; nop; multu $3,$4;" + ret, []string{"hilo@1>3"}},
		{"mthi mtlo madd", "f: \n mflo $2; mthi $3; nop; mflo $2; mtlo $3; nop; mflo $2; madd $3,$4;" + ret, []string{"hilo@0>1", "hilo@3>4", "hilo@6>7"}},
		{"mult to mflo is interlocked", "f: \n mult $3,$4; mflo $2;" + ret, nil},
		{"over a branch", "f: \n mflo $2; beq $3,$0,.l; nop; nop;\n .l:\n mult $3,$4;" + ret, nil},
		{"in a branch's slot", "f: \n beq $3,$0,.l; mflo $2; nop; nop;\n .l:\n mult $3,$4;" + ret, []string{"hilo@1>4"}},
		{"mult in a slot", "f: \n mflo $2; beq $3,$0,.l; mult $3,$4;\n .l:\n nop;" + ret, []string{"hilo@0>2"}},
		{"around a loop", "f:\n .l:\n mult $3,$4; mflo $2; bne $2,$0,.l; nop;" + ret, nil},
		{"around a short loop", "f:\n .l:\n mult $3,$4; bne $2,$0,.l; mflo $2;" + ret, []string{"hilo@2>0"}},
		{"into a callee", "f: \n jal g; mflo $2; nop; " + ret + "g:\n nop; mult $2,$3;" + ret, []string{"hilo@1>6"}},
		{"before a call", "f: \n mflo $2; jal g; nop; nop;" + ret + "g:\n mult $2,$3;" + ret, nil},
		{"in a return's slot", "f: \n jr $31; mflo $2;", []string{"hilo@1>0"}},
		{"before a return", "f: \n mflo $2;" + ret, nil},
		{"two paths, one report each", "f: \n mflo $2; bne $2,$0,.l; nop;\n .l:\n nop; mult $2,$3;" + ret, nil},

		// LL and SC.
		{"a loop of ll and sc", "f:\n .l:\n ll $2,0($4); nop; addu $3,$2,$5; sc $3,0($4); nop; beq $3,$0,.l; nop;" + ret, nil},
		{"left by a compare", "f:\n .l:\n ll $2,0($4); nop; bne $2,$5,.fail; nop; sc $6,0($4); nop; beq $6,$0,.l; nop;" + ret + ".fail:\n" + ret, []string{"ll-without-sc@0>10"}},
		{"left by a compare, dummy sc", "f:\n .l:\n ll $2,0($4); nop; bne $2,$5,.fail; nop; sc $6,0($4); nop; beq $6,$0,.l; nop;" + ret + ".fail:\n sc $0,0($29);" + ret, nil},
		{"dummy sc in the return's slot", "f:\n ll $2,0($4); jr $31; sc $0,0($29);", nil},
		{"dummy sc in a branch's slot", "f:\n ll $2,0($4); nop; bne $2,$5,.l; sc $6,0($4);\n .l:\n" + ret, nil},
		{"a call inside", "f: \n ll $2,0($4); jal g; nop; sc $2,0($4);" + ret + "g:\n" + ret, []string{"ll-without-sc@0>1"}},
		{"an unknown call inside", "f: \n ll $2,0($4); jalr $31,$25; nop; sc $2,0($4);" + ret, []string{"ll-without-sc@0>1"}},
		{"a system call inside", "f: \n ll $2,0($4); syscall; sc $2,0($4);" + ret, []string{"ll-without-sc@0>1"}},
		{"a spin without sc", "f:\n .l:\n ll $2,0($4); nop; bne $2,$0,.l; nop; sc $2,0($4);" + ret, []string{"ll-without-sc@0>0"}},
		{"another ll", "f: \n ll $2,0($4); ll $3,0($5); sc $2,0($4);" + ret, []string{"ll-without-sc@0>1"}},
		{"a jump out of the function", "f: \n ll $2,0($4); j g; nop; \ng:\n sc $2,0($4);" + ret, []string{"ll-without-sc@0>2"}},
		{"a crash is no exit", "f: \n ll $2,0($4); nop; beq $2,$0,.l; nop; sc $2,0($4);" + ret + ".l:\n break;", nil},
		{"a sequence without end", "f: \n ll $2,0($4);" + strings.Repeat("addu $3,$3,$2;", 501) + "sc $2,0($4);" + ret, []string{"load-use@0>1", "ll-without-sc@0>501"}},
		{"a long sequence", "f: \n ll $2,0($4); nop;" + strings.Repeat("addu $3,$3,$2;", 490) + "sc $2,0($4);" + ret, nil},
		{"ll has a delay", "f: \n ll $2,0($4); addu $3,$2,$5; sc $3,0($4);" + ret, []string{"load-use@0>1"}},

		// Control flow.
		{"branch in a slot", "f: \n beq $2,$0,.l; beq $3,$0,.l; nop;\n .l:\n" + ret, []string{"branch-in-slot@1"}},
		{"return in a slot", "f: \n jal f; jr $31; nop;" + ret, []string{"branch-in-slot@1"}},
		{"branch out", "f: \n beq $2,$0,out; nop;" + ret, []string{"bad-target@0"}},
		{"jump out", "f: \n j out; nop;", []string{"bad-target@0"}},
		{"call out", "f: \n jal out; nop; nop;" + ret, []string{"bad-target@0"}},
		{"into the next function", "f: \n addu $2,$3,$4; \ng:\n " + ret, []string{"run-off@0>1"}},
		{"into the next function by not branching", "f: \n beq $2,$0,f; nop; \ng:\n " + ret, []string{"run-off@1>2"}},
		{"over the end", "f: \n addu $2,$3,$4;", []string{"run-off@0"}},
		{"a branch without a slot", "f: \n nop; jr $31;", []string{"run-off@1"}},
		{"break ends it", "f: \n break; \ng:\n" + ret, nil},
		{"a call that does not return", "f: \n jal g; nop; \ng:\n break;", nil},
		{"a call that does not return, padding", "f: \n jal g; nop; nor $0,$0,$0; nop; \ng:\n break;", nil},
		{"an endless loop", "f:\n .l:\n beq $0,$0,.l; nop; \ng:\n break;", nil},
		{"a branch into a slot", "f: \n beq $2,$0,.l; nop; bne $3,$0,.m;\n .l:\n lw $4,0($5); nop; nop;\n .m:\n addu $2,$4,$4;" + ret, []string{"load-use@3>6"}},
		{"padding is not judged", "f:\n" + ret + "nop; nop; nop;", nil},
		{"dead code in a function is", "f:\n" + ret + "mul $2,$3,$4; lw $4,0($5); addu $2,$4,$4;" + ret, []string{"forbidden@2", "load-use@3>4"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			judge(t, program{text: c.src}, Options{}, c.want, nil)
		})
	}
}

// TestForeign: what another compiler's program may do is a note.
func TestForeign(t *testing.T) {
	src := "f:\n ll $2,0($4); sync;" + ret + "g:\n lw $4,0($5); lw $4,0($6); nop; \nh:\n" + ret + "i:\n lw $4,0($5); addu $2,$4,$4; mul $2,$3,$4;" + ret
	all := []string{"ll-without-sc@0>2", "emulated@1", "load-race@4>5", "run-off@6>7", "load-use@9>10", "forbidden@11"}
	judge(t, program{text: src}, Options{}, all, nil)
	r := judge(t, program{text: src}, Options{Foreign: true}, all[4:], all[:4])
	weak := "f:\n jal 0; nop; jr $31; nop"
	judge(t, program{text: weak}, Options{Foreign: true}, nil, []string{"bad-target@0"})
	judge(t, program{text: weak}, Options{}, []string{"bad-target@0"}, nil)
	judge(t, program{text: strings.Replace(weak, "0", "4", 1)}, Options{Foreign: true}, []string{"bad-target@0"}, nil)
	if r.Total() != 2 || r.Notes[LLWithoutSC] != 1 {
		t.Errorf("%d violations, notes %v", r.Total(), r.Notes)
	}
}

// TestSCUse: what nobody has measured is a note, unless asked for.
func TestSCUse(t *testing.T) {
	src := "f:\n .l:\n ll $2,0($4); nop; sc $3,0($4); beq $3,$0,.l; nop;" + ret
	judge(t, program{text: src}, Options{}, nil, []string{"sc-use@2>3"})
	judge(t, program{text: src}, Options{StrictSC: true}, []string{"sc-use@2>3"}, nil)
}

// TestStripped: without a symbol table code is found by its callers, by pointers
// in data and code, and by sweeping.
func TestStripped(t *testing.T) {
	bad := "lw $4,0($5); addu $2,$4,$4;" + ret
	t.Run("called", func(t *testing.T) {
		r := judge(t, program{text: "f:\n jal g; nop; nop;" + ret + "g:\n" + bad, strip: true}, Options{}, []string{"load-use@5>6"}, nil)
		if r.Stats.Swept != 0 || r.Functions != "none" {
			t.Errorf("%d words swept, functions: %s", r.Stats.Swept, r.Functions)
		}
	})
	t.Run("in a table", func(t *testing.T) {
		r := judge(t, program{text: "f:\n" + ret + "g:\n" + bad, data: []uint32{1, textAt + 8}, strip: true}, Options{}, []string{"load-use@2>3"}, nil)
		if r.Stats.Swept != 0 || r.Stats.Pointers != 1 {
			t.Errorf("%d words swept, %d pointers", r.Stats.Swept, r.Stats.Pointers)
		}
	})
	t.Run("in code", func(t *testing.T) {
		r := judge(t, program{text: "f:\n lui $4,%hi(g); addiu $4,$4,%lo(g);" + ret + "g:\n" + bad, strip: true}, Options{}, []string{"load-use@4>5"}, nil)
		if r.Stats.Swept != 0 {
			t.Errorf("%d words swept", r.Stats.Swept)
		}
	})
	t.Run("swept", func(t *testing.T) {
		r := judge(t, program{text: "f:\n" + ret + "g:\n" + bad, strip: true}, Options{}, []string{"load-use@2>3"}, nil)
		if r.Stats.Swept != 4 {
			t.Errorf("%d words swept", r.Stats.Swept)
		}
	})
	t.Run("no section table", func(t *testing.T) {
		judge(t, program{text: "f:\n jal g; nop; nop;" + ret + "g:\n" + bad, noSect: true}, Options{}, []string{"load-use@5>6"}, nil)
	})
	t.Run("text is data", func(t *testing.T) {
		// "the quick brown " between two functions
		r := judge(t, program{text: "f:\n jal g; nop; nop;" + ret + ".word 0x74686520; .word 0x71756963; .word 0x6b206272; .word 0x6f776e20; \ng:\n" + ret, strip: true}, Options{}, nil, nil)
		if r.Stats.Data != 4 {
			t.Errorf("%d words of data, want 4", r.Stats.Data)
		}
	})
	t.Run("data behind a bal", func(t *testing.T) {
		src := "f:\n bgezal $0,.l; nop; .word 0xffff8010; .word 0xffff8014;\n .l:\n lw $28,0($31); nop;" + ret
		for _, strip := range []bool{true, false} {
			if r := judge(t, program{text: src, strip: strip}, Options{}, nil, nil); r.Stats.Data != 2 {
				t.Errorf("%d words of data, want 2", r.Stats.Data)
			}
		}
	})
}

// TestEntry: an entry point outside the code is reported.
func TestEntry(t *testing.T) {
	judge(t, program{text: "f:\n" + ret, entry: textAt + 2}, Options{}, []string{"bad-target@0"}, nil)
	judge(t, program{text: "f:\n" + ret, entry: textAt + 0x100}, Options{}, []string{"bad-target@64"}, nil)
}

func TestRefused(t *testing.T) {
	good := program{text: "f:\n" + ret}.elf(t)
	patch := func(off int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[off:], b)
		return c
	}
	flags := func(f uint32) []byte { return program{text: "f:\n" + ret, flags: f}.elf(t) }
	for _, c := range []struct {
		name string
		b    []byte
		err  error
		says string
	}{
		{"empty", nil, ErrNotMIPS, "no ELF header"},
		{"a script", []byte("#!/bin/sh\n" + strings.Repeat("#", 100)), ErrNotMIPS, "no ELF header"},
		{"little-endian", patch(5, 1), ErrNotMIPS, "another machine"},
		{"64-bit", patch(4, 2), ErrNotMIPS, "another machine"},
		{"PowerPC", patch(18, 0, 20), ErrNotMIPS, "another machine"},
		{"an object file", patch(16, 0, 1), ErrUnsupported, "link it"},
		{"MIPS16", flags(0x04001000), ErrUnsupported, "-mno-mips16"},
		{"microMIPS", flags(0x02001000), ErrUnsupported, "-mno-micromips"},
		{"n32", flags(0x20), ErrUnsupported, "-mabi=32"},
		{"o64", flags(0x2000), ErrUnsupported, "-mabi=32"},
		{"release 6", flags(0x90001000), ErrUnsupported, "-march=mips1"},
		{"dynamic", patch(52+3, 3), ErrUnsupported, "-static"},
		{"cut off", patch(52+16, 0x7f), ErrUnsupported, "copy the file again"},
		{"no code", program{}.elf(t), ErrUnsupported, "no executable code"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Bytes(c.b, Options{})
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q and %q", err, c.err, c.says)
			}
		})
	}
	for _, f := range []uint32{0x1000, 0x1005, 0x50001004, 0x70001000} {
		if _, err := Bytes(flags(f), Options{}); err != nil {
			t.Errorf("e_flags %#x: %v", f, err)
		}
	}
}

// names is a symbol file.
type names map[uint64]Place

func (n names) Name(a uint64) (Place, bool) { p, ok := n[a]; return p, ok }

func TestMain(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, p program) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, p.elf(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", program{text: "f:\n" + ret})
	use := "lw $4,0($5); addu $2,$4,$4;"
	bad := write("bad", program{text: "f:\n nop; g:\n nop;" + use + use + use + ret})
	run := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		n := Main(args, &out, &errs)
		return n, out.String(), errs.String()
	}
	if n, out, errs := run(good); n != 0 || !strings.Contains(out, "good: keeps the rules") || errs != "" {
		t.Errorf("good: %d %q %q", n, out, errs)
	}
	n, out, errs := run("-max", "2", good, bad)
	if n != 1 || errs != "" {
		t.Errorf("bad: status %d, %q", n, errs)
	}
	for _, want := range []string{
		"0x00400008 g+0x4: load-use: lw $4,0($5) [8ca40000]; 0x0040000c addu $2,$4,$4 [00841021]: reads the old value of $4\n",
		"load-use: 1 more\n", "load-use        3\n", "4 violations",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Count(out, "load-use: lw") != 2 {
		t.Errorf("not two examples:\n%s", out)
	}
	if n, out, _ := run("-stats", good); n != 0 || !strings.Contains(out, "branch slots") {
		t.Errorf("-stats: %d %q", n, out)
	}
	if n, _, errs := run(filepath.Join(dir, "absent"), good); n != 2 || !strings.Contains(errs, "absent") {
		t.Errorf("absent: %d %q", n, errs)
	}
	if n, _, errs := run(); n != 2 || !strings.Contains(errs, "usage") {
		t.Errorf("no argument: %d %q", n, errs)
	}
	if n, _, errs := run(dir); n != 2 || !strings.Contains(errs, "not a regular file") {
		t.Errorf("a folder: %d %q", n, errs)
	}
	if n, _, errs := run("-sym", filepath.Join(dir, "absent.sym"), good); n != 2 || !strings.Contains(errs, "absent.sym") {
		t.Errorf("no symbol file: %d %q", n, errs)
	}
	if n, _, errs := run("-sym", good, good); n != 2 || !strings.Contains(errs, "symbol file") {
		t.Errorf("not a symbol file: %d %q", n, errs)
	}
	r, err := File(bad, Options{Names: names{textAt + 8: {"main.x", 4, "x.go", 7}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range r.Violations {
		got = append(got, v.Where.String())
	}
	if want := []string{"f+0x0", "main.x+0x4 x.go:7", "g+0xc", "g+0x14"}; !slices.Equal(got, want) {
		t.Errorf("places %q, want %q", got, want)
	}
}

// TestStats counts what the documents quote.
func TestStats(t *testing.T) {
	src := `f:
		lw $4,0($5); nop; addu $2,$4,$4
		lw $4,0($5); nop; nop
		lw $4,0($5); addu $2,$4,$4
		lw $4,0($5); addu $2,$3,$3; addu $2,$4,$4
		beq $2,$3,f; addu $2,$2,$3
		bne $2,$3,f; nop
		jal f; sw $2,0($29)
		jalr $31,$25; nop
		ll $2,0($4); nop; sc $2,0($4); nop
		mult $3,$4; mflo $2
		j .l; nop
		.l:
		jr $25; nop
		jr $31; addiu $29,$29,8
		nop; nop`
	r := judge(t, program{text: src}, Options{}, []string{"load-use@6>7"}, nil)
	s := r.Stats
	want := Stats{
		TextBytes: 4 * 33, Words: 31, Functions: 1, Unreached: 2, Swept: 2,
		NOPs: 9, Loads: 5, LoadsNOP: 3, LoadsPadded: 2, LoadsUsed: 1, LL: 1, SC: 1, MulDiv: 1,
		IndirectJumps: 1, IndirectCalls: 1,
	}
	want.Slots[SlotBranch] = Slots{2, 1}
	want.Slots[SlotCall] = Slots{2, 1}
	want.Slots[SlotOther] = Slots{2, 2}
	want.Slots[SlotReturn] = Slots{1, 0}
	if s != want {
		t.Errorf("\n%+v, want\n%+v", s, want)
	}
}

// TestGoTable: the function table of a binary whose lines are in a symbol file,
// and none from a table that is cut off anywhere.
func TestGoTable(t *testing.T) {
	var d []byte
	words := func(w ...uint32) {
		for _, w := range w {
			d = binary.BigEndian.AppendUint32(d, w)
		}
	}
	words(0xfffffff1, 0x01000404, 2, 0, 40, 52, 0, 0, 0, 72)
	d = append(d, "0123abcd\x00\x00\x00\x00"...)            // 40: build ID
	d = append(d, "main.main\x00main.f\x00\x00\x00\x00"...) // 52: names
	words(0, 20, 0x10, 28, 0x24)                            // 72: functions
	words(0, 0, 0x10, 10)                                   // 92, 100: their records
	want := []function{{"main.main", 0x11000, 0x11010}, {"main.f", 0x11010, 0x11024}}
	got := readGoTable(d, 0x11000)
	if !slices.Equal(got.fns, want) || got.buildID != "0123abcd" {
		t.Errorf("%v, build %q; want %v", got.fns, got.buildID, want)
	}
	for n := range d {
		for _, f := range readGoTable(d[:n:n], 0x11000).fns {
			if !slices.ContainsFunc(want, func(w function) bool { return f.start == w.start && f.end == w.end }) {
				t.Errorf("cut off at %d: %v", n, f)
			}
		}
	}
	d[4] = 0 // the word is not the build ID's then
	if got := readGoTable(d, 0x11000); got.buildID != "" || len(got.fns) != 2 {
		t.Errorf("without a symbol file: %+v", got)
	}
}
