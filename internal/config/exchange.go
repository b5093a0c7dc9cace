package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"gwinit/board/rtl8196e"
	"gwinit/internal/applet"
)

// Export returns every setting as Import reads it, a line each, and the warnings
// of a load. What is set is a line SETTING=VALUE with the value in effect; the
// rest, and the MAC address, which two gateways must not share, are comments.
func Export(root string, b rtl8196e.Board) (string, []Warning) {
	items, warnings := List(root, b)
	var out strings.Builder
	name := ""
	for _, i := range items {
		if i.Name == "hostname" {
			name = i.Value
		}
	}
	out.WriteString("# Settings of " + name + " (" + b.ID + "). `gwctl config import FILE` sets what is no comment here;\n" +
		"# with -all the rest goes back to its default. Passwords and keys are in gwctl backup.\n")
	for _, i := range items {
		if !i.Set || i.Name == nameMAC || i.Value == "" {
			out.WriteByte('#')
		}
		out.WriteString(i.Name + "=" + i.Value + "\n")
	}
	return out.String(), warnings
}

// Problem is why a line of an import is not taken.
type Problem struct {
	Line int    `json:"line"` // from 1
	Name string `json:"name,omitempty"`
	Text string `json:"problem"`
}

// Import makes the changes of a text as Export writes it: all of them, or none
// if there is a problem. Comments and empty lines say nothing. With all, a
// setting that no line sets goes back to its default, but for the MAC address.
// With try nothing is changed, and the Change is what would be.
func Import(root string, b rtl8196e.Board, text string, all, try bool) (Change, []Problem, error) {
	edits, lines, problems := readImport(text)
	if all {
		edits = append(edits, others(root, edits)...)
	}
	// Whatever is wrong is told at once: an edit that is refused is left out, and
	// the rest is tried again.
	var spoilt []string // files
	for {
		_, err := apply(root, b, edits, true)
		if err == nil {
			break
		}
		var e *Error
		n := -1
		if errors.As(err, &e) {
			n = slices.IndexFunc(edits, func(x edit) bool { return x.Name == e.Name })
		}
		if n < 0 || lines[e.Name] == 0 {
			return Change{}, nil, err
		}
		file := edits[n].File
		if e.Err == ErrIncomplete && slices.Contains(spoilt, file) {
			// For want of the one that was told.
			edits = slices.DeleteFunc(edits, func(x edit) bool { return x.File == file })
			continue
		}
		spoilt = append(spoilt, file)
		problems = append(problems, Problem{lines[e.Name], e.Name, e.why()})
		edits = slices.Delete(edits, n, n+1)
	}
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
		return Change{}, problems, nil
	}
	change, err := apply(root, b, edits, try)
	return change, nil, err
}

// readImport reads the lines, and where each setting is.
func readImport(text string) (edits []edit, lines map[string]int, problems []Problem) {
	lines = map[string]int{}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.Trim(line, " \t\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name, value = strings.TrimRight(name, " \t"), strings.TrimLeft(value, " \t")
		s, err := find(name)
		if err == nil {
			err = writable(s, value)
		}
		var e *Error
		switch {
		case !ok:
			problems = append(problems, Problem{Line: n, Text: "not SETTING=VALUE: " + strconv.Quote(clip(line))})
		case errors.As(err, &e):
			problems = append(problems, Problem{n, clip(name), e.why()})
		case lines[s.Name] != 0:
			problems = append(problems, Problem{n, s.Name, "line " + strconv.Itoa(lines[s.Name]) + " sets it already"})
		default:
			lines[s.Name] = n
			edits = append(edits, edit{Setting: s, value: value})
		}
	}
	return edits, lines, problems
}

// others are the edits that unset what is set and not in edits.
func others(root string, edits []edit) (more []edit) {
	named := func(f func(e edit) bool) bool { return slices.ContainsFunc(edits, f) }
	quiet := loader{root: root}
	for _, s := range Settings() {
		whole := wholeFile(s.File)
		switch {
		case s.Name == nameMAC || named(func(e edit) bool { return e.Name == s.Name }):
		case whole != "" && !named(func(e edit) bool { return e.File == s.File }):
			if !slices.ContainsFunc(more, func(e edit) bool { return e.File == s.File }) {
				more = append(more, unsetFile(whole, s.File))
			}
		case quiet.has(s):
			more = append(more, edit{Setting: s, unset: true})
		}
	}
	return more
}

// why is the error without the setting's name.
func (e *Error) why() string { return strings.TrimPrefix(e.Error(), e.Name+": ") }

func (c command) export([]string) error {
	text, warnings := Export(c.root, c.board)
	if c.json {
		return json.NewEncoder(c.std.Out).Encode(struct {
			Text     string        `json:"text"`
			Warnings []warningJSON `json:"warnings,omitempty"`
		}{text, asJSON(warnings)})
	}
	if _, err := io.WriteString(c.std.Out, text); err != nil {
		return err
	}
	return c.warn(warnings)
}

func (c command) imports(args []string) error {
	all, try, file := false, false, ""
	for _, a := range args {
		switch {
		case a == "-all":
			all = true
		case a == "-n":
			try = true
		case file != "" || a != "-" && strings.HasPrefix(a, "-"):
			return applet.Usagef("config import takes -n, -all and one FILE, or - for standard input; not %q", a)
		default:
			file = a
		}
	}
	if file == "" {
		return applet.Usagef("config import what? A FILE, or - for standard input")
	}
	in := c.std.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("longer than 64 KiB: that is no export of settings")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	change, problems, err := Import(c.root, c.board, string(text), all, try)
	if len(problems) > 0 {
		return c.notTaken(problems)
	}
	c.try = try
	return c.changed(change, err)
}

// notTaken tells what is wrong with the lines of an import.
func (c command) notTaken(problems []Problem) error {
	if c.json {
		if err := json.NewEncoder(c.std.Out).Encode(changeJSON{Changed: []string{}, Restarted: []string{}, Problems: problems}); err != nil {
			return err
		}
		return applet.Exit(1)
	}
	for _, p := range problems {
		name := p.Name
		if name != "" {
			name += ": "
		}
		if _, err := fmt.Fprintf(c.std.Err, "line %d: %s%s\n", p.Line, name, p.Text); err != nil {
			return err
		}
	}
	return errors.New("nothing was changed: mend these lines first")
}
