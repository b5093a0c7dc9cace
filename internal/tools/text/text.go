// Package text is the tools that read lines or bytes and print some of them.
package text

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
)

// Applets returns the tools.
func Applets() []applet.Applet {
	tool := func(name, summary, usage string, run func(context.Context, applet.IO, []string) error) applet.Applet {
		return applet.Applet{Name: name, Group: applet.Text, Summary: summary, Usage: usage, Run: run}
	}
	return []applet.Applet{
		tool("cmp", "compare two files", "cmp [-s] FILE1 FILE2\n\n  -s  say nothing\n\nExit status 0: equal, 1: different.", compare),
		tool("cut", "print columns", "cut -f LIST [-d CHAR] [-s] [FILE...]\ncut -c LIST | -b LIST [FILE...]\n\n  LIST  2  1,3  2-4  3-  -2\n  -d    fields end in CHAR (tab)\n  -s    only lines with CHAR", cut),
		tool("echo", "print its arguments", "echo [-n] [WORD...]\n\n  -n  no newline at the end", echo),
		tool("grep", "search lines", "grep [-EFivnlLcqrhHosw] [-m MAX] [-e PATTERN | PATTERN] [FILE...]\n\n  PATTERN  regular expression (RE2)\n  -E -F    the same; plain text\n  -i -w    upper and lower alike; whole words\n  -v       lines that do not match\n  -n -c    with line numbers; only count\n  -l -L    only names of files with, without a match\n  -o       only what matches\n  -q -s    no output; no word about files that cannot be read\n  -r       folders and what is in them\n  -h -H    without, with the file's name\n  -m       at most MAX lines a file\n\nExit status 0: found, 1: not found, 2: an error.", grep),
		tool("head", "print the first lines", "head [-n LINES | -c BYTES] [FILE...]\n\n  -n  that many (10)", head),
		tool("hexdump", "print bytes", "hexdump [-C] [-n BYTES] [-s SKIP] [FILE]\n\n  -C  bytes and text (else words in this CPU's order)\n\nNumbers may be 0x...", hexdump),
		tool("less", "read screen by screen", "less [FILE...]\n\n  space, f   next screen\n  enter, j   next line\n  /TEXT      search\n  q          end\n\nWithout a terminal it prints.", more),
		tool("more", "read screen by screen", "more [FILE...]\n\n  See less.", more),
		tool("seq", "count", "seq [FIRST [STEP]] LAST", seq),
		tool("sort", "sort lines", "sort [-nrufb] [-k FIELD] [-t CHAR] [-o FILE] [FILE...]\n\n  -n  by number\n  -r  in reverse\n  -u  without repeats\n  -f  upper and lower alike\n  -k  from this field on\n  -t  fields end in CHAR (white space)\n  -o  to FILE, which may be one of those read", sortLines),
		tool("tail", "print the last lines", "tail [-f] [-n LINES | -n +LINE | -c BYTES] [FILE...]\n\n  -n  that many (10); +LINE: from that line on\n  -f  and what is appended, until ctrl-C", tail),
		tool("tr", "replace characters", "tr [-cds] SET1 [SET2]\n\n  SET  characters, a-z, \\n, [:lower:] [:upper:] [:digit:] [:space:] [:alpha:] [:alnum:]\n  -d   delete those of SET1\n  -s   one in place of several of the last SET\n  -c   all but SET1\n\nBytes, not runes.", tr),
		tool("uniq", "leave out repeats", "uniq [-cdu] [FILE]\n\n  -c  count them\n  -d  only lines that repeat\n  -u  only lines that do not", uniq),
		tool("wc", "count lines, words, bytes", "wc [-lwc] [FILE...]", wc),
	}
}

// inputs calls do for each file in turn; "-", or none at all, is standard
// input. What cannot be read is reported and makes the exit status 1.
func inputs(std applet.IO, tool string, names []string, do func(name string, r io.Reader) error) error {
	if len(names) == 0 {
		return do("-", std.In)
	}
	bad := false
	for _, n := range names {
		err := func() error {
			if n == "-" {
				return do(n, std.In)
			}
			f, err := os.Open(n)
			if err != nil {
				return err
			}
			defer f.Close()
			return do(n, f)
		}()
		var exit applet.Exit
		switch {
		case errors.As(err, &exit):
			return err
		case err != nil:
			fmt.Fprintf(std.Err, "%s: %v\n", tool, err)
			bad = true
		}
	}
	if bad {
		return applet.Exit(1)
	}
	return nil
}

