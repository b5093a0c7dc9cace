package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"gwinit/internal/applet"
	"gwinit/internal/giveback"
)

// interact is the loop of prompt, line, execution. It ends with ctrl-D on an
// empty line, exit, SIGHUP or SIGTERM.
func (s *shell) interact(ctx context.Context) error {
	until, cancel := context.WithCancel(ctx)
	var giving sync.WaitGroup
	defer giving.Wait()
	defer cancel()
	giving.Go(func() { giveback.Run(until) })
	in := &editor{shell: s}
	for {
		parser := syntax.NewParser()
		in.reset(parser)
		exited := false
		err := parser.Interactive(in, func(stmts []*syntax.Stmt) bool {
			if parser.Incomplete() {
				return true
			}
			if len(stmts) > 0 {
				exited = !s.foreground(ctx, stmts)
			}
			return !exited && s.tty.ended() == nil
		})
		sig := s.tty.ended()
		switch {
		case sig != nil:
			return applet.Exit(statusSignal + int(sig.(syscall.Signal)))
		case exited:
			return s.exit()
		case errors.Is(err, errInterrupted):
			s.setStatus(ctx, statusSignal+int(unix.SIGINT))
		case errors.Is(err, errLineTooLong):
			fmt.Fprintf(s.std.Err, "sh: %v\n", err)
			s.setStatus(ctx, 2)
		case in.err != nil:
			// The terminal is gone, or ctrl-D.
			if in.err == io.EOF && s.tty.saved != nil {
				fmt.Fprintln(s.std.Out)
			}
			return s.exit()
		case err != nil:
			fmt.Fprintf(s.std.Err, "sh: %v\n", err)
			s.setStatus(ctx, 2)
		}
	}
}

func (s *shell) setStatus(ctx context.Context, status int) {
	s.runNode(ctx, exitWith(status))
}

// foreground runs one line; false: the shell shall end.
func (s *shell) foreground(ctx context.Context, stmts []*syntax.Stmt) bool {
	running := s.tty.begin(ctx)
	more := s.runStmts(running, stmts)
	s.tty.end()
	if running.Err() != nil {
		fmt.Fprintln(s.std.Out)
		s.setStatus(ctx, statusSignal+int(unix.SIGINT))
	}
	return more
}

// editor is the reader that the parser gets: it asks for a line when the
// parser wants more.
type editor struct {
	shell   *shell
	parser  *syntax.Parser
	history history
	rest    []byte
	err     error
	enter   bool // the last line was empty
}

func (e *editor) reset(p *syntax.Parser) { e.parser, e.rest, e.err = p, nil, nil }

// Read implements io.Reader.
func (e *editor) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		line, err := e.line()
		if err != nil {
			e.err = err
			return 0, err
		}
		e.rest = append([]byte(line), '\n')
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *editor) line() (string, error) {
	s := e.shell
	if sig := s.tty.ended(); sig != nil {
		return "", io.EOF
	}
	prompt := "> "
	if !e.parser.Incomplete() {
		prompt = s.prompt()
	}
	if s.tty.saved == nil {
		fmt.Fprint(s.std.Err, prompt)
		line, err := io.ReadAll(&oneLine{r: s.tty})
		if len(line) > 0 {
			return strings.TrimSuffix(string(line), "\n"), nil
		}
		if err == nil {
			err = io.EOF
		}
		return "", err
	}
	s.tty.makeRaw()
	defer s.tty.restore()
	if e.enter {
		e.enter = false
		s.tty.restore()
		s.notify()
		s.tty.makeRaw()
	}
	keys := &keyboard{tty: s.tty}
	ed := term.NewTerminal(keys, prompt)
	ed.History = &e.history
	cols, rows := s.tty.size()
	_ = ed.SetSize(cols, rows)
	ed.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		keys.line = len(line)
		if key != '\t' {
			return "", 0, false
		}
		return s.complete(ed, line, pos)
	}
	line, err := ed.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	e.enter = line == "" && err == nil && !e.parser.Incomplete()
	if errors.Is(err, errInterrupted) {
		fmt.Fprint(s.tty, "^C\r\n")
	}
	if errors.Is(err, errLineTooLong) {
		fmt.Fprint(s.tty, "\r\n")
	}
	return line, err
}

// lineBytes is the longest line at the prompt. The editor handles the whole
// line again at each key: 100,000 bytes took minutes. It is the longest line
// that a terminal gives a command, too (n_tty's buffer).
const lineBytes = 4096

var errLineTooLong = fmt.Errorf("the line is longer than %d bytes and was dropped", lineBytes)

// keyboard is the terminal for one line of the editor.
type keyboard struct {
	*tty
	line int // bytes of the line, and of the key that is not complete
}

