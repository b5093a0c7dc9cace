// Command host uses files, pipes and sockets and prints what must come out.
package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	return v
}

func files() {
	dir := must(os.MkdirTemp("", "emu"))
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o640); err != nil {
		fmt.Println(err)
	}
	st := must(os.Stat(name))
	fmt.Println("stat", st.Size(), st.Mode(), st.ModTime().Year() > 2020)
	f := must(os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0))
	must(f.WriteString("ab"))
	b := make([]byte, 3)
	must(f.ReadAt(b, 5))
	off := must(f.Seek(-2, io.SeekEnd))
	fmt.Println("read", string(b), off, must(f.Stat()).Size())
	if err := f.Truncate(4); err != nil {
		fmt.Println(err)
	}
	f.Close()
	fmt.Println("truncated", string(must(os.ReadFile(name))))
	if err := errors.Join(os.Symlink("file", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.Rename(name, filepath.Join(dir, "moved"))); err != nil {
		fmt.Println(err)
	}
	fmt.Println("link", must(os.Readlink(filepath.Join(dir, "link"))))
	var names []string
	for _, e := range must(os.ReadDir(dir)) {
		names = append(names, e.Name(), e.Type().String())
	}
	sort.Strings(names)
	fmt.Println("dir", names)
	_, err := os.Open(filepath.Join(dir, "none"))
	fmt.Println("none", errors.Is(err, os.ErrNotExist))
	if err := os.Chdir(dir); err != nil {
		fmt.Println(err)
	}
	wd := must(os.Getwd())
	fmt.Println("wd", wd == must(filepath.EvalSymlinks(dir)))
	if err := os.Chdir("/"); err != nil {
		fmt.Println(err)
	}
}

func pipes() {
	r, w := must2(os.Pipe())
	go func() {
		w.WriteString(strings.Repeat("x", 300000))
		w.Close()
	}()
	fmt.Println("pipe", len(must(io.ReadAll(r))))
	// A blocking one: its reader is a thread of the same program.
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		fmt.Println(err)
	}
	go func() {
		must(syscall.Write(p[1], make([]byte, 200000)))
		syscall.Close(p[1])
	}()
	n, b := 0, make([]byte, 7000)
	for {
		k := must(syscall.Read(p[0], b))
		if k == 0 {
			break
		}
		n += k
	}
	fmt.Println("blocking pipe", n)
}

func must2[A, B any](a A, b B, err error) (A, B) {
	must(0, err)
	return a, b
}

func echo(network, addr string) {
	l := must(net.Listen(network, addr))
	defer l.Close()
	go func() {
		c := must(l.Accept())
		defer c.Close()
		io.Copy(c, c)
	}()
	c := must(net.Dial(network, l.Addr().String()))
	defer c.Close()
	text := strings.Repeat("echo", 50000)
	go func() { must(io.WriteString(c, text)) }()
	b := make([]byte, len(text))
	must(io.ReadFull(c, b))
	fmt.Println(network, string(b) == text)
	start := time.Now()
	must(0, c.SetReadDeadline(start.Add(30*time.Millisecond)))
	_, err := c.Read(b)
	d := time.Since(start)
	fmt.Println("deadline", errors.Is(err, os.ErrDeadlineExceeded), d >= 30*time.Millisecond, d < time.Second)
	if t, ok := c.(*net.TCPConn); ok {
		must(0, t.SetNoDelay(true))
		must(0, t.SetLinger(0))
	}
}

func datagrams(network string) {
	a := must(net.ListenPacket(network, "127.0.0.1:0"))
	defer a.Close()
	b := must(net.Dial(network, a.LocalAddr().String()))
	defer b.Close()
	must(b.Write(make([]byte, 9000)))
	buf := make([]byte, 10000)
	n, from, err := a.ReadFrom(buf)
	must(n, err)
	must(a.WriteTo([]byte("back"), from))
	k := must(b.Read(buf))
	fmt.Println(network, n, string(buf[:k]), from.String() == b.LocalAddr().String())
}

func refused() {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := l.Addr().String()
	l.Close()
	_, err := net.Dial("tcp", addr)
	fmt.Println("refused", errors.Is(err, syscall.ECONNREFUSED))
	_, err = net.Listen("tcp", "192.0.2.1:0")
	fmt.Println("not here", errors.Is(err, syscall.EADDRNOTAVAIL))
}

// programs starts one of the host and itself.
func programs() {
	c := exec.Command("/bin/sh", "-c", "cat; echo $X; exit 5")
	c.Env, c.Stdin, c.Dir = []string{"X=env"}, strings.NewReader("in "), "/tmp"
	out, err := c.Output()
	fmt.Printf("program %q %v\n", out, err)
	out, err = exec.Command(must(os.Executable()), "child").Output()
	fmt.Printf("itself %q %v\n", out, err)
	a := must(exec.Command(must(os.Executable()), "random").Output())
	b := must(exec.Command(must(os.Executable()), "random").Output())
	fmt.Println("random", len(a) > 1 && len(b) > 1 && string(a) != string(b))
	c = exec.Command("/bin/sleep", "1000")
	must(0, c.Start())
	must(0, c.Process.Kill())
	err = c.Wait()
	fmt.Println("killed", err)
	err = exec.Command("/none").Run()
	fmt.Println("none", errors.Is(err, os.ErrNotExist))
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "random" {
		fmt.Println(rand.Uint64())
		return
	}
	if len(os.Args) > 1 {
		fmt.Println("args", os.Args[1:])
		must(0, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
	files()
	pipes()
	echo("tcp", "127.0.0.1:0")
	echo("unix", fmt.Sprintf("@emu%d", time.Now().UnixNano()^int64(os.Getuid())<<20^int64(len(os.Args[0]))))
	datagrams("udp")
	refused()
	programs()
	os.Exit(3)
}
