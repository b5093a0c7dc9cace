package emu

import (
	"context"
	"errors"
	"testing"
)

// Assembling by hand, so that the decoder is not tested against itself.
func rType(fn, rs, rt, rd, sa uint32) uint32 { return rs<<21 | rt<<16 | rd<<11 | sa<<6 | fn }
func iType(op, rs, rt, imm uint32) uint32    { return op<<26 | rs<<21 | rt<<16 | imm&0xffff }

const (
	nop      = 0
	textAt   = 0x10000
	dataAt   = 0x20000
	wordsEnd = 0x0000_000d | 99<<6 // break 99: the end of a test's words
)

// bare returns a machine with words at textAt, a data page at dataAt whose
// address is in $20, and a thread at the first word.
func bare(t *testing.T, cfg Config, words ...uint32) (*Machine, *thread) {
	t.Helper()
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	m.mem.mapAnon(textAt, 2*pageSize, permRead|permExec)
	m.mem.mapAnon(dataAt, 2*pageSize, permRead|permWrite)
	for i, w := range append(words, wordsEnd) {
		putWord(m.mem.base, textAt+uint32(i)*4, w)
	}
	th := m.newThread()
	th.pc, th.npc = textAt, textAt+4
	th.r[20] = dataAt
	m.current = th
	return m, th
}

// steps runs until the BREAK at the end, or what else ends it.
func steps(m *Machine, th *thread) stop {
	why, _ := m.run(&th.cpu, 1000)
	for why == stopLoad {
		if why, _ = m.step(&th.cpu); why == stopBudget {
			why, _ = m.run(&th.cpu, 1000)
		}
	}
	return why
}

