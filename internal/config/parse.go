package config

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Dir is the folder of the settings on the box.
const Dir = "/userdata/etc"

// maxFile is how much of a settings file is read, in bytes.
const maxFile = 64 << 10

// maxWarnings is how many warnings one file gets: a file of noise must not
// fill the memory.
const maxWarnings = 20

// entry is a line KEY=VALUE.
type entry struct {
	line    int // from 1
	key     string
	value   string
	problem string // of syntax; "" when there is none
	comment string // what follows the value, from its '#'
}

// Problems of syntax.
const (
	problemNoEquals = "not KEY=value"
	problemQuote    = "a quote is not closed"
	problemMore     = "one setting a line: what follows the ';' is not read"
	problemNUL      = "holds zero bytes, as a power cut leaves them"
)

// parse reads lines KEY=VALUE as a shell would that only assigns: blanks around,
// `export` before, comments, quotes and backslashes, CRLF. Unlike a shell it
// takes an unquoted value with blanks in it as a whole, and expands nothing.
// Lines that are no assignment come with an empty key and a problem.
func parse(text string) []entry {
	text = strings.TrimPrefix(text, "\ufeff")
	var all []entry
	n := 0
	for line := range strings.Lines(text) {
		n++
		if e, ok := parseLine(strings.TrimRight(line, "\r\n")); ok {
			e.line = n
			all = append(all, e)
		}
	}
	return all
}

// parseLine reads one line; ok is false when there is nothing on it.
func parseLine(line string) (e entry, ok bool) {
	s := strings.Trim(line, " \t")
	if s == "" || s[0] == '#' {
		return e, false
	}
	if strings.IndexByte(s, 0) >= 0 {
		return entry{value: strings.Trim(s, "\x00"), problem: problemNUL}, true
	}
	if rest, ok := strings.CutPrefix(s, "export"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		s = strings.TrimLeft(rest, " \t")
	}
	key, rest, ok := strings.Cut(s, "=")
	if !ok || !isKey(key) {
		return entry{value: s, problem: problemNoEquals}, true
	}
	e = entry{key: key}
	e.value, e.comment, e.problem = parseValue(rest)
	return e, true
}

// isKey tells whether s is a name that a shell would assign to.
func isKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '_', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// parseValue reads what follows the '='.
func parseValue(s string) (value, comment, problem string) {
	var b strings.Builder
	all := len(s)
	s = strings.TrimLeft(s, " \t")
	blanks := all - len(s) // unquoted ones before s[i]; those at the start are not in b
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote == '\'':
			if c == quote {
				quote = 0
			} else {
				b.WriteByte(c)
			}
			continue
		case quote == '"':
			switch {
			case c == quote:
				quote = 0
			case c == '\\' && i+1 < len(s) && strings.IndexByte("\\\"$`", s[i+1]) >= 0:
				i++
				b.WriteByte(s[i])
			default:
				b.WriteByte(c)
			}
			continue
		case c == ' ' || c == '\t':
			blanks++
			b.WriteByte(c)
			continue
		case c == '#' && blanks > 0:
			return cut(b.String(), blanks), s[i:], ""
		case c == ';':
			if rest := strings.Trim(s[i+1:], " \t"); rest != "" && rest[0] != '#' {
				problem = problemMore
			}
			return cut(b.String(), blanks), "", problem
		case c == '\'' || c == '"':
			quote = c
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(c)
		}
		blanks = 0
	}
	if quote != 0 {
		problem = problemQuote
	}
	return cut(b.String(), blanks), "", problem
}

// cut takes up to n blanks off the end.
func cut(s string, n int) string { return s[:max(0, len(s)-n)] }

// read returns the content of a settings file, and false when it is not there.
// What is wrong with the file as a whole is a warning.
func (l *loader) read(path string) (string, bool) {
	if text, ok := l.instead[path]; ok {
		return text, true
	}
	f, err := os.OpenFile(filepath.Join("/", l.root, path), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false
	}
	if err != nil {
		l.warn(Warning{File: path, Problem: reason(err), Used: "the defaults"})
		return "", false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		l.warn(Warning{File: path, Problem: "not a regular file", Used: "the defaults"})
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		// JFFS2 says EIO where a node is torn; what came before it is good.
		l.warn(Warning{File: path, Problem: reason(err), Used: "what could be read"})
	}
	if len(b) > maxFile {
		b = b[:maxFile]
		l.warn(Warning{File: path, Problem: "longer than 64 KiB", Used: "the beginning"})
		// The line that was cut says something else than it did.
		b = b[:strings.LastIndexByte(string(b), '\n')+1]
	}
	return string(b), true
}

// reason is what the kernel says about a file, without its path.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// warn adds a warning, up to maxWarnings for a file.
func (l *loader) warn(w Warning) {
	n := 0
	for i := range l.warnings {
		if l.warnings[i].File == w.File {
			n++
		}
	}
	switch {
	case n < maxWarnings:
		l.warnings = append(l.warnings, w)
	case n == maxWarnings:
		l.warnings = append(l.warnings, Warning{File: w.File, Problem: "has more of the same"})
	}
}

// verdict is what a setting says to a value.
type verdict struct {
	problem string // "" when the value is taken as it is
	used    string // what is used when there is a problem
}

// warning is a verdict on the entry of a file.
func (e entry) warning(path string, v verdict) Warning {
	return Warning{File: path, Line: e.line, Key: e.key, Value: e.value, Problem: v.problem, Used: v.used}
}

// byLine sorts the warnings of one file; those about the whole file go last.
func byLine(all []Warning) {
	slices.SortStableFunc(all, func(a, b Warning) int {
		// As unsigned numbers, 0 less 1 is behind every line.
		return cmp.Compare(uint(a.Line)-1, uint(b.Line)-1)
	})
}

// unknown is the verdict on a key that a file does not have.
const unknown = "unknown key"

// entries reads and parses a file; there is false when there is none.
func (l *loader) entries(path string) (all []entry, there bool) {
	text, there := l.read(path)
	return parse(text), there
}

// each gives the last entry of every key to take; an empty value is as good as
// no entry, and is not given.
func (l *loader) each(path string, all []entry, take func(e entry) verdict) {
	last := make(map[string]int, len(all))
	for i := range all {
		last[all[i].key] = i
	}
	for i, e := range all {
		if e.problem != "" {
			l.warn(Warning{File: path, Line: e.line, Key: e.key, Value: e.value, Problem: e.problem})
		}
		if e.key == "" || e.value == "" || last[e.key] != i {
			continue
		}
		if v := take(e); v.problem != "" {
			l.warn(e.warning(path, v))
		}
	}
}

// firstLine returns the first line of a file that is not empty and no comment,
// and its number.
func (l *loader) firstLine(path string) (value string, line int) {
	text, _ := l.read(path)
	for s := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line++
		if s = strings.Trim(s, " \t\r\n\x00"); s != "" && s[0] != '#' {
			return s, line
		}
	}
	return "", 0
}
