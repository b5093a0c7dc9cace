//go:build linux

package remote

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gwinit/internal/applet"
	"gwinit/internal/mtdimage"
	"gwinit/rootfs/squashfs"
)

// Another root file system is sent to one gateway, after it was looked through, with
// the words and a yes that it takes.
func TestFactory(t *testing.T) {
	pack := func(name, path, data string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := squashfs.Make(dir, nil, squashfs.Block)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, mtdimage.Wrap(mtdimage.RootfsHeader, b), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	ours, theirs := pack("rootfs.bin", "etc/gw-release", "1.4.0\n"), pack("todays.bin", "etc/inittab", "x")
	b, err := os.ReadFile(ours)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.bin")
	broken := bytes.Clone(b)
	broken[100] ^= 1
	if err := os.WriteFile(damaged, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	const said = "-i-have-a-serial-console"
	w := newWorkstation(t, "no", "yes")
	w.r.known.accept = true
	x := newBox(t, w.key)
	x.ends = true
	run := func(args ...string) error {
		w.out.Reset()
		args = append([]string{"update", "-factory"}, args...)
		if !isFactory(args) {
			t.Errorf("%q is something else", args)
		}
		return w.r.factory(t.Context(), []target{x.target()}, args)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"without the words": {[]string{ours}, "needs a serial console to come back"},
		"without a file":    {[]string{said}, "takes the FILE"},
		"two files":         {[]string{said, ours, ours}, "takes one FILE"},
		"another option":    {[]string{said, "-w", ours}, "takes one FILE"},
		"today's":           {[]string{said, "-y", theirs}, "no firmware of this project"},
		"damaged":           {[]string{said, "-y", damaged}, "checksum is wrong"},
		"by a no":           {[]string{said, ours}, "nothing was changed"},
	} {
		if err := run(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.r.factory(t.Context(), make([]target, 2), []string{"update", "-factory", said, ours}); !errors.As(err, new(applet.UsageError)) {
		t.Errorf("two gateways: %v", err)
	}
	if n := x.get().n; n != 0 {
		t.Errorf("%d logins so far", n)
	}
	if err := run(said, ours); err != nil {
		t.Fatal(err)
	}
	if ran := x.get().ran; len(ran) != 1 || ran[0] != "flash-rootfs -i-have-a-serial-console -" || !strings.HasPrefix(w.out.String(), "ran flash-rootfs ") || !strings.Contains(w.out.String(), "r6cr") {
		t.Errorf("%q: %.80s", ran, w.out.String())
	}
}