func TestLoadDelay(t *testing.T) {
	const old, mem = 7, 0x01020304
	lw := iType(35, 20, 8, 0)
	use := rType(33, 8, 0, 9, 0) // addu $9, $8, $0
	jump := func(at uint32) uint32 { return 2<<26 | at>>2 }
	tests := []struct {
		name   string
		words  []uint32
		reg    int
		rlx    uint32
		mips32 uint32
		kind   ViolationKind
		ok     bool
	}{
		{"distance 0", []uint32{lw, use}, 9, old, mem, ViolationRead, false},
		{"distance 1", []uint32{lw, nop, use}, 9, mem, mem, 0, true},
		{"store of it", []uint32{lw, iType(43, 20, 8, 4), nop, iType(35, 20, 9, 4), nop}, 9, old, mem, ViolationRead, false},
		{"address of it", []uint32{iType(9, 20, 8, 0), iType(43, 20, 20, 0), iType(35, 20, 8, 0), iType(35, 8, 9, 8), nop}, 9, 0xaabbccdd, 0xaabbccdd, ViolationRead, false},
		{"branch on it", []uint32{lw, iType(5, 8, 10, 3), nop, iType(9, 0, 9, 1), jump(textAt + 6*4), nop}, 9, 1, 0, ViolationRead, false},
		{"movz's condition", []uint32{iType(9, 0, 8, 0), lw, rType(10, 20, 8, 9, 0)}, 9, dataAt, 0, ViolationRead, false},
		{"later write wins", []uint32{lw, iType(9, 0, 8, 5), nop}, 8, 5, 5, ViolationWrite, false},
		{"false movz lets it arrive", []uint32{lw, rType(10, 20, 20, 8, 0), nop}, 8, mem, mem, ViolationWrite, false},
		{"true movn wins", []uint32{lw, rType(11, 20, 20, 8, 0), nop}, 8, dataAt, dataAt, ViolationWrite, false},
		{"second load wins", []uint32{lw, iType(35, 20, 8, 8), nop}, 8, 0xaabbccdd, 0xaabbccdd, ViolationWrite, false},
		{"another load between", []uint32{lw, iType(35, 20, 10, 4), use}, 9, mem, mem, 0, true},
		{"two late loads", []uint32{lw, iType(35, 8, 11, 0), nop, rType(33, 8, 0, 9, 0)}, 9, mem, mem, ViolationRead, false},
		{"ll is a load", []uint32{iType(48, 20, 8, 0), use}, 9, old, mem, ViolationRead, false},
		{"in a slot, used at the target", []uint32{jump(textAt + 12), lw, nop, use}, 9, old, mem, ViolationRead, false},
		{"in a slot, used one later", []uint32{jump(textAt + 12), lw, nop, nop, use}, 9, mem, mem, 0, true},
		{"in the slot of a branch not taken", []uint32{iType(5, 0, 0, 4), lw, use}, 9, old, mem, ViolationRead, false},
		{"in a slot, behind it no matter", []uint32{jump(textAt + 12), lw, use, nop, rType(33, 8, 0, 9, 0)}, 9, mem, mem, 0, true},
		{"into $0", []uint32{iType(35, 20, 0, 0), rType(33, 0, 0, 9, 0)}, 9, 0, 0, 0, true},
		{"lwl then lwr", []uint32{iType(34, 20, 8, 0), iType(38, 20, 8, 3), use, nop, use}, 9, mem, mem, ViolationRead, false},
		{"sync in between", []uint32{lw, 15, use}, 9, mem, mem, 0, true},
	}
	for _, test := range tests {
		for _, mode := range []Mode{ModeRLX, ModeStrict, ModeCount, ModeMIPS32} {
			m, th := bare(t, Config{Mode: mode}, test.words...)
			th.r[8] = old
			th.r[10] = old
			if test.name == "address of it" {
				// The old value leads to what stands at dataAt+8 as the new does.
				th.r[8] = dataAt
			}
			putWord(m.mem.base, dataAt, mem)
			putWord(m.mem.base, dataAt+8, 0xaabbccdd)
			if test.name == "two late loads" {
				th.r[8] = dataAt + 8
			}
			why := steps(m, th)
			switch mode {
			case ModeStrict:
				var v Violation
				if broken := errors.As(m.broken, &v); broken == test.ok || broken && v.Kind != test.kind {
					t.Errorf("%s: strict: got %v", test.name, m.broken)
				}
				continue
			case ModeCount:
				if got := len(m.Violations()); (got == 0) != test.ok {
					t.Errorf("%s: counted %v", test.name, m.Violations())
				}
				continue
			}
			want := test.rlx
			if mode == ModeMIPS32 {
				want = test.mips32
			}
			if mode == ModeMIPS32 && (test.name == "two late loads" || test.name == "address of it") {
				continue // the new value is no address
			}
			if why != stopFault || m.fault.sig != sigTRAP || th.r[test.reg] != want {
				t.Errorf("%s: mode %d: $%d = %#x, want %#x (%v, %+v)", test.name, mode, test.reg, th.r[test.reg], want, why, m.fault)
			}
		}
	}
}

// A load and its use in different pages of code.
func TestLoadDelayAcrossPages(t *testing.T) {
	m, th := bare(t, Config{Mode: ModeRLX})
	at := uint32(textAt + pageSize - 4)
	putWord(m.mem.base, at, iType(35, 20, 8, 0))
	putWord(m.mem.base, at+4, rType(33, 8, 0, 9, 0))
	putWord(m.mem.base, at+8, wordsEnd)
	putWord(m.mem.base, dataAt, 1)
	th.r[8] = 7
	th.pc, th.npc = at, at+4
	steps(m, th)
	if th.r[9] != 7 || th.r[8] != 1 {
		t.Errorf("got %d and %d", th.r[9], th.r[8])
	}
}

