package jffs2

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// files are laid down and read back.
func files() map[string][]byte {
	return map[string][]byte{
		"etc/eth0.conf":       []byte("IPADDR=192.168.1.88\n"),
		"etc/empty":           nil,
		"ssh/authorized_keys": bytes.Repeat([]byte("ssh-ed25519 AAAA somebody\n"), 500), // several pages
		"usr/bin/program":     pseudoRandom(300 << 10),                                  // several erase blocks
		"zeros":               make([]byte, 10000),
	}
}

func pseudoRandom(n int) []byte {
	b, x := make([]byte, n), uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// mkfs packs as `make image` does, and as today's firmware is.
func mkfs(t testing.TB, options ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files() {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../ssh", filepath.Join(dir, "etc/link")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "image")
	said, err := exec.Command(tool("mkfs.jffs2"), append([]string{"-r", dir, "-o", out, "-b", "-e", "0x10000", "-q", "--pad=0x1FFFFE"}, options...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("mkfs.jffs2: %v\n%s", err, said)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tool is a program of mtd-utils, which an ordinary user's path does not have.
func tool(name string) string {
	if path := filepath.Join("/usr/sbin", name); exec.Command(path, "--version").Run() == nil {
		return path
	}
	return name
}

func check(t *testing.T, b []byte, want map[string][]byte) Image {
	t.Helper()
	i, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]File{}
	for _, f := range i.Files {
		got[f.Name] = f
	}
	for name, data := range want {
		if f := got[name]; f.Unread != "" || !bytes.Equal(f.Data, data) || !f.Regular() {
			t.Errorf("%s: %d bytes, mode %o, %q; want %d bytes", name, len(f.Data), f.Mode, f.Unread, len(data))
		}
	}
	if f := got["etc/link"]; !f.IsLink() || string(f.Data) != "../ssh" {
		t.Errorf("link: %+v", f)
	}
	if i.Bad != 0 {
		t.Errorf("%d bad nodes", i.Bad)
	}
	return i
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{
		"zlib":        {"-n", "--squash", "-x", "rtime", "-x", "lzo"},
		"rtime":       {"-n", "-x", "zlib", "-x", "lzo"},
		"none":        {"-n", "-m", "none"},
		"cleanmarker": {"-x", "lzo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := mkfs(t, options...)
			if i := check(t, b, files()); i.Nodes < 80 || i.Free < 10 {
				t.Errorf("%d nodes, %d free blocks", i.Nodes, i.Free)
			}
		})
	}
}

// What is added is there for mtd-utils' own reader, too, and no byte of what was
// there has changed.
func TestAdd(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]string{"no markers": {"-n", "-x", "lzo"}, "cleanmarkers": {"-x", "lzo"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := mkfs(t, options...)
			b := bytes.Clone(before)
			add := []File{
				{Name: "etc/eth0.conf", Mode: modeReg | 0o644, MTime: 5, Data: []byte("IPADDR=10.0.0.9\n")},
				{Name: "thread/0_abc.data", Mode: modeReg | 0o600, MTime: 6, Data: pseudoRandom(70000)},
				{Name: "etc/dropbear", Mode: modeDir | 0o700, MTime: 7},
				{Name: "etc/hostlink", Mode: mLnk | 0o777, MTime: 7, Data: []byte("hostname")},
				{Name: "etc/nothing", Mode: modeReg | 0o600, MTime: 8},
			}
			if err := Add(b, add, 9); err != nil {
				t.Fatal(err)
			}
			want := files()
			for _, f := range add {
				if f.Regular() {
					want[f.Name] = f.Data
				}
			}
			check(t, b, want)
			for i := range before {
				if before[i] != 0xFF && b[i] != before[i] {
					t.Fatalf("byte %#x was %#x and is %#x", i, before[i], b[i])
				}
			}
			path := filepath.Join(t.TempDir(), "image")
			whole := append(b, bytes.Repeat([]byte{0xFF}, -len(b)&(EraseBlock-1))...)
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			dump, err := exec.Command(tool("jffs2dump"), "-b", "-c", "-v", path).CombinedOutput()
			if err != nil {
				t.Errorf("jffs2dump: %v\n%.2000s", err, dump)
			}
			for line := range strings.Lines(string(dump)) {
				if s := strings.ToLower(line); strings.Contains(s, "crc error") || strings.Contains(s, "wrong") {
					t.Errorf("jffs2dump: %s", line)
				}
			}
			if n := strings.Count(string(dump), "0_abc.data"); n != 1 {
				t.Errorf("jffs2dump names the file %d times\n%s", n, dump)
			}
		})
	}
}

func TestAddRefused(t *testing.T) {
	t.Parallel()
	b := mkfs(t, "-n", "-x", "lzo")
	for _, tt := range []struct {
		name string
		file File
		want error
	}{
		{"out of the tree", File{Name: "../x", Mode: modeReg}, ErrName},
		{"absolute", File{Name: "/x", Mode: modeReg}, ErrName},
		{"no name", File{Mode: modeReg}, ErrName},
		{"in the place of a folder", File{Name: "etc", Mode: modeReg}, ErrName},
		{"a device", File{Name: "x", Mode: 0o020000}, ErrName},
		{"larger than the image", File{Name: "x", Mode: modeReg, Data: pseudoRandom(3 << 20)}, ErrFull},
	} {
		if err := Add(bytes.Clone(b), []File{tt.file}, 0); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if _, err := Read([]byte("hsqs and more")); !errors.Is(err, ErrFormat) {
		t.Errorf("no JFFS2: %v", err)
	}
}

// A damaged node is passed over; what else is there is read.
func TestDamaged(t *testing.T) {
	t.Parallel()
	b := mkfs(t, "-n", "-x", "lzo")
	at := bytes.Index(b, []byte("eth0.conf"))
	b[at] ^= 1
	i, err := Read(b)
	if err != nil || i.Bad != 1 {
		t.Errorf("%d bad nodes, %v", i.Bad, err)
	}
	for _, f := range i.Files {
		if f.Name == "etc/eth0.conf" {
			t.Error("a damaged name is there")
		}
	}
}

func FuzzRead(f *testing.F) {
	small := append([]byte(nil), bytes.Repeat([]byte{0xFF}, 2*EraseBlock)...)
	copy(small, head(typeClean, headLen))
	if err := Add(small, []File{{Name: "a/b", Mode: modeReg, Data: []byte("content")}}, 1); err != nil {
		f.Fatal(err)
	}
	f.Add(small[:4096])
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Read(b)
		if err != nil {
			return
		}
		for _, x := range i.Files {
			if strings.HasPrefix(x.Name, "/") || strings.Contains("/"+x.Name+"/", "/../") {
				t.Error(fmt.Errorf("%q", x.Name))
			}
		}
	})
}
