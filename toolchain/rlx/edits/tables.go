package edits

// tableEdits are the runtime's side of a binary whose files and lines are in a
// symbol file (linkerEdits): a trace has a pc where a line would be. What they
// call is in _new/runtime/symfile.go. A binary with lines is not touched by
// them.
var tableEdits = []Edit{
	{
		Name: "header of tables without lines: build ID",
		File: "runtime/symtab.go",
		Why:  "The word is not in use: it was the text's start once.",
		Old: `	// with Delve.
	_ uintptr
`,
		New: `	// with Delve. Where there is a symbol file (pad1 is not 0), it is the
	// offset from pcHeader of the build ID, which a NUL ends.
	buildID uintptr
`,
	},
	{
		Name: "header of tables without lines: accepted",
		File: "runtime/symtab.go",
		Why:  "The byte keeps tools that expect lines from such a table.",
		Old:  "hdr.magic != abi.CurrentPCLnTabMagic || hdr.pad1 != 0 || hdr.pad2 != 0 ||",
		New:  "hdr.magic != abi.CurrentPCLnTabMagic || hdr.pad1 > 2 || hdr.pad2 != 0 ||",
	},
	{
		Name: "a frame of a trace",
		File: "runtime/traceback.go",
		Why:  "The pc says for each frame, inlined ones too, what its line would say.",
		Old: `			print(")\n")
			print("\t", file, ":", line)
			if !iu.isInlined(uf) {
`,
		New: `			print(")\n")
			printPosition(file, line, uf.pc)
			if !iu.isInlined(uf) {
`,
	},
	{
		Name: "a trace's arguments",
		File: "runtime/traceback.go",
		Why:  "Without the description of arguments it would seem that there are none.",
		Old: `	if p == nil {
		return
	}

	liveInfo`,
		New: `	if p == nil {
		if linesApart() {
			print("...")
		}
		return
	}

	liveInfo`,
	},
	{
		Name: "who started a goroutine",
		File: "runtime/traceback.go",
		Why:  "As for a frame.",
		Old: `	file, line := funcline(f, tracepc)
	print("\t", file, ":", line)
`,
		New: `	file, line := funcline(f, tracepc)
	printPosition(file, int(line), tracepc)
`,
	},
	{
		Name: "a frame of an ancestor",
		File: "runtime/traceback.go",
		Why:  "As for a frame.",
		Old: `	print("(...)\n")
	print("\t", file, ":", line)
	if pc > f.entry() {
`,
		New: `	print("(...)\n")
	printPosition(file, line, uf.pc)
	if pc > f.entry() {
`,
	},
	{
		Name: "the build ID of a crash",
		File: "runtime/panic.go",
		Why:  "It tells which symbol file knows the pcs.",
		Old: `	level, all, docrash := gotraceback()
	if level > 0 {
		if gp != gp.m.curg {
`,
		New: `	level, all, docrash := gotraceback()
	if level > 0 {
		printBuildID()
		if gp != gp.m.curg {
`,
	},
	{
		Name: "the build ID of a fatal signal",
		File: "runtime/signal_unix.go",
		Why:  "As above.",
		Old: `	if level > 0 {
		goroutineheader(gp)
`,
		New: `	if level > 0 {
		printBuildID()
		goroutineheader(gp)
`,
	},
	{
		Name: "inlined calls that are not all there",
		File: "runtime/symtabinl.go",
		Why:  "With the linker's -noinltree, every frame is one with code of its own.",
		Old:  "	if inldata == nil {\n",
		New:  "	if inldata == nil || inlinedApart() {\n",
	},
	{
		Name: "a function without a name is shown",
		File: "runtime/traceback.go",
		Why:  "With the linker's -nonames only the runtime's functions have one, and others are what a trace is for.",
		Old: `	name := sf.name()

	// Special case: always show runtime.gopanic frame
`,
		New: `	name := sf.name()
	if name == "" && linesApart() {
		return true
	}

	// Special case: always show runtime.gopanic frame
`,
	},
	{
		Name: "a function without a name is printed",
		File: "runtime/traceback.go",
		Why:  "As above. The mark is what the symbol file's reader replaces.",
		Old: `		print("panic")
		return
	}
	a, b, c :=`,
		New: `		print("panic")
		return
	}
	if name == "" && linesApart() {
		name = "?"
	}
	a, b, c :=`,
	},
	{
		Name: "a method without a name that a nil pointer has not",
		File: "runtime/error.go",
		Why:  "The panic's text was made of the name, and a name without its parts was fatal.",
		Old: `	name := funcNameForPrint(funcname(findfunc(pc)))
	// name is something like "main.(*T).F".
`,
		New: `	name := funcNameForPrint(funcname(findfunc(pc)))
	if name == "" {
		panic(plainError("value method called using nil pointer"))
	}
	// name is something like "main.(*T).F".
`,
	},
	{
		Name: "a function without a name has no package",
		File: "runtime/symtab.go",
		Why:  "With -nonames: GODEBUG=inittrace=1 ended the program.",
		Old: `	name := funcNameForPrint(funcname(f))
	i := len(name) - 1
`,
		New: `	name := funcNameForPrint(funcname(f))
	if name == "" {
		return ""
	}
	i := len(name) - 1
`,
	},
	{
		Name: "where a function starts: with it",
		File: "runtime/symtab.go",
		Why: `The table of functions has each one's start, and leads to its description, which
had it as well: 25 KiB of flash, as neither compresses. Who has found the
description comes from the table.`,
		Old: `type funcInfo struct {
	*_func
	datap *moduledata
}
`,
		New: `type funcInfo struct {
	*_func
	datap *moduledata
	// entryOff is the start, from the text's; the description has it only where
	// there are lines.
	entryOff uint32
}
`,
	},
	{
		Name: "where a function starts: found by pc",
		File: "runtime/symtab.go",
		Why:  "As above.",
		Old: `	funcoff := datap.ftab[idx].funcoff
	return funcInfo{(*_func)(unsafe.Pointer(&datap.pclntable[funcoff])), datap}
`,
		New: `	return datap.funcAt(int(idx))
`,
	},
	{
		Name: "where a function starts: found by description",
		File: "runtime/symtab.go",
		Why:  "As above.",
		Old: `	return funcInfo{f, mod}
}
`,
		New: `	return funcInfo{f, mod, mod.entryOff(f)}
}
`,
	},
	{
		Name: "where a function starts: tables that are not sorted",
		File: "runtime/symtab.go",
		Why:  "As above.",
		Old: `			f1 := funcInfo{(*_func)(unsafe.Pointer(&datap.pclntable[datap.ftab[i].funcoff])), datap}
			f2 := funcInfo{(*_func)(unsafe.Pointer(&datap.pclntable[datap.ftab[i+1].funcoff])), datap}
`,
		New: `			f1, f2 := datap.funcAt(i), datap.funcAt(i+1)
`,
	},
	{
		Name: "where a function starts: what is before these",
		File: "runtime/symtab.go",
		Why:  "As above.",
		Old:  "funcname(funcInfo{(*_func)(unsafe.Pointer(&datap.pclntable[datap.ftab[j].funcoff])), datap}))",
		New:  "funcname(datap.funcAt(j)))",
	},
	{
		Name: "where a function starts: in a plugin",
		File: "runtime/plugin.go",
		Why:  "As above.",
		Old:  "		f := funcInfo{(*_func)(unsafe.Pointer(&md.pclntable[md.ftab[i].funcoff])), md}\n",
		New:  "		f := md.funcAt(i)\n",
	},
}
