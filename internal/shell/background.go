package shell

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// v3.11 runs STMT & in a goroutine that reads the very variables the shell
// goes on to change: wrong values, and a "concurrent map read and map write"
// that no recover stops. Here it becomes a process that starts with a copy:
//
//	declare -g __GW_JOB=('STMT' "$?" "$(set +o; shopt; alias)" "$0" "$@")
//	__GW_BACKGROUND
//
// which startJob turns into `sh -c`, the copy printed in front of the
// statement. declare is what `set -x` does not show.

// Names that begin with privatePrefix are this package's: never exported,
// never copied.
const (
	privatePrefix  = "__GW_"
	startCommand   = privatePrefix + "BACKGROUND" // the command behind &
	jobVariable    = privatePrefix + "JOB"        // what it is to start; in the environment: jobMark
	functionPrefix = privatePrefix + "FUNCTION_"  // plus the name in hex: the text of a function
	bodyFunction   = privatePrefix + "BODY"       // a statement of a function, for `local`
	pidVariable    = privatePrefix + "PID"        // $$ of the shell that has the job
	execMark       = privatePrefix + "EXEC"       // set for a command that takes the shell's place
	sourcePrefix   = "/" + privatePrefix + "SOURCE/"
)

// fieldsBeforeParams are the elements of jobVariable ahead of "$@".
const fieldsBeforeParams = 4

// rewrite replaces what v3.11 would run in a goroutine beside the shell, and keeps the text of
// each function in a variable, which a job's copy is made from.
func rewrite(node syntax.Node, inFunction bool) (changed bool) {
	separate := map[*syntax.Stmt]bool{}
	syntax.Walk(node, func(n syntax.Node) bool {
		st, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		if st.Background {
			changed = true
			job := *st
			job.Background = false
			_, simple := job.Cmd.(*syntax.CallExpr)
			text := printed(&job)
			if inFunction && !simple {
				text = bodyFunction + "() {\n" + text + "\n}\n" + bodyFunction + ` "$@"`
			}
			*st = syntax.Stmt{Position: st.Position, Cmd: startClause(text)}
			return false
		}
		if pipe := pipeline(st); pipe != nil && !separate[st] {
			changed = true
			separateSides(st, separate)
			return true
		}
		f, ok := st.Cmd.(*syntax.FuncDecl)
		if !ok {
			return true
		}
		changed = true
		keep := declare(functionVariable(f.Name.Value), quotedWord(printed(f)))
		rewrite(f.Body, true)
		st.Cmd = &syntax.Block{Stmts: []*syntax.Stmt{{Position: st.Position, Cmd: f}, {Position: st.Position, Cmd: keep}}}
		return false
	})
	return changed
}

func pipeline(st *syntax.Stmt) *syntax.BinaryCmd {
	if b, ok := st.Cmd.(*syntax.BinaryCmd); ok && (b.Op == syntax.Pipe || b.Op == syntax.PipeAll) {
		return b
	}
	return nil
}

// separateSides makes each right side of a pipeline a subshell, as POSIX
// allows and bash does: v3.11 runs it on the variables that the goroutine of
// the left side reads. Statements that are done go into done.
func separateSides(st *syntax.Stmt, done map[*syntax.Stmt]bool) {
	for left := st; pipeline(left) != nil; left = pipeline(left).X {
		done[left] = true
		b := pipeline(left)
		if _, already := b.Y.Cmd.(*syntax.Subshell); already {
			continue
		}
		b.Y = &syntax.Stmt{Position: b.Y.Position, Cmd: &syntax.Subshell{Stmts: []*syntax.Stmt{b.Y}}}
	}
	if st.Negated {
		return
	}
	// set -e looks at simple commands only, and a subshell is none. This one
	// is not shown by set -x.
	exit := &syntax.Stmt{
		Cmd:    &syntax.CallExpr{Args: []*syntax.Word{word(lit("exit")), word(&syntax.ParamExp{Short: true, Param: lit("?")})}},
		Redirs: []*syntax.Redirect{{N: lit("2"), Op: syntax.RdrOut, Word: word(lit(os.DevNull))}},
	}
	status := &syntax.CallExpr{Args: []*syntax.Word{word(&syntax.CmdSubst{Stmts: []*syntax.Stmt{exit}})}}
	inner := &syntax.Stmt{Position: st.Position, Cmd: st.Cmd}
	done[inner] = true
	st.Cmd = &syntax.Block{Stmts: []*syntax.Stmt{inner, {Cmd: status}}}
}

