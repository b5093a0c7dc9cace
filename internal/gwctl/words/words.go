// Package words reads command lines of gwctl whose options may stand before,
// between and behind the words.
package words

import (
	"flag"

	"gwinit/internal/applet"
)

// Parse has f read the options of args, wherever they stand, and returns the
// other words. An error is one of usage.
func Parse(f *flag.FlagSet, args []string) (words []string, err error) {
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			return nil, applet.Usagef("%v", err)
		}
		if args = f.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	return words, nil
}
