//go:build linux

package slots

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// errCut is the power cut: it ends the program that runs, by a panic.
var errCut = errors.New("the power went")

// flash is a folder in memory that loses its power at a step.
type flash struct {
	files  map[string][]byte
	synced map[string]bool
	steps  int // done
	cut    int // the step that is not done; 0 is none
	torn   int // of a file that was not synced, this part in 4 remains
	full   bool
}

func newFlash() *flash { return &flash{files: map[string][]byte{}, synced: map[string]bool{}} }

func (f *flash) step() {
	if f.steps++; f.steps == f.cut {
		panic(errCut)
	}
}

// reboot is what the cut leaves.
func (f *flash) reboot() {
	for name, b := range f.files {
		if !f.synced[name] {
			f.files[name] = b[:len(b)*f.torn/4]
			f.synced[name] = true
		}
	}
	f.cut = 0
}

func (f *flash) read(path string) ([]byte, error) {
	b, ok := f.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

func (f *flash) open(path string) (io.ReadCloser, error) {
	b, err := f.read(path)
	return io.NopCloser(bytes.NewReader(b)), err
}

func (f *flash) create(path string) (file, error) {
	f.step()
	f.files[path], f.synced[path] = nil, false
	return &handle{f, path}, nil
}

func (f *flash) rename(from, to string) error {
	f.step()
	f.files[to], f.synced[to] = f.files[from], f.synced[from]
	delete(f.files, from)
	return nil
}

func (f *flash) remove(path string) error {
	f.step()
	delete(f.files, path)
	return nil
}

var errFull = errors.New("no space left on device")

func (f *flash) replace(path string, b []byte) error {
	f.step()
	if f.full {
		return errFull
	}
	f.files[path], f.synced[path] = bytes.Clone(b), true
	return nil
}

type handle struct {
	f    *flash
	path string
}

func (h *handle) Write(b []byte) (int, error) {
	h.f.step()
	h.f.files[h.path] = append(h.f.files[h.path], b...)
	return len(b), nil
}

func (h *handle) Sync() error {
	h.f.step()
	h.f.synced[h.path] = true
	return nil
}

func (h *handle) Close() error { return nil }

// contents of a version, in several writes.
func contents(version string) string { return strings.Repeat(version+" ", 100) }

func install(s *Store, running, version string) (string, error) {
	text := contents(version)
	return s.Install(running, Info{Version: version, Size: int64(len(text)), SHA256: "00"}, func(w io.Writer) error {
		for chunk := range strings.SplitAfterSeq(text, "50") {
			if _, err := io.WriteString(w, chunk); err != nil {
				return err
			}
		}
		return nil
	})
}

// untilCut runs a program that the power may end.
func untilCut(run func()) (cut bool) {
	defer func() {
		if r := recover(); r != nil {
			if r != errCut { //nolint:errorlint // the very value
				panic(r)
			}
			cut = true
		}
	}()
	run()
	return false
}

// ran is the version that a choice runs, and "" if it is not whole.
func ran(t *testing.T, f *flash, c Choice) string {
	t.Helper()
	if c.Slot == Factory {
		return Factory
	}
	for _, v := range []string{"1", "2", "3"} {
		if string(f.files[c.Path]) == contents(v) {
			return v
		}
	}
	t.Fatalf("%+v runs %d bytes that are no version", c, len(f.files[c.Path]))
	return ""
}

// A life of a gateway with updates, with the power cut at each of its steps, and
// what was not synced torn in four ways: whatever was cut, the next boot runs a
// whole userland, one that was committed or is tried for the first three times;
// and the update can be installed again.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	committed := Factory
	life := func(s *Store) {
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		committed = Factory
		slot, err := install(s, Factory, "1")
		must(err)
		_, err = s.Choose()
		must(err)
		must(s.Commit(slot))
		committed = "1"
		_, err = s.Choose()
		must(err)
		slot, err = install(s, slot, "2")
		must(err)
		_, err = s.Choose() // a trial that ends somehow
		must(err)
		_, err = s.Choose()
		must(err)
		must(s.Commit(slot))
		committed = "2"
		_, err = install(s, slot, "3")
		must(err)
		for range Attempts + 1 {
			_, err = s.Choose()
			must(err)
		}
	}
	whole := newFlash()
	life(newStore("/", whole))
	if whole.steps < 30 {
		t.Fatalf("a life has %d steps", whole.steps)
	}
	for cut := 1; cut <= whole.steps; cut++ {
		for torn := range 5 {
			f := newFlash()
			f.cut, f.torn = cut, torn
			s := newStore("/", f)
			if !untilCut(func() { life(s) }) {
				t.Fatalf("step %d was not reached", cut)
			}
			f.reboot()
			trials := 0
			for boot := range Attempts + 2 {
				c, err := s.Choose()
				if err != nil {
					t.Fatalf("cut at %d, boot %d: %v", cut, boot, err)
				}
				v := ran(t, f, c)
				next := map[string]string{Factory: "1", "1": "2", "2": "3"}[committed]
				switch {
				case c.Trial && v == next:
					trials++
				case c.Trial || v != committed && v != next: // committed just before the cut
					t.Fatalf("cut at %d, boot %d runs %s as %+v, and %s was committed", cut, boot, v, c, committed)
				}
			}
			if trials > Attempts {
				t.Fatalf("cut at %d: %d trials", cut, trials)
			}
			c, _ := s.Choose()
			slot, err := install(s, c.Slot, "1")
			if err != nil {
				t.Fatalf("cut at %d: the next update: %v", cut, err)
			}
			if c, err = s.Choose(); err != nil || c.Slot != slot || !c.Trial || ran(t, f, c) != "1" {
				t.Fatalf("cut at %d: the next update: %+v, %v", cut, c, err)
			}
		}
	}
}

