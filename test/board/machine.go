package board

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guest's TCP ports that are forwarded when Config.Forward is nil, and the one of
// its iperf3 server in bench mode.
const (
	BridgePort = 8888
	SSHPort    = 22
	BenchPort  = 5201
)

// Config is one machine. Dir must be given, and Rootfs or Flash.
type Config struct {
	Kernel   string // vmlinux; "" is KernelFull
	Rootfs   string // squashfs with the loader's header or without
	Userdata string // JFFS2 likewise, or any bytes; "" is erased flash
	// Flash is all 16 MiB, in place of Rootfs and Userdata. The kernel in it is not
	// the one that runs.
	Flash []byte
	// Dir is where the flash files are. Keep leaves jffs2-fs as an earlier
	// machine in Dir left it; without Rootfs the rootfs too.
	Dir  string
	Keep bool

	RAMMiB int      // 32 (also for 0) or 64
	Append []string // further kernel arguments
	// Forward says which guest TCP ports are reached at which port of
	// 127.0.0.1; 0 is a free one, which Addr names and later boots keep.
	Forward map[int]int
	UDP     []int // those of them that are forwarded by UDP as well
	// Netdev is QEMU's -netdev without its id, in place of user networking:
	// "hubport,hubid=0" is a cable to a hub with nobody on it. There is
	// nothing to forward then.
	Netdev    string
	Unplugged bool   // the cable is out at the first boot
	NIC       string // QEMU's name of the card; "" is e1000

	Console io.Writer // gets a copy of what the console prints; may be nil
	RTC     string    // date that the RTC starts at; "" is 1970: the gateway has no clock
	// Icount makes a run repeatable: 2^Icount ns of guest time for each
	// instruction. 0 is off. An idle guest takes real time all the same.
	Icount int
	// Extra are further QEMU arguments.
	Extra []string
}

// Machine is an emulated gateway. Its methods may be called from several
// goroutines, those that switch it on and off (Boot, PowerCut, Quit, Close)
// from one.
type Machine struct {
	cfg     Config
	run     string // holds the sockets: their paths must be short
	console *Console
	bauds   chan Baud
	stderr  func(line string) // sees what QEMU says there; may be nil

	mu    sync.Mutex // guards what follows
	ports map[int]int
	power *power // nil when off
}

// power is one QEMU process.
type power struct {
	cmd    *exec.Cmd
	qmp    *qmp
	stdin  io.WriteCloser
	exited chan struct{} // closed when the process and its readers are done

	mu     sync.Mutex
	errors []string // what QEMU said on stderr, the last lines of it
}

// Start makes the flash of cfg, switches the machine on and returns; the guest
// is then about to run its first instruction. The caller must Close the
// machine; ctx only bounds the start.
func Start(ctx context.Context, cfg Config) (*Machine, error) {
	return start(ctx, cfg, nil)
}

