package runtime

import "unsafe"

// linesApart reports whether the linker left files and lines to a symbol file
// (cmd/link's -symfile). A trace then has a pc in place of a line.
func linesApart() bool {
	return firstmoduledata.pcHeader.pad1 == 1
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
