package netwatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gwinit/internal/atomicfile"
	"gwinit/internal/config"
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
	maxWindow secs = 720 * 3600
	// maxBudgetBytes is more than maxEntries lines.
	maxBudgetBytes = 16 << 10
	// maxSeconds is ten years.
	maxSeconds secs = 10 * 365 * 24 * 3600
)

// errBudget is what a file says that is no budget. There is no way to know what
// it was, so nothing may be done (INV 8).
var errBudget = errors.New("is damaged, so no hard step is taken; remove it if you know of no reboot loop")

// errSpent is a budget of which nothing is left.
var errSpent = errors.New("the budget is spent")

// entry is a step that was taken.
type entry struct {
	what step
	age  secs // uptime since
}

// ledger is the account, as at a moment of a boot.
type ledger struct {
	boot    string // its boot_id
	uptime  secs
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
	if boot < 0 || kind != "boot" || id == "" || strings.Contains(id, " ") || tail != "end" || int(count) != n-4 || count > maxEntries {
		return l, errBudget
	}
	l.boot, l.uptime = id, boot
	for _, line := range lines[2 : n-2] {
		name, age := cutNumber(line)
		what := stepDriver
		for what < steps && names[what] != name {
			what++
		}
		if age < 0 || what == steps {
			return l, errBudget
		}
		l.entries = append(l.entries, entry{what, age})
	}
	return l, nil
}

// cutNumber cuts the number at the end of a line off; -1 is none, or one that
// format does not write.
func cutNumber(line string) (before string, n secs) {
	i := strings.LastIndexByte(line, ' ')
	v, err := strconv.Atoi(line[i+1:])
	n = secs(v)
	if err != nil || i < 0 || n < 0 || n > maxSeconds || line[i+1:] != strconv.Itoa(v) {
		return "", -1
	}
	return line[:i], n
}

// format is the file.
func (l ledger) format() []byte {
	b := appendNumber([]byte(budgetHead+"\nboot "), l.boot, l.uptime)
	for _, e := range l.entries {
		b = appendNumber(b, names[e.what], e.age)
	}
	return appendNumber(b, "end", secs(len(l.entries)))
}

// appendNumber appends a line that cutNumber reads.
func appendNumber(b []byte, before string, n secs) []byte {
	b = append(append(b, before...), ' ')
	return append(strconv.AppendInt(b, int64(min(n, maxSeconds)), 10), '\n')
}

// moved is the account at uptime of the boot of that ID, without what is too
// old for any window, and how much later that is.
func (l ledger) moved(boot string, uptime secs) (now ledger, passed secs) {
	passed = uptime // of another boot, all of this one
	if l.boot == boot && uptime >= l.uptime {
		passed -= l.uptime
	}
	now = ledger{boot: boot, uptime: uptime}
	for _, e := range l.entries {
		if e.age += passed; e.age < maxWindow {
			now.entries = append(now.entries, e)
		}
	}
	return now, passed
}

// used counts the steps of a kind within a window that ends now, which is of the
// ledger's boot.
func (l ledger) used(what step, window, now secs) (n int) {
	for _, e := range l.entries {
		if e.what == what && e.age+now-l.uptime < window {
			n++
		}
	}
	return n
}

// budget is the ledger in flash.
type budget struct {
	path   string
	window secs
	limit  int // of each kind of hard step
	boot   string
	uptime func() secs
	// writable tells why nothing that lasts can be written, or nil.
	writable func() error
}

// at reads what the file holds, as of now, and how much uptime has passed.
func (b *budget) at(old []byte, there bool) (l ledger, passed secs, err error) {
	now := b.uptime()
	if !there {
		return ledger{boot: b.boot, uptime: now}, 0, nil
	}
	if l, err = parseLedger(old); err != nil {
		return l, 0, fmt.Errorf("%s %w", BudgetPath, err)
	}
	l, passed = l.moved(b.boot, now)
	return l, passed, nil
}

// read returns the account. An error is a reason to take no hard step.
func (b *budget) read() (l ledger, err error) {
	if err = b.writable(); err != nil {
		return l, err
	}
	text, err := head(b.path, maxBudgetBytes+1)
	there := !errors.Is(err, fs.ErrNotExist)
	if err != nil && there {
		return l, err
	}
	l, _, err = b.at(text, there)
	return l, err
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
	return b.update(func(l *ledger, _ secs) error {
		if l.used(what, b.window, l.uptime) >= b.limit || len(l.entries) >= maxEntries {
			return errSpent
		}
		l.entries = append(l.entries, entry{what, 0})
		return nil
	})
}

// Draw writes down, in the account of netwatch's reboots and by its settings, a
// reboot that another part of the box is about to take because the box is not
// well (INV 8). An error is a reason not to take it. It waits for flash; writable
// is as in Options.
func Draw(root string, writable func() error) error {
	c, _ := config.LoadNetwatch(root)
	b := budget{
		path: filepath.Join("/", root, BudgetPath), window: secs(c.WindowHours) * 3600, limit: c.MaxReboots,
		boot: bootID(root), uptime: New(Options{Root: root}).now, writable: writable,
	}
	return b.draw(stepReboot)
}

// worthwhile is the uptime that a clean end writes down: less is not worth the
// flash.
const worthwhile secs = 600

// errWorthless keeps a file as it is.
var errWorthless = errors.New("not worth a write")

// leave writes down, at a clean end, how old the steps have become. It is an
// attempt: what it cannot write counts as nothing.
func (b *budget) leave() {
	if b.writable() != nil {
		return
	}
	_ = b.update(func(l *ledger, passed secs) error {
		if len(l.entries) == 0 || passed < worthwhile {
			return errWorthless
		}
		return nil
	})
}

// update has change make another account of the one in the file, as of now and
// so much uptime after it was written. An error of change is returned as it is.
func (b *budget) update(change func(l *ledger, passed secs) error) error {
	var refused error
	err := atomicfile.Update(b.path, 0o644, func(old []byte, there bool) ([]byte, error) {
		l, passed, err := b.at(old, there)
		if err == nil {
			err = change(&l, passed)
		}
		refused = err
		return l.format(), err
	})
	if refused != nil {
		return refused // without words about a file that was not written
	}
	return err
}
