package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
)

// table is the applets of the test binary, which plays the multi-call binary:
// the shell finds them as /proc/self/exe with argv[0].
func table() applet.Table {
	return applet.Table{
		Applet(names, func() string { return os.Getenv("NOTICE") }),
		{Name: "args", Run: func(_ context.Context, std applet.IO, args []string) error {
			fmt.Fprintf(std.Out, "%q\n", args)
			return nil
		}},
		{Name: "fail", Run: func(context.Context, applet.IO, []string) error { return applet.Exit(7) }},
		{Name: "hang", Run: func(ctx context.Context, std applet.IO, _ []string) error {
			fmt.Fprintln(std.Out, "hanging")
			select {}
		}},
		{Name: "stubborn", Run: func(ctx context.Context, std applet.IO, _ []string) error {
			c := make(chan os.Signal, 1)
			signal.Notify(c, unix.SIGINT)
			fmt.Fprintln(std.Out, "waiting")
			<-c
			fmt.Fprintln(std.Out, "caught it")
			return applet.Exit(3)
		}},
		{Name: "lines", Run: func(_ context.Context, std applet.IO, _ []string) error {
			b, err := io.ReadAll(std.In)
			fmt.Fprintf(std.Out, "%d lines\n", bytes.Count(b, []byte("\n")))
			return err
		}},
		{Name: "modes", Run: func(_ context.Context, std applet.IO, _ []string) error {
			t, err := unix.IoctlGetTermios(0, unix.TCGETS)
			if err != nil {
				return err
			}
			fmt.Fprintf(std.Out, "canonical=%t echo=%t isig=%t\n", t.Lflag&unix.ICANON != 0, t.Lflag&unix.ECHO != 0, t.Lflag&unix.ISIG != 0)
			return nil
		}},
		{Name: "stty", Run: noEcho},
		{Name: "vandal", Run: noEcho},
		{Name: "ids", Run: func(_ context.Context, std applet.IO, _ []string) error {
			fg, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
			fmt.Fprintf(std.Out, "foreground=%t err=%v\n", fg == unix.Getpgrp(), err)
			return nil
		}},
		{Name: "null", Run: func(_ context.Context, std applet.IO, _ []string) error {
			b, err := io.ReadAll(std.In)
			fmt.Fprintf(std.Out, "read %d, leader=%t\n", len(b), unix.Getpgrp() == os.Getpid())
			return err
		}},
	}
}

func noEcho(context.Context, applet.IO, []string) error {
	t, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Lflag &^= unix.ECHO
	return unix.IoctlSetTermios(0, unix.TCSETS, t)
}

func names() []string {
	return []string{"sh", "args", "fail", "hang", "stubborn", "lines", "modes", "stty", "vandal", "ids", "null"}
}