// An exception between a load and its use makes the value visible.
func TestExceptionEndsLoad(t *testing.T) {
	m, th := bare(t, Config{Mode: ModeRLX}, iType(35, 20, 8, 0), rType(33, 8, 0, 9, 0))
	putWord(m.mem.base, dataAt, 0x11)
	m.cfg.Slice = 1
	m.current = nil
	m.actions[sigTRAP].handler = textAt + 8 // never run: the stack is bad
	m.ready(th)
	for range 10 {
		if p := m.pick(); p != nil {
			m.current = p
			if err := m.runThread(p); err != nil {
				t.Fatal(err)
			}
			m.current = nil
		}
		if m.exit != nil {
			break
		}
	}
	if th.r[9] != 0x11 {
		t.Errorf("after a preemption $9 = %#x", th.r[9])
	}
}

func TestUnalignedPairs(t *testing.T) {
	// Memory 00 11 22 .. 77; big-endian LWL keeps the right of the register.
	lwl := []uint32{0x00112233, 0x112233dd, 0x2233ccdd, 0x33bbccdd}
	lwr := []uint32{0xaabbcc00, 0xaabb0011, 0xaa001122, 0x00112233}
	swl := []uint32{0xaabbccdd, 0x00aabbcc, 0x0011aabb, 0x001122aa}
	swr := []uint32{0xdd112233, 0xccdd2233, 0xbbccdd33, 0xaabbccdd}
	for a := range uint32(4) {
		m, th := bare(t, Config{},
			iType(34, 20, 8, a), nop, iType(38, 20, 9, a), nop,
			iType(42, 20, 10, 16+a), iType(46, 20, 10, 32+a), iType(34, 20, 11, a), iType(38, 20, 11, a+3), nop)
		for i := range uint32(8) {
			*byteAt(m.mem.base, dataAt+i) = byte(i * 0x11)
		}
		putWord(m.mem.base, dataAt+16, 0x00112233)
		putWord(m.mem.base, dataAt+32, 0x00112233)
		th.r[8], th.r[9], th.r[10] = 0xaabbccdd, 0xaabbccdd, 0xaabbccdd
		if why := steps(m, th); why != stopFault {
			t.Fatalf("stop %v, %v", why, m.broken)
		}
		whole := (uint32(a)*0x11)<<24 | (a+1)*0x11<<16 | (a+2)*0x11<<8 | (a+3)*0x11
		got := []uint32{th.r[8], th.r[9], word(m.mem.base, dataAt+16), word(m.mem.base, dataAt+32), th.r[11]}
		want := []uint32{lwl[a], lwr[a], swl[a], swr[a], whole}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("offset %d, part %d: %#08x, want %#08x", a, i, got[i], want[i])
			}
		}
	}
}

func TestOddAddresses(t *testing.T) {
	m, th := bare(t, Config{},
		iType(35, 20, 8, 1), nop, iType(33, 20, 9, 3), nop, iType(37, 20, 10, 5), nop,
		iType(43, 20, 8, 33), iType(41, 20, 8, 41))
	for i := range uint32(8) {
		*byteAt(m.mem.base, dataAt+i) = byte(0x80 + i)
	}
	steps(m, th)
	if th.r[8] != 0x81828384 || th.r[9] != 0xffff8384 || th.r[10] != 0x8586 {
		t.Errorf("loads: %#x %#x %#x", th.r[8], th.r[9], th.r[10])
	}
	if w := word(m.mem.base, dataAt+32); w != 0x00818283 {
		t.Errorf("stored word: %#x", w)
	}
	if w := word(m.mem.base, dataAt+40); w != 0x00838400 {
		t.Errorf("stored half: %#x", w)
	}
	if m.count.Unaligned != 5 {
		t.Errorf("counted %d", m.count.Unaligned)
	}
}

