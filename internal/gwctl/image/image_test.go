package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/mtdimage"
	"gwinit/internal/mtdimage/jffs2"
	"gwinit/rootfs/squashfs"
)

const aKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFYdY2sK8sXXJH8sZpGxIj3zEdWjVqE2mO4AxO4uHH7z somebody"

// rootfs packs a root file system with these files.
func rootfs(t testing.TB, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := squashfs.Make(dir, nil, squashfs.Block)
	if err != nil {
		t.Fatal(err)
	}
	return mtdimage.Wrap(mtdimage.RootfsHeader, b)
}

// kernel makes what arch/mips/boot/compressed makes: code, and an LZMA stream of
// xz with its length behind it.
func kernel(t testing.TB, start uint32, words string) []byte {
	t.Helper()
	cmd := exec.Command("xz", "--format=lzma", "-9", "-c")
	cmd.Stdin = strings.NewReader(strings.Repeat("code ", 50000) + words + strings.Repeat(" data", 50000))
	packed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	b := append(bytes.Repeat([]byte{0x27, 0xBD, 0xFF, 0xE0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, 500), packed...)
	return mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("cs6c")), Start: start, Burn: 0x20000}, append(b, 0, 7, 0xA1, 0x20))
}

func userdata(t testing.TB, files ...jffs2.File) []byte {
	t.Helper()
	b := bytes.Repeat([]byte{0xFF}, mtdimage.UserdataSize-2)
	copy(b, "\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98") // a clean marker
	if err := jffs2.Add(b, files, 0); err != nil {
		t.Fatal(err)
	}
	return mtdimage.Wrap(mtdimage.UserdataHeader, b)
}

func boot() []byte {
	return mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte("boot"))}, append([]byte{0x0B, 0xF0, 0, 4}, make([]byte, 999)...))
}

var (
	lidl = "Linux version 6.18.54-rtl8196e-v4.7.0 (builder) model Lidl Silvercrest Gateway\x00"
	g4   = "Linux version 6.18.54-rtl8196e-v4.7.0 (builder) model Sengled Smart Hub G4 E39-G8C\x00"
)

func file(name, data string) jffs2.File {
	return jffs2.File{Name: name, Mode: 0o100600, Data: []byte(data)}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	ours := rootfs(t, map[string]string{"etc/gw-release": "1.2.3-abc\n", "etc/ssh/authorized_keys": aKey + "\nrestrict,command=\"x\" " + aKey})
	todays := rootfs(t, map[string]string{"etc/inittab": "::sysinit:/etc/init.d/rcS", "etc/version": "v4.7.0"})
	data := userdata(t, file("ssh/authorized_keys", aKey), file("etc/hostname", "attic"))
	full, err := mtdimage.BuildFull(boot(), kernel(t, 0x80C00000, lidl), ours, data)
	if err != nil {
		t.Fatal(err)
	}
	copied := bytes.Clone(full)
	copy(copied[0x1FFF0:], bytes.Repeat([]byte{0xFF}, 16))
	flipped := bytes.Clone(ours)
	flipped[500] ^= 1
	tests := []struct {
		name string
		in   []byte
		ok   bool
		says []string
	}{
		{"our rootfs", ours, true, []string{"rootfs of gwinit 1.2.3-abc: flash 0x200000 to 0x400000", "r6cr, is stripped", "squashfs, xz, blocks of 256 KiB", "1 that open a shell, 1 with limits", "The loader takes it."}},
		{"today's rootfs", todays, true, []string{"rootfs of rtl8196e-gateway v4.7.0", "a BusyBox system"}},
		{"a kernel", kernel(t, 0x80C00000, lidl), true, []string{"kernel 6.18.54-rtl8196e-v4.7.0 for lidl", "cs6c, stays in the flash"}},
		{"another board's", kernel(t, 0x80C00000, g4), true, []string{"for sengled-e39-g8c"}},
		{"nobody's", kernel(t, 0x80C00000, ""), true, []string{"it cannot be seen which one it is for"}},
		{"a kernel over the loader", kernel(t, 0x80400000, lidl), false, []string{"NOT TO BE FLASHED", "where the loader itself is"}},
		{"userdata", data, true, []string{"JFFS2, 2 files", "1 that open a shell"}},
		{"userdata that is none", mtdimage.Wrap(mtdimage.UserdataHeader, []byte("text")), false, []string{"no big-endian JFFS2"}},
		{"a loader", boot(), true, []string{"boot: flash 0x0 to 0x20000", "one for another board does not start"}},
		{"a full image", full, true, []string{"a full image with its CRC trailer", "boot:", "takes     6", "kernel 6.18.54", "rootfs of gwinit", "userdata:"}},
		{"a copy of a flash", copied, false, []string{"a copy of a gateway's whole flash", "the CRC trailer of a full image is missing", "gwctl flash full adds"}},
		{"a bit is wrong", flipped, false, []string{"checksum is wrong"}},
		{"text", []byte("this is a text, and longer than a header"), false, []string{"the signature is none that the loader knows"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := Look(tt.in)
			words := f.Words()
			for _, want := range tt.says {
				if !strings.Contains(words, want) {
					t.Errorf("it does not say %q:\n%s", want, words)
				}
			}
			if (f.Check() == nil) != tt.ok || f.told().OK != tt.ok {
				t.Errorf("Check: %v", f.Check())
			}
		})
	}
}

