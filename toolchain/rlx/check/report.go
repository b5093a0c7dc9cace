package check

import (
	"bufio"
	"fmt"
	"io"
	"sort"
	"strings"
)

// Kinds of delay slots, by the branch that they belong to.
const (
	SlotBranch = iota // conditional branches
	SlotCall          // calls, direct or not
	SlotReturn        // jr $31
	SlotOther         // other jumps
	slotKinds
)

// Slots counts delay slots.
type Slots struct {
	All int
	NOP int // that hold a NOP
}

// Stats are figures of a program's code.
type Stats struct {
	TextBytes int // all of the code's regions
	Words     int // judged
	Functions int // in the function table
	Pointers  int // addresses of code found in code and data
	Swept     int // words judged although nothing is known to lead to them
	Data      int // words in the code that are taken for data
	Unreached int // words that nothing leads to and that do nothing: padding

	NOPs        int
	Loads       int
	LoadsNOP    int // followed by a NOP
	LoadsPadded int // followed by a NOP and then a use of the register
	LoadsUsed   int // followed by a use of the register: wrong
	Slots       [slotKinds]Slots
	LL, SC      int
	MulDiv      int
	RDHWR       int // rdhwr $3,$29, which the kernel emulates

	IndirectJumps int // through a register other than $31, target unknown
	IndirectCalls int
}

// Report is what was found in one program.
type Report struct {
	Path       string
	Functions  string // where the function table comes from
	BuildID    string // of the symbol file that has the program's lines, or empty
	Violations []Violation
	// Counts are the violations by rule, Notes what Options let pass.
	Counts, Notes map[Rule]int
	// Mnemonics are the forbidden instructions by name.
	Mnemonics map[string]int
	Stats     Stats

	max int
}

func newReport(o Options) *Report {
	return &Report{Counts: map[Rule]int{}, Notes: map[Rule]int{}, Mnemonics: map[string]int{}, max: o.Max}
}

func (r *Report) add(v Violation) {
	if v.Note {
		r.Notes[v.Rule]++
	} else {
		r.Counts[v.Rule]++
	}
	r.Violations = append(r.Violations, v)
}

// Total is the number of violations, notes not counted.
func (r *Report) Total() (n int) {
	for _, k := range r.Counts {
		n += k
	}
	return n
}

// WriteTo prints violations, at most Options.Max of each rule, then counts.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	b := &counter{w: w}
	out := bufio.NewWriter(b)
	path := r.Path
	if path == "" {
		path = "program"
	}
	for _, rule := range Rules() {
		n := 0
		for _, v := range r.Violations {
			if v.Rule != rule {
				continue
			}
			if n++; r.max >= 0 && n > r.max {
				continue
			}
			note := ""
			if v.Note {
				note = "note: "
			}
			fmt.Fprintf(out, "%s: %s%s\n", path, note, v)
		}
		if r.max > 0 && n > r.max {
			fmt.Fprintf(out, "%s: %s: %d more\n", path, rule, n-r.max)
		}
	}
	for _, rule := range Rules() {
		if n := r.Counts[rule]; n > 0 {
			fmt.Fprintf(out, "%s: %-15s %d%s\n", path, rule, n, r.names(rule))
		}
	}
	for _, rule := range Rules() {
		if n := r.Notes[rule]; n > 0 {
			fmt.Fprintf(out, "%s: %-15s %d (a note)\n", path, rule, n)
		}
	}
	verdict := "keeps the rules"
	if n := r.Total(); n > 0 {
		verdict = fmt.Sprintf("%d violations", n)
	}
	s := &r.Stats
	fmt.Fprintf(out, "%s: %s (%d words judged, %d of them swept; %d data, %d padding; functions: %s)\n",
		path, verdict, s.Words, s.Swept, s.Data, s.Unreached, r.Functions)
	err := out.Flush()
	return b.n, err
}

// names lists the instructions behind a count of Forbidden.
func (r *Report) names(rule Rule) string {
	if rule != Forbidden {
		return ""
	}
	var list []string
	for name := range r.Mnemonics {
		list = append(list, name)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := r.Mnemonics[list[i]], r.Mnemonics[list[j]]
		return a > b || a == b && list[i] < list[j]
	})
	for i, name := range list {
		list[i] = fmt.Sprintf("%s %d", name, r.Mnemonics[name])
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// WriteStats prints the figures.
func (r *Report) WriteStats(w io.Writer) error {
	s := &r.Stats
	pc := func(a, b int) string {
		if b == 0 {
			return ""
		}
		return fmt.Sprintf(" (%.1f %%)", 100*float64(a)/float64(b))
	}
	b := bufio.NewWriter(w)
	line := func(name string, n int, rest string) { fmt.Fprintf(b, "%-44s %9d%s\n", name, n, rest) }
	line("text bytes", s.TextBytes, "")
	line("words judged", s.Words, "")
	line("  swept: nothing is known to lead there", s.Swept, pc(s.Swept, s.Words))
	line("words taken for data", s.Data, "")
	line("words of padding", s.Unreached, "")
	line("functions ("+r.Functions+")", s.Functions, "")
	line("pointers to code found", s.Pointers, "")
	line("NOPs", s.NOPs, pc(s.NOPs, s.Words))
	line("loads", s.Loads, "")
	line("  followed by a use: wrong", s.LoadsUsed, pc(s.LoadsUsed, s.Loads))
	line("  followed by a NOP", s.LoadsNOP, pc(s.LoadsNOP, s.Loads))
	line("  followed by a NOP and a use: padded", s.LoadsPadded, pc(s.LoadsPadded, s.Loads))
	var all Slots
	for _, k := range s.Slots {
		all.All += k.All
		all.NOP += k.NOP
	}
	for _, k := range []struct {
		name string
		Slots
	}{{"branch slots", all}, {"  of branches", s.Slots[SlotBranch]}, {"  of calls", s.Slots[SlotCall]}, {"  of returns", s.Slots[SlotReturn]}, {"  of other jumps", s.Slots[SlotOther]}} {
		line(k.name, k.All, fmt.Sprintf(", filled %d%s", k.All-k.NOP, pc(k.All-k.NOP, k.All)))
	}
	line("LL", s.LL, "")
	line("SC", s.SC, "")
	line("multiplications and divisions", s.MulDiv, "")
	line("rdhwr $3,$29 (emulated by the kernel)", s.RDHWR, "")
	line("jumps to unknown targets", s.IndirectJumps, "")
	line("calls of unknown targets", s.IndirectCalls, "")
	return b.Flush()
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
