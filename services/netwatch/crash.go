package netwatch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/logring"
)

// crashMark is what the watchdog driver of the gateways' kernel puts into the
// log of the boot after a panic, once; what follows begins with the uptime.
const crashMark = "previous panic: "

// pstore is where a kernel that has it shows the ends of logs that a reset left.
const pstore = "sys/fs/pstore/dmesg-*"

// crash is what is known of a panic, or a reset, before this boot. Two of one
// kind have the same summary; log is the end of its log, where there is one.
type crash struct {
	summary string
	log     []byte
}

// Summaries.
const (
	panicked = "the kernel panicked before this boot: "
	wasReset = "the box was reset before this boot, without an end of its own: by the watchdog, a panic or a short loss of power"
)

// crashes looks for panics before this boot, in the kernel's log and in pstore,
// and for what PID 1 found in memory of a boot that had no end.
func crashes(root string) (all []crash) {
	fd, err := unix.Open(filepath.Join("/", root, "dev/kmsg"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		b := make([]byte, 8<<10) // a read gives one record, which is less
		for {
			n, err := unix.Read(fd, b)
			if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EINTR) {
				continue // overwritten meanwhile; the next one
			}
			if n <= 0 {
				break
			}
			if _, what, ok := bytes.Cut(b[:n], []byte(crashMark)); ok {
				line, _, _ := strings.Cut(string(what), "\n")
				if _, after, ok := strings.Cut(line, " "); ok {
					line = after // without its uptime
				}
				all = append(all, crash{summary: panicked + line})
			}
		}
	}
	if root == "" {
		// A kernel without it has no such folder, and one where it is mounted says so.
		_ = unix.Mount("pstore", "/sys/fs/pstore", "pstore", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	names, _ := filepath.Glob(filepath.Join("/", root, pstore)) // the pattern is a good one
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			continue // it went with what it says
		}
		text, _ := io.ReadAll(io.LimitReader(f, 4*maxIncident))
		f.Close()
		_ = os.Remove(name) // else the next boot takes it for its own
		if i := bytes.Index(text, []byte("Kernel panic - ")); i >= 0 {
			line, _, _ := strings.Cut(string(text[i:]), "\n")
			all = append(all, crash{panicked + line, text[max(0, len(text)-maxKernelLog):]})
		}
	}
	text, err := head(filepath.Join("/", root, api.PreviousPath), maxKernelLog)
	if how, lines, _ := bytes.Cut(text, []byte("\n")); err == nil && string(how) == api.PreviousRunning {
		switch {
		case len(all) == 0:
			all = append(all, crash{wasReset, lines})
		case all[0].log == nil:
			all[0].log = lines // of the panic's boot
		}
	}
	return all
}

// keepCrashes has a panic before this boot among the incidents, unless there is
// one like it: what happens each hour must not wear the flash.
func (s *Service) keepCrashes() {
	for _, c := range crashes(s.opt.Root) {
		summary := c.summary[:min(len(c.summary), maxSummary)]
		s.log(summary)
		if s.known(summary) {
			continue
		}
		at := "before the clock was set"
		if now := s.opt.Wall(); now.UnixNano() >= logring.WallKnown {
			at = now.UTC().Format(time.DateTime) + " UTC"
		}
		r := report(summary + "\nseen " + at + ", in boot " + s.budget.boot + "\n")
		if c.log != nil {
			r.part("the end of its log", c.log, nil)
		}
		if err := s.keep(r); err != nil {
			s.log("the panic is not kept: " + err.Error())
		}
	}
}

// known tells whether an incident is one like that.
func (s *Service) known(summary string) bool {
	for _, n := range s.numbers() {
		text, err := head(s.incident(n), maxIncident)
		if first, _, _ := strings.Cut(string(text), "\n"); err == nil && first == summary {
			return true
		}
	}
	return false
}