func TestArithmetic(t *testing.T) {
	const min32 = 0x80000000
	tests := []struct {
		name   string
		word   uint32 // operands $8 and $9, result $10
		x, y   uint32
		hi, lo uint32 // where checkHL
		want   uint32
		hl     bool
	}{
		{name: "rotr is srl", word: rType(2, 1, 8, 10, 8), x: 0x12345678, want: 0x00123456},
		{name: "rotrv is srlv", word: rType(6, 9, 8, 10, 1), x: 0x12345678, y: 8, want: 0x00123456},
		{name: "srlv takes five bits", word: rType(6, 9, 8, 10, 0), x: 0x80000000, y: 33, want: 0x40000000},
		{name: "sra", word: rType(3, 0, 8, 10, 4), x: 0x80000000, want: 0xf8000000},
		{name: "nor", word: rType(39, 8, 9, 10, 0), x: 0xf0, y: 0x0f, want: 0xffffff00},
		{name: "slt", word: rType(42, 8, 9, 10, 0), x: ^uint32(0), y: 0, want: 1},
		{name: "sltu", word: rType(43, 8, 9, 10, 0), x: ^uint32(0), y: 0, want: 0},
		{name: "slti", word: iType(10, 8, 10, 0xffff), x: 0xfffffff0, want: 1},
		{name: "sltiu extends the sign", word: iType(11, 8, 10, 0xffff), x: 5, want: 1},
		{name: "andi extends with zeros", word: iType(12, 8, 10, 0xffff), x: ^uint32(0), want: 0xffff},
		{name: "lui", word: iType(15, 0, 10, 0x1234), want: 0x12340000},
		{name: "movz true", word: rType(10, 8, 0, 10, 0), x: 3, want: 3},
		{name: "movz false", word: rType(10, 8, 20, 10, 0), x: 3, want: 99},
		{name: "movn true", word: rType(11, 8, 20, 10, 0), x: 3, want: 3},
		{name: "movn false", word: rType(11, 8, 0, 10, 0), x: 3, want: 99},
		{name: "mult", word: rType(24, 8, 9, 0, 0), x: ^uint32(0), y: 2, hi: ^uint32(0), lo: 0xfffffffe, hl: true, want: 99},
		{name: "multu", word: rType(25, 8, 9, 0, 0), x: ^uint32(0), y: 2, hi: 1, lo: 0xfffffffe, hl: true, want: 99},
		{name: "div", word: rType(26, 8, 9, 0, 0), x: 0xfffffff9, y: 2, hi: ^uint32(0), lo: 0xfffffffd, hl: true, want: 99},
		{name: "divu", word: rType(27, 8, 9, 0, 0), x: 0xfffffff9, y: 2, hi: 1, lo: 0x7ffffffc, hl: true, want: 99},
		{name: "div by zero goes on", word: rType(26, 8, 9, 0, 0), x: 5, y: 0, hi: 5, lo: ^uint32(0), hl: true, want: 99},
		{name: "divu by zero goes on", word: rType(27, 8, 9, 0, 0), x: 5, y: 0, hi: 5, lo: ^uint32(0), hl: true, want: 99},
		{name: "div overflow goes on", word: rType(26, 8, 9, 0, 0), x: min32, y: ^uint32(0), hi: 0, lo: min32, hl: true, want: 99},
		{name: "madd adds", word: 28<<26 | 8<<21 | 9<<16, x: 3, y: 5, hi: 0x11, lo: 0x22 + 15, hl: true, want: 99},
	}
	for _, test := range tests {
		m, th := bare(t, Config{}, test.word)
		th.r[8], th.r[9], th.r[10] = test.x, test.y, 99
		th.r[regHI], th.r[regLO] = 0x11, 0x22
		if why := steps(m, th); why != stopFault || m.fault.sig != sigTRAP {
			t.Errorf("%s: stopped by %v, %+v", test.name, why, m.fault)
		}
		if th.r[10] != test.want || test.hl && (th.r[regHI] != test.hi || th.r[regLO] != test.lo) {
			t.Errorf("%s: $10 %#x, HI %#x, LO %#x", test.name, th.r[10], th.r[regHI], th.r[regLO])
		}
	}
}

