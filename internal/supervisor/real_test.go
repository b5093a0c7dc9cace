package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/handoff"
	"gwinit/internal/logring"
	"gwinit/internal/notify"
	"gwinit/internal/reaper"
	"gwinit/internal/supervisor"
)

// TestMain is also the program of the services.
func TestMain(m *testing.M) {
	if mode := os.Getenv("SUPERVISOR_CHILD"); mode != "" {
		if err := child(mode); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// child is a service.
func child(mode string) error {
	conn, err := notify.FromEnv()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch mode {
	case "echo": // answers calls
		if err := conn.Ready("pid " + strconv.Itoa(os.Getpid())); err != nil {
			return err
		}
		return conn.Serve(ctx, func(_ context.Context, method string, params []byte) ([]byte, error) {
			if method == "fail" {
				return nil, errors.New("as asked")
			}
			return params, nil
		})
	case "talk":
		fmt.Println("on stdout")
		fmt.Fprint(os.Stderr, "on stderr\n", strings.Repeat("long ", 400), "\nthe last words")
		syscall.Exit(9) // without what -cover would print behind the last words
	case "environment":
		wd, err := os.Getwd()
		if err != nil {
			return err
		}
		score, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			return err
		}
		var fds []string
		for _, fd := range inheritable() {
			fds = append(fds, strconv.Itoa(fd))
		}
		n, err := os.Stdin.Read(make([]byte, 1))
		fmt.Printf("argv %q dir %s score %s fds %s A=%s B=%s stdin %d %v\n",
			os.Args, wd, bytes.TrimSpace(score), strings.Join(fds, ","), os.Getenv("A"), os.Getenv("B"), n, err)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		if err := conn.Ready(""); err != nil {
			return err
		}
		select {}
	case "family": // leaves one behind in its group
		p, err := os.StartProcess("/proc/self/exe", []string{"gw"}, &os.ProcAttr{
			Env: []string{"SUPERVISOR_CHILD=deaf"}, Files: []*os.File{nil, os.Stdout, os.Stderr},
		})
		if err != nil {
			return err
		}
		if err := conn.Ready(strconv.Itoa(p.Pid)); err != nil {
			return err
		}
		return conn.Serve(ctx, func(context.Context, string, []byte) ([]byte, error) { return nil, nil })
	case "listen":
		fd, ok := conn.FD("tcp")
		if !ok {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			f, err := l.(*net.TCPListener).File()
			if err != nil {
				return err
			}
			fd = int(f.Fd())
			if err := conn.StoreFD("tcp", fd); err != nil {
				return err
			}
		}
		l, err := net.FileListener(os.NewFile(uintptr(fd), "tcp"))
		if err != nil {
			return err
		}
		if err := conn.Ready(l.Addr().String()); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		for {
			c, err := l.Accept()
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c, os.Getpid())
			c.Close()
		}
	case "taker":
		fd, ok := conn.FD(handoff.StoredName)
		if !ok {
			return errors.New("no socket")
		}
		l, err := net.FileListener(os.NewFile(uintptr(fd), "socket"))
		if err != nil {
			return err
		}
		if err := conn.Ready(""); err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { l.Close() })
		for {
			c, err := handoff.Take(l.(*net.UnixListener))
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			fmt.Fprint(c, "taken")
			c.Close()
		}
	case "store": // is killed before PID 1 can have looked at what it stored
		if fd, ok := conn.FD("null"); ok {
			if err := unix.Fstat(fd, new(unix.Stat_t)); err != nil {
				return err
			}
			if err := conn.Ready("has it"); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}
		if err := conn.StoreFD("null", 0); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "tty":
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("no controlling terminal: %w", err)
		}
		sid, _ := unix.Getsid(0)
		fmt.Fprintf(tty, "session leader %v\n", sid == os.Getpid())
		line := make([]byte, 64)
		n, err := os.Stdin.Read(line)
		fmt.Printf("got %q %v\n", line[:n], err)
		<-ctx.Done()
	}
	return nil
}