func functionVariable(name string) string { return functionPrefix + hex.EncodeToString([]byte(name)) }

func declare(name string, value *syntax.Word) *syntax.DeclClause {
	return &syntax.DeclClause{Variant: lit("declare"), Args: []*syntax.Assign{
		{Naked: true, Value: word(lit("-g"))},
		{Name: lit(name), Value: value},
	}}
}

func startClause(text string) syntax.Command {
	param := func(name string) *syntax.Word {
		return word(&syntax.DblQuoted{Parts: []syntax.WordPart{&syntax.ParamExp{Short: true, Param: lit(name)}}})
	}
	call := func(args ...string) *syntax.Stmt {
		c := &syntax.CallExpr{}
		for _, a := range args {
			c.Args = append(c.Args, word(lit(a)))
		}
		return &syntax.Stmt{Cmd: c}
	}
	state := &syntax.Stmt{
		Cmd:    &syntax.Block{Stmts: []*syntax.Stmt{call("set", "+o"), call("shopt"), call("alias")}},
		Redirs: []*syntax.Redirect{{N: lit("2"), Op: syntax.RdrOut, Word: word(lit(os.DevNull))}},
	}
	d := declare(jobVariable, nil)
	array := &syntax.ArrayExpr{}
	for _, w := range []*syntax.Word{
		quotedWord(text), param("?"),
		word(&syntax.DblQuoted{Parts: []syntax.WordPart{&syntax.CmdSubst{Stmts: []*syntax.Stmt{state}}}}),
		param("0"), param("@"),
	} {
		array.Elems = append(array.Elems, &syntax.ArrayElem{Value: w})
	}
	d.Args[1].Array = array
	return &syntax.Block{Stmts: []*syntax.Stmt{{Cmd: d}, call(startCommand)}}
}

func lit(v string) *syntax.Lit { return &syntax.Lit{Value: v} }

func word(parts ...syntax.WordPart) *syntax.Word { return &syntax.Word{Parts: parts} }

// quotedWord is v as a word that prints as quote(v) does.
func quotedWord(v string) *syntax.Word {
	w := &syntax.Word{}
	for i, part := range strings.Split(v, "'") {
		if i > 0 {
			w.Parts = append(w.Parts, &syntax.DblQuoted{Parts: []syntax.WordPart{lit("'")}})
		}
		w.Parts = append(w.Parts, &syntax.SglQuoted{Value: part})
	}
	return w
}

// quote does without \', which v3.11 leaves as it is in an assignment.
func quote(v string) string { return "'" + strings.ReplaceAll(v, "'", `'"'"'`) + "'" }

func printed(node syntax.Node) string {
	var b strings.Builder
	// What the parser returned always prints, and a Builder takes it.
	_ = syntax.NewPrinter().Print(&b, node)
	return b.String()
}

