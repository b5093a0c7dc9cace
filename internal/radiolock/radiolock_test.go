//go:build linux

package radiolock

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func root(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func owner(t *testing.T, root, want string) {
	t.Helper()
	got, err := Look(root)
	if err != nil || got.Name != want {
		t.Errorf("owner %+v, %v; want %q", got, err, want)
	}
}

// INV 5: the lock dies with its owner, whatever the owner has started.
func TestChildrenDoNotHaveIt(t *testing.T) {
	dir := root(t)
	l, err := Acquire(dir, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe() // it ends with this
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	owner(t, dir, "")
	if err := errors.Join(in.Close(), child.Wait()); err != nil {
		t.Error(err)
	}
}

func TestOneOwnerAtATime(t *testing.T) {
	dir := root(t)
	owner(t, dir, "")
	a, err := Acquire(dir, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	owner(t, dir, "bridge")
	_, err = Acquire(dir, "otbr")
	var held *HeldError
	if !errors.As(err, &held) || held.Owner != "bridge" || !errors.Is(err, ErrHeld) {
		t.Errorf("second owner: %v", err)
	}
	owner(t, dir, "bridge")
	if err := a.Release(); err != nil {
		t.Error(err)
	}
	if err := a.Release(); err != nil {
		t.Errorf("second release: %v", err)
	}
	owner(t, dir, "")
	b, err := Acquire(dir, "a radio operation with a longer name")
	if err != nil {
		t.Fatal(err)
	}
	owner(t, dir, "a radio operation with a longer name")
	b.Release()
	c, err := Acquire(dir, "otbr")
	if err != nil {
		t.Fatal(err)
	}
	owner(t, dir, "otbr")
	c.Release()
}

// TestLookingNeverTakes holds the reader's side against the owner's: however
// often somebody looks, an attempt on a free radio succeeds.
func TestLookingNeverTakes(t *testing.T) {
	dir := root(t)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if _, err := Look(dir); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 500 {
		l, err := Acquire(dir, "bridge")
		if err != nil {
			t.Errorf("a free radio: %v", err)
			break
		}
		l.Release()
	}
	close(stop)
	<-done
}

func TestDiesWithItsOwner(t *testing.T) {
	if dir := os.Getenv("RADIOLOCK_TEST_ROOT"); dir != "" {
		if _, err := Acquire(dir, "victim"); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("held\n")
		select {} // until killed
	}
	dir := root(t)
	child := exec.Command(os.Args[0], "-test.run=^TestDiesWithItsOwner$")
	child.Env = append(os.Environ(), "RADIOLOCK_TEST_ROOT="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "held" {
		t.Fatalf("child said %q, %v", line, err)
	}
	owner(t, dir, "victim")
	child.Process.Kill()
	child.Wait()
	owner(t, dir, "")
	l, err := Acquire(dir, "bridge")
	if err != nil {
		t.Fatalf("after the owner was killed: %v", err)
	}
	l.Release()
}

func TestRefusals(t *testing.T) {
	dir := root(t)
	for _, name := range []string{"", "two\nlines", strings.Repeat("x", 65)} {
		if _, err := Acquire(dir, name); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
	if _, err := Acquire(t.TempDir(), "bridge"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no /run: %v", err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, Path)); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(dir, "bridge"); err == nil {
		t.Error("followed a symbolic link")
	}
}

func TestSinceWhenAndWho(t *testing.T) {
	dir := root(t)
	before, err := Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Acquire(dir, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	h, err := Look(dir)
	after, cerr := Monotonic()
	if err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if h.PID != os.Getpid() || h.Held < 0 || h.Held > after-before {
		t.Errorf("holder %+v, want pid %d and at most %v", h, os.Getpid(), after-before)
	}
}

func TestParse(t *testing.T) {
	const now = 20 * time.Second
	// What anybody may find while Acquire writes, or after somebody else did.
	for text, want := range map[string]Holder{
		"":                                {Name: "unknown"},
		"bri":                             {Name: "unknown"},
		"\n5 6\n":                         {Name: "unknown"},
		"bridge\n":                        {Name: "bridge"},
		"bridge\n12":                      {Name: "bridge"},
		"bridge\n-5 7\n":                  {Name: "bridge"},
		"bridge\n9223372036854775807 7\n": {Name: "bridge"},
		"bridge\n5000000000 0\n":          {Name: "bridge"},
		"bridge\n5000000000 77\n":         {Name: "bridge", PID: 77, Held: 15 * time.Second},
		strings.Repeat("x", 65) + "\n":    {Name: "unknown"},
	} {
		if h := parse(text, now); h != want {
			t.Errorf("%q: %+v; want %+v", text, h, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("bridge\n5000000000 77\n", int64(6e9))
	f.Add("", int64(0))
	f.Fuzz(func(t *testing.T, text string, now int64) {
		h := parse(text, time.Duration(now))
		if h.Name == "" || len(h.Name) > maxName || h.Held < 0 || h.PID < 0 || strings.Contains(h.Name, "\n") {
			t.Errorf("%q at %d: %+v", text, now, h)
		}
	})
}
