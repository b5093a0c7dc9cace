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

	"gwinit/internal/mtdimage"
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
	cmd := exec.Command("go", "run", "./rootfs/mkimage", "-out", dir, "-version", version, "-applets", string(list))
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
	onEachKernel(t, func(t *testing.T, on func(*board.Config)) {
		files := t.TempDir()
		m := start(t, func(c *board.Config) {
			on(c)
			c.Dir = files
		})
		shell(t, m)
		await(t, m, "everything running", settled)
		g := &manager{person: newPerson(t, m), key: "id"}
		g.gwctl = g.file("gwctl")
		if out, err := exec.Command("go", "build", "-o", g.gwctl, "../../cmd/gwctl").CombinedOutput(); err != nil {
			t.Fatalf("build gwctl: %v\n%s", err, out)
		}
		if err := os.Mkdir(g.file(".ssh"), 0o700); err != nil {
			t.Fatal(err)
		}
		g.letIn()
		run(t, m, "echo attic >/userdata/etc/hostname")
		const words = "-i-have-a-serial-console"
		before := run(t, m, "cat /etc/gw-release")
		for command, want := range map[string]string{
			"flash-rootfs /dev/null":                                  "leaves a gateway that needs a serial console",
			"flash-rootfs " + words + " /etc/gw-release":              "that is no image of a root file system",
			"head -c 100000 /dev/mtd2 | flash-rootfs " + words + " -": "that is no image of a root file system",
		} {
			out, status, err := m.Console().RunCommand(command, time.Minute)
			if err != nil || status == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: status %d, %v: %s", command, status, err, out)
			}
		}
		out := g.do("update", "-factory", words, "-y", filepath.Join(dir, "rootfs.bin"))
		if !strings.Contains(out, "it is checked and will be written") {
			t.Errorf("gwctl said %q", out)
		}
		if _, err := m.Console().WaitFor("rootfs: written and read back; restarting", flashTime); err != nil {
			t.Fatal(err)
		}
		if err := m.Console().WaitShell(flashTime); err != nil {
			t.Fatal(err)
		}
		if after := run(t, m, "cat /etc/gw-release"); !strings.Contains(after, version) || after == before {
			t.Errorf("it runs %q, and ran %q", after, before)
		}
		s := await(t, m, "everything running", settled)
		if s.Hostname != "attic" || s.Userdata.State != "mounted" {
			t.Errorf("host name %s, userdata %+v", s.Hostname, s.Userdata)
		}
		for _, line := range []string{"Kernel panic", "SQUASHFS error", "rootfs: FAILED"} {
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
