//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/test/board"
)

// Files in memory: one that somebody writes is bounded, also where the kernel's
// ramfs has no limit, and the status says that they have grown.
func TestFilesInMemory(t *testing.T) {
	t.Parallel()
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		m := start(t, on)
		shell(t, m)
		await(t, m, "everything running", settled)
		// The shell's own writing, and that of a program that it starts.
		for _, command := range []string{"head -c 9000000 /dev/zero >/tmp/a", "dd if=/dev/zero of=/tmp/b bs=4096 count=2500"} {
			out, code, err := m.Console().RunCommand(command, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if code == 0 || strings.Contains(out, "goroutine") {
				t.Errorf("%s: status %d: %s", command, code, out)
			}
			if n := run(t, m, "cat /tmp/a /tmp/b 2>/dev/null | wc -c"); n != "8388608" {
				t.Errorf("%s left %s bytes", command, n)
			}
			run(t, m, "rm -f /tmp/a /tmp/b")
		}
		run(t, m, "head -c 5000000 /dev/zero >/tmp/a")
		await(t, m, "a warning", func(s api.Status) bool {
			return len(s.Warnings) == 1 && strings.HasPrefix(s.Warnings[0], "files in /tmp, /var and /run take 4")
		})
		run(t, m, "rm /tmp/a")
		if w := status(t, m).Warnings; len(w) != 0 {
			t.Errorf("warnings %q", w)
		}
	})
}
