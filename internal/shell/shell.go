// Package shell is the box's shell: login shell, script runner and `sh -c`.
//
// The language is mvdan.cc/sh's bash dialect, the line editor golang.org/x/term's.
// This package adds what makes them a Unix shell: applets run as processes of
// their own (so that kill, ps and ctrl-C mean something), the terminal is
// handed over and taken back around each command, signals end what they should
// end. It does no job control (fg, bg, ctrl-Z); background jobs are out of
// ctrl-C's reach, and that is all.
//
// mvdan.cc/sh stays at v3.11: later versions import crypto/rand, which links a
// 32 MiB array (no exec on a 32 MiB board) and costs 86 KiB of flash more.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"gwinit/internal/applet"
)

const usage = `sh [-l] [-i] [-s] [-eux] [-c COMMAND] [FILE | NAME] [ARG...]

  -c COMMAND  run COMMAND; NAME becomes $0, the ARGs $1...
  -l          login shell (also: a name that starts with -)
  -i          interactive although standard input is no terminal
  -s          read commands from standard input, with ARGs as parameters
  -e -u -x    stop at a failure, stop at an unset variable, trace

Without COMMAND and FILE: commands from standard input, line by line.`

// DefaultPath is the PATH of a shell that inherits none.
const DefaultPath = "/sbin:/bin:/usr/sbin:/usr/bin:/userdata/bin:/userdata/usr/bin"

// motd is what a login shell says first.
const motd = "gw lists the commands, gwctl status shows the gateway."

// Applet returns the applet `sh`. names is asked, once per shell, for the
// commands of this binary: they run as /proc/self/exe with their name as
// argv[0], ahead of what PATH holds. notice is what a login shell says at its
// start, and again whenever an empty line is typed; empty: nothing.
func Applet(names func() []string, notice func() string) applet.Applet {
	return applet.Applet{
		Name: "sh", Group: applet.Process, Summary: "the shell", Usage: usage,
		Run: func(ctx context.Context, std applet.IO, args []string) error {
			o, err := parseArgs(args)
			if err != nil {
				return err
			}
			o.login = o.login || strings.HasPrefix(os.Args[0], "-")
			o.names, o.notice = names(), notice
			o.self = "/proc/self/exe"
			return run(ctx, std, o)
		},
	}
}

// options is one call of sh.
type options struct {
	command     string
	haveCommand bool
	file        string   // script, empty: standard input
	name        string   // $0
	params      []string // $1...
	set         []string // -e and the like, for interp.Params
	login       bool
	interactive bool
	stdin       bool

	names  []string // applets
	self   string   // the program that holds them
	notice func() string
}

func parseArgs(args []string) (options, error) {
	o := options{name: "sh"}
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		if arg == "--login" {
			o.login = true
			continue
		}
		for _, c := range arg[1:] {
			switch {
			case strings.ContainsRune("aefnux", c):
				o.set = append(o.set, arg[:1]+string(c))
			case arg[0] == '+':
				return o, applet.Usagef("unknown option +%c", c)
			case c == 'c':
				o.haveCommand = true
			case c == 'l':
				o.login = true
			case c == 'i':
				o.interactive = true
			case c == 's':
				o.stdin = true
			default:
				return o, applet.Usagef("unknown option -%c", c)
			}
		}
	}
	if o.haveCommand {
		if len(args) == 0 {
			return o, applet.Usagef("-c needs a command")
		}
		o.command, args = args[0], args[1:]
		if len(args) > 0 {
			o.name, args = args[0], args[1:]
		}
	} else if !o.stdin && len(args) > 0 {
		o.file, o.name, args = args[0], args[0], args[1:]
	}
	o.params = args
	return o, nil
}

// shell is one running shell.
type shell struct {
	std    applet.IO
	stdin  *os.File
	runner *interp.Runner
	names  map[string]bool
	self   string
	jobs   jobs
	tty    *tty // nil: not interactive
	status int  // $? of the last statement
	notice func() string

	isJob   bool     // this shell is a background statement of another
	pid     string   // $$
	sources sync.Map // texts by name, for the source builtin to open
}

func run(ctx context.Context, std applet.IO, o options) error {
	s := &shell{std: std, self: o.self, names: make(map[string]bool, len(o.names))}
	for _, n := range o.names {
		s.names[n] = true
	}
	s.stdin, _ = std.In.(*os.File)
	fromStdin := !o.haveCommand && o.file == ""
	if fromStdin && s.stdin != nil && (o.interactive || isTerminal(int(s.stdin.Fd()))) {
		s.tty = openTTY(s.stdin, o.login, s.jobs.hangUp)
		defer s.jobs.close()
		defer s.tty.close()
	}
	if err := s.newRunner(o); err != nil {
		return err
	}
	switch {
	case o.haveCommand:
		return s.runAll(ctx, strings.NewReader(o.command), o.name)
	case o.file != "":
		f, err := os.Open(o.file)
		if err != nil {
			fmt.Fprintf(std.Err, "sh: %v\n", err)
			return applet.Exit(127)
		}
		defer f.Close()
		return s.runAll(ctx, f, o.name)
	case s.tty != nil:
		if o.login {
			fmt.Fprintln(std.Out, motd)
			s.notice = o.notice
			s.notify()
		}
		return s.interact(ctx)
	default:
		return s.runLines(ctx, std.In)
	}
}

