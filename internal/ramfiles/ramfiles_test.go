package ramfiles

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUsed(t *testing.T) {
	root := t.TempDir()
	if n := Used(root); n != 0 {
		t.Errorf("without folders %d KiB", n)
	}
	for name, size := range map[string]int{"tmp/a": 1, "tmp/b/c": 1024, "run/d": 1025, "var/log/e": 0, "userdata/f": 9999} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// As the box has it: it is not counted twice.
	if err := os.Symlink("../tmp", filepath.Join(root, "var/tmp")); err != nil {
		t.Fatal(err)
	}
	if n := Used(root); n != 1+1+2 {
		t.Errorf("%d KiB, want 4", n)
	}
}
