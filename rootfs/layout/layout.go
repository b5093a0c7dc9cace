// Package layout arranges the file of the gateway's binary by what a boot
// touches. The flash is read and decompressed in blocks of 256 KiB, which is most
// of what a boot costs; the linker puts together what a boot touches of each
// section, and Arrange puts those pieces of the sections side by side in the
// file. In memory nothing moves.
package layout

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Page is the gateway's, in bytes: what a program header can map.
const Page = 4096

// Range is a range of addresses of a program, from Start up to before End.
type Range struct{ Start, End uint32 }

// Sizes of ELF32's headers, and what is read and changed of them.
const (
	elfHeader  = 52
	progHeader = 32

	typeLoad = 1
)

// ident is how a 32-bit big-endian file of version 1 begins.
var ident = []byte{0x7f, 'E', 'L', 'F', 1, 2, 1}

// prog is a program header of ELF32 (System V ABI, chapter 5).
type prog struct {
	Type, Off, Vaddr, Paddr, Filesz, Memsz, Flags, Align uint32
}

// piece is a part of the file that stays together: file[from:to] of the input.
type piece struct {
	prog
	from, to uint32
	hot      bool
}

// Arrange returns the ELF32 file, big-endian and executable, with the pages that
// hold the hot ranges in front, in the order of their addresses, and the others
// behind them. What a loader makes of it in memory is the same; section headers
// are left out, since a section need not be in one piece any more.
func Arrange(file []byte, hot []Range) ([]byte, error) {
	if len(file) < elfHeader || !bytes.HasPrefix(file, ident) {
		return nil, errors.New("layout: not a big-endian ELF32 file")
	}
	progs, err := programs(file)
	if err != nil {
		return nil, err
	}
	var pieces []piece
	var others []prog
	hot = slices.Clone(hot)
	for _, p := range progs {
		if p.Type == typeLoad && p.Off == 0 {
			hot = append(hot, Range{p.Vaddr, p.Vaddr + 1}) // the headers
		}
		if end := p.Vaddr + p.Filesz; p.Type == typeLoad && p.Filesz != 0 && p.Memsz > p.Filesz {
			hot = append(hot, Range{end - 1, end}) // the kernel clears the rest of the page
		}
	}
	for _, p := range progs {
		if uint64(p.Off)+uint64(p.Filesz) > uint64(len(file)) {
			return nil, fmt.Errorf("layout: the segment at %#x ends behind the file", p.Vaddr)
		}
		if p.Type != typeLoad {
			others = append(others, p)
			continue
		}
		if p.Off%Page != p.Vaddr%Page {
			return nil, fmt.Errorf("layout: the segment at %#x lies at %#x of the file, not the same place in a page", p.Vaddr, p.Off)
		}
		pieces = append(pieces, cut(p, hot)...)
	}
	if len(pieces) == 0 || pieces[0].from != 0 {
		return nil, errors.New("layout: the first segment does not begin with the file's headers")
	}
	first := contents(file)
	if need := uint32(elfHeader + progHeader*(len(pieces)+len(others))); need > first {
		return nil, fmt.Errorf("layout: %d program headers end at %d, and contents begin at %d", len(pieces)+len(others), need, first)
	}
	return write(file, pieces, others, first)
}

// programs are the program headers of a file.
func programs(file []byte) ([]prog, error) {
	be := binary.BigEndian
	off, size, n := be.Uint32(file[28:]), be.Uint16(file[42:]), be.Uint16(file[44:])
	if off != elfHeader || size != progHeader || elfHeader+progHeader*int(n) > len(file) {
		return nil, fmt.Errorf("layout: %d program headers of %d bytes at %d, not of %d at %d", n, size, off, progHeader, elfHeader)
	}
	progs := make([]prog, n)
	_, err := binary.Decode(file[off:], be, progs)
	return progs, err
}

// contents is where in the file the first section's contents begin.
func contents(file []byte) uint32 {
	be := binary.BigEndian
	off, size, n := uint64(be.Uint32(file[32:])), uint64(be.Uint16(file[46:])), uint64(be.Uint16(file[48:]))
	first := uint32(len(file))
	for i := range n {
		h := off + i*size
		if h+24 > uint64(len(file)) {
			return 0
		}
		if at, bytes := be.Uint32(file[h+16:]), be.Uint32(file[h+20:]); at != 0 && bytes != 0 {
			first = min(first, at)
		}
	}
	return first
}

// join is how many pages may lie between two that are hot without making a piece
// of their own: each piece is a mapping of each process.
const join = 16

// cut is a segment in pieces, by the pages of hot ranges.
func cut(p prog, hot []Range) []piece {
	first, end := p.Vaddr/Page, (p.Vaddr+p.Filesz+Page-1)/Page
	isHot := make([]bool, max(end, first+1)-first) // by page
	for _, r := range hot {
		for page := max(r.Start/Page, first); page < end && r.End > page*Page; page++ {
			isHot[page-first] = true
		}
	}
	for i, last := 0, len(isHot); i < len(isHot); i++ {
		if !isHot[i] {
			continue
		}
		if i > last && i-last-1 <= join {
			for k := last; k < i; k++ {
				isHot[k] = true
			}
		}
		last = i
	}
	var pieces []piece
	for i := 0; i < len(isHot); {
		from := i
		for i < len(isHot) && isHot[i] == isHot[from] {
			i++
		}
		q := p
		q.Vaddr = max(p.Vaddr, (first+uint32(from))*Page)
		q.Filesz = min(p.Vaddr+p.Filesz, (first+uint32(i))*Page) - q.Vaddr
		q.Memsz = q.Filesz
		q.Paddr += q.Vaddr - p.Vaddr
		start := p.Off + q.Vaddr - p.Vaddr
		pieces = append(pieces, piece{prog: q, from: start, to: start + q.Filesz, hot: isHot[from]})
	}
	pieces[len(pieces)-1].Memsz += p.Memsz - p.Filesz
	return pieces
}

// write lays the pieces out.
func write(file []byte, pieces []piece, others []prog, first uint32) ([]byte, error) {
	order := make([]int, len(pieces))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if pieces[a].hot == pieces[b].hot {
			return cmp.Compare(pieces[a].Vaddr, pieces[b].Vaddr)
		}
		if pieces[a].hot {
			return -1
		}
		return 1
	})
	var out []byte
	for _, i := range order {
		p := &pieces[i]
		out = append(out, make([]byte, (Page-len(out)%Page)%Page+int(p.Vaddr%Page))...)
		p.Off = uint32(len(out))
		out = append(out, file[p.from:p.to]...)
	}
	table := make([]prog, 0, len(others)+len(pieces))
	for _, p := range others {
		if p.Filesz != 0 {
			i := slices.IndexFunc(pieces, func(q piece) bool { return q.from <= p.Off && p.Off+p.Filesz <= q.to })
			if i < 0 {
				return nil, fmt.Errorf("layout: what the program header of type %#x has is not in one piece", p.Type)
			}
			p.Off += pieces[i].Off - pieces[i].from
		}
		table = append(table, p)
	}
	for _, p := range pieces {
		table = append(table, p.prog)
	}
	clear(out[elfHeader:first])
	if _, err := binary.Encode(out[elfHeader:], binary.BigEndian, table); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	be.PutUint32(out[32:], 0) // section headers: where
	be.PutUint16(out[44:], uint16(len(table)))
	be.PutUint16(out[48:], 0) // how many
	be.PutUint16(out[50:], 0) // the one with names
	return out, nil
}