// lines calls do with every line, without its end. There is no longest line.
func lines(r io.Reader, do func([]byte) error) error {
	b := bufio.NewReader(r)
	var long []byte
	for {
		part, err := b.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			long = append(long, part...)
			continue
		}
		line := part
		if len(long) > 0 {
			long = append(long, part...)
			line = long
		}
		if len(line) > 0 {
			if derr := do(bytes.TrimSuffix(line, []byte{'\n'})); derr != nil {
				return derr
			}
		}
		long = long[:0]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// errEnough ends lines early without being an error.
var errEnough = errors.New("enough")

func enough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func compare(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "s")
	if err != nil {
		return err
	}
	if len(names) != 2 {
		return applet.Usagef("needs two files")
	}
	var in [2]*bufio.Reader
	for i, n := range names {
		if n == "-" {
			in[i] = bufio.NewReader(std.In)
			continue
		}
		f, err := os.Open(n)
		if err != nil {
			fmt.Fprintf(std.Err, "cmp: %v\n", err)
			return applet.Exit(2)
		}
		defer f.Close()
		in[i] = bufio.NewReader(f)
	}
	line := 1
	for at := 1; ; at++ {
		a, errA := in[0].ReadByte()
		b, errB := in[1].ReadByte()
		switch {
		case errA == io.EOF && errB == io.EOF:
			return nil
		case errA != nil && errA != io.EOF || errB != nil && errB != io.EOF:
			fmt.Fprintf(std.Err, "cmp: %v\n", errors.Join(errA, errB))
			return applet.Exit(2)
		case errA != nil || errB != nil:
			short := names[0]
			if errB != nil {
				short = names[1]
			}
			if !o.Has('s') {
				fmt.Fprintf(std.Out, "%s ends after byte %d\n", short, at-1)
			}
			return applet.Exit(1)
		case a != b:
			if !o.Has('s') {
				fmt.Fprintf(std.Out, "%s %s differ: byte %d, line %d\n", names[0], names[1], at, line)
			}
			return applet.Exit(1)
		case a == '\n':
			line++
		}
	}
}

// span is a range of columns, from 1, both ends included.
type span struct{ from, to int }

const lastColumn = 1 << 30

// parseList reads cut's LIST.
func parseList(s string) ([]span, error) {
	bad := applet.Usagef("%q is no list of columns", s)
	var list []span
	for _, part := range strings.Split(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		sp := span{1, lastColumn}
		var err error
		if from != "" {
			if sp.from, err = strconv.Atoi(from); err != nil {
				return nil, bad
			}
		}
		if to != "" {
			if sp.to, err = strconv.Atoi(to); err != nil {
				return nil, bad
			}
		}
		if !isRange {
			sp.to = sp.from
		}
		if part == "" || part == "-" || sp.from < 1 || sp.to < sp.from {
			return nil, bad
		}
		list = append(list, sp)
	}
	return list, nil
}

func within(list []span, column int) bool {
	for _, s := range list {
		if column >= s.from && column <= s.to {
			return true
		}
	}
	return false
}

func cut(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "f:c:b:d:s")
	if err != nil {
		return err
	}
	spec := o.Val('f')
	bytewise := o.Has('c') || o.Has('b')
	if bytewise {
		spec = o.Val('c') + o.Val('b')
	}
	if o.Has('f') == bytewise {
		return applet.Usagef("one of -f, -c and -b")
	}
	list, err := parseList(spec)
	if err != nil {
		return err
	}
	delim := "\t"
	if o.Has('d') {
		if delim = o.Val('d'); len(delim) != 1 {
			return applet.Usagef("-d takes one character")
		}
	}
	out := bufio.NewWriter(std.Out)
	err = inputs(std, "cut", names, func(_ string, r io.Reader) error {
		return lines(r, func(line []byte) error {
			switch {
			case bytewise:
				for i, c := range line {
					if within(list, i+1) {
						out.WriteByte(c)
					}
				}
			case !bytes.Contains(line, []byte(delim)):
				if o.Has('s') {
					return nil
				}
				out.Write(line)
			default:
				first := true
				for i, f := range bytes.Split(line, []byte(delim)) {
					if !within(list, i+1) {
						continue
					}
					if !first {
						out.WriteString(delim)
					}
					first = false
					out.Write(f)
				}
			}
			return out.WriteByte('\n')
		})
	})
	return cmp.Or(out.Flush(), err)
}

