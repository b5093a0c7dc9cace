//go:build linux

package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gwinit/internal/restore"
)

var about = About{Format: 1, Board: "lidl", Version: "0.1.0-abc", Hostname: "attic", Time: time.Unix(1_790_000_000, 0).UTC()}

func fill(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, "userdata", name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

var box = map[string]string{
	"etc/radio.conf": "FIRMWARE_BAUD=460800\n", "etc/passwd": "root:$6$x:0:0::/:/bin/sh\n", "etc/empty": "",
	"etc/dropbear/dropbear_ed25519_host_key": "\x00\x01host key\xff", "ssh/authorized_keys": "ssh-ed25519 AAAA\n",
	"thread/0_1.data": strings.Repeat("network", 1000), "etc/random-seed": "not this", "usr/bin/x": "nor this",
}

// inBackup are those of box that belong to a backup.
func inBackup() map[string]string {
	all := map[string]string{}
	for name, text := range box {
		if restore.InScope(name) {
			all[name] = text
		}
	}
	return all
}

// readAll reads an archive into a map.
func readAll(archive []byte) (About, map[string]string, error) {
	var a About
	got := map[string]string{}
	err := Read(bytes.NewReader(archive), sha256.New, func(x About) error { a = x; return nil }, func(name string, data []byte, perm fs.FileMode) error {
		if _, twice := got[name]; twice {
			return errors.New("put twice")
		}
		got[name] = string(data)
		return nil
	})
	return a, got, err
}

func archive(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	names, others, err := Write(&out, fill(t, box), about, sha256.New)
	if err != nil || len(names) != 6 || len(others) > 0 {
		t.Fatalf("%q, %q, %v", names, others, err)
	}
	return out.Bytes()
}

func TestThereAndBack(t *testing.T) {
	a, got, err := readAll(archive(t))
	if err != nil || a != about || fmt.Sprint(got) != fmt.Sprint(inBackup()) {
		t.Errorf("%+v, %q, %v", a, got, err)
	}
}

// Anybody's tar opens it, and sha256sum finds every file as it was.
func TestOrdinaryTools(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "b.tar.gz"), archive(t), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "tar xzf b.tar.gz && sha256sum -c SHA256SUMS && stat -c %a userdata/etc/radio.conf")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != 7 || !strings.HasSuffix(string(out), "\n640\n") {
		t.Errorf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "gateway-backup"))
	if want := "format=1\nboard=lidl\nversion=0.1.0-abc\nhostname=attic\ntime=2026-09-21T14:13:20Z\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v; want %q", text, err, want)
	}
}

// part is an entry of an archive that a test makes.
type part struct {
	name, text string
	kind       byte
	link       string
}