func call(t *testing.T, asJSON bool, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(applet.IO{Out: &out, Err: &out}, args, asJSON)
	return out.String(), err
}

func save(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.bin")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommand(t *testing.T) {
	t.Parallel()
	good := save(t, boot())
	bad := save(t, boot()[:100])
	if out, err := call(t, false, "verify", good); err != nil || !strings.Contains(out, "the loader takes it (boot)") {
		t.Errorf("verify: %q, %v", out, err)
	}
	if _, err := call(t, false, "verify", bad); !errors.Is(err, mtdimage.ErrShort) {
		t.Errorf("verify of a cut file: %v", err)
	}
	out, err := call(t, true, "inspect", good)
	var got told
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || !got.OK || got.Parts[0].Name != "boot" || got.Parts[0].Bytes != 1006 {
		t.Errorf("JSON: %q, %v", out, err)
	}
	for _, args := range [][]string{{}, {"inspect"}, {"look", good}, {"verify", good, good}, {"verify", "-o", "x", good}, {"inspect", "-x", good}} {
		var usage applet.UsageError
		if _, err := call(t, false, args...); !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, path := range []string{save(t, nil), t.TempDir(), save(t, make([]byte, maxBytes+1)), filepath.Join(t.TempDir(), "none")} {
		if _, err := call(t, false, "inspect", path); err == nil {
			t.Errorf("%s is read", path)
		}
	}
}

// A full image is taken apart and put together again, byte for byte; the files of
// its userdata come out, too.
func TestExtract(t *testing.T) {
	t.Parallel()
	root := rootfs(t, map[string]string{"etc/gw-release": "1"})
	data := userdata(t, file("etc/hostname", "attic"), file(`etc/a\b`, "no"), file("etc/c:d", "no"))
	full, err := mtdimage.BuildFull(boot(), kernel(t, 0x80C00000, lidl), root, data)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out, err := call(t, false, "extract", save(t, full), "-o", dir)
	if err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for _, name := range []string{"boot", "kernel", "rootfs", "userdata"} {
		b, err := os.ReadFile(filepath.Join(dir, name+".bin"))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, b)
	}
	if !bytes.Equal(parts[2], root) || !bytes.Equal(parts[3], data) {
		t.Error("rootfs.bin or userdata.bin is not what it was")
	}
	again, err := mtdimage.BuildFull(parts[0], parts[1], parts[2], parts[3])
	if err != nil {
		t.Fatal(err)
	}
	// A loader's own end cannot be seen in a flash: its FF are taken, too, with a sum.
	copy(again[0x1FFEE:0x20000], full[0x1FFEE:0x20000])
	if !bytes.Equal(again, full) {
		t.Error("it is not what it was")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "userdata/etc/hostname")); err != nil || string(b) != "attic" {
		t.Errorf("hostname: %q, %v", b, err)
	}
	if strings.Count(out, "left out") != 2 {
		t.Errorf("it says %s", out)
	}
	if _, err := call(t, false, "extract", save(t, full), "-o", dir); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("again: %v", err)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	keys, others := Keys([]byte("# mine\n\n" + aKey + "\nno-agent-forwarding,pty " + aKey + "\nfrom=\"10.0.0.1\" " + aKey + "\nno-pty " + aKey + "\nrubbish\n"))
	if len(keys) != 2 || others != 3 {
		t.Errorf("%d keys, %d others", len(keys), others)
	}
}

func FuzzLook(f *testing.F) {
	f.Add(boot())
	f.Add(mtdimage.Wrap(mtdimage.RootfsHeader, append([]byte("hsqs"), make([]byte, 200)...)))
	f.Add(mtdimage.Wrap(mtdimage.UserdataHeader, []byte("\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if file := Look(b); (file.Check() == nil) != strings.HasSuffix(file.Words(), "The loader takes it.\n") {
			t.Error("words and verdict differ")
		}
	})
}
