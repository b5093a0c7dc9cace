package isa

import (
	"strings"
	"testing"
)

// TestDecode: words as GNU as 2.40 made them of the text beside them.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		word          uint32
		text          string
		reads, writes string
		verdict       Verdict
	}{
		{0x00031100, "sll $2,$3,4", "$3", "$2", OK},
		{0x00031102, "srl $2,$3,4", "$3", "$2", OK},
		{0x00031103, "sra $2,$3,4", "$3", "$2", OK},
		{0x00831004, "sllv $2,$3,$4", "$3 $4", "$2", OK},
		{0x00831006, "srlv $2,$3,$4", "$3 $4", "$2", OK},
		{0x00831007, "srav $2,$3,$4", "$3 $4", "$2", OK},
		{0x03e00008, "jr $31", "$31", "", OK},
		{0x0320f809, "jalr $31,$25", "$25", "$31", OK},
		{0x0064100a, "movz $2,$3,$4", "$2 $3 $4", "$2", OK},
		{0x0064100b, "movn $2,$3,$4", "$2 $3 $4", "$2", OK},
		{0x0000000c, "syscall", "", "", OK},
		{0x0007000d, "break 7", "", "", OK},
		{0x00001010, "mfhi $2", "hi", "$2", OK},
		{0x00600011, "mthi $3", "$3", "hi", OK},
		{0x00001012, "mflo $2", "lo", "$2", OK},
		{0x00600013, "mtlo $3", "$3", "lo", OK},
		{0x00640018, "mult $3,$4", "$3 $4", "hi lo", OK},
		{0x00640019, "multu $3,$4", "$3 $4", "hi lo", OK},
		{0x0064001a, "div $3,$4", "$3 $4", "hi lo", OK},
		{0x0064001b, "divu $3,$4", "$3 $4", "hi lo", OK},
		{0x00641020, "add $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641021, "addu $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641022, "sub $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641023, "subu $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641024, "and $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641025, "or $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641026, "xor $2,$3,$4", "$3 $4", "$2", OK},
		{0x00641027, "nor $2,$3,$4", "$3 $4", "$2", OK},
		{0x0064102a, "slt $2,$3,$4", "$3 $4", "$2", OK},
		{0x0064102b, "sltu $2,$3,$4", "$3 $4", "$2", OK},
		{0x2062fffb, "addi $2,$3,-5", "$3", "$2", OK},
		{0x2462fffb, "addiu $2,$3,-5", "$3", "$2", OK},
		{0x2862fffb, "slti $2,$3,-5", "$3", "$2", OK},
		{0x2c620005, "sltiu $2,$3,5", "$3", "$2", OK},
		{0x3062ff00, "andi $2,$3,0xff00", "$3", "$2", OK},
		{0x3462ff00, "ori $2,$3,0xff00", "$3", "$2", OK},
		{0x3862ff00, "xori $2,$3,0xff00", "$3", "$2", OK},
		{0x3c028000, "lui $2,0x8000", "", "$2", OK},
		{0x8062fffc, "lb $2,-4($3)", "$3", "$2", OK},
		{0x8462fffc, "lh $2,-4($3)", "$3", "$2", OK},
		{0x8862fffc, "lwl $2,-4($3)", "$2 $3", "$2", OK},
		{0x8c62fffc, "lw $2,-4($3)", "$3", "$2", OK},
		{0x9062fffc, "lbu $2,-4($3)", "$3", "$2", OK},
		{0x9462fffc, "lhu $2,-4($3)", "$3", "$2", OK},
		{0x9862fffc, "lwr $2,-4($3)", "$2 $3", "$2", OK},
		{0xa062fffc, "sb $2,-4($3)", "$2 $3", "", OK},
		{0xa462fffc, "sh $2,-4($3)", "$2 $3", "", OK},
		{0xa862fffc, "swl $2,-4($3)", "$2 $3", "", OK},
		{0xac62fffc, "sw $2,-4($3)", "$2 $3", "", OK},
		{0xb862fffc, "swr $2,-4($3)", "$2 $3", "", OK},
		{0xc0620008, "ll $2,8($3)", "$3", "$2", OK},
		{0xe0620008, "sc $2,8($3)", "$2 $3", "$2", OK},
		{0x70640000, "madd $3,$4", "$3 $4 hi lo", "hi lo", OK},
		{0x04600003, "bltz $3,.+16", "$3", "", OK},
		{0x0461fffd, "bgez $3,.-8", "$3", "", OK},
		{0x04700000, "bltzal $3,.+4", "$3", "$31", OK},
		{0x04710001, "bgezal $3,.+8", "$3", "$31", OK},
		{0x10640003, "beq $3,$4,.+16", "$3 $4", "", OK},
		{0x1464fffc, "bne $3,$4,.-12", "$3 $4", "", OK},
		{0x18600001, "blez $3,.+8", "$3", "", OK},
		{0x1c600001, "bgtz $3,.+8", "$3", "", OK},
		{0x0000000f, "sync", "", "", Emulated},
		{0x7c03e83b, "rdhwr $3,$29", "", "$3", Emulated},
		{0x00231102, "rotr $2,$3,4", "$3", "$2", Wrong},
		{0x00831046, "rotrv $2,$3,$4", "$3 $4", "$2", Wrong},
		{0x047f0008, "synci 8($3)", "$3", "", Wrong},
		{0x70641002, "mul $2,$3,$4", "$3 $4", "$2 hi lo", Traps},
		{0x70621020, "clz $2,$3", "$3", "$2", Traps},
		{0x70621021, "clo $2,$3", "$3", "$2", Traps},
		{0x70640001, "maddu $3,$4", "$3 $4 hi lo", "hi lo", Unproven},
		{0x70640004, "msub $3,$4", "$3 $4 hi lo", "hi lo", Unproven},
		{0x70640005, "msubu $3,$4", "$3 $4 hi lo", "hi lo", Unproven},
		{0x00640034, "teq $3,$4", "$3 $4", "", Traps},
		{0x00640036, "tne $3,$4", "$3 $4", "", Traps},
		{0x00640030, "tge $3,$4", "$3 $4", "", Traps},
		{0x00640031, "tgeu $3,$4", "$3 $4", "", Traps},
		{0x00640032, "tlt $3,$4", "$3 $4", "", Traps},
		{0x00640033, "tltu $3,$4", "$3 $4", "", Traps},
		{0x046c0005, "teqi $3,5", "$3", "", Unproven},
		{0x046e0005, "tnei $3,5", "$3", "", Unproven},
		{0x04680005, "tgei $3,5", "$3", "", Unproven},
		{0x04690005, "tgeiu $3,5", "$3", "", Unproven},
		{0x046a0005, "tlti $3,5", "$3", "", Unproven},
		{0x046b0005, "tltiu $3,5", "$3", "", Unproven},
		{0x50640003, "beql $3,$4,.+16", "$3 $4", "", Traps},
		{0x54640003, "bnel $3,$4,.+16", "$3 $4", "", Traps},
		{0x58600003, "blezl $3,.+16", "$3", "", Traps},
		{0x5c600003, "bgtzl $3,.+16", "$3", "", Traps},
		{0x04620003, "bltzl $3,.+16", "$3", "", Unproven},
		{0x04630003, "bgezl $3,.+16", "$3", "", Unproven},
		{0x04720003, "bltzall $3,.+16", "$3", "$31", Unproven},
		{0x04730003, "bgezall $3,.+16", "$3", "$31", Unproven},
		{0x7c622100, "ext $2,$3", "$3", "$2", Traps},
		{0x7c624104, "ins $2,$3", "$2 $3", "$2", Traps},
		{0x7c031420, "seb $2,$3", "$3", "$2", Traps},
		{0x7c031620, "seh $2,$3", "$3", "$2", Traps},
		{0x7c0310a0, "wsbh $2,$3", "$3", "$2", Traps},
		{0x7c02e83b, "rdhwr $2,$29", "", "$2", Traps},
		{0x7c03103b, "rdhwr $3,$2", "", "$3", Traps},
		{0xcc640008, "pref $4,8($3)", "$3", "", Traps},
		{0xbc750008, "cache $21,8($3)", "$3", "", Privileged},
		{0xc4620008, "lwc1 $2,8($3)", "$3", "", Traps},
		{0xe4620008, "swc1 $2,8($3)", "$3", "", Traps},
		{0xd4620008, "ldc1 $2,8($3)", "$3", "", Traps},
		{0xf4620008, "sdc1 $2,8($3)", "$3", "", Traps},
		{0x44022000, "mfc1 $2,$4", "", "$2", Traps},
		{0x44822000, "cop1", "", "", Traps},
		{0x46062080, "cop1", "", "", Traps},
		{0x45010001, "cop1", "", "", Traps},
		{0x00601001, "movci", "$2 $3", "$2", Traps},
		{0x40026000, "mfc0 $2,$12", "", "$2", Privileged},
		{0x40826000, "mtc0 $2,$12", "$2", "", Privileged},
		{0x42000018, "cop0", "", "", Privileged},
		{0x42000020, "cop0", "", "", Privileged},
		{0x7000003f, "sdbbp", "", "", Traps},
		{0x48022000, "mfc2 $2,$4", "", "$2", Traps},
		// Words that no assembler makes.
		{0x00000000, "nop", "", "", OK},
		{0x00000040, "sll $0,$0,1", "", "", OK},
		{0x00831061, "reserved", "", "", Unproven}, // addu with a shift distance
		{0x03e00408, "reserved", "", "", Unproven}, // jr with a hazard barrier
		{0x00641018, "reserved", "", "", Unproven}, // mult with a destination
		{0x00231100, "reserved", "", "", Unproven}, // sll with a source
		{0x03e0f809, "jalr $31,$31", "$31", "$31", Unproven},
		{0x0083102d, "daddu $2,$4,$3", "$3 $4", "$2", Traps},
		{0xdc820008, "ld $2,8($4)", "$4", "$2", Traps},
		{0x00000005, "special.05", "", "", Unproven},
		{0x04440000, "regimm.04", "", "", Unproven},
		{0x7000000f, "special2.0f", "", "", Traps},
		{0x7000003c, "special2.3c", "", "", Traps},
		{0x7c00000a, "special3.0a", "", "", Traps},
		{0x78000000, "major.1e", "", "", Traps},
		{0x74000000, "jalx 0x0", "", "$31", Unproven},
		{0x4c000000, "mfc3 $0,$0", "", "", Traps},
		{0x4e000000, "cop3", "", "", Traps},
		{0x8c600000, "lw $0,0($3)", "$3", "", OK},
	} {
		i := Decode(c.word)
		if i.Word != c.word || i.String() != c.text || i.Reads().String() != c.reads || i.Writes().String() != c.writes || i.Verdict != c.verdict {
			t.Errorf("%08x: %q reads %q writes %q %v,\nwant %q reads %q writes %q %v", c.word,
				i, i.Reads(), i.Writes(), i.Verdict, c.text, c.reads, c.writes, c.verdict)
		}
	}
}