func TestMain(m *testing.M) {
	name := strings.TrimPrefix(filepath.Base(os.Args[0]), "-")
	if a, ok := table().Find(name); ok {
		os.Exit(a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// sh runs one shell to its end, in a process of its own.
func sh(t *testing.T, stdin string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = "sh"
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + cmd.Dir}
	cmd.Stdin = strings.NewReader(stdin)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

func TestCommand(t *testing.T) {
	tests := []struct {
		name, script, out string
		status            int
	}{
		{"echo", "echo hello", "hello\n", 0},
		{"applet with quoting", `args a "b c" 'd$e'`, "[\"a\" \"b c\" \"d$e\"]\n", 0},
		{"exit status of an applet", "fail; echo $?", "7\n", 0},
		{"status of the last command", "fail", "", 7},
		{"exit", "exit 42; echo no", "", 42},
		{"pipe", "printf 'a\\nb\\n' | lines", "2 lines\n", 0},
		{"pipe of three", "printf 'x\\n' | cat | lines", "1 lines\n", 0},
		{"redirections", "echo one >f; echo two >>f; lines <f; cat nofile 2>/dev/null || echo failed", "2 lines\nfailed\n", 0},
		{"both outputs", "cat nofile >f 2>&1; lines <f", "1 lines\n", 0},
		{"glob", "touch b.x a.x c.y; echo *.x", "a.x b.x\n", 0},
		{"glob that matches nothing", "echo *.none", "*.none\n", 0},
		{"here-document", "x=5; cat <<EOF\nx is $x\nEOF\n", "x is 5\n", 0},
		{"quoted here-document", "cat <<'EOF'\nx is $x\nEOF\n", "x is $x\n", 0},
		{"function", "f() { echo got $1; return 3; }; f it; echo $?", "got it\n3\n", 0},
		{"for", "for i in 1 2 3; do echo $i; done", "1\n2\n3\n", 0},
		{"while and arithmetic", "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; echo $i", "3\n", 0},
		{"case", "case abc in a*) echo yes;; *) echo no;; esac", "yes\n", 0},
		{"if and test", "if [ -d / ] && [ ! -e /nowhere ]; then echo ok; fi", "ok\n", 0},
		{"command substitution", "echo $(echo a; echo b)", "a b\n", 0},
		{"export", "export V=1; sh -c 'echo $V'", "1\n", 0},
		{"not exported", "V=1; sh -c 'echo [$V]'", "[]\n", 0},
		{"unset is gone", "export V=1; unset V; sh -c 'echo [$V]'", "[]\n", 0},
		{"assignment for one command", "V=2 sh -c 'echo $V'; echo [$V]", "2\n[]\n", 0},
		{"cd and pwd", "cd /proc && pwd", "/proc\n", 0},
		{"cd reaches commands", "cd /proc/sys && sh -c pwd", "/proc/sys\n", 0},
		{"not found", "nonesuch; echo $?", "sh: nonesuch: not found\n127\n", 0},
		{"not executable", "echo x >f; ./f; echo $?", "sh: ./f: cannot be executed\n126\n", 0},
		{"script without #!", "echo 'echo ran $1' >f; chmod +x f; ./f it", "ran it\n", 0},
		{"script with #!", "printf '#!/bin/cat\\nbody\\n' >f; chmod +x f; ./f", "#!/bin/cat\nbody\n", 0},
		{"killed by a signal", "sh -c 'kill -9 $PPID' >/dev/null; true", "", -1},
		{"a child killed by a signal", "/bin/sh -c 'kill -9 $$'; echo $?", "sh: /bin/sh: killed\n137\n", 0},
		{"-e", "set -e; fail; echo no", "", 7},
		{"trap EXIT", "trap 'echo bye' EXIT; echo hi", "hi\nbye\n", 0},
		{"syntax error", "echo (", "", 2},
		{"background and wait", "echo a & wait; echo b", "a\nb\n", 0},
		{"wait for a job", "echo a & wait $!; echo b", "a\nb\n", 0},
		{"background command outlives the shell's end", "(echo early; sleep 0.05; echo late) &", "early\nlate\n", 0},
		{"descriptor 3", "echo x 3>f; echo no", "", 2},
		{"descriptor 3 in a pipeline", "echo x | cat 3>f", "", 2},
		{"duplicate 3", "echo x >&3", "", 2},
		{"panicking test", "test -N /; echo $?", "sh: test -N /: not supported by this shell\n1\n", 0},
		{"umask", "umask 022; echo $?", "sh: umask 022: not supported by this shell\n1\n", 0},
		{"select", "select x in a; do echo; done", "", 2},
		{"eval cannot hurt", "eval 'echo x 5>f'; echo no", "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, status := sh(t, "", "-c", tt.script)
			if status != tt.status {
				t.Errorf("exit status %d, want %d (output %q)", status, tt.status, out)
			}
			if tt.status != 2 && out != tt.out {
				t.Errorf("output %q, want %q", out, tt.out)
			}
			if tt.status == 2 && (!strings.HasPrefix(out, "sh: ") || strings.Contains(out, "goroutine")) {
				t.Errorf("output %q, want a message of the shell", out)
			}
		})
	}
}

func TestParameters(t *testing.T) {
	if out, _ := sh(t, "", "-c", `echo $0 $# "$2"`, "name", "a", "b c"); out != "name 2 b c\n" {
		t.Errorf("-c: %q", out)
	}
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("echo $0 $1\nexit 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := sh(t, "", file, "arg"); out != file+" arg\n" || status != 4 {
		t.Errorf("script: %q, %d", out, status)
	}
	if out, status := sh(t, "", "/nonesuch"); status != 127 || !strings.Contains(out, "/nonesuch") {
		t.Errorf("absent script: %q, %d", out, status)
	}
	if out, _ := sh(t, "echo $1\n", "-s", "arg"); out != "arg\n" {
		t.Errorf("-s: %q", out)
	}
	if out, status := sh(t, "", "-ec", "fail; echo no"); out != "" || status != 7 {
		t.Errorf("-e: %q, %d", out, status)
	}
	if out, status := sh(t, "", "-Q"); status != 2 || !strings.Contains(out, "-Q") {
		t.Errorf("-Q: %q, %d", out, status)
	}
	if out, status := sh(t, "", "-c"); status != 2 || !strings.Contains(out, "needs") {
		t.Errorf("-c without command: %q, %d", out, status)
	}
}

func TestStandardInput(t *testing.T) {
	tests := []struct {
		name, in, out string
		status        int
	}{
		{"statements", "echo a\necho b; echo c\n", "a\nb\nc\n", 0},
		{"over lines", "if true\nthen\necho yes\nfi\n", "yes\n", 0},
		{"no newline at the end", "echo a", "a\n", 0},
		{"read takes the next line", "read x\nthe line\necho got $x\n", "got the line\n", 0},
		{"a command takes the rest", "lines\n1\n2\n3\n", "3 lines\n", 0},
		{"here-document", "cat <<E\nin\nE\necho after\n", "in\nafter\n", 0},
		{"status", "fail\n", "", 7},
		{"exit", "exit 3\necho no\n", "", 3},
		{"function over statements", "f() {\necho f\n}\nf\n", "f\n", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if out, status := sh(t, tt.in); out != tt.out || status != tt.status {
				t.Errorf("%q, status %d; want %q, %d", out, status, tt.out, tt.status)
			}
		})
	}
}

// console is a shell on a pseudo-terminal.
type console struct {
	t    *testing.T
	ptmx *os.File
	pts  *os.File
	cmd  *exec.Cmd
	seen string
	done chan error
}

// awaitCooked waits until the terminal is as a command gets it.
func (c *console) awaitCooked() {
	c.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		modes, err := unix.IoctlGetTermios(int(c.pts.Fd()), unix.TCGETS)
		if err != nil {
			c.t.Fatal(err)
		}
		if modes.Lflag&unix.ICANON != 0 {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal("the terminal stays raw")
		}
	}
}