func TestIllegal(t *testing.T) {
	tests := []struct {
		name   string
		word   uint32
		mips32 bool // executes there
	}{
		{"mul", 28<<26 | 8<<21 | 9<<16 | 10<<11 | 2, true},
		{"clz", 28<<26 | 8<<21 | 10<<16 | 10<<11 | 32, true},
		{"clo", 28<<26 | 8<<21 | 10<<16 | 10<<11 | 33, true},
		{"maddu", 28<<26 | 8<<21 | 9<<16 | 1, true},
		{"msub", 28<<26 | 8<<21 | 9<<16 | 4, true},
		{"teq", rType(52, 8, 9, 0, 0), true},
		{"tne", rType(54, 8, 8, 0, 0), true},
		{"tge", rType(48, 8, 9, 0, 0), true},
		{"teqi", iType(1, 8, 12, 9), false},
		{"synci", iType(1, 20, 31, 0), false},
		{"beql", iType(20, 0, 0, 1), false},
		{"bnel", iType(21, 0, 0, 1), false},
		{"blezl", iType(22, 0, 0, 1), false},
		{"bgtzl", iType(23, 0, 0, 1), false},
		{"bltzl", iType(1, 0, 2, 1), false},
		{"ext", 31<<26 | 8<<21 | 10<<16 | 7<<11, false},
		{"ins", 31<<26 | 8<<21 | 10<<16 | 7<<11 | 4, false},
		{"seb", 31<<26 | 8<<16 | 10<<11 | 16<<6 | 32, false},
		{"seh", 31<<26 | 8<<16 | 10<<11 | 24<<6 | 32, false},
		{"wsbh", 31<<26 | 8<<16 | 10<<11 | 2<<6 | 32, false},
		{"rdhwr $2 (cycles)", 31<<26 | 10<<16 | 2<<11 | 59, false},
		{"pref", iType(51, 20, 0, 0), true},
		{"cache", iType(47, 20, 0, 0), false},
		{"mfc1", 17<<26 | 8<<16, false},
		{"add.s", 17<<26 | 16<<21, false},
		{"lwc1", iType(49, 20, 0, 0), false},
		{"swc1", iType(57, 20, 0, 0), false},
		{"ldc1", iType(53, 20, 0, 0), false},
		{"sdc1", iType(61, 20, 0, 0), false},
		{"mfc0", 16<<26 | 8<<16 | 12<<11, false},
		{"mfc2", 18<<26 | 8<<16, false},
		{"jalx", 29 << 26, false},
		{"daddu", rType(45, 8, 9, 10, 0), false},
		{"ld", iType(55, 20, 8, 0), false},
		{"movci", rType(1, 8, 0, 10, 0), false},
	}
	for _, test := range tests {
		for _, mode := range []Mode{ModeStrict, ModeMIPS32} {
			m, th := bare(t, Config{Mode: mode}, test.word)
			th.r[8], th.r[9] = 1, 2
			why := steps(m, th)
			want := uint32(sigILL)
			if mode == ModeMIPS32 && test.mips32 {
				want = sigTRAP
			}
			if why != stopFault || m.fault.sig != want || want == sigILL && th.pc != textAt {
				t.Errorf("%s, mode %d: %v, signal %d at %#x, want %d", test.name, mode, why, m.fault.sig, th.pc, want)
			}
		}
	}
}

func TestHILOSpacing(t *testing.T) {
	mflo, mfhi := rType(18, 0, 0, 9, 0), rType(16, 0, 0, 9, 0)
	for _, test := range []struct {
		name  string
		words []uint32
		bad   bool
	}{
		{"mflo, mult", []uint32{mflo, rType(24, 8, 8, 0, 0)}, true},
		{"mfhi, one, div", []uint32{mfhi, nop, rType(26, 8, 8, 0, 0)}, true},
		{"mflo, one, mtlo", []uint32{mflo, nop, rType(19, 8, 0, 0, 0)}, true},
		{"mflo, one, madd", []uint32{mflo, nop, 28<<26 | 8<<21 | 8<<16}, true},
		{"mflo in a slot", []uint32{iType(4, 0, 0, 1), mflo, rType(25, 8, 8, 0, 0)}, true},
		{"mflo, two, multu", []uint32{mflo, nop, nop, rType(25, 8, 8, 0, 0)}, false},
		{"mult, mflo", []uint32{rType(24, 8, 8, 0, 0), mflo}, false},
		{"mflo, mfhi", []uint32{mflo, mfhi}, false},
	} {
		m, th := bare(t, Config{}, test.words...)
		th.r[8] = 3
		steps(m, th)
		if got := m.broken != nil; got != test.bad {
			t.Errorf("%s: %v", test.name, m.broken)
		}
	}
	// The distance is kept over the end of a slice.
	m, th := bare(t, Config{}, mflo, nop, rType(24, 8, 8, 0, 0))
	if why, n := m.run(&th.cpu, 1); why != stopBudget || n != 1 {
		t.Fatal(why, n)
	}
	if steps(m, th); m.broken == nil {
		t.Error("a slice's end hid the distance")
	}
}

