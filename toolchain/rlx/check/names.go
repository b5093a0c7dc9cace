package check

import (
	"debug/elf"
	"debug/gosym"
	"sort"
)

// name gives each violation its place: from Options.Names, the function table,
// Go's line table, or DWARF.
func (c *checker) name() {
	c.report.Stats.TextBytes = 4 * len(c.words)
	vs := c.report.Violations
	sort.SliceStable(vs, func(i, j int) bool {
		if vs[i].Addr != vs[j].Addr {
			return vs[i].Addr < vs[j].Addr
		}
		return vs[i].Next < vs[j].Next
	})
	if len(vs) == 0 {
		return
	}
	var lines dwarfLines
	if c.line == nil {
		lines = readDWARF(c.file)
	}
	for k := range vs {
		v := &vs[k]
		if c.opt.Names != nil {
			if p, ok := c.opt.Names.Name(uint64(v.Addr)); ok {
				v.Where = p
				continue
			}
		}
		if i, ok := c.index(v.Addr); ok && c.fn[i] != none {
			f := c.fns[c.fn[i]]
			v.Where.Func, v.Where.Offset = f.name, uint64(v.Addr-f.start)
		}
		if c.line != nil {
			v.Where.File, v.Where.Line = goLine(c.line, uint64(v.Addr))
		} else {
			v.Where.File, v.Where.Line = lines.find(uint64(v.Addr))
		}
	}
}

// goLine looks an address up in Go's line table.
func goLine(t *gosym.Table, addr uint64) (file string, line int) {
	defer func() {
		if recover() != nil {
			file, line = "", 0 // a table that is broken is like none
		}
	}()
	file, line, _ = t.PCToLine(addr)
	if line < 0 || file == "?" {
		return "", 0
	}
	return file, line
}

// dwarfLines is a line table, sorted by address. An empty file ends a sequence.
type dwarfLines []dwarfLine

type dwarfLine struct {
	addr uint64
	file string
	line int
}

// readDWARF reads all line tables of a program; what is broken ends it early.
func readDWARF(f *elf.File) (list dwarfLines) {
	const most = 4 << 20 // rows; a 6 MiB program has some 500,000
	defer func() {
		if recover() != nil {
			list = nil
		}
	}()
	if f.Section(".debug_line") == nil {
		return nil
	}
	d, err := f.DWARF()
	if err != nil {
		return nil
	}
	r := d.Reader()
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		r.SkipChildren()
		lr, err := d.LineReader(e)
		if err != nil || lr == nil {
			continue
		}
		list = appendLines(list, lr, most)
		if len(list) >= most {
			break
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].addr < list[j].addr })
	return list
}

// find is the file and line of an address.
func (l dwarfLines) find(addr uint64) (string, int) {
	i := sort.Search(len(l), func(i int) bool { return l[i].addr > addr })
	if i == 0 {
		return "", 0
	}
	return l[i-1].file, l[i-1].line
}