// notify says what there is to say to whoever sits at a login shell.
func (s *shell) notify() {
	if s.notice == nil {
		return
	}
	if text := s.notice(); text != "" {
		fmt.Fprintln(s.std.Out, text)
	}
}

func (s *shell) newRunner(o options) error {
	var in io.Reader = s.std.In
	switch {
	case s.tty != nil:
		in = s.tty.in
	case s.stdin == nil && !o.haveCommand && o.file == "":
		in = nil // the program itself comes from there
	}
	params := append(append([]string{}, o.set...), "--")
	params = append(params, o.params...)
	dir := ""
	if _, err := os.Getwd(); err != nil {
		dir = "/" // the folder is gone
	}
	var err error
	s.runner, err = interp.New(
		interp.Env(environment{expand.ListEnviron(environ(s.adopt(os.Environ()), o.login)...), s}),
		interp.Dir(dir),
		interp.Interactive(s.tty != nil),
		interp.Params(params...),
		interp.StdIO(in, s.std.Out, s.std.Err),
		interp.CallHandler(s.call),
		interp.OpenHandler(s.open),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }),
	)
	return err
}

// environ adds to env what a shell needs and was not given: the part of
// /etc/profile that every box has.
func environ(env []string, login bool) []string {
	have := func(key string) bool {
		for _, kv := range env {
			if strings.HasPrefix(kv, key+"=") && len(kv) > len(key)+1 {
				return true
			}
		}
		return false
	}
	defaults := []string{"PATH=" + DefaultPath, "HOME=/root"}
	if login {
		defaults = append(defaults, "USER=root", "LOGNAME=root", "SHELL=/bin/sh", "TERM=vt100")
	}
	for _, kv := range defaults {
		key, _, _ := strings.Cut(kv, "=")
		if !have(key) {
			env = append(env, kv)
		}
	}
	return env
}

// call adjusts the few builtins that v3.11 has no answer for, and the texts
// that others parse.
func (s *shell) call(ctx context.Context, args []string) ([]string, error) {
	hc := interp.HandlerCtx(ctx)
	var err error
	switch name := args[0]; {
	case name == "echo" && (len(args) == 1 || !strings.HasPrefix(args[1], "-")) && !hc.Env.Get(functionVariable(name)).IsSet():
		// The builtin writes each word and the newline apart, and jobs at
		// the same time would mix their lines.
		return []string{"printf", "%s\n", strings.Join(args[1:], " ")}, nil
	case name == "wait":
		return s.wait(ctx, args)
	case name == "eval" && len(args) > 1:
		var text string
		if text, _, err = s.text(strings.Join(args[1:], " "), ""); err == nil {
			return []string{"eval", text}, nil
		}
	case (name == "source" || name == ".") && len(args) > 1:
		if args, err = s.source(hc, args); err == nil {
			return args, nil
		}
	case name == "trap" && len(args) > 2:
		i := 1
		if args[i] == "--" {
			i++
		}
		var text string
		if text, _, err = s.text(args[i], "trap"); err == nil {
			args = append([]string{}, args...)
			args[i] = text
			return args, nil
		}
	case name == "unset" && len(args) > 1 && args[1] != "-v":
		// The kept text goes with the function.
		both := "builtin unset"
		for _, a := range args[1:] {
			both += " " + quote(a)
		}
		both += "\nbuiltin unset -v"
		any := false
		for _, a := range args[1:] {
			v := functionVariable(a)
			// unset NAME takes the variable first, the function only when
			// there is none.
			if hc.Env.Get(v).IsSet() && (args[1] == "-f" || !hc.Env.Get(a).IsSet()) {
				both += " " + v
				any = true
			}
		}
		if any {
			return []string{"eval", both}, nil
		}
	case name == "umask" || len(args) > 1 && args[1] == "-N" && (name == "test" || name == "[") || name == "fg" || name == "bg":
		fmt.Fprintf(hc.Stderr, "sh: %s: not supported by this shell\n", strings.Join(args, " "))
		return []string{"false"}, nil
	}
	if err != nil {
		fmt.Fprintf(hc.Stderr, "sh: %v\n", err)
		return nil, interp.NewExitStatus(2)
	}
	return args, nil
}

// runAll parses a whole program and runs it.
func (s *shell) runAll(ctx context.Context, r io.Reader, name string) error {
	file, err := syntax.NewParser().Parse(r, name)
	if err == nil {
		_, err = s.check(file)
	}
	if err != nil {
		fmt.Fprintf(s.std.Err, "sh: %v\n", err)
		return applet.Exit(2)
	}
	if n := len(file.Stmts) - 1; s.isJob && n > 0 {
		// The statement comes last, behind the copy.
		setup := file.Stmts[:n]
		file.Stmts = file.Stmts[n:]
		for _, st := range setup {
			s.runNode(ctx, st)
		}
		s.replaceShell(file.Stmts[0])
	}
	s.runNode(ctx, file)
	return s.exit()
}

