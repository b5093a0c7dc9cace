// Package ld gets this file added when rlx builds its linker: the order in
// which symbols are laid out follows a list of names, so that what the boot
// touches lies together. A gateway's flash is read and decompressed in blocks
// of 256 KiB, which is most of what a boot costs.
package ld

import (
	"bufio"
	"cmd/link/internal/loader"
	"cmd/link/internal/sym"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

var (
	flagOrder    = flag.String("order", "", "lay out together what `file` names, one symbol a line")
	flagOrderMap = flag.String("ordermap", "", "write where each symbol lies to `file`")
)

// order is what the list names, by its sections: each name's place, from 1, and
// how many of a section's names are of the first tier, before the line orderLate.
var (
	order = map[string]map[string]int{}
	early = map[string]int{}
)

// The list's lines that are no names: its sections, and their second tier.
const (
	orderLate = "[later]"

	orderText    = "[text]"    // functions that run
	orderUnwound = "[unwound]" // functions whose tables are looked at: by stack growth, above all
	orderData    = "[data]"    // constants, types, variables
	orderNear    = "[near]"    // beginnings of packages' paths, see near
)

func readOrder() {
	if *flagOrder == "" {
		return
	}
	b, err := os.ReadFile(*flagOrder)
	if err != nil {
		Exitf("-order: %v", err)
	}
	section := ""
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case line == "", strings.HasPrefix(line, "#"):
			continue
		case line == orderText, line == orderUnwound, line == orderData, line == orderNear:
			section = line
			order[section], early[section] = map[string]int{}, math.MaxInt32/4
			continue
		case line == orderLate:
			early[section] = len(order[section])
			continue
		case section == "":
			Exitf("-order: %s:%d: a name before the first section", *flagOrder, i+1)
		case strings.HasPrefix(line, `"`):
			if line, err = strconv.Unquote(line); err != nil {
				Exitf("-order: %s:%d: %v", *flagOrder, i+1, err)
			}
		}
		if names := order[section]; names[line] == 0 {
			names[line] = len(names) + 1
		}
	}
}

// rank is the place of a symbol in a section of the list, and behind all of
// them if it is not there.
func rank(ldr *loader.Loader, section string, s loader.Sym) int {
	names := order[section]
	if r := names[ldr.SymName(s)]; r != 0 {
		return r
	}
	return len(names) + 1
}

// layOutText puts the functions that run first, here and in each unit: debug
// information counts from a unit's first function.
func (ctxt *Link) layOutText() {
	readOrder()
	if len(order) == 0 {
		return
	}
	nearFuncs = near(ctxt)
	place := func(s loader.Sym) int {
		// Twice the rank leaves room for one more behind the first tier.
		if nearFuncs[s] {
			return 2*early[orderText] + 1
		}
		return 2 * rank(ctxt.loader, orderText, s)
	}
	byRank := func(a, b loader.Sym) int { return place(a) - place(b) }
	slices.SortStableFunc(ctxt.Textp, byRank)
	for _, lib := range ctxt.Library {
		for _, unit := range lib.Units {
			slices.SortStableFunc(unit.Textp, byRank)
		}
	}
}

// nearFuncs is what near found.
var nearFuncs map[loader.Sym]bool

// near is the functions that the list does not know and that are of a package
// which it names and of whose functions some are in the first tier: what is new
// there since the list was made is probably of that tier. They lie behind it,
// where they cost the boot a block or two together instead of two blocks each.
func near(ctxt *Link) map[loader.Sym]bool {
	ldr := ctxt.loader
	named := func(pkg string) bool {
		for prefix := range order[orderNear] {
			if strings.HasPrefix(pkg, prefix) {
				return true
			}
		}
		return false
	}
	touched := map[string]bool{}
	for _, s := range ctxt.Textp {
		if pkg := ldr.SymPkg(s); rank(ldr, orderText, s) <= early[orderText] && named(pkg) {
			touched[pkg] = true
		}
	}
	list := map[loader.Sym]bool{}
	for _, s := range ctxt.Textp {
		if touched[ldr.SymPkg(s)] && order[orderText][ldr.SymName(s)] == 0 {
			list[s] = true
		}
	}
	return list
}