func TestTarget(t *testing.T) {
	const pc = 0x7ffffff8
	for _, c := range []struct {
		word   uint32
		target uint32
		ok     bool
		at     string
	}{
		{0x10640003, 0x80000008, true, "beq $3,$4,0x80000008"}, // over the sign bit
		{0x1464ffff, 0x7ffffff8, true, "bne $3,$4,0x7ffffff8"}, // to itself
		{0x04717fff, 0x8001fff8, true, "bgezal $3,0x8001fff8"}, // as far as it goes
		{0x04708000, 0x7ffdfffc, true, "bltzal $3,0x7ffdfffc"}, // and back
		{0x08000010, 0x70000040, true, "j 0x70000040"},         // in the slot's 256 MiB
		{0x0fffffff, 0x7ffffffc, true, "jal 0x7ffffffc"},
		{0x03e00008, 0, false, "jr $31"},
		{0x0320f809, 0, false, "jalr $31,$25"},
		{0x00641021, 0, false, "addu $2,$3,$4"},
	} {
		i := Decode(c.word)
		if a, ok := i.Target(pc); a != c.target || ok != c.ok || i.At(pc) != c.at {
			t.Errorf("%08x: %#x %v %q, want %#x %v %q", c.word, a, ok, i.At(pc), c.target, c.ok, c.at)
		}
	}
	if a, _ := Decode(0x08000010).Target(0x7ffffffc); a != 0x80000040 {
		t.Errorf("a jump whose slot is in the next 256 MiB goes to %#x", a)
	}
}

