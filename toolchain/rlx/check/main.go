package check

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"gwinit/toolchain/rlx/symbols"
)

// Exit statuses of Main.
const (
	exitClean      = 0 // every program keeps the rules
	exitViolations = 1
	exitError      = 2 // wrong usage, or a file that cannot be judged
)

// Main is the command `check [-foreign] [-strict-sc] [-sym FILE] [-max N] [-stats] FILE...`: it judges
// programs and prints what it finds. It returns the exit status: 0 if all
// programs keep the rules, 1 if one does not, 2 if one could not be judged.
func Main(args []string, stdout, stderr io.Writer) int {
	var o Options
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.Foreign, "foreign", false, "another compiler's `program`: LL without SC, writes in a load's delay, SYNC and running into the next function are notes")
	fs.BoolVar(&o.StrictSC, "strict-sc", false, "reading the result of an SC at once is a violation")
	fs.IntVar(&o.Max, "max", 20, "print at most `N` violations of each rule, -1 for all")
	sym := fs.String("sym", "", "symbol `file` of the (one) program, for names and lines")
	stats := fs.Bool("stats", false, "print figures of the code too")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: check [-foreign] [-strict-sc] [-sym FILE] [-max N] [-stats] FILE...\nReports where MIPS programs break the rules of the RLX4181.")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitClean
		}
		return exitError
	}
	if fs.NArg() == 0 || *sym != "" && fs.NArg() > 1 {
		fs.Usage()
		return exitError
	}
	var table *symbols.Table
	if *sym != "" {
		var err error
		if table, err = symbols.Open(*sym); err != nil {
			fmt.Fprintln(stderr, "check:", err)
			return exitError
		}
		o.Names = symbolFile{table}
	}
	status := exitClean
	for _, path := range fs.Args() {
		r, err := File(path, o)
		if err != nil {
			fmt.Fprintln(stderr, err)
			status = exitError
			continue
		}
		if table != nil && r.BuildID != table.ID() {
			fmt.Fprintf(stderr, "check: %s is the symbol file of build %q, and %s is build %q: give the file that was linked with it\n", *sym, table.ID(), path, r.BuildID)
			return exitError
		}
		if _, err := r.WriteTo(stdout); err != nil {
			fmt.Fprintln(stderr, err)
			return exitError
		}
		if *stats {
			if err := r.WriteStats(stdout); err != nil {
				fmt.Fprintln(stderr, err)
				return exitError
			}
		}
		if r.Total() > 0 && status == exitClean {
			status = exitViolations
		}
	}
	return status
}

// symbolFile names addresses by the symbol file that our linker writes.
type symbolFile struct{ t *symbols.Table }

// Name is the innermost inlined call's line, in the function whose code it is.
func (s symbolFile) Name(addr uint64) (Place, bool) {
	f := s.t.Frames(addr)
	if len(f) == 0 {
		return Place{}, false
	}
	outer := f[len(f)-1]
	return Place{Func: outer.Func, Offset: outer.Offset, File: f[0].File, Line: f[0].Line}, true
}
