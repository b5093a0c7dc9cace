package check

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// goTable is what Go's pclntab tells without its lines, which may be elsewhere:
// the functions, and the build ID of the symbol file that has the lines.
type goTable struct {
	fns     []function
	buildID string
}

// pclntab finds Go's table and where its addresses count from; nil if there is
// none.
func (im *image) pclntab() (d []byte, text uint64) {
	s := im.file.Section(".text")
	if s == nil {
		return nil, 0
	}
	text = s.Addr
	for _, s := range im.symbols {
		if s.Name == "runtime.text" {
			text = s.Value
		}
	}
	for _, s := range im.file.Sections {
		if s.Type == elf.SHT_PROGBITS && (s.Name == ".gopclntab" || s.Name == ".data.rel.ro.gopclntab") {
			d, err := s.Data()
			if err == nil {
				return d, text
			}
		}
	}
	return nil, 0
}

// readGoTable reads the table's functions. The layout is that of Go 1.20 and
// later (runtime/symtab.go: pcHeader, functab, _func), big-endian, 32 bit:
//
//	0  magic 0xfffffff1
//	4  pad1: not 0 if the word at 16 is the offset of a build ID
//	5  pad2 0, 6 the instruction quantum 4, 7 the size of an address 4
//	8  number of functions n
//	20 offset of the names
//	36 offset of the functions: n+1 pairs of the start, counted from the text's,
//	   and the offset of a record, counted from here; the last pair is the end
//
// A record starts with the function's start and its name's offset. What does not
// fit is left out.
func readGoTable(d []byte, text uint64) (t goTable) {
	be := binary.BigEndian
	if len(d) < 40 || be.Uint32(d) != 0xfffffff1 || d[7] != 4 {
		return t
	}
	at := func(off uint64) []byte {
		if off > uint64(len(d)) {
			return nil
		}
		return d[off:]
	}
	name := func(off uint64) string {
		b := at(off)
		if i := bytes.IndexByte(b[:min(len(b), 4096)], 0); i >= 0 {
			return string(b[:i])
		}
		return ""
	}
	if d[4] != 0 {
		t.buildID = name(uint64(be.Uint32(d[16:])))
	}
	n, names, base := uint64(be.Uint32(d[8:])), uint64(be.Uint32(d[20:])), uint64(be.Uint32(d[36:]))
	tab := at(base)
	if uint64(len(tab)) < 8*n+4 {
		return t
	}
	// Offset 0 is the first function's name, or, when several have it, no name at
	// all (-nonames).
	var first []int
	for i := range n {
		f := function{start: uint32(text) + be.Uint32(tab[8*i:]), end: uint32(text) + be.Uint32(tab[8*i+8:])}
		if rec := at(base + uint64(be.Uint32(tab[8*i+4:]))); len(rec) >= 8 {
			off := uint64(be.Uint32(rec[4:]))
			if f.name = name(names + off); off == 0 {
				first = append(first, len(t.fns))
			}
		}
		t.fns = append(t.fns, f)
	}
	if len(first) > 1 {
		for _, i := range first {
			t.fns[i].name = ""
		}
	}
	return t
}
