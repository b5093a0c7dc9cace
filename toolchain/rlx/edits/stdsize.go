package edits

// stdSizeEdits leave out of the standard library what no program of a gateway
// uses and the linker cannot know to be unused, or make less code of it. Each
// says what a program loses. docs/size.md has what they bring.
var stdSizeEdits = []Edit{
	{
		Name: "regular expressions without Unicode's classes", File: "regexp/syntax/parse.go",
		Why: `\p{Greek} and its kin take a table of each script and category, which every process
sorts into maps at its start. It is an error, as an unknown name is.`,
		Old: `	case "Assigned":
		return unicode.Cn, unicode.Cn, -1 // invert Cn (unassigned)
`,
		New: "",
	},
	{
		Name: "regular expressions without Unicode's classes: by name", File: "regexp/syntax/parse.go",
		Why: "As above.",
		Old: `	case "Lc":
		return unicode.Categories["LC"], unicode.FoldCategory["LC"], +1
	}
`,
		Upto: `	return nil, nil, 0
}
`,
		New: `	}
`,
	},
	{
		Name: "sorting: by a heap", File: "slices/sort.go",
		Why: `Sorting is compiled for each type, and pattern-defeating quicksort is ten functions. A
heap sorts in as many steps at worst. Up to 12 elements it is by insertion, as it was:
equal ones stay in order.`,
		Old: "	pdqsortCmpFunc(x, 0, n, bits.Len(uint(n)), cmp)\n",
		New: `	if n <= 12 {
		insertionSortCmpFunc(x, 0, n, cmp)
		return
	}
	heapSortCmpFunc(x, 0, n, cmp)
`,
	},
	{
		Name: "sorting: by a heap: ordered", File: "slices/sort.go",
		Why: "As above.",
		Old: "	pdqsortOrdered(x, 0, n, bits.Len(uint(n)))\n",
		New: "	heapSortOrdered(x, 0, n)\n",
	},
	{
		Name: "GODEBUG without bisection", File: "internal/godebug/godebug.go",
		Why: `Settings for some call stacks only, for searches by golang.org/x/tools/cmd/bisect.`,
		Old: "	\"internal/bisect\"\n",
		New: "",
	},
	{
		Name: "GODEBUG without bisection: field", File: "internal/godebug/godebug.go",
		Why: "As above.",
		Old: `	text   string
	bisect *bisect.Matcher
`,
		New: `	text string
`,
	},
	{
		Name: "GODEBUG without bisection: use", File: "internal/godebug/godebug.go",
		Why: "As above.",
		Old: `	if v.bisect != nil && !v.bisect.Stack(&stderr) {
		return ""
	}
`,
		New: "",
	},
	{
		Name: "GODEBUG without bisection: parser", File: "internal/godebug/godebug.go",
		Why: "As above. Such a setting holds for all call stacks.",
		Old: `							v.bisect, _ = bisect.New(arg[j+1:])
`,
		New: "",
	},
	{
		Name: "GODEBUG without counters", File: "internal/godebug/godebug.go",
		Why: `How often a setting changed something is for runtime/metrics, whose descriptions of
all metrics were linked for it.`,
		Old: `	s.nonDefaultOnce.Do(s.register)
	s.nonDefault.Add(1)
}

func (s *Setting) register() {
`,
		Upto: "// cache is a cache of all the GODEBUG settings,",
		New: `}

`,
	},
	{
		Name: "no tracer of the scheduler", File: "runtime/traceruntime.go",
		Why: `runtime/trace writes megabytes, which a gateway has no place for. As a constant,
what is asked at each switch of goroutines and each system call is not compiled.`,
		Old: "	return trace.enabled\n",
		New: "	return false\n",
	},
	{
		Name: "no tracer of the scheduler: allocations", File: "runtime/traceruntime.go",
		Why: "As above.",
		Old: "	return trace.enabledWithAllocFree\n",
		New: "	return false\n",
	},
	{
		Name: "no tracer of the scheduler: its end", File: "runtime/traceruntime.go",
		Why: "As above.",
		Old: "	return trace.shutdown.Load()\n",
		New: "	return false\n",
	},
	{
		Name: "no tracer of the scheduler: refused", File: "runtime/trace.go",
		Why: "As above.",
		Old: `	if traceEnabled() || traceShuttingDown() {
		return errorString("tracing is already enabled")
	}
`,
		New: `	if !traceEnabled() {
		return errorString("tracing is not supported by a Go for the RLX4181")
	}
`,
	},
}
