package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tools/tooltest"
)

func TestTable(t *testing.T) {
	// yes has no options; its argument is what it says, for ever.
	list := slices.DeleteFunc(Applets(), func(a applet.Applet) bool { return a.Name == "yes" })
	tooltest.CheckTable(t, list, "true", "false", "uptime", "nohup", "pidof", "killall")
}

// statLine is /proc/PID/stat as the board's kernel writes it.
func statLine(pid, ppid int, comm, state string, utime, stime, vsz int) string {
	return fmt.Sprintf("%d (%s) %s %d %d %d 0 -1 4194560 100 0 3 0 %d %d 0 0 20 0 4 0 123 %d 450 2147483647 4194304 8388608 2141192192 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0\n",
		pid, comm, state, ppid, pid, pid, utime, stime, vsz)
}

// fakeSystem lays out a /proc with four processes.
func fakeSystem(t *testing.T) system {
	t.Helper()
	root := t.TempDir()
	file := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, "proc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file("uptime", "93784.25 90000.00\n")
	file("loadavg", "0.08 0.03 0.01 1/40 512\n")
	file("meminfo", "MemTotal:          28672 kB\nMemFree:            9000 kB\nMemAvailable:      16000 kB\nBuffers:             100 kB\nCached:             5000 kB\nShmem:                40 kB\nSReclaimable:        900 kB\nHugePages_Total:       0\n")
	file("stat", "cpu  1000 0 500 8000 100 200 200 0 0 0\ncpu0 1000 0 500 8000 100 200 200 0 0 0\nintr 5\n")
	for _, p := range []struct {
		pid, ppid     int
		comm, state   string
		ticks, vsz    int
		rss, anon     string
		uid           string
		cmdline       string
		withoutStatus bool
	}{
		{1, 0, "gwinit", "S", 250, 700 << 20, "4100", "1100", "0", "/sbin/init\x00", false},
		{2, 0, "kthreadd", "S", 0, 0, "", "", "0", "", false},
		{40, 1, "gwinit", "S", 900, 700 << 20, "3200", "800", "0", "bridge\x00-port\x008888\x00", false},
		{48, 1, "gw", "S", 100, 700 << 20, "3200", "800", "0", "gw\x00core\x00-x\x00", false},
		{77, 40, "odd) name (", "R", 12, 1 << 20, "100", "50", "33", "/usr/bin/odd\x00a\x1bb\x00", false},
		{99, 1, "gone", "Z", 0, 0, "", "", "0", "", true},
	} {
		dir := strconv.Itoa(p.pid)
		file(dir+"/stat", statLine(p.pid, p.ppid, p.comm, p.state, p.ticks-p.ticks/3, p.ticks/3, p.vsz))
		file(dir+"/cmdline", p.cmdline)
		if p.withoutStatus {
			continue
		}
		status := "Name:\t" + p.comm + "\nUid:\t" + p.uid + "\t0\t0\t0\n"
		if p.rss != "" {
			status += "VmRSS:\t    " + p.rss + " kB\nRssAnon:\t    " + p.anon + " kB\n"
		}
		file(dir+"/status", status)
	}
	return system{
		root: root, self: 5000,
		kill:  func(int, syscall.Signal) error { return errors.New("not expected") },
		sleep: func(context.Context, time.Duration) error { return context.Canceled },
		run:   func(context.Context, applet.IO, []string) error { return errors.New("not expected") },
	}
}

func run(t *testing.T, s system, in, name string, args ...string) tooltest.Result {
	t.Helper()
	return tooltest.Run(t, s.applets(), strings.NewReader(in), name, args...)
}

