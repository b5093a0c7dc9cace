//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gwinit/internal/api"
	"gwinit/internal/mtdimage"
	"gwinit/internal/mtdimage/jffs2"
	"gwinit/test/board"
)

// flashTime is for an image to be sent and checked, everything to be ended, 31
// blocks to be written, and the start from them, on a loaded machine.
const flashTime = 8 * time.Minute

// The root file system is replaced while the gateway runs from it: refused without
// the words or with something else than an image, and then written, read back, and
// booted, with /userdata as it was.
func TestReplaceRootfs(t *testing.T) {
	t.Parallel()
	list, err := exec.Command("go", "run", "../../cmd/gwinit", "-list").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const version = "9.9.9-another"
	// Other blocks have nearly every byte of the flash be another.
	cmd := exec.Command("go", "run", "./rootfs/mkimage", "-out", dir, "-version", version, "-block", "524288", "-applets", string(list))
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make another image: %v\n%s", err, out)
	}
	image, err := os.ReadFile(filepath.Join(dir, "rootfs.bin"))
	if err != nil {
		t.Fatal(err)
	}
	_, flashed, err := mtdimage.Parse(image)
	if err != nil {
		t.Fatal(err)
	}
	// It is in /userdata, which takes less of the emulated CPU than a login.
	userdata, err := os.ReadFile(userdataBin)
	if err != nil {
		t.Fatal(err)
	}
	h, area, err := mtdimage.Parse(userdata)
	if err != nil {
		t.Fatal(err)
	}
	area = bytes.Clone(area[:len(area)-2])
	add := []jffs2.File{
		{Name: "new.bin", Mode: 0o100600, MTime: 1e9, Data: image},
		{Name: "short.bin", Mode: 0o100600, MTime: 1e9, Data: image[:len(image)-1000]},
		{Name: "etc/hostname", Mode: 0o100644, MTime: 1e9, Data: []byte("attic\n")},
	}
	if err := jffs2.Add(area, add, 1e9); err != nil {
		t.Fatal(err)
	}
	with := filepath.Join(dir, "with.bin")
	if err := os.WriteFile(with, mtdimage.Wrap(h, area), 0o600); err != nil {
		t.Fatal(err)
	}
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		files := t.TempDir()
		m := start(t, func(c *board.Config) {
			on(c)
			c.Dir, c.Userdata = files, with
		})
		shell(t, m)
		const words = "-i-have-a-serial-console"
		before := run(t, m, "cat /etc/gw-release")
		for command, want := range map[string]string{
			"flash-rootfs /userdata/new.bin":                 "leaves a gateway that needs a serial console",
			"flash-rootfs " + words + " /etc/gw-release":     "that is no image of a root file system",
			"flash-rootfs " + words + " /userdata/short.bin": "shorter than its header says",
		} {
			out, status, err := m.Console().RunCommand(command, 2*time.Minute)
			if err != nil || status == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: status %d, %v: %s", command, status, err, out)
			}
		}
		if err := m.Console().SendLine("flash-rootfs " + words + " /userdata/new.bin"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"it is checked and is written now", "the root file system is replaced now", "rootfs: written and read back; restarting"} {
			if _, err := m.Console().WaitFor(text, flashTime); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Console().WaitShell(flashTime); err != nil {
			t.Fatal(err)
		}
		if after := run(t, m, "cat /etc/gw-release"); !strings.Contains(after, version) || after == before {
			t.Errorf("it runs %q, and ran %q", after, before)
		}
		s := await(t, m, "the bridge", func(s api.Status) bool { return s.Bridge != nil && s.Bridge.UARTOpen })
		if s.Hostname != "attic" || s.Userdata.State != "mounted" || s.BootMode != "normal" {
			t.Errorf("host name %s, userdata %+v, boot mode %s", s.Hostname, s.Userdata, s.BootMode)
		}
		for _, line := range []string{"Kernel panic", "SQUASHFS error", "rootfs: FAILED", "try 1 of", "cannot be told to wait", "memory is not locked"} {
			if strings.Contains(m.Transcript(), line) {
				t.Errorf("the console has %q", line)
			}
		}
		if err := m.PowerCut(); err != nil {
			t.Fatal(err)
		}
		nor, err := os.ReadFile(filepath.Join(files, "nor.img"))
		if err != nil {
			t.Fatal(err)
		}
		if at := int(mtdimage.Rootfs.Offset); !bytes.Equal(nor[at:at+len(flashed)], flashed) {
			t.Error("the flash holds something else than the image")
		}
	})
}
