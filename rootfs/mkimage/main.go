// Command mkimage packs the two images that the gateway's loader takes:
// rootfs.bin (squashfs) and userdata.bin (JFFS2). It is run by `make image`.
//
// Both are reproducible: every time stamp is SOURCE_EPOCH, every owner is root
// and the order of files is theirs by name.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"gwinit/internal/mtdimage"
	"gwinit/rootfs/layout"
	"gwinit/rootfs/squashfs"
	"gwinit/services/sshd/server"
)

// options are what the images are made of, and where they go.
type options struct {
	gw, symbolMap, bootOrder string // the binary, where its linker put what, and what a boot touches
	applets                  string // names, separated by white space
	out, skeleton            string // folders
	version, sshKey          string // for /etc/gw-release; a file, "" is none
	block                    int    // bytes
}

func main() {
	var o options
	flag.StringVar(&o.gw, "gw", "build/gw", "the MIPS `binary` that is the userland")
	flag.StringVar(&o.symbolMap, "map", "build/gw.map", "`file` with the map that its linker wrote")
	flag.StringVar(&o.bootOrder, "order", "toolchain/rlx/boot.order", "`file` with what a boot touches")
	flag.StringVar(&o.applets, "applets", "", "applet `names` that get a link in /bin, separated by white space")
	flag.StringVar(&o.out, "out", "build", "`folder` for rootfs.bin and userdata.bin")
	flag.StringVar(&o.skeleton, "skeleton", "rootfs/skeleton", "`folder` with rootfs/ and userdata/ as they are laid down")
	flag.StringVar(&o.version, "version", "", "version `text` for /etc/gw-release")
	flag.IntVar(&o.block, "block", squashfs.Block, "squashfs block size in `bytes`")
	flag.StringVar(&o.sshKey, "ssh-key", "", "`file` with who may log in by SSH, in the form of authorized_keys")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

// sourceEpoch is the time of every file in the images. JFFS2 and squashfs keep
// 32-bit seconds; a box without a clock must not think its files are from the
// future, so it is early.
var sourceEpoch = time.Unix(0, 0)

// deviceNodes are what a kernel without devtmpfs automount needs before init
// has run: it opens /dev/console for init's standard descriptors.
var deviceNodes = []string{
	"nod /dev/console 0600 0 0 c 5 1",
	"nod /dev/null 0666 0 0 c 1 3",
	"nod /dev/zero 0666 0 0 c 1 5",
}

func run(o options) error {
	if o.version == "" || len(strings.Fields(o.applets)) == 0 {
		return errors.New("-version and -applets are needed; `make image` gives both")
	}
	stage, err := os.MkdirTemp("", "mkimage")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	rootfs, err := packRootfs(filepath.Join(stage, "rootfs"), o)
	if err != nil {
		return err
	}
	flashed := len(rootfs) - mtdimage.HeaderLen
	if flashed > mtdimage.RootfsSize {
		return fmt.Errorf("rootfs.bin takes %d bytes of flash, %d more than the partition's %d; `make size` shows what they go to", flashed, flashed-mtdimage.RootfsSize, mtdimage.RootfsSize)
	}
	userdata, err := packUserdata(filepath.Join(stage, "userdata"), o.skeleton)
	if err != nil {
		return err
	}
	if n := len(userdata) - mtdimage.HeaderLen; n != mtdimage.UserdataSize {
		return fmt.Errorf("userdata.bin takes %#x bytes of flash, the partition has %#x: mkfs.jffs2 did not pad as asked", n, mtdimage.UserdataSize)
	}
	for name, b := range map[string][]byte{"rootfs.bin": rootfs, "userdata.bin": userdata} {
		if err := os.WriteFile(filepath.Join(o.out, name), b, 0o644); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d bytes of flash, %d left of %d\n%s: %d bytes of flash\n", filepath.Join(o.out, "rootfs.bin"), flashed,
		mtdimage.RootfsSize-flashed, mtdimage.RootfsSize, filepath.Join(o.out, "userdata.bin"), mtdimage.UserdataSize)
	return nil
}

func packRootfs(stage string, o options) ([]byte, error) {
	if err := copyTree(filepath.Join(o.skeleton, "rootfs"), stage); err != nil {
		return nil, err
	}
	for _, d := range []string{"bin", "dev", "etc", "mnt", "proc", "root", "run", "sbin", "sys", "tmp", "userdata", "var"} {
		if err := os.MkdirAll(filepath.Join(stage, d), 0o755); err != nil {
			return nil, err
		}
	}
	bin, err := layout.File(o.gw, o.symbolMap, o.bootOrder)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(stage, "bin/gw"), bin, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(stage, "etc/gw-release"), []byte(o.version+"\n"), 0o644); err != nil {
		return nil, err
	}
	if o.sshKey != "" {
		if err := authorize(stage, o.sshKey); err != nil {
			return nil, err
		}
	}
	links := map[string]string{
		"sbin/init": "../bin/gw",
		// The rest of the root is read-only: what changes is elsewhere.
		"etc/resolv.conf": "/run/resolv.conf",
		"etc/hosts":       "/run/hosts",
		"etc/mtab":        "/proc/self/mounts",
		"etc/passwd":      "/userdata/etc/passwd",
		"etc/group":       "/userdata/etc/group",
		"etc/TZ":          "/userdata/etc/TZ",
		"etc/hostname":    "/userdata/etc/hostname",
		"root/.ssh":       "/userdata/ssh",
	}
	for _, a := range strings.Fields(o.applets) {
		links["bin/"+a] = "gw"
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(stage, name)); err != nil {
			return nil, err
		}
	}
	b, err := squashfs.Make(stage, deviceNodes, o.block)
	if err != nil {
		return nil, err
	}
	return mtdimage.Wrap(mtdimage.RootfsHeader, b), nil
}

// authorize lets the keys in a file log in to every gateway that has the image.
func authorize(stage, file string) error {
	keys, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := server.CheckAuthorized(keys); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.Mkdir(filepath.Join(stage, "etc/ssh"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(stage, "etc/ssh/authorized_keys"), keys, 0o644)
}

func packUserdata(stage, skeleton string) ([]byte, error) {
	if err := copyTree(filepath.Join(skeleton, "userdata"), stage); err != nil {
		return nil, err
	}
	image := stage + ".jffs2"
	// Payload two bytes short of the partition, so that payload and sum fill
	// it. Only zlib: the gateway's kernel has no other compressor.
	if err := tool("mtd-utils", "mkfs.jffs2", "--root", stage, "--output", image, "--big-endian", "--eraseblock=0x10000",
		"--no-cleanmarkers", "--squash", fmt.Sprintf("--pad=%#x", mtdimage.UserdataSize-2),
		"--disable-compressor=lzo", "--disable-compressor=rtime"); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	return mtdimage.Wrap(mtdimage.UserdataHeader, b), nil
}

// tool runs a program of a Debian package.
func tool(pkg, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not installed: apt-get install %s", name, pkg)
	case err != nil:
		return fmt.Errorf("%s: %w\n%s", name, err, out.Bytes())
	}
	return nil
}

// copyTree copies folders and plain files, with owner-only folders kept so and
// every time set to sourceEpoch.
func copyTree(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case d.Name() == ".keep": // holds an empty folder in version control
			return nil
		case d.IsDir():
			mode := os.FileMode(0o755)
			if d.Name() == "ssh" || d.Name() == "root" {
				mode = 0o700
			}
			if err := os.MkdirAll(dst, mode); err != nil {
				return err
			}
			return os.Chmod(dst, mode)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, 0o644)
	})
	if err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, sourceEpoch, sourceEpoch)
	})
}