func TestFaults(t *testing.T) {
	beq := iType(4, 0, 0, 4)
	for _, test := range []struct {
		name  string
		words []uint32
		want  fault
		epc   uint32
	}{
		{"load of nil", []uint32{nop, iType(35, 0, 8, 16)}, fault{sigSEGV, segvMAPERR, 16}, textAt + 4},
		{"store of nil", []uint32{iType(43, 0, 8, 16)}, fault{sigSEGV, segvMAPERR, 16}, textAt},
		{"load of nil in a slot", []uint32{nop, beq, iType(35, 0, 8, 16)}, fault{sigSEGV, segvMAPERR, 16}, textAt + 4},
		{"not taken slot", []uint32{iType(5, 0, 0, 4), iType(43, 0, 8, 16)}, fault{sigSEGV, segvMAPERR, 16}, textAt},
		{"store to code", []uint32{iType(43, 21, 8, 0)}, fault{sigSEGV, segvACCERR, textAt}, textAt},
		{"kernel address", []uint32{iType(15, 0, 8, 0x8000), iType(35, 8, 9, 0)}, fault{sigBUS, siKERNEL, 0}, textAt + 4},
		{"jump to nil", []uint32{rType(8, 0, 0, 0, 0), nop}, fault{sigSEGV, segvMAPERR, 0}, 0},
		{"jump to an odd address", []uint32{iType(9, 0, 8, 6), rType(8, 8, 0, 0, 0), iType(9, 0, 9, 1)}, fault{sigBUS, siKERNEL, 0}, 6},
		{"unaligned ll", []uint32{iType(48, 20, 8, 2)}, fault{sigBUS, siKERNEL, 0}, textAt},
		{"unaligned sc", []uint32{iType(56, 20, 8, 2)}, fault{sigBUS, siKERNEL, 0}, textAt},
		{"break 7", []uint32{7<<16 | 13}, fault{sigFPE, fpeINTDIV, textAt}, textAt},
		{"add overflow", []uint32{iType(15, 0, 8, 0x7fff), rType(32, 8, 8, 9, 0)}, fault{sigFPE, fpeINTOVF, textAt + 4}, textAt + 4},
	} {
		m, th := bare(t, Config{}, test.words...)
		th.r[21] = textAt
		why := steps(m, th)
		if why == stopBudget {
			why = steps(m, th) // the entry of run finds the odd pc
		}
		if why != stopFault || m.fault != test.want || th.pc != test.epc {
			t.Errorf("%s: %v %+v at %#x", test.name, why, m.fault, th.pc)
		}
	}
}

// Each page of code is its own, however far from the others.
func TestCodeOfPagesFarApart(t *testing.T) {
	m, th := bare(t, Config{})
	// All mapped first: mapping drops what is decoded nearby.
	var ats []uint32
	for at := uint32(8 << 20); at < mapTop; at *= 2 {
		ats = append(ats, at, at+4<<20, at+1<<20)
	}
	for i, at := range ats {
		m.mem.mapAnon(at, pageSize, permRead|permExec)
		putWord(m.mem.base, at, iType(9, 0, 8, uint32(i)))
		putWord(m.mem.base, at+4, wordsEnd)
	}
	for i, at := range ats {
		th.pc, th.npc = at, at+4
		if steps(m, th); th.r[8] != uint32(i) {
			t.Errorf("at %#x: $8 = %d, want %d", at, th.r[8], i)
		}
	}
	th.pc, th.npc = 0xffff_f000, 0xffff_f004
	if why := steps(m, th); why != stopFault || m.fault != (fault{sigBUS, siKERNEL, 0}) {
		t.Errorf("kernel's page: %v %+v", why, m.fault)
	}
}

