package otbr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// checkedPath keeps what was found out about the agent's file, as reading 5 MB
// of flash takes seconds: size, time of change, and the words, "" when it is fine.
const checkedPath = "/run/otbr-agent.checked"

// unsuitable is Options.Unsuitable of the box: suitability by size and time of
// the file, remembered for this boot.
func unsuitable(path string) string { return remembered(path, checkedPath, suitability) }

func remembered(path, cache string, find func(path string) string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "" // of another check
	}
	key := strconv.FormatInt(info.Size(), 10) + " " + strconv.FormatInt(info.ModTime().UnixNano(), 10) + " "
	if b, err := os.ReadFile(cache); err == nil {
		if text, ok := strings.CutPrefix(string(b), key); ok {
			return text
		}
	}
	text := find(path)
	_ = os.WriteFile(cache, []byte(key+text), 0o644) // memory; without it the file is read again
	return text
}

// suitability says what of a program is not for the RLX4181, or "". A program
// for a later MIPS is not refused by the kernel: it ends at an instruction that
// traps, or computes nonsense without a word where it uses a register right
// behind the load of it. The rules are those of toolchain/rlx/isa, here only what
// a compiler for another MIPS makes again and again: data between functions may
// look like a few of them.
func suitability(path string) string {
	c, err := count(path)
	most := c.words/5000 + 8
	switch {
	case err != nil:
		return err.Error()
	case c.traps+c.early <= most:
		return ""
	}
	return fmt.Sprintf("%s was built for another MIPS than this CPU: of %d instructions it does not have %d, and %d use a register before its load is done. It runs all the same, and may end or compute nonsense: take the agent that is made for these gateways", agentPath, c.words, c.traps, c.early)
}

// code is what was counted in a program.
type code struct {
	words int
	traps int // this core traps, or does something else
	early int // the register of the load before is used
	prev  uint32
	slot  bool // prev is in a branch's slot: what follows it is elsewhere
}

// errOther is a program for another CPU altogether.
var errOther = errors.New(agentPath + " is no program for this CPU (ELF, 32-bit, big-endian MIPS)")

// count reads the code of an ELF file: the sections with instructions, or the
// segments where it has no sections.
func count(path string) (c code, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	parts, err := codeOf(f)
	if err != nil {
		return c, err
	}
	buf := make([]byte, 32<<10)
	for _, p := range parts {
		c.prev, c.slot = 0, false
		for at := int64(0); at < p.size; {
			b := buf[:min(int64(len(buf)), p.size-at)]
			n, err := f.ReadAt(b, p.at+at)
			if n < len(b) && err != nil && !errors.Is(err, io.EOF) {
				return c, err
			}
			b = b[:n&^3]
			for i := 0; i < len(b); i += 4 {
				c.add(binary.BigEndian.Uint32(b[i:]))
			}
			if len(b) == 0 {
				break
			}
			at += int64(len(b))
		}
	}
	return c, nil
}

// part is a range of a file.
type part struct{ at, size int64 }

// maxParts is more than the sections of any program.
const maxParts = 512

// codeOf finds the instructions of an ELF file (Tool Interface Standard, ELF
// 1.2).
func codeOf(f io.ReaderAt) (parts []part, err error) {
	var h [52]byte
	if _, err := f.ReadAt(h[:], 0); err != nil {
		return nil, errOther
	}
	be := binary.BigEndian
	const mips = 8
	if string(h[:6]) != "\x7fELF\x01\x02" || be.Uint16(h[18:]) != mips {
		return nil, errOther
	}
	// Sections: type 1 (PROGBITS), flag 4 (executable), offset and size.
	table(f, int64(be.Uint32(h[32:])), be.Uint16(h[46:]), be.Uint16(h[48:]), 40, func(e []byte) {
		if be.Uint32(e[4:]) == 1 && be.Uint32(e[8:])&4 != 0 {
			parts = append(parts, part{int64(be.Uint32(e[16:])), int64(be.Uint32(e[20:]))})
		}
	})
	if parts != nil {
		return parts, nil
	}
	// Segments: type 1 (LOAD), flag 1 (executable).
	table(f, int64(be.Uint32(h[28:])), be.Uint16(h[42:]), be.Uint16(h[44:]), 32, func(e []byte) {
		if be.Uint32(e) == 1 && be.Uint32(e[24:])&1 != 0 {
			parts = append(parts, part{int64(be.Uint32(e[4:])), int64(be.Uint32(e[16:]))})
		}
	})
	if parts == nil {
		return nil, errOther
	}
	return parts, nil
}