func choose(t *testing.T, s *Store) Choice {
	t.Helper()
	c, err := s.Choose()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTrialsAreCounted(t *testing.T) {
	t.Parallel()
	f := newFlash()
	s := newStore("/", f)
	if c := choose(t, s); c != (Choice{Slot: Factory}) {
		t.Errorf("a new box: %+v", c)
	}
	slot, err := install(s, Factory, "1")
	if err != nil || slot != "a" {
		t.Fatalf("%q, %v", slot, err)
	}
	for i := range Attempts {
		if c := choose(t, s); !c.Trial || c.Slot != "a" || c.Path != "/a" {
			t.Fatalf("boot %d: %+v", i, c)
		}
	}
	c := choose(t, s)
	if c.Slot != Factory || c.Trial || !strings.Contains(c.Why, "3 times") {
		t.Errorf("after three trials: %+v", c)
	}
	st, err := s.State()
	if want := (State{Run: Factory, Reason: "it was started 3 times and never was well for long enough", Failed: "1"}); err != nil || st != want {
		t.Errorf("%+v, %v, want %+v", st, err, want)
	}
	if c := choose(t, s); c != (Choice{Slot: Factory}) {
		t.Errorf("and then: %+v", c)
	}
}

func TestCommitAndBack(t *testing.T) {
	t.Parallel()
	f := newFlash()
	s := newStore("/", f)
	if err := s.Commit("a"); !errors.Is(err, ErrNothing) {
		t.Errorf("a commit of nothing: %v", err)
	}
	if _, err := s.Back(); !errors.Is(err, ErrNothing) {
		t.Errorf("back from the factory's: %v", err)
	}
	update := func(running, version, want string) {
		t.Helper()
		slot, err := install(s, running, version)
		if err != nil || slot != want {
			t.Fatalf("%q, %v, want %q", slot, err, want)
		}
		if c := choose(t, s); !c.Trial || ran(t, f, c) != version {
			t.Fatalf("%+v", c)
		}
		if err := s.Commit(slot); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(slot); err != nil {
			t.Errorf("a second commit: %v", err)
		}
	}
	update(Factory, "1", "a")
	update("a", "2", "b")
	if to, err := s.Back(); err != nil || to != "a" || ran(t, f, choose(t, s)) != "1" {
		t.Errorf("back to %q, %v", to, err)
	}
	update("a", "3", "b")
	// What ran before gives its place to the next, and the one that runs does not.
	if _, err := install(s, "b", "2"); err != nil || string(f.files["/b"]) != contents("3") || string(f.files["/a"]) != contents("2") {
		t.Errorf("%v", err)
	}
	if to, err := s.Back(); err != nil || to != "b" || choose(t, s) != (Choice{Slot: "b", Path: "/b"}) {
		t.Errorf("out of a trial, to %q, %v", to, err)
	}
	if to, err := s.Back(); err != nil || to != Factory || choose(t, s) != (Choice{Slot: Factory}) {
		t.Errorf("where nothing is left, to %q, %v", to, err)
	}
}

// A damaged slot does not run, and the reason is told.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(f *flash){
		"a bit":       func(f *flash) { f.files["/a"][7] ^= 1 },
		"a byte less": func(f *flash) { f.files["/a"] = f.files["/a"][1:] },
		"gone":        func(f *flash) { delete(f.files, "/a") },
		"info gone":   func(f *flash) { delete(f.files, "/a.info") },
		"info torn":   func(f *flash) { f.files["/a.info"] = f.files["/a.info"][:20] },
	} {
		for _, commit := range []bool{false, true} {
			f := newFlash()
			s := newStore("/", f)
			if _, err := install(s, Factory, "1"); err != nil {
				t.Fatal(err)
			}
			if commit {
				if err := s.Commit("a"); err != nil {
					t.Fatal(err)
				}
			}
			damage(f)
			c, err := s.Choose()
			if c.Slot != Factory || c.Trial || c.Why == "" || errors.Is(err, ErrDamaged) != commit {
				t.Errorf("%s, committed %v: %+v, %v", name, commit, c, err)
			}
		}
	}
}

