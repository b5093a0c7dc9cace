package files

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gwinit/internal/applet"
	"gwinit/internal/tarfile"
	"gwinit/internal/tools/opt"
	"gwinit/internal/tools/zone"
)

func archiveApplets() []applet.Applet {
	return []applet.Applet{
		{Name: "tar", Group: applet.Files, Summary: "pack and unpack archives", Run: tarball, Usage: "tar c|x|t[zvpOkf ARCHIVE] [-C FOLDER] [PATH...]\n\n  c x t  make, unpack, list\n  z      through gzip (unpacking notices by itself)\n  f      ARCHIVE, - or absent: standard input or output\n  v      name the files\n  O      unpack to standard output\n  k      keep files that are there\n  -C     in FOLDER"},
		{Name: "gzip", Group: applet.Files, Summary: "compress files", Run: gzipper, Usage: "gzip [-cdfk123456789] [FILE...]\n\n  -d     decompress\n  -c     to standard output\n  -k     keep FILE\n  -f     replace what is there\n  -1 -9  fast, small"},
		{Name: "gunzip", Group: applet.Files, Summary: "decompress files", Usage: "gunzip [-cfk] [FILE...]\n\n  See gzip.", Run: func(ctx context.Context, std applet.IO, args []string) error {
			return gzipper(ctx, std, append([]string{"-d"}, args...))
		}},
		{Name: "zcat", Group: applet.Files, Summary: "print compressed files", Usage: "zcat [FILE...]", Run: func(ctx context.Context, std applet.IO, args []string) error {
			return gzipper(ctx, std, append([]string{"-dc"}, args...))
		}},
		{Name: "base64", Group: applet.Files, Summary: "encode and decode base64", Run: base64er, Usage: "base64 [-d] [FILE]\n\n  -d  decode"},
	}
}

