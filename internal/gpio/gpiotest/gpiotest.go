//go:build linux

// Package gpiotest is a GPIO chip in memory, for tests: it reads and writes the
// kernel's structs by the layout of include/uapi/linux/gpio.h on its own, so
// that a mistake of package gpio shows.
package gpiotest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Line is one line of the chip. Level is the electrical one, as the pin has it.
type Line struct {
	Name string
	Busy bool // somebody else has it
	IRQ  bool // edges can be asked for
	// NoBias has a pull-up refused.
	NoBias bool
	Level  bool
	Flags  uint64 // of who has taken it; 0: nobody
	// Debounce is what was asked for, in us.
	Debounce uint32
	Consumer string
	// Driven are the levels that were set, true for active.
	Driven []bool
}

// Chip implements gpio.Kernel with one chip at Path.
type Chip struct {
	Path string

	mu    sync.Mutex // guards the following
	lines []Line
	fds   map[int]int // descriptor to line, -1 for the chip's
	next  int
	err   error
}

// New returns a chip with lines.
func New(path string, lines ...Line) *Chip {
	return &Chip{Path: path, lines: lines, fds: map[int]int{}, next: 1000}
}

// Line returns what line number n is like.
func (c *Chip) Line(n int) Line {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[n]
	l.Driven = slices.Clone(l.Driven)
	return l
}

// SetLevel sets the pin's level.
func (c *Chip) SetLevel(n int, level bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[n].Level = level
}

// Fail has every ioctl of a taken line fail with err.
func (c *Chip) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Open returns how many descriptors are open.
func (c *Chip) OpenFDs() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.fds)
}

// Open implements gpio.Kernel.
func (c *Chip) Open(path string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.HasSuffix(path, c.Path) || c.lines == nil {
		return -1, unix.ENOENT
	}
	return c.add(-1), nil
}

func (c *Chip) add(line int) int {
	c.next++
	c.fds[c.next] = line
	return c.next
}

// Close implements gpio.Kernel.
func (c *Chip) Close(fd int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	line, ok := c.fds[fd]
	if !ok {
		return unix.EBADF
	}
	if line >= 0 {
		c.lines[line].Flags = 0
	}
	delete(c.fds, fd)
	return nil
}

// Ioctl implements gpio.Kernel.
func (c *Chip) Ioctl(fd int, request uint32, arg []byte) error {
	o := binary.NativeEndian
	c.mu.Lock()
	defer c.mu.Unlock()
	line, ok := c.fds[fd]
	if !ok {
		return unix.EBADF
	}
	if int(request>>16&0x1FFF) != len(arg) || request>>8&0xFF != 0xB4 {
		return unix.ENOTTY
	}
	switch nr := request & 0xFF; {
	case nr == 0x05 && line < 0:
		n := o.Uint32(arg[64:])
		if int(n) >= len(c.lines) {
			return unix.EINVAL
		}
		copy(arg, c.lines[n].Name)
		return nil
	case nr == 0x07 && line < 0:
		n := o.Uint32(arg)
		if o.Uint32(arg[560:]) != 1 || int(n) >= len(c.lines) {
			return unix.EINVAL
		}
		l := &c.lines[n]
		flags := o.Uint64(arg[288:])
		switch {
		case l.Busy || l.Flags != 0:
			return unix.EBUSY
		case l.NoBias && flags&(1<<8) != 0:
			return unix.EINVAL
		case flags&(1<<4|1<<5) != 0 && !l.IRQ:
			return unix.ENXIO
		}
		l.Flags, l.Debounce, l.Driven = flags, 0, nil
		for i := range int(o.Uint32(arg[296:])) {
			if a := arg[320+24*i:]; o.Uint32(a) == 3 && o.Uint64(a[16:]) == 1 {
				l.Debounce = o.Uint32(a[8:])
			}
		}
		name, _, _ := bytes.Cut(arg[256:288], []byte{0})
		l.Consumer = string(name)
		o.PutUint32(arg[588:], uint32(c.add(int(n))))
		return nil
	case c.err != nil:
		return c.err
	case nr == 0x0E && line >= 0:
		l := c.lines[line]
		var v uint64
		if l.Level != (l.Flags&(1<<1) != 0) {
			v = 1
		}
		o.PutUint64(arg, v&o.Uint64(arg[8:]))
		return nil
	case nr == 0x0F && line >= 0:
		l := &c.lines[line]
		if l.Flags&(1<<3) == 0 {
			return unix.EPERM
		}
		on := o.Uint64(arg)&o.Uint64(arg[8:])&1 != 0
		l.Driven = append(l.Driven, on)
		l.Level = on != (l.Flags&(1<<1) != 0)
		return nil
	}
	return unix.EINVAL
}