// A store to a page of code is seen by the next execution of it.
func TestStoreToCode(t *testing.T) {
	m, th := bare(t, Config{}, iType(43, 21, 22, 4), nop)
	m.mem.protect(textAt, pageSize, permRead|permWrite|permExec, false)
	th.r[21], th.r[22] = textAt, iType(9, 0, 8, 42)
	steps(m, th)
	if th.r[8] != 42 {
		t.Error("executed what stood there before")
	}
}

func TestLinkFlag(t *testing.T) {
	ll := func(off uint32) uint32 { return iType(48, 20, 8, off) }
	sc := func(off uint32) uint32 { return iType(56, 20, 9, off) }
	exception := uint32(15) // SYNC traps on this core
	for _, test := range []struct {
		name                        string
		words                       []uint32
		address, except, weakestFlg uint32 // what SC leaves in $9
	}{
		{"ll, sc", []uint32{ll(0), sc(0)}, 1, 1, 1},
		{"sc alone", []uint32{sc(0)}, 0, 0, 0},
		{"second sc", []uint32{ll(0), iType(56, 20, 10, 0), sc(0)}, 0, 0, 0},
		{"other address", []uint32{ll(4), sc(0)}, 0, 1, 1},
		{"store between", []uint32{ll(0), iType(43, 20, 20, 0), sc(0)}, 1, 1, 1},
		{"exception between", []uint32{ll(0), exception, sc(0)}, 0, 0, 1},
	} {
		for link, want := range map[Link]uint32{LinkAddress: test.address, LinkException: test.except, LinkWeakest: test.weakestFlg} {
			m, th := bare(t, Config{LL: link}, test.words...)
			th.r[9] = 5
			steps(m, th)
			if th.r[9] != want {
				t.Errorf("%s, flag %d: SC gave %d, want %d", test.name, link, th.r[9], want)
			}
		}
	}
}

// The case that no flag without an exception's clearing can hold: A is
// preempted inside its sequence, B completes one on the same word, C is
// preempted behind an LL of another word, and A's SC succeeds.
func TestWeakestFlagLosesUpdate(t *testing.T) {
	llx, scx, lly := iType(48, 20, 8, 0), iType(56, 20, 9, 0), iType(48, 20, 10, 64)
	for link, want := range map[Link]uint32{LinkAddress: 0, LinkException: 0, LinkWeakest: 1} {
		m, a := bare(t, Config{LL: link}, llx, scx, lly, scx)
		thread := func(at uint32) *cpu {
			c := &cpu{pc: textAt + at, npc: textAt + at + 4, sinceHL: 3}
			c.r[20] = dataAt
			return c
		}
		run := func(c *cpu, n int64) {
			if why, _ := m.run(c, n); why != stopBudget {
				t.Fatalf("stop %v %+v", why, m.fault)
			}
			m.exception()
		}
		b, c := thread(0), thread(8)
		run(&a.cpu, 1)
		b.r[9] = 1111
		run(b, 2)
		if b.r[9] != 1 || word(m.mem.base, dataAt) != 1111 {
			t.Fatalf("flag %d: B's own sequence failed", link)
		}
		run(c, 1)
		a.r[9] = 2222
		run(&a.cpu, 1)
		if a.r[9] != want {
			t.Errorf("flag %d: A's SC gave %d, want %d", link, a.r[9], want)
		}
	}
}