func start(ctx context.Context, cfg Config, stderr func(string)) (*Machine, error) {
	if cfg.RAMMiB == 0 {
		cfg.RAMMiB = 32
	}
	if cfg.RAMMiB != 32 && cfg.RAMMiB != 64 {
		return nil, fmt.Errorf("board: %d MiB of RAM: no gateway has that; 32 or 64", cfg.RAMMiB)
	}
	if cfg.NIC == "" {
		cfg.NIC = "e1000"
	}
	if cfg.RTC == "" {
		cfg.RTC = "1970-01-01"
	}
	if cfg.Forward == nil && cfg.Netdev == "" {
		cfg.Forward = map[int]int{BridgePort: 0, SSHPort: 0}
	}
	if cfg.Kernel == "" {
		kernel, err := Kernel(ctx, KernelFull)
		if err != nil {
			return nil, err
		}
		cfg.Kernel = kernel
	}
	if cfg.RAMMiB == 64 {
		kernel, err := kernel64(cfg.Kernel, cfg.Dir)
		if err != nil {
			return nil, err
		}
		cfg.Kernel = kernel
	}
	if err := writeFlash(cfg); err != nil {
		return nil, fmt.Errorf("board: flash: %w", err)
	}
	run, err := os.MkdirTemp("", "gwboard")
	if err != nil {
		return nil, fmt.Errorf("board: %w", err)
	}
	m := &Machine{
		cfg: cfg, run: run, stderr: stderr,
		console: &Console{copy: cfg.Console, more: make(chan struct{})},
		bauds:   make(chan Baud, 64),
		ports:   map[int]int{},
	}
	for guest, host := range cfg.Forward {
		m.ports[guest] = host
	}
	if err := m.boot(ctx, cfg.Unplugged); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// args is QEMU's command line.
func (m *Machine) args() []string {
	c := m.cfg
	mib := c.RAMMiB
	netdev := c.Netdev
	if netdev == "" {
		netdev = "user"
		for _, guest := range m.guestPorts() {
			netdev += fmt.Sprintf(",hostfwd=tcp:127.0.0.1:%d-:%d", m.ports[guest], guest)
			if slices.Contains(c.UDP, guest) && m.ports[guest] != 0 {
				netdev += fmt.Sprintf(",hostfwd=udp:127.0.0.1:%d-:%d", m.ports[guest], guest)
			}
		}
	}
	// QEMU wants the id behind the kind.
	kind, rest, _ := strings.Cut(netdev, ",")
	if rest != "" {
		rest = "," + rest
	}
	netdev = kind + ",id=n0" + rest

	args := []string{
		"-M", "malta,memory-backend=ram", "-cpu", "4Kc", "-m", strconv.Itoa(mib + flashRAM>>20),
		"-object", fmt.Sprintf("memory-backend-file,id=ram,size=%dM,share=on,mem-path=%s", mib+flashRAM>>20, escape(filepath.Join(c.Dir, ramFile))),
		"-nodefaults", "-display", "none", "-S",
		"-drive", "if=pflash,format=raw,file=" + escape(filepath.Join(c.Dir, norFile)),
		"-chardev", "socket,id=qmp,fd=3", "-mon", "chardev=qmp,mode=control",
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", "socket,id=radio,server=on,wait=off,path=" + escape(m.RadioPath()), "-serial", "chardev:radio",
		"-netdev", netdev, "-device", c.NIC + ",netdev=n0,id=nic0,romfile=",
		"-kernel", c.Kernel,
		"-append", strings.Join(append([]string{
			"console=ttyS0,38400", "loglevel=7",
			fmt.Sprintf("mem=%dM@0", mib),
			fmt.Sprintf("phram.phram=jffs2-fs,%#x,%#x,0x10000", mib<<20, userdataSize),
			"root=/dev/mtdblock2", "rootfstype=squashfs",
		}, c.Append...), " "),
		"-d", "trace:serial_update_parameters",
	}
	rtc := "base=" + c.RTC
	if c.Icount > 0 {
		args = append(args, "-seed", "1", "-icount", fmt.Sprintf("shift=%d,sleep=off", c.Icount))
		rtc += ",clock=vm"
	}
	args = append(args, "-rtc", rtc)
	return append(args, c.Extra...)
}

// escape doubles the commas of a file name, as QEMU's options want it.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

func (m *Machine) guestPorts() []int {
	var guest []int
	for p := range m.ports {
		guest = append(guest, p)
	}
	slices.Sort(guest)
	return guest
}

// Boot switches a machine that is off on again, on the flash it has.
func (m *Machine) Boot(ctx context.Context) error { return m.boot(ctx, false) }

func (m *Machine) boot(ctx context.Context, unplugged bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power != nil && !m.power.ended() {
		return errors.New("board: the machine is on")
	}
	if err := loseRAM(m.cfg.Dir, m.cfg.RAMMiB); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("board: qmp: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "qmp"), os.NewFile(uintptr(fds[1]), "qmp")
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		return fmt.Errorf("board: qmp: %w", err)
	}
	trace, err := os.OpenFile(m.TracePath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return errors.Join(fmt.Errorf("board: %w", err), conn.Close())
	}
	p := &power{exited: make(chan struct{})}
	p.cmd = exec.Command("qemu-system-mips", m.args()...)
	p.cmd.ExtraFiles = []*os.File{theirs}
	// A test binary that is killed takes its machines along, and the
	// terminal's ctrl-c is for us alone.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	stdin, err1 := p.cmd.StdinPipe()
	stdout, err2 := p.cmd.StdoutPipe()
	stderr, err3 := p.cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return errors.Join(fmt.Errorf("board: %w", err), conn.Close(), trace.Close())
	}
	m.console.attach(stdin)
	p.stdin = stdin
	started := make(chan error)
	go func() {
		// The kernel counts Pdeathsig by thread: ours must live as long
		// as QEMU does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		defer m.console.end()
		defer conn.Close()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			trace.Close()
			return
		}
		var readers sync.WaitGroup
		readers.Go(func() { _, _ = io.Copy(m.console, stdout) })
		readers.Go(func() { m.readStderr(p, stderr, trace) })
		readers.Wait()
		_ = p.cmd.Wait() // a kill is how most of them end
	}()
	if err := <-started; err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w; test/deps/deps.sh qemu installs it", err)
		}
		return fmt.Errorf("board: %w", err)
	}
	m.power = p
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	if err := m.begin(p, conn, unplugged); err != nil {
		_ = p.cmd.Process.Kill()
		<-p.exited
		m.power = nil
		if said := p.said(); said != "" {
			err = fmt.Errorf("%w; QEMU said: %s", err, said)
		}
		return fmt.Errorf("board: %w", errors.Join(err, ctx.Err()))
	}
	return nil
}

