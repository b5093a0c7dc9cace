package seed_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/seed"
	"gwinit/internal/seed/seedtest"
)

// box makes a root; content nil is no seed.
func box(t *testing.T, content []byte, mode os.FileMode) (root, path string) {
	t.Helper()
	root = t.TempDir()
	path = filepath.Join(root, seed.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if content != nil {
		if err := os.WriteFile(path, content, mode); err != nil {
			t.Fatal(err)
		}
	}
	return root, path
}

func bytesOf(n byte, count int) []byte { return bytes.Repeat([]byte{n}, count) }

func TestLoad(t *testing.T) {
	old := bytesOf('o', 32)
	for _, tt := range []struct {
		name      string
		content   []byte
		mode      os.FileMode
		kernel    *seedtest.Kernel
		says      string
		credited  []byte
		mixed     []byte
		remaining []byte // nil: no file
	}{
		{"none", nil, 0, &seedtest.Kernel{}, "", nil, nil, nil},
		{"counted and replaced", old, 0o600, &seedtest.Kernel{}, "entropy: saved seed counted", old, nil, bytesOf(1, 32)},
		{"larger", bytesOf('l', 512), 0o600, &seedtest.Kernel{}, "entropy: saved seed counted", bytesOf('l', 512), nil, bytesOf(1, 32)},
		{"far too large", bytesOf('l', 4096), 0o600, &seedtest.Kernel{}, "entropy: saved seed counted", bytesOf('l', 512), nil, bytesOf(1, 32)},
		{"not needed", old, 0o600, &seedtest.Kernel{Bits: 256}, "mixed in and kept", nil, old, old},
		{"torn", old[:31], 0o600, &seedtest.Kernel{}, "31 bytes are too few", nil, old[:31], old[:31]},
		{"empty", []byte{}, 0o600, &seedtest.Kernel{}, "0 bytes are too few", nil, []byte{}, []byte{}},
		{"others could read it", old, 0o640, &seedtest.Kernel{}, "chmod 600", nil, old, old},
		{"the kernel refuses it", old, 0o600, &seedtest.Kernel{Fail: true}, "not permitted", nil, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, path := box(t, tt.content, tt.mode)
			k := tt.kernel
			// INV 6, and the order of it all: gone before it counts.
			k.OnCredit = func() {
				if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("counted while it is still there (%v)", err)
				}
			}
			says := seed.Load(root, k)
			if !strings.Contains(says, tt.says) || tt.says == "" && says != "" {
				t.Errorf("says %q, want %q", says, tt.says)
			}
			if got := bytes.Join(k.Credited, nil); !bytes.Equal(got, tt.credited) {
				t.Errorf("counted %x", got)
			}
			if got := bytes.Join(k.Mixed, nil); !bytes.Equal(got, tt.mixed) {
				t.Errorf("mixed %x", got)
			}
			got, err := os.ReadFile(path)
			if (err != nil) != (tt.remaining == nil) || !bytes.Equal(got, tt.remaining) {
				t.Errorf("the file holds %x, %v; want %x", got, err, tt.remaining)
			}
			if info, err := os.Stat(path); tt.credited != nil && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
			}
		})
	}
}

// A seed that stays is never counted: it would be, again, at the next boot.
func TestLoadWhatCannotBeRemoved(t *testing.T) {
	root, path := box(t, nil, 0)
	// What unlink(2) refuses whoever asks: an immutable file would need
	// ioctls that not every file system has, so a folder's refusal is had by
	// a name that leads elsewhere.
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	k := &seedtest.Kernel{}
	if says := seed.Load(root, k); !strings.Contains(says, "not a regular file") || len(k.Credited) != 0 {
		t.Errorf("%q, counted %x", says, k.Credited)
	}
}

func TestSave(t *testing.T) {
	root, path := box(t, bytesOf('o', 32), 0o644)
	k := &seedtest.Kernel{}
	if err := seed.Save(root, k); !errors.Is(err, seed.ErrNotReady) {
		t.Errorf("without entropy: %v", err)
	}
	if b, err := os.ReadFile(path); string(b) != strings.Repeat("o", 32) {
		t.Errorf("the old seed is %q, %v", b, err)
	}
	k.Bits = 256
	if err := seed.Save(root, k); err != nil || !seed.Exists(root) {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	if err != nil || !bytes.Equal(b, bytesOf(1, 32)) || info.Mode().Perm() != 0o600 {
		t.Errorf("%x, %v, mode %v", b, err, info.Mode())
	}
	if err := seed.Save(t.TempDir(), k); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /userdata: %v", err)
	}
}

// The machine's own generator takes a mix and is ready; nothing is credited.
func TestSystem(t *testing.T) {
	var k seed.System
	var a, b [32]byte
	if err := errors.Join(k.Mix([]byte("mixed")), k.Random(a[:]), k.Random(b[:])); err != nil || a == b {
		t.Errorf("%v; %x, %x", err, a, b)
	}
}