func TestPs(t *testing.T) {
	s := fakeSystem(t)
	want := `  PID  PPID USER  S    RSS   ANON     TIME COMMAND
    1     0 root  S   4100   1100  0:02.50 /sbin/init
    2     0 root  S      0      0  0:00.00 [kthreadd]
   40     1 root  S   3200    800  0:09.00 bridge -port 8888
   48     1 root  S   3200    800  0:01.00 gw core -x
   77    40 33    R    100     50  0:00.12 /usr/bin/odd a?b
`
	for _, args := range [][]string{nil, {"aux"}, {"-ef"}, {"w"}, {"-A"}} {
		if r := run(t, s, "", "ps", args...); r.Out != want || r.Status != 0 {
			t.Errorf("ps %q: %+v", args, r)
		}
	}
	if r := run(t, s, "", "ps", "-o", "pid,vsz,comm"); !strings.HasPrefix(r.Out, "  PID     VSZ NAME\n    1    700M gwinit\n") {
		t.Errorf("-o: %q", r.Out)
	}
	if r := run(t, s, "", "ps", "-o", "nice"); r.Status != 2 {
		t.Errorf("unknown field: %+v", r)
	}
	s.root = t.TempDir()
	if r := run(t, s, "", "ps"); r.Status != 1 {
		t.Errorf("without /proc: %+v", r)
	}
}

func TestRealProc(t *testing.T) {
	list, err := system{}.processes()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p process) bool { return p.pid == os.Getpid() })
	if i < 0 || list[i].rss == 0 || list[i].ppid != os.Getppid() || !strings.Contains(list[i].cmdline, ".test") {
		t.Errorf("this process is not in the list, or wrong: %v", list)
	}
}

func TestParseStat(t *testing.T) {
	p, err := parseStat([]byte(statLine(77, 40, "odd) name (", "R", 8, 4, 4096)))
	if err != nil || p.pid != 77 || p.ppid != 40 || p.comm != "odd) name (" || p.state != "R" || p.cpu != 12 || p.vsz != 4096 || p.threads != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S", "x (x) " + strings.Repeat("1 ", 30), ") 1 ("} {
		if _, err := parseStat([]byte(bad)); !errors.Is(err, errFormat) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add([]byte(statLine(77, 40, "odd) name (", "R", 8, 4, 4096)))
	f.Add([]byte("VmRSS:\t 12 kB\n"))
	f.Add([]byte("cpu  1 2 3 4\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = parseStat(b)
		_ = parseFields(b)
		_, _ = parseCPU(b)
	})
}

func TestFree(t *testing.T) {
	s := fakeSystem(t)
	want := "           total       used       free     shared buff/cache  available\nMem:       28672      13672       9000         40       6000      16000\n"
	if r := run(t, s, "", "free"); r.Out != want {
		t.Errorf("%q", r.Out)
	}
	if r := run(t, s, "", "free", "-h"); !strings.Contains(r.Out, "28M") || !strings.Contains(r.Out, "8.7M") || !strings.Contains(r.Out, "40K") {
		t.Errorf("-h: %q", r.Out)
	}
	if r := run(t, s, "", "free", "-m"); !strings.Contains(r.Out, " 28 ") {
		t.Errorf("-m: %q", r.Out)
	}
}

func TestUptime(t *testing.T) {
	s := fakeSystem(t)
	if r := run(t, s, "", "uptime"); !strings.HasSuffix(r.Out, "up 1 days, 2:03, load average: 0.08, 0.03, 0.01\n") {
		t.Errorf("%+v", r)
	}
}

func TestTop(t *testing.T) {
	s := fakeSystem(t)
	slept := 0
	s.sleep = func(_ context.Context, d time.Duration) error {
		if slept++; d != 3*time.Second {
			t.Errorf("slept %v", d)
		}
		// In that time, process 77 worked.
		stat := filepath.Join(s.root, "proc/77/stat")
		if err := os.WriteFile(stat, []byte(statLine(77, 40, "odd", "R", 108, 4, 1<<20)), 0o644); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(s.root, "proc/stat"), []byte("cpu  1100 0 500 8100 100 200 200 0\n"), 0o644)
	}
	r := run(t, s, "", "top", "-b", "-n", "2", "-d", "3")
	screens := strings.Split(r.Out, "up 1 days")
	if r.Status != 0 || slept != 1 || len(screens) != 3 {
		t.Fatalf("%+v", r)
	}
	first := strings.Split(screens[1], "\n")
	if first[2] != "CPU: 10% user, 5% system, 0% nice, 80% idle, 1% waiting, 4% interrupts" || !strings.HasPrefix(first[4], "   40     1 root") {
		t.Errorf("first: %q", first)
	}
	second := strings.Split(screens[2], "\n")
	if second[2] != "CPU: 50% user, 0% system, 0% nice, 50% idle, 0% waiting, 0% interrupts" {
		t.Errorf("second: %q", second[2])
	}
	if !strings.HasPrefix(second[4], "   77    40 33    R    100     50   4  50.0  0:01.12 ") {
		t.Errorf("second: %q", second[4])
	}
	// On a screen: as many rows as it has, none longer than it is wide.
	r = run(t, s, "", "top", "-n", "1")
	for _, l := range strings.Split(r.Out, "\n") {
		if len(l) > 80+len(clearScreen) {
			t.Errorf("%d columns", len(l))
		}
	}
	if r := run(t, s, "", "top", "-n", "x"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
}

