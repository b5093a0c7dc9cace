package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/bounded"
)

const (
	// atOnce is how many gateways are asked at a time.
	atOnce = 32
	// followMost is how many can be followed: each is a login that stays.
	followMost = 64
	// eachTime is how long a gateway of several may take, if -timeout does not
	// say, and longTime where it sends or takes files or restarts.
	eachTime = 2 * time.Minute
	longTime = 15 * time.Minute
	// keepBytes is how much of one gateway's output is kept until it is shown,
	// and keepAll of all together.
	keepBytes = 256 << 10
	keepAll   = 32 << 20
	// tellAfter is when a person is told who is waited for.
	tellAfter = 5 * time.Second
)

// errLate ends a gateway that takes too long.
var errLate = errors.New("it took too long")

// outcome is what came of one of several gateways.
type outcome struct {
	out, errs bounded.Buffer
	err       error
}

// follows tells whether a command goes on until somebody ends it.
func follows(args []string) bool {
	flag := func(name string) bool { return slices.Contains(args, "-"+name) || slices.Contains(args, "--"+name) }
	switch firstWord(args) {
	case "logs":
		return flag("f")
	case "status":
		return flag("w")
	case "bridge":
		return flag("w") || slices.Contains(args, "tap")
	}
	return false
}

// width is that of the longest name.
func width(targets []target) int {
	w := 0
	for _, t := range targets {
		w = max(w, len(t.name))
	}
	return w
}

// many carries args out on each, atOnce at a time, and shows what each said when
// all before it are done, or all in one table.
func (r *runner) many(ctx context.Context, targets []target, args []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asJSON := slices.Contains(args, "-json") || slices.Contains(args, "--json")
	if follows(args) {
		return r.follow(ctx, targets, args)
	}
	name := firstWord(args)
	side := !asJSON && gwctl.SideBySide(name) && !help(args)
	if side {
		args = append(slices.Clone(args), "-json")
		if i := slices.Index(args, "version"); i >= 0 {
			// Its answer is one without a gateway, too; that of status is not.
			args[i] = "status"
		}
	}
	outcomes := r.askAll(ctx, targets, args)
	all := make([]*outcome, 0, len(targets))
	var failed, found []string
	for i, t := range targets {
		o := <-outcomes.of[i]
		outcomes.done(i)
		switch {
		case o.err == nil:
		case side && errors.As(o.err, new(applet.Exit)) && name == "doctor":
			found = append(found, t.name)
		default:
			failed = append(failed, t.name)
		}
		if side {
			all = append(all, o)
			continue
		}
		outcomes.quiet()
		if err := r.show(t, o, width(targets), asJSON); err != nil {
			return err
		}
	}
	outcomes.quiet()
	if side {
		if err := r.sideBySide(name, targets, all, &failed); err != nil {
			return err
		}
	}
	if len(found) > 0 {
		fmt.Fprintf(r.std.Err, "gwctl: doctor found something at %d of %d: %s\n", len(found), len(targets), strings.Join(found, ", "))
	}
	if len(failed) > 0 && !asJSON {
		fmt.Fprintf(r.std.Err, "gwctl: %d of %d failed: %s\n", len(failed), len(targets), strings.Join(failed, ", "))
	}
	if len(failed)+len(found) > 0 {
		return applet.Exit(1)
	}
	return nil
}

// asking is the gateways that are being asked.
type asking struct {
	of []chan *outcome

	mu      sync.Mutex // guards the rest
	w       io.Writer  // nil: nobody is told
	waiting []string   // names, "" when done
	drawn   bool
	tick    *time.Timer
}

// askAll begins to carry args out on all.
func (r *runner) askAll(ctx context.Context, targets []target, args []string) *asking {
	a := &asking{of: make([]chan *outcome, len(targets)), waiting: make([]string, len(targets))}
	keep := min(keepBytes, keepAll/len(targets))
	slots := make(chan struct{}, atOnce)
	for i, t := range targets {
		a.of[i] = make(chan *outcome, 1)
		a.waiting[i] = t.name
	}
	if terminalWidth(r.std.Err) > 0 {
		a.w = r.std.Err
		a.mu.Lock()
		a.tick = time.AfterFunc(tellAfter, a.draw)
		a.mu.Unlock()
	}
	go func() {
		for i, t := range targets {
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				a.of[i] <- r.askOne(ctx, t, args, keep)
			}()
		}
	}()
	return a
}

// askOne carries args out on one, within its time.
func (r *runner) askOne(ctx context.Context, t target, args []string, keep int) *outcome {
	o := &outcome{out: bounded.Buffer{Max: keep}, errs: bounded.Buffer{Max: keep}}
	each := r.each
	if each == 0 {
		each = eachTime
		if _, files := carry(args); files || firstWord(args) == "reboot" {
			each = longTime
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, each, errLate)
	defer cancel()
	std := applet.IO{In: strings.NewReader(""), Out: &o.out, Err: &o.errs}
	o.err = r.one(ctx, std, t, slices.Clone(args))
	if o.err != nil && errors.Is(context.Cause(ctx), errLate) {
		o.err = fmt.Errorf("no answer within %v; -timeout TIME waits longer", each)
	}
	return o
}

// draw says who is waited for, on one line that quiet takes away.
func (a *asking) draw() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.w == nil {
		return
	}
	var names []string
	n := 0
	for _, name := range a.waiting {
		if name == "" {
			continue
		}
		if n++; len(names) < 3 {
			names = append(names, name)
		}
	}
	if n == 0 {
		return
	}
	text := fmt.Sprintf("waiting for %d of %d: %s", n, len(a.waiting), strings.Join(names, ", "))
	if n > len(names) {
		text += ", ..."
	}
	fmt.Fprint(a.w, "\r"+text+"\x1b[K")
	a.drawn = true
	a.tick.Reset(time.Second)
}

