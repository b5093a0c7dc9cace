package check

import "debug/dwarf"

// appendLines appends one unit's line table, up to a number of rows in all.
func appendLines(list dwarfLines, lr *dwarf.LineReader, most int) dwarfLines {
	var e dwarf.LineEntry
	for len(list) < most && lr.Next(&e) == nil {
		l := dwarfLine{addr: e.Address}
		if !e.EndSequence && e.File != nil {
			l.file, l.line = e.File.Name, e.Line
		}
		list = append(list, l)
	}
	return list
}
