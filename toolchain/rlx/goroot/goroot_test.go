package goroot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/toolchain/rlx/edits"
	"gwinit/toolchain/rlx/goroot"
)

// The edits fit the installed Go, and a second call finds what the first made.
func TestReady(t *testing.T) {
	t.Parallel()
	first, err := goroot.Ready(t.Context(), goroot.Options{Say: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	second, err := goroot.Ready(t.Context(), goroot.Options{Say: func(format string, _ ...any) { t.Errorf("a second call did work: "+format, "") }})
	if err != nil || second != first {
		t.Errorf("second call: %s, %v, want %s", second, err, first)
	}
	tools, err := os.ReadFile(filepath.Join(first, "rlx.ready"))
	if err != nil || len(tools) == 0 {
		t.Fatalf("the key of the tools: %q, %v", tools, err)
	}
	said, err := goroot.Command(t.Context(), first, "tool", "compile", "-V=full").CombinedOutput()
	if want := "rlx:" + string(tools); err != nil || !strings.Contains(string(said), want) {
		t.Errorf("the compiler says %q (%v), want %q in it", said, err, want)
	}
}

func TestAnchorsThatAreGone(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, file := range edits.Files(edits.Subjects()) {
		name := filepath.Join(base, "src", filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("package other\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "VERSION"), []byte("go1.99\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := goroot.Ready(t.Context(), goroot.Options{Base: base, Cache: t.TempDir()})
	first := edits.Files(edits.Subjects())[0]
	if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), "anchor") {
		t.Errorf("error %v, want one that names the anchor and %s", err, first)
	}
	if _, err := goroot.Ready(t.Context(), goroot.Options{Base: base, Without: []string{"nothing of that name"}}); err == nil || !strings.Contains(err.Error(), "nothing of that name") {
		t.Errorf("an unknown name to leave out: %v", err)
	}
}
