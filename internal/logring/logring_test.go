package logring

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"gwinit/internal/api"
)

// ticking returns a clock whose monotonic time is 1, 2, 3 ... ns, and a way to
// set the wall clock.
func ticking() (Clock, *int64) {
	var mono, wall int64
	return func() (int64, int64) {
		mono++
		return mono, wall
	}, &wall
}

func newRing(bytes int) *Ring {
	clock, _ := ticking()
	return New(bytes, clock)
}

func texts(lines []api.LogLine) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d %s: %s\n", l.Seq, l.Service, l.Text)
	}
	return b.String()
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxText)
	for _, tt := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"one", []string{"a\n"}, []string{"a"}},
		{"two in one write", []string{"a\nb\n"}, []string{"a", "b"}},
		{"one in two writes", []string{"a", "b\n"}, []string{"ab"}},
		{"end without newline", []string{"a\nb"}, []string{"a", "b"}},
		{"empty lines", []string{"\n\na\n\n"}, []string{"a"}},
		{"carriage return", []string{"a\r\nb\r", "\n"}, []string{"a", "b"}},
		{"longest", []string{long + "\n"}, []string{long}},
		{"too long", []string{long + "yy\n"}, []string{long + " [... 2 bytes cut]"}},
		{"too long in pieces", []string{long, "yy", "zz\nb\n"}, []string{long + " [... 4 bytes cut]", "b"}},
		{"cut inside a rune", []string{long[1:] + "é\n"}, []string{long[1:] + " [... 2 bytes cut]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRing(0)
			w := r.Writer("s")
			for _, s := range tt.writes {
				if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatalf("Write: %d, %v", n, err)
				}
			}
			w.Flush()
			direct := newRing(0)
			direct.Append("s", strings.Join(tt.writes, ""))
			for name, r := range map[string]*Ring{"Writer": r, "Append": direct} {
				var got []string
				for _, l := range r.Last("s", 0) {
					got = append(got, l.Text)
					if !utf8.ValidString(l.Text) {
						t.Errorf("%s: %q is no UTF-8", name, l.Text)
					}
				}
				if fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("%s: got %q, want %q", name, got, tt.want)
				}
			}
		})
	}
}

func TestTimes(t *testing.T) {
	clock, wall := ticking()
	r := New(0, clock)
	*wall = 5e9 // 1970: the box has no idea
	r.Append("s", "early")
	*wall = 1_790_000_000_000_000_000
	r.Append("s", "late")
	lines := r.Last("", 0)
	if lines[0].Mono != 1 || lines[0].Wall != 0 {
		t.Errorf("early: %+v", lines[0])
	}
	if lines[1].Mono != 2 || lines[1].Wall != *wall {
		t.Errorf("late: %+v", lines[1])
	}
	mono, now := System()
	if mono <= 0 || now < WallKnown {
		t.Errorf("System: %d, %d", mono, now)
	}
}

func TestOverwriteKeepsTheNewest(t *testing.T) {
	r := newRing(4 << 10)
	for i := 1; i <= 1000; i++ {
		r.Append("s", strings.Repeat("x", i%300)+fmt.Sprint(i))
		lines := r.Last("", 0)
		bytes := 0
		for k, l := range lines {
			bytes += headerBytes + len(l.Text)
			if want := uint64(i - len(lines) + 1 + k); l.Seq != want || !strings.HasSuffix(l.Text, fmt.Sprint(want)) {
				t.Fatalf("after %d lines, line %d of %d: %+v", i, k, len(lines), l)
			}
		}
		if bytes > 4<<10 || i > 100 && bytes < 4<<10-2*(headerBytes+304) {
			t.Fatalf("after %d lines the ring holds %d bytes", i, bytes)
		}
	}
	if r.Seq() != 1000 {
		t.Errorf("Seq: %d", r.Seq())
	}
}

func TestTailSurvives(t *testing.T) {
	r := newRing(4 << 10)
	for i := range 150 {
		r.Append("quiet", fmt.Sprintf("q%d", i))
	}
	for range 1000 {
		r.Append("loud", "noise")
	}
	r.Append("quiet", "end")
	got := r.Last("quiet", 0)
	if len(got) != TailLines || got[0].Text != "q51" || got[TailLines-1].Text != "end" {
		t.Errorf("%d lines, from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	if got := texts(r.Last("quiet", 2)); got != "150 quiet: q149\n1151 quiet: end\n" {
		t.Errorf("the last two:\n%s", got)
	}
	if n := len(r.tails[0].buf); n > TailBytes {
		t.Errorf("the tail has %d bytes", n)
	}
	if got := r.Last("nobody", 0); got != nil {
		t.Errorf("of an unknown service: %+v", got)
	}
}

func TestLastBeyondTheTail(t *testing.T) {
	r := newRing(0)
	for i := range 300 {
		r.Append("s", fmt.Sprint(i))
	}
	if got := r.Last("s", 0); len(got) != 300 || got[0].Text != "0" {
		t.Errorf("%d lines", len(got))
	}
}

func TestManyServices(t *testing.T) {
	r := newRing(0)
	for i := range 100 {
		r.Append(fmt.Sprintf("s%d", i), "x")
	}
	lines := r.Last("", 0)
	if len(lines) != 100 || lines[47].Service != "s47" || lines[48].Service != "other" || lines[99].Service != "other" {
		t.Errorf("got %s", texts(lines))
	}
}

func TestFollow(t *testing.T) {
	r := newRing(0)
	r.Append("a", "one")
	r.Append("b", "two")
	r.Append("a", "three")
	for _, tt := range []struct {
		name, service string
		after         uint64
		want          string
	}{
		{"all", "", 0, "1 a: one\n2 b: two\n3 a: three\n"},
		{"after the first", "", 1, "2 b: two\n3 a: three\n"},
		{"one service", "a", 0, "1 a: one\n3 a: three\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lines, missed, err := r.Follow(tt.service, tt.after).Next(t.Context())
			if texts(lines) != tt.want || missed != 0 || err != nil {
				t.Errorf("got %s missed %d, %v", texts(lines), missed, err)
			}
		})
	}
}

func TestFollowWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(0)
		r.Append("a", "before")
		f := r.Follow("a", r.Seq())
		var got []api.LogLine
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			for {
				lines, _, err := f.Next(ctx)
				got = append(got, lines...)
				if err != nil {
					done <- err
					return
				}
			}
		}()
		synctest.Wait()
		r.Append("b", "not this")
		synctest.Wait()
		r.Append("a", "this")
		synctest.Wait()
		r.Append("a", "and this")
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if texts(got) != "3 a: this\n4 a: and this\n" {
			t.Errorf("got\n%s", texts(got))
		}
	})
}

func TestFollowCountsWhatItMissed(t *testing.T) {
	r := newRing(4 << 10)
	f := r.Follow("", 0)
	r.Append("s", "first")
	if _, missed, err := f.Next(t.Context()); missed != 0 || err != nil {
		t.Fatal(missed, err)
	}
	for range 1000 {
		r.Append("s", "x")
	}
	seen, missed := 0, uint64(0)
	var next uint64
	for next < 1002 {
		lines, m, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		missed += m
		seen += len(lines)
		if next == 0 && lines[0].Seq != 2+m {
			t.Errorf("first line %d after %d missed", lines[0].Seq, m)
		}
		next = lines[len(lines)-1].Seq + 1
	}
	if seen+int(missed) != 1000 || missed == 0 {
		t.Errorf("%d seen and %d missed of 1000", seen, missed)
	}
}

func TestConcurrentWritersAndReaders(t *testing.T) {
	r := newRing(4 << 10)
	clock := func() (int64, int64) { return 1, 0 }
	r.clock = clock
	var writers, readers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		readers.Go(func() {
			f := r.Follow("", 0)
			total := uint64(0)
			for total < 2000 {
				lines, missed, err := f.Next(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				total += missed + uint64(len(lines))
			}
		})
	}
	for i := range 2 {
		writers.Go(func() {
			l := log.New(r.Writer(fmt.Sprint(i)), "", 0)
			for range 1000 {
				l.Print("some line")
			}
		})
	}
	writers.Wait()
	readers.Wait()
	cancel()
	if r.Seq() != 2000 {
		t.Errorf("Seq %d", r.Seq())
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	r := newRing(0)
	for range 2000 {
		r.Append("s", "warm up to the full tail")
	}
	line := []byte("radio on /dev/ttyS1, 115200 baud\n")
	w := r.Writer("s")
	if n := testing.AllocsPerRun(100, func() {
		r.Append("s", "a line")
		r.AppendBytes("s", line)
		w.Write(line)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n"), uint16(1))
	f.Add([]byte(strings.Repeat("é", 2000)), uint16(700))
	f.Fuzz(func(t *testing.T, p []byte, at uint16) {
		whole, pieces := newRing(0), newRing(0)
		whole.AppendBytes("s", p)
		w := pieces.Writer("s")
		k := min(int(at), len(p))
		w.Write(p[:k])
		w.Write(p[k:])
		w.Flush()
		if a, b := texts(whole.Last("", 0)), texts(pieces.Last("", 0)); a != b {
			t.Errorf("whole:\n%q\nin pieces:\n%q", a, b)
		}
	})
}

func TestResize(t *testing.T) {
	t.Parallel()
	r := New(4<<10, func() (int64, int64) { return 1, 0 })
	line := func(i int) string { return fmt.Sprintf("line %03d of a log that is long enough to wrap", i) }
	for i := range 200 {
		r.Append("a", line(i))
	}
	f := r.Follow("", r.Seq()-1) // the newest line is the next to be read
	before := r.Last("", 0)
	for _, step := range []struct {
		name  string
		bytes int
		keep  int // newest lines that must be the same; -1: all
	}{{"larger", 16 << 10, -1}, {"smaller", 8 << 10, -1}, {"smaller than what is held", 4 << 10, 10}} {
		r.Resize(step.bytes)
		after := r.Last("", 0)
		want := before
		if step.keep >= 0 {
			want = before[len(before)-step.keep:]
			after = after[len(after)-step.keep:]
		}
		if !slices.Equal(after, want) {
			t.Fatalf("%s: %d lines, want the %d from before", step.name, len(after), len(want))
		}
	}
	lines, missed, err := f.Next(t.Context())
	if err != nil || missed != 0 || len(lines) != 1 || lines[0].Text != line(199) {
		t.Fatalf("the follower lost its place: %v, %d missed, %v", lines, missed, err)
	}
	for i := range 500 {
		r.Append("a", line(i))
	}
	if got := r.Last("", 1)[0].Text; got != line(499) {
		t.Errorf("after the resize the newest line is %q", got)
	}
}
