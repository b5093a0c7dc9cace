package doctor

import (
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gwinit/internal/seed"
)

// feature is something that a kernel may have for this firmware: a line of
// features, which is made from board/rtl8196e/kernel.fragment.
type feature struct {
	name    string
	options []string // NAME=VALUE without CONFIG_
	// probe is how it shows where the kernel does not tell its options: a path,
	// PATTERN:WORD for a word in files, a word for Kernel.Has, or "" for not at all.
	probe   string
	without string // what is worse without it
}

// parseFeatures reads the form of features.
func parseFeatures(text string) (list []feature) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) == 4 {
			list = append(list, feature{f[0], strings.Fields(f[1]), f[2], f[3]})
		}
	}
	return list
}

// features: which of them does this kernel have?
func (b *box) features() {
	release := or(b.read("/proc/sys/kernel/osrelease"), "the kernel")
	set, err := b.options()
	if err != nil {
		b.say(Note, "", "/proc/config.gz is not understood: %v", err)
	}
	missing, unknown, all := 0, 0, parseFeatures(features)
	for _, f := range all {
		has, known := b.probe(f.probe)
		if set != nil {
			has, known = true, true
			for _, o := range f.options {
				has = has && set[o]
			}
		}
		switch {
		case !known:
			unknown++
		case !has:
			missing++
			b.say(Note, "a kernel with the fragment of docs/kernel.md", "%s has no %s: %s", release, f.name, f.without)
		}
	}
	if missing == 0 {
		text := "has all of the " + count(len(all)-unknown, "feature") + " that the firmware can use"
		if unknown > 0 {
			text += ", and does not tell of " + count(unknown, "other")
		}
		b.say(OK, "", "%s %s", release, text)
	}
}

// options returns what is in /proc/config.gz, without CONFIG_; nil when there
// is none.
func (b *box) options() (map[string]bool, error) {
	f, err := os.Open(b.path("/proc/config.gz"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	const most = 1 << 20 // a big kernel's has 200 KiB
	set := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(z, most))
	for lines.Scan() {
		if o, ok := strings.CutPrefix(lines.Text(), "CONFIG_"); ok {
			set[o] = true
		}
	}
	return set, lines.Err()
}

// probe tells whether the running kernel shows a feature, and whether that can
// be told.
func (b *box) probe(p string) (has, known bool) {
	if p == "" {
		return false, false
	}
	if p[0] != '/' {
		return b.kernel.Has(p), true
	}
	pattern, word, inside := strings.Cut(p, ":")
	names, _ := filepath.Glob(b.path(pattern))
	for _, name := range names {
		if !inside {
			return true, true
		}
		if text, _ := os.ReadFile(name); strings.Contains(string(text), word) {
			return true, true
		}
	}
	// A word in no file is no answer where there is no file.
	return false, !inside || len(names) > 0
}

// System is the real Kernel.
type System struct {
	// Crypt is crypt.Verify, where SSH brings that; nil: no password can be checked.
	Crypt func(stored, password string) (bool, error)
}

// Verify implements Kernel.
func (s System) Verify(stored, password string) (bool, error) {
	if s.Crypt == nil {
		return false, errors.ErrUnsupported
	}
	return s.Crypt(stored, password)
}

// Log implements Kernel: syslog(2) reads all that the kernel still has.
func (System) Log() ([]byte, error) {
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	if err != nil {
		return nil, err
	}
	text := make([]byte, n)
	n, err = unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, text)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// Has implements Kernel.
func (System) Has(probe string) bool {
	switch probe {
	case "tmpfs":
		// Without it, ramfs answers to the name.
		var st unix.Statfs_t
		return unix.Statfs("/tmp", &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
	case "madvise":
		_, _, errno := unix.Syscall(unix.SYS_MADVISE, 0, 0, 0)
		return errno != unix.ENOSYS
	case "nftables":
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		if err != nil {
			return false
		}
		return unix.Close(fd) == nil
	}
	return false
}

// Entropy implements Kernel.
func (System) Entropy() bool { return seed.System{}.Random(make([]byte, 1)) == nil }
