package squashfs_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/rootfs/squashfs"
)

// What unsquashfs finds is what was there, and a second image is the same.
func TestMake(t *testing.T) {
	t.Parallel()
	gw := bytes.Repeat([]byte("instructions "), 10_000)
	lay := func() string {
		dir := t.TempDir()
		err := errors.Join(
			os.Mkdir(filepath.Join(dir, "bin"), 0o755),
			os.Mkdir(filepath.Join(dir, "dev"), 0o755),
			os.Mkdir(filepath.Join(dir, "root"), 0o700),
			os.WriteFile(filepath.Join(dir, "bin/gw"), gw, 0o755),
			os.WriteFile(filepath.Join(dir, "bin/with space"), []byte("tail"), 0o640),
			os.Symlink("gw", filepath.Join(dir, "bin/ls")),
			os.Symlink("/run/hosts", filepath.Join(dir, "hosts")),
			os.Chmod(dir, 0o755))
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	nodes := []string{"nod /dev/console 0600 0 0 c 5 1"}
	image, err := squashfs.Make(lay(), nodes, 16<<10)
	if err != nil {
		t.Fatal(err)
	}
	again, err := squashfs.Make(lay(), nodes, 16<<10)
	if err != nil || !bytes.Equal(again, image) {
		t.Errorf("a second image is another one (%v)", err)
	}
	name := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(name, image, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unsquashfs", "-lln", "-UTC", name).CombinedOutput()
	if err != nil {
		t.Fatalf("unsquashfs (of squashfs-tools): %v\n%s", err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if what, name, ok := strings.Cut(strings.TrimSpace(line), " squashfs-root"); ok {
			f := strings.Fields(what)
			if f[0][0] == 'd' {
				f[2] = "-" // a listing's length
			}
			got[name] = strings.Join(f, " ")
		}
	}
	want := map[string]string{
		"":                     "drwxr-xr-x 0/0 - 1970-01-01 00:00",
		"/bin":                 "drwxr-xr-x 0/0 - 1970-01-01 00:00",
		"/bin/gw":              "-rwxr-xr-x 0/0 130000 1970-01-01 00:00",
		"/bin/with space":      "-rw-r----- 0/0 4 1970-01-01 00:00",
		"/bin/ls -> gw":        "lrwxrwxrwx 0/0 2 1970-01-01 00:00",
		"/dev":                 "drwxr-xr-x 0/0 - 1970-01-01 00:00",
		"/dev/console":         "crw------- 0/0 5, 1 1970-01-01 00:00",
		"/hosts -> /run/hosts": "lrwxrwxrwx 0/0 10 1970-01-01 00:00",
		"/root":                "drwx------ 0/0 - 1970-01-01 00:00",
	}
	if !maps.Equal(got, want) {
		t.Errorf("unsquashfs lists\n%q, want\n%q", got, want)
	}
	cat, err := exec.Command("unsquashfs", "-cat", name, "bin/gw").Output()
	if err != nil || !bytes.Equal(cat, gw) {
		t.Errorf("bin/gw: %d bytes, %v, want the %d that were packed", len(cat), err, len(gw))
	}
	super, err := exec.Command("unsquashfs", "-s", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{"Thu Jan  1 00:00:00 1970", "Compression xz", "Block size 16384", "Number of fragments 0", "not exportable", "Xattrs are not stored"} {
		if !strings.Contains(string(super), say) {
			t.Errorf("the superblock does not say %q:\n%s", say, super)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	if _, err := squashfs.Make(filepath.Join(t.TempDir(), "none"), nil, squashfs.Block); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	for name, tt := range map[string]struct {
		line  string
		block int
	}{"a line": {"nod /null", squashfs.Block}, "a block": {"", 5000}} {
		if _, err := squashfs.Make(t.TempDir(), []string{tt.line}, tt.block); err == nil || !strings.Contains(err.Error(), "gensquashfs: ") {
			t.Errorf("%s that is wrong: %v", name, err)
		}
	}
}
