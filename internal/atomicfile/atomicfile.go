// Package atomicfile replaces files so that a power cut leaves the old content
// or the new one and nothing in between (INV 6).
//
// New content is written beside the file, under one fixed name, synced, renamed
// over the file, and the folder is synced. What a cut left under that name is
// overwritten by the next change of the same file. Writers of one file take
// turns, also across processes, by a lock on the file being written, which dies
// with its owner.
//
// It writes only when the content differs, and never on a timer: that is the
// caller's rule to keep. It is for small files: content is held in memory.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// errSame says that the file has the wanted content already.
var errSame = errors.New("unchanged")

// MaxBytes is the largest file that Update reads.
const MaxBytes = 1 << 20

// ErrTooLarge is returned when a file is larger than MaxBytes.
var ErrTooLarge = errors.New("file is too large")

// Write replaces the content of path, which may not exist yet; its folder must.
// An existing file keeps its mode and owner, a new one gets perm as it is,
// whatever the umask. A symbolic link is followed, and stays.
func Write(path string, data []byte, perm fs.FileMode) error {
	return update(kernel{}, path, perm, func([]byte, bool) ([]byte, error) { return data, nil })
}

// Update replaces the content of path by what change makes of it, with no other
// writer of this package in between. There is false when the file does not
// exist. Nothing is written when change returns what was there; an error of
// change is returned as it is. Update waits for another writer to finish.
func Update(path string, perm fs.FileMode, change func(old []byte, there bool) ([]byte, error)) error {
	return update(kernel{}, path, perm, change)
}

// Remove unlinks the file path and syncs its folder. A file that is not there
// is no error; a folder is, even an empty one.
func Remove(path string) error {
	return remove(kernel{}, path)
}

// Pending is the name under which the new content of path is written.
func Pending(path string) string {
	dir, base := filepath.Split(path)
	return dir + "." + base + ".new"
}

// file is what is done to the file being written.
type file interface {
	io.Writer
	Truncate(size int64) error
	Chmod(mode fs.FileMode) error
	Chown(uid, gid int) error
	Stat() (fs.FileInfo, error)
	Sync() error
	Close() error
}

// system is every step that can fail, so that tests make each one fail.
type system interface {
	Open(path string, perm fs.FileMode) (file, error) // to write, created, locked
	Rename(from, to string) error
	Remove(path string) error
	SyncDir(path string) error
}

func update(sys system, path string, perm fs.FileMode, change func([]byte, bool) ([]byte, error)) error {
	path, err := follow(path)
	if err != nil {
		return err
	}
	f, err := sys.Open(Pending(path), perm)
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	// Closing gives the lock away, so it is the last thing.
	defer f.Close()

	err = func() error {
		old, info, err := read(path)
		if err != nil {
			return err
		}
		data, err := change(old, info != nil)
		if err != nil {
			return err
		}
		if info != nil && bytes.Equal(old, data) {
			return errSame
		}
		if err := fill(f, data, info, perm); err != nil {
			return err
		}
		return sys.Rename(Pending(path), path)
	}()
	if err != nil {
		// What stays behind is overwritten by the next change: only tidiness.
		_ = sys.Remove(Pending(path))
		if errors.Is(err, errSame) {
			return nil
		}
		return fmt.Errorf("replace %s: %w", path, err)
	}
	if err := sys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

// fill brings f to data, to the mode and owner of info or to perm, and to the
// flash.
func fill(f file, data []byte, info fs.FileInfo, perm fs.FileMode) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	if info != nil {
		perm = info.Mode().Perm()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
				return err
			}
		}
	}
	// Before the content: a leftover may have a mode that shows too much.
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// read returns the content of path and what it is; info is nil when there is
// no such file.
func read(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, errors.New("not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > MaxBytes {
		return nil, nil, ErrTooLarge
	}
	return data, info, nil
}

func remove(sys system, path string) error {
	err := sys.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	if err := sys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// follow returns where a symbolic link leads, and any other path as it is.
func follow(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	return filepath.EvalSymlinks(path)
}
