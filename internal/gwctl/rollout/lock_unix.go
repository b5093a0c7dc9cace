//go:build unix

package rollout

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a file until it is closed, or fails.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