// Read ends a line that grows too long with the bell, and takes its rest.
func (k *keyboard) Read(p []byte) (int, error) {
	n, err := k.tty.Read(p)
	// The editor corrects this at each key, but not within a paste.
	k.line += n
	if err != nil || k.line <= lineBytes || p[0] == '\r' || p[0] == '\n' {
		return n, err
	}
	fmt.Fprint(k.tty, "\a")
	for p[0] != '\r' && p[0] != '\n' {
		if n, err = k.tty.Read(p[:1]); err != nil {
			return n, err
		}
	}
	return 0, errLineTooLong
}

// oneLine ends with the first newline.
type oneLine struct {
	r    io.Reader
	done bool
}

func (o *oneLine) Read(p []byte) (int, error) {
	if o.done {
		return 0, io.EOF
	}
	n, err := o.r.Read(p[:1])
	o.done = n == 1 && p[0] == '\n'
	return n, err
}

// prompt is $PS1 with \u \h \w \$ filled in; by default root@HOST:DIR# .
func (s *shell) prompt() string {
	ps1 := `\u@\h:\w\$ `
	if v, ok := s.runner.Vars["PS1"]; ok {
		ps1 = v.String()
	}
	host := "gateway"
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		host = unix.ByteSliceToString(uts.Nodename[:])
	}
	dir := s.runner.Dir
	if home, ok := s.variable("HOME"); ok && len(home) > 1 {
		if dir == home {
			dir = "~"
		} else if rest, ok := strings.CutPrefix(dir, home+"/"); ok {
			dir = "~/" + rest
		}
	}
	user, sign := "root", "#"
	if os.Geteuid() != 0 {
		sign = "$"
		user, _ = s.variable("USER")
	}
	return strings.NewReplacer(`\u`, user, `\h`, host, `\w`, dir, `\$`, sign).Replace(ps1)
}

func (s *shell) variable(name string) (string, bool) {
	if v, ok := s.runner.Vars[name]; ok {
		return v.String(), v.IsSet()
	}
	v := s.runner.Env.Get(name)
	return v.String(), v.IsSet()
}

// complete fills in the word before pos: a command at the start of the line or
// behind | ; &, else a path. It returns the new line; what is ambiguous is
// listed.
func (s *shell) complete(out io.Writer, line string, pos int) (string, int, bool) {
	start := strings.LastIndexAny(line[:pos], " \t|;&<>()=`\"'") + 1
	word := line[start:pos]
	before := strings.TrimRight(line[:start], " \t")
	first := before == "" || strings.ContainsRune("|;&(`", rune(before[len(before)-1]))
	var found []string
	if first && !strings.Contains(word, "/") {
		found = s.commands(word)
	} else {
		found = paths(s.runner.Dir, word)
	}
	if len(found) == 0 {
		return line, pos, true
	}
	common := found[0]
	for _, f := range found[1:] {
		for !strings.HasPrefix(f, common) {
			common = common[:len(common)-1]
		}
	}
	if len(found) == 1 && !strings.HasSuffix(common, "/") {
		common += " "
	} else if common == word {
		fmt.Fprintf(out, "%s\n", strings.Join(found, "  "))
	}
	return line[:start] + common + line[pos:], start + len(common), true
}

func (s *shell) commands(prefix string) []string {
	found := map[string]bool{}
	for n := range s.names {
		found[n] = true
	}
	for n := range s.runner.Funcs {
		found[n] = true
	}
	for _, n := range []string{"alias", "cd", "command", "echo", "eval", "exec", "exit", "export", "printf", "read", "set", "source", "test", "trap", "type", "unset", "wait"} {
		found[n] = true
	}
	list, _ := s.variable("PATH")
	for _, dir := range filepath.SplitList(list) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), prefix) {
				found[e.Name()] = true
			}
		}
	}
	var out []string
	for n := range found {
		if strings.HasPrefix(n, prefix) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func paths(dir, word string) []string {
	base, prefix := filepath.Split(word)
	in := base
	if !filepath.IsAbs(in) {
		in = filepath.Join(dir, in)
	}
	entries, _ := os.ReadDir(in)
	var out []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || prefix == "" && name[0] == '.' {
			continue
		}
		if fi, err := os.Stat(filepath.Join(in, name)); err == nil && fi.IsDir() {
			name += "/"
		}
		out = append(out, base+name)
	}
	return out
}

// history is the newest lines of this shell; it dies with it.
type history struct{ lines []string }

const historyLines = 200

// Add implements term.History.
func (h *history) Add(line string) {
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	if len(h.lines) == historyLines {
		h.lines = slices.Delete(h.lines, 0, 1)
	}
	h.lines = append(h.lines, line)
}

// Len implements term.History.
func (h *history) Len() int { return len(h.lines) }

// At implements term.History; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

var _ term.History = (*history)(nil)

var _ interp.ExecHandlerFunc = (*shell)(nil).exec
