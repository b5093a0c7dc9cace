//go:build linux

// Package gpio takes single lines of the kernel's GPIO character device, in
// its second version (include/uapi/linux/gpio.h, GPIO_V2_...), which is the one
// that the gateways' kernel has.
//
// A line is looked up by its name. Its number serves a chip whose device tree
// names none, and only where nothing speaks against it: on one board line 12 is
// the radio's reset, on the other the status LED.
//
// The kernel's structs are packed by hand, in the CPU's byte order. The package
// decides nothing: what a level means, and when to look, is the caller's.
package gpio

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
)

// Errors of Open.
var (
	ErrNoChip = errors.New("there is no such GPIO chip")
	ErrNoLine = errors.New("the GPIO chip has no such line")
	ErrInUse  = errors.New("the line is in use")
)

// Kernel is what the package asks of the kernel. Fakes are in gpiotest.
type Kernel interface {
	Open(path string) (fd int, err error)
	// Ioctl reads and writes arg, as the request has it.
	Ioctl(fd int, request uint32, arg []byte) error
	Close(fd int) error
}

// Mode is how a line is taken. Active is what the board's data says: low, for
// every wired line of these boards.
type Mode int

// Modes.
const (
	Input Mode = iota
	// Edges is Input that can also be waited for: FD is readable after a
	// change. Where the chip has no interrupt for the line, Open says
	// unix.ENXIO, EINVAL or the like, and Input is what there is.
	Edges
	// Output drives the line, inactive at first.
	Output
)

// Line is a line that is taken. Nobody else can have it until Close.
type Line struct {
	kernel Kernel
	fd     int
	Chip   string // path
	Number uint32
}

// Open takes the line that board data describes, from the chip that it is on.
// root is the file-system root, consumer what the kernel shows as the owner.
// Where the chip names its lines, the name decides. Where it names none and
// byNumber is set, the number does. With Edges, debounce is what the kernel
// waits for after a change; 0: nothing.
func Open(k Kernel, root string, bank rtl8196e.GPIO, want rtl8196e.Line, byNumber bool, mode Mode, debounce time.Duration, consumer string) (*Line, error) {
	path := filepath.Join("/", root, bank.Chip)
	chip, err := k.Open(path)
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			return nil, fmt.Errorf("%s: %w", bank.Chip, ErrNoChip)
		}
		return nil, fmt.Errorf("open %s: %w", bank.Chip, err)
	}
	defer k.Close(chip)
	number, err := find(k, chip, want, byNumber)
	if err != nil {
		return nil, fmt.Errorf("%s, line %s: %w", bank.Chip, want.Name, err)
	}
	req := packRequest(order, number, flags(want, mode), debounce, consumer)
	err = k.Ioctl(chip, getLine, req)
	if err != nil && !errors.Is(err, unix.EBUSY) {
		// A chip that has no pull-up; the board has one of its own, then.
		req = packRequest(order, number, flags(want, mode)&^flagPullUp, debounce, consumer)
		err = k.Ioctl(chip, getLine, req)
	}
	if err != nil {
		if errors.Is(err, unix.EBUSY) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("%s, take line %s (%d): %w", bank.Chip, want.Name, number, err)
	}
	return &Line{kernel: k, fd: requestFD(order, req), Chip: bank.Chip, Number: number}, nil
}

// find returns the number of the line.
func find(k Kernel, chip int, want rtl8196e.Line, byNumber bool) (uint32, error) {
	named := false
	n := uint32(0)
	for ; n < maxLines; n++ {
		arg := packInfo(order, n)
		if err := k.Ioctl(chip, getLineInfo, arg); err != nil {
			if errors.Is(err, unix.EINVAL) && n > 0 {
				break // behind the last one
			}
			return 0, fmt.Errorf("look at line %d: %w", n, err)
		}
		switch name := infoName(arg); name {
		case want.Name:
			return n, nil
		case "":
		default:
			named = true
		}
	}
	if named || !byNumber || uint32(want.Number) >= n {
		return 0, ErrNoLine
	}
	return uint32(want.Number), nil
}

// FD is the descriptor, for who waits for Edges. It stays the Line's.
func (l *Line) FD() int { return l.fd }

// Active returns whether the line is active now: pressed, lit, in reset.
func (l *Line) Active() (bool, error) {
	arg := packValues(order, false)
	if err := l.kernel.Ioctl(l.fd, getValues, arg); err != nil {
		return false, fmt.Errorf("%s, read line %d: %w", l.Chip, l.Number, err)
	}
	return valuesBit(order, arg), nil
}

// Set drives a line that was opened as Output.
func (l *Line) Set(active bool) error {
	if err := l.kernel.Ioctl(l.fd, setValues, packValues(order, active)); err != nil {
		return fmt.Errorf("%s, set line %d: %w", l.Chip, l.Number, err)
	}
	return nil
}

// Close gives the line back. It does not change its level: Set(false) before it
// leaves an open-drain line floating.
func (l *Line) Close() error { return l.kernel.Close(l.fd) }