// table reads the entries of one of the two tables, as far as they are there.
func table(f io.ReaderAt, at int64, size, n uint16, least int, entry func([]byte)) {
	if int(size) < least {
		return
	}
	e := make([]byte, least)
	for i := range min(int(n), maxParts) {
		if _, err := f.ReadAt(e, at+int64(i)*int64(size)); err != nil {
			return
		}
		entry(e)
	}
}

// majors are the major opcodes that trap on this core, a bit each: coprocessors
// 1 to 3 and their loads and stores, branch-likely, 64 bits, MIPS-II and later.
const majors = 1<<0x11 | 1<<0x12 | 1<<0x13 | 1<<0x14 | 1<<0x15 | 1<<0x16 | 1<<0x17 | 1<<0x18 | 1<<0x19 | 1<<0x1a | 1<<0x1b | 1<<0x1e |
	1<<0x27 | 1<<0x2c | 1<<0x2d | 1<<0x31 | 1<<0x32 | 1<<0x33 | 1<<0x34 | 1<<0x35 | 1<<0x36 | 1<<0x37 |
	1<<0x39 | 1<<0x3a | 1<<0x3b | 1<<0x3c | 1<<0x3d | 1<<0x3e | 1<<0x3f

// add takes the next word.
func (c *code) add(w uint32) {
	c.words++
	if !executes(w) {
		c.traps++
	}
	if rt := c.prev >> 16 & 31; loads(c.prev) && !c.slot && rt != 0 && reads(w)>>rt&1 != 0 {
		c.early++
	}
	c.slot = branches(c.prev)
	c.prev = w
}

// executes tells whether the core does what the word means, or the kernel for it.
func executes(w uint32) bool {
	funct, rs, sa := w&63, w>>21&31, w>>6&31
	switch op := w >> 26; op {
	case 0: // SPECIAL: conditional traps, 64 bits, rotations
		const no = 1<<0x01 | 1<<0x14 | 1<<0x16 | 1<<0x17 | 1<<0x1c | 1<<0x1d | 1<<0x1e | 1<<0x1f | 0xF<<0x2c | 0x1F<<0x30 | 1<<0x36 | 1<<0x38 | 1<<0x3a | 1<<0x3b | 1<<0x3c | 1<<0x3e | 1<<0x3f
		return uint64(no)>>funct&1 == 0 && (funct != 2 || rs == 0) && (funct != 6 || sa == 0)
	case 1: // REGIMM: branch-likely
		rt := w >> 16 & 31
		return rt&^0x11 != 2
	case 0x1c: // SPECIAL2: mul, clz, clo
		return funct != 2 && funct != 0x20 && funct != 0x21
	case 0x1f: // SPECIAL3: but for rdhwr, which the kernel does
		return funct == 0x3b
	default:
		return uint64(majors)>>op&1 == 0
	}
}

// loads tells whether the word loads its rt, one instruction late.
func loads(w uint32) bool {
	const all = 1<<0x20 | 1<<0x21 | 1<<0x23 | 1<<0x24 | 1<<0x25 | 1<<0x30
	return uint64(all)>>(w>>26)&1 != 0
}

// branches tells whether the word has a slot.
func branches(w uint32) bool {
	op := w >> 26
	return op >= 1 && op <= 7 || op >= 0x14 && op <= 0x17 || op == 0 && (w&63 == 8 || w&63 == 9)
}

// reads are the general registers that the word reads, a bit each.
func reads(w uint32) uint32 {
	rs, rt := uint32(1)<<(w>>21&31), uint32(1)<<(w>>16&31)
	switch op := w >> 26; {
	case op == 0:
		switch funct := w & 63; {
		case funct == 0 || funct == 2 || funct == 3:
			return rt
		case funct == 8 || funct == 9 || funct == 0x11 || funct == 0x13:
			return rs
		case funct >= 0x0c && funct <= 0x0f || funct == 0x10 || funct == 0x12:
			return 0
		case funct == 0x0a || funct == 0x0b: // movz, movn keep rd
			return rs | rt | 1<<(w>>11&31)
		}
		return rs | rt
	case op == 2 || op == 3 || op == 0x0f || op >= 0x10 && op <= 0x13:
		return 0
	case op == 4 || op == 5 || op >= 0x28 && op <= 0x2e || op == 0x38:
		return rs | rt
	case op == 0x1c:
		return rs | rt
	}
	return rs // immediates, loads, other branches
}
