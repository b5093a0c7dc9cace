package proc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/opt"
	"gwinit/internal/tools/zone"
)

// ticks is the kernel's USER_HZ, in which /proc counts CPU time: 100 on every
// architecture but alpha and ia64.
const ticks = 100

// process is one line of ps.
type process struct {
	pid, ppid int
	comm      string
	state     string
	cpu       uint64 // user and system, in ticks
	vsz       uint64 // bytes
	rss, anon uint64 // KiB
	uid       uint32
	cmdline   string // empty: a kernel thread
	threads   int
}

var errFormat = errors.New("unexpected format")

// parseStat reads /proc/PID/stat (proc(5)). The name stands in parentheses and
// may hold any byte, parentheses and spaces too.
func parseStat(b []byte) (process, error) {
	var p process
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open {
		return p, errFormat
	}
	f := strings.Fields(string(b[end+1:]))
	// f[0] is field 3, the state.
	if len(f) < 22 {
		return p, errFormat
	}
	pid, err1 := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	ppid, err2 := strconv.Atoi(f[1])
	utime, err3 := strconv.ParseUint(f[11], 10, 64)
	stime, err4 := strconv.ParseUint(f[12], 10, 64)
	threads, err5 := strconv.Atoi(f[17])
	vsz, err6 := strconv.ParseUint(f[20], 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return p, errFormat
	}
	p = process{pid: pid, ppid: ppid, comm: string(b[open+1 : end]), state: f[0], cpu: utime + stime, threads: threads, vsz: vsz}
	return p, nil
}

// parseFields reads the "Key:   value kB" lines of /proc/PID/status and of
// /proc/meminfo; keys that are not numbers are left out.
func parseFields(b []byte) map[string]uint64 {
	m := map[string]uint64{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		if f := strings.Fields(value); len(f) > 0 {
			if n, err := strconv.ParseUint(f[0], 10, 64); err == nil {
				m[key] = n
			}
		}
	}
	return m
}

func (s system) path(elem ...string) string {
	return filepath.Join(append([]string{s.root + "/proc"}, elem...)...)
}

// processes lists them all by number; one that ends meanwhile is left out.
func (s system) processes() ([]process, error) {
	entries, err := os.ReadDir(s.path())
	if err != nil {
		return nil, err
	}
	var list []process
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		p, err := s.process(e.Name())
		if err != nil {
			if errors.Is(err, errFormat) {
				return nil, err
			}
			continue
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b process) int { return a.pid - b.pid })
	return list, nil
}

func (s system) process(pid string) (process, error) {
	b, err := os.ReadFile(s.path(pid, "stat"))
	if err != nil {
		return process{}, err
	}
	p, err := parseStat(b)
	if err != nil {
		return p, &fs.PathError{Op: "parse", Path: s.path(pid, "stat"), Err: err}
	}
	if b, err = os.ReadFile(s.path(pid, "status")); err != nil {
		return p, err
	}
	f := parseFields(b)
	p.uid, p.rss, p.anon = uint32(f["Uid"]), f["VmRSS"], f["RssAnon"]
	if b, err = os.ReadFile(s.path(pid, "cmdline")); err != nil {
		return p, err
	}
	p.cmdline = printable(string(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte{' '})))
	return p, nil
}

// printable keeps a process's arguments from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// psFields are the columns: heading, width (negative: to the left).
var psFields = [...]struct {
	name, head string
	width      int
}{
	{"pid", "PID", 5},
	{"ppid", "PPID", 5},
	{"user", "USER", -5},
	{"stat", "S", 1},
	{"vsz", "VSZ", 7},
	{"rss", "RSS", 6},
	{"anon", "ANON", 6},
	{"time", "TIME", 8},
	{"comm", "NAME", -15},
	{"args", "COMMAND", 0},
}

func (p *process) field(i int) string {
	kib := func(n uint64) string {
		if n >= 100000 {
			return strconv.FormatUint(n>>10, 10) + "M"
		}
		return strconv.FormatUint(n, 10)
	}
	switch psFields[i].name {
	case "pid":
		return strconv.Itoa(p.pid)
	case "ppid":
		return strconv.Itoa(p.ppid)
	case "user":
		if p.uid == 0 {
			return "root"
		}
		return strconv.FormatUint(uint64(p.uid), 10)
	case "stat":
		return p.state
	case "vsz":
		return kib(p.vsz >> 10)
	case "rss":
		return kib(p.rss)
	case "anon":
		return kib(p.anon)
	case "time":
		return cpuTime(p.cpu)
	case "comm":
		return printable(p.comm)
	default:
		if p.cmdline == "" {
			return "[" + printable(p.comm) + "]"
		}
		return p.cmdline
	}
}

// cpuTime is M:SS.hh, or H:MM:SS when that grows too long.
func cpuTime(t uint64) string {
	secs := t / ticks
	if secs >= 6000 {
		return fmt.Sprintf("%d:%02d:%02d", secs/3600, secs/60%60, secs%60)
	}
	return fmt.Sprintf("%d:%02d.%02d", secs/60, secs%60, t%ticks)
}

