package edits

// inliningEdits give the compiler a budget of inlining: -gcflags=-d=inlbudget=N.
//
// Why: stock's budget of 80 makes a program's flash 8 % larger than no inlining
// at all (-l), and -l makes it execute a third more instructions. Between the
// two is a budget at which what is inlined is not larger than the call was.
var inliningEdits = []Edit{
	{
		Name: "inlining: a budget", File: "cmd/compile/internal/inline/inl.go",
		Why: "A function is inlined up to the cost that the flag gives, 80 without it.",
		Old: `	budget := int32(inlineMaxBudget)

`,
		New: `	budget := int32(inlineMaxBudget)
	if base.Debug.InlBudget > 0 {
		budget = int32(base.Debug.InlBudget)
	}

`,
	},
	{
		Name: "inlining: the budget's flag", File: "cmd/compile/internal/base/debug.go",
		Why: "As above.",
		Old: "	InlBudgetSlack ",
		New: "	InlBudget             int    `help:\"inline functions up to this cost, not 80\" concurrent:\"ok\"`\n	InlBudgetSlack ",
	},
}
