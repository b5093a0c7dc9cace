package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gwinit/internal/applet"
	"gwinit/internal/control/wire"
	"gwinit/internal/gwctl/progress"
)

// carried is a gateway's command with a file that is this computer's: its
// content travels over standard input or output.
type carried struct {
	name   string   // of the command, with its verb if it has one
	args   []string // with - in the place of the file
	file   string   // "": not given
	down   bool     // it is written
	asJSON bool
}

// carry looks for such a command.
func carry(args []string) (c carried, ok bool) {
	var words []string
	last := -1
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-socket" || args[i] == "--socket", len(words) > 1 && words[1] == "flash" && (args[i] == "-baud" || args[i] == "-flow"):
			i++
		case args[i] == "-json" || args[i] == "--json":
			c.asJSON = true
		case args[i] == "-" || !strings.HasPrefix(args[i], "-"):
			words, last = append(words, args[i]), i
		}
	}
	n := 1
	switch {
	case len(words) == 0:
		return c, false
	case words[0] == "backup" || words[0] == "report":
		c.down = true
	case len(words) > 1 && (words[0] == "config" && words[1] == "import" || words[0] == "radio" && words[1] == "flash"):
		n = 2
	case words[0] != "restore":
		return c, false
	}
	c.name = strings.Join(words[:n], " ")
	switch len(words) {
	case n:
		c.args = append(slices.Clone(args), "-")
	case n + 1:
		c.file = words[n]
		c.args = slices.Clone(args)
		c.args[last] = "-"
	default:
		return c, false // one too many, which the gateway tells
	}
	return c, true
}

// send has the gateway read a file of this computer.
func (r *runner) send(ctx context.Context, std applet.IO, t target, c carried) error {
	if c.file == "" {
		return applet.Usagef("%s what? A FILE, or - for standard input", c.name)
	}
	if c.name == "restore" {
		if r.several {
			return applet.Usagef("a backup is of one gateway, and is restored on one: two would have the same host key")
		}
		if !slices.Contains(c.args, "-y") && !slices.Contains(c.args, "-n") {
			yes, err := r.ask.yes("Put the settings, keys and passwords of " + c.file + " into the place of those on " + t.name + "? It uses them from its next boot on.")
			if err != nil {
				return fmt.Errorf("restore: %w; -y is a yes", err)
			}
			if !yes {
				return errors.New("nothing was changed")
			}
			c.args = append(c.args, "-y")
		}
	}
	if c.file != "-" {
		f, err := os.Open(c.file)
		if err != nil {
			return err
		}
		defer f.Close()
		std.In = f
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && !r.several {
			bar := progress.New(std.Err, "sending "+filepath.Base(c.file), progress.Bytes, info.Size())
			std.In = bar.Reader(f)
			std.Out = bar.Beside(std.Out)
			return r.execWith(ctx, std, t, c.args, bar)
		}
	}
	return r.exec(ctx, std, t, c.args)
}

// fetch has the gateway write a file of this computer, which is there as a whole
// or not at all, and for nobody else to read.
func (r *runner) fetch(ctx context.Context, std applet.IO, t target, c carried) error {
	std.In = strings.NewReader("")
	if c.file == "-" {
		if r.several {
			return applet.Usagef("several gateways cannot write one standard output; %s DIR/ makes a file for each", c.name)
		}
		return r.exec(ctx, std, t, c.args)
	}
	path, err := r.whereTo(c, t.name, time.Now())
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".gwctl-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is not there any more, if all went well
	told := std
	told.Out = f
	c.args = slices.DeleteFunc(c.args, func(a string) bool { return a == "-json" || a == "--json" })
	var bar *progress.Bar // of several the waiting is told
	if !r.several {
		bar = progress.New(std.Err, c.name+" of "+t.name, progress.Bytes, 0)
		told.Out = bar.Writer(f)
	}
	err = errors.Join(r.execWith(ctx, told, t, c.args, bar), f.Sync())
	size, e := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, e, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	if !c.asJSON {
		_, err = fmt.Fprintf(std.Out, "%d bytes in %s\n", size, path)
		return err
	}
	b, err := wire.Marshal(struct {
		File  string `json:"file"`
		Bytes int64  `json:"bytes"`
	}{path, size})
	if err == nil {
		_, err = std.Out.Write(append(b, '\n'))
	}
	return err
}

// whereTo is the file's name: a folder, or nothing, has one made up.
func (r *runner) whereTo(c carried, gateway string, now time.Time) (string, error) {
	plain := func(x rune) rune {
		if x >= 'a' && x <= 'z' || x >= 'A' && x <= 'Z' || x >= '0' && x <= '9' || x == '.' || x == '-' || x == '_' {
			return x
		}
		return '-'
	}
	name := "gateway-" + c.name + "-" + strings.Map(plain, gateway) + "-" + now.Format("20060102-150405") + ".tar.gz"
	info, err := os.Stat(c.file)
	switch {
	case c.file == "":
		return name, nil
	case err == nil && info.IsDir():
		return filepath.Join(c.file, name), nil
	case os.IsPathSeparator(c.file[len(c.file)-1]):
		return filepath.Join(c.file, name), os.MkdirAll(c.file, 0o700)
	case r.several:
		return "", applet.Usagef("several gateways cannot write one file; %s %s%c makes one for each", c.name, c.file, os.PathSeparator)
	}
	return c.file, nil
}
