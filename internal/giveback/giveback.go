// Package giveback returns the memory of a process's garbage to the kernel
// while the process goes on.
//
// Go keeps what its heap took once: it lets a heap of half a MiB grow to 1 MiB
// before it collects (the least there is, GOGC percent of 4 MiB), and gives back
// only what is a tenth above that. On a board with 32 MiB each such MiB is one
// less for the pages of the program itself: the root file system is
// decompressed in blocks of 256 KiB, and once the pages in use do not fit any
// more, each that is missed costs a block and throws others out.
package giveback

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"gwinit/internal/api"
)

// every is how long garbage may lie. A collection of such a heap takes some ms:
// looking first whether there is any would cost 2 KiB of flash.
const every = 10 * time.Second

// rare is how often the runtime collects by itself, when nothing else makes it.
// It does not before it has collected once, which so small a heap has at 1 MiB.
const rare = 2 * time.Minute

// Run gives memory back until ctx ends, but not in bench mode, which measures
// a box that does nothing else. It is for processes that work now and
// then.
func Run(ctx context.Context) { run(ctx, every, free) }

// Rarely is Run for a process that should collect no more often than it would
// anyway, and not as long as the boot goes on.
func Rarely(ctx context.Context) { run(ctx, rare, free) }

func free() { unless(api.BenchPath, debug.FreeOSMemory) }

// unless calls free if there is no file of that name.
func unless(path string, free func()) {
	if _, err := os.Stat(path); err != nil {
		free()
	}
}

func run(ctx context.Context, every time.Duration, free func()) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			free()
		}
	}
}
