package flash

import (
	"archive/tar"
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"gwinit/board/rtl8196e"
	"gwinit/internal/gwctl/image"
)

func TestParseNeighbour(t *testing.T) {
	t.Parallel()
	a := netip.MustParseAddr("192.168.1.6")
	const (
		linux = "IP address       HW type     Flags       HW address            Mask     Device\n" +
			"192.168.1.66     0x1         0x2         aa:bb:cc:dd:ee:ff     *        eth0\n"
		windows = "\r\nInterface: 192.168.1.10 --- 0x4\r\n  Internet Address      Physical Address      Type\r\n  192.168.1.6           56-c0-a8-01-06-00     dynamic\r\n"
		macos   = "? (192.168.1.6) at 56:c0:a8:1:6:0 on en0 ifscope [ethernet]\n"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"Linux, another host", linux, ""},
		{"Linux", linux + "192.168.1.6      0x1         0x2         56:c0:a8:01:06:00     *        eth0\n", "56:c0:a8:01:06:00"},
		{"Linux, nobody answered", "192.168.1.6      0x1         0x0         00:00:00:00:00:00     *        eth0\n", ""},
		{"Windows", windows, "56-c0-a8-01-06-00"},
		{"macOS", macos, "56:c0:a8:1:6:0"},
		{"macOS, nobody answered", "? (192.168.1.6) at (incomplete) on en0 ifscope [ethernet]\n", ""},
	} {
		if got := parseNeighbour(tt.text, a); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestParseFacts(t *testing.T) {
	t.Parallel()
	say := func(name, body string) string { return "\n" + mark + name + "\n" + body }
	const mtd = "dev:    size   erasesize  name\nmtd1: 001e0000 00010000 \"linux\"\nmtd2: 00200000 00010000 \"rootfs\"\nmtd3: 00c00000 00010000 \"jffs2-fs\"\n"
	theirs := say("model", "Sengled Smart Hub G4 E39-G8C\x00") + say("mtd", mtd) + say("release", "") + say("inittab", "::sysinit:x\n") +
		say("uname", "6.18.54-rtl8196e-v4.7.0\n") + say("keys", "rubbish\n") + say("initd", "S05syslog\nS70otbr.old\nrcK\n") +
		say("userdata", "etc\nmine\x1b[2J\n") + say("tools", "/userdata/usr/bin/boothold\n/bin/devmem\n") + say("hold", "\x03\xff\xe0\x00\x00\x00\x10\x00") + say("end", "")
	f, err := parseFacts(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if f.firmware != image.Todays || f.version != "v4.7.0" || f.board.ID != rtl8196e.Sengled || f.hold == nil || f.hold.Base != 0x03FFE000 ||
		!f.tools["boothold"] || !f.tools["devmem"] || f.tools["nc"] || f.otherKey != 1 || f.checkFlash() != nil {
		t.Errorf("%+v", f)
	}
	if strings.Join(f.scripts, " ") != "S70otbr.old" || strings.Join(f.extra, " ") != "mine[2J" {
		t.Errorf("scripts %q, extra %q", f.scripts, f.extra)
	}
	if _, err := parseFacts("busybox: not found"); err == nil {
		t.Error("another host's answer is taken")
	}
}

func archive(t testing.TB, entries ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadSettings(t *testing.T) {
	t.Parallel()
	good := archive(
		t, &tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755}, &tar.Header{Name: "etc/hostname", Size: 3, Mode: 0o644},
		&tar.Header{Name: "etc/init.d/S10x", Size: 1}, &tar.Header{Name: "etc/profile", Size: 1}, &tar.Header{Name: "etc/fifo", Typeflag: tar.TypeFifo},
		&tar.Header{Name: "etc/link", Typeflag: tar.TypeSymlink, Linkname: "hostname"})
	files, err := readSettings(good)
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if err != nil || strings.Join(names, " ") != "etc etc/hostname etc/link" || files[1].Mode != 0o100644 || string(files[2].Data) != "hostname" {
		t.Errorf("%v, %v", names, err)
	}
	for _, b := range [][]byte{
		good[:700], []byte("no archive at all"), archive(t, &tar.Header{Name: "../etc/x"}), archive(t, &tar.Header{Name: "usr/bin/x"}), archive(t, &tar.Header{Name: "/etc/x"}),
	} {
		if _, err := readSettings(b); err == nil {
			t.Errorf("%.40q is taken", b)
		}
	}
}

func FuzzReadSettings(f *testing.F) {
	f.Add(archive(f, &tar.Header{Name: "etc/hostname", Size: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		files, _ := readSettings(b)
		for _, x := range files {
			if strings.HasPrefix(x.Name, "/") || strings.Contains("/"+x.Name+"/", "/../") {
				t.Errorf("%q", x.Name)
			}
		}
	})
}

func FuzzParseFacts(f *testing.F) {
	f.Add("\n" + mark + "hold\n12345678\n" + mark + "end\n")
	f.Fuzz(func(t *testing.T, s string) {
		x, err := parseFacts(s)
		if err == nil && strings.ContainsFunc(x.model+x.kernel+x.version, func(r rune) bool { return r < ' ' }) {
			t.Errorf("%+v", x)
		}
	})
}
