package image

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gwinit/internal/applet"
	"gwinit/internal/gwctl"
	"gwinit/internal/gwctl/words"
	"gwinit/internal/mtdimage"
)

const usage = `usage: gwctl image VERB FILE
what a firmware file is, and whether a gateway's loader takes it

  inspect FILE        tell what is in it, in words
  verify FILE         the checks that the loader makes before it erases anything;
                      exit status 1 and the reason if it would refuse the file
  extract FILE [-o DIR]
                      the partitions in it as files that the loader takes:
                      boot.bin, kernel.bin, rootfs.bin, userdata.bin; and the
                      files of a userdata image, in userdata/

FILE is an image with the loader's header (kernel, rootfs, userdata, boot), a full
image of 16 MiB, or a copy of a gateway's whole flash; of this firmware or today's.
`

// Command is the subcommand.
func Command() gwctl.Local {
	return gwctl.Local{
		Name: "image", Args: "VERB FILE", Summary: "what a firmware file is, and does the loader take it",
		Usage: usage, Workstation: true,
		Run: func(std applet.IO, args []string, asJSON bool, _ func(string, bool) (string, error)) error {
			return run(std, args, asJSON)
		},
	}
}

func run(std applet.IO, args []string, asJSON bool) error {
	f := flag.NewFlagSet("gwctl image", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	dir := f.String("o", "", "")
	given, err := words.Parse(f, args)
	if err != nil {
		return err
	}
	if len(given) != 2 || *dir != "" && given[0] != "extract" {
		return applet.Usagef("image takes inspect, verify or extract, and a file")
	}
	b, err := Read(given[1])
	if err != nil {
		return err
	}
	switch file := Look(b); given[0] {
	case "inspect":
		if asJSON {
			return json.NewEncoder(std.Out).Encode(file.told())
		}
		_, err := io.WriteString(std.Out, given[1]+": "+file.Words())
		return err
	case "verify":
		if err := file.Check(); err != nil {
			return fmt.Errorf("%s: %w", given[1], err)
		}
		_, err := fmt.Fprintf(std.Out, "%s: the loader takes it (%s)\n", given[1], file.kinds())
		return err
	case "extract":
		return extract(std.Out, file, cmp.Or(*dir, "."))
	}
	return applet.Usagef("image has no verb %q: inspect, verify or extract", given[0])
}

// maxBytes is more than what a loader takes: it has 27 MiB of RAM for an upload.
const maxBytes = 32 << 20

// Read reads a firmware file.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return nil, fmt.Errorf("%s is a folder", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxBytes:
		return nil, fmt.Errorf("%s has more than %d MiB: no gateway's loader has the memory for it", path, maxBytes>>20)
	case len(b) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return b, nil
}

// Check returns why the loader would refuse the file, or why what it writes would
// not work; nil if there is nothing.
func (f File) Check() error {
	if f.Refused != nil {
		return fmt.Errorf("%w: %w", errFile, f.Refused)
	}
	for _, p := range f.Parts {
		if p.Problem != nil {
			return fmt.Errorf("the %s in it would not work: %w", p.Area.Name, p.Problem)
		}
	}
	return nil
}

func (f File) kinds() string {
	if f.Full {
		return "a full image: loader, kernel, rootfs, userdata"
	}
	var all []string
	for _, p := range f.Parts {
		all = append(all, p.Title())
	}
	return strings.Join(all, ", ")
}

// Title names a part with its version.
func (p Part) Title() string {
	s := p.Area.Name
	switch {
	case p.Area == mtdimage.Rootfs && p.Firmware != "":
		s += " of " + strings.TrimSpace(p.Firmware+" "+p.Version)
	case p.Area == mtdimage.Kernel && p.Version != "":
		s += " " + p.Version
	}
	if p.Board != "" {
		s += " for " + p.Board
	}
	return s
}

// Words is what inspect prints.
func (f File) Words() string {
	var w strings.Builder
	fmt.Fprintf(&w, "%d bytes", f.Bytes)
	switch {
	case f.Full && f.Trailer == mtdimage.TrailerBlank:
		w.WriteString(", a copy of a gateway's whole flash, or a full image without its CRC trailer\n")
	case f.Full && f.Trailer == mtdimage.TrailerGood:
		w.WriteString(", a full image with its CRC trailer\n")
	case f.Full:
		w.WriteString(", a full image with the CRC trailer of another one, or damaged\n")
	case len(f.Parts) > 1:
		fmt.Fprintf(&w, ", %d images\n", len(f.Parts))
	case len(f.Parts) == 1:
		w.WriteString(", one image\n")
	default:
		w.WriteString("\n")
	}
	for _, p := range f.Parts {
		p.words(&w)
	}
	if err := f.Check(); err != nil {
		fmt.Fprintf(&w, "NOT TO BE FLASHED: %v\n", err)
		if errors.Is(f.Refused, mtdimage.ErrTrailer) && f.Trailer == mtdimage.TrailerBlank {
			w.WriteString("(gwctl flash full adds the trailer to what it sends)\n")
		}
		return w.String()
	}
	w.WriteString("The loader takes it.\n")
	return w.String()
}

