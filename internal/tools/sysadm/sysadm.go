// Package sysadm is the tools that show or change the system itself: kernel
// log, mounts, clock, terminal, names and physical memory.
package sysadm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/time64"
	"gwinit/internal/tools/opt"
	"gwinit/internal/tools/zone"
)

// system is what the tools look at and change.
type system struct {
	root  string // in front of /proc, /dev and /etc; empty on the box
	now   func() time.Time
	set   func(time.Time) error
	mount func(source, target, fstype string, flags uintptr, data string) error
	umnt  func(target string, flags int) error
	klog  func(action int, buf []byte) (int, error) // klogctl(2)
	level func(level int) error
}

// Applets returns the tools.
func Applets() []applet.Applet {
	return system{
		now: time.Now, set: setClock, mount: unix.Mount, umnt: unix.Unmount,
		klog: unix.Klogctl, level: setLevel,
	}.applets()
}

func (s system) applets() []applet.Applet {
	tool := func(name, summary, usage string, run func(context.Context, applet.IO, []string) error) applet.Applet {
		return applet.Applet{Name: name, Group: applet.Process, Summary: summary, Usage: usage, Run: run}
	}
	return []applet.Applet{
		tool("clear", "clear the terminal", "clear", func(_ context.Context, std applet.IO, _ []string) error {
			_, err := io.WriteString(std.Out, "\x1b[H\x1b[2J\x1b[3J")
			return err
		}),
		tool("date", "show or set the clock", "date [-u] [+FORMAT] [-d TIME]\ndate [-u] -s TIME\n\n  -u  in UTC\n  -d  that time, not now\n  -s  set the wall clock; timers do not notice\n  TIME    YYYY-MM-DD hh:mm[:ss], hh:mm[:ss], YYYYMMDDhhmm[.ss] or @SECONDS\n  FORMAT  as strftime: %Y-%m-%d %H:%M:%S %z %s ...", s.date),
		tool("devmem", "read or write physical memory", "devmem ADDRESS [8|16|32|64 [VALUE]]\n\nNumbers may be hexadecimal (0x...). 32 bits by default.", s.devmem),
		tool("dmesg", "the kernel's log", "dmesg [-c] [-w] [-n LEVEL] [-r]\n\n  -c  clear it afterwards\n  -w  and what comes, until ctrl-C\n  -n  only messages below LEVEL (1-8) go to the console\n  -r  raw, with priorities", s.dmesg),
		tool("hostname", "show or set the host's name", "hostname [NAME]\n\nSet this way it lasts until the next boot.", s.hostname),
		tool("id", "user and group numbers", "id [-u|-g]", id),
		tool("mount", "mount a file system, or list them", "mount\nmount [-t TYPE] [-o OPTION,...] [-r] DEVICE FOLDER\nmount -o remount,OPTION,... FOLDER\n\n  OPTION  ro rw bind rbind move remount nosuid nodev noexec noatime nodiratime relatime sync dirsync, or the file system's\n  -r      ro", s.mountCommand),
		tool("stty", "show or set the terminal", "stty [-F DEVICE] [-a|size]\nstty [-F DEVICE] [BAUD] [SETTING...]\n\n  SETTING  sane raw [-]echo [-]icanon [-]isig [-]icrnl [-]ixon [-]ixoff [-]crtscts [-]opost [-]onlcr\n           [-]cstopb [-]parenb [-]parodd [-]clocal [-]hupcl cs7 cs8 rows N cols N", s.stty),
		tool("sync", "write everything to flash", "sync", func(context.Context, applet.IO, []string) error {
			unix.Sync()
			return nil
		}),
		tool("umount", "unmount a file system", "umount [-lfr] FOLDER...\n\n  -l  out of sight now, unmounted when nobody uses it\n  -f  by force\n  -r  read-only if it cannot be unmounted", s.umount),
		tool("uname", "kernel and machine", "uname [-asnrvm]", uname),
		tool("which", "where a command is", "which NAME...", s.which),
	}
}