// runLines runs standard input statement by statement. It reads not a byte
// further than the line it runs, which leaves the rest to `read` and to the
// commands, as POSIX wants it.
func (s *shell) runLines(ctx context.Context, in io.Reader) error {
	p := syntax.NewParser()
	err := p.Interactive(&lineReader{r: in}, func(stmts []*syntax.Stmt) bool {
		if p.Incomplete() {
			return true
		}
		return s.runStmts(ctx, stmts)
	})
	if err != nil {
		fmt.Fprintf(s.std.Err, "sh: %v\n", err)
		s.status = 2
	}
	return s.exit()
}

// runStmts runs what was parsed of one line; false: the shell shall end.
func (s *shell) runStmts(ctx context.Context, stmts []*syntax.Stmt) bool {
	for _, st := range stmts {
		if _, err := s.check(st); err != nil {
			fmt.Fprintf(s.std.Err, "sh: %v\n", err)
			s.status = 2
			s.runNode(ctx, exitWith(2))
			return true
		}
		if exited := s.runNode(ctx, st); exited {
			return false
		}
		if ctx.Err() != nil {
			break
		}
	}
	return true
}

// runNode runs one statement or program, keeps its status and reports whether
// the shell was told to exit. What v3.11 cannot interpret it panics at; that
// must cost the statement, not the shell.
func (s *shell) runNode(ctx context.Context, node syntax.Node) (exited bool) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.std.Err, "sh: not supported: %v\n", p)
			s.status = 2
		}
	}()
	err := s.runner.Run(ctx, node)
	switch status, ok := interp.IsExitStatus(err); {
	case err == nil:
		s.status = 0
	case ok:
		s.status = int(status)
	case ctx.Err() != nil, errors.Is(err, errInterrupted):
		s.status = 128 + int(unix.SIGINT)
	default:
		fmt.Fprintf(s.std.Err, "sh: %v\n", err)
		s.status = 1
	}
	return s.runner.Exited()
}

// exitWith is a statement whose only effect is $?.
func exitWith(status int) *syntax.Stmt {
	call := &syntax.CallExpr{Args: []*syntax.Word{word(lit("exit")), word(lit(fmt.Sprint(status)))}}
	return &syntax.Stmt{Cmd: &syntax.Subshell{Stmts: []*syntax.Stmt{{Cmd: call}}}}
}

func (s *shell) exit() error {
	if s.status == 0 {
		return nil
	}
	return applet.Exit(s.status)
}

// check refuses what the interpreter would panic at, where that panic would be
// out of reach (a pipeline's left side runs in a goroutine of its own), and
// rewrites the background statements and functions.
func (s *shell) check(node syntax.Node) (changed bool, err error) {
	refuse := func(pos syntax.Pos, what string) {
		if err == nil {
			err = fmt.Errorf("line %d: %s: not supported by this shell", pos.Line(), what)
		}
	}
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Coprocess {
				refuse(n.Pos(), "coproc")
			}
		case *syntax.ParamExp:
			if s.isJob && n.Param != nil && n.Param.Value == "$" {
				n.Short, n.Param.Value = false, pidVariable
			}
		case *syntax.CoprocClause:
			refuse(n.Pos(), "coproc")
		case *syntax.ForClause:
			if n.Select {
				refuse(n.Pos(), "select")
			}
		case *syntax.Redirect:
			if n.N != nil && n.N.Value != "0" && n.N.Value != "1" && n.N.Value != "2" {
				refuse(n.Pos(), "redirecting descriptor "+n.N.Value)
			}
			switch n.Op {
			case syntax.DplOut, syntax.DplIn:
				arg := n.Word.Lit()
				if arg != "-" && (n.Op == syntax.DplIn || arg != "1" && arg != "2") {
					refuse(n.Pos(), "redirection "+n.Op.String()+arg)
				}
			case syntax.RdrInOut, syntax.ClbOut:
				refuse(n.Pos(), "redirection "+n.Op.String())
			}
		case *syntax.UnaryTest:
			if n.Op == syntax.TsModif {
				refuse(n.Pos(), "test "+n.Op.String())
			}
		}
		return true
	})
	if err != nil {
		return false, err
	}
	return rewrite(node, false), nil
}

// lineReader gives one line per Read, and takes no byte behind it.
type lineReader struct {
	r    io.Reader
	rest []byte
	err  error
}

func (l *lineReader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		var b [1]byte
		for {
			n, err := l.r.Read(b[:])
			if n > 0 {
				l.rest = append(l.rest, b[0])
			}
			if err != nil {
				l.err = err
				if len(l.rest) > 0 && b[0] != '\n' {
					l.rest = append(l.rest, '\n') // the parser acts on lines
				}
				break
			}
			if n > 0 && b[0] == '\n' {
				break
			}
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