// inheritable returns the descriptors that a child gets by itself. The
// notification socket, 3, is no longer one.
func inheritable() []int {
	var fds []int
	for fd := range 64 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// real is a supervisor of real processes.
type real struct {
	*supervisor.Supervisor
	t    *testing.T
	ring *logring.Ring
	r    *reaper.Reaper
}

// spec is a service whose program is a mode of child.
func spec(name, mode string) supervisor.Spec {
	return supervisor.Spec{Name: name, Argv: []string{"gw", name}, Env: []string{"SUPERVISOR_CHILD=" + mode}}
}

// boot starts services, and at the end of the test ends them and looks for
// what they left.
func boot(t *testing.T, specs ...supervisor.Spec) *real {
	t.Helper()
	before := descriptors(t)
	ring := logring.New(0, logring.System)
	logRing := func(text string) { ring.Append(supervisor.LogName, text) }
	reap := reaper.New(reaper.Options{Log: logRing, Orphan: func(e reaper.Exit) {
		logRing(fmt.Sprintf("orphan %d ended: %v", e.PID, e.Status))
	}})
	system, err := supervisor.NewSystem(reap, ring, []string{"A=all"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := supervisor.New(supervisor.Options{Launcher: system, Ring: ring}, specs)
	if err != nil {
		t.Fatal(err)
	}
	b := &real{Supervisor: s, t: t, ring: ring, r: reap}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if left := s.StopAll(ctx); left != nil {
			t.Errorf("left behind: %v", left)
		}
		reap.Close() // thus no child is left, zombie or not
		system.Close()
		if after := descriptors(t); !slices.Equal(before, after) {
			t.Errorf("descriptors before %v, after %v", before, after)
		}
		if t.Failed() {
			for _, l := range ring.Last("", 0) {
				t.Logf("%s: %s", l.Service, l.Text)
			}
		}
	})
	s.Boot()
	return b
}

func descriptors(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var fds []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// The poller of the tests' own sockets comes once and stays.
		if err == nil && !strings.HasPrefix(target, "anon_inode:[event") && !strings.HasPrefix(target, "/proc/") {
			fds = append(fds, target)
		}
	}
	slices.Sort(fds)
	return fds
}

// limit bounds how long a test waits for a real process.
func (b *real) limit() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	b.t.Cleanup(cancel)
	return ctx
}

// up waits until a service is running, or done.
func (b *real) up(name string) api.Service {
	b.t.Helper()
	if err := b.Start(b.limit(), name); err != nil {
		b.t.Fatal(err)
	}
	return b.service(name)
}

func (b *real) service(name string) api.Service {
	for _, s := range b.Snapshot() {
		if s.Name == name {
			return s
		}
	}
	b.t.Fatalf("no service %s", name)
	return api.Service{}
}

// logged waits for a line of a service that holds text.
func (b *real) logged(name, text string) string {
	b.t.Helper()
	ctx := b.limit()
	for f := b.ring.Follow(name, 0); ; {
		lines, _, err := f.Next(ctx)
		if err != nil {
			b.t.Fatalf("%s does not log %q: %v", name, text, err)
		}
		for _, l := range lines {
			if strings.Contains(l.Text, text) {
				return l.Text
			}
		}
	}
}

// ended waits until the supervisor knows of the end of a process.
func (b *real) ended(pid int) {
	b.t.Helper()
	ctx := b.limit()
	started := false
	for f := b.ring.Follow(supervisor.LogName, 0); ; {
		lines, _, err := f.Next(ctx)
		if err != nil {
			b.t.Fatalf("nothing about the end of process %d: %v", pid, err)
		}
		for _, l := range lines {
			if started && strings.Contains(l.Text, ": backoff: ") {
				return
			}
			started = started || strings.HasSuffix(l.Text, fmt.Sprintf(": starting: process %d", pid))
		}
	}
}

// zombies returns the children of this process that nobody has collected.
func zombies(t *testing.T) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] == "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			list = append(list, path)
		}
	}
	return list
}

