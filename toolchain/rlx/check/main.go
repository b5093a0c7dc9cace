package check

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Exit statuses of Main.
const (
	exitClean      = 0 // every program keeps the rules
	exitViolations = 1
	exitError      = 2 // wrong usage, or a file that cannot be judged
)

// Main is the command `check [-foreign] [-max N] [-stats] FILE...`: it judges
// programs and prints what it finds. It returns the exit status: 0 if all
// programs keep the rules, 1 if one does not, 2 if one could not be judged.
func Main(args []string, stdout, stderr io.Writer) int {
	var o Options
	fs := flag.NewFlagSet("check", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.BoolVar(&o.Foreign, "foreign", false, "another compiler's `program`: LL without SC, writes in a load's delay, SYNC and running into the next function are notes")
	fs.BoolVar(&o.StrictSC, "strict-sc", false, "reading the result of an SC at once is a violation")
	fs.IntVar(&o.Max, "max", 20, "print at most `N` violations of each rule, -1 for all")
	stats := fs.Bool("stats", false, "print figures of the code too")
	fs.Usage = func() {
		fmt.Fprintln(stderr, "usage: check [-foreign] [-strict-sc] [-max N] [-stats] FILE...\nReports where MIPS programs break the rules of the RLX4181.")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitClean
		}
		return exitError
	}
	if fs.NArg() == 0 {
		fs.Usage()
		return exitError
	}
	status := exitClean
	for _, path := range fs.Args() {
		r, err := File(path, o)
		if err != nil {
			fmt.Fprintln(stderr, err)
			status = exitError
			continue
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