func startConsole(t *testing.T, argv0 string, attr *syscall.SysProcAttr, env ...string) *console {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ptmx.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	err2 := raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
	})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	pts, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, ptmx: ptmx, pts: pts, done: make(chan error, 1)}
	c.cmd = exec.Command("/proc/self/exe")
	c.cmd.Args[0] = argv0
	c.cmd.Dir = "/"
	c.cmd.Env = append([]string{"HOME=/root", "TERM=vt100"}, env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = pts, pts, pts
	c.cmd.SysProcAttr = attr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		pts.Close()
		ptmx.Close()
	})
	return c
}

const prompt = "# "

// expect reads until want was printed and returns what came before.
func (c *console) expect(want string) string {
	c.t.Helper()
	_ = c.ptmx.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 4096)
	for {
		if before, after, ok := strings.Cut(c.seen, want); ok {
			c.seen = after
			return before
		}
		n, err := c.ptmx.Read(buf)
		c.seen += string(buf[:n])
		if err != nil {
			c.t.Fatalf("no %q in %q: %v", want, c.seen, err)
		}
	}
}

func (c *console) send(s string) {
	c.t.Helper()
	if _, err := c.ptmx.WriteString(s); err != nil {
		c.t.Fatal(err)
	}
}

// run types a line and returns what it printed.
func (c *console) run(line string) string {
	c.t.Helper()
	c.send(line + "\r")
	c.expect(line + "\r\n")
	return strings.ReplaceAll(c.expect(prompt), "\r", "")
}