func TestKilledTwentyTimes(t *testing.T) {
	b := boot(t, spec("s", "echo"))
	for i := range 20 {
		pid := b.up("s").PID
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.ended(pid)
		if z := zombies(t); z != nil {
			t.Fatalf("round %d: zombies %v", i, z)
		}
	}
	if got := b.up("s"); !strings.HasPrefix(got.LastExit, "signal 9 (killed)") || got.CPU < 0 || got.RSS == 0 || got.Anon == 0 {
		t.Errorf("%+v", got)
	}
}

func TestLogsOfAProcess(t *testing.T) {
	b := boot(t, spec("s", "talk"))
	if err := b.Start(b.limit(), "s"); err == nil {
		t.Error("a start that ends with 9 worked")
	}
	if got := b.service("s").LastExit; !strings.HasPrefix(got, "exit status 9 after ") || !strings.HasSuffix(got, ": the last words") {
		t.Errorf("last end %q", got)
	}
	var texts []string
	for _, l := range b.ring.Last("s", 4) {
		texts = append(texts, l.Text)
	}
	if len(texts) != 4 || texts[0] != "on stdout" || texts[1] != "on stderr" || !strings.HasSuffix(texts[2], " [... 976 bytes cut]") {
		t.Errorf("logged %q", texts)
	}
}

func TestEnvironmentOfAProcess(t *testing.T) {
	s := spec("s", "environment")
	s.Oneshot, s.Dir, s.OOMScoreAdj = true, "/proc", 0
	s.Env = append(s.Env, "B=own")
	b := boot(t, s)
	if got := b.up("s").State; got != supervisor.Done {
		t.Errorf("state %s", got)
	}
	if got, want := b.logged("s", "argv"), `argv ["gw" "s"] dir /proc score `; !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Whoever started the test may have left some open; PID 1 has none.
	var fds []string
	for _, fd := range inheritable() {
		fds = append(fds, strconv.Itoa(fd))
	}
	want := ` fds ` + strings.Join(fds, ",") + ` A=all B=own stdin 0 EOF`
	if got := b.logged("s", "argv"); !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant ...%s", got, want)
	}
}

func TestOOMScoreAdj(t *testing.T) {
	s := spec("s", "echo")
	s.OOMScoreAdj = 321
	b := boot(t, s)
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", b.up("s").PID))
	if err != nil || string(score) != "321\n" {
		t.Errorf("got %q, %v", score, err)
	}
}

func TestFileLimit(t *testing.T) {
	s := spec("s", "echo")
	s.FileLimit = 12345
	b := boot(t, s)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", b.up("s").PID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(limits)) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Max file size") && (f[3] != "12345" || f[4] != "unlimited") {
			t.Errorf("%s", line)
		}
	}
}

func TestCallsOfAProcess(t *testing.T) {
	b := boot(t, spec("s", "echo"))
	b.up("s")
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			for k := range 50 {
				params := fmt.Sprintf("[%d,%d]", i, k)
				got, err := b.Call(b.limit(), "s", "echo", []byte(params))
				if err != nil || string(got) != params {
					t.Errorf("got %q, %v; want %q", got, err, params)
					return
				}
			}
		})
	}
	wait.Wait()
	_, err := b.Call(b.limit(), "s", "fail", nil)
	var call *supervisor.CallError
	if !errors.As(err, &call) || call.Text != "as asked" {
		t.Errorf("got %v", err)
	}
}

