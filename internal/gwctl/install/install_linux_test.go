package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/flash"
	"gwinit/internal/mtdimage"
	"gwinit/internal/netdev/netlab"
	"gwinit/internal/texttest"
	"gwinit/internal/tty/ptytest"
	"gwinit/rootfs/squashfs"
	"gwinit/test/loader"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// fullImage makes one.
func fullImage(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "etc"), 0o755), os.WriteFile(filepath.Join(dir, "etc/gw-release"), []byte("1.0\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	root, err := squashfs.Make(dir, nil, squashfs.Block)
	if err != nil {
		t.Fatal(err)
	}
	wrap := func(sig string, burn uint32, p []byte) []byte {
		return mtdimage.Wrap(mtdimage.Header{Signature: [4]byte([]byte(sig)), Start: 0x80C00000, Burn: burn}, p)
	}
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	data := bytes.Repeat([]byte{0xFF}, mtdimage.UserdataSize-2)
	copy(data, "\x19\x85\x20\x03\x00\x00\x00\x0c\xf0\x60\xdc\x98")
	b, err := mtdimage.BuildFull(wrap("boot", 0, []byte{0x0B, 0xF0, 0, 4, 0x55, 0x55}), wrap("cs6c", 0x20000, noise), wrap("r6cr", 0x200000, root), wrap("r6cr", 0x400000, data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// makersFlash is laid out in another way.
func makersFlash(mark byte) []byte {
	b := bytes.Repeat([]byte{0xFF}, mtdimage.FlashSize)
	copy(b, []byte{0x0B, 0xF0, 0, 4, mark, 0xAA})
	_, _ = rand.Read(b[0x20000:0x500000])
	return b
}

// bench is a gateway at its loader, with a network cable and a serial one.
type bench struct {
	t      *testing.T
	flash  []byte
	serial string
}

func newBench(t *testing.T, content []byte, faults loader.Faults) *bench {
	t.Helper()
	b := &bench{t: t, flash: content}
	l, err := loader.Open("gwtap", loader.Config{Flash: content, Faults: faults, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	netlab.Run(t, "ip", "addr", "add", "192.168.88.10/24", "dev", "gwtap")
	netlab.Run(t, "ip", "link", "set", "gwtap", "up")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = l.Run(ctx)
	}()
	master, slave := ptytest.Open(t)
	b.serial = slave
	spoken := make(chan struct{})
	go func() {
		defer close(spoken)
		for t.Context().Err() == nil { // each run switches the gateway on anew
			l.Console(hold{master, ctx})
			if ctx.Err() != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		l.Close()
		master.Close()
		<-ended
		<-spoken
	})
	return b
}

// hold is a cable that nobody need be at: a pseudo terminal without the other side
// fails to read.
type hold struct {
	*os.File
	ctx context.Context
}

func (h hold) Read(p []byte) (int, error) {
	for h.ctx.Err() == nil {
		_ = h.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := h.File.Read(p)
		if n > 0 {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			time.Sleep(20 * time.Millisecond)
		}
	}
	return 0, io.EOF
}

func (b *bench) run(args ...string) (string, error) {
	b.t.Helper()
	var out texttest.Buffer
	e := Env{Out: &out, Catch: 20 * time.Second, Yes: func(string) (bool, error) { return false, errors.New("nobody is there") }, Times: flash.Times{Again: 500 * time.Millisecond}}
	err := Run(b.t.Context(), e, append(args, "-serial", b.serial, "-loader", "192.168.88.6"))
	b.t.Logf("install %v:\n%s%v", args, out.String(), err)
	return out.String(), err
}

// From the maker's firmware to a full image, and back by the copy that was made.
func TestConsole(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	before := makersFlash(1)
	b := newBench(t, bytes.Clone(before), loader.Faults{})
	image := filepath.Join(t.TempDir(), "full.bin")
	want := fullImage(t)
	if err := os.WriteFile(image, want, 0o600); err != nil {
		t.Fatal(err)
	}
	// Nothing is written without a copy.
	if _, err := b.run("write", image, "-y", "-backup", "copy.bin"); err == nil || !strings.Contains(err.Error(), "Nothing was written") {
		t.Errorf("without a copy: %v", err)
	}
	out, err := b.run("backup", "copy.bin")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile("copy.bin"); !bytes.Equal(got, before) || !strings.Contains(out, "the maker's own firmware") {
		t.Error("the copy is another")
	}
	if _, err := b.run("backup", "copy.bin"); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("a copy is overwritten: %v", err)
	}
	// Nor with one that was changed, or of another gateway, or without a yes.
	other := makersFlash(2)
	for name, change := range map[string]func(c []byte) []byte{"changed": func(c []byte) []byte { c[0x30000] ^= 1; return c }, "short": func(c []byte) []byte { return c[:100] }} {
		if err := os.WriteFile(name+".bin", change(bytes.Clone(before)), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, _ := os.ReadFile("copy.bin.sha256")
		_ = os.WriteFile(name+".bin.sha256", sum, 0o600)
		if _, err := b.run("write", image, "-y", "-backup", name+".bin"); err == nil || !strings.Contains(err.Error(), "its checksum is another") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var r run
	r.Out = io.Discard
	if err := r.save(t.Context(), "other.bin", func(context.Context) ([]byte, error) { return other, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run("write", image, "-y", "-backup", "other.bin"); err == nil || !strings.Contains(err.Error(), "the copy of another gateway") {
		t.Errorf("another gateway's copy: %v", err)
	}
	if _, err := b.run("write", image, "-backup", "copy.bin"); err == nil || !strings.Contains(err.Error(), "-y is a yes") {
		t.Errorf("without a yes: %v", err)
	}
	if !bytes.Equal(b.flash, before) {
		t.Fatal("the flash was changed by then")
	}
	if _, err := b.run("write", image, "-y", "-backup", "copy.bin"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.flash, want) {
		t.Error("the flash holds something else")
	}
	// An interrupted write leaves a loader that is nobody's.
	b.flash[100] ^= 1
	if _, err := b.run("write", image, "-y", "-backup", "copy.bin"); err == nil || !strings.Contains(err.Error(), "-force goes on") {
		t.Errorf("after an interrupted write: %v", err)
	}
	if _, err := b.run("write", image, "-y", "-force", "-backup", "copy.bin"); err != nil || !bytes.Equal(b.flash, want) {
		t.Errorf("with -force: %v", err)
	}
	// And back: the copy itself is an image to be written.
	if _, err := b.run("write", "copy.bin", "-y", "-backup", "copy.bin"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.flash, before) {
		t.Error("the way back leads elsewhere")
	}
}

// A write that did not work is found and said.
func TestWriteFails(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	b := newBench(t, makersFlash(1), loader.Faults{WriteFails: 0x40000})
	if _, err := b.run("backup", "copy.bin"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("full.bin", fullImage(t), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.run("write", "full.bin", "-y", "-backup", "copy.bin")
	if err == nil || !strings.Contains(err.Error(), "holds something else") || !strings.Contains(err.Error(), "Do not switch the gateway off") {
		t.Errorf("%v", err)
	}
}

// A prompt that comes late is not taken for the end of the next command: what the
// loader asks is answered, and all is done.
func TestLatePrompt(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	before, want := makersFlash(1), fullImage(t)
	b := newBench(t, bytes.Clone(before), loader.Faults{LatePrompt: true})
	if _, err := b.run("backup", "copy.bin"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile("copy.bin"); !bytes.Equal(got, before) {
		t.Error("the copy is another")
	}
	if err := os.WriteFile("full.bin", want, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run("write", "full.bin", "-y", "-backup", "copy.bin"); err != nil || !bytes.Equal(b.flash, want) {
		t.Errorf("%v, and the flash holds something else, or that", err)
	}
}

// What the loader has in its RAM is never taken for its flash: a flash that was
// not read is no copy, and one that was not written is not right.
func TestLoaderDoesNothing(t *testing.T) {
	if !netlab.Alone(t) {
		return
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("full.bin", fullImage(t), 0o600); err != nil {
		t.Fatal(err)
	}
	before := makersFlash(1)
	b := newBench(t, bytes.Clone(before), loader.Faults{Aborts: func(_ string, nth int) bool { return nth == 1 }})
	if _, err := b.run("backup", "copy.bin"); !errors.Is(err, errNotRead) || !strings.Contains(err.Error(), "Abort!") {
		t.Errorf("a copy of what was not read: %v", err)
	}
	if _, err := os.Stat("copy.bin"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a copy: %v", err)
	}
	if _, err := b.run("backup", "copy.bin"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.run("write", "full.bin", "-y", "-backup", "copy.bin"); err == nil || !strings.Contains(err.Error(), "holds something else") {
		t.Errorf("a write that was not done: %v", err)
	}
	if !bytes.Equal(b.flash, before) {
		t.Error("it was written after all")
	}
}

// Today's firmware is copied by SSH, from files in the place of its partitions.
func TestBySSH(t *testing.T) {
	t.Parallel()
	dir, full := t.TempDir(), fullImage(t)
	box := &fakeBox{flash: full}
	var out texttest.Buffer
	path := filepath.Join(dir, "copy.bin")
	e := Env{Out: &out, Dial: func(context.Context) (flash.Box, error) { return box, nil }}
	if err := Run(t.Context(), e, []string{"backup", path}); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, full) || !strings.Contains(out.String(), "a full image with its CRC trailer") {
		t.Errorf("the copy is another:\n%s", out.String())
	}
	for name, b := range map[string]*fakeBox{
		"reads differently": {flash: full, flips: true},
		"another layout":    {flash: full[:12<<20]},
		"no JFFS2":          {flash: append(bytes.Clone(full[:0x400000]), make([]byte, 12<<20)...)},
	} {
		box = b
		path := filepath.Join(dir, name)
		if err := Run(t.Context(), e, []string{"backup", path}); err == nil || !strings.Contains(err.Error(), "no copy was kept") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a copy was kept", name)
		}
	}
}

// fakeBox has the partitions of a flash.
type fakeBox struct {
	flash []byte
	flips bool
	reads int
}

func (f *fakeBox) Addr() netip.Addr { return netip.Addr{} }
func (f *fakeBox) Close() error     { return nil }
func (f *fakeBox) Run(_ context.Context, command string, _ io.Reader, out io.Writer) error {
	for n, a := range mtdimage.Areas() {
		if strings.HasSuffix(command, string(rune('0'+n))) {
			b := bytes.Clone(f.flash[min(len(f.flash), int(a.Offset)):min(len(f.flash), int(a.End()))])
			if f.reads++; f.flips && f.reads == 2 {
				b[5] ^= 1
			}
			// As a session of SSH does.
			_, err := io.Copy(out, struct{ io.Reader }{bytes.NewReader(b)})
			return err
		}
	}
	return errors.New("no such file")
}

func TestUsage(t *testing.T) {
	t.Parallel()
	var out texttest.Buffer
	if err := Run(t.Context(), Env{Out: &out}, nil); err != nil || !strings.Contains(out.String(), "The first flash of a gateway") {
		t.Errorf("guide: %v", err)
	}
	for _, args := range [][]string{{"backup"}, {"backup", "x"}, {"write", "x"}, {"write", "x", "-serial", "y"}, {"go"}, {"-loader", "::1"}, {"-x"}} {
		var usage applet.UsageError
		if err := Run(t.Context(), Env{Out: &out}, args); !errors.As(err, &usage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestPlausible(t *testing.T) {
	t.Parallel()
	half, full := makersFlash(1), fullImage(t)
	copy(half[8<<20:], half[:8<<20])
	for name, b := range map[string][]byte{
		"short": full[1:], "zeros": make([]byte, 16<<20), "erased": bytes.Repeat([]byte{0xFF}, 16<<20),
		"a loader only": append(bytes.Clone(full[:0x20000]), bytes.Repeat([]byte{0xFF}, 16<<20-0x20000)...), "two halves": half,
	} {
		if plausible(b) == nil {
			t.Errorf("%s: it is one", name)
		}
	}
	if err := plausible(full); err != nil {
		t.Error(err)
	}
}
