package notify

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pair makes the two ends for one service: ours for PID 1, nonblocking, and
// theirs for the child. Both are close-on-exec; the start of the child is what
// duplicates theirs to the number in GW_NOTIFY_FD.
func Pair() (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("socketpair: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return -1, -1, fmt.Errorf("make socket nonblocking: %w", err)
	}
	return pair[0], pair[1], nil
}

// Stored is a descriptor in PID 1's store.
type Stored struct {
	Name string
	FD   int
}

// Environ returns the variables for a child whose socket is number socket and
// whose stored descriptors follow from there: socket+1 and so on.
func Environ(socket int, stored []Stored) []string {
	env := []string{EnvSocket + "=" + strconv.Itoa(socket)}
	if len(stored) == 0 {
		return env
	}
	list := []byte(EnvStored + "=")
	for i, s := range stored {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, s.Name...), '=')
		list = strconv.AppendInt(list, int64(socket+1+i), 10)
	}
	return append(env, string(list))
}

// SendCall sends a packet of AppendCall from PID 1. It does not block: a
// service that leaves its calls unread gives unix.EAGAIN.
func SendCall(fd int, packet []byte) error {
	return sendPacket(fd, packet, nil, unix.MSG_DONTWAIT)
}

// Receive takes one packet from the nonblocking socket of a service into buf,
// which should have MaxMessage bytes. fds are the descriptors that came along,
// close-on-exec and the caller's. It returns unix.EAGAIN where there is
// nothing, and ErrClosed after the last packet of a service that is gone.
func Receive(fd int, buf []byte) (n int, fds []int, err error) {
	var oob [64]byte // room for more descriptors than the one that is allowed
	for {
		n, oobn, flags, _, err := unix.Recvmsg(fd, buf, oob[:], unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNRESET):
			continue // ECONNRESET comes once, before what is still queued
		case err != nil:
			return 0, nil, err
		case n == 0 && oobn == 0:
			return 0, nil, ErrClosed
		}
		if oobn > 0 {
			fds = rights(oob[:oobn])
		}
		if flags&unix.MSG_TRUNC != 0 {
			CloseAll(fds)
			return 0, nil, ErrTooLong
		}
		return n, fds, nil
	}
}

// rights returns the descriptors in control messages that the kernel wrote.
func rights(oob []byte) []int {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range messages {
		// The error is a message of another kind.
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// CloseAll closes descriptors that nobody wants.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
