package edits

// linkerEdits make the linker lay a binary out by what its boot touches, leave
// file and line tables to a file of their own, and say in the ELF header which
// CPU it is for. What they call is in _new/cmd/link/internal/ld.
//
// Why the layout: the kernel reads 128 KiB around a page that is missing, and each byte of
// it costs about 100 instructions of decompression, which was seven eighths of
// what the boot of this userland costs. Go's linker lays functions out package
// by package, so that nearly all of a binary was read; laid out by their first
// use, it is a third.
//
// Why the tables: of what Go's tables of functions take in a compressed file
// system, files and lines are two fifths, and nothing but a printed line of a
// trace needs them. The runtime's side is tableEdits.
var linkerEdits = []Edit{
	{
		Name: "functions in the list's order",
		File: "cmd/link/internal/ld/lib.go",
		Why:  "The list's functions come first. Every later pass takes them in this order.",
		Old:  "	ctxt.Textp = ctxt.loader.AssignTextSymbolOrder(ctxt.Library, intlibs, ctxt.Textp)\n",
		New: `	ctxt.Textp = ctxt.loader.AssignTextSymbolOrder(ctxt.Library, intlibs, ctxt.Textp)
	ctxt.layOutText()
`,
	},
	{
		Name: "constants and variables: the sort's first key",
		File: "cmd/link/internal/ld/data.go",
		Why:  "They were sorted by size alone.",
		Old:  "		sl[k] = symNameSize{sz: ss, sym: s}\n",
		New:  "		sl[k] = symNameSize{sz: ss, sym: s, val: int64(layOutData(ldr, symn, s))}\n",
	},
	{
		Name: "constants and variables: the sort",
		File: "cmd/link/internal/ld/data.go",
		Why:  "As above.",
		Old: `				return false
			}
			if sortBySize {
`,
		New: `				return false
			case sl[i].val != sl[j].val:
				return sl[i].val < sl[j].val
			}
			if sortBySize {
`,
	},
	{
		Name: "the list's constants are one group",
		File: "cmd/link/internal/ld/symtab.go",
		Why: `Types, strings and other constants lie in groups of their own in .rodata, each
with a part that the boot touches: several pieces where one will do. The
runtime finds types by their offset from .rodata's start and strings by address.`,
		Old: `		name := ldr.SymName(s)
		switch {
		case strings.HasPrefix(name, "go:string."):
`,
		New: `		name := ldr.SymName(s)
		switch {
		case listedConstant(ldr, s):
			symGroupType[s] = sym.SRODATA
			ldr.SetAttrNotInSymbolTable(s, true)

		case strings.HasPrefix(name, "go:string."):
`,
	},
	{
		Name: "tables of functions: where",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "Names, pc tables, data and descriptions share a symbol: see funcTables.",
		Old: `	// Running total size of pclntab.
	size int64
`,
		New: `	// Running total size of pclntab.
	size int64

	// The tables in runtime.functab, and where in it descriptions are.
	tables *funcTables
	starts []uint32
`,
	},
	{
		Name: "tables of functions: names",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `	var size int64
	walkFuncs(ctxt, funcs, func(s loader.Sym) {
		nameOffsets[s] = uint32(size)
		size += int64(len(ctxt.loader.SymName(s)) + 1) // NULL terminate
	})

	state.funcnametab = state.addGeneratedSym(ctxt, "runtime.funcnametab", size, 1, writeFuncNameTab)
	return nameOffsets
`,
		New: `	state.tables.addNames(writeFuncNameTab, func(part []int, size int64) int64 {
		walkFuncs(ctxt, pick(funcs, part), func(s loader.Sym) {
			if _, ok := nameOffsets[s]; ok || !keptName(ctxt.loader.SymName(s)) {
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
		Name: "tables of functions: pc tables' offsets",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	size := int64(1)\n",
		New:  "	size := int64(0) // never an offset: the table of entries is in front\n",
	},
	{
		Name: "tables of functions: pc tables' parts begin",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `	var pcdata []loader.Sym
	for _, s := range funcs {
		fi := ldr.FuncInfo(s)
		if !fi.Valid() {
			continue
		}
		fi.Preload()
		pcsp, pcfile, pcline, pcinline, pcdata = ldr.PcdataAuxs(s, pcdata)
`,
		New: `	var pcdata []loader.Sym
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
		pcdata = keptPCData(pcdata)
`,
	},
	{
		Name: "tables of functions: lines apart",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "Stacks are unwound without files and lines, which are half of the pc tables.",
		Old:  "		pcSyms := []loader.Sym{pcsp, pcfile, pcline}\n",
		New: `		pcSyms := []loader.Sym{pcsp}
		if lines {
			pcSyms, pcdata = []loader.Sym{pcfile, pcline}, nil
		}
`,
	},
	{
		Name: "tables of functions: pc tables' parts end",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `			saveOffset(pcinline)
		}
	}
`,
		New: `			saveOffset(pcinline)
		}
	}
	return size
	}
