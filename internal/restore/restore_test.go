//go:build linux

package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gwinit/internal/factoryreset"
)

// fill makes a /userdata below a new root.
func fill(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, userdata), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p := filepath.Join(root, userdata, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// tree is what is there, but for a stage.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	dir := filepath.Join(root, userdata)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".restore":
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		b, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func same(a, b map[string]string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

var before = map[string]string{
	"etc/radio.conf": "old radio", "etc/eth0.conf": "old address", "etc/mac_address": "old MAC", "etc/dropbear/key": "old key",
	"etc/random-seed": "seed", "etc/init.d/S99": "script", "ssh/authorized_keys": "old user", "netwatch/budget": "3", "thread/0_1.data": "old network",
}

// restored are the files of a backup, and after what they make of before.
var (
	restored = map[string]string{"etc/radio.conf": "radio", "etc/dropbear/key": "key", "etc/passwd": "root", "thread/0_2.data": "network"}
	after    = map[string]string{
		"etc/radio.conf": "radio", "etc/dropbear/key": "key", "etc/passwd": "root", "thread/0_2.data": "network",
		"etc/mac_address": "old MAC", "etc/random-seed": "seed", "etc/init.d/S99": "script", "ssh/authorized_keys": "old user", "netwatch/budget": "3",
	}
)

func prepare(t *testing.T, root string) {
	t.Helper()
	s, err := Begin(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range restored {
		if err := s.Put(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := Leftover(root, s.names)
	if want := []string{"etc/eth0.conf", "thread/0_1.data"}; err != nil || !slices.Equal(gone, want) {
		t.Errorf("left over %q, %v; want %q", gone, err, want)
	}
	if err := errors.Join(s.Commit(), s.Drop()); err != nil {
		t.Fatal(err)
	}
}

func TestRestore(t *testing.T) {
	root := fill(t, before)
	if text := Carry(root); text != "" {
		t.Errorf("without a wish: %s", text)
	}
	prepare(t, root)
	if got := tree(t, root); !same(got, before) {
		t.Errorf("before the boot: %q", got)
	}
	if text, want := Carry(root), "restore: 4 files put back, 2 removed"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := tree(t, root); !same(got, after) {
		t.Errorf("got  %q\nwant %q", got, after)
	}
	if _, err := os.Lstat(filepath.Join(root, stage)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the stage is still there: %v", err)
	}
	if info, err := os.Stat(filepath.Join(root, userdata, "etc/passwd")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text := Carry(root); text != "" {
		t.Errorf("again: %s", text)
	}
}

// cutAt is a power cut before a step of Carry.
type cutAt struct{ left *int }

var errCut = errors.New("power cut")

func (c cutAt) step() {
	if *c.left--; *c.left < 0 {
		panic(errCut)
	}
}

func (c cutAt) Rename(from, to string) error { c.step(); return kernel{}.Rename(from, to) }
func (c cutAt) Remove(name string) error     { c.step(); return kernel{}.Remove(name) }

// Whenever the power goes while it is carried out, the boot after it ends in what
// is wanted; the wish goes last.
func TestPowerCuts(t *testing.T) {
	for n := 0; ; n++ {
		root := fill(t, before)
		prepare(t, root)
		left, cut := n, false
		func() {
			defer func() {
				if p := recover(); p != nil && p != errCut {
					panic(p)
				} else if p != nil {
					cut = true
				}
			}()
			carry(root, cutAt{&left})
		}()
		if !cut {
			if n != 4+2+1 {
				t.Errorf("%d steps, want 7", n)
			}
			return
		}
		if text := Carry(root); strings.Contains(text, "NOT DONE") {
			t.Errorf("cut before step %d: %s", n, text)
		}
		if got := tree(t, root); !same(got, after) {
			t.Errorf("cut before step %d:\n%q\nwant\n%q", n, got, after)
		}
	}
}

// A cut before the wish is there leaves what was.
func TestUnfinished(t *testing.T) {
	root := fill(t, before)
	s, err := Begin(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put("etc/radio.conf", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(root); !errors.Is(err, ErrBusy) {
		t.Errorf("two at a time: %v", err)
	}
	if err := s.lock.Close(); err != nil { // as a dead process
		t.Fatal(err)
	}
	if text, want := Carry(root), "restore: an unfinished one was dropped; nothing has changed"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := tree(t, root); !same(got, before) {
		t.Errorf("got %q", got)
	}
}

// One that waits goes on waiting while another is prepared, until that takes its
// place.
func TestAfterAnother(t *testing.T) {
	root := fill(t, before)
	prepare(t, root)
	begin := func() *Stage {
		s, err := Begin(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put("etc/radio.conf", []byte("third"), 0o600); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err := begin().Drop(); err != nil {
		t.Fatal(err)
	}
	s := begin()
	if err := s.lock.Close(); err != nil { // as a dead process
		t.Fatal(err)
	}
	if text, want := Carry(root), "restore: 4 files put back, 2 removed"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := tree(t, root); !same(got, after) {
		t.Errorf("got  %q\nwant %q", got, after)
	}
	second := begin()
	if err := errors.Join(second.Commit(), second.Drop()); err != nil {
		t.Fatal(err)
	}
	last := begin()
	if err := errors.Join(last.Put("etc/eth0.conf", []byte("third"), 0o600), last.Commit(), last.Drop()); err != nil {
		t.Fatal(err)
	}
	if text, want := Carry(root), "restore: 2 files put back, 3 removed"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	if got := tree(t, root); got["etc/radio.conf"] != "third" || got["etc/eth0.conf"] != "third" || got["etc/passwd"] != "" {
		t.Errorf("got %q", got)
	}
	if text := Carry(root); text != "" {
		t.Errorf("again: %s", text)
	}
}

func TestRefused(t *testing.T) {
	if _, err := Begin(t.TempDir()); !errors.Is(err, ErrNotWritable) {
		t.Errorf("without /userdata: %v", err)
	}
	root := fill(t, before)
	if err := factoryreset.Request(root); err != nil {
		t.Fatal(err)
	}
	if _, err := Begin(root); !errors.Is(err, ErrReset) {
		t.Errorf("before a factory reset: %v", err)
	}
}

// A factory reset that was asked for afterwards takes a restore with it.
func TestFactoryResetAfterwards(t *testing.T) {
	root := fill(t, before)
	prepare(t, root)
	if err := factoryreset.Request(root); err != nil {
		t.Fatal(err)
	}
	factoryreset.Carry(root)
	if text := Carry(root); text != "" {
		t.Errorf("%s", text)
	}
	if got := tree(t, root); got["etc/passwd"] != "" || got["thread/0_2.data"] != "" {
		t.Errorf("got %q", got)
	}
}

// What cannot be put in its place is told, and the wish goes all the same.
func TestNotDone(t *testing.T) {
	root := fill(t, map[string]string{"etc/radio.conf/a-folder": "", "etc/eth0.conf": "x"})
	prepareOnly := func() {
		s, err := Begin(root)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Put("etc/radio.conf", []byte("new"), 0o600), s.Put("etc/leds.conf", []byte("x"), 0o600), s.Commit(), s.Drop()); err != nil {
			t.Fatal(err)
		}
	}
	prepareOnly()
	text := Carry(root)
	if !strings.Contains(text, "NOT DONE") || !strings.Contains(text, "radio.conf") {
		t.Errorf("%s", text)
	}
	if text := Carry(root); text != "" {
		t.Errorf("at each boot: %s", text)
	}
	if got := tree(t, root); got["etc/leds.conf"] != "x" {
		t.Errorf("got %q", got)
	}
}

func TestScope(t *testing.T) {
	for name, want := range map[string]bool{
		"etc/radio.conf": true, "etc/dropbear/dropbear_ed25519_host_key": true, "etc/wireguard/wg0.conf": true, "etc/a-later-feature.conf": true,
		"ssh/authorized_keys": true, "thread/0_1.data": true, "etc/passwd": true, "etc/mac_address": true,
		"etc": false, "etc/": false, "etc/random-seed": false, "etc/clock": false, "etc/init.d/S99x": false, "etc/group": false,
		"etc/.radio.conf.new": false, "etc/../ssh/x": false, "../etc/x": false, "/etc/x": false, "etc//x": false, "etc/./x": false,
		"usr/bin/x": false, "netwatch/budget": false, ".restore/ready": false, "": false, "etc/a\nb": false, "etc/a b": false, `etc\x`: false, "etc/a\\b": false,
		"etc/a/b/c": true, "etc/a/b/c/d": false, "etc/" + strings.Repeat("x", maxName): false, "etc/x\x00": false, "etc/\xff": false,
	} {
		if InScope(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestFiles(t *testing.T) {
	root := fill(t, before)
	if err := os.Symlink("/etc/passwd", filepath.Join(root, userdata, "etc/passwd")); err != nil {
		t.Fatal(err)
	}
	names, others, err := Files(root)
	want := []string{"etc/dropbear/key", "etc/eth0.conf", "etc/mac_address", "etc/radio.conf", "ssh/authorized_keys", "thread/0_1.data"}
	if err != nil || !slices.Equal(names, want) || !slices.Equal(others, []string{"etc/passwd"}) {
		t.Errorf("%q, %q, %v", names, others, err)
	}
	if names, others, err := Files(t.TempDir()); err != nil || len(names)+len(others) > 0 {
		t.Errorf("of nothing: %q, %q, %v", names, others, err)
	}
}
