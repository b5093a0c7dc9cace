// Command fullflash puts a full image of the gateway's flash together: 16 MiB of
// the user's own loader and kernel, and rootfs.bin and userdata.bin as `make image`
// makes them. It is run by `make fullflash`.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"gwinit/internal/gwctl/image"
	"gwinit/internal/mtdimage"
)

func main() {
	boot := flag.String("boot", "", "the loader: an image with its header, or a copy of the boot partition (`file`)")
	kernel := flag.String("kernel", "", "the kernel's image (`file`)")
	dir := flag.String("dir", "build", "`folder` with rootfs.bin and userdata.bin, for fullflash.bin")
	flag.Parse()
	if err := run(*boot, *kernel, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "fullflash:", err)
		os.Exit(1)
	}
}

func run(boot, kernel, dir string) error {
	if boot == "" || kernel == "" {
		return errors.New("make fullflash BOOT=FILE KERNEL=FILE: loader and kernel are your gateway's own; gwctl image extract takes them out of a copy of its flash")
	}
	var parts [4][]byte
	for i, path := range []string{boot, kernel, filepath.Join(dir, "rootfs.bin"), filepath.Join(dir, "userdata.bin")} {
		var err error
		if parts[i], err = image.Read(path); err != nil {
			return err
		}
	}
	b, err := mtdimage.BuildFull(parts[0], parts[1], parts[2], parts[3])
	if err != nil {
		return err
	}
	f := image.Look(b)
	if err := f.Check(); err != nil {
		return err
	}
	out := filepath.Join(dir, "fullflash.bin")
	if err := os.WriteFile(out, b, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %s", out, f.Words())
	return nil
}