func (c *console) exitStatus() int {
	c.t.Helper()
	select {
	case err := <-c.done:
		c.done <- err
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(10 * time.Second):
		c.t.Fatalf("the shell does not end; seen %q", c.seen)
		return -1
	}
}

func newSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
}

func TestLogin(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := c.expect(prompt); !strings.HasPrefix(got, motd) || !strings.HasSuffix(got, "root@"+host+":/") {
		t.Errorf("greeting %q", got)
	}
	if got := c.run("echo $PATH $HOME $SHELL"); !strings.HasPrefix(got, DefaultPath+" /root /bin/sh\n") {
		t.Errorf("environment %q", got)
	}
	if got := c.run("cd"); got != "root@"+host+":~" {
		t.Errorf("prompt %q", got)
	}
	c.send("PS1='\\h> '\r")
	c.expect(host + "> ")
	c.send("exit 5\r")
	if got := c.exitStatus(); got != 5 {
		t.Errorf("exit status %d, want 5", got)
	}
}

// What there is to say is said at a login and at an empty line, and not in the
// output of anything.
func TestNotice(t *testing.T) {
	c := startConsole(t, "-sh", newSession(), "NOTICE=mind the gap")
	if got := c.expect(prompt); !strings.HasPrefix(got, motd+"\r\nmind the gap\r\n") {
		t.Errorf("greeting %q", got)
	}
	if got := c.run("echo a"); !strings.HasPrefix(got, "a\n") || strings.Contains(got, "gap") {
		t.Errorf("behind a command: %q", got)
	}
	c.send("\r")
	if got := c.expect(prompt); !strings.Contains(got, "\r\nmind the gap\r\n") {
		t.Errorf("behind an empty line: %q", got)
	}
	if got := c.run("echo b"); strings.Contains(got, "gap") {
		t.Errorf("behind a command: %q", got)
	}
	c = startConsole(t, "sh", newSession(), "NOTICE=mind the gap")
	if got := c.expect(prompt); strings.Contains(got, "gap") {
		t.Errorf("no login shell, and says %q", got)
	}
}

// TestControllingTerminal: the supervisor's child on ttyS0 has no controlling
// terminal; without one there is no ctrl-C.
func TestControllingTerminal(t *testing.T) {
	for name, attr := range map[string]*syscall.SysProcAttr{
		"own session, no terminal": {Setsid: true},
		"controlling terminal":     newSession(),
	} {
		t.Run(name, func(t *testing.T) {
			c := startConsole(t, "-sh", attr)
			c.expect(prompt)
			if got := c.run("ids"); !strings.HasPrefix(got, "foreground=true err=<nil>\n") {
				t.Errorf("ids: %q", got)
			}
			c.send("hang\r")
			c.expect("hanging\r\n")
			c.send("\x03")
			c.expect(prompt)
			if got := c.run("echo $?"); !strings.HasPrefix(got, "130\n") {
				t.Errorf("$? after ctrl-C: %q", got)
			}
		})
	}
}

