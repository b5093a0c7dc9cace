//go:build linux

package radiolock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LoanPath is where a loan is written, below the file-system root.
const LoanPath = "run/radio.released"

// Bounds of a loan.
const (
	DefaultLoan = 10 * time.Minute
	MinLoan     = time.Second
	MaxLoan     = 24 * time.Hour
)

// ErrLoan means that what is written at LoanPath is no loan. It counts as none.
var ErrLoan = errors.New("not a time until which the radio is released")

// Loan is the time for which the bridge leaves the radio to another program.
// It ends by itself, and is written in /run, so that it outlives the bridge's
// process and not the boot. It is no lock: who borrows the radio acquires that.
// Its methods may be called by several goroutines.
type Loan struct {
	path string

	mu      sync.Mutex    // guards the following, and the file
	until   time.Duration // monotonic; in the past: no loan
	changed chan struct{} // closed at the next change
}

// OpenLoan reads the loan below root. A file that cannot be used is an error
// that somebody should hear of; the Loan that comes with it is usable, and there
// is none.
func OpenLoan(root string) (*Loan, error) {
	l := &Loan{path: filepath.Join("/", root, LoanPath), changed: make(chan struct{})}
	left, err := Lent(root)
	if err != nil || left == 0 {
		return l, err
	}
	now, err := Monotonic()
	l.until = now + left
	return l, err
}

// Begin lends the radio for d from now on, in place of a loan that there is.
func (l *Loan) Begin(d time.Duration) error {
	if d < MinLoan || d > MaxLoan {
		return fmt.Errorf("release the radio for %v: want %v to %v", d, MinLoan, MaxLoan)
	}
	now, err := Monotonic()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strconv.FormatInt((now+d).Nanoseconds(), 10) + "\n"
	// Replaced, so that a reader sees a whole one.
	if err := os.WriteFile(l.path+".new", []byte(text), 0o644); err != nil {
		return fmt.Errorf("note the release: %w", err)
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return fmt.Errorf("note the release: %w", err)
	}
	l.set(now + d)
	return nil
}

// End ends the loan, if there is one.
func (l *Loan) End() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set(0)
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note that the release is over: %w", err)
	}
	return nil
}

func (l *Loan) set(until time.Duration) {
	l.until = until
	close(l.changed)
	l.changed = make(chan struct{})
}

// Left returns for how long the radio is lent, 0 when it is not.
func (l *Loan) Left() time.Duration {
	left, _ := l.left()
	return left
}

func (l *Loan) left() (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, err := Monotonic()
	if err != nil {
		return 0, l.changed // rather no loan than one that does not end
	}
	return max(0, l.until-now), l.changed
}

// Changed returns a channel that is closed at the next Begin or End.
func (l *Loan) Changed() <-chan struct{} {
	_, changed := l.left()
	return changed
}

// Wait returns nil when the radio is not lent any more, or the error of ctx.
func (l *Loan) Wait(ctx context.Context) error {
	for {
		left, changed := l.left()
		if left == 0 {
			return ctx.Err()
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-changed:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Lent returns for how long the radio is lent, 0 when it is not. Anyone may
// call it.
func Lent(root string) (time.Duration, error) {
	path := filepath.Join("/", root, LoanPath)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the release: %w", err)
	}
	now, err := Monotonic()
	if err != nil {
		return 0, err
	}
	left, err := parseLoan(string(b), now)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return left, nil
}

// parseLoan returns what is left of the loan at now.
func parseLoan(text string, now time.Duration) (time.Duration, error) {
	until, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 10, 64)
	if err != nil || until < 0 {
		return 0, ErrLoan
	}
	left := max(0, time.Duration(until)-now)
	if left > MaxLoan {
		return 0, ErrLoan // nobody wrote that in this boot
	}
	return left, nil
}
