package squashfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	pack "gwinit/rootfs/squashfs"
)

// tree makes a folder with files of many sizes.
func tree(t testing.TB) (dir string, files map[string][]byte) {
	t.Helper()
	dir = t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 700<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	files = map[string][]byte{
		"etc/gw-release":         []byte("1.2.3\n"),
		"etc/empty":              nil,
		"bin/three-blocks":       noise,
		"bin/even":               bytes.Repeat([]byte("abcdefgh"), 64<<10), // two blocks of 256 KiB
		"bin/hole":               append(make([]byte, 600<<10), 1),
		"etc/ssh/deep/er/a file": []byte("x"),
	}
	for i := range 400 { // more names than a metadata block holds
		files[fmt.Sprintf("many/a-rather-long-name-of-a-file-%03d", i)] = fmt.Appendf(nil, "%d", i)
	}
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../bin/even", filepath.Join(dir, "etc/link")); err != nil {
		t.Fatal(err)
	}
	return dir, files
}

// What two packers of squashfs make is read back.
func TestRead(t *testing.T) {
	t.Parallel()
	dir, files := tree(t)
	images := map[string]func() ([]byte, error){
		"as make image packs":     func() ([]byte, error) { return pack.Make(dir, nil, pack.Block) },
		"as today's firmware":     func() ([]byte, error) { return mksquashfs(t, dir, "-comp", "xz", "-b", "256k") },
		"small blocks, gzip":      func() ([]byte, error) { return mksquashfs(t, dir, "-comp", "gzip", "-b", "4k") },
		"nothing compressed":      func() ([]byte, error) { return mksquashfs(t, dir, "-noI", "-noD", "-noF") },
		"everything in fragments": func() ([]byte, error) { return mksquashfs(t, dir, "-comp", "xz", "-always-use-fragments") },
	}
	for name, make := range images {
		t.Run(name, func(t *testing.T) {
			b, err := make()
			if err != nil {
				t.Fatal(err)
			}
			f, info, err := Open(append(b, 0, 0)) // a sum follows
			if err != nil {
				t.Fatal(err)
			}
			if info.Inodes < uint32(len(files)) {
				t.Errorf("%d inodes for %d files", info.Inodes, len(files))
			}
			for name, want := range files {
				got, err := f.ReadFile("/" + name)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, %v; want %d bytes", name, len(got), err, len(want))
				}
			}
			if all, err := f.ReadDir("many"); err != nil || len(all) != 400 || all[7].Name != "a-rather-long-name-of-a-file-007" || all[7].Kind != File {
				t.Errorf("ReadDir: %d names, %v", len(all), err)
			}
			if to, err := f.ReadLink("etc/link"); err != nil || to != "../bin/even" {
				t.Errorf("link: %q, %v", to, err)
			}
			for _, name := range []string{"etc/none", "etc/link", "etc", "etc/empty/x", "../../etc/none"} {
				if _, err := f.ReadFile(name); !errors.Is(err, ErrNotFound) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

func mksquashfs(t testing.TB, dir string, options ...string) ([]byte, error) {
	out := filepath.Join(t.TempDir(), "image")
	said, err := exec.Command("mksquashfs", append([]string{dir, out, "-noappend", "-quiet", "-no-progress", "-all-root", "-nopad"}, options...)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	return os.ReadFile(out)
}

func TestRefused(t *testing.T) {
	t.Parallel()
	dir, _ := tree(t)
	good, err := mksquashfs(t, dir, "-comp", "xz")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(good[:len(good)-1]); !errors.Is(err, ErrFormat) {
		t.Errorf("cut off: %v", err)
	}
	if _, _, err := Open([]byte("hsqs")); !errors.Is(err, ErrFormat) {
		t.Errorf("too short: %v", err)
	}
	lz4 := bytes.Clone(good)
	lz4[20] = 5
	f, _, err := Open(lz4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFile("etc/gw-release"); !errors.Is(err, ErrCompress) {
		t.Errorf("lz4: %v", err)
	}
}

func FuzzFS(f *testing.F) {
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o644); err != nil {
		f.Fatal(err)
	}
	for _, options := range [][]string{{"-comp", "xz"}, {"-noI", "-noD", "-noF"}} {
		b, err := mksquashfs(f, dir, options...)
		if err != nil {
			f.Skip("mksquashfs: ", err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		s, _, err := Open(b)
		if err != nil {
			return
		}
		all, err := s.ReadDir("/")
		if err != nil {
			return
		}
		for _, e := range all {
			_, _ = s.ReadFile(e.Name) // it must come to an end
			_, _ = s.ReadLink(e.Name)
		}
	})
}
