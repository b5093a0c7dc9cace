//go:build linux

// Package handoff passes an open connection from one process of the box to
// another, whole: descriptor passing (SCM_RIGHTS) over a unix packet socket
// that PID 1 listens on. The bridge gives away what turns out to be SSH with
// it; PID 1 starts the taker when something waits.
//
// Listen and Send never wait, so that PID 1 and a data path can call them. No
// bytes travel beside the descriptor: what the peer has sent is in its socket.
// The package knows nothing of what the connections carry.
package handoff

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SSH is where connections for the SSH service go, below the file-system root.
const SSH = "run/sshd.sock"

// StoredName is the listening socket's name among the descriptors that PID 1
// starts the taker with.
const StoredName = "listen"

// Backlog is how many connections wait for a taker that is being started or
// has as many as it takes. Send refuses more.
const Backlog = 8

// Errors of Send.
var (
	ErrNobody = errors.New("its service does not run")
	ErrBusy   = errors.New("too many wait for its service already")
)

// Listen makes the socket at path, for root only, in place of what an earlier
// boot or process left there.
func Listen(path string) (fd int, err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return -1, fmt.Errorf("replace an old socket: %w", err)
	}
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("make a packet socket: %w", err)
	}
	// bind(2) gives the file this mode less the umask: there is no moment in
	// which others may connect.
	err = unix.Fchmod(fd, 0o600)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		// The kernel lets one more in than it is told (unix_recvq_full).
		err = unix.Listen(fd, Backlog-1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("listen on %s: %w", path, err)
	}
	return fd, nil
}

// Send gives a duplicate of fd to whoever takes from the socket at path; fd
// stays the caller's, to be closed. It does not wait, neither for the taker nor
// for room. Errors wrap ErrNobody or ErrBusy where it is one of them.
func Send(path string, fd int) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make a packet socket: %w", err)
	}
	// What was sent stays for the taker, also when that accepts after the close.
	defer unix.Close(s)
	err = unix.Connect(s, &unix.SockaddrUnix{Name: path})
	if err == nil {
		err = unix.Sendmsg(s, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.EPIPE):
		err = ErrNobody
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ETOOMANYREFS):
		err = ErrBusy
	}
	if err != nil {
		return fmt.Errorf("hand a connection over at %s: %w", path, err)
	}
	return nil
}

// sendLimit is how long Take waits for the packet behind a connect, which Send
// sends at once.
const sendLimit = time.Second

// Take waits for the next connection at the listening socket l, until l's
// deadline or its close. An error that wraps ErrNothing concerns one sender
// only.
func Take(l *net.UnixListener) (net.Conn, error) {
	from, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	c, err := take(from)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNothing, err)
	}
	return c, nil
}

// ErrNothing is a sender at the socket without a connection to give.
var ErrNothing = errors.New("no connection was handed over")

func take(from *net.UnixConn) (net.Conn, error) {
	if err := from.SetReadDeadline(time.Now().Add(sendLimit)); err != nil {
		return nil, err
	}
	var p [1]byte
	oob := make([]byte, unix.CmsgSpace(4*4)) // more than one is a fault, and closed
	_, n, _, _, err := from.ReadMsgUnix(p[:], oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		// The error is a message of another kind.
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	if len(fds) != 1 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, fmt.Errorf("%d descriptors came instead of one", len(fds))
	}
	f := os.NewFile(uintptr(fds[0]), "handed over")
	defer f.Close() // FileConn has a duplicate
	return net.FileConn(f)
}