func TestKill(t *testing.T) {
	s := fakeSystem(t)
	type call struct {
		pid int
		sig syscall.Signal
	}
	var calls []call
	s.kill = func(pid int, sig syscall.Signal) error {
		calls = append(calls, call{pid, sig})
		if pid == 666 {
			return syscall.ESRCH
		}
		return nil
	}
	tests := []struct {
		args   string
		want   []call
		status int
	}{
		{"kill 40", []call{{40, unix.SIGTERM}}, 0},
		{"kill -9 40 77", []call{{40, unix.SIGKILL}, {77, unix.SIGKILL}}, 0},
		{"kill -HUP 40", []call{{40, unix.SIGHUP}}, 0},
		{"kill -sigusr1 40", []call{{40, unix.SIGUSR1}}, 0},
		{"kill -s INT 40", []call{{40, unix.SIGINT}}, 0},
		{"kill -0 40", []call{{40, 0}}, 0},
		{"kill -TERM -40", []call{{-40, unix.SIGTERM}}, 0},
		{"kill -- -40", []call{{-40, unix.SIGTERM}}, 0},
		{"kill -TERM -- -40", []call{{-40, unix.SIGTERM}}, 0},
		{"kill 666 40", []call{{666, unix.SIGTERM}, {40, unix.SIGTERM}}, 1},
		{"kill -NONE 40", nil, 2},
		{"kill -200 40", nil, 2},
		{"kill", nil, 2},
		{"kill -s", nil, 2},
		{"kill bridge", nil, 2},
		{"killall bridge", []call{{40, unix.SIGTERM}}, 0},
		{"killall -9 odd", []call{{77, unix.SIGKILL}}, 0},
		{"killall gwinit", []call{{40, unix.SIGTERM}, {1, unix.SIGTERM}}, 0},
		{"killall nobody", nil, 1},
		{"killall -q nobody", nil, 1},
		{"killall", nil, 2},
	}
	for _, tt := range tests {
		calls = nil
		args := strings.Fields(tt.args)
		r := run(t, s, "", args[0], args[1:]...)
		if r.Status != tt.status || !slices.Equal(calls, tt.want) {
			t.Errorf("%s: %v, %+v", tt.args, calls, r)
		}
		if quiet := strings.Contains(tt.args, "-q"); (r.Err == "") != (tt.status == 0 || quiet) {
			t.Errorf("%s: %q", tt.args, r.Err)
		}
	}
	if r := run(t, s, "", "kill", "-l"); !strings.Contains(r.Out, fmt.Sprintf("%2d USR1\n", int(unix.SIGUSR1))) || !strings.Contains(r.Out, " 9 KILL\n") {
		t.Errorf("-l: %q", r.Out)
	}
}

