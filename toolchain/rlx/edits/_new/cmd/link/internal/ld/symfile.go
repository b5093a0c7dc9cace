package ld

import (
	"bytes"
	"cmd/internal/obj"
	"cmd/link/internal/loader"
	"compress/zlib"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"fmt"
	"internal/abi"
	"internal/buildcfg"
	"os"
	"slices"
	"strings"
)

var (
	// flagSymFile asks for a binary without files and lines. What prints them
	// is not the program but a workstation that has the symbol file and a
	// trace: the program's traces have a pc in place of a line, and the build
	// ID. runtime.Caller and its kin know no lines either.
	flagSymFile = flag.String("symfile", "", "leave file and line tables out of the binary and write them to `file`")
	// flagNoInlTree leaves inlined calls to the symbol file too: traces and
	// runtime.Callers then have one frame for a function and what is inlined
	// in it.
	flagNoInlTree = flag.Bool("noinltree", false, "with -symfile: leave inlined calls out of the binary too")
	// flagNoNames leaves names of functions to it: a frame of a trace then has a
	// question mark, and runtime.Func no name.
	flagNoNames = flag.Bool("nonames", false, "with -symfile: leave names of functions out of the binary, too, but for the runtime's")
)

// linesApart says whether files and lines are left to the symbol file.
func linesApart() bool { return *flagSymFile != "" }

// apart is what the header's byte says: 1 if files and lines are left to the
// symbol file, 2 if inlined calls are too.
func apart() uint8 {
	if *flagNoInlTree {
		return 2
	}
	return 1
}

// lineTable is the offset of a table of files or lines, 0 if it is left out.
// (The symbol may have an offset all the same: equal tables share one.)
func lineTable(ldr *loader.Loader, table loader.Sym) uint32 {
	if linesApart() {
		return 0
	}
	return uint32(ldr.SymValue(table))
}

// noPreemption says whether the runtime preempts no goroutine by a signal, and so
// looks at no table of the places where it may: preemptMSupported.
func noPreemption() bool { return buildcfg.GOARCH == "mips" }

// keptPCData is a function's pc tables without that one.
func keptPCData(tables []loader.Sym) []loader.Sym {
	if !noPreemption() || len(tables) <= abi.PCDATA_UnsafePoint {
		return tables
	}
	return slices.Delete(tables, abi.PCDATA_UnsafePoint, abi.PCDATA_UnsafePoint+1)
}

// pcTable is the offset of a function's pc table of that number, 0 if it is
// left out. (The symbol may have an offset all the same, as above.)
func pcTable(ldr *loader.Loader, number int, table loader.Sym) uint32 {
	if noPreemption() && number == abi.PCDATA_UnsafePoint {
		return 0
	}
	return uint32(ldr.SymValue(table))
}

// keptEntry is where a function starts, as its description has it. The runtime
// has it from the table of functions.
func keptEntry(off uint32) uint32 {
	if linesApart() {
		return 0
	}
	return off
}

// keptLine is the line at which a function starts, as the binary has it.
func keptLine(line int32) int32 {
	if linesApart() {
		return 0
	}
	return line
}

// keptInlTree is how many inlined calls of a function the binary tells of. With
// -noinltree it is none: but for traces, only a runtime that preempts by signals
// looks at them.
func keptInlTree(fi loader.FuncInfo) uint32 {
	if *flagNoInlTree {
		return 0
	}
	return fi.NumInlTree()
}

// ofRuntime says whether a function is one of the runtime's own, or of reflect's.
func ofRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "internal/runtime/") || strings.HasPrefix(name, "reflect.")
}

// keptName says whether the binary has a function's name. The runtime looks at
// its own and at reflect's: which goroutines are its, and what to leave out of a trace.
func keptName(name string) bool {
	return !*flagNoNames || ofRuntime(name)
}

