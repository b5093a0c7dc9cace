package boothold

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastWords(t *testing.T) {
	for id := range regs {
		t.Run(id, func(t *testing.T) {
			root, b := box(t, id)
			take := func(what, want string) {
				t.Helper()
				if got, err := TakeWords(root); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v; want %q", what, got, err, want)
				}
			}
			take("after a cold start", "")
			// The others in the page stay as they are, on both sides.
			if err := SetOnce(root, Safe); err != nil {
				t.Fatal(err)
			}
			if _, err := Hold(root, [4]byte{10, 0, 0, 1}, true); err != nil {
				t.Fatal(err)
			}
			before := page(t, root, b.Boothold.Base, b.Boothold.Bytes)
			if err := LeaveWords(root, []byte("running\nolder, and longer")); err != nil {
				t.Fatal(err)
			}
			if err := LeaveWords(root, []byte("running\nlast")); err != nil {
				t.Fatal(err)
			}
			take("left", "running\nlast")
			take("taken", "")
			room := int(b.Boothold.Bytes) - lastOffset - lastHeader - fromTop
			long := strings.Repeat("x", 100) + strings.Repeat("y", room)
			if err := LeaveWords(root, []byte(long)); err != nil {
				t.Fatal(err)
			}
			take("more than there is room for", long[100:])
			after := page(t, root, b.Boothold.Base, b.Boothold.Bytes)
			if !bytes.Equal(before[:lastOffset], after[:lastOffset]) || !bytes.Equal(before[len(before)-fromTop:], after[len(after)-fromTop:]) {
				t.Error("it wrote beside its place")
			}

			// A reset in the middle, or RAM that has lost a bit.
			if err := LeaveWords(root, []byte("running\nlast")); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(filepath.Join(root, "dev/mem"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte("R"), int64(b.Boothold.Base)+lastOffset+lastHeader); err != nil {
				t.Fatal(err)
			}
			f.Close()
			take("damaged", "")
		})
	}
	if err := LeaveWords(t.TempDir(), nil); !errors.Is(err, ErrNoPage) {
		t.Errorf("without a page: %v", err)
	}
	if _, err := TakeWords(t.TempDir()); !errors.Is(err, ErrNoPage) {
		t.Errorf("without a page: %v", err)
	}
}

// page is the memory from base on.
func page(t *testing.T, root string, base, size uint32) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "dev/mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := f.ReadAt(b, int64(base)); err != nil {
		t.Fatal(err)
	}
	return b
}

func FuzzParseWords(f *testing.F) {
	f.Add([]byte("GWLW\x00\x00\x00\x01\xd3\xd9\x94\x46A"))
	f.Add([]byte("GWLW\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if text := parseWords(b); len(text) > len(b) {
			t.Errorf("%d bytes of %d", len(text), len(b))
		}
	})
}