func TestResultOfSC(t *testing.T) {
	sc, use := iType(56, 20, 9, 0), iType(4, 9, 0, 1)
	for _, test := range []struct {
		name  string
		words []uint32
		bad   bool
	}{
		{"read at once", []uint32{sc, use, nop}, true},
		{"read one later", []uint32{sc, nop, use, nop}, false},
		{"in a slot, read at the target", []uint32{iType(4, 0, 0, 2), sc, nop, use, nop}, true},
	} {
		m, th := bare(t, Config{}, test.words...)
		steps(m, th)
		var v Violation
		if errors.As(m.broken, &v) != test.bad || test.bad && v.Kind != ViolationSC {
			t.Errorf("%s: %v", test.name, m.broken)
		}
	}
}

func TestEmulatedByTheKernel(t *testing.T) {
	m, th := bare(t, Config{}, 0x7c03e83b, 15)
	th.tls = 0x1234
	steps(m, th)
	if th.r[3] != 0x1234 || m.count.Emulated != 1 || m.count.Syncs != 1 {
		t.Errorf("$3 = %#x, %+v", th.r[3], m.count)
	}
}

func TestCounts(t *testing.T) {
	m, th := bare(t, Config{}, iType(35, 20, 8, 0), nop, 0x27, iType(43, 20, 8, 0), iType(4, 0, 0, 1), nop)
	steps(m, th)
	c := m.Counters()
	if c.Instructions != 7 || c.Loads != 1 || c.Stores != 1 || c.NOPs != 3 {
		t.Errorf("%+v", c)
	}
}

// A handler runs on a true frame and the branch whose slot was interrupted is
// executed again.
func TestSignalInSlot(t *testing.T) {
	m, th := bare(t, Config{},
		3<<26|(textAt+16)>>2, nop, nop, nop, // jal +16; slot
		iType(9, 0, 8, 1))
	th.r[29] = dataAt + 2*pageSize
	m.mem.mapAnon(trampoline, pageSize, permRead|permExec)
	handler := uint32(textAt + pageSize)
	putWord(m.mem.base, handler, rType(33, 31, 0, 15, 0))
	m.actions[10] = sigaction{handler: handler, flags: saSIGINFO}
	if why, n := m.run(&th.cpu, 1); why != stopBudget || n != 1 || !th.inSlot {
		t.Fatal(why, n, th.inSlot)
	}
	m.send(th, 10, siginfo{code: siUSER})
	m.deliver(th)
	if th.pc != handler || th.r[4] != 10 || th.r[31] != trampoline {
		t.Fatalf("pc %#x", th.pc)
	}
	frame := th.r[29]
	if pc := word(m.mem.base, frame+frameUC+ucMcontext+scPC+4); pc != textAt {
		t.Errorf("saved pc %#x", pc)
	}
	th.r[8], th.r[regHI] = 77, 5
	m.popFrame(th)
	if steps(m, th); th.r[8] != 1 || th.r[regHI] != 0 || th.r[31] != textAt+8 {
		t.Errorf("$8 %d HI %d ra %#x", th.r[8], th.r[regHI], th.r[31])
	}
}

func TestSigset(t *testing.T) {
	var s sigset
	for _, n := range []uint32{1, 32, 33, 64, 65, 128} {
		s.add(n)
	}
	var b [16]byte
	s.write(b[:])
	if b != [16]byte{0x80, 0, 0, 1, 0x80, 0, 0, 1, 0, 0, 0, 1, 0x80, 0, 0, 0} {
		t.Errorf("words %x", b)
	}
	var r sigset
	if r.read(b[:]); r != s {
		t.Errorf("read %x, wrote %x", r, s)
	}
	if n := s.first(&sigset{1<<63 | 1<<32 | 1<<31 | 1}); n != 65 {
		t.Errorf("first is %d", n)
	}
}

func TestRunRefusesOthers(t *testing.T) {
	m, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Run(context.Background(), "/proc/self/exe"); err == nil {
		t.Error("ran a program of the host")
	}
}