// funcTables are the tables of functions that lie in one symbol,
// runtime.functab, in the order of the boot's looks at them: the table of
// entries, then what the functions that the list names as unwound have in each
// of the other tables (names too: the runtime asks of a new goroutine's first
// function whether it is one of its own), then what those have that run, a few of them at a time
// (a thread may be stopped, and its stack walked, in any of them), then the
// rest, and at last what only a traceback looks at: names, files and lines. All
// offsets, of descriptions, names, pc tables and data, count from
// the symbol's start: the runtime takes each table by its own base and does not
// mind that they are the same.
type funcTables struct {
	ctxt  *Link
	funcs []loader.Sym
	place []func(part []int, at int64) (end int64)
	write []generatorFunc

	placeNames func(part []int, at int64) (end int64)
	placeLast  []func(all []int, at int64) (end int64)
}

// partFuncs is how many functions that run are a part. The fewer, the nearer
// is what a stop looks at, and the worse they compress.
const partFuncs = 64

// add takes a table: place gives its parts, indexes of funcs, their offsets
// and is called once for each part; write writes it.
func (t *funcTables) add(write generatorFunc, place func(part []int, at int64) (end int64)) {
	t.place, t.write = append(t.place, place), append(t.write, write)
}

// addNames is add for the table of names: but for the first part's it is placed
// whole, behind the parts of the others. So place is called twice, and leaves out
// in the second call what it had in the first.
func (t *funcTables) addNames(write generatorFunc, place func(part []int, at int64) (end int64)) {
	t.placeNames = place
	t.placeLast, t.write = append(t.placeLast, place), append(t.write, write)
}

// layOut is called when all are added, with the size of what is in front.
func (t *funcTables) layOut(at int64) (size int64) {
	index := make([]int, len(t.funcs))
	for i := range index {
		index[i] = i
	}
	ldr := t.ctxt.loader
	first := func(i int) int {
		if r := rank(ldr, orderUnwound, t.funcs[i]); r <= early[orderUnwound] {
			return r
		}
		return math.MaxInt32
	}
	slices.SortStableFunc(index, func(a, b int) int { return first(a) - first(b) })
	count := func(index []int, section string) int {
		n := slices.IndexFunc(index, func(i int) bool {
			r := order[section][ldr.SymName(t.funcs[i])]
			return (r == 0 || r > early[section]) && !(section == orderText && nearFuncs[t.funcs[i]])
		})
		if n < 0 {
			return len(index)
		}
		return n
	}
	n := count(index, orderUnwound)
	parts := [][]int{index[:n]}
	m := count(index[n:], orderText)
	parts = append(parts, slices.Collect(slices.Chunk(index[n:n+m], partFuncs))...)
	parts = append(parts, index[n+m:])
	if t.placeNames != nil {
		at = t.placeNames(parts[0], at)
	}
	for _, part := range parts {
		for _, place := range t.place {
			at = place(part, at)
		}
	}
	for _, place := range t.placeLast {
		at = place(index, at)
	}
	return at
}

// funcTablesAlign is the alignment of runtime.functab: none of the data in it
// needs more.
const funcTablesAlign = 32

// noNames has an offset for the name of each function that will have one.
func noNames(ctxt *Link, funcs []loader.Sym) map[loader.Sym]uint32 {
	offsets := map[loader.Sym]uint32{}
	walkFuncs(ctxt, funcs, func(s loader.Sym) { offsets[s] = 0 })
	return offsets
}

// nameInlined fills in the names' offsets of inlined calls: runtime.inlinedCall
// has it at 4 of 16 bytes.
func nameInlined(ctxt *Link, trees map[loader.Sym]loader.Sym, offsets map[loader.Sym]uint32) {
	ldr := ctxt.loader
	for f, tree := range trees {
		info := ldr.FuncInfo(f)
		info.Preload()
		for i := range int(info.NumInlTree()) {
			ldr.MakeSymbolUpdater(tree).SetUint32(ctxt.Arch, int64(i)*16+4, offsets[info.InlTree(i).Func])
		}
	}
}

