//go:build linux

// Package tty opens a serial port raw and sets what a radio link needs: any
// baud rate (termios2, BOTHER), 8N1, no modem control, one kind of flow
// control.
//
// It makes system calls on a plain descriptor and never uses the runtime's
// poller: the caller polls FD itself. It does no buffering and holds no lock
// on the device (that is package radiolock's part); nothing here changes DTR
// or RTS after the open (INV 3).
//
// Numbers and layouts of the ioctls differ between architectures (MIPS has
// its own termbits.h and ioctls.h, and a c_cc of 23 bytes); they come from
// golang.org/x/sys/unix and are pinned by the tests.
package tty

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrBaud means that the UART cannot make the baud rate that was asked for.
var ErrBaud = errors.New("baud rate not possible on this UART")

// Flow is the kind of flow control.
type Flow uint8

// The kinds of flow control.
const (
	FlowNone Flow = iota
	FlowSoft      // XON/XOFF, eaten and sent by the kernel
	FlowHard      // RTS/CTS
)

// String returns the name used in configuration: none, sw, hw.
func (f Flow) String() string {
	switch f {
	case FlowSoft:
		return "sw"
	case FlowHard:
		return "hw"
	default:
		return "none"
	}
}

// ParseFlow is the inverse of Flow.String.
func ParseFlow(s string) (Flow, error) {
	switch s {
	case "none":
		return FlowNone, nil
	case "sw":
		return FlowSoft, nil
	case "hw":
		return FlowHard, nil
	}
	return FlowNone, fmt.Errorf("flow control %q: want none, sw or hw", s)
}

// MaxBaudError is how far the rate that the UART really makes may be from the
// one asked for, in percent. Both ends together must stay under about 5 % for
// a ten-bit frame, and 691200 on a 200 MHz divisor is 0.5 % off.
const MaxBaudError = 2.5

// Config is how to set a port up.
type Config struct {
	Baud int // bit/s, any the UART can make
	Flow Flow
	// BaseBaud, when not 0, tells the 8250 driver its input clock / 16
	// (TIOCSSERIAL). The emulated board needs it: its UART's clock ends at
	// 115200 baud. It needs CAP_SYS_ADMIN.
	BaseBaud int
}

// Port is an open serial port. Its methods may not be used concurrently with
// Close.
type Port struct {
	fd   int
	path string
	baud int
	flow Flow
}

// Open opens the device at path and configures it. The descriptor is
// non-blocking and close-on-exec and never becomes the controlling terminal.
// Open does not wait for a carrier. The port is set exclusive: an open by
// anybody but root fails with EBUSY from then on.
func Open(path string, c Config) (*Port, error) {
	var fd int
	var err error
	for {
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	p := &Port{fd: fd, path: path}
	if err := p.setup(c); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return p, nil
}

func (p *Port) setup(c Config) error {
	if err := unix.IoctlSetInt(p.fd, unix.TIOCEXCL, 0); err != nil {
		return p.error("set exclusive", err)
	}
	if c.BaseBaud != 0 {
		if err := p.setBaseBaud(c.BaseBaud); err != nil {
			return err
		}
	}
	return p.Set(c.Baud, c.Flow)
}

// Set changes baud rate and flow control of the open port; bytes in the
// driver's buffers stay. It returns an error that wraps ErrBaud when the rate
// that the UART then runs at is too far off.
func (p *Port) Set(baud int, flow Flow) error {
	t, err := unix.IoctlGetTermios(p.fd, unix.TCGETS2)
	if err != nil {
		return p.error("get termios", err)
	}
	raw(t, baud, flow)
	if err := unix.IoctlSetTermios(p.fd, unix.TCSETS2, t); err != nil {
		return p.error("set termios", err)
	}
	// The kernel sets what it can and says nothing about the rest.
	if t, err = unix.IoctlGetTermios(p.fd, unix.TCGETS2); err != nil {
		return p.error("get termios", err)
	}
	p.baud, p.flow = int(t.Ospeed), flowOf(t)
	if diff := 100 * float64(p.baud-baud) / float64(baud); diff > MaxBaudError || diff < -MaxBaudError {
		return fmt.Errorf("set %s to %d baud: it runs at %d: %w", p.path, baud, p.baud, ErrBaud)
	}
	if p.flow != flow {
		return fmt.Errorf("set %s to flow control %v: it keeps %v", p.path, flow, p.flow)
	}
	return nil
}

// raw makes t a transparent 8N1 line without modem control.
func raw(t *unix.Termios, baud int, flow Flow) {
	t.Iflag = unix.IGNBRK // a break is no byte; framing errors are counted by the driver
	t.Oflag = 0
	t.Lflag = 0
	t.Line = 0 // N_TTY
	// CLOCAL: carrier does not matter. No HUPCL: the last close leaves DTR
	// and RTS alone (INV 3). Input baud bits 0 mean: as the output.
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.BOTHER
	t.Ispeed, t.Ospeed = uint32(baud), uint32(baud)
	switch flow {
	case FlowSoft:
		t.Iflag |= unix.IXON | unix.IXOFF
	case FlowHard:
		t.Cflag |= unix.CRTSCTS
	case FlowNone:
	}
	clear(t.Cc[:])
	t.Cc[unix.VSTART], t.Cc[unix.VSTOP] = 0x11, 0x13
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
}

func flowOf(t *unix.Termios) Flow {
	switch {
	case t.Cflag&unix.CRTSCTS != 0:
		return FlowHard
	case t.Iflag&unix.IXON != 0:
		return FlowSoft
	default:
		return FlowNone
	}
}

// FD returns the descriptor, owned by p.
func (p *Port) FD() int { return p.fd }

// Baud returns the rate that the UART really runs at, as the driver says.
func (p *Port) Baud() int { return p.baud }

// Flow returns the flow control in force.
func (p *Port) Flow() Flow { return p.flow }

// FlushOutput throws away what was written and not sent.
func (p *Port) FlushOutput() error {
	return p.error("flush output", unix.IoctlSetInt(p.fd, unix.TCFLSH, unix.TCOFLUSH))
}

// FlushInput throws away what has come and was not read.
func (p *Port) FlushInput() error {
	return p.error("flush input", unix.IoctlSetInt(p.fd, unix.TCFLSH, unix.TCIFLUSH))
}

// Unsent returns how many written bytes the driver has not sent yet.
func (p *Port) Unsent() (int, error) {
	n, err := unix.IoctlGetInt(p.fd, unix.TIOCOUTQ)
	return n, p.error("get output queue", err)
}

// Idle tells whether the UART has sent everything that it was given, its FIFO
// and the byte on the line included, which Unsent does not know of (a pty has
// neither and is idle).
func (p *Port) Idle() (bool, error) {
	const shiftEmpty = 1 // TIOCSER_TEMT, linux/serial.h
	lsr, err := unix.IoctlGetInt(p.fd, unix.TIOCSERGETLSR)
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EINVAL) {
		return true, nil
	}
	return lsr&shiftEmpty != 0, p.error("get line status", err)
}