func TestListenerSurvivesKill(t *testing.T) {
	b := boot(t, spec("s", "listen"))
	addr := b.up("s").Status
	ctx, cancel := context.WithCancel(b.limit())
	var client sync.WaitGroup
	connects, answered := 0, map[string]bool{}
	client.Go(func() {
		for ctx.Err() == nil {
			c, err := net.Dial("tcp4", addr)
			if err != nil {
				t.Errorf("connect %d: %v", connects, err)
				return
			}
			connects++
			// No answer where the server was killed with the connection.
			c.SetDeadline(time.Now().Add(20 * time.Second))
			var pid [16]byte
			if n, err := c.Read(pid[:]); err == nil {
				answered[string(pid[:n])] = true
			}
			c.Close()
		}
	})
	for range 5 {
		s := b.up("s")
		if s.Status != addr {
			t.Errorf("listens on %s, not %s", s.Status, addr)
		}
		if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		b.ended(s.PID)
		// Nobody listens now but the socket itself; the next process answers.
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			t.Fatalf("between two processes: %v", err)
		}
		next := b.up("s")
		var pid [16]byte
		if n, err := c.Read(pid[:]); err != nil || strings.TrimSpace(string(pid[:n])) != strconv.Itoa(next.PID) {
			t.Errorf("answer %q, %v; want %d", pid[:n], err, next.PID)
		}
		c.Close()
	}
	b.up("s")
	cancel()
	client.Wait()
	if err := b.Stop(b.limit(), "s"); err != nil {
		t.Error(err)
	}
	// Stopped: nobody is about to answer.
	if c, err := net.Dial("tcp4", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while stopped: %v, %v; want it refused", c, err)
	}
	if connects == 0 || len(answered) == 0 {
		t.Errorf("%d connects, answers of %d processes", connects, len(answered))
	}
}

func TestWhatADyingProcessStoredIsKept(t *testing.T) {
	b := boot(t, spec("s", "store"))
	if err := b.Start(b.limit(), "s"); err == nil {
		t.Error("the first process is ready")
	}
	if got := b.up("s").Status; got != "has it" {
		t.Errorf("status %q", got)
	}
}

func TestManyAtOnce(t *testing.T) {
	after := spec("c", "echo")
	after.After = []string{"a"}
	b := boot(t, spec("a", "echo"), spec("b", "family"), after)
	ctx := b.limit()
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			name := string("abc"[i%3])
			for k := range 12 {
				var err error
				switch (i + k) % 5 {
				case 0:
					err = b.Start(ctx, name)
				case 1:
					err = b.Restart(ctx, name)
				case 2:
					_, err = b.Call(ctx, name, "status", nil)
				case 3:
					err = b.Stop(ctx, name)
				case 4:
					// The number is the present one's, or was a moment ago;
					// there are 4 million others before it comes again.
					if pid := b.service(name).PID; pid != 0 {
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				// They disturb each other, but none waits for ever.
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, step %d: %v", name, k, err)
				}
			}
		})
	}
	wait.Wait()
	for _, name := range []string{"a", "b", "c"} {
		b.up(name)
	}
}

func TestLeftoverIsKilledWithTheService(t *testing.T) {
	b := boot(t, spec("s", "family"))
	s := b.up("s")
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.logged(supervisor.LogName, "orphan "+s.Status+" ended")
	if n := b.r.Orphans(); n != 1 {
		t.Errorf("%d orphans", n)
	}
}

func TestStopAllHasADeadline(t *testing.T) {
	after := spec("after", "deaf")
	after.After = []string{"deaf"}
	b := boot(t, spec("deaf", "deaf"), after)
	b.up("after")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if left := b.StopAll(ctx); left != nil {
		t.Errorf("left %v", left)
	}
	if d := time.Since(start); d < 250*time.Millisecond || d > 3*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestConsoleHasItsTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	s := spec("console", "tty")
	s.TTY = fmt.Sprintf("/dev/pts/%d", n)
	b := boot(t, s)
	b.up("console")
	var got string
	buf := make([]byte, 256)
	read := func(until string) {
		t.Helper()
		for !strings.Contains(got, until) {
			n, err := master.Read(buf)
			if err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
			got += string(buf[:n])
		}
	}
	read("session leader true\r\n")
	if _, err := master.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	read(`got "hello\n" <nil>`)
	if lines := b.ring.Last("console", 0); lines != nil {
		t.Errorf("logged %v", lines)
	}
}
