package netwatch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gwinit/internal/atomicfile"
)

// BudgetPath is the account of hard steps. In it, a line each:
//
//	gwinit netwatch budget 1
//	boot ID UPTIME          who wrote it: the kernel's boot_id, and seconds since its start
//	STEP AGE                a step, and the seconds of uptime that had passed since
//	end N                   N steps
//
// Only uptime counts. What passed between the last writing and the end of that
// boot is not known after a power cut, and counts as nothing: the step stays in
// the window for longer.
const BudgetPath = "/userdata/netwatch/budget"

const (
	budgetHead = "gwinit netwatch budget 1"
	// maxEntries is twice what the settings allow to be in a window.
	maxEntries = 400
	// maxWindow is the settings' longest; what is older matters to no one.
	maxWindow = 720 * time.Hour
	// maxBudgetBytes is more than maxEntries lines.
	maxBudgetBytes = 16 << 10
	// maxSeconds is ten years.
	maxSeconds = 10 * 365 * 24 * 3600
)

// errBudget is what a file says that is no budget. There is no way to know what
// it was, so nothing may be done (INV 8).
var errBudget = errors.New("is damaged, so no hard step is taken; remove it if you know of no reboot loop")

// errSpent is a budget of which nothing is left.
var errSpent = errors.New("the budget is spent")

// entry is a step that was taken.
type entry struct {
	what step
	age  time.Duration // uptime since
}

// ledger is the account, as at a moment of a boot.
type ledger struct {
	boot    string // its boot_id
	uptime  time.Duration
	entries []entry
}

// parseLedger reads the file. It refuses whatever it would not write.
func parseLedger(b []byte) (l ledger, err error) {
	lines := strings.Split(string(b), "\n")
	n := len(lines)
	if len(b) > maxBudgetBytes || n < 4 || lines[0] != budgetHead || lines[n-1] != "" {
		return l, errBudget
	}
	head, boot := cutNumber(lines[1])
	tail, count := cutNumber(lines[n-2])
	kind, id, _ := strings.Cut(head, " ")
	if boot < 0 || kind != "boot" || id == "" || strings.Contains(id, " ") || tail != "end" || count != n-4 || count > maxEntries {
		return l, errBudget
	}
	l.boot, l.uptime = id, time.Duration(boot)*time.Second
	for _, line := range lines[2 : n-2] {
		name, age := cutNumber(line)
		what := step(slices.Index(names[:], name))
		if age < 0 || what < 0 || !what.hard() {
			return l, errBudget
		}
		l.entries = append(l.entries, entry{what, time.Duration(age) * time.Second})
	}
	return l, nil
}

// cutNumber cuts the number at the end of a line off; -1 is none, or one that
// format does not write.
func cutNumber(line string) (before string, n int) {
	i := strings.LastIndexByte(line, ' ')
	n, err := strconv.Atoi(line[i+1:])
	if err != nil || i < 0 || n < 0 || n > maxSeconds || line[i+1:] != strconv.Itoa(n) {
		return "", -1
	}
	return line[:i], n
}

// format is the file.
func (l ledger) format() []byte {
	b := []byte(budgetHead + "\nboot " + l.boot)
	number := func(n time.Duration) {
		b = strconv.AppendInt(append(b, ' '), int64(min(n, maxSeconds)), 10)
		b = append(b, '\n')
	}
	number(l.uptime / time.Second)
	for _, e := range l.entries {
		b = append(b, e.what.String()...)
		number(e.age / time.Second)
	}
	b = append(b, "end"...)
	number(time.Duration(len(l.entries)))
	return b
}

// moved is the account at uptime of the boot of that ID, without what is too
// old for any window.
func (l ledger) moved(boot string, uptime time.Duration) ledger {
	passed := uptime // of another boot, all of this one
	if l.boot == boot && uptime >= l.uptime {
		passed = uptime - l.uptime
	}
	now := ledger{boot: boot, uptime: uptime}
	for _, e := range l.entries {
		if e.age += passed; e.age < maxWindow {
			now.entries = append(now.entries, e)
		}
	}
	return now
}

// used counts the steps of a kind within a window.
func (l ledger) used(what step, window time.Duration) (n int) {
	for _, e := range l.entries {
		if e.what == what && e.age < window {
			n++
		}
	}
	return n
}

// budget is the ledger in flash.
type budget struct {
	path   string
	window time.Duration
	limit  int // of each kind of hard step
	boot   string
	uptime func() time.Duration
	// writable tells why nothing that lasts can be written, or nil.
	writable func() error
}

// at reads what the file holds, as of now.
func (b *budget) at(old []byte, there bool) (ledger, error) {
	now := ledger{boot: b.boot, uptime: b.uptime()}
	if !there {
		return now, nil
	}
	l, err := parseLedger(old)
	if err != nil {
		return now, fmt.Errorf("%s %w", BudgetPath, err)
	}
	return l.moved(now.boot, now.uptime), nil
}

// read returns the account. An error is a reason to take no hard step.
func (b *budget) read() (ledger, error) {
	if err := b.writable(); err != nil {
		return ledger{}, err
	}
	f, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return b.at(nil, false)
	}
	if err != nil {
		return ledger{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBudgetBytes+1))
	if err != nil {
		return ledger{}, fmt.Errorf("read %s: %w", BudgetPath, err)
	}
	return b.at(text, true)
}

// draw writes a step down. It returns an error if the step may not be taken: it
// is beyond the budget (errSpent), or could not be written (INV 8).
func (b *budget) draw(what step) error {
	if err := b.writable(); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Dir(b.path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var refused error
	err := atomicfile.Update(b.path, 0o644, func(old []byte, there bool) ([]byte, error) {
		l, err := b.at(old, there)
		if err == nil && (l.used(what, b.window) >= b.limit || len(l.entries) >= maxEntries) {
			err = errSpent
		}
		if refused = err; err != nil {
			return nil, err
		}
		l.entries = append(l.entries, entry{what, 0})
		return l.format(), nil
	})
	if refused != nil {
		return refused // without words about a file that was not written
	}
	return err
}

// worthwhile is the uptime that a clean end writes down: less is not worth the
// flash.
const worthwhile = 10 * time.Minute

// leave writes down, at a clean end, how old the steps have become.
func (b *budget) leave() error {
	l, err := b.read()
	if err != nil || len(l.entries) == 0 {
		return nil // who asks for a step is told
	}
	return atomicfile.Update(b.path, 0o644, func(old []byte, there bool) ([]byte, error) {
		was, err := parseLedger(old)
		if err != nil {
			return old, nil
		}
		now := was.moved(b.boot, b.uptime())
		// The last one is the youngest, which goes last.
		if n := len(now.entries); n > 0 && now.entries[n-1].age-was.entries[len(was.entries)-1].age < worthwhile {
			return old, nil
		}
		return now.format(), nil
	})
}
