//go:build linux

package benchmode

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
)

// Usage is what the processes of user space, the processor and an interface have
// used and carried since the boot.
type Usage struct {
	Processes   map[int]Process
	Busy, Total uint64 // ticks, of /proc/stat
	Rx, Tx      uint64 // packets

	// What this process does in order to look is of no interest: of itself
	// before is what it had used when it began to, and Processes has what when
	// it was done.
	pid    int
	before Process
}

// Process is what one has used.
type Process struct {
	Name    string
	CPU     uint64 // ns
	Wakeups uint64 // times that one of its threads waited for something
}

// System reads the usage from procfs.
type System struct {
	Root      string // file system root; "" is /
	Interface string
	// CPU returns what a process has used; nil: the kernel's clock of it,
	// which counts ns.
	CPU func(pid int) (ns uint64, err error)
}

func (y System) path(name string) string { return filepath.Join("/", y.Root, name) }

// Usage implements Box.
func (y System) Usage() (*Usage, error) {
	u := new(Usage)
	self := proc{pid: os.Getpid(), name: "bench"}
	u.Processes, u.pid, u.before = map[int]Process{}, self.pid, y.usage(self, true)
	err := y.each(func(p proc) {
		if p.pid != self.pid {
			u.Processes[p.pid] = y.usage(p, true)
		}
	})
	if err != nil {
		return nil, err
	}
	stat, err := os.ReadFile(y.path("proc/stat"))
	if err != nil {
		return nil, err
	}
	u.Busy, u.Total = ticks(string(stat))
	dev, err := os.ReadFile(y.path("proc/net/dev"))
	if err != nil {
		return nil, err
	}
	u.Rx, u.Tx = packets(string(dev), y.Interface)
	u.Processes[self.pid] = y.usage(self, false)
	return u, nil
}

// proc is a process of user space.
type proc struct {
	pid, parent int
	name        string
}

// each calls f for every process of user space.
func (y System) each(f func(proc)) error {
	d, err := os.Open(y.path("proc"))
	if err != nil {
		return err
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(y.path("proc/" + n + "/stat"))
		if err != nil {
			continue // it has ended
		}
		p, flags, ok := parseStat(string(stat))
		if p.pid = pid; ok && flags&kernelThread == 0 {
			f(p)
		}
	}
	return nil
}

// kernelThread is PF_KTHREAD of linux/sched.h.
const kernelThread = 0x00200000

// parseStat reads name, parent and flags from /proc/PID/stat (proc(5)): the name
// is in parentheses and may hold some itself. ok is false for a zombie, which
// uses nothing.
func parseStat(text string) (p proc, flags uint64, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return p, 0, false
	}
	p.name = text[open+1 : end]
	f := strings.Fields(text[end+1:])
	if len(f) < 7 || f[0] == "Z" || f[0] == "X" {
		return p, 0, false
	}
	parent, err := strconv.Atoi(f[1])
	flags, err2 := strconv.ParseUint(f[6], 10, 64)
	p.parent = parent
	return p, flags, err == nil && err2 == nil
}

// usage is what a process has used, its CPU time as it was at the end of the look,
// or with first, at the beginning.
func (y System) usage(p proc, first bool) Process {
	u := Process{Name: p.name}
	cpu := y.CPU
	if cpu == nil {
		cpu = cpuClock
	}
	u.CPU, _ = cpu(p.pid) // it has ended otherwise
	tasks, _ := filepath.Glob(y.path("proc/" + strconv.Itoa(p.pid) + "/task/[0-9]*/status"))
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		u.Wakeups += waits(b)
	}
	if !first {
		u.CPU, _ = cpu(p.pid)
	}
	return u
}

// cpuClock reads the clock of a process's CPU time (clock_getcpuclockid(3)): its
// number is made of the process's, and 2 is CPUCLOCK_SCHED.
func cpuClock(pid int) (uint64, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|2), &ts)
	return uint64(ts.Nano()), err
}

// waits reads how often a thread has waited from its status.
func waits(status []byte) uint64 {
	_, rest, ok := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:"))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	return n
}

// ticks reads the first line of /proc/stat. The kernel counts a guest's time in
// the user's as well.
func ticks(text string) (busy, total uint64) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0
	}
	for i, s := range f[1:min(len(f), 9)] {
		n, _ := strconv.ParseUint(s, 10, 64)
		total += n
		if i != 3 && i != 4 { // idle, and idle but for a disk
			busy += n
		}
	}
	return busy, total
}

// packets reads an interface's line of /proc/net/dev.
func packets(text, name string) (rx, tx uint64) {
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, ":")
		f := strings.Fields(right)
		if ok && strings.TrimSpace(left) == name && len(f) >= 10 {
			rx, _ = strconv.ParseUint(f[1], 10, 64)
			tx, _ = strconv.ParseUint(f[9], 10, 64)
		}
	}
	return rx, tx
}

// A process is named that took part of this much.
const (
	namedCPU     = api.BenchQuietCPU / 10
	namedWakeups = api.BenchQuietWakeups / 10
)

// Until is the load from u to last, which were d apart.
func (u *Usage) Until(last *Usage, d time.Duration) *api.BenchLoad {
	s := max(d, 1).Seconds()
	rate := func(last, first uint64) float64 { return float64(last-min(last, first)) / s }
	l := &api.BenchLoad{Seconds: seconds(d), Rx: rate(last.Rx, u.Rx), Tx: rate(last.Tx, u.Tx)}
	for pid, p := range last.Processes {
		before := u.Processes[pid] // of a new one it is zero
		if pid == last.pid {
			p = last.before
		}
		cpu, wakeups := rate(p.CPU, before.CPU)*100/1e9, rate(p.Wakeups, before.Wakeups)
		l.CPU += cpu
		l.Wakeups += wakeups
		if cpu >= namedCPU || wakeups >= namedWakeups {
			l.By = append(l.By, fmt.Sprintf("%s (process %d): %.3f %%, %.2f/s", p.Name, pid, cpu, wakeups))
		}
	}
	if total := last.Total - u.Total; total > 0 {
		l.Busy = 100 * float64(last.Busy-u.Busy) / float64(total)
	}
	l.Quiet = l.CPU <= api.BenchQuietCPU && l.Wakeups <= api.BenchQuietWakeups
	return l
}
