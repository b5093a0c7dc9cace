package check

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"sort"
)

// region is a piece of code: whole words at consecutive addresses.
type region struct {
	name  string
	addr  uint32 // of the first word
	first int    // number of the first word, counted over all regions
	n     int    // words
}

// segment is memory as the program finds it when it starts.
type segment struct {
	addr uint32
	data []byte
	exec bool
}

// image is a program in memory: its code as words, numbered through all
// regions, and what else the file says.
type image struct {
	file    *elf.File
	words   []uint32
	regions []region // by address, and so by first
	segs    []segment
	entry   uint32
	gp      uint32 // value of $gp that the file promises, 0 if none
	golang  bool
	symbols []elf.Symbol
}

// section is code as the file has it.
type section struct {
	name string
	addr uint32
	data []byte
}

// Bits of e_flags, "MIPS ELF ABI supplement" and binutils' include/elf/mips.h.
const (
	efABI2      = 0x00000020
	efABI       = 0x0000f000
	efABIO32    = 0x00001000
	efMicroMIPS = 0x02000000
	efMIPS16    = 0x04000000
	efArch      = 0xf0000000
	efArch32R6  = 0x90000000
	efArch64R6  = 0xa0000000

	stoMIPS16 = 0xf0 // st_other of a MIPS16 function
	stoMicro  = 0x80 // st_other of a microMIPS function
	stoISA    = 0xc0 // the bits of st_other that tell the ISA
)

// load reads the headers and the code of a program.
func load(b []byte) (*image, error) {
	if len(b) < 52 || string(b[:4]) != "\x7fELF" {
		return nil, fmt.Errorf("no ELF header: %w; give the program itself, not an archive or a script", ErrNotMIPS)
	}
	if elf.Class(b[4]) != elf.ELFCLASS32 || elf.Data(b[5]) != elf.ELFDATA2MSB || elf.Machine(binary.BigEndian.Uint16(b[18:])) != elf.EM_MIPS {
		return nil, fmt.Errorf("an ELF file for another machine (%v, %v): %w; build for GOARCH=mips or with a big-endian MIPS compiler", elf.Class(b[4]), elf.Data(b[5]), ErrNotMIPS)
	}
	flags := binary.BigEndian.Uint32(b[36:])
	switch {
	case flags&efABI2 != 0 || flags&efABI != 0 && flags&efABI != efABIO32:
		return nil, fmt.Errorf("e_flags %#x: not the o32 ABI: %w; build with -mabi=32", flags, ErrUnsupported)
	case flags&efArch == efArch32R6 || flags&efArch == efArch64R6:
		return nil, fmt.Errorf("e_flags %#x: MIPS release 6 has other encodings: %w; build with -march=mips1", flags, ErrUnsupported)
	case flags&efMicroMIPS != 0:
		return nil, fmt.Errorf("e_flags %#x: holds microMIPS code: %w; build with -mno-micromips", flags, ErrUnsupported)
	case flags&efMIPS16 != 0:
		return nil, fmt.Errorf("e_flags %#x: holds MIPS16 code: %w; build with -mno-mips16", flags, ErrUnsupported)
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrNotMIPS)
	}
	switch f.Type {
	case elf.ET_EXEC, elf.ET_DYN:
	default:
		return nil, fmt.Errorf("ELF type %v: %w; link it into a program first", f.Type, ErrUnsupported)
	}
	if need, _ := f.DynString(elf.DT_NEEDED); len(need) > 0 {
		return nil, fmt.Errorf("needs %s at run time: %w; link it statically (-static), or its libraries' code stays unseen", need[0], ErrUnsupported)
	}
	im := &image{file: f, entry: uint32(f.Entry)}
	var code []section
	named, total := false, 0 // code comes from a section table; its bytes
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			return nil, fmt.Errorf("dynamically linked: %w; link it statically (-static), or its libraries' code stays unseen", ErrUnsupported)
		case elf.PT_LOAD:
			d, ok := cut(b, p.Off, p.Filesz)
			if !ok {
				return nil, fmt.Errorf("a segment at file offset %#x of %#x bytes reaches over the end of the file: %w; copy the file again", p.Off, p.Filesz, ErrUnsupported)
			}
			if p.Vaddr+uint64(len(d)) > 1<<32 {
				return nil, fmt.Errorf("a segment at %#x reaches over 4 GiB: %w", p.Vaddr, ErrUnsupported)
			}
			im.segs = append(im.segs, segment{uint32(p.Vaddr), d, p.Flags&elf.PF_X != 0})
		}
	}
	sort.SliceStable(im.segs, func(i, j int) bool { return im.segs[i].addr < im.segs[j].addr })
	for _, s := range f.Sections {
		switch {
		case s.Type == elf.SHT_NOBITS:
		case s.Name == ".gopclntab", s.Name == ".go.buildinfo", s.Name == ".note.go.buildid":
			im.golang = true
		case s.Name == ".reginfo":
			if d, ok := cut(b, s.Offset, s.FileSize); ok && len(d) >= 24 {
				im.gp = binary.BigEndian.Uint32(d[20:])
			}
		}
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_EXECINSTR == 0 || s.Flags&elf.SHF_ALLOC == 0 || s.FileSize == 0 {
			continue
		}
		d, ok := cut(b, s.Offset, s.FileSize)
		if !ok || s.Addr+uint64(len(d)) > 1<<32 {
			return nil, fmt.Errorf("section %s reaches over the end of the file or of memory: %w; copy the file again", s.Name, ErrUnsupported)
		}
		if s.Addr&3 != 0 {
			return nil, fmt.Errorf("section %s at %#x is not aligned to 4 bytes: %w", s.Name, s.Addr, ErrUnsupported)
		}
		if total += len(d); total > len(b) {
			return nil, fmt.Errorf("section %s shares its bytes with another one: %w", s.Name, ErrUnsupported)
		}
		named = true
		code = append(code, section{s.Name, uint32(s.Addr), d})
	}
	if !named {
		// No section table (sstrip): everything that is mapped executable.
		for _, s := range im.segs {
			skip := int(-s.addr & 3)
			if total += len(s.data); s.exec && skip < len(s.data) && total <= len(b) {
				code = append(code, section{"segment", s.addr + uint32(skip), s.data[skip:]})
			}
		}
	}
	sort.SliceStable(code, func(i, j int) bool { return code[i].addr < code[j].addr })
	for _, s := range code {
		if n := len(im.regions); n > 0 {
			if p := im.regions[n-1]; uint64(p.addr)+uint64(p.n)*4 > uint64(s.addr) {
				return nil, fmt.Errorf("the sections %s and %s overlap: %w", p.name, s.name, ErrUnsupported)
			}
		}
		im.addRegion(s.name, s.addr, s.data)
	}
	if len(im.words) == 0 {
		return nil, fmt.Errorf("no executable code in it: %w; a separate debug file has none", ErrUnsupported)
	}
	// A missing symbol table is the normal case; a broken one is like none.
	im.symbols, _ = f.Symbols()
	for _, s := range im.symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && (s.Other == stoMIPS16 || s.Other&stoISA == stoMicro) {
			return nil, fmt.Errorf("function %s is MIPS16 or microMIPS code: %w; build with -mno-mips16 -mno-micromips", s.Name, ErrUnsupported)
		}
	}
	return im, nil
}