// begin brings a QEMU that waits before the first instruction to run.
func (m *Machine) begin(p *power, conn net.Conn, unplugged bool) error {
	q, err := newQMP(conn)
	if err != nil {
		return err
	}
	p.qmp = q
	if m.cfg.Netdev == "" {
		text, err := q.monitor("info usernet")
		if err != nil {
			return err
		}
		free := map[int]bool{}
		for guest, host := range m.ports {
			free[guest] = host == 0
		}
		for _, f := range parseUsernet(text) {
			if _, ok := m.ports[f.guest]; ok && f.state == "HOST_FORWARD" {
				m.ports[f.guest] = f.host
			}
		}
		for guest, host := range m.ports {
			if host == 0 {
				return fmt.Errorf("port %d is not forwarded; QEMU has:\n%s", guest, text)
			}
			// One that was free is the same for both only once it is known.
			if free[guest] && slices.Contains(m.cfg.UDP, guest) {
				if said, err := q.monitor(fmt.Sprintf("hostfwd_add udp:127.0.0.1:%d-:%d", host, guest)); err != nil || said != "" {
					return fmt.Errorf("forward UDP port %d: %w: %s", guest, err, said)
				}
			}
		}
	}
	if unplugged {
		if err := q.setLink(false); err != nil {
			return err
		}
	}
	_, err = q.do("cont", nil)
	return err
}

func (q *qmp) setLink(up bool) error {
	_, err := q.do("set_link", map[string]any{"name": "nic0", "up": up})
	return err
}

// readStderr takes what QEMU prints there: traces, what plugins say, and
// complaints.
func (m *Machine) readStderr(p *power, r io.Reader, trace io.WriteCloser) {
	defer trace.Close()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if baud, ok := parseTrace(line); ok {
			if baud.Divisor > consoleDivisors {
				m.tellBaud(baud)
				fmt.Fprintf(trace, "serial_update_parameters speed=%d\n", qemuClock/baud.Divisor)
			}
			continue
		}
		if m.stderr != nil {
			m.stderr(line)
		}
		p.mu.Lock()
		p.errors = append(p.errors, line)
		if len(p.errors) > 20 {
			p.errors = p.errors[1:]
		}
		p.mu.Unlock()
	}
	// A line longer than the scanner takes must not stop QEMU.
	_, _ = io.Copy(io.Discard, r)
}

func (p *power) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.errors, "\n")
}

