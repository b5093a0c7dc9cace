//go:build linux

// Package restore puts files of a backup into the place of those on /userdata,
// all of them or none.
//
// They are staged beside (Stage), and swapped in by the next boot (Carry), before
// any service reads one: a restore takes nothing away from what runs. The wish is
// a file that is written when all others are on the flash, and goes when they are
// in their places, so that a power cut at any moment leaves what was, or ends in
// what is wanted.
//
// It also says what of /userdata a backup is about. It reads no archive: package
// backup does.
package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gwinit/internal/atomicfile"
	"gwinit/internal/factoryreset"
)

// Where things are, below the file-system root.
const (
	userdata = "userdata"
	stage    = userdata + "/.restore"
	coming   = stage + "/new"   // of a Stage, as below /userdata
	staged   = stage + "/files" // of a wish
	ready    = stage + "/ready" // the wish: a line for each of them
)

// Names below /userdata that are not like others.
const (
	MACAddress     = "etc/mac_address"     // is the box's, not the settings'
	AuthorizedKeys = "ssh/authorized_keys" // who restores must not be locked out
)

// Limits of what a backup holds.
const (
	MaxFiles = 256
	MaxFile  = atomicfile.MaxBytes
	MaxBytes = 4 << 20
	maxDepth = 4 // folders and the name
	maxName  = 200
)

// InScope tells whether a name, relative to /userdata, is one of the files that a
// backup is about: settings, keys, passwords and the Thread network. It is false
// for a name that is not in its shortest form.
//
// What is left out of etc is of the moment (entropy, the time) or the incumbent
// firmware's (it cannot make group, profile and init.d anew).
func InScope(name string) bool {
	if len(name) > maxName || path.Clean(name) != name || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '\ufffd' }) {
		return false
	}
	parts := strings.Split(name, "/")
	if len(parts) < 2 || len(parts) > maxDepth || slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, ".") }) {
		return false
	}
	switch parts[0] {
	case "ssh", "thread":
		return true
	case "etc":
		return !slices.Contains([]string{"random-seed", "clock", "group", "profile", "init.d"}, parts[1])
	}
	return false
}

