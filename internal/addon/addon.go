// Package addon runs programs that do not fit the rootfs: files in
// /userdata/system/addons that somebody put there. One runs only if nobody but
// root can have written it and it is whole: NAME.sha256 beside it is what
// sha256sum(1) prints of it.
//
// That is no signature: who can write to /userdata as root can have anything
// run. It keeps a file out that a broken copy left, or a program of another
// user.
package addon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir is where add-ons are on the box.
const Dir = "/userdata/system/addons"

// ErrAbsent: there is no such file.
var ErrAbsent = errors.New("it is an add-on, which is not there")

// ErrRefused: there is one that does not run.
var ErrRefused = errors.New("the add-on is not run")

// Check returns the path of an add-on that may run. root is where /userdata is
// below, "" on the box. Errors are ErrAbsent and ErrRefused with what to do,
// and those of reading.
func Check(root, name string) (string, error) {
	path := filepath.Join("/", root, Dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: copy %s and %s.sha256 into %s", ErrAbsent, name, name, Dir)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	// Who may write to a folder may put another file there.
	for dir := path; len(dir) >= len(filepath.Join("/", root, "/userdata")); dir = filepath.Dir(dir) {
		if err := rootsOwn(dir); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(path + ".sha256")
	if err != nil {
		return "", fmt.Errorf("%w: no checksum of it: %w; copy %s.sha256 there, too", ErrRefused, err, name)
	}
	want, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, string(want)) {
		return "", fmt.Errorf("%w: %s is not what its .sha256 says: copy both again", ErrRefused, path)
	}
	return path, nil
}

// rootsOwn tells whether only root can have written a file or folder.
func rootsOwn(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() && !info.IsDir():
		return fmt.Errorf("%w: %s is neither a file nor a folder", ErrRefused, path)
	case !ok || st.Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%w: %s is not root's: chown 0:0 %s", ErrRefused, path, path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%w: others may write to %s: chmod go-w %s", ErrRefused, path, path)
	}
	return nil
}

// Exec becomes the add-on, with this process's descriptors and environment. It
// returns only with an error.
func Exec(name string, args ...string) error {
	path, err := Check("", name)
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, append([]string{name}, args...), os.Environ()); err != nil {
		return fmt.Errorf("%w: exec %s: %w; chmod 755 %s, if it is not executable", ErrRefused, path, err, path)
	}
	return nil
}
