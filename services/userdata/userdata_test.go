package userdata

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/factoryreset"
	"gwinit/internal/savedtime"
	"gwinit/internal/seed"
	"gwinit/internal/seed/seedtest"
	"gwinit/services/userdata/userdatatest"
)

const (
	block  = 64 << 10
	blocks = 192 // 12 MiB, the gateways' partition
	proc   = "dev:    size   erasesize  name\nmtd2: 00200000 00010000 \"rootfs\"\nmtd3: 00c00000 00010000 \"jffs2-fs\"\n"
)

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v (mtd-utils and squashfs-tools make the images of this test)\n%s", name, strings.Join(args, " "), err, out)
	}
}

// tree is what the images hold: some settings, and bulk that does not compress.
func tree(t testing.TB, bulk int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, bulk)
	noise(b)
	for name, content := range map[string][]byte{"etc/radio.conf": []byte("FIRMWARE_BAUD=115200\n"), "bulk": b} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noise fills b with the same bytes in every run.
func noise(b []byte) {
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b) // never fails
}

// jffs2 makes an image as mkfs.jffs2 does, padded to the partition with 0xff.
func jffs2(t testing.TB, bulk int, args ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image")
	run(t, "mkfs.jffs2", append([]string{"-e", "0x10000", "--squash", "-r", tree(t, bulk), "-o", out}, args...)...)
	return padded(t, out)
}

func padded(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	image := erased()
	copy(image, b)
	return image
}

func erased() []byte { return bytes.Repeat([]byte{0xff}, blocks*block) }

