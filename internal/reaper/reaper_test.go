package reaper

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is also the program of the children.
func TestMain(m *testing.M) {
	switch os.Getenv("REAPER_CHILD") {
	case "":
	case "exit":
		n, _ := strconv.Atoi(os.Args[1])
		os.Exit(n)
	case "block":
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	case "forever":
		fmt.Println(os.Getpid())
		for {
			unix.Pause() // select {} would be a deadlock to the runtime
		}
	case "parent": // leaves a child behind, in its own group or in another session
		attr := &os.ProcAttr{Files: []*os.File{nil, os.Stdout, os.Stderr}, Env: []string{"REAPER_CHILD=forever"}}
		if os.Args[1] == "setsid" {
			attr.Sys = &syscall.SysProcAttr{Setsid: true}
		}
		p, err := os.StartProcess("/proc/self/exe", []string{"gw"}, attr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		p.Release()
		// Not before it runs: its first line tells.
		os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pipes are a child's stdin and stdout.
type pipes struct {
	childIn, childOut, in *os.File
	out                   *bufio.Reader
}

func newPipes(t *testing.T) *pipes {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range []*os.File{inR, inW, outR, outW} {
			f.Close()
		}
	})
	return &pipes{childIn: inR, in: inW, childOut: outW, out: bufio.NewReader(outR)}
}

func (p *pipes) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

func command(mode string, p *pipes, args ...string) Cmd {
	c := Cmd{Path: "/proc/self/exe", Argv: append([]string{"gw"}, args...), Env: []string{"REAPER_CHILD=" + mode}}
	if p != nil {
		c.Files = []int{int(p.childIn.Fd()), int(p.childOut.Fd()), 2}
	}
	return c
}

func newReaper(t *testing.T, o Options) *Reaper {
	t.Helper()
	if o.Log == nil {
		o.Log = func(s string) { t.Error(s) }
	}
	r := New(o)
	t.Cleanup(func() {
		r.Close()
		// Close has returned, so there is no child of any kind.
		if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			t.Errorf("a child is left: %v", err)
		}
	})
	return r
}

func TestStatusesAreRouted(t *testing.T) {
	r := newReaper(t, Options{})
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			got := make(chan Exit, 1)
			c, err := r.Start(command("exit", nil, strconv.Itoa(i)), func(e Exit) { got <- e })
			if err != nil {
				t.Error(err)
				return
			}
			e := c.Wait()
			if !e.Status.Exited() || e.Status.ExitStatus() != i || e.PID != c.PID() {
				t.Errorf("child %d, process %d: %+v", i, c.PID(), e)
			}
			if e.Usage.Maxrss == 0 {
				t.Errorf("child %d: no usage", i)
			}
			if cb := <-got; cb.PID != e.PID || cb.Status != e.Status {
				t.Errorf("child %d: callback got %+v", i, cb)
			}
			if err := c.Signal(syscall.SIGKILL); !errors.Is(err, ErrDone) {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
	wait.Wait()
	if n := r.Orphans(); n != 0 {
		t.Errorf("%d orphans", n)
	}
}

func TestStartFails(t *testing.T) {
	r := newReaper(t, Options{})
	for range 10 {
		if _, err := r.Start(Cmd{Path: "/nonexistent/gw", Argv: []string{"gw"}}, nil); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("got %v", err)
		}
	}
	// And the reaper still works.
	c, err := r.Start(command("exit", nil, "7"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Wait(); e.Status.ExitStatus() != 7 {
		t.Errorf("got %+v", e)
	}
}

func TestKill(t *testing.T) {
	r := newReaper(t, Options{})
	p := newPipes(t)
	c, err := r.Start(command("forever", p), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.line(t); got != strconv.Itoa(c.PID()) {
		t.Errorf("the child is %s, not %d", got, c.PID())
	}
	if sid, err := unix.Getsid(c.PID()); sid != c.PID() || err != nil {
		t.Errorf("session %d, %v", sid, err)
	}
	if err := c.SignalGroup(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := c.Wait(); !e.Status.Signaled() || e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("got %+v", e)
	}
}

func TestLeftoversOfTheGroupAreKilled(t *testing.T) {
	orphans := make(chan Exit, 1)
	r := newReaper(t, Options{Orphan: func(e Exit) { orphans <- e }})
	p := newPipes(t)
	c, err := r.Start(command("parent", p, "same"), nil)
	if err != nil {
		t.Fatal(err)
	}
	grandchild := p.line(t)
	p.in.Close() // the leader ends
	if e := c.Wait(); e.Status.ExitStatus() != 0 || !e.Status.Exited() {
		t.Errorf("leader: %+v", e)
	}
	e := <-orphans
	if strconv.Itoa(e.PID) != grandchild || e.Status.Signal() != syscall.SIGKILL {
		t.Errorf("grandchild %s: %+v", grandchild, e)
	}
	if r.Orphans() != 1 {
		t.Errorf("%d orphans", r.Orphans())
	}
}

func TestOrphanOfAnotherSessionLivesAndIsCollected(t *testing.T) {
	orphans := make(chan Exit, 1)
	r := newReaper(t, Options{Orphan: func(e Exit) { orphans <- e }})
	p := newPipes(t)
	c, err := r.Start(command("parent", p, "setsid"), nil)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(p.line(t))
	if err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	c.Wait()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatalf("it should live: %v", err)
	}
	if e := <-orphans; e.PID != pid || e.Status.Signal() != syscall.SIGTERM {
		t.Errorf("got %+v", e)
	}
}

func TestPanicOfACallback(t *testing.T) {
	logged := make(chan string, 1)
	r := newReaper(t, Options{Log: func(s string) { logged <- s }})
	if _, err := r.Start(command("exit", nil, "0"), func(Exit) { panic("boom") }); err != nil {
		t.Fatal(err)
	}
	if s := <-logged; !strings.Contains(s, "boom") || !strings.Contains(s, "reaper_test.go") {
		t.Errorf("logged %q", s)
	}
	c, err := r.Start(command("exit", nil, "3"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Wait(); e.Status.ExitStatus() != 3 {
		t.Errorf("after the panic: %+v", e)
	}
}

// cpu returns the processor time of this process.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestNoChildrenNoSpin(t *testing.T) {
	r := newReaper(t, Options{})
	p := newPipes(t)
	// A first child, so that the goroutine has been through its loop.
	c, err := r.Start(command("exit", nil, "0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Wait()
	before := cpu(t)
	// Wait by another process's clock: poll blocks this thread only.
	poll := []unix.PollFd{{Fd: int32(p.in.Fd()), Events: 0}}
	if _, err := unix.Poll(poll, 300); err != nil && !errors.Is(err, unix.EINTR) {
		t.Fatal(err)
	}
	if used := cpu(t) - before; used > 100*time.Millisecond {
		t.Errorf("used %v of 300 ms without a child", used)
	}
}

func TestStartAfterClose(t *testing.T) {
	r := New(Options{})
	r.Close()
	if _, err := r.Start(command("exit", nil, "0"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
