package main

// linkEdits make a linker of the installed one that lays a binary out by what
// its boot touches. What they call is in link/order.go.
//
// Why: the kernel reads 128 KiB around a page that is missing, and each byte of
// it costs about 100 instructions of decompression, which was seven eighths of
// what the boot of this userland costs. Go's linker lays functions out package
// by package, so that nearly all of a binary was read; laid out by their first
// use, it is a third.
var linkEdits = []edit{
	{
		name: "functions in the list's order",
		file: "cmd/link/internal/ld/lib.go",
		why:  "The list's functions come first. Every later pass takes them in this order.",
		old:  "	ctxt.Textp = ctxt.loader.AssignTextSymbolOrder(ctxt.Library, intlibs, ctxt.Textp)\n",
		new: `	ctxt.Textp = ctxt.loader.AssignTextSymbolOrder(ctxt.Library, intlibs, ctxt.Textp)
	ctxt.layOutText()
`,
	},
	{
		name: "constants and variables: the sort's first key",
		file: "cmd/link/internal/ld/data.go",
		why:  "They were sorted by size alone.",
		old:  "		sl[k] = symNameSize{sz: ss, sym: s}\n",
		new:  "		sl[k] = symNameSize{sz: ss, sym: s, val: int64(layOutData(ldr, symn, s))}\n",
	},
	{
		name: "constants and variables: the sort",
		file: "cmd/link/internal/ld/data.go",
		why:  "As above.",
		old: `				return false
			}
			if sortBySize {
`,
		new: `				return false
			case sl[i].val != sl[j].val:
				return sl[i].val < sl[j].val
			}
			if sortBySize {
`,
	},
	{
		name: "the list's constants are one group",
		file: "cmd/link/internal/ld/symtab.go",
		why: `Types, strings and other constants lie in groups of their own in .rodata, each
with a part that the boot touches: several pieces where one will do. The
runtime finds types by their offset from .rodata's start and strings by address.`,
		old: `		name := ldr.SymName(s)
		switch {
		case strings.HasPrefix(name, "go:string."):
`,
		new: `		name := ldr.SymName(s)
		switch {
		case listedConstant(ldr, s):
			symGroupType[s] = sym.SRODATA
			ldr.SetAttrNotInSymbolTable(s, true)

		case strings.HasPrefix(name, "go:string."):
`,
	},
	{
		name: "tables of functions: where",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "Names, pc tables, data and descriptions share a symbol: see funcTables.",
		old: `	// Running total size of pclntab.
	size int64
`,
		new: `	// Running total size of pclntab.
	size int64

	// The tables in runtime.functab, and where in it descriptions are.
	tables *funcTables
	starts []uint32
`,
	},
	{
		name: "tables of functions: names",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `	var size int64
	walkFuncs(ctxt, funcs, func(s loader.Sym) {
		nameOffsets[s] = uint32(size)
		size += int64(len(ctxt.loader.SymName(s)) + 1) // NULL terminate
	})

	state.funcnametab = state.addGeneratedSym(ctxt, "runtime.funcnametab", size, 1, writeFuncNameTab)
	return nameOffsets
`,
		new: `	state.tables.add(writeFuncNameTab, func(part []int, size int64) int64 {
		walkFuncs(ctxt, pick(funcs, part), func(s loader.Sym) {
			if _, ok := nameOffsets[s]; ok {
				return
			}
			nameOffsets[s] = uint32(size)
			size += int64(len(ctxt.loader.SymName(s)) + 1) // NULL terminate
		})
		return size
	})
	return nameOffsets
`,
	},
	{
		name: "tables of functions: pc tables' offsets",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  "	size := int64(1)\n",
		new:  "	size := int64(0) // never an offset: the table of entries is in front\n",
	},
	{
		name: "tables of functions: pc tables' parts begin",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `	var pcdata []loader.Sym
	for _, s := range funcs {
		fi := ldr.FuncInfo(s)
		if !fi.Valid() {
			continue
		}
		fi.Preload()
		pcsp, pcfile, pcline, pcinline, pcdata = ldr.PcdataAuxs(s, pcdata)
`,
		new: `	var pcdata []loader.Sym
	lines := false
	place := func(part []int, at int64) int64 {
	size = at
	for _, s := range pick(funcs, part) {
		fi := ldr.FuncInfo(s)
		if !fi.Valid() {
			continue
		}
		fi.Preload()
		pcsp, pcfile, pcline, pcinline, pcdata = ldr.PcdataAuxs(s, pcdata)
`,
	},
	{
		name: "tables of functions: lines apart",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "Stacks are unwound without files and lines, which are half of the pc tables.",
		old:  "		pcSyms := []loader.Sym{pcsp, pcfile, pcline}\n",
		new: `		pcSyms := []loader.Sym{pcsp}
		if lines {
			pcSyms, pcdata = []loader.Sym{pcfile, pcline}, nil
		}
`,
	},
	{
		name: "tables of functions: pc tables' parts end",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `			saveOffset(pcinline)
		}
	}
`,
		new: `			saveOffset(pcinline)
		}
	}
	return size
	}
`,
	},
	{
		name: "tables of functions: pc tables",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  `	state.pctab = state.addGeneratedSym(ctxt, "runtime.pctab", size, 1, writePctab)` + "\n",
		new: `	state.tables.add(writePctab, place)
	state.tables.placeLast = append(state.tables.placeLast, func(all []int, at int64) int64 {
		lines = true
		return place(all, at)
	})
`,
	},
	{
		name: "tables of functions: data, all of it",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  "	fdSyms := make([]loader.Sym, 0, len(funcs))\n",
		new:  "	placed := make([]loader.Sym, 0, len(funcs))\n",
	},
	{
		name: "tables of functions: data's parts begin",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `	fd := []loader.Sym{}
	for _, s := range funcs {
`,
		new: `	fd := []loader.Sym{}
	place := func(part []int, size int64) int64 {
	fdSyms := []loader.Sym{}
	for _, s := range pick(funcs, part) {
`,
	},
	{
		name: "tables of functions: data that an earlier part has",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  "	seen = nil\n",
		new:  "",
	},
	{
		name: "tables of functions: data's offsets",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  "	// Accumulated size of funcdata info.\n	size := int64(0)\n",
		new:  "",
	},
	{
		name: "tables of functions: data's parts end",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `		ldr.SetAttrSpecial(fdSym, true)
	}
`,
		new: `		ldr.SetAttrSpecial(fdSym, true)
	}
	placed = append(placed, fdSyms...)
	return size
	}
`,
	},
	{
		name: "tables of functions: data is written",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `		for _, fdSym := range fdSyms {
			off := ldr.SymValue(fdSym)
`,
		new: `		for _, fdSym := range placed {
			off := ldr.SymValue(fdSym)
`,
	},
	{
		name: "tables of functions: data",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `	state.funcdata = state.addGeneratedSym(ctxt, "go:func.*", size, maxAlign, writeFuncData)

	// Because the funcdata previously was not in pclntab,
	// we need to keep the visible symbol so that tools can find it.
	ldr.SetAttrNotInSymbolTable(state.funcdata, false)
`,
		new: "	state.tables.add(writeFuncData, place)\n",
	},
	{
		name: "tables of functions: where data is",
		file: "cmd/link/internal/ld/symtab.go",
		why:  "As above.",
		old:  `	moduledata.AddAddr(ctxt.Arch, ldr.Lookup("go:func.*", 0))` + "\n",
		new:  "	moduledata.AddAddr(ctxt.Arch, pcln.funcdata)\n",
	},
	{
		name: "tables of functions: descriptions",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `func (state *pclntab) generateFunctab(ctxt *Link, funcs []loader.Sym, inlSyms map[loader.Sym]loader.Sym, cuOffsets []uint32, nameOffsets map[loader.Sym]uint32) {
	// Calculate the size of the table.
	size, startLocations := state.calculateFunctabSize(ctxt, funcs)
	writePcln := func(ctxt *Link, s loader.Sym) {
`,
		new: `func (state *pclntab) generateFunctab(ctxt *Link, funcs []loader.Sym, inlSyms map[loader.Sym]loader.Sym, cuOffsets *[]uint32, nameOffsets *map[loader.Sym]uint32) {
	startLocations := make([]uint32, len(funcs))
	state.starts = startLocations
	writePcln := func(ctxt *Link, s loader.Sym) {
		cuOffsets, nameOffsets := *cuOffsets, *nameOffsets
`,
	},
	{
		name: "tables of functions: descriptions' parts",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  `	state.pclntab = state.addGeneratedSym(ctxt, "runtime.functab", size, 4, writePcln)` + "\n",
		new: `	state.tables.add(writePcln, func(part []int, at int64) int64 {
		return state.calculateFunctabSize(ctxt, funcs, part, startLocations, at)
	})
`,
	},
	{
		name: "tables of functions: size of descriptions",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old: `func (state pclntab) calculateFunctabSize(ctxt *Link, funcs []loader.Sym) (int64, []uint32) {
	ldr := ctxt.loader
	startLocations := make([]uint32, len(funcs))

	// Allocate space for the pc->func table. This structure consists of a pc offset
	// and an offset to the func structure. After that, we have a single pc
	// value that marks the end of the last function in the binary.
	size := int64(int(state.nfunc)*2*4 + 4)

	// Now find the space for the func objects. We do this in a running manner,
	// so that we can find individual starting locations.
	for i, s := range funcs {
`,
		new: `func (state pclntab) calculateFunctabSize(ctxt *Link, funcs []loader.Sym, part []int, startLocations []uint32, size int64) int64 {
	ldr := ctxt.loader
	for _, i := range part {
		s := funcs[i]
`,
	},
	{
		name: "tables of functions: end of descriptions",
		file: "cmd/link/internal/ld/pcln.go",
		why:  "As above.",
		old:  "	return size, startLocations\n",
		new:  "	return size\n",
	},
	{
		name: "tables of functions: in one symbol",
		file: "cmd/link/internal/ld/pcln.go",
		why: `As above. The data of inlined calls has offsets of names, and its size is needed
before these are known: they are filled in behind.`,
		old: `	nameOffsets := state.generateFuncnametab(ctxt, funcs)
	cuOffsets := state.generateFilenameTabs(ctxt, compUnits, funcs)
	state.generatePctab(ctxt, funcs)
	inlSyms := makeInlSyms(ctxt, funcs, nameOffsets)
	state.generateFunctab(ctxt, funcs, inlSyms, cuOffsets, nameOffsets)
	state.generateFuncdata(ctxt, funcs, inlSyms)
`,
		new: `	state.tables = &funcTables{ctxt: ctxt, funcs: funcs}
	var nameOffsets map[loader.Sym]uint32
	var cuOffsets []uint32
	inlSyms := makeInlSyms(ctxt, funcs, noNames(ctxt, funcs))
	state.generateFunctab(ctxt, funcs, inlSyms, &cuOffsets, &nameOffsets)
	nameOffsets = state.generateFuncnametab(ctxt, funcs)
	state.generatePctab(ctxt, funcs)
	state.generateFuncdata(ctxt, funcs, inlSyms)
	// In front is the pc->func table: a pc offset and an offset to the func
	// structure for each, and the pc behind the last function.
	size := state.tables.layOut(int64(int(state.nfunc)*2*4 + 4))
	nameInlined(ctxt, inlSyms, nameOffsets)
	state.pclntab = state.addGeneratedSym(ctxt, "runtime.functab", size, funcTablesAlign, func(ctxt *Link, s loader.Sym) {
		for _, write := range state.tables.write {
			write(ctxt, s)
		}
	})
	state.funcnametab, state.pctab, state.funcdata = state.pclntab, state.pclntab, state.pclntab
	cuOffsets = state.generateFilenameTabs(ctxt, compUnits, funcs)
`,
	},
	{
		name: "a map of the layout",
		file: "cmd/link/internal/ld/main.go",
		why:  "What was touched is recorded by address; the list has names.",
		old:  "	order := ctxt.address()\n",
		new: `	order := ctxt.address()
	ctxt.writeOrderMap(pclnState)
`,
	},
}