// ResumeOutput forgets an XOFF that was received. TCOON alone does not: the
// kernel lets it undo a TCOOFF only (n_tty_ioctl_helper), so that goes first.
func (p *Port) ResumeOutput() error {
	const tcooff, tcoon = 0, 1 // asm-generic/termbits-common.h, the same on every architecture
	if err := unix.IoctlSetInt(p.fd, unix.TCXONC, tcooff); err != nil {
		return p.error("resume output", err)
	}
	return p.error("resume output", unix.IoctlSetInt(p.fd, unix.TCXONC, tcoon))
}

// Counts is struct serial_icounter_struct (linux/serial.h): what the driver
// counted since boot.
type Counts struct {
	CTS, DSR, RNG, DCD, Rx, Tx                   int32
	Frame, Overrun, Parity, Break, BufferOverrun int32
	_                                            [9]int32
}

// Counts reads the driver's counters (TIOCGICOUNT). A pty has none: ENOTTY or EINVAL.
func (p *Port) Counts() (Counts, error) {
	var c Counts
	return c, p.error("get counters", ioctl(p.fd, unix.TIOCGICOUNT, unsafe.Pointer(&c)))
}

// serialStruct is struct serial_struct (linux/serial.h).
type serialStruct struct {
	Type, Line              int32
	Port                    uint32
	IRQ, Flags              int32
	XmitFIFOSize            int32
	CustomDivisor, BaudBase int32
	CloseDelay              uint16
	IOType                  uint8
	_                       uint8
	Hub6                    int32
	ClosingWait             uint16
	ClosingWait2            uint16
	IOMemBase               uintptr
	IOMemRegShift           uint16
	PortHigh                uint32
	IOMapBase               uintptr
}

func (p *Port) setBaseBaud(base int) error {
	var s serialStruct
	if err := ioctl(p.fd, unix.TIOCGSERIAL, unsafe.Pointer(&s)); err != nil {
		return p.error("get serial settings", err)
	}
	s.BaudBase = int32(base)
	return p.error("set base baud", ioctl(p.fd, unix.TIOCSSERIAL, unsafe.Pointer(&s)))
}

// Close closes the port. Bytes not sent yet are thrown away, because the
// driver's last close otherwise waits for them, 30 s when flow control holds
// the line; wait until Unsent is 0 where they matter. DTR and RTS stay as they are.
func (p *Port) Close() error {
	var flushErr error
	if n, err := p.Unsent(); err == nil && n > 0 { // an error: hung up
		flushErr = p.FlushOutput()
	}
	if err := unix.Close(p.fd); err != nil {
		return p.error("close", err)
	}
	p.fd = -1
	return flushErr
}

func (p *Port) error(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", op, p.path, err)
}

func ioctl(fd int, req uint, arg unsafe.Pointer) error {
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(arg)); e != 0 {
		return e
	}
	return nil
}
