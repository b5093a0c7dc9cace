package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"gwinit/internal/gwctl"
)

const (
	// cellMost is how wide a column gets for what is in it; longer text is
	// broken. cellLeast is what a column has at least.
	cellMost  = 32
	cellLeast = 12
	// plainWidth is that of what is no terminal and has no COLUMNS.
	plainWidth = 80
)

// terminalWidth is that of a terminal; 0: w is none.
func terminalWidth(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 {
		return plainWidth
	}
	return columns
}

// screenWidth is what a table may take.
func screenWidth(w io.Writer) int {
	if n := terminalWidth(w); n > 0 {
		return n
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return plainWidth
}

// column is a gateway's facts.
type column struct {
	name  string
	facts []gwctl.Fact
}

// sideBySide shows the answers of several gateways in a table: facts down, a
// column for each. Where that does not fit, each fact has a line for each.
func (r *runner) sideBySide(command string, targets []target, all []*outcome, failed *[]string) error {
	var columns []column
	for i, o := range all {
		name := targets[i].name
		why := o.why()
		if why == "" {
			why = refusal(o.out.Bytes())
		}
		if why == "" && o.out.Len() > 0 {
			facts, err := gwctl.Facts(command, o.out.Bytes())
			if err == nil {
				columns = append(columns, column{name, facts})
			} else {
				why = err.Error()
			}
		}
		if why == "" && o.errs.Len() > 0 {
			why = plain(string(bytes.TrimSpace(o.errs.Bytes())))
		}
		if why != "" {
			if !slices.Contains(*failed, name) {
				*failed = append(*failed, name)
			}
			if _, err := fmt.Fprintf(r.std.Err, "%-*s  gwctl: %s\n", width(targets), name, why); err != nil {
				return err
			}
		}
	}
	if len(columns) == 0 {
		return nil
	}
	text := table(columns, screenWidth(r.std.Out))
	if text == "" {
		text = list(columns)
	}
	_, err := io.WriteString(r.std.Out, text)
	return err
}

// refusal is the error that a command printed as JSON, or "".
func refusal(answer []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(answer, &e) != nil {
		return ""
	}
	return plain(e.Error.Message)
}

// names are the facts that there are, in the order of who has most of them.
func names(columns []column) []string {
	var all []string
	for _, c := range columns {
		at := 0
		for _, f := range c.facts {
			if i := slices.Index(all, f.Name); i >= 0 {
				at = i + 1
			} else {
				all = slices.Insert(all, at, f.Name)
				at++
			}
		}
	}
	return all
}

func (c column) value(name string) string {
	for _, f := range c.facts {
		if f.Name == name {
			return f.Value
		}
	}
	return "-"
}

// table is the text, or "" where it is wider than that.
func table(columns []column, most int) string {
	rows := names(columns)
	first := 0
	for _, name := range rows {
		first = max(first, utf8.RuneCountInString(name))
	}
	wide := make([]int, len(columns))
	for i, c := range columns {
		wide[i] = utf8.RuneCountInString(c.name)
		for _, f := range c.facts {
			wide[i] = max(wide[i], min(cellMost, utf8.RuneCountInString(f.Value)))
		}
	}
	// What is too wide is made narrower, the widest column first.
	for total(first, wide) > most {
		w := slices.Index(wide, slices.Max(wide))
		if wide[w] <= max(cellLeast, utf8.RuneCountInString(columns[w].name)) {
			return ""
		}
		wide[w]--
	}
	var b strings.Builder
	row := func(name string, cells []string) {
		parts := make([][]string, len(cells))
		height := 1
		for i, text := range cells {
			parts[i] = broken(text, wide[i])
			height = max(height, len(parts[i]))
		}
		for n := range height {
			line := pad(name, first)
			name = ""
			for i := range cells {
				part := ""
				if n < len(parts[i]) {
					part = parts[i][n]
				}
				line += "  " + pad(part, wide[i])
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.name
	}
	row("", cells)
	for _, name := range rows {
		for i, c := range columns {
			cells[i] = c.value(name)
		}
		row(name, cells)
	}
	return b.String()
}

func total(first int, wide []int) int {
	for _, w := range wide {
		first += 2 + w
	}
	return first
}

func pad(s string, w int) string {
	return s + strings.Repeat(" ", max(0, w-utf8.RuneCountInString(s)))
}

// broken breaks text into lines of at most w characters, between words where
// that is possible.
func broken(text string, w int) []string {
	var all []string
	line := ""
	for _, word := range strings.Fields(text) {
		for {
			n := utf8.RuneCountInString(line)
			if n > 0 && n+1+utf8.RuneCountInString(word) <= w {
				line += " " + word
				break
			}
			if n > 0 {
				all = append(all, line)
				line = ""
				continue
			}
			if utf8.RuneCountInString(word) <= w {
				line = word
				break
			}
			runes := []rune(word)
			all = append(all, string(runes[:w]))
			word = string(runes[w:])
		}
	}
	return append(all, line)
}

// list has a line for each fact of each gateway.
func list(columns []column) string {
	wide, first := 0, 0
	for _, c := range columns {
		wide = max(wide, utf8.RuneCountInString(c.name))
		for _, f := range c.facts {
			first = max(first, utf8.RuneCountInString(f.Name))
		}
	}
	var b strings.Builder
	for _, c := range columns {
		for _, f := range c.facts {
			b.WriteString(pad(c.name, wide) + "  " + pad(f.Name, first) + "  " + f.Value + "\n")
		}
	}
	return b.String()
}
