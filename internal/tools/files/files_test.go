package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gwinit/internal/tools/tooltest"
)

func TestTable(t *testing.T) {
	tooltest.CheckTable(t, Applets(), "dd")
}

func run(t *testing.T, name string, args ...string) tooltest.Result {
	t.Helper()
	return tooltest.Run(t, Applets(), nil, name, args...)
}

// ok runs and expects success; it returns the output.
func ok(t *testing.T, name string, args ...string) string {
	t.Helper()
	r := run(t, name, args...)
	if r.Status != 0 || r.Err != "" {
		t.Fatalf("%s %q: %+v", name, args, r)
	}
	return r.Out
}

// fails runs and expects the status, with a message that holds text.
func fails(t *testing.T, status int, text, name string, args ...string) {
	t.Helper()
	if r := run(t, name, args...); r.Status != status || !strings.Contains(r.Err, text) {
		t.Errorf("%s %q: %+v, want status %d and %q", name, args, r, status, text)
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestCat(t *testing.T) {
	d := t.TempDir()
	a, b := write(t, d+"/a", "one\n"), write(t, d+"/b", "two")
	if got := ok(t, "cat", a, b); got != "one\ntwo" {
		t.Errorf("%q", got)
	}
	if r := tooltest.Run(t, Applets(), strings.NewReader("in"), "cat", a, "-"); r.Out != "one\nin" {
		t.Errorf("%+v", r)
	}
	if r := run(t, "cat", d+"/none", a); r.Status != 1 || r.Out != "one\n" || !strings.Contains(r.Err, "none") {
		t.Errorf("%+v", r)
	}
}

func TestParseMode(t *testing.T) {
	tests := []struct {
		mode string
		old  uint32
		dir  bool
		want uint32
	}{
		{"755", 0, false, 0o755},
		{"4755", 0, false, 0o4755},
		{"0", 0o777, false, 0},
		{"u+x", 0o644, false, 0o744},
		{"+x", 0o644, false, 0o755},
		{"go-rwx", 0o777, false, 0o700},
		{"a=r", 0o777, false, 0o444},
		{"u=rw,go=r", 0o777, false, 0o644},
		{"u+s", 0o755, false, 0o4755},
		{"g+s", 0o755, false, 0o2755},
		{"+t", 0o777, true, 0o1777},
		{"a+X", 0o644, false, 0o644},
		{"a+X", 0o744, false, 0o755},
		{"a+X", 0o644, true, 0o755},
		{"o=", 0o777, false, 0o770},
	}
	for _, tt := range tests {
		if got, err := parseMode(tt.mode, tt.old, tt.dir); err != nil || got != tt.want {
			t.Errorf("%s of %o: %o, %v; want %o", tt.mode, tt.old, got, err, tt.want)
		}
	}
	for _, bad := range []string{"", "999", "u", "x+r", "u+q", "77777"} {
		if _, err := parseMode(bad, 0, false); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func FuzzParseMode(f *testing.F) {
	f.Add("u+x,g=rw", uint32(0o644))
	f.Fuzz(func(t *testing.T, mode string, old uint32) {
		if got, err := parseMode(mode, old&0o7777, true); err == nil && got&^0o7777 != 0 {
			t.Errorf("%q gives %o", mode, got)
		}
	})
}

func TestChmodChown(t *testing.T) {
	d := t.TempDir()
	f := write(t, d+"/s/f", "")
	ok(t, "chmod", "-x", f)
	ok(t, "chmod", "600", f)
	if fi, _ := os.Stat(f); fi.Mode().Perm() != 0o600 {
		t.Errorf("%v", fi.Mode())
	}
	ok(t, "chmod", "-R", "u+s,o=", d+"/s")
	for _, p := range []string{f, d + "/s"} {
		if fi, _ := os.Stat(p); fi.Mode()&fs.ModeSetuid == 0 || fi.Mode().Perm()&7 != 0 {
			t.Errorf("%s: %v", p, fi.Mode())
		}
	}
	ok(t, "chown", "-R", "12:34", d+"/s")
	if fi, _ := os.Stat(f); fi.Sys().(*syscall.Stat_t).Uid != 12 || fi.Sys().(*syscall.Stat_t).Gid != 34 {
		t.Error("chown did not")
	}
	ok(t, "chown", "root", f)
	if fi, _ := os.Stat(f); fi.Sys().(*syscall.Stat_t).Uid != 0 || fi.Sys().(*syscall.Stat_t).Gid != 34 {
		t.Error("chown without a group changed it")
	}
	fails(t, 2, "bad mode", "chmod", "u+q", f)
	fails(t, 1, "none", "chmod", "600", d+"/none")
	fails(t, 2, "number", "chown", "nobody", f)
}

func TestCp(t *testing.T) {
	d := t.TempDir()
	a := write(t, d+"/a", "text")
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(a, old, old); err != nil {
		t.Fatal(err)
	}
	ok(t, "cp", a, d+"/b")
	if content(t, d+"/b") != "text" {
		t.Error("not copied")
	}
	ok(t, "cp", "-p", a, d+"/p")
	if fi, _ := os.Stat(d + "/p"); !fi.ModTime().Equal(old) {
		t.Errorf("-p: %v", fi.ModTime())
	}
	if err := os.Symlink("a", d+"/l"); err != nil {
		t.Fatal(err)
	}
	ok(t, "mkdir", d+"/dir")
	ok(t, "cp", a, d+"/l", d+"/dir")
	if fi, _ := os.Lstat(d + "/dir/l"); !fi.Mode().IsRegular() {
		t.Error("cp without -r copies what a link leads to")
	}
	write(t, d+"/dir/deep/x", "x")
	if err := os.Symlink("nowhere", d+"/dir/dangling"); err != nil {
		t.Fatal(err)
	}
	ok(t, "cp", "-a", d+"/dir", d+"/copy")
	if content(t, d+"/copy/deep/x") != "x" {
		t.Error("-a")
	}
	if target, _ := os.Readlink(d + "/copy/dangling"); target != "nowhere" {
		t.Error("-a and a link")
	}
	ok(t, "cp", "-r", d+"/dir", d+"/copy")
	if content(t, d+"/copy/dir/deep/x") != "x" {
		t.Error("into a folder that is there")
	}
	fails(t, 1, "use -r", "cp", d+"/dir", d+"/z")
	fails(t, 1, "same file", "cp", a, a)
	fails(t, 1, "into itself", "cp", "-r", d+"/dir", d+"/dir/sub")
	if exists(d + "/dir/sub/sub") {
		t.Error("copied into itself")
	}
	fails(t, 1, "no folder", "cp", a, d+"/b", d+"/none")
	fails(t, 1, "none", "cp", d+"/none", d+"/z")
	fails(t, 1, "no space left", "cp", a, "/dev/full")
	if content(t, a) != "text" {
		t.Error("the source is gone")
	}
}

func TestMv(t *testing.T) {
	d := t.TempDir()
	write(t, d+"/a", "A")
	ok(t, "mv", d+"/a", d+"/b")
	if exists(d+"/a") || content(t, d+"/b") != "A" {
		t.Error("not moved")
	}
	write(t, d+"/c", "C")
	ok(t, "mv", "-n", d+"/c", d+"/b")
	if content(t, d+"/b") != "A" {
		t.Error("-n replaced")
	}
	ok(t, "mv", d+"/c", d+"/b")
	if content(t, d+"/b") != "C" {
		t.Error("not replaced")
	}
	ok(t, "mkdir", d+"/dir")
	ok(t, "mv", d+"/b", d+"/dir")
	fails(t, 1, "none", "mv", d+"/none", d+"/x")

	// Across file systems.
	other := t.TempDir()
	if err := unix.Mount("none", other, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(other, 0) })
	ok(t, "mv", d+"/dir", other)
	if exists(d+"/dir") || content(t, other+"/dir/b") != "C" {
		t.Error("not moved across")
	}
	big := write(t, d+"/big", strings.Repeat("x", 2<<20))
	fails(t, 1, "no space left", "mv", big, other)
	if !exists(big) {
		t.Error("a failed move lost the file")
	}
}

func TestRm(t *testing.T) {
	d := t.TempDir()
	f := write(t, d+"/x/y/f", "")
	ok(t, "rm", f)
	fails(t, 1, "f", "rm", f)
	ok(t, "rm", "-f", f)
	ok(t, "rm", "-f")
	fails(t, 2, "no file", "rm")
	fails(t, 1, "use -r", "rm", d+"/x")
	write(t, d+"/keep/f", "")
	if err := os.Symlink(d+"/keep", d+"/x/link"); err != nil {
		t.Fatal(err)
	}
	ok(t, "rm", "-r", d+"/x")
	if exists(d+"/x") || !exists(d+"/keep/f") {
		t.Error("-r removed too little, or what a link leads to")
	}
	for _, n := range []string{"/", ".", d + "/keep/.."} {
		fails(t, 1, "will not", "rm", "-rf", n)
	}
	fails(t, 1, "not empty", "rmdir", d+"/keep")
	ok(t, "rm", d+"/keep/f")
	ok(t, "rmdir", d+"/keep")
}

func TestMakers(t *testing.T) {
	d := t.TempDir()
	ok(t, "mkdir", "-p", "-m", "700", d+"/a/b")
	ok(t, "mkdir", "-p", d+"/a/b")
	fails(t, 1, "exists", "mkdir", d+"/a")
	if fi, _ := os.Stat(d + "/a/b"); fi.Mode().Perm() != 0o700 {
		t.Error(fi.Mode())
	}
	ok(t, "touch", "-c", d+"/f")
	if exists(d + "/f") {
		t.Error("touch -c made a file")
	}
	ok(t, "touch", d+"/f")
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(d+"/f", old, old); err != nil {
		t.Fatal(err)
	}
	ok(t, "touch", d+"/f")
	if fi, _ := os.Stat(d + "/f"); time.Since(fi.ModTime()) > time.Hour {
		t.Error("touch did not")
	}
	ok(t, "mknod", "-m", "600", d+"/null", "c", "1", "3")
	if fi, _ := os.Stat(d + "/null"); fi.Mode()&fs.ModeCharDevice == 0 || uint64(fi.Sys().(*syscall.Stat_t).Rdev) != unix.Mkdev(1, 3) {
		t.Error("mknod c")
	}
	ok(t, "mknod", d+"/pipe", "p")
	if fi, _ := os.Stat(d + "/pipe"); fi.Mode()&fs.ModeNamedPipe == 0 {
		t.Error("mknod p")
	}
	fails(t, 2, "device number", "mknod", d+"/x", "c", "a", "3")
	fails(t, 2, "needs", "mknod", d+"/x", "z", "1", "3")

	name := strings.TrimSpace(ok(t, "mktemp", "-p", d, "tool.XXXXXX"))
	if !strings.HasPrefix(name, d+"/tool.") || !exists(name) {
		t.Errorf("mktemp: %q", name)
	}
	name = strings.TrimSpace(ok(t, "mktemp", "-d", d+"/dXXXXXX"))
	if fi, err := os.Stat(name); err != nil || !fi.IsDir() {
		t.Errorf("mktemp -d: %q", name)
	}
	fails(t, 2, "XXXXXX", "mktemp", d+"/fixed")

	ok(t, "ln", d+"/f", d+"/hard")
	ok(t, "ln", "-s", "f", d+"/soft")
	fails(t, 1, "exists", "ln", "-s", "f", d+"/soft")
	ok(t, "ln", "-sf", "hard", d+"/soft")
	if got := ok(t, "readlink", d+"/soft"); got != "hard\n" {
		t.Errorf("readlink: %q", got)
	}
	if got := ok(t, "readlink", "-f", d+"/soft"); got != d+"/hard\n" {
		t.Errorf("readlink -f: %q", got)
	}
	fails(t, 1, "f", "readlink", d+"/f")
	ok(t, "ln", "-s", "a", d+"/dirlink")
	ok(t, "ln", "-sfn", "b", d+"/dirlink")
	if got := ok(t, "readlink", d+"/dirlink"); got != "b\n" {
		t.Errorf("ln -n: %q", got)
	}
	if got := ok(t, "stat", d+"/null"); !strings.Contains(got, "character device") || !strings.Contains(got, "(crw-------)") {
		t.Errorf("stat: %q", got)
	}
}

func TestLs(t *testing.T) {
	t.Setenv("TZ", "UTC0")
	d := t.TempDir()
	write(t, d+"/small", "x")
	write(t, d+"/large", strings.Repeat("x", 2000))
	write(t, d+"/.hidden", "")
	write(t, d+"/sub/in", "")
	write(t, d+"/bad\x1bname", "")
	for i, n := range []string{"large", "small"} {
		when := time.Unix(1e9+int64(i), 0)
		if err := os.Chtimes(d+"/"+n, when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("small", d+"/link"); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		want string
	}{
		{"", "bad?name\nlarge\nlink\nsmall\nsub\n"},
		{"-A", ".hidden\nbad?name\nlarge\nlink\nsmall\nsub\n"},
		{"-a", ".\n..\n.hidden\nbad?name\nlarge\nlink\nsmall\nsub\n"},
		{"-r", "sub\nsmall\nlink\nlarge\nbad?name\n"},
		{"-F", "bad?name\nlarge\nlink@\nsmall\nsub/\n"},
		{"-d", d + "\n"},
	}
	for _, tt := range tests {
		args := append(strings.Fields(tt.args), d)
		if got := ok(t, "ls", args...); got != tt.want {
			t.Errorf("ls %s: %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := ok(t, "ls", "-t", d+"/large", d+"/small"); got != d+"/small\n"+d+"/large\n" {
		t.Errorf("-t: %q", got)
	}
	if got := ok(t, "ls", "-S", d+"/small", d+"/large"); got != d+"/large\n"+d+"/small\n" {
		t.Errorf("-S: %q", got)
	}
	if got := ok(t, "ls", "-lh", d+"/large"); got != "-rw-r--r-- 1 root root 2.0K 2001-09-09 01:46 "+d+"/large\n" {
		t.Errorf("-lh: %q", got)
	}
	if got := ok(t, "ls", "-l", d); !strings.Contains(got, "link -> small\n") {
		t.Errorf("-l: %q", got)
	}
	if got := ok(t, "ls", "-R", d+"/sub", d); !strings.Contains(got, d+"/sub:\nin\n") {
		t.Errorf("-R: %q", got)
	}
	if got := ok(t, "ls", "-l", "/dev/null"); !strings.HasPrefix(got, "crw-rw-rw- 1 root root 1,3 ") {
		t.Errorf("device: %q", got)
	}
	if r := run(t, "ls", d+"/none", d+"/sub"); r.Status != 1 || !strings.Contains(r.Out, "in\n") {
		t.Errorf("%+v", r)
	}
}

func TestHuman(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1023: "1023", 1024: "1.0K", 10 << 10: "10K", 1 << 20: "1.0M", 1<<20 - 1: "1.0M", 9_900_000: "9.4M", 3 << 30: "3.0G"} {
		if got := human(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	d := t.TempDir()
	write(t, d+"/a.txt", "0123456789")
	write(t, d+"/sub/B.TXT", strings.Repeat("x", 3000))
	write(t, d+"/sub/deep/c", "")
	old := time.Now().Add(-50 * time.Hour)
	if err := os.Chtimes(d+"/a.txt", old, old); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ expr, want string }{
		{"-name *.txt", "a.txt"},
		{"-iname *.txt", "a.txt sub/B.TXT"},
		{"-type d", "sub/deep sub ."},
		{"-type f -size +2k", "sub/B.TXT"},
		{"-size -2c -type f", "sub/deep/c"},
		{"-size 10c", "a.txt"},
		{"-mtime +1 -type f", "a.txt"},
		{"-type f ! -name *.txt", "sub/B.TXT sub/deep/c"},
		{"-maxdepth 1 -type f", "a.txt"},
		{"-maxdepth 0", "."},
		{"-xdev -name c", "sub/deep/c"},
	}
	for _, tt := range tests {
		got := ok(t, "find", append([]string{d}, strings.Fields(tt.expr)...)...)
		var rel []string
		for _, p := range strings.Fields(got) {
			r, err := filepath.Rel(d, p)
			if err != nil {
				t.Fatal(err)
			}
			rel = append(rel, r)
		}
		if strings.Join(rel, " ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.expr, rel, tt.want)
		}
	}
	if got := ok(t, "find", d+"/sub/deep", "-print0"); got != d+"/sub/deep/c\x00"+d+"/sub/deep\x00" {
		t.Errorf("-print0: %q", got)
	}
	if got := ok(t, "find", d, "-name", "c", "-exec", "/bin/echo", "[{}]", ";"); got != "["+d+"/sub/deep/c]\n" {
		t.Errorf("-exec: %q", got)
	}
	fails(t, 1, "exit status 1", "find", d, "-name", "c", "-exec", "/bin/false", ";")
	ok(t, "find", d+"/sub", "-delete")
	if exists(d + "/sub") {
		t.Error("-delete")
	}
	for _, bad := range []string{"-nosuch", "-name", "-size x", "-size -", "-maxdepth -1", "-exec echo", "-exec ;", "-name ["} {
		fails(t, 2, "see find", "find", append([]string{d}, strings.Fields(bad)...)...)
	}
	fails(t, 1, "none", "find", d+"/none")
}

func TestSpace(t *testing.T) {
	d := t.TempDir()
	if err := unix.Mount("none", d, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(d, 0) })
	write(t, d+"/sub/f", strings.Repeat("x", 100<<10))
	if err := os.Link(d+"/sub/f", d+"/sub/again"); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, "du", "-s", d+"/sub"); got != "100\t"+d+"/sub\n" {
		t.Errorf("du -s: %q", got)
	}
	if got := ok(t, "du", "-ah", d+"/sub"); !strings.Contains(got, "100K\t"+d+"/sub/again\n") || !strings.HasSuffix(got, "100K\t"+d+"/sub\n") {
		t.Errorf("du -ah: %q", got)
	}
	got := ok(t, "df", d+"/sub")
	if f := strings.Fields(strings.Split(got, "\n")[1]); len(f) != 6 || f[0] != "none" || f[1] != "1024" || f[2] != "100" || f[3] != "924" || f[4] != "10%" || f[5] != d {
		t.Errorf("df: %q", got)
	}
	if got := ok(t, "df", "-h", d); !strings.Contains(got, "1.0M") {
		t.Errorf("df -h: %q", got)
	}
	if got := ok(t, "df"); !strings.Contains(got, d) || strings.Contains(got, "/proc\n") {
		t.Errorf("df: %q", got)
	}
	fails(t, 1, "none", "df", d+"/none")
	fails(t, 1, "none", "du", d+"/none")
}

func TestParseMounts(t *testing.T) {
	const sample = "rootfs / rootfs rw 0 0\n/dev/mtdblock3 /user\\040data jffs2 rw,relatime 0 0\nproc /proc proc rw 0 0\nshort\n/dev/x / squashfs ro 0 0\n"
	list, err := parseMounts(strings.NewReader(sample))
	if err != nil || len(list) != 4 || list[1].dir != "/user data" {
		t.Fatal(list, err)
	}
	if m, err := holding(list, "/"); err != nil || m.device != "/dev/x" {
		t.Errorf("/ is on %v, %v: the last mount hides the others", m, err)
	}
	if m, err := holding(list, "/proc/self"); err != nil || m.device != "proc" {
		t.Errorf("%v, %v", m, err)
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add("a /b\\040c d e 0 0\n")
	f.Add("a /\\777 x\n\\04")
	f.Fuzz(func(t *testing.T, s string) { _, _ = parseMounts(strings.NewReader(s)) })
}

func TestGzip(t *testing.T) {
	d := t.TempDir()
	text := strings.Repeat("the same again\n", 1000)
	f := write(t, d+"/f", text)
	ok(t, "gzip", "-9", f)
	if exists(f) || !exists(f+".gz") {
		t.Fatal("gzip replaces its file")
	}
	if got := ok(t, "zcat", f+".gz"); got != text {
		t.Error("zcat")
	}
	ok(t, "gunzip", "-k", f+".gz")
	if content(t, f) != text || !exists(f+".gz") {
		t.Error("gunzip -k")
	}
	fails(t, 1, "exists", "gunzip", f+".gz")
	fails(t, 1, ".gz", "gunzip", f)
	packed := content(t, f+".gz")
	write(t, d+"/torn.gz", packed[:len(packed)/2])
	fails(t, 1, "torn", "gunzip", d+"/torn.gz")
	if exists(d+"/torn") || !exists(d+"/torn.gz") {
		t.Error("a torn file was unpacked, or is gone")
	}
	r := tooltest.Run(t, Applets(), strings.NewReader(text), "gzip")
	if r2 := tooltest.Run(t, Applets(), strings.NewReader(r.Out), "gzip", "-d"); r2.Out != text {
		t.Error("through pipes")
	}
}

func TestBase64(t *testing.T) {
	in := strings.Repeat("\x00\xff~", 40)
	enc := tooltest.Run(t, Applets(), strings.NewReader(in), "base64")
	if lines := strings.Split(enc.Out, "\n"); len(lines) != 4 || len(lines[0]) != 76 {
		t.Errorf("%q", enc.Out)
	}
	if dec := tooltest.Run(t, Applets(), strings.NewReader(enc.Out), "base64", "-d"); dec.Out != in {
		t.Errorf("%q", dec.Out)
	}
	if r := tooltest.Run(t, Applets(), strings.NewReader("!"), "base64", "-d"); r.Status != 1 {
		t.Errorf("%+v", r)
	}
}

func TestTarRoundTrip(t *testing.T) {
	d := t.TempDir()
	long := strings.Repeat("long", 30)
	write(t, d+"/src/f", "content")
	write(t, d+"/src/sub/"+long+"/"+long, "deep")
	ok(t, "chmod", "750", d+"/src/sub")
	ok(t, "chown", "7:8", d+"/src/f")
	ok(t, "ln", "-s", "f", d+"/src/link")
	ok(t, "mknod", d+"/src/dev", "c", "4", "65")
	ok(t, "touch", d+"/src/empty")
	old := time.Unix(1.2e9, 0)
	if err := os.Chtimes(d+"/src/f", old, old); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"c", "cz"} {
		out := t.TempDir()
		archive := d + "/src/" + mode + ".tar" // inside of what is packed
		ok(t, "tar", mode+"f", archive, "-C", d, "src")
		list := ok(t, "tar", "tf", archive)
		if !strings.Contains(list, "src/sub/"+long+"/"+long+"\n") || strings.Contains(list, "/"+mode+".tar") {
			t.Errorf("list: %q", list)
		}
		if got := ok(t, "tar", "tvf", archive, "src/f"); !strings.HasPrefix(got, "-rw-r--r-- 7/8         7 2008-01-10") {
			t.Errorf("tv: %q", got)
		}
		if got := ok(t, "tar", "xOf", archive, "src/f"); got != "content" {
			t.Errorf("xO: %q", got)
		}
		ok(t, "tar", "-x", "-f", archive, "-C", out)
		if content(t, out+"/src/f") != "content" || content(t, out+"/src/sub/"+long+"/"+long) != "deep" {
			t.Error("content")
		}
		fi, err := os.Stat(out + "/src/f")
		if err != nil || !fi.ModTime().Equal(old) || fi.Sys().(*syscall.Stat_t).Uid != 7 || fi.Sys().(*syscall.Stat_t).Gid != 8 {
			t.Errorf("%+v, %v", fi, err)
		}
		if fi, _ := os.Stat(out + "/src/sub"); fi.Mode().Perm() != 0o750 {
			t.Error(fi.Mode())
		}
		if fi, _ := os.Stat(out + "/src/dev"); uint64(fi.Sys().(*syscall.Stat_t).Rdev) != unix.Mkdev(4, 65) {
			t.Error("device")
		}
		if l, _ := os.Readlink(out + "/src/link"); l != "f" {
			t.Error("link")
		}
		write(t, out+"/src/f", "newer")
		ok(t, "tar", "xkf", archive, "-C", out)
		if content(t, out+"/src/f") != "newer" {
			t.Error("-k replaced")
		}
		ok(t, "tar", "xf", archive, "-C", out)
		if content(t, out+"/src/f") != "content" {
			t.Error("not replaced")
		}
		ok(t, "rm", archive)
	}
	fails(t, 2, "one of", "tar", "cx")
	fails(t, 1, "none", "tar", "xf", d+"/none")
	if r := tooltest.Run(t, Applets(), strings.NewReader(strings.Repeat("rubbish ", 200)), "tar", "t"); r.Status != 1 {
		t.Errorf("rubbish: %+v", r)
	}
}

// archiveOf makes an archive with the standard library's writer.
func archiveOf(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte("evil")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestTarStaysInside(t *testing.T) {
	d := t.TempDir()
	victim := write(t, d+"/victim", "good")
	tests := map[string][]tar.Header{
		"dot dot":       {{Typeflag: tar.TypeReg, Name: "../victim"}},
		"absolute":      {{Typeflag: tar.TypeReg, Name: victim}},
		"link then in":  {{Typeflag: tar.TypeSymlink, Name: "l", Linkname: ".."}, {Typeflag: tar.TypeReg, Name: "l/victim"}},
		"link to file":  {{Typeflag: tar.TypeSymlink, Name: "v", Linkname: victim}, {Typeflag: tar.TypeReg, Name: "v"}},
		"hard link out": {{Typeflag: tar.TypeLink, Name: "h", Linkname: "../victim"}, {Typeflag: tar.TypeReg, Name: "h"}},
	}
	for name, headers := range tests {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(d, "out-"+strings.ReplaceAll(name, " ", "-"))
			if err := os.Mkdir(out, 0o755); err != nil {
				t.Fatal(err)
			}
			tooltest.Run(t, Applets(), archiveOf(t, headers...), "tar", "x", "-C", out)
			if content(t, victim) != "good" {
				t.Error("the archive wrote outside of its folder")
			}
		})
	}
}

func FuzzTar(f *testing.F) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte("not a tar"))
	_ = z.Close()
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, archive []byte) {
		tooltest.Run(t, Applets(), bytes.NewReader(archive), "tar", "tv")
	})
}