// strftime formats t; unknown letters stay as they are.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		layout := ""
		switch format[i] {
		case 'Y':
			layout = "2006"
		case 'y':
			layout = "06"
		case 'm':
			layout = "01"
		case 'd':
			layout = "02"
		case 'e':
			layout = "_2"
		case 'H':
			layout = "15"
		case 'I':
			layout = "03"
		case 'M':
			layout = "04"
		case 'S':
			layout = "05"
		case 'p':
			layout = "PM"
		case 'a':
			layout = "Mon"
		case 'A':
			layout = "Monday"
		case 'b', 'h':
			layout = "Jan"
		case 'B':
			layout = "January"
		case 'j':
			layout = "002"
		case 'z':
			layout = "-0700"
		case 'Z':
			layout = "MST"
		case 'F':
			layout = "2006-01-02"
		case 'T':
			layout = "15:04:05"
		case 'R':
			layout = "15:04"
		case 'D':
			layout = "01/02/06"
		case 'c':
			layout = "Mon Jan _2 15:04:05 2006"
		case 's':
			b.WriteString(strconv.FormatInt(t.Unix(), 10))
			continue
		case 'N':
			fmt.Fprintf(&b, "%09d", t.Nanosecond())
			continue
		case 'u':
			b.WriteString(strconv.Itoa((int(t.Weekday())+6)%7 + 1))
			continue
		case 'w':
			b.WriteString(strconv.Itoa(int(t.Weekday())))
			continue
		case 'n':
			b.WriteByte('\n')
			continue
		case 't':
			b.WriteByte('\t')
			continue
		case '%':
			b.WriteByte('%')
			continue
		default:
			b.WriteString(format[i-1 : i+1])
			continue
		}
		b.WriteString(t.Format(layout))
	}
	return b.String()
}

// parseTime reads what date -s and -d take.
func parseTime(s string, now time.Time) (time.Time, error) {
	if secs, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(secs, 10, 64)
		if err != nil || n < 0 || n > 253402300799 { // the end of year 9999
			return time.Time{}, applet.Usagef("%q is no time", s)
		}
		return time.Unix(n, 0).In(now.Location()), nil
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339,
		"2006.01.02-15:04:05", "200601021504.05", "200601021504",
	} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, s, now.Location()); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, applet.Usagef("%q is no time", s)
}

// setClock steps CLOCK_REALTIME; the monotonic clock is not touched (INV 13).
func setClock(t time.Time) error {
	if err := time64.SetRealtime(t); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

func (s system) date(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "ud:s:")
	if err != nil {
		return err
	}
	loc := zone.Load(s.root)
	if o.Has('u') {
		loc = time.UTC
	}
	t := s.now().In(loc)
	if len(rest) > 1 || len(rest) == 1 && rest[0] == "" {
		return applet.Usagef("one format, behind a +; quote it")
	}
	if o.Has('d') {
		if t, err = parseTime(o.Val('d'), t); err != nil {
			return err
		}
	}
	set := o.Val('s')
	if len(rest) == 1 && rest[0][0] != '+' {
		return applet.Usagef("the clock is set with -s")
	}
	if o.Has('s') {
		if t, err = parseTime(set, t); err != nil {
			return err
		}
		if err := s.set(t); err != nil {
			return err
		}
	}
	format := "%a %b %e %H:%M:%S %Z %Y"
	if len(rest) == 1 {
		format = rest[0][1:]
	}
	_, err = fmt.Fprintln(std.Out, strftime(t, format))
	return err
}

// Actions of klogctl(2).
const (
	klogReadAll   = 3
	klogReadClear = 4
	klogSize      = 10
)

func setLevel(level int) error {
	// klogctl(8) takes the level in place of the length.
	_, _, e := unix.Syscall(unix.SYS_SYSLOG, 8, 0, uintptr(level))
	if e != 0 {
		return e
	}
	return nil
}

func (s system) dmesg(ctx context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "cwn:r")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("unknown argument %s", rest[0])
	}
	if o.Has('n') {
		level, err := o.Int('n', 0)
		if err != nil {
			return err
		}
		if level < 1 || level > 8 {
			return applet.Usagef("-n takes 1 to 8")
		}
		if err := s.level(level); err != nil {
			return fmt.Errorf("set the console's level: %w", err)
		}
		return nil
	}
	if o.Has('w') {
		return s.followKernel(ctx, std, o.Has('r'))
	}
	size, err := s.klog(klogSize, nil)
	if err != nil || size <= 0 {
		size = 64 << 10
	}
	buf := make([]byte, size)
	action := klogReadAll
	if o.Has('c') {
		action = klogReadClear
	}
	n, err := s.klog(action, buf)
	if err != nil {
		return fmt.Errorf("read the kernel's log: %w", err)
	}
	out := bufio.NewWriter(std.Out)
	for line := range strings.Lines(string(buf[:n])) {
		if !o.Has('r') {
			line = withoutPriority(line)
		}
		out.WriteString(line)
		if !strings.HasSuffix(line, "\n") {
			out.WriteByte('\n')
		}
	}
	return out.Flush()
}

