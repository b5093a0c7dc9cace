package main

import (
	"bufio"
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
	"time"

	"golang.org/x/sys/unix"
)

// kind is a bridge program that is measured.
type kind struct {
	name string
	// command serves the device at a TCP port of 127.0.0.1.
	command func(dir, device string, port int) ([]string, error)
	floor   bool // serves frames that come one by one, and nothing else
}

// The names of the rows' peers.
const (
	ours    = "gw"
	cLoop   = "C loop"
	ser2net = "ser2net"
	socat   = "socat"
	floor   = "floor"
)

// kinds are set for the least delay, where a program has a choice.
func kinds(gw string) []kind {
	return []kind{
		{name: ours, command: func(_, device string, port int) ([]string, error) {
			args := []string{gw, "bridge", "-bind", "127.0.0.1", "-port", strconv.Itoa(port), "-device", device, "-baud", "460800", "-flow", "none"}
			if os.Getuid() == 0 {
				// A lock in /run of its own: another bridge may run here.
				args = append([]string{"unshare", "-m", "sh", "-c", `mount -t tmpfs tmpfs /run && exec "$@"`, "sh"}, args...)
			}
			return args, nil
		}},
		{name: cLoop, command: func(dir, device string, port int) ([]string, error) {
			return []string{filepath.Join(dir, "loop"), device, strconv.Itoa(port)}, nil
		}},
		{name: ser2net, command: func(dir, device string, port int) ([]string, error) {
			config := filepath.Join(dir, "ser2net.yaml")
			// Without chardelay it passes on what it has.
			text := fmt.Sprintf("connection: &radio\n  accepter: tcp(nodelay),127.0.0.1,%d\n  connector: serialdev,%s,460800n81,local\n  options:\n    chardelay: false\n", port, device)
			return []string{"ser2net", "-n", "-u", "-c", config}, os.WriteFile(config, []byte(text), 0o644)
		}},
		{name: socat, command: func(_, device string, port int) ([]string, error) {
			return []string{"socat", fmt.Sprintf("TCP4-LISTEN:%d,bind=127.0.0.1,reuseaddr,nodelay", port), device + ",rawer,b460800"}, nil
		}},
		{name: floor, floor: true, command: func(dir, device string, port int) ([]string, error) {
			return []string{filepath.Join(dir, "drive"), "floor", device, strconv.Itoa(port)}, nil
		}},
	}
}

// phase is what drive says of one.
type phase struct {
	bytes     int
	wall, cpu time.Duration
	trips     []time.Duration
}

// compile makes the C programs for the host.
func compile(ctx context.Context, dir string) error {
	for _, name := range []string{"loop", "drive"} {
		cmd := exec.CommandContext(ctx, "gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", filepath.Join(dir, name), filepath.Join(source, name+".c"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("gcc %s.c: %w\n%s", name, err, out)
		}
	}
	return nil
}

// pty makes a pair; the slave is raw, and stays open so that a bridge that
// closes it is no hang-up.
func pty() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		var t *unix.Termios
		if t, err = unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err == nil {
			t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
			t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
			err = unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, t)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a pty pair: %w", err), master.Close())
	}
	return master, slave, nil
}

// freePort returns a TCP port of the loopback that nobody has.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// pinned is args on one CPU; it ends with us.
func pinned(ctx context.Context, cpu int, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", strconv.Itoa(cpu)}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// session is one process of a kind with its two ends.
type session struct {
	kind          kind
	bridge, drive *exec.Cmd
	said          strings.Builder // by the bridge
	in            io.WriteCloser
	out           *bufio.Scanner

	phases    map[string]phase
	anon, pss float64 // KiB, after all the phases
}

// open starts a bridge and connects to it. The caller must close the session.
func open(ctx context.Context, dir string, k kind, cpus [2]int) (*session, error) {
	s := &session{kind: k, phases: map[string]phase{}}
	master, slave, err := pty()
	if err != nil {
		return nil, err
	}
	defer master.Close()
	// It stays open until the bridge has it, which is then connected to.
	defer slave.Close()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args, err := k.command(dir, slave.Name(), port)
	if err != nil {
		return nil, err
	}
	s.bridge = pinned(ctx, cpus[1], args)
	s.bridge.Stderr = &s.said
	if err := s.bridge.Start(); err != nil {
		return nil, s.error(err)
	}
	// taskset becomes the bridge.
	s.drive = pinned(ctx, cpus[0], []string{filepath.Join(dir, "drive"), strconv.Itoa(port), strconv.Itoa(s.bridge.Process.Pid)})
	s.drive.ExtraFiles = []*os.File{master}
	s.drive.Stderr = os.Stderr
	in, err1 := s.drive.StdinPipe()
	out, err2 := s.drive.StdoutPipe()
	if err := errors.Join(err1, err2, s.drive.Start()); err != nil {
		s.drive = nil
		return nil, s.error(errors.Join(err, s.close()))
	}
	s.in, s.out = in, bufio.NewScanner(out)
	if !s.out.Scan() || s.out.Text() != "ready" {
		return nil, s.error(errors.Join(errors.New("no byte comes through it"), s.close()))
	}
	return s, nil
}

func (s *session) error(err error) error {
	return fmt.Errorf("%s: %w; it said: %s", s.kind.name, err, s.said.String())
}

// do runs a phase and adds what came of it to what there is.
func (s *session) do(name string) error {
	if _, err := io.WriteString(s.in, name+"\n"); err != nil {
		return s.error(err)
	}
	var p phase
	var count int
	if !s.out.Scan() {
		return s.error(fmt.Errorf("drive ended within %s", name))
	}
	if _, err := fmt.Sscanf(s.out.Text(), "%d %d %d %d", &p.bytes, &p.wall, &p.cpu, &count); err != nil {
		return s.error(fmt.Errorf("drive said %q: %w", s.out.Text(), err))
	}
	all := s.phases[name]
	all.bytes += p.bytes
	all.wall += p.wall
	all.cpu += p.cpu
	for range count {
		if !s.out.Scan() {
			return s.error(fmt.Errorf("drive ended within %s", name))
		}
		v, err := strconv.Atoi(s.out.Text())
		if err != nil {
			return s.error(err)
		}
		all.trips = append(all.trips, time.Duration(v))
	}
	s.phases[name] = all
	return nil
}

// weigh reads the bridge's memory.
func (s *session) weigh() (err error) {
	s.anon, s.pss, err = memory(s.bridge.Process.Pid)
	return err
}

// close ends both processes.
func (s *session) close() error {
	var err error
	if s.drive != nil {
		s.in.Close()
		err = s.drive.Wait()
	}
	_ = s.bridge.Process.Signal(unix.SIGTERM)
	_ = s.bridge.Wait() // each ends as it does
	return err
}

// memory returns a process's anonymous and its proportional memory, in KiB.
func memory(pid int) (anon, pss float64, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	if anon, err = field(dir+"/status", "RssAnon:"); err != nil {
		return 0, 0, err
	}
	pss, err = field(dir+"/smaps_rollup", "Pss:")
	return anon, pss, err
}

func field(path, name string) (float64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseFloat(strings.Fields(rest)[0], 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