// keptFuncID is a function's ID. A wrapper counts as no call, for traces and
// for recover. Where calls inlined in it are not told of, it stands for them,
// unless they are wrappers too.
func keptFuncID(ldr *loader.Loader, fi loader.FuncInfo) abi.FuncID {
	id := fi.FuncID()
	if !*flagNoInlTree || id != abi.FuncIDWrapper {
		return id
	}
	for i := range int(fi.NumInlTree()) {
		if f := ldr.FuncInfo(fi.InlTree(i).Func); !f.Valid() || f.FuncID() != abi.FuncIDWrapper {
			return abi.FuncIDNormal
		}
	}
	return id
}

// keptFuncData is the data of a function without what traces print of its
// arguments and what the scheduler's tracer needs, and without a tail of
// nothing.
func keptFuncData(ldr *loader.Loader, s loader.Sym, fi loader.FuncInfo, data []loader.Sym) []loader.Sym {
	for _, j := range []int{abi.FUNCDATA_ArgInfo, abi.FUNCDATA_ArgLiveInfo, abi.FUNCDATA_WrapInfo} {
		if j < len(data) {
			data[j] = 0
		}
	}
	for n := len(data); n > 0; n = len(data) {
		if n-1 == abi.FUNCDATA_InlTree && keptInlTree(fi) > 0 || !ignoreFuncData(ldr, s, n-1, data[n-1]) {
			break
		}
		data = data[:n-1]
	}
	return data
}

// symFileVersion is the first word of a symbol file. The format:
//
//	"gwsym 1 " ID "\n"   ID is symIDLen lower-case hexadecimal digits
//	a zlib stream        of what follows; ID is the start of its SHA-256
//
// Numbers are unsigned LEB128, or signed (zigzag) where a difference is said.
//
//	number of strings, then each with its length in front
//	quantum: the unit of pcs in rows, in bytes
//	number of functions, then in the order of their addresses each one's
//		bytes between the end of the one before (at first, of 0) and its entry
//		size in bytes
//		name, an index of the strings
//		line of the keyword func, 0 if not known
//		number of inlined calls, then of each
//			name, an index of the strings
//			offset from the entry of the call that was inlined, in bytes
//		number of rows, then of each
//			quanta from the row before (at first, from the entry)
//			difference of file: 0 is none, i+1 is string i
//			difference of line
//			difference of inlined call: 0 is none, i+1 is call i
//
// A row is in force up to the next one, the last one to the function's end. An
// instruction of an inlined call has the file and the line within that; those
// of its caller are the ones in force at the call's offset.
const symFileVersion = "gwsym 1 "

// symIDLen is the length of a build ID in hexadecimal digits.
const symIDLen = 20

// generateSymFile writes the symbol file and makes the symbol that holds the
// build ID. Functions have their addresses by now.
func (state *pclntab) generateSymFile(ctxt *Link, funcs []loader.Sym) {
	if !linesApart() {
		if *flagNoInlTree || *flagNoNames {
			Exitf("-noinltree and -nonames need -symfile")
		}
		return
	}
	if *flagNoInlTree && !noPreemption() {
		Exitf("-noinltree is for GOARCH=mips: the runtime of %s looks at inlined calls to preempt", buildcfg.GOARCH)
	}
	contents := symFileContents(ctxt, funcs)
	sum := sha256.Sum256(contents)
	id := hex.EncodeToString(sum[:])[:symIDLen]

	var file bytes.Buffer
	file.WriteString(symFileVersion + id + "\n")
	z := zlib.NewWriter(&file)
	z.Write(contents) // a buffer takes everything
	if err := z.Close(); err != nil {
		Exitf("-symfile: %v", err)
	}
	if err := os.WriteFile(*flagSymFile, file.Bytes(), 0o666); err != nil {
		Exitf("-symfile: %v", err)
	}

	state.buildID = state.addGeneratedSym(ctxt, "runtime.pclnbuildid", symIDLen+1, 1, func(ctxt *Link, s loader.Sym) {
		ctxt.loader.MakeSymbolUpdater(s).AddCStringAt(0, id)
	})
}