func echo(_ context.Context, std applet.IO, args []string) error {
	end := "\n"
	if len(args) > 0 && args[0] == "-n" {
		end, args = "", args[1:]
	}
	_, err := io.WriteString(std.Out, strings.Join(args, " ")+end)
	return err
}

func head(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(opt.Count(args), "n:c:q")
	if err != nil {
		return err
	}
	n, err := o.Int('n', 10)
	if err != nil {
		return err
	}
	count, err := o.Int('c', 0)
	if err != nil {
		return err
	}
	title := titles(std, names, o.Has('q'))
	return inputs(std, "head", names, func(name string, r io.Reader) error {
		title(name)
		if o.Has('c') {
			_, err := io.CopyN(std.Out, r, int64(count))
			if err == io.EOF {
				err = nil
			}
			return err
		}
		left := n
		if left == 0 {
			return nil
		}
		return enough(lines(r, func(line []byte) error {
			if _, err := std.Out.Write(append(line, '\n')); err != nil {
				return err
			}
			if left--; left == 0 {
				return errEnough
			}
			return nil
		}))
	})
}

// titles prints the name before each of several files.
func titles(std applet.IO, names []string, quiet bool) func(string) {
	first := true
	return func(name string) {
		if len(names) < 2 || quiet {
			return
		}
		if !first {
			fmt.Fprintln(std.Out)
		}
		first = false
		fmt.Fprintf(std.Out, "==> %s <==\n", name)
	}
}

// tailPoll is how often tail -f looks; the board's kernel has no inotify.
const tailPoll = time.Second

