package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestWrite(t *testing.T) {
	tests := []struct {
		name     string
		before   string // "" for no file
		mode     fs.FileMode
		leftover string
		perm     fs.FileMode
		want     fs.FileMode
	}{
		{name: "new file", perm: 0o644, want: 0o644},
		{name: "new private file", perm: 0o600, want: 0o600},
		{name: "mode kept", before: "old", mode: 0o640, perm: 0o600, want: 0o640},
		{name: "shorter than a leftover", before: "old", mode: 0o600, leftover: strings.Repeat("torn", 4096), perm: 0o644, want: 0o600},
		{name: "leftover without a file", leftover: "torn", perm: 0o600, want: 0o600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "radio.conf")
			if tt.before != "" {
				put(t, path, tt.before, tt.mode)
			}
			if tt.leftover != "" {
				put(t, Pending(path), tt.leftover, 0o644)
			}
			if err := Write(path, []byte("new\n"), tt.perm); err != nil {
				t.Fatal(err)
			}
			if got := get(t, path); got != "new\n" {
				t.Errorf("content = %q, want %q", got, "new\n")
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != tt.want {
				t.Errorf("mode = %v, want %v", info.Mode().Perm(), tt.want)
			}
			names(t, dir, "radio.conf")
		})
	}
}

func TestWriteKeepsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old", 0o600)
	if err := os.Chown(path, 12, 34); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	if err := Write(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Uid != 12 || st.Gid != 34 {
		t.Errorf("owner = %d:%d, want 12:34", st.Uid, st.Gid)
	}
}

func TestWriteFollowsLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	link := filepath.Join(dir, "link")
	put(t, target, "old", 0o600)
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(t, target); got != "new" {
		t.Errorf("target = %q, want %q", got, "new")
	}
	if to, err := os.Readlink(link); err != nil || to != "target" {
		t.Errorf("link leads to %q, %v; want it kept", to, err)
	}
}

func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	err := Update(path, 0o600, func(old []byte, there bool) ([]byte, error) {
		if old != nil || there {
			t.Errorf("first change got %q, %v; want nothing", old, there)
		}
		return []byte("one"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	refusal := errors.New("refused")
	err = Update(path, 0o600, func(old []byte, there bool) ([]byte, error) {
		if string(old) != "one" || !there {
			t.Errorf("second change got %q, %v; want %q, true", old, there, "one")
		}
		return []byte("two"), refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("error = %v, want the change's", err)
	}
	if got := get(t, path); got != "one" {
		t.Errorf("content after a refused change = %q, want %q", got, "one")
	}
	names(t, dir, "f")
}

// An unchanged file is not written: flash wears.
func TestUpdateUnchanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "same", 0o600)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	sys := &failing{}
	if err := update(sys, path, 0o600, func(old []byte, _ bool) ([]byte, error) { return bytes.Clone(old), nil }); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) {
		t.Error("the file was replaced although nothing changed")
	}
	names(t, filepath.Dir(path), "f")
}

func TestUpdateTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, strings.Repeat("x", MaxBytes+1), 0o600)
	err := Write(path, []byte("new"), 0o600)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("error = %v, want ErrTooLarge", err)
	}
}

// Whatever step fails, the old content or the new one is there, whole, and the
// next write succeeds.
func TestWriteFailures(t *testing.T) {
	steps := []struct {
		step string
		want string // content afterwards
	}{
		{"open", "old"},
		{"truncate", "old"},
		{"write", "old"},
		{"short write", "old"},
		{"chown", "old"},
		{"chmod", "old"},
		{"sync", "old"},
		{"rename", "old"},
		{"syncdir", "new"}, // renamed, but not known to be on flash
	}
	for _, tidy := range []bool{true, false} {
		for _, tt := range steps {
			t.Run(fmt.Sprintf("%s tidy=%v", tt.step, tidy), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "f")
				put(t, path, "old", 0o600)
				sys := &failing{step: tt.step, tidy: tidy}
				err := update(sys, path, 0o600, func([]byte, bool) ([]byte, error) { return []byte("new"), nil })
				if !errors.Is(err, errInjected) {
					t.Fatalf("error = %v, want the injected one", err)
				}
				if !strings.Contains(err.Error(), path) {
					t.Errorf("error %q does not name the file", err)
				}
				if got := get(t, path); got != tt.want {
					t.Errorf("content = %q, want %q", got, tt.want)
				}
				if err := Write(path, []byte("after"), 0o600); err != nil {
					t.Fatalf("the next write: %v", err)
				}
				if got := get(t, path); got != "after" {
					t.Errorf("content after the next write = %q, want %q", got, "after")
				}
				names(t, dir, "f")
			})
		}
	}
}

