package progress

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"gwinit/internal/texttest"
)

// screen is what a terminal's line shows after what was written to it.
func screen(t *testing.T, written string) string {
	t.Helper()
	if strings.ContainsRune(written, '\x1b') {
		t.Errorf("%q has escape sequences, which no NO_COLOR wants", written)
	}
	var line []rune
	at := 0
	for _, c := range written {
		switch c {
		case '\r':
			at = 0
		case '\n':
			line, at = nil, 0
		default:
			if at == len(line) {
				line = append(line, 0)
			}
			line[at] = c
			at++
		}
	}
	return strings.TrimRight(string(line), " ")
}

func TestOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out texttest.Buffer
		b := newBar(&out, "upload", Bytes, 300<<10, true)
		defer b.End()
		b.Begin()
		b.At(100 << 10)
		if out.Len() > 0 {
			t.Errorf("at once: %q", out.String())
		}
		time.Sleep(1500 * time.Millisecond)
		b.Begin() // again, which changes nothing
		synctest.Wait()
		// It is seen to wait, although nothing moves.
		if got, want := screen(t, out.String()), "upload [##########....................]  33 %, 100 of 300 KiB, 1 s"; got != want {
			t.Errorf("after a second: %q, want %q", got, want)
		}
		b.At(200 << 10)
		drawn := out.Len()
		b.At(201 << 10) // too soon
		if out.Len() != drawn {
			t.Error("it draws at every call")
		}
		b.At(300 << 10)
		if got, want := screen(t, out.String()), "upload [##############################] 100 %, 300 of 300 KiB, 1 s"; got != want {
			t.Errorf("at the end: %q, want %q", got, want)
		}
		if _, err := io.WriteString(b.Beside(&out), "something\n"); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), " \rsomething\n") {
			t.Errorf("what is said beside stands in the bar: %q", out.String())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if screen(t, out.String()) == "" {
			t.Error("the bar does not come back behind what was said beside")
		}
		b.End()
		if got := screen(t, out.String()); got != "" || !strings.HasSuffix(out.String(), "\r") {
			t.Errorf("left on the line: %q", got)
		}
		drawn = out.Len()
		b.At(1)
		b.End()
		time.Sleep(time.Minute)
		synctest.Wait()
		if out.Len() != drawn {
			t.Error("it draws after its end")
		}
	})
}

// A shorter text leaves nothing of a longer one.
func TestShorter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out texttest.Buffer
		b := newBar(&out, "report", Bytes, 0, true)
		b.Begin()
		time.Sleep(patience)
		b.At(1000 << 10)
		time.Sleep(redraw)
		b.At(1 << 10)
		if got, want := screen(t, out.String()), "report 1 KiB, 1 s"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		b.End()
	})
}

func TestNoTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out texttest.Buffer
		b := newBar(&out, "upload", Bytes, 1<<20, false)
		b.Begin()
		time.Sleep(time.Minute) // and nothing moves
		for i := range 1025 {
			b.At(int64(i) << 10)
		}
		b.End()
		var want strings.Builder
		for i := range 10 {
			fmt.Fprintf(&want, "upload: %d %% (%d of 1024 KiB)\n", 10*(i+1), (1024*(i+1)+9)/10)
		}
		if out.String() != want.String() {
			t.Errorf("%q, want %q", out.String(), want.String())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		// What has no end that is known, and what only waits, has no lines.
		var out texttest.Buffer
		for _, b := range []*Bar{newBar(&out, "report", Bytes, 0, false), newBar(&out, "writing", Seconds, 60, false)} {
			b.Begin()
			time.Sleep(2 * time.Second)
			b.At(60)
			b.End()
		}
		if out.Len() > 0 {
			t.Errorf("%q", out.String())
		}
	})
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out texttest.Buffer
		b := newBar(&out, "writing", Seconds, 95, true)
		b.Begin()
		time.Sleep(3500 * time.Millisecond)
		b.At(3)
		if got, want := screen(t, out.String()), "writing 3 s (95 at most)"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		b.End()
	})
}

// Nothing is drawn before Begin, be it called or not: a login asks for a password
// there.
func TestBeforeTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out texttest.Buffer
		b := newBar(&out, "upload", Bytes, 10, true)
		time.Sleep(time.Minute)
		b.At(10)
		b.End()
		b.Begin()
		time.Sleep(time.Minute)
		if out.Len() > 0 {
			t.Errorf("%q", out.String())
		}
	})
}

func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, copied texttest.Buffer
		b := newBar(&out, "upload", Bytes, 4<<10, true)
		b.Begin()
		time.Sleep(2 * time.Second)
		in := b.Reader(strings.NewReader(strings.Repeat("x", 3<<10)))
		if n, err := io.Copy(b.Writer(&copied), io.LimitReader(in, 1<<10)); n != 1<<10 || err != nil {
			t.Fatal(n, err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := screen(t, out.String()), "upload [###############...............]  50 %, 2 of 4 KiB, 3 s"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		// The end of what is read is the bar's.
		if n, err := io.Copy(io.Discard, in); n != 2<<10 || err != nil {
			t.Fatal(n, err)
		}
		if got := screen(t, out.String()); got != "" {
			t.Errorf("%q after the end", got)
		}
	})
}

func TestNoBar(t *testing.T) {
	var b *Bar
	b.Begin()
	b.At(1)
	b.End()
	var out texttest.Buffer
	if b.Beside(&out) != io.Writer(&out) {
		t.Error("beside no bar is something else")
	}
	broken := errors.New("broken")
	if _, err := io.Copy(b.Writer(&out), b.Reader(iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
}
