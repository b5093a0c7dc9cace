// Package squashfs packs files as the gateway's root file system is packed: with
// xz, without fragments, whose cache takes memory, and the same each time.
//
// It is a call of gensquashfs, of Debian's squashfs-tools-ng. mksquashfs has no
// way to LZMA's parameters: with those for code of 4-byte words the image is 22
// KiB smaller (docs/size.md).
package squashfs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Block is the size of the image's blocks, in bytes.
const Block = 256 << 10

// parameters: how many bits of the byte before (lc) and of the place (lp, pb)
// the coder goes by.
const parameters = "level=9,extreme,lc=0,lp=2,pb=2"

// Make packs a folder, every owner being root and every time 1970's first
// second. more are lines of gensquashfs's list for what a folder cannot hold
// without privileges: "nod /dev/null 0666 0 0 c 1 3".
func Make(dir string, more []string, block int) ([]byte, error) {
	list, err := describe(dir)
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "squashfs")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	list = append(list, more...)
	listed, sorted, image := filepath.Join(tmp, "list"), filepath.Join(tmp, "sort"), filepath.Join(tmp, "image")
	err = errors.Join(
		os.WriteFile(listed, []byte(strings.Join(list, "\n")+"\n"), 0o600),
		os.WriteFile(sorted, []byte("0 [glob_no_path,dont_fragment] *\n"), 0o600))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "gensquashfs", "--quiet", "--pack-file", listed, "--pack-dir", dir, "--sort-file", sorted, "--no-tail-packing",
		"--compressor", "xz", "--comp-extra", parameters, "--block-size", strconv.Itoa(block), "--dev-block-size", "1024", "--num-jobs", "2", image)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0") // the image's own time
	said, err := cmd.CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("gensquashfs is not installed: apt-get install squashfs-tools-ng")
	case err != nil:
		return nil, fmt.Errorf("gensquashfs: %w\n%s", err, said)
	}
	b, err := os.ReadFile(image)
	if err != nil {
		return nil, err
	}
	return trim(b)
}

// trim takes off what fills an image up to a device's block: bytes_used is at 40
// (fs/squashfs/squashfs_fs.h).
func trim(b []byte) ([]byte, error) {
	if len(b) < 96 || !bytes.HasPrefix(b, []byte("hsqs")) {
		return nil, errors.New("gensquashfs made no squashfs")
	}
	used := binary.LittleEndian.Uint64(b[40:])
	if used > uint64(len(b)) {
		return nil, fmt.Errorf("gensquashfs made %d bytes of an image of %d", len(b), used)
	}
	return b[:used], nil
}

// describe is a folder's contents as gensquashfs wants them, in the order of
// their names.
func describe(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name := filepath.Join("/", rel)
		line := func(kind, rest string) {
			list = append(list, fmt.Sprintf("%s %q %#o 0 0 %s", kind, name, fi.Mode().Perm(), rest))
		}
		switch fi.Mode().Type() {
		case fs.ModeDir:
			line("dir", "")
		case 0:
			line("file", rel) // not quoted: the rest of the line
		case fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line("slink", target)
		default:
			return fmt.Errorf("%s: kind %v is not supported", path, fi.Mode().Type())
		}
		return nil
	})
	return list, err
}
