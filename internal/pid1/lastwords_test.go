package pid1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/api"
	"gwinit/internal/logring"
)

// A boot tells the next one how it ended and what it said last, if the memory
// outlives the reset.
func TestLastWords(t *testing.T) {
	root := t.TempDir()
	reg := filepath.Join(root, "proc/device-tree/reserved-memory/boothold@1ffe000/reg")
	for _, dir := range []string{filepath.Dir(reg), filepath.Join(root, "dev"), filepath.Join(root, "run")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{reg: "\x00\x00\x00\x00\x00\x00\x10\x00", filepath.Join(root, "dev/mem"): strings.Repeat("\x00", 4096)} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	boot := func() *initd {
		in := &initd{ring: logring.New(16<<10, func() (int64, int64) { return 1500e6, 0 })}
		in.takeLastWords(root)
		return in
	}
	said := func(in *initd, want string) {
		t.Helper()
		if lines := in.ring.Last("", 1); len(lines) != 1 || !strings.Contains(lines[0].Text, want) {
			t.Errorf("the log says %+v, want %q", lines, want)
		}
	}
	previous := func() string {
		b, err := os.ReadFile(filepath.Join(root, api.PreviousPath))
		if err != nil {
			return ""
		}
		return string(b)
	}

	in := boot()
	said(in, "left no word")
	if got := previous(); got != "" {
		t.Errorf("a first boot has %q before it", got)
	}
	in.ring.Append("core", "the second last")
	in.leaveLastWords(root, api.PreviousRunning)
	in.ring.Append("core", "the last")
	in.leaveLastWords(root, api.PreviousRunning)

	in = boot() // a reset
	said(in, "was reset without an end of its own")
	if got := previous(); !strings.HasPrefix(got, "running\n1.5s init: the boot before") || !strings.HasSuffix(got, "\n1.5s core: the second last\n1.5s core: the last\n") {
		t.Errorf("of the boot before: %q", got)
	}
	for range 200 {
		in.ring.Append("core", strings.Repeat("long ", 40))
	}
	in.leaveLastWords(root, "reboot")
	in.leaveLastWords(root, api.PreviousRunning) // of a round that was under way
	said(boot(), "ended by reboot")
	if got := previous(); !strings.HasPrefix(got, "reboot\n") || len(got) != len("reboot\n")+lastBytes {
		t.Errorf("%d bytes: %q", len(got), got)
	}

	// No page: nothing is said, and nothing tried again.
	if err := os.Remove(reg); err != nil {
		t.Fatal(err)
	}
	in = boot()
	in.leaveLastWords(root, api.PreviousRunning)
	if lines := in.ring.Last("", 0); len(lines) != 0 {
		t.Errorf("without a page: %+v", lines)
	}
}