`,
	},
	{
		Name: "tables of functions: pc tables",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  `	state.pctab = state.addGeneratedSym(ctxt, "runtime.pctab", size, 1, writePctab)` + "\n",
		New: `	state.tables.add(writePctab, place)
	if !linesApart() {
		state.tables.placeLast = append(state.tables.placeLast, func(all []int, at int64) int64 {
			lines = true
			return place(all, at)
		})
	}
`,
	},
	{
		Name: "tables of functions: data, all of it",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	fdSyms := make([]loader.Sym, 0, len(funcs))\n",
		New:  "	placed := make([]loader.Sym, 0, len(funcs))\n",
	},
	{
		Name: "tables of functions: data's parts begin",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `	fd := []loader.Sym{}
	for _, s := range funcs {
`,
		New: `	fd := []loader.Sym{}
	place := func(part []int, size int64) int64 {
	fdSyms := []loader.Sym{}
	for _, s := range pick(funcs, part) {
`,
	},
	{
		Name: "tables of functions: data that an earlier part has",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	seen = nil\n",
		New:  "",
	},
	{
		Name: "tables of functions: data's offsets",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	// Accumulated size of funcdata info.\n	size := int64(0)\n",
		New:  "",
	},
	{
		Name: "tables of functions: data's parts end",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `		ldr.SetAttrSpecial(fdSym, true)
	}
`,
		New: `		ldr.SetAttrSpecial(fdSym, true)
	}
	placed = append(placed, fdSyms...)
	return size
	}
