//go:build linux

package rootfsflash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"gwinit/board/rtl8196e"
	"gwinit/internal/api"
	"gwinit/internal/applet"
	"gwinit/internal/control/client"
	"gwinit/internal/mtd"
	"gwinit/internal/mtdimage"
)

// Staged is where an image waits for PID 1, as it is sent: with its header.
const Staged = "/run/rootfs.new"

// maxFile bounds an image's file: padding may be behind it.
const maxFile = mtdimage.RootfsSize + mtdimage.HeaderLen

// spareKiB is what has to be left of the memory beside what is needed: for the
// kernel, and for what Main itself takes.
const spareKiB = 3 << 10

// enough tells whether so many bytes of memory, and spareKiB, can be had.
func enough(root string, bytes int64) error {
	need := spareKiB + bytes>>10
	if got := memAvailable(root); got < need {
		return fmt.Errorf("%d KiB of memory are free, and it takes %d", got, need)
	}
	return nil
}

// Stage takes an image, and refuses what would not work or not be seen through.
// Nothing is changed but the file Staged.
func Stage(root string, in io.Reader) error {
	file, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return err
	}
	if len(file) > maxFile {
		return fmt.Errorf("%w: more than %d bytes", ErrTooBig, maxFile)
	}
	p, err := mtd.Find(root, rtl8196e.PartRootfs)
	if err != nil {
		return err
	}
	if _, err := Check(file, p.SizeBytes); err != nil {
		return err
	}
	if p.EraseBytes == 0 || p.SizeBytes%p.EraseBytes != 0 {
		return fmt.Errorf("%s has blocks of %d bytes", p.Name(), p.EraseBytes)
	}
	// The image is there twice then, here and in the file.
	if err := enough(root, 2*int64(len(file))); err != nil {
		return fmt.Errorf("%w: gwctl reboot -safe, and again", err)
	}
	return stage(filepath.Join("/", root, Staged), file)
}

// stage writes the file, which is on no flash, and looks at what came of it.
func stage(path string, file []byte) error {
	// A login's limit for files in memory may be smaller.
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	_ = unix.Setrlimit(unix.RLIMIT_FSIZE, &limit) // the write tells if it was needed
	err := os.WriteFile(path, file, 0o600)
	var back []byte
	if err == nil {
		back, err = os.ReadFile(path)
	}
	if err == nil && !bytes.Equal(back, file) {
		err = errors.New("the memory holds something else than was written to it")
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// memAvailable is what a program could take, in KiB; 0 if the kernel does not say.
func memAvailable(root string) int64 {
	b, err := os.ReadFile(filepath.Join("/", root, "/proc/meminfo"))
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "MemAvailable:" {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64) // 0 is too little
			return n
		}
	}
	return 0
}

// Applet is `flash-rootfs`.
func Applet() applet.Applet {
	return applet.Applet{
		Name: "flash-rootfs", Group: applet.Manage, Summary: "replace the root file system of the running gateway, the last resort",
		Usage: `flash-rootfs -` + Console + ` FILE|-
Checks FILE (rootfs.bin, - is standard input), ends everything, writes it, and
restarts. A power cut meanwhile leaves a gateway that only a serial console and
its bootloader bring back (docs/recover.md); gwctl flash rootfs does the same from
a workstation, through the bootloader. /userdata stays as it is.`,
		Run: func(ctx context.Context, std applet.IO, args []string) error { return command(ctx, std, args) },
	}
}

// Console is the option without which it is refused.
const Console = "i-have-a-serial-console"

func command(ctx context.Context, std applet.IO, args []string) error {
	switch {
	case len(args) != 2 || args[0] != "-"+Console:
		return applet.Usagef("a power cut while it is written leaves a gateway that needs a serial console to come back; -%s FILE says that there is one", Console)
	case os.Getuid() != 0:
		return errors.New("only root may do that")
	}
	in := std.In
	if args[1] != "-" {
		f, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if err := Stage("", in); err != nil {
		return err
	}
	c, err := client.Dial(ctx, "/run/gwinit.sock")
	if err == nil {
		defer c.Close()
		// It ends whoever would bring the words away, so they come first.
		_, err = fmt.Fprintln(std.Out, "it is checked and is written now; the serial console tells how that goes. Do not switch the gateway off until it is back")
	}
	if err == nil {
		_, err = c.Do(ctx, api.OpShutdown, api.ShutdownArgs{Action: "reboot", Mode: "flash"})
	}
	if err != nil {
		return errors.Join(errors.New("nothing was changed"), err, os.Remove(Staged))
	}
	return nil
}