func tail(ctx context.Context, std applet.IO, args []string) error {
	return tailWith(ctx, std, args, func(ctx context.Context) error {
		t := time.NewTimer(tailPoll)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func tailWith(ctx context.Context, std applet.IO, args []string, wait func(context.Context) error) error {
	o, names, err := opt.Parse(opt.Count(args), "n:c:fqF")
	if err != nil {
		return err
	}
	from := strings.HasPrefix(o.Val('n'), "+")
	n := 10
	if o.Has('n') {
		if n, err = strconv.Atoi(strings.TrimLeft(o.Val('n'), "+-")); err != nil || n < 0 {
			return applet.Usagef("-n takes a number, not %q", o.Val('n'))
		}
	}
	count, err := o.Int('c', 0)
	if err != nil {
		return err
	}
	follow := o.Has('f') || o.Has('F')
	if follow && len(names) > 1 {
		return applet.Usagef("-f follows one file")
	}
	title := titles(std, names, o.Has('q'))
	return inputs(std, "tail", names, func(name string, r io.Reader) error {
		title(name)
		switch {
		case o.Has('c'):
			err = lastBytes(std.Out, r, count)
		case from:
			at := 0
			err = lines(r, func(line []byte) error {
				if at++; at < n {
					return nil
				}
				_, err := std.Out.Write(append(line, '\n'))
				return err
			})
		default:
			err = lastLines(std.Out, r, n)
		}
		f, isFile := r.(*os.File)
		if err != nil || !follow || !isFile {
			return err
		}
		for wait(ctx) == nil {
			if err := appended(std.Out, name, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// appended copies what is new in f; a file that became shorter is read again.
func appended(out io.Writer, name string, f *os.File) error {
	if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() {
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		if fi.Size() < at {
			fmt.Fprintf(out, "(%s was cut)\n", name)
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
	}
	_, err := io.Copy(out, f)
	return err
}

func lastBytes(out io.Writer, r io.Reader, n int) error {
	if f, ok := r.(*os.File); ok {
		if fi, err := f.Stat(); err == nil && fi.Mode().IsRegular() && fi.Size() > int64(n) {
			if _, err := f.Seek(-int64(n), io.SeekEnd); err != nil {
				return err
			}
		}
	}
	var keep []byte
	buf := make([]byte, 4096)
	for {
		m, err := r.Read(buf)
		keep = append(keep, buf[:m]...)
		if len(keep) > n {
			keep = append(keep[:0], keep[len(keep)-n:]...)
		}
		if err == io.EOF {
			_, err = out.Write(keep)
			return err
		}
		if err != nil {
			return err
		}
	}
}

// lastLines keeps only the last n, in a ring; a file is read from near its end.
func lastLines(out io.Writer, r io.Reader, n int) error {
	if f, ok := r.(*os.File); ok {
		if err := seekLines(f, n); err != nil {
			return err
		}
	}
	if n == 0 {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	ring := make([][]byte, 0, min(n, 1024))
	next := 0
	ended := true // with a newline
	b := &lastByte{r: r}
	err := lines(b, func(line []byte) error {
		if len(ring) < n {
			ring = append(ring, slices.Clone(line))
			return nil
		}
		ring[next] = append(ring[next][:0], line...)
		next = (next + 1) % n
		return nil
	})
	if err != nil || len(ring) == 0 {
		return err
	}
	ended = b.last == '\n'
	w := bufio.NewWriter(out)
	for i := range ring {
		w.Write(ring[(next+i)%len(ring)])
		if i < len(ring)-1 || ended {
			w.WriteByte('\n')
		}
	}
	return w.Flush()
}

// lastByte remembers the last byte that was read.
type lastByte struct {
	r    io.Reader
	last byte
}

func (l *lastByte) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if n > 0 {
		l.last = p[n-1]
	}
	return n, err
}

// seekLines places a regular file so that at least its last n lines are left.
func seekLines(f *os.File, n int) error {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	const block = 4096
	pos, found := fi.Size(), 0
	buf := make([]byte, block)
	for pos > 0 && found <= n {
		start := max(0, pos-block)
		m, err := f.ReadAt(buf[:pos-start], start)
		if err != nil && err != io.EOF {
			return err
		}
		found += bytes.Count(buf[:m], []byte{'\n'})
		pos = start
	}
	if pos > 0 {
		// In the middle of a line that is not among the n.
		_, err = f.Seek(pos, io.SeekStart)
	}
	return err
}

func wc(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "lwc")
	if err != nil {
		return err
	}
	all := !o.Has('l') && !o.Has('w') && !o.Has('c')
	show := func(n [3]int64, name string) {
		var cols []string
		for i, c := range []byte("lwc") {
			if all || o.Has(c) {
				cols = append(cols, fmt.Sprintf("%7d", n[i]))
			}
		}
		text := strings.Join(cols, " ")
		if name != "-" {
			text += " " + name
		} else if len(cols) == 1 {
			text = strings.TrimLeft(text, " ")
		}
		fmt.Fprintln(std.Out, text)
	}
	var total [3]int64
	err = inputs(std, "wc", names, func(name string, r io.Reader) error {
		var n [3]int64
		inWord := false
		buf := make([]byte, 16<<10)
		for {
			m, err := r.Read(buf)
			n[2] += int64(m)
			for _, c := range buf[:m] {
				space := c == ' ' || c >= '\t' && c <= '\r'
				if !space && !inWord {
					n[1]++
				}
				inWord = !space
				if c == '\n' {
					n[0]++
				}
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
		}
		for i := range n {
			total[i] += n[i]
		}
		show(n, name)
		return nil
	})
	if len(names) > 1 {
		show(total, "total")
	}
	return err
}

func uniq(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "cdu")
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return applet.Usagef("one file, not %d", len(names))
	}
	out := bufio.NewWriter(std.Out)
	var last []byte
	n := 0
	flush := func() {
		if n == 0 || o.Has('d') && n == 1 || o.Has('u') && n > 1 {
			return
		}
		if o.Has('c') {
			fmt.Fprintf(out, "%7d ", n)
		}
		out.Write(append(last, '\n'))
	}
	err = inputs(std, "uniq", names, func(_ string, r io.Reader) error {
		return lines(r, func(line []byte) error {
			if n > 0 && bytes.Equal(line, last) {
				n++
				return nil
			}
			flush()
			last, n = append(last[:0], line...), 1
			return nil
		})
	})
	flush()
	return cmp.Or(out.Flush(), err)
}

// leadingNumber is the number that a line starts with, 0 without one.
func leadingNumber(s string) float64 {
	s = strings.TrimLeft(s, " \t")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' || s[end] == '-' && end == 0) {
		end++
	}
	for ; end > 0; end-- { // 1.2.3 counts as 1.2
		if f, err := strconv.ParseFloat(s[:end], 64); err == nil {
			return f
		}
	}
	return 0
}

func sortLines(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "nrufbk:t:o:s")
	if err != nil {
		return err
	}
	field := 0
	if o.Has('k') {
		first, _, _ := strings.Cut(o.Val('k'), ",")
		if field, err = strconv.Atoi(strings.TrimRight(first, "nr")); err != nil || field < 1 {
			return applet.Usagef("-k takes a field number, not %q", o.Val('k'))
		}
	}
	numeric := o.Has('n') || strings.ContainsRune(o.Val('k'), 'n')
	reverse := o.Has('r') || strings.ContainsRune(o.Val('k'), 'r')
	if len(o.Val('t')) > 1 {
		return applet.Usagef("-t takes one character")
	}
	key := func(line string) string {
		for i := 1; i < field; i++ {
			if sep := o.Val('t'); sep != "" {
				_, line, _ = strings.Cut(line, sep)
				continue
			}
			line = strings.TrimLeft(line, " \t")
			if j := strings.IndexAny(line, " \t"); j >= 0 {
				line = line[j:]
			} else {
				line = ""
			}
		}
		if o.Has('b') || field > 0 && o.Val('t') == "" {
			line = strings.TrimLeft(line, " \t")
		}
		if o.Has('f') {
			line = strings.ToUpper(line)
		}
		return line
	}
	var all []string
	err = inputs(std, "sort", names, func(_ string, r io.Reader) error {
		return lines(r, func(line []byte) error {
			all = append(all, string(line))
			return nil
		})
	})
	order := func(a, b string) int {
		ka, kb := key(a), key(b)
		c := strings.Compare(ka, kb)
		if numeric {
			c = cmp.Compare(leadingNumber(ka), leadingNumber(kb))
		}
		if reverse {
			c = -c
		}
		return c
	}
	slices.SortStableFunc(all, func(a, b string) int {
		c := order(a, b)
		if c == 0 && !o.Has('u') && !o.Has('s') {
			// What the key leaves open, the whole line decides.
			if c = strings.Compare(a, b); reverse {
				c = -c
			}
		}
		return c
	})
	if o.Has('u') {
		all = slices.CompactFunc(all, func(a, b string) bool { return order(a, b) == 0 })
	}
	to := std.Out
	if o.Has('o') {
		f, ferr := os.Create(o.Val('o'))
		if ferr != nil {
			return ferr
		}
		defer func() { err = cmp.Or(err, f.Close()) }()
		to = f
	}
	out := bufio.NewWriter(to)
	for _, l := range all {
		out.WriteString(l)
		out.WriteByte('\n')
	}
	return cmp.Or(out.Flush(), err)
}

func seq(_ context.Context, std applet.IO, args []string) error {
	var n [3]int64
	for i, a := range args {
		v, err := strconv.ParseInt(a, 10, 64)
		if err != nil || i == 3 {
			return applet.Usagef("takes one to three whole numbers")
		}
		n[i] = v
	}
	first, step, last := int64(1), int64(1), n[0]
	switch len(args) {
	case 0:
		return applet.Usagef("takes one to three whole numbers")
	case 2:
		first, last = n[0], n[1]
	case 3:
		first, step, last = n[0], n[1], n[2]
	}
	if step == 0 {
		return applet.Usagef("the step is 0")
	}
	out := bufio.NewWriter(std.Out)
	for v := first; step > 0 && v <= last || step < 0 && v >= last; v += step {
		if _, err := out.WriteString(strconv.FormatInt(v, 10) + "\n"); err != nil {
			return err
		}
	}
	return out.Flush()
}
