package wireguard

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/tun"
)

const tunPath = "/dev/net/tun"

// errNoTUN: the kernel has neither WireGuard nor what a tunnel can be made of.
var errNoTUN = errors.New("this kernel has neither WireGuard nor " + tunPath + ": a tunnel needs CONFIG_TUN or CONFIG_WIREGUARD")

// tunnel is a network interface whose other end is this process, one packet at
// a time: the module's own splits and joins large ones, which takes 64 KiB
// buffers, and its events would take netlink's loop.
type tunnel struct {
	file   *os.File
	name   string
	mtu    atomic.Int32
	events chan tun.Event
	once   sync.Once
}

var _ tun.Device = (*tunnel)(nil)

// openTunnel makes the interface, which ends when it is closed.
func openTunnel(name string, mtu int) (*tunnel, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return nil, errNoTUN
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", tunPath, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make the interface %s: %w", name, err)
	}
	// Only now can the runtime's poller have it: before it has an interface it
	// is always in error.
	t := &tunnel{file: os.NewFile(uintptr(fd), tunPath), name: name, events: make(chan tun.Event, 1)}
	t.mtu.Store(int32(mtu))
	return t, nil
}

func (t *tunnel) File() *os.File           { return t.file }
func (t *tunnel) Name() (string, error)    { return t.name, nil }
func (t *tunnel) MTU() (int, error)        { return int(t.mtu.Load()), nil }
func (t *tunnel) Events() <-chan tun.Event { return t.events }
func (t *tunnel) BatchSize() int           { return 1 }

// setMTU tells the module about another MTU, which the interface has already.
func (t *tunnel) setMTU(mtu int) {
	t.mtu.Store(int32(mtu))
	select {
	case t.events <- tun.EventMTUUpdate:
	default: // one is on its way
	}
}

func (t *tunnel) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	n, err := t.file.Read(bufs[0][offset:])
	if err != nil {
		return 0, closedError(err)
	}
	sizes[0] = n
	return 1, nil
}

func (t *tunnel) Write(bufs [][]byte, offset int) (n int, err error) {
	for _, b := range bufs {
		if _, err := t.file.Write(b[offset:]); err != nil {
			return n, closedError(err)
		}
		n++
	}
	return n, nil
}

// closedError has the module know an interface that somebody has removed.
func closedError(err error) error {
	if errors.Is(err, syscall.EBADFD) {
		return os.ErrClosed
	}
	return err
}

// Close ends the interface. No setMTU may follow.
func (t *tunnel) Close() (err error) {
	t.once.Do(func() {
		close(t.events)
		err = t.file.Close()
	})
	return err
}
