package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/test/board"
)

// Files of a run in its folder.
const (
	lockFile    = "lock" // held by whoever runs the machine; holds its process ID
	consoleFile = "console.log"
	radioFile   = "radio.log"
	networkFile = "radio.json"
	controlFile = "control" // a headless run's socket
)

// session is a machine with its radio, and the lock that makes it the only one
// in its folder.
type session struct {
	*board.Machine
	lock  *os.File
	radio *exec.Cmd
	log   *os.File
}

// errRunning says that the folder has its machine already.
var errRunning = errors.New("a gateway runs here already: `make stop` ends it, `make status` asks it (a second one beside it needs its own tree)")

// acquire takes the folder's lock for this process.
func acquire(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errRunning
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// owner returns the process ID of the machine that runs in dir, 0 for none.
func owner(dir string) (int, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return pid, nil
}

// portFree says what to do when a port of ours is taken.
func portFree(port int, variable string) error {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d of 127.0.0.1 is in use; choose another: make run %s=%d", port, variable, (port+10000)%50000)
	}
	if err != nil {
		return err
	}
	return l.Close()
}

func portsFree(o options) error {
	return errors.Join(portFree(o.bridgePort, "BRIDGE_PORT"), portFree(o.sshPort, "SSH_PORT"), portFree(o.benchPort, "BENCH_PORT"))
}

// open starts machine and radio. console gets what the console prints.
func open(ctx context.Context, o options, console io.Writer) (*session, error) {
	if _, err := os.Stat(o.rootfs); err != nil {
		return nil, fmt.Errorf("rootfs: %w; `make image` makes one", err)
	}
	lock, err := acquire(o.dir)
	if err != nil {
		return nil, err
	}
	s := &session{lock: lock}
	if err := s.start(ctx, o, console); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *session) start(ctx context.Context, o options, console io.Writer) error {
	if err := portsFree(o); err != nil {
		return err
	}
	cfg := board.Config{
		Kernel: o.kernel, Rootfs: o.rootfs, Dir: o.dir, Keep: !o.reset,
		RAMMiB:  boards[o.board],
		Forward: map[int]int{board.BridgePort: o.bridgePort, board.SSHPort: o.sshPort, board.BenchPort: o.benchPort},
		UDP:     []int{board.BenchPort},
		Console: console,
	}
	if o.board != "" && o.board != "emulated" {
		cfg.Append = []string{"gw.board=" + o.board}
	}
	if _, err := os.Stat(o.userdata); err == nil {
		cfg.Userdata = o.userdata
	}
	m, err := board.Start(ctx, cfg)
	if err != nil {
		return err
	}
	s.Machine = m
	if o.radio == "" {
		return nil
	}
	if o.reset {
		if err := os.Remove(filepath.Join(o.dir, networkFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if s.log, err = os.Create(filepath.Join(o.dir, radioFile)); err != nil {
		return err
	}
	// The radio keeps its network over runs, and goes along with the rate
	// that the gateway is set to.
	s.radio = exec.Command(o.radio, "-connect", "unix:"+m.RadioPath(), "-baud-from", m.TracePath(),
		"-network", filepath.Join(o.dir, networkFile))
	s.radio.Stdout, s.radio.Stderr = s.log, s.log
	s.radio.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.radio.Start(); err != nil {
		s.radio = nil
		return fmt.Errorf("radio simulator: %w", err)
	}
	return nil
}

// Close ends radio and machine and gives the folder back.
func (s *session) Close() error {
	var errs []error
	if s.Machine != nil {
		errs = append(errs, s.Machine.Close())
	}
	if s.radio != nil {
		if err := s.radio.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		// Its exit status after a SIGTERM says nothing.
		_ = s.radio.Wait()
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