// images are partitions and what is to become of them.
func images(t testing.TB) []struct {
	name    string
	image   []byte
	content Content
	mount   bool
} {
	t.Helper()
	type partition = struct {
		name    string
		image   []byte
		content Content
		mount   bool
	}
	small := jffs2(t, 1000, "-b", "-n")
	large := jffs2(t, 8<<20, "-b", "-n")
	markers := jffs2(t, 300<<10, "-b")

	squashfs := filepath.Join(t.TempDir(), "squashfs")
	run(t, "mksquashfs", tree(t, 300<<10), squashfs, "-quiet", "-no-progress", "-noappend")

	garbage := make([]byte, blocks*block)
	noise(garbage)

	// As the loader writes it: a checksum in the last two bytes.
	flashed := bytes.Clone(small)
	copy(flashed[len(flashed)-2:], []byte{0x12, 0x34})

	// The kernel gives every erased block a clean marker.
	used := bytes.Clone(small)
	for at := block; at < len(used); at += block {
		copy(used[at:], markers[:12])
	}
	// A power cut in the middle of an erase.
	torn := bytes.Clone(used)
	copy(torn[:3*block], garbage)
	// A power cut in the middle of a node, in the first write to a new block.
	half := bytes.Clone(used)
	copy(half[5*block:], []byte{0x19, 0x85, 0xe0, 0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	// The first node obsolete: one bit of its type is cleared in place.
	obsolete := bytes.Clone(used)
	obsolete[2] &^= nodeAccurate >> 8

	onlyTorn := erased()
	copy(onlyTorn, half[5*block:6*block])

	// Foreign content that begins with 0xff.
	hidden := erased()
	for at := range blocks {
		copy(hidden[at*block+block/2:], garbage[:1024])
	}
	// A rootfs image that was written over a file system.
	over := bytes.Clone(used)
	copy(over, garbage[:100*block])

	return []partition{
		{"erased", erased(), Content{Blank: 192}, true},
		{"new image", small, Content{Nodes: 1, Blank: 191}, true},
		{"new image with the loader's checksum", flashed, Content{Nodes: 1, Blank: 191}, true},
		{"large image", large, Content{Nodes: 131, Blank: 61}, true},
		{"clean markers", markers, Content{Nodes: 5, Blank: 187}, true},
		{"in use", used, Content{Nodes: 192}, true},
		{"first blocks torn by an erase", torn, Content{Nodes: 189, Foreign: 3}, true},
		{"a block torn by a write", half, Content{Nodes: 191, Torn: 1}, true},
		{"first node obsolete", obsolete, Content{Nodes: 192}, true},
		{"nothing but a torn node", onlyTorn, Content{Torn: 1, Blank: 191}, false},
		{"garbage", garbage, Content{Foreign: 192}, false},
		{"garbage behind 0xff", hidden, Content{Foreign: 192}, false},
		{"zero", make([]byte, blocks*block), Content{Foreign: 192}, false},
		{"squashfs", padded(t, squashfs), Content{Nodes: 0, Blank: 187, Foreign: 5, Holds: "a squashfs"}, false},
		{"little-endian", jffs2(t, 1000, "-l", "-n"), Content{Blank: 191, Foreign: 1, Holds: "a JFFS2 of the other byte order"}, false},
		{"something else over most of it", over, Content{Nodes: 92, Foreign: 100}, false},
	}
}

func TestLook(t *testing.T) {
	for _, tt := range images(t) {
		t.Run(tt.name, func(t *testing.T) {
			r := &counting{r: bytes.NewReader(tt.image)}
			got := Look(r, int64(len(tt.image)), block)
			if got != tt.content {
				t.Errorf("Look = %+v, want %+v", got, tt.content)
			}
			if got.JFFS2() != tt.mount {
				t.Errorf("JFFS2 = %v, want %v", got.JFFS2(), tt.mount)
			}
			// On the slowest flash, 1 MB/s, this is 40 ms.
			if r.bytes > 40<<10 {
				t.Errorf("read %d bytes", r.bytes)
			}
		})
	}
}

type counting struct {
	r     io.ReaderAt
	bytes int
}

func (c *counting) ReadAt(p []byte, at int64) (int, error) {
	c.bytes += len(p)
	return c.r.ReadAt(p, at)
}

// A block that cannot be read is not JFFS2, and not the end.
func TestLookUnreadable(t *testing.T) {
	image := jffs2(t, 1000, "-b", "-n")
	r := readerAt(func(p []byte, at int64) (int, error) {
		if at >= 2*block && at < 3*block {
			return 0, unix.EIO
		}
		return bytes.NewReader(image).ReadAt(p, at)
	})
	want := Content{Nodes: 1, Blank: 190, Foreign: 1, Holds: "blocks that cannot be read: input/output error"}
	if got := Look(r, int64(len(image)), block); got != want || !got.JFFS2() {
		t.Errorf("Look = %+v, want %+v", got, want)
	}
}

type readerAt func(p []byte, at int64) (int, error)

func (f readerAt) ReadAt(p []byte, at int64) (int, error) { return f(p, at) }

// The header of a real node, from an image of mkfs.jffs2 -b.
func TestIsNodeGolden(t *testing.T) {
	dirent := [headBytes]byte{0x19, 0x85, 0xe0, 0x01, 0x00, 0x00, 0x00, 0x2b, 0x3e, 0x42, 0x24, 0x27}
	marker := [headBytes]byte{0x19, 0x85, 0x20, 0x03, 0x00, 0x00, 0x00, 0x0c, 0xf0, 0x60, 0xdc, 0x98}
	if !isNode(dirent) || !isNode(marker) {
		t.Error("real nodes are not taken for nodes")
	}
	dirent[2] = 0xc0 // obsolete
	if !isNode(dirent) {
		t.Error("an obsolete node is not taken for a node")
	}
	dirent[7]++
	if isNode(dirent) {
		t.Error("a node of another length is taken for one")
	}
}

func FuzzLook(f *testing.F) {
	f.Add([]byte{0x19, 0x85, 0x20, 0x03, 0x00, 0x00, 0x00, 0x0c, 0xf0, 0x60, 0xdc, 0x98}, int64(1024))
	f.Add([]byte("hsqs"), int64(512))
	f.Fuzz(func(t *testing.T, image []byte, size int64) {
		if size < headBytes+4*peekBytes || size > 1<<20 {
			return
		}
		got := Look(bytes.NewReader(image), int64(len(image)), size)
		if n := got.Nodes + got.Torn + got.Blank + got.Foreign; n != len(image)/int(size) {
			t.Errorf("%d blocks of %d", n, len(image)/int(size))
		}
		if got.JFFS2() && got.Foreign > got.Nodes {
			t.Errorf("%+v would be mounted", got)
		}
	})
}

// box makes a root with an MTD partition that holds image.
func box(t *testing.T, image []byte) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"proc", "dev", "run", "userdata"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if image != nil {
		put(t, filepath.Join(root, "proc/mtd"), []byte(proc))
		put(t, filepath.Join(root, "dev/mtd3"), image)
	}
	return root
}

func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestMountImages(t *testing.T) {
	for _, tt := range images(t) {
		t.Run(tt.name, func(t *testing.T) {
			root := box(t, tt.image)
			sys := &userdatatest.System{}
			u := Mount(root, sys)
			if !tt.mount {
				if sys.Mounts != 0 || u.State != Corrupt || !strings.Contains(u.Reason, "nothing is erased") {
					t.Errorf("%d mounts, %+v; want none, corrupt", sys.Mounts, u)
				}
			} else if sys.Mounts != 1 || u.State != Mounted {
				t.Errorf("%d mounts, %+v; want one, mounted", sys.Mounts, u)
			}
			after, err := os.ReadFile(filepath.Join(root, "dev/mtd3"))
			if err != nil || !bytes.Equal(after, tt.image) {
				t.Errorf("the partition was changed, %v", err)
			}
		})
	}
}

func TestMount(t *testing.T) {
	good := jffs2(t, 1000, "-b", "-n")
	tests := []struct {
		name  string
		image []byte
		sys   userdatatest.System
		want  api.Userdata
	}{
		{
			"mounted", good,
			userdatatest.System{Total: 12288, Free: 11000},
			api.Userdata{State: "mounted", Device: "/dev/mtd3", Total: 12288, Free: 11000},
		},
		{
			"erased", erased(),
			userdatatest.System{},
			api.Userdata{State: "mounted", Device: "/dev/mtd3", Reason: "it was erased, and is an empty file system now"},
		},
		{
			"erased and refused", erased(),
			userdatatest.System{MountErr: unix.EIO},
			api.Userdata{State: "unformatted", Device: "/dev/mtd3", Reason: "erased, and not mounted: input/output error"},
		},
		{
			"refused", good,
			userdatatest.System{MountErr: unix.EINVAL},
			api.Userdata{State: "corrupt", Device: "/dev/mtd3", Reason: "the kernel does not mount it: invalid argument"},
		},
		{
			"no JFFS2", good,
			userdatatest.System{MountErr: unix.ENODEV},
			api.Userdata{State: "failed", Device: "/dev/mtd3", Reason: "the kernel has no JFFS2"},
		},
		{
			"mounted before", good,
			userdatatest.System{Magic: 0x72b6, Total: 2, Free: 1},
			api.Userdata{State: "mounted", Device: "/dev/mtd3", Total: 2, Free: 1},
		},
		{
			"no flash", nil,
			userdatatest.System{},
			api.Userdata{State: "absent", Reason: "no flash partition jffs2-fs"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := box(t, tt.image)
			sys := tt.sys
			if got := Mount(root, &sys); got != tt.want {
				t.Errorf("Mount = %+v, want %+v", got, tt.want)
			}
			if sys.Mounts > 0 {
				if sys.Source != "mtd3" || sys.Target != filepath.Join(root, "userdata") || sys.FSType != "jffs2" {
					t.Errorf("mounted %s on %s as %s", sys.Source, sys.Target, sys.FSType)
				}
				if sys.Flags != unix.MS_NOATIME|unix.MS_NODEV|unix.MS_NOSUID {
					t.Errorf("flags = %#x", sys.Flags)
				}
			}
			if tt.sys.Magic != 0 && sys.Mounts != 0 {
				t.Error("mounted a second time, over the first")
			}
			if tt.want.State == Absent && sys.Slept != 3*time.Second {
				t.Errorf("waited %v for the partition, want 3s", sys.Slept)
			}
		})
	}
}

// A flash driver that comes up late is waited for.
func TestMountLatePartition(t *testing.T) {
	root := box(t, nil)
	put(t, filepath.Join(root, "dev/mtd3"), erased())
	sys := &userdatatest.System{}
	sys.OnSleep = func(slept time.Duration) {
		if slept == time.Second {
			put(t, filepath.Join(root, "proc/mtd"), []byte(proc))
		}
	}
	if u := Mount(root, sys); u.State != Mounted || sys.Slept != time.Second {
		t.Errorf("%+v after %v", u, sys.Slept)
	}
}

// The verdict without encoding/json reads back with it.
func TestVerdict(t *testing.T) {
	tests := []struct {
		u    api.Userdata
		text string
	}{
		{api.Userdata{State: "absent", Reason: "no flash partition jffs2-fs"}, `{"state":"absent","reason":"no flash partition jffs2-fs"}` + "\n"},
		{
			api.Userdata{State: "mounted", Device: "/dev/mtd3", Total: 12288, Free: 1},
			`{"state":"mounted","device":"/dev/mtd3","totalKiB":12288,"freeKiB":1}` + "\n",
		},
		{api.Userdata{State: "corrupt", Reason: `a "b" \c`}, `{"state":"corrupt","reason":"a \"b\" \\c"}` + "\n"},
	}
	for _, tt := range tests {
		root := box(t, nil)
		if _, err := ReadVerdict(root); !errors.Is(err, ErrNoVerdict) {
			t.Errorf("before: %v, want ErrNoVerdict", err)
		}
		if err := replaceVerdict(root, tt.u); err != nil {
			t.Fatal(err)
		}
		if got := string(encode(tt.u)); got != tt.text {
			t.Errorf("encode = %s, want %s", got, tt.text)
		}
		if got, err := ReadVerdict(root); err != nil || got != tt.u {
			t.Errorf("ReadVerdict = %+v, %v; want %+v", got, err, tt.u)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("mounted", "a\x00\"\\\n\xff")
	f.Fuzz(func(t *testing.T, state, reason string) {
		var u api.Userdata
		if err := json.Unmarshal(encode(api.Userdata{State: state, Reason: reason}), &u); err != nil {
			t.Errorf("%q, %q: %v", state, reason, err)
		}
	})
}

// dup gives the started side a descriptor of its own, as a process has one.
func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), syscall.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "pipe")
}