func TestInterrupt(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)

	for name, line := range map[string]string{
		"loop":        "while true; do hang; done",
		"pipeline":    "hang | cat",
		"subshell":    "(hang; hang)",
		"function":    "f() { hang; hang; }; f",
		"nested":      "sh -c 'hang; echo no'",
		"builtin":     "echo hanging; while true; do :; done",
		"read":        "echo hanging; read x",
		"and-or list": "hang || hang; hang",
	} {
		c.send(line + "\r")
		c.expect("hanging\r\n")
		c.send("\x03")
		if got := c.expect(prompt); strings.Contains(got, "no\r\n") || strings.Contains(got, "hanging") {
			t.Errorf("%s: went on: %q", name, got)
		}
		if got := c.run("echo $?"); !strings.HasPrefix(got, "130\n") {
			t.Errorf("%s: $? = %q", name, got)
		}
	}

	// A command that handles ctrl-C itself keeps its status.
	c.send("stubborn\r")
	c.expect("waiting\r\n")
	c.send("\x03")
	c.expect("caught it\r\n")
	c.expect(prompt)

	// At the prompt: the line is dropped.
	c.send("echo never\x03")
	c.expect("^C\r\n")
	c.expect(prompt)
	if got := c.run("echo $?"); !strings.HasPrefix(got, "130\n") {
		t.Errorf("$? = %q", got)
	}
	// In a statement that is not complete: back to the first prompt.
	c.send("if true\r")
	c.expect("> ")
	c.send("\x03")
	c.expect("^C\r\n")
	c.expect(prompt)
	if got := c.run("echo fine"); !strings.HasPrefix(got, "fine\n") {
		t.Errorf("after a dropped statement: %q", got)
	}
}

func TestBackgroundIsOutOfReach(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	c.send("null & wait\r")
	c.expect("read 0, leader=true\r\n")
	c.expect(prompt)
	c.send("hang &\r")
	c.expect("hanging\r\n")
	c.send("stubborn\r")
	c.expect("waiting\r\n")
	c.send("\x03")
	c.expect("caught it\r\n")
	c.send("\r")
	c.expect(prompt)
	me := fmt.Sprint(c.cmd.Process.Pid)
	kids, err := os.ReadFile("/proc/" + me + "/task/" + me + "/children")
	if err != nil {
		t.Fatal(err)
	}
	// Whichever thread forked it: look for it by parent.
	alive := string(kids) != ""
	tasks, _ := filepath.Glob("/proc/" + me + "/task/*/children")
	var hang int
	for _, f := range tasks {
		b, _ := os.ReadFile(f)
		if len(b) > 0 {
			alive = true
			fmt.Sscan(string(b), &hang)
		}
	}
	if !alive {
		t.Error("ctrl-C ended a background job")
	}
	if hang > 0 {
		_ = syscall.Kill(hang, syscall.SIGKILL)
	}
}

func TestEndOfFile(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	c.send("echo a\x04\r") // not on an empty line: nothing to delete there
	c.expect("a\r\n")
	c.expect(prompt)
	c.send("lines\r")
	c.expect("lines\r\n")
	c.awaitCooked() // before that, ctrl-D is a byte like any other
	c.send("one\rtwo\r")
	c.send("\x04") // ends the command's input, not the shell
	c.expect("2 lines")
	c.expect(prompt)
	c.run("fail")
	c.send("\x04")
	if got := c.exitStatus(); got != 7 {
		t.Errorf("exit status %d, want that of the last command, 7", got)
	}
}

