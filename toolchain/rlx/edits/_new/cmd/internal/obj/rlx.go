package obj

// RlxInlMarks returns the Progs whose pc stands for the call of an inlined
// function. Such a Prog must keep its position and a pc of its own.
func (fi *FuncInfo) RlxInlMarks() map[*Prog]bool {
	marks := make(map[*Prog]bool, len(fi.InlMarks))
	for _, m := range fi.InlMarks {
		marks[m.p] = true
	}
	return marks
}

// RlxMoveInlMark makes q the mark that p is.
func (fi *FuncInfo) RlxMoveInlMark(p, q *Prog) {
	for i := range fi.InlMarks {
		if fi.InlMarks[i].p == p {
			fi.InlMarks[i].p = q
		}
	}
}
