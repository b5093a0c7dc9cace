package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/ssh"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl/image"
	"gwinit/internal/mtdimage"
)

// rootfsFlasher is the gateway's command, which restarts it.
const rootfsFlasher = "flash-rootfs"

// isFactory tells whether args replace a gateway's root file system while it runs.
func isFactory(args []string) bool {
	return firstWord(args) == updateName && !help(args) && (slices.Contains(args, "-factory") || slices.Contains(args, "--factory"))
}

// factory has a gateway replace its own root file system. It looks the image
// through before, which the gateway can only do in part.
func (r *runner) factory(ctx context.Context, targets []target, args []string) error {
	const console = "-i-have-a-serial-console"
	var file string
	yes, said := false, false
	for _, a := range without(args, updateName) {
		switch {
		case a == "-factory" || a == "--factory":
		case a == console || a == "-"+console:
			said = true
		case a == "-y":
			yes = true
		case a[:min(1, len(a))] == "-" || file != "":
			return applet.Usagef("update -factory takes one FILE, %s and -y", console)
		default:
			file = a
		}
	}
	switch {
	case len(targets) != 1:
		return applet.Usagef("one gateway at a time gets another root file system: who is it that stands beside all of them with a serial console?")
	case file == "":
		return applet.Usagef("update -factory takes the FILE of a root file system, rootfs.bin")
	case !said:
		return applet.Usagef("a power cut while the root file system is written leaves a gateway that needs a serial console to come back (docs/recover.md). gwctl flash rootfs does the same through the bootloader, and update without -factory does not touch it. If you have that console, say so: %s", console)
	}
	b, err := image.Read(file)
	if err != nil {
		return err
	}
	f := image.Look(b)
	if err := f.Check(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p, ok := f.Part(mtdimage.Rootfs)
	switch {
	case !ok || f.Full || len(f.Parts) != 1:
		return fmt.Errorf("%s is no image of a root file system alone (rootfs.bin)", file)
	case p.Firmware != image.Ours:
		return fmt.Errorf("%s holds no firmware of this project: gwctl flash rootfs brings others, with their own checks", file)
	}
	t := targets[0]
	if !yes {
		yes, err = r.ask.yes(fmt.Sprintf("Write %s %s over the root file system of %s? It ends everything there for about two minutes; a power cut meanwhile needs the serial console.", p.Firmware, p.Version, t.name))
		if err != nil {
			return fmt.Errorf("update -factory: %w; -y is a yes", err)
		}
		if !yes {
			return errors.New("nothing was changed")
		}
	}
	std := r.std
	std.In = bytes.NewReader(b)
	told := &heard{w: std.Out}
	std.Out = told
	err = r.command(ctx, std, t, rootfsFlasher, []string{console, "-"}, nil)
	if errors.As(err, new(*ssh.ExitMissingError)) {
		if told.any {
			return nil // it went on to restart before it said how the command ended
		}
		return fmt.Errorf("the connection was lost before %s had checked the image: nothing was changed, unless its console says otherwise", t.name)
	}
	return err
}

// heard tells whether anything was written.
type heard struct {
	w   io.Writer
	any bool
}

func (h *heard) Write(p []byte) (int, error) {
	h.any = h.any || len(p) > 0
	return h.w.Write(p)
}
