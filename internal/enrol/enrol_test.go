//go:build linux

package enrol

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func begin(t *testing.T) (root, code string) {
	t.Helper()
	root = t.TempDir()
	if err := Begin(root, bytes.NewReader([]byte{0, 1, 23, 31, 32, 255, 24, 64})); err != nil {
		t.Fatal(err)
	}
	return root, Look(root).Code()
}

func TestCode(t *testing.T) {
	root, code := begin(t)
	if code != "ABZ9-A92A" {
		t.Errorf("code %s", code)
	}
	w := Look(root)
	if !w.Open() || w.Left() > Lasts || w.Left() < Lasts-time.Minute || w.String() != "open" {
		t.Errorf("%v, %v", w, w.Left())
	}
	info, err := os.Stat(filepath.Join(root, file))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, typed := range []string{"ABZ9-A92A", "abz9a92a", " ABZ9 A92A\r\n"} {
		if err := Try(root, typed); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	}
	if err := Begin(root, strings.NewReader("12345678")); !errors.Is(err, ErrMade) {
		t.Errorf("a second code: %v", err)
	}
	if err := Begin(t.TempDir(), strings.NewReader("short")); err == nil {
		t.Error("a code of too little")
	}
}

func TestTries(t *testing.T) {
	root, code := begin(t)
	for range Tries {
		if err := Try(root, "ABZ9-A92B"); !errors.Is(err, ErrWrong) {
			t.Error(err)
		}
	}
	if err := Try(root, code); !errors.Is(err, ErrClosed) {
		t.Errorf("the right one after %d wrong ones: %v", Tries, err)
	}
	if w := Look(root); w.Open() || !strings.Contains(w.String(), "used up") {
		t.Error(w)
	}
}

func TestTimeIsOver(t *testing.T) {
	root, code := begin(t)
	w := Look(root)
	w.until = w.now - 1
	if err := os.WriteFile(filepath.Join(root, file), w.text(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Try(root, code); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if w := Look(root); w.Open() || w.Left() != 0 || !strings.Contains(w.String(), "over") {
		t.Error(w, w.Left())
	}
}

func TestNoCode(t *testing.T) {
	root := t.TempDir()
	if w := Look(root); w.Open() {
		t.Error(w)
	}
	if err := Try(root, ""); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	for _, torn := range []string{"", "\n", "ABZ9A92A", "ABZ9A92A 99999999999999999 ", " 1 1", "ABZ9A92A x 5"} {
		if w := read([]byte(torn)); w.Open() {
			t.Errorf("%q is open", torn)
		}
	}
}

func TestAdd(t *testing.T) {
	root, code := begin(t)
	if !Needed(root) {
		t.Error("a box without keys needs none")
	}
	if err := Add(root, "ssh-ed25519 AAAA one\n"); err != nil {
		t.Fatal(err)
	}
	if err := Try(root, code); !errors.Is(err, ErrClosed) {
		t.Errorf("a second key by the same code: %v", err)
	}
	if err := Begin(root, strings.NewReader("12345678")); !errors.Is(err, ErrMade) {
		t.Errorf("another code in the same boot: %v", err)
	}
	path := filepath.Join(root, keysFile)
	if err := os.WriteFile(path, []byte("# a comment"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !Needed(root) {
		t.Error("a comment is no key")
	}
	if err := Try(root, code); !errors.Is(err, ErrClosed) {
		t.Errorf("the code of this boot comes back when the key is gone: %v", err)
	}
	if err := Add(root, "ssh-ed25519 AAAA two\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "# a comment\nssh-ed25519 AAAA two\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if Needed(root) {
		t.Error("a key is there")
	}
}

// What cannot be read is no reason to let somebody in.
func TestNeededFailsClosed(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, keysFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if Needed(root) {
		t.Error("needed")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("ABZ9A92A 900000000000 5\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := read(b)
		if w.Open() && len(w.code) != codeLen {
			t.Fatal(w)
		}
	})
}

// Three presses of the button let one key in, and for their time only.
func TestPress(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	press := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, pressed), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left := Pressed(root); left != 0 {
		t.Errorf("nobody pressed it: %v", left)
	}
	in := func(d time.Duration) string { return strconv.FormatInt(int64(Uptime()+d), 10) + "\n" }
	for _, text := range []string{"", "\n", "x\n", "-1\n", "99999999999999999999\n", in(-time.Second), in(time.Minute) + "1\n"} {
		press(text)
		if left := Pressed(root); left != 0 {
			t.Errorf("%q: %v", text, left)
		}
		if err := UsePress(root); !errors.Is(err, ErrClosed) {
			t.Errorf("%q: %v", text, err)
		}
	}
	press(in(time.Minute))
	if left := Pressed(root); left > time.Minute || left < 50*time.Second {
		t.Errorf("%v left of a minute", left)
	}
	if err := UsePress(root); err != nil {
		t.Error(err)
	}
	if err := UsePress(root); !errors.Is(err, ErrClosed) || Pressed(root) != 0 {
		t.Errorf("a second key: %v", err)
	}
}

// A key that came in between, by whatever way, ends the code.
func TestKeyEndsTheCode(t *testing.T) {
	root := t.TempDir()
	if err := Begin(root, strings.NewReader("\x00\x01\x02\x03\x04\x05\x06\x07")); err != nil {
		t.Fatal(err)
	}
	code := Look(root).Code()
	path := filepath.Join(root, keysFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("ssh-ed25519 AAAA\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Try(root, code); !errors.Is(err, ErrClosed) {
		t.Errorf("with a key the code gives %v", err)
	}
}