func TestTerminalModes(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	const cooked = "canonical=true echo=true isig=true\n"
	if got := c.run("modes"); !strings.HasPrefix(got, cooked) {
		t.Errorf("a command runs with %q", got)
	}
	c.run("vandal") // leaves the terminal without echo, as a crash would
	if got := c.run("modes"); !strings.HasPrefix(got, cooked) {
		t.Errorf("after a command that broke the modes: %q", got)
	}
	c.run("stty -echo") // on purpose
	if got := c.run("modes"); !strings.HasPrefix(got, "canonical=true echo=false isig=true\n") {
		t.Errorf("after stty: %q", got)
	}
	c.send("exit\r")
	c.exitStatus()
	modes, err := unix.IoctlGetTermios(int(c.pts.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if modes.Lflag&unix.ICANON == 0 || modes.Lflag&unix.ISIG == 0 {
		t.Error("the shell left a raw terminal")
	}
}

func TestHangUp(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		t.Run("at the prompt/"+sig.String(), func(t *testing.T) {
			c := startConsole(t, "-sh", newSession())
			c.expect(prompt)
			_ = c.cmd.Process.Signal(sig)
			if got := c.exitStatus(); got != 128+int(sig) {
				t.Errorf("exit status %d", got)
			}
		})
		t.Run("running/"+sig.String(), func(t *testing.T) {
			c := startConsole(t, "-sh", newSession())
			c.expect(prompt)
			c.send("while true; do hang; done\r")
			c.expect("hanging\r\n")
			_ = c.cmd.Process.Signal(sig)
			if got := c.exitStatus(); got != 128+int(sig) {
				t.Errorf("exit status %d", got)
			}
		})
	}
}

func TestTypeAhead(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	c.send("read x\rtyped ahead\recho got: $x\r")
	c.expect("got: typed ahead\r\n")
	c.expect(prompt)
}

func TestEditing(t *testing.T) {
	c := startConsole(t, "-sh", newSession())
	c.expect(prompt)
	c.run("echo first")
	c.send("\x1b[A\r") // up
	c.expect("\r\nfirst\r\n")
	c.expect(prompt)
	c.send("stub\t\x15") // unique: completed; then dropped
	c.expect("stubborn ")
	c.send("args /proc/sel\t\r")
	c.expect("/proc/self/")
	c.send("\r")
	c.expect(prompt)
	c.send("for i in 1 2\rdo echo n$i\rdone\r")
	c.expect("n1\r\nn2\r\n")
	c.expect(prompt)
	c.send("echo ) \r")
	c.expect("sh: ")
	c.expect(prompt)
	if got := c.run("echo $?"); !strings.HasPrefix(got, "2\n") {
		t.Errorf("$? after a syntax error: %q", got)
	}
}

func TestLongLine(t *testing.T) {
	const command = "args "
	for name, paste := range map[string]string{"typed": "", "pasted": "\x1b[200~"} {
		t.Run(name, func(t *testing.T) {
			c := startConsole(t, "-sh", newSession())
			c.expect(prompt)
			// The longest line that fits.
			c.send(command + strings.Repeat("y", lineBytes-len(command)) + "\r")
			c.expect("[\"" + strings.Repeat("y", lineBytes-len(command)) + "\"]")
			c.expect(prompt)
			sent := make(chan error, 1)
			go func() {
				_, err := c.ptmx.WriteString(paste + command + strings.Repeat("x", 100_000))
				sent <- err
			}()
			if n := strings.Count(c.expect("\a"), "x"); n > lineBytes {
				t.Errorf("%d bytes were shown", n)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			c.send("\r")
			if got := c.expect(prompt); !strings.Contains(got, "sh: "+errLineTooLong.Error()) || strings.Contains(got, "xx") {
				t.Errorf("printed %.200q", got)
			}
			if got := c.run("echo $?"); !strings.HasPrefix(got, "2\n") {
				t.Errorf("$? = %q", got)
			}
		})
	}
}

func TestInteractiveWithoutTerminal(t *testing.T) {
	out, status := sh(t, "echo a\nfail\n", "-i")
	if status != 7 || !strings.Contains(out, "a\n") {
		t.Errorf("%q, %d", out, status)
	}
}

func TestHistory(t *testing.T) {
	var h history
	for i := range historyLines + 10 {
		h.Add(fmt.Sprint(i))
	}
	h.Add(" ")
	h.Add(h.At(0))
	if h.Len() != historyLines || h.At(0) != fmt.Sprint(historyLines+9) || h.At(historyLines-1) != "10" {
		t.Errorf("%d lines, %q to %q", h.Len(), h.At(0), h.At(h.Len()-1))
	}
}

// FuzzCheck: whatever parses and passes check, marks and all, can be printed
// and parsed again, and nothing panics.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"a & b", "a | b 3>c", "[[ -N x ]]", "coproc x", "{ a & } &", "a <&4", "f() { a & }", "a >&$x", "z|()"} {
		f.Add(s)
	}
	f.Fuzz(fuzzCheck)
}
