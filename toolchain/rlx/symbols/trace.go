package symbols

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrBuild is that of a trace whose build is not the one of the symbols.
var ErrBuild = errors.New("wrong build")

// BuildIDs returns the build IDs that a text names, each once, in their order.
func BuildIDs(text []byte) (ids []string) {
	seen := map[string]bool{}
	for line := range bytes.Lines(text) {
		if id := buildID(string(line)); id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// buildID is the one that a line of a trace names, empty if it names none.
func buildID(line string) string {
	_, id, ok := strings.Cut(line, "build id: ")
	id = strings.TrimRight(id, " \t\r\n")
	if !ok || !isID(id) {
		return ""
	}
	return id
}

// Translate returns a text, the console's output or a log, with files and lines
// in the traces in it:
//
//   - The pc of a frame of a Go trace becomes FILE:LINE, as stock Go prints it.
//   - Behind a pc anywhere else (the head of a Go crash, its registers, what the
//     kernel says of a fault) its function, file and line are added, inlined
//     calls too.
//
// Nothing else changes: prompts and time stamps in front, line ends. tables has
// the symbols by build ID. What a build ID's trace has up to the next one's is
// of that build; a text that names none is taken to be of the one build that
// tables has. The error wraps ErrBuild if tables has not what a trace needs, or
// if the functions of a trace without a build ID are not those at its pcs.
func Translate(text []byte, tables map[string]*Table) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	builds := buildOf(lines)
	var alone *Table // of a trace without build ID
	if len(tables) == 1 {
		for _, alone = range tables {
		}
	}
	var out bytes.Buffer
	for i, line := range lines {
		t := alone
		if builds[i] != "" {
			t = tables[builds[i]]
		}
		body := strings.TrimRight(line, "\r\n")
		end := line[len(body):]
		p, found := findPC(body)
		if !found {
			out.WriteString(line)
			continue
		}
		if t == nil {
			if p.frame && builds[i] != "" {
				return nil, fmt.Errorf("%w: there are no symbols of build ID %s", ErrBuild, builds[i])
			}
			out.WriteString(line)
			continue
		}
		frames := t.Frames(p.pc)
		switch {
		case p.frame:
			if builds[i] == "" && i > 0 && !fits(lines[i-1], frames) {
				return nil, fmt.Errorf("%w: the trace has no build ID, and in the symbols of build ID %s its pc %#x is not in %q", ErrBuild, t.id, p.pc, strings.TrimSpace(lines[i-1]))
			}
			position := "?"
			if len(frames) > 0 {
				position = frames[0].Position()
			}
			out.WriteString(body[:p.start] + position + body[p.end:])
		default:
			out.WriteString(body)
			for j, f := range frames {
				word := ", called by "
				if j == 0 {
					word = "  <- "
				}
				fmt.Fprintf(&out, "%s%s %s", word, f.Func, f.Position())
			}
		}
		out.WriteString(end)
	}
	return out.Bytes(), nil
}

// headLines is how many lines of a crash come before its build ID at most, of
// those that have a pc.
const headLines = 8

// buildOf says for each line which build it is of: that of the build ID in
// front of it, or that of the next if none is in front or the line is of a
// crash's head.
func buildOf(lines []string) []string {
	builds := make([]string, len(lines))
	last := ""
	for i, line := range lines {
		if id := buildID(line); id != "" {
			for j := i - 1; j >= 0 && (last == "" || i-j <= headLines && !isFrame(lines[j])); j-- {
				builds[j] = id
			}
			last = id
		}
		builds[i] = last
	}
	return builds
}

func isFrame(line string) bool {
	p, ok := findPC(strings.TrimRight(line, "\r\n"))
	return ok && p.frame
}

// place is where a line has a pc.
type place struct {
	start, end int // of "pc=0x..."
	pc         uint64
	frame      bool // it is the position of a frame of a trace
}

// findPC finds the first pc in a line without its end.
func findPC(line string) (place, bool) {
	for i := range len(line) {
		if i > 0 && isWord(line[i-1]) {
			continue
		}
		for _, name := range pcNames {
			if len(line)-i < len(name) || !strings.EqualFold(line[i:i+len(name)], name) {
				continue
			}
			p, ok := pcAt(line, i, len(name))
			if !ok {
				continue
			}
			if name != "pc" && name != "epc" && p.pc > 0 {
				p.pc-- // a return address
			}
			return p, true
		}
	}
	return place{}, false
}

// pcNames are what comes in front of the addresses that are looked up: Go's
// traces and registers (pc, link), the kernel's (epc, ra). Those other than pc
// and epc are return addresses.
var pcNames = []string{"pc", "epc", "ra", "link", "r31"}

// pcAt reads the number behind a name of n bytes at i: "pc=0x1234", "pc  0x1234",
// "epc   : 00401234", "ra  = 00401234".
func pcAt(line string, i, n int) (place, bool) {
	rest := line[i+n:]
	trimmed := strings.TrimLeft(rest, " \t")
	sign := strings.HasPrefix(trimmed, "=") || strings.HasPrefix(trimmed, ":")
	if sign {
		trimmed = strings.TrimLeft(trimmed[1:], " \t")
	}
	digits, hex := strings.CutPrefix(trimmed, "0x")
	if !hex && !sign {
		return place{}, false
	}
	k := 0
	for k < len(digits) && isHex(digits[k]) {
		k++
	}
	if k == 0 || k > 16 || !hex && k < 6 || k < len(digits) && isWord(digits[k]) {
		return place{}, false
	}
	pc, err := strconv.ParseUint(digits[:k], 16, 64)
	if err != nil {
		return place{}, false
	}
	p := place{start: i, end: len(line) - len(digits) + k, pc: pc}
	tail := line[p.end:]
	p.frame = strings.HasPrefix(line[i:], "pc=0x") && (tail == "" || strings.HasPrefix(tail, " +0x") || strings.HasPrefix(tail, " fp=0x"))
	return p, true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isWord(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

// fits tells whether the line in front of a frame's position names the
// innermost of the functions at its pc, or names none.
func fits(line string, frames []Frame) bool {
	line = strings.TrimRight(line, " \t\r\n")
	name, ok := strings.CutSuffix(line, "(...)")
	if !ok {
		_, name, ok = strings.Cut(line, "created by ")
		name, _, _ = strings.Cut(name, " in goroutine ")
	}
	if !ok {
		return true
	}
	if len(frames) == 0 {
		return false
	}
	want := printed(frames[0].Func)
	return strings.HasSuffix(name, want) || want == "runtime.gopanic" && strings.HasSuffix(name, "panic")
}

// printed is a function's name as traces have it: without types of a generic one.
func printed(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}