// done says that nobody waits for a gateway any more.
func (a *asking) done(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[i] = ""
	if !slices.ContainsFunc(a.waiting, func(name string) bool { return name != "" }) && a.tick != nil {
		a.tick.Stop()
	}
}

// quiet takes the line away, before something else is written.
func (a *asking) quiet() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.drawn {
		fmt.Fprint(a.w, "\r\x1b[K")
		a.drawn = false
	}
}

// follow carries out what goes on, on all at the same time, and shows each line
// behind the name as it comes.
func (r *runner) follow(ctx context.Context, targets []target, args []string) error {
	if len(targets) > followMost {
		return applet.Usagef("at most %d gateways can be followed, not %d: name fewer with -H or -G", followMost, len(targets))
	}
	w := width(targets)
	var out, errs sync.Mutex // each guards a stream
	var all sync.WaitGroup
	results := make([]error, len(targets))
	for i, t := range targets {
		all.Go(func() {
			first := fmt.Sprintf("%-*s  ", w, t.name)
			o := &lines{first: first, to: r.std.Out, mu: &out}
			e := &lines{first: first, to: r.std.Err, mu: &errs}
			err := r.one(ctx, applet.IO{In: strings.NewReader(""), Out: o, Err: e}, t, slices.Clone(args))
			if err != nil && !errors.As(err, new(applet.Exit)) && ctx.Err() == nil {
				fmt.Fprintf(e, "gwctl: %v\n", err)
			}
			o.end()
			e.end()
			results[i] = err
		})
	}
	all.Wait()
	var failed []string
	for i, err := range results {
		if err != nil && ctx.Err() == nil {
			failed = append(failed, targets[i].name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	fmt.Fprintf(r.std.Err, "gwctl: %d of %d failed: %s\n", len(failed), len(targets), strings.Join(failed, ", "))
	return applet.Exit(1)
}

// maxLine is how long a line may get until it is written.
const maxLine = 64 << 10

// lines writes whole lines, each with something before it.
type lines struct {
	first string
	buf   []byte // of a line that has no end yet

	mu *sync.Mutex // guards to, which others write to as well
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.buf = append(l.buf, p...)
	var whole []byte
	for {
		i := bytes.IndexByte(l.buf, '\n')
		if i < 0 && len(l.buf) < maxLine {
			break
		}
		n := i + 1
		if i < 0 {
			i, n = len(l.buf), len(l.buf)
		}
		whole = append(append(append(whole, l.first...), l.buf[:i]...), '\n')
		l.buf = l.buf[n:]
	}
	if len(whole) == 0 {
		return len(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.to.Write(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// end writes what is left.
func (l *lines) end() {
	if len(l.buf) > 0 {
		_, _ = l.Write([]byte("\n")) // an error comes with the next line of another
	}
}

// show writes what one said, each line behind its name; with -json one line of
// {"host":...,"data":...}.
func (r *runner) show(t target, o *outcome, width int, asJSON bool) error {
	said := o.out.Bytes()
	why := o.why()
	if asJSON {
		line := struct {
			Host  string   `json:"host"`
			Data  rawLines `json:"data,omitempty"`
			Error string   `json:"error,omitempty"`
		}{t.name, rawLines(bytes.TrimSpace(said)), why}
		b, err := wire.Marshal(line)
		if err == nil {
			_, err = r.std.Out.Write(append(b, '\n'))
		}
		return err
	}
	write := func(w io.Writer, text []byte) error {
		for line := range bytes.Lines(text) {
			if _, err := fmt.Fprintf(w, "%-*s  %s\n", width, t.name, bytes.TrimRight(line, "\n")); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(r.std.Out, said); err != nil {
		return err
	}
	if o.out.Cut || o.errs.Cut {
		why = strings.TrimPrefix(why+"; ", "; ") + fmt.Sprintf("it said more than %d KiB, the rest was left out", o.out.Max>>10)
	}
	if err := write(r.std.Err, o.errs.Bytes()); err != nil || why == "" {
		return err
	}
	return write(r.std.Err, []byte("gwctl: "+why))
}

// why is an error that it has not said yet.
func (o *outcome) why() string {
	if o.err == nil || errors.As(o.err, new(applet.Exit)) {
		return ""
	}
	return o.err.Error()
}

// rawLines is JSON, several values of which make an array.
type rawLines []byte

func (r rawLines) MarshalJSON() ([]byte, error) {
	lines := bytes.Split(r, []byte("\n"))
	if len(lines) == 1 {
		return r, nil
	}
	return append(append([]byte("["), bytes.Join(lines, []byte(","))...), ']'), nil
}
