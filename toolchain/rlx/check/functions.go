package check

import (
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"sort"

	"gwinit/toolchain/rlx/isa"
)

// function is a piece of code that one symbol names.
type function struct {
	name       string
	start, end uint32 // end is behind the last byte, or start if not known
}

// none is the function number of a word that no function holds.
const none = -1

// checker is the work on one program.
type checker struct {
	*image
	opt    Options
	report *Report

	fns   []function // sorted by start
	fn    []int32    // by word: number in fns or none
	line  *gosym.Table
	roots []int // words where control may arrive
	mark  []uint8
	todo  []int
}

// findFunctions makes the function table, from the symbol table, else from Go's
// pclntab, else none.
func (c *checker) findFunctions() {
	c.report.Functions = "none"
	pcln, text := c.pclntab()
	table := readGoTable(pcln, text)
	c.report.BuildID = table.buildID
	c.line = goLines(pcln, text)
	for _, s := range c.symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF {
			continue
		}
		at, end := uint32(s.Value), uint32(s.Value)+uint32(s.Size)
		if at&3 != 0 {
			c.violate(Violation{Rule: BadTarget, Addr: at, text: "function " + s.Name + " does not start at a multiple of 4"})
			continue
		}
		if _, ok := c.index(at); ok {
			c.fns = append(c.fns, function{s.Name, at, max(at, end)})
		}
	}
	if len(c.fns) > 0 {
		c.report.Functions = "symbol table"
	} else {
		for _, f := range table.fns {
			if _, ok := c.index(f.start); ok {
				f.end = max(f.start, f.end)
				c.fns = append(c.fns, f)
			}
		}
		if len(c.fns) > 0 {
			c.report.Functions = "Go's pclntab"
		}
	}
	// Of several names for one address the longest piece counts.
	sort.SliceStable(c.fns, func(i, j int) bool {
		a, b := c.fns[i], c.fns[j]
		if a.start != b.start {
			return a.start < b.start
		}
		return a.end > b.end
	})
	kept := c.fns[:0]
	for _, f := range c.fns {
		if len(kept) == 0 || kept[len(kept)-1].start != f.start {
			kept = append(kept, f)
		}
	}
	c.fns = kept
	c.fn = make([]int32, len(c.words))
	for i := range c.fn {
		c.fn[i] = none
	}
	c.fill()
	c.report.Stats.Functions = len(c.fns)
}

// fill tells of each word which function it belongs to. A function inside
// another is a second entry with a name of its own; what is behind it belongs to
// the outer one again.
func (c *checker) fill() {
	type open struct {
		k    int32
		stop int // number of the word behind it
	}
	var stack []open
	pos := 0
	to := func(limit int) {
		for pos < limit && len(stack) > 0 {
			top := stack[len(stack)-1]
			for ; pos < min(limit, top.stop); pos++ {
				c.fn[pos] = top.k
			}
			if pos >= top.stop {
				stack = stack[:len(stack)-1]
			}
		}
		pos = max(pos, limit)
	}
	for k, f := range c.fns {
		i, _ := c.index(f.start)
		r := c.regionOf(i)
		stop := r.first + r.n
		if f.end > f.start {
			stop = min(stop, i+int((f.end-f.start+3)/4))
		} else if k+1 < len(c.fns) {
			// Without a size it ends where the next one starts.
			if j, ok := c.index(c.fns[k+1].start); ok {
				stop = min(stop, j)
			}
		}
		to(i)
		stack = append(stack, open{int32(k), stop})
	}
	to(len(c.words))
}

// goLines is Go's table of lines, nil if there is none that this Go release
// understands.
func goLines(d []byte, text uint64) (t *gosym.Table) {
	defer func() {
		if recover() != nil {
			t = nil // a table that is broken is like none
		}
	}()
	if len(d) < 8 || d[4] != 0 {
		return nil // a table without lines
	}
	t, err := gosym.NewTable(nil, gosym.NewLineTable(d, text))
	if err != nil || len(t.Funcs) == 0 {
		return nil
	}
	return t
}

// findRoots collects where control may arrive from outside of what can be
// followed: the entry point, functions, and without a table of these whatever
// in code and data looks like a pointer to code.
func (c *checker) findRoots() {
	root := func(addr uint32) bool {
		i, ok := c.index(addr)
		if ok {
			c.roots = append(c.roots, i)
		}
		return ok
	}
	if c.entry != 0 && !root(c.entry) {
		c.violate(Violation{Rule: BadTarget, Addr: c.entry, text: "the entry point is not in the code"})
	}
	for k, f := range c.fns {
		// Markers like runtime.etext are a few NOPs, and nobody calls them.
		if i, ok := c.index(f.start); ok && !c.onlyNops(int32(k), i) {
			c.roots = append(c.roots, i)
		}
	}
	if c.golang && len(c.fns) > 0 {
		return // no jump tables, and function values point at functions
	}
	for _, s := range c.symbols {
		if t := elf.ST_TYPE(s.Info); t == elf.STT_NOTYPE && s.Section != elf.SHN_UNDEF && s.Section < elf.SHN_LORESERVE {
			root(uint32(s.Value))
		}
	}
	n := len(c.roots)
	c.pointersInData(root)
	c.pointersInCode(root)
	c.report.Stats.Pointers = len(c.roots) - n
}

// pointersInData takes each word of data that is the address of code for one:
// constructors, tables of functions, the GOT, and jump tables, which in
// position-independent code hold distances from $gp.
func (c *checker) pointersInData(root func(uint32) bool) {
	for _, s := range c.segs {
		for o := int(-s.addr & 3); o+4 <= len(s.data); o += 4 {
			if _, code := c.index(s.addr + uint32(o)); code {
				continue
			}
			w := binary.BigEndian.Uint32(s.data[o:])
			if !root(w) && c.gp != 0 {
				root(w + c.gp)
			}
		}
	}
}

// pointersInCode finds addresses made by LUI and ADDIU (or ORI) close behind.
func (c *checker) pointersInCode(root func(uint32) bool) {
	const far = 32 // words from the LUI to its second half
	var high [32]struct {
		at    int
		value uint32
	}
	for i := range high {
		high[i].at = -far - 1
	}
	for i, w := range c.words {
		in := isa.Decode(w)
		switch w >> 26 {
		case 0x0f: // lui
			high[in.RT()].at, high[in.RT()].value = i, w<<16
		case 0x09, 0x0d: // addiu, ori
			if h := high[in.RS()]; i-h.at <= far {
				if w>>26 == 0x09 {
					root(h.value + uint32(in.Imm()))
				} else {
					root(h.value | w&0xffff)
				}
			}
		}
	}
}