// made is an archive by somebody else's hand. A part SHA256SUMS without a text
// gets the right one.
func made(t testing.TB, parts ...part) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	sums := ""
	for _, p := range parts {
		if p.name == sumsName && p.text == "" {
			p.text = sums
		}
		if p.kind == 0 {
			p.kind = tar.TypeReg
		}
		h := &tar.Header{Name: p.name, Typeflag: p.kind, Linkname: p.link, Mode: 0o644}
		if p.kind == tar.TypeReg {
			h.Size = int64(len(p.text))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if p.kind == tar.TypeReg {
			if _, err := io.WriteString(w, p.text); err != nil {
				t.Fatal(err)
			}
		}
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(p.text)), p.name)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRefused(t *testing.T) {
	head, sums := part{name: aboutName, text: about.text()}, part{name: sumsName}
	file := part{name: "userdata/etc/radio.conf", text: "x"}
	good := made(t, head, file, sums)
	if _, got, err := readAll(good); err != nil || got["etc/radio.conf"] != "x" {
		t.Fatalf("%q, %v", got, err)
	}
	big := strings.Repeat("x", restore.MaxFile)
	many := []part{head}
	for i := range restore.MaxFiles + 1 {
		many = append(many, part{name: fmt.Sprintf("userdata/etc/f%d", i), text: "x"})
	}
	wrongSum := fmt.Sprintf("%x  %s\n%x  %s\n", sha256.Sum256([]byte(head.text)), head.name, sha256.Sum256([]byte("y")), file.name)
	noSum := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(head.text)), head.name)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 1 // gzip's sum
	for name, tt := range map[string]struct {
		archive []byte
		err     error
		text    string
	}{
		"nothing":                  {nil, ErrFormat, ""},
		"no gzip":                  {[]byte("hello, this is a text"), ErrFormat, ""},
		"another archive":          {made(t, file, sums), ErrFormat, "it begins with"},
		"an empty archive":         {made(t), ErrFormat, "cut off"},
		"no sums":                  {made(t, head, file), ErrFormat, "cut off"},
		"a wrong sum":              {made(t, head, file, part{name: sumsName, text: wrongSum}), ErrSum, "userdata/etc/radio.conf"},
		"a file without a sum":     {made(t, head, file, part{name: sumsName, text: noSum}), ErrFormat, "1 of 2"},
		"a sum without a file":     {made(t, head, part{name: sumsName, text: wrongSum}), ErrFormat, "is missing"},
		"sums that are none":       {made(t, head, part{name: sumsName, text: "hello\n"}), ErrFormat, sumsName},
		"something behind":         {made(t, head, sums, file), ErrFormat, "behind"},
		"the sum of gzip":          {flipped, ErrFormat, "checksum"},
		"cut in the middle":        {good[:len(good)/2], ErrFormat, "cut off"},
		"cut at its end":           {good[:len(good)-4], ErrFormat, "cut off"},
		"twice":                    {made(t, head, file, file, sums), ErrFormat, "twice"},
		"the head twice":           {made(t, head, head, sums), ErrFormat, "begins"},
		"a path upwards":           {made(t, head, part{name: "userdata/etc/../../etc/passwd", text: "x"}, sums), ErrFormat, "nothing that a backup holds"},
		"an absolute path":         {made(t, head, part{name: "/userdata/etc/passwd", text: "x"}, sums), ErrFormat, "nothing that a backup holds"},
		"a program":                {made(t, head, part{name: "userdata/usr/bin/ls", text: "x"}, sums), ErrFormat, "nothing that a backup holds"},
		"the stage itself":         {made(t, head, part{name: "userdata/.restore/ready", text: "x"}, sums), ErrFormat, "nothing that a backup holds"},
		"a file beside":            {made(t, head, part{name: "README", text: "x"}, sums), ErrFormat, "nothing that a backup holds"},
		"a symbolic link":          {made(t, head, part{name: "userdata/etc/passwd", kind: tar.TypeSymlink, link: "/etc/shadow"}, sums), ErrFormat, "is no file"},
		"a hard link":              {made(t, head, part{name: "userdata/etc/passwd", kind: tar.TypeLink, link: "userdata/etc/radio.conf"}, sums), ErrFormat, "is no file"},
		"a device":                 {made(t, head, part{name: "userdata/etc/passwd", kind: tar.TypeChar}, sums), ErrFormat, "is no file"},
		"a folder":                 {made(t, head, part{name: "userdata/etc/", kind: tar.TypeDir}, sums), ErrFormat, "is no file"},
		"a file that is too large": {made(t, head, part{name: "userdata/etc/x", text: big + "x"}, sums), ErrFormat, "too large"},
		"too much":                 {made(t, head, part{name: "userdata/etc/1", text: big}, part{name: "userdata/etc/2", text: big}, part{name: "userdata/etc/3", text: big}, part{name: "userdata/etc/4", text: big}, sums), ErrFormat, "too large"},
		"too many":                 {made(t, append(many, sums)...), ErrFormat, "one too many"},
		"a newer format":           {made(t, part{name: aboutName, text: "format=2\nboard=lidl\n"}, sums), ErrVersion, ""},
		"no board":                 {made(t, part{name: aboutName, text: "format=1\n"}, sums), ErrFormat, aboutName},
		"no format":                {made(t, part{name: aboutName, text: "board=lidl\n"}, sums), ErrFormat, aboutName},
		"a format that is none":    {made(t, part{name: aboutName, text: "format=one\nboard=lidl\n"}, sums), ErrFormat, aboutName},
		"escapes for a terminal":   {made(t, part{name: aboutName, text: "format=1\nboard=lidl\nhostname=\x1b[31m\n"}, sums), ErrFormat, aboutName},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readAll(tt.archive)
			if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v; want %v with %q", err, tt.err, tt.text)
			}
		})
	}
	if _, _, err := readAll(made(t, part{name: aboutName, text: about.text() + "later=1\n"}, sums)); err != nil {
		t.Errorf("a line of a later firmware: %v", err)
	}
}

