// Package progress tells a person how far a long command is: by a bar that is
// drawn over itself on a terminal, and by a line for every tenth elsewhere.
//
// It has no colours, so that NO_COLOR asks nothing of it, and needs of a terminal
// only that a carriage return goes back to the line's beginning.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

const (
	// patience is how long something takes until it is long: what ends before has
	// no bar, and no lines.
	patience = time.Second
	// redraw is how often a bar is drawn at most, and tick how often at least, so
	// that one sees it wait.
	redraw = 100 * time.Millisecond
	tick   = time.Second
	// cells are a bar's.
	cells = 30
)

// Unit is what is counted.
type Unit int

// Units.
const (
	Bytes Unit = iota
	// Seconds are waited for, with total as the most: what comes may come at any
	// time, so there is no bar but the numbers, and no lines elsewhere.
	Seconds
)

// Bar is the progress of one thing. All of its methods may be called on nil, which
// shows nothing, and from several goroutines.
type Bar struct {
	w     io.Writer
	what  string
	unit  Unit
	total int64
	tty   bool

	stop    chan struct{}
	stopped chan struct{}

	mu    sync.Mutex // guards what follows
	begun time.Time  // zero: not yet
	done  int64
	drawn time.Time // zero: nothing is on the line
	wide  int       // what is on it
	tenth int64     // told in lines
	ended bool
}

// New is a bar of what, as in "upload", on w, which is the standard error of a
// command. A total of 0 is one that is not known. Nothing is shown until Begin; the
// caller must End it.
func New(w io.Writer, what string, unit Unit, total int64) *Bar {
	return newBar(w, what, unit, total, terminal(w))
}

// terminal tells whether w is one that can draw over a line.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func newBar(w io.Writer, what string, unit Unit, total int64, tty bool) *Bar {
	return &Bar{w: w, what: what, unit: unit, total: total, tty: tty, stop: make(chan struct{}), stopped: make(chan struct{})}
}

// Begin says that it goes on from now, and that nobody is asked anything on w any
// more. Further calls do nothing.
func (b *Bar) Begin() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || !b.begun.IsZero() {
		return
	}
	b.begun = time.Now()
	go b.watch()
}

// watch draws what does not move, until End.
func (b *Bar) watch() {
	defer close(b.stopped)
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-t.C:
			b.mu.Lock()
			b.show()
			b.mu.Unlock()
		}
	}
}

// At says how much is done by now.
func (b *Bar) At(done int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(done)
}

func (b *Bar) add(n int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(b.done + int64(n))
}

// set is At for who holds mu.
func (b *Bar) set(done int64) {
	b.done = done
	if time.Since(b.drawn) >= redraw || done == b.total {
		b.show()
	}
}

// show draws, for who holds mu.
func (b *Bar) show() {
	took := time.Since(b.begun)
	if b.begun.IsZero() || b.ended || took < patience {
		return
	}
	if !b.tty {
		if b.unit == Seconds || b.total <= 0 {
			return
		}
		if tenth := 10 * min(b.done, b.total) / b.total; tenth > b.tenth {
			b.tenth = tenth
			fmt.Fprintf(b.w, "%s: %d %% (%s)\n", b.what, 10*tenth, b.numbers())
		}
		return
	}
	text := b.what + " "
	if b.unit == Bytes && b.total > 0 {
		n := int(cells * min(b.done, b.total) / b.total)
		text += fmt.Sprintf("[%s%s] %3d %%, ", strings.Repeat("#", n), strings.Repeat(".", cells-n), 100*min(b.done, b.total)/b.total)
	}
	text += b.numbers()
	if b.unit != Seconds {
		text += fmt.Sprintf(", %d s", int(took/time.Second))
	}
	b.over(text)
	b.drawn = time.Now()
}

// over draws text over what is on the line.
func (b *Bar) over(text string) {
	wide := utf8.RuneCountInString(text)
	fmt.Fprint(b.w, "\r"+text+strings.Repeat(" ", max(0, b.wide-wide)))
	b.wide = wide
}

// numbers are done and total in their unit.
func (b *Bar) numbers() string {
	if b.unit == Seconds {
		return fmt.Sprintf("%d s (%d at most)", b.done, b.total)
	}
	text := fmt.Sprintf("%d", (b.done+1023)>>10)
	if b.total > 0 {
		text += fmt.Sprintf(" of %d", (b.total+1023)>>10)
	}
	return text + " KiB"
}

// clear takes what is drawn away, for who holds mu.
func (b *Bar) clear() {
	if b.wide > 0 {
		b.over("")
		fmt.Fprint(b.w, "\r")
	}
}

// End ends it, and takes what is drawn away. A second End does nothing.
func (b *Bar) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	if b.ended {
		b.mu.Unlock()
		return
	}
	b.ended = true
	b.clear()
	begun := !b.begun.IsZero()
	b.mu.Unlock()
	close(b.stop)
	if begun {
		<-b.stopped
	}
}

// Beside is w for what is said meanwhile: the bar makes room for it. It is nil for
// a nil w.
func (b *Bar) Beside(w io.Writer) io.Writer {
	if b == nil || w == nil {
		return w
	}
	return beside{b, w}
}

type beside struct {
	b *Bar
	w io.Writer
}

func (w beside) Write(p []byte) (int, error) {
	w.b.mu.Lock()
	defer w.b.mu.Unlock()
	w.b.clear()
	return w.w.Write(p)
}

// Reader counts what is read of r, and ends the bar where r ends.
func (b *Bar) Reader(r io.Reader) io.Reader { return reader{b, r} }

type reader struct {
	b *Bar
	r io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.b.add(n)
	if err != nil {
		r.b.End()
	}
	return n, err
}

// Writer counts what is written to w.
func (b *Bar) Writer(w io.Writer) io.Writer { return writer{b, w} }

type writer struct {
	b *Bar
	w io.Writer
}

func (w writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.b.add(n)
	return n, err
}
