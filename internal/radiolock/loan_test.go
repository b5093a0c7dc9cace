//go:build linux

package radiolock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func openLoan(t *testing.T, dir string) *Loan {
	t.Helper()
	l, err := OpenLoan(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// left checks that about want is left, for one process and for all others.
func left(t *testing.T, dir string, l *Loan, want time.Duration) {
	t.Helper()
	lent, err := Lent(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []time.Duration{l.Left(), lent} {
		if got > want || got < want-time.Minute || want == 0 && got != 0 {
			t.Errorf("%v are left, want %v", got, want)
		}
	}
}

func TestLoan(t *testing.T) {
	dir := root(t)
	l := openLoan(t, dir)
	left(t, dir, l, 0)
	if err := l.Wait(t.Context()); err != nil {
		t.Errorf("wait for no loan: %v", err)
	}
	changed := l.Changed()
	if err := l.Begin(DefaultLoan); err != nil {
		t.Fatal(err)
	}
	<-changed
	left(t, dir, l, DefaultLoan)

	// The next process of the bridge, and one that takes the radio back.
	next := openLoan(t, dir)
	left(t, dir, next, DefaultLoan)
	waited := make(chan error, 1)
	go func() { waited <- next.Wait(t.Context()) }()
	if err := next.Begin(time.Hour); err != nil {
		t.Fatal(err)
	}
	left(t, dir, next, time.Hour)
	select {
	case err := <-waited:
		t.Errorf("a longer loan ended the wait: %v", err)
	default:
	}
	if err := next.End(); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("wait: %v", err)
	}
	left(t, dir, next, 0)
	if err := next.End(); err != nil {
		t.Errorf("second end: %v", err)
	}
}

func TestLoanEndsByItself(t *testing.T) {
	dir := root(t)
	l := openLoan(t, dir)
	if err := l.Begin(MinLoan); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	left(t, dir, l, 0)
}

func TestLoanWaitEndsWithItsContext(t *testing.T) {
	l := openLoan(t, root(t))
	if err := l.Begin(DefaultLoan); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLoanBounds(t *testing.T) {
	dir := root(t)
	l := openLoan(t, dir)
	for _, d := range []time.Duration{0, -time.Second, MinLoan - 1, MaxLoan + 1} {
		if err := l.Begin(d); err == nil {
			t.Errorf("lent for %v", d)
		}
	}
	left(t, dir, l, 0)
	if err := openLoan(t, t.TempDir()).Begin(DefaultLoan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /run: %v", err)
	}
}

func TestParseLoan(t *testing.T) {
	const now = 100 * time.Second
	tests := []struct {
		text string
		want time.Duration
		err  error
	}{
		{"160000000000\n", time.Minute, nil},
		{"160000000000", time.Minute, nil},
		{"100000000000\n", 0, nil},
		{"5\n", 0, nil},
		{"86500000000000\n", MaxLoan, nil},
		{"86500000000001\n", 0, ErrLoan},
		{"9223372036854775807\n", 0, ErrLoan},
		{"-1\n", 0, ErrLoan},
		{"", 0, ErrLoan},
		{"soon\n", 0, ErrLoan},
	}
	for _, tt := range tests {
		if got, err := parseLoan(tt.text, now); got != tt.want || err != tt.err {
			t.Errorf("%q: %v, %v; want %v, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
	dir := root(t)
	if err := os.WriteFile(filepath.Join(dir, LoanPath), []byte("soon"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := OpenLoan(dir)
	if !errors.Is(err, ErrLoan) || l == nil || l.Left() != 0 {
		t.Errorf("a file that is no loan: %v, %v", l, err)
	}
}

func FuzzParseLoan(f *testing.F) {
	f.Add("160000000000\n", int64(100e9))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		left, err := parseLoan(text, time.Duration(max(0, now)))
		if left < 0 || left > MaxLoan || err != nil && left != 0 {
			t.Errorf("%q at %d: %v, %v", text, now, left, err)
		}
	})
}