// withoutPriority drops the <N> at the start of a kernel message.
func withoutPriority(line string) string {
	if rest, ok := strings.CutPrefix(line, "<"); ok {
		if n, text, ok := strings.Cut(rest, ">"); ok {
			if _, err := strconv.ParseUint(n, 10, 16); err == nil {
				return text
			}
		}
	}
	return line
}

// kmsg turns a record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg) into
// the line that dmesg shows. Continuation lines, which hold device properties,
// are left out.
func kmsg(record string, raw bool) (string, bool) {
	head, text, ok := strings.Cut(record, ";")
	if !ok {
		return "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	f := strings.Split(head, ",")
	if len(f) < 3 {
		return "", false
	}
	prio, err1 := strconv.ParseUint(f[0], 10, 16)
	micros, err2 := strconv.ParseUint(f[2], 10, 64)
	if err1 != nil || err2 != nil {
		return "", false
	}
	line := fmt.Sprintf("[%5d.%06d] %s\n", micros/1e6, micros%1e6, text)
	if raw {
		line = fmt.Sprintf("<%d>%s", prio, line)
	}
	return line, true
}

// followKernel reads /dev/kmsg, which first gives what is there already.
func (s system) followKernel(ctx context.Context, std applet.IO, raw bool) error {
	f, err := os.OpenFile(filepath.Join(s.root, "/dev/kmsg"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 8<<10) // the kernel's longest record is 8 KiB
	for {
		n, err := f.Read(buf)
		switch {
		case ctx.Err() != nil || err == io.EOF:
			return nil
		case errors.Is(err, unix.EPIPE):
			continue // overwritten before we read it; the next read goes on behind it
		case err != nil:
			return err
		}
		if line, ok := kmsg(string(buf[:n]), raw); ok {
			if _, err := io.WriteString(std.Out, line); err != nil {
				return err
			}
		}
	}
}

func (s system) hostname(_ context.Context, std applet.IO, args []string) error {
	switch len(args) {
	case 0:
		name, err := os.Hostname()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(std.Out, name)
		return err
	case 1:
		if args[0] == "" || args[0][0] == '-' || len(args[0]) > 63 {
			return applet.Usagef("%q is no host name", args[0])
		}
		if err := unix.Sethostname([]byte(args[0])); err != nil {
			return fmt.Errorf("set the host name: %w", err)
		}
		return nil
	}
	return applet.Usagef("one name, not %d", len(args))
}

func id(_ context.Context, std applet.IO, args []string) error {
	o, _, err := opt.Parse(args, "ug")
	if err != nil {
		return err
	}
	switch {
	case o.Has('u'):
		_, err = fmt.Fprintln(std.Out, os.Geteuid())
	case o.Has('g'):
		_, err = fmt.Fprintln(std.Out, os.Getegid())
	default:
		name := func(id int) string {
			if id == 0 {
				return "0(root)"
			}
			return strconv.Itoa(id)
		}
		_, err = fmt.Fprintf(std.Out, "uid=%s gid=%s\n", name(os.Geteuid()), name(os.Getegid()))
	}
	return err
}

func uname(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "asnrvmo")
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return applet.Usagef("unknown argument %s", rest[0])
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	var out []string
	for _, f := range []struct {
		c byte
		b []byte
	}{{'s', u.Sysname[:]}, {'n', u.Nodename[:]}, {'r', u.Release[:]}, {'v', u.Version[:]}, {'m', u.Machine[:]}} {
		if o.Has(f.c) || o.Has('a') || len(args) == 0 && f.c == 's' {
			out = append(out, unix.ByteSliceToString(f.b))
		}
	}
	if o.Has('o') || o.Has('a') {
		out = append(out, "Linux")
	}
	_, err = fmt.Fprintln(std.Out, strings.Join(out, " "))
	return err
}

func (s system) which(_ context.Context, std applet.IO, args []string) error {
	if len(args) == 0 {
		return applet.Usagef("needs a name")
	}
	missing := false
	for _, name := range args {
		path := ""
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			p := filepath.Join(s.root, dir, name)
			if strings.Contains(name, "/") {
				p = name
			}
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				path = p
				break
			}
		}
		if path == "" {
			missing = true
			continue
		}
		if _, err := fmt.Fprintln(std.Out, path); err != nil {
			return err
		}
	}
	if missing {
		return applet.Exit(1)
	}
	return nil
}