// TestConstant: branches whose registers decide before the program runs.
func TestConstant(t *testing.T) {
	for _, c := range []struct {
		word          uint32
		always, never bool
	}{
		{0x10000003, true, false},  // beq $0,$0
		{0x10840003, true, false},  // beq $4,$4
		{0x10640003, false, false}, // beq $3,$4
		{0x14000003, false, true},  // bne $0,$0
		{0x14640003, false, false}, // bne $3,$4
		{0x50000003, true, false},  // beql $0,$0
		{0x54840003, false, true},  // bnel $4,$4
		{0x18000003, true, false},  // blez $0
		{0x1c000003, false, true},  // bgtz $0
		{0x04010003, true, false},  // bgez $0
		{0x04000003, false, true},  // bltz $0
		{0x04110003, true, false},  // bal
		{0x04100003, false, true},  // bltzal $0
		{0x04710003, false, false}, // bgezal $3
		{0x08000000, true, false},  // j
		{0x03e00008, true, false},  // jr $31
		{0x00000000, false, false}, // nop
	} {
		if i := Decode(c.word); i.Always() != c.always || i.Never() != c.never {
			t.Errorf("%v: always %v never %v, want %v %v", i, i.Always(), i.Never(), c.always, c.never)
		}
	}
}

// TestFlags: the classes that the checker goes by.
func TestFlags(t *testing.T) {
	const delay = Branch | Jump
	classes := Load | Store | Merge | LinkedLoad | StoreCond | delay | Indirect | Link | Likely | MulDiv | FromHILO | ToHILO | Trap | Syscall | Break
	for _, c := range []struct {
		word uint32
		want Flag
	}{
		{0x00641021, 0},                      // addu
		{0x8c620000, Load},                   // lw
		{0x88620000, Load | Merge},           // lwl
		{0x98620000, Load | Merge},           // lwr
		{0xc0620000, Load | LinkedLoad},      // ll
		{0xac620000, Store},                  // sw
		{0xb8620000, Store},                  // swr
		{0xe0620000, Store | StoreCond},      // sc
		{0x10640003, Branch},                 // beq
		{0x50640003, Branch | Likely},        // beql
		{0x04710003, Branch | Link},          // bgezal
		{0x08000000, Jump},                   // j
		{0x0c000000, Jump | Link},            // jal
		{0x03e00008, Jump | Indirect},        // jr
		{0x0320f809, Jump | Indirect | Link}, // jalr
		{0x00640018, MulDiv},                 // mult
		{0x0064001b, MulDiv},                 // divu
		{0x70640000, MulDiv},                 // madd
		{0x00001010, FromHILO},               // mfhi
		{0x00600013, ToHILO},                 // mtlo
		{0x00640034, Trap},                   // teq
		{0x0000000c, Syscall},
		{0x0007000d, Break},
	} {
		i := Decode(c.word)
		if got := i.Flags & classes; got != c.want {
			t.Errorf("%v: flags %#x, want %#x", i, got, c.want)
		}
		if i.HasSlot() != (c.want&delay != 0) {
			t.Errorf("%v: delay slot %v", i, i.HasSlot())
		}
	}
}