func base64er(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "dw:")
	if err != nil {
		return err
	}
	in := std.In
	if len(names) > 1 {
		return applet.Usagef("one file, not %d", len(names))
	}
	if len(names) == 1 && names[0] != "-" {
		f, err := os.Open(names[0])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if o.Has('d') {
		_, err := io.Copy(std.Out, base64.NewDecoder(base64.StdEncoding, in))
		return err
	}
	const line = 57 // bytes that fill 76 columns
	buf := make([]byte, line)
	text := make([]byte, base64.StdEncoding.EncodedLen(line)+1)
	out := bufio.NewWriter(std.Out)
	for {
		n, err := io.ReadFull(in, buf)
		if n > 0 {
			m := base64.StdEncoding.EncodedLen(n)
			base64.StdEncoding.Encode(text, buf[:n])
			text[m] = '\n'
			if _, err := out.Write(text[:m+1]); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func gzipper(_ context.Context, std applet.IO, args []string) error {
	o, names, err := opt.Parse(args, "cdfk123456789")
	if err != nil {
		return err
	}
	level := gzip.DefaultCompression
	for c := byte('1'); c <= '9'; c++ {
		if o.Has(c) {
			level = int(c - '0')
		}
	}
	convert := func(out io.Writer, in io.Reader) error {
		if o.Has('d') {
			z, err := gzip.NewReader(in)
			if err != nil {
				return err
			}
			_, err = io.Copy(out, z)
			return err
		}
		z, err := gzip.NewWriterLevel(out, level)
		if err != nil {
			return err
		}
		if _, err := io.Copy(z, in); err != nil {
			return err
		}
		return z.Close()
	}
	if len(names) == 0 {
		return convert(std.Out, std.In)
	}
	return each(std, "gzip", names, func(name string) error {
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		if o.Has('c') {
			return convert(std.Out, in)
		}
		to, ok := name+".gz", true
		if o.Has('d') {
			if to, ok = strings.CutSuffix(name, ".gz"); !ok {
				if to, ok = strings.CutSuffix(name, ".tgz"); ok {
					to += ".tar"
				}
			}
		}
		if !ok {
			return fmt.Errorf("%s: the name does not end in .gz", name)
		}
		fi, err := in.Stat()
		if err != nil {
			return err
		}
		mode := os.O_EXCL
		if o.Has('f') {
			mode = os.O_TRUNC
		}
		out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|mode, fi.Mode().Perm())
		if err != nil {
			return err
		}
		if err := errors.Join(convert(out, in), out.Close()); err != nil {
			_ = os.Remove(to)
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := keep(to, fi); err != nil || o.Has('k') {
			return err
		}
		return os.Remove(name)
	})
}

// tarCall is one tar.
type tarCall struct {
	std    applet.IO
	o      *opt.Set
	dir    string
	only   []string
	rep    report
	listTo io.Writer
}

func tarball(_ context.Context, std applet.IO, args []string) error {
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		args = append([]string{"-" + args[0]}, args[1:]...)
	}
	o, paths, err := opt.Parse(args, "cxtzvpOkf:C:")
	if err != nil {
		return err
	}
	t := tarCall{std: std, o: o, dir: o.Val('C'), only: paths, rep: report{std: std, name: "tar"}}
	archive := o.Val('f')
	if archive == "-" {
		archive = ""
	}
	switch {
	case o.Has('c') && !o.Has('x') && !o.Has('t'):
		err = t.create(archive)
	case o.Has('x') != o.Has('t') && !o.Has('c'):
		err = t.read(archive)
	default:
		return applet.Usagef("one of c, x and t")
	}
	t.rep.add(err)
	return t.rep.result()
}

func (t *tarCall) create(archive string) (err error) {
	if len(t.only) == 0 {
		return errors.New("nothing to pack: no path named")
	}
	out := t.std.Out
	t.listTo = t.std.Err
	var self fs.FileInfo
	if archive != "" {
		f, err := os.Create(archive)
		if err != nil {
			return err
		}
		defer func() { t.rep.add(f.Close()) }()
		out, t.listTo = f, t.std.Out
		if self, err = f.Stat(); err != nil {
			return err
		}
	}
	if t.o.Has('z') {
		z := gzip.NewWriter(out)
		defer func() { t.rep.add(z.Close()) }()
		out = z
	}
	w := tarfile.NewWriter(out)
	for _, p := range t.only {
		root := p
		if !filepath.IsAbs(root) {
			root = filepath.Join(t.dir, root)
		}
		err := filepath.Walk(root, func(path string, fi fs.FileInfo, err error) error {
			if err != nil {
				t.rep.add(err)
				return nil
			}
			if self != nil && os.SameFile(fi, self) {
				return nil
			}
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			return t.add(w, path, filepath.Join(p, rel), fi)
		})
		if err != nil {
			return err // the archive is torn
		}
	}
	return w.Close()
}

func (t *tarCall) add(w *tarfile.Writer, path, name string, fi fs.FileInfo) error {
	if fi.Mode()&fs.ModeSocket != 0 {
		return nil
	}
	target := ""
	if fi.Mode()&fs.ModeSymlink != 0 {
		var err error
		if target, err = os.Readlink(path); err != nil {
			t.rep.add(err)
			return nil
		}
	}
	h, err := header(fi)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	h.Name, h.Link = strings.TrimLeft(name, "/"), target
	if fi.IsDir() {
		h.Name += "/"
	}
	if h.Name == "/" {
		return nil
	}
	var in *os.File
	if fi.Mode().IsRegular() {
		if in, err = os.Open(path); err != nil {
			t.rep.add(err)
			return nil
		}
		defer in.Close()
	}
	if t.o.Has('v') {
		fmt.Fprintln(t.listTo, printable(h.Name))
	}
	if err := w.WriteHeader(h); err != nil || in == nil {
		return err
	}
	// A file that grows meanwhile is cut where its header says, one that
	// shrinks is filled up: the archive stays readable.
	n, err := io.Copy(w, io.LimitReader(in, h.Size))
	if err != nil {
		return err
	}
	if n < h.Size {
		t.rep.add(fmt.Errorf("%s became shorter while it was read", path))
		_, err = io.CopyN(w, zeros{}, h.Size-n)
	}
	return err
}

// header describes a file.
func header(fi fs.FileInfo) (*tarfile.Header, error) {
	h := &tarfile.Header{Mode: fi.Mode(), Size: fi.Size(), ModTime: fi.ModTime()}
	switch fi.Mode().Type() {
	case 0:
		h.Kind = tarfile.File
	case fs.ModeDir:
		h.Kind = tarfile.Dir
	case fs.ModeSymlink:
		h.Kind = tarfile.Symlink
	case fs.ModeNamedPipe:
		h.Kind = tarfile.FIFO
	case fs.ModeDevice:
		h.Kind = tarfile.Block
	case fs.ModeDevice | fs.ModeCharDevice:
		h.Kind = tarfile.Char
	default:
		return nil, fmt.Errorf("kind %v is not supported", fi.Mode().Type())
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		h.UID, h.GID = int(st.Uid), int(st.Gid)
		h.Major, h.Minor = unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))
	}
	return h, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (t *tarCall) read(archive string) error {
	in := t.std.In
	if archive != "" {
		f, err := os.Open(archive)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	b := bufio.NewReader(in)
	in = b
	if head, _ := b.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(b)
		if err != nil {
			return err
		}
		in = z
	}
	dir := t.dir
	if dir == "" {
		dir = "."
	}
	// Names come from outside: os.Root keeps "..", absolute names and links
	// that the archive made itself inside of dir.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	r := tarfile.NewReader(in)
	var dirs []*tarfile.Header
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		name := filepath.Clean(strings.TrimLeft(h.Name, "/"))
		if !t.wanted(name) {
			continue
		}
		if t.o.Has('v') || t.o.Has('t') {
			out := t.std.Out
			if t.o.Has('O') {
				out = t.std.Err
			}
			if t.o.Has('t') && t.o.Has('v') {
				fmt.Fprintf(out, "%s %d/%d %9d %s ", modeString(h.Mode), h.UID, h.GID, h.Size, h.ModTime.In(zone.Load("")).Format("2006-01-02 15:04"))
			}
			fmt.Fprintln(out, printable(h.Name))
		}
		switch {
		case t.o.Has('t'):
		case t.o.Has('O'):
			if _, err := io.Copy(t.std.Out, r); err != nil {
				return err
			}
		default:
			if err := t.extract(root, name, h, r); err != nil {
				t.rep.add(fmt.Errorf("%s: %w", h.Name, err))
			} else if h.Kind == tarfile.Dir {
				dirs = append(dirs, h)
			}
		}
	}
	for _, h := range dirs { // now that nothing is written into them any more
		name := filepath.Clean(strings.TrimLeft(h.Name, "/"))
		t.rep.add(root.Chmod(name, h.Mode))
		t.rep.add(root.Chtimes(name, h.ModTime, h.ModTime))
	}
	return nil
}