func (s system) ps(_ context.Context, std applet.IO, args []string) error {
	cols := []int{0, 1, 2, 3, 5, 6, 7, 9}
	// ps is called in many ways (ps, ps aux, ps -ef, ps w); all mean "show me".
	for len(args) > 0 && strings.Trim(args[0], "-aAuxefwl") == "" {
		args = args[1:]
	}
	o, rest, err := opt.Parse(args, "o:")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("unknown argument %s", rest[0])
	}
	if o.Has('o') {
		cols = nil
		for _, name := range strings.Split(o.Val('o'), ",") {
			i := slices.IndexFunc(psFields[:], func(f struct {
				name, head string
				width      int
			},
			) bool {
				return f.name == name
			})
			if i < 0 {
				return applet.Usagef("unknown field %s", name)
			}
			cols = append(cols, i)
		}
	}
	list, err := s.processes()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(std.Out)
	row := func(text func(col int) string) {
		var line strings.Builder
		for n, c := range cols {
			if n > 0 {
				line.WriteByte(' ')
			}
			fmt.Fprintf(&line, "%*s", psFields[c].width, text(c))
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row(func(c int) string { return psFields[c].head })
	for i := range list {
		row(list[i].field)
	}
	return out.Flush()
}

func (s system) meminfo() (map[string]uint64, error) {
	b, err := os.ReadFile(s.path("meminfo"))
	if err != nil {
		return nil, err
	}
	return parseFields(b), nil
}

func (s system) free(_ context.Context, std applet.IO, args []string) error {
	o, _, err := opt.Parse(args, "hkm")
	if err != nil {
		return err
	}
	m, err := s.meminfo()
	if err != nil {
		return err
	}
	show := func(kib uint64) string {
		switch {
		case o.Has('h') && kib >= 10<<10:
			return fmt.Sprintf("%dM", kib>>10)
		case o.Has('h') && kib >= 1<<10:
			return fmt.Sprintf("%d.%dM", kib>>10, kib%1024*10/1024)
		case o.Has('h'):
			return fmt.Sprintf("%dK", kib)
		case o.Has('m'):
			return strconv.FormatUint(kib>>10, 10)
		}
		return strconv.FormatUint(kib, 10)
	}
	cache := m["Buffers"] + m["Cached"] + m["SReclaimable"]
	used := m["MemTotal"] - min(m["MemTotal"], m["MemFree"]+cache)
	fmt.Fprintf(std.Out, "%-5s %10s %10s %10s %10s %10s %10s\n", "", "total", "used", "free", "shared", "buff/cache", "available")
	fmt.Fprintf(std.Out, "%-5s %10s %10s %10s %10s %10s %10s\n", "Mem:",
		show(m["MemTotal"]), show(used), show(m["MemFree"]), show(m["Shmem"]), show(cache), show(m["MemAvailable"]))
	if m["SwapTotal"] > 0 {
		fmt.Fprintf(std.Out, "%-5s %10s %10s %10s\n", "Swap:", show(m["SwapTotal"]), show(m["SwapTotal"]-min(m["SwapTotal"], m["SwapFree"])), show(m["SwapFree"]))
	}
	return nil
}

// sinceBoot reads /proc/uptime, in seconds.
func (s system) sinceBoot() (float64, error) {
	b, err := os.ReadFile(s.path("uptime"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	secs, err := strconv.ParseFloat(strings.TrimSpace(first), 64)
	if err != nil || !(secs >= 0) {
		return 0, &fs.PathError{Op: "parse", Path: s.path("uptime"), Err: errFormat}
	}
	return secs, nil
}

func (s system) load() string {
	b, err := os.ReadFile(s.path("loadavg"))
	if f := strings.Fields(string(b)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], ", ")
	}
	return "unknown"
}

func (s system) uptimeLine() (string, error) {
	up, err := s.sinceBoot()
	if err != nil {
		return "", err
	}
	secs := int64(up)
	text := fmt.Sprintf("%d:%02d", secs/3600%24, secs/60%60)
	if days := secs / 86400; days > 0 {
		text = fmt.Sprintf("%d days, %s", days, text)
	}
	return fmt.Sprintf("up %s, load average: %s", text, s.load()), nil
}

func (s system) uptime(_ context.Context, std applet.IO, _ []string) error {
	line, err := s.uptimeLine()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "%s %s\n", time.Now().In(zone.Load(s.root)).Format(time.TimeOnly), line)
	return err
}

// cpuStat reads the first line of /proc/stat: all jiffies, and the idle ones
// among them.
func parseCPU(b []byte) (parts [8]uint64, err error) {
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return parts, errFormat
	}
	for i := range parts {
		if i+1 < len(f) {
			if parts[i], err = strconv.ParseUint(f[i+1], 10, 64); err != nil {
				return parts, errFormat
			}
		}
	}
	return parts, nil
}

