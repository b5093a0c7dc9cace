package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/test/board"
)

const (
	bootTime   = 3 * time.Minute // until 8888 must answer; about 5 s on an idle machine, a minute on one with 15 times as much to do as it can
	statusTime = 30 * time.Second
	stopTime   = 15 * time.Second
)

// request and reply are one line of JSON each, on the control socket of a
// headless run.
type request struct {
	Command string // to type on the console; "" ends the machine
}

type reply struct {
	Output string
	Status int
	Error  string
}

// headless starts the background half and returns when the bridge answers.
func headless(ctx context.Context, o options, out io.Writer) error {
	if pid, err := owner(o.dir); err != nil {
		return err
	} else if pid != 0 {
		return errRunning
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(self, "run", "-serve", "-dir", o.dir, "-kernel", o.kernel, "-rootfs", o.rootfs, "-userdata", o.userdata,
		"-radio", orNone(o.radio), "-board", o.board, "-bridge-port", strconv.Itoa(o.bridgePort), "-ssh-port", strconv.Itoa(o.sshPort), "-bench-port", strconv.Itoa(o.benchPort),
		"-reset="+strconv.FormatBool(o.reset))
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	said, err := io.ReadAll(ready)
	if err != nil || string(said) != readyWord {
		// It has said why, and is on its way out.
		_ = cmd.Wait()
		if len(said) == 0 {
			said = []byte("the background half ended without a word; see " + filepath.Join(o.dir, consoleFile))
		}
		return errors.New(string(said))
	}
	fmt.Fprintf(out, "The gateway runs: tcp://127.0.0.1:%d (bridge), ssh -p %d root@127.0.0.1; console in %s.\n`make status` asks it, `make stop` ends it.\n",
		o.bridgePort, o.sshPort, filepath.Join(o.dir, consoleFile))
	return cmd.Process.Release()
}

func orNone(radio string) string {
	if radio == "" {
		return "none"
	}
	return radio
}

const readyWord = "ready\n"

// serve is the background half: it holds the machine until it is told to stop.
// Descriptor 3 takes the word that the bridge answers, or what went wrong.
func serve(ctx context.Context, o options) error {
	unix.CloseOnExec(3) // or the simulator would hold it open
	tell := os.NewFile(3, "ready")
	err := serveMachine(ctx, o, tell)
	if err != nil {
		// Nobody listens any more when the start was good.
		_, _ = fmt.Fprint(tell, err)
	}
	return errors.Join(err, tell.Close())
}

func serveMachine(ctx context.Context, o options, tell *os.File) (err error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	log := &lateFile{path: filepath.Join(o.dir, consoleFile)}
	s, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		err = errors.Join(err, s.Close(), log.Close())
		wg.Wait()
	}()
	path := filepath.Join(o.dir, controlFile)
	_ = os.Remove(path) // we hold the lock: it is a dead one's
	l, err := listen(path)
	if err != nil {
		return err
	}
	wg.Go(func() {
		defer cancel()
		_ = s.Wait(ctx)
	})
	wg.Go(func() {
		<-ctx.Done()
		l.Close()
	})
	booting, done := context.WithTimeout(ctx, bootTime)
	defer done()
	if err := s.WaitPort(booting, board.BridgePort); err != nil {
		return fmt.Errorf("%w; the console is in %s", err, log.path)
	}
	if _, err := io.WriteString(tell, readyWord); err != nil {
		return err
	}
	if err := tell.Close(); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil
		}
		if handle(conn, s.Console()) {
			return nil
		}
	}
}

// listen makes the control socket. Its path may be longer than a socket's
// address takes: it is bound relative to its folder.
func listen(path string) (net.Listener, error) {
	if err := os.Chdir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return net.Listen("unix", filepath.Base(path))
}

// handle answers one request; true when it was to stop.
func handle(conn net.Conn, console *board.Console) (stop bool) {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(statusTime + time.Second)); err != nil {
		return false
	}
	var q request
	if err := json.NewDecoder(bufio.NewReader(conn)).Decode(&q); err != nil {
		return false
	}
	if q.Command == "" {
		return true
	}
	var a reply
	err := console.WaitShell(statusTime / 2)
	if err == nil {
		a.Output, a.Status, err = console.RunCommand(q.Command, statusTime/2)
	}
	if err != nil {
		a.Error = err.Error()
	}
	// A client that has gone needs no answer.
	_ = json.NewEncoder(conn).Encode(a)
	return false
}

// ask sends one request to the headless run in dir.
func ask(o options, q request, timeout time.Duration) (reply, error) {
	var a reply
	pid, err := owner(o.dir)
	if err != nil {
		return a, err
	}
	if pid == 0 {
		return a, errNotRunning
	}
	if err := os.Chdir(o.dir); err != nil {
		return a, err
	}
	conn, err := net.Dial("unix", controlFile)
	if err != nil {
		return a, fmt.Errorf("the gateway that runs (process %d) has its console on a terminal: use it there", pid)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return a, err
	}
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, err
	}
	err = json.NewDecoder(conn).Decode(&a)
	if q.Command == "" && errors.Is(err, io.EOF) {
		err = nil
	}
	return a, err
}

var errNotRunning = errors.New("no gateway runs here: `make run HEADLESS=1` starts one")

// status types gwctl status on the headless console.
func status(o options, out io.Writer) error {
	a, err := ask(o, request{Command: "gwctl status"}, 2*statusTime)
	if err != nil {
		return err
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	fmt.Fprintln(out, a.Output)
	if a.Status != 0 {
		return fmt.Errorf("gwctl status: exit status %d", a.Status)
	}
	return nil
}

// stopRunning ends the machine that runs in the folder, and waits for that.
func stopRunning(o options, out io.Writer) error {
	pid, err := owner(o.dir)
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Fprintln(out, "no gateway runs here")
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	deadline := time.Now().Add(stopTime)
	for time.Now().Before(deadline) {
		if pid, err := owner(o.dir); err != nil || pid == 0 {
			return err
		}
		time.Sleep(50 * time.Millisecond) // a poll: a lock cannot be waited for with a deadline
	}
	return fmt.Errorf("process %d has not ended within %v", pid, stopTime)
}

// lateFile is created at its first write, so that a run that is refused leaves
// the running one's log alone.
type lateFile struct {
	path string
	f    *os.File
}

func (l *lateFile) Write(p []byte) (int, error) {
	if l.f == nil {
		f, err := os.Create(l.path)
		if err != nil {
			return 0, err
		}
		l.f = f
	}
	return l.f.Write(p)
}

func (l *lateFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