// TestPlausible: text and numbers do not look like a compiler's code.
func TestPlausible(t *testing.T) {
	for _, w := range []uint32{0x8c620000, 0x70641002, 0x46062080, 0x0000000f, 0x03e00008} {
		if i := Decode(w); !i.Plausible() {
			t.Errorf("%v is code", i)
		}
	}
	for _, w := range []uint32{0x6b206272, 0x6f776e20, 0xffff8010, 0x4b000000, 0x00831061} {
		if i := Decode(w); i.Plausible() {
			t.Errorf("%08x is taken for %v", w, i)
		}
	}
}

// FuzzDecode: every word has a name, consistent flags, and prints.
func FuzzDecode(f *testing.F) {
	for op := range uint32(64) {
		f.Add(op<<26 | 0x00642004)
		f.Add(0x00640000 | op)
		f.Add(0x70640000 | op)
		f.Add(0x7c640000 | op)
		f.Add(0x04600010 | op<<16)
	}
	f.Fuzz(func(t *testing.T, w uint32) {
		i := Decode(w)
		switch s := i.At(0x400000); {
		case i.Name == "" || i.Def == nil:
			t.Fatalf("%08x has no name", w)
		case !strings.HasPrefix(s, i.Name) && w != NOP:
			t.Fatalf("%08x is %q and prints %q", w, i.Name, s)
		case strings.Count(s, ",") != strings.Count(i.Args, ",") && w != NOP:
			t.Fatalf("%08x prints %q for the operands %q", w, s, i.Args)
		}
		if (i.Reads()|i.Writes())&1 != 0 {
			t.Fatalf("%v: register 0 is in a set", i)
		}
		if _, ok := i.Target(0); ok != (i.HasSlot() && !i.Is(Indirect)) {
			t.Fatalf("%v: has a target: %v", i, ok)
		}
		if i.Always() && i.Never() {
			t.Fatalf("%v is taken always and never", i)
		}
		if i.Is(Load) && i.Verdict == OK && i.Writes() != Reg(i.RT()) {
			t.Fatalf("%v loads %v", i, i.Writes())
		}
	})
}