// A state that makes no sense is the factory's, and an update puts it right.
func TestStateWithoutSense(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "RUN", "RUN=c\nATTEMPTS=0\n", "RUN=a\nATTEMPTS=-1\n", "RUN=a\nATTEMPTS=0", "RUN=a\nTRY=a\nATTEMPTS=0\n", "RUN=a\nTRY=factory\nATTEMPTS=0\n", "RUN=a\nBEFORE=x\nATTEMPTS=0\n"} {
		f := newFlash()
		f.files["/state"] = []byte(text)
		s := newStore("/", f)
		if c, err := s.Choose(); c.Slot != Factory || err == nil || c.Why == "" {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
		if err := s.Commit("a"); err == nil {
			t.Errorf("%q: a commit", text)
		}
		if slot, err := install(s, Factory, "1"); err != nil || choose(t, s).Slot != slot {
			t.Errorf("%q: the next update: %v", text, err)
		}
	}
}

// An attempt that cannot be written is not made.
func TestFullFlash(t *testing.T) {
	t.Parallel()
	f := newFlash()
	s := newStore("/", f)
	if _, err := install(s, Factory, "1"); err != nil {
		t.Fatal(err)
	}
	f.full = true
	if c, err := s.Choose(); c.Slot != Factory || c.Trial || !errors.Is(err, errFull) || !strings.Contains(c.Why, "not made") {
		t.Errorf("%+v, %v", c, err)
	}
	f.full = false
	if c := choose(t, s); !c.Trial {
		t.Errorf("with space again: %+v", c)
	}
}

// What the writer refuses leaves what ran, and no part of it.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFlash()
	s := newStore("/", f)
	if _, err := install(s, Factory, "1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit("a"); err != nil {
		t.Fatal(err)
	}
	before := maps.Clone(f.files)
	bad := errors.New("the signature does not fit")
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { _, _ = w.Write(make([]byte, 10)); return bad },
		func(w io.Writer) error { _, err := w.Write(make([]byte, 9)); return err },
	} {
		if _, err := s.Install("a", Info{Version: "2", Size: 10}, write); err == nil {
			t.Error("it was installed")
		}
		for name, b := range f.files {
			if !bytes.Equal(before[name], b) {
				t.Errorf("%s is changed, or new", name)
			}
		}
	}
	if c := choose(t, s); c != (Choice{Slot: "a", Path: "/a"}) {
		t.Errorf("%+v", c)
	}
}

// The same on a real folder.
func TestDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := New(root)
	if c := choose(t, s); c.Slot != Factory {
		t.Fatalf("%+v", c)
	}
	slot, err := install(s, Factory, "1")
	if err != nil {
		t.Fatal(err)
	}
	c := choose(t, s)
	if want := filepath.Join(root, Dir, "a"); slot != "a" || c.Path != want {
		t.Errorf("%+v, want %s", c, want)
	}
	info, err := os.Stat(c.Path)
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := s.Commit("a"); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Info("a"); err != nil || i.Version != "1" || i.Size != 200 || i.SHA256 != "00" {
		t.Errorf("%+v, %v", i, err)
	}
	if err := os.WriteFile(filepath.Join(root, Dir, "state"), bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.State(); err == nil {
		t.Error("a state of a megabyte")
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte("RUN=a\nBEFORE=factory\nTRY=b\nATTEMPTS=2\nREASON=\nFAILED=\n"), []byte("VERSION=1\nSIZE=1\nSHA256=\nCRC=0\n"))
	f.Fuzz(func(t *testing.T, state, info []byte) {
		fl := newFlash()
		fl.files["/state"], fl.files["/a.info"], fl.files["/a"] = state, info, []byte("x")
		c, err := newStore("/", fl).Choose()
		if c.Slot != Factory && (c.Path == "" || fl.files[c.Path] == nil) {
			t.Errorf("%+v, %v", c, err)
		}
		if st, err := newStore("/", fl).State(); err == nil {
			if err := newStore("/", fl).write(st); err != nil {
				t.Error(err)
			}
			if again, err := newStore("/", fl).State(); err != nil || fmt.Sprint(again) != fmt.Sprint(st) {
				t.Errorf("%+v is written and read as %+v, %v", st, again, err)
			}
		}
	})
}