// startJob starts the statement behind & as a process group of its own.
func (s *shell) startJob(hc interp.HandlerContext) error {
	job := hc.Env.Get(jobVariable).List
	if len(job) < fieldsBeforeParams {
		fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", startCommand)
		return interp.NewExitStatus(statusNotFound)
	}
	text, status, state, name := job[0], job[1], job[2], job[3]
	program := snapshot(hc.Env) + settings(state) + "(exit " + status + "); } 2>/dev/null\n" + text + "\n"
	cmd := &exec.Cmd{
		Path: s.self, Args: append([]string{"sh", "-c", "--", program, name}, job[fieldsBeforeParams:]...),
		Env: append(exported(hc.Env), jobVariable+"="+s.pid+" "+s.jobs.newest()), Dir: hc.Dir,
		Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	// POSIX shell, 2.9.3: a job without a redirection must not eat what the
	// shell reads.
	if f, _ := hc.Stdin.(*os.File); f == nil || f == s.stdin || s.tty != nil && f == s.tty.in {
		cmd.Stdin = nil
	}
	done, err := s.jobs.start(cmd)
	if err != nil {
		fmt.Fprintf(hc.Stderr, "sh: background: %v\n", err)
		return interp.NewExitStatus(statusNotExecutable)
	}
	_, out := hc.Stdout.(*os.File)
	_, errs := hc.Stderr.(*os.File)
	if !out || !errs {
		// $(STMT &): what the job prints is part of the value, so it ends
		// before the value does.
		<-done
	}
	return nil
}

// snapshot is the program that sets the variables and functions of env which
// the environment does not carry.
func snapshot(env expand.Environ) string {
	vars := map[string]expand.Variable{}
	var order []string
	env.Each(func(name string, v expand.Variable) bool {
		if _, ok := vars[name]; !ok {
			order = append(order, name)
		}
		vars[name] = v
		return true
	})
	var b, readonly strings.Builder
	for _, name := range order {
		v := vars[name]
		switch name {
		case "UID", "EUID", "GID", "PWD":
			continue // each shell sets its own
		}
		if !v.IsSet() || !syntax.ValidName(name) {
			continue
		}
		if strings.HasPrefix(name, functionPrefix) {
			b.WriteString(v.String() + "\n")
			continue
		}
		if strings.HasPrefix(name, privatePrefix) {
			continue
		}
		switch v.Kind {
		case expand.String:
			if !v.Exported {
				b.WriteString(name + "=" + quote(v.Str) + "\n")
			}
		case expand.NameRef:
			b.WriteString("declare -n " + name + "=" + quote(v.Str) + "\n")
		case expand.Indexed:
			b.WriteString(name + "=(")
			for _, e := range v.List {
				b.WriteString(quote(e) + " ")
			}
			b.WriteString(")\n")
		case expand.Associative:
			b.WriteString("declare -A " + name + "=(")
			for k, e := range v.Map {
				b.WriteString("[" + quote(k) + "]=" + quote(e) + " ")
			}
			b.WriteString(")\n")
		}
		if v.ReadOnly {
			readonly.WriteString("readonly " + name + "\n")
		}
	}
	return b.String() + readonly.String()
}

// settings turns what set +o, shopt and alias print into a program that opens
// a block: set -x must not show what follows in it.
func settings(state string) string {
	var b, set strings.Builder
	for _, line := range strings.Split(state, "\n") {
		if strings.HasPrefix(line, "set -o ") {
			set.WriteString(line + "\n")
		} else if rest, ok := strings.CutPrefix(line, "alias "); ok {
			name, text, _ := strings.Cut(rest, "='")
			b.WriteString("alias " + quote(name+"="+strings.TrimSuffix(text, "'")) + "\n")
		} else if opt, is, ok := strings.Cut(line, "\t"); ok && !strings.Contains(is, "supported") {
			flag := "-u "
			if is == "on" {
				flag = "-s "
			}
			b.WriteString("shopt " + flag + opt + "\n")
		}
	}
	return b.String() + "{\n" + set.String()
}

// adopt takes what startJob put into the environment out of it.
func (s *shell) adopt(env []string) []string {
	s.pid = strconv.Itoa(os.Getpid())
	out := env[:0:0]
	for _, kv := range env {
		mark, ok := strings.CutPrefix(kv, jobVariable+"=")
		if !ok {
			out = append(out, kv)
			continue
		}
		s.isJob = true
		s.pid, s.jobs.last, _ = strings.Cut(mark, " ")
	}
	return out
}

// replaceShell marks a job's command when it is the whole job, so that $! is
// its process and no second shell stays in memory for it. A function, or what
// runs a text of its own, is more than one command.
func (s *shell) replaceShell(st *syntax.Stmt) {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || len(c.Args) == 0 {
		return
	}
	helped := false
	syntax.Walk(st, func(n syntax.Node) bool {
		// v3.11 feeds these from goroutines of this process.
		switch n := n.(type) {
		case *syntax.ProcSubst:
			helped = true
		case *syntax.Redirect:
			helped = helped || n.Hdoc != nil || n.Op == syntax.WordHdoc
		}
		return true
	})
	if helped {
		return
	}
	switch name := c.Args[0].Lit(); name {
	case "", "eval", "source", ".", "builtin":
	default:
		if s.runner.Funcs[name] == nil {
			c.Assigns = append(c.Assigns, &syntax.Assign{Name: lit(execMark), Value: word(lit("1"))})
		}
	}
}

// become makes cmd of this process; it returns only when that failed.
func become(cmd *exec.Cmd) error {
	if err := os.Chdir(cmd.Dir); err != nil {
		return err
	}
	files := [3]*os.File{}
	for i, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, _ := stream.(*os.File)
		if f == nil {
			var err error
			if f, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return err
			}
		}
		files[i] = f
	}
	// First out of the way of 0 to 2, then there: 2>&1 >f crosses over.
	var high [3]int
	for i, f := range files {
		fd, err := dupAbove2(int(f.Fd()))
		if err != nil {
			return err
		}
		high[i] = fd
	}
	for i, fd := range high {
		if err := syscall.Dup3(fd, i, 0); err != nil {
			return err
		}
	}
	return syscall.Exec(cmd.Path, cmd.Args, cmd.Env)
}