// cut is a piece of the file.
func cut(b []byte, off, n uint64) ([]byte, bool) {
	if off > uint64(len(b)) || n > uint64(len(b))-off {
		return nil, false
	}
	return b[off : off+n], true
}

// addRegion appends code; odd bytes at its end are not looked at.
func (im *image) addRegion(name string, addr uint32, d []byte) {
	r := region{name, addr, len(im.words), len(d) / 4}
	for i := range r.n {
		im.words = append(im.words, binary.BigEndian.Uint32(d[i*4:]))
	}
	if r.n > 0 {
		im.regions = append(im.regions, r)
	}
}

// index is the number of the word at an address.
func (im *image) index(addr uint32) (int, bool) {
	k := sort.Search(len(im.regions), func(k int) bool { return im.regions[k].addr > addr }) - 1
	if k < 0 || addr&3 != 0 {
		return 0, false
	}
	r := &im.regions[k]
	n := int(addr-r.addr) / 4
	return r.first + n, n < r.n
}

// regionOf is the region of a word.
func (im *image) regionOf(i int) *region {
	k := sort.Search(len(im.regions), func(k int) bool { return im.regions[k].first > i })
	return &im.regions[k-1]
}

// addr is the address of a word.
func (im *image) addr(i int) uint32 {
	r := im.regionOf(i)
	return r.addr + uint32(i-r.first)*4
}

// after is the number of the next word, if the code goes on there.
func (im *image) after(i int) (int, bool) {
	r := im.regionOf(i)
	return i + 1, i+1 < r.first+r.n
}