// symFileContents is what the zlib stream of the symbol file holds.
func symFileContents(ctxt *Link, funcs []loader.Sym) []byte {
	ldr := ctxt.loader
	var list []string
	index := map[string]uint64{}
	str := func(s string) uint64 {
		i, ok := index[s]
		if !ok {
			i = uint64(len(list))
			index[s], list = i, append(list, s)
		}
		return i
	}

	var b []byte
	num := func(v uint64) { b = binary.AppendUvarint(b, v) }
	diff := func(v, before int64) { b = binary.AppendVarint(b, v-before) }
	quantum := uint32(ctxt.Arch.MinLC)
	num(uint64(len(funcs)))
	end := int64(0)
	var pcdata []loader.Sym
	for _, s := range funcs {
		entry, size := ldr.SymValue(s), ldr.SymSize(s)
		if entry < end {
			panic(fmt.Sprintf("symbol file: %s at %#x lies before the end of the function in front of it", ldr.SymName(s), entry))
		}
		num(uint64(entry - end))
		num(uint64(size))
		end = entry + size
		num(str(ldr.SymName(s)))
		fi := ldr.FuncInfo(s)
		if !fi.Valid() {
			b = append(b, 0, 0, 0) // no line, no inlined calls, no rows
			continue
		}
		fi.Preload()
		num(uint64(fi.StartLine()))
		calls := int(fi.NumInlTree())
		num(uint64(calls))
		for i := range calls {
			call := fi.InlTree(i)
			num(str(ldr.SymName(call.Func)))
			num(uint64(call.ParentPC))
		}

		var pcfile, pcline, pcinline loader.Sym
		_, pcfile, pcline, pcinline, pcdata = ldr.PcdataAuxs(s, pcdata)
		if calls == 0 {
			pcinline = 0
		}
		rows := symRows(ldr, quantum, uint32(size), pcfile, pcline, pcinline)
		num(uint64(len(rows)))
		cu := ldr.SymUnit(s)
		var pc uint32
		var file, line, inl int64
		for _, r := range rows {
			f := int64(0)
			if r.file >= 0 && cu != nil {
				f = int64(str(expandFile(cu.FileTable[r.file]))) + 1
			}
			num(uint64((r.pc - pc) / quantum))
			diff(f, file)
			diff(int64(r.line), line)
			diff(int64(r.inl)+1, inl)
			pc, file, line, inl = r.pc, f, int64(r.line), int64(r.inl)+1
		}
	}

	head := binary.AppendUvarint(nil, uint64(len(list)))
	for _, s := range list {
		head = binary.AppendUvarint(head, uint64(len(s)))
		head = append(head, s...)
	}
	head = binary.AppendUvarint(head, uint64(quantum))
	return append(head, b...)
}

// symRow is what is in force from pc (an offset) on: the file's index in the
// unit and the inlined call's, -1 for none.
type symRow struct {
	pc              uint32
	file, line, inl int32
}

// symRows merges a function's tables.
func symRows(ldr *loader.Loader, quantum, size uint32, pcfile, pcline, pcinline loader.Sym) (rows []symRow) {
	var its [3]*obj.PCIter
	for i, s := range []loader.Sym{pcfile, pcline, pcinline} {
		its[i] = obj.NewPCIter(quantum)
		if s != 0 {
			its[i].Init(ldr.Data(s))
		} else {
			its[i].Init(nil)
		}
	}
	for pc := uint32(0); pc < size; {
		next := size
		value := [3]int32{-1, 0, -1}
		for i, it := range its {
			for !it.Done && it.NextPC <= pc {
				it.Next()
			}
			if !it.Done {
				value[i] = it.Value
				next = min(next, it.NextPC)
			}
		}
		r := symRow{pc, value[0], value[1], value[2]}
		if n := len(rows); n == 0 || rows[n-1].file != r.file || rows[n-1].line != r.line || rows[n-1].inl != r.inl {
			rows = append(rows, r)
		}
		pc = next
	}
	return rows
}