// environment is what the shell started with, and the parameters that v3.11
// does not know.
type environment struct {
	expand.Environ
	shell *shell
}

// Get implements expand.Environ.
func (e environment) Get(name string) expand.Variable {
	value := ""
	switch name {
	case "!":
		value = e.shell.jobs.newest()
	case pidVariable:
		value = e.shell.pid
	default:
		return e.Environ.Get(name)
	}
	return expand.Variable{Set: value != "", Kind: expand.String, Str: value}
}

// wait is the builtin: its jobs are processes, which v3.11 does not know.
func (s *shell) wait(ctx context.Context, args []string) ([]string, error) {
	if len(args) == 1 || strings.HasPrefix(args[1], "%") {
		// What is left to the builtin are process substitutions.
		return []string{"wait"}, s.jobs.waitAll(ctx)
	}
	status := 0
	for _, a := range args[1:] {
		var err error
		if status, err = s.jobs.wait(ctx, a); err != nil {
			return nil, err
		}
	}
	return []string{"eval", "(exit " + strconv.Itoa(status) + ")"}, nil
}

// text checks and rewrites a program that a builtin will parse.
func (s *shell) text(src, name string) (string, bool, error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(src), name)
	if err != nil {
		return src, false, nil // the builtin says so, its own way
	}
	changed, err := s.check(file)
	if err != nil || !changed {
		return src, false, err
	}
	return printed(file), true, nil
}

// source gives the builtin the rewritten text of a file under a name that
// openSource knows.
func (s *shell) source(hc interp.HandlerContext, args []string) ([]string, error) {
	dirs := []string{hc.Dir}
	if !strings.Contains(args[1], "/") {
		dirs = append(filepath.SplitList(hc.Env.Get("PATH").String()), hc.Dir)
	}
	for _, dir := range dirs {
		path := args[1]
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if fi, err := os.Stat(path); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			break
		}
		text, changed, err := s.text(string(b), path)
		if err != nil {
			return nil, err
		}
		if !changed {
			break
		}
		s.sources.Store(sourcePrefix+path, text)
		return append([]string{args[0], sourcePrefix + path}, args[2:]...), nil
	}
	return args, nil
}

func (s *shell) open(ctx context.Context, path string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	if text, ok := s.sources.Load(path); ok && strings.HasPrefix(path, sourcePrefix) {
		return sourceText{strings.NewReader(text.(string))}, nil
	}
	return interp.DefaultOpenHandler()(ctx, path, flag, perm)
}

type sourceText struct{ io.Reader }

func (sourceText) Write([]byte) (int, error) { return 0, os.ErrPermission }
func (sourceText) Close() error              { return nil }
