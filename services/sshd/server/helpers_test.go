//go:build linux

package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/services/sshd/scp"
)

// shell stands for the gateway's: `-sh` reads lines, `sh -c COMMAND` runs one.
func shell(args []string) int {
	if len(args) == 2 && args[0] == "-c" {
		return command(args[1])
	}
	fmt.Printf("login shell, %s\n# ", os.Getenv("TERM"))
	for {
		line, err := readLine(os.Stdin)
		if err != nil {
			return 0
		}
		if n, ok := strings.CutPrefix(line, "exit "); ok {
			status, _ := strconv.Atoi(n)
			return status
		}
		command(line)
		fmt.Print("# ")
	}
}

func readLine(r io.Reader) (string, error) {
	var line []byte
	for {
		var b [1]byte
		if _, err := r.Read(b[:]); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}

// command is what the tests run.
func command(line string) int {
	words := strings.Fields(line)
	if len(words) == 0 {
		return 0
	}
	switch rest := words[1:]; words[0] {
	case "scp":
		a := scp.Applet()
		return a.Execute(context.Background(), applet.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, rest)
	case "echo":
		fmt.Println(strings.Join(rest, " "))
	case "status":
		n, _ := strconv.Atoi(rest[0])
		return n
	case "stderr":
		fmt.Fprintln(os.Stderr, strings.Join(rest, " "))
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	case "env":
		var values []string
		for _, name := range rest {
			values = append(values, os.Getenv(name))
		}
		fmt.Println(strings.Join(values, " "))
	case "session":
		if id, err := unix.Getsid(0); err == nil && id == os.Getpid() {
			fmt.Println("leader")
		}
	case "niceness":
		n, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			return 1
		}
		fmt.Println(20 - n) // as the system call has it
	case "count":
		n, err := io.Copy(io.Discard, os.Stdin)
		if err != nil {
			return 1
		}
		fmt.Println(n)
	case "size":
		w, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return 1
		}
		fmt.Printf("%dx%d\n", w.Col, w.Row)
	case "tty":
		f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return 1
		}
		f.Close()
		fmt.Println("controlling terminal " + os.Getenv("SSH_TTY"))
	case "hang":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGINT)
		fmt.Println("hanging")
		<-c
		signal.Stop(c)
		fmt.Println("interrupted")
	case "hold": // leaves a process behind that holds the output
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		child := exec.Cmd{Path: self, Args: []string{"sh", "-c", "chatter"}, Stdout: os.Stdout, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
		if err := child.Start(); err != nil {
			return 1
		}
	case "chatter":
		signal.Ignore(unix.SIGPIPE)
		for {
			if _, err := fmt.Println("still here"); err != nil {
				return 1
			}
			time.Sleep(10 * time.Millisecond)
		}
	case "hangup":
		c := make(chan os.Signal, 1)
		signal.Notify(c, unix.SIGHUP)
		fmt.Println("waiting")
		<-c
		_ = os.WriteFile(rest[0], []byte("hangup"), 0o600)
	default:
		fmt.Fprintln(os.Stderr, "not found: "+line)
		return 127
	}
	return 0
}

// expecter reads a terminal until a text comes.
type expecter struct {
	t    *testing.T
	r    io.Reader
	seen string
}

// expect returns what came before want, and want.
func (e *expecter) expect(want string) string {
	e.t.Helper()
	stop := time.AfterFunc(patience, func() { panic(fmt.Sprintf("no %q in %q", want, e.seen)) })
	defer stop.Stop()
	buf := make([]byte, 4096)
	for {
		if i := strings.Index(e.seen, want); i >= 0 {
			got := e.seen[:i+len(want)]
			e.seen = e.seen[i+len(want):]
			return got
		}
		n, err := e.r.Read(buf)
		e.seen += string(buf[:n])
		if err != nil {
			e.t.Fatalf("no %q in %q: %v", want, e.seen, err)
		}
	}
}

// kexInit exchanges identifications and returns the name-lists of the server's
// KEXINIT (RFC 4253, 7.1).
func kexInit(t *testing.T, c net.Conn) [][]string {
	t.Helper()
	if _, err := io.WriteString(c, "SSH-2.0-test\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := readLine(c); err != nil || line != version+"\r" {
		t.Fatalf("%q, %v", line, err)
	}
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, binary.BigEndian.Uint32(head[:])-1)
	if _, err := io.ReadFull(c, packet); err != nil {
		t.Fatal(err)
	}
	r := wireReader{b: packet[1+16 : len(packet)-int(head[4])]}
	var lists [][]string
	for range 10 {
		lists = append(lists, strings.Split(string(r.string()), ","))
	}
	if r.bad || packet[0] != 20 {
		t.Fatalf("packet %d is cut off", packet[0])
	}
	return lists
}
