// Package ramfiles tells how much memory the files in the box's memory take: a
// ramfs, which today's kernel has in place of tmpfs, neither limits nor counts
// them.
package ramfiles

import (
	"os"
	"path/filepath"
)

// MostKiB is what they should not exceed together, in KiB: an idle box of 32 MiB
// has some 16 MiB to spare, and needs 5 of them for pages of programs.
const MostKiB = 4 << 10

// Warning begins what `gwctl status` says where they do.
const Warning = "files in /tmp, /var and /run take "

// LimitBytes is the size of the largest file that a login shell, what it starts,
// and SFTP write, as a soft limit (RLIMIT_FSIZE): that of all of /tmp where the
// kernel has tmpfs, and more than any file that belongs on a gateway.
const LimitBytes = 8 << 20

// most is how many files are looked at.
const most = 4096

// Used is what the files in /tmp, /var and /run hold, in KiB.
func Used(root string) (kib uint64) {
	n := 0
	for _, dir := range [...]string{"tmp", "var", "run"} {
		// What vanishes meanwhile is not counted.
		_ = filepath.WalkDir(filepath.Join("/", root, dir), func(_ string, d os.DirEntry, err error) error {
			if n++; n > most {
				return filepath.SkipAll
			}
			if err == nil && d.Type().IsRegular() {
				if info, err := d.Info(); err == nil {
					kib += uint64(info.Size()+1023) / 1024
				}
			}
			return nil
		})
	}
	return kib
}
