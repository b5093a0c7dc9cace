package check

import (
	"encoding/binary"
	"testing"
)

// FuzzCheck: whatever the file holds, the checker comes back with a report or an
// error. Its counts agree with what it lists.
func FuzzCheck(f *testing.F) {
	for _, src := range []string{
		"f:\n lw $4,0($5); addu $2,$4,$3;" + ret,
		"f:\n.l:\n ll $2,0($4); nop; bne $2,$5,.l; nop; sc $6,0($4);" + ret + "g:\n mflo $2; mult $3,$4;" + ret,
		"f:\n bgezal $0,.l; nop; .word 1; .l:\n lw $28,0($31); nop; beq $2,$3,out; lw $4,0($4);",
	} {
		f.Add(program{text: src, data: []uint32{textAt, 4}}.elf(f))
		f.Add(program{text: src, strip: true}.elf(f))
		f.Add(program{text: src, noSect: true}.elf(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<14 {
			return
		}
		whole(t, b)
	})
}

// FuzzCode: whatever the code is.
func FuzzCode(f *testing.F) {
	for _, src := range []string{
		"f:\n lw $4,0($5); addu $2,$4,$3;" + ret,
		"f:\n jal f; jr $31; beq $2,$3,f; syscall; break; nop;",
		"f:\n.l:\n ll $2,0($4); bgezal $2,f; sc $2,0($4); mflo $2; beq $2,$2,.l; mflo $3; div $2,$3; bne $4,$4,.l;",
	} {
		words, _ := assemble(f, src)
		var b []byte
		for _, w := range words {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		f.Add(b)
	}
	empty := program{text: "f:\n nop;", strip: true}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 || len(b) > 1<<12 {
			return
		}
		p := empty
		p.words = b
		whole(t, p.elf(t))
	})
}

// FuzzGoTable: a broken table is like a short one.
func FuzzGoTable(f *testing.F) {
	b := make([]byte, 128)
	for i, w := range []uint32{0xfffffff1, 0x01000404, 2, 0, 40, 52, 0, 0, 0, 72} {
		binary.BigEndian.PutUint32(b[4*i:], w)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g := readGoTable(b, textAt)
		if len(g.fns) > len(b)/8 {
			t.Fatalf("%d functions in %d bytes", len(g.fns), len(b))
		}
	})
}

// whole judges a file both ways.
func whole(t *testing.T, b []byte) {
	t.Helper()
	for _, o := range []Options{{}, {Foreign: true, StrictSC: true, Max: -1}} {
		r, err := Bytes(b, o)
		if err != nil {
			continue
		}
		n := r.Total()
		for _, k := range r.Notes {
			n += k
		}
		if n != len(r.Violations) {
			t.Fatalf("%d counted, %d listed", n, len(r.Violations))
		}
		if s := r.Stats; s.Words+s.Data+s.Unreached != s.TextBytes/4 || s.Words < 0 || s.Swept > s.Words {
			t.Fatalf("%+v does not add up", s)
		}
		for _, v := range r.Violations {
			_ = v.String()
		}
	}
}
