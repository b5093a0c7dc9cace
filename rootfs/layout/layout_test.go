package layout_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"gwinit/rootfs/layout"
)

// The program of these tests: pages of code whose bytes are the page's number,
// from 0x10000 on, and two of variables, the second not full and followed by zeros.
const (
	code, codePages = 0x10000, 40
	vars, varsSize  = 0x50000, layout.Page + 0x123
	zeros           = 0x5000
)

// program is that program's file, with a section that begins at 0xf00.
func program() []byte {
	be := binary.BigEndian
	file := make([]byte, codePages*layout.Page+varsSize)
	for i := range file {
		file[i] = byte(i / layout.Page)
	}
	clear(file[:layout.Page])
	copy(file, "\x7fELF\x01\x02\x01")
	be.PutUint16(file[16:], 2)
	be.PutUint16(file[18:], 8)
	be.PutUint32(file[20:], 1)
	be.PutUint32(file[24:], code+0x1000)
	be.PutUint32(file[28:], 52)
	be.PutUint16(file[40:], 52)
	be.PutUint16(file[42:], 32)
	be.PutUint16(file[44:], 3)
	for i, w := range []uint32{
		4, 0xf00, code + 0xf00, code + 0xf00, 16, 16, 4, 4, // a note
		1, 0, code, code, codePages * layout.Page, codePages * layout.Page, 5, layout.Page,
		1, codePages * layout.Page, vars, vars, varsSize, varsSize + zeros, 6, layout.Page,
	} {
		be.PutUint32(file[52+4*i:], w)
	}
	copy(file[0xf00:], "0123456789abcdef")
	be.PutUint32(file[32:], uint32(len(file))) // section headers
	be.PutUint16(file[46:], 40)
	be.PutUint16(file[48:], 2)
	sections := make([]byte, 80)
	be.PutUint32(sections[40+16:], 0xf00)
	be.PutUint32(sections[40+20:], 16)
	return append(file, sections...)
}

func TestArrange(t *testing.T) {
	t.Parallel()
	in := program()
	// Page 20's end and page 21's beginning, and page 38.
	out, err := layout.Arrange(in, []layout.Range{
		{code + 38*layout.Page + 5, code + 38*layout.Page + 6},
		{code + 21*layout.Page - 1, code + 21*layout.Page + 1},
		{0, code},                     // below
		{vars + varsSize, 0xf0000000}, // behind
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.NewFile(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	type seg struct{ vaddr, pages, at uint64 }
	var got []seg
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD {
			got = append(got, seg{p.Vaddr, (p.Filesz + layout.Page - 1) / layout.Page, p.Off / layout.Page})
		}
	}
	// Hot are the headers' page, 20 to 38 (what is between is little enough), and
	// the variables' last page, whose rest the kernel clears.
	want := []seg{
		{code, 1, 0},
		{code + 0x1000, 19, 21},
		{code + 20*0x1000, 19, 1},
		{code + 39*0x1000, 1, 40},
		{vars, 1, 41},
		{vars + 0x1000, 1, 20},
	}
	if len(got) != len(want) {
		t.Fatalf("%x, want %x", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("segment %d: %x, want %x", i, got[i], want[i])
		}
	}
	if last := f.Progs[len(f.Progs)-1]; last.Filesz != varsSize-layout.Page || last.Memsz != last.Filesz+zeros {
		t.Errorf("%d bytes of %d in the file, want %d and %d zeros more", last.Filesz, last.Memsz, varsSize-layout.Page, zeros)
	}
	if b, err := io.ReadAll(f.Progs[0].Open()); err != nil || string(b) != "0123456789abcdef" {
		t.Errorf("the note is %q, %v", b, err)
	}
	if len(f.Sections) != 0 {
		t.Errorf("%d sections", len(f.Sections))
	}
	if err := layout.Same(in, out); err != nil {
		t.Error(err)
	}
}

// A byte, a right or an entry that is another is seen.
func TestSame(t *testing.T) {
	t.Parallel()
	out, err := layout.Arrange(program(), []layout.Range{{code + 38*layout.Page, code + 39*layout.Page}})
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{"a byte": len(out) - 1, "the first page's last": 0xfff, "the entry": 27, "a right": 52 + 32 + 27} {
		b := bytes.Clone(out)
		b[at] ^= 2
		if layout.Same(program(), b) == nil {
			t.Errorf("%s is another and the programs are the same", name)
		}
	}
}

func TestArrangeRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(b []byte) []byte
		want   string
	}{
		"empty":           {func([]byte) []byte { return nil }, "not a big-endian"},
		"little":          {func(b []byte) []byte { b[5] = 1; return b }, "not a big-endian"},
		"cut":             {func(b []byte) []byte { return b[:codePages*layout.Page-1] }, "ends behind the file"},
		"headers beyond":  {func(b []byte) []byte { b[45] = 0xff; return b[:1000] }, "program headers"},
		"headers full":    {func(b []byte) []byte { b[len(b)-40+18], b[len(b)-40+19] = 0, 60; return b }, "contents begin at 60"},
		"off its page":    {func(b []byte) []byte { b[52+64+7]++; return b }, "not the same place in a page"},
		"note in no one":  {func(b []byte) []byte { b[52+6], b[52+7] = 0x0f, 0xf8; return b }, "not in one piece"},
		"no headers load": {func(b []byte) []byte { b[52+32+3] = 2; return b }, "does not begin with"},
	} {
		if _, err := layout.Arrange(test.change(program()), nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestHot(t *testing.T) {
	t.Parallel()
	symbols, err := layout.ReadMap(strings.NewReader(`10000 40 TEXT main.main
10040 20 TEXT main.later
20000 100 SRODATA runtime.functab
20000 0 STYPE type:*
1fff0 10 PCLN runtime.pcheader
20000 100 PCLN runtime.functab
20020 0 FUNC main.main
20030 0 FUNC runtime.started
20080 0 FUNC main.later
30000 10 SDATA main.variable
30010 10 SDATA main.other
40000 10 SBSS main.empty
`))
	if err != nil {
		t.Fatal(err)
	}
	hot, err := layout.Hot(strings.NewReader(`# made
[near]
main
[text]
main.main
[later]
main.later
[unwound]
main.main
runtime.started
[later]
main.later
[data]
main.variable
main.empty
runtime.functab
[later]
main.other
`), symbols)
	want := []layout.Range{{0x10000, 0x10040}, {0x30000, 0x30010}, {0x1fff0, 0x20080}}
	if err != nil || len(hot) != len(want) {
		t.Fatalf("%x, %v, want %x", hot, err, want)
	}
	for i := range want {
		if hot[i] != want[i] {
			t.Errorf("%x, want %x", hot[i], want[i])
		}
	}
	if _, err := layout.Hot(strings.NewReader("[text]\n"), symbols); err == nil || !strings.Contains(err.Error(), "make layout") {
		t.Errorf("a list without its sections: %v", err)
	}
}
