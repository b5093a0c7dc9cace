package text

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

// searcher is one grep.
type searcher struct {
	o     *opt.Set
	re    *regexp.Regexp
	most  int
	names bool
	out   *bufio.Writer
	found bool
}

func grep(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "EFivnlLcqrRhHosxwe:m:")
	if err != nil {
		return err
	}
	pattern := o.Val('e')
	if !o.Has('e') {
		if len(names) == 0 {
			return applet.Usagef("needs a pattern")
		}
		pattern, names = names[0], names[1:]
	}
	re, err := compile(pattern, o)
	if err != nil {
		return applet.Usagef("%v", err)
	}
	most, err := o.Int('m', 0)
	if err != nil {
		return err
	}
	recursive := o.Has('r') || o.Has('R')
	if recursive && len(names) == 0 {
		names = []string{"."}
	}
	s := searcher{o: o, re: re, most: most, out: bufio.NewWriter(std.Out)}
	s.names = (len(names) > 1 || recursive || o.Has('H')) && !o.Has('h')
	bad := false
	report := func(err error) {
		if err == nil || errors.Is(err, errEnough) {
			return
		}
		bad = true
		if !o.Has('s') {
			fmt.Fprintf(std.Err, "grep: %v\n", err)
		}
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, n := range names {
		switch {
		case n == "-":
			report(s.search("(standard input)", std.In))
		case recursive:
			_ = filepath.WalkDir(n, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					report(err)
				} else if d.Type().IsRegular() {
					report(s.file(path))
				}
				return nil
			})
		default:
			report(s.file(n))
		}
	}
	switch err := s.out.Flush(); {
	case err != nil:
		return err
	case s.found && o.Has('q'):
		return nil
	case bad:
		return applet.Exit(2)
	case s.found:
		return nil
	}
	return applet.Exit(1)
}

// compile makes the regular expression of grep's options.
func compile(pattern string, o *opt.Set) (*regexp.Regexp, error) {
	if o.Has('F') {
		pattern = regexp.QuoteMeta(pattern)
	}
	if o.Has('w') {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if o.Has('x') {
		pattern = `^(?:` + pattern + `)$`
	}
	if o.Has('i') {
		pattern = "(?i)" + pattern
	}
	return regexp.Compile(pattern)
}

func (s *searcher) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.search(name, f)
}

func (s *searcher) search(name string, r io.Reader) error {
	prefix := ""
	if s.names {
		prefix = name + ":"
	}
	number, hits := 0, 0
	err := lines(r, func(line []byte) error {
		number++
		if s.re.Match(line) == s.o.Has('v') {
			return nil
		}
		hits++
		switch {
		case s.o.Has('q'), s.o.Has('l'), s.o.Has('L'):
			return errEnough
		case s.o.Has('c'):
		case bytes.IndexByte(line, 0) >= 0:
			fmt.Fprintf(s.out, "%s holds bytes that are no text, and matches\n", name)
			return errEnough
		case s.o.Has('o') && !s.o.Has('v'):
			for _, m := range s.re.FindAll(line, -1) {
				if len(m) > 0 {
					s.print(prefix, number, m)
				}
			}
		default:
			s.print(prefix, number, line)
		}
		if s.most > 0 && hits == s.most {
			return errEnough
		}
		if b, ok := r.(*os.File); ok && !regular(b) {
			return s.out.Flush() // somebody waits for each line: tail -f | grep
		}
		return nil
	})
	s.found = s.found || (hits > 0) != s.o.Has('L')
	switch {
	case s.o.Has('q'):
	case s.o.Has('l') && hits > 0, s.o.Has('L') && hits == 0:
		fmt.Fprintln(s.out, name)
	case s.o.Has('c') && !s.o.Has('l') && !s.o.Has('L'):
		fmt.Fprintf(s.out, "%s%d\n", prefix, hits)
	}
	return err
}

func regular(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular()
}

func (s *searcher) print(prefix string, number int, line []byte) {
	s.out.WriteString(prefix)
	if s.o.Has('n') {
		fmt.Fprintf(s.out, "%d:", number)
	}
	s.out.Write(line)
	s.out.WriteByte('\n')
}
