package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// textAt is where the tests' code stands.
const textAt = 0x400000

// Encodings, written down here a second time from the manual so that a wrong row
// of package isa does not confirm itself.
var (
	primaries = map[string]uint32{
		"j": 2, "jal": 3, "beq": 4, "bne": 5, "blez": 6, "bgtz": 7, "addi": 8, "addiu": 9, "slti": 10, "sltiu": 11,
		"andi": 12, "ori": 13, "xori": 14, "lui": 15, "beql": 20, "bnel": 21, "blezl": 22, "bgtzl": 23,
		"lb": 32, "lh": 33, "lwl": 34, "lw": 35, "lbu": 36, "lhu": 37, "lwr": 38, "sb": 40, "sh": 41, "swl": 42, "sw": 43, "swr": 46,
		"cache": 47, "ll": 48, "lwc1": 49, "pref": 51, "ldc1": 53, "sc": 56, "swc1": 57, "sdc1": 61,
	}
	specials = map[string]uint32{
		"sll": 0, "srl": 2, "sra": 3, "sllv": 4, "srlv": 6, "srav": 7, "jr": 8, "jalr": 9, "movz": 10, "movn": 11,
		"syscall": 12, "break": 13, "sync": 15, "mfhi": 16, "mthi": 17, "mflo": 18, "mtlo": 19, "mult": 24, "multu": 25, "div": 26, "divu": 27,
		"add": 32, "addu": 33, "sub": 34, "subu": 35, "and": 36, "or": 37, "xor": 38, "nor": 39, "slt": 42, "sltu": 43,
		"tge": 48, "tgeu": 49, "tlt": 50, "tltu": 51, "teq": 52, "tne": 54,
	}
	regimms = map[string]uint32{
		"bltz": 0, "bgez": 1, "bltzl": 2, "bgezl": 3, "tgei": 8, "tgeiu": 9, "tlti": 10, "tltiu": 11, "teqi": 12, "tnei": 14,
		"bltzal": 16, "bgezal": 17, "synci": 31,
	}
)

// program is the source of a test's program.
type program struct {
	text   string // functions "f:", labels ".l:", instructions, ".word N"
	data   []uint32
	strip  bool // no symbol table
	flags  uint32
	noSect bool // no section table at all
	entry  uint32
	words  []byte // code instead of text's, if not nil
}

// function and label addresses of a program.
type asmFunc struct {
	name       string
	start, end uint32
}

// assemble makes words of a source. Functions start with "name:", labels with a
// dot; a branch to "out" leads out of the code.
func assemble(t testing.TB, src string) (words []uint32, funcs []asmFunc) {
	t.Helper()
	labels := map[string]uint32{"out": textAt - 0x1000}
	var lines []string
	for _, l := range strings.Split(src, "\n") {
		for _, l := range strings.Split(l, ";") {
			l = strings.TrimSpace(l)
			pc := textAt + 4*uint32(len(lines))
			switch {
			case l == "":
			case strings.HasSuffix(l, ":"):
				name := strings.TrimSuffix(l, ":")
				labels[name] = pc
				if !strings.HasPrefix(name, ".") {
					if n := len(funcs); n > 0 {
						funcs[n-1].end = pc
					}
					funcs = append(funcs, asmFunc{name: name, start: pc})
				}
			default:
				lines = append(lines, l)
			}
		}
	}
	if n := len(funcs); n > 0 {
		funcs[n-1].end = textAt + 4*uint32(len(lines))
	}
	for i, l := range lines {
		w, err := encode(l, textAt+4*uint32(i), labels)
		if err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		words = append(words, w)
	}
	return words, funcs
}

