package otbr

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/isa"
)

// What is counted is what the toolchain's table says, word for word: no word that
// it calls good is counted, and every compiler's way to another MIPS is.
func TestWords(t *testing.T) {
	t.Parallel()
	words := func(yield func(uint32)) {
		for op := range uint32(64) {
			for low := range uint32(64) {
				for _, r := range []uint32{0, 1, 0x11, 0x1f} {
					for _, s := range []uint32{0, 1, 9} {
						yield(op<<26 | s<<21 | r<<16 | 5<<11 | low)
						yield(op<<26 | s<<21 | r<<16 | 5<<11 | 1<<6 | low)
					}
				}
			}
		}
	}
	traps := 0
	words(func(w uint32) {
		in := isa.Decode(w)
		good := in.Verdict == isa.OK || in.Verdict == isa.Emulated
		if !executes(w) {
			traps++
			if good {
				t.Errorf("%08x %v executes", w, in)
			}
		}
		if !good {
			return
		}
		// Stores have their slot's twin in the table only where it loads.
		if got, want := loads(w), in.Is(isa.Load) && !in.Is(isa.Merge); got != want {
			t.Errorf("%08x %v: loads %v", w, in, got)
		}
		if got, want := branches(w), in.HasSlot(); got != want {
			t.Errorf("%08x %v: has a slot %v", w, in, got)
		}
		if want := uint32(in.Reads()) &^ 1; !in.Is(isa.Merge) && reads(w)&^1 != want && reads(w)&want != want {
			t.Errorf("%08x %v reads %08x, want %08x", w, in, reads(w), want)
		}
	})
	for name, w := range map[string]uint32{
		"beql": 0x50a40002, "bgezl": 0x04a30002, "mul": 0x70a41002, "ext": 0x7ca40000, "teq": 0x00a40034, "rotr": 0x00241082,
		"mfc1": 0x44050000, "lwc1": 0xc4a40000, "ldl": 0x68a40000, "dsll": 0x00041078, "clz": 0x70a41020, "seb": 0x7c041420, "pref": 0xcca40000,
	} {
		if executes(w) || !strings.HasPrefix(isa.Decode(w).String(), name) {
			t.Errorf("%s %08x (%v) executes", name, w, isa.Decode(w))
		}
	}
	for name, w := range map[string]uint32{"rdhwr": 0x7c03e83b, "ll": 0xc0a40000, "sc": 0xe0a40000, "sync": 0x0000000f, "lwl": 0x88a40000, "movz": 0x00a4100a, "break": 0x0000000d, "mult": 0x00a40018} {
		if !executes(w) || !strings.HasPrefix(isa.Decode(w).String(), name) {
			t.Errorf("%s %08x (%v) does not execute", name, w, isa.Decode(w))
		}
	}
	if traps < 100 {
		t.Errorf("only %d words of all trap", traps)
	}
}

func TestEarly(t *testing.T) {
	t.Parallel()
	const (
		lw    = 0x8fa40010 // lw $4,16($29)
		use   = 0x00821021 // addu $2,$4,$2
		else_ = 0x00a31021 // addu $2,$5,$3
		jr    = 0x03e00008 // jr $31
		nop   = 0
	)
	for _, tt := range []struct {
		name  string
		words []uint32
		want  int
	}{
		{"at once", []uint32{lw, use}, 1},
		{"a word later", []uint32{lw, nop, use}, 0},
		{"another register", []uint32{lw, else_}, 0},
		{"in a slot: it goes on elsewhere", []uint32{jr, lw, use}, 0},
		{"as an address", []uint32{lw, 0x8c840000}, 1},
		{"stored", []uint32{lw, 0xafa40014}, 1},
		{"into register 0", []uint32{0x8fa00010, 0x00001021}, 0},
	} {
		var c code
		for _, w := range tt.words {
			c.add(w)
		}
		if c.early != tt.want || c.words != len(tt.words) {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// program is an ELF file with one section of instructions.
func program(words []uint32, sections bool) []byte {
	be := binary.BigEndian
	b := make([]byte, 52+32+80)
	copy(b, "\x7fELF\x01\x02\x01")
	be.PutUint16(b[16:], 2)
	be.PutUint16(b[18:], 8)
	be.PutUint32(b[28:], 52)
	be.PutUint16(b[42:], 32)
	be.PutUint16(b[44:], 1)
	text := uint32(len(b))
	be.PutUint32(b[52:], 1)
	be.PutUint32(b[52+4:], text)
	be.PutUint32(b[52+16:], uint32(4*len(words)))
	be.PutUint32(b[52+24:], 5)
	if sections {
		be.PutUint32(b[32:], 52+32)
		be.PutUint16(b[46:], 40)
		be.PutUint16(b[48:], 2)
		s := b[52+32+40:]
		be.PutUint32(s[4:], 1)
		be.PutUint32(s[8:], 6)
		be.PutUint32(s[16:], text)
		be.PutUint32(s[20:], uint32(4*len(words)))
	}
	for _, w := range words {
		b = be.AppendUint32(b, w)
	}
	return b
}

func TestSuitability(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	many := func(w ...uint32) (all []uint32) {
		for range 10_000 {
			all = append(all, w...)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"good", program(many(0x00a31021), true), ""},
		{"good, without sections", program(many(0x00a31021), false), ""},
		{"a few odd words, as data between functions", program(append(many(0x00a31021), 0x50a40002, 0x50a40002), true), ""},
		{"branch-likely", program(many(0x50a40002, 0, 0, 0), true), "of 40000 instructions it does not have 10000, and 0 use"},
		{"no load delay", program(many(0x8fa40010, 0x00821021), false), "it does not have 0, and 10000 use a register before"},
		{"this machine's", []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 60)), "is no program for this CPU"},
		{"a script", []byte("#!/bin/sh\n"), "is no program for this CPU"},
		{"empty", nil, "is no program for this CPU"},
		{"cut off", program(many(0x00a31021), true)[:4000], ""},
	} {
		path := filepath.Join(dir, "agent")
		if err := os.WriteFile(path, tt.data, 0o755); err != nil {
			t.Fatal(err)
		}
		got := suitability(path)
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
	if got := suitability(filepath.Join(dir, "none")); got == "" {
		t.Error("a file that is not there is fine")
	}
}

func TestRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, cache := filepath.Join(dir, "agent"), filepath.Join(dir, "checked")
	looks := 0
	look := func() string {
		return remembered(path, cache, func(string) string { looks++; return "bad " + strings.Repeat("x", looks) })
	}
	if got := look(); got != "" || looks != 0 {
		t.Errorf("without a file: %q, %d looks", got, looks)
	}
	for i, content := range []string{"one", "one", "three"} {
		if i != 1 {
			if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{"bad x", "bad x", "bad xx"}[i]
		if got := look(); got != want {
			t.Errorf("look %d: %q, want %q", i, got, want)
		}
	}
}

func FuzzCount(f *testing.F) {
	f.Add(program([]uint32{0x50a40002, 0}, true))
	f.Add(program([]uint32{0x8fa40010, 0x00821021}, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "agent")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := count(path)
		if err == nil && (c.traps > c.words || c.early > c.words) {
			t.Fatalf("%+v", c)
		}
	})
}
