//go:build linux

// Package ptytest makes pseudo terminals for tests: the master stands for the
// radio, the slave's path for the UART.
package ptytest

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Open makes a raw pty pair; the test closes the master at its end if it has
// not done so before. The master is a file of the runtime's poller: it takes
// deadlines.
func Open(t testing.TB) (master *os.File, slavePath string) {
	t.Helper()
	master, slavePath, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	return master, slavePath
}

func open() (*os.File, string, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", fmt.Errorf("open /dev/ptmx: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(fd)
		return nil, "", fmt.Errorf("unlock pty: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		unix.Close(fd)
		return nil, "", fmt.Errorf("get pty number: %w", err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), "/dev/pts/" + strconv.Itoa(n), nil
}