// encode assembles one line.
func encode(line string, pc uint32, labels map[string]uint32) (uint32, error) {
	name, rest, _ := strings.Cut(line, " ")
	var args []string
	for _, a := range strings.Split(rest, ",") {
		if a = strings.TrimSpace(a); a != "" {
			args = append(args, a)
		}
	}
	var err error
	num := func(s string) uint32 {
		if a, ok := labels[s]; ok {
			return a
		}
		if r, ok := strings.CutPrefix(s, "%hi("); ok {
			return (labels[strings.TrimSuffix(r, ")")] + 0x8000) >> 16
		}
		if r, ok := strings.CutPrefix(s, "%lo("); ok {
			return labels[strings.TrimSuffix(r, ")")] & 0xffff
		}
		n, e := strconv.ParseInt(s, 0, 64)
		if e != nil {
			err = e
		}
		return uint32(n)
	}
	reg := func(i int) uint32 {
		if i >= len(args) || !strings.HasPrefix(args[i], "$") {
			err = fmt.Errorf("operand %d is no register", i)
			return 0
		}
		return num(args[i][1:]) & 31
	}
	arg := func(i int) uint32 {
		if i >= len(args) {
			err = fmt.Errorf("operand %d is missing", i)
			return 0
		}
		return num(args[i])
	}
	rel := func(i int) uint32 { return (arg(i) - pc - 4) >> 2 & 0xffff }
	var w uint32
	switch {
	case name == "nop":
		return 0, nil
	case name == ".word":
		return arg(0), err
	case name == "mul":
		return 28<<26 | reg(1)<<21 | reg(2)<<16 | reg(0)<<11 | 2, err
	case name == "madd":
		return 28<<26 | reg(0)<<21 | reg(1)<<16, err
	case name == "clz":
		return 28<<26 | reg(1)<<21 | reg(0)<<16 | reg(0)<<11 | 32, err
	}
	if f, ok := specials[name]; ok {
		switch name {
		case "sll", "srl", "sra":
			w = reg(1)<<16 | reg(0)<<11 | arg(2)<<6
		case "sllv", "srlv", "srav":
			w = reg(2)<<21 | reg(1)<<16 | reg(0)<<11
		case "jr", "mthi", "mtlo":
			w = reg(0) << 21
		case "jalr":
			w = reg(1)<<21 | reg(0)<<11
		case "mfhi", "mflo":
			w = reg(0) << 11
		case "syscall", "break", "sync":
		case "mult", "multu", "div", "divu", "tge", "tgeu", "tlt", "tltu", "teq", "tne":
			w = reg(0)<<21 | reg(1)<<16
		default:
			w = reg(1)<<21 | reg(2)<<16 | reg(0)<<11
		}
		return w | f, err
	}
	if rt, ok := regimms[name]; ok {
		w = 1<<26 | reg(0)<<21 | rt<<16
		if strings.HasPrefix(name, "b") {
			return w | rel(1), err
		}
		return w | arg(1)&0xffff, err
	}
	op, ok := primaries[name]
	if !ok {
		return 0, fmt.Errorf("no such instruction")
	}
	switch {
	case op == 2 || op == 3:
		w = arg(0) >> 2 & (1<<26 - 1)
	case op == 4 || op == 5 || op == 20 || op == 21:
		w = reg(0)<<21 | reg(1)<<16 | rel(2)
	case op == 6 || op == 7 || op == 22 || op == 23:
		w = reg(0)<<21 | rel(1)
	case op == 15:
		w = reg(0)<<16 | arg(1)&0xffff
	case op < 32:
		w = reg(1)<<21 | reg(0)<<16 | arg(2)&0xffff
	default: // t,offset(s)
		off, base, _ := strings.Cut(strings.TrimSuffix(args[1], ")"), "($")
		w = num(base)<<21 | reg(0)<<16 | num(off)&0xffff
	}
	return w | op<<26, err
}

// elf makes a program's file: the sections .text, .rodata and the tables.
func (p program) elf(t testing.TB) []byte {
	t.Helper()
	words, funcs := assemble(t, p.text)
	be := binary.BigEndian
	var text, data, sym, str, shstr bytes.Buffer
	_ = binary.Write(&text, be, words)
	if p.words != nil {
		text.Reset()
		text.Write(p.words)
		text.Write(make([]byte, -len(p.words)&3))
	}
	_ = binary.Write(&data, be, p.data)
	str.WriteByte(0)
	sym.Write(make([]byte, 16))
	for _, f := range funcs {
		_ = binary.Write(&sym, be, []uint32{uint32(str.Len()), f.start, f.end - f.start})
		sym.Write([]byte{0x12, 0, 0, 1}) // STB_GLOBAL, STT_FUNC, section 1
		str.WriteString(f.name + "\x00")
	}
	const head, dataAt = 52 + 2*32, 0x500000
	names := map[string]uint32{}
	for _, n := range []string{"", ".text", ".rodata", ".symtab", ".strtab", ".shstrtab"} {
		names[n] = uint32(shstr.Len())
		shstr.WriteString(n + "\x00")
	}
	offs := []int{head}
	body := text.Bytes()
	for _, b := range [][]byte{data.Bytes(), sym.Bytes(), str.Bytes(), shstr.Bytes()} {
		offs = append(offs, head+len(body))
		body = append(body, b...)
	}
	for len(body)&3 != 0 {
		body = append(body, 0)
	}
	nsect, shoff := 6, uint32(head+len(body))
	if p.noSect {
		nsect, shoff = 0, 0
	}
	entry := p.entry
	if entry == 0 {
		entry = textAt
	}
	var out bytes.Buffer
	out.WriteString("\x7fELF\x01\x02\x01" + strings.Repeat("\x00", 9))
	_ = binary.Write(&out, be, []uint16{2, 8})
	_ = binary.Write(&out, be, []uint32{1, entry, 52, shoff, p.flags})
	_ = binary.Write(&out, be, []uint16{52, 32, 2, 40, uint16(nsect), uint16(max(nsect-1, 0))})
	for _, s := range []struct{ off, addr, n, flags int }{{offs[0], textAt, text.Len(), 5}, {offs[1], dataAt, data.Len(), 4}} {
		_ = binary.Write(&out, be, []uint32{1, uint32(s.off), uint32(s.addr), uint32(s.addr), uint32(s.n), uint32(s.n), uint32(s.flags), 4})
	}
	out.Write(body)
	if p.noSect {
		return out.Bytes()
	}
	nsym := uint32(sym.Len())
	if p.strip {
		nsym = 16
	}
	for _, s := range [][10]uint32{
		{},
		{names[".text"], 1, 6, textAt, uint32(offs[0]), uint32(text.Len()), 0, 0, 4, 0},
		{names[".rodata"], 1, 2, dataAt, uint32(offs[1]), uint32(data.Len()), 0, 0, 4, 0},
		{names[".symtab"], 2, 0, 0, uint32(offs[2]), nsym, 4, 1, 4, 16},
		{names[".strtab"], 3, 0, 0, uint32(offs[3]), uint32(str.Len()), 0, 0, 1, 0},
		{names[".shstrtab"], 3, 0, 0, uint32(offs[4]), uint32(shstr.Len()), 0, 0, 1, 0},
	} {
		_ = binary.Write(&out, be, s)
	}
	return out.Bytes()
}