// Steps are in the order that a power cut needs: content before name, name
// before folder.
func TestOrder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	put(t, path, "old", 0o600)
	sys := &failing{}
	if err := update(sys, path, 0o600, func([]byte, bool) ([]byte, error) { return []byte("new"), nil }); err != nil {
		t.Fatal(err)
	}
	const want = "open truncate chown chmod write sync rename syncdir"
	if got := strings.Join(sys.done, " "); got != want {
		t.Errorf("steps = %s, want %s", got, want)
	}
}

// Writers that read, change and write take turns: no change is lost.
func TestConcurrentUpdates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	const writers, rounds = 4, 25
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range rounds {
				err := Update(path, 0o600, func(old []byte, _ bool) ([]byte, error) {
					return append(bytes.Clone(old), 'x'), nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := len(get(t, path)); got != writers*rounds {
		t.Errorf("length = %d, want %d", got, writers*rounds)
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "x", 0o600)
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	names(t, dir)
	if err := Remove(path); err != nil {
		t.Errorf("removing a file that is not there: %v", err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Remove(path); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("removing an empty folder: %v, want EISDIR", err)
	}
	names(t, dir, "f")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"remove", "syncdir"} {
		put(t, path, "x", 0o600)
		if err := remove(&failing{step: step}, path); !errors.Is(err, errInjected) {
			t.Errorf("%s: error = %v, want the injected one", step, err)
		}
	}
}

var errInjected = errors.New("injected")

// failing is the real system with one step that fails.
type failing struct {
	step string
	tidy bool // the temporary file can be removed after the failure
	done []string
}

func (s *failing) at(step string) error {
	s.done = append(s.done, step)
	if s.step == step {
		return errInjected
	}
	return nil
}

func (s *failing) Open(path string, perm fs.FileMode) (file, error) {
	if err := s.at("open"); err != nil {
		return nil, err
	}
	f, err := kernel{}.Open(path, perm)
	if err != nil {
		return nil, err
	}
	return &failingFile{file: f, sys: s}, nil
}

func (s *failing) Rename(from, to string) error {
	if err := s.at("rename"); err != nil {
		return err
	}
	return kernel{}.Rename(from, to)
}

func (s *failing) Remove(path string) error {
	if s.step == "remove" || s.step != "" && !s.tidy && s.step != "syncdir" {
		return errInjected
	}
	return kernel{}.Remove(path)
}

func (s *failing) SyncDir(path string) error {
	if err := s.at("syncdir"); err != nil {
		return err
	}
	return kernel{}.SyncDir(path)
}

type failingFile struct {
	file
	sys *failing
}

func (f *failingFile) Truncate(n int64) error {
	if err := f.sys.at("truncate"); err != nil {
		return err
	}
	return f.file.Truncate(n)
}

func (f *failingFile) Write(p []byte) (int, error) {
	if err := f.sys.at("write"); err != nil {
		return 0, err
	}
	if f.sys.step == "short write" {
		n, err := f.file.Write(p[:1])
		return n, errors.Join(errInjected, err)
	}
	return f.file.Write(p)
}

func (f *failingFile) Chown(uid, gid int) error {
	if err := f.sys.at("chown"); err != nil {
		return err
	}
	return f.file.Chown(uid, gid)
}

func (f *failingFile) Chmod(m fs.FileMode) error {
	if err := f.sys.at("chmod"); err != nil {
		return err
	}
	return f.file.Chmod(m)
}

func (f *failingFile) Sync() error {
	if err := f.sys.at("sync"); err != nil {
		return err
	}
	return f.file.Sync()
}

func put(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names fails unless dir holds exactly want.
func names(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("folder holds %q, want %q", got, want)
	}
}
