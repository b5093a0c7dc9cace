package pid1

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/boothold"
)

// What is left of the log for the next boot, beside the first line: a page of 4
// KiB has room for it.
const (
	lastLines = 40
	lastBytes = 3 << 10
)

// lastWords is what is left for the next boot in the boothold page.
type lastWords struct {
	mu    sync.Mutex // guards the following, and is held while the page is written
	off   bool       // there is no page, or it cannot be written
	ended bool       // the last ones are there
	seq   uint64     // of the log, when the page was written
}

// takeLastWords finds out how the boot before ended, and has it in a file in
// memory.
func (in *initd) takeLastWords(root string) {
	text, err := boothold.TakeWords(root)
	how, _, _ := strings.Cut(string(text), "\n")
	switch {
	case errors.Is(err, boothold.ErrNoPage):
		in.last.off = true
		return
	case err != nil:
		in.last.off = true
		in.notice("the boot before: " + err.Error())
		return
	case text == nil:
		in.logf("the boot before left no word: the power was off, or another firmware ran")
		return
	case how == api.PreviousRunning:
		in.logf("the boot before was reset without an end of its own: by the watchdog, a panic or a short loss of power; its last lines are in %s", api.PreviousPath)
	default:
		in.logf("the boot before ended by %s", how)
	}
	if err := os.WriteFile(filepath.Join("/", root, api.PreviousPath), text, 0o600); err != nil {
		in.notice("the boot before: " + err.Error())
	}
}

// leaveLastWords leaves how this boot ends, or that it runs, and the last lines
// of the log, if there are new ones.
func (in *initd) leaveLastWords(root, how string) {
	defer in.survive("last words")
	l := &in.last
	l.mu.Lock()
	defer l.mu.Unlock()
	running := how == api.PreviousRunning
	seq := in.ring.Seq()
	if l.off || l.ended || running && seq == l.seq {
		return
	}
	text := how + "\n"
	lines := in.ring.Last("", lastLines)
	rest := ""
	for i := len(lines) - 1; i >= 0 && len(rest) < lastBytes; i-- {
		line := &lines[i]
		rest = time.Duration(line.Mono).Round(time.Millisecond).String() + " " + line.Service + ": " + line.Text + "\n" + rest
	}
	text += rest[max(0, len(rest)-lastBytes):]
	if err := boothold.LeaveWords(root, []byte(text)); err != nil {
		l.off = true
		in.notice("nothing is left for the next boot to read: " + err.Error())
		return
	}
	l.seq, l.ended = seq, !running
}
