package emu

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"gwinit/toolchain/rlx/isa"
)

// Any words may be executed: they end in a signal, a report or the budget, and
// $0 stays 0.
func FuzzExecute(f *testing.F) {
	seed := func(words ...uint32) {
		var b []byte
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		f.Add(b, uint32(1))
	}
	seed(iType(35, 20, 8, 0), rType(33, 8, 8, 0, 0), iType(5, 0, 0, 0xffff))
	seed(iType(48, 20, 8, 0), iType(56, 20, 8, 0), 2<<26|textAt>>2, nop)
	seed(iType(34, 1, 2, 3), iType(38, 1, 2, 6), rType(9, 31, 0, 31, 0), 0x7c03e83b, 15, wordsEnd)
	f.Fuzz(func(t *testing.T, b []byte, r uint32) {
		var words []uint32
		for ; len(b) >= 4 && len(words) < 512; b = b[4:] {
			words = append(words, binary.BigEndian.Uint32(b))
		}
		for _, mode := range []Mode{ModeStrict, ModeCount, ModeRLX, ModeMIPS32} {
			m, th := bare(t, Config{Mode: mode}, words...)
			for i := range 31 {
				th.r[i+1] = r * uint32(i+1)
			}
			th.r[20] = dataAt
			left := int64(2000)
			for left > 0 {
				why, n := m.run(&th.cpu, left)
				left -= n
				for why == stopLoad && left > 0 {
					why, n = m.step(&th.cpu)
					left -= n
				}
				if th.r[0] != 0 {
					t.Fatalf("$0 = %#x", th.r[0])
				}
				if why == stopFault || why == stopStrict || n == 0 {
					break
				}
			}
			if left < 0 || m.count.Instructions > 2000 {
				t.Fatalf("executed more than asked for: %d left", left)
			}
		}
	})
}

// Any file is loaded or refused.
func FuzzLoad(f *testing.F) {
	h := make([]byte, 52+32, 256)
	copy(h, "\x7fELF\x01\x02\x01")
	be := binary.BigEndian
	be.PutUint16(h[16:], 2)
	be.PutUint16(h[18:], 8)
	be.PutUint32(h[20:], 1)
	be.PutUint32(h[24:], textAt)
	be.PutUint32(h[28:], 52)
	be.PutUint16(h[40:], 52)
	be.PutUint16(h[42:], 32)
	be.PutUint16(h[44:], 1)
	for i, v := range []uint32{1, 0, textAt, textAt, 84, 84, 5, 4096} {
		be.PutUint32(h[52+4*i:], v)
	}
	f.Add(h)
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := New(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.loadELF(name); err == nil && len(m.queue) != 1 {
			t.Error("loaded without a thread")
		}
	})
}

// What an instruction reads and writes is written down twice in this project,
// by different hands: here and in the checker's package isa.
func TestEffectsAgreeWithTheChecker(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tried := 0
	for range 400_000 {
		w := rng.Uint32()
		switch rng.IntN(4) {
		case 0:
			w &= 1<<26 - 1 // SPECIAL
		case 1:
			w = w&^(0x3f<<26|0x7ff) | w&63 // SPECIAL without a shift's amount
		}
		in := isa.Decode(w)
		d := decode(w, 0, false)
		if in.Def == nil || in.Verdict != isa.OK || d.op == opRI || d.op == opCpU {
			continue
		}
		tried++
		reads, writes := effects(w)
		want := uint32(in.Reads())
		if d.op == opMOVZ || d.op == opMOVN {
			// The checker also counts what is left as it was.
			want = uint32(isa.Reg(in.RS()) | isa.Reg(in.RT()))
		}
		if reads != want || writes != uint32(in.Writes()) {
			t.Fatalf("%08x %v: reads %#x, writes %#x; the checker says %#x, %#x", w, in, reads, writes, want, uint32(in.Writes()))
		}
		if isBranch(w) != (in.Is(isa.Branch) || in.Is(isa.Jump)) || isLoad(w) != in.Is(isa.Load) {
			t.Fatalf("%08x %v: branch %v, load %v", w, in, isBranch(w), isLoad(w))
		}
	}
	if tried < 50_000 {
		t.Errorf("only %d words were compared", tried)
	}
}

// What the checker calls right executes here, and what it says traps does.
func TestVerdictsAgreeWithTheChecker(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 400_000 {
		w := rng.Uint32()
		if rng.IntN(2) == 0 {
			w &= 1<<26 - 1
		}
		in := isa.Decode(w)
		if in.Def == nil {
			continue
		}
		d := decode(w, 0, false)
		illegal := d.op == opRI || d.op == opCpU
		if in.Verdict == isa.OK && illegal || in.Verdict == isa.Traps && !illegal {
			t.Fatalf("%08x %v is %v, here op %d", w, in, in.Verdict, d.op)
		}
	}
}