// writer is an io.Writer that is told what is written.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}

func TestSupervise(t *testing.T) {
	image := jffs2(t, 1000, "-b", "-n")
	t.Run("mounted", func(t *testing.T) {
		root := box(t, image)
		put(t, filepath.Join(root, VerdictPath), []byte("old"))
		text, err := supervise(root, func(out *os.File) error {
			_, err := work(root, &userdatatest.System{}, out, io.Discard)
			return err
		}, time.Minute)
		if text != "mounted (/dev/mtd3)" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if u, err := ReadVerdict(root); u.State != Mounted || err != nil {
			t.Errorf("verdict %+v, %v", u, err)
		}
	})
	t.Run("a factory reset that was asked for, before anybody reads a setting", func(t *testing.T) {
		root := box(t, image)
		if err := os.MkdirAll(filepath.Join(root, "userdata/etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(root, "userdata/etc/hostname"), []byte("cellar"))
		put(t, filepath.Join(root, factoryreset.Path), []byte("1"))
		var told bytes.Buffer
		out := writer(func(b []byte) {
			if _, err := os.Lstat(filepath.Join(root, "userdata/etc/hostname")); err == nil {
				t.Errorf("said %q with the settings there", b)
			}
		})
		if _, err := work(root, &userdatatest.System{}, out, &told); err != nil || !strings.Contains(told.String(), "removed etc/hostname") {
			t.Errorf("%v, told %q", err, told.String())
		}
	})
	t.Run("killed", func(t *testing.T) {
		root := box(t, nil)
		text, err := supervise(root, func(*os.File) error { return nil }, time.Minute)
		if text != "failed: the mounting process died" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if u, err := ReadVerdict(root); u.State != Failed || err != nil {
			t.Errorf("verdict %+v, %v", u, err)
		}
	})
	t.Run("not started", func(t *testing.T) {
		root := box(t, nil)
		text, err := supervise(root, func(*os.File) error { return unix.ENOMEM }, time.Minute)
		if text != "failed: cannot start: cannot allocate memory" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("hangs, then comes back", func(t *testing.T) {
		root := box(t, image)
		var left *os.File
		text, err := supervise(root, func(out *os.File) error {
			left = dup(t, out)
			return nil
		}, 20*time.Millisecond)
		defer left.Close()
		if !strings.HasPrefix(text, "failed: the mount did not end within 20ms") || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if u, err := ReadVerdict(root); u.State != Failed || err != nil {
			t.Errorf("verdict %+v, %v", u, err)
		}
		// Nobody reads the pipe any more; the verdict is put right all the same.
		if _, err := work(root, &userdatatest.System{}, left, io.Discard); err == nil {
			t.Error("writing to nobody succeeded")
		}
		if u, err := ReadVerdict(root); u.State != Mounted || err != nil {
			t.Errorf("verdict afterwards %+v, %v", u, err)
		}
	})
	t.Run("comes back at the deadline", func(t *testing.T) {
		root := box(t, image)
		var left *os.File
		_, err := supervise(root, func(out *os.File) error {
			left = dup(t, out)
			return replaceVerdict(root, api.Userdata{State: Mounted})
		}, 20*time.Millisecond)
		defer left.Close()
		if err != nil {
			t.Error(err)
		}
		if u, err := ReadVerdict(root); u.State != Mounted || err != nil {
			t.Errorf("verdict %+v, %v; want the one that was there first", u, err)
		}
	})
}

func TestCommand(t *testing.T) {
	root := box(t, nil)
	var out bytes.Buffer
	std := applet.IO{Out: &out, Err: &out}
	if err := command(root, std, []string{"skip"}); err != nil {
		t.Fatal(err)
	}
	if u, err := ReadVerdict(root); u.State != Skipped || err != nil {
		t.Errorf("verdict %+v, %v", u, err)
	}
	var usage applet.UsageError
	if err := command(root, std, []string{"format"}); !errors.As(err, &usage) {
		t.Errorf("error = %v, want a usage error", err)
	}
}

// Both things that the last boot left are given to this one.
func TestRecall(t *testing.T) {
	root := box(t, nil)
	if err := os.Mkdir(filepath.Join(root, "userdata/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2096, 1, 4, 12, 0, 0, 0, time.UTC) // ahead of the machine's clock, which is not set
	put(t, filepath.Join(root, seed.Path), bytes.Repeat([]byte{'s'}, seed.Bytes))
	if err := savedtime.Save(root, noon); err != nil {
		t.Fatal(err)
	}
	pool := &seedtest.Kernel{}
	var set time.Time
	var log bytes.Buffer
	if err := recall(root, pool, func(to time.Time) error { set = to; return nil }, &log); err != nil {
		t.Fatal(err)
	}
	if len(pool.Credited) != 1 || !set.Equal(noon) {
		t.Errorf("%d seeds counted, set to %v", len(pool.Credited), set)
	}
	if want := "entropy: saved seed counted\nclock: set to the saved time, 2096-01-04 12:00:00 UTC\n"; log.String() != want {
		t.Errorf("log %q, want %q", log.String(), want)
	}
}