func (t *tarCall) wanted(name string) bool {
	if len(t.only) == 0 {
		return true
	}
	for _, p := range t.only {
		p = filepath.Clean(strings.TrimLeft(p, "/"))
		if name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

func (t *tarCall) extract(root *os.Root, name string, h *tarfile.Header, r io.Reader) error {
	mode := h.Mode
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	if h.Kind != tarfile.Dir {
		if _, err := root.Lstat(name); err == nil {
			if t.o.Has('k') {
				return nil
			}
			if err := root.Remove(name); err != nil {
				return err
			}
		}
	}
	switch h.Kind {
	case tarfile.Dir:
		err := root.Mkdir(name, 0o700)
		if fi, serr := root.Stat(name); serr == nil && fi.IsDir() {
			err = nil
		}
		return err
	case tarfile.File:
		f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	case tarfile.Symlink:
		if err := root.Symlink(h.Link, name); err != nil {
			return err
		}
	case tarfile.HardLink:
		return root.Link(filepath.Clean(strings.TrimLeft(h.Link, "/")), name)
	case tarfile.Char, tarfile.Block, tarfile.FIFO:
		if err := t.mknod(root, name, h); err != nil {
			return err
		}
	default:
		return fmt.Errorf("kind %q is not supported", h.Kind)
	}
	if os.Geteuid() == 0 {
		if err := root.Lchown(name, h.UID, h.GID); err != nil {
			return err
		}
	}
	if h.Kind == tarfile.Symlink {
		return nil
	}
	if err := root.Chmod(name, mode); err != nil {
		return err
	}
	return root.Chtimes(name, h.ModTime, h.ModTime)
}

// mknod opens the folder through root, so that no link leads out of it.
func (t *tarCall) mknod(root *os.Root, name string, h *tarfile.Header) error {
	dir, err := root.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	kind := map[byte]uint32{tarfile.Char: unix.S_IFCHR, tarfile.Block: unix.S_IFBLK, tarfile.FIFO: unix.S_IFIFO}[h.Kind]
	return unix.Mknodat(int(dir.Fd()), filepath.Base(name), kind|uint32(h.Mode.Perm()), int(unix.Mkdev(h.Major, h.Minor)))
}

func dd(ctx context.Context, std applet.IO, args []string) (err error) {
	vals := map[string]string{"bs": "512", "skip": "0", "seek": "0"}
	trunc, sync := os.O_TRUNC, false
	for _, a := range args {
		key, v, ok := strings.Cut(a, "=")
		switch {
		case ok && key == "conv":
			for _, c := range strings.Split(v, ",") {
				switch c {
				case "notrunc":
					trunc = 0
				case "fsync":
					sync = true
				default:
					return applet.Usagef("unknown conversion %s", c)
				}
			}
		case ok && strings.Contains(" if of bs count skip seek ", " "+key+" "):
			vals[key] = v
		default:
			return applet.Usagef("unknown operand %s", a)
		}
	}
	num := map[string]int64{}
	for _, key := range []string{"bs", "count", "skip", "seek"} {
		v, given := vals[key]
		if !given {
			num[key] = -1 // count: to the end
			continue
		}
		unit := int64(1)
		if rest, ok := strings.CutSuffix(v, "k"); ok {
			v, unit = rest, 1<<10
		} else if rest, ok := strings.CutSuffix(v, "M"); ok {
			v, unit = rest, 1<<20
		}
		n, err := strconv.ParseInt(v, 10, 40)
		if err != nil || n < 0 {
			return applet.Usagef("%s=%s is no number", key, vals[key])
		}
		num[key] = n * unit
	}
	bs := num["bs"]
	if bs == 0 || bs > 16<<20 {
		return applet.Usagef("bs is 1 to 16M")
	}
	in, out := std.In, std.Out
	if vals["if"] != "" {
		f, err := os.Open(vals["if"])
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	if vals["of"] != "" {
		if num["seek"] > 0 {
			trunc = 0
		}
		f, err := os.OpenFile(vals["of"], os.O_WRONLY|os.O_CREATE|trunc, 0o666)
		if err != nil {
			return err
		}
		defer func() {
			if sync && err == nil {
				err = f.Sync()
			}
			err = errors.Join(err, f.Close())
		}()
		if _, err := f.Seek(num["seek"]*bs, io.SeekStart); err != nil {
			return err
		}
		out = f
	}
	if skip := num["skip"] * bs; skip > 0 {
		if f, ok := in.(io.Seeker); ok {
			_, err = f.Seek(skip, io.SeekCurrent)
		}
		if _, ok := in.(io.Seeker); !ok || errors.Is(err, syscall.ESPIPE) {
			_, err = io.CopyN(io.Discard, in, skip)
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	buf := make([]byte, bs)
	var full, part, total int64
	for num["count"] < 0 || full+part < num["count"] {
		if ctx.Err() != nil {
			break
		}
		n, rerr := in.Read(buf)
		if n > 0 {
			if _, err := out.Write(buf[:n]); err != nil {
				return err
			}
			total += int64(n)
			if int64(n) == bs {
				full++
			} else {
				part++
			}
		}
		if rerr == io.EOF {
			break
		}
		if rerr != nil {
			return rerr
		}
	}
	fmt.Fprintf(std.Err, "%d+%d blocks, %d bytes\n", full, part, total)
	return nil
}