func (p Part) words(w io.Writer) {
	line := func(key, format string, a ...any) { fmt.Fprintf(w, "  %-9s %s\n", key, fmt.Sprintf(format, a...)) }
	fmt.Fprintf(w, "%s: flash %#x to %#x\n", p.Title(), p.Area.Offset, p.Area.End())
	if h := p.Header; h != nil {
		where := "is stripped"
		if h.KeepsHeader() {
			where = "stays in the flash"
		}
		line("header", "%s, %s; load address %#08x, %d bytes and a sum, which is right", h.Signature, where, h.Start, h.Len-2)
		takes := len(p.Flash)
		if h.KeepsHeader() { // a full image has the whole partition
			takes = min(takes, mtdimage.HeaderLen+int(h.Len))
		}
		line("takes", "%d of %d bytes", takes, p.Area.Size)
	}
	switch {
	case p.Squashfs != nil:
		line("content", "squashfs, %s, blocks of %d KiB, %d inodes, %d bytes", p.Squashfs.Compressor, p.Squashfs.BlockBytes>>10, p.Squashfs.Inodes, p.Squashfs.Bytes)
		switch p.Firmware {
		case Ours:
			line("firmware", "gwinit %s", p.Version)
		case Todays:
			line("firmware", "a BusyBox system (rtl8196e-gateway or one like it) %s", p.Version)
		default:
			line("firmware", "none that is known")
		}
	case p.JFFS2 != nil:
		n := 0
		for _, f := range p.JFFS2.Files {
			if f.Regular() {
				n++
			}
		}
		line("content", "JFFS2, %d files, %d nodes (%d damaged), %d KiB of %d in use", n, p.JFFS2.Nodes, p.JFFS2.Bad, p.JFFS2.Used>>10, p.Area.Size>>10)
	case p.Area == mtdimage.Kernel:
		if p.Board == "" {
			line("board", "it cannot be seen which one it is for")
		} else {
			line("board", "%s", p.Board)
		}
	case p.Area == mtdimage.Boot:
		line("board", "it cannot be seen which one it is for: one for another board does not start")
	}
	if p.Area == mtdimage.Rootfs && p.Firmware == Ours || p.Area == mtdimage.Userdata {
		switch {
		case len(p.Keys) > 0:
			line("SSH keys", "%d that open a shell, %d with limits", len(p.Keys), p.OtherKey)
		case p.OtherKey > 0:
			line("SSH keys", "%d, but none that opens a shell", p.OtherKey)
		default:
			line("SSH keys", "none")
		}
	}
	if p.Problem != nil {
		line("WRONG", "%v", p.Problem)
	}
}

// told is inspect's JSON.
type told struct {
	Bytes   int        `json:"bytes"`
	Full    bool       `json:"full"`
	Trailer string     `json:"trailer,omitempty"` // good, blank or wrong
	OK      bool       `json:"ok"`
	Problem string     `json:"problem,omitempty"`
	Parts   []toldPart `json:"parts"`
}

type toldPart struct {
	Name     string `json:"name"`
	Offset   uint32 `json:"offset"`
	Bytes    int    `json:"bytes"` // of flash
	Firmware string `json:"firmware,omitempty"`
	Version  string `json:"version,omitempty"`
	Board    string `json:"board,omitempty"`
	Keys     int    `json:"keys"`
}

func (f File) told() told {
	t := told{Bytes: f.Bytes, Full: f.Full, OK: true, Parts: []toldPart{}}
	if f.Full {
		t.Trailer = map[mtdimage.Trailer]string{mtdimage.TrailerGood: "good", mtdimage.TrailerBlank: "blank", mtdimage.TrailerWrong: "wrong"}[f.Trailer]
	}
	if err := f.Check(); err != nil {
		t.OK, t.Problem = false, err.Error()
	}
	for _, p := range f.Parts {
		t.Parts = append(t.Parts, toldPart{p.Area.Name, p.Area.Offset, len(p.Flash), p.Firmware, p.Version, p.Board, len(p.Keys)})
	}
	return t
}

// extract writes the parts of a file. A file that is there is not overwritten.
func extract(w io.Writer, f File, dir string) error {
	if len(f.Parts) == 0 {
		return f.Check()
	}
	write := func(name string, b []byte) error {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already; -o DIR writes elsewhere", path)
		}
		if err != nil {
			return err
		}
		_, err = out.Write(b)
		if err = errors.Join(err, out.Close()); err == nil {
			_, err = fmt.Fprintf(w, "%s: %d bytes\n", path, len(b))
		}
		return err
	}
	for _, p := range f.Parts {
		if err := write(p.Area.Name+".bin", p.asFile()); err != nil {
			return err
		}
		if p.JFFS2 == nil {
			continue
		}
		for _, x := range p.JFFS2.Files {
			if !x.Regular() || x.Unread != "" {
				continue
			}
			// Names of an image are somebody else's: on Windows one may be a device's, or hold a backslash.
			if !filepath.IsLocal(filepath.FromSlash(x.Name)) || strings.ContainsAny(x.Name, `\:`) {
				fmt.Fprintf(w, "left out: %q is no name for a file here\n", x.Name)
				continue
			}
			if err := write("userdata/"+x.Name, x.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// asFile is a part as the loader takes it.
func (p Part) asFile() []byte {
	b := p.Flash
	if p.Area == mtdimage.Kernel && p.Header != nil {
		return b[:min(len(b), mtdimage.HeaderLen+int(p.Header.Len))] // it has its header
	}
	h := mtdimage.Header{Signature: [4]byte([]byte(mtdimage.SigBoot))}
	switch {
	case p.Header != nil:
		h = *p.Header
	case p.Area == mtdimage.Rootfs:
		h = mtdimage.RootfsHeader
	case p.Area == mtdimage.Userdata:
		h = mtdimage.UserdataHeader
	}
	switch {
	case p.Squashfs != nil:
		b = b[:p.Squashfs.Bytes]
	case p.Header == nil && p.Area == mtdimage.Boot:
		b = b[:len(b)-18] // without the trailer, and room for the sum
	case p.Header != nil || p.Area == mtdimage.Userdata:
		b = b[:len(b)-2] // the sum's place
	}
	return mtdimage.Wrap(h, b)
}