// pick is the functions of a part.
func pick(funcs []loader.Sym, part []int) []loader.Sym {
	out := make([]loader.Sym, len(part))
	for i, j := range part {
		out[i] = funcs[j]
	}
	return out
}

// listedConstant says whether s is a constant that the list names. Those are
// one group, whatever they are: they need not lie with their kind.
func listedConstant(ldr *loader.Loader, s loader.Sym) bool {
	return order[orderData][ldr.SymName(s)] != 0
}

// layOutData is the first key by which a kind's symbols are sorted. Those of
// no size stay in front: some of them mark where the kind begins. .gopclntab
// follows .rodata, .data follows .noptrdata: so that what the list names of
// two neighbours is one piece, the one has it at its end, the first touched
// last, and the other at its beginning.
func layOutData(ldr *loader.Loader, symn sym.SymKind, s loader.Sym) int {
	if len(order) == 0 {
		return 0
	}
	if ldr.SymSize(s) == 0 && !listedConstant(ldr, s) { // a listed one gets its contents later
		return -1 << 30
	}
	switch symn {
	case sym.SRODATA, sym.SNOPTRDATA:
		return -rank(ldr, orderData, s)
	case sym.SDATA:
		return rank(ldr, orderData, s)
	}
	return 0
}

// layOutFuncTables puts runtime.findfunctab, in which a boot looks at a few
// pages, behind the header and before the tables that end with what no boot
// looks at. The runtime finds each of them by its address.
func layOutFuncTables(ldr *loader.Loader, list []symNameSize) {
	if len(order) == 0 {
		return
	}
	tables := slices.IndexFunc(list, func(s symNameSize) bool { return ldr.SymName(s.sym) == "runtime.functab" })
	way := slices.IndexFunc(list, func(s symNameSize) bool { return ldr.SymName(s.sym) == "runtime.findfunctab" })
	if tables < 0 || way < tables {
		return
	}
	s := list[way]
	copy(list[tables+1:way+1], list[tables:way])
	list[tables] = s
}

// writeOrderMap says where everything lies: lines "ADDRESS SIZE KIND NAME".
func (ctxt *Link) writeOrderMap(pcln *pclntab) {
	if *flagOrderMap == "" {
		return
	}
	f, err := os.Create(*flagOrderMap)
	if err != nil {
		Exitf("-ordermap: %v", err)
	}
	w := bufio.NewWriter(f)
	ldr := ctxt.loader
	line := func(addr, size int64, kind, name string) {
		if strings.HasPrefix(name, `"`) || strconv.Quote(name) != `"`+name+`"` {
			name = strconv.Quote(name)
		}
		fmt.Fprintf(w, "%x %x %s %s\n", addr, size, kind, name)
	}
	for _, s := range ctxt.Textp {
		line(ldr.SymValue(s), ldr.SymSize(s), "TEXT", ldr.SymName(s))
	}
	for _, s := range ctxt.datap {
		line(ldr.SymValue(s), ldr.SymSize(s), ldr.SymType(s).String(), ldr.SymName(s))
	}
	table := ldr.SymValue(pcln.pclntab)
	for i, s := range pcln.tables.funcs {
		line(table+int64(pcln.starts[i]), 0, "FUNC", ldr.SymName(s))
	}
	for _, s := range []loader.Sym{pcln.pcheader, pcln.pclntab, pcln.cutab, pcln.filetab, pcln.findfunctab} {
		line(ldr.SymValue(s), ldr.SymSize(s), "PCLN", ldr.SymName(s))
	}
	if err := w.Flush(); err != nil {
		Exitf("-ordermap: %v", err)
	}
	if err := f.Close(); err != nil {
		Exitf("-ordermap: %v", err)
	}
}