func TestPidof(t *testing.T) {
	s := fakeSystem(t)
	for args, want := range map[string]string{"bridge": "40\n", "gwinit": "40 1\n", "-s gwinit": "40\n", "init": "1\n", "bridge init": "40 1\n", "core": "48\n", "gw": "48\n"} {
		if r := run(t, s, "", "pidof", strings.Fields(args)...); r.Out != want || r.Status != 0 {
			t.Errorf("pidof %s: %+v", args, r)
		}
	}
	for _, none := range []string{"nobody", "-port", "-x"} {
		if r := run(t, s, "", "pidof", none); r.Status != 1 || r.Out != "" {
			t.Errorf("pidof %q: %+v", none, r)
		}
	}
	s.self = 40
	if r := run(t, s, "", "pidof", "bridge"); r.Status != 1 {
		t.Errorf("it found itself: %+v", r)
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{"1": time.Second, "0.5": 500 * time.Millisecond, "2m": 2 * time.Minute, "1h": time.Hour, "1d": 24 * time.Hour, "0": 0} {
		if got, err := duration(in); err != nil || got != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "x", "-1", "NaN", "Inf", "1e300", "m", "1w"} {
		if d, err := duration(bad); err == nil {
			t.Errorf("%q is %v", bad, d)
		}
	}
}

func TestSleep(t *testing.T) {
	s := fakeSystem(t)
	var slept time.Duration
	s.sleep = func(_ context.Context, d time.Duration) error {
		slept = d
		return nil
	}
	if r := run(t, s, "", "sleep", "1", "0.5"); r.Status != 0 || slept != 1500*time.Millisecond {
		t.Errorf("%v, %+v", slept, r)
	}
	s.sleep = func(context.Context, time.Duration) error { return context.Canceled }
	if r := run(t, s, "", "sleep", "1"); r.Status != 130 {
		t.Errorf("%+v", r)
	}
	if r := run(t, s, "", "sleep"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
}

func TestWatch(t *testing.T) {
	s := fakeSystem(t)
	n := 0
	s.run = func(_ context.Context, std applet.IO, argv []string) error {
		_, err := fmt.Fprintf(std.Out, "%q\n", argv)
		return err
	}
	s.sleep = func(_ context.Context, d time.Duration) error {
		if d != 500*time.Millisecond {
			t.Errorf("slept %v", d)
		}
		if n++; n == 2 {
			return context.Canceled
		}
		return nil
	}
	r := run(t, s, "", "watch", "-n", "0.5", "ls", "-l")
	if want := clearScreen + "Every 500ms: ls -l\n\n[\"ls\" \"-l\"]\n"; r.Out != want+want || r.Status != 0 {
		t.Errorf("%+v", r)
	}
	n = 1
	if r := run(t, s, "", "watch", "-n", ".5", "-t", "a | b"); r.Out != clearScreen+"[\"sh\" \"-c\" \"a | b\"]\n" {
		t.Errorf("%+v", r)
	}
}

func TestXargs(t *testing.T) {
	var ran []string
	fail := false
	s := fakeSystem(t)
	s.run = func(_ context.Context, _ applet.IO, argv []string) error {
		ran = append(ran, strings.Join(argv, "|"))
		if fail {
			return exec.Command("/bin/false").Run()
		}
		return nil
	}
	tests := []struct {
		name, in, args string
		want           []string
		status         int
	}{
		{"all at once", "a b\nc\n", "rm -f", []string{"rm|-f|a|b|c"}, 0},
		{"echo", "a", "", []string{"echo|a"}, 0},
		{"one by one", "a b c", "-n 1 x", []string{"x|a", "x|b", "x|c"}, 0},
		{"two by two", "a b c", "-n2 x", []string{"x|a|b", "x|c"}, 0},
		{"quotes", `"a b" 'c d' e\ f`, "x", []string{"x|a b|c d|e f"}, 0},
		{"an empty one", `""`, "x", []string{"x|"}, 0},
		{"nul", "a b\x00c\nd\x00", "-0 x", []string{"x|a b|c\nd"}, 0},
		{"mark", "a b\nc\n", "-I % mv % %.bak", []string{"mv|a b|a b.bak", "mv|c|c.bak"}, 0},
		{"nothing", "", "x", []string{"x"}, 0},
		{"nothing with -r", " \n", "-r x", nil, 0},
		{"nothing with -I", "", "-I % x %", nil, 0},
		{"open quote", `"a`, "x", nil, 1},
	}
	for _, tt := range tests {
		ran = nil
		r := run(t, s, tt.in, "xargs", strings.Fields(tt.args)...)
		if !slices.Equal(ran, tt.want) || r.Status != tt.status {
			t.Errorf("%s: %q, %+v", tt.name, ran, r)
		}
	}
	ran = nil
	run(t, s, strings.Repeat(strings.Repeat("x", 1023)+"\n", 100), "xargs", "cmd")
	if len(ran) != 2 {
		t.Errorf("100 KiB in %d commands", len(ran))
	}
	fail, ran = true, nil
	if r := run(t, s, "a b", "xargs", "-n1", "x"); r.Status != 123 || len(ran) != 2 {
		t.Errorf("a failing command: %q, %+v", ran, r)
	}
}

func TestTimeout(t *testing.T) {
	list := Applets()
	if r := tooltest.Run(t, list, nil, "timeout", "60", "/bin/sh", "-c", "echo hi; exit 3"); r.Status != 3 || r.Out != "hi\n" {
		t.Errorf("%+v", r)
	}
	if r := tooltest.Run(t, list, nil, "timeout", "0.05", "/bin/sleep", "60"); r.Status != 124 {
		t.Errorf("%+v", r)
	}
	if r := tooltest.Run(t, list, nil, "timeout", "-k", "0.05", "0.05", "/bin/sh", "-c", "trap '' TERM; while :; do :; done"); r.Status != 137 {
		t.Errorf("-k: %+v", r)
	}
	if r := tooltest.Run(t, list, nil, "timeout", "-s", "USR1", "0.05", "/bin/sh", "-c", "trap 'exit 9' USR1; while :; do :; done"); r.Status != 124 {
		t.Errorf("-s: %+v", r)
	}
	if r := tooltest.Run(t, list, nil, "timeout", "1", "/nonesuch"); r.Status != 127 {
		t.Errorf("%+v", r)
	}
	if r := tooltest.Run(t, list, nil, "timeout", "1"); r.Status != 2 {
		t.Errorf("%+v", r)
	}
}

// TestMain lets env and nohup, which replace their process, run in one of
// their own.
func TestMain(m *testing.M) {
	if name := os.Getenv("GW_TEST_APPLET"); name != "" {
		a, ok := applet.Table(Applets()).Find(name)
		if !ok {
			os.Exit(99)
		}
		os.Exit(a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

func child(t *testing.T, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"GW_TEST_APPLET=" + name, "PATH=/usr/bin:/bin", "A=1"}
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func TestEnv(t *testing.T) {
	if out, _ := child(t, "env"); !strings.Contains(out, "A=1\n") {
		t.Errorf("%q", out)
	}
	if out, _ := child(t, "env", "-i", "B=2", "C=3"); out != "B=2\nC=3\n" {
		t.Errorf("%q", out)
	}
	if out, _ := child(t, "env", "-u", "A", "/usr/bin/env"); strings.Contains(out, "A=") {
		t.Errorf("%q", out)
	}
	if out, _ := child(t, "env", "A=7", "sh", "-c", "echo $A"); out != "7\n" {
		t.Errorf("%q", out)
	}
	if out, status := child(t, "env", "nonesuch"); status != 127 || !strings.Contains(out, "nonesuch") {
		t.Errorf("%q, %d", out, status)
	}
}

func TestNohup(t *testing.T) {
	if out, status := child(t, "nohup", "sh", "-c", "kill -HUP $$; echo alive"); out != "alive\n" || status != 0 {
		t.Errorf("%q, %d", out, status)
	}
	if _, status := child(t, "nohup"); status != 2 {
		t.Error(status)
	}
}

func TestYes(t *testing.T) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- yes(t.Context(), applet.IO{Out: w}, []string{"of", "course"}) }()
	b := make([]byte, 20)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "of course\nof course\n" {
		t.Errorf("%q, %v", b, err)
	}
	r.Close()
	if err := <-done; err != applet.Exit(1) {
		t.Error(err)
	}
}

func TestTrueFalse(t *testing.T) {
	s := fakeSystem(t)
	if a, b := run(t, s, "", "true"), run(t, s, "", "false"); a.Status != 0 || b.Status != 1 {
		t.Error(a, b)
	}
}