func TestDd(t *testing.T) {
	d := t.TempDir()
	in := write(t, d+"/in", "0123456789")
	r := run(t, "dd", "if="+in, "of="+d+"/out", "bs=4", "count=2")
	if r.Status != 0 || content(t, d+"/out") != "01234567" || !strings.Contains(r.Err, "2+0 blocks, 8 bytes") {
		t.Errorf("%+v", r)
	}
	run(t, "dd", "if="+in, "of="+d+"/out", "bs=2", "skip=4", "seek=1", "conv=notrunc,fsync")
	if got := content(t, d+"/out"); got != "01894567" {
		t.Errorf("%q", got)
	}
	if r := tooltest.Run(t, Applets(), strings.NewReader("abcdef"), "dd", "bs=2", "skip=1", "count=1"); r.Out != "cd" {
		t.Errorf("%+v", r)
	}
	if r := run(t, "dd", "if=/dev/zero", "bs=1k", "count=3"); len(r.Out) != 3072 {
		t.Errorf("%d bytes", len(r.Out))
	}
	for _, bad := range []string{"bs=0", "bs=x", "count=-2", "conv=ucase", "what=1", "-h1"} {
		fails(t, 2, "see dd", "dd", bad)
	}
}

func TestTee(t *testing.T) {
	d := t.TempDir()
	r := tooltest.Run(t, Applets(), strings.NewReader("x\n"), "tee", d+"/a", d+"/no/b")
	if r.Out != "x\n" || r.Status != 1 || content(t, d+"/a") != "x\n" {
		t.Errorf("%+v", r)
	}
	tooltest.Run(t, Applets(), strings.NewReader("y\n"), "tee", "-a", d+"/a")
	if content(t, d+"/a") != "x\ny\n" {
		t.Error("-a")
	}
}