func (s system) cpu() ([8]uint64, error) {
	b, err := os.ReadFile(s.path("stat"))
	if err != nil {
		return [8]uint64{}, err
	}
	return parseCPU(b)
}

func (s system) top(ctx context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "bn:d:")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("unknown argument %s", rest[0])
	}
	count, err := o.Int('n', 0)
	if err != nil {
		return err
	}
	every := 5 * time.Second
	if o.Has('d') {
		if every, err = duration(o.Val('d')); err != nil {
			return err
		}
	}
	every = max(every, 100*time.Millisecond)
	rows, cols := 0, 0
	if !o.Has('b') {
		rows, cols = 24, 80
		if f, ok := std.Out.(*os.File); ok {
			if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && ws.Row > 0 && ws.Col > 0 {
				rows, cols = int(ws.Row), int(ws.Col)
			}
		}
		var quit context.CancelFunc
		ctx, quit = context.WithCancel(ctx)
		defer quit()
		if in, ok := std.In.(*os.File); ok {
			restore := quitOnKey(in, quit)
			defer restore()
		}
	}
	var before sample
	for n := 1; ; n++ {
		now, err := s.sample()
		if err != nil {
			return err
		}
		if err := s.screen(std, before, now, rows, cols); err != nil {
			return err
		}
		before = now
		if n == count || s.sleep(ctx, every) != nil {
			return nil
		}
	}
}

// sample is what top compares with the one before; the first one is compared
// with the boot, when all was zero.
type sample struct {
	cpu  [8]uint64
	list []process
}

func (s system) sample() (sample, error) {
	cpu, err := s.cpu()
	if err != nil {
		return sample{}, err
	}
	list, err := s.processes()
	return sample{cpu, list}, err
}

func (s system) screen(std applet.IO, before, now sample, rows, cols int) error {
	up, err := s.uptimeLine()
	if err != nil {
		return err
	}
	m, err := s.meminfo()
	if err != nil {
		return err
	}
	var total uint64
	var part [8]uint64
	for i := range part {
		part[i] = now.cpu[i] - min(now.cpu[i], before.cpu[i])
		total += part[i]
	}
	total = max(total, 1)
	percent := func(n uint64) float64 { return 100 * float64(n) / float64(total) }
	old := map[int]uint64{}
	for _, p := range before.list {
		old[p.pid] = p.cpu
	}
	used := make(map[int]uint64, len(now.list))
	for _, p := range now.list {
		used[p.pid] = p.cpu - min(p.cpu, old[p.pid])
	}
	list := slices.Clone(now.list)
	slices.SortStableFunc(list, func(a, b process) int {
		if used[a.pid] != used[b.pid] {
			if used[a.pid] > used[b.pid] {
				return -1
			}
			return 1
		}
		return int(b.anon) - int(a.anon)
	})
	var lines []string
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	add("%s", up)
	add("Mem: %d KiB, %d free, %d available, %d cached", m["MemTotal"], m["MemFree"], m["MemAvailable"], m["Cached"])
	add("CPU: %.0f%% user, %.0f%% system, %.0f%% nice, %.0f%% idle, %.0f%% waiting, %.0f%% interrupts",
		percent(part[0]), percent(part[2]), percent(part[1]), percent(part[3]), percent(part[4]), percent(part[5]+part[6]))
	add("%5s %5s %-5s S %6s %6s %3s %5s %8s %s", "PID", "PPID", "USER", "RSS", "ANON", "THR", "%CPU", "TIME", "COMMAND")
	for i := range list {
		p := &list[i]
		add("%5d %5d %-5s %s %6s %6s %3d %5.1f %8s %s", p.pid, p.ppid, p.field(2), p.state, p.field(5), p.field(6), p.threads,
			percent(used[p.pid]), cpuTime(p.cpu), p.field(9))
	}
	out := bufio.NewWriter(std.Out)
	if rows > 0 {
		out.WriteString(clearScreen)
		lines = lines[:min(len(lines), rows-1)]
	}
	for _, l := range lines {
		if cols > 0 && len(l) >= cols {
			l = l[:cols-1]
		}
		out.WriteString(l + "\n")
	}
	return out.Flush()
}

// quitOnKey calls quit when q is typed; the function it returns gives the
// terminal back and waits for the reader to end.
func quitOnKey(in *os.File, quit func()) (restore func()) {
	fd := int(in.Fd())
	modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return func() {}
	}
	keys := *modes
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 0, 2 // a read ends after 200 ms
	if unix.IoctlSetTermios(fd, unix.TCSETS, &keys) != nil {
		return func() {}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var b [1]byte
		for {
			n, err := unix.Read(fd, b[:])
			if n == 1 && b[0] == 'q' || err != nil && err != unix.EINTR {
				quit()
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	return func() {
		close(stop)
		<-done
		_ = unix.IoctlSetTermios(fd, unix.TCSETS, modes)
	}
}
