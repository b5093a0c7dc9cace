//go:build linux

// Package radiolock says who owns the radio's UART (INV 5): the bridge, OTBR
// or a radio operation, one at a time.
//
// The lock is an open file description lock (fcntl F_OFD_SETLK) on
// /run/radio.lock, so the kernel gives it up when its owner dies, however that
// happens. It is not an flock(2) because that cannot be looked at without
// taking it, and a status reader must never make an owner's attempt fail. The
// file holds the owner's name for people; only the lock decides. The package does not wait: who finds the
// lock held tries again or says who has it. It knows nothing of the UART.
package radiolock

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Path is the lock's file, below the file-system root.
const Path = "run/radio.lock"

// maxName bounds the owner's name in bytes.
const maxName = 64

// ErrHeld is what Acquire's error wraps when somebody else has the radio.
var ErrHeld = errors.New("the radio is in use")

// HeldError is returned by Acquire when somebody else has the radio.
type HeldError struct {
	Owner string // its name; "unknown" when it has not written one yet
}

// Error implements error.
func (e *HeldError) Error() string { return ErrHeld.Error() + " by " + e.Owner }

// Unwrap makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Unwrap() error { return ErrHeld }

// Lock is the ownership of the radio, held by this process.
type Lock struct{ fd int }

// Acquire takes the radio for name (bridge, otbr, flash ...), which is one
// line of at most 64 bytes. root is the file-system root, "" or "/" on the
// box. It does not block; a radio in use is a *HeldError.
func Acquire(root, name string) (*Lock, error) {
	if name == "" || len(name) > maxName || strings.ContainsAny(name, "\n\x00") {
		return nil, fmt.Errorf("radio owner %q: want 1 to %d bytes on one line", name, maxName)
	}
	path := filepath.Join("/", root, Path)
	// Close-on-exec: a child must not keep the radio after its parent.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK} // Len 0: to the end, wherever that is
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole); err != nil {
		defer unix.Close(fd)
		if err == unix.EAGAIN || err == unix.EACCES {
			return nil, &HeldError{Owner: readName(fd)}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := &Lock{fd: fd}
	// Old name away first: a reader sees a name that is right, or none.
	if err := unix.Ftruncate(fd, 0); err != nil {
		l.Release()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	if _, err := unix.Pwrite(fd, []byte(name+"\n"), 0); err != nil {
		l.Release()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return l, nil
}

// Release gives the radio up. Releasing twice is harmless.
func (l *Lock) Release() error {
	if l == nil || l.fd < 0 {
		return nil
	}
	terr := unix.Ftruncate(l.fd, 0)
	cerr := unix.Close(l.fd)
	l.fd = -1
	return errors.Join(terr, cerr)
}

// Owner returns the name of whoever has the radio, "" when nobody has. It
// never blocks and never takes the radio away from anybody who asks for it at
// the same moment; anyone may call it.
func Owner(root string) (string, error) {
	path := filepath.Join("/", root, Path)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &whole); err != nil {
		return "", fmt.Errorf("look at the lock of %s: %w", path, err)
	}
	if whole.Type == unix.F_UNLCK {
		return "", nil
	}
	return readName(fd), nil
}

func readName(fd int) string {
	b := make([]byte, maxName+1)
	n, err := unix.Pread(fd, b, 0)
	if err != nil || n <= 0 {
		return "unknown"
	}
	name, _, _ := strings.Cut(string(b[:n]), "\n")
	if name == "" {
		return "unknown"
	}
	return name
}
