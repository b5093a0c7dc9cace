package emu

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
)

const (
	stackTop  = 0x7fff_0000
	stackSize = 8 << 20
	// trampoline is the page of the code that a signal handler returns to.
	trampoline = 0x7fff_8000
)

type symbol struct {
	addr, size uint32
	name       string
}

// loadELF maps a static big-endian MIPS program and makes its first thread.
func (m *Machine) loadELF(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	defer f.Close()
	if f.Machine != elf.EM_MIPS || f.Class != elf.ELFCLASS32 || f.Data != elf.ELFDATA2MSB || f.Type != elf.ET_EXEC {
		return fmt.Errorf("load %s: not a static big-endian 32-bit MIPS program (build it with GOOS=linux GOARCH=mips)", path)
	}
	var end, phdr uint32
	for _, p := range f.Progs {
		switch p.Type {
		case elf.PT_INTERP:
			return fmt.Errorf("load %s: it needs a dynamic loader; link it statically", path)
		case elf.PT_LOAD:
		default:
			continue
		}
		if p.Vaddr > userTop || p.Memsz > userTop-p.Vaddr || p.Memsz < p.Filesz {
			return fmt.Errorf("load %s: a segment lies outside of user space", path)
		}
		addr, n := uint32(p.Vaddr), uint32(p.Memsz)
		if n == 0 {
			continue
		}
		start := addr &^ (pageSize - 1)
		n += addr - start
		// Segments may share a page: keep what is there.
		for q := start; q < start+n; q += pageSize {
			prot := m.mem.perm[q/pageSize] | uint8(p.Flags&elf.PF_R)>>2 | uint8(p.Flags&elf.PF_W) | uint8(p.Flags&elf.PF_X)<<2
			m.mem.perm[q/pageSize] = permOf(uint32(prot))
		}
		if _, err := p.ReadAt(m.mem.raw[addr:addr+uint32(p.Filesz)], 0); err != nil && p.Filesz > 0 {
			return fmt.Errorf("load %s: segment at %#x: %w", path, addr, err)
		}
		if p.Off == 0 {
			phdr = addr + 52 // the program headers follow the file's header
		}
		end = max(end, start+n)
	}
	m.brkStart = (end + pageSize - 1) &^ (pageSize - 1)
	m.brkEnd = m.brkStart
	if syms, err := f.Symbols(); err == nil {
		for _, s := range syms {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Name != "" {
				m.syms = append(m.syms, symbol{uint32(s.Value), uint32(s.Size), s.Name})
			}
		}
		sort.Slice(m.syms, func(i, j int) bool { return m.syms[i].addr < m.syms[j].addr })
	} else if !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("load %s: symbols: %w", path, err)
	}
	if m.exe, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	m.mem.mapAnon(trampoline, pageSize, permRead|permExec)
	putWord(m.mem.base, trampoline, 0x2402_0000|sysRtSigreturn) // addiu v0, zero, rt_sigreturn
	putWord(m.mem.base, trampoline+4, 0xc)                      // syscall
	t := m.newThread()
	t.pc, t.npc = uint32(f.Entry), uint32(f.Entry)+4
	if t.r[29], err = m.buildStack(uint32(f.Entry), phdr, uint32(len(f.Progs))); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	m.ready(t)
	return nil
}

// buildStack writes arguments, environment and auxiliary vector as the kernel
// does and returns the stack pointer.
func (m *Machine) buildStack(entry, phdr, phnum uint32) (uint32, error) {
	m.mem.mapAnon(stackTop-stackSize, stackSize, permRead|permWrite)
	sp := uint32(stackTop)
	room := uint32(stackSize / 4)
	push := func(b []byte) uint32 {
		if uint32(len(b)) > room {
			room = 0
			return 0
		}
		room -= uint32(len(b))
		sp -= uint32(len(b))
		copy(m.mem.raw[sp:], b)
		return sp
	}
	str := func(s string) uint32 { return push(append([]byte(s), 0)) }
	name := str(m.exe)
	var random [16]byte
	m.randomBytes(random[:])
	at := push(random[:])
	args := m.cfg.Args
	if len(args) == 0 {
		args = []string{m.exe}
	}
	vec := []uint32{uint32(len(args))}
	for _, a := range args {
		vec = append(vec, str(a))
	}
	vec = append(vec, 0)
	for _, e := range m.cfg.Env {
		vec = append(vec, str(e))
	}
	vec = append(vec, 0)
	for _, kv := range [][2]uint32{
		{3, phdr},
		{4, 32},
		{5, phnum},
		{6, pageSize},
		{7, 0},
		{8, 0},
		{9, entry},
		{11, 0},
		{12, 0},
		{13, 0},
		{14, 0},
		{16, 0},
		{17, 250},
		{23, 0},
		{25, at},
		{31, name},
		{0, 0},
	} {
		vec = append(vec, kv[0], kv[1])
	}
	if room == 0 {
		return 0, errors.New("arguments and environment are too long")
	}
	sp = (sp - uint32(len(vec))*4) &^ 15
	for i, v := range vec {
		binary.BigEndian.PutUint32(m.mem.raw[sp+uint32(i)*4:], v)
	}
	return sp, nil
}

// symbolize names an address as function+offset.
func (m *Machine) symbolize(pc uint32) string {
	i := sort.Search(len(m.syms), func(i int) bool { return m.syms[i].addr > pc })
	if i == 0 {
		return fmt.Sprintf("%#x", pc)
	}
	s := m.syms[i-1]
	return fmt.Sprintf("%s+%#x", s.name, pc-s.addr)
}