// Files lists what is there of it, below root, in order, and what was left out
// because it is no regular file.
func Files(root string) (names, others []string, err error) {
	dir := filepath.Join("/", root, userdata)
	for _, top := range []string{"etc", "ssh", "thread"} {
		err := filepath.WalkDir(filepath.Join(dir, top), func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, p)
			switch {
			case err != nil:
				return err
			case d.IsDir() || !InScope(name):
			case d.Type().IsRegular():
				names = append(names, name)
			default:
				others = append(others, name)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	if len(names) > MaxFiles {
		return nil, nil, fmt.Errorf("%d files of settings and keys are more than the %d that a backup holds", len(names), MaxFiles)
	}
	return names, others, nil
}

// Errors of Begin.
var (
	ErrBusy        = errors.New("another restore is under way")
	ErrReset       = errors.New("a factory reset is due at the next boot: gwctl reboot first")
	ErrNotWritable = errors.New("there is nowhere to keep it; what became of /userdata is in gwctl status")
)

// Stage is a restore that is prepared. It is for one goroutine.
type Stage struct {
	root  string
	lock  *os.File
	names []string
}

// Begin begins one. One that waits for the next boot goes on waiting until Commit
// takes its place. The caller must Drop what it gets.
func Begin(root string) (*Stage, error) {
	if _, err := os.Lstat(filepath.Join("/", root, factoryreset.Path)); err == nil {
		return nil, ErrReset
	}
	dir := filepath.Join("/", root, stage)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist) {
			return nil, ErrNotWritable
		}
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	s := &Stage{root: root, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(ErrBusy, lock.Close())
	}
	err = os.RemoveAll(s.path(coming)) // of one that was cut
	if err == nil {
		err = os.Mkdir(s.path(coming), 0o700)
	}
	if err != nil {
		return nil, errors.Join(err, s.Drop())
	}
	return s, nil
}

func (s *Stage) path(name string) string { return filepath.Join("/", s.root, name) }

// Put stages a file. Of perm the owner's and what others may read counts.
func (s *Stage) Put(name string, data []byte, perm fs.FileMode) error {
	if !InScope(name) {
		return fmt.Errorf("%q is none of the files of a backup", name)
	}
	p := filepath.Join(s.path(coming), name)
	if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(perm&0o755|0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	s.names = append(s.names, name)
	return nil
}

// Leftover lists the files of now that a restore of names removes, since nothing
// takes their place.
func Leftover(root string, names []string) ([]string, error) {
	now, _, err := Files(root)
	return leftover(now, names), err
}

// leftover are those of now that go.
func leftover(now, names []string) []string {
	return slices.DeleteFunc(now, func(n string) bool {
		return n == MACAddress || n == AuthorizedKeys || slices.Contains(names, n)
	})
}

// Commit has the next boot carry it out. A power cut in between leaves what was,
// and no wish.
func (s *Stage) Commit() error {
	err := unix.Syncfs(int(s.lock.Fd()))
	if err == nil {
		err = atomicfile.Remove(s.path(ready))
	}
	if err == nil {
		err = os.RemoveAll(s.path(staged))
	}
	if err == nil {
		err = os.Rename(s.path(coming), s.path(staged))
	}
	if err == nil {
		err = unix.Syncfs(int(s.lock.Fd()))
	}
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path(ready), []byte(strings.Join(s.names, "\n")+"\n"), 0o600)
}

// Drop ends it. What was not committed is removed.
func (s *Stage) Drop() error {
	mine := coming
	if _, err := os.Lstat(s.path(ready)); err != nil {
		mine = stage
	}
	return errors.Join(os.RemoveAll(s.path(mine)), s.lock.Close())
}

// system is every step of Carry that a power cut may come before, so that a test
// has one come.
type system interface {
	Rename(from, to string) error
	Remove(name string) error
}

type kernel struct{}

func (kernel) Rename(from, to string) error { return os.Rename(from, to) }
func (kernel) Remove(name string) error     { return atomicfile.Remove(name) }

// Carry carries a wish out, if there is one, and returns what is to be logged, or
// nothing. It writes flash and may take its time.
func Carry(root string) string { return carry(root, kernel{}) }

func carry(root string, sys system) string {
	at := func(name string) string { return filepath.Join("/", root, name) }
	if _, err := os.Lstat(at(stage)); err != nil {
		return ""
	}
	list, err := os.ReadFile(at(ready))
	if err != nil {
		// It was not finished: what was is what is.
		if err := os.RemoveAll(at(stage)); err != nil {
			return "restore: what was left of an unfinished one stays: " + err.Error()
		}
		return "restore: an unfinished one was dropped; nothing has changed"
	}
	names := slices.DeleteFunc(strings.Split(string(list), "\n"), func(n string) bool { return !InScope(n) })
	var errs []error
	for _, n := range names {
		from, to := at(path.Join(staged, n)), at(path.Join(userdata, n))
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue // before the cut
		}
		err := os.MkdirAll(filepath.Dir(to), 0o700)
		if err == nil {
			err = sys.Rename(from, to)
		}
		errs = append(errs, err)
	}
	now, _, err := Files(root)
	errs = append(errs, err)
	gone := leftover(now, names)
	for _, n := range gone {
		errs = append(errs, sys.Remove(at(path.Join(userdata, n))))
	}
	errs = append(errs, syncAll(at(userdata)))
	// It goes even if something is left, as in a factory reset: a wish that stays
	// would take at each boot what was set since.
	errs = append(errs, sys.Remove(at(ready)), os.RemoveAll(at(stage)))
	text := fmt.Sprintf("restore: %d files put back, %d removed", len(names), len(gone))
	if err := errors.Join(errs...); err != nil {
		text += "; NOT DONE, put it right by hand: " + strings.ReplaceAll(err.Error(), "\n", ", ")
	}
	return text
}

// syncAll brings the file system of dir to the flash.
func syncAll(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}
