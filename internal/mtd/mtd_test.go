package mtd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const gateway = `dev:    size   erasesize  name
mtd0: 00020000 00010000 "boot+cfg"
mtd1: 001e0000 00010000 "linux"
mtd2: 00200000 00010000 "rootfs"
mtd3: 00c00000 00010000 "jffs2-fs"
`

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []Partition
	}{
		{"gateway", gateway, []Partition{
			{0, "boot+cfg", 0x20000, 0x10000},
			{1, "linux", 0x1e0000, 0x10000},
			{2, "rootfs", 0x200000, 0x10000},
			{3, "jffs2-fs", 0xc00000, 0x10000},
		}},
		{"heading only", "dev:    size   erasesize  name\n", nil},
		{"empty", "", nil},
		{"label with blanks and quotes", `mtd12: 00010000 00001000 "a "b" c"`, []Partition{{12, `a "b" c`, 0x10000, 0x1000}}},
		{"empty label", "mtd0: 00010000 00001000 \"\"\n", []Partition{{0, "", 0x10000, 0x1000}}},
		{"no final newline", `mtd0: 00000000 00000000 "x"`, []Partition{{0, "x", 0, 0}}},
		{"larger than 32 bits", `mtd0: 100000000 00020000 "nand"`, nil},
		{"no quotes", "mtd0: 00010000 00001000 name\n", nil},
		{"one quote", "mtd0: 00010000 00001000 \"\n", nil},
		{"not a number", "mtdx: 00010000 00001000 \"a\"\nmtd1: 0000000g 00001000 \"b\"\n", nil},
		{"cut short", "mtd0: 00010000", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Parse([]byte(tt.text)); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Parse = %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(gateway))
	f.Add([]byte("mtd0: 0 0 \"\"\nmtd: \nmtd1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, p := range Parse(text) {
			line := p.Name() + ": " + hex8(p.SizeBytes) + " " + hex8(p.EraseBytes) + " \"" + p.Label + "\"\n"
			again := Parse([]byte(line))
			if len(again) != 1 || again[0] != p {
				t.Errorf("%v printed as %q reads as %v", p, line, again)
			}
		}
	})
}

func hex8(v uint32) string {
	const digits = "0123456789abcdef"
	var b [8]byte
	for i := range b {
		b[i] = digits[v>>(28-4*i)&15]
	}
	return string(b[:])
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	if _, err := Find(root, "jffs2-fs"); !errors.Is(err, ErrNotFound) {
		t.Errorf("without /proc/mtd: error = %v, want ErrNotFound", err)
	}
	write(t, filepath.Join(root, "proc/mtd"), gateway)
	p, err := Find(root, "jffs2-fs")
	if err != nil {
		t.Fatal(err)
	}
	if p.CharDevice() != "/dev/mtd3" || p.BlockDevice() != "/dev/mtdblock3" || p.Name() != "mtd3" {
		t.Errorf("devices = %s, %s, %s", p.CharDevice(), p.BlockDevice(), p.Name())
	}
	if _, err := Find(root, "jffs2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("part of a label: error = %v, want ErrNotFound", err)
	}
}

func TestNodes(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := Partition{Index: 3}
	for range 2 { // the second time they are there
		if err := p.Nodes(root); err != nil {
			t.Fatalf("this test needs root: %v", err)
		}
	}
	tests := []struct {
		path string
		mode uint32
		dev  uint64
	}{
		{"dev/mtd3", unix.S_IFCHR, unix.Mkdev(90, 6)},
		{"dev/mtdblock3", unix.S_IFBLK, unix.Mkdev(31, 3)},
	}
	for _, tt := range tests {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(root, tt.path), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&unix.S_IFMT != tt.mode || uint64(st.Rdev) != tt.dev {
			t.Errorf("%s: mode %#o, device %d:%d", tt.path, st.Mode, unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
		}
	}
}

func TestOpenReadsExisting(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "dev/mtd3"), "content")
	f, err := Partition{Index: 3}.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 7)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "content" {
		t.Errorf("read %q, %v", b, err)
	}
	if _, err := ReadInfo(f); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("MEMGETINFO on a file: %v, want ENOTTY", err)
	}
}

func TestOpenMissing(t *testing.T) {
	_, err := Partition{Index: 3}.Open(t.TempDir())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v, want that /dev does not exist", err)
	}
}

// The kernel's structure is 32 bytes on every architecture, and the ioctl's
// number says so.
func TestInfoLayout(t *testing.T) {
	var i Info
	if unsafe.Sizeof(i) != 32 || unsafe.Offsetof(i.SizeBytes) != 8 || unsafe.Offsetof(i.OOBBytes) != 20 {
		t.Errorf("size %d, SizeBytes at %d, OOBBytes at %d; want 32, 8, 20",
			unsafe.Sizeof(i), unsafe.Offsetof(i.SizeBytes), unsafe.Offsetof(i.OOBBytes))
	}
	if size := unix.MEMGETINFO >> 16 & 0x1fff; size != 32 {
		t.Errorf("MEMGETINFO is for %d bytes, want 32", size)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
