package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// kernel is the real system.
type kernel struct{}

// Open opens path and waits for the lock on it. The writer before may have
// renamed or removed the file that was waited for; then there is a new one to
// lock.
func (kernel) Open(path string, perm fs.FileMode) (file, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, perm)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if now, err := os.Lstat(path); err == nil && os.SameFile(mine, now) {
			return f, nil
		}
		f.Close()
	}
}

// lock waits until no other process writes f.
func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			return err
		}
	}
}

func (kernel) Rename(from, to string) error { return os.Rename(from, to) }

// Remove unlinks a file. os.Remove would take an empty folder, too.
func (kernel) Remove(path string) error {
	for {
		switch err := unix.Unlink(path); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &fs.PathError{Op: "unlink", Path: path, Err: err}
		}
	}
}

// SyncDir syncs a folder. Some file systems have nothing to sync there and say
// EINVAL.
func (kernel) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}