// A small archive that unpacks to something endless is given up early.
func TestBomb(t *testing.T) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: aboutName, Typeflag: tar.TypeReg, Size: int64(len(about.text())), Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, about.text()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: sumsName, Typeflag: tar.TypeReg, Mode: 0o600}), w.Close()); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := z.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(out.Bytes()); !errors.Is(err, ErrFormat) {
		t.Errorf("%v", err)
	}
}

// What begin or put says against it ends it.
func TestCallersErrors(t *testing.T) {
	mine := errors.New("no")
	a := archive(t)
	put := 0
	count := func(string, []byte, fs.FileMode) error { put++; return mine }
	if err := Read(bytes.NewReader(a), sha256.New, func(About) error { return mine }, count); !errors.Is(err, mine) || put != 0 {
		t.Errorf("begin: %v, %d files", err, put)
	}
	if err := Read(bytes.NewReader(a), sha256.New, func(About) error { return nil }, count); !errors.Is(err, mine) || put != 1 {
		t.Errorf("put: %v, %d files", err, put)
	}
}

func TestWriteRefuses(t *testing.T) {
	root := fill(t, map[string]string{"etc/x": strings.Repeat("x", restore.MaxFile+1)})
	if _, _, err := Write(io.Discard, root, about, sha256.New); err == nil || !strings.Contains(err.Error(), "etc/x: longer than 1024 KiB") {
		t.Errorf("%v", err)
	}
	root = fill(t, map[string]string{"etc/x": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(root, "userdata/etc/y")); err != nil {
		t.Fatal(err)
	}
	names, others, err := Write(io.Discard, root, about, sha256.New)
	if err != nil || !slices.Equal(names, []string{"etc/x"}) || !slices.Equal(others, []string{"etc/y"}) {
		t.Errorf("%q, %q, %v", names, others, err)
	}
	// Nor does one that comes into the place of a file while it is written.
	if data, _, err := read(filepath.Join(root, "userdata/etc/y")); err == nil {
		t.Errorf("behind a link: %q", data)
	}
	if _, _, err := Write(&full{100}, root, about, sha256.New); !errors.Is(err, errFull) {
		t.Errorf("no room: %v", err)
	}
}

var errFull = errors.New("no space left")

// full takes so many bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A backup comes from outside: whatever it is, files have names of a backup, each
// once, and no more than the limits.
func FuzzRead(f *testing.F) {
	raw := func(gz []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(gz))
		if err != nil {
			f.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(raw(archive(f)))
	f.Add(raw(made(f, part{name: aboutName, text: about.text()}, part{name: "userdata/etc/../x", text: "x"}, part{name: sumsName})))
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, tarball []byte) {
		var gz bytes.Buffer
		z, err := gzip.NewWriterLevel(&gz, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(tarball); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		a, got, err := readAll(gz.Bytes())
		total := 0
		for name, text := range got {
			total += len(text)
			if !restore.InScope(name) {
				t.Errorf("a file %q", name)
			}
		}
		if len(got) > restore.MaxFiles || total > restore.MaxBytes || err == nil && (a.Format != 1 || a.Board == "") {
			t.Errorf("%d files, %d bytes, %+v, %v", len(got), total, a, err)
		}
	})
}
