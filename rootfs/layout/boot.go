package layout

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Symbol is a line of the linker's map (-ordermap), "ADDRESS SIZE KIND NAME".
type Symbol struct {
	Addr, Size uint32 // in bytes
	Kind, Name string
}

// ReadMap reads a linker's map and sorts it by address.
func ReadMap(r io.Reader) ([]Symbol, error) {
	var list []Symbol
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 4)
		if len(fields) != 4 {
			return nil, fmt.Errorf("line %q", lines.Text())
		}
		addr, err := strconv.ParseUint(fields[0], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		size, err := strconv.ParseUint(fields[1], 16, 32)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		list = append(list, Symbol{uint32(addr), uint32(size), fields[2], fields[3]})
	}
	slices.SortStableFunc(list, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
	return list, lines.Err()
}

// The sections of the list of what a boot touches, as the linker reads it, and
// the line in each behind which is what is touched after the boot only.
const (
	Text    = "[text]"    // functions that run
	Unwound = "[unwound]" // functions whose tables are looked at
	Data    = "[data]"    // constants, types, variables
	Later   = "[later]"
)

// Section is the section of the list in which a symbol's touch is noted. "" is
// none: it is not in the file.
func (s Symbol) Section() string {
	switch s.Kind {
	case "TEXT":
		return Text
	case "FUNC":
		return Unwound
	case "SBSS", "SNOPTRBSS", "STLSBSS":
		return ""
	}
	return Data
}

// Container says whether a symbol is the whole of what other symbols are in.
func (s Symbol) Container() bool {
	return strings.HasSuffix(s.Name, "*") || s.Kind == "PCLN" || s.Kind == "SPCLNTAB" || s.Name == "go:funcdesc"
}

// tables is the symbol that the tables of functions begin with. Behind it are how
// a function is found, then a part with the descriptions of the functions that
// the list has as unwound and with what these descriptions lead to, then the
// parts of others.
const tables = "runtime.pcheader"

// Hot is where in a program is what the list says a boot touches.
func Hot(list io.Reader, symbols []Symbol) ([]Range, error) {
	early, err := readEarly(list)
	if err != nil {
		return nil, err
	}
	container := map[string]bool{} // the tables of functions are in the map as constants, too
	for _, s := range symbols {
		container[s.Name] = container[s.Name] || s.Container()
	}
	var hot []Range
	var first Range // up to the end of the first part: the next one's first description
	inFirst := false
	for _, s := range symbols {
		section := s.Section()
		switch {
		case s.Name == tables:
			first.Start = s.Addr
		case section == Unwound:
			if inFirst && !early[Unwound][s.Name] {
				first.End = s.Addr
			}
			inFirst = early[Unwound][s.Name]
		case section != "" && s.Size != 0 && !container[s.Name] && early[section][s.Name]:
			hot = append(hot, Range{s.Addr, s.Addr + s.Size})
		}
	}
	if first.Start != 0 && first.Start < first.End {
		hot = append(hot, first)
	}
	return hot, nil
}

// readEarly reads the names of what is touched up to the end of the boot, by
// their sections.
func readEarly(r io.Reader) (map[string]map[string]bool, error) {
	early := map[string]map[string]bool{}
	var names map[string]bool
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == Text || line == Unwound || line == Data:
			names = map[string]bool{}
			early[line] = names
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			names = nil
		case names != nil:
			names[line] = true
		}
	}
	if len(early) != 3 {
		return nil, fmt.Errorf("the list of what a boot touches has %d of the 3 sections; `make layout` makes it", len(early))
	}
	return early, lines.Err()
}
