package asm

import (
	"slices"
	"strings"
	"testing"
)

// The words are what GNU as 2.40 makes of the same source (-mips32r2 -EB, noreorder).
func TestAssemble(t *testing.T) {
	t.Parallel()
	const base = 0x00400000
	for _, tt := range []struct {
		source string
		want   []uint32
	}{
		{"", nil},
		{" ; \n ;", nil},
		{"nop; move v0 t0; syscall; break; sync", []uint32{0, 0x01001021, 0x0c, 0x0d, 0x0f}},
		{"sll t0 t1 31; srl t0,t1,1; sra t0, t1, 2", []uint32{0x000947c0, 0x00094042, 0x00094083}},
		{"sllv t0 t1 t2; srlv t0 t1 t2; srav t0 t1 t2", []uint32{0x01494004, 0x01494006, 0x01494007}},
		{"jr ra; jalr s0 t9; movz v0 t1 t2; movn v0 t1 t2", []uint32{0x03e00008, 0x03208009, 0x012a100a, 0x012a100b}},
		{"mfhi t0; mthi t1; mflo t2; mtlo t3", []uint32{0x4010, 0x01200011, 0x5012, 0x01600013}},
		{"mult a0 a1; multu a0 a1; div a0 a1; divu a0 a1", []uint32{0x00850018, 0x00850019, 0x0085001a, 0x0085001b}},
		{"addu v0 v1 a0; subu v0 v1 a0; and v0 v1 a0; or v0 v1 a0", []uint32{0x00641021, 0x00641023, 0x00641024, 0x00641025}},
		{"xor v0 v1 a0; nor v0 v1 a0; slt v0 v1 a0; sltu v0 v1 a0", []uint32{0x00641026, 0x00641027, 0x0064102a, 0x0064102b}},
		{"teq a2 a3; teqi a0 -2", []uint32{0x00c70034, 0x048cfffe}},
		{"x: nop; nop; b x; nop", []uint32{0, 0, 0x1000fffd, 0}},
		{"bltz a0 y; bgez a0 y; bltzal a0 y; y: bgezal a0 y", []uint32{0x04800002, 0x04810001, 0x04900000, 0x0491ffff}},
		{"beq a0 a1 y; bne a0 a1 y; y:", []uint32{0x10850001, 0x14850000}},
		{"blez a2 y; bgtz a2 y; beql a2 a3 y; bltzl a2 y; y: nop", []uint32{0x18c00003, 0x1cc00002, 0x50c70001, 0x04c20000, 0}},
		{"addiu t0 t1 -4; slti t0 t1 -1; sltiu t0 t1 -1", []uint32{0x2528fffc, 0x2928ffff, 0x2d28ffff}},
		{"andi t0 t1 0xfff0; ori t0 t1 0xffff; xori t0 t1 1; lui t0 0x8000", []uint32{0x3128fff0, 0x3528ffff, 0x39280001, 0x3c088000}},
		{"madd a0 a1; maddu a0 a1; mul v0 a0 a1; msub a0 a1", []uint32{0x70850000, 0x70850001, 0x70851002, 0x70850004}},
		{"clz t0 t1; clo t0 t1", []uint32{0x71284020, 0x71284021}},
		{"lb t0 -1(a0); lh t0 2(a0); lwl t0 3(a0); lw t0 4(a0)", []uint32{0x8088ffff, 0x84880002, 0x88880003, 0x8c880004}},
		{"lbu t0 5(a0); lhu t0 6(a0); lwr t0 7(a0)", []uint32{0x90880005, 0x94880006, 0x98880007}},
		{"sb t0 8(a0); sh t0 10(a0); swl t0 11(a0); sw t0 12(a0); swr t0 13(a0)", []uint32{0xa0880008, 0xa488000a, 0xa888000b, 0xac88000c, 0xb888000d}},
		{"ll t0 16(a0); sc t0 20(a0)", []uint32{0xc0880010, 0xe0880014}},
		{"lw s7 0(sp); lw s8 0(k0); lw gp 0(k1)", []uint32{0x8fb70000, 0x8f5e0000, 0x8f7c0000}},
		// Addresses: the base's.
		{"f: nop; jal f; j g; g: nop", []uint32{0, 0x0c100000, 0x08100003, 0}},
		{"la t0 x; li t1 0x89abcdef; x: .word 0xffffffff", []uint32{0x3c080040, 0x35080010, 0x3c0989ab, 0x3529cdef, 0xffffffff}},
	} {
		got, err := Assemble(tt.source, base)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %08x, %v; want %08x", tt.source, got, err, tt.want)
		}
	}
}

func TestAssembleRefuses(t *testing.T) {
	t.Parallel()
	for source, part := range map[string]string{
		"frob t0":               "no instruction",
		"addu v0 v1":            "2 operands, want 3",
		"nop 1":                 "1 operands, want 0",
		"addu v0 v1 x9":         "no register",
		"addu v0 v1 0 v0":       "4 operands",
		"jr a":                  "no register",
		"lw t0 4[a0]":           "offset(register)",
		"lw t0 70000(a0)":       "16 bits",
		"lw t0 4(q)":            "no register",
		"addiu t0 t0 -32769":    "16 bits",
		"sll t0 t0 32":          "shift count",
		"b nowhere":             "no label",
		"j nowhere":             "no label",
		"la t0 nowhere":         "no label",
		"li t0 0x100000000":     "32 bits",
		"li 5":                  "operands, want 2",
		"li zz 5":               "no register",
		".word x":               "32 bits",
		"nop; b nowhere; nop":   "b nowhere",
		"la":                    "no label",
		"x: y: nop; bne t0 x y": "no register",
	} {
		if got, err := Assemble(source, 0); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %08x, %v; want an error with %q", source, got, err, part)
		}
	}
}
