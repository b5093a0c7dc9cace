package sysadm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/tooltest"
)

func TestTable(t *testing.T) {
	tooltest.CheckTable(t, Applets(), "clear", "sync", "which", "devmem", "stty")
}

func run(t *testing.T, s system, name string, args ...string) tooltest.Result {
	t.Helper()
	return tooltest.Run(t, s.applets(), nil, name, args...)
}

func TestDate(t *testing.T) {
	t.Setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
	now := time.Date(2026, 7, 5, 6, 7, 8, 9000, time.UTC)
	var set time.Time
	s := system{now: func() time.Time { return now }, set: func(t time.Time) error { set = t; return nil }}
	tests := []struct {
		args []string
		want string
	}{
		{nil, "Sun Jul  5 08:07:08 CEST 2026"},
		{[]string{"-u"}, "Sun Jul  5 06:07:08 UTC 2026"},
		{[]string{"+%F %T %z %s %% %q"}, "2026-07-05 08:07:08 +0200 1783231628 % %q"},
		{[]string{"-u", "+%N %j %u %e %y%"}, "000009000 186 7  5 26%"},
		{[]string{"-d", "@0", "+%F %R"}, "1970-01-01 01:00"},
		{[]string{"-d", "2026-01-02 03:04", "+%c"}, "Fri Jan  2 03:04:00 2026"},
	}
	for _, tt := range tests {
		if r := run(t, s, "date", tt.args...); r.Out != tt.want+"\n" || r.Status != 0 {
			t.Errorf("date %q: %+v, want %q", tt.args, r, tt.want)
		}
	}
	if !set.IsZero() {
		t.Error("the clock was set")
	}
	for in, want := range map[string]int64{"@1800000000": 1800000000, "2026-07-05 10:00": 1783238400, "10:00": 1783238400, "202607051000.30": 1783238430} {
		if r := run(t, s, "date", "-s", in); r.Status != 0 || set.Unix() != want {
			t.Errorf("-s %s: %d, %+v", in, set.Unix(), r)
		}
	}
	for _, bad := range [][]string{{"-s", "yesterday"}, {"-d", "@x"}, {"0705"}, {""}} {
		if r := run(t, s, "date", bad...); r.Status != 2 {
			t.Errorf("%q: %+v", bad, r)
		}
	}
	s.set = func(time.Time) error { return unix.EPERM }
	if r := run(t, s, "date", "-s", "@1"); r.Status != 1 || r.Err == "" {
		t.Errorf("%+v", r)
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("2026-07-05 10:00")
	f.Add("@12")
	f.Fuzz(func(t *testing.T, in string) {
		if got, err := parseTime(in, time.Unix(0, 0).UTC()); err == nil {
			_ = strftime(got, in)
		}
	})
}

func TestDmesg(t *testing.T) {
	var actions []int
	level := 0
	s := system{
		klog: func(action int, buf []byte) (int, error) {
			actions = append(actions, action)
			if action == klogSize {
				return 1000, nil
			}
			return copy(buf, "<6>[    0.000000] Linux\n<3>[    1.5] error\nno priority"), nil
		},
		level: func(l int) error { level = l; return nil },
	}
	if r := run(t, s, "dmesg"); r.Out != "[    0.000000] Linux\n[    1.5] error\nno priority\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "dmesg", "-rc"); !strings.HasPrefix(r.Out, "<6>") || actions[len(actions)-1] != klogReadClear {
		t.Errorf("%+v, %v", r, actions)
	}
	if r := run(t, s, "dmesg", "-n", "4"); r.Status != 0 || level != 4 {
		t.Errorf("%+v, %d", r, level)
	}
	if r := run(t, s, "dmesg", "-n", "9"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
	s.klog = func(int, []byte) (int, error) { return 0, unix.EPERM }
	if r := run(t, s, "dmesg"); r.Status != 1 {
		t.Errorf("%+v", r)
	}
	if line, ok := kmsg("6,42,1500000,-;eth0: up\n SUBSYSTEM=net\n", false); !ok || line != "[    1.500000] eth0: up\n" {
		t.Errorf("%q", line)
	}
	if line, _ := kmsg("6,42,1500000,-;x", true); line != "<6>[    1.500000] x\n" {
		t.Errorf("%q", line)
	}
	for _, bad := range []string{"", "6,1;x", "a,1,2,-;x"} {
		if _, ok := kmsg(bad, false); ok {
			t.Errorf("%q is a record", bad)
		}
	}
}

func FuzzKmsg(f *testing.F) {
	f.Add("6,42,1500000,-;eth0: up\n")
	f.Fuzz(func(t *testing.T, r string) { _, _ = kmsg(r, true); _ = withoutPriority(r) })
}

func TestMount(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"mounts": "/dev/mtdblock3 /userdata jffs2 rw,noatime 0 0\nproc /proc proc rw 0 0\n", "filesystems": "nodev\tproc\n\tsquashfs\n\tjffs2\n"} {
		if err := os.WriteFile(filepath.Join(root, "proc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var calls []string
	s := system{root: root, mount: func(source, target, fstype string, flags uintptr, data string) error {
		calls = append(calls, fmt.Sprintf("%s %s %s %#x %s", source, target, fstype, flags, data))
		if fstype == "squashfs" {
			return unix.EINVAL
		}
		return nil
	}}
	if r := run(t, s, "mount"); r.Out != "/dev/mtdblock3 on /userdata type jffs2 (rw,noatime)\nproc on /proc type proc (rw)\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "mount", "-t", "proc"); r.Out != "proc on /proc type proc (rw)\n" {
		t.Errorf("%+v", r)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-t", "tmpfs", "-o", "size=1m,nosuid,mode=700", "none", "/tmp"}, fmt.Sprintf("none /tmp tmpfs %#x size=1m,mode=700", unix.MS_NOSUID)},
		{[]string{"-o", "remount,ro", "/userdata"}, fmt.Sprintf("none /userdata  %#x ", unix.MS_REMOUNT|unix.MS_RDONLY)},
		{[]string{"-o", "bind", "/a", "/b"}, fmt.Sprintf("/a /b  %#x ", unix.MS_BIND)},
		{[]string{"-r", "/dev/x", "/mnt"}, fmt.Sprintf("/dev/x /mnt jffs2 %#x ", unix.MS_RDONLY)},
		{[]string{"-o", "ro,rw", "-t", "x", "a", "b"}, "a b x 0x0 "},
	}
	for _, tt := range tests {
		if r := run(t, s, "mount", tt.args...); r.Status != 0 || calls[len(calls)-1] != tt.want {
			t.Errorf("%q: %q, %+v", tt.args, calls[len(calls)-1], r)
		}
	}
	if r := run(t, s, "mount", "/only"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
	s.umnt = func(target string, flags int) error {
		if target == "/busy" && flags == 0 {
			return unix.EBUSY
		}
		return nil
	}
	if r := run(t, s, "umount", "/a"); r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "umount", "/busy"); r.Status != 1 || !strings.Contains(r.Err, "busy") {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "umount", "-l", "/busy"); r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "umount", "-r", "/busy"); r.Status != 0 || !strings.HasPrefix(calls[len(calls)-1], "none /busy") {
		t.Errorf("%+v", r)
	}
}

// TestDevmem uses a file in place of the memory.
func TestDevmem(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	mem := filepath.Join(root, "dev/mem")
	if err := os.WriteFile(mem, make([]byte, 2*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := system{root: root}
	for _, tt := range []struct{ width, value, want string }{
		{"8", "0x5a", "0x5A"}, {"16", "0x1234", "0x1234"}, {"32", "0x484F4C44", "0x484F4C44"}, {"64", "0x0123456789abcdef", "0x0123456789ABCDEF"},
	} {
		if r := run(t, s, "devmem", "0x1008", tt.width, tt.value); r.Status != 0 || r.Out != "" {
			t.Errorf("write %s: %+v", tt.width, r)
		}
		if r := run(t, s, "devmem", "0x1008", tt.width); r.Out != tt.want+"\n" {
			t.Errorf("read %s: %+v", tt.width, r)
		}
	}
	if r := run(t, s, "devmem", "4096"); r.Out != "0x00000000\n" {
		t.Errorf("%+v", r)
	}
	for _, bad := range []string{"", "x", "2", "4 24", "4 8 0x100", "1 2 3 4"} {
		if r := run(t, s, "devmem", strings.Fields(bad)...); r.Status != 2 {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}

func TestStty(t *testing.T) {
	var tio unix.Termios
	var ws unix.Winsize
	tio.Lflag = unix.ECHO | unix.ICANON
	tio.Cflag = unix.B38400 | unix.CS7
	resize, err := applySettings(&tio, &ws, strings.Fields("892857 -echo crtscts cs8 rows 50 cols 132"))
	if err != nil || !resize {
		t.Fatal(err)
	}
	if tio.Ospeed != 892857 || tio.Ispeed != 892857 || tio.Cflag&unix.CBAUD != unix.BOTHER || tio.Cflag&unix.CRTSCTS == 0 || tio.Cflag&unix.CSIZE != unix.CS8 || tio.Lflag != unix.ICANON || ws.Row != 50 || ws.Col != 132 {
		t.Errorf("%+v %+v", tio, ws)
	}
	if _, err := applySettings(&tio, &ws, []string{"raw"}); err != nil || tio.Lflag&unix.ICANON != 0 {
		t.Error("raw", err)
	}
	if _, err := applySettings(&tio, &ws, []string{"sane"}); err != nil || tio.Lflag&unix.ICANON == 0 || tio.Oflag&unix.OPOST == 0 {
		t.Error("sane", err)
	}
	var usage applet.UsageError
	for _, bad := range []string{"nosuch", "rows", "cols x", "-raw"} {
		if _, err := applySettings(&tio, &ws, strings.Fields(bad)); !errors.As(err, &usage) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if r := run(t, system{}, "stty", "-F", "/dev/ptmx"); r.Status != 0 || !strings.Contains(r.Out, "baud") || !strings.Contains(r.Out, " icanon ") {
		t.Errorf("%+v", r)
	}
	if r := run(t, system{}, "stty", "-F", "/dev/null"); r.Status != 1 {
		t.Errorf("%+v", r)
	}
	if r := run(t, system{}, "stty", "-F", "/dev/null", "size"); r.Status != 1 {
		t.Errorf("%+v", r)
	}
	// The size that one sets is the size that the next one reads.
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	pts := fmt.Sprintf("/dev/pts/%d", n)
	if r := run(t, system{}, "stty", "-F", pts, "rows", "50", "cols", "132"); r.Status != 0 {
		t.Errorf("%+v", r)
	}
	if r := run(t, system{}, "stty", "-F", pts, "size"); r.Out != "50 132\n" {
		t.Errorf("%+v", r)
	}
}

func TestNames(t *testing.T) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	s := system{}
	release := unix.ByteSliceToString(u.Release[:])
	if r := run(t, s, "uname"); r.Out != "Linux\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "uname", "-r"); r.Out != release+"\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "uname", "-a"); !strings.Contains(r.Out, release) {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "hostname"); r.Out != unix.ByteSliceToString(u.Nodename[:])+"\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "hostname", ""); r.Status != 2 {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "id", "-u"); r.Out != fmt.Sprintln(os.Geteuid()) {
		t.Errorf("%+v", r)
	}
	t.Setenv("PATH", "/nonesuch:/bin")
	if r := run(t, s, "which", "sh"); r.Out != "/bin/sh\n" {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "which", "nonesuch"); r.Status != 1 || r.Out != "" {
		t.Errorf("%+v", r)
	}
}
