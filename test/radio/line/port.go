package line

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Stream is what a port is made of: *os.File, *net.UnixConn, *net.TCPConn.
type Stream interface {
	io.ReadCloser
	SyscallConn() (syscall.RawConn, error)
}

type streamPort struct {
	Stream
	raw syscall.RawConn
}

// NewPort makes a Port of s, which must be in non-blocking mode (every net
// connection is). sndbuf, if not 0, is the size of the kernel's send buffer in
// bytes: a small one makes a far end that does not keep up lose bytes early,
// as a UART's FIFO would.
func NewPort(s Stream, sndbuf int) (Port, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	if sndbuf > 0 {
		var serr error
		if err := raw.Control(func(fd uintptr) {
			serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, sndbuf)
		}); err != nil {
			return nil, err
		}
		if serr != nil {
			return nil, fmt.Errorf("set SO_SNDBUF to %d: %w", sndbuf, serr)
		}
	}
	return streamPort{s, raw}, nil
}

// TryWrite implements Port.
func (p streamPort) TryWrite(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	cerr := p.raw.Write(func(fd uintptr) bool {
		n, err = unix.Write(int(fd), b)
		return true // never wait
	})
	switch {
	case cerr != nil:
		return 0, cerr
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	}
	return n, nil
}

// OpenPTY makes a pseudo terminal in raw mode and returns its master, for
// NewPort, and the slave's path. The slave is held open by keep, so that the
// master sees no hang-up when a client closes it, as a UART sees none; the
// caller closes both.
func OpenPTY() (master, keep *os.File, path string, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, "", fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	defer func() {
		if err != nil {
			_ = master.Close()
		}
	}()
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, "", fmt.Errorf("unlock the pseudo terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, "", fmt.Errorf("number of the pseudo terminal: %w", err)
	}
	path = fmt.Sprintf("/dev/pts/%d", n)
	keep, err = os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, "", err
	}
	if err = raw(int(keep.Fd())); err != nil {
		_ = keep.Close()
		return nil, nil, "", fmt.Errorf("set %s raw: %w", path, err)
	}
	return master, keep, path, nil
}

// raw does what cfmakeraw does.
func raw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