`,
	},
	{
		Name: "tables of functions: data is written",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `		for _, fdSym := range fdSyms {
			off := ldr.SymValue(fdSym)
`,
		New: `		for _, fdSym := range placed {
			off := ldr.SymValue(fdSym)
`,
	},
	{
		Name: "tables of functions: data",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `	state.funcdata = state.addGeneratedSym(ctxt, "go:func.*", size, maxAlign, writeFuncData)

	// Because the funcdata previously was not in pclntab,
	// we need to keep the visible symbol so that tools can find it.
	ldr.SetAttrNotInSymbolTable(state.funcdata, false)
`,
		New: "	state.tables.add(writeFuncData, place)\n",
	},
	{
		Name: "tables of functions: where data is",
		File: "cmd/link/internal/ld/symtab.go",
		Why:  "As above.",
		Old:  `	moduledata.AddAddr(ctxt.Arch, ldr.Lookup("go:func.*", 0))` + "\n",
		New:  "	moduledata.AddAddr(ctxt.Arch, pcln.funcdata)\n",
	},
	{
		Name: "tables of functions: descriptions",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `func (state *pclntab) generateFunctab(ctxt *Link, funcs []loader.Sym, inlSyms map[loader.Sym]loader.Sym, cuOffsets []uint32, nameOffsets map[loader.Sym]uint32) {
	// Calculate the size of the table.
	size, startLocations := state.calculateFunctabSize(ctxt, funcs)
	writePcln := func(ctxt *Link, s loader.Sym) {
`,
		New: `func (state *pclntab) generateFunctab(ctxt *Link, funcs []loader.Sym, inlSyms map[loader.Sym]loader.Sym, cuOffsets *[]uint32, nameOffsets *map[loader.Sym]uint32) {
	startLocations := make([]uint32, len(funcs))
	state.starts = startLocations
	writePcln := func(ctxt *Link, s loader.Sym) {
		cuOffsets, nameOffsets := *cuOffsets, *nameOffsets
`,
	},
	{
		Name: "tables of functions: descriptions' parts",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  `	state.pclntab = state.addGeneratedSym(ctxt, "runtime.functab", size, 4, writePcln)` + "\n",
		New: `	state.tables.add(writePcln, func(part []int, at int64) int64 {
		return state.calculateFunctabSize(ctxt, funcs, part, startLocations, at)
	})
`,
	},
	{
		Name: "tables of functions: size of descriptions",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `func (state pclntab) calculateFunctabSize(ctxt *Link, funcs []loader.Sym) (int64, []uint32) {
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
		New: `func (state pclntab) calculateFunctabSize(ctxt *Link, funcs []loader.Sym, part []int, startLocations []uint32, size int64) int64 {
	ldr := ctxt.loader
	for _, i := range part {
		s := funcs[i]
`,
	},
	{
		Name: "tables of functions: end of descriptions",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	return size, startLocations\n",
		New:  "	return size\n",
	},
	{
		Name: "tables of functions: in one symbol",
		File: "cmd/link/internal/ld/pcln.go",
		Why: `As above. The data of inlined calls has offsets of names, and its size is needed
before these are known: they are filled in behind.`,
		Old: `	nameOffsets := state.generateFuncnametab(ctxt, funcs)
	cuOffsets := state.generateFilenameTabs(ctxt, compUnits, funcs)
	state.generatePctab(ctxt, funcs)
	inlSyms := makeInlSyms(ctxt, funcs, nameOffsets)
	state.generateFunctab(ctxt, funcs, inlSyms, cuOffsets, nameOffsets)
	state.generateFuncdata(ctxt, funcs, inlSyms)
`,
		New: `	state.tables = &funcTables{ctxt: ctxt, funcs: funcs}
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
		Name: "tables of functions: the way to a function in front",
		File: "cmd/link/internal/ld/data.go",
		Why: `A boot looks at some pages of it, and behind the other tables they are a piece
of their own.`,
		Old: "		// PCLNTAB was built internally, and already has the proper order.\n",
		New: `		// PCLNTAB was built internally, and has the proper order but for one.
		layOutFuncTables(ldr, sl)
`,
	},
	{
		Name: "a map of the layout",
		File: "cmd/link/internal/ld/main.go",
		Why:  "What was touched is recorded by address; the list has names.",
		Old:  "	order := ctxt.address()\n",
		New: `	order := ctxt.address()
	ctxt.writeOrderMap(pclnState)
`,
	},
	{
		Name: "no names: names of functions that are looked up",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "With -nonames a function has offset 0, which the runtime knows as no name. See symfile.go.",
		Old:  "		nameOff, ok := nameOffsets[s]\n		if !ok {\n",
		New:  "		nameOff, ok := nameOffsets[s]\n		if !ok && keptName(ldr.SymName(s)) {\n",
	},
	{
		Name: "no lines: what a description leaves out",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "With -symfile, offset 0: the runtime knows it as no table. See symfile.go.",
		Old: `			off = sb.SetUint32(ctxt.Arch, off, uint32(ldr.SymValue(pcfile)))
			off = sb.SetUint32(ctxt.Arch, off, uint32(ldr.SymValue(pcline)))
`,
		New: `			off = sb.SetUint32(ctxt.Arch, off, lineTable(ldr, pcfile))
			off = sb.SetUint32(ctxt.Arch, off, lineTable(ldr, pcline))
`,
	},
	{
		Name: "no lines: the start of a function, once",
		File: "cmd/link/internal/ld/pcln.go",
		Why: `With -symfile a description does not repeat what the table that leads to it has,
which takes 25 KiB of flash: see tableEdits.`,
		Old: "		off = sb.SetUint32(ctxt.Arch, off, entryOff)\n",
		New: "		off = sb.SetUint32(ctxt.Arch, off, keptEntry(entryOff))\n",
	},
	{
		Name: "no lines: where a function starts",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above. Only profiles and traces of the scheduler have it.",
		Old:  "		off = sb.SetUint32(ctxt.Arch, off, uint32(startLine))\n",
		New:  "		off = sb.SetUint32(ctxt.Arch, off, uint32(keptLine(startLine)))\n",
	},
	{
		Name: "no lines: where an inlined function starts",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "		inlTreeSym.SetUint32(arch, int64(i*size+12), uint32(startLine))\n",
		New:  "		inlTreeSym.SetUint32(arch, int64(i*size+12), uint32(keptLine(startLine)))\n",
	},
	{
		Name: "no lines: files",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	cuEntries := make([]goobj.CUFileIndex, len(compUnits))\n",
		New: `	if linesApart() {
		funcs = nil
	}
	cuEntries := make([]goobj.CUFileIndex, len(compUnits))
`,
	},
	{
		Name: "no lines: how arguments are printed",
		File: "cmd/link/internal/ld/pcln.go",
		Why: `As above: what a trace prints of arguments, and what only the scheduler's tracer
needs. What is left out at the end needs no place either.`,
		Old: `			fdSyms[abi.FUNCDATA_InlTree] = inlSym
		}
	}
	return fdSyms
`,
		New: `			fdSyms[abi.FUNCDATA_InlTree] = inlSym
		}
	}
	if linesApart() {
		return keptFuncData(ldr, s, fi, fdSyms)
	}
	return fdSyms
`,
	},
	{
		Name: "no lines: no trees of inlined calls",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "With -noinltree. See symfile.go.",
		Old: `			fi.Preload()
			if fi.NumInlTree() > 0 {
				inlSyms[s] =`,
		New: `			fi.Preload()
			if keptInlTree(fi) > 0 {
				inlSyms[s] =`,
	},
	{
		Name: "no lines: no names of inlined functions",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `		for i, ni := 0, fi.NumInlTree(); i < int(ni); i++ {
`,
		New: `		for i, ni := 0, keptInlTree(fi); i < int(ni); i++ {
`,
	},
	{
		Name: "no lines: no table of inlined calls",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `		if fi.NumInlTree() > 0 {
			saveOffset(pcinline)
`,
		New: `		if keptInlTree(fi) > 0 {
			saveOffset(pcinline)
`,
	},
	{
		Name: "no preemption by signal: no table of places",
		File: "cmd/link/internal/ld/pcln.go",
		Why: `48 KiB of flash for where a signal may stop a goroutine. The runtime sends none:
see runtimeEdits. Goroutines stop where they call, and where they wait.`,
		Old: `				sb.SetUint32(ctxt.Arch, off+int64(j*4), uint32(ldr.SymValue(pcSym)))
			}
`,
		New: `				sb.SetUint32(ctxt.Arch, off+int64(j*4), pcTable(ldr, j, pcSym))
			}
`,
	},
	{
		Name: "no lines: number of pc tables",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `	if fi.NumInlTree() > 0 {
		if numPCData`,
		New: `	if keptInlTree(fi) > 0 {
		if numPCData`,
	},
	{
		Name: "no lines: no data of inlined calls",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `		if fi.NumInlTree() > 0 {
			if len(fdSyms)`,
		New: `		if keptInlTree(fi) > 0 {
			if len(fdSyms)`,
	},
	{
		Name: "no lines: no offset of inlined calls",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `			if fi.NumInlTree() > 0 {
				sb.SetUint32(ctxt.Arch, off+abi`,
		New: `			if keptInlTree(fi) > 0 {
				sb.SetUint32(ctxt.Arch, off+abi`,
	},
	{
		Name: "no lines: wrappers of inlined methods",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above: without its tree, what counts as no call would hide one.",
		Old:  "			funcID = fi.FuncID()\n",
		New:  "			funcID = keptFuncID(ldr, fi)\n",
	},
	{
		Name: "no lines: size of a description",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old: `			numFuncData := ldr.NumFuncdata(s)
			if fi.NumInlTree() > 0 {
				if numFuncData < abi.FUNCDATA_InlTree+1 {
					numFuncData = abi.FUNCDATA_InlTree + 1
				}
			}
`,
		New: `			numFuncData := len(funcData(ldr, s, fi, 0, nil))
`,
	},
	{
		Name: "no lines: the symbol file",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above. Its build ID is in the header, whose contents are made later.",
		Old:  "	state.generatePCHeader(ctxt)\n",
		New: `	state.generatePCHeader(ctxt)
	state.generateSymFile(ctxt, funcs)
`,
	},
	{
		Name: "no lines: the build ID's symbol",
		File: "cmd/link/internal/ld/pcln.go",
		Why:  "As above.",
		Old:  "	funcdata    loader.Sym\n",
		New: `	funcdata    loader.Sym
	buildID     loader.Sym // of the symbol file; 0 if lines are kept
`,
	},
	{
		Name: "no lines: a mark for readers",
		File: "cmd/link/internal/ld/pcln.go",
		Why: `As above. A byte that was 0 makes tools that expect lines refuse the table, and
a word that was 0 leads to the build ID.`,
		Old: `		off = header.SetUintptr(ctxt.Arch, off, 0) // unused
`,
		New: `		if state.buildID != 0 {
			header.SetUint8(ctxt.Arch, 4, apart())
			off = writeSymOffset(off, state.buildID)
		} else {
			off = header.SetUintptr(ctxt.Arch, off, 0)
		}
`,
	},
	{
		Name: "pages of the gateway",
		File: "cmd/link/internal/mips/obj.go",
		Why: `Segments begin at a page of the kernel's, 4 KiB: 64 KiB would put up to that much
of nothing between two that are read together.`,
		Old: "			*ld.FlagRound = 0x10000\n",
		New: "			*ld.FlagRound = 0x1000\n",
	},
	{
		Name: "ELF header: MIPS I",
		File: "cmd/link/internal/ld/elf.go",
		Why:  "The RLX4181 executes MIPS I, and that is all that our compiler emits.",
		Old:  "			ehdr.Flags = 0x50001004 // MIPS 32 CPIC O32\n",
		New:  "			ehdr.Flags = 0x00001004 // MIPS I CPIC O32\n",
	},
	{
		Name: "ELF ABI flags: MIPS I",
		File: "cmd/link/internal/ld/elf.go",
		Why:  "As above. There is no FPU.",
		Old: `	ctxt.Out.Write8(32) // isaLevel
	ctxt.Out.Write8(1)  // isaRev
	ctxt.Out.Write8(1)  // gprSize
	ctxt.Out.Write8(1)  // cpr1Size
`,
		New: `	ctxt.Out.Write8(1) // isaLevel
	ctxt.Out.Write8(0) // isaRev
	ctxt.Out.Write8(1) // gprSize
	ctxt.Out.Write8(0) // cpr1Size
`,
	},
}
