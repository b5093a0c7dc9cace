//go:build linux

// Package radiolock says who owns the radio's UART (INV 5): the bridge, OTBR
// or a radio operation, one at a time.
//
// The lock is an open file description lock (fcntl F_OFD_SETLK) on
// /run/radio.lock, so the kernel gives it up when its owner dies, however that
// happens. It is not an flock(2) because that cannot be looked at without
// taking it, and a status reader must never make an owner's attempt fail. The
// file tells people the owner's name, its process and since when; only the
// lock decides. The package does not wait: who finds the lock held tries again
// or says who has it. It knows nothing of the UART.
package radiolock

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Path is the lock's file, below the file-system root.
const Path = "run/radio.lock"

// maxName bounds the owner's name in bytes.
const maxName = 64

// maxFile is more than Acquire ever writes: the name, and two numbers on a
// second line.
const maxFile = maxName + 64

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
			return nil, &HeldError{Owner: read(fd).Name}
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	l := &Lock{fd: fd}
	// Old name away first: a reader sees a name that is right, or none.
	if err := unix.Ftruncate(fd, 0); err != nil {
		l.Release()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	now, err := Monotonic()
	if err != nil {
		l.Release()
		return nil, err
	}
	text := fmt.Sprintf("%s\n%d %d\n", name, now.Nanoseconds(), unix.Getpid())
	if _, err := unix.Pwrite(fd, []byte(text), 0); err != nil {
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

// Holder is whoever has the radio. The zero Holder is nobody.
type Holder struct {
	Name string        // "unknown" of one that has not written it yet
	PID  int           // 0 of one that has not written it yet
	Held time.Duration // for how long, by the monotonic clock (INV 13)
}

// Look returns who has the radio, the zero Holder when nobody has. It never
// blocks and never takes the radio away from anybody who asks for it at the
// same moment; anyone may call it. root is as Acquire's.
func Look(root string) (Holder, error) {
	path := filepath.Join("/", root, Path)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		return Holder{}, nil
	}
	if err != nil {
		return Holder{}, fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &whole); err != nil {
		return Holder{}, fmt.Errorf("look at the lock of %s: %w", path, err)
	}
	if whole.Type == unix.F_UNLCK {
		return Holder{}, nil
	}
	return read(fd), nil
}

// read reads what Acquire wrote. It may be in the middle of that.
func read(fd int) Holder {
	b := make([]byte, maxFile)
	n, err := unix.Pread(fd, b, 0)
	if err != nil || n < 0 {
		n = 0
	}
	now, err := Monotonic()
	if err != nil {
		now = 0 // then nothing was taken before it, and Held stays unknown
	}
	return parse(string(b[:n]), now)
}

// parse reads the lock's file as it is at now.
func parse(text string, now time.Duration) Holder {
	h := Holder{Name: "unknown"}
	name, rest, whole := strings.Cut(text, "\n")
	if !whole || name == "" || len(name) > maxName {
		return h
	}
	h.Name = name
	since, pid, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
	ns, err := strconv.ParseInt(since, 10, 64)
	id, perr := strconv.ParseInt(pid, 10, 32)
	if err != nil || perr != nil || ns < 0 || id <= 0 || now.Nanoseconds() < ns {
		return h
	}
	h.PID, h.Held = int(id), now-time.Duration(ns)
	return h
}

// Monotonic is CLOCK_MONOTONIC, which all processes of a boot share.
func Monotonic() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
