//go:build linux

package scp

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
)

// scp runs the command with what a client says, and returns what it hears.
func scp(t testing.TB, says string, args ...string) (heard string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	a := Applet()
	status = a.Execute(context.Background(), applet.IO{In: strings.NewReader(says), Out: &out, Err: &errs}, args)
	return out.String(), status
}

func TestReceive(t *testing.T) {
	for _, tt := range []struct {
		name, flags, says, heard string
		status                   int
		want                     map[string]string
	}{
		{"a file", "-t", "C0600 5 f\nhello\x00", "\x00\x00\x00", 0, map[string]string{"f": "hello"}},
		{"empty", "-t", "C0600 0 f\n\x00", "\x00\x00\x00", 0, map[string]string{"f": ""}},
		{"two, with times", "-tp", "T1000 0 2000 0\nC0600 1 f\na\x00C0644 1 g\nb\x00", "\x00\x00\x00\x00\x00\x00", 0, map[string]string{"f": "a", "g": "b"}},
		{"a tree", "-tr", "D0755 0 d\nC0600 1 f\na\x00D0700 0 e\nE\nE\n", strings.Repeat("\x00", 7), 0, map[string]string{"d/f": "a"}},
		{"a tree without -r", "-t", "D0755 0 d\n", "\x00", 1, nil},
		{"out of the folder", "-tr", "C0600 1 ../f\na\x00", "\x00", 1, nil},
		{"out of the folder by folders", "-tr", "D0755 0 ..\nE\n", "\x00", 1, nil},
		{"no name", "-t", "C0600 1 \na\x00", "\x00", 1, nil},
		{"a path", "-t", "C0600 1 /tmp/f\na\x00", "\x00", 1, nil},
		{"negative", "-t", "C0600 -1 f\n", "\x00", 1, nil},
		{"cut off", "-t", "C0600 5 f\nhel", "\x00\x00", 1, map[string]string{"f": "hel"}},
		{"an end too many", "-tr", "E\n", "\x00", 1, nil},
		{"nonsense", "-t", "hello\n", "\x00", 1, nil},
		{"an empty line", "-t", "\n", "\x00", 1, nil},
		{"a long line", "-t", "C0600 1 " + strings.Repeat("x", 2*maxLine) + "\n", "\x00", 1, nil},
		{"the client's words", "-t", "\x01scp: no such file\n", "\x00", 1, nil},
		{"the client failed", "-t", "C0600 2 f\nab\x01its disk broke\n", "\x00\x00", 1, map[string]string{"f": "ab"}},
		{"nothing", "-t", "", "\x00", 0, nil},
		{"too deep", "-tr", strings.Repeat("D0755 0 d\n", maxDepth+1), strings.Repeat("\x00", maxDepth+1), 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			heard, status := scp(t, tt.says, tt.flags, dir)
			if heard != tt.heard || status != tt.status {
				t.Errorf("heard %q, status %d; want %q, %d", heard, status, tt.heard, tt.status)
			}
			for name, content := range tt.want {
				if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != content || err != nil {
					t.Errorf("%s: %q, %v", name, b, err)
				}
			}
			if names, err := os.ReadDir(parent); err != nil || len(names) != 1 {
				t.Errorf("beside the folder: %v, %v", names, err)
			}
		})
	}
}

func TestReceiveTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if heard, status := scp(t, "T1000 0 2000 0\nC0640 1 x\na\x00", "-t", "-p", path); status != 0 {
		t.Fatalf("%q, %d", heard, status)
	}
	info, err := os.Stat(path)
	if err != nil || info.ModTime().Unix() != 1000 || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v, %v", info.ModTime(), info.Mode(), err)
	}
	// A target that must be a folder.
	if heard, status := scp(t, "", "-t", "-d", path); status != 1 || !strings.Contains(heard, "\x01scp: "+path+": not a folder\n") {
		t.Errorf("%q, %d", heard, status)
	}
	// What cannot be written is said, and the next one is taken.
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	heard, status := scp(t, "C0600 1 d\nC0600 1 e\nb\x00", "-t", dir)
	if want := "\x00\x01scp: open " + dir + "/d: is a directory\n\x00\x00"; heard != want || status != 1 {
		t.Errorf("heard %q, status %d; want %q", heard, status, want)
	}
	if b, err := os.ReadFile(dir + "/e"); string(b) != "b" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestSend(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"d/f": "hello", "d/g": ""} {
		if err := os.MkdirAll(filepath.Join(dir, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		args   []string
		says   string
		heard  string
		status int
	}{
		{"a file", []string{"-f", dir + "/d/f"}, "\x00\x00\x00", "C0640 5 f\nhello\x00", 0},
		{"a tree", []string{"-r", "-f", dir + "/d"}, strings.Repeat("\x00", 7), "D0755 0 d\nC0640 5 f\nhello\x00C0640 0 g\n\x00E\n", 0},
		{"a folder without -r", []string{"-f", dir + "/d"}, "\x00", "\x01scp: " + dir + "/d: a folder, and -r is not given\n", 1},
		{"nothing there", []string{"-f", dir + "/none", dir + "/d/g"}, "\x00\x00\x00", "\x01scp: stat " + dir + "/none: no such file or directory\nC0640 0 g\n\x00", 1},
		{"refused by the client", []string{"-f", dir + "/d/f"}, "\x00\x01no space\n", "C0640 5 f\n", 1},
		{"the client is gone", []string{"-f", dir + "/d/f"}, "\x00", "C0640 5 f\n", 1},
		{"a device", []string{"-f", "/dev/null"}, "\x00", "\x01scp: /dev/null: not a regular file\n", 1},
	} {
		heard, status := scp(t, tt.says, tt.args...)
		if heard != tt.heard || status != tt.status {
			t.Errorf("%s: heard %q, status %d; want %q, %d", tt.name, heard, status, tt.heard, tt.status)
		}
	}
}

func TestCalledByHand(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b:"}, {"-t"}, {"-t", "-f", "x"}, {"-t", "a", "b"}, {"-3", "a", "b"}} {
		if _, status := scp(t, "", args...); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}

func FuzzReceive(f *testing.F) {
	for _, s := range []string{"C0600 5 f\nhello\x00", "D0755 0 d\nC0600 1 f\na\x00E\n", "T1 0 2 0\nC0600 0 ..\n", "\x01words\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		scp(t, string(in), "-tr", dir)
		if names, err := os.ReadDir(parent); err != nil || len(names) != 1 {
			t.Fatalf("beside the folder: %v, %v", names, err)
		}
	})
}
