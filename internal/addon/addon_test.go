package addon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// box has an add-on that may run.
func box(t *testing.T) (root, path string) {
	t.Helper()
	root = t.TempDir()
	path = filepath.Join(root, Dir, "tool")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, "abc", 0o755)
	// From FIPS 180-2, B.1.
	write(t, path+".sha256", "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD  tool\n", 0o644)
	return root, path
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	root, path := box(t)
	if got, err := Check(root, "tool"); got != path || err != nil {
		t.Errorf("Check = %q, %v; want %q", got, err, path)
	}
	if _, err := Check(root, "other"); !errors.Is(err, ErrAbsent) || !strings.Contains(err.Error(), "copy other and other.sha256 into /userdata/system/addons") {
		t.Errorf("one that is not there: %v", err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, path string)
		want  string
	}{
		"no checksum":            {func(_ *testing.T, path string) { os.Remove(path + ".sha256") }, "no checksum"},
		"another program":        {func(t *testing.T, path string) { write(t, path, "abd", 0o755) }, "is not what its .sha256 says"},
		"half a program":         {func(t *testing.T, path string) { write(t, path, "ab", 0o755) }, "is not what its .sha256 says"},
		"an empty checksum":      {func(t *testing.T, path string) { write(t, path+".sha256", "", 0o644) }, "is not what its .sha256 says"},
		"a program others write": {func(t *testing.T, path string) { os.Chmod(path, 0o775) }, "chmod go-w /"},
		"a folder others write":  {func(t *testing.T, path string) { os.Chmod(filepath.Dir(path), 0o777) }, "others may write to"},
		"a folder above it":      {func(t *testing.T, path string) { os.Chmod(filepath.Join(path, "../../.."), 0o757) }, "others may write to"},
		"another user's":         {func(t *testing.T, path string) { os.Chown(path, 1234, 0) }, "is not root's"},
		"a link": {func(t *testing.T, path string) {
			os.Rename(path, path+".real")
			os.Symlink("tool.real", path)
		}, "neither a file nor a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, path := box(t)
			tt.spoil(t, path)
			if _, err := Check(root, "tool"); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
