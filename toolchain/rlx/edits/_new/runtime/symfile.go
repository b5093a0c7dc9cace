package runtime

import (
	"internal/abi"
	"unsafe"
)

// linesApart reports whether the linker left files and lines to a symbol file
// (cmd/link's -symfile). A trace then has a pc in place of a line.
func linesApart() bool {
	return firstmoduledata.pcHeader.pad1 != 0
}

// inlinedApart reports whether the linker left inlined calls to it too
// (-noinltree): all but those that innermostFunc is for, so that no other use
// sees some and not the rest.
func inlinedApart() bool {
	return firstmoduledata.pcHeader.pad1 == 2
}

// innermostFunc is the function, an inlined one or f, that the code at pc is of,
// as far as runtime, internal/runtime and reflect are concerned.
func innermostFunc(f funcInfo, pc uintptr) srcFunc {
	tree := funcdata(f, abi.FUNCDATA_InlTree)
	if tree == nil {
		return f.srcFunc()
	}
	u := inlineUnwinder{f: f, inlTree: (*[1 << 20]inlinedCall)(tree)}
	return u.srcFunc(u.resolveInternal(pc))
}

// printBuildID prints the line that tells which symbol file has the lines, if
// one has.
func printBuildID() {
	if linesApart() {
		h := firstmoduledata.pcHeader
		print("build id: ", gostringnocopy((*byte)(add(unsafe.Pointer(h), h.buildID))), "\n")
	}
}

// printPosition prints where a frame is, at the start of its second line. pc
// is that of the instruction whose line is meant, not one behind a call: what
// has the tables needs no more to name the line.
func printPosition(file string, line int, pc uintptr) {
	if linesApart() {
		print("\tpc=", hex(pc))
		return
	}
	print("\t", file, ":", line)
}

// funcAt is the function of an entry of the table.
//
//go:nosplit
func (datap *moduledata) funcAt(idx int) funcInfo {
	entry := &datap.ftab[idx]
	return funcInfo{(*_func)(unsafe.Pointer(&datap.pclntable[entry.funcoff])), datap, entry.entryoff}
}

// entryOff is where a function starts whose description is f, from the text's
// start. It walks the table: Func's methods ask, and they are not in a hurry.
func (datap *moduledata) entryOff(f *_func) uint32 {
	if datap == nil {
		return 0
	}
	if !linesApart() {
		return f.entryOff
	}
	off := uint32(uintptr(unsafe.Pointer(f)) - uintptr(unsafe.Pointer(&datap.pclntable[0])))
	for i := range len(datap.ftab) - 1 { // the last is the end
		if datap.ftab[i].funcoff == off {
			return datap.ftab[i].entryoff
		}
	}
	return 0
}
