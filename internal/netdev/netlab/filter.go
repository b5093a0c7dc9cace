package netlab

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Passes tells whether the kernel lets a packet, from what the filter's socket
// would see of it on, through a filter. It needs no rights: a unix socket does.
func Passes(t testing.TB, filter []unix.SockFilter, packet []byte) bool {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(fds[1], unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(fds[0], packet); err != nil && !errors.Is(err, unix.EPERM) { // of what is filtered
		t.Fatal(err)
	}
	b := make([]byte, len(packet)+1)
	n, err := unix.Read(fds[1], b)
	if errors.Is(err, unix.EAGAIN) {
		return false
	}
	if err != nil || !bytes.Equal(b[:n], packet) {
		t.Errorf("%d of %d bytes, %v", n, len(packet), err)
	}
	return true
}
