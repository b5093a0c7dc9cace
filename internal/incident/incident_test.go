package incident

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestKeep(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if got := Numbers(root); got != nil {
		t.Errorf("a fresh box has %v", got)
	}
	for n := range 6 {
		if err := Keep(root, []byte{'a' + byte(n), '\n'}); err != nil {
			t.Fatal(err)
		}
		// What is no incident stays out of it.
		for _, name := range []string{"0.txt", "07.txt", "x.txt", "8"} {
			if err := os.WriteFile(filepath.Join(root, Dir, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := Numbers(root); !slices.Equal(got, []int{3, 4, 5, 6}) {
		t.Errorf("kept are %v", got)
	}
	if b, err := os.ReadFile(Path(root, 6)); string(b) != "f\n" || err != nil {
		t.Errorf("the last is %q, %v", b, err)
	}
	if err := Keep(root, make([]byte, MaxBytes+1)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(Path(root, 7)); err != nil || info.Size() != MaxBytes {
		t.Errorf("a long one: %v, %v", info, err)
	}
}
