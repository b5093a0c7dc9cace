//go:build linux

package benchmode

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
)

// faults are what must not be in the kernel's log while something is measured,
// as today's release bench has them.
var faults = [...]string{"WARNING:", "BUG:", "Oops", "Kernel panic", "can't patch jump_label", "section mismatch"}

// mostFaults bounds the lines that are told.
const mostFaults = 16

// Count reads what runs are judged by, but for the driver's counters.
func (y System) Count() (*api.BenchCount, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	text := func(name string) string {
		b, e := os.ReadFile(y.path("proc/" + name))
		err = cmp.Or(err, e)
		return string(b)
	}
	c := &api.BenchCount{At: now.Nano(), Device: text("net/dev"), SNMP: text("net/snmp"), Kernel: strings.TrimSpace(text("sys/kernel/osrelease"))}
	c.Busy, c.Total = ticks(text("stat"))
	log, e := kernelLog()
	c.Faults = faulty(log)
	return c, cmp.Or(err, e)
}

// kernelLog is all that the kernel keeps of it.
func kernelLog() ([]byte, error) {
	n, err := unix.Klogctl(unix.SYSLOG_ACTION_SIZE_BUFFER, nil)
	if err == nil {
		log := make([]byte, n)
		if n, err = unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, log); err == nil {
			return log[:n], nil
		}
	}
	return nil, fmt.Errorf("read the kernel's log: %w", err)
}

// faulty returns the lines of a kernel log that make a measurement worthless.
func faulty(log []byte) (lines []string) {
	for line := range bytes.Lines(log) {
		for _, f := range faults {
			if bytes.Contains(line, []byte(f)) && len(lines) < mostFaults {
				lines = append(lines, strings.ToValidUTF8(string(bytes.TrimSpace(line)), "?"))
				break
			}
		}
	}
	return lines
}