// mountFlag is one option of mount(8) that is a flag of mount(2).
type mountFlag struct {
	name  string
	flag  uintptr
	clear bool
}

var mountFlags = [...]mountFlag{
	{"ro", unix.MS_RDONLY, false},
	{"rw", unix.MS_RDONLY, true},
	{"bind", unix.MS_BIND, false},
	{"rbind", unix.MS_BIND | unix.MS_REC, false},
	{"move", unix.MS_MOVE, false},
	{"remount", unix.MS_REMOUNT, false},
	{"nosuid", unix.MS_NOSUID, false},
	{"suid", unix.MS_NOSUID, true},
	{"nodev", unix.MS_NODEV, false},
	{"dev", unix.MS_NODEV, true},
	{"noexec", unix.MS_NOEXEC, false},
	{"exec", unix.MS_NOEXEC, true},
	{"noatime", unix.MS_NOATIME, false},
	{"atime", unix.MS_NOATIME, true},
	{"nodiratime", unix.MS_NODIRATIME, false},
	{"relatime", unix.MS_RELATIME, false},
	{"sync", unix.MS_SYNCHRONOUS, false},
	{"async", unix.MS_SYNCHRONOUS, true},
	{"dirsync", unix.MS_DIRSYNC, false},
	{"defaults", 0, false},
}

// parseOptions splits mount's options into flags and what is the file system's.
func parseOptions(s string) (flags uintptr, data string) {
	var rest []string
next:
	for _, o := range strings.Split(s, ",") {
		for _, f := range mountFlags {
			if f.name == o {
				if f.clear {
					flags &^= f.flag
				} else {
					flags |= f.flag
				}
				continue next
			}
		}
		if o != "" {
			rest = append(rest, o)
		}
	}
	return flags, strings.Join(rest, ",")
}

func (s system) mountCommand(_ context.Context, std applet.IO, args []string) error {
	o, rest, err := opt.Parse(args, "t:o:rw")
	if err != nil {
		return err
	}
	flags, data := parseOptions(o.Val('o'))
	if o.Has('r') {
		flags |= unix.MS_RDONLY
	}
	var source, target string
	switch {
	case len(rest) == 0:
		return s.listMounts(std, o.Val('t'))
	case len(rest) == 1 && flags&unix.MS_REMOUNT != 0:
		source, target = "none", rest[0]
	case len(rest) == 2:
		source, target = rest[0], rest[1]
	default:
		return applet.Usagef("needs a device and a folder")
	}
	types := []string{o.Val('t')}
	if types[0] == "" && flags&(unix.MS_BIND|unix.MS_MOVE|unix.MS_REMOUNT) == 0 {
		if types, err = s.diskTypes(); err != nil {
			return err
		}
	}
	for _, t := range types {
		if err = s.mount(source, target, t, flags, data); err == nil || !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// diskTypes are the file systems that a device may hold.
func (s system) diskTypes() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(s.root, "/proc/filesystems"))
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "\t"); ok {
			list = append(list, strings.TrimSpace(name))
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the kernel knows no file system for devices: use -t")
	}
	return list, nil
}

func (s system) listMounts(std applet.IO, only string) error {
	f, err := os.Open(filepath.Join(s.root, "/proc/mounts"))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := strings.Fields(lines.Text())
		if len(w) < 4 || only != "" && w[2] != only {
			continue
		}
		if _, err := fmt.Fprintf(std.Out, "%s on %s type %s (%s)\n", w[0], w[1], w[2], w[3]); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (s system) umount(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "lfr")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return applet.Usagef("needs a folder")
	}
	flags := 0
	if o.Has('l') {
		flags |= unix.MNT_DETACH
	}
	if o.Has('f') {
		flags |= unix.MNT_FORCE
	}
	bad := false
	for _, n := range names {
		err := s.umnt(n, flags)
		if errors.Is(err, unix.EBUSY) && o.Has('r') {
			err = s.mount("none", n, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil {
			fmt.Fprintf(std.Err, "umount: %v\n", &fs.PathError{Op: "unmount", Path: n, Err: err})
			bad = true
		}
	}
	if bad {
		return applet.Exit(1)
	}
	return nil
}