func (p *power) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// on returns the running QEMU.
func (m *Machine) on() (*power, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power == nil || m.power.ended() {
		return nil, errors.New("board: the machine is off")
	}
	return m.power, nil
}

// Console returns the serial console.
func (m *Machine) Console() *Console { return m.console }

// Transcript returns all that the console has printed, over all boots.
func (m *Machine) Transcript() string { return m.console.Transcript() }

// RadioPath is the unix socket that the gateway's second UART is. QEMU listens
// on it while the machine is on; who connects is the radio.
func (m *Machine) RadioPath() string { return filepath.Join(m.run, "radio") }

// TracePath is a file for a radio simulator in another process. It gets a line
// "serial_update_parameters speed=N" for each setting of the radio UART's
// divisor; N is 115200 by the divisor, as QEMU counts.
func (m *Machine) TracePath() string { return filepath.Join(m.run, "trace") }

// SetLink plugs the network cable in or pulls it out.
func (m *Machine) SetLink(up bool) error {
	p, err := m.on()
	if err != nil {
		return err
	}
	return p.qmp.setLink(up)
}

// Reset is the watchdog's reset: RAM keeps what is in it.
func (m *Machine) Reset() error {
	p, err := m.on()
	if err != nil {
		return err
	}
	_, err = p.qmp.do("system_reset", nil)
	return err
}

// Monitor executes a command of QEMU's human monitor.
func (m *Machine) Monitor(command string) (string, error) {
	p, err := m.on()
	if err != nil {
		return "", err
	}
	return p.qmp.monitor(command)
}

// PID returns the process ID of QEMU, 0 when the machine is off.
func (m *Machine) PID() int {
	p, err := m.on()
	if err != nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Exited is closed once the machine has gone off: a power cut, Quit, or the
// guest's own power-off. It is nil before the first boot.
func (m *Machine) Exited() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power == nil {
		return nil
	}
	return m.power.exited
}

// Wait blocks until the machine has gone off by itself or ctx ends.
func (m *Machine) Wait(ctx context.Context) error {
	select {
	case <-m.Exited():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("board: still on: %w", ctx.Err())
	}
}

// PowerCut takes the power at once. The flash keeps what was written to it.
func (m *Machine) PowerCut() error {
	p, err := m.on()
	if err != nil {
		return err
	}
	return m.kill(p)
}

func (m *Machine) kill(p *power) error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("board: %w", err)
	}
	<-p.exited
	return nil
}

// quitTime is how long QEMU has for an orderly end.
const quitTime = 5 * time.Second

// Quit ends QEMU in order; the guest is not asked. A machine that is off stays
// off.
func (m *Machine) Quit() error {
	p, err := m.on()
	if err != nil {
		return nil
	}
	// QEMU may be gone before its answer is.
	_, _ = p.qmp.do("quit", nil)
	late := time.NewTimer(quitTime)
	defer late.Stop()
	select {
	case <-p.exited:
		return nil
	case <-late.C:
		return m.kill(p)
	}
}

// Close ends the machine and removes its sockets. The flash files stay.
func (m *Machine) Close() error {
	err := m.Quit()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.power != nil {
		// stdin belongs to a process that has ended.
		_ = m.power.stdin.Close()
	}
	return errors.Join(err, os.RemoveAll(m.run))
}

// ReadUserdata copies what is in the jffs2-fs partition to w.
func (m *Machine) ReadUserdata(w io.Writer) error {
	return readFlash(m.cfg.Dir, m.cfg.RAMMiB, w)
}

// ReadFlash returns the 16 MiB of flash.
func (m *Machine) ReadFlash() ([]byte, error) {
	b, err := readNOR(m.cfg.Dir)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(b)
	err = m.ReadUserdata(out)
	return out.Bytes(), err
}

// Word returns the word at a physical address of the RAM, also of a machine that has
// gone off: RAM is lost when it is switched on.
func (m *Machine) Word(addr uint32) (uint32, error) {
	b := make([]byte, 4)
	err := readRAM(m.cfg.Dir, int64(addr), b)
	return binary.BigEndian.Uint32(b), err
}
