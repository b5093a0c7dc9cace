//go:build linux

package selftest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

const usage = `gw selftest [-quick] [-json] [-group NAME]

  -quick       fewer repetitions: some ten seconds instead of up to two minutes
  -json        one JSON document at the end instead of lines
  -group NAME  this group only: cpu, opcodes, storm, link, atomics, compute,
               clock, threads, memory or kernel
  -here        without child processes: the first crash is the end

Tries on this very machine what the program relies on: CPU, atomics, clock,
threads, memory, kernel. It changes nothing and runs under any firmware. The
exit status is 0 if no line says FAIL. The report is for pasting.`

// Applet returns the command; version is the program's.
func Applet(version string) applet.Applet {
	return applet.Applet{
		Name: "selftest", Group: applet.Manage, Summary: "try CPU, atomics, clock, memory and kernel of this machine",
		Usage: usage,
		Run: func(ctx context.Context, std applet.IO, args []string) error {
			return command(ctx, std, args, version)
		},
	}
}

func command(ctx context.Context, std applet.IO, args []string, version string) error {
	fs := flag.NewFlagSet("selftest", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	quick := fs.Bool("quick", false, "")
	asJSON := fs.Bool("json", false, "")
	only := fs.String("group", "", "")
	here := fs.Bool("here", false, "")
	child := fs.String("child", "", "") // a group of our own parent's
	if err := fs.Parse(args); err != nil {
		return applet.UsageError(err.Error())
	}
	if fs.NArg() > 0 {
		return applet.Usagef("what is %q?", fs.Arg(0))
	}
	all := groups()
	if name := *only + *child; name != "" {
		all = slices.DeleteFunc(all, func(g group) bool { return g.name != name })
		if len(all) == 0 {
			return applet.Usagef("no group %q", name)
		}
	}
	if *child != "" {
		return runChild(ctx, all[0], std.Out, *quick)
	}
	runner := childRunner{quick: *quick}.run
	if *here {
		runner = hereRunner{quick: *quick}.run
	}
	began := time.Now()
	who := identify("", version, *quick)
	p := printer{out: std.Out, quiet: *asJSON}
	p.head(who)
	results := runAll(ctx, all, runner, &p)
	report := Report{Identity: who, Results: results, Counts: count(results), Seconds: time.Since(began).Seconds()}
	if err := p.end(report); err != nil {
		return err
	}
	if report.Counts[Fail] > 0 {
		return applet.Exit(1)
	}
	return ctx.Err()
}

// runAll runs groups one after the other and returns what they said.
func runAll(ctx context.Context, all []group, run runner, p *printer) []Result {
	var results []Result
	for _, g := range all {
		if ctx.Err() != nil {
			break
		}
		p.group(g)
		began, n := time.Now(), len(results)
		take := func(r Result) {
			results = append(results, r)
			p.result(r)
		}
		limited, cancel := context.WithTimeout(ctx, g.limit)
		err := run(limited, g, take)
		timedOut := limited.Err() == context.DeadlineExceeded
		cancel()
		last := "its start"
		if len(results) > n {
			last = results[len(results)-1].Name
		}
		switch {
		case timedOut:
			take(Result{g.name, "end", Fail, fmt.Sprintf("hangs: killed after %v; the last line was %s", g.limit, last)})
		case err != nil && ctx.Err() == nil:
			take(Result{g.name, "end", Fail, fmt.Sprintf("died after %s: %v", last, err)})
		case len(results) == n:
			take(Result{g.name, "end", Fail, "ended without a word"})
		}
		p.took(time.Since(began))
	}
	return results
}

// runner runs one group and hands its lines over. Its error says how the
// group's process ended, if not well.
type runner func(ctx context.Context, g group, take func(Result)) error

// hereRunner runs a group in this process.
type hereRunner struct{ quick bool }

func (h hereRunner) run(ctx context.Context, g group, take func(Result)) error {
	runGroup(ctx, g, &env{quick: h.quick, emit: take})
	return nil
}

// childRunner runs a group in a process of its own, which is killed when ctx
// ends.
type childRunner struct {
	quick bool
	exe   string   // "" is this program
	args  []string // before `selftest`'s own
	env   []string // besides this process's
}

// crashLines and crashBytes bound what is kept of a crash's trace: the cause
// and the frames next to it, little enough to paste.
const (
	crashLines = 16
	crashBytes = 4 << 10
)

func (c childRunner) run(ctx context.Context, g group, take func(Result)) error {
	exe := c.exe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program's file: %w", err)
		}
	}
	args := slices.Concat(c.args, []string{"-child", g.name})
	if c.args == nil {
		args = []string{"selftest", "-child", g.name}
	}
	if c.quick {
		args = append(args, "-quick")
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Args[0] = "gw" // whatever the file is called: dispatch is by name
	cmd.Env = append(os.Environ(), c.env...)
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	cmd.WaitDelay = time.Second
	lines := lineWriter{take: take, group: g.name}
	crash := headBuffer{limit: crashBytes}
	cmd.Stdout, cmd.Stderr = &lines, &crash
	err := cmd.Run()
	lines.flush()
	if err != nil && crash.b.Len() > 0 {
		err = fmt.Errorf("%w\n%s", err, firstLines(crash.b.String(), crashLines))
	}
	return err
}

// runChild is the other end: a line of JSON for each result.
func runChild(ctx context.Context, g group, out io.Writer, quick bool) error {
	var werr error
	runGroup(ctx, g, &env{quick: quick, emit: func(r Result) {
		b, err := json.Marshal(r)
		if err == nil {
			_, err = out.Write(append(b, '\n'))
		}
		werr = errors.Join(werr, err)
	}})
	return werr
}

// lineWriter takes a child's lines apart. What is no result is one that fails,
// with the line as its detail.
type lineWriter struct {
	take  func(Result)
	group string
	part  []byte
}

// maxLine bounds what is kept of a line that does not end.
const maxLine = 16 << 10

// Write implements io.Writer.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		w.part = append(w.part, line[:min(len(line), maxLine-min(maxLine, len(w.part)))]...)
		if !ended {
			return n, nil
		}
		w.flush()
		p = rest
	}
}

// flush takes what was written as a whole line.
func (w *lineWriter) flush() {
	if len(w.part) == 0 {
		return
	}
	var r Result
	if err := json.Unmarshal(w.part, &r); err != nil || r.Name == "" || !slices.Contains([]Verdict{OK, Fail, Skip, Info}, r.Verdict) {
		r = Result{Name: "output", Verdict: Fail, Detail: "not a result: " + strings.ToValidUTF8(string(w.part[:min(len(w.part), 200)]), "?")}
	}
	r.Group = w.group
	w.part = w.part[:0]
	w.take(r)
}

// headBuffer keeps the first bytes.
type headBuffer struct {
	limit int
	b     bytes.Buffer
}

// Write implements io.Writer.
func (h *headBuffer) Write(p []byte) (int, error) {
	h.b.Write(p[:min(len(p), h.limit-h.b.Len())])
	return len(p), nil
}

// firstLines is the beginning of s.
func firstLines(s string, n int) string {
	lines := strings.SplitAfterN(strings.TrimSpace(s), "\n", n+1)
	return strings.TrimRight(strings.Join(lines[:min(n, len(lines))], ""), "\n")
}
